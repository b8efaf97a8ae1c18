"""The accuracy theorems of the texts, in the form in which they hold (docs/theory/errata.md says what was mended).

Every function returns an error that is not exceeded with probability at least `confidence`, for noise on the reals. On
the integers a draw may be one step further off; the mechanisms' own `accuracy` counts that.
"""

from __future__ import annotations

import math

from dodona.accuracy import failure, number_of
from dodona.errors import InvalidArgument
from dodona.exact import Exact
from dodona.mechanisms.scale import delta_of, epsilon_of


def laplace_error(sensitivity: float, *, epsilon: Exact, confidence: float = 0.95, answers: int = 1) -> float:
    """Return ln(k/β)·Δ/ε: the largest error of k Laplace answers (theorem 3.8).

    The 10,000 first names at ε = 1: no count is off by more than 12.2, with probability 95%.

    >>> round(laplace_error(1, epsilon=1, answers=10_000), 1)
    12.2

    Theorem: laplace-accuracy
    """
    if not 0 < sensitivity < math.inf:
        raise InvalidArgument("sensitivity", sensitivity, "write how far one row moves the answers, above 0")
    logs = math.log(number_of(answers, argument="answers") / failure(confidence))
    return logs * sensitivity / float(epsilon_of(epsilon))


def exponential_error(scale: float, *, confidence: float, candidates: int, best: int = 1) -> float:
    """Return scale·(ln(|R|/|R_opt|) + ln(1/β)): how far below the best a choice may be (3.11, corollary 3.12).

    For general scores the scale is 2Δ/ε.

    Theorem: choice-accuracy
    """
    among = number_of(candidates, argument="candidates")
    leaders = number_of(best, argument="best", upper=among)
    return scale * (math.log(among / leaders) - math.log(failure(confidence)))


def noisy_max_error(scale: float, *, confidence: float, candidates: int) -> float:
    """Return b·(ln(1/β₁) + ln((K-1)/β₂)), β₁ = β₂ = β/2: how far below the best the noisy maximum may be.

    The best candidate's noise is above -b·ln(1/(2β₁)), and the other K - 1 are all below b·ln((K-1)/(2β₂)).

    Theorem: choice-accuracy
    """
    failing = failure(confidence)
    others = max(number_of(candidates, argument="candidates") - 1, 1)
    return scale * (math.log(1 / failing) + math.log(others / failing))


def above_threshold_error(*, epsilon: Exact, questions: int, confidence: float = 0.95) -> float:
    """Return 8(ln k + ln(2/β))/ε for AboveThreshold, if no question but the last comes within it (theorem 3.24).

    Theorem: sparse-vector-accuracy
    """
    return sparse_error(epsilon=epsilon, delta=0, questions=questions, positives=1, confidence=confidence)


def sparse_error(*, epsilon: Exact, delta: Exact, questions: int, positives: int, confidence: float = 0.95) -> float:
    """Return α of Sparse, if at most c - 1 questions before the last come within α of the threshold (theorem 3.26).

    δ = 0: 8c(ln k + ln(2c/β))/ε. δ > 0: (ln k + ln(2c/β))·√(512·c·ln(1/δ))/ε.

    Theorem: sparse-vector-accuracy
    """
    logs = _logs(questions, 2 * number_of(positives, argument="positives"), failure(confidence))
    loss = float(epsilon_of(epsilon))
    if delta == 0:
        return 8 * positives * logs / loss
    return logs * math.sqrt(512 * positives * -math.log(delta_of(delta))) / loss


def numeric_sparse_error(
    *, epsilon: Exact, delta: Exact, questions: int, positives: int, confidence: float = 0.95
) -> float:
    """Return α of NumericSparse, if at most c - 1 questions before the last come within α of the threshold (3.28).

    δ = 0: 9c(ln k + ln(4c/β))/ε. δ > 0: max{ln k + ln(4c/β), √8·ln(2c/β)}·√(c·ln(2/δ))·(√512 + 1)/ε, where the text has
    only the first term, which the released answers' own noise passes.

    Theorem: sparse-vector-accuracy
    """
    failing = failure(confidence)
    logs = _logs(questions, 4 * number_of(positives, argument="positives"), failing)
    loss = float(epsilon_of(epsilon))
    if delta == 0:
        return 9 * positives * logs / loss
    released = math.sqrt(8) * math.log(2 * positives / failing)
    return max(logs, released) * math.sqrt(positives * -math.log(delta_of(delta) / 2)) * (math.sqrt(512) + 1) / loss


def _logs(questions: int, parts: int, failing: float) -> float:
    """Return ln k + ln(parts/β)."""
    return math.log(number_of(questions, argument="questions")) + math.log(parts / failing)
