"""Variances and deviations: whatever the noise within its bounds, the exact value is in the interval."""

import itertools

import numpy as np
import pytest

from dodona.answer.evaluation import evaluate
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.privacy.measurement import MeasuredValues
from dodona.query.question import Spread
from tests.answer.scene import DATA, moments, moments_query, variation

NOISES = [
    (Laplace(scale=3), Laplace(scale=60), Laplace(scale=900)),
    (Gaussian(scale=3), Gaussian(scale=60), Gaussian(scale=900)),
    (Laplace(scale=1), Laplace(scale=1), Laplace(scale=1)),
]


@pytest.mark.parametrize("spread", list(Spread))
@pytest.mark.parametrize("name", [name for name in DATA if name != "one row"])
@pytest.mark.parametrize("noises", NOISES)
def test_noise_at_the_ends_of_what_holds_together_leaves_the_exact_spread_inside(spread, name, noises) -> None:
    """P(all three sums are within these ends) is the confidence, so the interval is honest."""
    ages = DATA[name]
    ends = [int(noise.accuracy(0.9, answers=3).within) for noise in noises]
    away = np.array(list(itertools.product((-1, 0, 1), repeat=3))).T * np.array(ends)[:, None]
    values = (np.array(moments(ages))[:, None] + away).ravel()
    copies = away.shape[1]
    band = evaluate(variation(spread), MeasuredValues(moments_query(copies - 2), values, noises), 0.1)
    truth = ages.var(ddof=1 if spread in {Spread.SAMPLE_VARIANCE, Spread.SAMPLE_DEVIATION} else 0)
    if spread in {Spread.SAMPLE_DEVIATION, Spread.POPULATION_DEVIATION}:
        truth = np.sqrt(truth)
    assert np.all(band.low <= truth + 1e-9)
    assert np.all(truth - 1e-9 <= band.high)


@pytest.mark.parametrize("spread", list(Spread))
def test_a_spread_is_never_below_zero_or_above_what_the_range_allows(spread) -> None:
    random = np.random.default_rng(1)
    values = np.concatenate([random.integers(low, high, 500) for low, high in ((-9, 60), (-900, 900), (-999, 99_999))])
    band = evaluate(variation(spread), MeasuredValues(moments_query(498), values, NOISES[0]), 0.05)
    most = {
        Spread.POPULATION_VARIANCE: 110**2 / 4,
        Spread.SAMPLE_VARIANCE: 110**2 / 2,
        Spread.POPULATION_DEVIATION: 110 / 2,
        Spread.SAMPLE_DEVIATION: 110 / 2**0.5,
    }
    assert np.all(band.low >= 0)
    assert np.all(band.high <= most[spread] + 1e-9)
    assert np.all((band.low <= band.value) & (band.value <= band.high))


def test_many_rows_tell_a_deviation_closely() -> None:
    ages = np.tile(DATA["skewed"], 50)
    values = np.repeat(moments(ages), 4)
    band = evaluate(variation(Spread.POPULATION_DEVIATION), MeasuredValues(moments_query(2), values, NOISES[0]), 0.05)
    assert band.value == pytest.approx([ages.std()] * 4)
    assert np.all(band.high - band.low < 0.12)
