"""The Rényi order of a budget: chosen once from (ε, δ), before the first answer, and never again."""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

from dodona.accounting.event import checked_order
from dodona.errors import InvalidArgument

_EIGHTY = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SHOWN = Context(prec=40, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MARGIN = 1 - Decimal(1).scaleb(-30)
_STEP = 16  # orders are multiples of 1/16: the loss in capacity is below one part in 10^5
_FINE_STEP = 1 << 20
_HIGHEST = 10**5


def renyi_limit(epsilon: Fraction, delta: Fraction, order: Fraction) -> Decimal:
    """Return the largest Rényi divergence at this order that implies (ε, δ), rounded down.

    It is ε - ln((α-1)/α) + (ln δ + ln α)/(α-1) (Canonne, Kamath, Steinke 2020, proposition 12).

    Theorem: renyi-conversion
    """
    checked_order(order)
    with localcontext(_EIGHTY):
        alpha = Decimal(order.numerator) / Decimal(order.denominator)
        loss = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        failing = Decimal(delta.numerator) / Decimal(delta.denominator)
        value = loss - ((alpha - 1) / alpha).ln() + (failing.ln() + alpha.ln()) / (alpha - 1)
        if value <= 0:
            return Decimal(0)
        return _SHOWN.multiply(value, _MARGIN)


def best_order(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the order at which a stream of many small releases gets furthest, to the nearest sixteenth.

    >>> best_order(Fraction(1), Fraction(1, 10**6))
    Fraction(22, 1)
    """
    return _best(epsilon, delta, _STEP)


def zcdp_limit(epsilon: Fraction, delta: Fraction) -> Decimal:
    """Return a ρ that implies (ε, δ), the largest to seven digits and more, rounded down.

    Theorem: renyi-conversion
    """
    order = _best(epsilon, delta, _FINE_STEP)
    with localcontext(_EIGHTY):
        alpha = Decimal(order.numerator) / Decimal(order.denominator)
        return _SHOWN.multiply(renyi_limit(epsilon, delta, order) / alpha, _MARGIN)


def bun_steinke_limit(epsilon: Fraction, delta: Fraction) -> Decimal:
    """Return (√(ln(1/δ) + ε) - √ln(1/δ))², the largest ρ with ρ + 2√(ρ ln(1/δ)) ≤ ε, rounded down.

    It is looser than `zcdp_limit`, and half the square sum up to which the advanced filter admits pure losses.

    Theorem: zcdp-composition
    """
    with localcontext(_EIGHTY):
        loss = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        logarithm = -(Decimal(delta.numerator) / Decimal(delta.denominator)).ln()
        # Written without a difference of near numbers: √(L + ε) - √L = ε/(√(L + ε) + √L).
        root = loss / ((logarithm + loss).sqrt() + logarithm.sqrt())
        return _SHOWN.multiply(root * root, _MARGIN)


def _best(epsilon: Fraction, delta: Fraction, step: int) -> Fraction:
    """Return the maximum of limit/order over multiples of 1/step; a poor optimum wastes budget and nothing else."""
    loss, failing = float(epsilon), math.log(delta)

    def capacity(position: float) -> float:
        order = 1 + math.exp(position)
        return (loss + math.log1p(1 / (order - 1)) + (failing + math.log(order)) / (order - 1)) / order

    low, high = math.log(1 / 16), math.log(_HIGHEST)
    while high - low > 1e-12:  # noqa: PLR2004  ternary search; the capacity has one peak
        third = (high - low) / 3
        low, high = (low + third, high) if capacity(low + third) < capacity(high - third) else (low, high - third)
    order = Fraction(round((1 + math.exp(low)) * step), step)
    if renyi_limit(epsilon, delta, order) <= 0:
        accepted = "this pair leaves nothing to a Rényi accountant; raise epsilon or delta, or count pure losses only"
        raise InvalidArgument("epsilon", epsilon, accepted)
    return order
