"""The discrete Gaussian mechanism against sums over its law in high precision."""

import itertools
import math
from fractions import Fraction
from statistics import NormalDist

import mpmath
import numpy as np
import pytest

from dodona.errors import InvalidArgument
from dodona.lab.mechanisms import Calibration, Gaussian
from dodona.privacy import additive_noise
from dodona.privacy.accuracy import Accuracy
from dodona.privacy.events import GaussianEvent
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours
from tests.privacy import laws

mp = mpmath.mp.clone()
mp.dps = 40

COUNT = Sensitivity.count(Neighbours.ADD_REMOVE)
CELLS = Sensitivity.histogram(Neighbours.REPLACE)
SEVEN = Sensitivity(l1=7, l2_squared=49, linf=7, neighbours=Neighbours.ADD_REMOVE)


def weights(scale: Fraction, reach: int) -> list[mpmath.mpf]:
    """The law on -reach, …, reach, by its definition."""
    double = 2 * mp.mpf(scale.numerator**2) / scale.denominator**2
    raw = [mp.exp(-(mp.mpf(noise) ** 2) / double) for noise in range(reach + 1)]
    total = raw[0] + 2 * mp.fsum(raw[1:])
    return [weight / total for weight in [*reversed(raw[1:]), *raw]]


def delta(epsilon: str, scale: Fraction, change: tuple[int, ...]) -> mpmath.mpf:
    """δ(ε) = Σ max(0, P - e^ε·Q) for answers that move by `change`, each with its own noise."""
    reach = math.ceil(14 * scale) + 3 * max(change)
    law = weights(scale, reach)
    grids = []
    for step in change:
        shifted = {noise: law[noise + reach] for noise in range(-reach, reach + 1)}
        grids.append([(shifted[x], shifted[x + step]) for x in range(-reach + step, reach - step + 1)])
    factor = mp.exp(mp.mpf(epsilon))
    terms = (mp.fprod(p for p, _ in cell) - factor * mp.fprod(q for _, q in cell) for cell in itertools.product(*grids))
    return mp.fsum(term for term in terms if term > 0)


def tail(scale: Fraction, steps: int) -> mpmath.mpf:
    reach = max(steps, math.ceil(16 * scale)) + 2
    return 2 * mp.fsum(weights(scale, reach)[reach + steps + 1 :])


@pytest.mark.parametrize("change", [(1, 0), (2, 0), (1, 1), (2, 1), (-2, 2)])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(5, 2)])
def test_no_move_tells_more_than_the_event_says(change: tuple[int, int], scale: Fraction) -> None:
    event = GaussianEvent(sum(step**2 for step in change), scale**2, Neighbours.REPLACE)
    grid = np.arange(-100.0, 101.0)
    whole = math.log(additive_noise.gaussian_normalizer(float(scale)))

    def log_law(moves: tuple[int, int]) -> laws.Floats:
        first, second = (-((grid - step) ** 2) / (2 * float(scale) ** 2) - whole for step in moves)
        return np.add.outer(first, second)

    here, there = log_law((0, 0)), log_law(change)
    assert float(np.sum(np.exp(here) * (here - there))) <= float(event.rho()) * (1 + 1e-9)
    for order in (1.5, 2.0, 4.0):
        divergence = math.log(float(np.sum(np.exp(order * here + (1 - order) * there)))) / (order - 1)
        assert divergence <= float(event.renyi(Fraction(order))) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "2.2758", "5"])
@pytest.mark.parametrize(
    ("scale", "sensitivity", "change"),
    [
        ("2", COUNT, (1,)),
        ("1/2", COUNT, (1,)),
        ("12.5", COUNT, (1,)),
        ("9", SEVEN, (7,)),
        ("3/2", CELLS, (1, 1)),
        ("1/2", CELLS, (1, 1)),
        ("3", CELLS, (1, 1)),
    ],
)
def test_delta_is_the_sum_over_the_law_and_never_below_it(
    epsilon: str, scale: str, sensitivity: Sensitivity, change: tuple[int, ...]
) -> None:
    truth = delta(epsilon, Fraction(scale), change)
    stated = Gaussian(scale=scale).delta(epsilon, sensitivity)
    assert truth <= stated <= truth * (1 + 1e-8) + 1e-30


def test_delta_through_zcdp_covers_a_vector() -> None:
    """Three counts that all move: the bound through zCDP is above the exact sum, within a factor of fifty."""
    three = Sensitivity.counts(3, Neighbours.ADD_REMOVE)
    truth = delta("1", Fraction(1), (1, 1, 1))
    assert truth <= Gaussian(scale=1).delta(1, three) <= 50 * truth


