"""What an owner's tools read off a table, and the check of its rows against their declarations."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dodona.engines.cells import SourceUnfit
from dodona.engines.duckdb import DuckDBInspection, only_table
from dodona.engines.inspection import (
    NumberProfile,
    check_table,
    count_rows,
    profile_column,
    rows_per_person,
    text_counts,
)
from dodona.schema.attributes import Boolean, Category, Date, Integer, Number
from dodona.schema.encoding import encode
from dodona.schema.schema import Schema
from tests.dataset.awkward import ROWS, write_parquet
from tests.engines.scene import made_up, parquet


@pytest.fixture
def table(tmp_path: Path):
    inspection = DuckDBInspection.parquet(write_parquet(tmp_path))
    yield inspection
    inspection.close()


def test_numbers_are_found_beside_nan_and_infinities(table: DuckDBInspection):
    weight = profile_column(table, "weight").numbers
    assert weight is not None
    assert (weight.least, weight.most) == (Fraction("61.5"), Fraction("100.5"))
    assert weight.count == ROWS - 20
    assert profile_column(table, "cost").numbers == NumberProfile(
        count=ROWS, whole=0, least=Fraction(1, 4), most=Fraction("299.25"), inner=(Fraction(1, 4), Fraction("299.25"))
    )
    assert profile_column(table, "empty").numbers is None


@pytest.mark.parametrize("name", ["admitted", "seen", "nano"])
def test_days_are_found_in_every_type_of_time(table: DuckDBInspection, name: str):
    days = profile_column(table, name).days
    assert days is not None
    assert days.count == ROWS
    assert days.first == (dt.date(2021, 3, 5) if name == "admitted" else dt.date(2020, 6, 1))


def test_names_in_quotes_and_types_without_a_form_are_read(table: DuckDBInspection):
    assert profile_column(table, 'a"b\n= [c]').different == ROWS
    assert profile_column(table, "tags").held.form is None
    assert profile_column(table, "nothing").present == 0


def test_texts_come_in_the_order_of_the_alphabet_and_not_of_their_counts(tmp_path: Path):
    rare_first = pa.table({"x": ["b"] * 9 + ["a"] + [None] * 3})
    pq.write_table(rare_first, tmp_path / "x.parquet")
    inspection = DuckDBInspection.parquet(tmp_path / "x.parquet")
    assert text_counts(inspection, "x", most=50) == [("a", 1), ("b", 9)]
    inspection.close()


@pytest.mark.parametrize(
    ("texts", "timed"),
    [
        (["2024-01-05T10:30:00", "2024-01-06 00:00:00", "2024-01-07", None], 1),
        (["2024-01-05", "2024-01-06T00:00:00", "2024-01-07", "no day"], 0),
    ],
)
def test_times_of_day_are_found_in_texts(texts: list[str | None], timed: int, tmp_path: Path):
    pq.write_table(pa.table({"seen": texts}), tmp_path / "seen.parquet")
    inspection = DuckDBInspection.parquet(tmp_path / "seen.parquet")
    days = profile_column(inspection, "seen").days
    inspection.close()
    assert days is not None
    assert (days.count, days.timed) == (3, timed)


def test_people_are_counted_by_their_rows(table: DuckDBInspection):
    assert count_rows(table) == ROWS
    assert sum(rows * people for rows, people in rows_per_person(table, "patient_id")) == ROWS - ROWS // 50


def test_a_table_of_a_database_is_found_by_itself_where_there_is_only_one(tmp_path: Path):
    path = tmp_path / "held.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE stays AS SELECT 1 AS age")
    assert only_table(path) == "stays"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA old; CREATE TABLE old.stays AS SELECT 1 AS age")
    with pytest.raises(SourceUnfit, match=r"old\.stays"):
        only_table(path)
    inspection = DuckDBInspection.held(path, table="old.stays")
    assert tuple(inspection.columns) == ("age",)
    inspection.close()


def test_an_inspection_can_read_no_other_file(tmp_path: Path):
    (tmp_path / "other.csv").write_text("x\n1\n", encoding="utf-8")
    inspection = DuckDBInspection.parquet(write_parquet(tmp_path))
    with pytest.raises(SourceUnfit) as caught:
        inspection.fetch(f"SELECT * FROM read_csv('{tmp_path / 'other.csv'}')")  # noqa: S608
    assert "other" not in str(caught.value)
    assert caught.value.__context__ is None
    inspection.close()


@pytest.mark.parametrize("seed", range(12))
def test_a_check_counts_what_the_encoding_says(seed: int, tmp_path: Path):
    made = made_up(seed)
    source, _ = parquet(made, tmp_path)
    source.close()  # type: ignore[attr-defined]
    inspection = DuckDBInspection.parquet(tmp_path / "rows.parquet")
    result = check_table(made.schema, inspection.table(made.schema), inspection.fetched)
    inspection.close()
    assert result.rows == result.counting == len(next(iter(made.columns.values())))
    for attribute, column in zip(made.schema.domain, result.columns, strict=True):
        bare = _without_landing(attribute)
        codes = encode(bare, made.columns[attribute.name])
        assert (column.missing, column.outside) == tuple(int(np.sum(codes == bare.size + more)) for more in (0, 1))


def _without_landing(attribute):
    match attribute:
        case Category():
            return Category(attribute.name, attribute.labels)
        case Integer():
            return Integer(attribute.name, attribute.lower, attribute.upper)
        case Number():
            return Number(attribute.name, attribute.lower, attribute.upper, attribute.step)
        case Date():
            return Date(attribute.name, attribute.lower, attribute.upper)
        case _:
            return Boolean(attribute.name)


def test_a_check_counts_what_is_drawn_to_the_bounds_and_not_what_is_rounded_down(tmp_path: Path):
    values = [-0.5, 0.0, 9.9, 10.0, 10.9, 11.0, float("inf"), float("-inf"), float("nan"), None]
    pq.write_table(
        pa.table({"x": values, "y": values, "who": [1, 1, 1, 2, None, 3, 3, 3, 3, 3]}), tmp_path / "x.parquet"
    )
    schema = Schema.of("t", Integer("x", 0, 10), Number("y", 0, 10, "0.5"), size=10, id="who", rows=2)
    inspection = DuckDBInspection.parquet(tmp_path / "x.parquet")
    result = check_table(schema, inspection.table(schema), inspection.fetched)
    inspection.close()
    whole, grid = result.columns
    assert (whole.missing, whole.below, whole.above) == (2, 2, 2)
    assert (grid.missing, grid.below, grid.above, grid.between) == (2, 2, 3, 1)  # 9.9 counts as 9.5
    assert whole.between == 0
    assert (result.rows, result.nobody, result.people, result.cut, result.counting) == (10, 1, 3, 4, 5)


def test_a_check_finds_no_number_between_steps_that_it_is_on(tmp_path: Path):
    cents = [number / 100 for number in range(10_000)]
    pq.write_table(pa.table({"x": cents, "y": cents}), tmp_path / "x.parquet")
    schema = Schema.of("t", Number("x", 0, 100, "0.01"), Number("y", "-100", 100, "0.05"), size=10_000)
    found = DuckDBInspection.parquet(tmp_path / "x.parquet")
    cent, coarse = check_table(schema, found.table(schema), found.fetched).columns
    found.close()
    assert (cent.between, coarse.between) == (0, 8_000)


def test_a_check_of_an_empty_table_counts_nothing(tmp_path: Path):
    pq.write_table(pa.table({"x": pa.array([], pa.int64()), "who": pa.array([], pa.string())}), tmp_path / "x.parquet")
    schema = Schema.of("t", Integer("x", 0, 10), size=10, id="who", rows=2)
    inspection = DuckDBInspection.parquet(tmp_path / "x.parquet")
    result = check_table(schema, inspection.table(schema), inspection.fetched)
    inspection.close()
    assert (result.rows, result.nobody, result.people, result.cut) == (0, 0, 0, 0)
    assert result.columns[0].missing == 0
