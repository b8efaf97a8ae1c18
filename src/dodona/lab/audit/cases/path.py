"""The order of steps: what a table could reveal before it is paid for, and what a failure costs.

An adversary may stop the process at any moment, and may know rows that make reading fail. So nothing may be read before
the charge is durable, and the charge must not depend on whether reading succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import cast

import numpy as np

from dodona.curator.curator import Curator
from dodona.errors import Unavailable
from dodona.lab.audit.cases.asking import Rows, Tables
from dodona.lab.audit.cases.case import AuditCase
from dodona.lab.audit.cases.scene import ledger_of, make_curator, schema_of, source_of
from dodona.lab.audit.cases.served import COUNT, CROWD, FEMALE, GROUPS, neighbouring_tables
from dodona.lab.audit.features import VALUE, Outputs
from dodona.ledger.entries import Receipt
from dodona.ledger.errors import LedgerUnavailable
from dodona.ledger.ledger import Ledger
from dodona.query.query import Query
from dodona.schema.schema import Neighbours, Schema
from dodona.trusted.source import Sealed, Source

Ask = Callable[[Curator], object]
_REQUESTS: dict[str, Ask] = {
    "question": lambda curator: curator.ask(COUNT, epsilon=1),
    "choice": lambda curator: curator.choose(GROUPS, epsilon=1),
    "watch": lambda curator: curator.above(1, epsilon=1).ask(COUNT),
}


def cases() -> Iterator[AuditCase]:
    """Yield the cases. They are deterministic, so one run stands for all; a correct path reveals nothing."""
    for neighbours in Neighbours:
        tables = neighbouring_tables(neighbours, CROWD, FEMALE)
        for name, ask in _REQUESTS.items():
            for story, seen in (("before its charge", _read_unpaid), ("on a table that fails", _charges_after_failure)):
                yield AuditCase(
                    name=f"{name} {story}",
                    mechanism="served",
                    neighbours=neighbours,
                    claim=1.0,
                    draw=partial(_repeat, neighbours, tables, partial(seen, ask)),
                    features=(VALUE,),
                )


class RecordingSource:
    """A source that records whether it was read, and fails at a given number of women.

    The number of rows is exempt where it is public, because it says nothing about their contents.
    """

    def __init__(self, source: Source, rows: Rows, schema: Schema, *, fails_at: int | None) -> None:
        """Wrap a source, with the number of women at which it fails."""
        self._public = Query.count(schema.domain) if schema.unit.neighbours is Neighbours.REPLACE else None
        self.version = source.version
        self.asked = 0
        self.women = sum(sex == "female" for sex, *_ in rows)
        self._source, self._fails_at = source, fails_at

    def exact(self, query: Query) -> Sealed:
        """Return the exact answers, or fail."""
        if query == self._public:
            return self._source.exact(query)
        self.asked += 1
        if self.women == self._fails_at:
            raise ValueError(self.women)
        return self._source.exact(query)

    def close(self) -> None:
        """Nothing to close."""


class _FullDiskLedger:
    """A ledger whose disk is full when a receipt is redeemed."""

    def __init__(self, ledger: Ledger) -> None:
        """Wrap a ledger."""
        self._ledger = ledger

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    def redeem(self, _: Receipt) -> None:
        """Fail."""
        raise LedgerUnavailable

    def arm(self, _: Receipt, **__: bool) -> None:
        """Fail."""
        raise LedgerUnavailable


def _read_unpaid(ask: Ask, neighbours: Neighbours, rows: Rows) -> int:
    """Return what the source revealed although no receipt was redeemed: -1 if it was not read."""
    schema = schema_of(neighbours)
    source = RecordingSource(source_of(schema, rows), rows, schema, fails_at=None)
    with suppress(Unavailable):
        ask(make_curator(schema, source, cast("Ledger", _FullDiskLedger(ledger_of(schema)))))
    return source.women if source.asked else -1


def _charges_after_failure(ask: Ask, neighbours: Neighbours, rows: Rows) -> int:
    """Return how many charges remain after the source failed on one table and not on the other."""
    schema = schema_of(neighbours)
    ledger = ledger_of(schema)
    with suppress(Unavailable):
        ask(make_curator(schema, RecordingSource(source_of(schema, rows), rows, schema, fails_at=3), ledger))
    return ledger.state().charges


def _repeat(
    neighbours: Neighbours, tables: Tables, seen: Callable[[Neighbours, Rows], int], count: int
) -> tuple[Outputs, Outputs]:
    first, second = (np.full(count, seen(neighbours, rows)) for rows in tables)
    return first, second
