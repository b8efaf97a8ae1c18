"""Tables in Spark: Parquet folders, session tables, and Spark Connect, queried in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

import numpy as np

from dodona.engines import spark_session as spark
from dodona.engines.answers import answer_query, rows_digest, unread_columns
from dodona.engines.cap import cap_key, counted_table, repeated_tables, unlinked_schemas
from dodona.engines.cells import SourceUnfit
from dodona.engines.dialects import SPARK
from dodona.engines.inspection import FetchedRow, rows_to_columns
from dodona.engines.render import GroupedSql, Table
from dodona.numbers import Integers
from dodona.query.query import Query
from dodona.schema.schema import Schema
from dodona.trusted.source import Sealed, SourceFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# --- Inspection, for the owner: every column unchanged, nothing capped. ---


class SparkInspection:
    """An inspection. Open one with `parquet` or `remote`."""

    dialect = SPARK

    def __init__(self, session: SparkSession, rows: DataFrame, leave: Callable[[], None]) -> None:
        """Take a session of Dodona's, rows that it can query, and how to leave the session."""
        self._session, self._rows, self._leave = session, rows, leave
        self._names = [spark.fresh_name()]
        self.source, self.columns = spark.create_view(rows, session, self._names[0]), spark.describe_columns(rows)

    def __repr__(self) -> str:
        return "SparkInspection()"

    @classmethod
    def parquet(cls, path: str | Path) -> Self:
        """Open Parquet files: a folder, a file, a pattern with `*`, or an address that Spark knows."""
        given, leave = _running_or_local(None)
        return cls._opened(
            lambda: spark.sibling_session(given), lambda session: spark.read_parquet(session, path), leave
        )

    @classmethod
    def remote(cls, address: str, *, table: str) -> Self:
        """Open a table of a Spark Connect server."""
        session = spark.connect(address)
        return cls._opened(
            lambda: session, lambda opened_session: spark.read_table(opened_session, table), _leave_running
        )

    def fetch(self, sql: str) -> Sequence[FetchedRow]:
        """Return the rows of a statement."""
        with spark.silence_logging(), suppress(Exception):  # pyspark has no common base class of errors
            return [tuple(row) for row in self._session.sql(sql).collect()]
        raise SourceUnfit("The rows of the table cannot be read. Look into Spark's own log.")

    def fetched(self, asked: GroupedSql) -> list[Integers]:
        """Return the result columns of a rendered statement."""
        return rows_to_columns(self.fetch(asked.sql))

    def table(self, schema: Schema) -> Table:
        """Return how the declared columns are read."""
        self._names.append(spark.fresh_name())
        return spark.view_table(self._rows, schema, self._session, self._names[-1])

    def close(self) -> None:
        """Release the table; a session that was already running continues."""
        for name in self._names:
            spark.drop_view(self._session, name)
        self._leave()

    @classmethod
    def _opened(
        cls, session: Callable[[], SparkSession], rows: Callable[[SparkSession], DataFrame], leave: Callable[[], None]
    ) -> Self:
        opened_session: SparkSession | None = None
        try:
            opened_session = session()
            return cls(opened_session, rows(opened_session), leave)
        except BaseException:
            if opened_session is not None and spark.is_connect_session(opened_session):
                spark.release_session(opened_session)
            leave()
            raise


def _leave_running() -> None:
    """Leave a session that was already running unchanged."""


def _running_or_local(session: SparkSession | None) -> tuple[SparkSession, Callable[[], None]]:
    """Return this session, or the running one, or a local one that is started; and how to leave it."""
    given = session or spark.current_session()
    if given is None or given is spark.LOCAL_ENGINE.session:
        return spark.LOCAL_ENGINE.take(), spark.LOCAL_ENGINE.leave
    return given, _leave_running


# --- Answers: Parquet folders, session tables, and Spark Connect are queried in place. ---


class Opening(TypedDict, total=False):
    """What a table is opened with, besides its place."""

    version: str
    key: bytes | None
    kept: str | None
    linked: Mapping[str, str | Path]
    """The place of each linked table: a path, or a name where it is another one."""


