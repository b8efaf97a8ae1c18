"""Rows of the errata on the sparse vector: the printed statement fails, the right one holds."""

import math
from fractions import Fraction

import pytest

from dodona.lab.sparse_vector import above_threshold, numeric_sparse
from dodona.lab.theorems import above_threshold_error, numeric_sparse_error
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours
from tests.privacy import laws

GENERAL = Sensitivity.scores(1, Neighbours.REPLACE)


def test_row_15_the_shares_of_numeric_sparse_sum_to_the_whole() -> None:
    """ε₁ + ε₂ = 10ε/9 as letters, but σ(ε₂) = 9c/ε is the Laplace mechanism at ε/9."""
    epsilon, positives = Fraction(1), 4
    first, second = epsilon * 8 / 9, epsilon * 2 / 9
    assert first + second > epsilon
    scale = 2 * positives / second
    assert scale == 9 * positives / epsilon
    assert first + positives / scale == epsilon
    mechanism = numeric_sparse(epsilon, GENERAL, positives=positives)
    assert mechanism.answer_scale == scale
    assert mechanism.event(GENERAL).epsilon == epsilon


def test_row_18_the_released_answers_pass_the_printed_bound() -> None:
    """100 questions, c = 10, β = .05, (1, 10^-6), noise on the reals: .1701 instead of .05."""
    questions, positives, failing, delta = 100, 10, 0.05, 1e-6
    spread = math.sqrt(positives * math.log(2 / delta)) * (math.sqrt(512) + 1)
    printed = (math.log(questions) + math.log(4 * positives / failing)) * spread
    answers = math.sqrt(8) * spread  # the scale of the answers
    threshold = math.sqrt(32 * positives * math.log(2 / delta)) * (math.sqrt(512) + 1) / math.sqrt(512)

    def missed(alpha: float) -> float:
        """P(one of c Laplace answers is off by more than α)."""
        return 1 - (1 - math.exp(-alpha / answers)) ** positives

    def misjudged(alpha: float) -> float:
        """A bound on P(some verdict is off by more than α), half of it for the threshold."""
        return positives * math.exp(-alpha / 2 / threshold) + questions * math.exp(-alpha / 2 / (2 * threshold))

    assert missed(printed) == pytest.approx(0.1701, abs=5e-5)
    assert missed(printed) > failing
    mended = numeric_sparse_error(epsilon=1, delta=delta, questions=questions, positives=positives)
    assert mended > printed
    assert missed(mended) + misjudged(mended) <= failing
    mechanism = numeric_sparse(1, GENERAL, positives=positives, delta="1e-6")
    assert float(mechanism.answer_scale or 0) == pytest.approx(answers, rel=1e-5)
    assert float(mechanism.threshold_scale) == pytest.approx(threshold, rel=1e-5)
    assert mechanism.accuracy(questions=questions).within <= mended + 2
    # Without δ the printed line is right.
    pure = numeric_sparse_error(epsilon=1, delta=0, questions=questions, positives=positives)
    assert 1 - (1 - math.exp(-pure / (9 * positives))) ** positives <= failing / 2


def test_row_21_as_many_questions_above_as_positives_halt_it_early() -> None:
    """One positive, ten questions. The first above: it halts there. The last above: it is right."""
    mechanism = above_threshold(1, GENERAL)
    within = above_threshold_error(epsilon=1, questions=10)
    far = math.ceil(within) + 2

    def is_right(answers: list[int]) -> float:
        """P(no halt before the last question, and every verdict right to α)."""
        law = laws.sparse_law(mechanism, answers, [0] * 10, gaps=0)
        wanted = tuple("below" if answer < 0 else 0 for answer in answers)
        return law.get(wanted, 0.0)

    first = [far] + [-far] * 9
    last = [-far] * 9 + [far]
    assert sum(answer >= -within for answer in first) <= 1  # the printed condition holds for both
    assert is_right(first) < 1e-3
    assert sum(answer >= -within for answer in last[:-1]) == 0  # the right one holds for the second alone
    assert is_right(last) >= 0.95
