"""One-dimensional search: nothing but sharpness rests on it."""

from __future__ import annotations

import math
from collections.abc import Callable

_GOLDEN = (math.sqrt(5) - 1) / 2


def lowest(function: Callable[[float], float], low: float, high: float, *, near: float) -> float:
    """Return about where a function with one valley is lowest, by golden section."""
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


def first(met: Callable[[float], bool], low: float, high: float, *, near: float) -> float:
    """Return a point at which something is met and just below which it is not; `high` if it is met nowhere below."""
    while high - low > near * max(high, near):
        middle = (low + high) / 2
        low, high = (low, middle) if met(middle) else (middle, high)
    return high


def most(met: Callable[[int], bool], *, upper: int) -> int:
    """Return the largest whole number up to `upper` at which something that ends at some point is still met; 0 if none.

    >>> most(lambda number: number**2 <= 50, upper=1000)
    7
    """
    low, high = 0, 1
    while high <= upper and met(high):
        low, high = high, 2 * high
    high = min(high, upper + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if met(middle) else (low, middle)
    return low
