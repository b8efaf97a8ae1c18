"""Selection mechanisms: exponential, permute-and-flip and report noisy max.

They choose among public candidates by score, without releasing the scores, and state their own price and accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, to_integer
from dodona.privacy.accuracy import Accuracy, validate_table_target
from dodona.privacy.additive_noise import round_scale_down, validate_noise_epsilon, validate_scale
from dodona.privacy.events import ComposedEvent, Event, ExponentialEvent, PureEvent, PureMechanism
from dodona.privacy.theorems import exponential_error, noisy_max_error
from dodona.query.canonical import query_digest
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity, unit_sensitivity
from dodona.schema.schema import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Whole = NDArray[np.int64] | Sequence[int]


# --- The exponential mechanism: choose a candidate with probability ∝ exp(score/scale). ---


def choice_epsilon(scale: Fraction, sensitivity: Sensitivity) -> Fraction:
    """Return what a choice by noise of this scale costs: 2Δ/scale, or Δ/scale where scores are monotone.

    Theorem: choice-privacy
    """
    return (1 if sensitivity.monotone else 2) * sensitivity.linf / scale


def choice_scale(epsilon: Exact, sensitivity: Sensitivity) -> Fraction:
    """Return the scale at which a choice costs exactly ε."""
    return validate_scale((1 if sensitivity.monotone else 2) * sensitivity.linf / validate_noise_epsilon(epsilon))


@dataclass(frozen=True, slots=True, init=False)
class Exponential:
    """One of several candidates, with probability ∝ exp(score/scale); noisy max with Gumbel noise is the same law.

    The candidates are public: they must not depend on the data.

    Theorem: choice-privacy
    """

    theorem: ClassVar[str] = "choice-privacy"
    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Take any exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", validate_scale(scale))

    @classmethod
    def for_privacy(cls, epsilon: Exact, sensitivity: Sensitivity) -> Self:
        """Return the mechanism that costs exactly ε for scores of this sensitivity."""
        return cls(scale=choice_scale(epsilon, sensitivity))

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, candidates: int) -> Self:
        """Return the mechanism whose chosen score is within the target of the best one."""
        per_scale = exponential_error(1.0, confidence=target.confidence, candidates=candidates)
        return cls(scale=round_scale_down(validate_table_target(target).within / per_scale))

    def event(self, sensitivity: Sensitivity) -> ExponentialEvent:
        """Return what one choice costs."""
        return ExponentialEvent(choice_epsilon(self.scale, sensitivity), sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, candidates: int, best: int = 1) -> Accuracy:
        """Return how far the chosen score may be below the best one, if `best` candidates share that."""
        scale = float(self.scale)
        within = exponential_error(scale, confidence=confidence, candidates=candidates, best=best)
        # The gap's tail is at most min(1, (R/R_best)·e^(-g/scale)), whose integral is this.
        expected = scale * (math.log(candidates / best) + 1)
        return Accuracy(within=within, confidence=confidence, expected=expected)


# --- Permute-and-flip: go through the candidates in random order and take one with probability exp(-gap/scale). ---


@dataclass(frozen=True, slots=True, init=False)
class PermuteAndFlip:
    """One of several candidates; never a worse expected score than the exponential mechanism at the same pure price.

    Noisy max with one-sided exponential noise is the same law. Its zCDP price is that of any pure mechanism, not ε²/8.

    Theorem: choice-privacy
    """

    theorem: ClassVar[str] = "choice-privacy"
    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Take any exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", validate_scale(scale))

    @classmethod
    def for_privacy(cls, epsilon: Exact, sensitivity: Sensitivity) -> Self:
        """Return the mechanism that costs exactly ε for scores of this sensitivity."""
        return cls(scale=choice_scale(epsilon, sensitivity))

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, candidates: int) -> Self:
        """Return the mechanism whose chosen score is within the target of the best one."""
        return cls(scale=Exponential.for_accuracy(target, candidates=candidates).scale)

    def event(self, sensitivity: Sensitivity) -> PureEvent:
        """Return what one choice costs."""
        epsilon = choice_epsilon(self.scale, sensitivity)
        return PureEvent(PureMechanism.PERMUTE_AND_FLIP, epsilon, sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, candidates: int) -> Accuracy:
        """Return how far the chosen score may be below the best one: the exponential mechanism's bound holds too."""
        return Exponential(scale=self.scale).accuracy(confidence, candidates=candidates)


# --- Report noisy max: add Laplace noise to every score and tell which is largest, and by how much if wanted. ---


