"""The transfer from privacy to the population, against worlds that are written out."""

import math
from functools import cache
from itertools import combinations
from statistics import NormalDist

import numpy as np
import pytest

from dodona.errors import InvalidArgument
from dodona.lab.adaptive.transfer import (
    concentrated_transfer,
    curve_transfer,
    gaussian_transfer,
    pair_transfer,
    pure_transfer,
    renyi_transfer,
    stable_transfer,
)
from dodona.lab.gaussian_composition import gdp_delta
from tests.lab.adaptive.worlds import World, worlds

NORMAL = NormalDist()


@cache
def some_worlds() -> tuple[World, ...]:
    return tuple(worlds(1, 150))


def least(world: World, failing: float) -> float:
    """The least t of all ε, by a plain look at many."""
    return min(
        pair_transfer(epsilon=float(epsilon), delta=min(1.0, world.delta(float(epsilon))), failing=failing)
        for epsilon in np.geomspace(1e-3, 6, 60)
    )


def test_no_world_has_a_larger_gap_than_its_privacy_curve_allows():
    """At every probability that a gap is reached with: 150 worlds, all exact, no chance."""
    ratios = [gap / least(world, chance * (1 - 1e-9)) for world in some_worlds() for gap, chance in world.tails()[:6]]
    assert len(ratios) > 500
    assert max(ratios) <= 1
    assert max(ratios) > 0.9


def test_the_search_along_a_curve_is_as_good_as_a_plain_look():
    for world in some_worlds()[:40]:
        for gap, chance in world.tails()[:2]:
            bound = curve_transfer(world.delta, failing=chance * (1 - 1e-9))
            assert gap <= bound <= least(world, chance * (1 - 1e-9)) * 1.02


def test_no_world_has_a_larger_gap_than_its_concentrated_price_allows():
    ratios = [
        gap / concentrated_transfer(world.rho, failing=chance * (1 - 1e-9))
        for world in some_worlds()
        if world.rho < math.inf
        for gap, chance in world.tails()
    ]
    assert len(ratios) > 1000
    assert max(ratios) <= 1
    assert max(ratios) > 0.75


def test_no_world_has_a_larger_gap_than_its_pure_price_allows():
    pairs = [(world.gaps[world.told > 0].max(), world.loss) for world in some_worlds() if world.loss < math.inf]
    assert len(pairs) > 80
    assert max(gap / pure_transfer(loss) for gap, loss in pairs if loss > 0) <= 1 + 1e-12


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_pure_bound_is_attained(epsilon):
    """One row, yes with probability 1/(1 + e^{ε/2}), and an answer that is e^ε times as likely for yes."""
    share, rare = 1 / (1 + math.exp(epsilon / 2)), 1 / (1 + math.exp(epsilon))
    world = World(
        np.array([1 - share, share]),
        1,
        np.array([[rare, 1 - rare], [rare * math.exp(epsilon), 1 - rare * math.exp(epsilon)]]),
    )
    assert world.loss == pytest.approx(epsilon)
    assert world.gaps.max() == pytest.approx(pure_transfer(epsilon), rel=1e-9)
    assert pair_transfer(epsilon=epsilon, delta=0, failing=0.01) == pytest.approx(math.tanh(epsilon / 4), rel=1e-9)


def test_the_bound_of_a_pair_is_nearly_attained_between_leak_and_ratio():
    """One row of nine letters; the answer is a set of three that more likely holds it: gap 1/3 at every set."""
    sets = list(combinations(range(9), 3))
    low = 0.1 / len(sets) / 2
    channel = np.array([[4 * low if letter in each else low for each in sets] for letter in range(9)])
    world = World(np.full(9, 1 / 9), 1, np.column_stack([channel, 1 - channel.sum(axis=1)]))
    gap, chance = world.gaps[0], float(world.told[:-1].sum())
    assert gap == pytest.approx(1 / 3)
    bound = least(world, chance)
    assert gap <= bound <= gap * 1.005
    for epsilon in (0.3, 0.7, 1.1):  # also where δ does most of the work
        assert gap <= pair_transfer(epsilon=epsilon, delta=world.delta(epsilon), failing=chance) <= gap * 1.13


