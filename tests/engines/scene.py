"""Made-up tables with their schemas, and every way to put one behind a source."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet

from dodona.engines.duckdb import DuckDBSource
from dodona.engines.memory import MemorySource
from dodona.engines.postgres import PostgresSource
from dodona.query.query import Query, block_weights, group_numbers, product_axes, product_shape
from dodona.schema.attributes import Attribute
from dodona.schema.encoding import encode
from dodona.schema.schema import Schema
from dodona.trusted.gate import unseal
from dodona.trusted.source import Source
from tests.engines.columns import COLUMNS, completed
from tests.engines.server import held, type_of
from tests.ledger.scene import shared_server

KEY = bytes(range(32))
"""What chooses the rows of a person that count."""
OPENED: list[Source] = []
"""Sources with a connection, to be closed after a test."""


@dataclass(frozen=True)
class Made:
    """A schema with rows: values by column, and the Arrow type of each."""

    schema: Schema
    columns: dict[str, list[Any]]
    types: dict[str, pa.DataType]

    def arrow(self) -> pa.Table:
        return pa.table({name: pa.array(self.columns[name], kind) for name, kind in self.types.items()})

    def as_text(self) -> Made:
        """The same rows as a CSV file holds them: texts, and nothing where a field is empty."""
        texts = {
            name: [None if v is None or str(v) == "" else str(v) for v in column]
            for name, column in self.columns.items()
        }
        return Made(self.schema, texts, dict.fromkeys(self.types, pa.string()))


def memory(made: Made, _: Path) -> tuple[Source, Made]:
    return MemorySource(made.schema, made.columns, key=KEY), made


def parquet(made: Made, folder: Path) -> tuple[Source, Made]:
    pa.parquet.write_table(made.arrow(), folder / "rows.parquet")
    return DuckDBSource.parquet(made.schema, folder / "rows.parquet", key=KEY), made


def split_parquet(made: Made, folder: Path) -> tuple[Source, Made]:
    whole = made.arrow()
    middle = len(whole) // 2
    for number, part in enumerate((whole.slice(0, middle), whole.slice(middle))):
        pa.parquet.write_table(part, folder / f"part{number}.parquet")
    return DuckDBSource.parquet(made.schema, folder / "part*.parquet", key=KEY), made


def arrow_frame(made: Made, _: Path) -> tuple[Source, Made]:
    return DuckDBSource.frame(made.schema, made.arrow(), key=KEY), made


def pandas_frame(made: Made, _: Path) -> tuple[Source, Made]:
    return DuckDBSource.frame(made.schema, made.arrow().to_pandas(), key=KEY), made


def polars_frame(made: Made, _: Path) -> tuple[Source, Made]:
    return DuckDBSource.frame(made.schema, pl.from_arrow(made.arrow()), key=KEY), made


def comma_separated(made: Made, folder: Path) -> tuple[Source, Made]:
    text = made.as_text()
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NOTNULL if hasattr(csv, "QUOTE_NOTNULL") else csv.QUOTE_ALL)
        writer.writerow(text.columns)
        writer.writerows(zip(*text.columns.values(), strict=True))
    return DuckDBSource.csv(made.schema, folder / "rows.csv", key=KEY), text


def table(made: Made, folder: Path) -> tuple[Source, Made]:
    rows = made.arrow()
    with duckdb.connect(str(folder / "held.duckdb")) as connection:
        connection.register("rows", rows)
        connection.execute(f'CREATE TABLE "{made.schema.table}" AS SELECT * FROM rows')  # noqa: S608
    return DuckDBSource.table(made.schema, folder / "held.duckdb", key=KEY), made


def postgres(made: Made, _: Path) -> tuple[Source, Made]:
    types = {name: type_of(kind) for name, kind in made.types.items()}
    name = held(made.schema.table, made.columns, types)
    source = PostgresSource(made.schema, shared_server().address, table=name, key=KEY)
    OPENED.append(source)
    return source, made


def spark(made: Made, folder: Path) -> tuple[Source, Made]:
    from tests.engines.spark import source_of

    source = source_of(made.schema, made.arrow(), folder)
    OPENED.append(source)
    return source, made


BACKENDS: dict[str, Callable[[Made, Path], tuple[Source, Made]]] = {
    "memory": memory,
    "parquet": parquet,
    "split parquet": split_parquet,
    "arrow frame": arrow_frame,
    "pandas frame": pandas_frame,
    "polars frame": polars_frame,
    "csv": comma_separated,
    "database table": table,
    "postgres": postgres,
    "spark": spark,
}
SWIFT = {name: backend for name, backend in BACKENDS.items() if name != "spark"}
"""Those that answer in milliseconds, for tests with thousands of statements; `test_spark` has a sample of them."""


def values(source: Source, query: Query) -> list[int]:
    """The exact answers, opened as only tests may."""
    return [int(value) for value in unseal(source.exact(query))]


def by_hand(made: Made, query: Query) -> list[int]:
    """Weights · histogram, in Python's own whole numbers, from the public reading of the query alone."""
    codes = {attribute.name: encode(attribute, made.columns[attribute.name]) for attribute in query.domain}
    answers = list[int]()
    for block in query.blocks:
        names = sorted(block.attributes)
        axes, shape = product_axes(query.domain, names), product_shape(query.domain, names)
        rows = len(next(iter(made.columns.values())))
        cell = np.ravel_multi_index([codes[name] for name in names], shape) if names else np.zeros(rows, dtype=np.int64)
        which, times = np.unique(cell, return_counts=True)
        weights = np.broadcast_to(block_weights(block, axes), shape).reshape(-1)
        groups = np.broadcast_to(group_numbers(block.keys, axes), shape).reshape(-1)
        sums = [0] * block.values
        for place, number in zip(which.tolist(), times.tolist(), strict=True):
            sums[int(groups[place])] += int(weights[place]) * number
        answers += sums
    return answers


def made_up(seed: int, *, rows: int = 120) -> Made:
    """A table with a column of each storage type that a random draw picks, full of awkward values.

    About half of the columns have no `<missing>` and `<outside>`.
    """
    generator, coin = np.random.default_rng(seed), np.random.default_rng([seed, 2])
    kinds = generator.choice(len(COLUMNS), size=4, replace=False)
    attributes, columns, types = list[Attribute](), dict[str, list[Any]](), dict[str, pa.DataType]()
    names = ["select", "Größe", "order", "x1"]
    for name, kind in zip(names, kinds, strict=True):
        attribute, kind_of, draw = COLUMNS[kind](name, generator)
        if attribute.size > 1 and coin.random() < 0.5:
            attribute = completed(attribute, int(coin.integers(attribute.size)))
        attributes.append(attribute)
        columns[name] = [None if generator.random() < 0.1 else draw() for _ in range(rows)]
        types[name] = kind_of
    return Made(Schema.of("group", *attributes, size=1000), columns, types)
