"""Exact numbers: parsing into integers and fractions, formatting for people, and searches with a safe end.

A float means its shortest decimal, so `0.1` is exactly 1/10. Every parser takes the name of the argument and its
bounds, and raises `InvalidArgument` for anything without an exact, finite meaning inside them.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeAlias

from dodona.errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Doubles: TypeAlias = "NDArray[np.float64]"
Integers: TypeAlias = "NDArray[np.int64]"
Booleans: TypeAlias = "NDArray[np.bool_]"
"""Arrays; the types alone, so that numpy is not imported for them."""
Exact = int | str | Fraction | Decimal | float
"""A number with one exact meaning. A float means its shortest decimal: 0.1 is one tenth."""

_LONGEST_TEXT = 200
_WIDEST_BITS = 512
_HUNDRED = 100
_DECIMAL_OR_RATIO = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?|[+-]?\d+/\d+", re.ASCII)


def to_fraction(value: Exact, *, argument: str, lower: Fraction, upper: Fraction) -> Fraction:
    """Parse `value` as an exact fraction between `lower` and `upper`, inclusive.

    >>> to_fraction(0.1, argument="scale", lower=Fraction(0), upper=Fraction(1))
    Fraction(1, 10)
    >>> to_fraction("1/3", argument="scale", lower=Fraction(0), upper=Fraction(1))
    Fraction(1, 3)
    """
    number = _parse_fraction(value)
    inside = number is not None and lower <= number <= upper
    if number is None or not inside or not _is_narrow(number):
        terms = f", with terms of at most {_WIDEST_BITS} bits" if inside else ""
        accepted = (
            f"from {format_fraction(lower)} to {format_fraction(upper)}, such as 2, 0.5, '1/3' or Fraction(1, 3){terms}"
        )
        raise InvalidArgument(argument, value, f"write an exact number {accepted}")
    return number


def to_integer(value: int, *, argument: str, lower: int, upper: int) -> int:
    """Validate `value` as an integer between `lower` and `upper`, inclusive.

    >>> to_integer(3, argument="positives", lower=1, upper=10)
    3
    """
    number = _parse_fraction(value)
    if number is None or number.denominator != 1 or not lower <= number <= upper or not _is_narrow(number):
        accepted = f"write a whole number from {format_fraction(Fraction(lower))} to {format_fraction(Fraction(upper))}"
        raise InvalidArgument(argument, value, accepted)
    return int(number)


def python_number(value: object) -> int | float | None:
    """Convert a number from any library to a built-in int or float; None if the value is not a number.

    >>> python_number(Fraction(1, 2)), python_number(50), python_number(True), python_number("50")
    (0.5, 50, None, None)
    """
    match value:
        case bool():
            return None
        case Integral():
            return int(value)
        case Real() | Decimal():
            return float(value)
        case _:
            return None


def to_share(value: Exact, *, argument: str) -> Fraction:
    """Parse a share of a whole: a percentage such as "2%", or a number from 0 to 1.

    >>> to_share("2%", argument="max_price"), to_share(0.5, argument="max_price")
    (Fraction(1, 50), Fraction(1, 2))
    """
    text = value.strip() if isinstance(value, str) else ""
    number = _from_text(text[:-1].rstrip()) if text.endswith("%") else _parse_fraction(value)
    if number is not None and text.endswith("%"):
        number /= _HUNDRED
    if number is None or not 0 <= number <= 1 or not _is_narrow(number):
        raise InvalidArgument(argument, value, "write a percentage such as '2%', or a number from 0 to 1")
    return number


def format_decimal_rounded_down(share: Fraction) -> str:
    """Format a share as a decimal with three significant digits and no exponent, rounded down.

    >>> [format_decimal_rounded_down(Fraction(share)) for share in ("2/3", "1/4", "1", "1/30000", "0")]
    ['0.666', '0.25', '1', '0.0000333', '0']
    """
    if share <= 0:
        return "0"
    digits = 2 - math.floor(math.log10(share))
    number = Decimal(math.floor(share * 10**digits)).scaleb(-digits)
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_percent_rounded_up(share: Fraction) -> str:
    """Format a share as a percentage with two significant digits, rounded up.

    >>> [format_percent_rounded_up(Fraction(share)) for share in ("0.0312", "1/25", "999/1000")]
    ['3.2%', '4%', '100%']
    """
    if share <= 0:
        return "0%"
    unit = Fraction(10) ** (math.floor(math.log10(share * _HUNDRED)) - 1)
    number = math.ceil(share * _HUNDRED / unit) * unit
    digits = max(0, -math.floor(math.log10(unit)))
    text = f"{float(number):.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"


def format_fraction(number: Fraction) -> str:
    """Format a fraction for people: a power of ten or two from a million up, otherwise a ratio.

    >>> [format_fraction(number) for number in (Fraction(1, 1000), Fraction(-(2**62)), Fraction(1, 10**12))]
    ['1/1000', '-2^62', '10^-12']
    """
    if number < 0:
        return f"-{format_fraction(-number)}"
    long_enough = 10**6
    for base in (10, 2):
        for power, sign in ((number, ""), (1 / number if number else number, "-")):
            exponent = round(math.log(power, base)) if power >= long_enough else 0
            if exponent and power == base**exponent:
                return f"{base}^{sign}{exponent}"
    return str(number)


def format_percent(share: Fraction | float) -> str:
    """Format a share as a percentage for people.

    >>> [format_percent(share) for share in (0, 1, 0.5, 0.03456, 0.98777, 0.99998, 2e-6, 1e-9, 11.3, 1234.5)]
    ['0%', '100%', '50%', '3.46%', '98.78%', '99.998%', '0.0002%', 'less than 0.0001%', '1,130%', '123,400%']
    """
    number = 100 * float(share)
    if number == 0:
        return "0%"
    if number < 1e-4:  # noqa: PLR2004  a millionth of the whole is nothing to plan with
        return "less than 0.0001%"
    if number >= 100:  # noqa: PLR2004  beyond the whole, digits behind the point say nothing
        return f"{float(f'{number:.4g}'):,.0f}%"
    part = min(number, 100 - number)  # near 100%, the distance to 100% sets the precision
    text = f"{number:.{max(0, 2 - _magnitude(max(part, 1e-4)))}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"


def _magnitude(number: float) -> int:
    return int(f"{number:e}".partition("e")[2])


def _is_narrow(number: Fraction) -> bool:
    return max(number.numerator.bit_length(), number.denominator.bit_length()) <= _WIDEST_BITS


def _parse_fraction(value: object) -> Fraction | None:
    """Return the fraction, or None if the value has no exact finite meaning."""
    match value:
        case bool():
            return None
        case Fraction():
            return value
        case Integral():
            return Fraction(int(value))
        case float():
            return _from_float(value)
        case Decimal() | str() | Real():  # a numpy float prints its own shortest decimal
            return _from_text(str(value).strip())
        case _:
            return None


def _from_float(value: float) -> Fraction | None:
    """Return the float's shortest decimal; None for a subnormal, which has already lost digits."""
    if value == 0 or (math.isfinite(value) and abs(value) >= sys.float_info.min):
        return Fraction(float.__repr__(value))
    return None


