"""Functions of single rows: what DuckDB does not have, or does otherwise; spellings of BI tools; and what is public."""
# ruff: noqa: DTZ001  times are declared without a zone, and mean UTC

import datetime as dt
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dodona.query.canonical import query_digest
from dodona.query.predicate import NOTHING
from dodona.query.query import PolynomialWeight, TableWeight, ValueWeight, evaluate_weight
from dodona.query.question import KeyLabel, PublicValue, Question, Total
from dodona.query.sensitivity import unit_sensitivity
from dodona.query.statement import Statement
from dodona.schema.attributes import Category, Date, Integer, Number, Timestamp
from dodona.schema.schema import Schema
from dodona.sql.calendar import Interval, age_between, format_to_char, parse_interval, periods_between, shift_day
from dodona.sql.compile import compile_sql, read_statement
from dodona.sql.functions import FUNCTIONS
from dodona.sql.scalar import Mapped, Subject
from dodona.sql.scope import InvalidSql
from dodona.sql.tables import apply_function, tabulate_rounded
from tests.sql.scene import SCHEMA

ORDERS = Schema.of(
    "orders",
    Integer("quantity", 1, 50),
    Number("price", 0, 1000, "0.01"),
    Category("region", ["North", "South"]),
    Date("ordered", dt.date(2020, 1, 1), dt.date(2026, 12, 31)),
    Date("shipped", dt.date(2020, 1, 1), dt.date(2026, 12, 31)),
    size=100_000,
)


def digest(text: str, schema: Schema = SCHEMA) -> str:
    return query_digest(compile_sql(text, schema).query)


SAME = [
    ("SELECT sum(age * stay) FROM stays", "SELECT sum(stay * age) FROM stays"),
    ("SELECT sum(age * stay) FROM stays", "SELECT sum((2 * stay) * (age / 2)) FROM stays"),
    ("SELECT sum(age + age) FROM stays", "SELECT sum(2 * age) FROM stays"),
    ("SELECT count(*) FROM stays WHERE age > stay", "SELECT count(*) FROM stays WHERE NOT stay >= age"),
    ("SELECT count(*) FROM stays WHERE age - stay > 0", "SELECT count(*) FROM stays WHERE stay < age"),
    ("SELECT count(*) FROM stays GROUP BY floor(age / 5)", "SELECT count(*) FROM stays GROUP BY bin(age, 5)"),
    ("SELECT count(*) FROM stays GROUP BY age // 5", "SELECT count(*) FROM stays GROUP BY floor(age / 5) * 5"),
    ("SELECT count(*) FROM stays GROUP BY upper(sex)", "SELECT count(*) FROM stays GROUP BY sex"),
    (
        "SELECT count(*) FROM stays GROUP BY to_char(admitted, 'YYYY-MM')",
        "SELECT count(*) FROM stays GROUP BY date_trunc('month', admitted)",
    ),
    (
        "SELECT count(*) FROM stays WHERE floor(age / 10) = 1",
        "SELECT count(*) FROM stays WHERE age BETWEEN 10 AND 19",
    ),
    (
        "SELECT count(*) FROM stays WHERE lower(sex) = 'male'",
        "SELECT count(*) FROM stays WHERE substr(sex, 1, 1) = 'm'",
    ),
    ("SELECT count(*) FROM stays WHERE age >= '12'", "SELECT count(*) FROM stays WHERE age >= 12"),
    (
        "SELECT avg(age) FROM stays WHERE datediff('day', admitted, DATE '2024-01-31') < 30",
        "SELECT avg(age) FROM stays WHERE admitted > DATE '2024-01-01'",
    ),
    ("SELECT count(*) FROM stays WHERE age = ANY(ARRAY[1, 2])", "SELECT count(*) FROM stays WHERE age IN (1, 2)"),
]


@pytest.mark.parametrize(("one", "two"), SAME, ids=[text[:70] for text, _ in SAME])
def test_the_same_meaning_is_the_same_question(one, two):
    assert digest(one) == digest(two)


def test_products_of_wide_columns_are_the_same_question_in_any_order():
    text = "SELECT sum(quantity * price * (1 - 0.1)) FROM orders WHERE shipped - ordered > 7"
    two = "SELECT sum((1 - 0.1) * price * quantity) FROM orders WHERE ordered + 7 < shipped"
    assert digest(text, ORDERS) == digest(two, ORDERS)
    assert digest(text, ORDERS) != digest(text.replace("> 7", "> 8"), ORDERS)


