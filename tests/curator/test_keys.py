"""The keys of rows: in the order of SELECT, as texts for people and as values for programs; and what is declared."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import dodona
from dodona import Boolean, Budget, Category, Date, Integer, Number, Schema

FIRST, LAST = dt.date(2024, 1, 10), dt.date(2025, 2, 5)
SCHEMA = Schema.of(
    "stays",
    Category("ward", ["east", "west"]),
    Boolean("urgent"),
    Integer("age", 0, 110, bins=[0, 18, 65, 110]),
    Integer("beds", 1, 3, otherwise=1),
    Number("stay", 0, 5, "0.25", bins=[0, 1, 5]),
    Date("day", FIRST, LAST),
    size=1_000,
)


@pytest.fixture(scope="module")
def stays():
    generator, count = np.random.default_rng(1), 1_000
    frame = pd.DataFrame(
        {
            "ward": generator.choice(["east", "west"], count),
            "urgent": generator.random(count) < 0.3,
            "age": generator.integers(0, 100, count),
            "beds": generator.integers(1, 4, count),
            "stay": 5 * generator.random(count),
            "day": pd.to_datetime("2024-01-10") + pd.to_timedelta(generator.integers(0, 300, count), unit="D"),
        }
    )
    with pytest.warns(UserWarning, match="in memory"):
        curator = dodona.open(frame, schema=SCHEMA, budget=Budget(1000, "1e-6"))
    with curator:
        yield curator


def test_keys_and_rows_are_in_the_order_of_select(stays):
    answer = stays.ask("SELECT ward, count(*), urgent FROM stays GROUP BY urgent, ward", within=100)
    assert [row.keys for row in answer.rows[:3]] == [("east", False), ("east", True), ("east", "<missing>")]
    assert all(row.keys == (row.cells[0], row.cells[2]) for row in answer.rows)
    other = stays.ask("SELECT urgent, ward, count(*) FROM stays GROUP BY urgent, ward", within=100)
    assert {row.keys: row.estimates for row in answer.rows} == {row.keys[::-1]: row.estimates for row in other.rows}


def test_keys_that_are_not_shown_come_last(stays):
    answer = stays.ask("SELECT ward, count(*) FROM stays GROUP BY urgent, ward", within=100)
    assert {row.keys for row in answer.rows} == {
        (ward, urgent)
        for ward in ("east", "west", "<missing>", "<outside>")
        for urgent in (False, True, "<missing>", "<outside>")
    }


@pytest.mark.parametrize(
    ("key", "values", "arrow"),
    [
        ("ward", ["east", "west", None, "<outside>"], "string"),
        ("urgent", [False, True, None, None], "bool"),
        ("age", [0, 18, 65, None, None], "int64"),
        ("beds", [1, 2, 3], "int64"),
        ("bin(age, 50)", [0, 50, 100, None, None], "int64"),
        ("stay", [0.0, 1.0, None, None], "double"),
        ("year(day)", [2024, 2025, None, None], "int64"),
        ("date_trunc('year', day)", [dt.date(2024, 1, 1), dt.date(2025, 1, 1), None, None], "date32[day]"),
        ("extract(quarter FROM day)", [1, 2, 3, 4, None, None], "int64"),
        ("CASE WHEN age < 18 THEN 1 WHEN urgent THEN 2.5 END", [1.0, 2.5, None], "double"),
        ("CASE WHEN age < 18 THEN DATE '2024-01-01' ELSE DATE '2024-02-01' END", None, "date32[day]"),
        ("CASE WHEN age < 18 THEN TRUE ELSE FALSE END", None, "bool"),
        ("CASE WHEN age < 18 THEN 'young' ELSE 'old' END", ["young", "old"], "string"),
    ],
)
def test_values_have_the_types_of_programs(stays, key, values, arrow):
    answer = stays.ask(f"SELECT {key} AS k, count(*) FROM stays GROUP BY 1", within=100)  # noqa: S608
    keys = [row.values[0] for row in answer.rows]  # noqa: PD011  of a row of ours
    if values is not None:
        assert keys == values
        assert [type(value) for value in keys] == [type(value) for value in values]
    table = answer.to_arrow()
    assert (str(table.schema.field("k").type), table["k"].to_pylist()) == (arrow, keys)
    assert answer.to_polars()["k"].to_list() == keys
    frame = answer.to_pandas()
    assert frame["k"].isna().tolist() == [value is None for value in keys]
    assert str(answer.to_arrow(typed=False).schema.field("k").type) == "string"


@pytest.mark.parametrize(
    ("unit", "first", "second"),
    [
        ("month", (2024, 1, 1), (2024, 2, 1)),
        ("quarter", (2024, 1, 1), (2024, 4, 1)),
        ("week", (2024, 1, 8), (2024, 1, 15)),
    ],
)
def test_a_date_that_is_cut_is_the_first_day_of_its_unit(stays, unit, first, second):
    answer = stays.ask(f"SELECT date_trunc('{unit}', day), count(*) FROM stays GROUP BY 1", within=100)  # noqa: S608
    assert [row.values[0] for row in answer.rows[:2]] == [dt.date(*first), dt.date(*second)]  # noqa: PD011
    frame = answer.to_pandas()
    assert str(frame.dtypes.iloc[0]).startswith("datetime64")


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("SELECT DISTINCT ward FROM stays", ["east", "west", "<missing>", "<outside>"]),
        ("SELECT ward FROM stays GROUP BY ward", ["east", "west", "<missing>", "<outside>"]),
        ("SELECT DISTINCT ward FROM stays WHERE ward IS NOT NULL", ["east", "west", "<outside>"]),
        ("SELECT DISTINCT ward AS w FROM stays WHERE ward LIKE 'w%' ORDER BY w LIMIT 5", ["west"]),
        ("SELECT DISTINCT ward FROM stays WHERE age > 3", ["east", "west", "<missing>", "<outside>"]),
        ("SELECT DISTINCT age FROM stays WHERE age >= 20", ["18 to 64", "65 to 110"]),
    ],
)
def test_declared_values_are_told_for_nothing(stays, text, keys):
    before = stays.budget
    answer = stays.ask(text)
    assert [row.keys[0] for row in answer.rows] == keys
    assert stays.quote(text).price.share == answer.price.share == 0
    assert "These are the declared values, which are public" in str(answer)
    assert "interval" not in str(answer)
    assert stays.budget == before


def test_declared_pairs_are_those_that_where_leaves(stays):
    text = "SELECT DISTINCT urgent, ward FROM stays WHERE ward LIKE 'e%' AND urgent IS NOT NULL AND age > 3"
    assert [row.keys for row in stays.ask(text).rows] == [(False, "east"), (True, "east"), ("<outside>", "east")]
