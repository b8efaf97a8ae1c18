# ruff: noqa: S608  statements are put together from parts that the tests list
from __future__ import annotations

import datetime as dt
import inspect
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from sqlglot import exp

from dodona.query.canonical import query_digest
from dodona.query.predicate import EVERYTHING, Jointly, evaluate_predicate
from dodona.query.query import CaseWeight, ConstantWeight, Query, ValueWeight
from dodona.query.question import Arithmetic, Comparison, KeyLabel, LiteralExpression, Mean, Quantile, Total
from dodona.schema.attributes import Boolean, Category, Date, Integer, Number
from dodona.schema.partition import Partition
from dodona.schema.schema import Schema
from dodona.sql import parse
from dodona.sql.compile import compile_sql
from dodona.sql.scope import InvalidSql
from tests.sql import grammar
from tests.sql.scene import SCHEMA

WIDE = Schema.of("wide", Integer("number", 0, 2**24 - 1), Date("day", dt.date(1, 1, 1), dt.date(9999, 12, 31)), size=10)


def asked(text):
    return compile_sql(text, SCHEMA)


def cells(where, name):
    """Return the labels of the cells of a column for which a condition is true."""
    (block,) = asked(f"SELECT count(*) FROM stays WHERE {where}").query.blocks
    attribute = SCHEMA.domain[name]
    mask = np.broadcast_to(
        evaluate_predicate(block.where, {name: np.arange(attribute.size + 2)}), (attribute.size + 2,)
    )
    return [
        "MISSING" if code == attribute.size else "OUTSIDE" if code > attribute.size else code
        for code in np.flatnonzero(mask)
    ]


NORTH = "avg(CASE WHEN region = 'north' THEN 1 END)"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (f"SELECT region, {NORTH} AS a FROM orders GROUP BY region", [1, None, None, None, None]),
        (f"SELECT region, 2 * {NORTH} + 1 AS a FROM orders GROUP BY region", [3, None, None, None, None]),
        ("SELECT region, avg(2) AS a FROM orders WHERE region IN ('north', 'east') GROUP BY region", [2, 2]),
        ("SELECT avg(quantity) AS a FROM orders WHERE quantity < 0", [None]),
        ("SELECT stddev(quantity) AS a FROM orders WHERE FALSE", [None]),
        (
            f"WITH x AS (SELECT region, {NORTH} AS a FROM orders GROUP BY region) SELECT coalesce(a, 0) AS a FROM x",
            [1, 0, 0, 0, 0],
        ),
    ],
    ids=["a constant", "arithmetic", "in WHERE", "contradiction", "nothing", "outer half"],
)
def test_an_average_of_constants_is_null_where_no_row_can_have_a_value_and_free(text, values):
    with grammar.shop() as curator:
        answer = curator.ask(text)
        shown = [row.cells[answer.columns.index("a")] for row in answer.rows]
        assert [None if cell is None else getattr(cell, "value", cell) for cell in shown] == values
        assert answer.price.share == 0


def test_the_order_of_keys_is_no_part_of_the_question_but_of_what_is_shown():
    first = asked("SELECT sex, emergency, count(*) FROM stays GROUP BY sex, emergency")
    two = asked("SELECT sex, emergency, count(*) FROM stays GROUP BY emergency, sex")
    three = asked("SELECT emergency, count(*), sex FROM stays GROUP BY ALL")
    assert query_digest(first.query) == query_digest(two.query) == query_digest(three.query)
    assert first.columns == two.columns
    assert [column.name for column in three.columns] == ["emergency", "count", "sex"]
    assert [key.attribute for key in first.keys] == ["emergency", "sex"]
    assert three.columns[2].expression == KeyLabel(1)


@pytest.mark.parametrize(
    "text",
    [
        "select   COUNT(*) from stays where sex='male' and age>=3",
        "SELECT count(*) AS n FROM stays s WHERE s.age >= 3 AND s.sex = 'male'",
        "SELECT count(*) FROM stays WHERE 1 = 1 AND (sex = 'male') AND NOT age < 3",
        "SELECT count(*) FROM stays WHERE sex IN ('male') AND age > 2 AND age > 1 AND TRUE",
        "SELECT count(*) FROM stays WHERE CAST('3' AS INTEGER) <= age AND sex NOT IN ('female', 'other', '<outside>')",
        "SELECT count(*) FILTER (WHERE age >= 3) FROM stays WHERE sex = 'male'",
        "SELECT count(CASE WHEN age >= 3 AND sex = 'male' THEN 1 END) FROM stays",
        "SELECT sum(1) FROM stays WHERE age BETWEEN 3 AND 20 AND sex LIKE 'mal_'",
        "SELECT count_if(age + 1 >= 4) FROM stays WHERE sex = 'male' ORDER BY 1 LIMIT 1 -- the same",
    ],
)
def test_paraphrases_are_one_question(text):
    plain = asked("SELECT count(*) FROM stays WHERE age >= 3 AND sex = 'male'")
    assert query_digest(asked(text).query) == query_digest(plain.query)


