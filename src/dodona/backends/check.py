"""A check of the rows against what is declared: exact counts, for the owner alone.

They are never written to a ledger and never shown to an analyst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dodona.domain.schema import Schema
from dodona.sql.render import Table
from dodona.sql.render_check import COLUMN_FIGURES, check

if TYPE_CHECKING:
    from dodona.backends.engine import Fetch


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
