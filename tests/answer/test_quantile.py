"""Quantiles: the noise of each boundary is known exactly, and both tests are honest."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dodona.answer.laws import upper_quantile
from dodona.answer.quantiles import boundary_noise_quantiles, histogram_tree, quantile_band, quantile_code_range
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.privacy.measurement import MeasuredValues
from tests.answer.scene import AGE, DATA, measured_tree, tree_partitions, true_quantile

HALF = Fraction(1, 2)


def impulses(fan_out: int) -> np.ndarray:
    """What each single count, level by level, adds to (rows below each boundary) - 0.3 · rows: found by trying."""
    quantile, measured = measured_tree(DATA["skewed"], Laplace(scale=2), 2, level=HALF, fan_out=fan_out)
    partitions = tree_partitions(fan_out)
    effects = []
    for number, partition in enumerate(partitions):
        for group in range(partition.groups - 2):
            values = np.zeros(len(measured.values), dtype=np.int64)
            start = 4 * sum(other.groups for other in partitions[:number])
            values[start + group] = 1  # of the first copy
            tree = histogram_tree(quantile, MeasuredValues(measured.question, values, measured.noises))
            effects.append((tree.below - 0.3 * tree.rows[:, None])[0])
    return np.array(effects)


@pytest.mark.parametrize("fan_out", [4, 16, 200])
def test_the_noises_at_a_boundary_are_those_that_its_estimate_is_made_of(fan_out) -> None:
    quantile, measured = measured_tree(DATA["skewed"], Laplace(scale=2), 2, level=HALF, fan_out=fan_out)
    tree = histogram_tree(quantile, measured)
    factors = impulses(fan_out)
    for boundary, lengths in enumerate(tree.walk.lengths.tolist()):
        if boundary in {0, AGE.size}:
            continue
        made = Counter(round(abs(factor), 9) for factor in factors[:, boundary] if abs(factor) > 1e-12)
        said = Counter[float]()
        for term in tree.terms(tuple(lengths), 0.3):
            said[round(term.factor, 9)] += term.times
        assert made == +said


@pytest.mark.parametrize("fan_out", [4, 16, 200])
def test_without_noise_the_rows_below_each_boundary_are_counted(fan_out) -> None:
    ages = DATA["one atom beside a tail"]
    quantile, measured = measured_tree(ages, Laplace(scale="1/1000"), 2, level=HALF, fan_out=fan_out)
    below = histogram_tree(quantile, measured).below
    assert np.array_equal(below[0], [np.sum(ages < cut) for cut in range(112)])


@pytest.mark.parametrize("level", [Fraction(0), Fraction(1, 100), Fraction(1, 3), HALF, Fraction(99, 100), Fraction(1)])
@pytest.mark.parametrize("name", list(DATA))
def test_without_noise_the_quantile_is_the_least_value_that_enough_rows_do_not_exceed(level, name) -> None:
    quantile, measured = measured_tree(DATA[name], Laplace(scale="1/1000"), 2, level=level)
    band = quantile_band(quantile, measured, 0.05)
    truth = true_quantile(DATA[name], level)
    assert np.all((band.low <= truth) & (truth <= band.high))
    assert np.all(band.high - band.low <= (0 if level * len(DATA[name]) % 1 else 110))


@pytest.mark.parametrize("noise", [Laplace(scale=5), Gaussian(scale=5)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_value_is_given_up_just_when_its_noise_is_beyond_the_quantile_of_its_law(noise, sign) -> None:
    """55 is the median of 40 rows a value: its start is 20 rows short of half, its end 20 beyond it."""
    ages = np.repeat(np.arange(111), 40)
    quantile, measured = measured_tree(ages, Laplace(scale="1/1000"), 2, level=HALF, fan_out=200)
    tree = histogram_tree(quantile, MeasuredValues(measured.question, measured.values, (noise,)))
    allowed = upper_quantile(tree.terms((55,), 0.5), 0.025)
    for extra, kept in ((0, True), (1, False)):
        values = np.array(measured.values)
        # All noise is on one age at the side; half of it moves the difference, as the rows grow as well.
        values[0 if sign > 0 else 110] += int(2 * (round(allowed, 6) + 20)) + 2 * extra
        first, last = quantile_code_range(
            histogram_tree(quantile, MeasuredValues(measured.question, values, (noise,))),
            low=0.5,
            high=0.5,
            failing=0.05,
        )
        assert (first[0] <= 55 <= last[0]) == kept


def test_boundaries_that_no_group_is_near_are_decided_without_their_law() -> None:
    quantile, measured = measured_tree(np.repeat(np.arange(111), 40), Gaussian(scale=5), 3, level=HALF)
    tree = histogram_tree(quantile, measured)
    quantiles = boundary_noise_quantiles(tree, tree.below - tree.rows[:, None] / 2, level=0.5, failing=0.025)
    assert 0 < np.count_nonzero(quantiles) < 40


def test_levels_that_do_not_refine_each_other_are_left_out() -> None:
    quantile, measured = measured_tree(DATA["skewed"], Gaussian(scale=5), 2, level=HALF)
    assert len(histogram_tree(quantile, measured).noises) == 2
    turned = type(quantile)(tuple(reversed(quantile.levels)), "age", HALF)
    assert len(histogram_tree(turned, measured).noises) == 1
