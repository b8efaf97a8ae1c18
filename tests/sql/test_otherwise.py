"""Questions in SQL about columns without `<missing>` and `<outside>`, and the SQL that they are rendered to."""

from __future__ import annotations

import datetime as dt

import duckdb
import numpy as np
import pytest

from dodona.engines.cells import ColumnForm, among_sql, code_sql, read_column
from dodona.engines.dialects import DUCKDB, number_literal
from dodona.query.canonical import query_digest
from dodona.query.predicate import EVERYTHING, NOTHING, Among
from dodona.query.query import CaseKey
from dodona.schema.attributes import Category, Date, Integer, Number
from dodona.schema.encoding import encode
from dodona.schema.partition import Partition, group_label
from dodona.sql.compile import compile_sql
from dodona.sql.scope import InvalidSql
from tests.engines.columns import completed
from tests.sql.scene import COMPLETE, SCHEMA

NAMES = ("sex", "age", "stay", "admitted", "emergency")
COUNTED = ("'male'", "10", "2.5", "'2024-01-16'", "true")


def where(condition: str):
    (block,) = compile_sql(f"SELECT count(*) FROM stays WHERE {condition}", COMPLETE).query.blocks  # noqa: S608
    return block.where


@pytest.mark.parametrize("name", NAMES)
def test_no_row_is_null(name: str) -> None:
    assert where(f"{name} IS NULL") == NOTHING
    assert where(f"{name} IS NOT NULL") == EVERYTHING
    assert where(f"NOT {name} IS NULL") == EVERYTHING
    assert where(f"{name} IS DISTINCT FROM NULL") == EVERYTHING
    assert where(f"{name} IS NOT DISTINCT FROM NULL") == NOTHING


@pytest.mark.parametrize(("name", "words"), tuple(zip(NAMES, COUNTED, strict=True)))
def test_a_question_for_null_is_warned_of(name: str, words: str) -> None:
    question = compile_sql(f"SELECT count(*) FROM stays WHERE {name} IS NULL", COMPLETE)  # noqa: S608
    assert question.warnings[0] == f"`{name}` is never NULL: what is missing counts as {words}."
    assert compile_sql(f"SELECT count(*) FROM stays WHERE {name} IS NULL", SCHEMA).warnings == ()  # noqa: S608


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("NOT age > 3", "age <= 3"),
        ("NOT sex = 'male'", "sex <> 'male'"),
        ("sex IN ('male', 'female', 'other')", "1 = 1"),
        ("emergency IS NOT TRUE", "NOT emergency"),
        ("coalesce(age, 7) = 7", "age = 7"),
        ("stay BETWEEN 0 AND 5", "TRUE"),
    ],
)
def test_a_condition_is_true_or_false_and_never_neither(one: str, other: str) -> None:
    assert where(one) == where(other)


@pytest.mark.parametrize("cell", ["<missing>", "<outside>"])
@pytest.mark.parametrize(("name", "words"), tuple(zip(NAMES, COUNTED, strict=True)))
@pytest.mark.parametrize("way", ["{0} = '{1}'", "{0} <> '{1}'", "{0} IN ('{1}')"])
def test_a_cell_that_is_not_there_is_refused_at_its_place(name: str, words: str, cell: str, way: str) -> None:
    text = f"SELECT count(*) FROM stays WHERE {way.format(name, cell)}"  # noqa: S608
    with pytest.raises(InvalidSql) as caught:
        compile_sql(text, COMPLETE)
    assert f"{name} has no {cell}; what is missing or not declared counts as {words}." in str(caught.value)
    assert (caught.value.line, caught.value.column) == (1, text.index("'<") + 1)
    assert str(caught.value).endswith("Nothing was charged.")


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("sex", 3),
        ("age", 21),
        ("stay", 3),
        ("bin(age, 10)", 3),
        ("admitted", 152),
        ("date_trunc('month', admitted)", 5),
        ("month(admitted)", 5),
        ("year(admitted)", 2),
        ("emergency", 2),
        ("sex, emergency", 6),
        ("age > 3", 2),
    ],
)
def test_grouping_has_the_declared_groups_alone(by: str, groups: int) -> None:
    question = compile_sql(f"SELECT {by}, count(*) FROM stays GROUP BY {by}", COMPLETE)  # noqa: S608
    assert question.query.values == groups or by == "age > 3"
    names: list[object] = []
    for key in question.keys:
        if isinstance(key, Partition):
            names += [group_label(key, COMPLETE.domain[key.attribute], group) for group in range(key.groups)]
        elif isinstance(key, CaseKey) and by != "age > 3":
            names += [*(name for name, _ in key.branches), key.otherwise]
    assert not {"<missing>", "<outside>"} & set(map(str, names))


