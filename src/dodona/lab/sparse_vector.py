"""The sparse vector technique and the three-way checker as the textbook and the lecture notes have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from dodona.errors import Halted
from dodona.numbers import Exact, to_fraction
from dodona.privacy.additive_noise import (
    Noise,
    round_scale_up,
    validate_noise_epsilon,
)
from dodona.privacy.conversion import validate_noise_delta
from dodona.privacy.sparse_vector import EstimateChecker, SparseVector, ThresholdTest, validate_positives
from dodona.query.sensitivity import Sensitivity


def _textbook_scale(epsilon: Exact, sensitivity: Sensitivity, positives: int, delta: Exact | None) -> Fraction:
    """Return σ = 2cΔ/ε, or √(32·c·ln(1/δ))Δ/ε rounded up."""
    loss, count = validate_noise_epsilon(epsilon), validate_positives(positives)
    if delta is None:
        return 2 * count * sensitivity.linf / loss
    root = math.sqrt(32 * count * -math.log(validate_noise_delta(delta)))
    return round_scale_up(root * sensitivity.linf / float(loss))


class EstimateVerdict(Enum):
    """The verdict of a three-way checker on an estimate."""

    CORRECT = "correct"
    TOO_HIGH = "too high"
    TOO_LOW = "too low"


def exact_verdict(count: int, estimate: int, *, tolerance: int) -> EstimateVerdict:
    """Return the exact checker E(x) of the notes: correct within the tolerance (their 2α·n), else too high or too low.

    It uses the exact count, so it is not private: it is the reference for noisy verdicts.

    >>> exact_verdict(1_000, 1_300, tolerance=200)
    <EstimateVerdict.TOO_HIGH: 'too high'>
    """
    if estimate - count > tolerance:
        return EstimateVerdict.TOO_HIGH
    return EstimateVerdict.TOO_LOW if count - estimate > tolerance else EstimateVerdict.CORRECT


@dataclass(frozen=True, slots=True)
class WrongVerdicts:
    """Probabilities that a noisy checker at 3α disagrees with the exact one at 2α, for the three cases of claim 1."""

    incorrect: float
    """Too high or too low, although the exact checker says correct."""
    too_high: float
    """Too high, although the exact checker says too low."""
    too_low: float
    """Too low, although the exact checker says too high."""


def claim_one(alpha: Exact, *, epsilon: Exact) -> WrongVerdicts:
    """Return claim 1 of the notes, for Laplace noise of scale εn on a count of n rows and a noiseless threshold.

    e^{-α/ε} for a false alarm, and ½·e^{-5α/ε} for each verdict on the wrong side: the noise must then exceed 5αn. The
    bounds hold on the reals; on integers each is at most e^{1/(εn)} times as large.

    >>> round(claim_one("0.1", epsilon="0.02").incorrect, 6)
    0.006738

    Theorem: interactive-mechanism
    """
    tolerance = to_fraction(alpha, argument="alpha", lower=Fraction(0), upper=Fraction(1))
    scale = to_fraction(epsilon, argument="epsilon", lower=Fraction(1, 10**12), upper=Fraction(10**6))
    ratio = float(tolerance / scale)
    opposite = math.exp(-5 * ratio) / 2
    return WrongVerdicts(math.exp(-ratio), opposite, opposite)


def judge(
    checker: EstimateChecker,
    count: int,
    estimate: int,
    *,
    watch: ThresholdTest,
    draw: Callable[[Noise], int],
) -> tuple[EstimateVerdict, int | None]:
    """Return the side on which an estimate appears far off, and a fresh answer; raises Halted at the last positive.

    Each side is a separate question to the same watch, so the side costs nothing extra: negatives are free. The
    verdict and the fresh answer have independent noise, so the answer may lie on the other side of the estimate.

    Theorem: private-multiplicative-weights
    """
    for side, distance in (
        (EstimateVerdict.TOO_HIGH, estimate - count),
        (EstimateVerdict.TOO_LOW, count - estimate),
    ):
        if watch.ask(distance, checker.threshold).above:
            if watch.positives_left == 0:
                raise Halted(checker.test.positives)
            return side, count + draw(checker.answer)
    return EstimateVerdict.CORRECT, None


# --- The textbook's sparse vectors. ---


def above_threshold(epsilon: Exact, sensitivity: Sensitivity) -> SparseVector:
    """Return the textbook AboveThreshold: Lap(2Δ/ε) on the threshold, Lap(4Δ/ε) on each question."""
    return sparse(epsilon, sensitivity, positives=1)


def sparse(epsilon: Exact, sensitivity: Sensitivity, *, positives: int, delta: Exact | None = None) -> SparseVector:
    """Return the textbook Sparse: c runs of AboveThreshold, each at ε/c or at ε/√(8c·ln(1/δ))."""
    scale = _textbook_scale(epsilon, sensitivity, positives, delta)
    return SparseVector(threshold_scale=scale, question_scale=2 * scale, positives=positives)


def numeric_sparse(
    epsilon: Exact, sensitivity: Sensitivity, *, positives: int, delta: Exact | None = None
) -> SparseVector:
    """Return the textbook NumericSparse: 8/9 of ε for Sparse and 1/9 for answers; with δ, in the ratio √512 : 1."""
    loss = validate_noise_epsilon(epsilon)
    if delta is None:
        mechanism = sparse(loss * 8 / 9, sensitivity, positives=positives)
        answer = mechanism.positives * sensitivity.linf * 9 / loss
    else:
        parts = math.isqrt(512 * 10**12) + 1  # √512 in millionths, rounded up, so that the sum stays below ε
        half = validate_noise_delta(delta) / 2
        mechanism = sparse(loss * (parts - 1) / (parts + 10**6), sensitivity, positives=positives, delta=half)
        # σ(ε₂) = √(32·c·ln(2/δ))/ε₂, ε₂ = 2ε/(√512 + 1).
        answer = 2 * _textbook_scale(loss * 10**6 / (parts + 10**6), sensitivity, positives, half) / 4
    return SparseVector(
        threshold_scale=mechanism.threshold_scale,
        question_scale=mechanism.question_scale,
        positives=positives,
        answer_scale=answer,
    )
