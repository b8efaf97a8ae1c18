"""What a data owner may learn about a table before it is served: columns, profiles and exact checks.

These figures are not private. They are for the owner alone and never reach an analyst.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dodona.engines.answers import answer_query
from dodona.engines.cells import ColumnForm, date_sql, read_column
from dodona.engines.dialects import Dialect, number_literal
from dodona.engines.render import COLUMN_FIGURES, Statement, Table, check_statement, left_out_sql
from dodona.query.query import Query
from dodona.schema.attributes import Boolean, Date, Integer, Number
from dodona.schema.schema import Domain, Schema
from dodona.trusted.source import Sealed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.engines.answers import Fetch


# --- Inspection: what an owner's tools may ask of a table as it is, before anything is declared and before any cap. ---


FetchedRow = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column as an engine holds it."""

    sql: str
    """How its values are written in a statement."""
    form: ColumnForm | None
    """What they are to SQL; None where no attribute can be read out of them."""
    type: str
    """The engine's own word for their type."""
    number: str | None = None
    day: str | None = None
    """How they are written where a number, or a day, is read from them; as `sql` has it unless said otherwise."""


class Inspection(Protocol):
    """A table, open for its owner."""

    @property
    def dialect(self) -> Dialect:
        """How the engine writes SQL."""

    @property
    def source(self) -> str:
        """SQL that can stand after FROM."""

    @property
    def columns(self) -> Mapping[str, SourceColumn]:
        """All columns, in the order of the table."""

    def fetch(self, sql: str) -> Sequence[FetchedRow]:
        """Return the rows of a statement; raises SourceUnfit, without the engine's own words."""

    def fetched(self, asked: Statement) -> list[NDArray[np.int64]]:
        """Return the columns of a rendered statement's answer, as `answers.Fetch` does; raises SourceUnfit."""

    def table(self, schema: Schema) -> Table:
        """Return how the declared columns are read; raises SourceUnfit where the table is not what is declared."""

    def close(self) -> None:
        """Let go of the table."""


def rows_to_columns(rows: Sequence[FetchedRow]) -> list[NDArray[np.int64]]:
    """Return rows of whole numbers as columns."""
    return [np.asarray(column, dtype=np.int64) for column in zip(*rows, strict=True)]


# --- Profiles: the few figures of a column that a draft of its declaration is guessed from. ---


