from __future__ import annotations

import random
import time
from fractions import Fraction

import numpy as np
import pytest

from dodona.errors import InvalidRequest
from dodona.query.query import evaluate_weight
from dodona.query.question import Question
from dodona.query.statement import Statement
from dodona.schema.attributes import Integer
from dodona.schema.schema import Schema
from dodona.sql.compile import compile_sql, read_statement
from dodona.sql.statement import check_statement
from tests.sql import grammar
from tests.sql.fuzz import Feeder
from tests.sql.scene import COMPLETE, SCHEMA
from tests.sql.soup import statement, text

LONGEST = 60.0
"""Processor seconds after which a text counts as one that hangs the compiler; most take a thousandth of one."""
SLOWEST = 5.0
"""Processor seconds that reading may take: a second on an idle machine, with slack for a busy one."""


def feed(seed: int, texts: int, *, schema: Schema = SCHEMA) -> tuple[int, int]:
    """Return how many texts were accepted and refused; anything else than these two comes out as it is."""
    generator = random.Random(seed)  # noqa: S311  made-up texts from a stated seed
    accepted = refused = 0
    for _ in range(texts):
        question = text(generator)
        begin = time.process_time()
        try:
            outcome: Question | InvalidRequest = compile_sql(question, schema)
        except InvalidRequest as fault:
            outcome = fault
        if isinstance(outcome, Question):
            accepted += 1
        else:
            assert not outcome.charged
            refused += 1
        assert time.process_time() - begin < LONGEST, question
    return accepted, refused


def test_of_1000_odd_texts_each_is_accepted_or_refused():
    accepted, refused = feed(1, 1_000)
    assert accepted > 10
    assert refused > 500


def test_of_300_odd_texts_about_complete_columns_each_is_accepted_or_refused():
    accepted, refused = feed(3, 300, schema=COMPLETE)
    assert accepted > 3
    assert refused > 150


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 110))
def test_of_a_million_odd_texts_each_is_accepted_or_refused(seed):
    accepted, refused = feed(seed, 100_000)
    assert accepted > 1_000
    assert refused > 50_000


def feed_statements(seed: int, texts: int) -> tuple[int, int]:
    """Return how many statements were accepted and refused; anything else than these two comes out as it is."""
    generator = random.Random(seed)  # noqa: S311  made-up texts from a stated seed
    accepted = refused = 0
    for _ in range(texts):
        asked = statement(generator)
        fault: InvalidRequest | None = None
        try:
            parsed = read_statement(asked, SCHEMA)
            if isinstance(parsed, Statement) and parsed.sql:
                check_statement(parsed)
        except InvalidRequest as refusal:
            fault = refusal
        except Exception as crash:
            raise AssertionError(asked) from crash
        accepted, refused = accepted + (fault is None), refused + (fault is not None)
        assert fault is None or (not fault.charged and str(fault).endswith("Nothing was charged.")), asked
    return accepted, refused


def test_of_300_odd_statements_each_is_accepted_or_refused():
    accepted, refused = feed_statements(1, 300)
    assert accepted > 30
    assert refused > 100


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 220))
def test_of_a_million_odd_statements_each_is_accepted_or_refused(seed):
    accepted, refused = feed_statements(seed, 50_000)
    assert accepted > 5_000
    assert refused > 10_000


@pytest.mark.parametrize("seed", [1, 2])
def test_of_500_made_up_statements_each_is_answered_or_refused_for_nothing(seed):
    feeder = Feeder()
    feeder.feed(seed, 500, ask=4)
    feeder.close()
    assert not feeder.faults, feeder.faults[0]
    assert feeder.fates["grammar, accepted"] > 10
    assert feeder.fates["grammar, refused"] > 10
    assert feeder.fates["mutated, accepted"] > 2
    assert feeder.fates["asked"] > 4


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300, 340))
def test_of_a_million_made_up_statements_each_is_answered_or_refused_for_nothing(seed):
    feeder = Feeder(schema=grammar.SCHEMA if seed % 10 == 0 else grammar.NARROW)
    feeder.feed(seed, 25_000, ask=20)
    feeder.close()
    assert not feeder.faults, feeder.faults[0]
    assert feeder.slowest[-1][0] < SLOWEST, feeder.slowest[-1]
    assert feeder.fates["asked"] > 50