def test_a_block_is_measured_once_however_often_it_is_shown():
    question = asked(
        "SELECT avg(age), avg(age) * 2, count(age), sum(emergency::int), count(age) FROM stays ORDER BY avg(age)"
    )
    assert len(question.query.blocks) == 3
    assert question.columns[2].expression == question.columns[4].expression


def test_an_average_is_taken_about_the_middle_of_its_range():
    (column,) = asked("SELECT avg(stay) FROM stays").columns
    assert column.expression == Mean(0, 1, centre=Fraction(5, 2), lower=Fraction(0), upper=Fraction(5))
    block, rows = asked("SELECT avg(stay) FROM stays").query.blocks
    assert block.weight == ValueWeight("stay", 21, -10, 1)
    assert block.unit == Fraction(1, 4)
    assert block.where == rows.where
    assert cells("stay IS NOT NULL AND stay < 99", "stay") == list(range(21))


@pytest.mark.parametrize(
    ("text", "lower", "upper", "centre"),
    [
        ("SELECT avg(stay) FROM stays WHERE stay < 2", 0, "1.75", 1),
        ("SELECT avg(stay) FROM stays WHERE stay > 1 AND stay < 2 AND emergency", "1.25", "1.75", "1.5"),
        ("SELECT avg(stay) FILTER (WHERE stay BETWEEN 4 AND 5) FROM stays", 4, 5, "4.5"),
        ("SELECT avg(-2 * stay) FROM stays WHERE stay <= 1", -2, 0, -1),
        ("SELECT avg(emergency) FROM stays", 0, 1, 0),
        ("SELECT avg(CASE WHEN age > 3 THEN 10 ELSE 20 END) FROM stays", 10, 20, 10),
        ("SELECT avg(CASE WHEN age > 3 THEN age ELSE 100 END) FROM stays WHERE age < 9", 4, 100, 52),
        ("SELECT avg(CASE WHEN stay > 3 THEN stay ELSE 4 END) FROM stays", "3.25", 5, "4.25"),
        ("SELECT avg(age) FROM stays WHERE (sex, age) IN (('male', 4), ('female', 8))", 4, 8, 6),
        ("SELECT avg(age) FROM stays WHERE age < 5 OR emergency", 0, 20, 10),
    ],
)
def test_the_range_of_an_average_follows_what_is_meant(text, lower, upper, centre):
    expression = asked(text).columns[0].expression
    assert isinstance(expression, Mean)
    assert (expression.lower, expression.upper, expression.centre) == tuple(map(Fraction, (lower, upper, centre)))


@pytest.mark.parametrize(
    ("text", "weight", "unit"),
    [
        ("SELECT sum(stay) FROM stays", ValueWeight("stay", 21, 0, 1), "1/4"),
        ("SELECT sum(2 * stay + 1) FROM stays", ValueWeight("stay", 21, 2, 1), "1/2"),
        ("SELECT sum(age / 3) FROM stays", ValueWeight("age", 21, 0, 1), "1/3"),
        ("SELECT sum(age * 1000) FROM stays", ValueWeight("age", 21, 0, 1), "1000"),
        ("SELECT sum(5 - age) FROM stays", ValueWeight("age", 21, 5, -1), "1"),
        ("SELECT sum(0.1) FROM stays", ConstantWeight(1), "1/10"),
    ],
)
def test_a_weight_is_whole_numbers_of_one_unit(text, weight, unit):
    (block,) = asked(text).query.blocks
    assert (block.weight, block.unit) == (weight, Fraction(unit))
    assert block.where == EVERYTHING


def test_a_case_inside_a_sum_keeps_its_true_size():
    (block,) = asked(
        "SELECT sum(CASE WHEN age = 7 THEN 1e9 WHEN emergency THEN 0.5 ELSE stay END) FROM stays"
    ).query.blocks
    assert isinstance(block.weight, CaseWeight)
    assert [weight for _, weight in block.weight.branches] == [ConstantWeight(4 * 10**9), ConstantWeight(2)]
    assert block.weight.otherwise == ValueWeight("stay", 21, 0, 1)
    assert block.unit == Fraction(1, 4)


