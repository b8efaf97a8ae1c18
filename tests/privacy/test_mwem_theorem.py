"""MWEM keeps what is promised of it: against runs, and against the exact law of what choices miss."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from dodona.errors import InvalidArgument
from dodona.lab.plan.weights import mwem_mean_error
from dodona.synth.methods import mwem_error, mwem_step

MANY = 1 << 60
"""So many rows that choices miss nothing."""


def test_the_weights_learn_as_fast_as_is_stated():
    """Two cells, all rows in the first, and always the same question: the slowest case, half of the bound and more."""
    rounds = 100
    step = mwem_step(universe=2, rounds=rounds)
    gaps = [1 / (1 + math.exp(step * number)) for number in range(rounds)]
    promised = mwem_error(MANY, universe=2, questions=1, rounds=rounds, epsilon=1.0)
    assert promised / 2 < sum(gaps) / rounds <= promised


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("questions", [3, 1000])
def test_the_mean_of_what_choices_miss_is_bounded_by_the_exact_law(confidence, questions):
    """One candidate is best and all others miss ln 2k + s: how many rounds take one of them is binomial."""
    rounds, candidates = 50, 2 * questions
    learned = mwem_error(MANY, universe=2, questions=1, rounds=rounds, epsilon=1.0)
    bounds = [
        (promise(1, universe=2, questions=questions, rounds=rounds, epsilon=2.0, confidence=confidence) - learned)
        for promise in (mwem_error, mwem_mean_error)
    ]
    for beyond in (-1.0, -0.5, 0.0, 0.5, 2.0):
        missed = math.log(candidates) + beyond
        odds = (candidates - 1) * math.exp(-missed)
        law = binom(rounds, odds / (1 + odds))
        for bound in bounds:
            assert law.sf(math.floor(bound * rounds / missed)) <= 1 - confidence
    assert bounds[1] < bounds[0]


def test_runs_miss_the_promises_no_more_often_than_is_stated():
    """60 runs on 8 cells; a right promise at 95% is missed by more than 12 of them once in 10^5 times."""
    generator = np.random.default_rng(8)
    cells, questions, rows, rounds, epsilon = 8, 40, 400, 60, 0.3
    masks = generator.integers(0, 2, (questions, cells)).astype(float)
    signed = np.concatenate([masks, 1 - masks])
    step = mwem_step(universe=cells, rounds=rounds)
    errors = []
    for _ in range(60):
        truth = generator.multinomial(rows, generator.dirichlet(np.full(cells, 0.1))) / rows
        logs, mean = np.zeros(cells), np.zeros(cells)
        for _ in range(rounds):
            guess = np.exp(logs - logs.max())
            guess /= guess.sum()
            mean += guess / rounds
            noisy = rows * (signed @ (truth - guess)) + generator.gumbel(scale=2 / epsilon, size=2 * questions)
            logs += step * signed[int(np.argmax(noisy))]
        errors.append(np.abs(masks @ (truth - mean)).max())
    for promise in (mwem_error, mwem_mean_error):
        within = promise(rows, universe=cells, questions=questions, rounds=rounds, epsilon=epsilon)
        assert sum(error > within for error in errors) <= 12
        assert within < 5 * max(errors)


@pytest.mark.parametrize(
    "wrong", [{"rows": 0}, {"universe": 1}, {"questions": 0}, {"rounds": 0}, {"epsilon": 0.0}, {"confidence": 1.0}]
)
def test_what_no_run_has_is_refused(wrong):
    right = {"rows": 100, "universe": 4, "questions": 3, "rounds": 5, "epsilon": 1.0, "confidence": 0.9}
    sides = {**right, **wrong}
    rows = sides.pop("rows")
    with pytest.raises(InvalidArgument):
        mwem_error(rows, **sides)
    with pytest.raises(InvalidArgument):
        mwem_mean_error(rows, **sides)
