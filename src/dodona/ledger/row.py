"""A line as a row of a table: beside the line itself, what lets the database hold rules of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dodona.ledger.chain import Line
from dodona.ledger.faults import LedgerUnreadable
from dodona.ledger.spelling import KINDS

Row = tuple[int, str, str, str, int | None, str | None, str]
"""Number, previous hash, hash, kind, charge (of a use or a release), key (of a charge or a plan), text."""

_OF_A_CHARGE = frozenset({"redeemed", "armed", "unanswered", "released"})
_WITH_A_KEY = frozenset({"charged", "opened"})

_KNOWN = frozenset(KINDS)


def row_of(line: Line) -> Row:
    """Return the row of a line."""
    fields = json.loads(line.text)
    kind = fields["entry"]
    charge = fields["charge"] if kind in _OF_A_CHARGE else None
    key = fields["key"] if kind in _WITH_A_KEY else None
    scoped = None if key is None else json.dumps([fields["analyst"], key])
    return line.number, line.previous, line.hash, kind, charge, scoped, line.text


def lines_of(rows: Iterable[tuple[Any, ...]]) -> list[Line]:
    """Return the lines of rows, each of which must say the same as its line."""
    lines = []
    for row in rows:
        try:
            line = Line(row[0], row[1], row[2], row[6])
            own = row_of(line)
            if own[3] not in _KNOWN:  # of a newer version, which knows what it wrote beside the line
                own = (*own[:4], *row[4:6], own[6])
            same = own == row and type(row[0]) is int
        except (LookupError, TypeError, ValueError, RecursionError) as fault:
            raise LedgerUnreadable("a row is damaged") from fault
        if not same:
            raise LedgerUnreadable("a row does not say what its line says")
        lines.append(line)
    return lines
