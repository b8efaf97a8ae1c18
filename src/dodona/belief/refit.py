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
USUAL_TOLERANCE = 1e-3
_LEAST = 1e-12


class _Terms(NamedTuple):
    """How near the minimum a fit ends, in deviations, and what a nat away from the prior costs."""

    tolerance: float
    anchor: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A prior, what was observed, and the belief fitted to both. The prior and the belief stay usable."""

    prior: Belief
    observations: tuple[Observation, ...]
    belief: Belief
    multipliers: tuple[NDArray[np.float64], ...] = field(repr=False)
    """One for each answer of each observation: where the next fit starts."""
    rounds: int
    """Newton steps that it took."""
    gap: float
    """How far the worst answer is off where the minimum has it, in deviations of its noise."""
    anchor: float | None
    tolerance: float

    def extended(self, more: Iterable[Observation]) -> Fit:
        """Return the fit to further observations too, started from here."""
        together = (*self.observations, *more)
        return refit(self.prior, together, start=self.multipliers, anchor=self.anchor, tolerance=self.tolerance)


def refit(
    prior: Belief,
    observations: Iterable[Observation],
    *,
    start: Sequence[NDArray[np.float64]] = (),
    tolerance: float = USUAL_TOLERANCE,
    anchor: float | None = None,
) -> Fit:
    """Return the law that minimises anchor·KL(law‖prior) + Σ (answer - observed)²/(2·deviation²).

    Without an anchor it is `usual_anchor`: so light that the prior decides only what was not observed.

    Observed values that no table can have are drawn to the nearest that one can. `start` holds multipliers of the
    first observations. The gap that is left is at most the tolerance, in deviations; the same input gives the same fit.
    """
    seen = tuple(observations)
    for name, value in (("tolerance", tolerance), ("anchor", 1.0 if anchor is None else anchor)):
        if not _LEAST <= value < np.inf:
            raise InvalidArgument(name, value, "write a number above 0")
    if len(start) > len(seen) or any(own.size != one.values.size for own, one in zip(start, seen, strict=False)):
        raise InvalidArgument("start", len(start), "write one array of multipliers for each of the first observations")
    asked = [only(one.query, prior.support) for one in seen]
    begun = [*start, *(np.zeros(one.values.size) for one in seen[len(start) :])]
    terms = _Terms(tolerance, anchor)
    if isinstance(prior, Dense):
        belief, found, solution = _dense(prior, asked, seen, begun, terms)
        return Fit(prior, seen, belief, tuple(found), solution.rounds, solution.gap, anchor, tolerance)
    return _components(prior, asked, seen, begun, terms)


def usual_anchor(deviations: NDArray[np.float64]) -> float:
    """Return an anchor that pulls no answer by more than a thousandth of its deviation for each unit of multiplier.

    It is 1, or more where the noise is so small that multipliers of 1/deviation would be lost in rounding.
    """
    return max(1.0, 1e-3 / float(deviations.min()))


def _components(
    prior: Components,
    asked: Sequence[Asked],
    seen: tuple[Observation, ...],
    begun: list[NDArray[np.float64]],
    terms: _Terms,
) -> Fit:
    """Return the fit of each component to the observations that are about it."""
    tied = prior.copied()
    for one in asked:
        tied = tied.tied(one.block.attributes)
    owner = {name: number for number, part in enumerate(tied.parts) for name in part.support.domain.names}
    members: dict[int, list[int]] = {}
    for place, one in enumerate(asked):
        members.setdefault(owner[min(one.block.attributes, default=tied.support.domain.names[0])], []).append(place)
    parts, rounds, gap = list(tied.parts), 0, 0.0
    for number, places in members.items():
        part = parts[number]
        within = [Asked(asked[place].block, part.support) for place in places]
        parts[number], found, solution = _dense(
            part, within, [seen[place] for place in places], [begun[place] for place in places], terms
        )
        for place, own in zip(places, found, strict=True):
            begun[place] = own
        rounds, gap = max(rounds, solution.rounds), max(gap, solution.gap)
    belief = Components(prior.support, parts, limit=prior.limit)
    return Fit(prior, seen, belief, tuple(begun), rounds, gap, terms.anchor, terms.tolerance)


def _dense(
    prior: Dense,
    asked: Sequence[Asked],
    seen: Sequence[Observation],
    begun: Sequence[NDArray[np.float64]],
    terms: _Terms,
) -> tuple[Dense, list[NDArray[np.float64]], Solution]:
    if not seen:
        return prior.copied(), [], Solution(np.zeros(0), 0, 0.0)
    design = Design(asked, prior.support.shape)
    low, high = design.ends()
    values = np.clip(np.concatenate([one.values for one in seen]) / design.units, low, high)
    deviations = np.concatenate([one.deviations for one in seen]) / design.units
    anchor = usual_anchor(deviations) if terms.anchor is None else terms.anchor
    dual = Dual(design, prior.probabilities().reshape(-1), values, deviations, anchor)
    solution = solved(dual, np.concatenate(begun) * design.units, tolerance=terms.tolerance)
    found = solution.multipliers / design.units
    ends = np.cumsum([one.values.size for one in seen])[:-1]
    return Dense(prior.support, dual.weights(solution.multipliers)), np.split(found, ends), solution
