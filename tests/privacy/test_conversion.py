"""Conversions between currencies: their reference values, against fifty digits, and that they never fall below."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dodona.errors import InvalidArgument
from dodona.lab import divergence
from dodona.lab.conversion import (
    bun_steinke_delta,
    bun_steinke_epsilon,
    compose_rho,
    continuous_laplace_renyi,
    order_delta,
    renyi_delta,
    zcdp_delta,
    zcdp_epsilon,
)
from dodona.privacy.conversion import order_epsilon, renyi_epsilon
from dodona.privacy.events import ComposedEvent, Event, PureEvent, PureMechanism
from dodona.schema.schema import Neighbours

ROWS = [(Fraction(1, 10), 100), (Fraction(1, 100), 100), (Fraction(1, 10), 10**4), (Fraction(1, 100), 10**4)]


def pure(epsilon: Fraction, times: int) -> Event:
    return ComposedEvent(((PureEvent(PureMechanism.NOISY_MAX, epsilon, Neighbours.REPLACE), times),))


def rows(*expected: float) -> list[tuple[Fraction, int, float]]:
    return [(*row, value) for row, value in zip(ROWS, expected, strict=True)]


@pytest.mark.parametrize(("epsilon", "times", "expected"), rows(5.756522, 0.530652, 102.565218, 5.756522))
def test_the_textbook_conversion_has_its_values(epsilon: Fraction, times: int, expected: float) -> None:
    assert bun_steinke_epsilon(times * epsilon**2 / 2, delta="1e-6") == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize(("epsilon", "times", "expected"), rows(5.221534, 0.429941, 100.689905, 5.221534))
def test_the_best_conversion_of_half_the_square_has_its_values(epsilon: Fraction, times: int, expected: float) -> None:
    assert zcdp_epsilon(times * epsilon**2 / 2, delta="1e-6") == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize(("epsilon", "times", "expected"), rows(5.219075, 0.429940, 100.626728, 5.221510))
def test_the_best_conversion_of_the_tight_price_has_its_values(epsilon: Fraction, times: int, expected: float) -> None:
    rho = compose_rho([pure(epsilon, 1).rho()]) * times
    assert zcdp_epsilon(Decimal(rho.numerator) / Decimal(rho.denominator), delta="1e-6") == pytest.approx(
        expected, abs=6e-7
    )


@pytest.mark.parametrize(("epsilon", "times", "expected"), rows(5.073106, 0.422009, 100.527441, 5.220083))
def test_the_best_order_of_pure_events_has_its_values(epsilon: Fraction, times: int, expected: float) -> None:
    assert renyi_epsilon(pure(epsilon, times).renyi, delta="1e-6") == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize(("epsilon", "times", "expected"), rows(4.984174, 0.421277, 98.121230, 5.210286))
def test_continuous_laplace_noise_has_the_values_of_other_tools(epsilon: Fraction, times: int, expected: float) -> None:
    def curve(order: Fraction) -> Decimal:
        return Decimal(times * continuous_laplace_renyi(epsilon, order=order))

    assert renyi_epsilon(curve, delta="1e-6") == pytest.approx(expected, abs=6e-7)


def test_continuous_laplace_noise_is_priced_below_what_is_drawn() -> None:
    event = pure(Fraction(1), 1)
    assert continuous_laplace_renyi(1, order=Fraction(2)) < event.renyi(Fraction(2))


@pytest.mark.parametrize(
    ("mu", "best", "looser"),
    [
        ("1", 5.22153444, 5.75652177),
        ("0.5", 2.41909318, 2.75326088),
        ("0.2", 0.89993527, 1.07130435),
        ("0.1", 0.42994147, 0.53065218),
        ("2", 11.68859625, 12.51304354),
    ],
)
def test_gaussian_prices_convert_to_their_values(mu: str, best: float, looser: float) -> None:
    rho = Fraction(mu) ** 2 / 2
    assert zcdp_epsilon(rho, delta="1e-6") == pytest.approx(best, abs=6e-9)
    assert bun_steinke_epsilon(rho, delta="1e-6") == pytest.approx(looser, abs=6e-9)


def test_the_pure_mixture_has_its_filter_value() -> None:
    parts = [(Fraction(2, 100), 50), (Fraction(5, 100), 50), (Fraction(1, 10), 20)]
    events = ComposedEvent(tuple((pure(epsilon, 1), times) for epsilon, times in parts))
    assert renyi_epsilon(events.renyi, delta="1e-6") == pytest.approx(2.751962, abs=6e-7)
    assert zcdp_epsilon(events.rho(), delta="1e-6") == pytest.approx(2.885226, abs=6e-7)


@pytest.mark.parametrize("rho", ["1e-6", "0.001", "0.5", "10"])
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-12"])
def test_no_order_proves_less_in_fifty_digits(rho: str, delta: str) -> None:
    mp.dps = 50

    def epsilon(order: mpf) -> mpf:
        return order * mpf(rho) + mp.log((order - 1) / order) - (mp.log(mpf(delta)) + mp.log(order)) / (order - 1)

    orders = [1 + mp.exp(mpf(step) / 20) for step in range(-120, 270)]
    least = min((epsilon(order), order) for order in orders)
    low, high = (least[1] - 1) / mp.exp("0.05") + 1, (least[1] - 1) * mp.exp("0.05") + 1
    while high - low > mpf(10) ** -30:
        third = (high - low) / 3
        low, high = (low, high - third) if epsilon(low + third) < epsilon(high - third) else (low + third, high)
    exact = max(epsilon(low), mpf(0))
    computed = zcdp_epsilon(rho, delta=delta)
    assert exact <= computed <= exact * (1 + mpf("1e-8")) + mpf("1e-12")


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(1, 3000))
def test_the_two_directions_agree(rho: int, level: int) -> None:
    price, epsilon = Fraction(rho, 100), Fraction(level, 100)
    delta = zcdp_delta(price, epsilon=epsilon)
    if 1e-100 < delta < 0.5:
        assert zcdp_epsilon(price, delta=delta) == pytest.approx(float(epsilon), rel=1e-6)
    looser = bun_steinke_delta(price, epsilon=epsilon)
    assert looser >= delta * (1 - 1e-9)
    if 1e-100 < looser < 0.5:
        assert bun_steinke_epsilon(price, delta=looser) == pytest.approx(float(epsilon), rel=1e-6)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=6),
    st.lists(st.integers(1, 50), min_size=6, max_size=6),
    st.sampled_from([Fraction(11, 10), Fraction(2), Fraction(7, 2), Fraction(30)]),
    st.integers(1, 40),
)
def test_every_order_bounds_every_pair_of_laws(
    first: list[int], second: list[int], order: Fraction, level: int
) -> None:
    upper, lower = np.array(first, float), np.array(second[: len(first)], float)
    upper, lower = upper / upper.sum(), lower / lower.sum()
    price = Fraction(divergence.renyi(upper, lower, order=order) + 1e-12)
    epsilon = Fraction(level, 20)
    delta = divergence.hockey_stick(upper, lower, epsilon=epsilon)
    assert delta <= order_delta(price, order=order, epsilon=epsilon) + 1e-15
    if delta > 1e-9:
        assert order_epsilon(price, order=order, delta=Fraction(delta)) >= float(epsilon) - 1e-9


def test_a_curve_is_converted_at_its_best_order_in_both_directions() -> None:
    event = pure(Fraction(1, 10), 100)
    delta = renyi_delta(event.renyi, epsilon=5)
    assert renyi_epsilon(event.renyi, delta=delta) == pytest.approx(5, rel=1e-6)
    orders = [1 + Fraction(math.exp(step / 10)) for step in range(-20, 60)]
    assert all(
        order_delta(Fraction(event.renyi(order)), order=order, epsilon=Fraction(5)) >= delta * (1 - 1e-8)
        for order in orders
    )


def test_an_epsilon_below_zero_is_called_zero() -> None:
    assert zcdp_epsilon("1e-9", delta="0.5") == 0.0
    assert zcdp_delta(100, epsilon=1) == 1.0
    assert bun_steinke_delta(100, epsilon=1) == 1.0


def test_prices_add_exactly() -> None:
    assert compose_rho(["0.1", Fraction(1, 3), 2]) == Fraction(73, 30)


@pytest.mark.parametrize("rho", [0, -1, math.nan, "x"])
def test_a_price_that_is_none_is_refused(rho: object) -> None:
    for conversion in (zcdp_epsilon, bun_steinke_epsilon):
        with pytest.raises(InvalidArgument, match="rho"):
            conversion(rho, delta="1e-6")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="rho"):
        compose_rho([rho])  # type: ignore[list-item]


@pytest.mark.parametrize("delta", [0, 1, math.nan])
def test_a_delta_that_converts_to_nothing_is_refused(delta: float) -> None:
    with pytest.raises(InvalidArgument, match="delta"):
        zcdp_epsilon(1, delta=delta)
    with pytest.raises(InvalidArgument, match="delta"):
        renyi_epsilon(pure(Fraction(1), 1).renyi, delta=delta)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan])
def test_an_epsilon_that_converts_to_nothing_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidArgument, match="epsilon"):
        zcdp_delta(1, epsilon=epsilon)
    with pytest.raises(InvalidArgument, match="epsilon"):
        renyi_delta(pure(Fraction(1), 1).renyi, epsilon=epsilon)


def test_an_order_that_is_none_and_no_prices_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="order"):
        order_epsilon(Fraction(1), order=Fraction(1), delta=Fraction(1, 2))
    with pytest.raises(InvalidArgument, match="rhos"):
        compose_rho([])
