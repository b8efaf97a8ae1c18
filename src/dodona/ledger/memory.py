"""A ledger in memory, for experiments: the ledger and its budget are gone when the process ends."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock

from dodona.ledger.entries import Line
from dodona.ledger.errors import LedgerRolledBack
from dodona.ledger.head import Mark
from dodona.ledger.keeper import Clock, utc_now
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms, first_line, open_existing
from dodona.ledger.store import Decide


class MemoryHolds:
    """Receipt locks among the threads of one process."""

    def __init__(self) -> None:
        """Start with no locks."""
        self._held: set[str] = set()
        self._lock = Lock()

    def hold(self, receipt: str) -> bool:
        """Lock a receipt; return whether that succeeded."""
        with self._lock:
            free = receipt not in self._held
            self._held.add(receipt)
            return free

    def held(self, receipt: str) -> bool:
        """Return whether a receipt is locked."""
        with self._lock:
            return receipt in self._held

    def let_go(self, receipt: str) -> None:
        """Unlock a receipt."""
        with self._lock:
            self._held.discard(receipt)

    def close(self) -> None:
        """Keep the locks of others, who share this object."""


class MemoryStore:
    """Lines in a list. It satisfies the store's guarantees among threads, but not beyond the process."""

    def __init__(self, first: Line) -> None:
        """Start with the first line."""
        self._lines = [first]
        self._states: dict[int, str] = {}
        self.holds = MemoryHolds()
        self._lock = Lock()

    def lines(self, since: int) -> Sequence[Line]:
        """Return the lines from this number on."""
        return self._lines[since:]

    def append(self, since: int, decide: Decide) -> None:
        """Append the decided lines."""
        with self._lock:
            self._lines.extend(decide(self._lines[since:]))

    def fetch(self, first: int, last: int) -> Sequence[Line]:
        """Return the lines from one number to another."""
        return self._lines[first : last + 1]

    def states(self) -> Sequence[tuple[int, str]]:
        """Return the states of checkpoints."""
        return sorted(self._states.items())

    def keep_state(self, number: int, text: str) -> None:
        """Keep the state of a checkpoint."""
        self._states[number] = text

    def replace_states(self, states: Sequence[tuple[int, str]]) -> None:
        """Keep these states instead of those there are."""
        self._states = dict(states)

    def check_rules(self) -> None:
        """Do nothing: a list has no rules."""

    def check(self) -> None:
        """Do nothing: a list cannot be damaged."""

    def alone(self) -> AbstractContextManager[None]:
        """Keep nobody out: it is known to this process alone."""
        return nullcontext()

    def prepare(self, layout: int) -> None:
        """Do nothing: a list holds any format."""

    def close(self) -> None:
        """Do nothing."""


class MemoryHead:
    """A head in memory."""

    def __init__(self, mark: Mark) -> None:
        """Start with a mark."""
        self._mark = mark

    def read(self) -> Mark:
        """Return the newest mark."""
        return self._mark

    def advance(self, mark: Mark) -> None:
        """Store a later mark."""
        if mark.number == self._mark.number and mark != self._mark:
            raise LedgerRolledBack
        self._mark = max(mark, self._mark, key=lambda kept: kept.number)

    def close(self) -> None:
        """Do nothing."""


def create_memory_ledger(terms: LedgerTerms, *, clock: Clock = utc_now) -> Ledger:
    """Return a new ledger in memory."""
    first = first_line(terms, clock=clock)
    return open_existing(MemoryStore(first), MemoryHead(Mark(first.number, first.hash)), clock=clock)
