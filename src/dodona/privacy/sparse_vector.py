"""The sparse vector technique, and the estimate checker that is built on it.

A run is charged in full when it starts; only the number of positives is limited. The checker compares estimates with
the truth and gives a fresh noisy answer where an estimate is far off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import ClassVar, Protocol, Self, final

from dodona.errors import Halted, InvalidArgument
from dodona.numbers import Exact, to_fraction
from dodona.privacy.accuracy import Accuracy, to_failure_probability, validate_count, validate_table_target
from dodona.privacy.additive_noise import (
    Gaussian,
    Laplace,
    round_scale_down,
    round_scale_up,
    validate_noise_delta,
    validate_noise_epsilon,
    validate_scale,
)
from dodona.privacy.events import ComposedEvent, Event, LaplaceEvent, PureEvent, PureMechanism
from dodona.query.sensitivity import Sensitivity, row_count_sensitivity, score_sensitivity
from dodona.schema.schema import Unit

# --- The sparse vector technique: which of many questions are above a threshold, paying only for those that are. ---


_MOST_POSITIVES = 10**6


@dataclass(frozen=True, slots=True, init=False)
class SparseVector:
    """Noise on the threshold, drawn once or again after each positive, and on each question; it halts after the last.

    Positives also tell by how much the noisy value passed the noisy threshold, for the same price. With `answer_scale`
    they tell the value too, with fresh noise that is charged on its own. Each question may have its own threshold.

    Theorem: sparse-vector-privacy
    """

    theorem: ClassVar[str] = "sparse-vector-privacy"
    threshold_scale: Fraction
    question_scale: Fraction
    positives: int
    restarts: bool
    """Whether the threshold's noise is drawn, and charged, again after each positive."""
    answer_scale: Fraction | None

    def __init__(
        self,
        *,
        threshold_scale: Exact,
        question_scale: Exact,
        positives: int = 1,
        restarts: bool = True,
        answer_scale: Exact | None = None,
    ) -> None:
        """Take exact scales from 1/1000 to 10^12 and the number of positives after which it halts."""
        object.__setattr__(self, "threshold_scale", validate_scale(threshold_scale))
        object.__setattr__(self, "question_scale", validate_scale(question_scale))
        object.__setattr__(self, "positives", _validate_positives(positives))
        if not isinstance(restarts, bool):
            raise InvalidArgument("restarts", restarts, "write True or False")
        object.__setattr__(self, "restarts", restarts)
        object.__setattr__(self, "answer_scale", None if answer_scale is None else validate_scale(answer_scale))

    @classmethod
    def above_threshold(cls, epsilon: Exact, sensitivity: Sensitivity) -> Self:
        """Return AboveThreshold as the text has it: Lap(2Δ/ε) on the threshold, Lap(4Δ/ε) on each question."""
        return cls.sparse(epsilon, sensitivity, positives=1)

    @classmethod
    def sparse(cls, epsilon: Exact, sensitivity: Sensitivity, *, positives: int, delta: Exact | None = None) -> Self:
        """Return Sparse as the text has it: c runs of AboveThreshold at ε/c, or at ε/√(8c·ln(1/δ)), each."""
        scale = _textbook_scale(epsilon, sensitivity, positives, delta)
        return cls(threshold_scale=scale, question_scale=2 * scale, positives=positives)

    @classmethod
    def numeric_sparse(
        cls, epsilon: Exact, sensitivity: Sensitivity, *, positives: int, delta: Exact | None = None
    ) -> Self:
        """Return NumericSparse as the text has it: 8/9 of ε on Sparse and 1/9 on answers, or √512 parts and 1 part."""
        loss = validate_noise_epsilon(epsilon)
        if delta is None:
            sparse = cls.sparse(loss * 8 / 9, sensitivity, positives=positives)
            answer = sparse.positives * sensitivity.linf * 9 / loss
        else:
            parts = math.isqrt(512 * 10**12) + 1  # √512 in millionths, rounded up, so that the sum stays below ε
            half = validate_noise_delta(delta) / 2
            sparse = cls.sparse(loss * (parts - 1) / (parts + 10**6), sensitivity, positives=positives, delta=half)
            # σ(ε₂) = √(32·c·ln(2/δ))/ε₂, ε₂ = 2ε/(√512 + 1).
            answer = 2 * _textbook_scale(loss * 10**6 / (parts + 10**6), sensitivity, positives, half) / 4
        return cls(
            threshold_scale=sparse.threshold_scale,
            question_scale=sparse.question_scale,
            positives=positives,
            answer_scale=answer,
        )

    @classmethod
    def for_privacy(
        cls,
        epsilon: Exact,
        sensitivity: Sensitivity,
        *,
        questions: int,
        positives: int = 1,
        confidence: float = 0.95,
    ) -> Self:
        """Return the most accurate one for a total pure ε: one threshold, split ε₁ : ε₂ = √B : √A.

        A = 2c·ln(k/β₁), or half of it where answers are monotone, B = ln(1/β₂), β₁ = β₂ = β/2. The error is
        (√A + √B)²Δ/ε.

        Theorem: sparse-vector-accuracy
        """
        failing = to_failure_probability(confidence) / 2
        sides = _sides(sensitivity)
        told = _validate_positives(positives)
        threshold_part = math.sqrt(math.log(1 / failing))
        question_part = math.sqrt(sides * told * math.log(validate_count(questions, argument="questions") / failing))
        # The split may be any fraction; what matters is that the parts sum to ε exactly.
        share = Fraction(threshold_part / (threshold_part + question_part)).limit_denominator(10**5)
        loss = validate_noise_epsilon(epsilon)
        return cls(
            threshold_scale=sensitivity.linf / (loss * share),
            question_scale=sides * told * sensitivity.linf / (loss * (1 - share)),
            positives=told,
            restarts=False,
        )

    @classmethod
    def for_accuracy(
        cls, target: Accuracy, sensitivity: Sensitivity, *, questions: int, positives: int = 1
    ) -> SparseVector:
        """Return the one with the smallest zCDP price that is within the target: one threshold, or restarts.

        Restarts (ε each) split by A = 2·ln(k/β₁), B = ln(c/β₂).
        """
        room = validate_table_target(target).within - 2  # each of two draws may be a step of the grid beyond its bound
        if room <= 0:
            raise InvalidArgument("within", target.within, "write more than 2 steps of the grid")
        failing = to_failure_probability(target.confidence) / 2
        questioned = math.log(validate_count(questions, argument="questions") / failing)
        told = _validate_positives(positives)

        def split(restarts: bool, stretch: float) -> SparseVector:  # noqa: FBT001  a field of what is returned
            thresholds, spread = (told, 1) if restarts else (1, told)
            threshold_part = math.sqrt(math.log(thresholds / failing))
            question_part = math.sqrt(_sides(sensitivity) * spread * questioned)
            # Errors b₁·ln(c/β₂) and b₂·ln(k/β₁) take the room in the proportion √B : √A.
            step = stretch * room / (threshold_part + question_part)
            return SparseVector(
                threshold_scale=round_scale_down(step / threshold_part),
                question_scale=round_scale_down(step * question_part / questioned),
                positives=told,
                restarts=restarts,
            )

        found: list[SparseVector] = []
        for restarts in (False, True):
            # β need not be split in halves: noise grows until the error is what is wanted.
            low, high = 1.0, 2.0
            while high - low > 1e-4:  # noqa: PLR2004  a ten-thousandth more noise is not worth finding
                middle = (low + high) / 2
                met = split(restarts, middle).accuracy(target.confidence, questions=questions).within <= target.within
                low, high = (middle, high) if met else (low, middle)
            found.append(split(restarts, low))
        return min(found, key=lambda mechanism: mechanism.event(sensitivity).rho())

    def event(self, sensitivity: Sensitivity) -> Event:
        """Return the price of the whole run, charged when it is opened, however many questions follow."""
        sides = _sides(sensitivity) * (1 if self.restarts else self.positives)
        epsilon = sensitivity.linf / self.threshold_scale + sides * sensitivity.linf / self.question_scale
        instance = PureEvent(PureMechanism.SPARSE_VECTOR, epsilon, sensitivity.neighbours)
        parts: list[tuple[Event, int]] = [(instance, self.positives if self.restarts else 1)]
        if self.answer_scale is not None:
            answers = LaplaceEvent(sensitivity.linf, self.answer_scale, sensitivity.neighbours)
            parts.append((answers, self.positives))
        return instance if parts == [(instance, 1)] else ComposedEvent(tuple(parts))

    def alerts_left(self, sensitivity: Sensitivity, *, armed: int, thresholds: int, kept: bool) -> int:
        """Return for how many more positives it can be armed within its price, after so many and so many thresholds.

        `kept` says whether the noise of the last threshold is still at hand. Where it is lost, as after a restart of
        the process, it has to be drawn anew, and that is paid for with positives that are given up.

        Theorem: reopened-watch
        """
        threshold = sensitivity.linf / self.threshold_scale
        positive = _sides(sensitivity) * sensitivity.linf / self.question_scale
        paid = self.positives * positive + threshold * (self.positives if self.restarts else 1)
        room = paid - armed * positive - thresholds * threshold
        if self.restarts:
            return max(0, room // (positive + threshold))
        return max(0, (room - (0 if kept else threshold)) // positive)

    def accuracy(self, confidence: float = 0.95, *, questions: int) -> Accuracy:
        """Return α: positives are above T - α, negatives below T + α, numeric answers within α.

        It may have halted before the last question only if `positives` or more of those before it are above T - α.

        Theorem: sparse-vector-accuracy
        """
        failing = to_failure_probability(confidence)
        released = 0.0
        if self.answer_scale is not None:
            failing /= 2
            released = math.ceil(float(self.answer_scale) * math.log(self.positives / failing))
        thresholds = self.positives if self.restarts else 1
        asked = validate_count(questions, argument="questions")
        verdicts = min(
            _error(self, thresholds / (failing * share), asked / (failing * (1 - share)))
            for share in (index / 100 for index in range(1, 100))
        )
        return Accuracy(within=max(verdicts, released), confidence=confidence)


def _error(mechanism: SparseVector, thresholds: float, questions: float) -> float:
    """Return the two errors' sum, each rounded up to the grid: P(|x| > ⌈b·ln(1/β)⌉) ≤ β for discrete Laplace noise."""
    return math.ceil(float(mechanism.threshold_scale) * math.log(thresholds)) + math.ceil(
        float(mechanism.question_scale) * math.log(questions)
    )


def _sides(sensitivity: Sensitivity) -> int:
    """Return how often the questions' sensitivity counts: once where answers are monotone, else twice."""
    return 1 if sensitivity.monotone else 2


def _validate_positives(positives: int) -> int:
    """Return after how many positives it halts."""
    return validate_count(positives, argument="positives", upper=_MOST_POSITIVES)


def _textbook_scale(epsilon: Exact, sensitivity: Sensitivity, positives: int, delta: Exact | None) -> Fraction:
    """Return σ = 2cΔ/ε, or √(32·c·ln(1/δ))Δ/ε rounded up."""
    loss, told = validate_noise_epsilon(epsilon), _validate_positives(positives)
    if delta is None:
        return 2 * told * sensitivity.linf / loss
    root = math.sqrt(32 * told * -math.log(validate_noise_delta(delta)))
    return round_scale_up(root * sensitivity.linf / float(loss))


# --- The estimate checker: whether an estimate is far from the truth, and a fresh answer where it is. ---


class ThresholdVerdict(Protocol):
    """What a threshold tells."""

    @property
    def above(self) -> bool:
        """Whether the noisy value is at or above the noisy threshold."""


class ThresholdTest(Protocol):
    """An open sparse vector."""

    @property
    def positives_left(self) -> int:
        """How many positives it may still tell before it halts."""

    def ask(self, value: int, threshold: int) -> ThresholdVerdict:
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
    tolerance = to_fraction(alpha, argument="alpha", lower=Fraction(0), upper=Fraction(1))
    scale = to_fraction(epsilon, argument="epsilon", lower=Fraction(1, 10**12), upper=Fraction(10**6))
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
        tests = self.test.event(score_sensitivity(unit))
        parts = tests.parts if isinstance(tests, ComposedEvent) else ((tests, 1),)
        if self.updates:
            parts = (*parts, (self.answer.event(row_count_sensitivity(unit)), self.updates))
        return ComposedEvent(parts)

    def fresh(
        self, count: int, estimate: int, *, watch: ThresholdTest, draw: Callable[[Laplace | Gaussian], int]
    ) -> int | None:
        """Return the count with fresh noise where the estimate seems far off, else None; Halted at the last positive.

        The watch is an open one of `test`, and `draw` draws one value of a noise.
        """
        far = watch.ask(abs(count - estimate), self.threshold).above
        if far and watch.positives_left == 0:
            raise Halted(self.test.positives)
        return count + draw(self.answer) if far else None

    def judge(
        self, count: int, estimate: int, *, watch: ThresholdTest, draw: Callable[[Laplace | Gaussian], int]
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
