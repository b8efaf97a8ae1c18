"""Laws of privacy loss: that they are laws, and that no neighbours exceed them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from dodona.errors import InvalidArgument
from dodona.lab.convolution import (
    LossDistribution,
    binomial_probabilities,
    gaussian_loss_distribution,
    laplace_loss_distribution,
    log_moment,
    pure_loss_distribution,
)

LEVELS = [-1.0, -0.3, 0.0, 0.1, 0.25, 0.5, 0.9, 1.5, 2.5]


def delta(law: LossDistribution, level: float) -> float:
    values = float(law.top) - float(law.step) * np.arange(len(law.weights))
    return law.lost + math.fsum(law.weights * np.maximum(-np.expm1(level - values), 0.0))


def noise_delta(energy: list[np.ndarray], moved: list[np.ndarray], level: float) -> float:
    """δ(ε) of independent noises with P ∝ e^-energy, each moved, over all vectors of a box."""
    first, second = np.zeros(()), np.zeros(())
    for here, there in zip(energy, moved, strict=True):
        total = math.log(math.fsum(np.exp(-here)))
        first = np.add.outer(first, -here - total)
        second = np.add.outer(second, -there - total)
    return math.fsum(np.maximum(np.exp(first) - math.exp(level) * np.exp(second), 0.0).ravel())


def laplace_energy(scale: Fraction, change: int, reach: int = 8) -> np.ndarray:
    """-ln of weights on -reach…reach; the ends hold all that lies beyond, where the loss no longer changes."""
    energy = np.abs(np.arange(-reach, reach + 1) - change) / float(scale)
    energy[[0, -1]] += math.log(-math.expm1(-1 / scale))
    return energy


@pytest.mark.parametrize(
    "law",
    [
        pure_loss_distribution(Fraction(1, 3)),
        laplace_loss_distribution(1, Fraction(3)),
        laplace_loss_distribution(7, Fraction(5, 2)),
        gaussian_loss_distribution(Fraction(1, 3)),
        gaussian_loss_distribution(Fraction(50)),
    ],
)
def test_both_tables_have_their_whole_mass(law: LossDistribution) -> None:
    values = float(law.top) - float(law.step) * np.arange(len(law.weights))
    assert math.fsum(law.weights) == pytest.approx(1, rel=1e-13)
    assert math.fsum(law.weights * np.exp(-values)) == pytest.approx(1, rel=1e-12)


def test_counts_with_laplace_noise_are_randomized_response() -> None:
    count, response = (
        laplace_loss_distribution(1, Fraction(10)),
        pure_loss_distribution(Fraction(1, 10)),
    )
    assert (count.top, count.step) == (response.top, response.step)
    assert count.weights == pytest.approx(response.weights, rel=1e-15)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(15, 2)])
@pytest.mark.parametrize("changes", [(1,), (2,), (5,), (1, 1), (1, 2), (2, 2), (1, 3), (1, 1, 1)])
def test_no_integers_that_move_exceed_the_laplace_loss(scale: Fraction, changes: tuple[int, ...]) -> None:
    energy = [laplace_energy(scale, 0) for _ in changes]
    moved = [laplace_energy(scale, change) for change in changes]
    law = laplace_loss_distribution(sum(changes), scale)
    for level in LEVELS:
        exact = noise_delta(energy, moved, level)
        assert exact <= delta(law, level) + 1e-12
        if len(changes) == 1:
            assert exact == pytest.approx(delta(law, level), abs=1e-12)


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1), Fraction(4), Fraction(9)])
@pytest.mark.parametrize("changes", [(1,), (1, 1), (1, -1), (1, 0), (1, 1, -1)])
def test_integers_that_move_by_one_have_the_gaussian_loss(variance: Fraction, changes: tuple[int, ...]) -> None:
    points = np.arange(-30, 31)
    energy = [points**2 / (2 * float(variance)) for _ in changes]
    moved = [(points - change) ** 2 / (2 * float(variance)) for change in changes]
    law = gaussian_loss_distribution(variance)
    values = float(law.top) - float(law.step) * np.arange(len(law.weights))
    count = sum(map(abs, changes))
    held = [(loss, weight) for loss, weight in zip(values, law.weights, strict=True) if weight > 1e-12]
    for level in LEVELS[::3]:
        composed = math.fsum(
            math.prod(weight for _, weight in atoms) * max(0.0, -math.expm1(level - sum(loss for loss, _ in atoms)))
            for atoms in itertools.product(held, repeat=count)
        )
        assert noise_delta(energy, moved, level) == pytest.approx(composed, abs=1e-9)


def test_the_discrete_gaussian_has_its_own_values_and_not_the_continuous_ones() -> None:
    from dodona.lab.gaussian_composition import gdp_delta

    assert delta(gaussian_loss_distribution(Fraction(4)), 2.2757931) == pytest.approx(1e-6, rel=1e-5)
    assert gdp_delta("0.5", epsilon="2.2757931") < 0.95e-6


@pytest.mark.parametrize(("odds", "times"), [(0.1, 1), (0.1, 30), (0.01, 3000), (3.0, 200), (-2.0, 500), (40.0, 20)])
def test_binomial_probabilities_have_nine_digits(odds: float, times: int) -> None:
    mp.dps = 40
    bad = 1 / (1 + mp.exp(mpf(odds)))
    probabilities = binomial_probabilities(odds, times)
    for failures in {0, 1, 2, times // 3, times // 2, times - 1, times}:
        exact = mp.binomial(times, failures) * bad**failures * (1 - bad) ** (times - failures)
        if 0 <= failures <= times and exact > mpf("1e-300"):
            assert abs(probabilities[failures] / exact - 1) < 1e-9


def test_a_million_trials_keep_nine_digits_far_from_the_mean() -> None:
    mp.dps = 60
    bad = 1 / (1 + mp.exp(mpf("0.001")))
    probabilities = binomial_probabilities(0.001, 10**6)
    for failures in (482_000, 490_000, 499_750, 510_000, 518_000):
        exact = mp.binomial(10**6, failures) * mp.power(bad, failures) * mp.power(1 - bad, 10**6 - failures)
        assert abs(probabilities[failures] / exact - 1) < 5e-9


def test_what_is_too_long_to_write_out_is_refused_or_raised() -> None:
    with pytest.raises(InvalidArgument, match="variance"):
        gaussian_loss_distribution(Fraction(10**12))
    wide = laplace_loss_distribution(2**20 + 1, Fraction(2**20 + 1))
    assert (wide.top, len(wide.weights)) == (1, 2)


@pytest.mark.parametrize(
    "law",
    [pure_loss_distribution(Fraction(2000)), laplace_loss_distribution(3, Fraction(1, 1000))],
)
def test_losses_that_no_float_can_undo_are_still_laws(law: LossDistribution) -> None:
    assert np.all(law.weights > 0)
    assert math.isfinite(log_moment(law, 2.0))
