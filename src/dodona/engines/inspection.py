"""What a data owner may learn about a table before it is served: columns, profiles and exact checks.

These figures are not private. They are for the owner only and never reach an analyst.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dodona.engines.answers import answer_query
from dodona.engines.cells import ColumnForm, date_sql, read_column, seconds_sql
from dodona.engines.dialects import Dialect, number_literal
from dodona.engines.render import COLUMN_FIGURES, GroupedSql, Table, check_statement, left_out_sql
from dodona.numbers import Integers
from dodona.query.query import Query
from dodona.schema.attributes import Boolean, Date, Integer, Number
from dodona.schema.moments import DAY_SECONDS
from dodona.schema.schema import Domain, Schema
from dodona.trusted.source import Sealed

if TYPE_CHECKING:
    from dodona.engines.answers import Fetch


# --- Inspection: the owner's access to a table before anything is declared or capped. ---


FetchedRow = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column in an engine."""

    sql: str
    """SQL for its values."""
    form: ColumnForm | None
    """The SQL form of its values; None if no attribute can be read from them."""
    type: str
    """The engine's name for the type."""
    number: str | None = None
    time: str | None = None
    """SQL for its values when read as a number, or as a day or time; by default `sql`."""


class Inspection(Protocol):
    """A table, opened for its owner."""

    dialect: Dialect
    source: str
    """SQL for the FROM clause."""
    columns: dict[str, SourceColumn]
    """All columns, in table order."""

    def fetch(self, sql: str) -> Sequence[FetchedRow]:
        """Return the rows of a statement; raises SourceUnfit, without the engine's message."""

    def fetched(self, asked: GroupedSql) -> list[Integers]:
        """Return the result columns of a rendered statement, as `answers.Fetch` does; raises SourceUnfit."""

    def table(self, schema: Schema) -> Table:
        """Return how the declared columns are read; raises SourceUnfit if the table does not match them."""

    def close(self) -> None:
        """Release the table."""


def rows_to_columns(rows: Sequence[FetchedRow]) -> list[Integers]:
    """Return rows of integers as columns."""
    return [np.asarray(column, dtype=np.int64) for column in zip(*rows, strict=True)]


# --- Profiles: the statistics of a column from which a draft guesses its declaration. ---


_WIDEST = 10**15
_NUMBER = Number("probe", -_WIDEST, _WIDEST, 10**9)  # bounds that hide nothing; the step is not used
_DAY = Date("probe", dt.date.min, dt.date.max)
_TRUTH = Boolean("probe")
_NINES = [10**digits - 1 for digits in range(1, 9)]
MISSING_VALUE_NUMBERS = (-1, -2, -7, -8, -88, -888, *_NINES, *(-number for number in _NINES))
"""Numbers that often mean no answer: -1, 99, -999 and the like."""
_NUMBERS = frozenset({ColumnForm.TEXT, ColumnForm.WHOLE, ColumnForm.DOUBLE, ColumnForm.WIDE, ColumnForm.DECIMAL})
_DAYS = frozenset({ColumnForm.TEXT, ColumnForm.DAY, ColumnForm.TIME, ColumnForm.ZONED})
_TIMED = frozenset({ColumnForm.TEXT, ColumnForm.TIME, ColumnForm.ZONED})


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberProfile:
    """The numbers of a column: how many there are, how many are whole, and the smallest and largest."""

    count: int
    whole: int
    least: Fraction
    most: Fraction
    inner: tuple[Fraction, Fraction] | None
    """The smallest and largest without numbers that often mean no answer, such as -1 and 999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DateProfile:
    """The days of a column."""

    count: int
    first: dt.date
    last: dt.date
    timed: int = 0
    """How many have a time of day; 0 unless the column is stored as times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """One column."""

    name: str
    held: SourceColumn
    present: int
    """The number of values that are not NULL."""
    different: int
    numbers: NumberProfile | None = None
    """None if no value is a number from -10^15 to 10^15."""
    days: DateProfile | None = None
    truths: tuple[int, int] = (0, 0)
    """The number of texts that read as true, and as false."""


