"""Columns without `<missing>` and `<outside>`, in every storage type: NULL and the undeclared count as a value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dodona.query.predicate import among_mask
from dodona.query.query import Block, Query, ValueWeight
from dodona.schema.attributes import Attribute, Boolean, Category, Integer
from dodona.schema.encoding import encode
from dodona.schema.partition import Partition
from dodona.schema.schema import Schema
from dodona.trusted.source import Source
from tests.engines.columns import COLUMNS, completed
from tests.engines.scene import BACKENDS, SWIFT, Made, by_hand, values

Opener = Callable[[Made, Path], tuple[Source, Made]]
BACKEND = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())


def one_of_each(seed: int, *, rows: int = 60) -> Made:
    """A table with a column of every storage type, each of them complete, a quarter of the values NULL."""
    generator = np.random.default_rng(seed)
    attributes, columns, types = list[Attribute](), dict[str, list[Any]](), dict[str, pa.DataType]()
    for place, make in enumerate(COLUMNS):
        attribute, kind, draw = make(f"c{place}", generator)
        if attribute.size == 1:
            attribute = Category(attribute.name, ["a", "b'c"])
        attributes.append(completed(attribute, int(generator.integers(attribute.size))))
        columns[attribute.name] = [None if generator.random() < 0.25 else draw() for _ in range(rows)]
        types[attribute.name] = kind
    return Made(Schema.of("group", *attributes, size=1000), columns, types)


def blocks(attribute: Attribute) -> list[Block]:
    """Everything that a column can be looked at by: keys of all shapes, sets with and without the named value, sums."""
    size, code = attribute.size, attribute.landing
    everything = (1 << size) - 1
    sets = [1 << code, everything ^ 1 << code, 1 << (code + 1) % size, everything ^ 1 << (code + 1) % size]
    cuts = (0, *sorted({max(1, size // 2), max(1, size - 1)}))
    return [
        *(Block(among_mask(attribute, mask)) for mask in sets),
        Block(keys=(Partition.of(attribute),)),
        Block(keys=(Partition.every(attribute, 3),)),
        Block(keys=(Partition.cut(attribute, cuts),)),
        Block(among_mask(attribute, sets[1]), (Partition.of(attribute),), ValueWeight(attribute.name, size, -3, 2, 2)),
        Block(weight=ValueWeight(attribute.name, size, 7, -5)),
    ]


QUICK = ("memory", "parquet", "csv")


@pytest.mark.parametrize("backend", [BACKENDS[name] for name in QUICK], ids=QUICK)
def test_every_storage_type_counts_the_rest_as_the_named_value(backend, tmp_path: Path) -> None:
    rest_is_the_named_value(backend, 1, tmp_path)


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize("backend", SWIFT.values(), ids=SWIFT.keys())
@pytest.mark.parametrize("seed", range(2, 8))
def test_every_storage_type_counts_the_rest_so_in_many_tables(backend, seed: int, tmp_path: Path) -> None:
    rest_is_the_named_value(backend, seed, tmp_path)


def rest_is_the_named_value(backend: Opener, seed: int, folder: Path) -> None:
    """Hold a source to the meaning of each column, by keys, conditions and sums."""
    source, held = backend(one_of_each(seed), folder)
    domain = held.schema.domain
    for attribute in domain:
        landed = encode(attribute, held.columns[attribute.name]) == attribute.landing
        assert landed.any()
        for block in blocks(attribute):
            query = Query(domain, (block,))
            assert values(source, query) == by_hand(held, query), (attribute, block)
    everyone = [sum(values(source, Query.histogram(domain, name))) for name in domain.names]
    assert everyone == [60] * len(COLUMNS)
    source.close()


@BACKEND
def test_rows_of_people_are_chosen_by_the_codes_of_complete_columns(backend, tmp_path: Path) -> None:
    """Of the two rows of person 1 the first by its codes counts: NULL is true, and true comes after false."""
    schema = Schema.of("t", Boolean("b", otherwise=True), Integer("i", 0, 3, otherwise=2), size=9, id="who", rows=1)
    columns = {"b": [None, False, None, True], "i": [0, 3, None, None], "who": [1, 1, 2, 3]}
    made = Made(schema, columns, {"b": pa.bool_(), "i": pa.int32(), "who": pa.int32()})
    source, _ = backend(made, tmp_path)
    assert values(source, Query.marginal(schema.domain, ["b", "i"])) == [0, 0, 0, 1, 0, 0, 2, 0]


@BACKEND
def test_an_empty_table_has_zeros_in_the_declared_groups_alone(backend, tmp_path: Path) -> None:
    schema = Schema.of("t", Category("s", ["a", "b"], otherwise="b"), Integer("i", 0, 3, otherwise=0), size=10)
    source, _ = backend(Made(schema, {"s": [], "i": []}, {"s": pa.string(), "i": pa.int32()}), tmp_path)
    query = Query.histogram(schema.domain, ["s", "i"]).stacked(Query.sum(schema.domain, "i"))
    assert values(source, query) == [0] * 9
