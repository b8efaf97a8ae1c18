"""A check of the rows against what is declared: exact counts, for the owner alone.

They are never written to a ledger and never shown to an analyst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dodona.backends.engine import answers
from dodona.domain.attribute import Integer
from dodona.domain.domain import Domain
from dodona.domain.schema import Schema
from dodona.query.query import Query
from dodona.sql.render import Table
from dodona.sql.render_check import COLUMN_FIGURES, check, crowds
from dodona.sql.render_column import Form, reading
from dodona.trusted.source import Sealed

if TYPE_CHECKING:
    from dodona.backends.engine import Fetch
    from dodona.backends.inspection import Inspection

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
class Check:
    """Exact counts of a table."""

    rows: int
    nobody: int
    """Rows whose id is NULL or NaN: they do not count."""
    people: int | None
    """None where each row is protected by itself."""
    counting: int
    """The rows that count: those of somebody, within the cap."""
    columns: tuple[ColumnCheck, ...]

    @property
    def cut(self) -> int:
        """How many rows of somebody do not count, as there are more of that person than the cap."""
        return self.rows - self.nobody - self.counting


def checked(schema: Schema, table: Table, fetch: Fetch) -> Check:
    """Return the check of a table as it is: its rows before any cap, none of them taken in as codes."""
    _, *figures = fetch(check(table, schema.unit.rows))
    rows, nobody, people, counting, *rest = (int(column[0]) for column in figures)
    size = len(COLUMN_FIGURES)
    columns = tuple(
        ColumnCheck(attribute.name, attribute.kind, *rest[place * size : (place + 1) * size])
        for place, attribute in enumerate(schema.domain)
    )
    return Check(rows, nobody, None if schema.unit.id is None else people, counting, columns)


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
        own = reading(attribute, "c0", Form.CODE, table.dialect)
        source = crowds(table, schema.unit.rows, most_left_out(schema))
        self._table = Table(source, {attribute.name: own}, table.dialect)

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query, sealed."""
        return answers(query, self._table, rows=self._schema.unit.size, fetch=self._inspection.fetched)

    def close(self) -> None:
        """Let go of the table."""
        self._inspection.close()
