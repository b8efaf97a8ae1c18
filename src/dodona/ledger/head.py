"""The external head: the number and hash of a line that the chain must contain.

It detects that a ledger was replaced by an older copy.
"""

import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dodona.ledger import errors

_FORM = re.compile(rb"dodona-ledger-head 1 (0|[1-9][0-9]{0,18}) ([0-9a-f]{64}) *\n")
_SLOT = 4096
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A line of a chain, by number and hash."""

    number: int
    hash: str


class Head(Protocol):
    """A place outside the ledger that records its latest known line."""

    def read(self) -> Mark:
        """Return the newest mark."""

    def advance(self, mark: Mark) -> None:
        """Store a mark durably; never move backwards."""

    def close(self) -> None:
        """Close connections."""


class HeadPlace(Head, Protocol):
    """A place where an owner keeps a head: a file, or a database."""

    def create(self, mark: Mark) -> None:
        """Store the first mark; an existing one is left alone, as it may belong to a lost ledger."""

    def replace(self, mark: Mark) -> None:
        """Store this mark, whatever is there: for a recovery."""

    def remove(self) -> None:
        """Remove a head whose ledger was never written."""


class HeadFile:
    """A head in a small file with two slots, each one disk block: a new mark overwrites the older one.

    So a write torn by a crash leaves the other mark intact, and storing a mark takes one sync.
    """

    def __init__(self, path: Path) -> None:
        """Set the path; nothing is opened yet."""
        self.path = path

    def create(self, mark: Mark) -> None:
        """Store the first mark; an existing file is left alone, as it may belong to a lost ledger."""
        if os.path.lexists(self.path):
            raise errors.LedgerExists(str(self.path))
        self.replace(mark)

    def replace(self, mark: Mark) -> None:
        """Store only this mark, atomically: write a new file beside it, sync, rename, and sync the folder."""
        new = self.path.with_name(self.path.name + ".new")
        with translate_permission_errors(self.path):
            new.unlink(missing_ok=True)  # a leftover of a crash, or anything else; a link is not followed
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
                file.write(_slot(mark) * 2)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
            sync_folder(self.path.parent)

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink()

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def read(self) -> Mark:
        """Return the newer of the two marks."""
        with self._held(fcntl.LOCK_SH) as file:
            return max(_marks(file), key=lambda mark: mark.number)

    def advance(self, mark: Mark) -> None:
        """Store the mark, unless another process has stored a later one."""
        with self._held(fcntl.LOCK_EX) as file:
            kept = _marks(file)
            newest = max(kept, key=lambda known: known.number)
            if newest.number == mark.number and newest.hash != mark.hash:
                raise errors.LedgerRolledBack
            if newest.number >= mark.number:
                return
            place = _SLOT if kept[0] == newest else 0
            if os.pwrite(file, _slot(mark), place) != _SLOT:
                raise OSError
            os.fdatasync(file)

    @contextmanager
    def _held(self, lock: int) -> Iterator[int]:
        """Open the file and wait for its lock, which is released when the file is closed."""
        try:
            with translate_permission_errors(self.path):
                file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError as fault:
            raise errors.HeadMissing(str(self.path)) from fault
        except IsADirectoryError as fault:
            raise errors.LedgerUnreadable("its head is a folder") from fault
        try:
            until = time.monotonic() + _PATIENCE
            while not _try_lock(file, lock):
                if time.monotonic() > until:
                    raise errors.LedgerBusy
                time.sleep(0.0005)
            yield file
        finally:
            os.close(file)


@contextmanager
def translate_permission_errors(place: Path) -> Iterator[None]:
    """Translate permission errors; other disk errors pass through unchanged."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise
        raise errors.LedgerForbidden(str(place)) from fault


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _try_lock(file: int, lock: int) -> bool:
    try:
        fcntl.flock(file, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _slot(mark: Mark) -> bytes:
    text = f"dodona-ledger-head 1 {mark.number} {mark.hash}"
    return text.encode().ljust(_SLOT - 1) + b"\n"


def _marks(file: int) -> tuple[Mark, Mark]:
    """Return the marks in both slots; a torn slot counts as equal to the other, and two torn slots are an error."""
    content = os.pread(file, 2 * _SLOT + 1, 0)
    matches = [_FORM.fullmatch(content[place : place + _SLOT]) for place in (0, _SLOT)]
    marks = [None if match is None else Mark(int(match[1]), match[2].decode()) for match in matches]
    first, second = marks[0] or marks[1], marks[1] or marks[0]
    if first is None or second is None or len(content) != 2 * _SLOT:
        raise errors.LedgerUnreadable("its head file is damaged")
    return first, second
