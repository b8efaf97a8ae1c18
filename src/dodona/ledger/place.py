"""Where a ledger is: a path, or the address of a PostgreSQL database with the ledger's name behind a `#`."""

from __future__ import annotations

import re
from functools import partial
from importlib import util
from pathlib import Path
from urllib.parse import urlsplit

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.exact import Exact
from dodona.ledger import file
from dodona.ledger.head import HeadFile, Mark
from dodona.ledger.keeper import Clock, utc
from dodona.ledger.kept import KeptLedger
from dodona.ledger.opening import Terms, first_line, opened, recovered

_SCHEMES = ("postgresql://", "postgres://")
_LIKE_AN_ADDRESS = re.compile(
    r"^\s*[a-z][a-z0-9+.-]*:/|\b(host|hostaddr|user|password|passfile|dbname|service|sslmode)\s*=", re.IGNORECASE
)
_NAME = re.compile(r"[^@:/?#\x00-\x1f]{0,100}")  # none that may be the rest of an address
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|\s")
Place = str | Path


class AddressRefused(InvalidRequest):
    """What should be the address of a PostgreSQL database is none."""

    code = "address-refused"

    def __init__(self) -> None:
        """Say it in constant words: what was written may hold a password."""
        super().__init__(
            "This is no address of a ledger in PostgreSQL. Write postgresql://user@host/database#name, with %23 for # "
            "and %40 for @ in a password; it is not shown here, as it may hold one."
        )


def create(place: Place, terms: Terms, *, head: Path | None = None, clock: Clock = utc) -> None:
    """Create a ledger where there is none."""
    found = _server(place)
    if found is None:
        file.create(Path(place), terms, head=head, clock=clock)
        return
    _hold_driver()
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
    _hold_driver()
    from dodona.ledger.postgres import PostgresStore

    kept, store = _head(head), PostgresStore(*found)
    try:
        again = partial(PostgresStore, *found)
        return opened(store, kept, dataset=dataset, schema=schema, clock=clock, again=again)
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
    _hold_driver()
    from dodona.ledger.postgres import PostgresStore

    kept, store = _head(head), PostgresStore(*found)
    try:
        mark = recovered(store, epsilon=epsilon, delta=delta, clock=clock)
    finally:
        store.close()
    kept.replace(mark)


def address_of(text: str) -> str:
    """Return the address of a ledger in PostgreSQL; whatever else it is, is refused without being shown."""
    if _server(text) is None:
        raise AddressRefused
    return text


def named(place: Place) -> str:
    """Return a place as it may be shown: of an address, the ledger's name alone."""
    found = _server(place)
    return str(place) if found is None else f"{found[1]!r} in a database"


def _server(place: Place) -> tuple[str, str] | None:
    """Return address and name of a ledger in a database; None where the place is a path.

    What looks like an address and is none is not taken for a path: its password would become the name of a file.
    """
    text = str(place)
    if _LIKE_AN_ADDRESS.search(text) is None:
        return None
    address, _, name = text.partition("#")
    if not text.startswith(_SCHEMES) or not _parses(address) or _NAME.fullmatch(name) is None:
        raise AddressRefused
    return address, name or "main"


def _parses(address: str) -> bool:
    try:
        found = urlsplit(address)
        return found.port != 0 and address.isprintable() and _NO_ESCAPE.search(address) is None
    except ValueError:
        return False


def _hold_driver() -> None:
    """Say what to install where the server's driver is missing."""
    if util.find_spec("psycopg") is None:
        raise InvalidRequest("A ledger in PostgreSQL needs psycopg. Run: pip install 'dodona[postgres]'.")


def _head(head: Path | None) -> HeadFile:
    if head is None:
        accepted = "a ledger in a database has no folder of its own; write where the head file is to be kept"
        raise InvalidArgument("head", head, accepted)
    return HeadFile(head)
