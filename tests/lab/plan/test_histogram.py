"""The whole histogram: promises beside the exact laws of sums, and beside simulated noise."""

import math

import numpy as np
import pytest

from dodona.lab.plan import Setting, Unsuitable, promise_for
from dodona.lab.plan.histogram import _log_moment, _log_moment_above
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.schema.schema import Neighbours

RUNS = 4000


def setting(**sides: object):
    right = {"rows": 10_000, "questions": 100, "cells": 32, "epsilon": 1, "confidence": 0.9}
    return Setting(**{**right, **sides})


def draws(generator, noise, shape):
    """Return noise of a law, by its probabilities on a finite range."""
    reach = math.ceil(60 * noise.scale)
    values = np.arange(-reach, reach + 1)
    weights = np.array([noise.probability(int(value)) for value in values])
    return generator.choice(values, size=shape, p=weights / weights.sum())


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("questions", [1, 1000])
@pytest.mark.parametrize("cells", [2, 9, 64])
def test_fixed_counts_are_within_the_exact_law_of_their_sums(neighbours, questions, cells):
    """The law of a sum by repeated convolution; one row less than the promise is passed too often."""
    plan = setting(neighbours=neighbours, questions=questions, cells=cells)
    most = cells if neighbours is Neighbours.ADD_REMOVE else cells // 2
    noise = Laplace(scale=1 if neighbours is Neighbours.ADD_REMOVE else 2)
    values = np.array([noise.probability(value) for value in range(-150, 151)])
    law = values
    for _ in range(most - 1):
        law = np.convolve(law, values)
    middle = len(law) // 2
    failing = plan.failing / (2 * min(questions, 2**cells))
    error = round(promise_for(plan, "histogram").within * plan.rows)
    assert law[middle + error + 1 :].sum() <= failing * (1 + 1e-6)
    assert law[middle + error - 1 :].sum() > failing * 0.99


@pytest.mark.parametrize(("delta", "noise"), [(0, "Laplace"), ("1e-2", "Gaussian")])
def test_the_worst_set_of_cells_is_within_what_is_promised_for_every_set(delta, noise):
    """4,000 runs at 90%: a right promise is passed in more than 500 of them with probability below 10^-7."""
    plan = setting(cells=64, delta=delta)
    promise = promise_for(plan, "histogram-any")
    assert promise.law.startswith(noise)
    law = Laplace(scale=2) if noise == "Laplace" else _gaussian(promise.law)
    drawn = draws(np.random.default_rng(3), law, (RUNS, 64))
    worst = np.maximum(np.maximum(drawn, 0).sum(axis=1), np.maximum(-drawn, 0).sum(axis=1))
    error = promise.within * plan.rows
    assert (worst > error).sum() <= 500
    assert error < 1.25 * np.quantile(worst, 0.9)


def _gaussian(law: str) -> Gaussian:
    return Gaussian(scale=law.split("scale ")[1].split(" ", maxsplit=1)[0])


def test_counts_chosen_in_view_of_the_noise_pass_what_is_promised_for_fixed_ones():
    """A reader who knows the table takes all cells that came out too high: nearly always farther off than `fixed`."""
    plan = setting(cells=64, questions=1)
    drawn = draws(np.random.default_rng(4), Laplace(scale=2), (400, 64))
    chosen = np.maximum(drawn, 0).sum(axis=1)
    assert (chosen > promise_for(plan, "histogram").within * plan.rows).mean() > 0.9
    assert (chosen > promise_for(plan, "histogram-any").within * plan.rows).mean() < 0.1


@pytest.mark.parametrize("noise", [Laplace(scale=2), Laplace(scale=50), Gaussian(scale=3), Gaussian(scale=40)])
def test_moments_are_those_of_the_laws(noise):
    reach = math.ceil(80 * noise.scale)
    values = np.arange(-reach, reach + 1)
    weights = np.array([noise.probability(int(value)) for value in values])
    rates = np.array([0.05, 0.3, 0.6]) / float(noise.scale)
    for rate, both, above in zip(rates, _log_moment(noise, rates), _log_moment_above(noise, rates), strict=True):
        assert both == pytest.approx(math.log(weights @ np.exp(rate * values)), rel=1e-6)
        assert above == pytest.approx(math.log(weights @ np.exp(rate * np.maximum(values, 0))), rel=1e-6)


def test_wide_gaussian_noise_is_bounded_by_the_normal_law():
    rates = np.array([0.1, 1.0, 2.5]) / 3000
    wide, narrow = _log_moment_above(Gaussian(scale=3000), rates), _log_moment_above(Gaussian(scale=1900), rates)
    scaled = _log_moment_above(Gaussian(scale=1900), rates * 3000 / 1900)
    assert (wide > narrow).all()
    assert (wide >= scaled * (1 - 1e-6)).all()
    assert (wide <= scaled + 2 * rates).all()


def test_a_histogram_needs_to_know_its_cells():
    with pytest.raises(Unsuitable, match="write cells"):
        promise_for(Setting(rows=100, questions=5, epsilon=1), "histogram")


def test_a_universe_beyond_memory_has_a_formula_and_is_not_run():
    promise = promise_for(setting(cells=1 << 300, delta="1e-6"), "histogram")
    assert not promise.runs
    assert not promise.holds
