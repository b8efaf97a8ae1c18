"""A small dataset that tests ask: a memory source, a ledger in memory, and a curator over both."""

from collections.abc import Sequence

from dodona.curator.curator import Curator
from dodona.curator.request import Dataset, Request
from dodona.engines.memory import MemorySource
from dodona.ledger import memory
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Analyst, Budget
from dodona.schema.attributes import Boolean, Category, Integer, Number
from dodona.schema.schema import Neighbours, Schema
from dodona.trusted.source import Source

ROWS = 1_000
DEFAULT = Request(within="1%", epsilon=None, confidence=0.95)


def schema(neighbours: str = "add-remove") -> Schema:
    return Schema.of(
        "stays",
        Category("sex", ("female", "male")),
        Integer("age", 0, 99),
        Number("stay", 0, 30, "0.5"),
        Boolean("emergency"),
        size=ROWS,
        neighbours=Neighbours(neighbours),
    )


def columns(rows: int = ROWS) -> dict[str, Sequence[object]]:
    return {
        "sex": ["female" if row % 3 else "male" for row in range(rows)],
        "age": [row % 100 for row in range(rows)],
        "stay": [(row % 61) / 2 for row in range(rows)],
        "emergency": [row % 10 == 0 for row in range(rows)],
    }


def ledger(budget: Budget | None = None, analysts: tuple[Analyst, ...] = (), neighbours: str = "add-remove") -> Ledger:
    declared = schema(neighbours)
    return memory.create_memory_ledger(
        LedgerTerms(
            datasets={"stays": declared.digest},
            neighbours=Neighbours(neighbours),
            budget=budget or Budget(100, "1e-6", "renyi"),
            analysts=analysts,
        )
    )


def curator(
    *, source: Source | None = None, kept: Ledger | None = None, analyst: str | None = None, version: str = "1"
) -> Curator:
    declared = schema()
    return Curator(
        Dataset(
            name="stays",
            schema=declared,
            source=source or MemorySource(declared, columns(), version=version),
            ledger=kept or ledger(),
            default=DEFAULT,
        ),
        analyst=analyst,
    )
