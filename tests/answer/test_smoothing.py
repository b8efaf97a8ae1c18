"""Quantiles of sums of very many draws, against laws that are convolved here."""

import math
import time
from functools import cache

import numpy as np
import pytest

from dodona.answer.laws import GaussianSumBound, NoiseSum, NoiseTerm, chernoff_bound, half_width, upper_quantile
from dodona.answer.sums import CharacteristicFunction, gaussian_sum_quantile, series_quantile
from dodona.errors import InvalidArgument
from dodona.lab import direct
from dodona.lab.mechanisms import Gaussian, Laplace
from tests.answer.scene import binomial_band

FAILING = [0.1, 0.025, 5e-4, 1e-6]


def weights(law: str, scale: float, reach: int) -> np.ndarray:
    steps = np.arange(-reach, reach + 1)
    masses = np.exp(-np.abs(steps) / scale) if law == "Laplace" else np.exp(-((steps / scale) ** 2) / 2)
    return masses / masses.sum()


@cache
def lattice(terms: tuple[NoiseTerm, ...], points: int) -> np.ndarray:
    """The law of a sum with whole factors, from -points/2 up; off by 10^-12 at most where it fits."""
    product = np.ones(points // 2 + 1)
    for term in terms:
        factor = int(term.factor)
        reach = min(math.ceil(60 * term.scale) + 40, points // (2 * factor) - 1)
        law = np.zeros(points)
        np.add.at(law, np.arange(-reach, reach + 1) * factor % points, weights(term.law, term.scale, reach))
        product *= np.maximum(np.fft.rfft(law).real, 0.0) ** term.times
    masses = np.fft.irfft(product, points)
    return np.concatenate([masses[points // 2 :], masses[: points // 2]])


def beyond(law: np.ndarray, number: float) -> float:
    """P(sum > number)."""
    return float(law[len(law) // 2 + math.floor(number) + 1 :].sum())


def quantile(law: np.ndarray, failing: float) -> int:
    """The least whole number that the sum is above with probability at most `failing`."""
    above = np.cumsum(law[::-1])[::-1] - law
    return int(np.argmax(above <= failing)) - len(law) // 2


NORMAL = [
    (NoiseTerm(1.0, "Gaussian", 4.0),),
    (NoiseTerm(1.0, "Gaussian", 4.0, 3),),
    (NoiseTerm(1.0, "Gaussian", 9.5),),
    (NoiseTerm(3.0, "Gaussian", 20.0),),
    (NoiseTerm(1.0, "Gaussian", 4.0, 50),),
    (NoiseTerm(1.0, "Gaussian", 50.0, 100), NoiseTerm(3.0, "Gaussian", 20.0, 20)),
    (NoiseTerm(1.0, "Gaussian", 67.0, 1000), NoiseTerm(40.0, "Gaussian", 5.0, 3)),
    (NoiseTerm(1.0, "Gaussian", 300.0, 12), NoiseTerm(2.0, "Gaussian", 500.0)),
]


@pytest.mark.parametrize("terms", NORMAL)
@pytest.mark.parametrize("failing", FAILING)
def test_a_sum_of_normal_draws_is_beyond_its_quantile_as_rarely_as_is_said(terms, failing) -> None:
    law = lattice(terms, 1 << 17)
    variance, reach = sum(term.variance for term in terms), max(term.factor for term in terms)
    bound = gaussian_sum_quantile(variance, reach, failing)
    assert beyond(law, bound) <= failing
    assert bound <= quantile(law, failing) + 4 * reach
    assert half_width(GaussianSumBound(variance, reach), 2 * failing) == bound
    assert GaussianSumBound.of(
        np.concatenate([np.full(term.times, -term.factor) for term in terms]),
        np.concatenate([np.full(term.times, term.scale) for term in terms]),
    ).quantile(2 * failing) == pytest.approx(bound)


VERY_MANY = [
    (NoiseTerm(1.0, "Laplace", 67.2, 700), NoiseTerm(3.0, "Laplace", 67.2, 324)),
    (NoiseTerm(1.0, "Laplace", 67.2, 40_000), NoiseTerm(3.0, "Laplace", 67.2, 25_536)),
    (NoiseTerm(1.0, "Laplace", 30.0, 600), NoiseTerm(2.0, "Gaussian", 90.0, 424)),
    (
        NoiseTerm(1.0, "Laplace", 30.0, 600),
        NoiseTerm(2.0, "Gaussian", 90.0, 200),
        NoiseTerm(1.0, "Gaussian", 150.0, 224),
    ),
    (NoiseTerm(1.0, "Laplace", 3.0, 65_536),),
]


@pytest.mark.parametrize("terms", VERY_MANY)
@pytest.mark.parametrize("failing", FAILING)
def test_a_sum_of_very_many_draws_is_beyond_its_quantile_as_rarely_as_is_said(terms, failing) -> None:
    """Within 0.3% of the true quantile, where Chernoff's bound is off by a tenth and more."""
    law = lattice(terms, 1 << 21)
    bound = series_quantile(terms, failing)
    assert beyond(law, bound) <= failing
    assert quantile(law, failing) <= bound <= 1.003 * quantile(law, failing)
    assert upper_quantile(terms, failing) <= bound < 0.95 * chernoff_bound(terms, failing)
    assert half_width(NoiseSum(terms), 2 * failing) == upper_quantile(terms, failing)


@pytest.mark.parametrize(
    "terms",
    [
        (NoiseTerm(1.0, "Laplace", 0.5, 300),),
        (NoiseTerm(1.0, "Laplace", 2.0, 20), NoiseTerm(2.0, "Laplace", 1.0, 30)),
        (NoiseTerm(2.0, "Gaussian", 0.6, 400), NoiseTerm(1.0, "Laplace", 0.5, 2000)),
        (NoiseTerm(3.0, "Gaussian", 2.5, 40), NoiseTerm(1.0, "Gaussian", 7.0, 10)),
        (NoiseTerm(1.0, "Laplace", 6.0, 12),),
    ],
)
@pytest.mark.parametrize("failing", [0.3, 0.2, 0.11, 0.05, 0.025, 0.01, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6])
def test_a_coarse_sum_is_beyond_its_quantile_as_rarely_as_is_said(terms, failing) -> None:
    """The steps are wide beside the deviation, so what is moved by the smoothing matters."""
    law = lattice(terms, 1 << 13)
    reach = max(term.factor for term in terms)
    bound = series_quantile(terms, failing)
    assert beyond(law, bound) <= failing
    assert bound <= quantile(law, failing) + 5 * reach
    assert beyond(law, upper_quantile(terms, failing)) <= failing
    # All factors are whole, so the convolution is exact, of how many draws it may be.
    assert upper_quantile(terms, failing) == pytest.approx(quantile(law, failing), abs=1e-6)


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize(("first", "second"), [(1 / 3, 2 / 7 * math.sqrt(2)), (1.0, math.pi / 300), (0.5, 0.5000001)])
def test_factors_that_share_no_grid_are_no_difficulty(first, second, failing) -> None:
    """P(aX + bY > q) is summed over the laws of X and Y: 700 draws and 324 draws."""
    terms = (NoiseTerm(first, "Laplace", 20.0, 700), NoiseTerm(second, "Laplace", 35.0, 324))
    x_law, two = (
        lattice((NoiseTerm(1.0, "Laplace", *parameters),), 1 << 15) for parameters in ((20.0, 700), (35.0, 324))
    )
    tails = np.append(np.cumsum(two[::-1])[::-1], 0.0)  # P(Y ≥ step)

    def exact(number: float) -> float:
        steps = np.arange(-(1 << 14), 1 << 14)
        least = np.floor((number - first * steps) / second + 1e-12).astype(int) + 1
        return float(x_law @ tails[np.clip(least + (1 << 14), 0, 1 << 15)])

    bound = series_quantile(terms, failing)
    assert exact(bound) <= failing
    assert exact(bound * 0.997) > failing
    assert upper_quantile(terms, failing) <= bound


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 3.9, 4.0, 12.0])
@pytest.mark.parametrize("name", ["Laplace", "Gaussian"])
def test_transforms_are_those_of_the_laws(name, scale) -> None:
    law, steps = weights(name, scale, 600), np.arange(-600, 601)
    angle = np.linspace(0.001, math.pi / 2, 50)
    exact = np.array([float(np.cos(frequency * steps) @ law) for frequency in angle])
    for factor, times in ((1.0, 1), (0.25, 3)):
        logarithm = CharacteristicFunction.of((NoiseTerm(factor, name, scale, times),)).log(angle / factor)
        assert np.exp(logarithm) == pytest.approx(exact**times, abs=1e-13)


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0, 4.0, 5.5])
def test_transforms_fall_and_are_bounded_by_those_of_normal_laws(scale) -> None:
    """Both laws fall on [0, π]; a discrete Gaussian of scale 4 and up is between e^(-σ²u²/2) and e^(-0.96σ²u²/2)."""
    angle, steps = np.linspace(0, math.pi, 400), np.arange(-200, 201)
    for name in ("Laplace", "Gaussian"):
        transforms = np.array([float(np.cos(frequency * steps) @ weights(name, scale, 200)) for frequency in angle])
        assert np.all(np.diff(transforms) <= 1e-15)
    if scale >= 4:
        turns = 2 * math.pi * np.arange(-3, 4)
        total = np.exp(-((turns * scale) ** 2) / 2).sum()
        for frequency in angle:
            log = math.log(math.fsum(math.exp(-(((frequency + turn) * scale) ** 2) / 2) for turn in turns) / total)
            assert -((scale * frequency) ** 2) / 2 <= log + 1e-9
            assert log <= -0.96 * (scale * frequency) ** 2 / 2


@pytest.mark.parametrize(("noise", "factors"), [(Laplace(scale=20), (1.0, 0.37)), (Gaussian(scale=9), (1.0, 2.5))])
def test_drawn_sums_are_beyond_their_half_widths_as_often_as_is_said(noise, factors) -> None:
    """4,000 sums of 256 draws each; a false alarm in a million runs."""
    sums, failing = 4_000, 0.05
    drawn = np.asarray(direct.run(noise, np.zeros(256 * sums, dtype=np.int64)), dtype=np.float64).reshape(sums, 256)
    coefficients = np.where(np.arange(256) < 100, *factors)
    missed = int(np.sum(np.abs(drawn @ coefficients) > half_width(NoiseSum.of(coefficients, noise), failing)))
    low, high = binomial_band(sums, failing)
    assert low <= missed <= high
    if isinstance(noise, Gaussian):
        bell = half_width(GaussianSumBound.of(coefficients, float(noise.scale)), failing)
        assert low <= np.sum(np.abs(drawn @ coefficients) > bell) <= high


def test_rare_failures_and_few_draws_are_left_to_other_bounds() -> None:
    terms = (NoiseTerm(1.0, "Laplace", 5.0),)
    assert series_quantile(terms, 0.01) == math.inf
    assert series_quantile((NoiseTerm(1.0, "Laplace", 0.001, 50),), 0.01) == math.inf  # so narrow that it is always 0
    assert series_quantile((NoiseTerm(1.0, "Laplace", 5.0, 999),), 1e-12) == math.inf
    assert series_quantile((NoiseTerm(1.0, "Laplace", 5.0, 999),), 0.6) == math.inf
    assert gaussian_sum_quantile(100.0, 1.0, 1e-40) == pytest.approx(math.sqrt(200 * math.log(1e40)))
    many = tuple(NoiseTerm(1 + number / 1000, "Laplace", 5.0) for number in range(40))
    assert upper_quantile(many, 1e-12) >= chernoff_bound(many, 1e-12)


def test_a_blend_groups_its_terms_and_knows_its_variance() -> None:
    blend = NoiseSum.of(np.array([1.0, -1.0, 0.0, 2.0]), Laplace(scale=3))
    assert blend == NoiseSum(
        (NoiseTerm(2.0, "Laplace", 3.0), NoiseTerm(1.0, "Laplace", 3.0, 2), NoiseTerm(0.0, "Gaussian", 9.0))
    )
    assert hash(blend) == hash(NoiseSum(blend.terms))
    assert blend.draws == 3
    law, steps = weights("Laplace", 3.0, 300), np.arange(-300, 301)
    assert blend.variance == pytest.approx(6 * float(steps**2 @ law))
    small = NoiseTerm(2.0, "Gaussian", 0.4, 5)
    assert small.variance == pytest.approx(20 * float(steps**2 @ weights("Gaussian", 0.4, 300)))
    assert NoiseSum(()).quantile(0.05) == 0.0
    with pytest.raises(InvalidArgument, match="factors from 0 up"):
        NoiseSum((NoiseTerm(math.nan, "Laplace", 1.0),))


def test_several_answers_share_what_may_fail_whatever_they_have_in_common() -> None:
    for law in (NoiseSum((NoiseTerm(1.0, "Laplace", 20.0, 300),)), GaussianSumBound(90_000.0, 1.0)):
        assert law.accuracy(0.95, answers=10).within == pytest.approx(law.quantile(0.005))
        assert half_width(law, 0.05, 10) == pytest.approx(law.quantile(0.005))
        assert law.accuracy(0.9).expected == pytest.approx(math.sqrt(law.variance))


@pytest.mark.parametrize(("variance", "reach"), [(15.9, 1.0), (math.inf, 1.0), (math.nan, 1.0), (100.0, 0.0)])
def test_what_is_no_sum_of_wide_normal_draws_is_refused(variance, reach) -> None:
    with pytest.raises(InvalidArgument):
        GaussianSumBound(variance, reach)


def test_narrow_draws_are_no_bell() -> None:
    with pytest.raises(InvalidArgument, match="from 4 up"):
        GaussianSumBound.of(np.ones(2), np.array([3.9, 400.0]))


def test_bounds_are_quick() -> None:
    """The best of some runs, and ten times what is needed on one core."""
    terms = (NoiseTerm(1 / 3, "Laplace", 67.2, 40_000), NoiseTerm(0.7123, "Laplace", 67.2, 25_536))
    assert best(lambda: gaussian_sum_quantile(1e6, 1.0, 1e-3)) < 5e-5
    assert best(lambda: series_quantile(terms, 1e-3)) < 5e-3


def best(task) -> float:
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
