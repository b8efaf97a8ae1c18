"""A GROUP BY of some rows is shared like other counts: it follows from lattices, and pays for them."""

import math

import pytest

from dodona.curator.curator import Curator
from dodona.curator.request import Dataset
from dodona.engines.memory import MemorySource
from dodona.knowledge.patterns import find_pattern
from dodona.ledger import memory
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Schema
from dodona.sql.compile import read_questions
from tests.curator.scene import DEFAULT

ROWS = 3_000
LABELS = {"ward": "abcd", "kind": "xyz"}


def hospital(neighbours):
    schema = Schema.of(
        "stays",
        Category("ward", [*LABELS["ward"]], otherwise="a"),
        Category("kind", [*LABELS["kind"]], otherwise="x"),
        Integer("age", 0, 30, otherwise=0),
        Boolean("urgent", otherwise=False),
        size=ROWS,
        neighbours=neighbours,
    )
    columns = {
        "ward": [LABELS["ward"][row * row % 4] for row in range(ROWS)],
        "kind": [LABELS["kind"][row * 7 % 3] for row in range(ROWS)],
        "age": [row * 11 % 31 for row in range(ROWS)],
        "urgent": [row % 5 == 0 for row in range(ROWS)],
    }
    ledger = memory.create_memory_ledger(
        LedgerTerms(datasets={schema.table: schema.digest}, neighbours=schema.unit.neighbours, budget=Budget(4, "1e-9"))
    )
    source = MemorySource(schema, columns)
    return Curator(Dataset(name="stays", schema=schema, source=source, ledger=ledger, default=DEFAULT)), columns


def pattern(text):
    schema = hospital("replace")[0].schema
    block = read_questions(text, schema)[0].query.blocks[0]
    return find_pattern(block, schema.domain)


def test_conditions_and_keys_are_told_apart():
    count_pattern = pattern("SELECT kind, count(*) FROM stays WHERE urgent AND age < 9 GROUP BY kind")
    assert count_pattern.names == ("age", "kind", "urgent")
    assert count_pattern.filters == ((1 << 9) - 1, None, 0b10)
    assert count_pattern.several
    assert count_pattern.sets is None
    assert pattern("SELECT kind, count(*) FROM stays WHERE kind <> 'x' GROUP BY kind") is None
    assert pattern("SELECT kind, count(*) FROM stays WHERE urgent OR age < 9 GROUP BY kind") is None
    assert pattern("SELECT kind, count(*) FROM stays GROUP BY kind").filters is None


WHERE = {"urgent": lambda row: row["urgent"], "NOT urgent": lambda row: not row["urgent"]} | {
    f"age BETWEEN {low} AND {low + 9}": lambda row, low=low: low <= row["age"] <= low + 9 for low in range(20)
}


def grouped(where, keys):
    return f"SELECT {', '.join(keys)}, count(*) FROM stays WHERE {where} GROUP BY {', '.join(keys)}"  # noqa: S608


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_groups_of_some_rows_follow_from_a_lattice_as_single_counts_do(neighbours):
    curator, columns = hospital(neighbours)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    workload = [grouped(where, [key]) for where in WHERE for key in ("kind", "ward")]
    workload += [grouped("urgent", ["kind", "ward"]), grouped("urgent", ["ward", "kind"])]
    offer = curator.quote(workload, within=300)
    prepared = curator.prepare(workload, within=300)
    assert prepared.price.share == offer.price.share
    alone = sum(curator.quote(text, within=300, fresh=True).price.share for text in workload)
    assert prepared.price.share < alone / 2
    for where, keys in [*((condition, ("ward",)) for condition in [*WHERE][::5]), ("urgent", ("kind", "ward"))]:
        answer = curator.ask(grouped(where, keys), within=300)
        assert answer.source == "derived"
        assert len(answer.rows) == math.prod(len(LABELS[key]) for key in keys)
        for row in answer.rows:
            cell, (estimate,) = dict(zip(keys, row.keys, strict=True)), row.estimates
            conditions = " AND ".join([where, *(f"{key} = '{label}'" for key, label in cell.items())])
            single = curator.ask(f"SELECT count(*) FROM stays WHERE {conditions}", within=300)  # noqa: S608
            assert single.source == "derived"
            assert single.value.value == pytest.approx(estimate.value)
            assert single.value.high == pytest.approx(estimate.high)
            exact = sum(bool(WHERE[where](record)) and cell.items() <= record.items() for record in rows)
            assert abs(estimate.value - exact) < 1_000


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_stream_of_groups_of_some_rows_buys_a_lattice(neighbours):
    curator, _ = hospital(neighbours)
    texts = [grouped(where, [key]) for where in [*WHERE][2:] for key in ("kind", "ward")]
    sources = [curator.ask(text, within=300).source for text in texts]
    assert sources[0] == "measured"
    assert sources[20:].count("derived") >= 18