TWO_CLAMPS = (
    "SELECT avg(least(greatest(least(greatest(quantity * unit_price, 0), 449) * width_bucket(unit_price, 0, 100, 5), "
    "0), 208)) FROM orders"
)
THREE_CLAMPS = TWO_CLAMPS.replace("quantity *", "least(greatest(quantity * unit_price, 0), 300) *")
OF_THREE_COLUMNS = TWO_CLAMPS.replace("quantity *", "quantity * discount *")
OF_FOUR_COLUMNS = (
    "SELECT sum(greatest(quantity, unit_price, discount, abs(quantity - floor(day(ordered))))) FROM orders"
)


@pytest.mark.parametrize("text", [TWO_CLAMPS, THREE_CLAMPS], ids=["two clamps", "three clamps"])
def test_nested_clamps_of_two_columns_are_read_in_a_second(text):
    begin = time.process_time()
    compile_sql(text, grammar.SCHEMA)
    assert time.process_time() - begin < SLOWEST


@pytest.mark.parametrize("where", ["", "WHERE age > 40 OR returned", "WHERE discount < age"])
def test_groups_by_thousands_of_differences_are_read_in_a_second_or_two(where):
    """Each of 2,000 groups was once compared with all others, twice: that took half a minute."""
    begin = time.process_time()
    joined = "orders JOIN customers USING (customer)"
    text = f"SELECT discount - age AS k, count(*) - lag(count(*)) OVER (ORDER BY 1) FROM {joined} {where} GROUP BY 1"  # noqa: S608
    statement = read_statement(text, grammar.SCHEMA)
    assert isinstance(statement, Statement)
    check_statement(statement)
    assert time.process_time() - begin < SLOWEST


@pytest.mark.parametrize("text", [OF_THREE_COLUMNS, OF_FOUR_COLUMNS], ids=["three columns", "four columns"])
def test_nested_functions_of_more_columns_than_a_table_holds_are_refused_in_a_second(text):
    begin = time.process_time()
    with pytest.raises(InvalidRequest, match=r"too large|Too many conditions|combinations"):
        compile_sql(text, grammar.SCHEMA)
    assert time.process_time() - begin < SLOWEST


def test_a_long_case_of_functions_of_a_wide_column_groups_by_its_values():
    wide = Schema.of("t", Integer("c", 0, 4999), size=100)
    branches = " ".join(f"WHEN c < {10 * divisor} THEN floor(c / {divisor})" for divisor in range(2, 8))
    question = compile_sql(f"SELECT CASE {branches} ELSE 0 END AS k, count(*) FROM t GROUP BY 1", wide)  # noqa: S608
    assert question.columns[0].expression.labels == (*range(10),)


def test_a_clamp_of_a_clamp_has_the_value_that_is_written():
    question = compile_sql(TWO_CLAMPS, grammar.NARROW)
    block, mean = question.query.blocks[0], question.columns[0].expression
    prices, quantities = np.mgrid[0:41, 0:20].reshape(2, -1)
    steps = evaluate_weight(block.weight, {"unit_price": prices, "quantity": quantities})
    for price, quantity, step in zip(prices.tolist(), quantities.tolist(), steps.tolist(), strict=True):
        value, number = Fraction(price, 2), 1 + quantity
        bucket = 1 + value // 20 if value < 100 else 6
        assert mean.centre + step * block.unit == min(min(number * value, 449) * bucket, 208)


