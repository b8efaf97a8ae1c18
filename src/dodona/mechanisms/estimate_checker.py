"""The estimate checker: whether an estimate is far from the truth, and a fresh answer where it is.

In the words of the notes on the interactive mechanism: `exact_verdict` is the exact checker E(x), the method `judge` of
`EstimateChecker` is the noisy three-way checker N(x), and the fresh answers that come with its verdicts are Apx^k(x).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import ClassVar, Protocol, final

from dodona.accounting.event import Event, Together
from dodona.domain.unit import Unit
from dodona.errors import Halted, InvalidArgument
from dodona.exact import Exact, exact
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.query.people import count_effect, score_effect


class Verdict(Protocol):
    """What a threshold tells."""

    @property
    def above(self) -> bool:
        """Whether the noisy value is at or above the noisy threshold."""


class Threshold(Protocol):
    """An open sparse vector."""

    @property
    def positives_left(self) -> int:
        """How many positives it may still tell before it halts."""

    def ask(self, value: int, threshold: int) -> Verdict:
        """Return whether the value, with noise, is at or above the threshold, with noise."""


class EstimateVerdict(Enum):
    """What a three-way checker says of an estimate."""

    CORRECT = "correct"
    TOO_HIGH = "too high"
    TOO_LOW = "too low"


def exact_verdict(count: int, estimate: int, *, tolerance: int) -> EstimateVerdict:
    """Return the exact checker E(x) of the notes: correct up to the tolerance (their 2α·n), else on which side.

    It sees the exact count, so what it says is not private: it is what noisy verdicts are compared with.

    >>> exact_verdict(1_000, 1_300, tolerance=200)
    <EstimateVerdict.TOO_HIGH: 'too high'>
    """
    if estimate - count > tolerance:
        return EstimateVerdict.TOO_HIGH
    return EstimateVerdict.TOO_LOW if count - estimate > tolerance else EstimateVerdict.CORRECT


@dataclass(frozen=True, slots=True)
class WrongVerdicts:
    """How likely a noisy checker at 3α disagrees with the exact one at 2α, for each of the three ways of claim 1."""

    incorrect: float
    """Too high or too low, where the exact checker says correct."""
    too_high: float
    """Too high, where the exact checker says too low."""
    too_low: float
    """Too low, where the exact checker says too high."""


def claim_one(alpha: Exact, *, epsilon: Exact) -> WrongVerdicts:
    """Return claim 1 of the notes, for Laplace noise of scale εn on a count of n rows and a threshold without noise.

    e^{-α/ε} for a false alarm, and ½·e^{-5α/ε} for each verdict on the wrong side: the noise must then pass 5αn. The
    bounds hold on the reals; on whole rows each is at most e^{1/(εn)} times as large.

    >>> round(claim_one("0.1", epsilon="0.02").incorrect, 6)
    0.006738

    Theorem: interactive-mechanism
    """
    tolerance = exact(alpha, argument="alpha", lower=Fraction(0), upper=Fraction(1))
    scale = exact(epsilon, argument="epsilon", lower=Fraction(1, 10**12), upper=Fraction(10**6))
    ratio = float(tolerance / scale)
    opposite = math.exp(-5 * ratio) / 2
    return WrongVerdicts(math.exp(-ratio), opposite, opposite)


@final
@dataclass(frozen=True, slots=True)
class EstimateChecker:
    """AboveThreshold on |count - estimate|, begun anew after each positive; all positives but the last are answered.

    The answer has noise of its own: to tell the value that was compared is a broken variant (Lyu, Su and Li 2017,
    algorithm 3). After the last positive it halts, which is part of the proof: nothing bounds it otherwise.

    Theorem: private-multiplicative-weights
    """

    theorem: ClassVar[str] = "private-multiplicative-weights"
    test: SparseVector
    answer: Laplace | Gaussian
    threshold: int
    """In rows: estimates that seem to be this far off are answered anew."""

    def __post_init__(self) -> None:
        """Refuse a test that is not begun anew, or tells more than whether it is above."""
        if not self.test.restarts or self.test.answer_scale is not None:
            raise InvalidArgument("test", self.test, "write a sparse vector that restarts and tells no answers")
        if type(self.threshold) is not int or self.threshold < 1:
            raise InvalidArgument("threshold", self.threshold, "write a whole number of rows from 1 up")

    @property
    def updates(self) -> int:
        """How many fresh answers it tells before it halts."""
        return self.test.positives - 1

    def event(self, unit: Unit) -> Event:
        """Return the price of the whole run, charged when it is opened, however many estimates are checked.

        A distance moves both ways with a count, so the test has no discount for monotone answers.
        """
        tests = self.test.event(score_effect(unit))
        parts = tests.parts if isinstance(tests, Together) else ((tests, 1),)
        if self.updates:
            parts = (*parts, (self.answer.event(count_effect(unit)), self.updates))
        return Together(parts)

    def fresh(
        self, count: int, estimate: int, *, watch: Threshold, draw: Callable[[Laplace | Gaussian], int]
    ) -> int | None:
        """Return the count with fresh noise where the estimate seems far off, else None; Halted at the last positive.

        The watch is an open one of `test`, and `draw` draws one value of a noise.
        """
        far = watch.ask(abs(count - estimate), self.threshold).above
        if far and watch.positives_left == 0:
            raise Halted(self.test.positives)
        return count + draw(self.answer) if far else None

    def judge(
        self, count: int, estimate: int, *, watch: Threshold, draw: Callable[[Laplace | Gaussian], int]
    ) -> tuple[EstimateVerdict, int | None]:
        """Return on which side an estimate seems far off, with a fresh answer; Halted at the last positive.

        Each side is a question of its own to the same watch, so the side is told at no further price: a sparse vector
        costs the same however many questions are below. The estimate is judged by its own noise, so the fresh answer
        may lie on the other side of it.

        Theorem: private-multiplicative-weights
        """
        for side, distance in (
            (EstimateVerdict.TOO_HIGH, estimate - count),
            (EstimateVerdict.TOO_LOW, count - estimate),
        ):
            if watch.ask(distance, self.threshold).above:
                if watch.positives_left == 0:
                    raise Halted(self.test.positives)
                return side, count + draw(self.answer)
        return EstimateVerdict.CORRECT, None
