"""Rows that match a law: single values of drawn rows are changed wherever that brings their marginals nearer to it.

Drawing leaves a rounding error in every marginal, far larger than whole rows need. This removes most of it. It is
computed from the law alone.
"""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.cells import RandomSource

_PARTS = 8  # of all rows: changes are proposed for one at a time, so that they know of earlier ones
_MOST_LOOKS = 1 << 30  # numbers that are looked up: beyond this, a part of the rows keeps what was drawn
_TOGETHER = 256  # moves that are judged at once, each as if those before it were made
_EMPTY = 1e12  # the excess of a cell that the law gives no weight: no row is moved there


def match_rows(
    rows: NDArray[np.int64],
    shape: Sequence[int],
    laws: Mapping[tuple[int, ...], NDArray[np.float64]],
    rng: RandomSource,
    *,
    first: Collection[int] = (),
) -> None:
    """Change values of rows in place, column by column, where this lowers the squared error of the given marginals.

    Columns with few codes come first, after those that are named as such: rows may be far off there. Each column
    has its share of all that may be looked up; with many rows and codes, some rows keep what was drawn.
    """
    count = len(rows)
    starts, parts, total = {}, [], 0
    for columns, law in laws.items():
        numbers = np.ravel_multi_index([rows[:, place] for place in columns], law.shape)
        counted = np.bincount(numbers, minlength=law.size)
        weights = law.reshape(-1)
        parts.append(np.where((weights > 0) | (counted > 0), counted - count * weights, _EMPTY))
        starts[columns] = total
        total += law.size
    excess = np.concatenate(parts) if parts else np.zeros(0)
    order = sorted(range(len(shape)), key=lambda place: (place not in first, shape[place]))
    left = _MOST_LOOKS
    for number, column in enumerate(order):
        touched = [columns for columns in laws if column in columns]
        each = max(1, count * shape[column] * len(touched) // _PARTS)
        some = min(_PARTS, left // (len(order) - number) // each)
        if touched and some:
            left -= some * each
            _match_column(rows, shape, column, {columns: starts[columns] for columns in touched}, excess, rng, some)


def _match_column(  # noqa: PLR0913, PLR0917  one pass over the rows
    rows: NDArray[np.int64],
    shape: Sequence[int],
    column: int,
    starts: Mapping[tuple[int, ...], int],
    excess: NDArray[np.float64],
    rng: RandomSource,
    parts: int,
) -> None:
    """Propose the best code of one column for each row, and accept what is still better when its turn comes.

    So many parts of the rows are looked at.

    A move of one row from cell a to cell b of a marginal changes its squared error by 2·(excess_b - excess_a + 1).
    """
    steps = np.array([_steps(shape, columns)[columns.index(column)] for columns in starts])
    for some in np.array_split(np.argsort(rng.random(len(rows)), kind="stable"), _PARTS)[:parts]:
        cells = np.empty((len(starts), len(some)), dtype=np.int64)
        for place, (columns, start) in enumerate(starts.items()):
            cells[place] = start
            for name, step in zip(columns, _steps(shape, columns), strict=True):
                cells[place] += 0 if name == column else rows[some, name] * step
        now = rows[some, column]
        best, least = now.copy(), np.full(len(some), np.inf)
        for code in range(shape[column]):  # one sum a row at a time: of a wide column all would be gigabytes
            sums = _sum_excess(excess, cells, steps, np.int64(code))
            better = sums < least
            best[better] = code
            np.minimum(least, sums, out=least)
        gains = _sum_excess(excess, cells, steps, now) - least - len(steps)
        proposed = np.flatnonzero(gains > 0)
        proposed = proposed[np.argsort(-gains[proposed], kind="stable")]
        for first in range(0, proposed.size, _TOGETHER):
            asked = proposed[first : first + _TOGETHER]
            before = cells[:, asked].T + now[asked, None] * steps
            after = cells[:, asked].T + best[asked, None] * steps
            sooner = (excess[before] - _earlier(before)).sum(axis=1)
            later = (excess[after] + _earlier(after)).sum(axis=1)
            moved = sooner - later > len(steps)
            np.subtract.at(excess, before[moved], 1)
            np.add.at(excess, after[moved], 1)
            rows[some[asked[moved]], column] = best[asked[moved]]


def _steps(shape: Sequence[int], columns: Sequence[int]) -> list[int]:
    """Return for each column of a table how far apart two of its neighbouring codes are."""
    return [math.prod([shape[place] for place in columns[at + 1 :]]) for at in range(len(columns))]


def _sum_excess(
    excess: NDArray[np.float64], cells: NDArray[np.int64], steps: NDArray[np.int64], codes: NDArray[np.int64] | np.int64
) -> NDArray[np.float64]:
    """Return for each row the excess of all cells that it would be in with a code."""
    sums = np.zeros(cells.shape[1])
    for first, step in zip(cells, steps.tolist(), strict=True):
        sums += excess[first + codes * step]
    return sums


def _earlier(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each number how often it is above in its column: as if all moves before were made."""
    order = np.argsort(cells, axis=0, kind="stable")
    sorted_cells = np.take_along_axis(cells, order, axis=0)
    places = np.arange(len(cells))[:, None]
    fresh = np.ones(cells.shape, dtype=np.bool_)
    fresh[1:] = sorted_cells[1:] != sorted_cells[:-1]
    counts = np.empty_like(cells)
    np.put_along_axis(counts, order, places - np.maximum.accumulate(np.where(fresh, places, 0), axis=0), axis=0)
    return counts
