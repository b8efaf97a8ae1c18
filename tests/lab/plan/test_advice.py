"""Advice names what promises most of what can be run, and says how far others are behind."""

import pytest

from dodona.lab.plan import Adaptivity, Setting, Task, advice, forecast, promise_for
from dodona.lab.plan.advice import sentences
from dodona.lab.plan.conjunctions import COMPARED, compare_promises, conjunctions, lecture_orders, rows_needed
from dodona.lab.plan.report import heading, rows, summary


def plan(**sides: object):
    return Setting(**{"rows": 10**5, "questions": 1000, "cells": 2**16, "epsilon": 1, "delta": "1e-6", **sides})


def test_gaussian_noise_is_advised_with_how_much_worse_weights_are():
    setting = plan()
    said = advice(forecast(setting), Adaptivity.IN_TURN)
    times = promise_for(setting, "pmw").within / promise_for(setting, "gaussian-exact").within
    assert said.startswith("Gaussian noise: every answer is within 0.541% of the rows.")
    assert f"PMW's guarantee is {times:.2g} times worse here." in said


@pytest.mark.slow
def test_very_many_questions_in_turn_go_to_weights_where_they_can_be_kept():
    said = advice(forecast(plan(rows=10**4, questions=10**6, cells=2**16)), Adaptivity.IN_TURN)
    assert said.startswith("PMW: every answer is within")


def test_known_questions_on_few_cells_go_to_the_histogram():
    outlook = forecast(plan(cells=64))
    assert outlook.best(Adaptivity.TOGETHER).method.name == "histogram"
    said = sentences(outlook)
    assert list(said) == ["If questions may depend on answers", "If all questions are known"]
    assert said["If all questions are known"].startswith("The whole histogram:")


@pytest.mark.slow
def test_a_better_promise_that_cannot_be_run_is_named_as_such():
    outlook = forecast(plan(rows=10**6, questions=10**6, cells=2**40))
    assert outlook.best().method.name == "gaussian-exact"
    few = forecast(plan(rows=10**5, questions=10**6, cells=2**40))
    assert "times better, but it cannot be run here" in advice(few, Adaptivity.TOGETHER)


def test_where_nothing_is_promised_the_rows_that_would_do_are_told():
    said = advice(forecast(plan(rows=50, questions=10**5, cells=2**30)), Adaptivity.TOGETHER)
    assert said.startswith("No mechanism that can be run guarantees anything here.")
    assert "within 10% with" in said
    pure = advice(forecast(plan(rows=50, questions=10**5, cells=2**30, delta=0)), Adaptivity.TOGETHER)
    assert "Laplace noise would be within 10% with" in pure


@pytest.mark.parametrize("task", Task)
def test_promises_are_sorted_and_reported_whole(task):
    outlook = forecast(plan(positives=4), task)
    errors = [promise.within for promise in outlook.promises]
    assert errors == sorted(errors)
    assert len(rows(outlook)) == len(outlook.promises)
    report = summary(outlook)
    assert [promise["mechanism"] for promise in report["promises"]] == [
        promise.method.name for promise in outlook.promises
    ]
    assert set(report["left_out"]).isdisjoint(promise["mechanism"] for promise in report["promises"])
    assert report["advice"]
    assert report["person"]["guess"] == pytest.approx(0.731059, rel=1e-5)


def test_a_setting_is_told_in_a_line():
    assert heading(plan(cells=2**40)) == (
        "100,000 rows, 1,000 questions, 2^40 cells, epsilon 1, delta 1e-6, 95% sure of all together (replace)"
    )


def test_promises_get_better_with_rows_and_price_and_worse_with_questions():
    setting = plan(positives=3)
    for promise in forecast(setting).promises:
        name = promise.method.name
        assert promise_for(setting.with_rows(2 * setting.rows), name).within <= promise.within
        assert promise_for(setting.with_epsilon(2), name).within <= promise.within * (1 + 1e-9)
        assert promise_for(setting.with_questions(4000), name).within >= promise.within * (1 - 1e-9)


@pytest.mark.slow
def test_the_lectures_conjunctions_with_real_constants():
    """Twenty columns, a million rows: Laplace noise says nothing, as the lecture has it, and its BLR nearly nothing."""
    setting = conjunctions(20, rows=10**6, epsilon=1, delta="1e-6")
    within = compare_promises(setting)
    assert set(within) == set(COMPARED)
    assert within["laplace-basic"] > 1
    assert 0.3 < within["blr-textbook"] < 1
    assert within["blr"] < within["blr-textbook"] / 4
    assert within["pmw"] < within["pmw-textbook"]
    orders = lecture_orders(20, rows=10**6, epsilon=1)
    assert orders.laplace > 1
    assert orders.blr < within["blr"] < 10 * orders.blr
    needs = rows_needed(setting, within=0.1)
    assert needs["laplace-basic"] > 100 * needs["blr"]
    assert min(needs, key=needs.get) == "mwem-mean"
