"""Several tables of the same people: the same rows count on every engine, and no person moves more than their caps."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.engines.cells import SourceUnfit
from dodona.engines.duckdb import DuckDBSource
from dodona.engines.postgres import PostgresSource
from dodona.errors import InvalidArgument
from dodona.query.predicate import among, conjunction
from dodona.query.query import Block, PeopleWeight, Query
from dodona.query.sensitivity import unit_sensitivity
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.encoding import encode
from dodona.schema.schema import ROW_OF, Domain, LinkedTable, Neighbours, Schema, row_labels
from dodona.trusted.source import Source
from tests.engines.scene import KEY, OPENED, spark, values
from tests.engines.server import held, owner
from tests.house.shares import examples
from tests.ledger.scene import shared_server
from tests.query.drawing import blocks, contribution, is_meant

PATIENTS = LinkedTable("patients", Domain((Category("sex", ["f", "m"]), Integer("age", 0, 2, otherwise=0))), "id")
TESTS = LinkedTable("tests", Domain((Boolean("positive"),)), "person", 2)
SCHEMA = Schema.of(
    "visits",
    Category("ward", ["b", "a"]),
    Integer("cost", 0, 3),
    size=200,
    id="who",
    rows=3,
    linked=[PATIENTS, TESTS],
)
Tables = dict[str, dict[str, list[Any]]]


def rows(seed: int = 5) -> Tables:
    """Visits of 40 people, patients of whom some are strangers and some are there twice, and tests."""
    generator = np.random.default_rng(seed)

    def people(first: int, after: int, number: int) -> list[Any]:
        return [None if v == first else f"p{v}" for v in generator.integers(first, after, number)]

    def some(labels: list[Any], number: int) -> list[Any]:
        return [labels[v] for v in generator.integers(0, len(labels), number)]

    return {
        "visits": {
            "ward": some([None, "a", "b", "c"], 150),
            "cost": some([None, -1, 1, 2, 9], 150),
            "who": people(0, 40, 150),
        },
        "patients": {
            "sex": some([None, "f", "m", "x"], 45),
            "age": some([None, 0, 1, 5], 45),
            "id": people(10, 60, 45),
        },
        "tests": {"positive": some([None, True, False], 80), "person": people(0, 30, 80)},
    }


TYPES = {"ward": pa.string(), "cost": pa.int64(), "who": pa.string(), "sex": pa.string(), "age": pa.int64()}
TYPES |= {"id": pa.string(), "positive": pa.bool_(), "person": pa.string()}


def arrow(own: dict[str, list[Any]]) -> pa.Table:
    return pa.table({name: pa.array(column, TYPES[name]) for name, column in own.items()})


def arrow_frame(tables: Tables, _: Path) -> Source:
    return DuckDBSource.frame(SCHEMA, {name: arrow(table) for name, table in tables.items()}, key=KEY)


def pandas_frame(tables: Tables, _: Path) -> Source:
    return DuckDBSource.frame(SCHEMA, {name: arrow(table).to_pandas() for name, table in tables.items()}, key=KEY)


def polars_frame(tables: Tables, _: Path) -> Source:
    return DuckDBSource.frame(SCHEMA, {name: pl.from_arrow(arrow(table)) for name, table in tables.items()}, key=KEY)


def parquet(tables: Tables, folder: Path) -> Source:
    for name, table in tables.items():
        pa.parquet.write_table(arrow(table), folder / f"{name}.parquet")
    linked = {name: folder / f"{name}.parquet" for name in ("patients", "tests")}
    return DuckDBSource.parquet(SCHEMA, folder / "visits.parquet", key=KEY, linked=linked)


def comma_separated(tables: Tables, folder: Path) -> Source:
    for name, table in tables.items():
        arrow(table).to_pandas().astype(object).to_csv(folder / f"{name}.csv", index=False)
    linked = {name: folder / f"{name}.csv" for name in ("patients", "tests")}
    return DuckDBSource.csv(SCHEMA, folder / "visits.csv", key=KEY, linked=linked)


def database(tables: Tables, folder: Path) -> Source:
    with duckdb.connect(str(folder / "held.duckdb")) as connection:
        for name, table in tables.items():
            connection.register("rows", arrow(table))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")  # noqa: S608
    return DuckDBSource.table(SCHEMA, folder / "held.duckdb", key=KEY)


def postgres(tables: Tables, _: Path) -> Source:
    kinds = {pa.string(): "text", pa.int64(): "bigint", pa.bool_(): "boolean"}
    names = {
        name: held(name, table, {column: kinds[TYPES[column]] for column in table}) for name, table in tables.items()
    }
    main = names.pop("visits")
    source = PostgresSource(SCHEMA, shared_server().address, table=main, key=KEY, linked=names)
    OPENED.append(source)
    return source


def kept_on_postgres(tables: Tables) -> tuple[Callable[[], Source], str]:
    """Store the counted rows, and return how they are opened, and the name of the table that holds them."""
    source = postgres(tables, Path())
    assert isinstance(source, PostgresSource)
    kept = f"{source._relations[0][1].space}.kept"
    source.keep_rows(shared_server().address, kept, key=KEY)

    def opened() -> Source:
        OPENED.append(PostgresSource(SCHEMA, shared_server().address, key=KEY, kept=kept))
        return OPENED[-1]

    return opened, kept


def on_spark(tables: Tables, folder: Path) -> Source:
    from dodona.engines.spark import SparkSource
    from tests.engines.spark import engine

    for name, table in tables.items():
        pa.parquet.write_table(arrow(table), folder / f"{name}.parquet")
    linked = {name: folder / f"{name}.parquet" for name in ("patients", "tests")}
    source = SparkSource.parquet(SCHEMA, folder / "visits.parquet", session=engine(), key=KEY, linked=linked)
    OPENED.append(source)
    return source


ENGINES: dict[str, Callable[[Tables, Path], Source]] = {
    engine.__name__: engine
    for engine in (arrow_frame, pandas_frame, polars_frame, parquet, comma_separated, database, postgres)
}


def counted(attributes: Domain, own: dict[str, list[Any]], person: str, most: int) -> dict[str, list[dict[str, int]]]:
    """The rows of each person in one table that count, as the page of people says: by the smallest keyed hashes."""
    codes = [encode(attribute, own[attribute.name]).tolist() for attribute in attributes]
    by_person: dict[str, list[tuple[int, ...]]] = {}
    for row, who in zip(zip(*codes, strict=True), own[person], strict=True):
        if who is not None:
            by_person.setdefault(who, []).append(row)
    kept = {}
    for who, listed in by_person.items():
        numbered = [(row, listed[:place].count(row) + 1) for place, row in enumerate(listed)]
        text = {pair: " ".join([KEY.hex(), *map(str, pair[0]), str(pair[1]), who]) for pair in numbered}
        order = sorted(numbered, key=lambda one: hashlib.md5(text[one].encode(), usedforsecurity=False).hexdigest())
        kept[who] = [dict(zip(attributes.names, row, strict=True)) for row, _ in order[:most]]
    return kept


def by_hand(tables: Tables) -> list[dict[str, int]]:
    """All counted rows with the columns of all tables, from the words of the page alone."""
    schema = SCHEMA.own
    visits = counted(schema.domain, tables["visits"], "who", 3)
    patients = counted(PATIENTS.domain, tables["patients"], "id", 1)
    tests = counted(TESTS.domain, tables["tests"], "person", 2)
    labels = row_labels("visits", (PATIENTS, TESTS))
    absent = {
        attribute.name: attribute.size if attribute.landing is None else attribute.landing
        for attribute in SCHEMA.domain
    }
    joined = []
    for name, people in (("visits", visits), ("patients", patients), ("tests", tests)):
        for who, listed in people.items():
            patient = patients.get(who, [{}])[0]
            label = name if name == "patients" or not patient else f"{name}+patients"
            joined += [{**absent, **patient, **row, ROW_OF: labels.index(label)} for row in listed]
    return joined


def queries() -> list[Query]:
    domain = SCHEMA.domain
    names = ["ward", "cost", ROW_OF, "sex", "age", "positive"]
    return [Query.marginal(domain, [name, other]) for name, other in itertools.combinations(names, 2)] + [
        Query(domain, (Block(among(domain[ROW_OF], [0, 1]), (), PeopleWeight()), Block())),
    ]


def check(source: Source, tables: Tables, every: int = 1) -> None:
    table = by_hand(tables)
    for query in queries()[:-1:every]:
        block = query.blocks[0]
        counts = Counter(contribution(block, row)[0] for row in table)
        shape = [key.groups for key in block.keys]
        assert values(source, query) == [counts[place] for place in itertools.product(*map(range, shape))]
    with_visits = {who for who in tables["visits"]["who"] if who is not None}
    assert values(source, queries()[-1]) == [len(with_visits), len(table)]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_linked_rows_are_the_same_on_every_engine(engine: Callable[[Tables, Path], Source], tmp_path: Path) -> None:
    source = engine(rows(), tmp_path)
    check(source, rows())
    assert source.repeated() == ("patients",)  # type: ignore[attr-defined]


@pytest.mark.parametrize("every", [4, 1])
@pytest.mark.parametrize("backend", [spark])
def test_linked_rows_are_the_same_on_spark(backend: object, every: int, tmp_path: Path) -> None:
    assert backend is spark  # which marks the test, and leaves the second case to the soak
    source = on_spark(rows(), tmp_path)
    check(source, rows(), every)
    assert source.repeated() == ("patients",)  # type: ignore[attr-defined]


def test_kept_rows_are_held_to_the_cap_of_each_table() -> None:
    tables = rows()
    tables["visits"] = {name: column[:0] for name, column in tables["visits"].items()}  # so that all caps have room
    opened, kept = kept_on_postgres(tables)
    check(opened(), tables)
    with owner() as connection:  # a second row of some patients: within all caps together, beyond that of patients
        place = SCHEMA.domain.names.index(ROW_OF)
        codes = [place for place, label in enumerate(row_labels("visits", SCHEMA.linked)) if label == "patients"]
        connection.execute(f"INSERT INTO {kept} SELECT * FROM {kept} WHERE c{place} = {codes[0]}")  # noqa: S608
    with pytest.raises(SourceUnfit, match="were changed"):
        opened()


def test_one_row_of_each_person_is_nothing_to_warn_about(tmp_path: Path) -> None:
    tables = rows()
    tables["patients"] = {"sex": ["f", "m"], "age": [1, 2], "id": ["p1", "p2"]}
    assert arrow_frame(tables, tmp_path).repeated() == ()  # type: ignore[attr-defined]


def test_ids_that_are_not_written_alike_are_refused() -> None:
    tables = {name: arrow(table) for name, table in rows().items()}
    numbers = pa.array(np.linspace(0, 1, tables["patients"].num_rows))
    tables["patients"] = tables["patients"].set_column(2, "id", numbers)
    with pytest.raises(SourceUnfit, match="no text and no whole number"):
        DuckDBSource.frame(SCHEMA, tables, key=KEY)
    mixed = {name: arrow(table).to_pandas() for name, table in rows().items()}
    mixed["visits"] = mixed["visits"].assign(who=pd.Series([1, "1"] * 75, dtype=object))
    with pytest.raises(SourceUnfit, match="several types"):
        DuckDBSource.frame(SCHEMA, mixed, key=KEY)


def test_frames_are_given_by_the_names_of_their_tables() -> None:
    with pytest.raises(SourceUnfit, match="Give a frame of each"):
        DuckDBSource.frame(SCHEMA, arrow(rows()["visits"]), key=KEY)


SMALL = Schema.of(
    "visits",
    Boolean("urgent", otherwise=False),
    size=10,
    id="who",
    rows=2,
    linked=[LinkedTable("patients", Domain((Boolean("old", otherwise=False),)), "who")],
)
LABELS = row_labels("visits", SMALL.linked)


def persons() -> list[list[dict[str, int]]]:
    """Everybody whom two tables may have: up to two visits, and up to one row of patients, as counted rows."""
    people = []
    for visits in [(), (0,), (1,), (0, 0), (0, 1), (1, 1)]:
        for old in (None, 0, 1):
            label = "visits" if old is None else "visits+patients"
            person = [{"urgent": urgent, "old": old or 0, ROW_OF: LABELS.index(label)} for urgent in visits]
            person += [] if old is None else [{"urgent": 0, "old": old, ROW_OF: LABELS.index("patients")}]
            people.append(person)
    return people


def moved(query: Query, own: list[dict[str, int]]) -> Counter[tuple[int, tuple[int, ...]]]:
    totals: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for number, block in enumerate(query.blocks):
        if isinstance(block.weight, PeopleWeight):
            totals[number, ()] = int(any(is_meant(block.where, row) for row in own))
            continue
        for group, weight in (contribution(block, row) for row in own):
            totals[number, group] += weight
    return totals


@st.composite
def small_queries(draw: st.DrawFn) -> Query:
    """Blocks over one table, over a join, or over all rows."""
    row_of, restricted = SMALL.domain[ROW_OF], []
    for block in draw(st.lists(blocks(SMALL.domain), min_size=1, max_size=3)):
        tables = draw(st.sampled_from([[0, 1], [1], [2], [0, 1, 2]]))
        weight = draw(st.sampled_from([block.weight, PeopleWeight()])) if not block.keys else block.weight
        restricted.append(Block(conjunction(block.where, among(row_of, tables)), block.keys, weight, block.unit))
    return Query(SMALL.domain, tuple(restricted))


@pytest.mark.parametrize("relation", list(Neighbours))
@given(query=small_queries())
@settings(max_examples=examples(60), deadline=None)
def test_no_person_moves_answers_over_several_tables_farther_than_priced(relation: Neighbours, query: Query) -> None:
    unit = SMALL.unit
    priced = unit_sensitivity(query, type(unit)(neighbours=relation, size=10, id="who", rows=3, caps=unit.caps))
    tables = [moved(query, person) for person in persons()]
    nobody: Counter[tuple[int, tuple[int, ...]]] = Counter()
    pairs = (
        ((table, nobody) for table in tables)
        if relation is Neighbours.ADD_REMOVE
        else itertools.combinations(tables, 2)
    )
    for first, other in pairs:
        steps = [first[place] - other[place] for place in first.keys() | other.keys()] or [0]
        assert sum(map(abs, steps)) <= priced.l1
        assert sum(step * step for step in steps) <= priced.l2_squared
        assert max(map(abs, steps)) <= priced.linf
        if priced.monotone:
            assert min(steps) >= 0 or max(steps) <= 0


def test_a_question_of_one_table_costs_that_tables_rows() -> None:
    row_of = SMALL.domain[ROW_OF]
    prices = {
        name: unit_sensitivity(Query(SMALL.domain, (Block(among(row_of, codes)),)), SMALL.unit).l1
        for name, codes in {"visits": [0, 1], "joined": [1], "patients": [2], "all": [0, 1, 2]}.items()
    }
    assert prices == {"visits": 2, "joined": 2, "patients": 1, "all": 3}


@pytest.mark.parametrize(
    ("linked", "match"),
    [
        ([LinkedTable("visits", Domain((Boolean("old"),)), "who")], "a name of its own"),
        ([LinkedTable("patients", Domain((Boolean("urgent"),)), "who")], "another table has it too"),
        ([LinkedTable(f"t{n}", Domain((Boolean(f"c{n}"),)), "who") for n in range(7)], "up to 6 tables"),
    ],
    ids=["twice", "column", "many"],
)
def test_tables_that_do_not_go_together_are_refused(linked: list[LinkedTable], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        Schema.of("visits", Boolean("urgent"), size=10, id="who", rows=2, linked=linked)
    with pytest.raises(InvalidArgument, match="protects"):
        Schema.of("visits", Boolean("urgent"), size=10, linked=[PATIENTS])
