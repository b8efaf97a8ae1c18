"""The sparse vector technique, and the estimate checker built on it.

A run is charged in full when it starts; only the number of positives is limited. The checker compares estimates with
the truth and returns a fresh noisy answer if an estimate is far off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol, Self, final

from dodona.errors import Halted, InvalidArgument
from dodona.numbers import Exact
from dodona.privacy.accuracy import Accuracy, to_failure_probability, validate_count, validate_table_target
from dodona.privacy.additive_noise import Noise, round_scale_down, validate_noise_epsilon, validate_scale
from dodona.privacy.events import ComposedEvent, Event, LaplaceEvent, PureEvent, PureMechanism
from dodona.query.sensitivity import Sensitivity, row_count_sensitivity, score_sensitivity
from dodona.schema.schema import Unit

# --- The sparse vector technique: which of many questions are above a threshold, paying only for the positives. ---


_MOST_POSITIVES = 10**6


@dataclass(frozen=True, slots=True, init=False)
class SparseVector:
    """Noise on the threshold, drawn once or after each positive, and on each question; halts after the last positive.

    A positive also releases the gap between noisy value and noisy threshold, at no extra cost. With `answer_scale` it
    also releases the value with fresh noise, charged separately. Each question may have its own threshold.

    Theorem: sparse-vector-privacy
    """

    theorem: ClassVar[str] = "sparse-vector-privacy"
    threshold_scale: Fraction
    question_scale: Fraction
    positives: int
    restarts: bool
    """Whether the threshold's noise is redrawn, and charged again, after each positive."""
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
        """Validate exact scales from 1/1000 to 10^12 and the number of positives before halting."""
        object.__setattr__(self, "threshold_scale", validate_scale(threshold_scale))
        object.__setattr__(self, "question_scale", validate_scale(question_scale))
        object.__setattr__(self, "positives", validate_positives(positives))
        if not isinstance(restarts, bool):
            raise InvalidArgument("restarts", restarts, "write True or False")
        object.__setattr__(self, "restarts", restarts)
        object.__setattr__(self, "answer_scale", None if answer_scale is None else validate_scale(answer_scale))

    @classmethod
    def for_privacy(
        cls, epsilon: Exact, sensitivity: Sensitivity, *, questions: int, positives: int = 1, confidence: float = 0.95
    ) -> Self:
        """Return the most accurate mechanism for a total pure ε: one threshold, split ε₁ : ε₂ = √B : √A.

        A = 2c·ln(k/β₁), halved if answers are monotone, B = ln(1/β₂), β₁ = β₂ = β/2. The error is
        (√A + √B)²Δ/ε.

        Theorem: sparse-vector-accuracy
        """
        failing = to_failure_probability(confidence) / 2
        sides = _sides(sensitivity)
        count = validate_positives(positives)
        threshold_part = math.sqrt(math.log(1 / failing))
        question_part = math.sqrt(sides * count * math.log(validate_count(questions, argument="questions") / failing))
        # Any rational split will do, as long as the parts sum to exactly ε.
        share = Fraction(threshold_part / (threshold_part + question_part)).limit_denominator(10**5)
        loss = validate_noise_epsilon(epsilon)
        return cls(
            threshold_scale=sensitivity.linf / (loss * share),
            question_scale=sides * count * sensitivity.linf / (loss * (1 - share)),
            positives=count,
            restarts=False,
        )

    @classmethod
    def for_accuracy(
        cls, target: Accuracy, sensitivity: Sensitivity, *, questions: int, positives: int = 1
    ) -> SparseVector:
        """Return the mechanism with the lowest zCDP price that meets the target: one threshold, or restarts.

        Restarts (ε each) split by A = 2·ln(k/β₁), B = ln(c/β₂).
        """
        room = validate_table_target(target).within - 2  # on the grid, either draw may exceed its bound by one step
        if room <= 0:
            raise InvalidArgument("within", target.within, "write more than 2 steps of the grid")
        failing = to_failure_probability(target.confidence) / 2
        questioned = math.log(validate_count(questions, argument="questions") / failing)
        count = validate_positives(positives)

        def split(restarts: bool, stretch: float) -> SparseVector:  # noqa: FBT001  a field of what is returned
            thresholds, spread = (count, 1) if restarts else (1, count)
            threshold_part = math.sqrt(math.log(thresholds / failing))
            question_part = math.sqrt(_sides(sensitivity) * spread * questioned)
            # The errors b₁·ln(c/β₂) and b₂·ln(k/β₁) share the tolerance in the ratio √B : √A.
            step = stretch * room / (threshold_part + question_part)
            return SparseVector(
                threshold_scale=round_scale_down(step / threshold_part),
                question_scale=round_scale_down(step * question_part / questioned),
                positives=count,
                restarts=restarts,
            )

        mechanisms: list[SparseVector] = []
        for restarts in (False, True):
            # β need not be split evenly: noise is increased until the error reaches the tolerance.
            low, high = 1.0, 2.0
            while high - low > 1e-4:  # noqa: PLR2004  a gain below a ten-thousandth is not worth the search
                middle = (low + high) / 2
                met = split(restarts, middle).accuracy(target.confidence, questions=questions).within <= target.within
                low, high = (middle, high) if met else (low, middle)
            mechanisms.append(split(restarts, low))
        return min(mechanisms, key=lambda mechanism: mechanism.event(sensitivity).rho())

    def event(self, sensitivity: Sensitivity) -> Event:
        """Return the event of the whole run, charged when it is opened, regardless of the number of questions."""
        sides = _sides(sensitivity) * (1 if self.restarts else self.positives)
        epsilon = sensitivity.linf / self.threshold_scale + sides * sensitivity.linf / self.question_scale
        instance = PureEvent(PureMechanism.SPARSE_VECTOR, epsilon, sensitivity.neighbours)
        parts: list[tuple[Event, int]] = [(instance, self.positives if self.restarts else 1)]
        if self.answer_scale is not None:
            answers = LaplaceEvent(sensitivity.linf, self.answer_scale, sensitivity.neighbours)
            parts.append((answers, self.positives))
        return instance if parts == [(instance, 1)] else ComposedEvent(tuple(parts))

    def alerts_left(self, sensitivity: Sensitivity, *, armed: int, thresholds: int, kept: bool) -> int:
        """Return how many more positives the price covers, given the armings and threshold draws so far.

        `kept` is whether the current threshold noise is still in memory. If it was lost, for example when the process
        restarted, it must be redrawn, which is paid for by giving up positives.

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

        It halts before the last question only if at least `positives` earlier questions are above T - α.

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
    """Return the sum of both errors, each rounded up to the grid: for discrete Laplace, P(|x| > ⌈b·ln(1/β)⌉) ≤ β."""
    return math.ceil(float(mechanism.threshold_scale) * math.log(thresholds)) + math.ceil(
        float(mechanism.question_scale) * math.log(questions)
    )


def _sides(sensitivity: Sensitivity) -> int:
    """Return the factor of the questions' sensitivity: 1 if answers are monotone, else 2."""
    return 1 if sensitivity.monotone else 2


