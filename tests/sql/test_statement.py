from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from dodona.answer.answer import Answer, table_view
from dodona.answer.computed import ComputedAnswer
from dodona.privacy.additive_noise import Gaussian
from dodona.privacy.budget import FREE
from dodona.privacy.measurement import MeasuredValues
from dodona.query.question import Question
from dodona.query.statement import Statement
from dodona.schema.attributes import Integer, Timestamp
from dodona.schema.schema import Schema
from dodona.sql.compile import read_statement
from dodona.sql.scope import InvalidSql
from dodona.sql.statement import check_statement
from tests.sql.oracle import summed
from tests.sql.pairs import blocks
from tests.sql.scene import COMPLETE, ROWS, SCHEMA, complete_database, complete_rows

ANSWERED = blocks("statements.sql")
REFUSED = blocks("statements_refused.sql")


def exact_answer(question: Question) -> Answer:
    """The answer to a question with exact values where released ones would be."""
    values = np.concatenate([summed(block, complete_rows()) for block in question.query.blocks])
    noises = (Gaussian(scale=5),) * len(question.query.blocks)
    return Answer(
        measured=MeasuredValues(question, [int(value) for value in values], noises),
        price=FREE,
        view=table_view(0.95, ROWS, 4),
    )


def exact_result(text: str) -> list[tuple[object, ...]]:
    statement = read_statement(text, COMPLETE)
    if isinstance(statement, Question):
        columns = exact_answer(statement).to_arrow().to_pydict()
        ends = {f"{name}_{end}" for name in columns for end in ("low", "high")}
        return list(zip(*(values for name, values in columns.items() if name not in ends), strict=True))
    check_statement(statement)
    answer = ComputedAnswer.compute(statement, [exact_answer(part) for part in statement.parts])
    shown = answer.result.select(range(len(answer.columns)))
    assert len(statement.columns) == len(answer.columns)
    return [tuple(row.values()) for row in shown.rename_columns([*map(str, range(shown.num_columns))]).to_pylist()]


@pytest.mark.parametrize(("text", "notes"), ANSWERED, ids=[text[:80] for text, _ in ANSWERED])
def test_a_statement_means_what_it_means_in_duckdb(text, notes):
    other = next((note.removeprefix("duckdb: ") for note in notes if note.startswith("duckdb: ")), text)
    actual, expected = exact_result(text), complete_database().execute(other).fetchall()
    assert len(actual) == len(expected)
    for row, two in zip(sorted(map(_row, actual)), sorted(map(_row, expected)), strict=True):
        assert [text for text, _ in row] == [text for text, _ in two]
        assert [number for _, number in row] == pytest.approx([number for _, number in two], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("text", "notes"), REFUSED, ids=[text[:80] for text, _ in REFUSED])
def test_a_refused_statement_is_refused_at_its_place_and_says_why(text, notes):
    place, _, said = notes[-1].partition(" ")
    with pytest.raises(InvalidSql) as caught:
        check_statement(read_statement(text, SCHEMA))
    assert (f"{caught.value.line}:{caught.value.column}", caught.value.what) == (place, said)
    assert len(caught.value.instead) > 5
    assert str(caught.value).endswith("Nothing was charged.")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sex, count(*) FROM (SELECT * FROM stays WHERE age > 3) AS x GROUP BY sex",
        "WITH x AS (SELECT sex AS s, age FROM stays) SELECT s, avg(age) FROM x WHERE age > 3 GROUP BY s ORDER BY 2",
        "SELECT count(*) FROM (SELECT * FROM (SELECT age AS a FROM stays) AS x WHERE a > 3) AS y",
    ],
)
def test_sub_selects_that_only_filter_or_rename_leave_one_question(text):
    assert isinstance(read_statement(text, SCHEMA), Question)


def test_a_flattened_question_is_the_same_question_as_the_plain_one():
    flat = read_statement("SELECT s, count(*) FROM (SELECT sex AS s FROM stays WHERE age > 3) AS x GROUP BY s", SCHEMA)
    plain = read_statement("SELECT sex, count(*) FROM stays WHERE age > 3 GROUP BY sex", SCHEMA)
    assert flat.query == plain.query


def test_a_cte_that_is_not_used_is_not_asked():
    used = "a AS (SELECT sex, count(*) AS n FROM stays GROUP BY sex)"
    unused = "b AS (SELECT age, count(*) AS n FROM stays GROUP BY age)"
    text = f"WITH {used}, {unused} SELECT max(n) FROM a"  # noqa: S608  constants
    assert len(read_statement(text, SCHEMA).parts) == 1


