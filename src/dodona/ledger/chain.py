"""The hash chain: each line's hash covers the line and, through the one before it, everything before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from dodona.ledger.entry import Entry
from dodona.ledger.spelling import to_json

NOTHING = "0" * 64
"""What stands before the first line."""


@dataclass(frozen=True, slots=True)
class Line:
    """An entry at its place in the chain."""

    number: int
    previous: str
    hash: str
    text: str = field(repr=False)
    """The entry; the first one holds the key of the cap, which is not shown."""

    def follows(self, number: int, previous: str) -> bool:
        """Return whether this is, unaltered, the next line after the one with this number and hash."""
        return self.number == number + 1 and self.previous == previous and self.hash == _hash(previous, self.text)


def line_after(number: int, previous: str, entry: Entry, *, time: str) -> Line:
    """Return the line of an entry, chained to the one with this number and hash."""
    text = to_json(entry, number=number + 1, time=time)
    return Line(number + 1, previous, _hash(previous, text), text)


def _hash(previous: str, text: str) -> str:
    return sha256(f"{previous}\n{text}".encode()).hexdigest()
