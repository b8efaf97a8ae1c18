"""Upgrades of ledgers: one step from each format to the next, with a backup first.

A step adds to a ledger and changes nothing that is there: lines, totals and receipts stay as they are, and the chain
goes on with a line that names the new format. Each step is one transaction. After a crash the ledger has either the old
format or the new one, and an upgrade that was interrupted is run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.ledger import opening
from dodona.ledger.book import Book
from dodona.ledger.entries import FORMAT, Line, Upgraded
from dodona.ledger.errors import LedgerInUse, LedgerRolledBack
from dodona.ledger.head import Head, Mark
from dodona.ledger.keeper import Clock, Keeper, chain_contains, read_book, utc_now
from dodona.ledger.sqlite import SqliteStore
from dodona.ledger.store import Store


@dataclass(frozen=True, slots=True)
class Step:
    """The way from one format to the next; a store prepares itself for it."""

    format: int
    """The format that it leads to."""
    about: str


STEPS = {
    1: Step(2, "checkpoints: opening reads the totals instead of computing them from every line"),
}
"""By the format that a step starts from. Each leads to the next one, up to the newest."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade did."""

    before: int
    after: int
    steps: tuple[Step, ...]
    backup: Path | None
    """A ledger file with all lines of before; None if there was nothing to do."""


def upgrade_ledger(
    place: opening.LedgerPlace,
    *,
    head: opening.LedgerPlace | None = None,
    backup: Path | None = None,
    clock: Clock = utc_now,
) -> Upgrade:
    """Raise a ledger to the newest format, after writing a backup; nobody else may have it open.

    The backup is beside a ledger file if no place is given; a ledger in a database needs one. Raises LedgerInUse.
    """
    connect, kept = opening.locate(place, head)
    with closing(kept), closing(connect()) as store, store.alone():
        store.check()  # what is upgraded is verified from the first line, whatever its checkpoints say
        mark, lines = kept.read(), store.lines(0)
        book = read_book(lines)
        if not chain_contains(lines, mark):
            raise LedgerRolledBack
        before, steps = book.format, steps_from(book.format)
        if not steps:
            return Upgrade(before, before, (), None)
        saved = _write_backup(lines, before, _backup_path(place, before) if backup is None else backup)
        for step in steps:
            _take(step, book, store, kept, clock)
        book.archive.fetch = store.fetch
        keeper = Keeper(store, kept, book, clock=clock)
        if book.due:
            keeper.write_checkpoint()
    return Upgrade(before, book.format, steps, saved)


def steps_from(format_number: int) -> tuple[Step, ...]:
    """Return the steps from a format to the newest one.

    >>> [step.format for step in steps_from(1)]
    [2]
    """
    return tuple(STEPS[number] for number in range(format_number, FORMAT))


def _take(step: Step, book: Book, store: Store, head: Head, clock: Clock) -> None:
    """Take one step, in one transaction with the line that names the new format."""

    def decide(lines: Sequence[Line]) -> Sequence[Line]:
        if [line.hash for line in lines] != [book.head]:
            raise LedgerInUse
        store.prepare(step.format)
        return [book.write(Upgraded(step.format), time=clock().isoformat())]

    store.append(book.number, decide)
    head.advance(Mark(book.number, book.head))


def _backup_path(place: opening.LedgerPlace, format_number: int) -> Path:
    if opening.is_address(place):
        raise InvalidArgument("backup", None, "a ledger in a database has no folder; write a path for the backup")
    path = Path(place)
    return path.with_name(f"{path.name}.format-{format_number}")


def _write_backup(lines: Sequence[Line], format_number: int, path: Path) -> Path:
    """Write all lines, which are verified, into a ledger file of their format; one that is there already is kept."""
    if not path.exists():
        opening.write_ledger_file(path, lines, layout=format_number)
        return path
    with closing(SqliteStore(path)) as store:
        same = list(store.lines(0)) == list(lines)
    if not same:
        raise InvalidRequest(f"{path} exists already, and is another backup. Move it away, or name another place.")
    return path
