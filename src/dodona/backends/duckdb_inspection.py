"""A table of DuckDB, open for its owner: every column as it is, nothing capped and nothing taken in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import duckdb  # noqa: TID251  the adapter
import numpy as np

from dodona.backends.delimited import PLAIN, CsvFormat, Utf8Files, separated
from dodona.backends.duckdb_opening import (
    COARSE,
    DAY_OF_NANOSECONDS,
    Connection,
    attached,
    connected,
    described,
    form_of,
    hold_files,
    hold_readable,
    parquet,
    raw_of,
    shut,
    table_of,
    tables_of,
)
from dodona.backends.faults import SourceUnfit
from dodona.backends.files import found_files, one_file, pattern_base
from dodona.backends.inspection import Held, Row
from dodona.domain.schema import Schema
from dodona.sql.render import Statement, Table
from dodona.sql.render_column import Form
from dodona.sql.render_dialect import DUCKDB, Dialect

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DuckDBInspection:
    """An inspection. Open one with `parquet`, `csv` or `held`."""

    def __init__(
        self, connection: Connection, source: str, form: CsvFormat = PLAIN, *, close: Callable[[], None] | None = None
    ) -> None:
        """Take a connection and SQL for its rows; fields of CSV files have a form, and may be copies to let go of."""
        self._close = close
        self._connection = connection
        self._source = source
        self._form = form
        self._columns = {name: _held(name, kind, source, form) for name, kind in described(connection, source).items()}

    def __repr__(self) -> str:
        return "DuckDBInspection()"

    @classmethod
    def parquet(cls, path: str | Path) -> Self:
        """Open Parquet files: a path, or a pattern with `*`."""
        files = found_files(path)
        connection = _shut_to(files)
        return cls(connection, parquet(connection, files, pattern_base(Path(path))))

    @classmethod
    def csv(cls, path: str | Path, form: CsvFormat = PLAIN) -> Self:
        """Open CSV files: a path, or a pattern."""
        files = found_files(path)
        hold_files(connected(threads=None), files)
        rows = Utf8Files(files, form)
        try:
            return cls(_shut_to(rows.names), separated(rows.names, rows.form), form, close=rows.close)
        except BaseException:
            rows.close()
            raise

    @classmethod
    def held(cls, path: str | Path, *, table: str) -> Self:
        """Open a table, or a view, of a database file, read only."""
        connection = connected(threads=None)
        return cls(connection, attached(connection, one_file(path), table))

    @property
    def dialect(self) -> Dialect:
        """How DuckDB writes SQL."""
        return DUCKDB

    @property
    def source(self) -> str:
        """SQL that can stand after FROM."""
        return self._source

    @property
    def columns(self) -> Mapping[str, Held]:
        """All columns, in the order of the table."""
        return self._columns

    def fetch(self, sql: str) -> Sequence[Row]:
        """Return the rows of a statement."""
        try:
            return self._connection.execute(sql).fetchall()
        except duckdb.Error:
            pass
        raise SourceUnfit(
            "The rows of the table cannot be read. Check that its text is UTF-8, that each line of a CSV file has as "
            "many fields as the first, and that no time is out of range."
        )

    def fetched(self, asked: Statement) -> list[NDArray[np.int64]]:
        """Return the columns of a rendered statement's answer."""
        rows = self.fetch(asked.sql)
        return [np.asarray(column, dtype=np.int64) for column in zip(*rows, strict=True)]

    def table(self, schema: Schema) -> Table:
        """Return how the declared columns are read."""
        found = table_of(self._connection, schema, self._source, self._form)
        hold_readable(self._connection, schema, self._source)
        return found

    def close(self) -> None:
        """Let go of the table."""
        self._connection.close()
        if self._close is not None:
            self._close()


def only_table(path: str | Path) -> str:
    """Return the name of the one table, or view, of a database file."""
    with connected(threads=None) as connection:
        names = tables_of(connection, one_file(path))
    if len(names) == 1:
        return names[0]
    raise SourceUnfit(f"Name a table of the database. It has {', '.join(names) or 'none'}.")


def _shut_to(files: Sequence[str]) -> Connection:
    """Return a connection that can read these files and nothing else."""
    connection = connected(threads=None)
    hold_files(connection, files)
    shut(connection, files)
    return connection


def _held(name: str, kind: str, source: str, form: CsvFormat) -> Held:
    raw = raw_of(name, kind, source)
    if kind in COARSE:
        return Held(f"TRY_CAST({raw} AS TIMESTAMP)", Form.TIME, kind)
    if kind == "TIMESTAMP_NS":
        return Held(DAY_OF_NANOSECONDS.format(raw), Form.DAY, kind)
    return Held(raw, form_of(kind), kind, number=form.number_sql(raw), day=form.day_sql(raw))
