"""Random datasets: what an owner declares, and made-up rows whose cells are known without asking the product.

A dataset is a frozen value. Its rows are a function of it, column by column, so that a smaller dataset (fewer columns,
fewer rows) has the same rows where it has any: that is what makes a failing session shrink.
"""

from __future__ import annotations

import datetime as dt
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

import dodona

Kind = Literal["category", "integer", "number", "date", "timestamp", "boolean"]
Door = Literal["memory", "ledger", "csv", "parquet", "postgres"]
"""A frame with a ledger in memory; a frame with one in a file; a dataset file over CSV, Parquet or PostgreSQL."""
FILES = frozenset({"csv", "parquet", "postgres"})
Value = str | int | bool | Fraction | dt.date
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  the times have no zone
MISSING, OUTSIDE = -1, -2
"""Codes of the two cells that are no values."""


@dataclass(frozen=True, slots=True)
class Request:
    """How accurate an answer is to be, or what it may cost; nothing of both is the dataset's default."""

    within: int | float | str | None = None
    epsilon: str | None = None
    confidence: float | None = None

    def arguments(self) -> dict[str, object]:
        named = {"within": self.within, "epsilon": self.epsilon, "confidence": self.confidence}
        if self.within is not None or self.epsilon is not None:  # the default keeps to the dataset's own limit
            named["max_price"] = "100%"
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A declared column. Its values are codes 0 ... size - 1 here; `value` says what each stands for."""

    kind: Kind
    name: str
    size: int = 2
    labels: tuple[str, ...] = ()
    lower: Fraction = Fraction(0)
    """The value of code 0; of a date its ordinal, of a time its second since 1970."""
    step: Fraction = Fraction(1)
    cuts: tuple[int, ...] | None = None
    """The first code of each declared bin."""
    otherwise: int | None = None
    """The code that missing and undeclared values count as."""

    @property
    def numeric(self) -> bool:
        return self.kind in {"integer", "number"}

    @property
    def cells(self) -> int:
        return self.size if self.otherwise is not None else self.size + 2

    def value(self, code: int) -> Value:
        match self.kind:
            case "category":
                return self.labels[code]
            case "boolean":
                return bool(code)
            case "date":
                return dt.date.fromordinal(int(self.lower) + code)
            case "timestamp":
                return _EPOCH + dt.timedelta(seconds=int(self.lower + code * self.step))
            case "integer":
                return int(self.lower) + code
            case _:
                return self.lower + code * self.step

    def literal(self, code: int) -> str:
        """Return a value as SQL text."""
        match value := self.value(code):
            case bool():
                return "TRUE" if value else "FALSE"
            case str() | dt.date():
                return f"'{value}'"
            case int():
                return str(value)
            case _:
                return _decimal(value)

    def source(self) -> str:
        """Return the Python text of the declaration."""
        otherwise = "" if self.otherwise is None else f", otherwise={_written(self.value(self.otherwise))}"
        cuts = ""
        if self.cuts is not None:
            cuts = f", bins=[{', '.join(_written(self.value(code)) for code in (*self.cuts, self.size - 1))}]"
        first, last = (_written(self.value(code)) for code in (0, self.size - 1))
        match self.kind:
            case "category":
                return f"Category({self.name!r}, {list(self.labels)}{otherwise})"
            case "boolean":
                return f"Boolean({self.name!r}{otherwise})"
            case "integer":
                return f"Integer({self.name!r}, {first}, {last}{cuts}{otherwise})"
            case "timestamp":
                return f"Timestamp({self.name!r}, {first}, {last}, {int(self.step)}{otherwise})"
            case "date":
                return f"Date({self.name!r}, {first}, {last}{cuts}{otherwise})"
            case _:
                return f"Number({self.name!r}, {first}, {last}, {_decimal(self.step)!r}{cuts}{otherwise})"

    def toml(self) -> str:
        """Return the table of a dataset file."""
        lines = [f"[columns.{self.name}]", f'kind = "{self.kind}"']
        if self.kind == "category":
            lines.append(f"labels = [{', '.join(map(_quoted, self.labels))}]")
        elif self.kind != "boolean":
            lines += [f"{word} = {_toml(self.value(code))}" for word, code in (("lower", 0), ("upper", self.size - 1))]
            lines += [f'step = "{_decimal(self.step)}"'] if self.kind == "number" else []
            lines += [f'step = "{int(self.step)} seconds"'] if self.kind == "timestamp" else []
            if self.cuts is not None:
                edges = (*self.cuts, self.size - 1)
                lines.append(f"bins = [{', '.join(_toml(self.value(code)) for code in edges)}]")
        if self.otherwise is not None:
            lines.append(f"otherwise = {_toml(self.value(self.otherwise))}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """What an owner declares, and how many rows there are."""

    columns: tuple[Column, ...]
    rows: int
    seed: int
    size: int
    """As declared: public."""
    neighbours: str = "add-remove"
    cap: int | None = None
    """How many rows of a person count; None where rows are protected."""
    crowded: bool = False
    """Whether people may have more rows than count, so that what counts is not known here."""
    epsilon: str = "10"
    delta: str = "0"
    accountant: str = "pure"
    after: str = "refuse"
    door: Door = "memory"
    analysts: tuple[tuple[str, str], ...] = ()
    """Names and shares."""
    linked: bool = False
    """Whether there is a second table, with one row of most people."""
    public: str = ""
    """The column whose labels a public table lists; none if empty."""

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    @property
    def schema(self) -> dodona.Schema:
        return eval(self.schema_source(), _NAMES)  # type: ignore[no-any-return]  # noqa: S307  what is printed is what runs

    @property
    def budget(self) -> dodona.Budget:
        return dodona.Budget(self.epsilon, self.delta, self.accountant)

    def schema_source(self) -> str:
        """Return the Python text of the schema."""
        people = "" if self.cap is None else f", id='who', rows={self.cap}"
        if self.linked:
            people += f", linked=[LinkedTable('p', Domain(({', '.join(one.source() for one in PEOPLE)},)), id='who')]"
        if self.public:
            people += f", public=[PublicTable.of('w', {self.public!r}, {floors(self.column(self.public))})]"
        declared = ", ".join(column.source() for column in self.columns)
        return f"Schema.of('t', {declared}, size={self.size}, neighbours={self.neighbours!r}{people})"

    def toml(self, version: int = 1, at: str | None = None) -> str:
        """Return the dataset file."""
        people = "" if self.cap is None else f'id = "who"\nrows = {self.cap}\n'
        analysts = "".join(f'[[analysts]]\nname = "{name}"\nshare = "{share}"\n' for name, share in self.analysts)
        columns = "\n".join(column.toml() for column in self.columns)
        rows = f'path = "rows.{self.door}"' if at is None else f'url = "env:{SERVER}"\nsource_table = "{at}"'
        return (
            f'format = 1\ndataset = "t"\n[source]\nkind = "{self.door}"\n{rows}\n'
            f'table = "t"\nversion = "{version}"\n'
            f'[unit]\nprotects = "{"row" if self.cap is None else "person"}"\nneighbours = "{self.neighbours}"\n'
            f"size = {self.size}\n{people}"
            f'[budget]\nepsilon = "{self.epsilon}"\ndelta = "{self.delta}"\naccountant = "{self.accountant}"\n'
            f'after = "{self.after}"\n[ledger]\npath = "t.ledger"\n{analysts}{columns}\n{self._tables()}'
        )

    def _tables(self) -> str:
        """Return the further tables of a dataset file."""
        text = ""
        if self.linked:
            text += f'[tables.p]\npath = "p.{self.door}"\nid = "who"\nrows = 1\n'
            text += "".join(one.toml().replace("[columns", "[tables.p.columns") + "\n" for one in PEOPLE)
        if self.public:
            text += f'[tables.w]\npublic = true\npath = "w.csv"\nkey = "{self.public}"\n'
        return text

    def write(self, folder: Path, version: int = 1) -> Path:
        """Write the rows and the dataset file, and return where that is."""
        at = None
        if self.door == "postgres":
            at = _on_a_server(self)
        else:
            _write(table(self).frame, folder / f"rows.{self.door}")
        if self.linked:
            _write(people_of(self), folder / f"p.{self.door}")
        if self.public:
            _write(pd.DataFrame(floors(self.column(self.public))), folder / "w.csv")
        path = folder / "t.toml"
        path.write_text(self.toml(version, at), encoding="utf-8")
        return path


def _write(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)


def _on_a_server(dataset: Dataset) -> str:
    """Write the rows into a table of PostgreSQL, and return its name."""
    from tests.engines.server import held
    from tests.ledger.scene import shared_server

    os.environ[SERVER] = shared_server().address
    kinds = {
        "category": "text", "boolean": "boolean", "integer": "bigint", "number": "double precision", "date": "date",
        "timestamp": "timestamp",
    }  # fmt: skip
    types = {column.name: kinds[column.kind] for column in dataset.columns}
    types |= {} if dataset.cap is None else {"who": "text"}
    frame = table(dataset).frame
    columns = {name: [None if pd.isna(value) else value for value in frame[name].tolist()] for name in types}
    return held("rows", columns, types)


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a dataset."""

    frame: pd.DataFrame
    """As the product gets them."""
    codes: Mapping[str, np.ndarray[Any, np.dtype[np.int64]]]
    """The cell of every row that counts, in each column."""
    people: np.ndarray[Any, np.dtype[np.int64]]
    """Of each row that counts, whose it is."""


