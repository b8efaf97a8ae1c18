"""Quantiles of times: their values are times, their errors days, in every form of an answer."""
# ruff: noqa: DTZ001  times are declared without a zone, and mean UTC

from __future__ import annotations

import datetime as dt
import json
import warnings
from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pytest

import dodona
from dodona import Budget, Category, Integer, Schema
from dodona.answer.estimate import Estimate, moment_of, to_float
from dodona.answer.recorded import RecordedAnswer
from dodona.curator.curator import Curator
from dodona.schema.attributes import Timestamp

FIRST = dt.datetime(2024, 1, 1)
ROWS = 20_000
STEP = dt.timedelta(minutes=15)
SCHEMA = Schema.of(
    "visits",
    Timestamp("seen", FIRST, FIRST + dt.timedelta(days=60), "15 minutes"),
    Category("ward", ("a", "b")),
    Integer("age", 0, 99),
    size=ROWS,
)


@pytest.fixture(scope="module")
def curator() -> Iterator[Curator]:
    columns = {
        "seen": [FIRST + STEP * (row * 7 % 5_000) for row in range(ROWS)],
        "ward": ["ab"[row % 2] for row in range(ROWS)],
        "age": [row % 100 for row in range(ROWS)],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the ledger is in memory
        opened = dodona.open(pa.table(columns), schema=SCHEMA, budget=Budget(50, "1e-6"), max_price="100%")
    with opened:
        yield opened


def test_a_quantile_of_times_is_a_time_with_an_interval(curator: Curator) -> None:
    answer = curator.ask("SELECT min(seen), median(seen), max(seen) FROM visits", epsilon=5)
    cells = [cell for cell in answer.rows[0].cells if isinstance(cell, Estimate)]
    for cell, exact in zip(cells, (50, 2_500, 4_950), strict=True):
        assert isinstance(cell.value, dt.datetime)
        assert (cell.value - FIRST) % STEP == dt.timedelta(0)
        assert abs(cell.value - (FIRST + STEP * exact)) < dt.timedelta(hours=30)
        assert isinstance(cell.low, dt.datetime)
        assert isinstance(cell.high, dt.datetime)
        assert cell.low <= cell.value <= cell.high
        assert 0 < cell.within < 3  # days
    assert all(one.value < other.value for one, other in pairwise(cells))  # type: ignore[operator]
    assert "2024-01-01 " in str(answer)
    assert answer.to_arrow().schema.field("median").type == pa.timestamp("us")
    assert answer.to_pandas()["median_low"].dt.year.tolist() == [2024]
    read = RecordedAnswer.from_json(answer.to_json())
    assert read.rows[0].cells == answer.rows[0].cells
    assert json.loads(answer.to_json())["rows"][0][1]["value"].startswith("2024-01-")


def test_a_tolerance_of_times_is_in_days(curator: Curator) -> None:
    answer = curator.ask("SELECT ward, median(seen) FROM visits GROUP BY ward", within=2)
    assert all(row.cells[1].within <= 3 for row in answer.rows[:2])  # type: ignore[union-attr]
    assert curator.quote("SELECT quantile(seen, 0.3) FROM visits WHERE age > 9", within="10%").price.share > 0


def test_times_of_answers_are_computed_with(curator: Curator) -> None:
    text = """
    WITH x AS (SELECT ward, max(seen) AS last FROM visits GROUP BY ward)
    SELECT ward, last - INTERVAL '1 hour' AS before, date_trunc('day', last) AS day, last > '2024-01-05' AS late FROM x
    """
    answer = curator.ask(text, epsilon=5)
    before, day = answer.rows[0].cells[1:3]
    assert isinstance(before, Estimate)
    assert isinstance(day, Estimate)
    assert isinstance(before.value, dt.datetime)
    assert before.low <= before.value <= before.high  # type: ignore[operator]
    assert isinstance(day.value, dt.datetime)
    assert day.value.time() == dt.time()
    assert answer.rows[0].cells[3] is True


def test_days_with_a_fraction_are_times() -> None:
    moment = dt.datetime(2024, 2, 29, 23, 59, 59)
    assert moment_of(to_float(moment)) == moment
