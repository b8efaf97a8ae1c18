"""Rational odds just below e^ε, so that probabilities are fractions and privacy is decided exactly."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from dodona.numbers import Exact, to_fraction

LEAST, MOST = Fraction(1, 10**6), Fraction(50)
"""The range of a local ε: below it a report reveals nothing, above it nothing is hidden."""

_BITS = 64


def local_epsilon(value: Exact, *, argument: str = "epsilon") -> Fraction:
    """Return an ε from 10^-6 to 50."""
    return to_fraction(value, argument=argument, lower=LEAST, upper=MOST)


def odds_below(epsilon: Fraction, *, bits: int = _BITS) -> Fraction:
    """Return floor(2^bits·e^ε)/2^bits, for ε > 0.

    >>> float(odds_below(Fraction(1)))
    2.718281828459045

    Theorem: local-channels
    """
    return Fraction(_floor(epsilon, bits), 1 << bits)


def is_within(ratio: Fraction, epsilon: Fraction) -> bool:
    """Return whether ratio ≤ e^ε, decided exactly; e^ε is irrational, so enough digits always decide.

    >>> is_within(Fraction(3), Fraction("1.0986122886")), is_within(Fraction(3), Fraction("1.0986122887"))
    (False, True)

    Theorem: local-channels
    """
    bits = _BITS
    while not ratio <= (low := odds_below(epsilon, bits=bits)):
        if ratio >= low + Fraction(1, 1 << bits):
            return False
        bits *= 2
    return True


def loss_above(ratio: Fraction) -> Fraction:
    """Return a multiple of 2^-39 just above ln(ratio), for a ratio ≥ 1: the price of such a report.

    The least is 2^-39, because accountants price nothing below 10^-12.
    """
    context = Context(prec=40, Emin=MIN_EMIN, Emax=MAX_EMAX)
    near = context.ln(context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))
    loss = Fraction(int(context.multiply(near, Decimal(1 << 39))) + 1, 1 << 39)
    return loss if is_within(ratio, loss) else loss + Fraction(1, 1 << 39)


@lru_cache(maxsize=1024)
def _floor(epsilon: Fraction, bits: int) -> int:
    digits = bits * 31 // 100 + 50  # e^50 has 22 digits before the point
    while True:
        context = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)
        power = context.exp(context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
        scaled = context.multiply(power, Decimal(1 << bits))
        # Each of the three steps rounds by at most 10^(1-digits)/2 relative; the quotient's error counts ε times.
        share = Decimal(int(epsilon) + 5)
        margin = context.multiply(scaled, context.scaleb(share, 1 - digits))
        low = context.subtract(scaled, margin).to_integral_value(ROUND_FLOOR, context)
        high = context.add(scaled, margin).to_integral_value(ROUND_FLOOR, context)
        if low == high:
            return int(low)
        digits *= 2
