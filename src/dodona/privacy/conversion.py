"""Conversions between zCDP, Rényi DP and (ε, δ), in both directions.

Every bound is rounded to the safe side. A bound at any single Rényi order is sound; searching for the best order only
tightens it.
"""

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, float_above, minimize_unimodal, to_fraction
from dodona.privacy.events import Event, validate_order
from dodona.privacy.gaussian_privacy import gaussian_epsilon

# --- Conversions between zCDP, Rényi and (ε, δ) prices, in both directions, at the optimal order.


RenyiCurve = Callable[[Fraction], Decimal]
"""The Rényi price as a function of the order, as `Event.renyi` returns it."""

_ROUNDING = 2.0**-48  # relative to the sum of absolute terms; each term has a few rounding errors of 2^-53


def validate_noise_delta(value: Exact) -> Fraction:
    """Return δ, the failure probability of privacy, strictly between 0 and 1."""
    delta = to_fraction(value, argument="delta", lower=Fraction(0), upper=Fraction(1))
    if delta in (0, 1):
        raise InvalidArgument("delta", value, "write a number between 0 and 1, such as '1e-6'")
    return delta


def renyi_epsilon(curve: RenyiCurve, *, delta: Exact) -> float:
    """Return the least ε for this curve over the orders from 1 to 10^6.

    Theorem: best-order
    """
    wanted = validate_noise_delta(delta)
    return max(0.0, least_over_orders(lambda order: epsilon_bound(Fraction(curve(order)), order, wanted)))


def order_epsilon(price: Fraction, *, order: Fraction, delta: Fraction) -> float:
    """Return R + ln((α - 1)/α) - (ln δ + ln α)/(α - 1) for a Rényi price R at order α; at least 0.

    Theorem: best-order
    """
    return max(0.0, epsilon_bound(price, validate_order(order), delta))


def epsilon_bound(price: Fraction, order: Fraction, delta: Fraction) -> float:
    """Return the ε of `order_epsilon`, which may be below 0."""
    alpha, less = float(order), float(order - 1)
    return sum_above(float_above(price), math.log(less / alpha), -logarithm(delta) / less, -math.log(alpha) / less)


def sum_above(*terms: float) -> float:
    """Return an upper bound on the sum: the sum plus its possible rounding error."""
    return math.fsum(terms) + _ROUNDING * math.fsum(abs(term) for term in terms)


def least_over_orders(bound: Callable[[Fraction], float]) -> float:
    """Return approximately the least bound over the orders, by golden-section search on ln(order - 1)."""

    def at(position: float) -> float:
        return bound(1 + Fraction(math.exp(position)))

    # The minimum is flat: an error in the position changes the bound only quadratically.
    return at(minimize_unimodal(at, math.log(1e-6), math.log(1e6 - 1), near=1e-5))


def logarithm(delta: Fraction) -> float:
    """Return ln δ; for δ near 1, 1 - δ is computed exactly before rounding."""
    if 2 * delta > 1:
        return math.log1p(-float(1 - delta))
    return math.log(delta.numerator) - math.log(delta.denominator)


# --- The Rényi order of a budget: chosen once from (ε, δ), before the first answer, and never changed. ---


EIGHTY = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SHOWN = Context(prec=40, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MARGIN = 1 - Decimal(1).scaleb(-30)
_STEP = 16  # orders are multiples of 1/16: the loss of capacity is below one part in 10^5
_FINE_STEP = 1 << 20
_HIGHEST = 10**5


def round_down(value: Decimal) -> Decimal:
    """Return a lower bound on the true value that `value` approximates with eighty digits."""
    return _SHOWN.multiply(value, _MARGIN)


def renyi_limit(epsilon: Fraction, delta: Fraction, order: Fraction) -> Decimal:
    """Return the largest Rényi divergence at this order that implies (ε, δ), rounded down.

    It is ε - ln((α-1)/α) + (ln δ + ln α)/(α-1) (Canonne, Kamath, Steinke 2020, proposition 12).

    Theorem: renyi-conversion
    """
    validate_order(order)
    with localcontext(EIGHTY):
        alpha = Decimal(order.numerator) / Decimal(order.denominator)
        loss = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        failing = Decimal(delta.numerator) / Decimal(delta.denominator)
        value = loss - ((alpha - 1) / alpha).ln() + (failing.ln() + alpha.ln()) / (alpha - 1)
        if value <= 0:
            return Decimal(0)
        return round_down(value)


def best_order(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the order that admits the most small releases, to the nearest sixteenth.

    >>> best_order(Fraction(1), Fraction(1, 10**6))
    Fraction(22, 1)
    """
    return _best(epsilon, delta, _STEP)


@lru_cache(maxsize=1 << 10)  # most questions of a dataset have the same ε
def zcdp_limit(epsilon: Fraction, delta: Fraction) -> Decimal:
    """Return a ρ that implies (ε, δ): the largest to at least seven digits, rounded down.

    Theorem: renyi-conversion
    """
    order = _best(epsilon, delta, _FINE_STEP)
    with localcontext(EIGHTY):
        alpha = Decimal(order.numerator) / Decimal(order.denominator)
        return round_down(renyi_limit(epsilon, delta, order) / alpha)


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


@lru_cache(maxsize=1 << 12)
def standalone_epsilon(event: Event, delta: Fraction) -> float:
    """Return the ε of an event asked alone at the given δ, rounded up."""
    if event.epsilon is not None:
        return math.nextafter(float(event.epsilon), math.inf)
    squared = event.mu_squared()
    if squared is not None:
        return gaussian_epsilon(squared, delta)
    return renyi_epsilon(event.renyi, delta=delta)
