"""The sparse vector technique: which of many questions are above a threshold, paying only for those that are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dodona.accounting.event import Event, Kind, LaplaceEvent, PureEvent, Together
from dodona.accuracy import Accuracy, answers_of, failure
from dodona.errors import InvalidArgument
from dodona.exact import Exact, whole
from dodona.mechanisms.scale import delta_of, epsilon_of, rounded_scale_up, scale_of
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
        object.__setattr__(self, "positives", whole(positives, argument="positives", lower=1, upper=_MOST_POSITIVES))
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
            answer = positives * sensitivity.linf * 9 / loss
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
        threshold_part = math.sqrt(math.log(1 / failing))
        question_part = math.sqrt(sides * positives * math.log(answers_of(questions) / failing))
        # The split may be any fraction; what matters is that the parts sum to ε exactly.
        share = Fraction(threshold_part / (threshold_part + question_part)).limit_denominator(1000)
        loss = epsilon_of(epsilon)
        return cls(
            threshold_scale=sensitivity.linf / (loss * share),
            question_scale=sides * positives * sensitivity.linf / (loss * (1 - share)),
            positives=positives,
            restarts=False,
        )

    @classmethod
    def for_accuracy(cls, target: Accuracy, sensitivity: Sensitivity, *, questions: int, positives: int = 1) -> Self:
        """Return the one with the smallest zCDP price that is within the target: one threshold, or restarts.

        Restarts (ε each) split by A = 2·ln(k/β₁), B = ln(c/β₂).
        """
        room = target.within - 2  # each of two draws on the grid may be a step beyond its real-valued bound
        if room <= 0:
            raise InvalidArgument("within", target.within, "write more than 2 steps of the grid")
        failing = failure(target.confidence) / 2
        questioned = math.log(answers_of(questions) / failing)
        found = []
        for restarts in (False, True):
            thresholds, spread = (positives, 1) if restarts else (1, positives)
            threshold_part = math.sqrt(math.log(thresholds / failing))
            question_part = math.sqrt(_sides(sensitivity) * spread * questioned)
            whole = threshold_part + question_part
            # Errors b₁·ln(c/β₂) and b₂·ln(k/β₁) take the room in the proportion √B : √A.
            found.append(
                cls(
                    threshold_scale=_floored(room * threshold_part / whole / threshold_part**2),
                    question_scale=_floored(room * question_part / whole / questioned),
                    positives=positives,
                    restarts=restarts,
                )
            )
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

    def accuracy(self, confidence: float = 0.95, *, questions: int) -> Accuracy:
        """Return α: positives are above T - α, negatives below T + α, numeric answers within α.

        This is if it does not halt early, and it does not if fewer than `positives` questions before the last come
        within α of their threshold.

        Theorem: sparse-vector-accuracy
        """
        failing = failure(confidence)
        released = 0.0
        if self.answer_scale is not None:
            failing /= 2
            released = math.ceil(float(self.answer_scale) * math.log(self.positives / failing))
        thresholds = self.positives if self.restarts else 1
        verdicts = min(
            _error(self, thresholds / (failing * share), answers_of(questions) / (failing * (1 - share)))
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


def _floored(scale: float) -> Fraction:
    """Return the scale to four decimals, rounded down: less noise than the target allows."""
    return Fraction(math.floor(scale * 10**4), 10**4)


def _textbook_scale(epsilon: Exact, sensitivity: Sensitivity, positives: int, delta: Exact | None) -> Fraction:
    """Return σ = 2cΔ/ε, or √(32·c·ln(1/δ))Δ/ε rounded up."""
    loss = epsilon_of(epsilon)
    if delta is None:
        return 2 * positives * sensitivity.linf / loss
    root = math.sqrt(32 * positives * -math.log(delta_of(delta)))
    return rounded_scale_up(root * sensitivity.linf / float(loss))
