"""The designs of the lecture notes: their constants, their claims, their rates."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dodona.errors import InvalidArgument
from dodona.lab.mechanisms import SparseVector
from dodona.lab.weights import cube_root, interactive_design, interactive_epsilon, laplace_bound, square_root
from dodona.privacy.conversion import zcdp_limit
from dodona.schema.schema import Neighbours, Unit
from tests.privacy import laws

ROWS, UNIVERSE, QUESTIONS, ALPHA = 10**6, 2**10, 10**3, 0.1


def test_the_constants_are_those_of_the_notes():
    design = interactive_design(ALPHA, rows=ROWS, universe=UNIVERSE, questions=QUESTIONS)
    noise = ALPHA / (2 * math.log(QUESTIONS)) * ROWS
    assert design.checker.test.question_scale == pytest.approx(noise, rel=1e-6)
    assert design.checker.test.threshold_scale == pytest.approx(noise / 2, rel=1e-6)
    assert design.checker.answer.scale == pytest.approx(noise, rel=1e-6)
    assert design.checker.threshold == pytest.approx(3 * ALPHA * ROWS, abs=2)
    assert design.step == ALPHA
    assert design.updates == math.floor(math.log(UNIVERSE) / ALPHA**2) == 693
    assert design.within == pytest.approx(4 * ALPHA, abs=3 / ROWS)
    assert design.confidence >= 1 - 1 / math.sqrt(QUESTIONS)


@pytest.mark.parametrize("alpha", [0.2, 0.3])
@pytest.mark.parametrize("questions", [2, 5])
def test_each_of_the_three_events_of_claim_1_is_as_rare_as_it_says(alpha, questions):
    """Exact laws of one check of 100 rows, at the worst counts that each event allows."""
    rows = 100
    design = interactive_design(alpha, rows=rows, universe=4, questions=questions)
    checker = design.checker
    alone = SparseVector(
        threshold_scale=checker.test.threshold_scale, question_scale=checker.test.question_scale, positives=1
    )
    bound = math.exp(-alpha * rows / float(checker.test.question_scale))
    assert bound == pytest.approx(1 / questions**2, rel=1e-4)
    content = math.floor(2 * alpha * rows)
    # 1. "Far" although the exact checker, at 2α, is content; its worst is a distance of 2α.
    law = laws.sparse_law(alone, [content], [checker.threshold], gaps=0)
    assert law[0,] <= 4 / 3 * bound
    assert law[0,] >= bound / 8
    # 2 and 3. "Far", and towards the wrong side: the fresh answer passes the estimate, which is more than 2α off.
    scale = float(checker.answer.scale)
    too_low = float(laws.laplace_below(np.float64(-content - 1), scale))
    too_high = float(laws.laplace_above(np.float64(content), scale))
    for wrong in (too_low, too_high):
        assert bound**2 / 4 <= wrong <= bound**2 / 2 * math.exp(1 / scale)


def test_the_interactive_mechanism_costs_what_theorem_2_says():
    price = interactive_epsilon(ALPHA, rows=ROWS, universe=UNIVERSE, questions=QUESTIONS)
    formula = (5 * 693 + 4) * 2 * math.log(QUESTIONS) / (ALPHA * ROWS)
    assert float(price) == pytest.approx(formula, rel=1e-6)
    order = math.log(UNIVERSE) * math.log(QUESTIONS) / (ALPHA**3 * ROWS)
    assert float(price) == pytest.approx(10 * order, rel=0.01)
    finer = interactive_epsilon(ALPHA / 2, rows=8 * ROWS, universe=UNIVERSE, questions=QUESTIONS)
    assert float(finer) == pytest.approx(float(price), rel=0.01)  # α falls as n^{-1/3} at one price


def test_the_error_falls_as_the_cube_root_and_as_the_square_root():
    pure = [cube_root(rows, universe=UNIVERSE, questions=QUESTIONS, epsilon=1).within for rows in (10**5, 10**8)]
    assert pure[0] / pure[1] == pytest.approx(10, rel=0.01)
    both = [
        square_root(rows, universe=UNIVERSE, questions=QUESTIONS, epsilon=1, delta="1e-6").within
        for rows in (10**5, 10**7)
    ]
    assert both[0] / both[1] == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize("rows", [10**4, 10**6])
@pytest.mark.parametrize("epsilon", [1, 1000])
def test_the_threshold_is_above_both_bounds(rows, epsilon):
    pure = cube_root(rows, universe=UNIVERSE, questions=QUESTIONS, epsilon=epsilon)
    for design in (pure, square_root(rows, universe=UNIVERSE, questions=QUESTIONS, epsilon=epsilon, delta="1e-6")):
        threshold, scale = design.checker.threshold / rows, float(design.checker.test.question_scale) / rows
        assert threshold >= 4 * design.step
        assert threshold >= 2 * scale * math.log(QUESTIONS / 0.05)
        assert design.within <= 1.5 * threshold
    assert pure.step == pytest.approx((math.log(UNIVERSE) / rows) ** (1 / 3))


def test_designs_of_the_notes_are_within_their_price():
    for rows in (10**4, 10**6):
        pure = cube_root(rows, universe=UNIVERSE, questions=QUESTIONS, epsilon=1).event(
            Unit.each_row(Neighbours.REPLACE)
        )
        assert pure.epsilon is not None
        assert 0.999 < pure.epsilon <= 1
        both = square_root(rows, universe=UNIVERSE, questions=QUESTIONS, epsilon=1, delta="1e-6")
        share = both.event(Unit.each_row(Neighbours.REPLACE)).rho() / zcdp_limit(Fraction(1), Fraction(1, 10**6))
        assert 0.9 < share <= 1


def test_a_bound_on_laplace_answers_is_the_least():
    for scale in (Fraction(1, 2), Fraction(7), Fraction(1000)):
        for answers in (1, 50):
            bound = laplace_bound(scale, answers=answers, failing=0.05)
            ratio = math.exp(-1 / float(scale))
            tails = [answers * 2 * ratio ** (m + 1) / (1 + ratio) for m in (bound, bound - 1)]
            assert tails[0] <= 0.05 * (1 + 1e-12)
            assert bound == 0 or tails[1] > 0.05


@pytest.mark.parametrize("wrong", [{"alpha": 0}, {"alpha": 1}, {"questions": 1}, {"universe": 0}], ids=str)
def test_what_is_no_design_of_the_notes_is_refused(wrong):
    asked = {"alpha": 0.1, "rows": 1000, "universe": 16, "questions": 10} | wrong
    with pytest.raises(InvalidArgument):
        interactive_design(asked.pop("alpha"), **asked)


def test_the_pure_design_takes_no_delta():
    with pytest.raises(InvalidArgument, match="delta"):
        cube_root(1000, universe=16, questions=10, epsilon=1, delta="1e-6")
