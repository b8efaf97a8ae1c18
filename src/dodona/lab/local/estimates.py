"""Estimates from reports: shares and counts of labels, each with its interval."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from dodona.answer.estimate import Estimate, to_float
from dodona.errors import InvalidArgument
from dodona.lab.local.alphabet import preview_labels
from dodona.lab.local.channel import SupportProbabilities
from dodona.lab.local.interval import population_interval, table_interval
from dodona.numbers import Exact, to_fraction
from dodona.privacy.accuracy import Accuracy, Against, to_failure_probability


@dataclass(frozen=True, slots=True)
class HeavyHitters:
    """Labels whose share of the respondents reaches a threshold, as far as the reports can show."""

    sure: tuple[str, ...]
    """The whole interval is at or above the threshold."""
    possible: tuple[str, ...]
    """The interval reaches the threshold; includes the sure ones."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """Unbiased estimates for labels. Values may be below 0 or above 1; intervals are not.

    Theorem: local-estimates
    """

    question: str
    labels: tuple[str, ...]
    marks: tuple[int, ...]
    """The number of marks in all reports that support each label."""
    respondents: int
    support: SupportProbabilities
    confidence: float = 0.95
    against: Against = Against.TABLE
    together: int = 1
    """The number of intervals that hold simultaneously at the confidence."""

    def __post_init__(self) -> None:
        """Refuse a confidence that no interval can have."""
        to_failure_probability(self.confidence)

    def __getitem__(self, label: str) -> Estimate:
        """Return the share of people with this label."""
        return self._share(self._number(label))

    def __iter__(self) -> Iterator[tuple[str, Estimate]]:
        """Iterate over labels with their shares, the largest estimate first."""
        order = sorted(range(len(self.labels)), key=lambda number: -self.marks[number])
        return ((self.labels[number], self._share(number)) for number in order)

    @property
    def population(self) -> Self:
        """The same estimates with intervals for the population that respondents were sampled from."""
        return replace(self, against=Against.POPULATION)

    def simultaneous(self) -> Self:
        """Return the same estimates with intervals that hold for all labels simultaneously."""
        return replace(self, together=len(self.labels))

    def shares(self) -> dict[str, Estimate]:
        """Return the share of people with each label, in the order of the labels."""
        return {label: self._share(number) for number, label in enumerate(self.labels)}

    def count(self, label: str) -> Estimate:
        """Return how many respondents have this label; the population has no counts."""
        if self.against is not Against.TABLE:
            raise InvalidArgument("against", self.against, "counts are of the respondents; the population has shares")
        number = self._number(label)
        low, high = table_interval(self.marks[number], self.respondents, self.support, self._failing)
        value = self.support.share(self.marks[number], self.respondents) * self.respondents
        return Estimate(float(value), low, high)

    def consistent(self) -> dict[str, float]:
        """Return shares for display: none below 0, and summing to 1. They are biased and have no interval.

        Negative shares become 0, and the others are lowered equally (Wang et al. 2020, Norm-Sub).
        """
        values = [float(self.support.share(marks, self.respondents)) for marks in self.marks]
        left = sorted(values, reverse=True)
        given, sum_left = 0.0, 0.0
        for number, value in enumerate(left, start=1):
            sum_left += value
            if value - (sum_left - 1) / number > 0:
                given = (sum_left - 1) / number
        return {label: max(value - given, 0.0) for label, value in zip(self.labels, values, strict=True)}

    def heavy(self, share: Exact) -> HeavyHitters:
        """Return the labels with at least this share, by simultaneous intervals."""
        least = to_fraction(share, argument="share", lower=Fraction(0), upper=Fraction(1))
        estimates = list(self.simultaneous())
        sure = tuple(label for label, estimate in estimates if to_float(estimate.low) >= least)
        return HeavyHitters(sure, tuple(label for label, estimate in estimates if to_float(estimate.high) >= least))

    def to_json(self) -> str:
        """Return the estimates as one JSON object."""
        rows = [
            {"label": label, "share": float(estimate), "low": to_float(estimate.low), "high": to_float(estimate.high)}
            for label, estimate in self.shares().items()
        ]
        fields = {
            "against": self.against.value, "confidence": self.confidence, "format": 1, "question": self.question,
            "respondents": self.respondents, "shares": rows, "together": self.together,
        }  # fmt: skip
        return json.dumps(fields, sort_keys=True)

    def __str__(self) -> str:
        lines = [f"{label}: {estimate}" for label, estimate in self]
        return "\n".join([f"{self.question}, {self.respondents:,} respondents", *lines])

    @property
    def _failing(self) -> float:
        return to_failure_probability(self.confidence) / self.together

    def _number(self, label: str) -> int:
        if label not in self.labels:
            raise InvalidArgument("label", label, f"write one of {preview_labels(self.labels)}")
        return self.labels.index(label)

    def _share(self, number: int) -> Estimate:
        marks, failing = self.marks[number], self._failing
        value = float(self.support.share(marks, self.respondents))
        if self.against is Against.POPULATION:
            return Estimate(value, *population_interval(marks, self.respondents, self.support, failing))
        low, high = table_interval(marks, self.respondents, self.support, failing)
        return Estimate(value, low / self.respondents, high / self.respondents)


def expected_width(support: SupportProbabilities, respondents: int, failing: float, *, against: Against) -> float:
    """Return a bound on the error of a share before anyone has answered: Hoeffding's inequality.

    For the population, the marks of one respondent depend on each other, so respondents are counted instead.

    Theorem: local-estimates
    """
    independent = respondents * (support.trials if against is Against.TABLE else 1)
    return math.sqrt(math.log(2 / failing) / (2 * independent)) / float(support.keep - support.lend)


def respondents_needed(support: SupportProbabilities, target: Accuracy, failing: float) -> int:
    """Return the least number of respondents whose shares are within the target by that bound."""
    marks = math.log(2 / failing) / (2 * (target.within * float(support.keep - support.lend)) ** 2)
    near = max(1, math.floor(marks / (support.trials if target.against is Against.TABLE else 1)))
    # Rounding moves the quotient by a few parts in 10^16; the bound itself decides.
    while expected_width(support, near, failing, against=target.against) > target.within:
        near += 1 + near // 2**50
    return near
