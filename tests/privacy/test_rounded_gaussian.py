"""The rounded normal mechanism: its tails, its error and its price."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dodona.privacy.accuracy import Accuracy
from dodona.privacy.additive_noise import RoundedGaussian, continuous_gaussian_delta
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

SCALES = ["1/1000", "3/10", "1", "7/3", "50", "12345.678", "1e9"]
COUNT = Sensitivity.count(Neighbours.REPLACE)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("confidence", "answers"), [(0.5, 1), (0.95, 1), (0.99, 1000), (1 - 1e-9, 1)])
def test_an_error_is_the_least_whole_number_that_the_tail_allows(scale, confidence, answers):
    noise = RoundedGaussian(scale=scale)
    within = noise.accuracy(confidence, answers=answers).within
    share = -math.expm1(math.log1p(-(1 - confidence)) / answers)
    with mpmath.workdps(50):
        deviation = mpmath.mpf(noise.scale.numerator) / noise.scale.denominator

        def beyond(steps: float) -> mpmath.mpf:
            return 2 * mpmath.ncdf(-(steps + mpmath.mpf(1) / 2) / deviation)

        assert beyond(within) <= share * (1 + 1e-9)
        assert within == 0 or beyond(within - 1) >= share * (1 - 1e-9)


@pytest.mark.parametrize("within", [0, 1, 7.5, 100, 1e6])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_widest_noise_meets_its_target_and_hardly_wider_does_not(within, confidence):
    noise = RoundedGaussian.for_accuracy(Accuracy(within=max(within, 1), confidence=confidence), answers=3)
    assert noise.accuracy(confidence, answers=3).within <= max(within, 1)
    wider = RoundedGaussian(scale=noise.scale * Fraction(1_000_001, 1_000_000))
    assert wider.accuracy(confidence, answers=3).within > max(within, 1) - 1e-9 or within < 1


@pytest.mark.parametrize("scale", ["1/4", "1", "7/3", "20", "10000", "20000"])
def test_probabilities_are_those_of_the_cells_of_a_normal_law(scale):
    noise, deviation = RoundedGaussian(scale=scale), float(Fraction(scale))
    for steps in (0, 1, -2, round(deviation), round(3 * deviation)):
        with mpmath.workdps(40):
            ends = [(abs(steps) + side) / mpmath.mpf(deviation) for side in (-0.5, 0.5)]
            truth = mpmath.ncdf(ends[1]) - mpmath.ncdf(ends[0])
        assert noise.probability(steps) == pytest.approx(float(truth), rel=1e-7, abs=1e-15)
    if deviation <= 20:
        total = math.fsum(noise.probability(steps) for steps in range(-400, 401))
        assert total == pytest.approx(1, abs=1e-12)
        mean = math.fsum(abs(steps) * noise.probability(steps) for steps in range(-400, 401))
        assert noise.accuracy(0.95).expected == pytest.approx(mean, rel=1e-9)


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("distance", [1, 3])
def test_a_rounded_answer_tells_no_more_than_the_unrounded_one(scale, distance):
    """The hockey-stick divergence of the drawn law, summed over the integers, is below that of the normal law."""
    noise, reach = RoundedGaussian(scale=str(scale)), math.ceil(12 * scale) + 2 * distance
    steps = range(-reach, reach + 1)
    here = np.array([noise.probability(step) for step in steps])
    there = np.array([noise.probability(step - distance) for step in steps])
    for epsilon in np.linspace(0.0, 4 * distance / scale, 9):
        divergence = float(np.maximum(here - math.exp(epsilon) * there, 0.0).sum())
        allowed = continuous_gaussian_delta(float(epsilon), distance / scale)
        assert divergence <= allowed * (1 + 1e-9) + 1e-15


def test_a_mechanism_for_a_budget_keeps_to_it():
    for moved in (COUNT, Sensitivity.histogram(Neighbours.REPLACE)):
        noise = RoundedGaussian.for_privacy(1, "1e-6", moved)
        assert noise.delta(1, moved) <= 1e-6
        assert RoundedGaussian(scale=noise.scale * Fraction(999, 1000)).delta(1, moved) > 1e-6
        assert noise.event(moved).ratio == moved.l2_squared / noise.scale**2


def test_the_price_is_that_of_the_normal_law_in_every_currency():
    event = RoundedGaussian(scale=10).event(COUNT)
    assert event.epsilon is None
    assert float(event.rho()) == pytest.approx(1 / 200)
    assert float(event.renyi(Fraction(8))) == pytest.approx(8 / 200)
    assert float(event.mu_squared()) == pytest.approx(1 / 100)
