"""A small table behind a curator, so that the audit covers the path that serves analysts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.curator.curator import Curator
from dodona.curator.ladder import OPTIONAL_RUNGS
from dodona.curator.request import Dataset, Request
from dodona.engines.memory import MemorySource
from dodona.ledger import memory
from dodona.ledger.entries import Charged, entry_from_json
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.privacy.events import Event
from dodona.schema.attributes import Category, Integer, Number
from dodona.schema.schema import Neighbours, Schema
from dodona.trusted.source import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row = tuple[str | None, float, float] | tuple[str | None, float, float, str]
"""A sex, a stay in days, an income, and the person's id where people are the privacy unit."""
PERSON, CAP = "who", 2
"""The id column, and the row cap of a person."""
INCOMES = ((1 << 29) - 16, 1 << 29)
"""Four of the largest fill 31 bits."""
_SIZE = 8
_KEY = bytes(32)
_BUDGET = Fraction(10**4)
_DEFAULT = Request(within="1%", epsilon=None, confidence=0.95)


def schema_of(neighbours: Neighbours, *, person: str | None = None) -> Schema:
    """Return the schema; `other` may be nobody's sex. With an id column, people are the privacy unit."""
    return Schema.of(
        "stays",
        Category("sex", ("female", "male", "other")),
        Number("stay", 0, 3, "0.25"),
        Integer("income", *INCOMES),
        size=_SIZE,
        neighbours=neighbours,
        id=person,
        rows=1 if person is None else CAP,
    )


def source_of(schema: Schema, rows: Sequence[Row]) -> MemorySource:
    """Return the rows as a source."""
    sexes, stays, incomes, *people = zip(*rows, strict=True)
    columns: dict[str, Sequence[object] | NDArray[np.float64]] = {
        "sex": sexes,
        "stay": np.array(stays, dtype=np.float64),
        "income": np.array(incomes, dtype=np.float64),
        **dict.fromkeys([PERSON][: len(people)], people[0] if people else ()),
    }
    return MemorySource(schema, columns, key=_KEY)


def ledger_of(schema: Schema, delta: str = "0", accountant: str = "renyi") -> Ledger:
    """Return a ledger with the largest budget: pure, or under this accountant if δ > 0."""
    budget = Budget(_BUDGET, delta, "pure" if delta == "0" else accountant)
    return memory.create_memory_ledger(
        LedgerTerms(datasets={schema.table: schema.digest}, neighbours=schema.unit.neighbours, budget=budget)
    )


def make_curator(schema: Schema, source: Source, ledger: Ledger, *, rungs: frozenset[str] = OPTIONAL_RUNGS) -> Curator:
    """Return a curator for a schema, a source and a ledger."""
    return Curator(dataset_of(schema, source, ledger), rungs=rungs)


def dataset_of(schema: Schema, source: Source, ledger: Ledger) -> Dataset:
    """Return a dataset of a schema, a source and a ledger."""
    return Dataset(name=schema.table, schema=schema, source=source, ledger=ledger, default=_DEFAULT)


def last_event(ledger: Ledger) -> Event:
    """Return the event of the ledger's last charge."""
    entries = (entry_from_json(line.text, number=line.number) for line in reversed(ledger.lines()))
    return next(entry.event for entry in entries if isinstance(entry, Charged))