def validate_positives(positives: int) -> int:
    """Return the validated number of positives before halting."""
    return validate_count(positives, argument="positives", upper=_MOST_POSITIVES)


# --- The estimate checker: whether an estimate is far from the truth, with a fresh answer if it is. ---


class ThresholdVerdict(Protocol):
    """The released verdict of one threshold test."""

    @property
    def above(self) -> bool:
        """Whether the noisy value is at or above the noisy threshold."""


class ThresholdTest(Protocol):
    """An open sparse vector."""

    @property
    def positives_left(self) -> int:
        """The number of positives left before it halts."""

    def ask(self, value: int, threshold: int) -> ThresholdVerdict:
        """Return whether the noisy value is at or above the noisy threshold."""


@final
@dataclass(frozen=True, slots=True)
class EstimateChecker:
    """AboveThreshold on |count - estimate|, restarted after each positive; every positive but the last gets an answer.

    The answer has fresh noise: releasing the compared value would be a broken variant (Lyu, Su and Li 2017,
    algorithm 3). It halts after the last positive, which the proof needs: nothing else bounds the loss.

    Theorem: private-multiplicative-weights
    """

    theorem: ClassVar[str] = "private-multiplicative-weights"
    test: SparseVector
    answer: Noise
    threshold: int
    """In rows: estimates that appear to be at least this far off get a fresh answer."""

    def __post_init__(self) -> None:
        """Refuse a test without restarts, or one that releases more than the verdict."""
        if not self.test.restarts or self.test.answer_scale is not None:
            raise InvalidArgument("test", self.test, "write a sparse vector that restarts and tells no answers")
        if type(self.threshold) is not int or self.threshold < 1:
            raise InvalidArgument("threshold", self.threshold, "write a whole number of rows from 1 up")

    @property
    def updates(self) -> int:
        """The number of fresh answers before it halts."""
        return self.test.positives - 1

    def event(self, unit: Unit) -> Event:
        """Return the event of the whole run, charged when it is opened, regardless of the number of estimates.

        A distance can move in both directions with a count, so there is no discount for monotone answers.
        """
        tests = self.test.event(score_sensitivity(unit))
        parts = tests.parts if isinstance(tests, ComposedEvent) else ((tests, 1),)
        if self.updates:
            parts = (*parts, (self.answer.event(row_count_sensitivity(unit)), self.updates))
        return ComposedEvent(parts)

    def fresh(self, count: int, estimate: int, *, watch: ThresholdTest, draw: Callable[[Noise], int]) -> int | None:
        """Return a fresh noisy count if the estimate seems far off, else None; raises Halted at the last positive.

        `watch` is an open instance of `test`, and `draw` draws one value of a noise.
        """
        far = watch.ask(abs(count - estimate), self.threshold).above
        if far and watch.positives_left == 0:
            raise Halted(self.test.positives)
        return count + draw(self.answer) if far else None