def count_rows(table: Inspection) -> int:
    """Return the number of rows."""
    ((rows,),) = table.fetch(f"SELECT count(*) FROM {table.source}")  # noqa: S608
    return _as_count(rows)


def profile_column(table: Inspection, name: str) -> ColumnProfile:
    """Return the statistics of one column, in one pass."""
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
    numeric, dated = rest[:6] if held.form in _NUMBERS else [], rest[-6:] if held.form is ColumnForm.TEXT else rest
    return ColumnProfile(
        name=name,
        held=held,
        present=_as_count(present),
        different=_as_count(different),
        numbers=_number_profile(numeric) if numeric else None,
        days=_date_profile(dated[:3], timed=dated[3] if held.form in _TIMED else 0) if held.form in _DAYS else None,
        truths=(_as_count(rest[-2]), _as_count(rest[-1])) if held.form is ColumnForm.TEXT else (0, 0),
    )


def text_counts(table: Inspection, name: str, *, most: int) -> list[tuple[str, int]]:
    """Return the distinct texts of a column with their frequencies, in alphabetical order.

    Ordering by frequency would reveal something about the rows, so a draft does not use it.
    """
    sql = table.columns[name].sql
    rows = table.fetch(
        f"SELECT t, count(*) AS n FROM (SELECT {sql} AS t FROM {table.source}) AS listed "  # noqa: S608
        f"WHERE t IS NOT NULL GROUP BY t ORDER BY t LIMIT {most}"
    )
    return sorted((str(text), _as_count(number)) for text, number in rows)


def rows_per_person(table: Inspection, name: str) -> list[tuple[int, int]]:
    """Return how many people have one row, two rows and so on, given the column that identifies people."""
    sql = table.columns[name].sql
    rows = table.fetch(
        f"SELECT n, count(*) AS people FROM (SELECT count(*) AS n FROM (SELECT {sql} AS t FROM {table.source}) "  # noqa: S608
        "AS listed WHERE t IS NOT NULL GROUP BY t) AS people GROUP BY n ORDER BY n"
    )
    return [(_as_count(row_count), _as_count(number)) for row_count, number in rows]


def _readings(table: Inspection, held: SourceColumn) -> dict[str, str]:
    """Return SQL for a column's value as a number, a day and a boolean, as far as each is possible."""
    expressions = dict[str, str]()
    if held.form in _NUMBERS and held.form is not None:
        number = read_column(_NUMBER, held.number or held.sql, held.form, table.dialect)
        expressions["v"] = table.dialect.double.format(number.value)
    if held.form in _DAYS and held.form is not None:
        expressions["d"] = date_sql(read_column(_DAY, held.time or held.sql, held.form, table.dialect))
    if held.form in _TIMED and held.form is not None:
        expressions["s"] = seconds_sql(held.time or held.sql, held.form, table.dialect)
    if held.form is ColumnForm.TEXT:
        expressions["b"] = read_column(_TRUTH, held.sql, held.form, table.dialect).value
    return expressions


def _figures(table: Inspection, form: ColumnForm) -> list[str]:
    dialect, figures = table.dialect, list[str]()
    if form in _NUMBERS:
        first, last = number_literal(-float(_WIDEST)), number_literal(float(_WIDEST))
        near = f"v >= {first} AND v <= {last}"  # no NaN, no infinity
        inside = f"CASE WHEN {near} THEN v END"
        figures += [dialect.count_if.format(text) for text in (near, f"{near} AND v = floor(v)")]
        figures += [f"min({inside})", f"max({inside})"]
        codes = ", ".join(number_literal(float(code)) for code in MISSING_VALUE_NUMBERS)
        inner = f"CASE WHEN {near} AND v NOT IN ({codes}) THEN v END"
        figures += [f"min({inner})", f"max({inner})"]
    if form in _DAYS:
        first, last = dialect.day.format(dt.date.min), dialect.day.format(dt.date.max)
        inside = f"CASE WHEN d >= {first} AND d <= {last} THEN d END"
        figures += [f"count({inside})", *(dialect.text.format(f"{pick}({inside})") for pick in ("min", "max"))]
    if form in _TIMED:
        figures.append(dialect.count_if.format(f"{dialect.remainder.format('s', DAY_SECONDS)} <> 0"))
    if form is ColumnForm.TEXT:
        figures += [dialect.count_if.format("b"), dialect.count_if.format("NOT b")]
    return figures


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


