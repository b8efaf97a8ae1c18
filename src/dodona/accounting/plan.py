"""Declared plans: events that are fixed before the first answer, and so may be priced together, exactly.

Queries may still depend on earlier answers; what is fixed is which events there are, and how many. A plan is no filter.
It takes one (ε, δ) off the budget when it is opened, by basic composition, and nothing afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from dodona.accounting import convolution, losses
from dodona.accounting.bounds import MOST_TIMES, Pair, above, below, privacy_loss, probability, repetitions
from dodona.accounting.conversion import renyi_delta, renyi_epsilon
from dodona.accounting.event import Event, GaussianEvent, LaplaceEvent, Together
from dodona.domain.neighbours import Neighbours
from dodona.errors import InvalidArgument
from dodona.exact import Exact

_UNIT_MOVES = 3  # up to a squared distance of 3 every integer that moves moves by one
_WIDEST_VARIANCE = Fraction(2**28)


@dataclass(frozen=True, slots=True)
class Plan:
    """Events, each any number of times, declared beforehand under one neighbour relation.

    Theorem: declared-plan
    """

    parts: tuple[tuple[Event, int], ...]

    def __post_init__(self) -> None:
        """Refuse an empty plan, numbers below 1 and mixed relations."""
        if not self.parts:
            raise InvalidArgument("parts", self.parts, "write at least one event and how many times it happens")
        for _, times in self.parts:
            repetitions(times)
        if len({event.neighbours for event, _ in self.parts}) > 1:
            accepted = "events under add-remove and under replace do not add; state all of them under one relation"
            raise InvalidArgument("parts", self.parts, accepted)
        if sum(times for _, times in _flat(self.parts)) > MOST_TIMES:
            raise InvalidArgument("parts", self.parts, f"write at most {MOST_TIMES} events in all")

    @property
    def neighbours(self) -> Neighbours:
        """The relation that all events share."""
        return self.parts[0][0].neighbours

    def delta(self, epsilon: Exact) -> float:
        """Return a δ at which the whole plan is (ε, δ)-differentially private, rounded up; 0 from the pure sum on.

        Theorem: declared-plan
        """
        level, total = privacy_loss(epsilon), self._together.epsilon
        if total is not None and level >= total:
            return 0.0
        laws = _laws(self.parts)
        by_losses = 1.0 if laws is None else convolution.delta(laws, below(level))
        return min(by_losses, renyi_delta(self._together.renyi, epsilon=level))

    def epsilon(self, delta: Exact) -> float:
        """Return an ε at which the whole plan is (ε, δ)-differentially private, rounded up.

        Theorem: declared-plan
        """
        wanted, total = probability(delta), self._together.epsilon
        pure = math.inf if total is None else above(total)
        if wanted == 0:
            if total is None:
                raise InvalidArgument("delta", delta, "a plan with Gaussian noise needs a delta above 0")
            return pure
        laws = _laws(self.parts)
        by_losses = math.inf if laws is None else convolution.epsilon(laws, below(wanted))
        return min(pure, by_losses, renyi_epsilon(self._together.renyi, delta=wanted))

    def cost(self, delta: Exact) -> Pair:
        """Return what opening the plan takes off the budget: its ε at this δ, and this δ.

        Theorem: declared-plan
        """
        total, epsilon = self._together.epsilon, self.epsilon(delta)
        if total is not None and epsilon >= total:
            return Pair(total, Fraction(0))  # the pure sum is as good, and costs no δ
        return Pair(Fraction(epsilon), probability(delta))

    @property
    def _together(self) -> Together:
        return Together(self.parts)


def _flat(parts: tuple[tuple[Event, int], ...], outer: int = 1) -> Iterator[tuple[Event, int]]:
    """Return the events that stand alone, with how often each happens."""
    for event, times in parts:
        if isinstance(event, Together):
            yield from _flat(event.parts, outer * times)
        else:
            yield event, outer * times


def _laws(parts: tuple[tuple[Event, int], ...]) -> list[tuple[losses.Law, int]] | None:
    """Return laws of loss that the events do not exceed, equal ones as one; None if some event has none."""
    found: dict[tuple[Fraction, Fraction, int], tuple[losses.Law, int]] = {}
    for event, times in _flat(parts):
        part = _law(event)
        if part is None:
            return None
        law, each = part
        key = (law.top, law.step, len(law.weights))
        found[key] = (law, times * each + (found[key][1] if key in found else 0))
    return list(found.values())


def _law(event: Event) -> tuple[losses.Law, int] | None:
    """Return a law of loss that the event does not exceed and how often it is taken; None where none is known.

    Theorem: dominating-losses
    """
    match event:
        case LaplaceEvent(distance, scale):
            return losses.laplace(distance, scale), 1
        case GaussianEvent(squared_distance, variance) if (
            squared_distance <= _UNIT_MOVES and variance <= _WIDEST_VARIANCE
        ):
            return losses.gaussian(variance), squared_distance
        case _:
            return None if event.epsilon is None else (losses.pure(event.epsilon), 1)
