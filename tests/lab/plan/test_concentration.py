"""Every concentration bound beside an exact law, and beyond the range where it is true."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, gamma, norm

from dodona.errors import InvalidArgument
from dodona.lab.plan import concentration as bounds

MEANS = (0.001, 0.05, 0.3, 0.5, 0.9)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("samples", [1, 10, 1000])
def test_additive_bounds_are_above_the_exact_binomial_tails(samples, mean):
    law = binom(samples, mean)
    for count in range(samples + 1):
        share = count / samples
        tail = law.sf(count - 1) if share >= mean else law.cdf(count)
        assert tail <= bounds.hoeffding(samples, abs(share - mean)) * (1 + 1e-9)
        assert tail <= bounds.chernoff(samples, mean, share) * (1 + 1e-9)
        assert bounds.chernoff(samples, mean, share) <= bounds.hoeffding(samples, abs(share - mean)) * (1 + 1e-9)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("samples", [1, 10, 1000])
def test_the_two_sided_bound_is_above_the_exact_binomial_tails(samples, mean):
    law = binom(samples, mean)
    for deviation in (0.001, 0.01, 0.05, 0.2, 0.5):
        high, low = math.floor(samples * (mean + deviation)), math.ceil(samples * (mean - deviation))
        assert law.sf(high) + law.cdf(low - 1) <= bounds.hoeffding_two_sided(samples, deviation) * (1 + 1e-9)
    assert bounds.hoeffding_two_sided(samples, 0) == 1


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("samples", [10, 1000])
def test_multiplicative_bounds_are_above_the_exact_binomial_tails_within_their_range(samples, mean):
    law, tight = binom(samples, mean), 0.0
    for count in range(samples + 1):
        factor = count / (samples * mean) - 1
        if 0 <= factor <= bounds.WIDEST:
            tail, bound = law.sf(count - 1), bounds.chernoff_above(samples, mean, factor)
        elif factor < 0:
            tail, bound = law.cdf(count), bounds.chernoff_below(samples, mean, -factor)
        else:
            continue
        assert tail <= bound * (1 + 1e-9)
        tight = max(tight, tail / bound)
    assert tight > 0.1


def test_the_multiplicative_bound_fails_beyond_its_range_and_is_refused_there():
    """1,000 draws of mean .001 and the factor 7: 1.1·10^-6 exactly, 8.1·10^-8 by the formula."""
    exact = binom(1000, 0.001).sf(8)
    assert exact == pytest.approx(1.1e-6, rel=0.03)
    assert exact > 10 * math.exp(-1000 * 0.001 * 49 / 3)
    with pytest.raises(InvalidArgument, match="chernoff"):
        bounds.chernoff_above(1000, 0.001, 7)
    with pytest.raises(InvalidArgument):
        bounds.chernoff_above(1000, 0.001, 1.82)
    assert exact <= bounds.chernoff(1000, 0.001, 0.008)


def test_the_range_ends_where_the_exponents_meet():
    def spare(factor):
        return (1 + factor) * math.log1p(factor) - factor - factor**2 / 3

    assert spare(bounds.WIDEST) >= 0
    assert spare(bounds.WIDEST + 1e-4) < 0
    assert all(spare(factor) >= 0 for factor in np.linspace(0, bounds.WIDEST, 1000))


def test_numbers_need_not_be_identically_distributed():
    """A sum of different coins, by convolution."""
    chances = np.random.default_rng(5).uniform(0, 1, 60)
    law = np.array([1.0])
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    mean = float(chances.mean())
    for count in range(61):
        tail = law[count:].sum() if count / 60 >= mean else law[: count + 1].sum()
        assert tail <= bounds.hoeffding(60, abs(count / 60 - mean)) * (1 + 1e-9)


def test_azuma_is_above_the_exact_law_of_a_walk():
    """A walk of 50 steps of 1 up or down with mean .2: both forms, and neither without its drift."""
    steps, drift = 50, 0.2
    law = binom(steps, (1 + drift) / 2)
    for ups in range(steps + 1):
        end = 2 * ups - steps
        tail = law.sf(ups - 1)
        assert tail <= bounds.azuma([2.0] * steps, max(end - steps * drift, 0.0)) * (1 + 1e-9)
    for deviations in (0.0, 0.5, 1.0, 2.0, 3.0):
        level, failing = bounds.azuma_sum(steps, 1.0, drift, deviations)
        assert law.sf(math.floor((level + steps) / 2)) <= failing
        assert level == pytest.approx(steps * drift + deviations * math.sqrt(steps))
    level, failing = bounds.azuma_sum(steps, 1.0, drift, 3.0)
    assert law.sf(math.floor((level - steps * drift + steps) / 2)) > failing


def test_factorials_lie_between_the_bounds():
    for number in (1, 2, 5, 20, 170, 10_000):
        low, high = bounds.stirling(number)
        assert low < math.lgamma(number + 1) < high or high - low < 1e-9
        assert high - low <= 1 / (12 * number) - 1 / (12 * number + 1) + 1e-9


@pytest.mark.parametrize("draws", [1, 2, 10, 100])
def test_sums_of_laplace_draws_are_within_the_exact_law(draws):
    """A Laplace draw is the difference of two exponential ones, so a sum is the difference of two gamma ones."""
    law = gamma(draws)
    for deviation in (0.5, 1.0, 2.0, 4.0):
        reached = deviation * math.sqrt(2 * draws)
        high = law.ppf(1 - 1e-13)
        exact, _ = quad(lambda low, at=reached: law.pdf(low) * law.sf(low + at), 0, high, limit=500)
        bound = bounds.laplace_sum(draws, reached)
        assert exact <= bound
        assert bound < 25 * exact
    assert bounds.laplace_tail(2.5) == pytest.approx(2 * quad(lambda x: math.exp(-x) / 2, 2.5, 60)[0])


def test_the_normal_tail_is_below_its_bound():
    for deviations in (0.0, 0.5, 2.0, 6.0):
        assert norm.sf(deviations) <= bounds.normal_tail(deviations)


def test_a_deviation_for_a_failure_inverts_the_bound():
    assert bounds.hoeffding(500, bounds.hoeffding_deviation(500, 0.01)) == pytest.approx(0.01)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: bounds.hoeffding(0, 0.1),
        lambda: bounds.hoeffding(10, -0.1),
        lambda: bounds.hoeffding(10, math.nan),
        lambda: bounds.chernoff(10, 0.0, 0.5),
        lambda: bounds.chernoff(10, 0.5, 1.5),
        lambda: bounds.chernoff_below(10, 0.5, 1.5),
        lambda: bounds.azuma([], 1),
        lambda: bounds.azuma([0.0], 1),
        lambda: bounds.azuma_sum(10, 1.0, 2.0, 1.0),
        lambda: bounds.stirling(0),
        lambda: bounds.laplace_sum(0, 1),
        lambda: bounds.hoeffding_deviation(10, 1.0),
    ],
)
def test_arguments_without_a_bound_are_refused(ask):
    with pytest.raises(InvalidArgument):
        ask()
