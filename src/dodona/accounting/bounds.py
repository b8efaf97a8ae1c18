"""Numbers on the safe side: what an argument may be, and floats that do not fall below what they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dodona.errors import InvalidArgument
from dodona.exact import Exact, exact, whole

_LEAST = Fraction(1, 10**12)
_MOST = Fraction(10**12)
_SLACK = 1e-12  # covers more than a thousand roundings, each of 2^-53
MOST_TIMES = 10**6


@dataclass(frozen=True, slots=True)
class Pair:
    """An (ε, δ) guarantee; both numbers are exact, and not below what was proved."""

    epsilon: Fraction
    delta: Fraction


def privacy_loss(value: Exact, *, argument: str = "epsilon") -> Fraction:
    """Return an ε from 10^-12 to 10^12."""
    return exact(value, argument=argument, lower=_LEAST, upper=_MOST)


def probability(value: Exact, *, argument: str = "delta") -> Fraction:
    """Return a δ from 0 up and below 1."""
    number = exact(value, argument=argument, lower=Fraction(0), upper=Fraction(1))
    if number == 1:
        raise InvalidArgument(argument, value, "write a number from 0 up and below 1, such as '1e-6'")
    return number


def positive_probability(value: Exact, *, argument: str = "delta") -> Fraction:
    """Return a δ above 0 and below 1; at 0 only pure privacy says anything."""
    number = probability(value, argument=argument)
    if number == 0:
        raise InvalidArgument(argument, value, "write a number above 0 and below 1, such as '1e-6'")
    return number


def repetitions(value: int, *, argument: str = "times") -> int:
    """Return a number of mechanisms, from 1 to 10^6."""
    return whole(value, argument=argument, lower=1, upper=MOST_TIMES)


def above(number: Fraction) -> float:
    """Return the nearest float that is not below the fraction."""
    near = float(number)
    return near if Fraction(near) >= number else math.nextafter(near, math.inf)


def below(number: Fraction) -> float:
    """Return the nearest float that is not above the fraction."""
    near = float(number)
    return near if Fraction(near) <= number else math.nextafter(near, -math.inf)


def raised(value: float) -> float:
    """Return a float above every number that `value` may stand for after a thousand roundings; never 0 for a δ.

    What is below the smallest normal float is raised to it, as roundings are no longer relative there.
    """
    return max(value * (1 + _SLACK), 2.3e-308)


def pair(epsilon: float, delta: float) -> Pair:
    """Return the guarantee of two floats that have been raised already."""
    return Pair(Fraction(epsilon), Fraction(min(delta, 1.0)))