_WIDEST = 10**15
_NUMBER = Number("probe", -_WIDEST, _WIDEST, 10**9)  # bounds that hide nothing; the step is not used
_DAY = Date("probe", dt.date.min, dt.date.max)
_TRUTH = Boolean("probe")
MISSING_VALUE_NUMBERS = (
    -1,
    -2,
    -7,
    -8,
    -88,
    -888,
    *(sign * (10**digits - 1) for digits in range(1, 9) for sign in (-1, 1)),
)
"""Numbers that often stand for no answer: -1, 99, -999 and the like."""
_NUMBERS = frozenset({ColumnForm.TEXT, ColumnForm.WHOLE, ColumnForm.DOUBLE, ColumnForm.WIDE, ColumnForm.DECIMAL})
_DAYS = frozenset({ColumnForm.TEXT, ColumnForm.DAY, ColumnForm.TIME, ColumnForm.ZONED})


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberProfile:
    """The numbers of a column: how many there are, how many are whole, and the least and the most of them."""

    count: int
    whole: int
    least: Fraction
    most: Fraction
    inner: tuple[Fraction, Fraction] | None
    """The least and the most without numbers that often stand for no answer, such as -1 and 999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DateProfile:
    """The days of a column."""

    count: int
    first: dt.date
    last: dt.date


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """One column."""

    name: str
    held: SourceColumn
    present: int
    """How many values are not NULL."""
    different: int
    numbers: NumberProfile | None = None
    """None where no value is a number from -10^15 to 10^15."""
    days: DateProfile | None = None
    truths: tuple[int, int] = (0, 0)
    """How many texts read as true, and how many as false."""


def count_rows(table: Inspection) -> int:
    """Return how many rows there are."""
    ((rows,),) = table.fetch(f"SELECT count(*) FROM {table.source}")  # noqa: S608
    return _as_count(rows)


def profile_column(table: Inspection, name: str) -> ColumnProfile:
    """Return the figures of one column, in one pass."""
    held = table.columns[name]
    if held.form is None:
        ((present,),) = table.fetch(f"SELECT count({held.sql}) FROM {table.source}")  # noqa: S608
        return ColumnProfile(name=name, held=held, present=_as_count(present), different=0)
    inner = {"t": held.sql} | _readings(table, held)
    outer = ["count(t)", "count(DISTINCT t)", *_figures(table, held.form)]
    listed = ", ".join(f"{sql} AS {short}" for short, sql in inner.items())
    figures = ", ".join(f"{sql} AS f{place}" for place, sql in enumerate(outer))
    (row,) = table.fetch(f"SELECT {figures} FROM (SELECT {listed} FROM {table.source}) AS listed")  # noqa: S608
    present, different, *rest = row
    found = list(rest)
    numbers = _number_profile(found[:6]) if held.form in _NUMBERS else None
    del found[: 6 if held.form in _NUMBERS else 0]
    days = _date_profile(found[:3]) if held.form in _DAYS else None
    del found[: 3 if held.form in _DAYS else 0]
    truths = (_as_count(found[0]), _as_count(found[1])) if held.form is ColumnForm.TEXT else (0, 0)
    return ColumnProfile(
        name=name,
        held=held,
        present=_as_count(present),
        different=_as_count(different),
        numbers=numbers,
        days=days,
        truths=truths,
    )


def text_counts(table: Inspection, name: str, *, most: int) -> list[tuple[str, int]]:
    """Return the different texts of a column and how often each occurs, in the order of the alphabet.

    The order of their frequencies would tell about the rows, so it is not the one that a draft has.
    """
    sql = table.columns[name].sql
    rows = table.fetch(
        f"SELECT t, count(*) AS n FROM (SELECT {sql} AS t FROM {table.source}) AS listed "  # noqa: S608
        f"WHERE t IS NOT NULL GROUP BY t ORDER BY t LIMIT {most}"
    )
    return sorted((str(text), _as_count(number)) for text, number in rows)


def rows_per_person(table: Inspection, name: str) -> list[tuple[int, int]]:
    """Return how many people have one row, two rows and so on, where a column tells people apart."""
    sql = table.columns[name].sql
    rows = table.fetch(
        f"SELECT n, count(*) AS people FROM (SELECT count(*) AS n FROM (SELECT {sql} AS t FROM {table.source}) "  # noqa: S608
        "AS listed WHERE t IS NOT NULL GROUP BY t) AS people GROUP BY n ORDER BY n"
    )
    return [(_as_count(own), _as_count(number)) for own, number in rows]


def _readings(table: Inspection, held: SourceColumn) -> dict[str, str]:
    """Return the value of a column as a number, as a day and as a truth, as far as it may be one."""
    found = dict[str, str]()
    if held.form in _NUMBERS and held.form is not None:
        found["v"] = table.dialect.double.format(
            read_column(_NUMBER, held.number or held.sql, held.form, table.dialect).value
        )
    if held.form in _DAYS and held.form is not None:
        found["d"] = date_sql(read_column(_DAY, held.day or held.sql, held.form, table.dialect))
    if held.form is ColumnForm.TEXT:
        found["b"] = read_column(_TRUTH, held.sql, held.form, table.dialect).value
    return found


def _figures(table: Inspection, form: ColumnForm) -> list[str]:
    dialect, found = table.dialect, list[str]()
    if form in _NUMBERS:
        near = (
            f"v >= {number_literal(-float(_WIDEST))} AND v <= {number_literal(float(_WIDEST))}"  # no NaN, no infinity
        )
        inside = f"CASE WHEN {near} THEN v END"
        found += [dialect.count_if.format(text) for text in (near, f"{near} AND v = floor(v)")]
        found += [f"min({inside})", f"max({inside})"]
        codes = ", ".join(number_literal(float(code)) for code in MISSING_VALUE_NUMBERS)
        inner = f"CASE WHEN {near} AND v NOT IN ({codes}) THEN v END"
        found += [f"min({inner})", f"max({inner})"]
    if form in _DAYS:
        first, last = dialect.day.format(dt.date.min), dialect.day.format(dt.date.max)
        inside = f"CASE WHEN d >= {first} AND d <= {last} THEN d END"
        found += [f"count({inside})", *(dialect.text.format(f"{pick}({inside})") for pick in ("min", "max"))]
    if form is ColumnForm.TEXT:
        found += [dialect.count_if.format("b"), dialect.count_if.format("NOT b")]
    return found


def _number_profile(row: Sequence[object]) -> NumberProfile | None:
    count, whole, least, most, *inner = row
    if least is None or most is None:
        return None
    first, last = (None if value is None else _as_fraction(value) for value in inner)
    return NumberProfile(
        count=_as_count(count),
        whole=_as_count(whole),
        least=_as_fraction(least),
        most=_as_fraction(most),
        inner=None if first is None or last is None else (first, last),
    )


def _date_profile(row: Sequence[object]) -> DateProfile | None:
    count, first, last = row
    if first is None or last is None:
        return None
    return DateProfile(
        count=_as_count(count), first=dt.date.fromisoformat(str(first)), last=dt.date.fromisoformat(str(last))
    )


def _as_fraction(value: object) -> Fraction:
    return Fraction(repr(float(str(value))))  # the shortest decimal, as people wrote it


def _as_count(value: object) -> int:
    """Return a count; engines may say NULL where there was nothing to count."""
    return 0 if value is None else int(str(value))


# --- A check of the rows against what is declared: exact counts, for the owner alone. ---


_LEFT_OUT = "dodona_rows_left_out"
_TIMES = 10


@dataclass(frozen=True, slots=True)
class ColumnCheck:
    """How many rows have no value in a column, none of the declared ones, or one beyond its bounds."""

    name: str
    kind: str
    missing: int
    outside: int
    """None of the attribute's values; of a date also the days beyond its bounds."""
    below: int
    above: int


