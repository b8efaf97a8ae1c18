"""Thresholds: iterated selection and sparse vectors, beside simulated runs and brute force over divisions."""

import math

import numpy as np
import pytest

from dodona.lab.plan import Setting, Task, forecast, promise_for
from dodona.schema.schema import Neighbours
from tests.lab.plan import brute


def setting(**sides: object):
    right = {"rows": 10_000, "questions": 200, "epsilon": 1, "positives": 5, "confidence": 0.9}
    return Setting(**{**right, **sides})


def test_iterated_selection_is_right_as_often_as_is_promised():
    """2,000 runs at 90%, pure: a right promise is missed more than 260 times with probability below 10^-5.

    Four questions are above T, all others lie where choices are hardest: many of them, just below the threshold.
    """
    plan = setting()
    promise = promise_for(plan, "iterated-selection")
    alpha = promise.within * plan.rows
    share = int(promise.law.split("; ")[1].split("%")[0]) / 100
    positives, generator = plan.positives, np.random.default_rng(2)
    counts = np.concatenate([np.full(positives - 1, 1.2 * alpha), np.full(plan.questions - positives + 1, -alpha)])
    wrong = 0
    for _ in range(2000):
        left, picked = counts.copy(), []
        for _ in range(positives):
            noisy = left + generator.gumbel(scale=2 * positives / share, size=plan.questions)
            picked.append(int(np.argmax(noisy)))
            left[picked[-1]] = -np.inf
        noise = generator.laplace(scale=positives / (1 - share), size=positives)
        told_above = {place for place, error in zip(picked, noise, strict=True) if counts[place] + error >= 0}
        missed = any(counts[place] >= alpha and place not in told_above for place in range(plan.questions))
        false = any(counts[place] < -alpha for place in told_above)
        wrong += missed or false or bool((np.abs(noise) > alpha + 1).any())
    assert wrong <= 260


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_iterated_selection_is_the_best_division_of_its_price(delta, neighbours):
    plan = setting(delta=delta, neighbours=neighbours, rows=10**6)
    positives, sides, half = plan.positives, 1 if neighbours is Neighbours.ADD_REMOVE else 2, plan.failing / 2
    logs = math.log(plan.questions * positives / half)
    best = math.inf
    for share in np.linspace(0.01, 0.99, 197):
        chosen = sides * positives / share * logs
        best = min(best, max(chosen / 2, brute.laplace((1 - share) / positives, positives, half)))
        if delta > 0:
            price = brute.rho(1.0, delta)
            chosen = sides / math.sqrt(8 * price * share / positives) * logs
            best = min(
                best, max(chosen / 2, brute.gaussian(math.sqrt(positives / (2 * price * (1 - share))), positives, half))
            )
    assert promise_for(plan, "iterated-selection").within * plan.rows == pytest.approx(best, rel=0.01, abs=1.01)


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_fresh_answers_cost_verdicts_something_and_no_more_than_half_again(delta):
    plan = setting(delta=delta)
    verdicts, answers = (promise_for(plan, name).within for name in ("sparse", "numeric-sparse"))
    assert verdicts < answers < 1.5 * verdicts


def test_best_constants_are_far_better_than_the_texts():
    plan = setting(delta="1e-6", rows=10**6)
    assert promise_for(plan, "sparse-textbook").within > 3 * promise_for(plan, "sparse").within
    assert promise_for(plan, "numeric-textbook").within > 3 * promise_for(plan, "numeric-sparse").within


def test_online_thresholds_are_compared_with_offline_selection_and_plain_noise():
    """Thousands of questions and one positive: noise on each of them promises least."""
    outlook = forecast(setting(questions=10**5, positives=1, delta="1e-6"), Task.ABOVE)
    names = [promise.method.name for promise in outlook.promises]
    assert names.index("numeric-sparse") < names.index("above-gaussian") < names.index("above-laplace")
    assert names[0] in {"iterated-selection", "sparse"}


def test_a_choice_is_monotone_only_where_rows_come_and_go():
    add, replace = (promise_for(setting(neighbours=relation), "exponential").within for relation in Neighbours)
    assert replace == pytest.approx(2 * add)
