"""Conversions between zCDP, Rényi DP, Gaussian DP and (ε, δ), in both directions.

Every bound is rounded to the safe side. A bound at any single Rényi order is sound; searching for the best order only
tightens it. Gaussian DP is for comparison: discrete noise is never charged by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, to_fraction
from dodona.privacy.bounds import (
    add_rounding_margin,
    float_above,
    float_below,
    largest_number,
    minimize_unimodal,
    smallest_number,
    validate_epsilon,
    validate_positive_delta,
)
from dodona.privacy.events import Event, validate_order

# --- Conversions between zCDP, Rényi and (ε, δ) prices, in both directions, at the optimal order.


RenyiCurve = Callable[[Fraction], Decimal]
"""The Rényi price as a function of the order, as `Event.renyi` returns it."""

_ROUNDING = 2.0**-48  # relative to the sum of absolute terms; each term has a few rounding errors of 2^-53


def compose_rho(rhos: Iterable[Exact]) -> Fraction:
    """Return Σρ, exactly: zCDP prices add, even for adaptive choices.

    Theorem: zcdp-composition
    """
    found = [_price(rho) for rho in rhos]
    if not found:
        raise InvalidArgument("rhos", found, "write at least one price")
    return sum(found, Fraction(0))


def zcdp_epsilon(rho: Exact, *, delta: Exact) -> float:
    """Return the least ε over all orders for a ρ-zCDP mechanism (Canonne, Kamath, Steinke 2020, prop. 12).

    Theorem: best-order
    """
    price, wanted = _price(rho), validate_positive_delta(delta)
    return max(0.0, _least(lambda order: _epsilon(order * price, order, wanted)))


def zcdp_delta(rho: Exact, *, epsilon: Exact) -> float:
    """Return the least δ over all orders for a ρ-zCDP mechanism.

    Theorem: best-order
    """
    price, loss = _price(rho), validate_epsilon(epsilon)
    return _probability(_least(lambda order: _log_delta(order * price, order, loss)))


def bun_steinke_epsilon(rho: Exact, *, delta: Exact) -> float:
    """Return ρ + 2√(ρ ln(1/δ)), the looser textbook bound, 10 to 25 percent above `zcdp_epsilon`.

    Theorem: zcdp-composition
    """
    price, wanted = float_above(_price(rho)), validate_positive_delta(delta)
    return add_rounding_margin(price + 2 * math.sqrt(price * -_logarithm(wanted)))


def bun_steinke_delta(rho: Exact, *, epsilon: Exact) -> float:
    """Return e^{-(ε - ρ)²/4ρ}, or 1 for ε ≤ ρ.

    Theorem: zcdp-composition
    """
    price, loss = float_above(_price(rho)), float_below(validate_epsilon(epsilon))
    if loss <= price:
        return 1.0
    return min(1.0, add_rounding_margin(math.exp(-((loss - price) ** 2) / (4 * price) * (1 - 1e-12))))


def renyi_epsilon(curve: RenyiCurve, *, delta: Exact) -> float:
    """Return the least ε for this curve over the orders from 1 to 10^6.

    Theorem: best-order
    """
    wanted = validate_positive_delta(delta)
    return max(0.0, _least(lambda order: _epsilon(Fraction(curve(order)), order, wanted)))


def renyi_delta(curve: RenyiCurve, *, epsilon: Exact) -> float:
    """Return the least δ for this curve over the orders from 1 to 10^6.

    Theorem: best-order
    """
    loss = validate_epsilon(epsilon)
    return _probability(_least(lambda order: _log_delta(Fraction(curve(order)), order, loss)))


def order_epsilon(price: Fraction, *, order: Fraction, delta: Fraction) -> float:
    """Return R + ln((α - 1)/α) - (ln δ + ln α)/(α - 1) for a Rényi price R at order α; at least 0.

    Theorem: best-order
    """
    return max(0.0, _epsilon(price, validate_order(order), delta))


def order_delta(price: Fraction, *, order: Fraction, epsilon: Fraction) -> float:
    """Return e^{(α - 1)(R - ε)}·(1 - 1/α)^α/(α - 1) for a Rényi price R at order α; at most 1.

    Theorem: best-order
    """
    return _probability(_log_delta(price, validate_order(order), epsilon))


def continuous_laplace_renyi(epsilon: Exact, *, order: Fraction) -> float:
    """Return the Rényi divergence of *continuous* Laplace noise, rounded to nearest: for comparison with other tools.

    It is below the price of the discrete law that is sampled, so it is never used for charging.
    """
    loss, alpha = float(validate_epsilon(epsilon)), float(validate_order(order))
    weight = alpha / (2 * alpha - 1)
    return loss + math.log(weight + (1 - weight) * math.exp(-(2 * alpha - 1) * loss)) / (alpha - 1)


def _epsilon(price: Fraction, order: Fraction, delta: Fraction) -> float:
    alpha, less = float(order), float(order - 1)
    return _sum_above(float_above(price), math.log(less / alpha), -_logarithm(delta) / less, -math.log(alpha) / less)


def _log_delta(price: Fraction, order: Fraction, epsilon: Fraction) -> float:
    alpha, less = float(order), float(order - 1)
    return _sum_above(
        less * float_above(price), -less * float_below(epsilon), alpha * math.log(less / alpha), -math.log(less)
    )


def _sum_above(*terms: float) -> float:
    """Return an upper bound on the sum: the sum plus its possible rounding error."""
    return math.fsum(terms) + _ROUNDING * math.fsum(abs(term) for term in terms)


def _probability(logarithm: float) -> float:
    return min(1.0, add_rounding_margin(math.exp(logarithm))) if logarithm < 0 else 1.0


def _least(bound: Callable[[Fraction], float]) -> float:
    """Return approximately the least bound over the orders, by golden-section search on ln(order - 1)."""

    def at(position: float) -> float:
        return bound(1 + Fraction(math.exp(position)))

    # The minimum is flat: an error in the position changes the bound only quadratically.
    return at(minimize_unimodal(at, math.log(1e-6), math.log(1e6 - 1), near=1e-5))


def _price(rho: Exact) -> Fraction:
    return to_fraction(rho, argument="rho", lower=Fraction(1, 10**24), upper=Fraction(10**9))


def _logarithm(delta: Fraction) -> float:
    """Return ln δ; for δ near 1, 1 - δ is computed exactly before rounding."""
    if 2 * delta > 1:
        return math.log1p(-float(1 - delta))
    return math.log(delta.numerator) - math.log(delta.denominator)


# --- The Rényi order of a budget: chosen once from (ε, δ), before the first answer, and never changed. ---


_EIGHTY = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SHOWN = Context(prec=40, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MARGIN = 1 - Decimal(1).scaleb(-30)
_STEP = 16  # orders are multiples of 1/16: the loss of capacity is below one part in 10^5
_FINE_STEP = 1 << 20
_HIGHEST = 10**5


def renyi_limit(epsilon: Fraction, delta: Fraction, order: Fraction) -> Decimal:
    """Return the largest Rényi divergence at this order that implies (ε, δ), rounded down.

    It is ε - ln((α-1)/α) + (ln δ + ln α)/(α-1) (Canonne, Kamath, Steinke 2020, proposition 12).

    Theorem: renyi-conversion
    """
    validate_order(order)
    with localcontext(_EIGHTY):
        alpha = Decimal(order.numerator) / Decimal(order.denominator)
        loss = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        failing = Decimal(delta.numerator) / Decimal(delta.denominator)
        value = loss - ((alpha - 1) / alpha).ln() + (failing.ln() + alpha.ln()) / (alpha - 1)
        if value <= 0:
            return Decimal(0)
        return _SHOWN.multiply(value, _MARGIN)


def best_order(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the order that admits the most small releases, to the nearest sixteenth.

    >>> best_order(Fraction(1), Fraction(1, 10**6))
    Fraction(22, 1)
    """
    return _best(epsilon, delta, _STEP)


