"""Tables in DuckDB: Parquet files and database tables are queried in place, CSV files and frames are loaded.

A connection can read the files of its table and nothing else: no extensions, no writes.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import duckdb
import numpy as np

from dodona.engines import duckdb_session as session
from dodona.engines.answers import answer_query, rows_digest, unread_columns
from dodona.engines.cap import unlinked_schemas
from dodona.engines.cells import ColumnForm, SourceUnfit
from dodona.engines.dialects import DUCKDB
from dodona.engines.files import PLAIN_CSV, CsvFormat, Place, Utf8Files, csv_sql, list_files, pattern_base, single_file
from dodona.engines.inspection import FetchedRow, SourceColumn, rows_to_columns
from dodona.engines.render import GroupedSql, Table
from dodona.numbers import Integers
from dodona.query.query import Query
from dodona.schema.schema import Schema
from dodona.trusted.source import Sealed, SourceFailed

# --- Inspection, for the owner: every column unchanged, nothing capped and nothing loaded. ---


class DuckDBInspection:
    """An inspection. Open one with `parquet`, `csv` or `held`."""

    dialect = DUCKDB

    def __init__(self, connection: session.Connection, source: str, copies: Utf8Files | None = None) -> None:
        """Take a connection and SQL for its rows; of CSV files also the copies that are read, which it closes."""
        self._connection, self._copies = connection, copies
        self._form = PLAIN_CSV if copies is None else copies.form
        self.source, kinds = source, session.column_types(connection, source)
        self.columns = {name: _source_column(name, kind, source, self._form) for name, kind in kinds.items()}

    def __repr__(self) -> str:
        return "DuckDBInspection()"

    @classmethod
    def parquet(cls, path: Place) -> Self:
        """Open Parquet files: a path, or a pattern with `*`."""
        files = list_files(path)
        connection = _connect_to_files(files)
        return cls(connection, session.parquet_sql(connection, files, pattern_base(Path(path))))

    @classmethod
    def csv(cls, path: Place, form: CsvFormat = PLAIN_CSV) -> Self:
        """Open CSV files: a path, or a pattern."""
        files = list_files(path)
        session.require_same_files_in_duckdb(session.connect(), files)
        rows = Utf8Files(files, form, pattern_base(Path(path)))
        try:
            return cls(_connect_to_files(rows.names), csv_sql(rows), rows)
        except BaseException:
            rows.close()
            raise

    @classmethod
    def held(cls, path: Place, *, table: str) -> Self:
        """Open a table, or a view, of a database file, read only."""
        connection = session.connect()
        return cls(connection, session.attach_table(connection, single_file(path), table))

    def fetch(self, sql: str) -> Sequence[FetchedRow]:
        """Return the rows of a statement."""
        with suppress(duckdb.Error):
            return self._connection.execute(sql).fetchall()
        raise SourceUnfit(
            "The rows of the table cannot be read. Check that its text is UTF-8, that each line of a CSV file has as "
            "many fields as the first, and that no time is out of range."
        )

    def fetched(self, asked: GroupedSql) -> list[Integers]:
        """Return the result columns of a rendered statement."""
        return rows_to_columns(self.fetch(asked.sql))

    def table(self, schema: Schema) -> Table:
        """Return how the declared columns are read."""
        table = session.declared_table(self._connection, schema, self.source, self._form)
        session.require_readable(self._connection, schema, self.source)
        return table

    def close(self) -> None:
        """Release the table."""
        self._connection.close()
        if self._copies is not None:
            self._copies.close()


def only_table(path: Place) -> str:
    """Return the name of the only table or view of a database file."""
    with session.connect() as connection:
        names = session.list_tables(connection, single_file(path))
    if len(names) == 1:
        return names[0]
    raise SourceUnfit(f"Name a table of the database. It has {', '.join(names) or 'none'}.")


def _connect_to_files(files: Sequence[str], *, threads: int | None = None) -> session.Connection:
    """Return a connection that can read these files and nothing else."""
    connection = session.connect(threads=threads)
    session.require_same_files_in_duckdb(connection, files)
    session.restrict_to_files(connection, files)
    return connection


def _source_column(name: str, kind: str, source: str, form: CsvFormat) -> SourceColumn:
    raw = session.raw_column_sql(name, kind, source)
    if kind in session.COARSE_TIMESTAMPS:
        return SourceColumn(f"TRY_CAST({raw} AS TIMESTAMP)", ColumnForm.TIME, kind)
    if kind == "TIMESTAMP_NS":
        return SourceColumn(session.DAY_OF_NANOSECONDS.format(raw), ColumnForm.DAY, kind)
    return SourceColumn(raw, session.form_of_type(kind), kind, number=form.number_sql(raw), time=form.time_sql(raw))


# --- Answers: Parquet files and database tables are queried in place, CSV files and frames are loaded. ---


NOTHING_LINKED: Mapping[str, Any] = MappingProxyType({})


class DuckDBSource:
    """Exact answers from DuckDB. Open one with `parquet`, `csv`, `table` or `frame`.

    If people are protected, each of these takes the ledger's key, which selects the rows that count.
    """

    def __init__(self, connection: session.Connection, schema: Schema, table: Table, *, version: str) -> None:
        """Take a locked-down connection, and how its table is read."""
        self.version = version
        self._connection, self._schema, self._table = connection, schema, table
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"DuckDBSource({self._schema.table})"

    @classmethod
    def parquet(  # noqa: PLR0913  what is opened once
        cls,
        schema: Schema,
        path: Place,
        *,
        version: str = "1",
        threads: int | None = None,
        key: bytes | None = None,
        linked: Mapping[str, Place] = NOTHING_LINKED,
    ) -> Self:
        """Open Parquet files: a path, or a pattern with `*`. They are read again for each question.

        `linked` has the place of each linked table, by name.
        """
        places = [path, *(linked[linked_table.name] for linked_table in schema.linked)]
        files = [list_files(place) for place in places]
        connection = _connect_to_files([name for table_files in files for name in table_files], threads=threads)
        pairs = zip(files, places, strict=True)
        sources = [
            session.parquet_sql(connection, table_files, pattern_base(Path(place))) for table_files, place in pairs
        ]
        return cls._open_tables(connection, schema, sources, version=version, key=key)

    @classmethod
    def csv(  # noqa: PLR0913  what is opened once
        cls,
        schema: Schema,
        path: Place,
        *,
        form: CsvFormat = PLAIN_CSV,
        version: str = "1",
        key: bytes | None = None,
        linked: Mapping[str, Place] = NOTHING_LINKED,
    ) -> Self:
        """Open CSV files: a path, or a pattern. By default, an empty field is missing.

        `linked` has the place of each linked table, by name; its files have the same format.
        """
        connection, tables = session.connect(), list[Table]()
        with ExitStack() as copies:
            for table_schema, place in zip(
                unlinked_schemas(schema), [path, *(linked[table.name] for table in schema.linked)], strict=True
            ):
                files = list_files(place)
                session.require_same_files_in_duckdb(connection, files)
                rows = Utf8Files(files, form.of_table(table_schema.table), pattern_base(Path(place)))
                copies.callback(rows.close)
                tables.append(session.declared_table(connection, table_schema, csv_sql(rows), form))
            taken = cls._load_counted(connection, schema, tables, key)
        session.restrict_to_files(connection, [])
        return cls(connection, schema, taken, version=version)

    @classmethod
    def table(  # noqa: PLR0913  what is opened once
        cls,
        schema: Schema,
        path: Place,
        *,
        table: str | None = None,
        version: str = "1",
        key: bytes | None = None,
        linked: Mapping[str, str] = NOTHING_LINKED,
    ) -> Self:
        """Open a table or view of a database file, read only; default names are the schema's.

        `linked` has the name of each linked table in that file, where it is another one.
        """
        connection = session.connect()
        main = session.attach_table(connection, single_file(path), schema.table if table is None else table)
        others = [
            session.attached_name(linked.get(linked_table.name, linked_table.name)) for linked_table in schema.linked
        ]
        return cls._open_tables(connection, schema, [main, *others], version=version, key=key)

    @classmethod
    def frame(
        cls, schema: Schema, frame: object, *, version: str = "1", threads: int | None = None, key: bytes | None = None
    ) -> Self:
        """Load a pandas, polars or Arrow table; later changes to it have no effect.

        With linked tables, `frame` is a mapping of table names to frames.
        """
        from dodona.engines.frames import arrow_table

        frames = _frames_by_table(schema, frame)
        connection, tables = session.connect(threads=threads), list[Table]()
        for place, table_schema in enumerate(unlinked_schemas(schema)):
            taken, coded = arrow_table(table_schema, frames[place], plain_id=bool(schema.linked))
            session.register_table(connection, f"frame{place}", taken)
            tables.append(session.frame_table(connection, table_schema, f"frame{place}", coded=coded))
        counted = cls._load_counted(connection, schema, tables, key)
        for place in range(len(tables)):
            connection.unregister(f"frame{place}")
        session.restrict_to_files(connection, [])
        return cls(connection, schema, counted, version=version)

    @classmethod
    def _open_tables(
        cls, connection: session.Connection, schema: Schema, sources: Sequence[str], *, version: str, key: bytes | None
    ) -> Self:
        """Open tables over a connection that is already locked down: their content may be hostile."""
        tables = list[Table]()
        for table_schema, source in zip(unlinked_schemas(schema), sources, strict=True):
            tables.append(session.declared_table(connection, table_schema, source))
            session.require_readable(connection, table_schema, source)
        if schema.unit.id is None:
            return cls(connection, schema, tables[0], version=version)
        # select the counted rows once, not with every question
        return cls(connection, schema, cls._load_counted(connection, schema, tables, key), version=version)

    @staticmethod
    def _load_counted(
        connection: session.Connection, schema: Schema, tables: Sequence[Table], key: bytes | None
    ) -> Table:
        """Load the rows that count."""
        if schema.linked:
            return session.load_linked(connection, schema, tables, key, partial(_fetch_columns, connection))
        return session.load_codes(connection, schema, tables[0], key)

    def repeated(self) -> tuple[str, ...]:
        """Return the linked tables with more rows of a person than the one that counts: for the owner only."""
        with self._lock, suppress(duckdb.Error):
            rows = self._connection.execute("SELECT name FROM repeated").fetchall() if self._schema.linked else []
            return tuple(str(name) for (name,) in rows)
        raise SourceFailed(charged=False)

    def exact(self, query: Query) -> Sealed:
        """Return all answers of a query, sealed."""
        return answer_query(query, self._table, rows=self._schema.unit.size, fetch=self._fetched)

    def fingerprint(self) -> str:
        """Return a digest of the cells of all counted rows."""
        return rows_digest(self._table, self._fetched)

    def unread(self) -> tuple[str, ...]:
        """Return the columns with values but without any declared value: for the owner only."""
        return unread_columns(self._table, self._fetched)

    def close(self) -> None:
        """Release the table."""
        with self._lock:
            self._connection.close()

    def _fetched(self, asked: GroupedSql) -> list[Integers]:
        """Return the result columns of a statement."""
        with self._lock, suppress(duckdb.Error):
            return _fetch_columns(self._connection, asked)
        raise SourceFailed  # here and not above, so that the engine's message is not attached


def _fetch_columns(connection: session.Connection, asked: GroupedSql) -> list[Integers]:
    columns = connection.execute(asked.sql).fetchnumpy()
    return [np.asarray(column, dtype=np.int64) for column in columns.values()]


def _frames_by_table(schema: Schema, frame: object) -> list[object]:
    """Return the frame of each table: the main one, then the linked ones."""
    if not schema.linked:
        return [frame]
    names = [table_schema.table for table_schema in unlinked_schemas(schema)]
    if not isinstance(frame, Mapping) or set(frame) != set(names):
        raise SourceUnfit(
            f"The schema has several tables. Give a frame of each: {{{', '.join(map(repr, names))}: ...}}."
        )
    return [frame[name] for name in names]
