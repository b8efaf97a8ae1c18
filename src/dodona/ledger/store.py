"""The stores that keep the lines of a ledger, and locks on its receipts.

A store makes lines durable in order and does not interpret them; database rows repeat a few fields so that the database
can enforce its rules.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from dodona.ledger.entries import ENTRY_KINDS, Line, Receipt
from dodona.ledger.errors import LedgerUnreadable

# --- Holds: locks on receipts that are being answered, so that others wait instead of paying twice. They end with the
# process that took them, and say nothing about the budget. ---


@dataclass(frozen=True, slots=True)
class Reservation:
    """A receipt that this caller has locked and must release."""

    receipt: Receipt
    taken_over: bool
    """Whether another caller was charged and died before using it: this caller pays nothing."""


Overlaps = Callable[[str], bool]
"""Whether a charge for a purpose may answer a question that is asked for itself, as a bundle does."""


def nothing_overlaps(_: str) -> bool:
    """Return that only the same question is the same."""
    return False


class Holds(Protocol):
    """Locks on receipts, by receipt id."""

    def hold(self, receipt: str) -> bool:
        """Lock a receipt, unless another caller has; return whether that succeeded."""

    def held(self, receipt: str) -> bool:
        """Return whether any other caller has locked a receipt."""

    def let_go(self, receipt: str) -> None:
        """Unlock a receipt."""

    def close(self) -> None:
        """Release all locks."""


# --- A store keeps lines: it makes them durable in order, and does not interpret them. ---


Decide = Callable[[Sequence[Line]], Sequence[Line]]
"""Given the lines from the last known one on, returns the lines to append."""


class Store(Protocol):
    """Where lines are kept. Any exception except LedgerBusy means that the store can no longer be trusted."""

    def lines(self, since: int) -> Sequence[Line]:
        """Return the durable lines from this number on, inclusive."""

    def append(self, since: int, decide: Decide) -> None:
        """As the only writer, pass the lines from this number on to `decide`, and make its result durable.

        Raises LedgerBusy, before anything is decided, if another writer does not finish in time.
        """

    def fetch(self, first: int, last: int) -> Iterable[Line]:
        """Return the lines of charges and releases, and the first line, from one number to another.

        Their fields are not compared with their lines: the caller knows their hashes.
        """

    @property
    def holds(self) -> Holds:
        """Locks on receipts that all users of this store can see."""

    def states(self) -> Sequence[tuple[int, str]]:
        """Return the states of checkpoints, by number of their lines."""

    def keep_state(self, number: int, text: str) -> None:
        """Keep the state of a checkpoint, within `append`."""

    def replace_states(self, states: Sequence[tuple[int, str]]) -> None:
        """Keep these states instead of those there are."""

    def check_rules(self) -> None:
        """Raise LedgerUnreadable if the rules that the store enforces were altered, LedgerNewer if it is newer."""

    def check(self) -> None:
        """Raise LedgerUnreadable if the store itself is damaged or altered: this looks at all of it."""

    def alone(self) -> AbstractContextManager[None]:
        """Keep everyone else out; raises LedgerInUse if anyone has it open."""

    def prepare(self, layout: int) -> None:
        """Make, within `append`, what a format needs."""

    def close(self) -> None:
        """Close files and connections."""


# --- A line as a table row: the line itself, and the fields that let the database enforce its rules. ---


StoredRow = tuple[int, str, str, str, int | None, str | None, str]
"""Number, previous hash, hash, kind, charge (of a use or a release), key (of a charge), text."""

_CHARGE_KINDS = frozenset({"redeemed", "armed", "unanswered", "released"})


def row_from_line(line: Line) -> StoredRow:
    """Return the row of a line."""
    fields = json.loads(line.text)
    kind = fields["entry"]
    charge = fields["charge"] if kind in _CHARGE_KINDS else None
    key = fields["key"] if kind == "charged" else None
    scoped = None if key is None else json.dumps([fields["analyst"], key])
    return line.number, line.previous, line.hash, kind, charge, scoped, line.text


def lines_from_rows(rows: Iterable[tuple[Any, ...]]) -> list[Line]:
    """Return the lines of rows; each row's fields must agree with its line."""
    lines = []
    for row in rows:
        try:
            line = Line(row[0], row[1], row[2], row[6])
            expected = row_from_line(line)
            if expected[3] not in ENTRY_KINDS:  # written by a newer version, whose extra fields are unknown here
                expected = (*expected[:4], *row[4:6], expected[6])
            same = expected == row and type(row[0]) is int
        except (LookupError, TypeError, ValueError, RecursionError) as fault:
            raise LedgerUnreadable("a row is damaged") from fault
        if not same:
            raise LedgerUnreadable("a row does not say what its line says")
        lines.append(line)
    return lines
