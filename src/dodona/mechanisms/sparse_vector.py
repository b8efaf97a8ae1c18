"""The sparse vector technique: which of many questions are above a threshold, paying only for those that are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dodona.accounting.event import Event, Kind, LaplaceEvent, PureEvent, Together
from dodona.accuracy import Accuracy, against_table, failure, number_of
from dodona.errors import InvalidArgument
from dodona.exact import Exact
from dodona.mechanisms.scale import delta_of, epsilon_of, rounded_scale_down, rounded_scale_up, scale_of
from dodona.query.sensitivity import Sensitivity

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
        object.__setattr__(self, "threshold_scale", scale_of(threshold_scale))
        object.__setattr__(self, "question_scale", scale_of(question_scale))
        object.__setattr__(self, "positives", _positives(positives))
        if not isinstance(restarts, bool):
            raise InvalidArgument("restarts", restarts, "write True or False")
        object.__setattr__(self, "restarts", restarts)
        object.__setattr__(self, "answer_scale", None if answer_scale is None else scale_of(answer_scale))

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
        loss = epsilon_of(epsilon)
        if delta is None:
            sparse = cls.sparse(loss * 8 / 9, sensitivity, positives=positives)
            answer = sparse.positives * sensitivity.linf * 9 / loss
        else:
            parts = math.isqrt(512 * 10**12) + 1  # √512 in millionths, rounded up, so that the sum stays below ε
            half = delta_of(delta) / 2
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
        failing = failure(confidence) / 2
        sides = _sides(sensitivity)
        told = _positives(positives)
        threshold_part = math.sqrt(math.log(1 / failing))
        question_part = math.sqrt(sides * told * math.log(number_of(questions, argument="questions") / failing))
        # The split may be any fraction; what matters is that the parts sum to ε exactly.
        share = Fraction(threshold_part / (threshold_part + question_part)).limit_denominator(10**5)
        loss = epsilon_of(epsilon)
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
        room = against_table(target).within - 2  # each of two draws may be a step of the grid beyond its bound
        if room <= 0:
            raise InvalidArgument("within", target.within, "write more than 2 steps of the grid")
        failing = failure(target.confidence) / 2
        questioned = math.log(number_of(questions, argument="questions") / failing)
        told = _positives(positives)

        def split(restarts: bool, stretch: float) -> SparseVector:  # noqa: FBT001  a field of what is returned
            thresholds, spread = (told, 1) if restarts else (1, told)
            threshold_part = math.sqrt(math.log(thresholds / failing))
            question_part = math.sqrt(_sides(sensitivity) * spread * questioned)
            # Errors b₁·ln(c/β₂) and b₂·ln(k/β₁) take the room in the proportion √B : √A.
            step = stretch * room / (threshold_part + question_part)
            return SparseVector(
                threshold_scale=rounded_scale_down(step / threshold_part),
                question_scale=rounded_scale_down(step * question_part / questioned),
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
        instance = PureEvent(Kind.SPARSE_VECTOR, epsilon, sensitivity.neighbours)
        parts: list[tuple[Event, int]] = [(instance, self.positives if self.restarts else 1)]
        if self.answer_scale is not None:
            answers = LaplaceEvent(sensitivity.linf, self.answer_scale, sensitivity.neighbours)
            parts.append((answers, self.positives))
        return instance if parts == [(instance, 1)] else Together(tuple(parts))

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
        failing = failure(confidence)
        released = 0.0
        if self.answer_scale is not None:
            failing /= 2
            released = math.ceil(float(self.answer_scale) * math.log(self.positives / failing))
        thresholds = self.positives if self.restarts else 1
        asked = number_of(questions, argument="questions")
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


def _positives(positives: int) -> int:
    """Return after how many positives it halts."""
    return number_of(positives, argument="positives", upper=_MOST_POSITIVES)


def _textbook_scale(epsilon: Exact, sensitivity: Sensitivity, positives: int, delta: Exact | None) -> Fraction:
    """Return σ = 2cΔ/ε, or √(32·c·ln(1/δ))Δ/ε rounded up."""
    loss, told = epsilon_of(epsilon), _positives(positives)
    if delta is None:
        return 2 * told * sensitivity.linf / loss
    root = math.sqrt(32 * told * -math.log(delta_of(delta)))
    return rounded_scale_up(root * sensitivity.linf / float(loss))
