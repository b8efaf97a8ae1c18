"""Creating, opening and recovering ledgers, at a path or in a PostgreSQL database.

Opening never creates and creating never overwrites. After a recovery everything unspent counts as spent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import util
from pathlib import Path
from urllib.parse import urlsplit

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.ledger import entries
from dodona.ledger.account import enlarge_budget, enlarge_limit
from dodona.ledger.book import Book
from dodona.ledger.checkpoint import EVERY, fetch_listed
from dodona.ledger.errors import LedgerExists, LedgerOfAnother
from dodona.ledger.head import Head, HeadFile, HeadPlace, Mark, sync_folder, translate_permission_errors
from dodona.ledger.keeper import Clock, Keeper, open_book, read_book, utc_now
from dodona.ledger.ledger import PATIENCE, Ledger
from dodona.ledger.limits import NO_LIMITS, Limits
from dodona.ledger.sqlite import SqliteStore, write_sqlite_ledger
from dodona.ledger.store import Store
from dodona.numbers import Exact
from dodona.privacy.budget import Analyst, Budget
from dodona.schema.schema import Neighbours

# --- Creating, opening and recovering a ledger over any store. Opening never creates; creating never overwrites. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTerms:
    """The terms of a new ledger: tables of the same people, the neighbour relation, the budget, and the analysts."""

    datasets: Mapping[str, str]
    """Schema digest by table name."""
    neighbours: Neighbours
    budget: Budget
    analysts: tuple[Analyst, ...] = ()
    cap_key: bytes | None = field(default=None, repr=False)
    """Random bytes that select the rows of a person that count. The caller draws them, as nothing is drawn here."""
    earlier: tuple[entries.Earlier, ...] = ()
    """Spending from before the ledger existed: it is part of the first line, so that nothing can come in between."""
    limits: Limits = NO_LIMITS
    """The owner's limits on spending."""


def first_line(terms: LedgerTerms, *, clock: Clock = utc_now) -> entries.Line:
    """Return the first line of a ledger with these terms."""
    named = terms.datasets.items()
    datasets = tuple(
        (entries.validate_text("dataset", name), entries.validate_text("schema", digest)) for name, digest in named
    )
    chosen = terms.budget.filter()
    created = entries.Created(datasets, terms.neighbours, terms.budget, chosen.order, chosen.limit, terms.analysts)
    if terms.cap_key is not None:
        if len(terms.cap_key) != entries.CAP_KEY_BYTES:
            raise InvalidArgument("cap_key", "<key>", f"give {entries.CAP_KEY_BYTES} bytes")
        created = replace(created, cap_key=terms.cap_key.hex())
    if terms.earlier:
        for _, event in terms.earlier:
            entries.validate_event(event)
        earlier = tuple((entries.validate_text("purpose", words), event) for words, event in terms.earlier)
        created = replace(created, earlier=earlier)
    if terms.limits != NO_LIMITS:
        created = replace(created, limits=terms.limits)
    line = entries.line_after(-1, entries.GENESIS_HASH, created, time=clock().isoformat())
    Book(line, created, fetch_listed([line]))
    return line


def open_existing(  # noqa: PLR0913  the parts of a ledger
    store: Store,
    head: Head,
    *,
    dataset: str | None = None,
    schema: str | None = None,
    clock: Clock = utc_now,
    patience: float = PATIENCE,
    again: Callable[[], Store] | None = None,
    checkpoint_every: int = EVERY,
    beside: Path | None = None,
) -> Ledger:
    """Return the ledger in a store, verified; it must contain the head and belong to the dataset.

    `patience` is how many seconds to wait for an answer that is being computed for another caller. With `again`, a
    store whose server went away is reopened, and the ledger verified again, at its next use.
    """
    mark = head.read()  # before the chain is read, as other processes may keep writing
    book = open_book(store, mark)
    _validate_dataset(book, dataset, schema)
    keeper = Keeper(store, head, book, clock=clock, again=again, checkpoint_every=checkpoint_every)
    if book.due >= checkpoint_every:
        keeper.write_checkpoint()
    return Ledger(keeper, dataset=dataset, patience=patience, beside=beside)


def append_recovery(
    store: Store, *, epsilon: Exact | None = None, delta: Exact | None = None, clock: Clock = utc_now
) -> Mark:
    """Append a recovery to the ledger in a store and return its mark, which becomes the new head.

    The (ε, δ) is the largest budget that was ever granted; by default, the one in the store. It is unknown what
    happened after the backup, so everything unspent counts as spent.
    """
    store.check()
    marks: list[Mark] = []

    def decide(lines: Sequence[entries.Line]) -> Sequence[entries.Line]:
        book = read_book(lines)
        account = book.account
        before = account.budget
        granted = (before.epsilon if epsilon is None else epsilon, before.delta if delta is None else delta)
        budget = enlarge_budget(before, *granted)
        entry = entries.Recovered(budget.epsilon, budget.delta, enlarge_limit(account.filter, budget))
        line = book.write(entry, time=clock().isoformat())
        marks.append(Mark(line.number, line.hash))
        return [line]

    store.append(0, decide)
    return marks[0]


