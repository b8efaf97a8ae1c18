"""Tables in a real PostgreSQL: the one server of this process, a schema of its own for each table."""

from __future__ import annotations

from itertools import count
from typing import Any

import psycopg
import pyarrow as pa

from dodona.engines.dialects import POSTGRES
from tests.ledger.scene import shared_server

_NUMBERS = count()
_TYPES = {
    pa.string(): "text",
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.uint8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.uint32(): "bigint",
    pa.int64(): "bigint",
    pa.uint64(): "numeric(20)",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
}


def owner() -> psycopg.Connection[tuple[Any, ...]]:
    """A connection that may do everything."""
    return psycopg.connect(shared_server().address, autocommit=True)


def type_of(kind: pa.DataType) -> str:
    """The type that holds just what an Arrow type holds."""
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return _TYPES[kind]


def held(table: str, columns: dict[str, list[Any]], types: dict[str, str]) -> str:
    """Write rows into a new table, and return its name with its schema."""
    space = f"made_{next(_NUMBERS)}"
    name = f"{space}.{POSTGRES.identifier(table)}"
    listed = ", ".join(f"{POSTGRES.identifier(column)} {kind}" for column, kind in types.items())
    with owner() as connection:
        connection.execute(f"CREATE SCHEMA {space}")
        connection.execute(f"CREATE TABLE {name} ({listed})")
        with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in zip(*(columns[column] for column in types), strict=True):
                copy.write_row(row)
    return f"{space}.{table}"
