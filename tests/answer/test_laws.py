"""Sums of noises: bounds that hold, against laws that are convolved here term by term."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest

from dodona.answer.laws import NoiseTerm, chernoff_bound, half_width, upper_quantile
from dodona.answer.sums import upper_tail
from dodona.lab.mechanisms import Gaussian, Laplace

NOISES = [Laplace(scale=3), Gaussian(scale=3), Laplace(scale="1/2"), Gaussian(scale="1/2"), Gaussian(scale=25)]


def law_of(noise, reach: int) -> np.ndarray:
    return np.array([noise.probability(step) for step in range(-reach, reach + 1)])


def summed(noises: list) -> tuple[np.ndarray, int]:
    """The exact law of a sum, and its largest value."""
    law, reach = np.ones(1), 0
    for noise in noises:
        radius = 40 * math.ceil(float(noise.scale)) + 40
        law, reach = np.convolve(law, law_of(noise, radius)), reach + radius
    return law, reach


@pytest.mark.parametrize("noises", [[noise] * 5 for noise in NOISES] + [[NOISES[0], NOISES[1], NOISES[3]]])
@pytest.mark.parametrize("failing", [0.2, 0.025, 1e-4, 1e-7])
def test_the_quantile_of_a_sum_is_that_of_the_convolved_laws(noises, failing) -> None:
    law, reach = summed(noises)
    beyond = np.cumsum(law[::-1])[::-1]  # P(sum ≥ step)
    exact = int(np.argmax(beyond <= failing)) - reach - 1
    assert beyond[reach + exact + 1] <= failing < beyond[reach + exact] * (1 + 1e-9)
    assert upper_quantile(tuple(NoiseTerm.of(1, noise) for noise in noises), failing) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("factors", [(0.3, 0.7, 1.0), (1.0, math.pi, 0.01), (1e-3, 1.0, 250.0)])
@pytest.mark.parametrize("noises", list(itertools.product([Laplace(scale=2), Gaussian(scale=2)], repeat=3)))
def test_a_sum_with_any_factors_is_beyond_its_quantile_as_rarely_as_is_said(factors, noises) -> None:
    """Summed over two laws, and the tail of the third, which has the largest factor."""
    order = np.argsort(factors)
    parts = [(factors[place], noises[place]) for place in order]
    terms = tuple(NoiseTerm.of(factor, noise) for factor, noise in parts)
    for failing in (0.1, 0.01):
        quantile = upper_quantile(terms, failing)
        assert beyond(parts, quantile) <= failing
        assert beyond(parts, quantile * 0.97 - 1.01 * max(factors)) > failing  # one step less is too little


def beyond(parts: list, number: float) -> float:
    """P(Σ factor · noise > number), exactly but for what is beyond 100 steps."""
    steps = np.arange(-100, 101)
    laws = [np.array([noise.probability(int(step)) for step in steps]) for _, noise in parts]
    tails = np.concatenate([np.cumsum(laws[2][::-1])[::-1], [0.0]])  # P(third ≥ step)
    first = parts[0][0] * steps[:, None] + parts[1][0] * steps[None, :]
    least = np.floor((number - first) / parts[2][0] + 1e-12).astype(int) + 1
    weights = laws[0][:, None] * laws[1][None, :]
    return float(np.sum(weights * tails[np.clip(least + 100, 0, 201)]))


@pytest.mark.parametrize("noise", NOISES)
def test_the_tail_of_one_draw_is_that_of_its_law(noise) -> None:
    law, steps = law_of(noise, 800), np.arange(-60, 61)
    tails = upper_tail(type(noise).__name__, float(noise.scale), steps.astype(float))
    exact = [law[800 + step + 1 :].sum() for step in steps]
    assert tails == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("scale", [0.05, 0.3, 0.5, 1.0, 2.7, 40.0, 900.0])
def test_a_discrete_normal_draw_is_less_than_one_from_a_continuous_one(scale) -> None:
    """P(|Y| ≥ k) ≤ P(|X| ≥ k) ≤ P(|Y| > k - 1): so |X| is |Y| rounded up or down, in one draw of both."""
    law = law_of(Gaussian(scale=str(scale)), math.ceil(40 * scale) + 2)
    middle = len(law) // 2
    for step in range(1, min(math.ceil(6 * scale) + 2, middle)):
        discrete = 2 * law[middle + step :].sum()
        assert 2 * NormalDist().cdf(-step / scale) <= discrete * (1 + 1e-9)
        assert discrete <= 2 * NormalDist().cdf(-(step - 1) / scale) * (1 + 1e-9)


def test_a_discrete_laplace_draw_is_two_exponential_ones_rounded_down() -> None:
    """P(⌊E⌋ - ⌊E'⌋ = k) for exponential E, E' is the law, and both roundings together move it by less than 1."""
    noise, ratio = Laplace(scale=3), math.exp(-1 / 3)
    floors = (1 - ratio) * ratio ** np.arange(400)
    for step in range(12):
        assert float(np.sum(floors[step:] * floors[: 400 - step])) == pytest.approx(noise.probability(step))


def test_wide_normal_noise_is_bounded_by_the_continuous_law() -> None:
    steps = np.array([-3000.0, -1.0, 0.0, 1.0, 3000.0])
    law = law_of(Gaussian(scale=1500), 40 * 1500)
    middle = len(law) // 2
    exact = np.array([law[middle + int(step) + 1 :].sum() for step in steps])
    bound = upper_tail("Gaussian", 1500.0, steps)
    assert np.all(exact <= bound * (1 + 1e-9))
    assert bound == pytest.approx(exact, abs=4e-4)


def test_beyond_what_transforms_can_tell_the_simple_bound_is_used() -> None:
    terms = (NoiseTerm.of(1, Laplace(scale=5), 4),)
    assert upper_quantile(terms, 1e-12) == chernoff_bound(terms, 1e-12)
    assert upper_quantile((), 0.05) == 0.0
    assert upper_quantile(terms, 0.01) < chernoff_bound(terms, 0.01)


def test_a_half_width_is_the_mechanisms_own() -> None:
    noise = Laplace(scale=7)
    assert half_width(noise, 0.05) == noise.accuracy(0.95).within
    assert half_width(noise, 0.05, 12) == noise.accuracy(0.95, answers=12).within
