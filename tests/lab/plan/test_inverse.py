"""Inverses invert: what is found is enough, and a little less is not."""

import math

import pytest

from dodona.errors import InvalidArgument
from dodona.lab.plan import (
    Marginals,
    PlanParameter,
    Setting,
    Task,
    UnreachablePlan,
    Unsuitable,
    epsilon_for,
    promise_for,
    questions_for,
    requirements,
    rows_for,
)

PLAN = Setting(rows=10**5, questions=500, cells=256, epsilon=1, delta="1e-6", positives=3)
SHARP = (
    "randomized-response", "laplace-basic", "laplace-advanced", "laplace-zcdp", "laplace-exact", "gaussian-zcdp",
    "gaussian-exact", "histogram", "histogram-any", "blr", "blr-textbook", "mwem", "mwem-mean", "noisy-max",
    "exponential", "sparse-textbook", "numeric-textbook", "sparse", "numeric-sparse", "iterated-selection",
)  # fmt: skip
QUICK = {"laplace-basic", "laplace-zcdp", "gaussian-zcdp", "blr", "mwem", "exponential", "sparse"}


def each(names):
    """Return parameters of which the quick check takes some."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", each(SHARP))
def test_the_least_number_of_rows_is_enough_and_one_less_is_not(name):
    rows = rows_for(PLAN, name, within=0.05)
    assert promise_for(PLAN.with_rows(rows), name).within <= 0.05
    assert promise_for(PLAN.with_rows(rows - 1), name).within > 0.05


@pytest.mark.share(3)
@pytest.mark.parametrize("name", each((*SHARP, "pmw")))
def test_the_least_price_is_enough_and_a_thousandth_less_is_not(name):
    if name == "blr-textbook":
        with pytest.raises(UnreachablePlan):
            epsilon_for(PLAN.with_rows(100), name, within=0.05)
        return
    epsilon = epsilon_for(PLAN, name, within=0.1)
    assert promise_for(PLAN.with_epsilon(epsilon), name).within <= 0.1
    assert promise_for(PLAN.with_epsilon(float(epsilon) * (1 - 1e-3)), name).within > 0.1


@pytest.mark.parametrize("name", each(name for name in SHARP if name not in {"histogram-any", "gaussian-exact"}))
def test_the_largest_number_of_questions_is_answered_and_one_more_is_not(name):
    plan = PLAN.with_rows(10**6)
    within = 0.9 * promise_for(plan, name).within if promise_for(plan, name).within < 0.5 else 0.3
    try:
        questions = questions_for(plan, name, within=within)
    except UnreachablePlan:
        assert promise_for(plan.with_questions(1), name).within > within
        return
    if questions < 10**15:
        assert promise_for(plan.with_questions(questions), name).within <= within
        assert promise_for(plan.with_questions(questions + 1), name).within > within


@pytest.mark.slow
def test_exact_gaussian_composition_is_inverted_too():
    questions = questions_for(PLAN, "gaussian-exact", within=0.002)
    assert promise_for(PLAN.with_questions(questions), "gaussian-exact").within <= 0.002
    assert promise_for(PLAN.with_questions(questions + 1), "gaussian-exact").within > 0.002


def test_weights_are_inverted_up_to_the_grid_of_their_search():
    rows = rows_for(PLAN, "pmw", within=0.1)
    assert promise_for(PLAN.with_rows(rows), "pmw").within <= 0.1
    assert promise_for(PLAN.with_rows(math.floor(0.98 * rows)), "pmw").within > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("unknown", [PlanParameter.ROWS, PlanParameter.EPSILON])
def test_needs_are_sorted_and_say_why_there_is_none(unknown):
    needs = requirements(PLAN, within=0.01, unknown=unknown, task=Task.ABOVE)
    values = [need.value for need in needs if need.value is not None]
    assert values == sorted(values)
    assert len(values) >= 5
    assert all(need.reason for need in needs if need.value is None)


def test_most_questions_come_first():
    plan = Setting(rows=10**5, questions=10, epsilon=1, cells=64)
    values = [
        need.value
        for need in requirements(plan, within=0.01, unknown=PlanParameter.QUESTIONS)
        if need.value is not None
    ]
    assert values == sorted(values, reverse=True)


def test_an_error_that_no_price_reaches_is_refused_with_words():
    with pytest.raises(UnreachablePlan, match="Ask for less accuracy") as refused:
        epsilon_for(Setting(rows=10, questions=10, epsilon=1), "randomized-response", within=0.01)
    assert refused.value.exit_code == 3
    with pytest.raises(UnreachablePlan):
        rows_for(Setting(rows=10, questions=10**6, cells=2**40, epsilon="1e-6"), "pmw-textbook", within=0.001)


@pytest.mark.parametrize("within", [0, 1, -0.1, 2, math.nan, True])
def test_a_wanted_error_is_a_share(within):
    with pytest.raises(InvalidArgument):
        rows_for(PLAN, "laplace-basic", within=within)


def test_what_cannot_be_inverted_is_said():
    with pytest.raises(InvalidArgument, match="workload"):
        questions_for(Setting(rows=100, epsilon=1, workload=Marginals([2, 2], ways=1)), "marginals", within=0.1)
    with pytest.raises(Unsuitable, match="delta"):
        epsilon_for(Setting(rows=100, questions=5, epsilon=1), "gaussian-zcdp", within=0.1)
    with pytest.raises(Unsuitable, match="cells"):
        questions_for(Setting(rows=100, questions=5, epsilon=1), "mwem", within=0.1)
    with pytest.raises(InvalidArgument, match="mechanism"):
        rows_for(PLAN, "magic", within=0.1)
