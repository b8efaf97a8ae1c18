"""Counting people: DISTINCT is for the column that tells them apart, and for nothing else."""

import pytest

from dodona.query.canonical import query_digest
from dodona.query.query import PeopleWeight, Query
from dodona.query.question import Total
from dodona.schema.attributes import Category, Integer
from dodona.schema.schema import Schema
from dodona.sql.compile import compile_sql
from dodona.sql.scope import InvalidSql

COLUMNS = (Category("sex", ["f", "m"]), Integer("age", 0, 99))
PEOPLE = Schema.of("stays", *COLUMNS, size=100, id="Patient", rows=4)
ROWS = Schema.of("stays", *COLUMNS, size=100)


def test_people_are_counted_under_a_condition_and_by_group():
    asked = compile_sql("SELECT count(DISTINCT patient) FROM stays WHERE age >= 65", PEOPLE)
    (block,) = asked.query.blocks
    assert isinstance(block.weight, PeopleWeight)
    assert asked.columns[0].expression == Total(0)
    grouped = compile_sql("SELECT sex, count(DISTINCT stays.PATIENT) AS n, count(*) FROM stays GROUP BY sex", PEOPLE)
    assert grouped.query.blocks[0] == Query.people(PEOPLE.domain, "sex").blocks[0]
    assert grouped.query.blocks[1] == Query.histogram(PEOPLE.domain, "sex").blocks[0]


def test_brackets_around_the_counted_column_mean_nothing():
    texts = ("SELECT count(DISTINCT patient) FROM stays", "SELECT count(DISTINCT((patient))) FROM stays")
    digests = {query_digest(compile_sql(text, PEOPLE).query) for text in texts}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("count(DISTINCT CASE WHEN age > 3 THEN patient END)", "age > 3"),
        ("count(DISTINCT (CASE WHEN age > 3 THEN (stays.patient) ELSE NULL END))", "age > 3"),
        ("count(DISTINCT if(age > 3 OR sex = 'f', patient, NULL))", "age > 3 OR sex = 'f'"),
        ("count(DISTINCT CASE WHEN age > 3 THEN patient END) FILTER (WHERE sex = 'f')", "age > 3 AND sex = 'f'"),
    ],
)
def test_people_may_be_counted_by_a_case(written: str, meant: str):
    asked = compile_sql(f"SELECT {written} FROM stays", PEOPLE)  # noqa: S608
    plain = compile_sql(f"SELECT count(DISTINCT patient) FILTER (WHERE {meant}) FROM stays", PEOPLE)  # noqa: S608
    assert query_digest(asked.query) == query_digest(plain.query)


def test_a_filter_and_arithmetic_work_as_with_counts():
    asked = compile_sql("SELECT count(*) / count(DISTINCT patient) FILTER (WHERE sex = 'f') FROM stays", PEOPLE)
    assert [isinstance(block.weight, PeopleWeight) for block in asked.query.blocks] == [False, True]


def test_the_people_are_not_listed():
    with pytest.raises(InvalidSql, match="`patient` tells people apart, so nothing about it is answered"):
        compile_sql("SELECT DISTINCT patient FROM stays", PEOPLE)


@pytest.mark.parametrize(
    ("schema", "text", "place"),
    [
        (PEOPLE, "SELECT count(DISTINCT patient, sex) FROM stays", 14),
        (PEOPLE, "SELECT sum(DISTINCT patient) FROM stays", 12),
        (PEOPLE, "SELECT count(DISTINCT patient + 1) FROM stays", 14),
        (PEOPLE, "SELECT count(DISTINCT CASE WHEN age > 3 THEN patient ELSE 'x' END) FROM stays", 14),
    ],
)
def test_any_other_distinct_is_refused_where_it_stands(schema: Schema, text: str, place: int):
    with pytest.raises(InvalidSql) as refused:
        compile_sql(text, schema)
    assert "DISTINCT tells whether a value occurs at all" in str(refused.value)
    assert str(refused.value).startswith(f"Line 1, column {place}:")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT patient, count(*) FROM stays GROUP BY patient",
        "SELECT count(*) FROM stays WHERE patient = 3",
        "SELECT count(patient) FROM stays",
        "SELECT max(patient) FROM stays",
    ],
)
def test_nothing_else_about_who_a_row_is_of_is_answered(text: str):
    with pytest.raises(InvalidSql, match="tells people apart"):
        compile_sql(text, PEOPLE)
