"""Questions about coded tables: counts, sums and averages under conditions, as SQL and as sets of codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.streams.tables import CodedTable, Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

COUNT = "count(*)"


@dataclass(frozen=True, slots=True)
class CodeSet:
    """A condition on one column, by its place: the codes that are meant."""

    place: int
    codes: tuple[int, ...]

    @property
    def is_run(self) -> bool:
        """Whether the codes are several without a gap."""
        return len(self.codes) > 1 and self.codes[-1] - self.codes[0] == len(self.codes) - 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: what is computed of the rows that meet all conditions, in each group."""

    where: tuple[CodeSet, ...] = ()
    """By rising place, each place once."""
    keys: tuple[int, ...] = ()
    total: int | None = None
    """The column that is added up; None to count."""
    average: bool = False
    """Whether the sum is divided by the count."""

    def within(self, table: CodedTable, share: float) -> float:
        """Return how far off it may be: a part of the rows for counts, of rows × width for sums, of the width."""
        width = 1 if self.total is None else table.columns[self.total].size - 1
        return share * width * (10 if self.average else table.rows)

    def text(self, table: CodedTable, wording: int = 0, name: str | None = None) -> str:
        """Return it as SQL; another wording means the same. Its result may have a name."""
        names = [table.columns[key].name for key in self.keys]
        what = COUNT
        if self.total is not None:
            what = f"{'avg' if self.average else 'sum'}({table.columns[self.total].name})"
        what += "" if name is None else f" AS {name}"
        conditions = [_condition(table.columns[code_set.place], code_set.codes, wording) for code_set in self.where]
        if wording % 2:
            conditions.reverse()
        statement = f"SELECT {', '.join([*names, what])} FROM {table.name}"  # noqa: S608  made up here
        statement += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return statement + (f" GROUP BY {', '.join(names)}" if names else "")

    def truth(self, table: CodedTable) -> NDArray[np.float64]:
        """Return the exact answer of each group, the last key varying fastest."""
        meant = np.ones(table.rows, dtype=np.bool_)
        for code_set in self.where:
            inside = np.zeros(table.columns[code_set.place].size, dtype=np.bool_)
            inside[list(code_set.codes)] = True
            meant &= inside[table.codes[code_set.place]]
        shape = [table.columns[key].size for key in self.keys]
        group = np.zeros(table.rows, dtype=np.int64)
        for key, size in zip(self.keys, shape, strict=True):
            group = group * size + table.codes[key]
        number, chosen = math.prod(shape), group[meant]
        counts = np.bincount(chosen, minlength=number).astype(np.float64)
        if self.total is None:
            return counts
        weights = table.codes[self.total][meant].astype(np.float64)
        sums: NDArray[np.float64] = np.bincount(chosen, weights=weights, minlength=number).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            return sums / counts if self.average else sums


def _condition(column: Column, codes: tuple[int, ...], wording: int) -> str:
    """Return one condition as SQL."""
    name = column.name
    if column.ordered:
        first, last = codes[0], codes[-1]
        if last - first != len(codes) - 1:
            return f"{name} IN ({', '.join(map(str, codes))})"
        return f"{name} BETWEEN {first} AND {last}" if wording < 2 else f"({name} >= {first} AND {name} < {last + 1})"  # noqa: PLR2004
    if column.size == 2:  # noqa: PLR2004
        return (name if wording < 2 else f"{name} = TRUE") if codes == (1,) else f"NOT {name}"  # noqa: PLR2004
    labels = [f"'{column.label(code)}'" for code in codes]
    others = [f"'{column.label(code)}'" for code in range(column.size) if code not in codes]
    match wording:
        case 2:
            return f"({' OR '.join(f'{name} = {label}' for label in labels)})"
        case 3 if others:
            return f"{name} NOT IN ({', '.join(others)})"
        case _:
            return f"{name} = {labels[0]}" if len(labels) == 1 else f"{name} IN ({', '.join(labels)})"


@dataclass(frozen=True)
class WideStream:
    """Questions in their order over one table, each with a wording."""

    name: str
    table: CodedTable
    asked: Sequence[tuple[Asked, int]]
    share: float = 0.01
    """How far off an answer may be: see `Asked.within`."""
    confidence: float = 0.95