@lru_cache(maxsize=8)
def table(dataset: Dataset) -> Table:
    """Return the rows of a dataset, a function of the dataset alone."""
    number = dataset.rows
    raw: dict[str, object] = {}
    codes = {}
    for column in dataset.columns:
        random = np.random.default_rng([dataset.seed, zlib.crc32(column.name.encode())])
        raw[column.name], codes[column.name] = _column(column, number, random, texts=dataset.door == "csv")
    people = np.arange(number, dtype=np.int64)
    if dataset.cap is not None:
        random = np.random.default_rng([dataset.seed, 1])
        most = dataset.cap * 3 if dataset.crowded else dataset.cap
        lengths = random.integers(1, most + 1, number)
        people = np.repeat(np.arange(number, dtype=np.int64), lengths)[:number]
        people = random.permutation(people)
        nobody = random.random(number) < (0.05 if random.random() < 0.3 else 0.0)
        raw["who"] = pd.Series(np.where(nobody, None, [f"p{person}" for person in people]), dtype=object)
        people, codes = people[~nobody], {name: values[~nobody] for name, values in codes.items()}
    return Table(pd.DataFrame(raw, index=range(number)), codes, people)


def people_of(dataset: Dataset) -> pd.DataFrame:
    """Return the second table: one row of nine in ten people, whether or not they have rows in the first."""
    most = int(table(dataset).people.max(initial=0)) + 3
    random = np.random.default_rng([dataset.seed, 2])
    people = np.flatnonzero(random.random(most) < 0.9)
    known = random.random(len(people)) < 0.9
    labels, ages = random.choice(["u", "v"], len(people)), random.integers(0, 10, len(people))
    shown = [label if there else None for label, there in zip(labels.tolist(), known.tolist(), strict=True)]
    return pd.DataFrame({
        "who": pd.Series([f"p{person}" for person in people.tolist()], dtype=object),
        "ps": pd.Series(shown, dtype=object), "pa": ages.astype(np.int64),
    })  # fmt: skip


