"""Intervals hold what they promise: 10,000 answers of every aggregate, false alarms 10^-6 a test."""

from fractions import Fraction

import numpy as np
import pytest

from dodona.answer.evaluation import evaluate
from dodona.answer.laws import half_width
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.query.question import Arithmetic, LiteralExpression, Spread, Total
from tests.answer.scene import (
    DATA,
    MEAN,
    binomial_band,
    covered,
    inside,
    measured_moments,
    measured_tree,
    moments,
    true_quantile,
    variation,
)

COPIES = 9_998  # and the groups of <missing> and <outside> make it 10,000
TRIALS = 10_000
FAILING = 0.05
NOISES = [
    pytest.param((Laplace(scale=8), Laplace(scale=300), Laplace(scale=9000)), id="laplace"),
    pytest.param((Gaussian(scale=8), Gaussian(scale=300), Gaussian(scale=9000)), id="gaussian"),
    pytest.param((Laplace(scale=2), Gaussian(scale=2), Laplace(scale=2)), id="small and mixed"),
]
NAMES = list(DATA)


@pytest.mark.distribution
@pytest.mark.parametrize("noise", [Laplace(scale=8), Gaussian(scale=8), Laplace(scale="1/2"), Gaussian(scale=2)])
@pytest.mark.parametrize("failing", [0.05, 0.2])
def test_counts_are_covered_exactly_as_often_as_the_law_says(noise, failing) -> None:
    noises = (noise, noise, noise)
    measured = measured_moments(DATA["skewed"], noises, COPIES)
    low, high = binomial_band(TRIALS, inside(noise, half_width(noise, failing)))
    for block, truth in enumerate(moments(DATA["skewed"])[:2]):
        assert low <= covered(evaluate(Total(block), measured, failing), truth) <= high


@pytest.mark.distribution
@pytest.mark.parametrize("law", [Laplace, Gaussian])
def test_noise_a_tenth_wider_than_is_claimed_is_noticed(law) -> None:
    claimed, drawn = (law(scale=90),) * 3, (law(scale=100),) * 3
    measured = measured_moments(DATA["skewed"], claimed, COPIES, drawn=drawn)
    low, _ = binomial_band(TRIALS, inside(claimed[0], half_width(claimed[0], FAILING)))
    assert covered(evaluate(Total(0), measured, FAILING), len(DATA["skewed"])) < low


@pytest.mark.distribution
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("noises", NOISES)
def test_averages_are_covered(name, noises) -> None:
    band = evaluate(MEAN, measured_moments(DATA[name], noises, COPIES), FAILING)
    assert covered(band, DATA[name].mean()) >= binomial_band(TRIALS, 1 - FAILING)[0]
    assert np.all((band.low <= band.value) & (band.value <= band.high))


@pytest.mark.distribution
@pytest.mark.slow
@pytest.mark.parametrize("noises", NOISES[:2])
def test_averages_of_many_rows_are_covered_not_much_more_often_than_promised(noises) -> None:
    """The test that is inverted is close to its level, so intervals are not wider than they need to be."""
    band = evaluate(MEAN, measured_moments(DATA["skewed"], noises, COPIES), FAILING)
    assert covered(band, DATA["skewed"].mean()) <= binomial_band(TRIALS, 1 - FAILING + 0.012)[1]


@pytest.mark.distribution
@pytest.mark.slow
@pytest.mark.parametrize("spread", list(Spread))
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("noises", NOISES)
def test_spreads_are_covered(spread, name, noises) -> None:
    ages, sample = DATA[name], spread in {Spread.SAMPLE_VARIANCE, Spread.SAMPLE_DEVIATION}
    if sample and len(ages) == 1:
        pytest.skip("one row has no sample variance")
    truth = ages.var(ddof=1 if sample else 0)
    if spread in {Spread.POPULATION_DEVIATION, Spread.SAMPLE_DEVIATION}:
        truth = np.sqrt(truth)
    band = evaluate(variation(spread), measured_moments(ages, noises, COPIES), FAILING)
    assert covered(band, float(truth)) >= binomial_band(TRIALS, 1 - FAILING)[0]
    assert np.all((band.low <= band.value) & (band.value <= band.high))


@pytest.mark.distribution
@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(9, 10), Fraction(1, 100)])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("noise", [Laplace(scale=6), Gaussian(scale=6), Gaussian(scale=1)])
def test_quantiles_are_covered(level, name, noise) -> None:
    quantile, measured = measured_tree(DATA[name], noise, COPIES, level=level)
    band = evaluate(quantile, measured, FAILING)
    assert covered(band, true_quantile(DATA[name], level)) >= binomial_band(TRIALS, 1 - FAILING)[0]
    assert np.all((band.low <= band.value) & (band.value <= band.high))


@pytest.mark.distribution
@pytest.mark.slow
@pytest.mark.parametrize(("noise", "width"), [(Laplace(scale=40), 4.0), (Gaussian(scale=40), 3.0)])
def test_quantiles_are_told_to_a_few_values_where_rows_are_many(noise, width) -> None:
    quantile, measured = measured_tree(np.repeat(np.arange(111), 200), noise, COPIES, level=Fraction(1, 2))
    band = evaluate(quantile, measured, FAILING)
    assert np.mean(band.high - band.low) < width


@pytest.mark.distribution
@pytest.mark.slow
@pytest.mark.parametrize("noises", NOISES)
@pytest.mark.parametrize("name", ["skewed", "three rows", "all equal"])
def test_sums_differences_and_ratios_are_covered(noises, name) -> None:
    measured = measured_moments(DATA[name], noises, COPIES)
    rows, total, squares = moments(DATA[name])
    hundred, three = LiteralExpression(Fraction(100)), LiteralExpression(Fraction(3))
    cases = {
        Arithmetic("-", Total(1), Arithmetic("*", three, Total(0))): total - 3 * rows,
        Arithmetic("/", Total(1), Total(0)): total / rows,
        Arithmetic("/", Arithmetic("*", hundred, Total(1)), Total(0)): 100 * total / rows,
        Arithmetic("+", Arithmetic("*", Total(0), Total(1)), Total(2)): rows * total + squares,
        Arithmetic("*", MEAN, Arithmetic("/", Total(2), Total(0))): (55 + total / rows) * squares / rows,
    }
    floor = binomial_band(TRIALS, 1 - FAILING)[0]
    for expression, truth in cases.items():
        assert covered(evaluate(expression, measured, FAILING), truth) >= floor, expression


def test_of_an_empty_group_nothing_is_claimed_beyond_the_public_range() -> None:
    nobody = np.array([], dtype=np.int64)
    noises = (Laplace(scale=8), Laplace(scale=440), Laplace(scale=9000))
    band = evaluate(MEAN, measured_moments(nobody, noises, COPIES), FAILING)
    whole = np.mean((band.low == 0) & (band.high == 110))
    assert whole > 0.85
    assert not np.any(np.isnan(band.value))
    quantile, measured = measured_tree(nobody, Gaussian(scale=6), COPIES, level=Fraction(1, 2))
    assert not np.any(np.isnan(evaluate(quantile, measured, FAILING).value))
