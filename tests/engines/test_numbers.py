"""Sums are exact: at the edges of the number types, with values that swallow others, in any order, on any threads."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dodona.engines.duckdb import DuckDBSource
from dodona.engines.memory import MemorySource
from dodona.query.query import Block, ConstantWeight, Query, ValueWeight
from dodona.schema.attributes import Boolean, Category, Integer, Number
from dodona.schema.schema import Schema
from tests.engines.questions import block
from tests.engines.scene import BACKENDS, Made, made_up, parquet, values

BACKEND = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())


@BACKEND
@pytest.mark.parametrize("edge", [2**31, 2**53, 2**60])
def test_a_row_more_moves_a_sum_by_its_weight_across_every_edge(backend, edge: int, tmp_path: Path) -> None:
    """N4: n rows that each count for the most, with sums below and above 2^31, 2^53 and 2^63."""
    schema = Schema.of("t", Integer("x", 0, 1), Boolean("b"), size=100)
    most = edge - 1
    query = Query(schema.domain, tuple(Block(weight=w) for w in (ValueWeight("x", 2, 0, most), ConstantWeight(-most))))
    for rows in (1, 2, 9):
        folder = tmp_path / str(rows)
        folder.mkdir()
        made = Made(schema, {"x": [1] * rows, "b": [True] * rows}, {"x": pa.int64(), "b": pa.bool_()})
        source, _ = backend(made, folder)
        sums = values(source, query)
        source.close()
        assert sums == [rows * most, -rows * most]


@pytest.mark.parametrize("seed", range(2))
def test_neighbouring_tables_differ_by_the_row_exactly_whatever_the_magnitudes(seed: int) -> None:
    """N5: values from 2^-12 to 2^11 steps apart; 200 neighbours a seed; no tolerance."""
    generator = np.random.default_rng(seed)
    number = Number("x", -(2**20), 2**20 - 1, Fraction(1, 8))
    schema = Schema.of("t", number, size=100)
    query = Query.sum(schema.domain, "x")
    column = np.concatenate([np.array([2.0**20, -(2.0**20)]), generator.choice([1 / 8, -1 / 8, 1 / 16], size=2000)])
    whole = values(MemorySource(schema, {"x": column}), query)[0]
    steps = [min(max(math.floor((x + 2**20) * 8), 0), number.size - 1) - 2**23 for x in column]
    assert whole == sum(steps)
    frame = values(DuckDBSource.frame(schema, pa.table({"x": column})), query)[0]
    assert frame == whole
    for place in generator.choice(len(column), size=200, replace=False):
        rest = np.delete(column, place)
        assert whole - values(MemorySource(schema, {"x": rest}), query)[0] == steps[place]


@pytest.mark.parametrize("seed", [3, 11])
def test_neither_the_order_of_rows_nor_the_number_of_threads_changes_a_value(seed: int, tmp_path: Path) -> None:
    """N6: 30 orders, and 1, 2 and 8 threads over several row groups."""
    made = made_up(seed, rows=400)
    generator = np.random.default_rng([seed, 2])
    domain = made.schema.domain
    query = Query(domain, tuple(block(domain, generator) for _ in range(6)))
    source, _ = parquet(made, tmp_path)
    expected = values(source, query)
    assert any(expected)
    for _ in range(30):
        order = generator.permutation(400)
        turned = Made(made.schema, {n: [column[i] for i in order] for n, column in made.columns.items()}, made.types)
        assert values(MemorySource(made.schema, turned.columns), query) == expected
    for threads in (1, 2, 8):
        path = tmp_path / "groups.parquet"
        pa.parquet.write_table(turned.arrow(), path, row_group_size=50)
        assert values(DuckDBSource.parquet(made.schema, path, threads=threads), query) == expected


SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 5e-324, -5e-324, None, 1.7976931348623157e308, 0.5]


@pytest.mark.parametrize(
    "backend", [b for n, b in BACKENDS.items() if n != "csv"], ids=[n for n in BACKENDS if n != "csv"]
)
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_each_special_value_lands_in_its_cell(backend, kind: pa.DataType, tmp_path: Path) -> None:
    """N7: each special value in exactly one row."""
    schema = Schema.of("t", Number("x", -1, 1, "0.5"), size=10)
    held = [None if v is None else float(np.float32(min(v, 3e38))) if kind == pa.float32() else v for v in SPECIAL]
    source, _ = backend(Made(schema, {"x": held}, {"x": kind}), tmp_path)
    low, high, missing = [-math.inf], [math.inf, 1.7976931348623157e308], [math.nan, None]
    codes = [math.floor((v + 1) / 0.5) for v in (held[3], held[4], held[5], held[8])]
    expected = [
        len(low) + codes.count(0),
        *(codes.count(c) for c in (1, 2, 3)),
        len(high) + codes.count(4),
        len(missing),
        0,
    ]
    assert values(source, Query.histogram(schema.domain, ["x"])) == expected


@BACKEND
def test_an_empty_table_has_zeros(backend, tmp_path: Path) -> None:
    schema = Schema.of("t", Category("s", ["a", "b"]), Integer("i", 0, 3), size=10)
    source, _ = backend(Made(schema, {"s": [], "i": []}, {"s": pa.string(), "i": pa.int32()}), tmp_path)
    query = Query.histogram(schema.domain, ["s", "i"]).stacked(
        Query.sum(schema.domain, "i"), Query.count(schema.domain)
    )
    assert values(source, query) == [0] * 26


@BACKEND
def test_a_sealed_answer_and_a_source_show_nothing(backend, tmp_path: Path) -> None:
    schema = Schema.of("t", Integer("i", 0, 3), size=10)
    source, _ = backend(Made(schema, {"i": [1, 2, 3, 3, 77]}, {"i": pa.int32()}), tmp_path)
    sealed = source.exact(Query.sum(schema.domain, "i"))
    assert repr(sealed) == str(sealed) == "<sealed>"
    assert not set(repr(source)) & set("0123456789")
