"""A band: for every group a value and an interval, as arrays; and the arithmetic of intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Band:
    """Values and the ends of their intervals, one of each for every group. NaN is a value that nothing is known of."""

    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Let each interval reach to its value, which ends may miss by a rounding when they are moved or scaled."""
        object.__setattr__(self, "low", np.fmin(self.low, self.value))
        object.__setattr__(self, "high", np.fmax(self.high, self.value))

    @classmethod
    def constant(cls, number: float, groups: int) -> Band:
        """Return the band of a number that is known."""
        found = np.full(groups, number, dtype=np.float64)
        return cls(found, found, found)


def combined(operator: str, left: Band, right: Band) -> Band:
    """Return all that two operands in their intervals may give.

    >>> band = combined("-", Band.constant(3.0, 1), Band(np.array([1.0]), np.array([0.0]), np.array([2.0])))
    >>> band.low.item(), band.value.item(), band.high.item()
    (1.0, 2.0, 3.0)
    """
    value = at_points(operator, left.value, right.value)
    with np.errstate(all="ignore"):
        match operator:
            case "+":
                return Band(value, left.low + right.low, left.high + right.high)
            case "-":
                return Band(value, left.low - right.high, left.high - right.low)
            case "*":
                corners = _corners(left, right)
                return Band(value, corners.min(axis=0), corners.max(axis=0))
            case _:
                clear = (right.low > 0) | (right.high < 0)
                inverse = Band(
                    np.full_like(value, np.nan),  # only its ends are used
                    np.where(clear, 1 / np.where(clear, right.high, 1.0), -np.inf),
                    np.where(clear, 1 / np.where(clear, right.low, 1.0), np.inf),
                )
                corners = _corners(left, inverse)
                low = np.where(clear, corners.min(axis=0), -np.inf)
                return Band(value, low, np.where(clear, corners.max(axis=0), np.inf))


def at_points(operator: str, left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the value of + - * / ; a division by 0 has none."""
    with np.errstate(all="ignore"):
        match operator:
            case "+":
                found = left + right
            case "-":
                found = left - right
            case "*":
                found = left * right
            case _:
                found = left / np.where(right == 0, np.nan, right)
    return np.where(np.isfinite(found), found, np.nan)


def _corners(left: Band, right: Band) -> NDArray[np.float64]:
    """Return the products of the ends; 0 times an end that is not known is 0, as the exact value is finite."""
    products = np.stack([a * b for a in (left.low, left.high) for b in (right.low, right.high)])
    return np.where(np.isnan(products), 0.0, products)
