"""Where accounts are kept: one schema in a SQLite file or in PostgreSQL, brought up to date by numbered steps."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dodona.errors import InvalidRequest, Unavailable

if TYPE_CHECKING:
    import psycopg

Result = TypeVar("Result")
Value = str | int | None
Row = tuple[Any, ...]
Execute = Callable[[str, Sequence[Value]], list[Row]]
Prepare = Callable[[Execute, bool], bool]
"""Brings tables up to date, given whether there are any; returns whether there are now."""

Steps = Sequence[Sequence[str]]

# A step is never changed once it was released: a new one is added at the end.
STEPS: Steps = (
    (
        """CREATE TABLE dodona_accounts (
    name TEXT PRIMARY KEY,
    folded TEXT NOT NULL UNIQUE,
    email TEXT UNIQUE,
    issuer TEXT,
    subject TEXT,
    password TEXT,
    salt TEXT NOT NULL CHECK (length(salt) = 32),
    created BIGINT NOT NULL,
    stopped BIGINT,
    UNIQUE (issuer, subject)
)""",
        """CREATE TABLE dodona_grants (
    account TEXT NOT NULL REFERENCES dodona_accounts (name),
    dataset TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('owner', 'analyst', 'auditor')),
    source TEXT NOT NULL CHECK (source IN ('owner', 'login')),
    PRIMARY KEY (account, dataset, source)
)""",
        """CREATE TABLE dodona_tokens (
    id TEXT PRIMARY KEY CHECK (length(id) = 12),
    account TEXT NOT NULL REFERENCES dodona_accounts (name),
    name TEXT NOT NULL,
    digest TEXT NOT NULL CHECK (length(digest) = 64),
    iterations BIGINT NOT NULL,
    stored_key TEXT NOT NULL CHECK (length(stored_key) = 64),
    server_key TEXT NOT NULL CHECK (length(server_key) = 64),
    datasets TEXT,
    max_price TEXT,
    created BIGINT NOT NULL,
    expires BIGINT,
    last_use BIGINT,
    ended BIGINT
)""",
        "CREATE INDEX dodona_tokens_account ON dodona_tokens (account)",
        """CREATE TABLE dodona_sessions (
    digest TEXT PRIMARY KEY CHECK (length(digest) = 64),
    account TEXT NOT NULL REFERENCES dodona_accounts (name),
    created BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    last_use BIGINT NOT NULL
)""",
        "CREATE INDEX dodona_sessions_account ON dodona_sessions (account)",
    ),
    (
        """CREATE TABLE dodona_saved (
    account TEXT NOT NULL REFERENCES dodona_accounts (name),
    dataset TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    content TEXT NOT NULL,
    changed BIGINT NOT NULL,
    PRIMARY KEY (account, dataset, kind, name)
)""",
    ),
)
_STATE = "CREATE TABLE dodona_accounts_state (version BIGINT NOT NULL, revision BIGINT NOT NULL)"

_APPLICATION_ID = 0x444F4143  # "DOAC"
_PATIENCE = 10.0
_TURN = 0.005  # between two tries to have a new file alone
_PAUSE = 1.0
_LIKE_AN_ADDRESS = re.compile(r"^[a-z+]*:/", re.ASCII | re.IGNORECASE)
_SCHEMES = ("postgresql://", "postgres://")


class AccountsUnavailable(Unavailable):
    """The accounts could not be read or written."""

    code = "accounts-unavailable"
    retry_after = 5

    def __init__(self) -> None:
        """Set a constant message."""
        super().__init__("The accounts could not be read or written. Look after their disk or database, and try again.")


class AccountsMissing(Unavailable):
    """There are no accounts at this place."""

    code = "accounts-missing"

    def __init__(self, place: str) -> None:
        """Name the place, and say how to begin."""
        super().__init__(f"There are no accounts at {place}. Make the first with `dodona account add`.")


class AccountsUnreadable(Unavailable):
    """The file or the database holds something else, is of a newer version, or is open to others."""

    code = "accounts-unreadable"

    def __init__(self, fault: str) -> None:
        """State the fault."""
        super().__init__(f"The accounts cannot be used: {fault}.")


class AccountStore(Protocol):
    """Tables of accounts. Threads may share a store; a forked process opens its own."""

    @property
    def believed(self) -> float:
        """For how many seconds a revision that was read may be taken for the newest one."""

    def read(self, query: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return the rows of a query."""

    def write(self, work: Callable[[Execute], Result]) -> Result:
        """Do the work in one transaction that excludes all other writers, and make it durable."""

    def close(self) -> None:
        """Let go of the file or of the connections."""


