"""A store keeps lines: it makes them durable in order, and knows nothing of what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from dodona.ledger.chain import Line
from dodona.ledger.flight import Holds

Decide = Callable[[Sequence[Line]], Sequence[Line]]
"""Given the lines from the last known one on, says which to append."""


class Store(Protocol):
    """Where lines are kept. Whatever it raises, except LedgerBusy, means that nothing more may be believed of it."""

    def lines(self, since: int) -> Sequence[Line]:
        """Return the durable lines from this number on, this one included."""

    def append(self, since: int, decide: Decide) -> None:
        """Alone among all writers, let the lines from this number on be decided upon, and make the outcome durable.

        Raises LedgerBusy, before anything was decided, where another writer does not let go.
        """

    @property
    def holds(self) -> Holds:
        """Locks on receipts that all who use this store can see."""

    def check(self) -> None:
        """Raise LedgerUnreadable where the store itself is damaged or altered."""

    def close(self) -> None:
        """Let go of the files and connections."""
