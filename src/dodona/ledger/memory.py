"""A ledger in memory, for experiments: it and its budget are gone when the process ends."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from dodona.ledger.errors import LedgerRolledBack
from dodona.ledger.head import Mark
from dodona.ledger.keeper import Clock, utc_now
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms, first_line, open_existing
from dodona.ledger.store import Decide, Line


class MemoryHolds:
    """Holds among the threads of one process."""

    def __init__(self) -> None:
        """Begin with nothing held."""
        self._held: set[str] = set()
        self._lock = Lock()

    def hold(self, receipt: str) -> bool:
        """Hold a receipt; returns whether."""
        with self._lock:
            free = receipt not in self._held
            self._held.add(receipt)
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


class MemoryStore:
    """Lines in a list. It keeps the store's promises among threads, and none beyond the process."""

    def __init__(self, first: Line) -> None:
        """Begin with the first line."""
        self._lines = [first]
        self.holds = MemoryHolds()
        self._lock = Lock()

    def lines(self, since: int) -> Sequence[Line]:
        """Return the lines from this number on."""
        return self._lines[since:]

    def append(self, since: int, decide: Decide) -> None:
        """Append what is decided."""
        with self._lock:
            self._lines.extend(decide(self._lines[since:]))

    def check(self) -> None:
        """Find nothing wrong: a list is as it is."""

    def close(self) -> None:
        """Let go of nothing."""


class MemoryHead:
    """A head in memory."""

    def __init__(self, mark: Mark) -> None:
        """Begin with a mark."""
        self._mark = mark

    def read(self) -> Mark:
        """Return the newest mark."""
        return self._mark

    def advance(self, mark: Mark) -> None:
        """Keep a later mark."""
        if mark.number == self._mark.number and mark != self._mark:
            raise LedgerRolledBack
        self._mark = max(mark, self._mark, key=lambda kept: kept.number)


def create_memory_ledger(terms: LedgerTerms, *, clock: Clock = utc_now) -> Ledger:
    """Return a new ledger in memory."""
    first = first_line(terms, clock=clock)
    return open_existing(MemoryStore(first), MemoryHead(Mark(first.number, first.hash)), clock=clock)
