"""Gaussian differential privacy: exact, and kept away from discrete noise."""

from __future__ import annotations

import math

import pytest
from mpmath import mp, mpf

from dodona.errors import InvalidArgument
from dodona.lab.gaussian_composition import compose_mu, gdp_delta, gdp_epsilon, gdp_limit


def exact_delta(mu: str | float, epsilon: float | mpf) -> mpf:
    mp.dps = 60
    ratio, level = mpf(mu), mpf(epsilon)
    return mp.ncdf(ratio / 2 - level / ratio) - mp.exp(level) * mp.ncdf(-ratio / 2 - level / ratio)


@pytest.mark.parametrize(
    ("mu", "expected"),
    [
        ("1", 4.88655412),
        ("0.5", 2.25408465),
        ("0.2", 0.83411755),
        ("0.1", 0.39685738),
        (math.sqrt(2.5), 8.30622505),
        ("2", 10.99715121),
    ],
)
def test_the_exact_epsilon_has_its_values(mu: str | float, expected: float) -> None:
    assert gdp_epsilon(mu, delta="1e-6") == pytest.approx(expected, abs=6e-9)


@pytest.mark.parametrize("mu", ["0.001", "0.03", "0.2", "1", "3", "20"])
@pytest.mark.parametrize("delta", ["0.3", "1e-3", "1e-6", "1e-12", "1e-40"])
def test_neither_direction_falls_below_sixty_digits(mu: str, delta: str) -> None:
    epsilon = gdp_epsilon(mu, delta=delta)
    if epsilon == 0:
        assert exact_delta(mu, 0.0) <= mpf(delta)
        return
    assert exact_delta(mu, epsilon) <= mpf(delta)
    assert exact_delta(mu, epsilon * (1 - 1e-9)) > mpf(delta)
    computed = gdp_delta(mu, epsilon=epsilon)
    assert exact_delta(mu, epsilon) <= computed <= exact_delta(mu, epsilon) * mpf("1.000001")


def test_ratios_compose_as_the_root_of_the_sum_of_squares() -> None:
    composed = compose_mu(["0.1"] * 100)
    assert 1 <= composed <= 1 + 1e-11
    assert compose_mu([3, 4]) == pytest.approx(5, rel=1e-11)


@pytest.mark.parametrize("mu", [0, -1, math.nan])
def test_a_ratio_that_is_none_is_refused(mu: float) -> None:
    with pytest.raises(InvalidArgument, match="mu"):
        gdp_epsilon(mu, delta="1e-6")
    with pytest.raises(InvalidArgument, match="mu"):
        compose_mu([mu])


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="delta"):
        gdp_epsilon(1, delta=0)
    with pytest.raises(InvalidArgument, match="epsilon"):
        gdp_delta(1, epsilon=0)
    with pytest.raises(InvalidArgument, match="mus"):
        compose_mu([])


@pytest.mark.parametrize("epsilon", ["1e-3", "0.03", "0.5", "1", "3", "20", "300"])
@pytest.mark.parametrize("delta", ["0.3", "1e-3", "1e-6", "1e-12", "1e-40"])
def test_a_limit_is_never_above_sixty_digits_and_hardly_below(epsilon: str, delta: str) -> None:
    mp.dps = 60
    limit = gdp_limit(epsilon, delta=delta)
    level = mpf(epsilon)
    assert exact_delta(limit, level) <= mpf(delta) < exact_delta(limit * (1 + 1e-9), level)


def test_a_limit_admits_what_composes_to_it_and_no_more() -> None:
    limit = gdp_limit(1, delta="1e-6")
    assert (
        gdp_epsilon(compose_mu(["0.02"] * 140), delta="1e-6")
        <= 1
        < gdp_epsilon(compose_mu(["0.02"] * 141), delta="1e-6")
    )
    assert 140 <= limit**2 * 2500 < 141


def test_a_limit_that_is_out_of_range_is_the_largest_or_refused() -> None:
    assert gdp_limit(10**9, delta="0.5") == 10**4
    with pytest.raises(InvalidArgument, match="too small for Gaussian noise"):
        gdp_limit("1e-12", delta="1e-40")
    with pytest.raises(InvalidArgument, match="delta"):
        gdp_limit(1, delta=0)
    with pytest.raises(InvalidArgument, match="epsilon"):
        gdp_limit(0, delta="1e-6")