@dataclass(frozen=True, slots=True, init=False)
class NoisyMax:
    """The candidate whose score with discrete Laplace noise is largest, and the gap to the runner-up, for one price.

    The winning score itself is not part of it: that needs a charge of its own.

    Theorem: choice-privacy
    """

    theorem: ClassVar[str] = "choice-privacy"
    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Take any exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", validate_scale(scale))

    @classmethod
    def for_privacy(cls, epsilon: Exact, sensitivity: Sensitivity) -> Self:
        """Return the mechanism that costs exactly ε for scores of this sensitivity."""
        return cls(scale=choice_scale(epsilon, sensitivity))

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, candidates: int) -> Self:
        """Return the mechanism whose winner's score is within the target of the best one."""
        # Two draws on the grid may each be one step beyond their real-valued bound.
        room = max(validate_table_target(target).within - 2, 0.0)
        per_scale = noisy_max_error(1.0, confidence=target.confidence, candidates=candidates)
        return cls(scale=round_scale_down(room / per_scale))

    def event(self, sensitivity: Sensitivity) -> PureEvent:
        """Return what one report costs, with or without the gap."""
        return PureEvent(PureMechanism.NOISY_MAX, choice_epsilon(self.scale, sensitivity), sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, candidates: int) -> Accuracy:
        """Return how far the winner's score may be below the best one."""
        within = noisy_max_error(float(self.scale), confidence=confidence, candidates=candidates)
        return Accuracy(within=within + 2, confidence=confidence)


# --- A selection: which of several answers of a query are largest, without their values. It says itself what it costs.


ChoiceMechanism = Exponential | PermuteAndFlip


class ScoredCandidates(Protocol):
    """Candidates that are public, and how answers of a query score them. It says itself what a choice costs."""

    @property
    def query(self) -> Query:
        """What is asked of the table."""

    @property
    def choice(self) -> ChoiceMechanism:
        """The law that chooses."""

    @property
    def count(self) -> int:
        """How many candidates are chosen, one after the other."""

    @property
    def rarities(self) -> Sequence[Fraction]:
        """How many times as many equal candidates the commonest stands for; nothing where all stand for themselves.

        Only for one choice by the exponential mechanism.
        """

    @property
    def purpose(self) -> str:
        """The digest of what is asked."""

    @property
    def spelled(self) -> str:
        """The mechanism as a text."""

    def event(self, unit: Unit) -> Event:
        """Return what it costs."""

    def scores(self, values: Whole) -> Whole:
        """Return the score of each candidate, given the exact answers; only `trusted` has these."""


@dataclass(frozen=True, slots=True)
class Selection:
    """`count` answers of a query, each chosen among those that are left."""

    query: Query
    choice: ChoiceMechanism
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse answers in different units, and more choices than candidates."""
        if len({block.unit for block in self.query.blocks}) > 1:
            raise InvalidArgument("candidates", "several units", "compare counts with counts and sums of one column")
        to_integer(self.count, argument="count", lower=1, upper=self.query.values)

    def event(self, unit: Unit) -> Event:
        """Return what it costs: each choice once.

        Theorem: choice-privacy
        """
        one = self.choice.event(selection_sensitivity(self.query, unit))
        return one if self.count == 1 else ComposedEvent(((one, self.count),))

    @property
    def rarities(self) -> tuple[()]:
        """Nothing: each candidate stands for itself."""
        return ()

    def scores(self, values: Whole) -> Whole:
        """Return the answers themselves."""
        return values

    @property
    def purpose(self) -> str:
        """The digest of what is asked."""
        return f"choose {self.count} {query_digest(self.query)}"

    @property
    def spelled(self) -> str:
        """The mechanism as a text."""
        name = "exponential" if isinstance(self.choice, Exponential) else "permute-and-flip"
        return f"{name} {self.choice.scale} x {self.count}"


def selection_sensitivity(query: Query, unit: Unit) -> Sensitivity:
    """Return the sensitivity of the answers as scores: only the largest change of one matters."""
    found = unit_sensitivity(query, unit)
    return Sensitivity.scores(found.linf, unit.neighbours, monotone=found.monotone)


def stack_queries(queries: Iterable[Query]) -> Query:
    """Return candidates as one query, which must each have one answer."""
    first, *rest = queries
    for query in (first, *rest):
        if query.values != 1:
            raise InvalidArgument("candidates", f"{query.values} answers", "write queries with one answer each")
    return first.stacked(*rest)
