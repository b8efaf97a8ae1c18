"""Rows of the errata on choosing a small database: the printed statement fails, the right one holds."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from dodona.synth.blr import database_error, sufficient_rows

WITHIN = 0.2
CELLS = 8
TABLE = 10_000


def misses(epsilon: float, rows: int) -> float:
    """P(some subset of the cells is off by more than .2), for a table in one cell and a database of so many rows.

    The largest error over all subsets is the share of rows in other cells. Of the ordered databases, those with r rows
    in the cell weigh C(m, r)·7^(m-r)·e^{-εn(1 - r/m)/2}: a binomial law with odds e^{εn/2m} to 7.
    """
    odds = math.exp(min(epsilon * TABLE / (2 * rows), 700)) / (CELLS - 1)
    needed = math.ceil((1 - WITHIN) * rows)
    return float(binom(rows, odds / (1 + odds)).cdf(needed - 1))


def test_row_37_what_a_database_costs_holds_the_logarithms_of_questions_and_cells() -> None:
    printed = 10 / (WITHIN * TABLE)  # ten times 1/(αn), without the logarithms
    assert misses(printed, 30) > 0.999999
    # Theorem 5 with its logarithms: at the price it names, errors past α are rarer than it says.
    failing, questions = 0.05, 2**CELLS
    rows = sufficient_rows(questions, 0.14)
    near = math.sqrt(math.log(2 * questions) / (2 * rows))
    epsilon = 2 * (rows * math.log(CELLS) - math.log(failing)) / (TABLE * (WITHIN - near))
    error = database_error(TABLE, universe=CELLS, questions=questions, rows=rows, epsilon=epsilon)
    assert error == pytest.approx(WITHIN, rel=1e-9)
    assert epsilon > 100 * printed
    assert misses(epsilon, rows) <= failing


def test_row_46_one_question_needs_a_row_and_many_need_fewer_than_printed() -> None:
    for within in (0.5, 0.1):
        assert 8 * math.log(1) / within**2 == 0  # as printed, for one question: no row at all
        assert sufficient_rows(1, within) >= 1
        for questions in (2, 10, 10**6):
            assert sufficient_rows(questions, within) < 8 * math.log(questions) / within**2
            assert 2 * questions * math.exp(-2 * sufficient_rows(questions, within) * within**2) < 1


def test_row_46_the_two_scores_of_the_ratio_belong_to_two_tables() -> None:
    """With s(D, r) twice the exponents cancel, and the ratio would be that of the sums alone."""
    here, there, epsilon = np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0]), 1.0
    weights, others = np.exp(epsilon * here / 2), np.exp(epsilon * there / 2)
    ratio = (weights / weights.sum()) / (others / others.sum())
    sums = others.sum() / weights.sum()
    assert ratio == pytest.approx(sums * np.exp(epsilon * (here - there) / 2))
    assert np.abs(ratio / sums - 1).max() > 0.3
    assert np.abs(np.log(ratio)).max() <= epsilon
