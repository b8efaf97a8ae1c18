"""Two published transfer theorems, kept for comparison; ours is sharper."""

from __future__ import annotations

import math
from statistics import NormalDist

from dodona.lab.adaptive.certificate import validate_positive, validate_probability, validate_queries, validate_rows
from dodona.lab.conversion import add_rounding_margin
from dodona.numbers import minimize_unimodal

_NORMAL = NormalDist()


def plain_gaussian(*, scale: float, answers: int, failing: float) -> float:
    """Return σ·√(2·ln(2k/β)): k discrete Gaussian draws all stay below it, except with probability β.

    Theorem: published-transfer
    """
    often = validate_probability(failing, argument="failing")
    return add_rounding_margin(
        validate_positive(scale, argument="scale") * math.sqrt(2 * math.log(2 * validate_queries(answers) / often))
    )


def information_gap(*, rows: int, queries: int, scale: float, failing: float) -> float:
    """Return √(min over λ of (2ρn - ln(1 - λ))/(4nλβ)), where ρn = k/(2nσ²) bounds the mutual information.

    This is theorem 2.1 of Rogers et al. 2020, before its failure probability is halved.

    Theorem: published-transfer
    """
    count, asked = validate_rows(rows), validate_queries(queries)
    rho = asked / (2 * (count * validate_positive(scale, argument="scale")) ** 2)
    often = validate_probability(failing, argument="failing")

    def inside(part: float) -> float:
        return (2 * rho * count - math.log1p(-part)) / part

    best = inside(minimize_unimodal(inside, 1e-9, 1 - 1e-9, near=1e-9))
    return add_rounding_margin(math.sqrt(best / (4 * count * often)))


def jung_gap(mu: float, *, failing: float) -> float:
    """Return the least (e^ε - 1) + 2d with δ(ε)/d ≤ β on the curve of μ-Gaussian differential privacy.

    Jung et al. 2021: the conditional mean of a query is this close to the population, except with probability β.

    Theorem: published-transfer
    """
    ratio, often = validate_positive(mu, argument="mu"), validate_probability(failing, argument="failing")

    def bound(position: float) -> float:
        epsilon = math.exp(position)
        return math.expm1(epsilon) + 2 * _delta(ratio, epsilon) / often

    return add_rounding_margin(bound(minimize_unimodal(bound, math.log(1e-6), math.log(10.0), near=1e-5)))


def jung_noise(*, scale: float, answers: int, failing: float) -> float:
    """Return the least a + c with P(max|Z| > a) ≤ cβ for k normal draws.

    Jung et al. 2021: an answer is this close to the conditional mean of its query, except with probability β.

    Theorem: published-transfer
    """
    often, asked = validate_probability(failing, argument="failing"), validate_queries(answers)
    spread = validate_positive(scale, argument="scale")

    def bound(position: float) -> float:
        more = math.exp(position)
        return more + spread * -_NORMAL.inv_cdf(min(0.5, more * often / (2 * asked)))

    return add_rounding_margin(bound(minimize_unimodal(bound, math.log(1e-9), 0.0, near=1e-5)))


def _delta(mu: float, epsilon: float) -> float:
    """Return Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ)."""
    first, tail = _NORMAL.cdf(mu / 2 - epsilon / mu), _NORMAL.cdf(-mu / 2 - epsilon / mu)
    return max(0.0, first - (math.exp(epsilon + math.log(tail)) if tail > 0 else 0.0)) + 1e-15
