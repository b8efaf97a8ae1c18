"""No person moves what a statement measures further than it pays for: statements over neighbouring tables."""
# ruff: noqa: S311  made-up people from a stated seed
# ruff: noqa: FBT003  values of a column

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pytest

from dodona.engines.duckdb import DuckDBSource
from dodona.errors import InvalidRequest
from dodona.query.query import Query
from dodona.query.sensitivity import unit_sensitivity
from dodona.query.statement import Statement
from dodona.schema.schema import Neighbours, Schema, Unit
from dodona.sql.compile import read_statement
from dodona.trusted.gate import read_exact
from tests.sql import grammar

KEY = bytes(range(32))
PEOPLE = 8
"""How many people are taken away, or replaced."""


def rows_of(who: str, draw: random.Random) -> grammar.Tables:
    """The rows of one person who is chosen to move answers far: often many rows, often alike, often at a bound."""
    number, alike = draw.choice([1, 2, 3, 4, 9]), draw.random() < 0.5
    start = dt.date(2023, 11, 1)

    def column(*values: object, most: int = number) -> list[object]:
        return [draw.choice(values)] * most if alike else [draw.choice(values) for _ in range(most)]

    return {
        "orders": {
            "region": column("north", "south", "east", None),
            "product": column("p0", "p1", "p5"),
            "quantity": column(20, 99, 1, 7, None),
            "unit_price": column(200.0, 20.0, 0.0, 7.5),
            "discount": column(1.0, 0.0, 0.35),
            "ordered": column(*(start + dt.timedelta(days) for days in (0, 20, 40, 60, 400))),
            "placed": column(*(dt.datetime(2024, 1, 1) + dt.timedelta(minutes=m) for m in (0, 700, 2_000, 2_880))),  # noqa: DTZ001
            "returned": column(True, False, None),
            "customer": [who] * number,
        },
        "customers": {
            "segment": column("home", "work", None, most=1),
            "age": column(99, 0, 40, most=1),
            "customer": [who],
        },
        "calls": {
            "minutes": column(60, 0, 17, most=number),
            "solved": column(True, False, most=number),
            "customer": [who] * number,
        },
    }


def source(schema: Schema, *parts: grammar.Tables) -> DuckDBSource:
    """A source of the rows of all parts, under one key, so that nobody's choice of rows depends on others."""
    types = {name: pa.table(columns).schema for name, columns in grammar.tables().items()}
    frames = {
        name: pa.table(
            {column: [value for part in parts for value in part[name][column]] for column in kinds.names}, schema=kinds
        )
        for name, kinds in types.items()
    }
    return DuckDBSource.frame(schema, frames, key=KEY)


def shop(neighbours: Neighbours) -> Schema:
    return replace(grammar.NARROW, unit=replace(grammar.NARROW.unit, neighbours=neighbours))


@lru_cache(maxsize=2)
def pairs(neighbours: Neighbours) -> tuple[tuple[DuckDBSource, DuckDBSource], ...]:
    """Pairs of tables that differ in one person: who is in one of them, or has other rows in each."""
    draw, schema = random.Random(11), shop(neighbours)
    few = {name: {column: values[:60] for column, values in table.items()} for name, table in grammar.tables().items()}
    whole = source(schema, few)
    made = []
    for number in range(PEOPLE):
        with_one = source(schema, few, rows_of(f"x{number}", draw))
        if neighbours is Neighbours.REPLACE:
            made.append((with_one, source(schema, few, rows_of(f"x{number}", draw))))
        else:
            made.append((whole, with_one))
    return tuple(made)


def queries(seed: int, statements: int, schema: Schema) -> Iterator[tuple[str, Query]]:
    """What made-up statements measure: all questions of one together."""
    writer = grammar.Writer(seed)
    for _ in range(statements):
        text = writer.statement()
        try:
            read = read_statement(text, schema)
        except InvalidRequest:
            continue
        questions = [question.query for question in (read.parts if isinstance(read, Statement) else (read,))]
        if questions:
            yield text, questions[0].stacked(*questions[1:])


def violations(seed: int, statements: int, neighbours: Neighbours, unit: Unit) -> tuple[list[str], int, int]:
    """The statements that one person moves further than the unit's sensitivity, and how many reach it, of how many."""
    beyond, reached, asked = list[str](), 0, 0
    for text, query in queries(seed, statements, shop(neighbours)):
        most = unit_sensitivity(query, unit)
        asked += 1
        furthest = 0
        for one, other in pairs(neighbours):
            before, after = (np.array(read_exact(table, query), dtype=object) for table in (one, other))
            moved = [abs(int(value)) for value in after - before]
            norms = sum(moved), sum(value * value for value in moved), max(moved)
            if any(norm > bound for norm, bound in zip(norms, (most.l1, most.l2_squared, most.linf), strict=True)):
                beyond.append(f"{text}: moved by {norms}, paid for {most}")
                break
            if most.monotone and len({value > 0 for value in after - before if value}) > 1:
                beyond.append(f"{text}: moved up and down, paid for as monotone")
                break
            furthest = max(furthest, norms[0])
        reached += furthest == most.l1
    return beyond, reached, asked


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(("seed", "statements"), [(1, 45), (2, 45), pytest.param(3, 2_000, marks=pytest.mark.soak)])
def test_no_person_moves_a_statement_further_than_it_pays_for(seed: int, statements: int, neighbours: Neighbours):
    beyond, reached, asked = violations(seed, statements, neighbours, shop(neighbours).unit)
    assert beyond == []
    assert asked > statements / 5
    assert reached > asked / 10  # so the bounds are not wide either


@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_price_for_fewer_rows_than_count_would_be_noticed(neighbours: Neighbours):
    caps = tuple((name, 1) for name, _ in shop(neighbours).unit.caps)
    unit = replace(shop(neighbours).unit, rows=len(caps), caps=caps)
    assert violations(1, 60, neighbours, unit)[0]
