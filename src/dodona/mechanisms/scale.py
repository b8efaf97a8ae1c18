"""The scale of integer noise, in units of the answer: an exact number in the range that is drawn exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dodona.exact import exact

if TYPE_CHECKING:
    from dodona.exact import Exact

SMALLEST = Fraction(1, 1000)
LARGEST = Fraction(10**12)


def scale_of(value: Exact) -> Fraction:
    """Return the scale as a fraction from 1/1000 to 10^12.

    >>> scale_of(0.1)
    Fraction(1, 10)
    """
    return exact(value, argument="scale", lower=SMALLEST, upper=LARGEST)