@dataclass(frozen=True, slots=True)
class TableCheck:
    """Exact counts of a table."""

    rows: int
    nobody: int
    """Rows whose id is NULL or NaN: they do not count."""
    people: int | None
    """None where each row is protected by itself."""
    counting: int
    """The rows that count: those with an id, within the cap."""
    columns: tuple[ColumnCheck, ...]

    @property
    def cut(self) -> int:
        """How many rows with an id do not count, as their person has more than the cap."""
        return self.rows - self.nobody - self.counting


def check_table(schema: Schema, table: Table, fetch: Fetch) -> TableCheck:
    """Return the check of a table as it is: its rows before any cap, none of them taken in as codes."""
    _, *figures = fetch(check_statement(table, schema.unit.rows))
    rows, nobody, people, counting, *rest = (int(column[0]) for column in figures)
    size = len(COLUMN_FIGURES)
    columns = tuple(
        ColumnCheck(attribute.name, attribute.kind, *rest[place * size : (place + 1) * size])
        for place, attribute in enumerate(schema.domain)
    )
    return TableCheck(rows, nobody, None if schema.unit.id is None else people, counting, columns)


def most_left_out(schema: Schema) -> int:
    """Return how many rows of one person are counted among those that the cap leaves out, at most: public."""
    return _TIMES * schema.unit.rows


def left_out_query(schema: Schema) -> Query:
    """Return the sum of the rows that the cap leaves out, over a table with one row for each person.

    Theorem: people
    """
    domain = Domain((Integer(_LEFT_OUT, 0, most_left_out(schema), otherwise=0),))
    return Query.sum(domain, _LEFT_OUT)


class LeftOutSource:
    """A table with one row for each person: how many of their rows the cap leaves out, up to a bound."""

    def __init__(self, schema: Schema, inspection: Inspection, *, version: str) -> None:
        """Take a table that is open for its owner."""
        self.version = version
        self._schema, self._inspection = schema, inspection
        table, (attribute,) = inspection.table(schema), left_out_query(schema).domain.attributes
        own = read_column(attribute, "c0", ColumnForm.CODE, table.dialect)
        source = left_out_sql(table, schema.unit.rows, most_left_out(schema))
        self._table = Table(source, {attribute.name: own}, table.dialect)

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query, sealed."""
        return answer_query(query, self._table, rows=self._schema.unit.size, fetch=self._inspection.fetched)

    def close(self) -> None:
        """Let go of the table."""
        self._inspection.close()
