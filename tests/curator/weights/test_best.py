"""The best design: what it promises, and that it is within its price."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.pmw import KNOWN
from dodona.curator.weights_design import best_design, guarantee, verdict_error_bound, verdict_failure_probability
from dodona.errors import InvalidArgument
from dodona.lab.conversion import zcdp_epsilon
from dodona.lab.mechanisms import Gaussian, Laplace, SparseVector
from dodona.lab.weights import sharp_updates
from dodona.privacy.conversion import zcdp_limit
from dodona.privacy.events import ComposedEvent, GaussianEvent, PureEvent
from dodona.privacy.sparse_vector import EstimateChecker
from dodona.schema.schema import Neighbours, Unit
from tests.privacy import laws

CELLS = [  # the known guarantees at (1, 1e-6) for universes of 2^10, 2^20 and 2^40 cells; none is above 1
    (rows, questions, 2**bits, known)
    for (rows, questions), row in KNOWN.items()
    for bits, known in zip((10, 20, 40), row, strict=True)
]


@pytest.mark.parametrize(("rows", "questions", "universe", "known"), CELLS)
def test_no_guarantee_is_above_the_known_table(rows, questions, universe, known):
    bound = guarantee(rows, universe=universe, questions=questions, epsilon=1, delta="1e-6")
    assert bound <= 0.96 * known


@pytest.mark.parametrize(("rows", "questions", "universe", "known"), CELLS[::4])
def test_a_design_is_within_its_price_and_spends_nearly_all_of_it(rows, questions, universe, known):
    del known
    design = best_design(rows, universe=universe, questions=questions, epsilon=1, delta="1e-6")
    event = design.event(Unit.each_row(Neighbours.REPLACE))
    assert isinstance(event, ComposedEvent)
    (test, tests), (answer, answers) = event.parts
    assert isinstance(test, PureEvent)
    assert isinstance(answer, GaussianEvent)
    assert (tests, answers) == (design.updates + 1, design.updates)
    rho = float(event.rho())
    formula = tests * float(test.epsilon) * math.tanh(float(test.epsilon) / 2) + answers / (2 * float(answer.variance))
    assert rho == pytest.approx(formula, rel=1e-9)
    assert 0.999 < rho / float(zcdp_limit(Fraction(1), Fraction(1, 10**6))) <= 1
    assert zcdp_epsilon(str(event.rho()), delta="1e-6") <= 1 + 1e-6


@pytest.mark.parametrize(("rows", "questions", "universe", "known"), CELLS[::4])
def test_the_numbers_of_a_design_fit_together(rows, questions, universe, known):
    del known
    design = best_design(rows, universe=universe, questions=questions, epsilon=1, delta="1e-6")
    failing = 1 - design.confidence
    off = round(design.within * rows) - design.checker.threshold
    gap = (design.checker.threshold - off - 1) / rows
    assert design.step == pytest.approx(4 * gap)
    assert design.updates >= min(questions, sharp_updates(universe=universe, gap=gap))
    assert verdict_failure_probability(design.checker.test, off, questions=questions) <= failing
    missed = design.updates * 2 * math.exp(-((gap * rows - 1) ** 2) / (2 * float(design.checker.answer.scale) ** 2))
    assert missed <= failing / 100


def test_a_pure_design_is_within_its_price_and_falls_as_the_cube_root():
    design = best_design(10**6, universe=1024, questions=10**6, epsilon=1, delta=0)
    epsilon = design.event(Unit.each_row(Neighbours.REPLACE)).epsilon
    assert epsilon is not None
    assert 0.999 < epsilon <= 1
    larger = guarantee(10**9, universe=1024, questions=10**6, epsilon=1, delta=0)
    assert design.within / larger == pytest.approx(10, rel=0.1)


def test_an_approximate_design_falls_as_the_square_root():
    small, large = (guarantee(rows, universe=1024, questions=10**6, epsilon=1, delta="1e-6") for rows in (10**6, 10**8))
    assert small / large == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize(("off", "questions", "positives"), list(itertools.product([3, 6, 12], [1, 3], [1, 2])))
def test_verdicts_go_astray_no_more_often_than_is_stated(off, questions, positives):
    """Exact laws: every choice of distances just inside the bound on either side."""
    mechanism = SparseVector(threshold_scale="3/2", question_scale=2, positives=positives)
    stated = verdict_failure_probability(mechanism, off, questions=questions)
    threshold = 40
    worst = 0.0
    for values in itertools.product([threshold - off - 1, threshold + off], repeat=questions):
        law = laws.sparse_law(mechanism, values, [threshold] * questions, gaps=0)
        right = tuple("below" if value < threshold else 0 for value in values)
        worst = max(worst, sum(chance for verdicts, chance in law.items() if verdicts != right[: len(verdicts)]))
    assert worst <= stated
    if stated < 0.5:
        assert worst >= stated / 12  # it is a union bound over the largest of all thresholds


def test_the_bound_on_verdicts_is_the_sum_over_all_noise():
    """E[min(1, k·P(ν > off - τ*))] by brute force over τ*, for one threshold and for three."""
    for positives, questions, off in ((1, 5, 30), (3, 40, 60)):
        mechanism = SparseVector(threshold_scale=4, question_scale=6, positives=positives)
        sizes = np.arange(0, 400, dtype=float)
        inside = (laws.laplace_below(sizes, 4) - laws.laplace_below(-sizes - 1, 4)) ** positives
        mass = np.diff(inside, prepend=0)
        exact = float(mass @ np.minimum(1, questions * laws.laplace_above(off - sizes, 6)))
        stated = verdict_failure_probability(mechanism, off, questions=questions)
        assert exact * (1 - 1e-12) <= stated <= 1.1 * exact


def test_the_farthest_is_the_least_that_is_allowed():
    mechanism = SparseVector(threshold_scale=50, question_scale=80, positives=20)
    bound = verdict_error_bound(mechanism, questions=1000, failing=0.05)
    assert (
        verdict_failure_probability(mechanism, bound, questions=1000)
        <= 0.05
        < verdict_failure_probability(mechanism, bound - 1, questions=1000)
    )


def test_too_few_rows_promise_nothing():
    assert guarantee(100, universe=3, questions=5, epsilon=1, delta="1e-6") >= 1
    assert guarantee(1, universe=2, questions=1, epsilon=1, delta="1e-6") >= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": 0},
        {"rows": 10**12},
        {"universe": 1},
        {"universe": 2.5},
        {"questions": 0},
        {"epsilon": 0},
        {"delta": 1},
        {"confidence": 1},
    ],
    ids=str,
)
def test_what_is_no_design_is_refused(wrong):
    asked = {"rows": 1000, "universe": 16, "questions": 10, "epsilon": 1, "delta": "1e-6"} | wrong
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        best_design(asked.pop("rows"), **asked)


def test_what_is_no_checker_is_refused():
    test, answer = SparseVector(threshold_scale=1, question_scale=2), Laplace(scale=1)
    with pytest.raises(InvalidArgument, match="threshold"):
        EstimateChecker(test, answer, 0)
    for wrong in (
        SparseVector(threshold_scale=1, question_scale=2, positives=3, restarts=False),
        SparseVector(threshold_scale=1, question_scale=2, answer_scale=1),
    ):
        with pytest.raises(InvalidArgument, match="test"):
            EstimateChecker(wrong, Gaussian(scale=1), 5)


def test_a_checker_without_updates_costs_one_test():
    test = SparseVector(threshold_scale=2, question_scale=4)
    for neighbours in Neighbours:
        event = EstimateChecker(test, Gaussian(scale=1), 5).event(Unit.each_row(neighbours))
        assert event.epsilon == 1  # also under add-remove: a distance is not monotone
        assert event.neighbours is neighbours
    twice = EstimateChecker(SparseVector(threshold_scale=2, question_scale=4, positives=2), Laplace(scale=4), 5)
    assert twice.event(Unit.each_row(Neighbours.ADD_REMOVE)).epsilon == 2 + Fraction(1, 4)
