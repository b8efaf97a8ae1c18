"""Contradictory or impossible plans are refused with what would work; nothing is charged."""

from fractions import Fraction

import pytest

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.lab.plan import Marginals, Setting, Unsuitable, forecast, promise_for
from dodona.lab.plan.conjunctions import conjunctions
from dodona.schema.schema import Neighbours

RIGHT = {"rows": 1000, "questions": 10, "cells": 16, "epsilon": 1, "delta": "1e-6"}


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("rows", 0),
        ("rows", -5),
        ("rows", 1.5),
        ("rows", 10**12),
        ("rows", True),
        ("questions", 0),
        ("questions", -1),
        ("questions", 10**16),
        ("questions", None),
        ("cells", 1),
        ("cells", 0),
        ("cells", 1 << 500),
        ("epsilon", 0),
        ("epsilon", -1),
        ("epsilon", "nan"),
        ("delta", -0.1),
        ("delta", 1),
        ("delta", "many"),
        ("confidence", 0),
        ("confidence", 1),
        ("confidence", 1.1),
        ("neighbours", "replace"),
        ("positives", 0),
        ("positives", 11),
    ],
)
def test_an_impossible_side_is_named(argument, value):
    with pytest.raises(InvalidArgument, match=argument) as refused:
        Setting(**{**RIGHT, argument: value})
    assert "Nothing was charged." in str(refused.value)
    assert refused.value.exit_code == 2


def test_a_workload_and_numbers_that_contradict_it_are_refused():
    workload = Marginals([2, 3], ways=1)
    assert Setting(rows=10, epsilon=1, workload=workload).questions == 5
    assert Setting(rows=10, epsilon=1, workload=workload, questions=5, cells=6).cells == 6
    with pytest.raises(InvalidArgument, match="make 5 of them"):
        Setting(rows=10, epsilon=1, workload=workload, questions=7)
    with pytest.raises(InvalidArgument, match="make 6 of them"):
        Setting(rows=10, epsilon=1, workload=workload, cells=8)
    with pytest.raises(InvalidArgument, match="make 5 of them"):
        Setting(rows=10, epsilon=1, workload=workload).with_questions(9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Marginals([], ways=1),
        lambda: Marginals([2, 1], ways=1),
        lambda: Marginals([2, 2], ways=3),
        lambda: Marginals([2, 2], ways=0),
        lambda: Marginals([2] * 401, ways=1),
        lambda: conjunctions(0, rows=10, epsilon=1),
        lambda: conjunctions(50, rows=10, epsilon=1),
    ],
)
def test_workloads_that_are_none_are_refused(make):
    with pytest.raises(InvalidArgument):
        make()


@pytest.mark.parametrize(
    "name", ["gaussian-zcdp", "gaussian-exact", "laplace-zcdp", "laplace-advanced", "laplace-exact"]
)
def test_mechanisms_that_need_a_delta_say_so(name):
    with pytest.raises(Unsuitable, match="needs a delta above 0") as refused:
        promise_for(Setting(**{**RIGHT, "delta": 0}), name)
    assert isinstance(refused.value, InvalidRequest)


def test_mechanisms_that_use_no_delta_promise_the_same_with_one():
    for name in ("laplace-basic", "blr", "exponential", "noisy-max"):
        with_delta, without = (promise_for(Setting(**{**RIGHT, "delta": delta}), name) for delta in ("1e-6", 0))
        assert with_delta.within == without.within


def test_randomized_response_is_not_planned_where_rows_come_and_go():
    with pytest.raises(Unsuitable, match="replace"):
        promise_for(Setting(**RIGHT, neighbours=Neighbours.ADD_REMOVE), "randomized-response")


def test_more_questions_than_are_composed_exactly_are_left_to_zcdp():
    setting = Setting(**{**RIGHT, "questions": 10**7})
    with pytest.raises(Unsuitable, match="zCDP"):
        promise_for(setting, "gaussian-exact")
    assert promise_for(setting, "gaussian-zcdp").within > 0


def test_what_is_left_out_of_a_forecast_has_a_reason():
    outlook = forecast(Setting(rows=1000, questions=10, epsilon=1))
    reasons = {method.name: reason for method, reason in outlook.left_out}
    assert "cells" in reasons["pmw"]
    assert "delta" in reasons["gaussian-zcdp"]
    assert {promise.method.name for promise in outlook.promises}.isdisjoint(reasons)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "sides",
    [
        {"rows": 1},
        {"rows": 10**11},
        {"questions": 1},
        {"questions": 10**15, "cells": (1 << 500) - 1},
        {"cells": 2, "questions": 1, "rows": 1},
        {"epsilon": 10**4},
        {"epsilon": Fraction(1, 10**12)},
        {"epsilon": "1e-9", "delta": "1e-4"},
        {"delta": "0.999"},
        {"delta": "1e-150"},
        {"confidence": 0.999999999999},
        {"confidence": 1e-9},
    ],
)
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.slow
def test_extreme_settings_have_a_forecast(sides, neighbours):
    """Whatever is accepted is planned: each promise is a number from 0 up, infinite where nothing is left."""
    outlook = forecast(Setting(**{**RIGHT, **sides}, neighbours=neighbours))
    assert len(outlook.promises) + len(outlook.left_out) == 18
    assert all(promise.within >= 0 for promise in outlook.promises)
