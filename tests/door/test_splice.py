"""From a statement to its questions, and to the statement over their answers: without a server."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.server.door.division import DivisionUnclear
from dodona.server.door.lexer import Unreadable, tokens_of
from dodona.server.door.plan import Described, Plan, PreparedInSql, StatementTooLong, read_plans
from dodona.server.door.shape import Catalog

CATALOG = Catalog(
    {"stays": frozenset({"sex", "ward", "age", "stay", "admitted", "urgent", "patient"})},
    "patient",
    frozenset({"count", "sum", "avg", "min", "max", "percentile_cont"}),
    {"budget": "spent text"},
    {"age": True, "stay": False},
)


def read(statement: str) -> Plan:
    (plan,) = read_plans(statement, CATALOG)
    return plan


def questions(statement: str) -> list[str]:
    """The questions of a statement, constants in braces."""
    return [piece.text([f"{{{constant}}}" for constant in piece.constants]) for piece in read(statement).pieces]


def outer(statement: str) -> str:
    """The statement over answers called $1, $2."""
    plan = read(statement)
    described = [
        Described(tuple(f'"i{n}"' for n in range(piece.items)), tuple("t" for _ in piece.columns))
        for piece in plan.pieces
    ]
    sources = [f"${number + 1}" for number in range(plan.sources)]
    return " ".join(plan.outer(described, sources, CATALOG.relations, {}, intervals=False).split())


@pytest.mark.parametrize(
    ("statement", "asked"),
    [
        ("SELECT count(*) FROM stays", ["SELECT count(*) FROM stays"]),
        ("SELECT sex, count(*) FROM stays WHERE age >= $1 GROUP BY sex ORDER BY 2 DESC LIMIT 3",
         ["SELECT sex, count(*) FROM stays WHERE age >= {$1} GROUP BY sex"]),
        ('SELECT "public"."stays"."sex" AS "s" FROM "public"."stays" GROUP BY 1', ['SELECT "stays"."sex" FROM "stays" GROUP BY "stays"."sex"']),
        ("SELECT count(*) /* a comment */ FROM stays -- and one more", ["SELECT count(*) FROM stays"]),
        ("SELECT count(*) FROM stays WHERE sex = ANY($1) AND ward <> ALL ($2)", ["SELECT count(*) FROM stays WHERE sex IN({$1}) AND ward NOT IN ({$2})"]),
        ("SELECT count(*) FROM stays WHERE admitted < current_date - interval '3 days' AND age > 3",
         ["SELECT count(*) FROM stays WHERE admitted < {current_date - interval '3 days'} AND age > 3"]),
        ("SELECT count(*) FROM stays WHERE age BETWEEN $1 AND $2 + 1", ["SELECT count(*) FROM stays WHERE age BETWEEN {$1} AND {$2 + 1}"]),
        ("SELECT date_trunc('month', admitted)::date AS m, avg(stay) FROM stays GROUP BY m",
         ["SELECT date_trunc('month', admitted), avg(stay) FROM stays GROUP BY date_trunc('month', admitted)"]),
        ("SELECT CAST(date_trunc('month', admitted) AS date) FROM stays GROUP BY 1",
         ["SELECT date_trunc('month', admitted) FROM stays GROUP BY date_trunc('month', admitted)"]),
        ("SELECT DISTINCT sex, ward FROM stays", ["SELECT sex, ward FROM stays GROUP BY sex, ward"]),
        ("WITH w AS (SELECT * FROM stays WHERE age > 3) SELECT sex, count(*) FROM w GROUP BY sex",
         ["SELECT sex, count(*) FROM (SELECT * FROM stays WHERE age > 3) AS w GROUP BY sex"]),
        ("SELECT avg(n) FROM (SELECT patient, count(*) AS n FROM stays GROUP BY patient) AS t",
         ["SELECT avg(n) FROM (SELECT patient, count(*) AS n FROM stays GROUP BY patient) AS t"]),
        ("SELECT sum(n) FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t", ["SELECT sex, count(*) FROM stays GROUP BY sex"]),
        ("SELECT sex, count(*) * 1.0 / (SELECT count(*) FROM stays) FROM stays GROUP BY sex",
         ["SELECT sex, count(*) FROM stays GROUP BY sex", "SELECT count(*) FROM stays"]),
        ("SELECT count(*) AS n, DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(count(*)) FROM stays", ["SELECT count(*) FROM stays"]),
        ("SELECT count(*) FROM stays WHERE sex = E'it\\'s'", ["SELECT count(*) FROM stays WHERE sex = {E'it\\'s'}"]),
        ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age) FILTER (WHERE urgent) FROM stays",
         ["SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age) FILTER (WHERE urgent) FROM stays"]),
        ("SELECT (age / 10) * 10, count(*) FROM stays GROUP BY 1", ["SELECT (age // 10) * 10, count(*) FROM stays GROUP BY (age // 10) * 10"]),
        ("SELECT sum(stay / 2), sum(age / 2.0), sum(2 * age / 3), sum((age + 1) / 2), avg(age::float / 7) FROM stays",
         ["SELECT sum(stay / 2), sum(age / 2.0), sum(2 * age // 3), sum((age + 1) // 2), avg(age::float / 7) FROM stays"]),
        ("SELECT floor(s.age / 10), count(*) FROM stays s WHERE age / 3 > 2 GROUP BY 1",
         ["SELECT floor(s.age // 10), count(*) FROM stays s WHERE age // 3 > 2 GROUP BY floor(s.age // 10)"]),
        ("SELECT count(*) / 7 FROM stays", ["SELECT count(*) FROM stays"]),
        ("SELECT CAST(date_trunc('month', CAST(admitted AS timestamp)) AS date) AS m, count(*) FROM stays GROUP BY 1",
         ["SELECT date_trunc('month', CAST(admitted AS timestamp)), count(*) FROM stays GROUP BY date_trunc('month', CAST(admitted AS timestamp))"]),
        ('SELECT "ward"."public"."stays"."sex", count(*) FROM "ward"."public"."stays" WHERE public.stays.age > 3 GROUP BY 1',
         ['SELECT "stays"."sex", count(*) FROM "stays" WHERE stays.age > 3 GROUP BY "stays"."sex"']),
        ("SELECT * FROM stays", []),
        ("SELECT count(*) OVER () FROM stays", []),
        ("SELECT 'stays', count(*) FROM pg_class", []),
        ("WITH stays AS (SELECT 1 AS sex) SELECT sex, count(*) FROM stays GROUP BY sex", []),
        ("INSERT INTO stays SELECT count(*) FROM stays", []),
        ("SELECT count(*) INTO x FROM stays", []),
        ("WITH d AS (DELETE FROM stays RETURNING 1) SELECT count(*) FROM d, stays", []),
    ],
)  # fmt: skip
def test_the_questions_of_a_statement(statement, asked) -> None:
    assert questions(statement) == asked


@pytest.mark.parametrize(
    ("statement", "asked"),
    [
        ("SELECT extract(year FROM admitted), count(*) FROM stays GROUP BY 1", "SELECT extract(year FROM admitted), count(*) FROM stays GROUP BY extract(year FROM admitted)"),
        ("SELECT year, count(*) FROM stays WHERE year - 1 > 2020 AND name = 'x' GROUP BY year", "SELECT year, count(*) FROM stays WHERE year - 1 > 2020 AND name = 'x' GROUP BY year"),
        ("SELECT sum(time), max(date) FROM stays WHERE date = current_date AND text::text = 'a'", "SELECT sum(time), max(date) FROM stays WHERE date = {current_date} AND text::text = 'a'"),
        ("SELECT count(*) FROM stays WHERE date >= date '2024-01-01' - interval '3' day", "SELECT count(*) FROM stays WHERE date >= {date '2024-01-01' - interval '3' day}"),
        ("SELECT count(*) FROM stays WHERE time < '2024-01-01'::timestamp without time zone", "SELECT count(*) FROM stays WHERE time < {'2024-01-01'::timestamp without time zone}"),
        ("SELECT count(*) FROM stays WHERE time < timestamp with time zone '2024-01-01' AND date < now() at time zone 'utc'",
         "SELECT count(*) FROM stays WHERE time < {timestamp with time zone '2024-01-01'} AND date < {now() at time zone 'utc'}"),
        ("SELECT count(*) FROM stays WHERE date > '2024-01-01'::pg_catalog.date - interval '1' year to month", "SELECT count(*) FROM stays WHERE date > {'2024-01-01'::pg_catalog.date - interval '1' year to month}"),
    ],
)  # fmt: skip
def test_words_of_types_and_units_of_time_may_name_columns(statement, asked) -> None:
    assert questions(statement) == [asked]


def test_columns_called_by_keywords_are_quoted_and_keywords_stay() -> None:
    catalog = replace(CATALOG, tables={"stays": frozenset({"order", "group", "limit"})})
    statement = (
        'SELECT "order", "group" AS "limit", count(*) AS "desc" FROM stays WHERE "limit" > 3 GROUP BY "order", "group" '
        'HAVING "order" <> 1 ORDER BY "order" DESC, "desc" LIMIT 3'
    )
    (plan,) = read_plans(statement, catalog)
    assert plan.pieces[0].text([]) == (
        'SELECT "order", "group", count(*) FROM stays WHERE "limit" > 3 GROUP BY "order", "group"'
    )
    described = [Described(('"order"', '"limit"', '"desc"'), ("t", "t", "t"))]
    over = " ".join(plan.outer(described, ["$1"], {}, {}, intervals=False).split())
    assert over == (
        'SELECT dodona_answer.k0 AS "order", dodona_answer.k1 AS "limit", dodona_answer.a0 AS "desc" FROM '
        "json_to_recordset($1) AS dodona_answer(k0 t, k1 t, a0 t, a0_low t, a0_high t) WHERE dodona_answer.k0 <> 1 "
        'ORDER BY dodona_answer.k0 DESC, "desc" LIMIT 3'
    )


@pytest.mark.parametrize(
    ("statement", "over"),
    [
        ("SELECT sex, count(*) AS n FROM stays GROUP BY sex HAVING count(*) > 9 ORDER BY n",
         'SELECT dodona_answer.k0 AS "i0", dodona_answer.a0 AS n FROM json_to_recordset($1) AS dodona_answer(k0 t, a0 t, a0_low t, '
         "a0_high t) WHERE dodona_answer.a0 > 9 ORDER BY n"),
        ("SELECT sex AS ward, count(*) FROM stays GROUP BY sex ORDER BY sex, ward",
         'SELECT dodona_answer.k0 AS ward, dodona_answer.a0 AS "i1" FROM json_to_recordset($1) AS dodona_answer(k0 t, a0 t, a0_low t, '
         "a0_high t) ORDER BY dodona_answer.k0, ward"),
        ("COPY (SELECT count(*) FROM stays) TO STDOUT",
         'COPY (SELECT dodona_answer.a0 AS "i0" FROM json_to_recordset($1) AS dodona_answer(a0 t, a0_low t, a0_high t) ) TO STDOUT'),
        ("SELECT b.spent FROM dodona.budget b", "SELECT b.spent FROM json_to_recordset($1) AS b(spent text)"),
        ("SELECT count(*)::double precision FROM stays",
         'SELECT dodona_answer.a0::double precision AS "i0" FROM json_to_recordset($1) AS dodona_answer(a0 t, a0_low t, a0_high t)'),
    ],
)  # fmt: skip
def test_the_statement_over_the_answers(statement, over) -> None:
    assert outer(statement) == over


def test_what_names_no_dataset_is_passed_on_as_it_is() -> None:
    text = "SELECT  1 ; select 'stays' -- stays\n; /* stays */ SHOW all"
    assert [plan.kind for plan in read_plans(text, CATALOG)] == ["pass"] * 3
    assert read_plans("SELECT  1", CATALOG) == []


@pytest.mark.parametrize(
    "text",
    [
        "(" * 3990 + "stays",
        "stays" + " " * 65_536,
        "SELECT count(*) FROM stays WHERE " + "(" * 1500 + "age > 3" + ")" * 1500,
        "stays," * 3000,
    ],
)
def test_a_statement_that_is_too_long_or_nested_too_deep_is_refused(text) -> None:
    with pytest.raises((StatementTooLong, Unreadable)):
        read_plans(f"{text} SELECT", CATALOG)


def test_a_probe_for_columns_is_recognised() -> None:
    assert read("SELECT sex, count(*) FROM stays GROUP BY sex LIMIT 0").probe
    assert read("SELECT * FROM (SELECT count(*) FROM stays) AS t WHERE 1 = 0").probe
    assert not read("SELECT * FROM (SELECT count(*) FROM stays LIMIT 0) AS t").probe
    assert not read("SELECT count(*) FROM stays LIMIT 1").probe


@pytest.mark.parametrize("text", ["sum(age / $1)", "sum(CASE WHEN urgent THEN 1 END / 2)", "sum(age / hashtext('a'))"])
def test_a_division_that_may_or_may_not_have_a_fraction_is_refused(text) -> None:
    with pytest.raises(DivisionUnclear, match="Nothing was charged"):
        read(f"SELECT {text} FROM stays")  # noqa: S608


def test_prepare_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(PreparedInSql, match="Nothing was charged"):
        read("PREPARE p AS SELECT count(*) FROM stays")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("$a$ ; $a$ x", ["$a$ ; $a$", "x"]),
        ("E'\\'' 'a''b' \"a\"\"b\" U&'x'", ["E'\\''", "'a''b'", '"a""b"', "U&'x'"]),
        ("/* /* */ ; */ a--b\n+c", ["a", "+", "c"]),
        ("1.5e3 .5 $1::int a<-1 b>=-2", ["1.5e3", ".5", "$1", "::", "int", "a", "<", "-", "1", "b", ">=", "-", "2"]),
    ],
)
def test_tokens_are_those_of_postgresql(text, words) -> None:
    assert [token.text for token in tokens_of(text)] == words


@given(st.text(alphabet="SELECTcount(*) FROMstays WHERE;'\"$/-[]\\,.=1 GROUPBY", max_size=120))
def test_any_text_is_read_or_called_unreadable(text) -> None:
    try:
        plans = read_plans(text, CATALOG)
    except (Unreadable, PreparedInSql, DivisionUnclear):
        return
    assert all(plan.written in text for plan in plans)