PEOPLE = (
    Column(kind="category", name="ps", size=2, labels=("u", "v")),
    Column(kind="integer", name="pa", size=10),
)
"""The columns of the second table."""
SERVER = "DODONA_SESSIONS_SERVER"
"""The variable that has the address of the server."""


def floors(column: Column) -> list[dict[str, object]]:
    """Return the public table about a column: all of its labels but the last."""
    listed = column.labels[:-1] or column.labels
    return [{column.name: label, "floor": place % 3, "beds": place + 5} for place, label in enumerate(listed)]


def _column(own: Column, number: int, random: np.random.Generator, *, texts: bool) -> tuple[object, Any]:
    """Return raw values of a column, and the cells that they are in by the rules of the dataset file."""
    weights = random.dirichlet(np.full(min(own.size, 1000), random.choice([0.2, 1.0, 5.0])))
    codes = random.choice(len(weights), number, p=weights).astype(np.int64) * own.size // len(weights)
    odd = random.random(number) * (1.0 if random.random() < 0.5 else 1e9)  # half of the columns are complete
    missing = odd < 0.05
    unbounded = {"category", "date", "timestamp"}
    outside = (odd >= 0.05) & (odd < 0.1) & (own.kind in unbounded or (own.numeric and texts))
    chance = random.random(number)
    known = {code: own.value(code) for code in np.unique(codes).tolist()}
    shown: list[object] = [known[code] for code in codes.tolist()]
    if own.numeric:  # between two points of the grid, or beyond the bounds: 1024 is no grid's whole step
        inner = np.floor(chance * 1024) / 1024 * float(own.step) if own.kind == "number" else 0
        beyond = 7 * ((codes == own.size - 1) & (chance < 0.2)) - 7 * ((codes == 0) & (chance < 0.2))
        numbers = float(own.lower) + codes * float(own.step) + inner + beyond  # exact: all of them are dyadic
        shown = numbers.tolist() if own.kind == "number" else numbers.astype(np.int64).tolist()
    if own.kind == "timestamp":  # between two steps
        later = np.floor(chance * float(own.step)).astype(np.int64)
        shown = [_EPOCH + dt.timedelta(seconds=int(own.lower + code * own.step) + more)
                 for code, more in zip(codes.tolist(), later.tolist(), strict=True)]  # fmt: skip
    early = {"date": dt.date(1900, 1, 1), "timestamp": _EPOCH.replace(year=1900)}.get(own.kind, "zzz")
    for place in np.flatnonzero(outside).tolist():
        shown[place] = early
    for place in np.flatnonzero(missing).tolist():
        shown[place] = None
    landed = MISSING if own.otherwise is None else own.otherwise
    codes[missing] = landed
    codes[outside] = OUTSIDE if own.otherwise is None else own.otherwise
    return _series(own, shown), codes


