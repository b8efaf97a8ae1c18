"""Inspection: what an owner's tools may ask of a table as it is, before anything is declared and before any cap.

An engine supplies how it holds each column, and a way to fetch rows; all else here is SQL that every engine reads. What
comes back is exact and about people: it is for the owner alone, and nothing of it goes to a ledger or to an analyst.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dodona.domain.schema import Schema
from dodona.sql.render import Statement, Table
from dodona.sql.render_column import Form
from dodona.sql.render_dialect import Dialect

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """A column as an engine holds it."""

    sql: str
    """How its values are written in a statement."""
    form: Form | None
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
    def columns(self) -> Mapping[str, Held]:
        """All columns, in the order of the table."""

    def fetch(self, sql: str) -> Sequence[Row]:
        """Return the rows of a statement; raises SourceUnfit, without the engine's own words."""

    def fetched(self, asked: Statement) -> list[NDArray[np.int64]]:
        """Return the columns of a rendered statement's answer, as `engine.Fetch` does; raises SourceUnfit."""

    def table(self, schema: Schema) -> Table:
        """Return how the declared columns are read; raises SourceUnfit where the table is not what is declared."""

    def close(self) -> None:
        """Let go of the table."""
