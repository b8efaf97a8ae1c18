"""Small tables that are released, and ledgers that fail where a test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from dodona.curator.curator import Curator
from dodona.curator.request import Dataset, Request
from dodona.engines.memory import MemorySource
from dodona.ledger import memory
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Schema

ROWS = 4_000
DEFAULT = Request(within="1%", epsilon=None, confidence=0.95)
RENYI = Budget(2, "1e-6", "renyi")
PURE = Budget(2, 0, "pure")
DATASET = """format = 1
dataset = "stays"
[source]
kind = "csv"
path = "stays.csv"
table = "stays"
[unit]
protects = "row"
neighbours = "add-remove"
size = 2000
[budget]
epsilon = "2"
delta = "1e-6"
[ledger]
path = "stays.ledger"
[columns.sex]
kind = "category"
labels = ["female", "male"]
otherwise = "female"
[columns.emergency]
kind = "boolean"
otherwise = false
[columns.days]
kind = "integer"
lower = 0
upper = 9
otherwise = 0
"""


def schema(neighbours: str = "add-remove", *, size: int = ROWS) -> Schema:
    return Schema.of(
        "stays",
        Category("sex", ["female", "male"], otherwise="female"),
        Category("ward", ["surgery", "medicine", "children"], otherwise="surgery"),
        Integer("days", 0, 4, otherwise=0),
        Boolean("emergency", otherwise=False),
        size=size,
        neighbours=neighbours,
    )


def columns(rows: int = ROWS, seed: int = 3) -> dict[str, Sequence[object]]:
    """Columns that hang together: wards differ by sex, and emergencies by ward and days."""
    chance = np.random.default_rng(seed)
    sex = chance.random(rows) < 0.4
    ward = np.where(chance.random(rows) < np.where(sex, 0.7, 0.2), 0, 1 + (chance.random(rows) < 0.3))
    days = np.minimum(4, chance.poisson(1 + ward))
    emergency = chance.random(rows) < 0.1 + 0.15 * days
    return {
        "sex": ["male" if male else "female" for male in sex],
        "ward": [("surgery", "medicine", "children")[code] for code in ward],
        "days": days.tolist(),
        "emergency": emergency.tolist(),
    }


def ledger_of(declared: Schema, budget: Budget = RENYI) -> Ledger:
    return memory.create_memory_ledger(
        LedgerTerms(
            datasets={declared.table: declared.digest},
            neighbours=declared.unit.neighbours,
            budget=budget,
            analysts=(),
        )
    )


def curator_of(
    declared: Schema | None = None,
    held: Mapping[str, Sequence[object]] | None = None,
    *,
    ledger: Ledger | None = None,
    budget: Budget = RENYI,
) -> Curator:
    table_schema = schema() if declared is None else declared
    source = MemorySource(table_schema, columns() if held is None else held)
    kept = ledger_of(table_schema, budget) if ledger is None else ledger
    return Curator(Dataset(name=table_schema.table, schema=table_schema, source=source, ledger=kept, default=DEFAULT))


def tiny(*, size: int = 20, neighbours: str = "replace") -> Schema:
    """Four cells."""
    return Schema.of(
        "answers",
        Boolean("first", otherwise=False),
        Boolean("second", otherwise=False),
        size=size,
        neighbours=neighbours,
    )


def tiny_columns(cells: Sequence[int]) -> dict[str, Sequence[object]]:
    return {"first": [cell >= 2 for cell in cells], "second": [cell % 2 == 1 for cell in cells]}


class Fails:
    """A ledger that stops at its n-th write: before it is made, or just after."""

    def __init__(self, behind: Ledger, *, at: int, after: bool) -> None:
        self._behind, self._at, self._after, self.writes = behind, at, after, 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever is behind it
        method: Callable[..., object] = getattr(self._behind, name)
        if name not in {"reserve", "redeem", "record"}:
            return method

        def told(*arguments: object, **named: object) -> object:
            self.writes += 1
            if self.writes == self._at and not self._after:
                raise OSError(name)
            result = method(*arguments, **named)
            if self.writes == self._at:
                raise OSError(name)
            return result

        return told


def failing(behind: Ledger, *, at: int, after: bool) -> Ledger:
    return cast("Ledger", Fails(behind, at=at, after=after))