@pytest.mark.parametrize(
    ("where", "name", "expected"),
    [
        ("age > 18", "age", [19, 20]),
        ("NOT age > 1", "age", [0, 1]),
        ("age IS NULL", "age", ["MISSING"]),
        ("age IS NOT NULL AND age NOT BETWEEN 1 AND 19", "age", [0, 20]),
        ("NOT (age IS NULL) AND (age > 0) IS NULL", "age", ["OUTSIDE"]),
        ("(age > 3) IS NULL", "age", ["MISSING", "OUTSIDE"]),
        ("age = '<outside>'", "age", ["OUTSIDE"]),
        ("age IN (3, '<outside>')", "age", [3, "OUTSIDE"]),
        ("age <> '<outside>' AND age > 19", "age", [20]),
        ("age = '<missing>'", "age", ["MISSING"]),
        ("age <> '<missing>' AND age IS NULL", "age", []),
        ("age IS DISTINCT FROM 3 AND NOT age < 20", "age", [20]),
        ("age IS NOT DISTINCT FROM NULL", "age", ["MISSING"]),
        ("coalesce(age, 20) = 20", "age", [20, "MISSING"]),
        ("emergency", "emergency", [1]),
        ("NOT emergency", "emergency", [0]),
        ("emergency IS NOT TRUE", "emergency", [0, "MISSING", "OUTSIDE"]),
        ("sex <> 'female'", "sex", [1, 2, "OUTSIDE"]),
        ("sex NOT IN ('female', 'male')", "sex", [2, "OUTSIDE"]),
        ("sex = '<outside>'", "sex", ["OUTSIDE"]),
        ("sex NOT LIKE '%male'", "sex", [2]),
        ("sex LIKE '%' IS NULL", "sex", ["MISSING", "OUTSIDE"]),
        ("sex IS NULL", "sex", ["MISSING"]),
        ("admitted < '2023-11-03' OR NOT admitted < '2024-03-31'", "admitted", [0, 1, 151]),
        ("year(admitted) > 2024 OR year(admitted) IS NULL", "admitted", ["MISSING"]),
        ("stay > 4.6 AND stay < 5.3", "stay", [19, 20]),
    ],
)
def test_missing_and_outside_follow_the_written_rules(where, name, expected):
    assert cells(where, name) == expected


@pytest.mark.parametrize(
    ("attribute", "finest"),
    [
        (Integer("x", 0, 1), 2),
        (Integer("x", 0, 110), 111),
        (Number("x", 0, 365, "0.25"), 1461),
        (Integer("x", 1, 4096), 4096),
        (Integer("x", 0, 4096), 2049),
        (Integer("x", 0, 2**24 - 1), 4096),
        (Date("x", dt.date(1900, 1, 1), dt.date(2030, 12, 31)), 3988),
    ],
)
def test_a_quantile_is_a_tree_of_few_levels_that_nest(attribute, finest):
    question = compile_sql("SELECT median(x) FROM t", Schema.of("t", attribute, Boolean("b"), size=10))
    (column,) = question.columns
    assert isinstance(column.expression, Quantile)
    assert column.expression.level == Fraction(1, 2)
    levels = [question.query.blocks[number].keys[-1] for number in column.expression.levels]
    assert len(levels) <= 4
    assert len(levels[-1].cuts) == finest
    for coarse, fine in pairwise(levels):
        assert set(coarse.cuts) < set(fine.cuts)
        assert len(fine.cuts) <= 16 * len(coarse.cuts)
    assert question.query.values < 4_700


def test_the_levels_of_a_quantile_have_the_questions_keys_first():
    question = asked("SELECT sex, quantile(age, 0.9), count(*) FROM stays GROUP BY sex")
    assert [len(block.keys) for block in question.query.blocks] == [2, 2, 1]
    assert all(block.keys[: len(question.keys)] == question.keys for block in question.query.blocks)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("SELECT min(age) FROM stays", "1% quantile"),
        ("SELECT max(admitted) FROM stays", "99% quantile"),
        ("SELECT count(*) FROM stays WHERE age = NULL", "never true"),
        ("SELECT count(*) FROM stays WHERE age NOT IN (3, NULL)", "NOT IN is never true"),
        ("SELECT count(*) FROM stays WHERE (age, sex) IN ((3, NULL))", "never true"),
        ("SELECT count(*) FROM stays WHERE age > 3 AND age < 2", "No row can meet WHERE"),
        ("SELECT count(*) FROM stays GROUP BY age, bin(age, 5)", "same column"),
        (
            "SELECT count(*) FROM stays WHERE TIMESTAMPDIFF(MONTH, admitted, DATE '2024-02-01') = 1",
            "timestampdiff counts how often a new month begins",
        ),
        (
            "SELECT TIMESTAMP_DIFF(DATE '2024-02-01', admitted, QUARTER) > 1, count(*) FROM stays GROUP BY 1",
            "timestampdiff counts how often a new quarter begins",
        ),
    ],
)
def test_what_may_surprise_is_said_in_a_warning(text, fragment):
    assert any(fragment in warning for warning in asked(text).warnings)


