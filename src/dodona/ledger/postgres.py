"""A ledger in PostgreSQL: one writer at a time by an advisory lock, and synchronous commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from dodona.errors import InvalidRequest
from dodona.ledger import errors
from dodona.ledger.checkpoint import CHECKPOINT_FORMAT
from dodona.ledger.entries import Line
from dodona.ledger.head import Mark
from dodona.ledger.store import Decide, lines_from_rows, row_from_line

if TYPE_CHECKING:
    import psycopg

Result = TypeVar("Result")

RULES = ("dodona_follow", "dodona_stay", "dodona_whole")
SCHEMA = """
CREATE TABLE IF NOT EXISTS dodona_entries (
    ledger text NOT NULL CHECK (length(ledger) BETWEEN 1 AND 100),
    number bigint NOT NULL CHECK (number >= 0),
    previous text NOT NULL CHECK (length(previous) = 64),
    hash text NOT NULL CHECK (length(hash) = 64),
    kind text NOT NULL,
    charge bigint,
    key text,
    text text NOT NULL CHECK (text LIKE '{%}'),
    PRIMARY KEY (ledger, number),
    UNIQUE (ledger, kind, charge),
    UNIQUE (ledger, key),
    FOREIGN KEY (ledger, charge) REFERENCES dodona_entries (ledger, number)
);
CREATE OR REPLACE FUNCTION dodona_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'a line is never changed or removed'; END $$;
CREATE OR REPLACE FUNCTION dodona_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.number > 0 AND NOT EXISTS (
        SELECT FROM dodona_entries WHERE ledger = NEW.ledger AND number = NEW.number - 1 AND hash = NEW.previous
    ) THEN RAISE EXCEPTION 'a line follows the last one'; END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER dodona_follow BEFORE INSERT ON dodona_entries
    FOR EACH ROW EXECUTE FUNCTION dodona_follow();
CREATE OR REPLACE TRIGGER dodona_stay BEFORE UPDATE OR DELETE ON dodona_entries
    FOR EACH ROW EXECUTE FUNCTION dodona_refuse();
CREATE OR REPLACE TRIGGER dodona_whole BEFORE TRUNCATE ON dodona_entries
    FOR EACH STATEMENT EXECUTE FUNCTION dodona_refuse();
