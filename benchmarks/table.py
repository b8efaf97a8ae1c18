"""The tables that SQL is measured on: made up, the same each time, kept in build/ as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dodona.curator.curator import Curator
from dodona.curator.request import Dataset, Request
from dodona.engines.duckdb import DuckDBSource
from dodona.ledger import memory
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.trusted.source import Source

KEYS = 1_000
GROUPED_ROWS = 10_000_000
ROWS = 1_000_000
COLUMNS = 10
WORDS = tuple(f"key {number:03d}" for number in range(KEYS))
GROUPED = Schema.of("events", Integer("number", 0, KEYS - 1), Category("word", WORDS), size=GROUPED_ROWS)
COUNTED = Schema.of("stays", Integer("age", 0, 110), Integer("cost", 0, 9_999), Boolean("emergency"), size=ROWS)
NARROW = Schema.of("answers", *(Category(f"c{place}", ("no", "yes")) for place in range(COLUMNS)), size=ROWS)
_LARGE = Budget(10**4, "1e-6", "renyi")


def grouped(folder: Path) -> Path:
    """Return a Parquet file of ten million rows with a key of 1,000 integers and one of 1,000 words."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "grouped.parquet"
    random = np.random.default_rng(1)
    numbers = pa.array(random.integers(0, KEYS, GROUPED_ROWS).astype(np.int32))
    codes = pa.array(random.integers(0, KEYS, GROUPED_ROWS).astype(np.int16))
    words = pa.DictionaryArray.from_arrays(codes, pa.array(WORDS)).cast(pa.string())
    pq.write_table(pa.table({"number": numbers, "word": words}), path)
    return path


def counted(folder: Path) -> Path:
    """Return a Parquet file of a million rows with two integers and a truth."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "counted.parquet"
    random = np.random.default_rng(2)
    columns = {
        "age": random.integers(0, 111, ROWS),
        "cost": random.integers(0, 10_000, ROWS),
        "emergency": random.random(ROWS) < 0.3,  # noqa: PLR2004  three in ten
    }
    pq.write_table(pa.table(columns), path)
    return path


def narrow() -> tuple[Source, NDArray[np.int64]]:
    """Return a million rows of ten columns with two labels each, taken in; and how many rows each cell has."""
    import pyarrow as pa

    codes = np.random.default_rng(3).integers(0, 2, (COLUMNS, ROWS)).astype(np.int8)
    labels = pa.array(["no", "yes"])
    columns = {
        name: pa.DictionaryArray.from_arrays(pa.array(column), labels)
        for name, column in zip(NARROW.domain.names, codes, strict=True)
    }
    shape = [4] * COLUMNS
    cells = np.bincount(np.ravel_multi_index(tuple(codes), shape), minlength=4**COLUMNS).reshape(shape)
    return DuckDBSource.frame(NARROW, pa.table(columns)), cells


def curator(schema: Schema, source: Source) -> Curator:
    """Return a curator with a fresh ledger in memory, so that nothing is told again and nothing waits for a disk."""
    terms = LedgerTerms(datasets={schema.table: schema.digest}, neighbours=schema.unit.neighbours, budget=_LARGE)
    request = Request(within="1%", epsilon=None, confidence=0.95)
    ledger = memory.create_memory_ledger(terms)
    return Curator(Dataset(name=schema.table, schema=schema, source=source, ledger=ledger, default=request))