DAYS_WITHOUT_A_BOUND = """WITH x AS (SELECT date_trunc('month', ordered) AS k, median(ordered) AS m
    FROM orders GROUP BY 1 HAVING sum(trunc(unit_price)) > 0)
SELECT k, max(m) OVER (ORDER BY 1), row_number() OVER (ORDER BY m) FROM x WHERE k IS NOT NULL ORDER BY 1"""


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM orders WHERE date_trunc('week', ordered) > placed",
        "SELECT count(*) FROM orders WHERE coalesce(ordered, DATE '2024-01-31') = CAST(placed AS DATE)",
        "SELECT count(*) FROM orders WHERE datediff(date_trunc('day', placed), ordered) > 0.5",
        "SELECT product, count(region), avg(CASE WHEN FALSE THEN 1 ELSE 0 END) AS a FROM orders GROUP BY ROLLUP (1)",
        "WITH x AS (SELECT 1 AS a, count(*) AS n, regr_slope(discount, discount) AS s FROM orders) SELECT n, s FROM x",
        "WITH x AS (SELECT age * 1000000000000000000000 AS k, count(*) AS n FROM customers GROUP BY 1) SELECT n FROM x",
        "SELECT segment, avg(NULL) - count(*) AS a, count(*) AS n FROM customers WHERE age <> age GROUP BY segment",
        "SELECT div(quantity, 10) AS k, bin(quantity, 10) AS b, count(*) AS n FROM orders GROUP BY 1, 2",
        DAYS_WITHOUT_A_BOUND,
        "SELECT avg(n), median(m) FROM (SELECT customer, count(*) n, max(unit_price) m FROM orders GROUP BY 1) AS p",
        "SELECT count(*), median(m) FROM (SELECT customer, max(unit_price) AS m FROM orders GROUP BY customer) AS p",
    ],
    ids=[
        "a day and a time",
        "days of two kinds",
        "days between two kinds",
        "what is public beside what is not",
        "no interval",
        "keys beyond 64 bits",
        "what no group has beside a count",
        "bins of which one is a number",
        "days without a bound",
        "a quantile beside another column of people",
        "a quantile beside a count of people",
    ],
)
def test_what_once_crashed_is_answered(text):
    with grammar.shop() as curator:
        answer = curator.ask(text, epsilon=10)
        assert all(len(row.cells) == len(answer.columns) for row in answer.rows)
        table = answer.to_arrow()
        assert table.num_rows == len(answer.rows)


def test_several_values_in_one_column_are_refused_before_anything_is_charged():
    with grammar.shop() as curator:
        with pytest.raises(InvalidRequest, match="Write each as a column"):
            curator.ask("SELECT (region, returned), count(*) FROM orders GROUP BY (region, returned)", epsilon=1)
        assert curator.budget.spent == 0


def test_a_public_table_that_comes_first_is_refused_with_what_to_write():
    with grammar.shop() as curator, pytest.raises(InvalidRequest, match="Write FROM orders JOIN regions"):
        curator.ask("SELECT count(*) FROM regions JOIN customers USING (customer)", epsilon=1)


LARGE_OF_NO_ROW = """WITH x AS (
    SELECT date_trunc('month', ordered) AS k0,
        sum((quantity - extract(epoch FROM placed))) FILTER (WHERE NOT (unit_price = unit_price)) AS v0,
        count(region) FILTER (WHERE date_trunc('day', ordered) > DATE '2024-01-31') AS v1
    FROM orders GROUP BY ROLLUP (date_trunc('month', ordered)))
SELECT max(v0) OVER (ORDER BY 1), v0 - (SELECT sum(v0) orders FROM x) FROM x
WHERE v0 IN (SELECT max(v0) FROM x) QUALIFY row_number() OVER (ORDER BY v0) < 3"""


def test_large_numbers_that_no_row_has_are_priced():
    with grammar.shop(grammar.NARROW) as curator:
        assert curator.ask(LARGE_OF_NO_ROW, epsilon=1).columns


def test_the_age_of_a_time_is_refused_with_what_to_write():
    with grammar.shop() as curator:
        with pytest.raises(InvalidRequest, match="CAST"):
            curator.ask("SELECT count(*) FROM orders WHERE age(placed) > INTERVAL '1 day'", epsilon=1)
        assert curator.ask("SELECT count(*) FROM orders WHERE age(CAST(placed AS DATE)) > INTERVAL '1 day'", epsilon=1)


@pytest.mark.parametrize("key", ["-1", "'1'", "0", "9", "1.0"])
def test_a_place_in_group_by_that_is_none_is_refused_in_tables_of_people(key):
    people = f"(SELECT customer, bool_or(returned) AS n FROM orders GROUP BY {key}) AS p ON c.customer = p.customer"  # noqa: S608
    with pytest.raises(InvalidRequest, match="Nothing was charged"):
        read_statement(f"SELECT count(*), sum(coalesce(n, 0)) FROM customers c LEFT JOIN {people}", grammar.SCHEMA)  # noqa: S608
