"""From one currency of privacy to another: zCDP and Rényi prices as (ε, δ), in both directions, the order optimised.

Every value is rounded up. A bound at any one order is sound; the search for the best one only makes it small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction

from dodona.accounting.bounds import above, below, positive_probability, privacy_loss, raised
from dodona.accounting.event import checked_order
from dodona.errors import InvalidArgument
from dodona.exact import Exact, exact

Curve = Callable[[Fraction], Decimal]
"""The Rényi price at each order, as `Event.renyi` gives it."""

_ROUNDING = 2.0**-48  # of the sum of all terms' sizes; each term has a few roundings of 2^-53
_GOLDEN = (math.sqrt(5) - 1) / 2


def composed_rho(rhos: Iterable[Exact]) -> Fraction:
    """Return Σρ, exactly: zCDP prices add, also for adaptive choices.

    Theorem: zcdp-composition
    """
    found = [_price(rho) for rho in rhos]
    if not found:
        raise InvalidArgument("rhos", found, "write at least one price")
    return sum(found, Fraction(0))


def zcdp_epsilon(rho: Exact, *, delta: Exact) -> float:
    """Return the least ε that any order proves for a ρ-zCDP mechanism (Canonne, Kamath, Steinke 2020, prop. 12).

    Theorem: best-order
    """
    price, wanted = _price(rho), positive_probability(delta)
    return max(0.0, _least(lambda order: _epsilon(order * price, order, wanted)))


def zcdp_delta(rho: Exact, *, epsilon: Exact) -> float:
    """Return the least δ that any order proves for a ρ-zCDP mechanism.

    Theorem: best-order
    """
    price, loss = _price(rho), privacy_loss(epsilon)
    return _probability(_least(lambda order: _log_delta(order * price, order, loss)))


def bun_steinke_epsilon(rho: Exact, *, delta: Exact) -> float:
    """Return ρ + 2√(ρ ln(1/δ)), the looser textbook form, 10 to 25 percent above `zcdp_epsilon`.

    Theorem: zcdp-composition
    """
    price, wanted = above(_price(rho)), positive_probability(delta)
    return raised(price + 2 * math.sqrt(price * -_logarithm(wanted)))


def bun_steinke_delta(rho: Exact, *, epsilon: Exact) -> float:
    """Return e^{-(ε - ρ)²/4ρ}, and 1 up to ε = ρ.

    Theorem: zcdp-composition
    """
    price, loss = above(_price(rho)), below(privacy_loss(epsilon))
    if loss <= price:
        return 1.0
    return min(1.0, raised(math.exp(-((loss - price) ** 2) / (4 * price) * (1 - 1e-12))))


def renyi_epsilon(curve: Curve, *, delta: Exact) -> float:
    """Return the least ε that any order from 1 to 10^6 proves for this curve.

    Theorem: best-order
    """
    wanted = positive_probability(delta)
    return max(0.0, _least(lambda order: _epsilon(Fraction(curve(order)), order, wanted)))


def renyi_delta(curve: Curve, *, epsilon: Exact) -> float:
    """Return the least δ that any order from 1 to 10^6 proves for this curve.

    Theorem: best-order
    """
    loss = privacy_loss(epsilon)
    return _probability(_least(lambda order: _log_delta(Fraction(curve(order)), order, loss)))


def order_epsilon(price: Fraction, *, order: Fraction, delta: Fraction) -> float:
    """Return R + ln((α - 1)/α) - (ln δ + ln α)/(α - 1) for a Rényi price R at the order α; at least 0.

    Theorem: best-order
    """
    return max(0.0, _epsilon(price, checked_order(order), delta))


def order_delta(price: Fraction, *, order: Fraction, epsilon: Fraction) -> float:
    """Return e^{(α - 1)(R - ε)}·(1 - 1/α)^α/(α - 1) for a Rényi price R at the order α; at most 1.

    Theorem: best-order
    """
    return _probability(_log_delta(price, checked_order(order), epsilon))


def continuous_laplace_renyi(epsilon: Exact, *, order: Fraction) -> float:
    """Return the Rényi divergence of *continuous* Laplace noise, rounded to nearest: for comparison with other tools.

    It is below the price of the discrete law that is drawn, so nothing is charged by it.
    """
    loss, alpha = float(privacy_loss(epsilon)), float(checked_order(order))
    weight = alpha / (2 * alpha - 1)
    return loss + math.log(weight + (1 - weight) * math.exp(-(2 * alpha - 1) * loss)) / (alpha - 1)


def _epsilon(price: Fraction, order: Fraction, delta: Fraction) -> float:
    alpha, less = float(order), float(order - 1)
    return _sum_above(above(price), math.log(less / alpha), -_logarithm(delta) / less, -math.log(alpha) / less)


def _log_delta(price: Fraction, order: Fraction, epsilon: Fraction) -> float:
    alpha, less = float(order), float(order - 1)
    return _sum_above(less * above(price), -less * below(epsilon), alpha * math.log(less / alpha), -math.log(less))


def _sum_above(*terms: float) -> float:
    """Return the sum and what the terms' roundings may have taken from it."""
    return math.fsum(terms) + _ROUNDING * math.fsum(abs(term) for term in terms)


def _probability(logarithm: float) -> float:
    return min(1.0, raised(math.exp(logarithm))) if logarithm < 0 else 1.0


def _least(bound: Callable[[Fraction], float]) -> float:
    """Return about the least bound over the orders, by golden section on ln(order - 1)."""
    low, high = math.log(1e-6), math.log(1e6 - 1)

    def at(position: float) -> float:
        return bound(1 + Fraction(math.exp(position)))

    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = at(left), at(right)
    while high - low > 1e-5:  # noqa: PLR2004  the valley is flat: about the square of this is seen in the bound
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = at(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = at(right)
    return min(at_left, at_right)


def _price(rho: Exact) -> Fraction:
    return exact(rho, argument="rho", lower=Fraction(1, 10**24), upper=Fraction(10**9))


def _logarithm(delta: Fraction) -> float:
    """Return ln δ; where δ is near 1 the difference is taken before rounding."""
    if 2 * delta > 1:
        return math.log1p(-float(1 - delta))
    return math.log(delta.numerator) - math.log(delta.denominator)