def _validate_dataset(book: Book, dataset: str | None, schema: str | None) -> None:
    if dataset is None:
        return
    if dataset not in book.datasets:
        names = ", ".join(book.datasets)
        raise LedgerOfAnother(
            f"The ledger is for {names}, not for {dataset!r}. Open the ledger of this dataset, or, where both tables "
            "hold the same people, declare the second one in the ledger of the first."
        )
    if schema is not None and book.datasets[dataset] != schema:
        raise LedgerOfAnother(
            f"The schema of {dataset!r} is not the one that the ledger is bound to. Put the old schema back; where "
            "columns were only added, run `dodona ledger declare`."
        )


# --- A ledger at a path: the SQLite file, and the head file, which should be on another disk or machine. ---


def default_head_path(path: Path) -> Path:
    """Return the default place of the head: beside the ledger, which protects least."""
    return path.with_name(path.name + ".head")


def create_file_ledger(
    path: Path, terms: LedgerTerms, *, head: LedgerPlace | None = None, clock: Clock = utc_now
) -> None:
    """Create a ledger where none exists. A crash leaves no partial ledger."""
    first = first_line(terms, clock=clock)
    kept = locate_head(default_head_path(path) if head is None else head)
    if os.path.lexists(path):
        raise LedgerExists(str(path))
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with translate_permission_errors(path):
            write_sqlite_ledger(new, first, layout=entries.FORMAT)
        with closing(kept):
            kept.create(Mark(first.number, first.hash))
        try:
            os.link(new, path)  # unlike a rename, this fails if the file was created meanwhile
        except FileExistsError as fault:
            raise LedgerExists(str(path)) from fault
    finally:
        with suppress(OSError):  # if it could not be created
            new.unlink(missing_ok=True)
    sync_folder(path.parent)


# --- Where a ledger is: a path, or a PostgreSQL address followed by `#` and the ledger's name. ---


_SCHEMES = ("postgresql://", "postgres://")
_LIKE_AN_ADDRESS = re.compile(
    r"^\s*[a-z][a-z0-9+.-]*:/|\b(host|hostaddr|user|password|passfile|dbname|service|sslmode)\s*=", re.IGNORECASE
)
_NAME = re.compile(r"[^@:/?#\x00-\x1f]{0,100}")  # excludes characters that could be the rest of an address
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|\s")
LedgerPlace = str | Path


class AddressRefused(InvalidRequest):
    """The address of a PostgreSQL database is malformed."""

    code = "address-refused"

    def __init__(self) -> None:
        """Set a constant message: the address may contain a password."""
        super().__init__(
            "This is not the address of a ledger in PostgreSQL. Write postgresql://user@host/database#name, with %23 "
            "for # and %40 for @ in a password; it is not shown here, as it may hold one."
        )


def create_ledger_at(
    place: LedgerPlace, terms: LedgerTerms, *, head: LedgerPlace | None = None, clock: Clock = utc_now
) -> None:
    """Create a ledger where none exists."""
    address_parts = _split_address(place)
    if address_parts is None:
        create_file_ledger(Path(place), terms, head=head, clock=clock)
        return
    _require_driver()
    from dodona.ledger.postgres import write_postgres_ledger

    kept, first = _require_head(head), first_line(terms, clock=clock)
    with closing(kept):
        kept.create(Mark(first.number, first.hash))
        try:
            write_postgres_ledger(*address_parts, first)
        except BaseException:
            kept.remove()  # no line was written for which it could be the head
            raise


def open_ledger(  # noqa: PLR0913  the parts of a ledger
    place: LedgerPlace,
    *,
    head: LedgerPlace | None = None,
    dataset: str | None = None,
    schema: str | None = None,
    clock: Clock = utc_now,
    patience: float = PATIENCE,
    checkpoint_every: int = EVERY,
) -> Ledger:
    """Open the ledger at a place; never creates one."""
    connect, kept = locate(place, head)
    store = connect()
    try:
        again = None if isinstance(store, SqliteStore) else connect
        beside = Path(place) if again is None else kept.path if isinstance(kept, HeadFile) else None
        return open_existing(
            store,
            kept,
            dataset=dataset,
            schema=schema,
            clock=clock,
            patience=patience,
            again=again,
            checkpoint_every=checkpoint_every,
            beside=beside,
        )
    except BaseException:
        store.close()
        kept.close()
        raise