def test_days_between_wide_columns_are_their_difference():
    plain = "SELECT avg(shipped - ordered) FROM orders WHERE shipped - ordered > 7"
    for written in (
        "datediff('day', ordered, shipped)",
        "date_diff(shipped, ordered, DAY)",
        "datediff(shipped, ordered)",
    ):
        assert digest(plain.replace("shipped - ordered", written), ORDERS) == digest(plain, ORDERS)


@pytest.mark.share(4)
@pytest.mark.parametrize(("shift", "scale"), [("0", "1"), ("1/3", "-2/7"), ("-5000", "1/2"), ("-1/2", "1")])
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
def test_rounding_all_values_at_once_is_rounding_each(name, shift, scale):
    for column in ("quantity", "price"):
        line = Subject(ORDERS.domain[column], Fraction(shift), Fraction(scale))
        tabulated, listed = tabulate_rounded(name, line), apply_function(FUNCTIONS[name].function, (line,))
        assert isinstance(tabulated, Mapped)
        assert isinstance(listed, Mapped)
        assert tabulated.outcomes == listed.outcomes
        assert (tabulated.places == listed.places).all()


def test_each_kind_of_value_has_its_weight():
    texts = {"quantity * price": PolynomialWeight, "mod(quantity, 7)": TableWeight, "3 * quantity - 2": ValueWeight}
    for text, kind in texts.items():
        (block,) = compile_sql(f"SELECT sum({text}) FROM orders", ORDERS).query.blocks  # noqa: S608
        assert type(block.weight) is kind


def test_computed_groups_have_typed_labels():
    question = compile_sql(
        "SELECT round(stay / 2, 1) AS s, age > 3, last_day(admitted) FROM stays GROUP BY ALL", SCHEMA
    )
    labels = [column.expression.labels for column in question.columns if isinstance(column.expression, KeyLabel)]
    assert labels[0] is not None
    assert labels[0][:3] == (0, Fraction(1, 10), Fraction(3, 10))
    assert labels[2] is not None
    assert labels[2][0] == dt.date(2023, 11, 30)


def test_a_question_for_the_columns_alone_measures_nothing():
    question = compile_sql("SELECT sex, count(*), avg(age) FROM stays GROUP BY sex LIMIT 0", SCHEMA)
    assert question.limit == 0
    assert all(block.where == NOTHING for block in question.query.blocks)
    assert question.warnings == ()


def test_distinct_values_of_a_column_are_the_declared_ones():
    question = compile_sql("SELECT count(DISTINCT sex), count(DISTINCT age) FROM stays WHERE age < 5", SCHEMA)
    assert [column.expression for column in question.columns] == [PublicValue(Fraction(3)), PublicValue(Fraction(5))]
    assert "public" in question.warnings[0]
    assert isinstance(compile_sql("SELECT count(DISTINCT patient_id) FROM stays", SCHEMA).columns[0].expression, Total)


def test_the_day_of_asking_is_stated_and_part_of_the_question():
    question = compile_sql("SELECT count(*) FROM stays WHERE admitted > current_date - 1000000", SCHEMA)
    today = dt.datetime.now(dt.UTC).date()
    assert f"{today}" in question.warnings[0]
    other = f"SELECT count(*) FROM stays WHERE admitted > DATE '{today}' - 1000000"  # noqa: S608
    assert query_digest(question.query) == digest(other)


def test_an_average_of_ratios_is_answered_once_they_are_rounded():
    trips = Schema.of("trips", Number("tip", 0, 10, "0.5"), Number("fare", 0, 100, "0.5"), size=1_000)
    with pytest.raises(InvalidSql, match=r"avg\(round\(..., 4\)\), or sum"):
        compile_sql("SELECT avg(tip / fare) FROM trips WHERE fare > 0", trips)
    assert compile_sql("SELECT avg(round(tip / fare, 4)) FROM trips WHERE fare > 0", trips).query.blocks


MONEY = Schema.of("t", Number("x", 0, 5000, "0.01"), size=1_000)


