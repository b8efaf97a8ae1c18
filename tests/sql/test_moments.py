"""Questions about times mean what they mean in DuckDB."""
# ruff: noqa: DTZ001  times are declared without a zone, and mean UTC

import datetime as dt
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dodona
from dodona import Budget
from dodona.answer.labels import group_labels, key_values
from dodona.query.canonical import query_digest
from dodona.query.query import group_numbers
from dodona.query.question import KeyLabel
from dodona.schema.attributes import Date, Integer, Timestamp, code_label
from dodona.schema.schema import Schema
from dodona.sql.compile import compile_sql
from dodona.sql.scope import InvalidSql
from tests.sql.oracle import Exact
from tests.sql.scene import ROWS
from tests.sql.test_accepted import _agree, _meant

SCHEMA = Schema.of(
    "stays",
    Timestamp("seen", dt.datetime(2024, 2, 28, 12), dt.datetime(2024, 3, 2, 11, 30), "30 minutes"),
    Timestamp("gone", dt.datetime(2024, 2, 28), dt.datetime(2024, 3, 5), "6 hours"),
    Date("day", dt.date(2024, 2, 27), dt.date(2024, 3, 3)),
    Integer("age", 0, 9),
    size=ROWS,
)
STATEMENTS = [
    "SELECT count(*) FROM stays WHERE seen >= '2024-02-29 13:30' AND seen < TIMESTAMP '2024-03-01 00:00:00'",
    "SELECT count(*) FROM stays WHERE seen = '2024-02-29T13:30:00Z' OR seen = TIMESTAMP '2024-02-29 14:00'",
    "SELECT count(*) FROM stays WHERE seen > '2024-02-29 13:31:05.5'",
    "SELECT count(*) FROM stays WHERE seen < DATE '2024-03-01' OR seen IS NULL",
    "SELECT count(*) FROM stays WHERE seen BETWEEN '2024-02-29' AND '2024-03-01'",
    "SELECT count(*) FROM stays WHERE hour(seen) IN (3, 4) AND minute(seen) = 30",
    "SELECT count(*) FROM stays WHERE extract(hour FROM seen) >= 13 AND date_part('day', seen) = 29",
    "SELECT count(*) FROM stays WHERE CAST(seen AS DATE) = day",
    "SELECT count(*) FROM stays WHERE CAST(seen AS date) = DATE '2024-02-29'",
    "SELECT count(*) FROM stays WHERE seen < gone",
    "SELECT count(*) FROM stays WHERE seen > day",
    "SELECT count(*) FROM stays WHERE seen + INTERVAL '90 minutes' > TIMESTAMP '2024-03-01 01:00:00'",
    "SELECT count(*) FROM stays WHERE seen - INTERVAL '1 month' < TIMESTAMP '2024-01-30 07:00:00'",
    "SELECT count(*) FROM stays WHERE day + INTERVAL '3 hours' > TIMESTAMP '2024-02-29 02:00:00'",
    "SELECT count(*) FROM stays WHERE date_diff('hour', seen, gone) BETWEEN 3 AND 9",
    "SELECT count(*) FROM stays WHERE date_diff('day', seen, TIMESTAMP '2024-03-02 00:00:00') = 1",
    "SELECT avg(hour(seen)), sum(minute(seen)) FROM stays WHERE age > 3",
    "SELECT avg(date_diff('minute', seen, gone)), sum(date_diff('second', seen, gone)) FROM stays",
    "SELECT avg(date_diff('hour', seen, gone)), count(*) FROM stays WHERE date_diff('day', seen, gone) > 0",
    "SELECT avg(extract(epoch FROM (gone - seen))) FROM stays WHERE extract(epoch FROM gone - seen) > 7200",
    "SELECT isodow(seen) AS d, hour(seen) AS h, count(*) FROM stays GROUP BY d, h",
    "SELECT date_trunc('week', seen) AS h, date_trunc('quarter', gone) AS q, count(*) FROM stays GROUP BY h, q",
    "SELECT date_trunc('decade', seen) AS h, extract(century FROM gone) AS q, count(*) FROM stays GROUP BY h, q",
    "SELECT date_trunc('minute', seen) AS h, count(*) FROM stays GROUP BY h",
    "SELECT floor(extract(epoch FROM seen) / 7200) * 7200 AS h, count(*) FROM stays GROUP BY h",
    "SELECT hour(seen) AS h, count(*) FROM stays GROUP BY h",
    "SELECT date_trunc('hour', seen) AS h, avg(age) FROM stays GROUP BY h",
    "SELECT date_trunc('day', seen) AS h, count(*) FROM stays GROUP BY h",
    "SELECT date_trunc('month', seen) AS h, count(*) FROM stays GROUP BY h",
    "SELECT CAST(seen AS date) AS d, count(*) FROM stays GROUP BY d",
    "SELECT strftime(seen, '%Y-%m-%d %H:%M %I %p') AS s, count(*) FROM stays GROUP BY s",
    "SELECT dayname(seen) AS d, count(*) FROM stays GROUP BY d",
    "SELECT time_bucket(INTERVAL '7 hours', seen) AS b, count(*) FROM stays GROUP BY b",
    "SELECT time_bucket(INTERVAL '6 hours', seen, TIMESTAMP '2024-01-01 01:00:00') b, count(*) FROM stays GROUP BY b",
    "SELECT time_bucket(INTERVAL '2 months', seen) AS b, avg(age) FROM stays GROUP BY b",
    "SELECT time_bucket(INTERVAL '3 days', day) AS b, count(*) FROM stays GROUP BY b",
    "SELECT time_bucket(INTERVAL '1 month', day, DATE '2024-01-29') AS b, count(*) FROM stays GROUP BY b",
    "SELECT seen, count(*) FROM stays WHERE seen < '2024-02-28 15:00' GROUP BY seen",
    "SELECT extract(epoch FROM seen) AS e, count(*) FROM stays GROUP BY e",
    "SELECT hour(day) AS h, count(*) FROM stays GROUP BY h",
    "SELECT CASE WHEN hour(seen) < 12 THEN 'morning' ELSE 'later' END AS part, count(*) FROM stays GROUP BY part",
]


