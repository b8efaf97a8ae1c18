"""A small table for the tests of SQL: its schema, its rows as codes, and the same rows in DuckDB."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import duckdb
import numpy as np
from numpy.typing import NDArray

from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number, code_label
from dodona.schema.schema import Domain, Schema
from tests.engines.columns import completed

ROWS = 20_000
SEED = 20_241_116
SCHEMA = Schema.of(
    "stays",
    Category("sex", ["female", "male", "other"]),
    Integer("age", 0, 20),
    Number("stay", 0, 5, "0.25", bins=(0, 1, 3, 5)),
    Date("admitted", dt.date(2023, 11, 1), dt.date(2024, 3, 31)),
    Boolean("emergency"),
    size=ROWS,
    id="patient_id",
    rows=4,
)
COMPLETE = replace(
    SCHEMA, domain=Domain(tuple(completed(attribute, attribute.size // 2) for attribute in SCHEMA.domain))
)
"""The same columns without `<missing>` and `<outside>`: both count as the middle value."""
Axes = dict[str, NDArray[np.int64]]


@cache
def rows(*, outside: bool) -> Axes:
    """Return codes of all rows, unevenly spread; with or without outside values that are no texts."""
    generator = np.random.default_rng(SEED)
    axes: Axes = {}
    for attribute in SCHEMA.domain:
        spread = generator.beta(2, 3 + len(axes), ROWS)
        codes = np.minimum((spread * attribute.size).astype(np.int64), attribute.size - 1)
        codes[generator.random(ROWS) < 0.1] = attribute.size
        beyond = generator.random(ROWS) < 0.07
        if outside or isinstance(attribute, Category):
            codes[beyond] = attribute.size + 1
        axes[attribute.name] = codes
    return axes


@cache
def complete_rows() -> Axes:
    """Return codes of all rows in the complete columns."""
    axes = rows(outside=True)
    return {
        attribute.name: np.where(axes[attribute.name] < attribute.size, axes[attribute.name], attribute.landing)
        for attribute in COMPLETE.domain
    }


@cache
def database(*, outside: bool) -> duckdb.DuckDBPyConnection:
    """Return a database with the rows: NULL for what is missing or outside, but outside texts as `<outside>`."""
    return _filled(rows(outside=outside))


@cache
def complete_database() -> duckdb.DuckDBPyConnection:
    """Return a database with the rows of the complete columns, in which nothing is NULL."""
    return _filled(complete_rows())


def _filled(axes: Axes) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    types = {"category": "VARCHAR", "integer": "INTEGER", "number": "DOUBLE", "date": "DATE", "boolean": "BOOLEAN"}
    columns = ", ".join(f"{attribute.name} {types[attribute.kind]}" for attribute in SCHEMA.domain)
    connection.execute(f"CREATE TABLE stays ({columns})")
    table = [_values(attribute, codes) for attribute, codes in zip(SCHEMA.domain, axes.values(), strict=True)]
    import pyarrow as pa

    held = pa.table(dict(zip(SCHEMA.domain.names, map(pa.array, table), strict=True)))  # noqa: F841  DuckDB finds it by its name
    connection.execute("INSERT INTO stays SELECT * FROM held")
    return connection


def _values(attribute: Attribute, codes: Iterable[int]) -> list[object]:
    values = [code_label(attribute, code) for code in range(attribute.size)]
    plain: list[object] = [float(value) if isinstance(value, Fraction) else value for value in values]
    plain += [None, "<outside>" if isinstance(attribute, Category) else None]
    return [plain[code] for code in codes]