@pytest.mark.parametrize(
    ("value", "clamp"),
    [
        ("least(x, 1000)", lambda code: min(code, 100_000)),
        ("greatest(least(x, 1000), 10)", lambda code: max(min(code, 100_000), 1_000)),
        ("abs(x - 2500)", lambda code: abs(code - 250_000)),
    ],
    ids=["least", "both", "abs"],
)
def test_a_column_of_many_values_is_clamped_as_a_product_is(value: str, clamp: Callable[[int], int]):
    query = compile_sql(f"SELECT sum({value}) FROM t", MONEY).query  # noqa: S608
    codes = [0, 1, 999, 1_000, 1_001, 99_999, 100_000, 100_001, 250_000, 250_001, 500_000]
    found = evaluate_weight(query.blocks[0].weight, {"x": np.array(codes)})
    assert found.tolist() == [clamp(code) for code in codes]
    assert unit_sensitivity(query, MONEY.unit).l1 == max(map(clamp, codes))


def test_functions_of_a_column_of_many_values_have_the_values_that_are_written():
    keys = compile_sql("SELECT width_bucket(x, 0, 2000, 4) AS b, count(*) FROM t GROUP BY 1", MONEY)
    assert keys.columns[0].expression.labels == (1, 2, 3, 4, 5, "<missing>", "<outside>")
    keys = compile_sql("SELECT round(x, -3) AS b, count(*) FROM t GROUP BY 1", MONEY)
    assert keys.columns[0].expression.labels[:6] == (0, 1000, 2000, 3000, 4000, 5000)
    times = Schema.of("t", Timestamp("at", dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31), "1 minute"), size=9)
    keys = compile_sql("SELECT strftime(at, '%H') AS h, count(*) FROM t GROUP BY 1", times)
    assert keys.columns[0].expression.labels[:24] == tuple(f"{hour:02}" for hour in range(24))
    keys = compile_sql("SELECT to_char(at, 'YYYY-MM') AS m, count(*) FROM t GROUP BY 1", times)
    assert keys.columns[0].expression.labels[:12] == tuple(f"2024-{month:02}" for month in range(1, 13))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT sum(floor(x)) FROM t", "listed values is not measured"),
        ("SELECT avg(a / b) FROM r", r"round\(\.\.\., 4\)"),
    ],
)
def test_what_cannot_be_added_up_is_refused_before_a_price_is_asked(text: str, words: str):
    ratios = Schema.of("r", Number("a", 0, 500, "0.5"), Integer("b", 1, 30), size=1_000)
    with pytest.raises(InvalidSql, match=words):
        compile_sql(text, MONEY if " t" in text else ratios)


def test_a_pattern_of_any_form_takes_a_moment():
    begin = time.process_time()
    long = Schema.of("t", Category("c", ["a" * 190 + "b", "x"]), size=9)
    assert compile_sql("SELECT count(*) FROM t WHERE c ~ '(a|aa)+$'", long).query.blocks
    with pytest.raises(InvalidSql, match="no regular expression"):
        compile_sql("SELECT count(*) FROM t WHERE c ~ '(x{1,1000}){1,1000}'", long)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        ("OPTIONS(epsilon = 1, privacy_unit_column = sex)", "people are told apart by patient_id"),
        ("OPTIONS(max_groups_contributed = 2)", "Up to 4 rows of each person count"),
        ("OPTIONS(epsilon = much)", "`much` is no number"),
        ("OPTIONS(noise = laplace)", "no option `noise`"),
        ("OPTIONS(epsilon)", "This is no option"),
    ],
)
def test_a_clause_that_the_dataset_contradicts_is_refused(clause, words):
    with pytest.raises(InvalidSql, match=words):
        read_statement(f"SELECT WITH DIFFERENTIAL_PRIVACY {clause} count(*) FROM stays", SCHEMA)  # noqa: S608


def test_a_clause_that_fits_the_dataset_changes_nothing():
    clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, privacy_unit_column=patient_id) "
    text = f"SELECT {clause}sex, count(*) FROM stays GROUP BY sex"  # noqa: S608
    question = read_statement(text, SCHEMA)
    assert isinstance(question, Question)
    assert question.text == text
    assert query_digest(question.query) == digest("SELECT sex, count(*) FROM stays GROUP BY sex")
    assert "ask with epsilon = 1" in question.warnings[0]


