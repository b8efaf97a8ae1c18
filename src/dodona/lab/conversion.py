"""Validated privacy parameters, and conversions between zCDP, Rényi DP and (ε, δ) that no ledger uses for charging.

The conversions are the textbook's, or inverses of those that the accountants use. Every bound is rounded to the safe
side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, float_above, to_fraction, to_integer
from dodona.privacy.conversion import (
    EIGHTY,
    RenyiCurve,
    epsilon_bound,
    least_over_orders,
    logarithm,
    round_down,
    sum_above,
)
from dodona.privacy.events import validate_order

_LEAST = Fraction(1, 10**12)


_MOST = Fraction(10**12)


_SLACK = 1e-12  # covers more than a thousand rounding errors of 2^-53 each


MOST_TIMES = 10**6


@dataclass(frozen=True, slots=True)
class EpsilonDelta:
    """An (ε, δ) guarantee; both numbers are exact and at least as large as what was proved."""

    epsilon: Fraction
    delta: Fraction


def validate_epsilon(value: Exact, *, argument: str = "epsilon") -> Fraction:
    """Return a validated ε, from 10^-12 to 10^12."""
    return to_fraction(value, argument=argument, lower=_LEAST, upper=_MOST)


def validate_delta(value: Exact, *, argument: str = "delta") -> Fraction:
    """Return a validated δ, at least 0 and below 1."""
    number = to_fraction(value, argument=argument, lower=Fraction(0), upper=Fraction(1))
    if number == 1:
        raise InvalidArgument(argument, value, "write a number from 0 up and below 1, such as '1e-6'")
    return number


def validate_positive_delta(value: Exact, *, argument: str = "delta") -> Fraction:
    """Return a validated δ above 0 and below 1; δ = 0 has a meaning only for pure privacy."""
    number = validate_delta(value, argument=argument)
    if number == 0:
        raise InvalidArgument(argument, value, "write a number above 0 and below 1, such as '1e-6'")
    return number


def validate_repetitions(value: int, *, argument: str = "times") -> int:
    """Return a validated number of mechanisms, from 1 to 10^6."""
    return to_integer(value, argument=argument, lower=1, upper=MOST_TIMES)


def float_below(number: Fraction) -> float:
    """Return the nearest float that is not above the fraction."""
    near = float(number)
    return near if Fraction(near) <= number else math.nextafter(near, -math.inf)


def add_rounding_margin(value: float) -> float:
    """Return a float above the true value that `value` approximates after up to a thousand roundings; never 0.

    Values below the smallest normal float are raised to it, because rounding errors are no longer relative there.
    """
    return max(value * (1 + _SLACK), 2.3e-308)


def epsilon_delta(epsilon: float, delta: float) -> EpsilonDelta:
    """Return the guarantee of two floats that have already been rounded up."""
    return EpsilonDelta(Fraction(epsilon), Fraction(min(delta, 1.0)))


def compose_rho(rhos: Iterable[Exact]) -> Fraction:
    """Return Σρ, exactly: zCDP prices add, even for adaptive choices.

    Theorem: zcdp-composition
    """
    prices = [_price(rho) for rho in rhos]
    if not prices:
        raise InvalidArgument("rhos", prices, "write at least one price")
    return sum(prices, Fraction(0))


def zcdp_epsilon(rho: Exact, *, delta: Exact) -> float:
    """Return the least ε over all orders for a ρ-zCDP mechanism (Canonne, Kamath, Steinke 2020, prop. 12).

    Theorem: best-order
    """
    price, wanted = _price(rho), validate_positive_delta(delta)
    return max(0.0, least_over_orders(lambda order: epsilon_bound(order * price, order, wanted)))


def zcdp_delta(rho: Exact, *, epsilon: Exact) -> float:
    """Return the least δ over all orders for a ρ-zCDP mechanism.

    Theorem: best-order
    """
    price, loss = _price(rho), validate_epsilon(epsilon)
    return _probability(least_over_orders(lambda order: _log_delta(order * price, order, loss)))


def bun_steinke_epsilon(rho: Exact, *, delta: Exact) -> float:
    """Return ρ + 2√(ρ ln(1/δ)), the looser textbook bound, 10 to 25 percent above `zcdp_epsilon`.

    Theorem: zcdp-composition
    """
    price, wanted = float_above(_price(rho)), validate_positive_delta(delta)
    return add_rounding_margin(price + 2 * math.sqrt(price * -logarithm(wanted)))


def bun_steinke_delta(rho: Exact, *, epsilon: Exact) -> float:
    """Return e^{-(ε - ρ)²/4ρ}, or 1 for ε ≤ ρ.

    Theorem: zcdp-composition
    """
    price, loss = float_above(_price(rho)), float_below(validate_epsilon(epsilon))
    if loss <= price:
        return 1.0
    return min(1.0, add_rounding_margin(math.exp(-((loss - price) ** 2) / (4 * price) * (1 - 1e-12))))


def renyi_delta(curve: RenyiCurve, *, epsilon: Exact) -> float:
    """Return the least δ for this curve over the orders from 1 to 10^6.

    Theorem: best-order
    """
    loss = validate_epsilon(epsilon)
    return _probability(least_over_orders(lambda order: _log_delta(Fraction(curve(order)), order, loss)))


def order_delta(price: Fraction, *, order: Fraction, epsilon: Fraction) -> float:
    """Return e^{(α - 1)(R - ε)}·(1 - 1/α)^α/(α - 1) for a Rényi price R at order α; at most 1.

    Theorem: best-order
    """
    return _probability(_log_delta(price, validate_order(order), epsilon))


def continuous_laplace_renyi(epsilon: Exact, *, order: Fraction) -> float:
    """Return the Rényi divergence of *continuous* Laplace noise, rounded to nearest: for comparison with other tools.

    It is below the price of the discrete noise that is sampled, so it is never used for charging.
    """
    loss, alpha = float(validate_epsilon(epsilon)), float(validate_order(order))
    weight = alpha / (2 * alpha - 1)
    return loss + math.log(weight + (1 - weight) * math.exp(-(2 * alpha - 1) * loss)) / (alpha - 1)


def _log_delta(price: Fraction, order: Fraction, epsilon: Fraction) -> float:
    alpha, less = float(order), float(order - 1)
    return sum_above(
        less * float_above(price), -less * float_below(epsilon), alpha * math.log(less / alpha), -math.log(less)
    )


def _probability(logarithm: float) -> float:
    return min(1.0, add_rounding_margin(math.exp(logarithm))) if logarithm < 0 else 1.0


def _price(rho: Exact) -> Fraction:
    return to_fraction(rho, argument="rho", lower=Fraction(1, 10**24), upper=Fraction(10**9))


def bun_steinke_limit(epsilon: Fraction, delta: Fraction) -> Decimal:
    """Return (√(ln(1/δ) + ε) - √ln(1/δ))², the largest ρ with ρ + 2√(ρ ln(1/δ)) ≤ ε, rounded down.

    It is looser than `zcdp_limit`, and half the sum of squares up to which the advanced filter admits pure losses.

    Theorem: zcdp-composition
    """
    with localcontext(EIGHTY):
        loss = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        logarithm = -(Decimal(delta.numerator) / Decimal(delta.denominator)).ln()
        # Written without cancellation: √(L + ε) - √L = ε/(√(L + ε) + √L).
        root = loss / ((logarithm + loss).sqrt() + logarithm.sqrt())
        return round_down(root * root)
