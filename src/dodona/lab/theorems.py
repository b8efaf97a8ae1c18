"""The accuracy theorems of the literature, in the form in which they hold.

Each function returns a bound on the error that holds with probability at least `confidence`, for noise on the reals.
The mechanisms' `accuracy` methods also account for the integer grid. Corrections are listed in docs/theory/errata.md.
"""

from __future__ import annotations

import math

from dodona.errors import InvalidArgument
from dodona.numbers import Exact
from dodona.privacy.accuracy import to_failure_probability, validate_count
from dodona.privacy.additive_noise import validate_noise_epsilon
from dodona.privacy.conversion import validate_noise_delta


def laplace_error(sensitivity: float, *, epsilon: Exact, confidence: float = 0.95, answers: int = 1) -> float:
    """Return ln(k/β)·Δ/ε: a bound on the largest error of k Laplace answers (theorem 3.8).

    The 10,000 first names at ε = 1: no count is off by more than 12.2, with probability 95%.

    >>> round(laplace_error(1, epsilon=1, answers=10_000), 1)
    12.2

    Theorem: laplace-accuracy
    """
    if not 0 < sensitivity < math.inf:
        raise InvalidArgument("sensitivity", sensitivity, "write how far one row moves the answers, above 0")
    logs = math.log(validate_count(answers, argument="answers") / to_failure_probability(confidence))
    return logs * sensitivity / float(validate_noise_epsilon(epsilon))


def noisy_max_error(scale: float, *, confidence: float, candidates: int) -> float:
    """Return b·(ln(1/β₁) + ln((K-1)/β₂)), β₁ = β₂ = β/2: how far below the best the noisy maximum may be.

    The best candidate's noise is above -b·ln(1/(2β₁)), and the other K - 1 are all below b·ln((K-1)/(2β₂)).

    Theorem: choice-accuracy
    """
    failing = to_failure_probability(confidence)
    others = max(validate_count(candidates, argument="candidates") - 1, 1)
    return scale * (math.log(1 / failing) + math.log(others / failing))


def above_threshold_error(*, epsilon: Exact, questions: int, confidence: float = 0.95) -> float:
    """Return α = 8(ln k + ln(2/β))/ε for AboveThreshold, if no question but the last is within α of it (theorem 3.24).

    Theorem: sparse-vector-accuracy
    """
    return sparse_error(epsilon=epsilon, delta=0, questions=questions, positives=1, confidence=confidence)


def sparse_error(*, epsilon: Exact, delta: Exact, questions: int, positives: int, confidence: float = 0.95) -> float:
    """Return α of Sparse, if at most c - 1 questions before the last are within α of the threshold (theorem 3.26).

    δ = 0: 8c(ln k + ln(2c/β))/ε. δ > 0: (ln k + ln(2c/β))·√(512·c·ln(1/δ))/ε.

    Theorem: sparse-vector-accuracy
    """
    logs = _logs(questions, 2 * validate_count(positives, argument="positives"), to_failure_probability(confidence))
    loss = float(validate_noise_epsilon(epsilon))
    if delta == 0:
        return 8 * positives * logs / loss
    return logs * math.sqrt(512 * positives * -math.log(validate_noise_delta(delta))) / loss


def numeric_sparse_error(
    *, epsilon: Exact, delta: Exact, questions: int, positives: int, confidence: float = 0.95
) -> float:
    """Return α of NumericSparse, if at most c - 1 questions before the last are within α of the threshold (3.28).

    δ = 0: 9c(ln k + ln(4c/β))/ε. δ > 0: max{ln k + ln(4c/β), √8·ln(2c/β)}·√(c·ln(2/δ))·(√512 + 1)/ε; the text has only
    the first term, which the noise of the released answers can exceed.

    Theorem: sparse-vector-accuracy
    """
    failing = to_failure_probability(confidence)
    logs = _logs(questions, 4 * validate_count(positives, argument="positives"), failing)
    loss = float(validate_noise_epsilon(epsilon))
    if delta == 0:
        return 9 * positives * logs / loss
    released = math.sqrt(8) * math.log(2 * positives / failing)
    spread = math.sqrt(positives * -math.log(validate_noise_delta(delta) / 2))
    return max(logs, released) * spread * (math.sqrt(512) + 1) / loss


def _logs(questions: int, parts: int, failing: float) -> float:
    """Return ln k + ln(parts/β)."""
    return math.log(validate_count(questions, argument="questions")) + math.log(parts / failing)


_MAX_DATABASE_ROWS = 10**9


def blr_guarantee(rows: int, *, universe: int, questions: int, epsilon: Exact, confidence: float = 0.95) -> float:
    """Return the error of the mechanism of Blum, Ligett and Roth: the exponential mechanism over tables of m rows.

    Some table is within a = √(ln(2k)/2m), and the choice is worse by at most (2/(nε))·(ln of the number of tables +
    ln(1/β)); m is optimised. Tables are multisets of cells. It is feasible only for the smallest universes.

    Theorem: synthetic-table
    """
    asked, cells = (
        validate_count(questions, argument="questions"),
        validate_count(universe, argument="universe", upper=1 << 500),
    )
    factor = 2 / (validate_count(rows, argument="rows") * float(validate_noise_epsilon(epsilon)))
    failing = to_failure_probability(confidence)

    def error(size: int) -> float:
        near = math.sqrt(math.log(2 * asked) / (2 * size)) * (1 + 1e-12)
        return near + factor * (log_multisets(cells, size) - math.log(failing))

    low, high = 1, _MAX_DATABASE_ROWS
    while high - low > 2:  # noqa: PLR2004  the error falls, and then rises
        third = (high - low) // 3
        low, high = (low + third, high) if error(low + third) > error(high - third) else (low, high - third)
    return min(error(size) for size in range(low, high + 1))


def blr_theorem(rows: int, *, universe: int, questions: int, epsilon: Exact, confidence: float = 0.95) -> float:
    """Return the error that the notes state: (256·ln k·ln|X|/(εn))^{1/3} + 8·ln(1/β)/(εn) (theorem 5).

    Theorem: synthetic-table
    """
    scale = float(validate_noise_epsilon(epsilon)) * validate_count(rows, argument="rows")
    both = math.log(validate_count(questions, argument="questions")) * math.log(universe)
    return math.cbrt(256 * both / scale) - 8 * math.log(to_failure_probability(confidence)) / scale


def log_multisets(cells: int, size: int) -> float:
    """Return the logarithm of the number of unordered tables with this many rows: C(|X| + m - 1, m).

    >>> round(math.exp(log_multisets(3, 2)))
    6
    """
    if cells > 10**6 * size:  # a product of m factors near |X|, rounded up: lgamma would lose the difference
        return size * math.log(cells + size) - math.lgamma(size + 1)
    return math.lgamma(cells + size) - math.lgamma(size + 1) - math.lgamma(cells)
