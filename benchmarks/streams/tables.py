"""Made-up tables of many columns, and tables given as files: codes of each column, and their schema."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dodona.errors import InvalidRequest
from dodona.schema.attributes import Attribute, Boolean, Category, Integer
from dodona.schema.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS = 50_000
_CLUSTERS = 8


@dataclass(frozen=True, slots=True)
class Column:
    """A column of codes from 0: truth values where there are two, an ordered number, or a label."""

    name: str
    size: int
    ordered: bool = False

    @property
    def attribute(self) -> Attribute:
        """Its declaration: every value is one of the codes."""
        if self.ordered:
            return Integer(self.name, 0, self.size - 1, otherwise=0)
        if self.size == 2:  # noqa: PLR2004
            return Boolean(self.name, otherwise=False)
        return Category(self.name, [self.label(code) for code in range(self.size)], otherwise=self.label(0))

    def label(self, code: int) -> str:
        """Return the label of a code."""
        return f"v{code}"

    def values(self, codes: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.bool_] | NDArray[np.str_]:
        """Return what the table holds."""
        if self.ordered:
            return codes
        return codes == 1 if self.size == 2 else np.array([*map(self.label, range(self.size))])[codes]  # noqa: PLR2004


@dataclass(frozen=True)
class CodedTable:
    """A table as codes, a column each."""

    name: str
    columns: tuple[Column, ...]
    codes: tuple[NDArray[np.int64], ...]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.codes[0])

    @cached_property
    def schema(self) -> Schema:
        """Its declaration; rows are added or removed, so that their number is not public."""
        return Schema.of(self.name, *(column.attribute for column in self.columns), size=self.rows)

    def frame(self) -> dict[str, NDArray[np.int64] | NDArray[np.bool_] | NDArray[np.str_]]:
        """Return the values of all columns."""
        return {column.name: column.values(codes) for column, codes in zip(self.columns, self.codes, strict=True)}


def made_up(columns: Sequence[Column], *, rows: int = ROWS, seed: int = 0) -> CodedTable:
    """Return rows from eight clusters, each with its own law for every column: bell-shaped where it is ordered."""
    generator = np.random.default_rng(seed)
    cluster = generator.choice(_CLUSTERS, rows, p=generator.dirichlet(np.ones(_CLUSTERS)))
    codes = []
    for column in columns:
        if column.ordered:
            middle, width = generator.uniform(0, column.size, _CLUSTERS), generator.uniform(0.05, 0.2, _CLUSTERS)
            around = generator.normal(middle[cluster], width[cluster] * column.size)
            codes.append(np.clip(around, 0, column.size - 1).astype(np.int64))
        else:
            drawn = np.empty(rows, dtype=np.int64)
            for number, law in enumerate(generator.dirichlet(np.full(column.size, 0.5), _CLUSTERS)):
                members = np.flatnonzero(cluster == number)
                drawn[members] = generator.choice(column.size, len(members), p=law)
            codes.append(drawn)
    return CodedTable("made_up", tuple(columns), tuple(codes))


def read_table(folder: Path, name: str) -> CodedTable:
    """Return a table of codes from NAME.csv in a folder; NAME-domain.json has the number of codes of each column."""
    from pyarrow import csv

    try:
        sizes = json.loads((folder / f"{name}-domain.json").read_text())
        table = csv.read_csv(folder / f"{name}.csv")
        codes = [table.column(column).to_numpy().astype(np.int64) for column in sizes]
    except (KeyError, OSError, ValueError) as fault:
        raise InvalidRequest(
            f"The folder {folder} is not read as the table {name}: {fault}. It needs {name}.csv with whole codes and "
            f"{name}-domain.json with the number of codes of each column."
        ) from fault
    ordered = {"age", "hours-per-week", "capital-gain", "capital-loss", "fnlwgt", "education-num"}
    columns = [
        Column(re.sub(r"\W+", "_", column).strip("_").lower(), size, ordered=column in ordered)
        for column, size in sizes.items()
    ]
    return CodedTable(name, tuple(columns), tuple(codes))
