"""Gaussian differential privacy: the exact curve of continuous Gaussian noise.

Discrete Gaussian noise may be more telling than this (σ = 2, δ = 10^-6: ε is 2.27579, not 2.25408), so nothing that is
drawn here is charged by it. It is for comparison, and for noise on the reals that somebody else drew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from dodona.accounting.bounds import above, below, positive_probability, privacy_loss, raised
from dodona.errors import InvalidArgument
from dodona.exact import Exact, exact

_LEAST = Fraction(1, 10**9)
_MOST = Fraction(10**4)


def composed_mu(mus: Iterable[Exact]) -> float:
    """Return √Σμ², rounded up: what μ-GDP mechanisms compose to.

    Theorem: gaussian-composition
    """
    found = [_ratio(mu) for mu in mus]
    if not found:
        raise InvalidArgument("mus", found, "write at least one ratio of distance to standard deviation")
    return raised(math.sqrt(above(sum((mu * mu for mu in found), Fraction(0)))))


def normal_delta(mu: Exact, *, epsilon: Exact) -> float:
    """Return δ(ε) = Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ), rounded up.

    Theorem: gaussian-composition
    """
    return _delta(above(_ratio(mu)), below(privacy_loss(epsilon)))


def normal_epsilon(mu: Exact, *, delta: Exact) -> float:
    """Return the least ε with δ(ε) ≤ delta, rounded up; 0 where the noise alone is enough.

    Theorem: gaussian-composition
    """
    ratio, wanted = above(_ratio(mu)), below(positive_probability(delta))
    if _delta(ratio, 0.0) <= wanted:
        return 0.0
    # Always enough: δ ≤ Φ(μ/2 - ε/μ) ≤ e^{-(ε/μ - μ/2)²/2}.
    low, high = 0.0, ratio * (ratio / 2 + math.sqrt(-2 * math.log(wanted))) + 1e-9
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _delta(ratio, middle) <= wanted else (middle, high)
    return high


def normal_limit(epsilon: Exact, *, delta: Exact) -> float:
    """Return the largest μ whose curve passes through (ε, δ) or below, rounded down; at most 10^4.

    So many Gaussians fit (ε, δ) whose squared ratios add up to at most the square of this.

    Theorem: gaussian-composition
    """
    level, wanted = below(privacy_loss(epsilon)), below(positive_probability(delta))
    low, high = float(_LEAST), float(_MOST)
    if _delta(low, level) > wanted:
        raise InvalidArgument("delta", delta, "this pair leaves nothing to Gaussian noise; raise epsilon or delta")
    if _delta(high, level) <= wanted:
        return high
    while high / low > 1 + 1e-14:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _delta(middle, level) <= wanted else (low, middle)
    return low


def _delta(mu: float, epsilon: float) -> float:
    """Return the difference of the two terms, plus what their roundings may have taken from it."""
    upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    first, tail = _normal(upper), _normal(lower)
    # Where the second term is below every float it is left out, which only makes δ larger.
    second = math.exp(epsilon + math.log(tail)) if tail > 0 else 0.0
    # An argument x off by 2^-52·|x| moves Φ(x) by at most (x² + 1)·2^-51 of itself.
    error = 2.0**-49 * (first * (upper**2 + 4) + second * (lower**2 + epsilon + 4))
    return min(1.0, raised(max(first - second, 0.0) + error))


def _normal(value: float) -> float:
    return math.erfc(-value / math.sqrt(2)) / 2


def _ratio(mu: Exact) -> Fraction:
    return exact(mu, argument="mu", lower=_LEAST, upper=_MOST)
