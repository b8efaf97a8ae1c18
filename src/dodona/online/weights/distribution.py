"""A distribution over the cells of a universe: what multiplicative weights believe of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from dodona.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

GRID = 1 << 20
"""Weights of questions are whole multiples of one over this, so that counts are exact."""
_LEAST = 1e-300  # no cell is given up: below this a double would lose it, and the potential would be infinite
_LARGEST_RATE = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Shares of all cells, and of `spare` rows that no question counts; they sum to 1."""

    values: NDArray[np.float64]
    spare: float = 0.0

    @classmethod
    def uniform(cls, shape: int | tuple[int, ...], *, spare: int = 0) -> Self:
        """Return the same share for every cell, and for `spare` further cells that no question counts."""
        cells = math.prod((shape,) if isinstance(shape, int) else shape)
        if cells < 1:
            raise InvalidArgument("universe", shape, "write at least one cell")
        return cls(np.full(shape, 1 / (cells + spare)), spare / (cells + spare))

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Self:
        """Return the shares of a histogram."""
        return cls(counts / counts.sum())

    def expect(self, query: NDArray[np.float64]) -> float:
        """Return the share of rows that a question counts."""
        if query.shape == self.values.shape:
            return float(np.vdot(query, self.values))
        return float((query * self.values).sum())

    def tilted(self, query: NDArray[np.float64], rate: float) -> Self:
        """Return x ∝ x·exp(rate·query): the cells of the question are raised, or lowered where the rate is below 0."""
        if not abs(rate) <= _LARGEST_RATE:
            raise InvalidArgument("rate", rate, f"write a number from -{_LARGEST_RATE:.0f} to {_LARGEST_RATE:.0f}")
        raised = self.values * np.exp(rate * query)
        total = float(raised.sum()) + self.spare
        np.maximum(np.divide(raised, total, out=raised), _LEAST, out=raised)
        return type(self)(raised, self.spare / total)

    def divergence(self, other: Self) -> float:
        """Return RE(self‖other) = Σ p·ln(p/q), which is 0 only where both are the same."""
        held = self.values > 0
        total = float(np.sum(self.values[held] * np.log(self.values[held] / other.values[held])))
        return total + (self.spare * math.log(self.spare / other.spare) if self.spare else 0.0)


def histogram(counts: ArrayLike) -> NDArray[np.int64]:
    """Return a histogram as whole numbers: how many rows each cell of the universe has."""
    found = np.asarray(counts)
    if found.ndim != 1 or found.size == 0 or not np.issubdtype(found.dtype, np.integer):
        raise InvalidArgument("counts", counts, "write a flat list of whole numbers, one for each cell")
    if (found < 0).any() or not 0 < found.sum(dtype=np.float64) < 2**40:
        raise InvalidArgument("counts", counts, "write numbers from 0 up, with 1 to 2^40 rows in all")
    return found.astype(np.int64)


def weights_of(query: ArrayLike, cells: int) -> NDArray[np.float64]:
    """Return what each cell counts for, a number from 0 to 1, rounded to multiples of 2^-20."""
    found = np.asarray(query)
    if found.shape != (cells,) or found.dtype.kind not in "biuf":
        raise InvalidArgument("query", query, f"write one number for each of {cells} cells")
    if found.dtype.kind == "b":
        return found.astype(np.float64)
    if not ((found >= 0) & (found <= 1)).all():  # also not a number
        raise InvalidArgument("query", query, "write numbers from 0 to 1")
    return np.rint(found * float(GRID)) / GRID


def counted(query: NDArray[np.float64], counts: NDArray[np.int64]) -> int:
    """Return how many rows a question counts, to the nearest whole number: one row still moves it by one at most.

    Sums of multiples of 2^-20 up to 2^40 rows are exact in integers; rounding is monotone and commutes with adding 1.
    """
    steps = int(np.dot((query * GRID).astype(np.int64), counts))
    return (steps + GRID // 2) // GRID