"""
CHECKPOINTS = """
CREATE TABLE IF NOT EXISTS dodona_checkpoints (
    ledger text NOT NULL,
    number bigint NOT NULL,
    text text NOT NULL CHECK (text LIKE '{%}'),
    PRIMARY KEY (ledger, number),
    FOREIGN KEY (ledger, number) REFERENCES dodona_entries (ledger, number) DEFERRABLE INITIALLY DEFERRED
)
"""
_INSERT = """
INSERT INTO dodona_entries (ledger, number, previous, hash, kind, charge, key, text)
SELECT %s, * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[])
"""
_SELECT = """
SELECT number, previous, hash, kind, charge, key, text FROM dodona_entries
WHERE ledger = %s AND number >= %s ORDER BY number
"""
_FETCH = """
SELECT number, previous, hash, text FROM dodona_entries
WHERE ledger = %s AND number BETWEEN %s AND %s AND kind IN ('charged', 'released', 'created') ORDER BY number
"""
_KEEP = "INSERT INTO dodona_checkpoints (ledger, number, text) VALUES (%s, %s, %s)"
_OPEN = "hashtextextended('dodona ledger open ' || %s, 0)"
_SHARE = f"SELECT pg_try_advisory_lock_shared({_OPEN})"
_ALONE = f"SELECT pg_try_advisory_lock({_OPEN})"
_NOT_ALONE = f"SELECT pg_advisory_unlock({_OPEN})"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('dodona ledger ' || %s, 0))"
_DURABLE = ("fsync", "full_page_writes")
_HOLD = "SELECT pg_try_advisory_lock(%s)"
_LET_GO = "SELECT pg_advisory_unlock(%s)"
_HELD = "SELECT CASE WHEN pg_try_advisory_lock_shared(%s) THEN NOT pg_advisory_unlock_shared(%s) ELSE true END"


class PostgresStore:
    """Lines of one ledger in an append-only table."""

    def __init__(self, address: str, name: str, *, patience: float = 30.0) -> None:
        """Connect; wait at most `patience` seconds for other writers."""
        self._name = name
        self._connection = _translate_errors(lambda: connect(address, patience))
        try:
            _translate_errors(self._known)
            if not self._lock(_SHARE):
                raise errors.LedgerBusy  # noqa: TRY301  it is being upgraded
        except BaseException:
            self._connection.close()
            raise

    @property
    def holds(self) -> ServerHolds:
        """Advisory locks of this session, which the server frees when it ends."""
        return ServerHolds(self._connection)

    def lines(self, since: int) -> Sequence[Line]:
        """Return the lines from this number on."""
        return _translate_errors(lambda: self._lines(since))

    def append(self, since: int, decide: Decide) -> None:
        """Append the decided lines in one transaction that excludes all other writers."""
        import psycopg

        def write() -> None:
            with self._connection.transaction():
                try:
                    self._connection.execute(_LOCK, (self._name,))
                except psycopg.errors.LockNotAvailable as fault:
                    raise errors.LedgerBusy from fault
                appended = decide(self._lines(since))
                if appended:
                    columns = [list(column) for column in zip(*(row_from_line(line) for line in appended), strict=True)]
                    self._connection.execute(_INSERT, (self._name, *columns))

        _translate_errors(write)

    def fetch(self, first: int, last: int) -> list[Line]:
        """Return the lines of charges and releases, and the first line, from one number to another."""
        rows = _translate_errors(lambda: self._connection.execute(_FETCH, (self._name, first, last)).fetchall())
        return [Line(*row) for row in rows]

    def states(self) -> list[tuple[int, str]]:
        """Return the states of checkpoints."""
        query = "SELECT number, text FROM dodona_checkpoints WHERE ledger = %s ORDER BY number"

        def read() -> list[tuple[int, str]]:
            ((table,),) = self._connection.execute("SELECT to_regclass('dodona_checkpoints')").fetchall()
            rows = [] if table is None else self._connection.execute(query, (self._name,)).fetchall()
            return [(int(number), str(text)) for number, text in rows]

        return _translate_errors(read)

    def keep_state(self, number: int, text: str) -> None:
        """Keep the state of a checkpoint."""
        self._connection.execute(_KEEP, (self._name, number, text))

    def replace_states(self, states: Sequence[tuple[int, str]]) -> None:
        """Keep these states instead of those there are."""

        def write() -> None:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.execute("DELETE FROM dodona_checkpoints WHERE ledger = %s", (self._name,))
                cursor.executemany(_KEEP, [(self._name, number, text) for number, text in states])

        _translate_errors(write)

    def check_rules(self) -> None:
        """Raise LedgerUnreadable if the table's rules were removed, LedgerUnavailable if the server would not sync."""
        _translate_errors(self._check)

    check = check_rules  # the server looks after its own pages

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep everyone else out."""
        if not self._lock(_ALONE):
            raise errors.LedgerInUse
        try:
            yield
        finally:
            self._lock(_NOT_ALONE)

    def prepare(self, layout: int) -> None:
        """Make the tables that a format has and the one before it had not."""
        if layout == CHECKPOINT_FORMAT:
            self._connection.execute(CHECKPOINTS)

    def _lock(self, statement: str) -> bool:
        def ask() -> bool:
            ((answer,),) = self._connection.execute(statement, (self._name,)).fetchall()
            return bool(answer)

        return _translate_errors(ask)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _known(self) -> None:
        ((table,),) = self._connection.execute("SELECT to_regclass('dodona_entries')").fetchall()
        query = "SELECT 1 FROM dodona_entries WHERE ledger = %s LIMIT 1"
        if table is None or not self._connection.execute(query, (self._name,)).fetchall():
            raise errors.LedgerMissing(f"{self._name!r} in this database")

    def _lines(self, since: int) -> list[Line]:
        return lines_from_rows(self._connection.execute(_SELECT, (self._name, since)))

    def _check(self) -> None:
        query = "SELECT tgname FROM pg_trigger WHERE tgrelid = 'dodona_entries'::regclass AND tgenabled = 'O'"
        if not {name for (name,) in self._connection.execute(query)} >= set(RULES):
            raise errors.LedgerUnreadable("the rules in the database were taken out")
        for setting in _DURABLE:
            ((value,),) = self._connection.execute(f"SHOW {setting}").fetchall()
            if value != "on":
                raise InvalidRequest(f"The server has {setting} off, so that no charge would be durable. Turn it on.")


@dataclass(frozen=True, slots=True)
class ServerHolds:
    """Receipt locks as advisory locks of a session: they outlast its transactions and end with it."""

    connection: psycopg.Connection[tuple[Any, ...]]

    def hold(self, receipt: str) -> bool:
        """Lock a receipt; return whether that succeeded."""
        return self._true(_HOLD, _lock_number(receipt))

    def held(self, receipt: str) -> bool:
        """Return whether another session has locked a receipt, without blocking other readers."""
        return self._true(_HELD, _lock_number(receipt), _lock_number(receipt))

    def let_go(self, receipt: str) -> None:
        """Unlock a receipt."""
        self._true(_LET_GO, _lock_number(receipt))

    def close(self) -> None:
        """Do nothing: the locks end with the session."""

    def _true(self, statement: str, *places: int) -> bool:
        def ask() -> bool:
            ((answer,),) = self.connection.execute(statement, places).fetchall()
            return bool(answer)

        return _translate_errors(ask)


HEADS = """
CREATE TABLE IF NOT EXISTS dodona_heads (
    ledger text PRIMARY KEY CHECK (length(ledger) BETWEEN 1 AND 100),
    number bigint NOT NULL CHECK (number >= 0),
    hash text NOT NULL CHECK (length(hash) = 64)
)
"""
_ADVANCE = "UPDATE dodona_heads SET number = %s, hash = %s WHERE ledger = %s AND number < %s"
_CREATE_HEAD = "INSERT INTO dodona_heads (ledger, number, hash) VALUES (%s, %s, %s)"
_REPLACE_HEAD = f"{_CREATE_HEAD} ON CONFLICT (ledger) DO UPDATE SET number = excluded.number, hash = excluded.hash"


class DatabaseHead:
    """A head in a database, which several hosts can share. It should not be the ledger's own server.

    A lost connection is opened again at the next use.
    """

    def __init__(self, address: str, name: str, *, patience: float = 30.0) -> None:
        """Take the address and the ledger's name; nothing is opened yet."""
        self._address, self._name, self._patience = address, name, patience
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def create(self, mark: Mark) -> None:
        """Store the first mark; an existing one is left alone, as it may belong to a lost ledger."""
        import psycopg

        def write(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
            connection.execute(HEADS)
            try:
                connection.execute(_CREATE_HEAD, (self._name, mark.number, mark.hash))
            except psycopg.errors.UniqueViolation as fault:
                raise errors.LedgerExists(f"the head {self._name!r} in a database") from fault

        self._run(write)

    def replace(self, mark: Mark) -> None:
        """Store this mark, whatever is there."""

        def write(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
            connection.execute(HEADS)
            connection.execute(_REPLACE_HEAD, (self._name, mark.number, mark.hash))

        self._run(write)

    def remove(self) -> None:
        """Remove the head."""
        self._run(lambda connection: connection.execute("DELETE FROM dodona_heads WHERE ledger = %s", (self._name,)))

    def read(self) -> Mark:
        """Return the mark."""
        return self._run(self._read)

    def advance(self, mark: Mark) -> None:
        """Store the mark, unless another process has stored a later one."""

        def write(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
            moved = connection.execute(_ADVANCE, (mark.number, mark.hash, self._name, mark.number)).rowcount
            if not moved:
                newest = self._read(connection)
                if newest.number == mark.number and newest.hash != mark.hash:
                    raise errors.LedgerRolledBack

        self._run(write)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _read(self, connection: psycopg.Connection[tuple[Any, ...]]) -> Mark:
        ((known,),) = connection.execute("SELECT to_regclass('dodona_heads')").fetchall()
        query = "SELECT number, hash FROM dodona_heads WHERE ledger = %s"
        rows = [] if known is None else connection.execute(query, (self._name,)).fetchall()
        if not rows:
            raise errors.HeadMissing(f"{self._name!r} in the head's database")
        return Mark(int(rows[0][0]), str(rows[0][1]))

    def _run(self, work: Callable[[psycopg.Connection[tuple[Any, ...]]], Result]) -> Result:
        def run() -> Result:
            if self._connection is None or self._connection.closed:
                self._connection = connect(self._address, self._patience)
            return work(self._connection)

        try:
            return _translate_errors(run)
        except errors.LedgerUnavailable:
            self.close()
            raise


def _lock_number(receipt: str) -> int:
    """Return the lock number of a receipt: 64 bits of its hash, as a signed integer."""
    return int.from_bytes(bytes.fromhex(receipt[:16]), signed=True)


def connect(address: str, patience: float) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a connection whose commits wait for the disk."""
    import psycopg

    options = f"-c synchronous_commit=on -c lock_timeout={int(patience * 1000)} -c client_encoding=utf8"
    connection = psycopg.connect(
        address, autocommit=True, options=options, connect_timeout=10, application_name="dodona ledger"
    )
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    return connection


def write_postgres_ledger(address: str, name: str, first: Line) -> None:
    """Create the table if it does not exist, and write the first line."""

    def write() -> None:
        import psycopg

        with connect(address, 30.0) as connection, connection.transaction():
            connection.execute(_LOCK, ("",))
            connection.execute(SCHEMA)
            connection.execute(CHECKPOINTS)
            columns = [[value] for value in row_from_line(first)]
            try:
                connection.execute(_INSERT, (name, *columns))
            except psycopg.errors.UniqueViolation as fault:
                raise errors.LedgerExists(f"{name!r} in this database") from fault

    _translate_errors(write)


def _translate_errors(work: Callable[[], Result]) -> Result:
    """Return the result of the work; server errors become a constant message, as their text may contain secrets."""
    import psycopg

    with suppress(psycopg.Error):
        return work()
    raise errors.LedgerUnavailable  # raised here, so that the driver's exception is not attached to it