def _series(own: Column, shown: list[object]) -> pd.Series[Any]:
    match own.kind:
        case "integer" if not any(isinstance(value, str) for value in shown):
            return pd.Series(shown, dtype="Int64")
        case "number" if not any(isinstance(value, str) for value in shown):
            return pd.Series(shown, dtype="float64")
        case "boolean":
            return pd.Series(shown, dtype="boolean")
        case "date" | "timestamp":
            return pd.Series(shown, dtype="datetime64[s]")
        case _:
            return pd.Series(shown, dtype=object)


_NAMES = {"date": dt.date, "datetime": dt.datetime} | {
    name: getattr(dodona, name)
    for name in ("Schema", "Category", "Integer", "Number", "Date", "Timestamp", "Boolean", "Domain", "LinkedTable",
                 "PublicTable")
}  # fmt: skip


def _decimal(number: Fraction) -> str:
    """Return a fraction whose decimal ends: steps and bounds are such."""
    text = f"{float(number):.10f}".rstrip("0").rstrip(".")
    if Fraction(text) != number:
        raise ValueError(f"{number} is no short decimal")
    return text


def _written(value: Value) -> str:
    match value:
        case dt.datetime():
            return f"datetime{(*value.timetuple()[:6],)}"
        case dt.date():
            return f"date({value.year}, {value.month}, {value.day})"
        case Fraction():
            return repr(_decimal(value))
        case _:
            return repr(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _toml(value: Value) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _quoted(value)
        case Fraction():
            return f'"{_decimal(value)}"'
        case dt.datetime():
            return value.isoformat()
        case _:
            return str(value)
