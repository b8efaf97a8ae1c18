"""Tables that differ in one row, curators over them, and everything that an analyst sees of an answer."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from dodona.answer.answer import Answer
from dodona.curator.curator import Curator
from dodona.curator.ladder import OPTIONAL_RUNGS
from dodona.curator.request import Dataset, Request
from dodona.engines.duckdb import DuckDBSource
from dodona.engines.memory import MemorySource
from dodona.errors import DodonaError
from dodona.lab.audit.cases.scene import last_event
from dodona.ledger import memory
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.privacy.events import Event
from dodona.schema.attributes import Boolean, Category, Date, Integer, Number
from dodona.schema.schema import Neighbours, Schema
from dodona.trusted.source import Source

Row = tuple[object, ...]
NAMES = ("sex", "age", "stay", "admitted", "emergency")
CROWD: tuple[Row, ...] = (
    ("female", 3, 1.0, dt.date(2023, 12, 24), True),
    ("female", 20, 4.75, dt.date(2024, 2, 29), False),
    ("male", 0, 0.0, dt.date(2023, 11, 1), False),
    ("male", 7, 2.5, dt.date(2024, 1, 1), True),
    (None, 7, 2.5, dt.date(2024, 1, 1), True),
)
PERSONS: dict[str, Row] = {
    "an ordinary row": ("female", 11, 3.25, dt.date(2024, 1, 15), True),
    "the only one of a group": ("other", 15, 0.25, dt.date(2024, 3, 31), False),
    "nothing but missing values": (None, None, None, None, None),
    "values outside": ("<script>", 10**9, 1e300, dt.date(1890, 1, 1), None),
    "numbers that are none": ("", float("nan"), float("-inf"), None, False),
}
"""Who may join, or take the place of an ordinary row."""
_DEFAULT = Request(within="1%", epsilon=None, confidence=0.95)
_KEY = itertools.count()
_NUMBER = re.compile(r"-?\d+(,\d{3})*(\.\d+)?(e[+-]?\d+)?|null")
_SPACE = re.compile(r"[ -]{2,}")


def schema(neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Schema:
    return Schema.of(
        "stays",
        Category("sex", ["female", "male", "other"]),
        Integer("age", 0, 20),
        Number("stay", 0, 5, "0.25", bins=(0, 1, 3, 5)),
        Date("admitted", dt.date(2023, 11, 1), dt.date(2024, 3, 31)),
        Boolean("emergency"),
        size=6,
        neighbours=neighbours,
    )


def tables(neighbours: Neighbours, person: Row) -> tuple[Sequence[Row], Sequence[Row]]:
    """Neighbours: without the person, and with."""
    return CROWD if neighbours is Neighbours.ADD_REMOVE else (*CROWD, CROWD[0]), (*CROWD, person)


def columns(rows: Sequence[Row]) -> dict[str, list[object]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(NAMES)}


def source(rows: Sequence[Row], *, engine: str = "memory", neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Source:
    if engine == "memory":
        return MemorySource(schema(neighbours), columns(rows))
    return DuckDBSource.frame(schema(neighbours), pd.DataFrame(columns(rows), dtype=object), threads=1)


def ledger(neighbours: Neighbours = Neighbours.ADD_REMOVE, *, delta: str = "1e-6") -> Ledger:
    declared = schema(neighbours)
    budget = Budget(10**4, delta, "pure" if delta == "0" else "renyi")
    return memory.create_memory_ledger(
        LedgerTerms(datasets={"stays": declared.digest}, neighbours=neighbours, budget=budget)
    )


def curator(
    told: Source,
    kept: Ledger,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    *,
    rungs: frozenset[str] = OPTIONAL_RUNGS,
) -> Curator:
    dataset = Dataset(name="stays", schema=schema(neighbours), source=told, ledger=kept, default=_DEFAULT)
    return Curator(dataset, rungs=rungs)


def of(rows: Sequence[Row], neighbours: Neighbours = Neighbours.ADD_REMOVE, **options: Any) -> Curator:  # noqa: ANN401
    """A curator of rows; a δ of 0 makes all noise Laplace, and without rungs every question is measured."""
    engine, delta = options.get("engine", "memory"), options.get("delta", "1e-6")
    data, kept = source(rows, engine=engine, neighbours=neighbours), ledger(neighbours, delta=delta)
    return curator(data, kept, neighbours, rungs=options.get("rungs", OPTIONAL_RUNGS))


def charge(asked: Curator, question: object, **price: object) -> Event | str | None:
    """What a question is charged, None where it is free, or the whole text of the error."""
    ledger = asked._dataset.ledger
    before = ledger.state().charges
    try:
        asked.ask(question, key=str(next(_KEY)), **price)  # type: ignore[arg-type]
    except DodonaError as error:
        return f"{type(error).__name__} {error.code} {error.exit_code} {error.http_status} {error.sqlstate} {error}"
    return last_event(ledger) if ledger.state().charges > before else None


def outline(answer: Answer) -> str:
    """Everything that is shown of an answer, with a sign for each number, receipt and hash."""
    document = json.loads(answer.to_json())
    document["receipt"] = document["head"] = "hash"
    shown = (
        json.dumps(document),
        str(answer),
        repr(answer.columns),
        repr(answer.estimated),
        repr([row.keys for row in answer.rows]),
        repr(answer.warnings),
        answer.mechanism,
        answer.theorem,
        repr(list(answer.to_pandas().columns)),
        repr(answer.version),
    )
    return _SPACE.sub(" ", _NUMBER.sub("#", "\n".join(shown)))


def questions(generator: random.Random) -> Iterator[str]:
    """Questions without end: most are answered, some are refused."""
    while True:
        kind = generator.randrange(10)
        keys = generator.sample(_KEYS, generator.choice([0, 0, 1, 1, 2]))
        listed = generator.sample(_AGGREGATES, generator.choice([1, 1, 2]))
        text = f"SELECT {', '.join([*keys, *listed])} FROM stays"  # noqa: S608
        if kind < 7:
            text += f" WHERE {_condition(generator, 2)}"
        if keys:
            text += f" GROUP BY {', '.join(keys)}"
        if keys and kind in {1, 2}:
            text += f" HAVING count(*) > {generator.randrange(5)} ORDER BY count(*) DESC LIMIT 2"
        yield text if kind < 9 else text.replace(generator.choice("SFeac("), generator.choice(["", ")", "'", "x"]), 1)


_KEYS = ["sex", "emergency", "stay", "date_trunc('month', admitted)", "bin(age, 5)"]
_AGGREGATES = [
    "count(*)",
    "count(age)",
    "sum(stay)",
    "sum(age * 1000)",
    "sum(CASE WHEN sex = 'female' THEN 100 ELSE -1 END)",
    "avg(stay)",
    "count(*) FILTER (WHERE emergency)",
    "stddev(age)",
    "median(age)",
    "max(stay)",
    "sum(1 / age)",
    "count(DISTINCT sex)",
]
_CONDITIONS = [
    "sex = 'female'",
    "sex <> '<outside>'",
    "sex IS NULL",
    "age BETWEEN 3 AND 11",
    "age / 0 = 1",
    "stay > 2.5",
    "CAST(sex AS INTEGER) = 1",
    "emergency",
    "NOT emergency",
    "admitted >= DATE '2024-01-01'",
    "age IN (1, 7, 20)",
    "nobody = 3",
    "1 = 1",
]


def _condition(generator: random.Random, depth: int) -> str:
    if depth == 0 or generator.random() < 0.5:
        return generator.choice(_CONDITIONS)
    link = generator.choice([" AND ", " OR "])
    return f"({_condition(generator, depth - 1)}{link}{_condition(generator, depth - 1)})"
