"""Declared plans: exact prices, quickly, and never by a formula for other noise."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.lab.composition import grouped_epsilon, mechanism_group
from dodona.lab.conversion import continuous_laplace_renyi
from dodona.lab.convolution import DeclaredPlan
from dodona.lab.gaussian_composition import gdp_delta, gdp_epsilon
from dodona.privacy.conversion import renyi_epsilon
from dodona.privacy.events import (
    ComposedEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    PureMechanism,
)
from dodona.schema.schema import Neighbours
from tests.house.shares import examples
from tests.privacy.oracle import enumerated_delta, worst_pair

HERE = Neighbours.ADD_REMOVE


def pure(epsilon: str | Fraction, neighbours: Neighbours = HERE) -> Event:
    return PureEvent(PureMechanism.SPARSE_VECTOR, Fraction(epsilon), neighbours)


def count(epsilon: str) -> Event:
    return LaplaceEvent(1, 1 / Fraction(epsilon), HERE)


def gaussian(scale: str, squared_distance: int = 1) -> Event:
    return GaussianEvent(squared_distance, Fraction(scale) ** 2, HERE)


MIXTURE = DeclaredPlan(
    ((count("0.05"), 100), (gaussian("20"), 100), (pure("0.2"), 5), (ExponentialEvent(Fraction(1, 10), HERE), 10))
)


@pytest.mark.parametrize(
    ("event", "times", "expected"),
    [
        (count("0.1"), 100, 4.774568),
        (pure("0.1"), 100, 4.774568),
        (count("0.01"), 10**4, 4.885516),
        (gaussian("1/2"), 1, 9.996248),
        (gaussian("1"), 1, 4.499591),
        (gaussian("2"), 1, 2.275793),
        (gaussian("5"), 1, 0.834976),
        (gaussian("10"), 1, 0.396790),
    ],
)
def test_one_kind_of_event_has_its_exact_value(event: Event, times: int, expected: float) -> None:
    assert DeclaredPlan(((event, times),)).epsilon("1e-6") == pytest.approx(expected, abs=6e-7)


def test_pure_events_are_priced_by_groups_whatever_their_kind() -> None:
    plan = DeclaredPlan(((count("0.02"), 50), (pure("0.05"), 30), (count("0.05"), 20), (pure("0.1"), 20)))
    assert plan.epsilon("1e-6") == pytest.approx(2.594131, abs=6e-7)


def test_the_mixture_has_its_value_under_each_currency() -> None:
    """The published Rényi value is of continuous Laplace noise; what is drawn costs more than that."""

    def continuous(order: Fraction) -> Decimal:
        rest = ComposedEvent(MIXTURE.parts[1:]).renyi(order)
        return rest + Decimal(100 * continuous_laplace_renyi("0.05", order=order))

    assert renyi_epsilon(continuous, delta="1e-6") == pytest.approx(4.190273, abs=6e-7)
    assert renyi_epsilon(ComposedEvent(MIXTURE.parts).renyi, delta="1e-6") == pytest.approx(4.204382, abs=6e-7)
    assert MIXTURE.epsilon("1e-6") == pytest.approx(4.183855, abs=6e-7)


@pytest.mark.parametrize(("scale", "smaller"), [("2", True), ("5", True), ("1", False)])
def test_discrete_gaussian_noise_is_never_priced_by_the_continuous_formula(scale: str, smaller: bool) -> None:  # noqa: FBT001
    plan, continuous = DeclaredPlan(((gaussian(scale), 1),)), gdp_epsilon(1 / Fraction(scale), delta="1e-6")
    assert (continuous < plan.epsilon("1e-6")) is smaller
    assert plan.epsilon("1e-6") != pytest.approx(continuous, rel=1e-6)


@pytest.mark.parametrize("squared_distance", [1, 2, 3, 4, 100])
def test_gaussian_noise_is_never_above_its_zcdp_price(squared_distance: int) -> None:
    plan = DeclaredPlan(((gaussian("10", squared_distance), 7),))
    through = renyi_epsilon(ComposedEvent(plan.parts).renyi, delta="1e-6")
    exact = squared_distance <= 3
    assert (plan.epsilon("1e-6") < through * 0.95) is exact
    assert plan.epsilon("1e-6") <= through


@pytest.mark.parametrize("squared_distance", [2, 3])
def test_integers_that_move_together_cost_what_they_cost_one_by_one(squared_distance: int) -> None:
    together = DeclaredPlan(((gaussian("10", squared_distance), 5),)).epsilon("1e-6")
    assert together == DeclaredPlan(((gaussian("10"), 5 * squared_distance),)).epsilon("1e-6")


def test_laplace_noise_on_far_integers_costs_less_than_its_pure_price() -> None:
    plan = DeclaredPlan(((LaplaceEvent(1000, Fraction(10**4), HERE), 100),))
    assert plan.epsilon("1e-6") == pytest.approx(4.692667, abs=2e-6)
    assert plan.epsilon("1e-6") < grouped_epsilon([mechanism_group("0.1", times=100)], delta="1e-6")


@settings(deadline=None, max_examples=examples(40))
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 3)), min_size=1, max_size=3),
    st.integers(1, 60),
    st.integers(1, 8),
)
def test_pure_plans_agree_with_enumeration(groups: list[tuple[int, int]], level: int, decades: int) -> None:
    plan = DeclaredPlan(tuple((pure(Fraction(loss, 20)), times) for loss, times in groups))
    pairs = [worst_pair(loss / 20) for loss, times in groups for _ in range(times)]
    exact = enumerated_delta(pairs, level / 20)
    assert exact - 1e-14 <= plan.delta(Fraction(level, 20)) <= exact * (1 + 1e-6) + 1e-10
    assert enumerated_delta(pairs, plan.epsilon(10.0**-decades)) <= 10.0**-decades * (1 + 1e-9)


def test_the_two_directions_agree() -> None:
    assert MIXTURE.delta(Fraction(MIXTURE.epsilon("1e-6"))) == pytest.approx(1e-6, rel=1e-5)


def test_a_pure_plan_costs_its_sum_without_delta_and_less_with_it() -> None:
    plan = DeclaredPlan(((pure("0.1"), 100),))
    assert plan.cost(0).epsilon == 10
    assert plan.cost(0).delta == 0
    assert plan.delta(10) == 0
    cost = plan.cost("1e-6")
    assert cost.delta == Fraction(1, 10**6)
    assert float(cost.epsilon) == plan.epsilon("1e-6")


def test_delta_that_buys_nothing_is_not_taken() -> None:
    assert DeclaredPlan(((pure("0.1"), 1),)).cost("1e-30").delta == 0


def test_events_that_are_several_together_are_taken_apart() -> None:
    nested = ComposedEvent(((ComposedEvent(((count("0.1"), 5),)), 10), (pure("0.1"), 50)))
    assert DeclaredPlan(((nested, 1),)).epsilon("1e-6") == pytest.approx(4.774568, abs=6e-7)


@pytest.mark.parametrize(
    "plan",
    [
        DeclaredPlan(((pure("0.01"), 10**4),)),
        DeclaredPlan(tuple((pure(Fraction(1, 50 + group)), 1000) for group in range(10))),
        DeclaredPlan(((gaussian("100"), 10**4),)),
        DeclaredPlan(((count("0.01"), 5000), (gaussian("100"), 4000), (LaplaceEvent(40, Fraction(4000), HERE), 1000))),
    ],
    ids=["equal", "grouped", "gaussian", "mixed"],
)
def test_ten_thousand_events_have_a_price(plan: DeclaredPlan) -> None:
    assert math.isfinite(plan.epsilon("1e-6"))


def test_a_plan_is_no_filter() -> None:
    """Convolving what was used so far and stopping at δ is unsound: two steps pass (1, 10^-6) by a third.

    Step one is randomized response of ε = 1/2. Either a Gaussian step or a leak of probability 10^-6 may follow: each
    pair of steps keeps δ(1) ≤ 10^-6. An analyst who chooses by the first answer does not.
    """
    mu, leak, kept = "0.127319", 1e-6, 1 / (1 + math.exp(-0.5))

    def gauss(epsilon: float) -> float:
        return gdp_delta(mu, epsilon=epsilon)

    with_gauss = kept * gauss(0.5) + (1 - kept) * gauss(1.5)
    with_leak = leak + (1 - leak) * enumerated_delta([worst_pair(0.5)], 1.0)
    assert with_gauss == pytest.approx(1e-6, rel=1e-4)
    assert with_leak == pytest.approx(1e-6, rel=1e-9)
    chosen = kept * gauss(0.5) + (1 - kept) * leak
    assert chosen == pytest.approx(1.3775e-6, rel=1e-4)


def test_the_natural_filter_fails_worse_with_a_smaller_first_step() -> None:
    first, leak = 0.113, 1e-6
    kept = 1 / (1 + math.exp(-first))
    low, high = 0.05, 0.4
    while high - low > 1e-12:  # the Gaussian step that just fits behind the first
        middle = (low + high) / 2
        fits = kept * gdp_delta(middle, epsilon=1 - first) + (1 - kept) * gdp_delta(middle, epsilon=1 + first)
        low, high = (middle, high) if fits <= 1e-6 else (low, middle)
    assert kept * gdp_delta(low, epsilon=1 - first) + (1 - kept) * leak == pytest.approx(1.466e-6, rel=1e-3)


def test_an_empty_plan_and_mixed_relations_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="at least one event"):
        DeclaredPlan(())
    with pytest.raises(InvalidArgument, match="do not add"):
        DeclaredPlan(((pure("0.1"), 1), (pure("0.1", Neighbours.REPLACE), 1)))


@pytest.mark.parametrize("times", [0, -1, True, 1.5, 10**6 + 1])
def test_a_number_of_events_outside_its_range_is_refused(times: int) -> None:
    with pytest.raises(InvalidArgument, match="times"):
        DeclaredPlan(((pure("0.1"), times),))


def test_too_many_events_in_all_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="at most 1000000"):
        DeclaredPlan(((pure("0.1"), 10**6), (count("0.1"), 1)))


@pytest.mark.parametrize("delta", [1, -1, math.nan])
def test_a_delta_outside_its_range_is_refused(delta: float) -> None:
    with pytest.raises(InvalidArgument, match="delta"):
        DeclaredPlan(((pure("0.1"), 1),)).epsilon(delta)


def test_gaussian_noise_needs_a_delta_and_an_epsilon_is_positive() -> None:
    with pytest.raises(InvalidArgument, match="delta"):
        DeclaredPlan(((gaussian("1"), 1),)).cost(0)
    with pytest.raises(InvalidArgument, match="epsilon"):
        DeclaredPlan(((gaussian("1"), 1),)).delta(0)


@pytest.mark.slow
def test_mixtures_lie_between_the_bounds_of_another_accountant() -> None:
    """Discrete Laplace and discrete Gaussian noise and pure events, by dp-accounting's bounds on each law."""
    from dp_accounting.pld import privacy_loss_distribution as peer

    plan = DeclaredPlan(((count("0.1"), 20), (LaplaceEvent(3, Fraction(20), HERE), 10), (gaussian("20"), 30)))
    bounds = []
    for pessimistic in (False, True):
        shared = {"pessimistic_estimate": pessimistic, "value_discretization_interval": 1e-4}
        law = peer.from_discrete_laplace_mechanism(0.1, 1, **shared).self_compose(20)
        law = law.compose(peer.from_discrete_laplace_mechanism(0.05, 3, **shared).self_compose(10))
        law = law.compose(peer.from_discrete_gaussian_mechanism(20, 1, **shared).self_compose(30))
        bounds.append(law.get_epsilon_for_delta(1e-6))
    assert bounds[0] - 1e-9 <= plan.epsilon("1e-6") <= bounds[1] + 1e-6
