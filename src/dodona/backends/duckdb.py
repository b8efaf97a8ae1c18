"""A table behind DuckDB: Parquet files and tables of a database are asked where they are, CSV and frames are taken in.

Before the first question a connection is closed to the outside: it can read the files of the table and no others.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

import duckdb  # noqa: TID251  the adapter
import numpy as np

from dodona.backends.delimited import PLAIN, CsvFormat, Utf8Files, separated
from dodona.backends.duckdb_opening import (
    Connection,
    attached,
    connected,
    framed,
    hold_files,
    hold_readable,
    parquet,
    register,
    shut,
    table_of,
    take_in,
)
from dodona.backends.engine import answers, unread_columns
from dodona.backends.files import found_files, one_file, pattern_base
from dodona.domain.schema import Schema
from dodona.query.query import Query
from dodona.sql.render import Statement, Table, digest
from dodona.trusted.faults import SourceFailed
from dodona.trusted.source import Sealed

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DuckDBSource:
    """Exact answers from DuckDB. Open one with `parquet`, `csv`, `table` or `frame`.

    Where people are protected, each of these takes the key of the ledger, which chooses the rows that count.
    """

    def __init__(self, connection: Connection, schema: Schema, table: Table, *, version: str) -> None:
        """Take a connection that is closed to the outside, and how its table is read."""
        self.version = version
        self._schema = schema
        self._connection = connection
        self._table = table
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"DuckDBSource({self._schema.table})"

    @classmethod
    def parquet(
        cls,
        schema: Schema,
        path: str | Path,
        *,
        version: str = "1",
        threads: int | None = None,
        key: bytes | None = None,
    ) -> Self:
        """Open Parquet files: a path, or a pattern with `*`. They are read anew for each question."""
        files = found_files(path)
        connection = connected(threads=threads)
        hold_files(connection, files)
        shut(connection, files)
        source = parquet(connection, files, pattern_base(Path(path)))
        return cls._opened(connection, schema, source, version=version, key=key)

    @classmethod
    def csv(  # noqa: PLR0913  what a file of rows has
        cls,
        schema: Schema,
        path: str | Path,
        *,
        form: CsvFormat = PLAIN,
        version: str = "1",
        threads: int | None = None,
        key: bytes | None = None,
    ) -> Self:
        """Open CSV files: a path, or a pattern. Unless the form says otherwise, an empty field is missing."""
        files = found_files(path)
        connection = connected(threads=threads)
        hold_files(connection, files)
        rows = Utf8Files(files, form)
        try:
            source = separated(rows.names, rows.form)
            taken = take_in(connection, schema, table_of(connection, schema, source, form), key)
        finally:
            rows.close()
        shut(connection, [])
        return cls(connection, schema, taken, version=version)

    @classmethod
    def table(  # noqa: PLR0913  each is named
        cls,
        schema: Schema,
        path: str | Path,
        *,
        table: str | None = None,
        version: str = "1",
        threads: int | None = None,
        key: bytes | None = None,
    ) -> Self:
        """Open a table, or a view of tables, of a database file, read only.

        Its name is the schema's if none is given.
        """
        connection = connected(threads=threads)
        source = attached(connection, one_file(path), schema.table if table is None else table)
        return cls._opened(connection, schema, source, version=version, key=key)

    @classmethod
    def frame(
        cls, schema: Schema, frame: object, *, version: str = "1", threads: int | None = None, key: bytes | None = None
    ) -> Self:
        """Take in a table of pandas, polars or Arrow; what happens to it later makes no difference."""
        from dodona.backends.frame import arrow_table  # loads pyarrow, which files do without

        taken, coded = arrow_table(schema, frame)
        connection = connected(threads=threads)
        register(connection, "frame", taken)
        own = take_in(connection, schema, framed(connection, schema, "frame", coded=coded), key)
        connection.unregister("frame")
        shut(connection, [])
        return cls(connection, schema, own, version=version)

    @classmethod
    def _opened(cls, connection: Connection, schema: Schema, source: str, *, version: str, key: bytes | None) -> Self:
        """Return the source of a table over a connection that is shut already: what is looked at may be hostile."""
        table = table_of(connection, schema, source)
        hold_readable(connection, schema, source)
        if table.person is not None:  # which rows count is found once, not with every question
            table = take_in(connection, schema, table, key)
        return cls(connection, schema, table, version=version)

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query, sealed."""
        return answers(query, self._table, rows=self._schema.unit.size, fetch=self._fetched)

    def fingerprint(self) -> str:
        """Return a digest of all that an answer can depend on: the cells of the rows, in any order.

        A row's cells are written as text and hashed; the hashes are added up, so that rows may come in any order. This
        notices changes that happen by mistake. Where the table is files, `fingerprint.fingerprint` of them is stronger.
        """
        group, *limbs = self._fetched(digest(self._table, self._schema.domain.names))
        del group
        return hashlib.sha256(repr([int(limb[0]) for limb in limbs]).encode("ascii")).hexdigest()

    def unread(self) -> tuple[str, ...]:
        """Return the columns of which no row has a declared value, though there are others: for the owner alone."""
        return unread_columns(self._table, self._fetched)

    def close(self) -> None:
        """Let go of the table."""
        with self._lock:
            self._connection.close()

    def _fetched(self, asked: Statement) -> list[NDArray[np.int64]]:
        """Return the columns of a statement's answer."""
        with self._lock:
            try:
                columns = self._connection.execute(asked.sql).fetchnumpy()
            except duckdb.Error:
                columns = None
        if columns is None:  # raised here and not above, so that the engine's own words do not travel with it
            raise SourceFailed
        return [np.asarray(column, dtype=np.int64) for column in columns.values()]
