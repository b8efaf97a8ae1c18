"""The design of a fit: all observed answers as one linear map from laws to numbers, and its transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dodona.belief.asked import Asked
from dodona.belief.marginals import Places, marginals, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST_MATRIX = 1 << 22  # numbers: up to here one matrix beats the shared sums


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """One block: what each cell of its attributes counts for, in units of the most that one counts for, and where."""

    places: Places
    weights: NDArray[np.float64]
    groups: NDArray[np.int64] | None
    answers: int
    unit: float

    @classmethod
    def of(cls, one: Asked) -> _Row:
        weights = one.weights().reshape(-1)
        unit = float(np.abs(weights).max(initial=0.0)) or 1.0
        groups = one.groups().reshape(-1) if one.block.keys else None
        return cls(one.places, weights / unit, groups, one.block.values, unit)

    def values(self, law: NDArray[np.float64]) -> NDArray[np.float64]:
        weighed = self.weights * law.reshape(-1)
        if self.groups is None:
            return np.array([weighed.sum()])
        found: NDArray[np.float64] = np.bincount(self.groups, weights=weighed, minlength=self.answers).astype(
            np.float64
        )
        return found

    def table(self, multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.weights * (multipliers[0] if self.groups is None else multipliers[self.groups])

    def ends(self) -> tuple[float, float]:
        """The least and the most that a row may add to an answer."""
        low, high = float(self.weights.min(initial=np.inf)), float(self.weights.max(initial=-np.inf))
        return (min(low, 0.0), max(high, 0.0)) if self.groups is not None else (low, high)


class Design:
    """Answers of many blocks for a law over all cells (`values`), and the transposed map (`exponents`).

    Answers are in units of the most that a row counts for in the block (`units`), so that all are of one size.
    """

    __slots__ = ("_rows", "matrix", "shape", "units")

    def __init__(self, asked: Sequence[Asked], shape: tuple[int, ...], *, after: Design | None = None) -> None:
        """Take blocks over a support of this shape, to follow those of an earlier design."""
        rows = [_Row.of(one) for one in asked]
        self.shape = shape
        self._rows: list[_Row] = rows if after is None else [*after._rows, *rows]  # noqa: SLF001  a design of the same kind
        self.units = np.repeat([row.unit for row in self._rows], [row.answers for row in self._rows])
        self.matrix: NDArray[np.float64] | None = None
        """The whole map, where that is small: one row an answer, one column a cell."""
        if self.units.size * math.prod(shape) <= _LARGEST_MATRIX:
            before = [] if after is None or after.matrix is None else [after.matrix]
            self.matrix = np.concatenate([*before, *(self._whole(row) for row in (rows if before else self._rows))])

    @property
    def blocks(self) -> int:
        """How many blocks it has."""
        return len(self._rows)

    def values(self, law: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the answers for the mean row of a law."""
        if self.matrix is not None:
            found: NDArray[np.float64] = np.einsum("ij,j->i", self.matrix, law)
            return found
        tables = marginals(law, self.shape, {row.places for row in self._rows})
        return np.concatenate([row.values(tables[row.places]) for row in self._rows])

    def exponents(self, multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for each cell the sum of multiplier times weight."""
        if self.matrix is not None:
            found: NDArray[np.float64] = np.einsum("i,ij->j", multipliers, self.matrix)
            return found
        tables: dict[Places, NDArray[np.float64]] = {}
        start = 0
        for row in self._rows:
            own = row.table(multipliers[start : start + row.answers])
            start += row.answers
            tables[row.places] = tables[row.places] + own if row.places in tables else own
        return spread(tables, self.shape)

    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the most that each answer can be, for any law."""
        counts = [row.answers for row in self._rows]
        low, high = zip(*(row.ends() for row in self._rows), strict=True)
        return np.repeat(low, counts), np.repeat(high, counts)

    def _whole(self, row: _Row) -> NDArray[np.float64]:
        """Return a block's part of the matrix."""
        answers = np.arange(row.answers)[:, None]
        meant = row.weights if row.groups is None else np.where(row.groups == answers, row.weights, 0.0)
        shape = [length if place in row.places else 1 for place, length in enumerate(self.shape)]
        cells = np.broadcast_to(meant.reshape(row.answers, *shape), (row.answers, *self.shape))
        return cells.reshape(row.answers, -1)
