"""Sums of rounded normal draws: bounds on their quantiles, moments and transforms, against sums over the integers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dodona.answer.laws import GaussianSumBound, NoiseSum, half_width
from dodona.answer.sums import (
    CharacteristicFunction,
    NoiseTerm,
    convolution_quantile,
    gaussian_sum_quantile,
    rounded_variance,
    series_quantile,
)
from dodona.answer.view import CombinationBound
from dodona.knowledge.patterns import noise_variance
from dodona.privacy.additive_noise import Gaussian, Laplace, RoundedGaussian

LAW = "RoundedGaussian"


def chances(scale: float) -> np.ndarray:
    """P(x) for x from -reach to reach."""
    reach = math.ceil(14 * scale) + 3
    ends = (np.arange(-reach, reach + 2) - 0.5) / (scale * math.sqrt(2))
    above = np.array([math.erfc(end) / 2 for end in np.abs(ends)])
    return np.abs(np.diff(np.where(ends < 0, above, 1 - above)))


def summed(scales: list[float], factors: list[int]) -> np.ndarray:
    """The law of Σ factor·x, on the integers around the middle."""
    law = np.ones(1)
    for scale, factor in zip(scales, factors, strict=True):
        probabilities = chances(scale)
        spread = np.zeros((probabilities.size - 1) * factor + 1)
        spread[::factor] = probabilities
        law = np.convolve(law, spread)
    return law


def beyond(law: np.ndarray, distance: float) -> float:
    if math.isinf(distance):
        return 0.0
    middle = law.size // 2
    return float(law[middle + math.floor(distance + 1e-9) + 1 :].sum())


SUMS = [([4.0], [1]), ([4.0, 4.0], [1, 1]), ([4.0, 9.0], [3, 2]), ([5.0] * 6, [1] * 6), ([40.0, 12.0], [1, 5])]


@pytest.mark.parametrize(("scales", "factors"), SUMS, ids=str)
@pytest.mark.parametrize("failing", [0.4, 0.025, 1e-4, 1e-9])
def test_a_sum_of_rounded_draws_is_beyond_its_quantile_as_rarely_as_is_said(scales, factors, failing):
    law = summed(scales, factors)
    terms = tuple(NoiseTerm(float(factor), LAW, scale) for scale, factor in zip(scales, factors, strict=True))
    variance, reach = sum(term.normal_variance for term in terms), float(max(factors))
    quantiles = {
        "few facts": gaussian_sum_quantile(variance, reach, failing),
        "series": series_quantile(terms, failing),
        "convolution": convolution_quantile(terms, failing),
        "law": NoiseSum(terms).quantile(2 * failing) if failing < 0.4 else math.inf,
    }
    for name, quantile in quantiles.items():
        assert beyond(law, quantile) <= failing * (1 + 1e-9), name
    if failing >= 1e-4:
        least = next(step for step in range(law.size) if beyond(law, step) <= failing)
        assert quantiles["convolution"] == pytest.approx(least, rel=0.02, abs=1.01)
        assert quantiles["few facts"] <= least + 6 * reach + 0.05 * math.sqrt(variance)


@pytest.mark.parametrize("scale", [0.05, 0.2, 0.3, 0.5, 0.8, 1.0, 2.0, 3.9, 4.0, 10.0])
def test_moments_of_a_rounded_draw_are_below_those_of_its_width(scale):
    law = chances(scale)
    steps = np.arange(law.size) - law.size // 2
    width = NoiseTerm(1.0, LAW, scale).width
    for power in np.concatenate([np.geomspace(1e-3, 1, 40), np.linspace(1, 8 / max(scale, 0.3), 60)]):
        logs = np.log(np.maximum(law, 1e-300)) + power * steps
        moment = logs.max() + math.log(np.exp(logs - logs.max()).sum())
        assert moment <= width**2 * power**2 / 2 + 1e-12


@pytest.mark.parametrize("scale", [4.0, 6.5, 30.0])
def test_the_transform_is_that_of_a_normal_and_a_uniform_number(scale):
    law = chances(scale)
    steps = np.arange(law.size) - law.size // 2
    waves = CharacteristicFunction.of((NoiseTerm(1.0, LAW, scale),))
    for angle in np.linspace(0.01, min(math.pi / 2, 6 / scale), 20):
        truth = float(np.cos(angle * steps) @ law)
        assert math.exp(float(waves.log(np.array([angle]))[0])) == pytest.approx(truth, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 3.0, 3.999, 4.0, 25.0])
def test_variances_are_those_of_the_law(scale):
    law = chances(scale)
    steps = np.arange(law.size) - law.size // 2
    truth = float(law @ steps.astype(float) ** 2)
    assert rounded_variance(scale) == pytest.approx(truth, rel=1e-9)
    assert NoiseTerm(2.0, LAW, scale, 3).variance == pytest.approx(12 * truth, rel=1e-9)
    assert noise_variance(RoundedGaussian(scale=repr(scale))) == pytest.approx(truth, rel=1e-9)


def test_a_narrow_rounded_draw_has_no_series_but_a_quantile():
    terms = (NoiseTerm(1.0, LAW, 0.7, 3),)
    assert series_quantile(terms, 0.01) == math.inf
    law = summed([0.7] * 3, [1] * 3)
    assert beyond(law, NoiseSum(terms).quantile(0.02)) <= 0.01


def test_mixed_sums_hold_too():
    """A rounded draw, a discrete Gaussian and a Laplace draw together: 400,000 draws, three deviations of the count."""
    rng = np.random.default_rng(1)
    draws = 400_000
    sums = np.rint(20 * rng.standard_normal(draws)) + 3 * np.rint(9 * rng.standard_normal(draws))
    sums += np.floor(rng.exponential(30, draws)) - np.floor(rng.exponential(30, draws))
    law = NoiseSum.combination([(1.0, RoundedGaussian(scale=20)), (3.0, Gaussian(scale=9)), (-1.0, Laplace(scale=30))])
    missed = float(np.mean(np.abs(sums) > law.quantile(0.05)))
    assert missed <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / draws)
    assert missed >= 0.04


def test_single_draws_and_any_choice():
    noise = RoundedGaussian(scale=20)
    assert half_width(noise, 0.05) == noise.accuracy(0.95).within == 39
    reach = CombinationBound(squares=5.0, sums=7.0, each=(6.0, 4.0), failing=0.05)
    assert reach.within(noise) == pytest.approx(4 * math.sqrt(400 + 1 / 12), rel=1e-6)
    assert reach.within(GaussianSumBound(400 + 1 / (2 * math.pi), 1.0)) == pytest.approx(100.02, rel=1e-4)
