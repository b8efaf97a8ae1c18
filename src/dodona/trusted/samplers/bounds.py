"""Exact decisions about exponentials and logarithms.

`Decimal.exp` and `Decimal.ln` are correctly rounded at any precision, so a value with a margin of a few units in its
last place is an interval that is sure to hold the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

More = Callable[[], int]
"""Gives the next 64 bits of a uniform number whose first bits did not decide."""

WORD = 64
"""Bits in a random word."""


def arithmetic(digits: int) -> Context:
    """Return decimal arithmetic with so many digits and no limit on exponents that could matter."""
    return Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)


def power_floor(exponent: Fraction, bits: int) -> int:
    """Return floor(2^bits · e^-exponent), exactly, for an exponent ≥ 0.

    Theorem: exact-thresholds
    """
    if exponent == 0:
        return 1 << bits
    if exponent >= bits:  # e > 2, so the power is below 2^-bits
        return 0
    digits = bits * 31 // 100 + 25  # 2^bits < 10^(0.31 bits): twenty digits and more behind the point
    while True:
        context = arithmetic(digits)
        power = context.exp(context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator)))
        scaled = context.multiply(power, Decimal(1 << bits))
        # Quotient, exponential and product are each rounded by at most 10^(1-digits)/2 relative, the quotient's share
        # being multiplied by the exponent (< bits).
        margin = context.multiply(scaled, Decimal((0, tuple(map(int, str(bits + 4))), 1 - digits)))
        low = context.subtract(scaled, margin).to_integral_value(ROUND_FLOOR, context)
        high = context.add(scaled, margin).to_integral_value(ROUND_FLOOR, context)
        if low == high:
            return int(low)
        digits *= 2


def logistic_floor(exponent: Fraction, bits: int) -> int:
    """Return floor(2^bits / (1 + e^-exponent)), exactly, for an exponent > 0.

    Theorem: exact-thresholds
    """
    precision = bits + WORD
    while True:
        power = power_floor(exponent, precision)
        one = 1 << precision
        low, high = (one << bits) // (one + power + 1), (one << bits) // (one + power)
        if low == high:
            return low
        precision *= 2


def below_power(exponent: Fraction, word: int, bits: int, more: More) -> bool:
    """Return whether the uniform number whose first bits are `word` is below e^-exponent: a Bernoulli draw.

    Theorem: exact-thresholds
    """
    return is_below(partial(power_floor, exponent), word, bits, more)


def is_below(floor: Callable[[int], int], word: int, bits: int, more: More) -> bool:
    """Return whether the uniform number whose first bits are `word` is below p, where floor(bits) = ⌊2^bits·p⌋."""
    while (threshold := floor(bits)) == word:
        word = word << WORD | more()
        bits += WORD
    return word < threshold
