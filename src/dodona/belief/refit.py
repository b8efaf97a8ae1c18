"""Refitting: the belief that is nearest to a prior and to all that was observed, each by its own noise.

The law minimises anchor·KL(law‖prior) + Σ (answer - observed)²/(2·deviation²). Its dual has one multiplier an observed
answer and is smooth and strictly convex, so that Newton's method finds it from anywhere, and in a few steps from the
multipliers of an earlier fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dodona.belief.asked import Asked, only
from dodona.belief.components import Components
from dodona.belief.dense import Dense
from dodona.belief.design import Design
from dodona.belief.dual import Dual, Solution, solved
from dodona.belief.observation import Observation
from dodona.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

Belief = Dense | Components
USUAL_TOLERANCE = 1e-2
"""In deviations of the noise: a hundredth of it moves no conclusion."""
_LEAST = 1e-12


class _Terms(NamedTuple):
    """How near the minimum a fit ends, in deviations, and what a nat away from the prior costs."""

    tolerance: float
    anchor: float | None


class _Kept(NamedTuple):
    """What a later fit saves work with: the map of some observations, their multipliers, and an inverse near them."""

    design: Design
    multipliers: NDArray[np.float64]
    inverse: NDArray[np.float64] | None


_Keeps = dict[tuple[int, ...], _Kept]
"""By the numbers of the observations that are about one component."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A prior, what was observed, and the belief fitted to both. The prior and the belief stay usable."""

    prior: Belief
    observations: tuple[Observation, ...]
    belief: Belief
    multipliers: tuple[NDArray[np.float64], ...] = field(repr=False)
    """One for each answer of each observation: the law is prior·e^(Σ multiplier·weight), up to its sum."""
    rounds: int
    """Newton steps that it took."""
    gap: float
    """How far the worst answer is off where the minimum has it, in deviations of its noise."""
    _terms: _Terms = field(repr=False)
    _keeps: _Keeps = field(repr=False)

    def extended(self, more: Iterable[Observation]) -> Fit:
        """Return the fit to further observations too. It starts from here, and is found in a few steps."""
        return _fitted(self.prior, (*self.observations, *more), self._terms, self._keeps)


def refit(
    prior: Belief,
    observations: Iterable[Observation],
    *,
    tolerance: float = USUAL_TOLERANCE,
    anchor: float | None = None,
) -> Fit:
    """Return the law that minimises anchor·KL(law‖prior) + Σ (answer - observed)²/(2·deviation²).

    Without an anchor it is `usual_anchor`: so light that the prior decides only what was not observed. Observed values
    that no table can have are drawn to the nearest that one can. The gap that is left is at most the tolerance, in
    deviations; the same input gives the same fit.
    """
    for name, value in (("tolerance", tolerance), ("anchor", 1.0 if anchor is None else anchor)):
        if not _LEAST <= value < np.inf:
            raise InvalidArgument(name, value, "write a number above 0")
    return _fitted(prior, tuple(observations), _Terms(tolerance, anchor), {})


def usual_anchor(deviations: NDArray[np.float64]) -> float:
    """Return an anchor that pulls no answer by more than a thousandth of its deviation for each unit of multiplier.

    It is 1, or more where the noise is so small that multipliers of 1/deviation would be lost in rounding.
    """
    return max(1.0, 1e-3 / float(deviations.min()))


def _fitted(prior: Belief, seen: tuple[Observation, ...], terms: _Terms, before: _Keeps) -> Fit:
    """Return the fit of each component to the observations that are about it."""
    asked = [only(one.query, prior.support) for one in seen]
    whole = prior if isinstance(prior, Dense) else _tied(prior, asked)
    parts = [whole] if isinstance(whole, Dense) else list(whole.parts)
    owner = {name: number for number, part in enumerate(parts) for name in part.support.domain.names}
    members: dict[int, list[int]] = {}
    for place, one in enumerate(asked):
        members.setdefault(owner[min(one.block.attributes, default=prior.support.domain.names[0])], []).append(place)
    rounds, gap, keeps = 0, 0.0, _Keeps()
    multipliers = [np.zeros(0)] * len(seen)
    for number, places in members.items():
        own = [(Asked(asked[place].block, parts[number].support), seen[place]) for place in places]
        key = max((key for key in before if tuple(places[: len(key)]) == key), key=len, default=())
        parts[number], solution, design = _solved(parts[number], own, terms, before.get(key))
        keeps[tuple(places)] = _Kept(design, solution.multipliers, solution.inverse)
        ends = np.cumsum([seen[place].values.size for place in places])[:-1]
        for place, found in zip(places, np.split(solution.multipliers / design.units, ends), strict=True):
            multipliers[place] = found
        rounds, gap = max(rounds, solution.rounds), max(gap, solution.gap)
    if isinstance(prior, Components):
        belief: Belief = Components(prior.support, parts, limit=prior.limit)
    else:
        belief = parts[0] if members else prior.copied()
    return Fit(prior, seen, belief, tuple(multipliers), rounds, gap, terms, keeps)


def _tied(prior: Components, asked: Iterable[Asked]) -> Components:
    """Return a copy of the prior in which each block is about one component."""
    tied = prior.copied()
    for one in asked:
        tied = tied.tied(one.block.attributes)
    return tied


def _solved(
    prior: Dense, own: Sequence[tuple[Asked, Observation]], terms: _Terms, before: _Kept | None
) -> tuple[Dense, Solution, Design]:
    """Return the belief fitted to what is about it, started from what was kept of the first observations."""
    shape = prior.support.shape
    if before is not None and before.design.shape != shape:  # another component has joined since
        before = None
    known = 0 if before is None else before.design.blocks
    design = Design([one for one, _ in own[known:]], shape, after=None if before is None else before.design)
    low, high = design.ends()
    values = np.clip(np.concatenate([one.values for _, one in own]) / design.units, low, high)
    deviations = np.concatenate([one.deviations for _, one in own]) / design.units
    anchor = usual_anchor(deviations) if terms.anchor is None else terms.anchor
    dual = Dual(design, prior.probabilities().reshape(-1), values, deviations, anchor)
    start = np.zeros(values.size)
    if before is not None:
        start[: before.multipliers.size] = before.multipliers
    inverse = None if before is None else before.inverse
    solution = solved(dual, start, tolerance=terms.tolerance, inverse=inverse)
    return Dense(prior.support, dual.weights(solution.multipliers)), solution, design
