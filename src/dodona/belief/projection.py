"""Where to move a belief: the nearest law with a given value, and targets that are safe under noise.

The nearest law in relative entropy is the belief tilted: each cell times e^(exponent·weight). For a count, cells inside
are scaled by target/believed and cells outside by (1 - target)/(1 - believed).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dodona.belief.faults import Contradiction
from dodona.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST = 2.0**-50
"""The least share that a target leaves on either side: a share of 0 would exclude cells for ever."""
MOST_SPREAD = 300.0
"""The largest difference of exponents in one step: e^300 leaves doubles room on both sides."""
_ROUNDS = 200
_CLOSE = 1e-14


def guarded(believed: float, *, told: float, margin: float, doubt: float) -> float:
    """Return the target for a share that keeps the promised drop of relative entropy although `told` is noisy.

    `margin` is how far the truth is surely off the belief, `doubt` how far `told` may be off the truth. Told more than
    believed, the target is max(believed + margin, told - doubt); told less, the mirror image. A told value with more
    doubt than gap moves the belief by the margin alone.

    >>> guarded(0.3, told=0.5, margin=0.05, doubt=0.02), guarded(0.3, told=0.31, margin=0.05, doubt=0.02)
    (0.48, 0.35)

    Theorem: kl-projection
    """
    if not 0 <= believed <= 1:
        raise InvalidArgument("believed", believed, "write a share from 0 to 1")
    if not math.isfinite(told):
        raise InvalidArgument("told", told, "write a number")
    for name, value in (("margin", margin), ("doubt", doubt)):
        if not 0 <= value < math.inf:
            raise InvalidArgument(name, value, "write a number from 0")
    given, below = believed, told < believed
    if below:
        believed, told = 1 - believed, 1 - told
    target = max(believed + margin, min(told - doubt, 1 - LEAST))
    if target >= 1:
        side = "below" if below else "above"
        raise InvalidArgument("margin", margin, f"no share is {margin:g} {side} {given:g}; write a smaller margin")
    return 1 - target if below else target


def divergence(first: float, second: float) -> float:
    """Return kl(first‖second), the relative entropy of two coins, in nats.

    >>> round(divergence(0.5, 0.25), 6), divergence(0.0, 0.0)
    (0.143841, 0.0)
    """
    total = 0.0
    for own, other in ((first, second), (1 - first, 1 - second)):
        if own > 0:
            total += own * math.log(own / other) if other > 0 else math.inf
    return total


def odds(inside: float, outside: float, target: float) -> float:
    """Return by what the weights inside are scaled, when those outside stay, so that the target is their share.

    Theorem: kl-projection
    """
    share(target)
    if not (inside > 0 and outside > 0):
        raise Contradiction(
            f"target = {target:g} cannot be reached: the belief puts {'all' if inside > 0 else 'no'} weight on the "
            f"cells that are asked about. Start from a belief whose support has cells on both sides."
        )
    return (target / (1 - target)) * (outside / inside)


def share(target: float, *, place: str = "target") -> float:
    """Return a target that is a share of the rows and leaves some on either side."""
    if not LEAST <= target <= 1 - LEAST:
        accepted = "write a share between 0 and 1, both excluded: cells without weight never come back"
        raise InvalidArgument(place, target, accepted)
    return target


def exponent(values: NDArray[np.float64], law: NDArray[np.float64], target: float) -> float:
    """Return t such that the mean of `values` under law·e^(t·values) is the target, by Newton's steps in a bracket.

    Theorem: kl-projection
    """
    seen = law > 0
    values, law = values[seen], law[seen]
    low, high = float(values.min()), float(values.max())
    if not low < target < high:
        raise Contradiction(
            f"target = {target:g} cannot be reached: where the belief has weight, a row counts for {low:g} to "
            f"{high:g}. Write a mean between them."
        )
    scaled = (values - low) / (high - low)  # from 0 to 1, so that the exponents' spread is the exponent
    wanted = (target - low) / (high - low)
    found, least, most = 0.0, -MOST_SPREAD, MOST_SPREAD
    for _ in range(_ROUNDS):
        weights = law * np.exp(found * scaled - max(found, 0.0))
        weights /= weights.sum()
        mean = float((weights * scaled).sum())
        if abs(mean - wanted) <= _CLOSE * max(wanted, _CLOSE):
            break
        least, most = (found, most) if mean < wanted else (least, found)
        spread = float((weights * (scaled - mean) ** 2).sum())
        newton = found + (wanted - mean) / spread if spread > 0 else math.inf
        ahead = newton if least < newton < most else (least + most) / 2
        if ahead == found:
            break
        found = ahead
    if abs(found) > MOST_SPREAD - 1:
        raise Contradiction(
            f"target = {target:g} is so near an end of what a row counts for, {low:g} to {high:g}, that weights would "
            f"vanish. Write a mean further inside."
        )
    return found / (high - low)
