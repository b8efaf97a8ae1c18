"""Rendered SQL: literals that mean what they should, bounds that part doubles exactly, statements of known shape."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.engines.cells import ColumnForm, among_sql, bit_runs, grid_threshold, read_column
from dodona.engines.dialects import DUCKDB, number_literal, whole_literal
from dodona.engines.render import Table, conditional_statement, predicate_sql, sum_statement
from dodona.query.predicate import EVERYTHING, NOTHING, Among, conjunction
from dodona.query.query import ONE, Block, ConstantWeight
from dodona.schema.attributes import GRID_SLACK, Category, Date, Integer, Number
from dodona.schema.encoding import encode
from dodona.schema.partition import Partition
from tests.house.shares import examples


def engine(sql: str) -> object:
    return duckdb.sql(f"SELECT {sql}").fetchall()[0][0]


@settings(max_examples=examples(200), deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_text_literal_means_its_text(text: str) -> None:
    assert engine(DUCKDB.literal(text)) == text


@pytest.mark.parametrize("name", ["select", 'say "no"', "Größe", "a b", "'", "\\"])
def test_an_identifier_names_its_column(name: str) -> None:
    identifier = DUCKDB.identifier(name)
    assert duckdb.sql(f"SELECT {identifier} FROM (SELECT 7 AS {identifier})").fetchall() == [(7,)]  # noqa: S608


@settings(max_examples=examples(200), deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_literal_is_that_double(value: float) -> None:
    number = engine(number_literal(value))
    assert isinstance(number, float)
    assert number == value


@pytest.mark.parametrize("value", [0, -1, 2**53, -(2**61), 2**62])
def test_a_whole_literal_can_be_subtracted(value: int) -> None:
    assert engine(f"1-{whole_literal(value)}") == 1 - value


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 2**70))
def test_runs_are_the_set_bits(codes: int) -> None:
    runs = list(bit_runs(codes))
    assert sum(((1 << (last - first + 1)) - 1) << first for first, last in runs) == codes
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(runs))


@settings(max_examples=examples(300), deadline=None)
@given(
    st.fractions(-(10**6), 10**6, max_denominator=1000),
    st.fractions("1/1000", 1000, max_denominator=1000),
    st.integers(0, 1000),
)
def test_a_threshold_is_the_first_double_with_its_code(lower, step, number: int) -> None:
    least, width = float(lower), float(step)
    threshold = grid_threshold(least, width, number)
    before = math.nextafter(threshold, -math.inf)
    assert math.floor((threshold - least) / width + GRID_SLACK) >= number
    assert math.floor((before - least) / width + GRID_SLACK) < number


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(-(10**6), 10**6), st.sampled_from(["0.01", "0.1", "1/3", "0.7", "2.5"]), st.integers(0, 10**5))
def test_a_value_on_the_grid_has_the_code_of_its_place(start: int, width: str, place: int) -> None:
    step = Fraction(width)
    number = Number("x", start * step, (start + 10**5) * step, step)
    value = float((start + place) * step)
    assert encode(number, np.array([value])).tolist() == encode(number, [value]).tolist() == [place]
    assert grid_threshold(float(number.lower), float(step), place) <= value


def test_conditions_compare_the_raw_column() -> None:
    def sql(attribute, codes: int, form: ColumnForm) -> str:
        return among_sql(read_column(attribute, "c", form, DUCKDB), Among("x", attribute.size + 2, codes))

    age = Integer("x", 0, 9)
    assert sql(age, 0b0000111000, ColumnForm.WHOLE) == "(c >= 3 AND c < 6)"
    assert sql(age, 0b0000000111, ColumnForm.WHOLE) == "c < 3"
    assert sql(age, 0b1111100000, ColumnForm.WHOLE) == "c >= 5"
    assert sql(age, 0b1111111111, ColumnForm.WHOLE) == "(c) IS NOT NULL"
    assert sql(age, 0b010000000001, ColumnForm.WHOLE) == "(c < 1 OR c IS NULL)"
    assert sql(age, 0b100000000000, ColumnForm.WHOLE) == "FALSE"
    sex = Category("x", ["a", "b'", "c"])
    assert sql(sex, 0b00011, ColumnForm.TEXT) == "c IN ('a', 'b''')"
    assert sql(sex, 0b11000, ColumnForm.TEXT) == "(c IS NULL OR (c IS NOT NULL AND c NOT IN ('a', 'b''', 'c')))"
    import datetime as dt

    day = Date("x", dt.date(2024, 1, 30), dt.date(2024, 2, 2))
    assert sql(day, 0b0011, ColumnForm.DAY) == "(c >= DATE '2024-01-30' AND c < DATE '2024-02-01')"
    assert (
        sql(day, 0b0001, ColumnForm.TIME)
        == "(c >= TIMESTAMP '2024-01-30 00:00:00' AND c < TIMESTAMP '2024-01-31 00:00:00')"
    )
    half = Number("x", 0, 2, "0.5")
    assert "isnan" in sql(half, 0b11000, ColumnForm.DOUBLE)
    assert sql(half, 0b11000, ColumnForm.WHOLE) == "c >= 2"


@pytest.mark.parametrize("form", [ColumnForm.DOUBLE, ColumnForm.WIDE])
def test_every_set_of_codes_of_a_small_grid_is_told_apart(form: ColumnForm) -> None:
    number = Number("x", 0, "0.4", "0.1")
    column = np.array([-1.0, -5e-324, 0.0, 0.1, 0.2, 0.3, 0.30000000000000004, 0.39, 0.4, 9.0, np.inf, -np.inf])
    held = read_column(number, "c", form, DUCKDB)
    codes = encode(number, column)
    listed = ", ".join(f"({number_literal(v)})" if np.isfinite(v) else f"('{v}'::DOUBLE)" for v in column)
    for chosen in range(1, 2**7):
        sql = among_sql(held, Among("x", 7, chosen))
        count = duckdb.sql(f"SELECT count(*) FROM (VALUES {listed}) AS t(c) WHERE {sql}").fetchall()[0][0]  # noqa: S608
        assert count == sum(chosen >> int(code) & 1 for code in codes), sql


def test_statements_group_texts_before_they_are_mapped() -> None:
    sex = Category("sex", ["f", "m"])
    table = Table("rows", {"sex": read_column(sex, '"sex"', ColumnForm.TEXT, DUCKDB)}, DUCKDB)
    asked = sum_statement(table, EVERYTHING, [Partition.of(sex)], [ONE])
    assert 'SELECT "sex" AS k0, count(*) AS t0 FROM rows GROUP BY 1' in asked.sql
    assert asked.groups == 4
    assert asked.scales == ((1,),)


def test_nothing_and_everything_are_written_out() -> None:
    table = Table("rows", {}, DUCKDB)
    assert predicate_sql(table, NOTHING) == "FALSE"
    assert predicate_sql(table, conjunction()) == "TRUE"
    asked = conditional_statement(table, [Block(NOTHING), Block(weight=ConstantWeight(-7))])
    assert (
        asked.sql == "SELECT 0 AS g, CAST(coalesce(count_if(FALSE), 0) AS BIGINT) AS s0, "
        "CAST(coalesce(count_if(TRUE), 0) AS BIGINT) AS s1 FROM rows"
    )
    assert asked.scales == ((1,), (-7,))
