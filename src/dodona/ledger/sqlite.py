"""A ledger in one SQLite file: write-ahead log, a sync with every commit, one writer at a time."""

import fcntl
import os
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from dodona.ledger.entries import Line
from dodona.ledger.errors import (
    LedgerBusy,
    LedgerForbidden,
    LedgerInUse,
    LedgerMissing,
    LedgerNewer,
    LedgerUnavailable,
    LedgerUnreadable,
)
from dodona.ledger.head import translate_permission_errors
from dodona.ledger.store import Decide, lines_from_rows, row_from_line

Result = TypeVar("Result")

APPLICATION_ID = 0x444F444F
_ENTRIES = (
    """CREATE TABLE entries (
    number INTEGER PRIMARY KEY CHECK (number >= 0),
    previous TEXT NOT NULL CHECK (length(previous) = 64),
    hash TEXT NOT NULL CHECK (length(hash) = 64),
    kind TEXT NOT NULL,
    charge INTEGER REFERENCES entries (number),
    key TEXT UNIQUE,
    text TEXT NOT NULL CHECK (text LIKE '{%}'),
    UNIQUE (kind, charge)
) STRICT""",
    """CREATE TRIGGER entries_follow BEFORE INSERT ON entries
WHEN NEW.number <> (SELECT coalesce(max(number) + 1, 0) FROM entries)
    OR (NEW.number > 0 AND NEW.previous IS NOT (SELECT hash FROM entries WHERE number = NEW.number - 1))
BEGIN SELECT RAISE(ABORT, 'a line follows the last one'); END""",
    """CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'a line is never changed'); END""",
    """CREATE TRIGGER entries_remain BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'a line is never removed'); END""",
)
_CHECKPOINTS = """CREATE TABLE checkpoints (
    number INTEGER PRIMARY KEY REFERENCES entries (number) DEFERRABLE INITIALLY DEFERRED,
    text TEXT NOT NULL CHECK (text LIKE '{%}')
) STRICT"""
SCHEMAS = {1: _ENTRIES, 2: (*_ENTRIES, _CHECKPOINTS)}
"""The tables and rules of a file, by the format of its ledger, which is its user_version."""
PRAGMAS: dict[str, str | int] = {
    "journal_mode": "wal",
    "synchronous": 2,
    "fullfsync": 1,
    "checkpoint_fullfsync": 1,
    "foreign_keys": 1,
    "trusted_schema": 0,
    "cell_size_check": 1,
    "wal_autocheckpoint": 0,
    "busy_timeout": 2,
}
"""Checkpoints are explicit: SQLite does not report a failed sync in an automatic one."""

_MAGIC = b"SQLite format 3\0"
_CORRUPT = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_FORMAT"})
_PAUSE = 0.0005
_INSERT = "INSERT INTO entries (number, previous, hash, kind, charge, key, text) VALUES "
_VALUES = "(?, ?, ?, ?, ?, ?, ?)"
_ROWS = 1000
_FETCH = """SELECT number, previous, hash, text FROM entries
WHERE number BETWEEN ? AND ? AND +kind IN ('charged', 'released', 'created') ORDER BY number"""
"""With the sign, SQLite reads the range of numbers, not an index of all lines of a kind, which it would sort."""
_KEEP = "INSERT INTO checkpoints (number, text) VALUES (?, ?)"
_FLOCK = "hhqqi4x"
_DIGITS = 15  # hexadecimal digits of a hash: a byte offset below 2^60


