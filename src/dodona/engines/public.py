"""Public tables: files that everyone may know, read whole, with the types that they seem to have."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb

from dodona.engines import duckdb_session as session
from dodona.engines.dialects import DUCKDB
from dodona.errors import InvalidArgument
from dodona.schema.schema import LinkKey, PublicTable

MOST_ROWS = 1_000_000


def read_public_table(name: str, path: Path, key: str) -> PublicTable:
    """Return a public table of a CSV or Parquet file; its types are guessed, as nothing in it is private."""
    known = f"read_parquet({DUCKDB.literal(str(path))})" if path.suffix == ".parquet" else None
    source = known or f"read_csv({DUCKDB.literal(str(path))}, header = true, all_varchar = false)"
    rows: list[Mapping[str, LinkKey | None]] | None = None
    with suppress(duckdb.Error), session.connect(threads=1) as connection:
        cursor = connection.execute(f"FROM {source} LIMIT {MOST_ROWS + 1}")
        names = [str(column[0]) for column in cursor.description]
        rows = [dict(zip(names, map(_value, row), strict=True)) for row in cursor.fetchall()]
    if rows is None:
        raise InvalidArgument("path", path.name, "name a CSV file with a header, or a Parquet file, that can be read")
    if len(rows) > MOST_ROWS:
        raise InvalidArgument("path", path.name, f"it has more than {MOST_ROWS:,} rows; give a smaller table")
    if rows and key not in rows[0]:
        raise InvalidArgument("key", key, f"the file has the columns {', '.join(rows[0])}; write one of them")
    return PublicTable.of(name, key, rows)


def _value(value: object) -> LinkKey | None:
    """Return a value of a file as SQL compares it: numbers exactly, times by their day, anything else as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float() | Decimal():
            return Fraction(str(value)) if value == value and abs(value) != float("inf") else None  # noqa: PLR0124
        case datetime():
            return value.date()
        case date():
            return value
        case _:
            return str(value)
