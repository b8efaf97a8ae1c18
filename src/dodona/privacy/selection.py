"""Selection mechanisms: exponential and permute-and-flip.

They choose among public candidates by score without releasing the scores, and state their price and accuracy.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, to_integer
from dodona.privacy.accuracy import Accuracy, to_failure_probability, validate_count, validate_table_target
from dodona.privacy.additive_noise import round_scale_down, validate_noise_epsilon, validate_scale
from dodona.privacy.events import ComposedEvent, Event, ExponentialEvent, PureEvent, PureMechanism
from dodona.query.canonical import query_digest
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity, unit_sensitivity
from dodona.schema.schema import Unit

Whole = NDArray[np.int64] | Sequence[int]


# --- The exponential mechanism: choose a candidate with probability ∝ exp(score/scale). ---


def choice_epsilon(scale: Fraction, sensitivity: Sensitivity) -> Fraction:
    """Return the ε of a choice at this scale: 2Δ/scale, or Δ/scale if scores are monotone.

    Theorem: choice-privacy
    """
    return (1 if sensitivity.monotone else 2) * sensitivity.linf / scale


def choice_scale(epsilon: Exact, sensitivity: Sensitivity) -> Fraction:
    """Return the scale at which a choice costs exactly ε."""
    return validate_scale((1 if sensitivity.monotone else 2) * sensitivity.linf / validate_noise_epsilon(epsilon))


def exponential_error(scale: float, *, confidence: float, candidates: int, best: int = 1) -> float:
    """Return scale·(ln(|R|/|R_opt|) + ln(1/β)): how far below the best a choice may be (3.11, corollary 3.12).

    For general scores the scale is 2Δ/ε.

    Theorem: choice-accuracy
    """
    among = validate_count(candidates, argument="candidates")
    leaders = validate_count(best, argument="best", upper=among)
    return scale * (math.log(among / leaders) - math.log(to_failure_probability(confidence)))


@dataclass(frozen=True, slots=True, init=False)
class ScaledChoice:
    """A choice among public candidates, which must not depend on the data, by scores over an exact scale.

    Theorem: choice-privacy
    """

    theorem: ClassVar[str] = "choice-privacy"
    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Validate the scale: an exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", validate_scale(scale))

    @classmethod
    def for_privacy(cls, epsilon: Exact, sensitivity: Sensitivity) -> Self:
        """Return the mechanism that costs exactly ε for scores of this sensitivity."""
        return cls(scale=choice_scale(epsilon, sensitivity))

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, candidates: int) -> Self:
        """Return the mechanism whose chosen score is within the target's tolerance of the best one."""
        per_scale = exponential_error(1.0, confidence=target.confidence, candidates=candidates)
        return cls(scale=round_scale_down(validate_table_target(target).within / per_scale))


@dataclass(frozen=True, slots=True, init=False)
class Exponential(ScaledChoice):
    """Chooses a candidate with probability ∝ exp(score/scale); noisy max with Gumbel noise has the same law.

    Theorem: choice-privacy
    """

    def event(self, sensitivity: Sensitivity) -> ExponentialEvent:
        """Return the event of one choice."""
        return ExponentialEvent(choice_epsilon(self.scale, sensitivity), sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, candidates: int, best: int = 1) -> Accuracy:
        """Return how far the chosen score may be below the best one, if `best` candidates share the best score."""
        scale = float(self.scale)
        within = exponential_error(scale, confidence=confidence, candidates=candidates, best=best)
        # The tail of the gap is at most min(1, (R/R_best)·e^(-g/scale)); this is its integral.
        expected = scale * (math.log(candidates / best) + 1)
        return Accuracy(within=within, confidence=confidence, expected=expected)


# --- Permute-and-flip: go through the candidates in random order and take one with probability exp(-gap/scale). ---