def recover_ledger(
    place: LedgerPlace,
    *,
    head: LedgerPlace | None = None,
    epsilon: Exact | None = None,
    delta: Exact | None = None,
    clock: Clock = utc_now,
) -> None:
    """Put a restored backup into use: everything unspent counts as spent, and its last line becomes the head."""
    connect, kept = locate(place, head)
    store = connect()
    try:
        mark = append_recovery(store, epsilon=epsilon, delta=delta, clock=clock)
    finally:
        store.close()
    with closing(kept):
        kept.replace(mark)


def restore_ledger(place: LedgerPlace, lines: Sequence[entries.Line], *, head: LedgerPlace | None = None) -> None:
    """Write a chain from a backup where there is no ledger, after verifying all of it. Its head is left as it is.

    Unless the head is known to name the last line, `recover_ledger` must follow.
    """
    layout = read_book(lines).format
    address_parts = _split_address(place)
    if address_parts is None:
        write_ledger_file(Path(place), lines, layout=layout)
        return
    _require_driver()
    _require_head(head)
    from dodona.ledger.postgres import PostgresStore, write_postgres_ledger

    write_postgres_ledger(*address_parts, lines[0])
    with closing(PostgresStore(*address_parts)) as server:
        server.append(0, lambda _: lines[1:])


def write_ledger_file(path: Path, lines: Sequence[entries.Line], *, layout: int) -> None:
    """Write a verified chain of a format into a new file; a crash leaves none."""
    if os.path.lexists(path):
        raise LedgerExists(str(path))
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with translate_permission_errors(path):
            write_sqlite_ledger(new, lines[0], layout=layout)
        with closing(SqliteStore(new)) as store:
            store.append(0, lambda _: lines[1:])
        os.link(new, path)
    finally:
        for suffix in ("", "-wal", "-shm", ".holds"):
            new.with_name(new.name + suffix).unlink(missing_ok=True)
    sync_folder(path.parent)


def locate(place: LedgerPlace, head: LedgerPlace | None) -> tuple[Callable[[], Store], HeadPlace]:
    """Return what opens the store at a place, and the head of its ledger."""
    address_parts = _split_address(place)
    if address_parts is None:
        path = Path(place)
        return partial(SqliteStore, path), locate_head(default_head_path(path) if head is None else head)
    _require_driver()
    from dodona.ledger.postgres import PostgresStore

    return partial(PostgresStore, *address_parts), _require_head(head)


def validate_address(text: str) -> str:
    """Return the address of a ledger in PostgreSQL; anything else is refused without being shown."""
    if _split_address(text) is None:
        raise AddressRefused
    return text


def is_address(place: LedgerPlace) -> bool:
    """Return whether a place is the address of a database, not a path."""
    return _split_address(place) is not None


def display_place(place: LedgerPlace) -> str:
    """Return a place as it may be shown: for an address, only the ledger's name."""
    address_parts = _split_address(place)
    return str(place) if address_parts is None else f"{address_parts[1]!r} in a database"


def _split_address(place: LedgerPlace) -> tuple[str, str] | None:
    """Return the address and the name of a ledger in a database; None if the place is a path.

    A malformed address is never taken for a path: its password would become a file name.
    """
    text = str(place)
    if _LIKE_AN_ADDRESS.search(text) is None:
        return None
    address, _, name = text.partition("#")
    if not text.startswith(_SCHEMES) or not _is_address(address) or _NAME.fullmatch(name) is None:
        raise AddressRefused
    return address, name or "main"


def _is_address(address: str) -> bool:
    try:
        url = urlsplit(address)
        return url.port != 0 and address.isprintable() and _NO_ESCAPE.search(address) is None
    except ValueError:
        return False


def _require_driver() -> None:
    """Raise an error that says what to install if the PostgreSQL driver is missing."""
    if util.find_spec("psycopg") is None:
        raise InvalidRequest("A ledger in PostgreSQL needs psycopg. Run: pip install 'dodona[postgres]'.")


def locate_head(place: LedgerPlace) -> HeadPlace:
    """Return the head at a path, or in a database."""
    address_parts = _split_address(place)
    if address_parts is None:
        return HeadFile(Path(place))
    _require_driver()
    from dodona.ledger.postgres import DatabaseHead

    return DatabaseHead(*address_parts)


def _require_head(head: LedgerPlace | None) -> HeadPlace:
    if head is None:
        accepted = "a ledger in a database has no folder; write where to keep its head: a file, or another database"
        raise InvalidArgument("head", head, accepted)
    return locate_head(head)