@cache
def rows() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    columns = {}
    for attribute in SCHEMA.domain:
        codes = generator.integers(0, attribute.size, ROWS)
        codes[generator.random(ROWS) < 0.1] = attribute.size
        columns[attribute.name] = codes
    return columns


@cache
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    kinds = {"timestamp": pa.timestamp("us"), "date": pa.date32(), "integer": pa.int64()}
    columns = {}
    for attribute in SCHEMA.domain:
        values = [code_label(attribute, code) for code in range(attribute.size)] + [None]
        columns[attribute.name] = pa.array([values[code] for code in rows()[attribute.name]], kinds[attribute.kind])
    held = pa.table(columns)  # noqa: F841  DuckDB finds it by its name
    connection.execute("CREATE TABLE stays AS SELECT * FROM held")
    return connection


@pytest.mark.parametrize("text", STATEMENTS, ids=[text[:70] for text in STATEMENTS])
def test_a_question_about_times_means_what_it_means_in_duckdb(text):
    answered = Exact(compile_sql(text, SCHEMA), _meant(text, SCHEMA), rows()).rows()
    _agree(answered, database().execute(text).fetchall())


SPELLINGS = [
    ("seen >= to_timestamp('2024-02-29 13:30:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')", "seen >= '2024-02-29 13:30'"),
    ("day >= to_timestamp('2024-02-29 00:00:00.000', 'YYYY-MM-DD HH24:MI:SS.MS')", "day >= '2024-02-29'"),
    ("seen < to_timestamp(1709294400)", "seen < '2024-03-01 12:00'"),
    ("to_timestamp(extract(epoch FROM seen)) < '2024-03-01 12:00'", "seen < '2024-03-01 12:00'"),
    ("date_bin('30 minutes', seen, TIMESTAMP '2024-01-01') < '2024-03-01 12:00'", "seen < '2024-03-01 12:00'"),
    ("time_bucket('1800.000s', seen) < '2024-03-01 12:00'", "seen < '2024-03-01 12:00'"),
    ("date_trunc(day, MONTH) = '2024-03-01'", "date_trunc('month', day) = '2024-03-01'"),
    ("datepart(hour, seen) = 3", "hour(seen) = 3"),
]


@pytest.mark.parametrize(("written", "plain"), SPELLINGS, ids=[text[:60] for text, _ in SPELLINGS])
def test_times_as_tools_write_them_are_the_same_question(written, plain):
    first, second = (
        compile_sql(f"SELECT count(*) FROM stays WHERE {condition}", SCHEMA)  # noqa: S608
        for condition in (written, plain)
    )
    assert query_digest(first.query) == query_digest(second.query)


@pytest.mark.parametrize(
    "written", ["time_bucket('soon', seen)", "time_bucket(INTERVAL '1 month 1 day', seen)", "time_bucket('0s', seen)"]
)
def test_a_bucket_of_time_without_a_width_is_refused(written):
    with pytest.raises(InvalidSql, match="no width"):
        compile_sql(f"SELECT {written} AS b, count(*) FROM stays GROUP BY b", SCHEMA)  # noqa: S608