@pytest.mark.parametrize("scale", [Fraction(3, 10), Fraction(1), Fraction(5, 2)])
def test_one_answer_that_moves_far_is_worse_than_several_that_share_the_way(scale: Fraction) -> None:
    """Sensitivities with l1 = linf = d allow a change to be split. Computed, not proved: no split is worse than d."""
    every: dict[int, list[tuple[int, ...]]] = {2: [(1, 1)], 3: [(2, 1), (1, 1, 1)], 4: [(3, 1), (2, 2)]}
    for whole, splits in every.items():
        sensitivity = Sensitivity(l1=whole, l2_squared=whole**2, linf=whole, neighbours=Neighbours.ADD_REMOVE)
        for epsilon in (0.05, 0.5, 1.0, 3.0, 8.0):
            stated = additive_noise.discrete_gaussian_delta(epsilon, float(scale), sensitivity)
            for split in splits:
                assert split_delta(epsilon, float(scale), split) <= stated * (1 + 1e-9)


def split_delta(epsilon: float, scale: float, change: tuple[int, ...]) -> float:
    """δ(ε) by an array over all noise, in doubles."""
    reach = math.ceil(9 * scale) + 2
    grid = np.arange(-reach, reach + 1, dtype=np.float64)
    single = np.exp(-((grid / scale) ** 2) / 2)
    single /= single.sum()
    weight, loss = np.ones(1), np.zeros(1)
    for step in change:
        weight = np.multiply.outer(weight, single).ravel()
        loss = np.add.outer(loss, step * (step + 2 * grid) / (2 * scale**2)).ravel()
    return float(np.sum(weight * np.maximum(-np.expm1(epsilon - loss), 0)))


def test_the_discrete_law_needs_more_than_the_continuous_formula() -> None:
    """σ = 2, δ = 10^-6: ε is 2.2758, and 2.2541 for continuous noise."""

    def least(holds: object) -> float:
        low, high = 0.1, 10.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)  # type: ignore[operator]
        return high

    discrete = least(lambda loss: additive_noise.discrete_gaussian_delta(loss, 2.0, COUNT) <= 1e-6)
    continuous = least(lambda loss: additive_noise.continuous_gaussian_delta(loss, 0.5) <= 1e-6)
    assert discrete == pytest.approx(2.2758, abs=5e-5)
    assert continuous == pytest.approx(2.2541, abs=5e-5)


@pytest.mark.parametrize(("epsilon", "failing"), [("0.5", "1e-6"), ("1", "1e-6"), ("2", "1e-9"), ("8", "1e-3")])
@pytest.mark.parametrize(("sensitivity", "change"), [(COUNT, (1,)), (CELLS, (1, 1))], ids=["count", "cells"])
def test_noise_for_a_budget_keeps_it_and_two_hundredths_less_does_not(
    epsilon: str, failing: str, sensitivity: Sensitivity, change: tuple[int, ...]
) -> None:
    mechanism = Gaussian.for_privacy(epsilon, failing, sensitivity)
    if mechanism.scale < 5 or change == (1,):
        assert delta(epsilon, mechanism.scale, change) <= mp.mpf(failing)
    if mechanism.scale < 1:
        return  # on so coarse a grid δ is no longer monotone in the scale, and the search only goes up
    quieter = additive_noise.discrete_gaussian_delta(float(epsilon), float(mechanism.scale) * 0.98, sensitivity)
    assert quieter > float(failing)


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "0.5", "0.9"])
def test_the_analytic_calibration_needs_no_more_noise_than_the_classical_one(epsilon: str) -> None:
    analytic = Gaussian.for_privacy(epsilon, "1e-5", COUNT)
    classical = Gaussian.for_privacy(epsilon, "1e-5", COUNT, calibration=Calibration.CLASSICAL)
    assert analytic.scale <= classical.scale
    assert classical.delta(epsilon, COUNT) <= 1e-5


@pytest.mark.parametrize("epsilon", [1, "1.5", 8])
def test_the_classical_formula_is_refused_where_it_is_not_proved(epsilon: float) -> None:
    with pytest.raises(InvalidArgument, match=r"epsilon = .*ANALYTIC"):
        Gaussian.for_privacy(epsilon, "1e-6", COUNT, calibration=Calibration.CLASSICAL)