def test_to_count_a_column_is_to_count_its_rows() -> None:
    for name in NAMES:
        question = compile_sql(f"SELECT count({name}) FROM stays", COMPLETE)  # noqa: S608
        assert query_digest(question.query) == query_digest(compile_sql("SELECT count(*) FROM stays", COMPLETE).query)
    assert len(compile_sql("SELECT avg(age), avg(stay), count(*) FROM stays", COMPLETE).query.blocks) == 3
    assert len(compile_sql("SELECT avg(age), avg(stay), count(*) FROM stays", SCHEMA).query.blocks) == 5


def test_conditions_compare_the_raw_column_and_say_where_it_is_not() -> None:
    def sql(attribute, codes: int, form: ColumnForm) -> str:
        return among_sql(read_column(attribute, "c", form, DUCKDB), Among("x", attribute.size, codes))

    age = Integer("x", 0, 9, otherwise=1)
    assert sql(age, 0b1111100000, ColumnForm.WHOLE) == "c >= 5"
    assert sql(age, 0b0000011111, ColumnForm.WHOLE) == "((c >= 5) IS NOT TRUE)"
    assert sql(age, 0b1111111111, ColumnForm.WHOLE) == "TRUE"
    assert sql(age, 0b0000000011, ColumnForm.CODE) == "c BETWEEN 0 AND 1"
    assert sql(age, 0b0000000011, ColumnForm.NOTHING) == "1 BETWEEN 0 AND 1"
    sex = Category("x", ["a", "b'", "c"], otherwise="c")
    assert sql(sex, 0b011, ColumnForm.TEXT) == "c IN ('a', 'b''')"
    assert sql(sex, 0b100, ColumnForm.TEXT) == "((c IN ('a', 'b''')) IS NOT TRUE)"
    day = Date("x", dt.date(2024, 1, 30), dt.date(2024, 2, 2), otherwise=dt.date(2024, 2, 2))
    assert sql(day, 0b1000, ColumnForm.DAY) == "(((c >= DATE '2024-01-30' AND c < DATE '2024-02-02')) IS NOT TRUE)"
    assert code_sql(read_column(sex, "c", ColumnForm.TEXT, DUCKDB)) == (
        "coalesce(CAST(enum_code(TRY_CAST(c AS ENUM('a', 'b''', 'c'))) AS BIGINT), 2)"
    )


@pytest.mark.parametrize("landing", range(5))
@pytest.mark.parametrize("form", [ColumnForm.DOUBLE, ColumnForm.TEXT])
def test_every_set_of_codes_of_a_small_grid_is_told_apart(form: ColumnForm, landing: int) -> None:
    number = completed(Number("x", 0, "0.4", "0.1"), landing)
    column = [-1.0, -5e-324, 0.0, 0.1, 0.2, 0.3, 0.39, 0.4, 9.0, np.inf, np.nan, None]
    listed = [
        "(NULL)" if v is None else f"('{v}'::DOUBLE)" if not np.isfinite(v) else f"({number_literal(v)})"
        for v in column
    ]
    if form is ColumnForm.TEXT:
        column = [None if v is None else repr(float(v)) for v in column] + ["x", "", "1e999", "0.1.2"]
        listed = ["(NULL)" if v is None else f"('{v}')" for v in column]
    held, codes = read_column(number, "c", form, DUCKDB), encode(number, column)
    table = f"(VALUES {', '.join(listed)}) AS t(c)"
    assert duckdb.sql(f"SELECT {code_sql(held)} FROM {table}").fetchall() == [(code,) for code in codes.tolist()]  # noqa: S608
    for chosen in range(1, 2**5):
        sql = among_sql(held, Among("x", 5, chosen))
        count = duckdb.sql(f"SELECT count(*) FROM {table} WHERE {sql}").fetchall()[0][0]  # noqa: S608
        assert count == sum(chosen >> int(code) & 1 for code in codes), sql
