"""The textbook's composition theorems: their values, and that no enumerated composition exceeds them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.lab.composition import (
    MechanismGroup,
    advanced,
    advanced_delta,
    advanced_sharp,
    basic,
    calibrate_epsilon,
    corollary_epsilon,
    mechanism_group,
    product,
    product_sharp,
    sharp_drift,
    textbook_drift,
)
from tests.privacy.oracle import enumerated_delta, worst_pair

ROWS = [("0.1", 100), ("0.01", 100), ("0.1", 10**4), ("0.01", 10**4)]
MIXED = [mechanism_group("0.02", times=50), mechanism_group("0.05", times=50), mechanism_group("0.1", times=20)]

parts = st.lists(
    st.builds(
        lambda epsilon, delta: mechanism_group(Fraction(epsilon, 20), delta=Fraction(delta, 100)),
        st.integers(1, 40),
        st.sampled_from([0, 0, 1, 5]),
    ),
    min_size=1,
    max_size=5,
)


def enumerated(found: list[MechanismGroup], epsilon: float) -> float:
    pairs = [worst_pair(float(each.epsilon), float(each.delta)) for each in found for _ in range(each.times)]
    return enumerated_delta(pairs, epsilon)


@pytest.mark.parametrize(("row", "expected"), list(zip(ROWS, (6.308231, 0.535702, 157.736136, 6.261538), strict=True)))
def test_advanced_composition_has_the_textbook_values(row: tuple[str, int], expected: float) -> None:
    composed = advanced([mechanism_group(row[0], times=row[1])], slack="1e-6")
    assert float(composed.epsilon) == pytest.approx(expected, abs=6e-7)
    assert composed.delta == Fraction(1, 10**6)


@pytest.mark.parametrize(("row", "expected"), list(zip(ROWS, (5.756106, 0.530652, 102.523593, 5.756518), strict=True)))
def test_the_sharp_drift_has_its_values(row: tuple[str, int], expected: float) -> None:
    assert float(advanced_sharp([mechanism_group(row[0], times=row[1])], slack="1e-6").epsilon) == pytest.approx(
        expected, abs=6e-7
    )


def test_unequal_parts_have_the_values_of_the_mixed_row() -> None:
    assert basic(MIXED).epsilon == Fraction(11, 2)
    assert float(advanced(MIXED, slack="1e-6").epsilon) == pytest.approx(3.446228, abs=6e-7)


@settings(deadline=None)
@given(parts)
def test_basic_composition_is_the_exact_sum_and_no_composition_exceeds_it(found: list[MechanismGroup]) -> None:
    pair = basic(found)
    assert pair.epsilon == sum(each.epsilon for each in found)
    assert pair.delta == sum(each.delta for each in found)
    assert enumerated(found, float(pair.epsilon)) <= float(pair.delta) + 1e-12


def test_basic_composition_is_reached_where_nothing_is_approximate() -> None:
    least = float(basic([mechanism_group("0.3"), mechanism_group("0.5", times=2)]).epsilon)
    pairs = [worst_pair(0.3), worst_pair(0.5), worst_pair(0.5)]
    assert enumerated_delta(pairs, least - 1e-3) > 0


@settings(deadline=None)
@given(parts, st.integers(1, 60))
def test_no_composition_exceeds_advanced_composition(found: list[MechanismGroup], slack: int) -> None:
    for theorem in (advanced, advanced_sharp):
        pair = theorem(found, slack=Fraction(slack, 100))
        assert enumerated(found, float(pair.epsilon)) <= float(pair.delta) + 1e-12


@settings(deadline=None)
@given(parts, st.integers(1, 100))
def test_the_two_directions_of_advanced_composition_agree(found: list[MechanismGroup], level: int) -> None:
    epsilon = Fraction(level, 10)
    delta = advanced_delta(found, epsilon=epsilon)
    assert enumerated(found, float(epsilon)) <= delta + 1e-12
    slack = delta - float(basic(found).delta)
    if 1e-9 < slack < 1 and delta < 1:
        # The slack is a small difference of larger numbers, so it has lost digits.
        assert float(advanced_sharp(found, slack=slack).epsilon) == pytest.approx(level / 10, rel=1e-5)


def test_the_drifts_are_in_their_order() -> None:
    for loss in ("0.01", "0.1", "1", "4"):
        value = float(loss)
        sharp, book = sharp_drift([mechanism_group(loss)]), textbook_drift([mechanism_group(loss)])
        assert value * math.tanh(value / 2) <= sharp <= value**2 / 2 < book
        assert sharp == pytest.approx(value * math.tanh(value / 2), rel=1e-11)


@settings(deadline=None)
@given(st.integers(1, 100), st.integers(1, 99), st.integers(1, 50))
def test_the_corollary_keeps_what_it_promises_up_to_its_range(epsilon: int, slack: int, times: int) -> None:
    target, spare = Fraction(epsilon, 10), Fraction(slack, 100)
    if float(target) > 8 * math.log(1 / spare) * (1 - 1e-9):
        with pytest.raises(InvalidArgument, match="8·ln"):
            corollary_epsilon(target, slack=spare, times=times)
    else:
        each = corollary_epsilon(target, slack=spare, times=times)
        assert each <= Fraction(target / (2 * math.sqrt(2 * times * math.log(1 / spare))))
        assert advanced_sharp([MechanismGroup(each, times=times)], slack=spare).epsilon <= target * (
            1 + Fraction(1, 10**11)
        )


def test_calibration_inverts_the_sharp_theorem() -> None:
    each = calibrate_epsilon(1, slack="1e-6", times=100)
    assert advanced_sharp([MechanismGroup(each, times=100)], slack="1e-6").epsilon <= 1
    assert advanced_sharp([MechanismGroup(each * Fraction(1000001, 1000000), times=100)], slack="1e-6").epsilon > 1


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 9))
def test_no_product_exceeds_the_product_theorem(epsilon: int, times: int) -> None:
    for theorem in (product, product_sharp):
        pair = theorem(Fraction(epsilon, 20), times=times)
        pairs = [worst_pair(epsilon / 20)] * times
        assert enumerated_delta(pairs, float(pair.epsilon)) <= float(pair.delta)


def test_the_product_theorem_has_its_closed_form() -> None:
    pair = product("0.01", times=10**4)
    assert float(pair.epsilon) == pytest.approx(3, rel=1e-11)
    assert float(pair.delta) == pytest.approx(math.exp(-0.5), rel=1e-11)
    assert float(product_sharp("0.01", times=10**4).delta) == pytest.approx(math.exp(-3.125), rel=1e-11)


def test_a_delta_that_no_float_holds_is_not_called_zero() -> None:
    assert product(10, times=1000).delta > 0


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "x", None, True])
def test_an_epsilon_that_is_none_is_refused(epsilon: object) -> None:
    with pytest.raises(InvalidArgument, match="epsilon"):
        mechanism_group(epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [1, 2, -1, math.nan, "1e0"])
def test_a_delta_outside_its_range_is_refused(delta: object) -> None:
    with pytest.raises(InvalidArgument, match="delta"):
        mechanism_group(1, delta=delta)  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [0, -1, 1.5, 10**6 + 1, True])
def test_a_number_of_mechanisms_outside_its_range_is_refused(times: object) -> None:
    with pytest.raises(InvalidArgument, match="times"):
        mechanism_group(1, times=times)  # type: ignore[arg-type]


@pytest.mark.parametrize("slack", [0, 1, -1, math.nan])
def test_a_slack_outside_its_range_is_refused(slack: float) -> None:
    for theorem in (advanced, advanced_sharp):
        with pytest.raises(InvalidArgument, match="slack"):
            theorem([mechanism_group(1)], slack=slack)
    with pytest.raises(InvalidArgument, match="slack"):
        corollary_epsilon(1, slack=slack, times=1)
    with pytest.raises(InvalidArgument, match="slack"):
        calibrate_epsilon(1, slack=slack, times=1)


def test_no_parts_at_all_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="parts"):
        basic([])
    with pytest.raises(InvalidArgument, match="parts"):
        advanced([], slack="0.1")


def test_parts_may_come_one_by_one_and_are_checked_however_they_are_made() -> None:
    assert advanced(iter(MIXED), slack="1e-6") == advanced(MIXED, slack="1e-6")
    assert advanced_delta(iter(MIXED), epsilon=3) == advanced_delta(MIXED, epsilon=3)
    with pytest.raises(InvalidArgument, match="epsilon"):
        MechanismGroup(Fraction(-1))


def test_a_loss_past_the_textbook_drift_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="sharp form"):
        advanced([mechanism_group(800)], slack="0.1")
