"""Tables of factors: what each cell of a few attributes is multiplied by in a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dodona.belief.asked import Asked
from dodona.belief.faults import Contradiction
from dodona.belief.projection import MOST_SPREAD, exponent, share
from dodona.errors import InvalidArgument
from dodona.query.weight import Constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WHOLE = 1e-9


def projecting(one: Asked, law: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors that lead to the nearest law with these answers.

    Theorem: kl-projection
    """
    weight = one.block.weight
    if isinstance(weight, Constant) and weight.number != 0:
        return _grouped(one, law, targets / weight.number)
    if one.block.keys:
        accepted = "a belief is moved to counts in groups, or to one sum; move it by one group at a time"
        raise InvalidArgument("query", "sums in groups", accepted)
    values = one.weights()
    found = exponent(values.reshape(-1), law.reshape(-1), float(targets[0]))
    return tilting(one, np.array([found]))


def tilting(one: Asked, exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors e^(exponent·weight), scaled so that the largest is 1."""
    powers = one.weights() * (exponents[one.groups()] if one.block.keys else exponents[0])
    if powers.size == 0:
        return np.ones(powers.shape)
    powers -= powers.max()
    spread = -float(powers.min())
    if not spread <= MOST_SPREAD:
        accepted = (
            f"exponent times weight may differ by {MOST_SPREAD:g} between cells, and differs by {spread:.3g} here"
        )
        raise InvalidArgument("exponents", exponents, f"{accepted}; take smaller steps")
    found: NDArray[np.float64] = np.exp(powers)
    return found


def too_far(spread: float) -> InvalidArgument:
    """Return the error of a step that would make weights vanish."""
    accepted = f"exponent times weight may differ by {MOST_SPREAD:g} between cells; take smaller steps"
    return InvalidArgument("exponents", f"a spread of {spread:.3g}", accepted)


def _grouped(one: Asked, law: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors for shares of groups: target/believed in each, and the rest scaled alike."""
    meant, groups = one.weights() != 0, one.groups()
    believed = np.bincount(groups.reshape(-1), weights=(law * meant).reshape(-1), minlength=targets.size)
    outside = float(law[~meant].sum())
    left = 1.0 - float(targets.sum())
    for group in np.flatnonzero(believed > 0).tolist():
        share(float(targets[group]), place=f"target[{group}]")
    empty = np.flatnonzero((believed == 0) & (targets != 0)).tolist()
    if empty:
        raise Contradiction(
            f"target[{empty[0]}] = {targets[empty[0]]:g} cannot be reached: the belief has no weight in that group. "
            f"Write 0 there, or start from a belief that has."
        )
    if outside > 0:
        share(left, place="1 - sum of the targets")
        factor = left / outside
    elif abs(left) > _WHOLE:
        raise Contradiction(
            f"The targets add up to {1 - left:g}, and the groups together have all rows. Divide them by their sum."
        )
    else:
        factor = 1.0
    ratios = np.divide(targets, believed, out=np.ones_like(targets), where=believed > 0) / factor
    found: NDArray[np.float64] = np.where(meant, ratios[groups], 1.0)
    return found
