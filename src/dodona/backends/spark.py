"""A table behind Spark: Parquet folders, tables of a session, and Spark Connect are asked where they are.

A statement goes out, and sums come back: one row a group, never a row of the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from dodona.backends.cap import cap_key
from dodona.backends.engine import answers, unread_columns
from dodona.backends.faults import SourceUnfit
from dodona.backends.spark_opening import (
    folder,
    forget,
    fresh_name,
    hold_readable,
    kept_folder,
    kept_view,
    named,
    viewed,
    write_kept,
)
from dodona.backends.spark_session import ENGINE, beside, connected, over_network, quiet, running
from dodona.domain.schema import Schema
from dodona.query.query import Query
from dodona.sql.render import Statement, Table, digest
from dodona.sql.render_cap import capped
from dodona.sql.render_dialect import SPARK
from dodona.trusted.faults import SourceFailed
from dodona.trusted.source import Sealed

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession


class SparkSource:
    """Exact answers from Spark. Open one with `parquet`, `table` or `remote`.

    Where people are protected, each of these takes the key of the ledger, which chooses the rows that count; with
    `kept` they were chosen once, by `keep_rows`.
    """

    def __init__(  # noqa: PLR0913  what is opened once
        self,
        session: SparkSession,
        schema: Schema,
        table: Table,
        *,
        view: str,
        version: str,
        leave: Callable[[], None],
    ) -> None:
        """Take a session with the settings of `spark_session`, how its view is read, and how the session is left."""
        self.version = version
        self._schema = schema
        self._session = session
        self._table = table
        self._view = view
        self._leave = leave
        self._closed = False

    def __repr__(self) -> str:
        return f"SparkSource({self._schema.table})"

    @classmethod
    def parquet(  # noqa: PLR0913  what is opened once
        cls,
        schema: Schema,
        path: str | Path,
        *,
        session: SparkSession | None = None,
        version: str = "1",
        key: bytes | None = None,
        kept: str | None = None,
    ) -> Self:
        """Open Parquet files: a folder, a file, a pattern with `*`, or an address that Spark knows.

        Without a session it uses the one that is running, or starts a local one, which it stops when it is closed.
        """
        given, leave = session or running(), _nothing
        if given is None or given is ENGINE.session:
            given, leave = ENGINE.take(), ENGINE.leave
        return cls._opened(
            schema,
            lambda: beside(given),
            lambda own: folder(own, path),
            version=version,
            key=key,
            kept=kept,
            leave=leave,
        )

    @classmethod
    def table(  # noqa: PLR0913  what is opened once
        cls,
        schema: Schema,
        session: SparkSession | None,
        name: str | None = None,
        *,
        version: str = "1",
        key: bytes | None = None,
        kept: str | None = None,
    ) -> Self:
        """Open a table or a view of a session, None for the one that is running, by the name that it knows.

        It is the schema's name if none is given.
        """
        given = session or running()
        if given is None:
            raise SourceUnfit("No Spark session is running that could know the table. Start one, or give a path.")
        known = SPARK.identifier(schema.table) if name is None else name

        def rows(own: SparkSession) -> DataFrame:
            return named(own if over_network(given) else given, known)

        return cls._opened(schema, lambda: beside(given), rows, version=version, key=key, kept=kept, leave=_nothing)

    @classmethod
    def remote(  # noqa: PLR0913  what is opened once
        cls,
        schema: Schema,
        address: str,
        name: str | None = None,
        *,
        version: str = "1",
        key: bytes | None = None,
        kept: str | None = None,
    ) -> Self:
        """Open a table of a Spark Connect server, whose address is such as sc://host:15002."""
        session = connected(address)
        known = SPARK.identifier(schema.table) if name is None else name
        return cls._opened(
            schema, lambda: session, lambda own: named(own, known), version=version, key=key, kept=kept, leave=_nothing
        )

    @classmethod
    def _opened(  # noqa: PLR0913  what is opened once
        cls,
        schema: Schema,
        session: Callable[[], SparkSession],
        rows: Callable[[SparkSession], DataFrame],
        *,
        version: str,
        key: bytes | None,
        kept: str | None,
        leave: Callable[[], None],
    ) -> Self:
        view = fresh_name()
        own: SparkSession | None = None
        try:
            own = session()
            own_key = cap_key(schema, key)
            if kept is None:
                found = viewed(rows(own), schema, own, view)
                table = found if found.person is None else capped(found, schema.unit.rows, own_key)
                hold_readable(own, found, table)
            else:
                table = kept_view(own, schema, kept_folder(kept, schema, version, own_key), view)
        except BaseException:
            if own is not None:
                forget(own, view)
            leave()
            raise
        return cls(own, schema, table, view=view, version=version, leave=leave)

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query, sealed."""
        return answers(query, self._table, rows=self._schema.unit.size, fetch=self._fetched)

    def fingerprint(self) -> str:
        """Return a digest of all that an answer can depend on: the cells of the rows that count, in any order.

        As with any table that is no file of ours, it notices changes that happen by mistake.
        """
        group, *limbs = self._fetched(digest(self._table, self._schema.domain.names))
        del group
        return hashlib.sha256(repr([int(limb[0]) for limb in limbs]).encode("ascii")).hexdigest()

    def unread(self) -> tuple[str, ...]:
        """Return the columns of which no row has a declared value, though there are others: for the owner alone."""
        return unread_columns(self._table, self._fetched)

    def keep_rows(self, kept: str, *, key: bytes) -> None:
        """Write the rows that count into a folder of Parquet, for this version, schema and key."""
        write_kept(self._session, self._table, kept_folder(kept, self._schema, self.version, key))

    def close(self) -> None:
        """Let go of the table; a session that was given goes on."""
        if not self._closed:
            self._closed = True
            forget(self._session, self._view)
            self._leave()

    def _fetched(self, asked: Statement) -> list[NDArray[np.int64]]:
        """Return the columns of a statement's answer."""
        columns: list[NDArray[np.int64]] | None = None
        with quiet():
            try:
                if not self._closed:
                    found = self._session.sql(asked.sql).toArrow()
                    columns = [np.asarray(column.to_numpy(), dtype=np.int64) for column in found.columns]
            except Exception:  # noqa: BLE001  pyspark has no one family of errors
                columns = None
        if columns is None:  # raised here and not above, so that the engine's own words do not travel with it
            raise SourceFailed
        return columns


def _nothing() -> None:
    """Leave a session that somebody else started as it is."""
