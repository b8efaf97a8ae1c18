"""Optimal composition against enumeration, fifty digits and an accountant of other hands."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from dodona.errors import InvalidArgument
from dodona.lab.composition import (
    MechanismGroup,
    grouped_delta,
    grouped_epsilon,
    homogeneous_delta,
    homogeneous_epsilon,
    mechanism_group,
    product_losses,
    sharp_drift,
)
from tests.privacy.oracle import binomial_delta, enumerated_delta, worst_pair

MIXED = [mechanism_group("0.02", times=50), mechanism_group("0.05", times=50), mechanism_group("0.1", times=20)]

groups = st.lists(
    st.builds(
        lambda epsilon, delta, times: mechanism_group(Fraction(epsilon, 20), delta=Fraction(delta, 100), times=times),
        st.integers(1, 40),
        st.sampled_from([0, 0, 0, 1, 5]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=3,
).filter(lambda found: sum(each.times * (2 if each.delta else 1) for each in found) <= 8)


def enumerated(found: list[MechanismGroup], epsilon: float) -> float:
    pairs = [worst_pair(float(each.epsilon), float(each.delta)) for each in found for _ in range(each.times)]
    return enumerated_delta(pairs, epsilon)


@pytest.mark.parametrize(
    ("epsilon", "times", "expected"),
    [("0.1", 100, 4.774568), ("0.01", 100, 0.392264), ("0.1", 10**4, 96.571840), ("0.01", 10**4, 4.885516)],
)
def test_equal_mechanisms_have_their_values(epsilon: str, times: int, expected: float) -> None:
    each = mechanism_group(epsilon, times=times)
    assert homogeneous_epsilon(each, delta="1e-6") == pytest.approx(expected, abs=6e-7)
    assert grouped_epsilon([each], delta="1e-6") == pytest.approx(expected, abs=6e-7)


def test_the_mixed_row_has_its_value() -> None:
    assert grouped_epsilon(MIXED, delta="1e-6") == pytest.approx(2.594131, abs=6e-7)


@settings(deadline=None)
@given(st.integers(1, 60), st.sampled_from([0, 1, 5]), st.integers(1, 6), st.integers(1, 80))
def test_equal_mechanisms_agree_with_enumeration(epsilon: int, delta: int, times: int, level: int) -> None:
    each = mechanism_group(Fraction(epsilon, 20), delta=Fraction(delta, 100), times=times)
    exact = enumerated([each], level / 20)
    computed = homogeneous_delta(each, epsilon=Fraction(level, 20))
    assert exact - 1e-14 <= computed <= exact * (1 + 1e-7) + 1e-12


@settings(deadline=None)
@given(groups, st.integers(1, 80))
def test_groups_agree_with_enumeration(found: list[MechanismGroup], level: int) -> None:
    exact = enumerated(found, level / 20)
    delta = grouped_delta(found, epsilon=Fraction(level, 20))
    assert exact - 1e-14 <= delta <= exact * (1 + 1e-6) + 1e-10


@settings(deadline=None)
@given(groups, st.integers(1, 10))
def test_the_epsilon_of_groups_keeps_the_delta(found: list[MechanismGroup], decades: int) -> None:
    delta = 10.0**-decades
    epsilon = grouped_epsilon(found, delta=delta)
    failures = 1 - math.prod((1 - float(each.delta)) ** each.times for each in found)
    if math.isinf(epsilon):
        assert failures >= delta * (1 - 1e-9)
    else:
        assert enumerated(found, epsilon) <= delta * (1 + 1e-9)
        if epsilon > 0:
            assert enumerated(found, epsilon * (1 - 1e-5) - 1e-7) > delta * (1 - 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "times", "level"),
    [("0.1", 100, "4.7"), ("0.01", 1000, "1.2"), ("0.5", 2000, "290"), ("0.003", 3000, "0.8"), ("2", 50, "90")],
)
def test_equal_mechanisms_never_fall_below_fifty_digits(epsilon: str, times: int, level: str) -> None:
    exact = binomial_delta([(Fraction(epsilon), times)], Fraction(level))
    each = mechanism_group(epsilon, times=times)
    assert exact <= homogeneous_delta(each, epsilon=level) <= exact * mpf("1.0000001")
    assert exact <= grouped_delta([each], epsilon=level) <= exact * mpf("1.0000001")


@pytest.mark.parametrize("level", ["0.5", "1.5", "2.594131", "4"])
def test_groups_never_fall_below_fifty_digits(level: str) -> None:
    exact = binomial_delta([(each.epsilon, each.times) for each in MIXED], Fraction(level))
    assert exact <= grouped_delta(MIXED, epsilon=level) <= exact * mpf("1.0000001")


def test_groups_without_a_common_lattice_never_fall_below_fifty_digits() -> None:
    parts = [
        mechanism_group("0.0200001", times=40),
        mechanism_group("1/19", times=30),
        mechanism_group("0.0777773", times=20),
    ]
    exact = binomial_delta([(each.epsilon, each.times) for each in parts], Fraction(2))
    assert exact <= grouped_delta(parts, epsilon=2) <= exact * mpf("1.000001")


def test_a_million_mechanisms_have_a_price() -> None:
    each = mechanism_group("0.001", times=10**6)
    epsilon = homogeneous_epsilon(each, delta="1e-6")
    # Many small losses are nearly normal; the grouped way has other roundings.
    assert epsilon == pytest.approx(4.886544, abs=1e-5)
    assert epsilon == pytest.approx(grouped_epsilon([each], delta="1e-6"), rel=1e-7)


@pytest.mark.parametrize("delta", ["1e-3", "1e-9", "1e-50", "1e-100"])
def test_small_deltas_are_kept(delta: str) -> None:
    each = mechanism_group("0.1", times=400)
    epsilon = homogeneous_epsilon(each, delta=delta)
    assert epsilon == pytest.approx(grouped_epsilon([each], delta=delta), rel=1e-7)
    exact = binomial_delta([(each.epsilon, each.times)], epsilon)
    assert mpf(delta) * mpf("0.999999") < exact <= mpf(delta)


def test_a_large_delta_needs_no_epsilon_and_no_failure_goes_away() -> None:
    assert homogeneous_epsilon(mechanism_group("0.001"), delta="0.5") == 0
    assert homogeneous_epsilon(mechanism_group(1, delta="0.01", times=10), delta="0.05") == math.inf
    assert grouped_epsilon([mechanism_group(1, delta="0.01", times=10)], delta="0.05") == math.inf


def test_parts_may_come_one_by_one() -> None:
    parts = [mechanism_group("0.1", delta="0.01", times=3), mechanism_group("0.2")]
    assert grouped_delta(iter(parts), epsilon="0.3") == grouped_delta(parts, epsilon="0.3")
    assert grouped_epsilon(iter(parts), delta="0.1") == grouped_epsilon(parts, delta="0.1")


def test_the_losses_of_a_product_are_a_law_with_the_largest_mean_that_there_is() -> None:
    losses, weights = product_losses("0.3", times=50)
    assert losses[0] == pytest.approx(15)
    assert math.fsum(weights) == pytest.approx(1, rel=1e-12)
    assert float(losses @ weights) == pytest.approx(sharp_drift([mechanism_group("0.3", times=50)]), rel=1e-10)
    assert float(np.exp(-losses) @ weights) == pytest.approx(1, rel=1e-12)


def test_nothing_and_too_much_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="parts"):
        grouped_delta([], epsilon=1)
    with pytest.raises(InvalidArgument, match="at most 1000000"):
        grouped_epsilon([mechanism_group(1, times=10**6), mechanism_group(2)], delta="1e-6")
    with pytest.raises(InvalidArgument, match="delta"):
        homogeneous_epsilon(mechanism_group(1), delta=0)
    with pytest.raises(InvalidArgument, match="epsilon"):
        homogeneous_delta(mechanism_group(1), epsilon=-1)
    with pytest.raises(InvalidArgument, match="times"):
        product_losses(1, times=0)


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(4))
def test_random_compositions_lie_between_the_bounds_of_another_accountant(seed: int) -> None:
    """50 compositions for each seed: dp-accounting's lower and upper bounds on the loss distribution enclose ours."""
    from dp_accounting.pld import privacy_loss_distribution as peer

    random = np.random.default_rng(seed)
    for _ in range(50):
        sizes = random.integers(1, 40, size=random.integers(1, 4))
        parts = [mechanism_group(Fraction(int(random.integers(1, 300)), 1000), times=int(size)) for size in sizes]
        bounds = []
        for pessimistic in (False, True):
            law = peer.identity(pessimistic_estimate=pessimistic)
            for each in parts:
                flipped = 2 / (1 + math.exp(each.epsilon))  # its parameter: the answer is drawn at random
                single = peer.from_randomized_response(
                    flipped, 2, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4
                )
                law = law.compose(single.self_compose(each.times))
            bounds.append(law.get_epsilon_for_delta(1e-6))
        ours = grouped_epsilon(parts, delta="1e-6")
        assert bounds[0] - 1e-9 <= ours <= bounds[1] + 1e-6
