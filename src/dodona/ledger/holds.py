"""Holds: locks on receipts that are being answered right now, so that others wait instead of paying twice.

A hold ends with the process that took it, so a dead holder is never waited for. Holds say nothing about the budget.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol

from dodona.ledger.entries import Receipt

_FLOCK = "hhqqi4x"
_DIGITS = 15  # of a hash, in base 16: a place below 2^60 in the file


@dataclass(frozen=True, slots=True)
class Reservation:
    """A receipt that this caller holds, and has to let go of."""

    receipt: Receipt
    taken_over: bool
    """Whether another caller was charged for it, who died before using it: this one pays nothing."""


class Holds(Protocol):
    """Locks on receipts, by their id."""

    def hold(self, receipts: Sequence[str]) -> bool:
        """Hold receipts, all of them or none; returns whether."""

    def held(self, receipt: str) -> bool:
        """Return whether anybody else holds a receipt."""

    def let_go(self, receipt: str) -> None:
        """Let go of a receipt that is held."""

    def close(self) -> None:
        """Let go of everything."""


class MemoryHolds:
    """Holds among the threads of one process."""

    def __init__(self) -> None:
        """Begin with nothing held."""
        self._held: set[str] = set()
        self._lock = Lock()

    def hold(self, receipts: Sequence[str]) -> bool:
        """Hold receipts, all or none."""
        with self._lock:
            free = self._held.isdisjoint(receipts)
            if free:
                self._held.update(receipts)
            return free

    def held(self, receipt: str) -> bool:
        """Return whether a receipt is held."""
        with self._lock:
            return receipt in self._held

    def let_go(self, receipt: str) -> None:
        """Let go of a receipt."""
        with self._lock:
            self._held.discard(receipt)

    def close(self) -> None:
        """Keep what others hold: they share this object."""


class FileHolds:
    """Holds as locks on single bytes of an empty file beside the ledger; the system frees them when a process ends.

    They are locks of the open file and not of the process, so that two ledgers in one process see each other's.
    """

    def __init__(self, path: Path, *, like: Path) -> None:
        """Name the file, which is made when it is first needed, for the same users as the ledger."""
        self._path, self._like = path, like
        self._file: int | None = None

    def hold(self, receipts: Sequence[str]) -> bool:
        """Hold receipts, all or none."""
        taken: list[str] = []
        for receipt in receipts:
            if not self._locked(receipt, fcntl.F_WRLCK):
                for other in taken:
                    self.let_go(other)
                return False
            taken.append(receipt)
        return True

    def held(self, receipt: str) -> bool:
        """Return whether another opening of the file holds a receipt; nothing is locked to find out."""
        answer = fcntl.fcntl(self._open(), fcntl.F_OFD_GETLK, _lock(receipt, fcntl.F_WRLCK))
        found: int = struct.unpack(_FLOCK, answer)[0]
        return found != fcntl.F_UNLCK

    def let_go(self, receipt: str) -> None:
        """Let go of a receipt."""
        self._locked(receipt, fcntl.F_UNLCK)

    def close(self) -> None:
        """Let go of everything."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _locked(self, receipt: str, kind: int) -> bool:
        try:
            fcntl.fcntl(self._open(), fcntl.F_OFD_SETLK, _lock(receipt, kind))
        except BlockingIOError:
            return False
        return True

    def _open(self) -> int:
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self._path, flags, self._like.stat().st_mode & 0o666)
        return self._file


def _lock(receipt: str, kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, int(receipt[:_DIGITS], 16), 1, 0)
