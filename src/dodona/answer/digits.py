"""Numbers as people read them: no more digits than the error bar leaves."""

from __future__ import annotations

import math
from datetime import date
from fractions import Fraction

_MOST_DIGITS = 12
_ALL = -1


def digits_for(within: float) -> int:
    """Return how many decimal places show an error of this size to two digits; -1, all of them, where there is none.

    >>> [digits_for(within) for within in (250.0, 31.0, 1.96, 0.034, 0.0)]
    [0, 0, 1, 3, -1]
    """
    if within == 0:
        return _ALL
    if math.isinf(within):
        return 0
    return min(_MOST_DIGITS, max(0, 1 - math.floor(math.log10(within))))


def shown(value: float | Fraction | date | str | None, digits: int) -> str:
    """Return a value with so many decimal places; whole numbers are shown whole.

    >>> shown(12.3456, 2), shown(7, 2), shown(Fraction(1, 3), 3), shown(float("inf"), 2), shown(None, 2)
    ('12.35', '7', '0.333', '∞', '?')
    """
    match value:
        case None:
            return "?"
        case str():
            return value
        case date():
            return value.isoformat()
        case int():
            return str(value)
        case _:
            number = float(value)
            if math.isinf(number):
                return "∞" if number > 0 else "-∞"
            text = f"{number:.12g}" if digits == _ALL else f"{number:.{digits}f}"
            return text.removeprefix("-") if float(text) == 0 else text


def outward(low: float, high: float, within: float) -> tuple[float, float]:
    """Return an interval that holds this one, with ends that have no more digits than an error of this size shows.

    >>> outward(12.3456, 15.6789, 1.7)
    (12.3, 15.7)
    """
    if not math.isfinite(low) or not math.isfinite(high):
        return low, high
    scale = 10 ** digits_for(within)
    return math.floor(low * scale) / scale, math.ceil(high * scale) / scale
