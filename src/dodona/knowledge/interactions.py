"""Interactions of columns: what tables say of a set of columns alone, beside what they say of fewer of them.

A table over columns is the sum of the interactions of all sets of these columns, each spread over the columns outside
its set. Along each column of its set an interaction has the mean 0, so that those of different sets are orthogonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.junction import Columns, Table

_SMALL = 64  # cells of a table: those of one shape are split together, as there may be hundreds


@dataclass(frozen=True, eq=False)
class Interactions:
    """One table of multipliers for each largest set of columns, with a variance for the interaction of each set inside.

    The penalty of multipliers is half the sum of squared interactions over their variances.
    """

    shapes: Mapping[Columns, tuple[int, ...]]
    """Of all sets of columns."""
    variances: Mapping[Columns, float]
    spans: Mapping[Columns, slice]
    """Where the multipliers of each largest set are."""
    holders: Mapping[Columns, Columns]
    """The largest set that has the columns of a given one."""
    size: int
    """The number of multipliers."""

    @classmethod
    def of(cls, shape: Sequence[int], sets: Iterable[Columns], variance: Callable[[Columns], float]) -> Self:
        """Return the interactions of some sets of columns, and of all sets inside them."""
        given = list(dict.fromkeys(sets))
        spans, shapes, end = dict[Columns, slice](), dict[Columns, tuple[int, ...]](), 0
        for columns in _largest(given):
            for inner in subsets(columns):
                shapes[inner] = tuple(shape[place] for place in inner)
            spans[columns] = slice(end, end + math.prod(shapes[columns]))
            end = spans[columns].stop
        holders = {columns: next(large for large in spans if set(columns) <= set(large)) for columns in given}
        return cls(shapes, {inner: variance(inner) for inner in shapes}, spans, holders, end)

    def tables(self, theta: Table) -> dict[Columns, Table]:
        """Return the tables of multipliers."""
        return {columns: theta[span].reshape(self.shapes[columns]) for columns, span in self.spans.items()}

    def split(self, theta: Table) -> dict[Columns, Table]:
        """Return the interaction of each set in the sum of all tables."""
        row = self._split(theta)
        return {inner: row[span].reshape(self.shapes[inner]) for inner, span in self._places.items()}

    def penalty(self, theta: Table) -> tuple[float, Table]:
        """Return half the sum of squared interactions over their variances, and its gradient."""
        row = self._split(theta)
        pushes, gradient = row * self._precisions, np.empty(self.size)
        for columns in self._large:
            push = np.zeros(self.shapes[columns])
            for inner in subsets(columns):
                table = pushes[self._places[inner]].reshape(self.shapes[inner])
                push += spread(table / self.outside(columns, inner), columns, inner)
            gradient[self.spans[columns]] = push.reshape(-1)
        for alike in self._alike:
            gradient[alike.cells] = np.einsum("ti,ic->tc", pushes[alike.parts], alike.splitting)
        return 0.5 * dot(row, pushes), gradient

    def _split(self, theta: Table) -> Table:
        """Return all interactions in one row."""
        row = np.zeros(self._precisions.size)
        for columns in self._large:
            table = theta[self.spans[columns]].reshape(self.shapes[columns])
            for inner in subsets(columns):
                part = centered(sum_onto(table, columns, inner) / self.outside(columns, inner))
                row[self._places[inner]] += part.reshape(-1)
        for alike in self._alike:
            parts = np.einsum("tc,ic->ti", theta[alike.cells], alike.splitting)
            row += np.bincount(alike.parts.reshape(-1), weights=parts.reshape(-1), minlength=row.size)
        return row

    @cached_property
    def _places(self) -> dict[Columns, slice]:
        """Where the interaction of each set is in one row."""
        ends = accumulate(math.prod(shape) for shape in self.shapes.values())
        return {
            inner: slice(end - math.prod(shape), end)
            for (inner, shape), end in zip(self.shapes.items(), ends, strict=True)
        }

    @cached_property
    def _precisions(self) -> Table:
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        return np.repeat([1.0 / self.variances[inner] for inner in self.shapes], sizes)

    @cached_property
    def _large(self) -> list[Columns]:
        """The largest sets whose tables are split one by one."""
        return [columns for columns, span in self.spans.items() if span.stop - span.start > _SMALL]

    @cached_property
    def _alike(self) -> list[_Alike]:
        """The small tables, by their shapes."""
        by_shape: dict[tuple[int, ...], list[Columns]] = {}
        for columns, span in self.spans.items():
            if span.stop - span.start <= _SMALL:
                by_shape.setdefault(self.shapes[columns], []).append(columns)
        return [
            _Alike(
                np.array([np.r_[self.spans[columns]] for columns in listed]),
                np.array(
                    [np.concatenate([np.r_[self._places[inner]] for inner in subsets(columns)]) for columns in listed]
                ),
                _splitting(shape),
            )
            for shape, listed in by_shape.items()
        ]

    def ridges(self) -> Table:
        """Return how the penalty curves along each multiplier."""
        ridges = np.empty(self.size)
        for columns, span in self.spans.items():
            ridges[span] = math.fsum(
                math.prod([1 - 1 / length for length in self.shapes[inner]])
                / (self.variances[inner] * self.outside(columns, inner) ** 2)
                for inner in subsets(columns)
            )
        return ridges

    def outside(self, columns: Columns, inner: Columns) -> int:
        """Return the number of cells of some columns outside others."""
        return math.prod(self.shapes[columns]) // math.prod(self.shapes[inner])


class _Alike(NamedTuple):
    """Tables of one shape, a row for each."""

    cells: NDArray[np.int64]
    """The places of their multipliers."""
    parts: NDArray[np.int64]
    """The places of their interactions."""
    splitting: Table
    """The matrix that takes the multipliers of a table to its interactions."""


def _splitting(shape: tuple[int, ...]) -> Table:
    columns, size = tuple(range(len(shape))), math.prod(shape)
    rows = []
    for cell in np.eye(size).reshape(size, *shape):
        parts = [sum_onto(cell, columns, inner) for inner in subsets(columns)]
        rows.append(np.concatenate([(centered(part) * part.size / size).reshape(-1) for part in parts]))
    return np.stack(rows, axis=1)


def _largest(sets: Iterable[Columns]) -> list[Columns]:
    """Return the sets of columns that are in no other one."""
    given = set(sets)
    inside = {inner for columns in given for inner in subsets(columns) if inner != columns}
    return sorted(given - inside)


@lru_cache(maxsize=1 << 14)
def subsets(columns: Columns) -> tuple[Columns, ...]:
    """Return all sets of some of the columns, but the empty one."""
    return tuple(inner for ways in range(1, len(columns) + 1) for inner in combinations(columns, ways))


@lru_cache(maxsize=1 << 16)
def _axes_outside(columns: Columns, inner: Columns) -> tuple[int, ...]:
    return tuple(axis for axis, place in enumerate(columns) if place not in inner)


def sum_onto(table: Table, columns: Columns, inner: Columns) -> Table:
    """Return the sums of a table over the columns outside others."""
    outside = _axes_outside(columns, inner)
    return table.sum(axis=outside) if outside else table


def spread(table: Table, columns: Columns, inner: Columns) -> Table:
    """Return a view of a table over some columns with the axes of all."""
    lengths = iter(table.shape)
    return table.reshape([next(lengths) if place in inner else 1 for place in columns])


def centered(table: Table) -> Table:
    """Return a table less its means along each axis."""
    for axis, length in enumerate(table.shape):
        table = table - table.sum(axis=axis, keepdims=True) / length
    return table


def dot(first: Table, second: Table) -> float:
    """Return the inner product of two vectors, in this thread.

    A BLAS splits products of ten thousand numbers among threads that wait for each other by spinning: where
    processors are shared, that takes hundreds of times longer than the product.
    """
    return float(np.einsum("i,i->", first, second))