def zcdp_limit(epsilon: Fraction, delta: Fraction) -> Decimal:
    """Return a ρ that implies (ε, δ): the largest to at least seven digits, rounded down.

    Theorem: renyi-conversion
    """
    order = _best(epsilon, delta, _FINE_STEP)
    with localcontext(_EIGHTY):
        alpha = Decimal(order.numerator) / Decimal(order.denominator)
        return _SHOWN.multiply(renyi_limit(epsilon, delta, order) / alpha, _MARGIN)


def bun_steinke_limit(epsilon: Fraction, delta: Fraction) -> Decimal:
    """Return (√(ln(1/δ) + ε) - √ln(1/δ))², the largest ρ with ρ + 2√(ρ ln(1/δ)) ≤ ε, rounded down.

    It is looser than `zcdp_limit`, and half the sum of squares up to which the advanced filter admits pure losses.

    Theorem: zcdp-composition
    """
    with localcontext(_EIGHTY):
        loss = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        logarithm = -(Decimal(delta.numerator) / Decimal(delta.denominator)).ln()
        # Written without cancellation: √(L + ε) - √L = ε/(√(L + ε) + √L).
        root = loss / ((logarithm + loss).sqrt() + logarithm.sqrt())
        return _SHOWN.multiply(root * root, _MARGIN)


def _best(epsilon: Fraction, delta: Fraction, step: int) -> Fraction:
    """Return the multiple of 1/step with the largest limit/order; a poor optimum only wastes budget."""
    loss, failing = float(epsilon), math.log(delta)

    def capacity(position: float) -> float:
        order = 1 + math.exp(position)
        return (loss + math.log1p(1 / (order - 1)) + (failing + math.log(order)) / (order - 1)) / order

    low, high = math.log(1 / 16), math.log(_HIGHEST)
    while high - low > 1e-12:  # noqa: PLR2004  ternary search; the capacity is unimodal
        third = (high - low) / 3
        low, high = (low + third, high) if capacity(low + third) < capacity(high - third) else (low, high - third)
    order = Fraction(round((1 + math.exp(low)) * step), step)
    if renyi_limit(epsilon, delta, order) <= 0:
        accepted = "this pair leaves nothing to a Rényi accountant; raise epsilon or delta, or count pure losses only"
        raise InvalidArgument("epsilon", epsilon, accepted)
    return order


# --- Gaussian differential privacy: the exact curve of continuous Gaussian noise. ---


_LEAST = Fraction(1, 10**9)
_MOST = Fraction(10**4)


def compose_mu(mus: Iterable[Exact]) -> float:
    """Return √Σμ², rounded up: the composition of μ-GDP mechanisms.

    Theorem: gaussian-composition
    """
    found = [_ratio(mu) for mu in mus]
    if not found:
        raise InvalidArgument("mus", found, "write at least one ratio of distance to standard deviation")
    return add_rounding_margin(math.sqrt(float_above(sum((mu * mu for mu in found), Fraction(0)))))


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
        raise InvalidArgument("delta", delta, "this pair leaves nothing to Gaussian noise; raise epsilon or delta")
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


@lru_cache(maxsize=1 << 12)
def standalone_epsilon(event: Event, delta: Fraction) -> float:
    """Return the ε of an event asked alone at the given δ, rounded up."""
    if event.epsilon is not None:
        return math.nextafter(float(event.epsilon), math.inf)
    return renyi_epsilon(event.renyi, delta=delta)
