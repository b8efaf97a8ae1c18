"""One answer shows one estimate, whatever the confidence of its interval; the interval holds it and grows with it."""

from fractions import Fraction

import numpy as np
import pytest

from dodona.answer.evaluation import evaluate, population_band
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.privacy.measurement import MeasuredValues
from dodona.query.question import Quantile, Spread
from tests.answer.scene import MEAN, measured_tree, moments_query, variation

FAILING = (0.9, 0.5, 0.2, 0.05, 0.01, 1e-6)
NOISES = [
    (Laplace(scale=3), Laplace(scale=60), Laplace(scale=900)),
    (Gaussian(scale=3), Gaussian(scale=60), Gaussian(scale=900)),
]


def sums(noises) -> MeasuredValues:
    """Released sums of few rows and of none, and such as contradict each other."""
    random = np.random.default_rng(1)
    values = [random.integers(low, high, 400) for low, high in ((-9, 30), (-900, 900), (-900, 60_000))]
    return MeasuredValues(moments_query(398), np.concatenate(values), noises)


@pytest.mark.parametrize("noises", NOISES)
@pytest.mark.parametrize("expression", [MEAN, *map(variation, Spread)])
def test_averages_and_spreads_have_one_estimate_at_every_confidence(expression, noises) -> None:
    _hold_one_estimate([evaluate(expression, sums(noises), failing) for failing in FAILING])


def counts(level: Fraction) -> tuple[Quantile, MeasuredValues]:
    """Released histograms of few rows, whose levels contradict each other."""
    quantile, measured = measured_tree(np.zeros(0, dtype=np.int64), Laplace(scale=2), 200, level=level, fan_out=4)
    values = np.random.default_rng(2).integers(-12, 14, len(measured.values))
    return quantile, MeasuredValues(measured.question, values, measured.noises)


@pytest.mark.parametrize("level", [Fraction(1, 10), Fraction(1, 2)])
def test_quantiles_have_one_estimate_at_every_confidence(level) -> None:
    _hold_one_estimate([evaluate(*counts(level), failing) for failing in FAILING])


def test_a_population_has_the_estimate_of_its_table() -> None:
    for expression, measured in ((MEAN, sums(NOISES[0])), counts(Fraction(1, 2))):
        band = population_band(expression, measured, failing=0.05, size=None)
        assert np.array_equal(band.value, evaluate(expression, measured, 0.05).value)


def _hold_one_estimate(bands) -> None:
    for band in bands:
        assert np.array_equal(band.value, bands[0].value)
        assert np.all((band.low <= band.value) & (band.value <= band.high))