def test_a_statement_of_two_halves_may_begin_with_the_clause():
    clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, privacy_unit_column=patient_id)"
    text = f"SELECT {clause} sex, count(*) / sum(count(*)) OVER () AS share FROM stays GROUP BY sex"  # noqa: S608
    statement = read_statement(text, SCHEMA)
    assert isinstance(statement, Statement)
    assert (statement.text, [column.name for column in statement.columns]) == (text, ["sex", "share"])
    assert "ask with epsilon = 1" in statement.warnings[0]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("YYYY-MM-DD", "2024-03-05"),
        ("FMMonth DD, YYYY", "March 05, 2024"),
        ("Mon YY", "Mar 24"),
        ('"Q"Q YYYY', "Q1 2024"),
        ("IYYY-IW", "2024-10"),
        ("FMDD.FMMM.YYYY", "5.3.2024"),
        ("Dy D DDD", "Tue 3 065"),
        ("Day", "Tuesday  "),
        ("HH24:MI", "00:00"),
        ("YYYY x", None),
    ],
)
def test_to_char_writes_a_day_as_postgresql_does(pattern, text):
    assert format_to_char(dt.date(2024, 3, 5), pattern) == text


def test_intervals_move_days_as_the_calendar_does():
    assert parse_interval("1 year 2 months 3 days") == Interval(14, 3)
    assert parse_interval("1", "fortnight") is None
    assert shift_day(dt.date(2024, 1, 31), Interval(1, 0)) == dt.date(2024, 2, 29)
    assert shift_day(dt.date(2024, 3, 31), Interval(-1, 1)) == dt.date(2024, 3, 1)
    assert shift_day(dt.date(9999, 12, 31), Interval(1, 0)) is None
    assert periods_between("year", dt.date(2023, 12, 31), dt.date(2024, 1, 1)) == 1
    assert periods_between("hour", dt.date(2023, 12, 31), dt.date(2024, 1, 1)) == 24
    assert periods_between("moon", dt.date(2023, 12, 31), dt.date(2024, 1, 1)) is None
    assert age_between(dt.date(2020, 1, 1), dt.date(2024, 3, 1)) == Interval(-50, 0)


REFUSED = [
    ("SELECT sum(round(quantity * price)) FROM orders", "combinations of `price` and `quantity`"),
    ("SELECT count(*) FROM orders GROUP BY shipped - ordered", "may have 5113 values here; 256 make groups"),
    ("SELECT count(*) FROM orders GROUP BY shipped - ordered", "CASE WHEN shipped - ordered < 7"),
    ("SELECT count(*) FROM orders GROUP BY floor((shipped - ordered) / 7)", "combinations of `ordered` and `shipped`"),
    ("SELECT count(*) FROM orders GROUP BY mod(price * 100, 5000)", "different values; 4096 make groups"),
    ("SELECT count(*) FROM orders WHERE ordered + shipped > 3", "Two days are added"),
    ("SELECT count(*) FROM orders WHERE region + 1 > 3", "A text is added up"),
    ("SELECT count(*) FROM orders WHERE ordered > region", "compares a date with a text"),
    ("SELECT count(*) FROM orders WHERE lowr(region) = 'north'", "no function that is known"),
    ("SELECT count(*) FROM orders WHERE to_char(ordered, 'XX') = '1'", "format 'XX' is not known"),
    ("SELECT count(*) FROM orders WHERE width_bucket(quantity, 9, 3, 2) = 1", "width_bucket takes"),
    ("SELECT count(*) FROM orders WHERE ordered + INTERVAL '3 moons' > '2024-01-01'", "no interval"),
    ("SELECT count(*) FROM orders WHERE substr(region) = 'N'", "other arguments"),
    ("SELECT sum(power(quantity, 9)) FROM orders", "Powers from 0 to 8"),
    ("SELECT corr(quantity, 3) FROM orders", "the same in every row"),
    ("SELECT sum(price * price * price * price * price * price) FROM orders", "too many digits"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[text[21:80] for text, _ in REFUSED])
def test_what_cannot_be_answered_is_refused_with_the_reason(text, words):
    with pytest.raises(InvalidSql, match=words) as caught:
        compile_sql(text, ORDERS)
    assert str(caught.value).endswith("Nothing was charged.")


def test_an_unknown_function_names_the_nearest_one():
    with pytest.raises(InvalidSql, match="Did you mean lower"):
        compile_sql("SELECT count(*) FROM orders WHERE lowr(region) = 'north'", ORDERS)