def _from_text(text: str) -> Fraction | None:
    """Parse a decimal or a ratio; the length is checked first, because 1e999999 would be expanded in full."""
    if len(text) > _LONGEST_TEXT or not _DECIMAL_OR_RATIO.fullmatch(text):
        return None
    _, _, divisor = text.partition("/")
    return Fraction(text) if divisor == "" or int(divisor) else None


def format_decimal(number: Fraction, *, digits: int | None = None) -> str:
    """Format a number for people: a finite decimal in full, otherwise a ratio; or rounded to `digits` digits.

    >>> [format_decimal(Fraction(number)) for number in ("1/4", "-3", "1/3")], format_decimal(Fraction(1, 3), digits=3)
    (['0.25', '-3', '1/3'], '0.333')
    """
    if digits is not None:
        return f"{float(number):.{digits}g}"
    rest, places = number.denominator, 0
    while rest % 10 in {0, 2, 4, 5, 6, 8}:  # each pass removes one 2, one 5 or both from the denominator
        rest //= 10 if rest % 10 == 0 else 5 if rest % 5 == 0 else 2
        places += 1
    if rest != 1:
        return str(number)
    scaled = f"{abs(number.numerator) * 10**places // number.denominator:0{places + 1}d}"
    sign = "-" if number < 0 else ""
    if places == 0:
        return sign + scaled
    return f"{sign}{scaled[:-places]}.{scaled[-places:]}".rstrip("0").rstrip(".")


def float_above(number: Fraction) -> float:
    """Return the nearest float that is not below the fraction."""
    near = float(number)
    return near if Fraction(near) >= number else math.nextafter(near, math.inf)


# --- Searches: each returns an end where the condition holds, so that the result is on the safe side. ---


def smallest_integer(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest integer above `low`, and at most `high`, from which on a condition holds.

    The ends are not tested: the condition is assumed false at `low` and true at `high`.

    >>> smallest_integer(lambda number: number**2 >= 50, 0, 100)
    8
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def smallest_number(
    holds: Callable[[float], bool], low: float, high: float, *, near: float, geometric: bool = False
) -> float:
    """Return approximately the smallest number at which a monotone condition (false, then true) holds.

    The condition holds at the result, which was tested or is `high`, where it is assumed true. It fails just below,
    within a relative distance of `near` or its square. With positive ends of different orders of magnitude, set
    `geometric` to bisect their ratio.

    >>> root = smallest_number(lambda number: number**2 >= 2, 0, 2, near=1e-12)
    >>> root**2 >= 2, round(root, 9)
    (True, 1.414213562)
    """
    return _bisect(holds, low, high, near, geometric=geometric)[1]


def largest_number(
    holds: Callable[[float], bool], low: float, high: float, *, near: float, geometric: bool = False
) -> float:
    """Return approximately the largest number at which a monotone condition (true, then false) holds.

    The condition holds at the result, which was tested or is `low`, where it is assumed true. Otherwise as
    `smallest_number`.

    >>> root = largest_number(lambda number: number**2 <= 2, 0, 2, near=1e-12)
    >>> root**2 <= 2, round(root, 9)
    (True, 1.414213562)
    """
    return _bisect(lambda number: not holds(number), low, high, near, geometric=geometric)[0]


_GOLDEN = (math.sqrt(5) - 1) / 2


def minimize_unimodal(function: Callable[[float], float], low: float, high: float, *, near: float) -> float:
    """Return approximately the minimizer of a unimodal function, by golden section to an absolute distance `near`.

    The function was evaluated at the result, and was no larger there than at the last other points evaluated.

    >>> round(minimize_unimodal(lambda number: (number - 1) ** 2, 0, 3, near=1e-6), 5)
    1.0
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > near:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return left if at_left <= at_right else right


def _bisect(
    holds: Callable[[float], bool], low: float, high: float, near: float, *, geometric: bool
) -> tuple[float, float]:
    """Bisect to two nearby numbers: the last where the condition failed and the last where it held."""
    while high - low > near * (low if geometric else max(high, near)):
        middle = math.sqrt(low * high) if geometric else (low + high) / 2
        if not low < middle < high:  # no float is left between them
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
