"""Types and values that PostgreSQL has: each lands in its cell, by key, by condition and by weight."""

from __future__ import annotations

import datetime as dt

import pytest

from dodona.engines.postgres import PostgresSource
from dodona.query.predicate import among
from dodona.query.query import Block, Query, column_weight
from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number
from dodona.schema.schema import Schema
from tests.engines.scene import OPENED, values
from tests.engines.server import held, owner
from tests.ledger.scene import shared_server

DAY = Date("x", dt.date(2024, 1, 1), dt.date(2024, 1, 3))
LAST = Date("x", dt.date(9999, 12, 30), dt.date(9999, 12, 31))
SMALL = Integer("x", -2, 1)
HALVES = Number("x", 0, 1, "0.5")
WIDE_STEPS = Number("x", 0, 3000, 1000)
LABELS = Category("x", ["b", "a"])
TIMES = ["infinity", "-infinity", "2024-01-02", "2023-12-31", "0044-03-15 BC", "99999-01-01", None]
CASES: list[tuple[Attribute, str, list[object], list[int]]] = [
    (SMALL, "smallint", [-2, 0, 1, 32767, -32768, None], [2, 0, 1, 2, 1, 0]),
    (SMALL, "bigint", [-2, 0, 1, 2**63 - 1, -(2**63), None], [2, 0, 1, 2, 1, 0]),
    (SMALL, "boolean", [True, False, None], [0, 0, 1, 1, 1, 0]),
    (HALVES, "boolean", [True, False, None], [1, 0, 1, 1, 0]),
    (SMALL, "numeric", ["1e1000", "-1e1000", "NaN", "Infinity", "-Infinity", "0.999", "1e-1000"], [2, 0, 2, 2, 1, 0]),
    (HALVES, "numeric(1000, 500)", ["0.5", "-1", "9e499", "NaN", None, "1e-500"], [2, 1, 1, 2, 0]),
    (HALVES, "numeric(38, 10)", ["0.499999", "0.5", "9999999999", "-1", "NaN", None], [2, 1, 1, 2, 0]),
    (HALVES, "bigint", [0, 1, 2**63 - 1, -(2**63), None], [2, 0, 2, 1, 0]),
    (
        WIDE_STEPS,
        "double precision",
        ["5e-324", "-5e-324", "1e308", "-1e308", "NaN", "inf", "999", "1000"],
        [4, 1, 0, 2, 1, 0],
    ),
    (WIDE_STEPS, "real", ["1e-45", "-1e-45", "3e38", "-3e38", "NaN", "inf", "999", "1000"], [4, 1, 0, 2, 1, 0]),
    (WIDE_STEPS, "text", ["1e400", "-1e400", "1e-400", "-1e-400", "nan", "+inf", "1_0", None], [3, 0, 0, 2, 2, 1]),
    (
        Number("x", "-1e15", "1e15", "1e14"),
        "double precision",
        ["1e308", "-1e308", "0"],
        [1, *[0] * 9, 1, *[0] * 9, 1, 0, 0],
    ),
    (Boolean("x"), "numeric", ["0", "1", "1.0", "2", "NaN", "Infinity", "1e-1000"], [2, 2, 1, 2]),
    (Boolean("x"), "double precision", ["-0", "1", "0.5", "NaN", "inf"], [1, 1, 1, 2]),
    (LABELS, "made_enum", ["a", "b", "b", "c", None], [2, 1, 1, 1]),
    (LABELS, "made_domain", ["a", "b", "b", "c", None], [2, 1, 1, 1]),
    (LABELS, "varchar(3)", ["a", "a ", "A", "b", None], [1, 1, 1, 2]),
    (LABELS, "character(3)", ["a", "a ", "A", "b", None], [1, 2, 1, 1]),
    (LABELS, "name", ["a", "B", None], [0, 1, 1, 1]),
    (SMALL, "made_number", [-2, 1, 7, None], [1, 0, 0, 2, 1, 0]),
    (DAY, "date", TIMES, [0, 1, 0, 1, 5]),
    (DAY, "timestamp", TIMES, [0, 1, 0, 1, 5]),
    (DAY, "timestamptz", [*TIMES, "2024-01-01 00:30:00+01", "2024-01-03 23:30:00-01"], [0, 1, 0, 1, 7]),
    (LAST, "timestamp", ["9999-12-31 23:59:59.999999", "10000-01-01", "infinity", None], [0, 1, 1, 2]),
    (LAST, "date", ["9999-12-31", "10000-01-01", "infinity", None], [0, 1, 1, 2]),
    (
        DAY,
        "text",
        ["2024-01-02", "infinity", "today", "2024-01-02T23:59:59.9Z", "0000-01-01", "2023-02-29", None],
        [0, 2, 0, 1, 4],
    ),
]


@pytest.fixture(scope="module", autouse=True)
def types():
    with owner() as connection:
        connection.execute("CREATE TYPE made_enum AS ENUM ('c', 'a', 'b')")
        connection.execute("CREATE DOMAIN made_text AS varchar(9)")
        connection.execute("CREATE DOMAIN made_domain AS made_text CHECK (VALUE <> 'z')")
        connection.execute("CREATE DOMAIN made_number AS integer")
    yield
    with owner() as connection:
        connection.execute("DROP TYPE made_enum, made_domain, made_text, made_number CASCADE")


@pytest.mark.parametrize(("attribute", "kind", "listed", "expected"), CASES, ids=[f"{c[0].kind}-{c[1]}" for c in CASES])
def test_each_value_is_in_its_cell_by_key_by_condition_and_by_weight(attribute, kind, listed, expected) -> None:
    table = held("t", {"x": listed}, {"x": kind})
    schema = Schema.of("t", attribute, size=9)
    source = PostgresSource(schema, shared_server().address, table=table)
    OPENED.append(source)
    domain = schema.domain
    assert values(source, Query.histogram(domain, ["x"])) == expected
    for code, number in enumerate(expected):
        assert values(source, Query.count(domain, among(attribute, [code]))) == [number], code
    if isinstance(attribute, Integer | Number | Boolean):
        weight, unit = column_weight(attribute)
        step = sum(number * (weight.offset + weight.factor * code) for code, number in enumerate(expected[:-2]))
        assert values(source, Query(domain, (Block(weight=weight, unit=unit),))) == [step]
