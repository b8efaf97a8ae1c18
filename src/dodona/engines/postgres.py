"""Tables in PostgreSQL, queried in place over a read-only session. Only sums leave the database."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType

from dodona.engines import postgres_session as server
from dodona.engines.answers import Fetch, answer_query, rows_digest, unread_columns
from dodona.engines.cap import (
    cap_key,
    counted_table,
    excess_statement,
    kept_columns,
    kept_digest,
    repeated_tables,
    unlinked_schemas,
)
from dodona.engines.cells import SourceUnfit
from dodona.engines.dialects import POSTGRES
from dodona.engines.inspection import FetchedRow
from dodona.engines.render import GroupedSql, Table
from dodona.errors import InvalidArgument
from dodona.numbers import Integers
from dodona.query.query import Query
from dodona.schema.schema import Schema
from dodona.trusted.source import Sealed, SourceFailed

# --- Inspection, for the owner: every column unchanged, nothing capped. ---


class PostgresInspection:
    """An inspection of a table, view or materialised view, in a read-only session."""

    dialect = POSTGRES

    def __init__(self, url: str, *, table: str, timeout: float = 3600.0) -> None:
        """Connect, and read names and types."""
        space, name = server.split_table_name(table)
        self._session = server.PostgresSession(url, timeout=timeout)
        try:
            self._relation = self._run(lambda connection: server.find_relation(connection, (), space, name))
        except BaseException:
            self._session.close()
            raise
        self.source, kinds = self._relation.sql, self._relation.kinds  # of the columns, those that the role may read
        self.columns = {name: server.describe_column(name, kind) for name, kind in kinds.items() if kind.readable}

    def __repr__(self) -> str:
        return "PostgresInspection()"

    def fetch(self, sql: str) -> Sequence[FetchedRow]:
        """Return the rows of a statement."""
        return self._run(lambda connection: connection.execute(sql.encode()).fetchall())

    def fetched(self, asked: GroupedSql) -> list[Integers]:
        """Return the result columns of a rendered statement."""
        return self._run(lambda connection: server.fetch_columns(connection, asked))

    def table(self, schema: Schema) -> Table:
        """Return how the declared columns are read."""
        return server.relation_table(schema, self._relation)

    def close(self) -> None:
        """Release the connection."""
        self._session.close()

    def _run(self, work: Callable[[server.Connection], server.ResultT]) -> server.ResultT:
        with suppress(SourceFailed):
            return self._session.run(work, charged=False)
        raise SourceUnfit(
            "The rows of the table cannot be read: the connection was lost, a view fails on a row, or it takes longer "
            "than an hour. Look into the server's log."
        )


# --- Answers, over a read-only session. Only sums leave the database. ---


TIMEOUT = 300.0
"""The default statement timeout in seconds."""
_LONGEST = 7 * 24 * 3600.0


class PostgresSource:
    """Exact answers from a table, view or materialised view of a PostgreSQL database."""

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
        linked: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Connect, and read names and types; the default table name is the schema's.

        `url` may hold a password: it is never shown. If people are protected, the ledger's key selects which of their
        rows count, again with each question; or, with `kept`, `keep_rows` selected them once and stored them in a table
        of that name. `linked` has the name of each linked table in the database, where it is another one.
        """
        own_key = cap_key(schema, key)
        if not 0 < timeout <= _LONGEST:
            raise InvalidArgument("timeout", timeout, "write a number of seconds, up to a week")
        self.version, self._schema = version, schema
        self._kept = None if kept is None else kept_digest(schema, version, own_key)
        self._session = server.PostgresSession(url, timeout=timeout)
        self._relations = list[tuple[Iterable[str], server.Relation]]()
        try:
            if kept is not None:
                self._find(kept, kept_columns(schema.domain.names))
                self._table = self._session.run(self._opened_kept, charged=False)
            else:
                alone = unlinked_schemas(schema)
                names = [
                    schema.table if table is None else table,
                    *(linked.get(table_schema.table, table_schema.table) for table_schema in alone[1:]),
                ]
                for table_schema, name in zip(alone, names, strict=True):
                    self._find(name, server.needed_columns(table_schema))
                pairs = zip(alone, self._relations, strict=True)
                self._table = counted_table(
                    schema,
                    [server.relation_table(table_schema, relation) for table_schema, (_, relation) in pairs],
                    own_key,
                )
            if any(relation.viewed for _, relation in self._relations):
                self._check_readable()
        except BaseException:
            self._session.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresSource({self._schema.table})"

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query, sealed: all of its statements see the same rows."""
        rows = self._schema.unit.size
        return self._run(lambda fetch: answer_query(query, self._table, rows=rows, fetch=fetch), charged=True)

    def fingerprint(self) -> str:
        """Return a digest of the cells of all counted rows; it reads every declared column of the whole table."""
        return self._run(lambda fetch: rows_digest(self._table, fetch), charged=False)

    def unread(self) -> tuple[str, ...]:
        """Return the columns with values but without any declared value: for the owner only."""
        return self._run(lambda fetch: unread_columns(self._table, fetch), charged=False)

    def keep_rows(self, url: str, kept: str, *, key: bytes, timeout: float = TIMEOUT) -> None:
        """Store the counted rows in a table for this version, schema and key, through a role that may write."""
        space, name = server.split_table_name(kept)
        comment = f"{server.KEPT_ROWS_COMMENT}{kept_digest(self._schema, self.version, key)}"
        write = partial(server.write_kept_rows, table=self._table, space=space, name=name, label_of=comment)
        wrong = server.run_with_write_access(url, timeout=timeout, work=lambda connection: (write(connection),))
        if wrong is None:
            raise SourceUnfit(
                f"The rows cannot be written to {space}.{name}. Check that the schema is there and that the role may "
                "create tables in it, or name the variable of an address whose role may: --url."
            )
        if wrong[0] is not None:
            raise SourceUnfit(wrong[0])

    def _opened_kept(self, connection: server.Connection) -> Table:
        """Return how stored rows are read; they must belong to this source and be within the cap."""
        table = server.kept_rows_table(connection, self._schema, self._relations[0][1], str(self._kept))
        _, excess, nobody = server.fetch_columns(connection, excess_statement(self._schema, table))
        if excess[0] > 0 or nobody[0]:
            raise SourceUnfit("The rows that are kept were changed: more of a person than count. Run `dodona keep`.")
        return table

    def repeated(self) -> tuple[str, ...]:
        """Return the linked tables with more rows of a person than the one that counts: for the owner only."""
        if not self._schema.linked or self._kept is not None:
            return ()
        pairs = zip(unlinked_schemas(self._schema), self._relations, strict=True)
        tables = [server.relation_table(table_schema, relation) for table_schema, (_, relation) in pairs]
        return self._run(lambda fetch: tuple(repeated_tables(self._schema, tables, fetch)), charged=False)

    def _find(self, name: str, needed: Iterable[str]) -> None:
        """Find a table by name, with the columns that are read."""
        space, table_name = server.split_table_name(name)
        find = partial(server.find_relation, needed=needed, space=space, name=table_name)
        self._relations.append((needed, self._session.run(find, charged=False)))

    def close(self) -> None:
        """Release the connection."""
        self._session.close()

    def _run(self, work: Callable[[Fetch], server.ResultT], *, charged: bool) -> server.ResultT:
        """Run statements in one transaction, after checking that the table is unchanged since it was opened."""

        def run(connection: server.Connection) -> server.ResultT:
            self._check_unchanged(connection)
            return work(lambda statement: server.fetch_columns(connection, statement))

        return self._session.run(run, charged=charged)

    def _check_unchanged(self, connection: server.Connection) -> None:
        """Refuse a table whose column types changed since it was opened, as they determine how it is read."""
        for columns, relation in self._relations:
            if not server.types_unchanged(connection, columns, relation):
                raise SourceFailed
        kept = f"{server.KEPT_ROWS_COMMENT}{self._kept}"
        if self._kept is not None and server.table_comment(connection, self._relations[0][1]) != kept:
            raise SourceFailed  # stored again, for another version

    def _check_readable(self) -> None:
        """Read a view once, so that only the owner learns of a row on which it fails."""
        with suppress(SourceFailed):
            self.fingerprint()
            return
        raise SourceUnfit(
            "The view cannot be read within the time-out: it fails on a row, or takes too long. Mend it, or "
            "raise timeout."
        )
