"""Many questions from one pass: which blocks take it, and that their answers are exact."""

from __future__ import annotations

import numpy as np
import pytest

from dodona.engines.answers import MOST_CELLS, Histogram, group_sums, join_answers, plan_histograms
from dodona.engines.duckdb import DuckDBSource
from dodona.engines.memory import MemorySource
from dodona.query.predicate import among_mask, conjunction, evaluate_predicate
from dodona.query.query import Block, Query
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.schema import Domain, Schema
from tests.engines.scene import values


def conjunctions(domain: Domain, number: int, *, seed: int) -> Query:
    generator = np.random.default_rng(seed)
    blocks = list[Block]()
    for _ in range(number):
        chosen = generator.choice(len(domain.attributes), 3, replace=False)
        attributes = [domain.attributes[int(place)] for place in chosen]
        full = [(1 << attribute.cells) - 1 for attribute in attributes]
        blocks.append(
            Block(
                conjunction(
                    *(among_mask(a, int(generator.integers(1, f))) for a, f in zip(attributes, full, strict=True))
                )
            )
        )
    return Query(domain, tuple(blocks))


def test_ten_thousand_conjunctions_are_right_each() -> None:
    schema = Schema.of("t", *(Integer(f"a{i}", 0, 1) for i in range(10)), size=1_000_000)
    generator = np.random.default_rng(1)
    columns = {f"a{i}": generator.choice([0.0, 1.0, np.nan], size=2000) for i in range(10)}
    query = conjunctions(schema.domain, 10_000, seed=2)
    assert plan_histograms(query, rows=schema.unit.size).single == ()
    source = MemorySource(schema, columns)
    counts = values(source, query)
    for place in range(0, 10_000, 97):
        assert counts[place] == int(np.sum(evaluate_predicate(query.blocks[place].where, source._codes)))
    with_frame = DuckDBSource.frame(schema, _arrow(columns))
    assert values(with_frame, query) == counts


def test_attributes_that_do_not_fit_into_one_histogram_are_packed_into_several() -> None:
    schema = Schema.of("t", *(Integer(f"a{i}", 0, 13) for i in range(12)), size=1_000_000)
    plan = plan_histograms(conjunctions(schema.domain, 6000, seed=3), rows=schema.unit.size)
    assert len(plan.histograms) > 1
    for names, _ in plan.histograms:
        assert np.prod([schema.domain[name].cells for name in names]) <= MOST_CELLS
    places = sorted([*plan.single, *(place for _, packed in plan.histograms for place in packed)])
    assert places == list(range(6000))


@pytest.mark.slow
def test_packed_and_single_blocks_come_back_in_their_order() -> None:
    schema = Schema.of("t", *(Integer(f"a{i}", 0, 13) for i in range(8)), size=3000)
    generator = np.random.default_rng(4)
    columns = {f"a{i}": generator.integers(-2, 16, size=500) for i in range(8)}
    query = conjunctions(schema.domain, 4000, seed=5)
    plan = plan_histograms(query, rows=3000)
    assert plan.histograms
    source = MemorySource(schema, columns)
    expected = [int(np.sum(evaluate_predicate(block.where, source._codes))) for block in query.blocks]
    assert values(source, query) == expected
    assert values(DuckDBSource.frame(schema, _arrow(columns)), query) == expected


def test_one_question_needs_no_histogram() -> None:
    schema = Schema.of("t", Boolean("b"), size=10**6)
    plan = plan_histograms(Query.count(schema.domain), rows=10**6)
    assert plan.histograms == ()
    assert plan.single == (0,)


@pytest.mark.parametrize("size", [2**20, 2**53 - 1, 2**53 + 1, 2**62])
def test_sums_of_large_weights_lose_nothing(size: int) -> None:
    generator = np.random.default_rng(6)
    weights = generator.integers(-size, size, size=5000)
    weights[:3] = size, -size, -1
    groups = generator.integers(0, 7, size=5000)
    counts = generator.integers(0, 2**20, size=5000)
    expected, times = [0] * 7, [0] * 7
    for group, weight, count in zip(groups.tolist(), weights.tolist(), counts.tolist(), strict=True):
        expected[group] += weight
        times[group] += weight * count
    assert list(group_sums(groups, weights, number=7, counts=None, rows=5000)) == expected
    assert [int(v) for v in group_sums(groups, weights, number=7, counts=counts, rows=int(counts.sum()))] == times


def test_answers_that_need_more_than_64_bits_stay_whole() -> None:
    assert join_answers([np.array([1, 2]), [2**70]]) == [1, 2, 2**70]


def test_a_histogram_shows_nothing() -> None:
    assert repr(Histogram(("a",), np.array([5, 7]))) == "<sealed>"


def _arrow(columns: dict[str, np.ndarray]) -> object:
    import pyarrow as pa

    return pa.table({name: pa.array(column, from_pandas=True) for name, column in columns.items()})
