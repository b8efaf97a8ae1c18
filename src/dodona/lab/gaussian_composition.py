"""Gaussian differential privacy: the exact curve of continuous Gaussian noise.

It is for comparison: discrete noise is never charged by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from dodona.errors import InvalidArgument
from dodona.lab.conversion import add_rounding_margin, float_below, validate_epsilon, validate_positive_delta
from dodona.numbers import Exact, float_above, largest_number, smallest_number, to_fraction

_LEAST = Fraction(1, 10**9)


_MOST = Fraction(10**4)


def compose_mu(mus: Iterable[Exact]) -> float:
    """Return √Σμ², rounded up: the composition of μ-GDP mechanisms.

    Theorem: gaussian-composition
    """
    ratios = [_ratio(mu) for mu in mus]
    if not ratios:
        raise InvalidArgument("mus", ratios, "write at least one ratio of distance to standard deviation")
    return add_rounding_margin(math.sqrt(float_above(sum((mu * mu for mu in ratios), Fraction(0)))))


def gdp_delta(mu: Exact, *, epsilon: Exact) -> float:
    """Return δ(ε) = Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ), rounded up.

    Theorem: gaussian-composition
    """
    return _delta(float_above(_ratio(mu)), float_below(validate_epsilon(epsilon)))


def gdp_epsilon(mu: Exact, *, delta: Exact) -> float:
    """Return the least ε with δ(ε) ≤ delta, rounded up; 0 if δ(0) is already small enough.

    Theorem: gaussian-composition
    """
    ratio, wanted = float_above(_ratio(mu)), float_below(validate_positive_delta(delta))
    if _delta(ratio, 0.0) <= wanted:
        return 0.0
    # A sufficient ε: δ ≤ Φ(μ/2 - ε/μ) ≤ e^{-(ε/μ - μ/2)²/2}.
    enough = ratio * (ratio / 2 + math.sqrt(-2 * math.log(wanted))) + 1e-9
    return smallest_number(lambda level: _delta(ratio, level) <= wanted, 0.0, enough, near=1e-14)


def gdp_limit(epsilon: Exact, *, delta: Exact) -> float:
    """Return the largest μ whose curve passes through or below (ε, δ), rounded down; at most 10^4.

    Gaussian mechanisms fit (ε, δ) if the sum of their squared ratios is at most the square of this μ.

    Theorem: gaussian-composition
    """
    level, wanted = float_below(validate_epsilon(epsilon)), float_below(validate_positive_delta(delta))
    low, high = float(_LEAST), float(_MOST)
    if _delta(low, level) > wanted:
        raise InvalidArgument("delta", delta, "this pair is too small for Gaussian noise; raise epsilon or delta")
    if _delta(high, level) <= wanted:
        return high
    return largest_number(lambda mu: _delta(mu, level) <= wanted, low, high, near=1e-14, geometric=True)


def _delta(mu: float, epsilon: float) -> float:
    """Return the difference of the two terms, plus its possible rounding error."""
    upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    first, tail = _normal(upper), _normal(lower)
    # If the tail underflows, the second term is dropped, which only raises δ.
    second = math.exp(epsilon + math.log(tail)) if tail > 0 else 0.0
    # A relative error of 2^-52 in the argument x changes Φ(x) by at most a relative (x² + 1)·2^-51.
    error = 2.0**-49 * (first * (upper**2 + 4) + second * (lower**2 + epsilon + 4))
    return min(1.0, add_rounding_margin(max(first - second, 0.0) + error))


def _normal(value: float) -> float:
    return math.erfc(-value / math.sqrt(2)) / 2


def _ratio(mu: Exact) -> Fraction:
    return to_fraction(mu, argument="mu", lower=_LEAST, upper=_MOST)