def _date_profile(row: Sequence[object], *, timed: object) -> DateProfile | None:
    count, first, last = row
    if first is None or last is None:
        return None
    first, last = (dt.date.fromisoformat(str(day)) for day in (first, last))
    return DateProfile(count=_as_count(count), first=first, last=last, timed=_as_count(timed))


def _as_fraction(value: object) -> Fraction:
    return Fraction(repr(float(str(value))))  # the shortest decimal, as originally written


def _as_count(value: object) -> int:
    """Return a count; engines may return NULL if there was nothing to count."""
    return 0 if value is None else int(str(value))


# --- Checking the rows against the declarations: exact counts, for the owner only. ---


_LEFT_OUT = "dodona_rows_left_out"
_TIMES = 10


@dataclass(frozen=True, slots=True)
class ColumnCheck:
    """How many rows of a column have a missing, an undeclared or an out-of-bounds value, or one between two steps."""

    name: str
    kind: str
    missing: int
    outside: int
    """Rows with an undeclared value; for a date also days beyond its bounds."""
    below: int
    above: int
    between: int
    """Rows with a number between two steps: it counts as the lower one."""


@dataclass(frozen=True, slots=True)
class TableCheck:
    """Exact counts of a table."""

    rows: int
    nobody: int
    """Rows whose id is NULL or NaN: they do not count."""
    people: int | None
    """None if each row is protected individually."""
    counting: int
    """The rows that count: those with an id, within the cap."""
    columns: tuple[ColumnCheck, ...]

    @property
    def cut(self) -> int:
        """The number of rows with an id that do not count, because their person exceeds the cap."""
        return self.rows - self.nobody - self.counting


def check_table(schema: Schema, table: Table, fetch: Fetch) -> TableCheck:
    """Check a table in its original form: before any cap, and not loaded as codes."""
    _, *figures = fetch(check_statement(table, schema.unit.rows))
    rows, nobody, people, counting, *rest = (int(column[0]) for column in figures)
    size = len(COLUMN_FIGURES)
    columns = tuple(
        ColumnCheck(attribute.name, attribute.kind, *rest[place * size : (place + 1) * size])
        for place, attribute in enumerate(schema.domain)
    )
    return TableCheck(rows, nobody, None if schema.unit.id is None else people, counting, columns)


def most_left_out(schema: Schema) -> int:
    """Return the public bound on how many left-out rows of one person are counted."""
    return _TIMES * schema.unit.rows


def left_out_query(schema: Schema) -> Query:
    """Return the sum of the rows that the cap leaves out, over a table with one row per person.

    Theorem: people
    """
    domain = Domain((Integer(_LEFT_OUT, 0, most_left_out(schema), otherwise=0),))
    return Query.sum(domain, _LEFT_OUT)


class LeftOutSource:
    """A table with one row per person: how many of their rows the cap leaves out, up to a bound."""

    def __init__(self, schema: Schema, inspection: Inspection, *, version: str) -> None:
        """Take a table opened for its owner."""
        self.version = version
        self._schema, self._inspection = schema, inspection
        table, (attribute,) = inspection.table(schema), left_out_query(schema).domain.attributes
        reading = read_column(attribute, "c0", ColumnForm.CODE, table.dialect)
        source = left_out_sql(table, schema.unit.rows, most_left_out(schema))
        self._table = Table(source, {attribute.name: reading}, table.dialect)

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query, sealed."""
        return answer_query(query, self._table, rows=self._schema.unit.size, fetch=self._inspection.fetched)

    def close(self) -> None:
        """Release the table."""
        self._inspection.close()
