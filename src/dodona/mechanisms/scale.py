"""The scale of integer noise, in units of the answer: an exact number in the range that is drawn exactly."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dodona.errors import InvalidArgument
from dodona.exact import Exact, exact, shown

SMALLEST = Fraction(1, 1000)
LARGEST = Fraction(10**12)
BEYOND = 10**20
"""Noise this far out has probability zero to every digit of a double."""
SMALLEST_EPSILON = Fraction(1, 10**12)
LARGEST_EPSILON = Fraction(10**4)

_DIGITS = 7


def scale_of(value: Exact) -> Fraction:
    """Return the scale as a fraction from 1/1000 to 10^12.

    >>> scale_of(0.1)
    Fraction(1, 10)
    """
    return exact(value, argument="scale", lower=SMALLEST, upper=LARGEST)


def epsilon_of(value: Exact) -> Fraction:
    """Return a privacy loss as a fraction from 10^-12 to 10^4."""
    return exact(value, argument="epsilon", lower=SMALLEST_EPSILON, upper=LARGEST_EPSILON)


def delta_of(value: Exact) -> Fraction:
    """Return a failure probability of privacy, strictly between 0 and 1."""
    delta = exact(value, argument="delta", lower=Fraction(0), upper=Fraction(1))
    if delta in (0, 1):
        raise InvalidArgument("delta", value, "write a number between 0 and 1, such as '1e-6'")
    return delta


def rounded_scale_down(value: float) -> Fraction:
    """Return the scale to seven digits, rounded down: less noise than asked for, so accuracy is kept.

    >>> rounded_scale_down(1 / 3)
    Fraction(3333333, 10000000)
    """
    return _rounded(value, ROUND_FLOOR)


def rounded_scale_up(value: float) -> Fraction:
    """Return the scale to seven digits, rounded up: more noise than asked for, so privacy is kept."""
    return _rounded(value, ROUND_CEILING)


def _rounded(value: float, rounding: str) -> Fraction:
    if not SMALLEST <= value <= LARGEST or math.isnan(value):
        accepted = f"this asks for noise of scale {value:.3g}, and noise is drawn from {SMALLEST} to {shown(LARGEST)}"
        raise InvalidArgument("scale", value, accepted)
    return Fraction(Context(prec=_DIGITS, rounding=rounding).create_decimal(Decimal(value)))
