"""What holds of every source: two readings of a query agree, whatever the table and however it is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dodona.engines.answers import plan_histograms
from dodona.query.predicate import conjunction, disjunction
from dodona.query.query import Block, Query
from dodona.schema.attributes import Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Schema
from dodona.trusted.source import Source
from tests.engines.questions import block, comparison, computed, predicate, table
from tests.engines.scene import BACKENDS, SWIFT, Made, by_hand, made_up, values

BACKEND = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())
Opener = Callable[[Made, Path], tuple[Source, Made]]


def agree(backend: Opener, seed: int, folder: Path) -> None:
    """Hold a source to weights · histogram on eight questions of one to four blocks about one table."""
    source, held = backend(made_up(seed), folder)
    generator = np.random.default_rng([seed, 1])
    domain = held.schema.domain
    for turn in range(8):
        query = Query(domain, tuple(block(domain, generator) for _ in range(1 + turn % 4)))
        assert values(source, query) == by_hand(held, query), query
    source.close()


@BACKEND
@pytest.mark.parametrize("seed", [0, 1, 25])
def test_weights_over_the_histogram_and_the_source_say_the_same(backend, seed: int, tmp_path: Path) -> None:
    agree(backend, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.share(5)
@pytest.mark.parametrize("backend", SWIFT.values(), ids=SWIFT.keys())
@pytest.mark.parametrize("seed", [*range(2, 25), *range(26, 43)])
def test_they_say_the_same_of_many_tables(backend, seed: int, tmp_path: Path) -> None:
    agree(backend, seed, tmp_path)


@BACKEND
@pytest.mark.parametrize("seed", range(200, 204))
def test_sets_of_combinations_mean_the_same_rows_everywhere(backend, seed: int, tmp_path: Path) -> None:
    source, held = backend(made_up(seed), tmp_path)
    generator = np.random.default_rng([seed, 1])
    domain = held.schema.domain
    for turn in range(6):
        alone, other = table(domain, generator), table(domain, generator)
        joined = conjunction(other, predicate(domain, generator, depth=0)) if turn % 2 else disjunction(alone, other)
        keyed = replace(block(domain, generator), where=other)
        query = Query(domain, (Block(alone), Block(joined), keyed))
        assert values(source, query) == by_hand(held, query), query
    source.close()


@BACKEND
@pytest.mark.parametrize("seed", [300, 301, 302])
def test_products_and_tables_and_comparisons_mean_the_same_everywhere(backend, seed: int, tmp_path: Path) -> None:
    source, held = backend(made_up(seed), tmp_path)
    generator = np.random.default_rng([seed, 1])
    domain = held.schema.domain
    for _ in range(6):
        keyed = replace(block(domain, generator), where=comparison(domain, generator))
        blocks = (Block(comparison(domain, generator)), Block(weight=computed(domain, generator)), keyed)
        query = Query(domain, (*blocks, replace(keyed, weight=computed(domain, generator))))
        assert values(source, query) == by_hand(held, query), query
    source.close()


@BACKEND
@pytest.mark.parametrize("seed", [100, 101])
def test_many_questions_at_once_have_the_answers_that_each_has_alone(backend, seed: int, tmp_path: Path) -> None:
    source, held = backend(made_up(seed), tmp_path)
    generator = np.random.default_rng([seed, 1])
    domain = held.schema.domain
    query = Query(domain, tuple(block(domain, generator, weights="small") for _ in range(150)))
    assert plan_histograms(query, rows=held.schema.unit.size).histograms
    assert values(source, query) == by_hand(held, query)


@BACKEND
def test_columns_may_have_the_names_that_statements_use_themselves(backend, tmp_path: Path) -> None:
    names = ["k0", "k1", "g", "t0", "s0", "c0", "p", "place", "own", "grouped"]
    columns = {name: [(turn * place) % 4 for turn in range(9)] for place, name in enumerate(names, start=1)}
    columns["k1"], columns["own"] = (
        [["a", "b", "c"][turn % 3] for turn in range(9)],
        [f"{turn % 4}" for turn in range(9)],
    )
    attributes = [Category(name, ["a", "b"]) if name == "k1" else Integer(name, 0, 3) for name in names]
    types = {name: pa.string() if name in {"k1", "own"} else pa.int32() for name in names}
    source, held = backend(Made(Schema.of("t", *attributes, size=9), columns, types), tmp_path)
    domain = held.schema.domain
    for first, second in [("g", "k0"), ("k0", "k1"), ("k1", "s0"), ("c0", "own"), ("t0", "p"), ("place", "grouped")]:
        query = Query(domain, (Block(keys=(Partition.of(domain[first]), Partition.every(domain[second], 2))),))
        assert values(source, query) == by_hand(held, query), query
        single = Query(domain, (Block(keys=(Partition.of(domain[first]),)),))
        assert values(source, single) == by_hand(held, single), single


NAMES = ["hours-per-week", "length of stay", ">50K", 'say "x" `y`', "it's", "Größe", "a.b", "select", "0", "x;--"]


@BACKEND
def test_a_column_is_read_under_whatever_name_the_data_have_for_it(backend, tmp_path: Path) -> None:
    attributes = [Integer(f"c{place}", 0, 9, source=name) for place, name in enumerate(NAMES)]
    schema = Schema.of("t", *attributes, Integer("same", 0, 4, source=NAMES[0]), size=9, id="who am i", rows=2)
    columns = {name: [place % 10, 3, None] for place, name in enumerate(NAMES)} | {"who am i": [1, 1, 2]}
    made = Made(schema, columns, dict.fromkeys(columns, pa.int64()))
    source, _ = backend(made, tmp_path)
    for place, attribute in enumerate(attributes):
        expected = [0] * 12
        for code in (place % 10, 3, 10):
            expected[code] += 1
        assert values(source, Query.histogram(schema.domain, [attribute.name])) == expected
    assert values(source, Query.histogram(schema.domain, ["same"])) == [1, 0, 0, 1, 0, 1, 0]
