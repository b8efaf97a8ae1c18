"""Where a ledger is: a path, or the address of a PostgreSQL database with the ledger's name behind a `#`."""

from __future__ import annotations

from pathlib import Path

from dodona.errors import InvalidArgument
from dodona.exact import Exact
from dodona.ledger import file
from dodona.ledger.head import HeadFile, Mark
from dodona.ledger.keeper import Clock, utc
from dodona.ledger.kept import KeptLedger
from dodona.ledger.opening import Terms, first_line, opened, recovered

_SCHEMES = ("postgresql://", "postgres://")
Place = str | Path


def create(place: Place, terms: Terms, *, head: Path | None = None, clock: Clock = utc) -> None:
    """Create a ledger where there is none."""
    found = _server(place)
    if found is None:
        file.create(Path(place), terms, head=head, clock=clock)
        return
    from dodona.ledger.postgres import write_new

    kept, first = _head(head), first_line(terms, clock=clock)
    kept.create(Mark(first.number, first.hash))
    try:
        write_new(*found, first)
    except BaseException:
        kept.path.unlink()  # no line was written that it could be the head of
        raise


def open_ledger(
    place: Place,
    *,
    head: Path | None = None,
    dataset: str | None = None,
    schema: str | None = None,
    clock: Clock = utc,
) -> KeptLedger:
    """Open the ledger at a place; it is never created here."""
    found = _server(place)
    if found is None:
        return file.open_ledger(Path(place), head=head, dataset=dataset, schema=schema, clock=clock)
    from dodona.ledger.postgres import PostgresStore

    kept, store = _head(head), PostgresStore(*found)
    try:
        return opened(store, kept, dataset=dataset, schema=schema, clock=clock)
    except BaseException:
        store.close()
        raise


def recover(
    place: Place,
    *,
    head: Path | None = None,
    epsilon: Exact | None = None,
    delta: Exact | None = None,
    clock: Clock = utc,
) -> None:
    """Put a restored backup into use: everything unspent counts as spent, and its head is the new one."""
    found = _server(place)
    if found is None:
        file.recover(Path(place), head=head, epsilon=epsilon, delta=delta, clock=clock)
        return
    from dodona.ledger.postgres import PostgresStore

    kept, store = _head(head), PostgresStore(*found)
    try:
        mark = recovered(store, epsilon=epsilon, delta=delta, clock=clock)
    finally:
        store.close()
    kept.replace(mark)


def _server(place: Place) -> tuple[str, str] | None:
    """Return address and name of a ledger in a database; None where the place is a path."""
    if not str(place).startswith(_SCHEMES):
        return None
    address, _, name = str(place).partition("#")
    return address, name or "main"


def _head(head: Path | None) -> HeadFile:
    if head is None:
        accepted = "a ledger in a database has no folder of its own; write where the head file is to be kept"
        raise InvalidArgument("head", head, accepted)
    return HeadFile(head)