def test_a_cte_that_is_used_twice_is_asked_once():
    both = "SELECT x.n - y.n FROM a AS x JOIN a AS y ON x.sex <> y.sex"
    text = f"WITH a AS (SELECT sex, count(*) AS n FROM stays GROUP BY sex) {both}"  # noqa: S608  constants
    assert len(read_statement(text, SCHEMA).parts) == 1


def test_equal_sub_selects_are_one_question():
    text = "SELECT (SELECT count(*) FROM stays) / (SELECT count(*) FROM stays) AS one"
    assert len(read_statement(text, SCHEMA).parts) == 1


def test_explain_asks_for_the_price_alone():
    statement = read_statement("EXPLAIN SELECT sex, count(*) FROM stays GROUP BY sex", SCHEMA)
    assert isinstance(statement, Statement)
    assert statement.explain


@pytest.mark.parametrize("words", ["ANALYZE", "VERBOSE", "(FORMAT JSON)"])
def test_explain_has_no_further_words(words):
    with pytest.raises(InvalidSql, match="EXPLAIN tells the price, and asks nothing") as refused:
        read_statement("EXPLAIN " + words + " SELECT count(*) FROM stays", SCHEMA)  # noqa: S608  constants
    assert refused.value.column == 9


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT count(*) FROM t WHERE hour(when) < 6", 35),
        ("SELECT When, count(*) FROM t GROUP BY when", 8),
        ('SELECT avg(case) FROM t WHERE "case" > 3', 12),
        ("SELECT avg(from) FROM t", 12),
        ("SELECT avg(n) FROM t WHERE else BETWEEN 1 AND 2", 28),
    ],
)
def test_a_column_named_by_a_word_of_sql_is_written_in_quotes(text, column):
    words = ("when", "case", "else", "from", "n")
    schema = Schema.of("t", *(Integer(word, 0, 9) for word in words), size=10)
    with pytest.raises(InvalidSql, match="is a word of SQL") as refusal:
        read_statement(text, schema)
    assert (refusal.value.line, refusal.value.column) == (1, column)
    with pytest.raises(InvalidSql, match="Something is missing around here"):  # which no quotes mend
        read_statement("SELECT avg(when) FROM t WHERE", schema)


def test_a_huge_cross_join_is_refused_before_anything_is_charged():
    days = "(SELECT age, admitted, count(*) AS n FROM stays GROUP BY 1, 2) AS x"
    many = ", ".join(days + str(number) for number in range(4))
    with pytest.raises(InvalidSql, match=r"more than|needs more"):
        check_statement(read_statement("SELECT x0.n FROM " + many, SCHEMA))  # noqa: S608  constants


def _row(values):
    return tuple(_plain(value) for value in values)


def _plain(value: object) -> tuple[str, float]:
    if isinstance(value, bool | str | dt.date):
        return str(value).lower().removesuffix(" 00:00:00"), 0.0
    return ("<missing>", 0.0) if value is None else ("", round(float(value), 9))  # type: ignore[arg-type]


def test_what_depends_on_the_number_of_groups_says_that_all_declared_ones_count():
    groups = "(SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t"
    for function in ("avg(n)", "count(*)", "min(n)", "median(n)", "stddev(n)"):
        statement = read_statement(f"SELECT {function} AS x FROM {groups}", SCHEMA)  # noqa: S608
        assert "is over all declared groups" in statement.warnings[0]
    for function in ("sum(n)", "max(n)"):
        assert read_statement(f"SELECT {function} AS x FROM {groups}", SCHEMA).warnings == ()  # noqa: S608


def test_times_keep_their_type_in_what_is_computed():
    first = dt.datetime(2024, 1, 1)  # noqa: DTZ001
    hours = Timestamp("seen", first, first + dt.timedelta(hours=3), "1 hour", otherwise=first)
    schema = Schema.of("visits", hours, size=100)
    text = (
        "SELECT seen, sum(n) OVER (ORDER BY seen) AS s FROM (SELECT seen, count(*) AS n FROM visits GROUP BY seen) AS t"
    )
    statement = read_statement(text, schema)
    assert isinstance(statement, Statement)
    (part,) = statement.parts
    measured = MeasuredValues(part, [1, 2, 3, 4], (Gaussian(scale=5),))
    answer = ComputedAnswer.compute(statement, [Answer(measured=measured, price=FREE, view=table_view(0.95, 100))])
    assert [row.values[0] for row in answer.rows[:2]] == [first, first + dt.timedelta(hours=1)]