def open_store(place: str | Path, *, steps: Steps = STEPS) -> AccountStore:
    """Open the accounts at a path or an address; an older schema is brought up to date by the missing steps."""
    address = _address(place)
    prepare = partial(_upgrade_tables, steps)
    return SqliteAccounts(Path(place), prepare) if address is None else PostgresAccounts(address, prepare)


def open_store_late(place: str | Path) -> AccountStore:
    """Open the accounts at a path or an address; where they are out of reach, they are opened when they are back."""
    try:
        return open_store(place)
    except AccountsUnavailable:
        return LateStore(partial(open_store, place))


def create_store(place: str | Path, *, steps: Steps = STEPS) -> AccountStore:
    """Open the accounts at a path or an address; where there are none, create empty ones."""
    address = _address(place)
    prepare = partial(_create_tables, steps)
    if address is not None:
        return PostgresAccounts(address, prepare)
    _create_file(Path(place))
    return SqliteAccounts(Path(place), prepare)


def exists(place: str | Path) -> bool:
    """Return whether there are accounts at a path or an address."""
    try:
        open_store(place).close()
    except AccountsMissing:
        return False
    return True


def display_place(place: str | Path) -> str:
    """Return a place as it may be shown: an address may hold a password."""
    return "a database" if _LIKE_AN_ADDRESS.search(str(place)) else str(place)


def _address(place: str | Path) -> str | None:
    """Return the address of a database; None for a path. A malformed address is never taken for a path."""
    text = str(place)
    if _LIKE_AN_ADDRESS.search(text) is None:
        return None
    if not text.startswith(_SCHEMES) or not text.isprintable():
        raise InvalidRequest("This is not the address of a database. Write postgresql://user@host:port/database.")
    if util.find_spec("psycopg") is None:
        raise InvalidRequest("Accounts in PostgreSQL need psycopg. Run: pip install 'dodona[postgres]'.")
    return text


