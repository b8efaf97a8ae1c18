"""Rows of the errata on adaptive data analysis: the printed statement fails, the right one holds."""

import math

import numpy as np
import pytest

from dodona.errors import Refused
from dodona.lab.adaptive.lecture import laplace_stability, lecture_noise
from dodona.lab.adaptive.stability import (
    add_stabilities,
    compose_stabilities,
    expected_gap,
    gaussian_stability,
    stability_of_privacy,
)
from dodona.lab.composition import product_losses


def product_variation(epsilon: float, times: int) -> float:
    """The exact total variation of k randomized responses: E[(1 - e^{-loss})₊]."""
    losses, weights = product_losses(repr(epsilon), times=times)
    return float((weights * np.maximum(-np.expm1(-losses), 0)).sum())


def test_row_5_the_printed_stability_of_gaussian_noise_is_too_small():
    """One row (m = 1): printed 1/√(2πmσ); below the truth at mσ = .5, and ten times too large at mσ = 100."""
    exact = gaussian_stability(rows=1, scale=0.5)
    assert exact == pytest.approx(0.6827, abs=5e-5)
    assert 1 / math.sqrt(2 * math.pi * 0.5) == pytest.approx(0.5642, abs=5e-5)
    assert 1 / math.sqrt(2 * math.pi * 0.5) < exact
    assert gaussian_stability(rows=1000, scale=0.1) == pytest.approx(0.00398941, abs=5e-9)
    assert 1 / math.sqrt(2 * math.pi * 100) == pytest.approx(0.0398942, abs=5e-8)
    for spread in (0.2, 0.5, 1.0, 10.0):
        assert gaussian_stability(rows=1, scale=spread) <= 1 / (math.sqrt(2 * math.pi) * spread)


@pytest.mark.parametrize(("failing", "scale"), [(1e-2, 1.46), (1e-6, 1.93), (1e-30, 2.88)])
def test_row_39_the_printed_sample_size_leaves_noise_above_one(failing, scale):
    """σ = k·√(ln(1/β)/m)/τ at m = k²·√ln(1/β)/τ², and at k²·ln(1/β)/τ²."""
    queries, within, logarithm = 7, 0.1, -math.log(failing)
    printed, right = (queries**2 * power / within**2 for power in (math.sqrt(logarithm), logarithm))
    assert queries * math.sqrt(logarithm / printed) / within == pytest.approx(scale, abs=0.01)
    assert queries * math.sqrt(logarithm / right) / within == pytest.approx(1)
    # With constants: noise of the lecture's own form stays the same along the right sample size.
    scales = [
        lecture_noise(
            rows=round(40 * queries**2 * -math.log(each / 2) / within**2), queries=queries, within=within, failing=each
        )
        for each in (1e-2, 1e-6, 1e-30)
    ]
    assert max(scales) / min(scales) < 1.1


def test_row_40_the_exponential_is_not_below_its_tangent_and_the_conclusion_holds():
    for exponent in (0.01, 0.1, 1.0):
        assert 0.5 * math.expm1(exponent) > 0.5 * exponent
    assert 0.5 * math.expm1(1) == pytest.approx(0.859, abs=5e-4)
    # ε√(2k·ln(1/δ')) + δ' is above the exact total variation, and so is what is computed here.
    for times in (1, 10, 100, 1000):
        for slack in (0.3, 0.05, 1e-3):
            root = math.sqrt(2 * times * math.log(1 / slack))
            epsilon = 0.99 / (2 * root)
            exact = product_variation(epsilon, times)
            assert exact <= epsilon * root + slack
            assert exact <= laplace_stability(epsilon=epsilon, queries=times) * (1 + 1e-9)
    # ½(e^ε - 1) + δ of the notes holds too, and is never below the sharp one.
    for epsilon in (0.1, 1.0, 3.0):
        for delta in (0.0, 0.1):
            assert stability_of_privacy(epsilon=epsilon, delta=delta) <= 0.5 * math.expm1(epsilon) + delta


@pytest.mark.parametrize(("queries", "scale", "left", "right"), [(1, 0.9, 1.887, 1.330), (2, 0.95, 2.680, 2.520)])
def test_row_41_the_one_of_the_bounded_difference_cannot_always_be_dropped(queries, scale, left, right):
    """2k/(√(2π)σ) + 1 ≤ 3k/(√(2π)σ) needs σ ≤ k/√(2π), and not σ < 1."""
    root = math.sqrt(2 * math.pi) * scale
    assert 2 * queries / root + 1 == pytest.approx(left, abs=5e-4)
    assert 3 * queries / root == pytest.approx(right, abs=5e-4)
    edge = queries / math.sqrt(2 * math.pi)
    assert 2 * queries / (math.sqrt(2 * math.pi) * edge) + 1 == pytest.approx(
        3 * queries / (math.sqrt(2 * math.pi) * edge)
    )
    # A σ past that edge is not given out: the bound would not hold there.
    with pytest.raises(Refused):
        lecture_noise(rows=2000, queries=1, within=0.07, failing=0.05)
    allowed = {"rows": 10_000, "queries": 1, "within": 0.07, "failing": 0.05}
    noise = lecture_noise(**allowed)
    assert noise <= 1 / math.sqrt(2 * math.pi)
    stability = gaussian_stability(rows=10_000, scale=noise)
    assert expected_gap(stability=stability, rows=10_000, failing=0.05) <= 0.07


def test_row_42_a_sum_is_a_bound_and_no_equality_and_mcdiarmid_has_a_two():
    assert add_stabilities([0.1] * 10) == pytest.approx(1)
    assert compose_stabilities([0.1] * 10) == pytest.approx(0.651, abs=5e-4)
    # McDiarmid: √(m·c²·ln(2/β)/2) with c = 1/m for a fixed query.
    rows, failing = 400, 0.05
    right = math.sqrt(math.log(2 / failing) / (2 * rows))
    assert expected_gap(stability=0, rows=rows, failing=failing) == pytest.approx(right)
    assert right == pytest.approx(math.sqrt(math.log(2 / failing) / rows) / math.sqrt(2))
    # 3ε√k·m·√(…/m) is √m times the printed 3ε√(km)·√(…/m).
    epsilon, queries = 1e-3, 9
    assert 3 * epsilon * math.sqrt(queries) * rows == pytest.approx(
        math.sqrt(rows) * 3 * epsilon * math.sqrt(queries * rows)
    )
