from __future__ import annotations

import numpy as np
import pytest

from benchmarks import sqlcoverage
from dodona.answer.redraws import SeededNumbers, result_band
from dodona.privacy.additive_noise import Gaussian, Laplace

DRAWS = 20_000
SEED = b"redraws"


@pytest.mark.parametrize("law", [Laplace(scale=7), Gaussian(scale=7)])
def test_redraws_have_the_law_of_the_noise_and_come_in_pairs(law):
    """The variance of 10,000 pairs is within 6 deviations of the law's: a false alarm in 10^8."""
    found = SeededNumbers(SEED).noise(law, DRAWS, 3)
    assert np.array_equal(found[: DRAWS // 2], -found[DRAWS // 2 :])
    assert np.array_equal(found, np.rint(found))
    share = float(np.mean(np.abs(found) <= law.accuracy(0.9).within))
    exact = 1 - 0.1  # at least, as the noise is discrete
    assert exact - 0.013 < share < exact + 0.04


def test_redraws_depend_on_the_seed_alone():
    one, same, other = (SeededNumbers(seed).normal(5, 2) for seed in (SEED, SEED, b"another"))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_uniform_numbers_are_uniform():
    """Of 100,000 numbers the shares of ten parts are within 0.006 of a tenth: six deviations."""
    found = SeededNumbers(SEED).uniform(100_000)
    assert found.min() > 0
    assert found.max() < 1
    assert np.abs(np.histogram(found, 10, (0, 1))[0] / 100_000 - 0.1).max() < 0.006


def test_what_noise_does_not_change_has_no_width():
    value = np.array([3.0, np.nan])
    drawn = np.tile(value, (102, 1))
    found = result_band(value, drawn, (), 0.05)
    assert found.steady.tolist() == [True, True]
    assert found.band.low[0] == found.band.high[0] == 3.0
    assert not found.approximate.any()


def test_a_result_that_too_few_redraws_have_gets_no_interval():
    drawn = np.full((102, 1), np.nan)
    drawn[:40, 0] = np.arange(40)
    found = result_band(np.array([20.0]), drawn, (), 0.05)
    assert np.isinf(found.band.low[0])
    assert np.isinf(found.band.high[0])


def test_a_biased_result_is_covered_by_the_mirror_images_of_its_redraws():
    """|x| at 0: redraws are never below 0, but the exact value may be."""
    noise = SeededNumbers(SEED).normal(500, 1)
    both = np.concatenate([noise, -noise, [[-3.0], [3.0]]])
    found = result_band(np.array([0.5]), np.abs(0.5 - both), (), 0.05)
    assert found.band.low[0] <= 0
    assert found.approximate[0]


@pytest.mark.parametrize("kind", ["percent of total", "largest", "absolute change"])
def test_intervals_through_the_outer_half_hold_the_exact_value(kind):
    """Of 12 tables a law at most 5 in 12 miss at 95%: a false alarm in 10^4, and less for results of many rows."""
    assert sqlcoverage.measure(24, (kind,))[kind] >= 7 / 12