def test_a_plain_question_has_no_warnings():
    assert asked("SELECT sex, avg(age) FROM stays WHERE stay > 1 GROUP BY sex").warnings == ()
    assert asked("SELECT count(*) FROM stays WHERE timestampdiff(DAY, admitted, DATE '2024-02-01') < 9").warnings == ()
    assert asked("SELECT count(*) FROM stays WHERE timestampdiff(WEEK, admitted, DATE '2024-02-01') < 9").warnings == ()
    assert asked("SELECT count(*) FROM stays WHERE datediff('month', admitted, DATE '2024-02-01') < 2").warnings == ()


def test_columns_are_named_as_they_are_written_and_never_twice():
    listed = "sex, count(*), count(age), avg(stay) AS Mean, sum(age) + 1, bin(age, 5), var_pop(age)"
    text = f"SELECT {listed} FROM stays GROUP BY 1, 6"
    assert [column.name for column in asked(text).columns] == [
        "sex",
        "count",
        "count_2",
        "Mean",
        "value",
        "bin",
        "var_pop",
    ]


def test_having_order_limit_and_offset_are_kept_for_after_the_noise():
    question = asked(
        "SELECT sex, count(*) AS n FROM stays GROUP BY sex HAVING n / 2 > 7 ORDER BY n DESC, 1 LIMIT 3 OFFSET 1"
    )
    assert question.having == Comparison(
        ">", Arithmetic("/", Total(0), LiteralExpression(Fraction(2))), LiteralExpression(Fraction(7))
    )
    assert [(order.expression, order.descending) for order in question.order] == [
        (Total(0), True),
        (KeyLabel(0), False),
    ]
    assert (question.limit, question.offset) == (3, 1)
    assert len(question.query.blocks) == 1


def test_bins_begin_at_multiples_of_their_width():
    schema = Schema.of("t", Integer("age", 18, 45), Number("x", "-1.5", "1.5", "0.5"), size=10)
    (key,) = compile_sql("SELECT count(*) FROM t GROUP BY bin(age, 10)", schema).keys
    assert key == Partition("age", 28, (0, 2, 12, 22))
    (key,) = compile_sql("SELECT count(*) FROM t GROUP BY bin(x, 1)", schema).keys
    assert key == Partition("x", 7, (0, 1, 3, 5))


def test_a_table_may_have_two_names():
    schema = Schema.of("public.stays", Boolean("b"), size=10)
    for table, column in (
        ("public.stays", "b"),
        ("stays", "stays.b"),
        ("public.stays", "public.stays.b"),
        ("stays x", "x.b"),
    ):
        assert compile_sql(f"SELECT count(*) FROM {table} WHERE {column}", schema).query.values == 1


def test_a_column_may_be_called_like_a_word_of_sql():
    schema = Schema.of("t", Date("date", dt.date(2024, 1, 1), dt.date(2024, 1, 9)), Category("order", ["a"]), size=10)
    text = "SELECT count(*) FROM t WHERE date < '2024-01-03' AND \"order\" = 'a'"
    assert compile_sql(text, schema).query.values == 1


@pytest.mark.parametrize("opened", ["(", "NOT (", "CASE WHEN TRUE THEN "])
def test_nesting_is_read_to_16_levels_and_refused_beyond(opened):
    closed = ")" if opened.endswith("(") else " END"
    for depth in (1, 15):
        assert (
            asked("SELECT count(*) FROM stays WHERE " + opened * depth + "emergency" + closed * depth).query.values == 1
        )
    for depth in (16, 17, 1_000, 3_000):
        with pytest.raises(InvalidSql, match="nested more than"):
            asked("SELECT count(*) FROM stays WHERE (" + opened * depth + "emergency" + closed * depth + ")")


