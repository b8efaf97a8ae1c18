"""Columns with many values: what is answered of two of them together means what it means in DuckDB."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dodona.answer.answer import Answer, table_view
from dodona.engines.duckdb import DuckDBSource
from dodona.privacy.additive_noise import Gaussian
from dodona.privacy.budget import FREE
from dodona.privacy.measurement import MeasuredValues
from dodona.query.question import Question
from dodona.schema.attributes import Date, Integer, Number
from dodona.schema.schema import Schema
from dodona.sql.compile import read_statement
from dodona.sql.scope import InvalidSql
from dodona.trusted.gate import unseal

FIRST = dt.date(2022, 1, 1)
SCHEMA = Schema.of(
    "orders",
    Number("price", 1, 1000, "0.01"),
    Integer("quantity", 1, 50, otherwise=1),
    Number("rebate", -5, 5, "0.01"),
    Date("joined", dt.date(1950, 1, 1), dt.date(2023, 12, 31)),
    Date("sold", FIRST, dt.date(2024, 12, 31)),
    size=2_000,
)


def orders() -> pa.Table:
    generator = np.random.default_rng(5)
    rows = 2_000
    missing = generator.random(rows) < 0.05
    price = generator.integers(100, 100_001, rows) / 100
    joined = [
        None if gone else FIRST - dt.timedelta(int(days))
        for gone, days in zip(missing, generator.integers(-700, 20_000, rows), strict=True)
    ]
    return pa.table(
        {
            "price": [None if gone else value for gone, value in zip(missing, price.tolist(), strict=True)],
            "quantity": generator.integers(1, 51, rows),
            "rebate": (2 * generator.integers(-250, 250, rows) + 1) / 100,
            "joined": joined,
            "sold": [FIRST + dt.timedelta(int(days)) for days in generator.integers(0, 1096, rows)],
        }
    )


@pytest.fixture(scope="module")
def source() -> DuckDBSource:
    return DuckDBSource.frame(SCHEMA, orders(), key=bytes(32))


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("orders", orders())
        yield connection


ANSWERED = [
    "SELECT sum(abs(price - 500)), sum(greatest(price - 100, 0)), sum(least(price, 250)) FROM orders",
    "SELECT sum(power(price - 500, 2)) FROM orders",
    "SELECT count(*) FROM orders WHERE price / quantity > 20",
    "SELECT count(*) FROM orders WHERE 20 >= price / quantity",
    "SELECT count(*) FROM orders WHERE price / rebate < 150",
    "SELECT count(*) FROM orders WHERE NOT price / rebate >= -3.5",
    "SELECT count(*) FROM orders WHERE price / rebate BETWEEN -300 AND 40.5",
    "SELECT count(*) FROM orders WHERE price / rebate NOT BETWEEN -300 AND 40.5",
    "SELECT count(*) FROM orders WHERE price / rebate = 200 OR price / rebate <> 100",
    "SELECT count(*) FROM orders WHERE price / rebate > quantity * 3 - 60",
    "SELECT CASE WHEN price / quantity > 20 THEN 'dear' ELSE 'cheap' END AS k, count(*) FROM orders GROUP BY k",
    "SELECT datediff('year', joined, sold) AS years, count(*) FROM orders GROUP BY years",
    "SELECT year(sold) - year(joined) AS years, count(*) FROM orders WHERE joined >= '2015-01-01' GROUP BY 1",
    "SELECT count(*) FROM orders WHERE datediff('year', joined, sold) BETWEEN 3 AND 30",
    "SELECT sum(datediff('year', joined, sold)), avg(datediff('year', joined, sold)) FROM orders",
    "SELECT sold - joined AS days, count(*) FROM orders WHERE sold - joined BETWEEN -20 AND 100 GROUP BY days",
    "SELECT sold - joined AS d, quantity > 9 AS q, count(*) FROM orders WHERE sold - joined IN (0, 7) GROUP BY 1, 2",
    "SELECT count(*) FROM orders WHERE datediff('quarter', sold, DATE '2023-05-05') = 1",
    "SELECT count(*) FROM orders WHERE month(sold) = month(joined)",
    "SELECT count(*) FROM orders WHERE NOT quarter(sold) > quarter(joined)",
    "SELECT count(*) FROM orders WHERE month(sold) * 2 - day(joined) >= 0",
    "SELECT CASE WHEN year(sold) - year(joined) < 5 THEN 'new' ELSE 'old' END AS k, count(*) FROM orders GROUP BY 1",
]  # fmt: skip


@pytest.mark.parametrize("text", ANSWERED)
def test_it_means_what_it_means_in_duckdb(text: str, source: DuckDBSource, plain: duckdb.DuckDBPyConnection) -> None:
    begin = time.process_time()
    asked = read_statement(text, SCHEMA)
    assert time.process_time() - begin < 5
    assert isinstance(asked, Question)
    values = [int(value) for value in unseal(source.exact(asked.query))]
    noises = (Gaussian(scale=5),) * len(asked.query.blocks)
    answer = Answer(measured=MeasuredValues(asked, values, noises), price=FREE, view=table_view(0.95, 2_000))
    shown = answer.to_arrow().to_pydict()
    columns = [shown[column.name] for column in asked.columns]
    actual = [tuple(map(_plain, row)) for row in zip(*columns, strict=True)]
    expected = [tuple(map(_plain, row)) for row in plain.execute(text).fetchall()]
    for row in expected:
        assert any(pytest.approx(row[-1]) == other[-1] and row[:-1] == other[:-1] for other in actual), (row, actual)
    kept = [row for row in actual if row[-1] != 0]  # groups without rows are there too
    assert len(kept) == len([row for row in expected if row[-1] != 0])


def _plain(value: object) -> object:
    return round(float(value), 6) if isinstance(value, int | float) else value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT avg(price / quantity) FROM orders",
        "SELECT count(*) FROM orders WHERE datediff('day', joined, sold) * price > rebate / quantity / price",
        "SELECT datediff('month', joined, sold), count(*) FROM orders GROUP BY 1",
    ],
)
def test_what_has_too_many_combinations_is_refused_soon(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(InvalidSql, match=r"listed|combinations|too large"):
        read_statement(text, SCHEMA)
    assert time.process_time() - begin < 5
