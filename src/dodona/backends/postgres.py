"""A table behind PostgreSQL: asked where it is, over a session that can only read. Sums alone come back."""

from __future__ import annotations

import hashlib

from dodona.backends.cap import cap_key
from dodona.backends.engine import answers, unread_columns
from dodona.backends.faults import SourceUnfit
from dodona.backends.postgres_opening import (
    LABEL,
    hold_types,
    kept_of,
    label,
    named,
    needed,
    relation,
    table_of,
    write_kept,
)
from dodona.backends.postgres_session import Connection, Session, fetched, writing
from dodona.domain.schema import Schema
from dodona.errors import InvalidArgument
from dodona.query.query import Query
from dodona.sql.render import Table, digest
from dodona.sql.render_cap import PERSON, capped, crowd, kept_digest
from dodona.trusted.faults import SourceFailed
from dodona.trusted.source import Sealed

TIMEOUT = 300.0
"""Seconds that a statement may take, where nothing else is written."""
_LONGEST = 7 * 24 * 3600.0


class PostgresSource:
    """Exact answers from a table, a view or a materialised view of a PostgreSQL database."""

    def __init__(  # noqa: PLR0913  what is opened once
        self,
        schema: Schema,
        url: str,
        *,
        table: str | None = None,
        version: str = "1",
        timeout: float = TIMEOUT,
        key: bytes | None = None,
        kept: str | None = None,
    ) -> None:
        """Connect, and look at names and types; the name of the table is the schema's if none is given.

        `url` may hold a password: it is never shown. Where people are protected, the key of the ledger chooses which of
        their rows count, which is found anew with each question; or, with `kept`, was found once by `keep_rows`, which
        wrote them into a table of that name.
        """
        own_key = cap_key(schema, key)
        if not 0 < timeout <= _LONGEST:
            raise InvalidArgument("timeout", timeout, "write a number of seconds, up to a week")
        self.version = version
        self._schema = schema
        space, name = named(kept or (schema.table if table is None else table))
        self._kept = None if kept is None else kept_digest(schema, version, own_key)
        self._session = Session(url, timeout=timeout)
        try:
            self._columns = needed(schema) if kept is None else kept_names(schema)
            self._relation = self._session.run(
                lambda connection: relation(connection, self._columns, space, name), charged=False
            )
            if self._kept is None:
                table_as_it_is = table_of(schema, self._relation)
                people = table_as_it_is.person is not None
                self._table = capped(table_as_it_is, schema.unit.rows, own_key) if people else table_as_it_is
            else:
                self._table = self._session.run(self._opened_kept, charged=False)
            if self._relation.viewed:
                self._hold_readable()
        except BaseException:
            self._session.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresSource({self._schema.table})"

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query, sealed: all of its statements see the same rows."""

        def asked(connection: Connection) -> Sealed:
            self._hold_types(connection)
            rows = self._schema.unit.size
            return answers(query, self._table, rows=rows, fetch=lambda statement: fetched(connection, statement))

        return self._session.run(asked)

    def fingerprint(self) -> str:
        """Return a digest of all that an answer can depend on: the cells of the rows that count, in any order.

        A row's cells are written as text and hashed by the server; the hashes are added up. This notices changes that
        happen by mistake. It reads every declared column of the whole table.
        """

        def asked(connection: Connection) -> list[int]:
            self._hold_types(connection)
            _, *limbs = fetched(connection, digest(self._table, self._schema.domain.names))
            return [int(limb[0]) for limb in limbs]

        found = self._session.run(asked, charged=False)
        return hashlib.sha256(repr(found).encode("ascii")).hexdigest()

    def unread(self) -> tuple[str, ...]:
        """Return the columns of which no row has a declared value, though there are others: for the owner alone."""

        def asked(connection: Connection) -> tuple[str, ...]:
            self._hold_types(connection)
            return unread_columns(self._table, lambda statement: fetched(connection, statement))

        return self._session.run(asked, charged=False)

    def keep_rows(self, url: str, kept: str, *, key: bytes, timeout: float = TIMEOUT) -> None:
        """Write the rows that count into a table, by an address whose role may: for this version, schema and key."""
        space, name = named(kept)
        own = f"{LABEL}{kept_digest(self._schema, self.version, key)}"
        wrong = writing(
            url, timeout=timeout, work=lambda connection: (write_kept(connection, self._table, space, name, own),)
        )
        if wrong is None:
            raise SourceUnfit(
                f"The rows cannot be written to {space}.{name}. Check that the schema is there and that the role may "
                "create tables in it, or name the variable of an address whose role may: --url."
            )
        if wrong[0] is not None:
            raise SourceUnfit(wrong[0])

    def _opened_kept(self, connection: Connection) -> Table:
        """Return how rows that are kept are read; they must belong here, and be within the cap."""
        table = kept_of(connection, self._schema, self._relation, str(self._kept))
        _, most, nobody = fetched(connection, crowd(table))
        if most[0] > self._schema.unit.rows or nobody[0]:
            raise SourceUnfit("The rows that are kept were changed: more of a person than count. Run `dodona keep`.")
        return table

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def _hold_types(self, connection: Connection) -> None:
        """Refuse a table whose columns are no longer what they were when it was opened: they are read as that."""
        if not hold_types(connection, self._columns, self._relation):
            raise SourceFailed
        if self._kept is not None and label(connection, self._relation) != f"{LABEL}{self._kept}":
            raise SourceFailed  # kept anew, for another version

    def _hold_readable(self) -> None:
        """Read a view once, so that a row on which it fails is the owner's to see, and nobody else's."""
        try:
            self.fingerprint()
        except SourceFailed:
            pass
        else:
            return
        raise SourceUnfit(
            "The view cannot be read within the time-out: it fails on a row, or takes too long. Mend it, or "
            "raise timeout."
        )


def kept_names(schema: Schema) -> list[str]:
    """Return the columns of a table that keeps the rows that count."""
    return [*(f"c{place}" for place in range(len(schema.domain.names))), PERSON]