class LateStore:
    """Accounts out of reach when a server started: who uses them is refused until they can be opened."""

    def __init__(self, opening: Callable[[], AccountStore], *, steady: Callable[[], float] = time.monotonic) -> None:
        """Take what opens them; it is tried once a second."""
        self._opening, self._steady = opening, steady
        self._failed_at = steady()
        self._trying = threading.Lock()
        self._store: AccountStore | None = None

    @property
    def believed(self) -> float:
        """As the store itself says; nothing is known before."""
        return 0.0 if self._store is None else self._store.believed

    def read(self, query: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return the rows of a query."""
        return self._opened().read(query, values)

    def write(self, work: Callable[[Execute], Result]) -> Result:
        """Do the work in one transaction."""
        return self._opened().write(work)

    def close(self) -> None:
        """Close the store, if it was opened."""
        if self._store is not None:
            self._store.close()

    def _opened(self) -> AccountStore:
        with self._trying:
            if self._store is None:
                if self._steady() - self._failed_at < _PAUSE:
                    raise AccountsUnavailable
                self._failed_at = self._steady()
                self._store = self._opening()
            return self._store


# --- The schema. ---


def _create_tables(steps: Steps, run: Execute, there: bool) -> bool:  # noqa: FBT001  a fact, not a switch
    """Create the table of the version where there is none, then take all steps."""
    if not there:
        run(_STATE, ())
        run("INSERT INTO dodona_accounts_state (version, revision) VALUES (0, 0)", ())
    return _upgrade_tables(steps, run, there=True)


def _upgrade_tables(steps: Steps, run: Execute, there: bool) -> bool:  # noqa: FBT001  a fact, not a switch
    """Take the steps that are missing; an interrupted upgrade is undone with its transaction."""
    if not there:
        return False
    ((version,),) = run("SELECT version FROM dodona_accounts_state", ())
    if version > len(steps):
        raise AccountsUnreadable("they are of a newer version of Dodona; use that version")
    for step in steps[version:]:
        for statement in step:
            run(statement, ())
    if version < len(steps):
        run("UPDATE dodona_accounts_state SET version = ?, revision = revision + 1", (len(steps),))
    return True


# --- A SQLite file: write-ahead log, a sync with every commit, readable by its owner alone. ---


def _create_file(path: Path) -> None:
    """Create an empty file for its owner alone; one that is there is left as it is.

    In a folder that was given to a group, for the fronts of a server as two users, the group may use the file too.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with _sqlite_errors(), suppress(FileExistsError):
        folder = path.parent.stat().st_mode
        shared = folder & stat.S_ISGID and folder & stat.S_IWGRP
        file = os.open(path, flags, 0o600)
        try:
            os.fchmod(file, 0o660 if shared else 0o600)  # whatever the mask of the process is
        finally:
            os.close(file)


class SqliteAccounts:
    """Accounts in a SQLite file: one connection reads and one writes, so that a commit holds no reader up."""

    believed = 0.0

    def __init__(self, path: Path, prepare: Prepare) -> None:
        """Open an existing file."""
        if not path.is_file():
            raise AccountsMissing(str(path))
        self._reading, self._writing = threading.Lock(), threading.Lock()
        with _sqlite_errors():
            if stat.S_IMODE(path.stat().st_mode) & 0o007:
                raise AccountsUnreadable(f"everybody may open {path}; run: chmod 600 {path}")
            self._writer = _connect(path)
            try:
                self._settle()
                if not self.write(lambda run: prepare(run, self._has_tables(run))):
                    raise AccountsMissing(str(path))  # noqa: TRY301  the file is closed here, in any case
                self._reader = _connect(path)
            except BaseException:
                self._writer.close()
                raise

    def read(self, query: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return the rows of a query."""
        with self._reading, _sqlite_errors():
            return self._reader.execute(query, values).fetchall()

    def write(self, work: Callable[[Execute], Result]) -> Result:
        """Do the work in one transaction that excludes all other writers, and make it durable."""
        with self._writing, _sqlite_errors():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                result = work(lambda query, values: self._writer.execute(query, values).fetchall())
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            return result

    def close(self) -> None:
        """Close the file."""
        with self._reading, self._writing:
            self._reader.close()
            self._writer.close()

    def _settle(self) -> None:
        # In this order: one that creates the accounts at the same time sets the id before it makes tables.
        ((tables,),) = self._writer.execute("SELECT count(*) FROM sqlite_master")
        ((kind,),) = self._writer.execute("PRAGMA application_id")
        if kind != _APPLICATION_ID and tables:  # before any setting is changed: another program's file stays as it is
            raise AccountsUnreadable("the file is of another program")
        self._begin_log()
        self._writer.execute("PRAGMA synchronous = 2").fetchall()
        if kind != _APPLICATION_ID:  # written once: a full disk must not keep anyone from reading
            self._writer.execute(f"PRAGMA application_id = {_APPLICATION_ID}").fetchall()

    def _begin_log(self) -> None:
        """Switch to a write-ahead log; SQLite itself does not wait for others that open a new file at the same time."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                self._writer.execute("PRAGMA journal_mode = wal").fetchall()
            except sqlite3.OperationalError as fault:
                if not getattr(fault, "sqlite_errorname", "").startswith("SQLITE_BUSY") or time.monotonic() > until:
                    raise
                time.sleep(_TURN)
            else:
                return

    @staticmethod
    def _has_tables(run: Execute) -> bool:
        return bool(run("SELECT 1 FROM sqlite_master WHERE name = 'dodona_accounts_state'", ()))


def _connect(path: Path) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    for setting in ("foreign_keys = 1", "trusted_schema = 0", "synchronous = 2"):
        connection.execute(f"PRAGMA {setting}")
    return connection


@contextmanager
def _sqlite_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as fault:
        if getattr(fault, "sqlite_errorname", "") in {"SQLITE_NOTADB", "SQLITE_CORRUPT"}:
            raise AccountsUnreadable("the file is damaged, or of another program") from None
        raise AccountsUnavailable from None
    except OSError:
        raise AccountsUnavailable from None


# --- PostgreSQL: for several hosts. ---


class PostgresAccounts:
    """Accounts in a database: one connection reads and one writes; both are opened again when the server was away."""

    believed = 1.0

    def __init__(self, address: str, prepare: Prepare) -> None:
        """Connect; the address is kept, and never shown."""
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._reader, self._writer = _Line(address), _Line(address)
        try:
            if not self.write(lambda run: prepare(run, self._has_tables(run))):
                raise AccountsMissing("this address")  # noqa: TRY301  the connections are closed here, in any case
        except BaseException:
            self.close()
            raise

    def read(self, query: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return the rows of a query; a connection that was lost is opened again, once."""
        import psycopg

        with self._reading, _postgres_errors():
            try:
                return _run(self._reader.connection(), query, values)
            except psycopg.OperationalError:
                return _run(self._reader.reopen(), query, values)

    def write(self, work: Callable[[Execute], Result]) -> Result:
        """Do the work in one transaction that excludes all other writers, and make it durable.

        Only what comes before the work is tried again on a new connection: a lost commit may have been made.
        """
        import psycopg

        with self._writing, _postgres_errors():
            try:
                connection = self._writer.connection()
                connection.execute("SELECT 1")
            except psycopg.OperationalError:
                connection = self._writer.reopen()
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('dodona accounts', 0))")
                return work(lambda query, values: _run(connection, query, values))

    def close(self) -> None:
        """Close the connections."""
        with self._reading, self._writing:
            self._reader.close()
            self._writer.close()

    @staticmethod
    def _has_tables(run: Execute) -> bool:
        return bool(run("SELECT 1 WHERE to_regclass('dodona_accounts_state') IS NOT NULL", ()))


class _Line:
    """A connection that is opened when it is needed; after a failure, callers are refused for a moment without a try.

    A server that cannot be reached would otherwise hold up every request for as long as it takes to notice.
    """

    def __init__(self, address: str, *, steady: Callable[[], float] = time.monotonic) -> None:
        self._address, self._steady = address, steady
        self._connection: psycopg.Connection[Any] | None = None
        self._failed_at = float("-inf")

    def connection(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = self._open()
        return self._connection

    def reopen(self) -> psycopg.Connection[Any]:
        self.close()
        return self.connection()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> psycopg.Connection[Any]:
        import psycopg

        if self._steady() - self._failed_at < _PAUSE:
            raise AccountsUnavailable
        patience = int(_PATIENCE)
        try:
            opened = psycopg.connect(
                self._address, autocommit=True, connect_timeout=patience, tcp_user_timeout=1000 * patience
            )
            opened.execute("SET synchronous_commit = 'on'")  # a server may be set to lose the last commits
            opened.execute(f"SET lock_timeout = '{patience}s'")
            opened.execute(f"SET statement_timeout = '{2 * patience}s'")
        except (psycopg.Error, OSError):
            self._failed_at = self._steady()
            raise
        return opened


def _run(connection: psycopg.Connection[Any], query: str, values: Sequence[Value]) -> list[Row]:
    done = connection.execute(query.replace("?", "%s").encode(), values)
    return done.fetchall() if done.description is not None else []


@contextmanager
def _postgres_errors() -> Iterator[None]:
    """Hide what a driver says: it may quote the address, or a row."""
    import psycopg

    try:
        yield
    except (psycopg.Error, OSError):
        raise AccountsUnavailable from None
