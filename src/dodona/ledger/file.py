"""A ledger at a path: the SQLite file, and the head file that should stand on another disk or machine."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dodona.exact import Exact
from dodona.ledger.faults import LedgerExists
from dodona.ledger.head import HeadFile, Mark, allowed, sync_folder
from dodona.ledger.keeper import Clock, utc
from dodona.ledger.kept import KeptLedger
from dodona.ledger.opening import Terms, first_line, opened, recovered
from dodona.ledger.sqlite import SqliteStore, write_new


def head_of(path: Path) -> Path:
    """Return where the head is kept unless another place is named: beside the ledger, which is the weakest place."""
    return path.with_name(path.name + ".head")


def create(path: Path, terms: Terms, *, head: Path | None = None, clock: Clock = utc) -> None:
    """Create a ledger where there is none. A crash on the way leaves no ledger."""
    first = first_line(terms, clock=clock)
    kept = HeadFile(head_of(path) if head is None else head)
    if os.path.lexists(path):
        raise LedgerExists(str(path))
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with allowed(path):
            write_new(new, first)
        kept.create(Mark(first.number, first.hash))
        try:
            os.link(new, path)  # unlike a rename, fails where a file has come in between
        except FileExistsError as fault:
            raise LedgerExists(str(path)) from fault
    finally:
        with suppress(OSError):  # where it could not be made
            new.unlink(missing_ok=True)
    sync_folder(path.parent)


def open_ledger(
    path: Path,
    *,
    head: Path | None = None,
    dataset: str | None = None,
    schema: str | None = None,
    clock: Clock = utc,
) -> KeptLedger:
    """Open the ledger at a path; it is never created here."""
    store = SqliteStore(path)
    try:
        kept = HeadFile(head_of(path) if head is None else head)
        return opened(store, kept, dataset=dataset, schema=schema, clock=clock)
    except BaseException:
        store.close()
        raise


def recover(
    path: Path,
    *,
    head: Path | None = None,
    epsilon: Exact | None = None,
    delta: Exact | None = None,
    clock: Clock = utc,
) -> None:
    """Put a restored backup into use: everything unspent counts as spent, and the head is that of the backup."""
    store = SqliteStore(path)
    try:
        mark = recovered(store, epsilon=epsilon, delta=delta, clock=clock)
    finally:
        store.close()
    HeadFile(head_of(path) if head is None else head).replace(mark)
