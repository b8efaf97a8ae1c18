"""The outer half of a statement: SQL over released rows, in a database in memory that has nothing else.

It is opened without access to files, extensions or settings, and what runs in it is limited in rows, memory and time.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date
from importlib.util import find_spec
from typing import TYPE_CHECKING

from dodona.errors import InvalidRequest
from dodona.query.statement import DRAW

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MOST_ROWS = 100_000
"""The maximum number of rows of a result."""
MOST_SECONDS = 5.0
_MEMORY = "512MB"
_SETTINGS: Mapping[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": _MEMORY,
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
}
_CLOSED = "SET TimeZone = 'UTC'; SET enable_external_access = false; SET lock_configuration = true"
_lock = threading.Lock()
_opened: list[duckdb.DuckDBPyConnection] = []


class OuterFailure(InvalidRequest):
    """The part of a statement that computes on answers could not be run."""

    code = "not-computable"
    sqlstate = "42804"

    def __init__(self, what: str, instead: str) -> None:
        """Say what went wrong and what to write instead."""
        self.what, self.instead = what, instead
        super().__init__(f"{what} {instead}")


_TYPES = "Counts, sums and averages are numbers; keys have the types of their columns."
_WINDOWS = "Compute the window in a sub-select, and use its column outside."
_SMALLER = "Join on equal keys, or group first."


def require_arrow() -> None:
    """Refuse, before anything is charged, where rows of answers cannot be handed to the database."""
    if find_spec("pyarrow") is None:
        what = "What is computed on answers needs pyarrow, which is not installed here."
        raise OuterFailure(what, "Install it (pip install pyarrow), or ask for the counts, sums and averages alone.")


def _database() -> duckdb.DuckDBPyConnection:
    """Return the database of this process; statements use connections of their own."""
    import duckdb

    with _lock:
        if not _opened:  # opening takes longer than most statements
            opened = duckdb.connect(":memory:", config=dict(_SETTINGS))
            opened.execute(_CLOSED)
            _opened.append(opened)
            atexit.register(_close)
        return _opened[0].cursor()


def _close() -> None:
    with _lock:
        while _opened:
            _opened.pop().close()


@contextmanager
def _running(relations: Mapping[str, pa.Table], seconds: float) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection that sees these relations and nothing else, and that is interrupted after a time."""
    import duckdb

    connection = _database()
    ended: list[bool] = []

    def end() -> None:
        ended.append(True)
        connection.interrupt()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    try:
        for name, relation in relations.items():
            connection.register(name, relation)
        timer.start()
        yield connection
    except duckdb.Error as fault:
        if ended:
            raise OuterFailure(f"What is computed on the answers took more than {seconds:g} s.", _SMALLER) from None
        if isinstance(fault, duckdb.OutOfMemoryException):
            raise OuterFailure(f"What is computed on the answers needs more than {_MEMORY}.", _SMALLER) from None
        said = _first_line(fault)
        instead = _WINDOWS if "window functions" in said else _TYPES
        raise OuterFailure(f"This cannot be computed on the answers: {said}", instead) from None
    finally:
        timer.cancel()
        connection.close()


def _first_line(fault: Exception) -> str:
    line = next((part for part in str(fault).splitlines() if part.strip()), "")
    kind, _, rest = line.partition(": ")
    return (rest if kind.endswith("Error") else line)[:300].rstrip(".!") + "."


def run(sql: str, relations: Mapping[str, pa.Table], *, seconds: float = MOST_SECONDS) -> pa.Table:
    """Return the result of a statement over relations of released rows."""
    import pyarrow as pa

    with _running(relations, seconds) as connection:
        table = connection.sql(f"SELECT * FROM ({sql}) LIMIT {MOST_ROWS + 1}").to_arrow_table()  # noqa: S608  read by the splitter
    if table.num_rows > MOST_ROWS:
        raise OuterFailure(f"The result has more than {MOST_ROWS:,} rows.", "Write LIMIT, or join on equal keys.")
    if any(_beyond_calendar(column) for column in table.columns):
        raise OuterFailure("A day is outside the calendar.", "Add less to it: years are from 1 to 9999.")
    nested = next((field.name for field in table.schema if pa.types.is_nested(field.type)), None)
    if nested is not None:  # rows of redraws are matched by single values
        raise OuterFailure(f"Several values stand together in the column '{nested[:60]}'.", "Write each as a column.")
    return table


def _beyond_calendar(column: pa.ChunkedArray) -> bool:
    """Whether a column has days or times that no program reads."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_date(column.type) and not pa.types.is_timestamp(column.type):
        return False
    years = pc.min_max(pc.year(column)).as_py()
    return years["min"] is not None and not date.min.year <= years["min"] <= years["max"] <= date.max.year


def run_redraws(
    sql: str, relations: Mapping[str, pa.Table], draws: int, *, most: int, seconds: float = MOST_SECONDS
) -> pa.Table | None:
    """Return the results for each of some redraws, numbered in the first column; None if it takes too much."""
    # DuckDB fails on some columns that are shown several times; OFFSET keeps it from merging them, and takes longer.
    for once in (sql, f"SELECT * FROM ({sql}) OFFSET 0"):  # noqa: S608  read by the splitter
        each = f"SELECT {DRAW}s.{DRAW}, result_.* FROM range({draws}) AS {DRAW}s({DRAW}), LATERAL ({once}) AS result_"  # noqa: S608
        with suppress(OuterFailure), _running(relations, seconds) as connection:
            table = connection.sql(f"SELECT * FROM ({each}) LIMIT {most + 1}").to_arrow_table()  # noqa: S608
            return table if table.num_rows <= most else None
    return None
