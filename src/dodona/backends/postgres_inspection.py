"""A table of PostgreSQL, open for its owner: every column as it is, nothing capped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dodona.backends.faults import SourceUnfit
from dodona.backends.inspection import Held, Row
from dodona.backends.postgres_opening import held_of, named, relation, table_of
from dodona.backends.postgres_session import Connection, Found, Session, fetched
from dodona.domain.schema import Schema
from dodona.sql.render import Statement, Table
from dodona.sql.render_dialect import Dialect
from dodona.sql.render_postgres import POSTGRES
from dodona.trusted.faults import SourceFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray


class PostgresInspection:
    """An inspection of a table, a view or a materialised view, in a session that can only read."""

    def __init__(self, url: str, *, table: str, timeout: float = 3600.0) -> None:
        """Connect, and look at names and types."""
        space, name = named(table)
        self._session = Session(url, timeout=timeout)
        try:
            self._relation = self._run(lambda connection: relation(connection, (), space, name))
        except BaseException:
            self._session.close()
            raise

    def __repr__(self) -> str:
        return "PostgresInspection()"

    @property
    def dialect(self) -> Dialect:
        """How PostgreSQL writes SQL."""
        return POSTGRES

    @property
    def source(self) -> str:
        """SQL that can stand after FROM."""
        return self._relation.sql

    @property
    def columns(self) -> Mapping[str, Held]:
        """All columns that the role may read, in the order of the table."""
        return {name: held_of(name, kind) for name, kind in self._relation.kinds.items() if kind.readable}

    def fetch(self, sql: str) -> Sequence[Row]:
        """Return the rows of a statement."""
        return self._run(lambda connection: connection.execute(sql.encode()).fetchall())

    def fetched(self, asked: Statement) -> list[NDArray[np.int64]]:
        """Return the columns of a rendered statement's answer."""
        return self._run(lambda connection: fetched(connection, asked))

    def table(self, schema: Schema) -> Table:
        """Return how the declared columns are read."""
        return table_of(schema, self._relation)

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def _run(self, work: Callable[[Connection], Found]) -> Found:
        try:
            return self._session.run(work, charged=False)
        except SourceFailed:
            pass
        raise SourceUnfit(
            "The rows of the table cannot be read: the connection was lost, a view fails on a row, or it takes longer "
            "than an hour. Look into the server's log."
        )
