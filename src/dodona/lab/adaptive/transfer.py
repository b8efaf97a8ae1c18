"""Transfer theorems, from privacy to the population: how far a query's conditional mean may be from its expectation.

Rows are drawn independently from P, and π is the transcript. Let Q be the distribution of a uniformly chosen row given
π. Then every query q with values in [0, 1] that depends only on π has |q(Q) - q(P)| ≤ t simultaneously, except with
probability β. Each function returns t for one definition of privacy under replacement of a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from dodona.lab.adaptive.certificate import validate_fraction, validate_positive, validate_probability
from dodona.lab.conversion import add_rounding_margin
from dodona.numbers import minimize_unimodal, smallest_number

_NORMAL = NormalDist()
_NEAR = 1e-12
_LAST = 1 - 1e-9  # the search ends here; beyond, nothing is promised
_LEAST_ORDER = 2.0


def pure_transfer(epsilon: float) -> float:
    """Return tanh(ε/4) for ε-differential privacy, for every transcript.

    Theorem: posterior-transfer
    """
    return _cap(math.tanh(validate_positive(epsilon, argument="epsilon") / 4))


def pair_transfer(*, epsilon: float, delta: float, failing: float) -> float:
    """Return t with (1 + t)² = e^ε(1 - t)² + 4δ/β for (ε, δ)-differential privacy; 1 if there is no smaller solution.

    Theorem: posterior-transfer
    """
    ratio = math.exp(-validate_positive(epsilon, argument="epsilon"))
    rest = 4 * validate_fraction(delta, argument="delta") / validate_probability(failing, argument="failing")
    if rest >= 4:  # noqa: PLR2004  at t = 1 the left side is 4
        return 1.0
    # r(1 + t)² - (1 - t)² - r·rest = 0 with r = e^-ε: the root that is 0 where r = 1 and rest = 0.
    half = 1 + ratio
    difference = 1 - ratio + ratio * rest  # half·t is the smaller root of (r-1)t² + 2·half·t - difference
    root = math.sqrt(half**2 - (1 - ratio) * difference)
    return _cap(difference / (half + root))


def curve_transfer(delta_at: Callable[[float], float], *, failing: float) -> float:
    """Return the least t of `pair_transfer` along a privacy curve ε ↦ δ(ε).

    Theorem: posterior-transfer
    """
    often = validate_probability(failing, argument="failing")

    def bound(position: float) -> float:
        epsilon = math.exp(position)
        delta = min(1.0, delta_at(epsilon))
        # Where nothing is proved, prefer the smaller δ.
        return max(delta / often, pair_transfer(epsilon=epsilon, delta=delta, failing=often))

    return min(1.0, bound(minimize_unimodal(bound, math.log(1e-8), math.log(50.0), near=1e-4)))


def gaussian_transfer(mu: float, *, failing: float) -> float:
    """Return t with Φ⁻¹(β((1 + t)/2)²) - Φ⁻¹(β((1 - t)/2)²) = μ for μ-Gaussian differential privacy.

    Beyond the condition β((1 - t)/2)² ≤ Φ(-μ/2) it is (2Φ(μ/2) - 1)/β, which always holds.

    Theorem: posterior-transfer
    """
    ratio, often = validate_positive(mu, argument="mu"), validate_probability(failing, argument="failing")
    always = stable_transfer(math.erf(ratio / math.sqrt(8)), failing=often)
    edge = _NORMAL.cdf(-ratio / 2)

    def is_met(gap: float) -> bool:
        inside, outside = often * ((1 - gap) / 2) ** 2, often * ((1 + gap) / 2) ** 2
        if inside > edge:
            return False
        return _NORMAL.inv_cdf(outside) - _NORMAL.inv_cdf(inside) >= ratio + 1e-13 * (1 + ratio)

    smallest_gap = smallest_number(is_met, 0.0, _LAST, near=_NEAR)
    return min(always, _cap(smallest_gap)) if is_met(smallest_gap) else always


def concentrated_transfer(rho: float, *, failing: float) -> float:
    """Return t with 2·ln((1 + t)/(1 - t)) = 2√(ρL) - ρ, L = ln(4/(β(1 - t)²)), for ρ-zCDP.

    The order √(L/ρ) is at least 2.

    Theorem: posterior-transfer
    """
    price, often = validate_positive(rho, argument="rho"), validate_probability(failing, argument="failing")

    def is_met(gap: float) -> bool:
        logarithm = math.log(4 / often) - 2 * math.log1p(-gap)
        order = max(_LEAST_ORDER, math.sqrt(logarithm / price))
        return _log_ratio(gap) >= ((order - 1) * price + logarithm / order) * (1 + 1e-13)

    smallest_gap = smallest_number(is_met, 0.0, _LAST, near=_NEAR)
    return _cap(smallest_gap) if is_met(smallest_gap) else 1.0


def renyi_transfer(price: float, *, order: float, failing: float) -> float:
    """Return t with 2·ln((1 + t)/(1 - t)) = (α - 1)R/α + L/α for a Rényi divergence R at one order α ≥ 2.

    Theorem: posterior-transfer
    """
    paid, often = validate_positive(price, argument="price"), validate_probability(failing, argument="failing")
    alpha = max(_LEAST_ORDER, validate_positive(order, argument="order"))
    if alpha != order:
        return 1.0  # below 2 the proof needs more conditions

    def is_met(gap: float) -> bool:
        logarithm = math.log(4 / often) - 2 * math.log1p(-gap)
        return _log_ratio(gap) >= ((alpha - 1) * paid + logarithm) / alpha * (1 + 1e-13)

    smallest_gap = smallest_number(is_met, 0.0, _LAST, near=_NEAR)
    return _cap(smallest_gap) if is_met(smallest_gap) else 1.0


def stable_transfer(stability: float, *, failing: float) -> float:
    """Return ε/β for ε-TV-stability, by Markov's inequality.

    Theorem: posterior-transfer
    """
    return _cap(validate_fraction(stability, argument="stability") / validate_probability(failing, argument="failing"))


def _log_ratio(gap: float) -> float:
    """Return 2·ln((1 + t)/(1 - t))."""
    return 2 * (math.log1p(gap) - math.log1p(-gap))


def _cap(gap: float) -> float:
    return min(1.0, add_rounding_margin(gap))