def test_the_groups_of_times_are_typed():
    question = compile_sql("SELECT date_trunc('hour', seen) AS h, count(*) FROM stays GROUP BY h", SCHEMA)
    shown = question.columns[0].expression
    assert isinstance(shown, KeyLabel)
    assert group_labels(question, shown)[0] == dt.datetime(2024, 2, 28, 12)
    plain = compile_sql("SELECT seen, count(*) FROM stays GROUP BY seen", SCHEMA)
    assert key_values(plain.keys[0], SCHEMA.domain, "value")[1] == dt.datetime(2024, 2, 28, 12, 30)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT median(hour(seen)) FROM stays", "A quantile is of a column alone"),
        ("SELECT sum(seen) FROM stays", "is a timestamp, and is not added up"),
        ("SELECT count(*) FROM stays WHERE seen = '2024-02-29 13:31'", "not compared with this"),
        ("SELECT count(*) FROM stays WHERE seen > 'noon'", "no day"),
        ("SELECT count(*) FROM stays WHERE seen > 3", "not compared with this"),
        ("SELECT count(*) FROM stays GROUP BY bin(seen, 3)", "no widths"),
    ],
)
def test_what_times_cannot_do_is_refused(text, words):
    with pytest.raises(InvalidSql, match=words):
        compile_sql(text, SCHEMA)


def test_what_a_refused_quantile_of_an_expression_says_to_write_is_answered():
    schema = Schema.of(
        "visits", Timestamp("seen", dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 4), "1 hour"), size=1_000
    )
    with pytest.raises(InvalidSql) as refused:
        compile_sql("SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY hour(seen)) FROM visits", schema)
    text = refused.value.instead.partition("values: ")[2].removesuffix(".")
    rows = pa.table({"seen": [dt.datetime(2024, 1, 1 + place % 3, place % 20) for place in range(3_000)]})
    with pytest.warns(UserWarning, match="in memory"):
        visits = dodona.open(rows, schema=schema, budget=Budget(1_000, "1e-6"), max_price="100%")
    with visits:
        cell = visits.ask(text, epsilon=50).rows[0].cells[0]
    assert float(cell) == 4


MINUTES = Schema.of(
    "visits", Timestamp("seen", dt.datetime(2023, 1, 1), dt.datetime(2024, 12, 31, 23, 59), "1 minute"), size=10_000
)
WIDE = [
    "date_trunc('day', seen)",
    "date_trunc('hour', seen)",
    "CAST(seen AS date)",
    "extract(hour FROM seen)",
    "extract(isodow FROM seen)",
    "time_bucket(INTERVAL '5 minutes', seen)",
    "floor(extract(epoch FROM seen) / 900) * 900",
    "CASE WHEN extract(hour FROM seen) BETWEEN 6 AND 11 THEN 'morning' ELSE 'later' END",
    "datediff('day', seen, DATE '2024-03-01')",
    "datediff('hour', TIMESTAMP '2024-03-01 12:30:00', seen) // 1000",
    "datediff('week', seen, DATE '2024-03-01')",
    "datediff('month', seen, TIMESTAMP '2024-03-01 00:00:00')",
    "datediff('year', DATE '2020-02-29', seen)",
]


@pytest.mark.parametrize("key", WIDE)
def test_minutes_of_years_are_grouped_by_their_parts(key):
    generator = np.random.default_rng(8)
    seen = [
        dt.datetime(2023, 1, 1) + dt.timedelta(minutes=int(minutes))
        for minutes in generator.integers(0, 1_052_640, 500)
    ]
    held = pa.table({"seen": seen})
    text = f"SELECT {key} AS k, count(*) FROM visits GROUP BY k"  # noqa: S608
    question = compile_sql(text, MINUTES)
    codes = np.array([(moment - dt.datetime(2023, 1, 1)) // dt.timedelta(minutes=1) for moment in seen])
    labels = group_labels(question, question.columns[0].expression)
    counted: dict[object, int] = {}
    for group in group_numbers(question.keys, {"seen": codes}):
        counted[labels[group]] = counted.get(labels[group], 0) + 1
    connection = duckdb.connect(config={"threads": 1})
    connection.register("visits", held)
    assert counted == dict(connection.execute(text).fetchall())


def test_what_has_too_many_values_of_a_column_of_times_says_what_to_group_by():
    with pytest.raises(InvalidSql, match="Group by seen, or write it of a longer period"):
        compile_sql("SELECT date_trunc('minute', seen) AS k, count(*) FROM visits GROUP BY k", MINUTES)


def test_the_order_of_two_keys_of_wide_columns_is_the_same_question():
    first, two = (
        compile_sql(f"SELECT count(*) FROM visits GROUP BY {keys}", MINUTES)  # noqa: S608
        for keys in ("hour(seen), minute(seen) // 15", "minute(seen) // 15, hour(seen)")
    )
    assert query_digest(first.query) == query_digest(two.query)
