"""A table of many columns that hardly depend on each other, and products of some of them, for tests of predictions."""

from dataclasses import dataclass

import numpy as np

from dodona.curator.curator import Curator
from dodona.curator.ladder import OPTIONAL_RUNGS
from dodona.curator.request import AfterBudget, Dataset, Request
from dodona.engines.memory import MemorySource
from dodona.ledger import memory
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.query.predicate import among, conjunction
from dodona.query.query import Query
from dodona.schema.attributes import Boolean
from dodona.schema.schema import Schema

PURE = Budget(100, 0, "pure")
APPROXIMATE = Budget(20, "1e-9", "either")
CONFIDENCE = 0.99999999
"""So that all of some thirty intervals hold, but for 3·10^-7."""
WITHIN = "5%"


@dataclass(frozen=True)
class Table:
    """Rows, and questions with their exact answers."""

    schema: Schema
    source: MemorySource
    questions: tuple[tuple[Query, int], ...]

    def ledger(self, budget: Budget = PURE) -> Ledger:
        terms = LedgerTerms(
            datasets={"t": self.schema.digest}, neighbours=self.schema.unit.neighbours, budget=budget, analysts=()
        )
        return memory.create_memory_ledger(terms)

    def curator(
        self, kept: Ledger | None = None, *, rungs: frozenset[str] = OPTIONAL_RUNGS, after: AfterBudget = "refuse"
    ) -> Curator:
        default = Request(within=WITHIN, epsilon=None, confidence=CONFIDENCE)
        opened = Dataset(
            name="t",
            schema=self.schema,
            source=self.source,
            ledger=self.ledger() if kept is None else kept,
            default=default,
            after=after,
        )
        return Curator(opened, rungs=rungs)


def table(  # noqa: PLR0913  a table has this many sides
    seed: int,
    *,
    columns: int = 12,
    rows: int = 20_000,
    turns: int = 300,
    tied: bool = False,
    neighbours: str = "replace",
) -> Table:
    """Return independent columns; or, tied, columns that all but repeat one of two hidden ones."""
    random = np.random.default_rng([seed, 7])
    schema = Schema.of(
        "t", *(Boolean(f"c{place}", otherwise=False) for place in range(columns)), size=rows, neighbours=neighbours
    )
    data = random.random((rows, columns)) < random.uniform(0.1, 0.9, columns)
    if tied:
        hidden = random.random((rows, 2)) < 0.5
        data = hidden[:, random.integers(0, 2, columns)] ^ (random.random((rows, columns)) < 0.05)
    questions = []
    for _ in range(turns):
        places = random.choice(columns, size=random.integers(1, 4), replace=False)
        wanted = random.integers(0, 2, len(places))
        sides = (among(schema.domain[f"c{place}"], [int(code)]) for place, code in zip(places, wanted, strict=True))
        truth = int(np.all(data[:, places] == wanted.astype(bool), axis=1).sum())
        questions.append((Query.count(schema.domain, conjunction(*sides)), truth))
    source = MemorySource(schema, {f"c{place}": data[:, place].tolist() for place in range(columns)})
    return Table(schema, source, tuple(questions))