@dataclass(frozen=True, slots=True, init=False)
class PermuteAndFlip(ScaledChoice):
    """Chooses a candidate; its expected score is never worse than the exponential mechanism's at the same pure price.

    Noisy max with one-sided exponential noise has the same law. Its zCDP price is that of any pure mechanism, not ε²/8.

    Theorem: choice-privacy
    """

    def event(self, sensitivity: Sensitivity) -> PureEvent:
        """Return the event of one choice."""
        epsilon = choice_epsilon(self.scale, sensitivity)
        return PureEvent(PureMechanism.PERMUTE_AND_FLIP, epsilon, sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, candidates: int) -> Accuracy:
        """Return how far the chosen score may be below the best one: the exponential mechanism's bound holds too."""
        return Exponential(scale=self.scale).accuracy(confidence, candidates=candidates)


# --- A selection: which answers of a query are largest, without their values, and the price of choosing them.


ChoiceMechanism = Exponential | PermuteAndFlip


def choice_name(choice: ChoiceMechanism) -> str:
    """Return the name under which a choice is recorded."""
    return "exponential" if isinstance(choice, Exponential) else "permute-and-flip"


class ScoredCandidates(Protocol):
    """Public candidates, how answers of a query score them, and the price of a choice."""

    @property
    def query(self) -> Query:
        """The query to the table."""

    @property
    def choice(self) -> ChoiceMechanism:
        """The choice mechanism."""

    @property
    def count(self) -> int:
        """The number of candidates to choose, one after the other."""

    @property
    def rarities(self) -> Sequence[Fraction]:
        """For each candidate, the largest multiplicity of any divided by its own; empty if all multiplicities are 1.

        Only for a single choice by the exponential mechanism.
        """

    def ruled_out(self, chosen: int) -> Sequence[int]:
        """Return the candidates that a choice rules out for later choices, beside itself: public facts alone decide."""

    @property
    def purpose(self) -> str:
        """The digest of the request."""

    @property
    def spelled(self) -> str:
        """The mechanism as text."""

    def event(self, unit: Unit) -> Event:
        """Return the event."""

    def scores(self, values: Whole) -> Whole:
        """Return the score of each candidate from the exact answers, which only `trusted` has."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Chooses `count` answers of a query, one at a time among the remaining ones."""

    query: Query
    choice: ChoiceMechanism
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse answers in different units, and more choices than candidates."""
        if len({block.unit for block in self.query.blocks}) > 1:
            raise InvalidArgument("candidates", "several units", "compare counts with counts and sums of one column")
        to_integer(self.count, argument="count", lower=1, upper=self.query.values)

    def event(self, unit: Unit) -> Event:
        """Return the event: the sum over all choices.

        Theorem: choice-privacy
        """
        choice_event = self.choice.event(selection_sensitivity(self.query, unit))
        return choice_event if self.count == 1 else ComposedEvent(((choice_event, self.count),))

    @property
    def rarities(self) -> tuple[()]:
        """Empty: each candidate has multiplicity 1."""
        return ()

    def ruled_out(self, chosen: int) -> tuple[()]:  # noqa: ARG002  a protocol's
        """Return none: only what was chosen is no candidate any more."""
        return ()

    def scores(self, values: Whole) -> Whole:
        """Return the answers themselves."""
        return values

    @property
    def purpose(self) -> str:
        """The digest of the request."""
        return f"choose {self.count} {query_digest(self.query)}"

    @property
    def spelled(self) -> str:
        """The mechanism as text."""
        return f"{choice_name(self.choice)} {self.choice.scale} x {self.count}"


def selection_sensitivity(query: Query, unit: Unit) -> Sensitivity:
    """Return the sensitivity of the answers as scores: only the largest change of a single answer matters."""
    sensitivity = unit_sensitivity(query, unit)
    return Sensitivity.scores(sensitivity.linf, unit.neighbours, monotone=sensitivity.monotone)


def stack_queries(queries: Iterable[Query]) -> Query:
    """Combine candidate queries, each with exactly one answer, into one query."""
    first, *rest = queries
    for query in (first, *rest):
        if query.values != 1:
            raise InvalidArgument("candidates", f"{query.values} answers", "write queries with one answer each")
    return first.stacked(*rest)
