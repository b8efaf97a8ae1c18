"""A system of noisy linear measurements: the best unbiased combination that is a given question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Self

import numpy as np

from dodona.belief.measurements import Column, Vector
from dodona.belief.span import Span, Sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GRID = 1 << 40
"""Coefficients of what depends on the rest are rounded to this grid; all others follow from them exactly."""
MOST_ENTRIES = 1 << 22
"""Of a table of all vectors over all their columns."""
MOST_WORK = 1 << 27
"""Numbers that are multiplied to take vectors in: beyond that, no more are taken."""
_REFINED = 2  # times that a solution in doubles is held to its equations


class System:
    """Measurements of vectors, each with a variance. It grows one by one."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._columns: dict[Column, int] = {}
        self._rows: list[Sparse] = []
        self._variances: list[float] = []
        self._span = Span()
        self._independent: list[int] = []
        self._dependent: list[int] = []
        self._solver: _Solver | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def fits(self, vectors: Sequence[Vector]) -> bool:
        """Return whether so much can be taken in: what is stored and what was worked for so far is bounded."""
        new = {column for vector in vectors for column in vector if column not in self._columns}
        entries = (len(self._columns) + len(new)) * (len(self._rows) + len(vectors))
        return entries <= MOST_ENTRIES and self._span.work <= MOST_WORK

    def add(self, vector: Vector, variance: float) -> None:
        """Take a measurement of a vector."""
        row = {self._columns.setdefault(column, len(self._columns)): value for column, value in vector.items()}
        (self._independent if self._span.add(row) else self._dependent).append(len(self._rows))
        self._rows.append(row)
        self._variances.append(variance)
        self._solver = None

    def combination(self, vector: Vector) -> dict[int, Fraction] | None:
        """Return the coefficients, by the number of the measurement, of the best combination; None where there is none.

        Theorem: derivation
        """
        if not self._columns.keys() >= vector.keys():
            return None
        target = {self._columns[column]: value for column, value in vector.items()}
        numbers = self._span.combination(target)
        if numbers is None:
            return None
        found = dict(zip(self._independent, numbers, strict=True))
        best = self._best(target) if self._dependent else None
        if best is not None and self._variance(best) < self._variance(found):
            found = best
        return {place: number for place, number in sorted(found.items()) if number}

    def _variance(self, numbers: Mapping[int, Fraction]) -> float:
        return sum(float(number) ** 2 * self._variances[place] for place, number in numbers.items() if number)

    def _best(self, target: Sparse) -> dict[int, Fraction] | None:
        """Return the combination of least variance: generalised least squares for what depends on the rest.

        The coefficients of dependent measurements may be anything, so they are rounded; the others then follow exactly.
        The variance is flat around its least value, so the rounding changes it by less than a double shows.
        """
        if self._solver is None:
            self._solver = _Solver.of(self._rows, self._span.pivots, self._variances)
        about = self._solver.coefficients(target)
        if not np.isfinite(about).all():
            return None  # too far apart for doubles: some combination is exact, though not the best
        chosen = {place: round(float(about[place]) * _GRID) for place in self._dependent}
        rest = {column: _GRID * value for column, value in target.items()}
        for place, number in chosen.items():
            for column, value in self._rows[place].items() if number else ():
                rest[column] = rest.get(column, 0) - number * value
        numbers = self._span.combination({column: value for column, value in rest.items() if value})
        if numbers is None:
            return None
        return {place: Fraction(number, _GRID) for place, number in chosen.items()} | {
            place: number / _GRID for place, number in zip(self._independent, numbers, strict=True)
        }


@dataclass(frozen=True, slots=True)
class _Solver:
    """Generalised least squares in doubles, over columns that tell all vectors of the span apart."""

    pivots: tuple[int, ...]
    scales: NDArray[np.float64]
    table: NDArray[np.float64]
    """The vectors over their deviations, with columns of length 1."""
    inverse: NDArray[np.float64]
    """Of the products of its columns."""
    deviations: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Sequence[Sparse], pivots: NDArray[np.int64], variances: Sequence[float]) -> Self:
        """Return it for vectors with these variances."""
        place = {int(column): number for number, column in enumerate(pivots)}
        table = np.zeros((len(rows), len(place)))
        for own, row in zip(table, rows, strict=True):
            for column, value in row.items():
                if column in place:
                    own[place[column]] = value
        deviations = np.sqrt(np.array(variances))
        table /= deviations[:, None]
        scales = np.sqrt((table * table).sum(axis=0))
        table /= scales
        return cls(tuple(place), scales, table, _inverted(table.T @ table), deviations)

    def coefficients(self, target: Sparse) -> NDArray[np.float64]:
        """Return those of the combination of least variance: in deviations, the shortest that is the target."""
        wanted = np.array([target.get(column, 0) for column in self.pivots], dtype=np.float64) / self.scales
        multipliers = self.inverse @ wanted
        for _ in range(_REFINED):
            multipliers += self.inverse @ (wanted - self.table.T @ (self.table @ multipliers))
        found: NDArray[np.float64] = self.table @ multipliers / self.deviations
        return found


def _inverted(products: NDArray[np.float64]) -> NDArray[np.float64]:
    try:
        found: NDArray[np.float64] = np.asarray(np.linalg.inv(products), dtype=np.float64)
    except np.linalg.LinAlgError:
        found = np.asarray(np.linalg.pinv(products, hermitian=True), dtype=np.float64)
    return found
