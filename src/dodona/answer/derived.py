"""Derived values: linear combinations of released values, each with the law of its error. They cost nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dodona.answer.laws import ErrorLaw, GaussianSumBound, ModelLaw, NoiseSum, half_width
from dodona.errors import InvalidArgument, InvariantBroken
from dodona.numbers import Doubles
from dodona.privacy.additive_noise import Noise
from dodona.privacy.measurement import DrawCounts, MeasuredValues
from dodona.query.question import (
    Question,
)

# --- Derived values: combinations of released values, each with the law of its error. ---


_ONLY = "Only counts, sums, averages, spreads and arithmetic with them follow from earlier releases."


ReleasedNumbers = tuple[Sequence[int], Noise]
"""The numbers of a block as they were released, in steps, and their noise."""


@dataclass(frozen=True, slots=True, eq=False)
class SingleRelease:
    """The values of a block in steps as they follow from one release alone, and the laws of their errors."""

    place: int
    """The number of the release in the ledger, from 1."""
    values: Sequence[float] | Doubles
    laws: tuple[ErrorLaw, ...]
    """One for each value, or one for all."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What is known of a query beyond its derived values: for intervals that hold for any choice."""

    draws: DrawCounts
    """How many numbers were released so far."""
    direct: tuple[tuple[ReleasedNumbers, ...], ...]
    """For each block, the times that it was itself released."""
    alone: tuple[tuple[SingleRelease, ...], ...]
    """For each block, its values as they follow from single releases."""


@dataclass(frozen=True, slots=True, eq=False)
class JointLaw:
    """How the errors of blocks vary together, which are sums of the same normal draws."""

    covariances: Mapping[tuple[int, int], Doubles]
    """Of pairs of blocks, the smaller number first: in steps, by group."""
    share: float
    """What no factor of a draw is above in a combination of blocks, over its deviation: 1 over the least scale."""


@dataclass(frozen=True, slots=True, eq=False)
class DerivedValues:
    """The values of each block in steps, and the laws of their errors: one per value, or one for all.

    Values may share draws, so they are not assumed to be independent.
    """

    question: Question
    parts: tuple[Sequence[float] | Doubles, ...]
    laws: tuple[tuple[ErrorLaw, ...], ...]
    recalled: Recalled | None = None
    """Where intervals for any choice are wanted."""
    joint: JointLaw | None = None
    """Of blocks that follow from normal draws alone: those of averages, quotients, sums and differences."""

    def __post_init__(self) -> None:
        """Raise if the values do not match the question, or if it is not made of counts and sums."""
        question, groups = self.question, self.question.groups
        blocks = question.query.blocks
        if not len(blocks) == len(self.parts) == len(self.laws):
            raise InvalidArgument("values", len(self.parts), f"write values and laws of each of {len(blocks)} blocks")
        for block, part, laws in zip(blocks, self.parts, self.laws, strict=True):
            if block.values != groups:
                raise InvariantBroken(_ONLY)
            if len(part) != groups:
                raise InvalidArgument("values", len(part), f"each block of the question has {groups}")
            if len(laws) not in {1, groups}:
                raise InvalidArgument("laws", len(laws), f"write one for each of {groups} values, or one for all")
        if not question.derivable and (self.joint is None or not question.from_sums):
            raise InvariantBroken(_ONLY)

    @property
    def values(self) -> list[float]:
        """The values in steps, block by block."""
        return [float(value) for part in self.parts for value in part]

    @property
    def groups(self) -> int:
        """The number of groups of the question; every block has one value for each."""
        return self.question.groups

    def numbers(self, block: int) -> Doubles:
        """Return the values of a block in steps: one row per group of the question."""
        return np.asarray(self.parts[block], dtype=np.float64).reshape(-1, 1)

    def covariance(self, first: Mapping[int, float], second: Mapping[int, float]) -> Doubles:
        """Return the covariance of two combinations of blocks, given their factors: by group.

        Theorem: joint-law
        """
        covariance: Doubles = np.zeros(self.groups)
        for block, factor in first.items():
            for other, times in second.items():
                covariance = covariance + factor * times * self._covariance(min(block, other), max(block, other))
        return covariance

    def _covariance(self, first: int, second: int) -> float | Doubles:
        laws = self.laws[first]
        if first == second and all(isinstance(law, GaussianSumBound | NoiseSum) for law in laws):
            return np.array([law.variance for law in laws if isinstance(law, GaussianSumBound | NoiseSum)])
        if first == second or self.joint is None:
            raise InvariantBroken("These values have no joint law.")
        return self.joint.covariances[first, second]


Evidence = MeasuredValues | DerivedValues
"""What an answer is read from."""


def make_derived_values(
    question: Question,
    values: Sequence[Sequence[float] | Doubles],
    laws: Sequence[ErrorLaw | Sequence[ErrorLaw]],
) -> DerivedValues:
    """Return the derived values behind an answer; nothing is evaluated yet.

    For each block of the question: its values in steps, one per group, and the law of their errors, or a law for
    each of them.
    """
    return DerivedValues(question, tuple(values), tuple(_laws(law) for law in laws))


def _laws(laws: ErrorLaw | Sequence[ErrorLaw]) -> tuple[ErrorLaw, ...]:
    return (laws,) if isinstance(laws, ErrorLaw) else tuple(laws)


def half_widths(evidence: Evidence, block: int, failing: float) -> float | Doubles:
    """Return the half-width of a block's values in steps, each at failure probability `failing`: for all, or for each.

    Theorem: laplace-accuracy, gaussian-accuracy, smoothed-sum
    """
    if isinstance(evidence, MeasuredValues):
        return half_width(evidence.noises[block], failing)
    laws = evidence.laws[block]
    known = {law: half_width(law, failing) for law in dict.fromkeys(laws)}
    return known[laws[0]] if len(laws) == 1 else np.array([known[law] for law in laws], dtype=np.float64)


# --- Warnings for a model's guess: which of its intervals are bounds, and which are not. ---


_BOUNDED = "This is the model's guess; its interval is all that earlier answers leave possible."
_ESTIMATED = "This is the model's guess; its error is not bounded."
_UNTOLD = "It has no interval where none is honest that is narrower than the whole table."


def guess_warnings(evidence: Evidence, failing: float) -> tuple[str, ...]:
    """Return the warnings for guesses with intervals at this failure probability."""
    known = evidence.laws if isinstance(evidence, DerivedValues) else ()
    laws = [law for block_laws in known for law in block_laws if isinstance(law, ModelLaw)]
    warnings = [_BOUNDED if laws and all(law.bounded(failing) for law in laws) else _ESTIMATED]
    if any(math.isinf(law.quantile(failing)) for law in laws):
        warnings.append(_UNTOLD)
    return tuple(warnings)
