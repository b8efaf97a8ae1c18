"""A session with PostgreSQL: read only, bounded in time, one transaction a question, connected anew after a failure.

Nothing of what the server says in an error leaves here: it may hold rows, and what libpq says may hold the address.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from dodona.backends.faults import SourceUnfit
from dodona.sql.render import Statement
from dodona.trusted.faults import SourceFailed

if TYPE_CHECKING:
    from numpy.typing import NDArray

Connection = psycopg.Connection[tuple[Any, ...]]
Found = TypeVar("Found")

_SETTINGS = {
    "default_transaction_read_only": "on",
    "search_path": "pg_catalog, pg_temp",  # temporary tables come first where they are not named
    "standard_conforming_strings": "on",
    "client_encoding": "UTF8",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    # All rows are read whatever is asked: an index would make the time of an answer tell how many there are of a kind,
    # and one of ranges of blocks would show a single row.
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",  # a statement has hundreds of small expressions: compiling them takes longer than they do
}
_ALIVE = {  # a server that is gone without a word is noticed within two minutes
    "connect_timeout": "10",
    "keepalives_idle": "60",
    "keepalives_interval": "10",
    "keepalives_count": "6",
    "application_name": "dodona source",
}
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"  # all statements of a question see the same rows
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_WORD = 8


class Session:
    """One connection at a time, for one question at a time."""

    def __init__(self, url: str, *, timeout: float) -> None:
        """Connect; no statement may take more seconds than `timeout`."""
        self._url = url
        self._timeout = timeout
        self._lock = threading.Lock()
        self._closed = False
        self._connection: Connection | None = None
        reason = self._reached()
        if reason is not None:  # raised here, so that the address does not travel with it
            raise SourceUnfit(reason)

    def __repr__(self) -> str:
        return "Session"

    def run(self, work: Callable[[Connection], Found], *, charged: bool = True) -> Found:
        """Return what the work returns, in one transaction that reads; it is never tried twice.

        A connection that was lost since the last question is replaced before this one begins. A failure on the way
        closes the connection, and the next question gets a new one.
        """
        with self._lock:
            found = self._tried(work)
        if found is None:  # raised here and not where it failed, so that the server's own words do not travel with it
            raise SourceFailed(charged=charged)
        return found[0]

    def close(self) -> None:
        """Let go of the connection, for good."""
        with self._lock:
            self._closed = True
            self._drop()

    def _tried(self, work: Callable[[Connection], Found]) -> tuple[Found] | None:
        if self._closed:
            return None
        try:
            connection = self._begun()
            found = work(connection)
            connection.execute("COMMIT")
        except psycopg.Error:
            self._drop()
            return None
        except BaseException:
            self._drop()
            raise
        return (found,)

    def _begun(self) -> Connection:
        if self._connection is not None:
            try:
                self._connection.execute(_BEGIN)
            except psycopg.OperationalError:  # it was lost while nothing was asked
                self._drop()
        if self._connection is None:
            self._connection = _connected(self._url, self._timeout)
            self._connection.execute(_BEGIN)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _reached(self) -> str | None:
        """Connect for the first time, and return what is wrong where it fails."""
        try:
            self._connection = _connected(self._url, self._timeout)
        except psycopg.ProgrammingError:
            return (
                "The address of the database cannot be read. Write it as postgresql://role:password@host:5432/database."
            )
        except psycopg.Error as fault:
            refused = fault.pgconn is not None and bool(fault.pgconn.used_password or fault.pgconn.needs_password)
            if refused:
                return "The server does not let this role in with this password. Check both in the address."
            return (
                "The server cannot be reached, or does not let this role in. Check host, port, database and role in "
                "the address, and that the server is running."
            )
        return None


def fetched(connection: Connection, asked: Statement) -> list[NDArray[np.int64]]:
    """Return the columns of a statement's answer; they come as whole numbers of 64 bits, one row a group.

    More rows than the statement has groups are refused: so much never leaves the server's answer.
    """
    names = ["g", *(f"s{place}" for place in range(sum(map(len, asked.scales))))]
    listed = ", ".join(f"CAST({name} AS bigint)" for name in names)
    raw = bytearray()
    with connection.cursor() as cursor:
        sql = f"COPY (SELECT {listed} FROM ({asked.sql}) AS asked) TO STDOUT (FORMAT binary)"  # noqa: S608
        with cursor.copy(sql) as copy:
            for part in copy:
                raw += part
    columns = _columns(raw, len(names))
    if columns is None or len(columns[0]) > asked.groups:
        raise SourceFailed
    return columns


def _columns(raw: bytearray, number: int) -> list[NDArray[np.int64]] | None:
    """Return the columns of PostgreSQL's binary format, where all fields are whole numbers and none is NULL."""
    row = np.dtype([("fields", ">i2"), ("held", [("size", ">i4"), ("value", ">i8")], (number,))])
    body = len(raw) - len(_SIGNATURE) - len(_TRAILER)
    if not raw.startswith(_SIGNATURE) or not raw.endswith(_TRAILER) or body % row.itemsize:
        return None
    rows = np.frombuffer(raw, dtype=row, count=body // row.itemsize, offset=len(_SIGNATURE))
    if np.any(rows["fields"] != number) or np.any(rows["held"]["size"] != _WORD):
        return None
    return list(rows["held"]["value"].astype(np.int64).T.copy())


def writing(url: str, *, timeout: float, work: Callable[[Connection], Found]) -> Found | None:
    """Return what the work of an owner returns, who may write; None where it fails."""
    try:
        connection = _connected(url, timeout)
        with connection:
            connection.execute("SET default_transaction_read_only = off")
            return work(connection)
    except psycopg.Error:
        return None


def _connected(url: str, timeout: float) -> Connection:
    """Return a connection that can only read, and only what is named with its schema."""
    address = make_conninfo("", **(_ALIVE | conninfo_to_dict(url)))
    connection = psycopg.connect(address, autocommit=True, prepare_threshold=None)
    settings = _SETTINGS | {"statement_timeout": str(max(1, round(timeout * 1000)))}
    try:
        listed = ", ".join(["pg_catalog.set_config(%s, %s, false)"] * len(settings))
        connection.execute(f"SELECT {listed}", [text for pair in settings.items() for text in pair])
    except BaseException:
        connection.close()
        raise
    return connection
