"""The grid: whole steps, how far a row moves a sum, and discrete noise beside normal noise that is rounded."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from dodona.lab.adaptive.grid import (
    grid_sum,
    resolution,
    round_to_level,
    rounded_normal_distance,
    rounding_error,
    sum_sensitivity,
)
from dodona.lab.mechanisms import Gaussian

NORMAL = NormalDist()


@pytest.mark.parametrize("scale", [0.7, 1, 2, 5, 20, 100])
def test_discrete_gaussian_noise_is_as_near_to_rounded_normal_noise_as_stated(scale):
    """Total variation, summed over all steps; the statement is no more than four times too large."""
    places = range(-math.ceil(12 * scale) - 2, math.ceil(12 * scale) + 3)
    discrete = Gaussian(scale=scale)
    total = sum(
        abs(discrete.probability(x) - (NORMAL.cdf((x + 0.5) / scale) - NORMAL.cdf((x - 0.5) / scale))) for x in places
    )
    assert total / 2 <= rounded_normal_distance(scale, answers=1)
    if scale >= 1:
        assert rounded_normal_distance(scale, answers=1) <= 4 * total / 2
    assert rounded_normal_distance(scale, answers=7) == pytest.approx(7 * rounded_normal_distance(scale, answers=1))


@given(
    values=some.lists(some.floats(0, 1), min_size=1, max_size=20),
    other=some.floats(0, 1),
    place=some.integers(0, 19),
    power=some.integers(0, 20),
)
def test_a_row_that_is_replaced_moves_a_sum_by_no_more_than_is_paid_for(values, other, place, power):
    steps = 1 << power
    before = np.array(values)
    after = before.copy()
    after[place % len(values)] = other
    distance = abs(grid_sum(before, steps) - grid_sum(after, steps))
    assert distance <= sum_sensitivity(steps).linf == steps
    assert distance**2 <= sum_sensitivity(steps).l2_squared
    assert sum_sensitivity(steps).l1 == steps


@given(some.lists(some.floats(0, 1), min_size=1, max_size=50), some.integers(0, 20))
def test_rounding_moves_a_mean_by_at_most_half_a_step(values, power):
    steps = 1 << power
    mean = grid_sum(np.array(values), steps) / (steps * len(values))
    assert abs(mean - math.fsum(values) / len(values)) <= rounding_error(steps) + 1e-12


@given(some.integers(0, 1000), some.integers(1, 100))
def test_a_level_is_at_most_half_its_width_from_the_share(total, levels):
    rounded = round_to_level(total, 1000, levels=levels)
    assert abs(rounded - total / 1000) <= 0.5 / levels + 1e-12
    assert rounded in {(2 * level + 1) / (2 * levels) for level in range(levels)}


def test_steps_are_fine_and_sums_stay_small_enough_for_noise_to_be_drawn():
    for rows in (2, 1000, 10**6, 10**7, 10**9):
        assert rows * resolution(rows) <= 10**12
        assert resolution(rows) == 2**20 or rows * resolution(rows) * 2 > 10**12


def test_yes_and_no_are_summed_as_ones_and_zeros():
    values = np.random.default_rng(4).random(1000) < 0.3
    assert grid_sum(values, 2**20) == grid_sum(values.astype(np.float64), 2**20) == 2**20 * int(values.sum())