class SparkSource:
    """Exact answers from Spark. Open one with `parquet`, `table` or `remote`.

    If people are protected, each of these takes the ledger's key, which selects the rows that count; with `kept`,
    `keep_rows` selected them once.
    """

    def __init__(
        self, session: SparkSession, schema: Schema, table: Table, *, version: str, leave: Callable[[], None]
    ) -> None:
        """Take a session with the settings of `spark_session`, how its view is read, and how to leave both."""
        self.version = version
        self._session, self._schema, self._table, self._leave = session, schema, table, leave
        self._closed = False
        self._parts: Sequence[Table] = ()

    def __repr__(self) -> str:
        return f"SparkSource({self._schema.table})"

    @classmethod
    def parquet(
        cls, schema: Schema, path: str | Path, *, session: SparkSession | None = None, **how: Unpack[Opening]
    ) -> Self:
        """Open Parquet files: a folder, a file, a pattern with `*`, or an address that Spark knows.

        Without a session it uses the running one, or starts a local one and stops it on close.
        """
        given, leave = _running_or_local(session)
        places = [path, *(how.get("linked", {})[linked_table.name] for linked_table in schema.linked)]
        rows = [partial(spark.read_parquet, path=place) for place in places]
        return cls._opened(schema, lambda: spark.sibling_session(given), rows, leave, **how)

    @classmethod
    def table(
        cls, schema: Schema, session: SparkSession | None, name: str | None = None, **how: Unpack[Opening]
    ) -> Self:
        """Open a table or view of a session by name; None is the running session.

        The default name is the schema's.
        """
        given = session or spark.current_session()
        if given is None:
            raise SourceUnfit("No Spark session is running that could know the table. Start one, or give a path.")

        def read(opened_session: SparkSession, name: str) -> DataFrame:
            return spark.read_table(opened_session if spark.is_connect_session(given) else given, name)

        rows = [partial(read, name=known) for known in _table_names(schema, name, how)]
        return cls._opened(schema, lambda: spark.sibling_session(given), rows, _leave_running, **how)

    @classmethod
    def remote(cls, schema: Schema, address: str, name: str | None = None, **how: Unpack[Opening]) -> Self:
        """Open a table of a Spark Connect server, with an address such as sc://host:15002."""
        session = spark.connect(address)
        rows = [partial(spark.read_table, name=known) for known in _table_names(schema, name, how)]
        return cls._opened(schema, lambda: session, rows, _leave_running, **how)

    @classmethod
    def _opened(
        cls,
        schema: Schema,
        session: Callable[[], SparkSession],
        rows: Sequence[Callable[[SparkSession], DataFrame]],
        leave: Callable[[], None],
        **how: Unpack[Opening],
    ) -> Self:
        views, version, kept = [spark.fresh_name() for _ in rows], how.get("version", "1"), how.get("kept")
        opened_session: SparkSession | None = None

        def close() -> None:
            if opened_session is not None:
                for view in views:
                    spark.drop_view(opened_session, view)
            leave()

        try:
            opened_session = session()
            own_key = cap_key(schema, how.get("key"))
            if kept is None:
                parts = zip(unlinked_schemas(schema), rows, views, strict=True)
                tables = [
                    spark.view_table(read(opened_session), alone, opened_session, view) for alone, read, view in parts
                ]
                table = counted_table(schema, tables, own_key)
                for held_table in tables:
                    spark.require_readable(opened_session, held_table, table)
            else:
                folder = spark.kept_rows_folder(kept, schema, version, own_key)
                table = spark.kept_rows_view(opened_session, schema, folder, views[0])
        except BaseException:
            close()
            raise
        made = cls(opened_session, schema, table, version=version, leave=close)
        made._parts = tables if kept is None else ()
        return made

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query, sealed."""
        return answer_query(query, self._table, rows=self._schema.unit.size, fetch=self._fetch_columns)

    def fingerprint(self) -> str:
        """Return a digest of the cells of all counted rows."""
        return rows_digest(self._table, self._fetch_columns)

    def unread(self) -> tuple[str, ...]:
        """Return the columns with values but without any declared value: for the owner only."""
        return unread_columns(self._table, self._fetch_columns)

    def repeated(self) -> tuple[str, ...]:
        """Return the linked tables with more rows of a person than the one that counts: for the owner only."""
        linked = self._schema.linked and self._parts
        return tuple(repeated_tables(self._schema, self._parts, self._fetch_columns)) if linked else ()

    def keep_rows(self, kept: str, *, key: bytes) -> None:
        """Store the counted rows in a Parquet folder, for this version, schema and key."""
        spark.write_kept_rows(self._session, self._table, spark.kept_rows_folder(kept, self._schema, self.version, key))

    def close(self) -> None:
        """Release the table; a session passed by the caller continues."""
        if not self._closed:
            self._closed = True
            self._leave()

    def _fetch_columns(self, asked: GroupedSql) -> list[Integers]:
        """Return the result columns of a statement."""
        with spark.silence_logging(), suppress(Exception):  # pyspark has no common base class of errors
            if not self._closed:
                table = self._session.sql(asked.sql).toArrow()
                return [np.asarray(column.to_numpy(), dtype=np.int64) for column in table.columns]
        raise SourceFailed  # here and not above, so that the engine's message is not attached


def _table_names(schema: Schema, name: str | None, how: Opening) -> list[str]:
    """Return the name of each table in a session: the main one, then the linked ones."""
    others = [
        str(how.get("linked", {}).get(linked_table.name, SPARK.identifier(linked_table.name)))
        for linked_table in schema.linked
    ]
    return [SPARK.identifier(schema.table) if name is None else name, *others]