class FileHolds:
    """Receipt locks on single bytes of an empty file beside the ledger; the system frees them when a process ends.

    They belong to the open file, not to the process, so two ledgers in one process see each other's locks.
    """

    def __init__(self, path: Path, *, like: Path) -> None:
        """Set the path; the file is created at first use, with the ledger's permissions."""
        self._path, self._like = path, like
        self._file: int | None = None

    def hold(self, receipt: str) -> bool:
        """Lock a receipt; return whether that succeeded."""
        return self._locked(receipt, fcntl.F_WRLCK)

    def held(self, receipt: str) -> bool:
        """Return whether another open file has locked a receipt; checking takes no lock."""
        answer = fcntl.fcntl(self._open(), fcntl.F_OFD_GETLK, _lock_record(receipt, fcntl.F_WRLCK))
        lock_type: int = struct.unpack(_FLOCK, answer)[0]
        return lock_type != fcntl.F_UNLCK

    def let_go(self, receipt: str) -> None:
        """Unlock a receipt."""
        self._locked(receipt, fcntl.F_UNLCK)

    def close(self) -> None:
        """Release all locks."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _locked(self, receipt: str, kind: int) -> bool:
        try:
            fcntl.fcntl(self._open(), fcntl.F_OFD_SETLK, _lock_record(receipt, kind))
        except BlockingIOError:
            return False
        return True

    def _open(self) -> int:
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self._path, flags, self._like.stat().st_mode & 0o666)
        return self._file


def _lock_record(receipt: str, kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, int(receipt[:_DIGITS], 16), 1, 0)


class SqliteStore:
    """Lines in an append-only table."""

    def __init__(self, path: Path, *, patience: float = 30.0, commits_between_checkpoints: int = 200) -> None:
        """Open an existing file; wait at most `patience` seconds for other writers."""
        self._patience = patience
        self._commits = 0
        self._between = commits_between_checkpoints
        try:
            with translate_permission_errors(path):
                if not path.is_file():
                    raise LedgerMissing(str(path))
                with path.open("r+b") as file:
                    magic = file.read(len(_MAGIC))
                if not os.access(path.parent, os.W_OK | os.X_OK):  # the write-ahead log is written beside it
                    raise LedgerForbidden(str(path))
            if magic != _MAGIC:
                raise LedgerUnreadable("the file is not a ledger")
            self.holds = FileHolds(path.with_name(path.name + ".holds"), like=path)
            self._connection = connect(path)
            self._patient(self._settle)
        except (OSError, sqlite3.Error, UnicodeDecodeError) as fault:
            raise _translate_error(fault) from fault

    def lines(self, since: int) -> Sequence[Line]:
        """Return the lines from this number on."""
        try:
            return self._patient(lambda: self._lines(since))
        except (sqlite3.Error, UnicodeDecodeError) as fault:
            raise _translate_error(fault) from fault

    def append(self, since: int, decide: Decide) -> None:
        """Append the decided lines in one transaction that excludes all other writers."""
        execute = self._connection.execute
        self._patient(lambda: execute("BEGIN IMMEDIATE"))
        try:
            appended = decide(self._lines(since))
            if appended:
                insert(self._connection, appended)
            execute("COMMIT" if appended else "ROLLBACK")
        except BaseException:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise
        self._commits += 1
        if self._commits >= self._between:
            self._commits = 0
            execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def fetch(self, first: int, last: int) -> Iterator[Line]:
        """Yield the lines of charges and releases, and the first line, from one number to another."""
        try:
            for row in self._patient(lambda: self._connection.execute(_FETCH, (first, last))):
                yield Line(*row)
        except (sqlite3.Error, UnicodeDecodeError) as fault:
            raise _translate_error(fault) from fault

    def states(self) -> Sequence[tuple[int, str]]:
        """Return the states of checkpoints."""
        if self.layout not in SCHEMAS or _CHECKPOINTS not in SCHEMAS[self.layout]:
            return []
        try:
            query = "SELECT number, text FROM checkpoints ORDER BY number"
            return self._patient(lambda: self._connection.execute(query).fetchall())
        except (sqlite3.Error, UnicodeDecodeError) as fault:
            raise _translate_error(fault) from fault

    def keep_state(self, number: int, text: str) -> None:
        """Keep the state of a checkpoint."""
        self._connection.execute(_KEEP, (number, text))

    def replace_states(self, states: Sequence[tuple[int, str]]) -> None:
        """Keep these states instead of those there are."""
        execute = self._connection.execute
        self._patient(lambda: execute("BEGIN IMMEDIATE"))
        try:
            execute("DELETE FROM checkpoints")
            self._connection.executemany(_KEEP, states)
            execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise

    def check_rules(self) -> None:
        """Raise LedgerUnreadable if the rules of the file were removed."""
        self._translate(self._check_rules)

    def check(self) -> None:
        """Raise LedgerUnreadable if the file is damaged or its rules were removed."""
        self._translate(self._check)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep everyone else out: only one who is alone may end the write-ahead log."""
        execute = self._connection.execute
        execute("PRAGMA locking_mode = exclusive").fetchall()
        try:
            execute("PRAGMA journal_mode = delete").fetchall()
        except sqlite3.OperationalError as fault:
            execute("PRAGMA locking_mode = normal").fetchall()
            raise LedgerInUse from fault
        try:
            yield
        finally:
            execute("PRAGMA locking_mode = normal").fetchall()
            execute("PRAGMA journal_mode = wal").fetchall()
            execute("SELECT 1 FROM entries LIMIT 1").fetchall()  # the lock is released by the next read

    def prepare(self, layout: int) -> None:
        """Make the tables that a format has and the one before it had not."""
        for statement in SCHEMAS[layout][len(SCHEMAS[layout - 1]) :]:
            self._connection.execute(statement)
        self._connection.execute(f"PRAGMA user_version = {layout}")

    def close(self) -> None:
        """Close the file."""
        self.holds.close()
        self._connection.close()

    def _settle(self) -> None:
        self._known()  # before any setting is changed: a file of another program must be left as it is
        for name, wanted in PRAGMAS.items():
            self._connection.execute(f"PRAGMA {name} = {wanted}").fetchall()
            ((value,),) = self._connection.execute(f"PRAGMA {name}")
            if value != wanted:
                raise LedgerUnreadable(f"the file does not take {name} = {wanted}")

    def _lines(self, since: int) -> list[Line]:
        query = "SELECT number, previous, hash, kind, charge, key, text FROM entries WHERE number >= ? ORDER BY number"
        return lines_from_rows(self._connection.execute(query, (since,)))

    @property
    def layout(self) -> int:
        """The format that the tables were made for."""
        ((version,),) = self._connection.execute("PRAGMA user_version")
        return int(version)

    def _known(self) -> None:
        ((program,),) = self._connection.execute("PRAGMA application_id")
        if program != APPLICATION_ID or self.layout < min(SCHEMAS):
            raise LedgerUnreadable("the file is not a ledger of this format")
        if self.layout > max(SCHEMAS):
            raise LedgerNewer

    def _check_rules(self) -> None:
        self._known()
        expected = [(text,) for text in SCHEMAS[self.layout]]
        if self._rows("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid") != expected:
            raise LedgerUnreadable("the rules in the file were changed")

    def _check(self) -> None:
        self._check_rules()
        if self._rows("PRAGMA integrity_check(1)") != [("ok",)] or self._rows("PRAGMA foreign_key_check") != []:
            raise LedgerUnreadable("the file is damaged")

    def _rows(self, query: str) -> list[tuple[object, ...]]:
        return list(self._connection.execute(query))

    def _translate(self, work: Callable[[], None]) -> None:
        try:
            self._patient(work)
        except (sqlite3.Error, UnicodeDecodeError) as fault:
            raise _translate_error(fault) from fault

    def _patient(self, work: Callable[[], Result]) -> Result:
        """Return the result of the work, retried while another process holds the file."""
        until = time.monotonic() + self._patience
        while True:
            try:
                return work()
            except sqlite3.OperationalError as fault:
                if not getattr(fault, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                    raise
                if time.monotonic() > until:
                    raise LedgerBusy from fault
            time.sleep(_PAUSE)


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to an existing file; threads take turns on it."""
    address = f"{path.resolve().as_uri()}?mode=rw"
    return sqlite3.connect(address, uri=True, timeout=0, isolation_level=None, check_same_thread=False)


def insert(connection: sqlite3.Connection, lines: Sequence[Line]) -> None:
    """Insert lines; the caller commits.

    In batches: between two statements another thread may take the interpreter, while all wait for this one.
    """
    for start in range(0, len(lines), _ROWS):
        rows = [row_from_line(line) for line in lines[start : start + _ROWS]]
        connection.execute(_INSERT + ", ".join([_VALUES] * len(rows)), [value for row in rows for value in row])


def write_sqlite_ledger(path: Path, first: Line, *, layout: int) -> None:
    """Write a new file of a format with the first line; it is in use only once it has been moved into place."""
    path.touch(mode=0o600)
    connection = connect(path)
    try:
        for statement in (
            f"PRAGMA application_id = {APPLICATION_ID}",
            f"PRAGMA user_version = {layout}",
            "PRAGMA synchronous = 2",
            "BEGIN IMMEDIATE",
            *SCHEMAS[layout],
        ):
            connection.execute(statement)
        insert(connection, [first])
        connection.execute("COMMIT")
    finally:
        connection.close()


def _translate_error(fault: Exception) -> LedgerUnreadable | LedgerUnavailable:
    """Return the error for a failure to open or read, distinguishing a damaged file from a failing disk."""
    if isinstance(fault, UnicodeDecodeError) or getattr(fault, "sqlite_errorname", "") in _CORRUPT:
        return LedgerUnreadable("the file is damaged or not a ledger")
    return LedgerUnavailable()