def test_a_row_that_leaks_with_probability_delta_attains_the_bound_at_that_probability():
    letters, delta = 60, 0.01
    world = World(
        np.full(letters, 1 / letters), 1, np.column_stack([np.eye(letters) * delta, np.full(letters, 1 - delta)])
    )
    assert world.gaps[0] == pytest.approx(1 - 1 / letters)
    assert pair_transfer(epsilon=1e-9, delta=delta, failing=delta) == 1
    assert pair_transfer(epsilon=1e-9, delta=0.9 * delta, failing=delta) == pytest.approx(0.9, rel=1e-6)


def test_known_values_of_the_gaussian_and_the_concentrated_form():
    known = {
        (0.05, 0.04): (0.0333064, 0.0379221),
        (0.1, 0.025): (0.0704310, 0.0795207),
        (1.0, 0.05): (0.587725, 0.649863),
    }
    for (mu, failing), (gaussian, concentrated) in known.items():
        assert gaussian_transfer(mu, failing=failing) == pytest.approx(gaussian, abs=6e-7)
        assert concentrated_transfer(mu**2 / 2, failing=failing) == pytest.approx(concentrated, abs=6e-7)


@pytest.mark.parametrize(("mu", "failing"), [(0.02, 0.3), (0.1, 0.025), (0.5, 0.01), (1.2, 0.05)])
def test_the_gaussian_form_is_the_best_pair_on_the_gaussian_curve(mu, failing):
    along = curve_transfer(lambda epsilon: gdp_delta(mu, epsilon=repr(epsilon)), failing=failing)
    assert gaussian_transfer(mu, failing=failing) == pytest.approx(along, rel=1e-5)
    assert gaussian_transfer(mu, failing=failing) < concentrated_transfer(mu**2 / 2, failing=failing)


def test_beyond_its_condition_the_gaussian_form_is_the_one_of_total_variation():
    mu, failing = 1.0, 0.9
    total = math.erf(mu / math.sqrt(8))
    assert gaussian_transfer(mu, failing=failing) <= stable_transfer(total, failing=failing)
    assert gaussian_transfer(40.0, failing=0.5) == 1


@pytest.mark.parametrize(("mu", "failing"), [(0.05, 0.01), (0.2, 0.1), (0.5, 0.02), (1.0, 0.05)])
def test_one_row_and_normal_noise_stay_within_the_gaussian_form(mu, failing):
    """X is 1 with probability p and x + N(0, 1/μ²) is told: the gap is exact, its quantile by bisection."""
    bound, nearest = gaussian_transfer(mu, failing=failing), 0.0
    for share in (0.3, 0.45, 0.5, 0.6):

        def reached(gap: float, share: float = share) -> float:
            """P(|posterior - p| > gap): both tails of the answer."""
            chance = 0.0
            for target, sign in ((share + gap, 1), (share - gap, -1)):
                if 0 < target < 1:
                    odds = math.log(target / (1 - target)) - math.log(share / (1 - share))
                    place = odds / mu**2 + 0.5
                    for value, weight in ((1, share), (0, 1 - share)):
                        chance += weight * NORMAL.cdf(-sign * mu * (place - value))
            return chance

        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if reached(middle) > failing else (low, middle)
        nearest = max(nearest, high)
    assert nearest <= bound
    assert nearest > 0.6 * bound


def test_a_renyi_price_at_the_best_order_is_the_concentrated_form():
    rho, failing = 0.01, 0.03
    best = min(
        renyi_transfer(float(order) * rho, order=float(order), failing=failing) for order in np.linspace(2, 60, 500)
    )
    assert best == pytest.approx(concentrated_transfer(rho, failing=failing), rel=1e-4)
    assert renyi_transfer(0.01, order=1.5, failing=failing) == 1


def test_more_privacy_or_less_confidence_is_never_a_wider_gap():
    for mu in (0.01, 0.1, 1.0, 3.0):
        assert gaussian_transfer(mu, failing=0.05) <= gaussian_transfer(mu * 1.1, failing=0.05)
        assert gaussian_transfer(mu, failing=0.06) <= gaussian_transfer(mu, failing=0.05)
        assert concentrated_transfer(mu, failing=0.05) <= concentrated_transfer(mu * 1.1, failing=0.05)
        assert concentrated_transfer(mu, failing=0.06) <= concentrated_transfer(mu, failing=0.05)


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, True, "1"])
def test_what_is_no_price_is_refused(wrong):
    with pytest.raises(InvalidArgument):
        pure_transfer(wrong)
    with pytest.raises(InvalidArgument):
        gaussian_transfer(wrong, failing=0.05)
    with pytest.raises(InvalidArgument):
        concentrated_transfer(0.1, failing=wrong)