def test_the_lower_tail_of_the_continuous_formula_keeps_its_digits() -> None:
    """ε = 2, μ = .1: about 10^-88, which one minus a number near one cannot show."""
    truth = mp.ncdf(mp.mpf("-19.95")) - mp.exp(2) * mp.ncdf(mp.mpf("-20.05"))
    assert additive_noise.continuous_gaussian_delta(2.0, 0.1) == pytest.approx(float(truth), rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-5, 3e-5])
def test_beyond_the_largest_sum_delta_is_still_not_below_a_sum(epsilon: float) -> None:
    """σ = 120,000 is over the limit: a sum over every integer within 9σ is at most what is stated."""
    scale = 120_000.0
    grid = np.arange(-9 * 120_000, 9 * 120_000 + 1, dtype=np.float64)
    raw = np.exp(-((grid / scale) ** 2) / 2)
    loss = (1 + 2 * grid) / (2 * scale**2)
    summed = float(np.sum(raw * np.maximum(-np.expm1(epsilon - loss), 0))) / raw.sum()
    stated = additive_noise.discrete_gaussian_delta(epsilon, scale, COUNT)
    assert summed <= stated <= summed + 6e-12


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(5), Fraction(50), Fraction(1000)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_stated_error_covers_and_one_step_less_does_not(scale: Fraction, confidence: float) -> None:
    within = int(Gaussian(scale=scale).accuracy(confidence).within)
    assert 1 - tail(scale, within) >= confidence
    if within > 0:
        assert 1 - tail(scale, within - 1) < confidence


def test_the_error_of_many_answers_covers_all_of_them() -> None:
    within = int(Gaussian(scale=5).accuracy(0.95, answers=100).within)
    assert (1 - tail(Fraction(5), within)) ** 100 >= 0.95 > (1 - tail(Fraction(5), within - 1)) ** 100


def test_the_gaussian_quantile_alone_does_not_cover() -> None:
    """σ = 5: rounded down to the grid it fails 1.27 times as often as promised at β = .028, 1.55 times at 4·10^-6."""
    for step, failing, times in ((10, 0.0278, 1.274), (22, 4.22e-6, 1.553)):
        promised = math.erfc((step + 1) / 5 / math.sqrt(2))
        assert promised == pytest.approx(failing, rel=2e-3)
        # A quantile just short of step + 1 covers the noise up to step alone.
        assert -NormalDist().inv_cdf(promised * 1.0001 / 2) * 5 < step + 1
        assert float(tail(Fraction(5), step)) / promised == pytest.approx(times, abs=1e-3)
        assert Gaussian(scale=5).accuracy(1 - promised * 1.0001).within == step + 1


@pytest.mark.parametrize("scale", [1_500, 10**6, 10**12])
def test_beyond_the_largest_sum_the_error_is_the_quantile_rounded_up(scale: int) -> None:
    stated = Gaussian(scale=scale).accuracy(0.95)
    assert scale * 1.9599639 < stated.within < scale * 1.959965 + 1
    if scale < 2_000:
        assert 1 - tail(Fraction(scale), int(stated.within)) >= 0.95
        assert 1 - tail(Fraction(scale), int(stated.within) - 2) < 0.95


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(5), Fraction(1500)])
def test_the_expected_error_is_not_below_the_sum_over_the_law(scale: Fraction) -> None:
    reach = math.ceil(14 * scale) + 2
    law = weights(scale, reach)
    summed = 2 * mp.fsum(noise * law[reach + noise] for noise in range(1, reach + 1))
    stated = Gaussian(scale=scale).accuracy().expected
    assert stated is not None
    assert summed * (1 - 1e-12) <= stated <= summed * (1 + 1e-6)


@pytest.mark.parametrize(("within", "answers"), [(0, 1), (3, 1), (40, 100), (800.5, 1), (5_000, 7)])
def test_noise_for_a_target_meets_it_and_a_hundredth_more_does_not(within: float, answers: int) -> None:
    mechanism = Gaussian.for_accuracy(Accuracy(within=within, confidence=0.95), answers=answers)
    assert mechanism.accuracy(0.95, answers=answers).within <= within
    louder = Gaussian(scale=mechanism.scale * Fraction(101, 100))
    assert louder.accuracy(0.95, answers=answers).within > within


def test_probabilities_are_those_of_the_law() -> None:
    for scale in (Fraction(1, 3), Fraction(5)):
        law = weights(scale, 80)
        mechanism = Gaussian(scale=scale)
        assert [mechanism.probability(noise) for noise in range(5)] == pytest.approx(
            [float(chance) for chance in law[80:85]], rel=1e-12
        )
