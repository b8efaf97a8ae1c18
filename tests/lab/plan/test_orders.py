"""Errors grow and fall as the texts say: with the rows, the questions and the size of the universe."""

import pytest

from dodona.lab.plan import Setting, promise_for, questions_for


def slope(name: str, low: Setting, high: Setting) -> float:
    """Return by which factor the error of a mechanism changes."""
    return promise_for(high, name).within / promise_for(low, name).within


def plan(**sides: object) -> Setting:
    return Setting(**{"rows": 10**7, "questions": 10**4, "cells": 2**20, "epsilon": 1, "delta": "1e-6", **sides})


@pytest.mark.parametrize(
    ("name", "delta", "power"),
    [
        ("randomized-response", 0, 1 / 2),
        ("laplace-basic", 0, 1),
        ("gaussian-zcdp", "1e-6", 1),
        ("histogram", 0, 1),
        ("blr-textbook", 0, 1 / 3),
        ("blr", 0, 1 / 3),
        ("mwem", 0, 1 / 3),
        ("mwem", "1e-6", 1 / 2),
        ("pmw", 0, 1 / 3),
        ("pmw", "1e-6", 1 / 2),
    ],
)
def test_a_hundred_times_the_rows_divide_the_error_by_the_known_power(name, delta, power):
    few, many = plan(delta=delta, questions=10**6, rows=10**6), plan(delta=delta, questions=10**6, rows=10**8)
    assert slope(name, few, many) == pytest.approx(100**-power, rel=0.35 if power < 1 else 0.02)


def test_ten_times_the_rows_answer_nearly_a_hundred_times_the_questions():
    """n² questions with Gaussian noise and n with Laplace noise, at a fixed share of the rows (up to a logarithm)."""
    for name, factor in (("gaussian-zcdp", 100), ("laplace-basic", 10)):
        few, many = (questions_for(plan(rows=rows), name, within=0.05) for rows in (10**5, 10**6))
        assert 0.6 * factor < many / few < factor


def test_the_universe_costs_weights_a_logarithm_and_independent_noise_nothing():
    small, large = plan(cells=2**10, questions=10**6, rows=10**6), plan(cells=2**40, questions=10**6, rows=10**6)
    assert slope("pmw", small, large) == pytest.approx(4**0.25, rel=0.05)
    assert slope("mwem", small, large) == pytest.approx(4**0.25, rel=0.05)
    assert slope("gaussian-zcdp", small, large) == 1
    assert promise_for(large, "histogram").within > 1


def test_a_trusted_curator_is_worth_more_the_more_rows_there_are():
    """Noise on the input against noise on the output: √n apart."""
    ratios = [
        promise_for(setting, "randomized-response").within / promise_for(setting, "laplace-basic").within
        for setting in (plan(questions=1, rows=10**4), plan(questions=1, rows=10**6))
    ]
    assert ratios[1] / ratios[0] == pytest.approx(10, rel=0.02)