def test_a_chain_of_thousands_of_conditions_is_one_set():
    (block,) = asked("SELECT count(*) FROM stays WHERE " + " OR ".join(["age = 3"] * 4_000)).query.blocks
    assert block.where.codes == 1 << 3


def test_a_long_list_of_rows_is_one_set_of_combinations():
    rows = [(age, stay) for age in range(21) for stay in range(6) if (age * stay) % 7 < 3]
    listed = ", ".join(f"({age}, {stay})" for age, stay in rows)
    (block,) = asked(f"SELECT count(*) FROM stays WHERE (age, stay) IN ({listed})").query.blocks
    assert isinstance(block.where, Jointly)
    assert (block.where.names, block.where.codes.bit_count()) == (("age", "stay"), len(rows))
    words = " OR ".join(f"age = {age} AND stay = {stay}" for age, stay in rows)
    assert query_digest(asked(f"SELECT count(*) FROM stays WHERE {words}").query) == query_digest(
        Query(SCHEMA.domain, (block,))
    )


def test_many_large_lists_of_rows_are_refused_before_they_fill_the_memory():
    large = Schema.of("large", Integer("x", 0, 1021), Integer("y", 0, 1021), size=10)
    parts = " OR ".join(f"(x, y) IN (({place}, 1), (2, {place}))" for place in range(3, 300))
    with pytest.raises(InvalidSql, match="Too much is compared"):
        compile_sql(f"SELECT count(*) FROM large WHERE {parts}", large)


def test_a_text_that_is_read_deep_in_a_stack_is_answered_or_refused():
    def deeper(levels):
        return (
            asked("SELECT count(*) FROM stays WHERE " + "(" * 14 + "age > 3" + ")" * 14)
            if levels == 0
            else deeper(levels - 1)
        )

    room = sys.getrecursionlimit() - len(inspect.stack())
    outcomes = set()
    for left in range(20, 500, 20):
        try:
            outcomes.add(type(deeper(room - left)).__name__)
        except InvalidSql:
            outcomes.add("InvalidSql")
        except RecursionError:
            outcomes.add("no room at all")
    assert outcomes <= {"Question", "InvalidSql", "no room at all"}
    assert "Question" in outcomes


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM wide GROUP BY number",
        "SELECT count(*) FROM wide GROUP BY bin(number, 2)",
        "SELECT count(*) FROM wide WHERE " + " OR ".join(f"number = {number}" for number in range(600)),
        "SELECT count(*) FROM wide WHERE number IN (" + ", ".join(map(str, range(600))) + ")",
        "SELECT median(number), count(*) FROM wide GROUP BY bin(day, 100)",
    ],
)
def test_a_column_of_16_million_values_does_not_make_a_question_large(text):
    with pytest.raises(InvalidSql):
        compile_sql(text, WIDE)


def test_a_column_of_16_million_values_can_be_asked():
    assert compile_sql("SELECT avg(number), median(day) FROM wide WHERE number > 5", WIDE).query.values < 5_000


def test_an_argument_that_nobody_knows_is_refused_wherever_it_is():
    tree = parse.parse("SELECT count(*) FROM stays WHERE age > 3")
    parse.check_tree("", tree)
    for node in list(tree.walk()):
        node.set("unheard_of", exp.true())
        with pytest.raises(InvalidSql, match=r"not known here \(unheard_of\)"):
            parse.check_tree("", tree)
        del node.args["unheard_of"]


def test_nothing_of_the_parser_is_loaded_before_a_question_comes():
    program = "import dodona, sys; print('sqlglot' in sys.modules)"
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "False"


def test_a_text_that_was_asked_lately_is_not_compiled_again():
    text = "SELECT sex, count(*) FROM stays WHERE age >= 3 GROUP BY sex"
    assert asked(text) is asked(text)
    other = Schema.of("stays", Category("sex", ["female", "male"]), Integer("age", 0, 50), size=10)
    assert compile_sql(text, other) is not asked(text)
    assert compile_sql(text, other).query.domain == other.domain


def test_errors_and_questions_that_would_be_large_to_keep_are_compiled_each_time():
    for _ in range(2):
        with pytest.raises(InvalidSql):
            asked("SELECT count(*) FROM stays WHERE nothing = 1")
    wide = "SELECT count(*) FROM wide WHERE number > 7"
    assert compile_sql(wide, WIDE) is not compile_sql(wide, WIDE)
    long = "SELECT count(*) FROM stays" + " " * 5_000
    assert asked(long) is not asked(long)
    assert asked(long) == asked(long)
