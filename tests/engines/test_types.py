"""Types that only a database has: wide whole numbers, enumerations, times that never come."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import duckdb
import pytest

from dodona.engines.duckdb import DuckDBSource
from dodona.query.predicate import among
from dodona.query.query import Block, Query, column_weight
from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number
from dodona.schema.schema import Schema
from tests.engines.scene import values

WIDEST = 2**127 - 1
DAY = Date("x", dt.date(2024, 1, 1), dt.date(2024, 1, 3))
EPOCH = Date("x", dt.date(1969, 12, 31), dt.date(1970, 1, 1))
TIMES = "'infinity', '-infinity', '2024-01-02', '2023-12-31', NULL"
CASES = [
    (Integer("x", -2, 1), "HUGEINT", f"-2, 0, 1, {WIDEST}, -{WIDEST}, NULL, {2**63}", [2, 0, 1, 3, 1, 0]),
    (Integer("x", -2, 1), "UHUGEINT", f"0, 1, {2**128 - 1}, NULL", [0, 0, 1, 2, 1, 0]),
    (Integer("x", -2, 1), "UBIGINT", f"0, 1, {2**64 - 1}, NULL", [0, 0, 1, 2, 1, 0]),
    (Integer("x", -128, -126), "TINYINT", "-128, -127, 127, 0, NULL", [1, 1, 2, 1, 0]),
    (Integer("x", 254, 300), "UTINYINT", "254, 255, 0, NULL", [2, 1, *[0] * 45, 1, 0]),
    (Number("x", 0, 1, "0.5"), "HUGEINT", f"0, 1, {WIDEST}, -{WIDEST}, NULL", [2, 0, 2, 1, 0]),
    (Number("x", 0, 1, "0.5"), "DECIMAL(38, 10)", "0.499999, 0.5, 9999999999, -1, NULL", [2, 1, 1, 1, 0]),
    (Boolean("x"), "HUGEINT", f"0, 1, 2, {WIDEST}, NULL", [1, 1, 1, 2]),
    (Category("x", ["b", "a"]), "ENUM('a', 'b', 'c')", "'a', 'b', 'b', 'c', NULL", [2, 1, 1, 1]),
    (DAY, "DATE", TIMES, [0, 1, 0, 1, 3]),
    (DAY, "TIMESTAMP", TIMES, [0, 1, 0, 1, 3]),
    (DAY, "TIMESTAMPTZ", f"{TIMES}, '2024-01-01 00:30:00+01', '2024-01-03 23:30:00-01'", [0, 1, 0, 1, 5]),
    (DAY, "TIMESTAMP_S", "'2024-01-02 23:59:59', '290000-01-01', NULL", [0, 1, 0, 1, 1]),
    (DAY, "TIMESTAMP_MS", "'2024-01-01 00:00:00', '290000-01-01', NULL", [1, 0, 0, 1, 1]),
    (DAY, "TIMESTAMP_NS", "'2024-01-03 23:59:59.999999999', '1700-01-01', NULL", [0, 0, 1, 1, 1]),
    (EPOCH, "TIMESTAMP_NS", "'1969-12-31 23:59:59.999999999', '1970-01-01', 'infinity', NULL", [1, 1, 1, 1]),
]


@pytest.fixture
def held(tmp_path: Path):
    def make(attribute: Attribute, kind: str, listed: str) -> DuckDBSource:
        with duckdb.connect(str(tmp_path / "held.duckdb")) as connection:
            connection.execute(f"CREATE TABLE t (x {kind})")
            connection.execute(f"INSERT INTO t VALUES {', '.join(f'({v})' for v in listed.split(', '))}")  # noqa: S608
        return DuckDBSource.table(Schema.of("t", attribute, size=9), tmp_path / "held.duckdb")

    return make


@pytest.mark.parametrize(("attribute", "kind", "listed", "expected"), CASES, ids=[case[1] for case in CASES])
def test_each_value_is_in_its_cell_by_key_by_condition_and_by_weight(attribute, kind, listed, expected, held) -> None:
    source = held(attribute, kind, listed)
    domain = Schema.of("t", attribute, size=9).domain
    assert values(source, Query.histogram(domain, ["x"])) == expected
    for code, number in enumerate(expected):
        assert values(source, Query.count(domain, among(attribute, [code]))) == [number], code
    if isinstance(attribute, Integer | Number | Boolean):
        weight, unit = column_weight(attribute)
        step = sum(number * (weight.offset + weight.factor * code) for code, number in enumerate(expected[:-2]))
        assert values(source, Query(domain, (Block(weight=weight, unit=unit),))) == [step]


def test_a_source_answers_many_threads_at_once(held) -> None:
    source = held(Integer("x", 0, 3), "INTEGER", "0, 1, 2, 3, 3")
    domain = Schema.of("t", Integer("x", 0, 3), size=9).domain
    wrong = list[object]()

    def ask(code: int) -> None:
        for _ in range(20):
            counts = values(source, Query.count(domain, among(domain["x"], [code])))
            if counts != [[1, 1, 1, 2][code]]:
                wrong.append(counts)

    threads = [threading.Thread(target=ask, args=(code,)) for code in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
