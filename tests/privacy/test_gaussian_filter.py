"""The Gaussian accountant: its prices and limits to many digits, and no adaptive adversary passes it."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import dodona
from dodona.errors import InvalidArgument
from dodona.privacy.accountants import Accountant, NoGaussianPrice, PrivacyFilter, Spending, budget_filter
from dodona.privacy.additive_noise import (
    Gaussian,
    Laplace,
    RoundedGaussian,
    continuous_gaussian_delta,
    discrete_gaussian_delta,
    payable_noises,
)
from dodona.privacy.conversion import standalone_epsilon
from dodona.privacy.events import (
    ComposedEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    PureMechanism,
    RoundedGaussianEvent,
    UnevenGaussianEvent,
    range_mu_squared,
)
from dodona.privacy.gaussian_privacy import gaussian_epsilon, gaussian_limit
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours
from tests.privacy.test_filter import admitted, response, worst_delta

HERE = Neighbours.REPLACE
MILLIONTH = Fraction(1, 10**6)
ONE = budget_filter(Accountant.GAUSSIAN, Fraction(1), MILLIONTH)


def exact_delta(mu: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def as_real(number: object) -> mpmath.mpf:
    fraction = Fraction(str(number))
    return mpmath.mpf(fraction.numerator) / fraction.denominator


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"), [(1, "1e-6", 0.23670438), (1, "1e-9", 0.18197481), (4, "1e-6", 0.83785876)]
)
def test_the_limits_of_usual_budgets_are_those_of_the_reference(epsilon, delta, mu):
    assert math.sqrt(gaussian_limit(Fraction(epsilon), Fraction(delta))) == pytest.approx(mu, abs=6e-9)


@pytest.mark.parametrize("epsilon", ["1e-12", "1/10", "1", "8", "1e4"])
@pytest.mark.parametrize("delta", ["1e-300", "1e-6", "1/2", "0.999999"])
def test_a_limit_never_promises_more_than_its_delta(epsilon, delta):
    with mpmath.workdps(400):
        squared = as_real(gaussian_limit(Fraction(epsilon), Fraction(delta)))
        assert exact_delta(mpmath.sqrt(squared), as_real(epsilon)) <= as_real(delta)
        more = mpmath.sqrt(squared * (1 + mpmath.mpf(10) ** -20))
        assert exact_delta(more, as_real(epsilon)) > as_real(delta)


@pytest.mark.parametrize("squared", ["1e-12", "0.056", "1", "400"])
@pytest.mark.parametrize("delta", ["1e-300", "1e-6", "1/2"])
def test_an_epsilon_is_never_below_the_curve(squared, delta):
    epsilon = gaussian_epsilon(Decimal(squared), Fraction(delta))
    with mpmath.workdps(400):
        mu = mpmath.sqrt(as_real(squared))
        assert exact_delta(mu, mpmath.mpf(epsilon)) <= as_real(delta)
        less = mpmath.mpf(epsilon) * (1 - mpmath.mpf(10) ** -14)
        assert epsilon == 0 or exact_delta(mu, less) > as_real(delta)


@pytest.mark.parametrize("width", ["1e-14", "1e-6", "1/10", "199/100", "2", "201/100", "20", "199", "201", "1e20"])
def test_the_price_of_a_bounded_range_is_rounded_up(width):
    """μ = 2Φ⁻¹(e^h/(1 + e^h)), to twenty digits; beyond a range of 200 a bound."""
    with mpmath.workdps(500):
        price = as_real(range_mu_squared(Fraction(width)))
        if Fraction(width) > 200:
            assert price >= 4 * as_real(width)
            return
        wanted = 1 / (1 + mpmath.exp(as_real(width) / 2))
        assert mpmath.ncdf(-mpmath.sqrt(price) / 2) <= wanted
        assert mpmath.ncdf(-mpmath.sqrt(price * (1 - mpmath.mpf(10) ** -20)) / 2) > wanted


@pytest.mark.parametrize("width", [0.01, 0.5, 2.0, 8.0, 30.0])
def test_no_pair_of_losses_of_a_range_tells_more_than_the_one_in_the_middle(width):
    """A binary pair with losses t and t - width is a pair of logits that differ by the width."""
    price = math.sqrt(range_mu_squared(Fraction(width)))
    with mpmath.workdps(60):
        for shift in (0.0, 0.1, 0.3, 0.7, 1.0, 3.0):
            low, high = (1 / (1 + mpmath.exp(-(shift * width + side * width / 2))) for side in (-1, 1))
            mu = mpmath.sqrt(2) * (mpmath.erfinv(2 * high - 1) - mpmath.erfinv(2 * low - 1))
            assert mu <= price * (1 + 1e-12)
            assert shift > 0 or mu == pytest.approx(price, rel=1e-12)


def test_an_exponential_mechanism_costs_as_much_as_half_its_pure_loss():
    for epsilon in (Fraction(1, 100), Fraction(1), Fraction(7)):
        half = PureEvent(PureMechanism.NOISY_MAX, epsilon / 2, HERE)
        assert ExponentialEvent(epsilon, HERE).mu_squared() == half.mu_squared()
        assert LaplaceEvent(3, 3 / epsilon, HERE).mu_squared() == response(epsilon).mu_squared()


def test_prices_add_and_an_event_without_one_is_refused():
    noise = RoundedGaussianEvent(Fraction(1, 400), HERE)
    both = ComposedEvent(((noise, 3), (response("1/10"), 2)))
    assert abs(ONE.cost(both) - 3 * ONE.cost(noise) - 2 * ONE.cost(response("1/10"))) <= 5
    for event in (
        GaussianEvent(1, Fraction(10**8), HERE),
        UnevenGaussianEvent(Fraction(1, 10**8), HERE),
        ComposedEvent(((noise, 1), (GaussianEvent(1, Fraction(10**8), HERE), 1))),
    ):
        with pytest.raises(NoGaussianPrice, match="Nothing was charged"):
            ONE.after(Spending(), event)


def test_discrete_gaussian_noise_tells_more_than_its_mu_would_say():
    """Why it has no price here: at a scale of one half its curve passes that of μ = 2."""
    count = Sensitivity.count(HERE)
    ratios = [
        discrete_gaussian_delta(epsilon, 0.5, count) / continuous_gaussian_delta(epsilon, 2) for epsilon in (1, 2, 3)
    ]
    assert max(ratios) > 1.05


@pytest.mark.parametrize(
    ("event", "count"), [(RoundedGaussianEvent(Fraction(1, 2500), HERE), 140), (response("1/100"), 356)]
)
def test_a_budget_of_one_and_a_millionth_admits_as_many_as_is_known(event, count):
    """Counts of deviation 50: 140, and 121 at a Rényi order. Randomized responses: 356 for 490."""
    assert admitted(ONE, event) == count


@pytest.mark.parametrize(
    ("accountant", "law", "deviation"),
    [(Accountant.GAUSSIAN, RoundedGaussian, 422.5), (Accountant.RENYI, Gaussian, 453.1)],
)
def test_ten_thousand_counts_need_this_much_noise(accountant, law, deviation):
    budget, count = budget_filter(accountant, Fraction(1), MILLIONTH), Sensitivity.count(HERE)

    def fits(scale: float) -> bool:
        return budget.admits(budget.charged(Spending(), law(scale=round(scale, 4)).event(count), times=10_000))

    assert fits(deviation + 0.05)
    assert not fits(deviation - 0.05)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1/100"), ("1/2", "1/20"), ("2", "1/1000")])
def test_no_adaptive_adversary_with_pure_mechanisms_passes(epsilon, delta):
    """All adversaries with these three losses and up to nine steps, solved exactly."""
    budget = budget_filter(Accountant.GAUSSIAN, Fraction(epsilon), Fraction(delta))
    menu = tuple(response(Fraction(epsilon) * part) for part in (Fraction(1, 2), Fraction(1, 3), Fraction(1, 5)))
    assert worst_delta(budget, menu, 9) <= budget.delta


def normal_game(squared: float, epsilon: float, parts: int, menu: tuple[int, ...]) -> float:
    """Return the δ at ε of the best adversary that spends μ² in parts, each time as many as it likes of the menu.

    Solved backwards on a grid of losses under Q, on which a mechanism of μ adds a normal number N(-μ²/2, μ²).
    """
    mu = math.sqrt(squared)
    grid = 18 * mu / 4000
    losses = grid * np.arange(-round(8 * mu / grid), round((10 * mu + epsilon) / grid))
    stop = np.maximum(0.0, np.exp(losses) - math.exp(epsilon))
    values = [stop]
    for left in range(1, parts + 1):
        best = stop
        for taken in menu:
            if taken <= left:
                step = squared * taken / parts
                more = grid * np.arange(-1500, 1501)
                chances = np.exp(-((more + step / 2) ** 2) / (2 * step)) * grid / math.sqrt(2 * math.pi * step)
                best = np.maximum(best, np.correlate(values[left - taken], chances, mode="same"))
        values.append(best)
    return float(np.interp(0.0, losses, values[-1]))


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-2"), ("1", "1e-6"), ("1/2", "1/20")])
def test_no_adaptive_adversary_with_normal_noise_passes_and_one_that_overspends_does(epsilon, delta):
    """An adversary that picks scales by what it saw gets δ, as one that picks them beforehand; both to a percent."""
    limit = float(gaussian_limit(Fraction(epsilon), Fraction(delta)))
    achieved = normal_game(limit, float(Fraction(epsilon)), 12, (1, 2, 3, 5))
    assert achieved == pytest.approx(float(Fraction(delta)), rel=0.01)
    assert normal_game(limit * 1.05, float(Fraction(epsilon)), 12, (1, 2, 3, 5)) > 1.02 * float(Fraction(delta))


def test_the_game_finds_an_adversary_where_the_limit_is_three_times_too_large():
    """The check can fail: a limit three times too large is passed."""
    honest = budget_filter(Accountant.GAUSSIAN, Fraction(1), Fraction(1, 100))
    loose = PrivacyFilter(honest.accountant, honest.epsilon, honest.delta, None, honest.limit * 3)
    menu = tuple(response(Fraction(1, part)) for part in (2, 3, 5))
    assert worst_delta(loose, menu, 9) > loose.delta


def test_one_event_alone_has_the_epsilon_of_its_curve():
    event = RoundedGaussian(scale=100).event(Sensitivity.count(HERE))
    assert standalone_epsilon(event, MILLIONTH) == gaussian_epsilon(event.mu_squared(), MILLIONTH)
    assert standalone_epsilon(event, MILLIONTH) < standalone_epsilon(GaussianEvent(1, Fraction(10**4), HERE), MILLIONTH)


@pytest.mark.parametrize("delta", [0, 1, "2"])
def test_a_budget_without_a_delta_is_refused(delta):
    with pytest.raises(InvalidArgument, match="delta"):
        dodona.Budget(1, delta, "gaussian")


def test_the_budget_names_the_noise_that_it_counts():
    assert payable_noises(dodona.Budget(1, "1e-6", "gaussian")) == (Laplace, RoundedGaussian)
    assert payable_noises(dodona.Budget(1, "1e-6", "renyi")) == (Laplace, Gaussian)
    assert payable_noises(dodona.Budget(1)) == (Laplace,)
