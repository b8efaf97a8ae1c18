"""Joins of declared tables and sub-selects by person: what they mean, and what is refused with a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations_with_replacement

import duckdb
import numpy as np
import pandas as pd
import pytest

import dodona
from dodona import Budget
from dodona.curator.request import resolve_tolerance
from dodona.engines.duckdb import DuckDBSource
from dodona.errors import InvalidRequest
from dodona.query.canonical import query_digest
from dodona.query.question import Question
from dodona.query.sensitivity import unit_sensitivity
from dodona.query.statement import Statement
from dodona.schema.attributes import Boolean, Category, Integer, Number
from dodona.schema.schema import Domain, LinkedTable, PublicTable, Schema
from dodona.sql.compile import read_statement
from dodona.sql.scope import InvalidSql
from dodona.trusted.gate import unseal

WARDS = PublicTable.of(
    "wards",
    "ward",
    [{"ward": "a", "floor": 1, "wing": "north"}, {"ward": "b", "floor": 2, "wing": "north"}, {"ward": "z", "floor": 3}],
)
PATIENTS = LinkedTable("patients", Domain((Category("sex", ["f", "m"], otherwise="f"), Integer("age", 0, 90))), "pid")
TESTS = LinkedTable("tests", Domain((Boolean("positive", otherwise=False),)), "pid", 2)
SCHEMA = Schema.of(
    "visits",
    Category("ward", ["a", "b", "c"]),
    Number("cost", 0, 100, 1),
    Boolean("urgent", otherwise=False),
    size=600,
    id="pid",
    rows=4,
    linked=[PATIENTS, TESTS],
    public=[WARDS],
)


def frames() -> dict[str, pd.DataFrame]:
    """Tables within their caps, so that SQL over all rows says what counts: up to four visits and two tests."""
    generator = np.random.default_rng(8)
    visits = [(person, turn) for person in range(150) for turn in range(generator.integers(0, 5))]
    tests = [(person, turn) for person in range(200) for turn in range(generator.integers(0, 3))]
    return {
        "visits": pd.DataFrame(
            {
                "pid": [person for person, _ in visits],
                "ward": generator.choice(["a", "b", "c"], len(visits)),
                "cost": generator.integers(0, 101, len(visits)),
                "urgent": generator.random(len(visits)) < 0.3,
            }
        ),
        "patients": pd.DataFrame(
            {"pid": range(40, 190), "sex": generator.choice(["f", "m"], 150), "age": generator.integers(0, 91, 150)}
        ),
        "tests": pd.DataFrame({"pid": [who for who, _ in tests], "positive": generator.random(len(tests)) < 0.2}),
    }


@pytest.fixture(scope="module")
def source() -> DuckDBSource:
    return DuckDBSource.frame(SCHEMA, frames(), key=bytes(32))


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """The exact tables in DuckDB, as an oracle."""
    with duckdb.connect() as connection:
        for name, frame in frames().items():
            connection.register(name, frame)
        rows = [(key, WARDS.columns["floor"].get(key), WARDS.columns["wing"].get(key)) for key in sorted(WARDS.keys)]  # type: ignore[type-var]
        connection.register("wards", pd.DataFrame(rows, columns=["ward", "floor", "wing"]))
        yield connection


JOINS = [
    "SELECT count(*) FROM visits",
    "SELECT count(*) FROM patients WHERE age >= 30",
    "SELECT count(*) FROM tests WHERE positive",
    "SELECT count(*), sum(cost) FROM visits JOIN patients USING (pid)",
    "SELECT count(*), sum(v.cost) FROM visits v JOIN patients p ON v.pid = p.pid WHERE p.sex = 'm' AND urgent",
    "SELECT count(*), sum(age) FROM patients JOIN visits ON patients.pid = visits.pid",
    "SELECT count(*) FROM tests t LEFT JOIN patients p ON t.pid = p.pid WHERE p.age > 50 AND t.positive",
    "SELECT count(*) FROM visits LEFT JOIN patients USING (pid) WHERE age IS NULL",
    "SELECT count(*) FROM visits JOIN wards USING (ward)",
    "SELECT sum(cost) FROM visits JOIN wards ON visits.ward = wards.ward WHERE floor = 2",
    "SELECT count(*) FROM visits v LEFT JOIN wards w ON w.ward = v.ward WHERE w.floor IS NULL",
    "SELECT count(*), count(w.ward) FROM visits v LEFT JOIN wards w ON w.ward = v.ward WHERE w.ward IS NULL OR urgent",
    "SELECT count(wards.ward), sum(cost) FROM visits LEFT JOIN wards USING (ward) WHERE wards.ward IS NULL OR urgent",
    "SELECT sum(cost) FROM visits v LEFT JOIN wards w ON w.ward = v.ward WHERE coalesce(w.ward, 'none') <> 'b'",
    "SELECT count(*) FROM visits JOIN patients USING (pid) JOIN wards USING (ward) WHERE wing = 'north' AND sex = 'f'",
    "SELECT count(*), sum(v.cost) FROM visits v, patients p WHERE v.pid = p.pid AND p.sex = 'm' AND urgent",
    "SELECT sum(cost) FROM visits v, wards w, patients p WHERE p.pid = v.pid AND v.ward = w.ward AND floor = 2",
    "SELECT count(*) FROM visits v CROSS JOIN wards w WHERE v.ward = w.ward",
    "SELECT sum(cost) FROM visits v JOIN patients p ON v.pid = p.pid AND p.age > 30 WHERE urgent",
    "SELECT count(*) FROM visits v JOIN wards w ON v.ward = w.ward AND w.floor = 1 AND v.cost > 50",
    "SELECT count(*) FROM wards w JOIN visits v ON w.ward = v.ward WHERE w.wing = 'north'",
    "SELECT count(*) FROM wards w, visits v WHERE w.ward = v.ward AND w.floor = 2",
    "SELECT count(*) FROM (SELECT cost, age FROM visits JOIN patients USING (pid) WHERE urgent) x WHERE cost > age",
    "SELECT count(*) FROM (SELECT pid FROM visits GROUP BY pid)",
    "SELECT sum(n) FROM (SELECT pid, count(*) AS n FROM visits WHERE urgent GROUP BY pid)",
    "SELECT sum(m) FROM (SELECT pid, max(CASE WHEN urgent THEN cost ELSE 0 END) AS m FROM visits GROUP BY pid)",
    "SELECT sum(m), count(m) FROM (SELECT pid, min(cost - 2 * age) m FROM visits JOIN patients USING (pid) GROUP BY 1)",
    (
        "SELECT sum(a + b) FROM (SELECT pid, max(CASE WHEN ward = 'a' THEN 1 ELSE 0 END) AS a, min(cost % 7) AS b "
        "FROM visits GROUP BY pid)"
    ),
    "SELECT count(*) FROM (SELECT pid, sum(cost) AS s FROM visits GROUP BY pid HAVING count(*) >= 2) t WHERE s > 100",
    "SELECT sum(least(s, 150)) FROM (SELECT pid, least(sum(cost), 150) AS s FROM visits GROUP BY pid)",
    "SELECT count(*) FROM (SELECT pid, count(*) FILTER (WHERE urgent) AS u FROM visits GROUP BY pid) WHERE u = 0",
    "SELECT count(*) FROM (SELECT pid, bool_or(urgent) AS ever FROM visits GROUP BY pid) WHERE ever",
    "SELECT count(*) FROM (SELECT pid, max(cost) top, min(cost) low FROM visits GROUP BY pid) WHERE top > low + 9",
    "SELECT count(*) FROM (SELECT pid, any_value(sex) s FROM visits JOIN patients USING(pid) GROUP BY 1) WHERE s = 'm'",
    (
        "SELECT count(*), sum(n), sum(a) FROM (SELECT p.pid, sex, max(age) AS a, count(v.cost) AS n FROM patients p "
        "LEFT JOIN visits v ON v.pid = p.pid GROUP BY p.pid, sex) WHERE sex = 'f'"
    ),
    "SELECT sum(n) FROM (SELECT sex, pid, count(*) n FROM visits JOIN patients USING(pid) GROUP BY 1, 2) WHERE sex='m'",
    "SELECT count(*) FROM (SELECT pid, age//9 k FROM visits JOIN patients USING(pid) GROUP BY 1, 2 HAVING k > 4)",
    "WITH p AS (SELECT pid, count(*) AS n FROM tests GROUP BY pid) SELECT count(*) FILTER (WHERE n = 2), sum(n) FROM p",
    "SELECT count(*) FROM (visits v JOIN patients p ON ((v.pid = p.pid))) WHERE (p.sex = 'm')",
    "SELECT count(*), sum(cost) FROM visits v JOIN patients p ON ((v.pid = p.pid) AND (p.age > 30)) WHERE (urgent)",
    "WITH p AS (SELECT * FROM patients WHERE age > 30) SELECT count(*), sum(cost) FROM visits JOIN p USING (pid)",
    (
        "WITH v AS (SELECT pid AS who, cost * 2 AS c FROM visits), p AS (SELECT pid, age / 2 AS half FROM patients) "
        "SELECT count(*), sum(v.c) FROM v JOIN p ON v.who = p.pid WHERE p.half > 20 AND c < 150"
    ),
    "SELECT count(*) FROM visits v LEFT JOIN (SELECT pid, age AS a FROM patients) p ON v.pid = p.pid WHERE a > 40",
    (
        "SELECT sum(cost) FROM (SELECT * FROM visits WHERE urgent) v JOIN wards w ON (w.ward = v.ward) JOIN patients p "
        "ON (p.pid = v.pid) WHERE floor = 1"
    ),
    "SELECT count(*) FROM visits v, (SELECT pid, age FROM patients WHERE sex = 'f') p WHERE v.pid = p.pid AND age > 9",
    "SELECT count(*), sum(age) FROM patients WHERE pid IN (SELECT pid FROM visits WHERE urgent)",
    "SELECT count(*) FROM patients p WHERE age > 9 AND EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid AND urgent)",
    "SELECT count(*) FROM patients p WHERE EXISTS (SELECT * FROM visits v WHERE v.pid = p.pid AND v.cost > p.age)",
    "SELECT count(*), sum(age) FROM patients WHERE pid NOT IN (SELECT pid FROM visits WHERE urgent)",
    "SELECT count(*) FROM patients p WHERE sex = 'f' AND NOT EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid)",
    "SELECT count(*) FROM patients p WHERE NOT EXISTS (SELECT 1 FROM tests t WHERE p.pid = t.pid AND t.positive)",
    (
        "SELECT count(*), sum(age) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid AND urgent)"
        " AND NOT EXISTS (SELECT 1 FROM visits w WHERE w.pid = p.pid AND w.cost > p.age)"
    ),
    (
        "SELECT count(*) FROM patients WHERE pid IN (SELECT pid FROM visits WHERE urgent) "
        "AND pid IN (SELECT pid FROM visits WHERE NOT urgent)"
    ),
    "SELECT count(*) FROM patients p LEFT JOIN (SELECT pid FROM tests GROUP BY 1) t USING (pid) WHERE t.pid IS NULL",
    "SELECT count(*), sum(age) FROM patients p LEFT JOIN visits v ON v.pid = p.pid WHERE v.pid IS NULL AND sex = 'f'",
    "SELECT count(*) FROM patients LEFT JOIN visits USING (pid) WHERE visits.pid IS NULL",
    "SELECT count(*) FROM patients p LEFT JOIN visits v ON p.pid = v.pid AND v.cost > p.age WHERE (v.pid IS NULL)",
    "SELECT count(*), sum(age) FROM patients WHERE pid IN (SELECT pid FROM visits GROUP BY pid HAVING sum(cost) > 99)",
    "SELECT count(*) FROM patients WHERE pid IN (SELECT pid FROM visits WHERE urgent GROUP BY 1 HAVING count(*) > 1)",
    (
        "SELECT sum(age) FROM patients WHERE pid NOT IN "
        "(SELECT pid FROM visits WHERE urgent GROUP BY 1 HAVING min(cost) > 9)"
    ),
    (
        "SELECT count(*) FROM patients WHERE pid NOT IN (SELECT pid FROM visits GROUP BY pid HAVING "
        "min(CASE WHEN urgent THEN cost END) > 9)"
    ),
    (
        "SELECT count(*) FROM patients WHERE sex = 'f' AND pid IN (SELECT pid FROM visits GROUP BY pid HAVING count(*) "
        "> 1) AND pid NOT IN (SELECT v.pid FROM visits v WHERE v.cost > 9 GROUP BY v.pid HAVING max(v.cost) > 70)"
    ),
    (
        "SELECT count(*) FROM patients p WHERE NOT EXISTS (SELECT v.pid FROM visits v WHERE v.pid = p.pid AND urgent "
        "GROUP BY v.pid HAVING sum(cost) > 60)"
    ),
    (
        "WITH x AS (SELECT pid AS who, sum(cost) AS s FROM visits GROUP BY pid HAVING sum(cost) > 99) "
        "SELECT count(*) FROM patients WHERE pid IN (SELECT who FROM x)"
    ),
    "SELECT count(*) FROM patients WHERE pid NOT IN (SELECT pid FROM (SELECT ward, pid FROM visits WHERE urgent) x)",
    "SELECT count(*), count(n), sum(n) FROM patients LEFT JOIN (SELECT pid, 1 n FROM visits GROUP BY 1) USING (pid)",
    (
        "SELECT count(*), sum(coalesce(s, 7)), sum(age) FROM patients p LEFT JOIN (SELECT pid, sum(cost) s, max(cost) m"
        " FROM visits WHERE urgent GROUP BY pid HAVING count(*) > 1) v ON v.pid = p.pid WHERE m > 50 OR m IS NULL"
    ),
    (
        "SELECT count(*) FROM patients LEFT JOIN (SELECT pid, bool_and(urgent) u FROM visits GROUP BY 1) v USING (pid) "
        "WHERE sex = 'm' AND (u OR u IS NULL)"
    ),
    "SELECT sum(n), sum(age) FROM patients JOIN (SELECT pid, count(*) AS n FROM visits GROUP BY pid) x USING (pid)",
    (
        "WITH x AS (SELECT pid, sum(cost) AS s FROM visits WHERE urgent GROUP BY 1 HAVING count(*) > 1) "
        "SELECT count(*), sum(x.s) FROM x JOIN patients p ON (x.pid = p.pid) WHERE p.sex = 'f' AND x.s > 50"
    ),
    "SELECT count(*), sum(cost) FROM visits WHERE urgent AND pid IN (SELECT pid FROM patients WHERE age > 30)",
    "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM patients p WHERE p.pid = v.pid AND p.age > v.cost)",
    "SELECT count(*), sum(cost) FROM visits WHERE ward IN (SELECT ward FROM wards WHERE floor > 1) AND cost > 9",
    "SELECT count(*) FROM visits WHERE ward NOT IN (SELECT w.ward FROM wards w WHERE w.wing = 'north' AND floor > 1)",
    "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM wards w WHERE w.ward = v.ward AND w.floor < v.cost)",
    "SELECT count(*) FROM visits v WHERE NOT EXISTS (SELECT * FROM wards WHERE v.ward = wards.ward)",
    "SELECT count(*) FROM (SELECT cost FROM visits WHERE ward IN (SELECT ward FROM wards)) AS x WHERE cost > 50",
    "SELECT count(*) FILTER (WHERE ward IN (SELECT ward FROM wards WHERE floor = 1)), count(*) FROM visits",
    (
        "SELECT sum(n), count(*) FROM (SELECT p.pid, count(v.pid) AS n FROM patients p LEFT JOIN visits v "
        "ON p.pid = v.pid AND v.ward <> 'a' AND v.urgent GROUP BY p.pid) AS x WHERE n < 2"
    ),
    (
        "SELECT sum(n), sum(m) FROM (SELECT p.pid, any_value(p.age) AS a, count(v.pid) FILTER (WHERE v.urgent) AS n, "
        "max(v.cost) AS m FROM patients p LEFT JOIN visits v ON v.cost > 20 AND p.pid = v.pid GROUP BY 1) x WHERE a > 9"
    ),
]


@pytest.mark.parametrize("sql", JOINS)
def test_a_join_has_the_rows_that_sql_gives_it(
    sql: str, source: DuckDBSource, plain: duckdb.DuckDBPyConnection
) -> None:
    asked = read_statement(sql, SCHEMA)
    assert isinstance(asked, Question), "a plain question, without an outer half"
    exact = [
        int(value) * block.unit
        for value, block in zip(unseal(source.exact(asked.query)), asked.query.blocks, strict=True)
    ]
    expected = plain.execute(sql).fetchone()
    assert exact == [value or 0 for value in expected or ()]


GROUPED = [
    "SELECT sex, count(*) FROM visits JOIN patients USING (pid) GROUP BY sex",
    "SELECT floor, count(*) FROM visits JOIN wards USING (ward) GROUP BY floor",
    "SELECT w.wing, count(*) FROM visits v LEFT JOIN wards w ON v.ward = w.ward GROUP BY w.wing",
    "SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM visits GROUP BY pid) GROUP BY n",
    "SELECT sex, count(*) FROM (SELECT t.pid, sex FROM tests t, patients p WHERE t.pid=p.pid GROUP BY 1, 2) GROUP BY 1",
    "SELECT a, sum(1) FROM (SELECT pid, max(age) a FROM visits JOIN patients USING (pid) GROUP BY pid) GROUP BY a",
    "SELECT sex, count(*) FROM patients WHERE pid IN (SELECT pid FROM tests WHERE positive) GROUP BY sex",
    "SELECT p.sex, count(*) FROM patients p JOIN (SELECT pid FROM visits GROUP BY 1) v ON v.pid = p.pid GROUP BY p.sex",
    "SELECT n, count(*) FROM patients JOIN (SELECT pid, count(*) n FROM tests GROUP BY pid) t USING (pid) GROUP BY n",
    "SELECT k, count(*) FROM (SELECT ward IN (SELECT ward FROM wards WHERE floor = 2) AS k FROM visits) x GROUP BY k",
    (
        "SELECT n, count(*) FROM (SELECT p.pid, count(t.pid) AS n FROM patients p LEFT JOIN tests t ON p.pid = t.pid "
        "GROUP BY p.pid) AS x GROUP BY n"
    ),
]


@pytest.mark.parametrize("sql", GROUPED)
def test_groups_of_a_join_are_those_of_sql(sql: str, source: DuckDBSource, plain: duckdb.DuckDBPyConnection) -> None:
    asked = read_statement(sql, SCHEMA)
    assert isinstance(asked, Question)
    counts = Counter(int(value) for value in unseal(source.exact(asked.query)) if value)
    assert counts == Counter(int(value) for _, value in plain.execute(sql).fetchall() if value)
    assert asked.columns[0].name == sql.split(maxsplit=2)[1].rpartition(".")[2].rstrip(",")


@pytest.mark.parametrize(
    ("sql", "l1"),
    [
        ("SELECT count(*) FROM visits", 4),
        ("SELECT count(*) FROM tests", 2),
        ("SELECT count(*) FROM patients", 1),
        ("SELECT count(*) FROM tests JOIN patients USING (pid)", 2),
        ("SELECT count(*) FROM visits JOIN wards USING (ward)", 4),
        ("SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM visits GROUP BY pid) GROUP BY n", 1),
        ("SELECT sum(s) FROM (SELECT pid, least(sum(cost), 30) AS s FROM visits GROUP BY pid)", 30),
        ("SELECT count(*) FROM patients WHERE pid IN (SELECT pid FROM visits WHERE urgent)", 1),
        ("SELECT count(*) FROM visits WHERE pid IN (SELECT pid FROM patients WHERE age > 9)", 4),
        ("SELECT sum(n) FROM patients JOIN (SELECT pid, count(*) n FROM visits GROUP BY pid) v USING (pid)", 4),
    ],
)
def test_a_question_costs_what_a_person_can_move(sql: str, l1: int) -> None:
    asked = read_statement(sql, SCHEMA)
    assert isinstance(asked, Question)
    assert unit_sensitivity(asked.query, SCHEMA.unit).l1 == l1


MERGED = [
    "SELECT count(*), sum(age) FROM patients WHERE pid IN (SELECT pid FROM visits WHERE urgent)",
    "SELECT sex, count(*) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid) GROUP BY sex",
    "SELECT sum(n), sum(age) FROM patients JOIN (SELECT pid, count(*) AS n FROM visits GROUP BY pid) x USING (pid)",
    "SELECT sex, sum(s) FROM patients JOIN (SELECT pid, sum(cost) s FROM visits GROUP BY pid) x USING (pid) GROUP BY 1",
    "SELECT count(*), sum(cost) FROM visits WHERE pid IN (SELECT pid FROM patients WHERE age > 30)",
    "SELECT sex, count(*), sum(age) FROM patients WHERE pid NOT IN (SELECT pid FROM visits WHERE urgent) GROUP BY sex",
    (
        "SELECT sex, sum(n), count(n) FROM patients LEFT JOIN (SELECT pid, count(*) n FROM visits GROUP BY 1) v "
        "USING (pid) GROUP BY 1"
    ),
    "WITH p AS (SELECT pid, sex FROM patients) SELECT sex, sum(cost) FROM visits JOIN p USING (pid) GROUP BY sex",
    (
        "SELECT sum(n), count(*) FROM (SELECT p.pid, count(v.pid) AS n FROM patients p LEFT JOIN visits v "
        "ON p.pid = v.pid AND v.cost > 50 GROUP BY p.pid) AS x"
    ),
]


@pytest.mark.parametrize("sql", MERGED)
def test_no_person_moves_what_a_merged_statement_asks_farther_than_priced(sql: str) -> None:
    """Brute force in SQL: everybody with up to four visits and a row of patients, alone in the tables."""
    asked = read_statement(sql, SCHEMA)
    assert isinstance(asked, Question)
    priced = unit_sensitivity(asked.query, SCHEMA.unit)
    visits = [("a", 0, False), ("b", 100, False), ("a", 100, True)]
    with duckdb.connect(config={"threads": 1}) as tables:
        tables.execute("CREATE TABLE visits (pid INT, ward TEXT, cost INT, urgent BOOL)")
        tables.execute("CREATE TABLE patients (pid INT, sex TEXT, age INT)")
        for rows in chain.from_iterable(combinations_with_replacement(visits, number) for number in range(1, 5)):
            tables.execute("DELETE FROM visits; DELETE FROM patients")
            tables.executemany("INSERT INTO visits VALUES (1, ?, ?, ?)", rows)
            for patient in [("f", 90), ("m", 0)]:
                tables.execute("DELETE FROM patients; INSERT INTO patients VALUES (1, ?, ?)", patient)
                answers = tables.execute(sql).fetchall()
                moved = sum(abs(value or 0) for row in answers for value in row if not isinstance(value, str))
                assert moved <= priced.l1 * max(float(block.unit) for block in asked.query.blocks)


def test_questions_with_the_same_meaning_are_one() -> None:
    same = [
        "SELECT count(*) FROM visits JOIN patients USING (pid) WHERE sex = 'f'",
        "SELECT count(*) AS n FROM patients p JOIN visits v ON v.pid = p.pid WHERE p.sex = 'f'",
        "SELECT count(*) FROM (SELECT sex FROM visits JOIN patients USING (pid)) x WHERE x.sex = 'f'",
        "SELECT count(*) FROM visits v, patients p WHERE p.sex = 'f' AND v.pid = p.pid",
        "SELECT count(*) FROM visits v JOIN patients p ON v.pid = p.pid AND sex = 'f'",
        "SELECT count(*) FROM visits JOIN (SELECT pid, sex AS s FROM patients) p USING (pid) WHERE s = 'f'",
        "SELECT count(*) FROM visits WHERE pid IN (SELECT pid FROM patients WHERE sex = 'f')",
    ]
    digests = {query_digest(read_statement(sql, SCHEMA).query) for sql in same}  # type: ignore[union-attr]
    assert len(digests) == 1
    by_ward = [
        "SELECT count(*) FROM visits JOIN wards USING (ward) WHERE wing = 'north'",
        "SELECT count(*) FROM visits WHERE ward IN (SELECT ward FROM wards WHERE wing = 'north')",
        "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM wards w WHERE w.ward = v.ward AND wing = 'north')",
        "SELECT count(*) FROM visits WHERE ward IN ('a', 'b')",
    ]
    assert len({query_digest(read_statement(sql, SCHEMA).query) for sql in by_ward}) == 1  # type: ignore[union-attr]
    people = [
        "SELECT count(*) FROM (SELECT pid, count(*) AS n FROM visits GROUP BY pid) WHERE n > 1",
        "SELECT count(*) FROM (SELECT pid AS who, count(*) AS visits FROM visits GROUP BY 1) WHERE visits >= 2",
        "WITH x AS (SELECT pid FROM visits GROUP BY pid HAVING count(*) > 1) SELECT count(*) FROM x",
    ]
    assert len({query_digest(read_statement(sql, SCHEMA).query) for sql in people}) == 1  # type: ignore[union-attr]
    everyone = ["SELECT count(*) FROM (SELECT pid FROM visits GROUP BY pid)", "SELECT count(DISTINCT pid) FROM visits"]
    assert len({query_digest(read_statement(sql, SCHEMA).query) for sql in everyone}) == 1  # type: ignore[union-attr]


def test_a_statement_may_ask_several_tables(source: DuckDBSource, plain: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT (SELECT count(*) FROM visits) v, (SELECT count(*) FROM patients) p, (SELECT count(*) FROM tests) t"
    asked = read_statement(sql, SCHEMA)
    assert isinstance(asked, Statement)
    totals = sorted(int(unseal(source.exact(part.query))[0]) for part in asked.parts)
    assert totals == sorted(plain.execute(sql).fetchone() or ())


REFUSED = {
    "SELECT count(*) FROM visits a JOIN visits b USING (pid)": "Group by pid in a sub-select",
    "SELECT count(*) FROM visits JOIN tests USING (pid)": "a join would multiply them",
    "SELECT count(*) FROM visits JOIN patients ON visits.cost = patients.age": "joined by the person",
    "SELECT count(*) FROM visits JOIN patients ON visits.pid < patients.pid": "joined by the person",
    "SELECT count(*) FROM visits CROSS JOIN patients": "joined by the person",
    "SELECT count(*) FROM visits v, patients p WHERE p.pid = p.pid AND urgent": "joined by the person",
    "SELECT avg(d) FROM (SELECT pid, count(DISTINCT ward) d FROM visits GROUP BY pid)": "Different values in one",
    "SELECT count(*) FROM visits v JOIN patients p ON p.pid = p.pid": "joined by the person",
    "SELECT count(*) FROM visits v, patients p WHERE v.pid = p.pid OR urgent": "joined by the person",
    "SELECT count(*) FROM visits v LEFT JOIN patients p ON v.pid = p.pid AND p.age > 30": "does not meet this",
    "SELECT floor FROM visits v LEFT JOIN wards w ON v.ward = w.ward AND w.floor > 1 GROUP BY 1": "does not meet this",
    "SELECT count(*) FROM visits v SEMI JOIN patients p ON v.pid = p.pid": "written in another way",
    "SELECT count(*) FROM visits ANTI JOIN wards USING (ward)": "written in another way",
    "SELECT count(*) FROM visits v, wards w WHERE urgent": "looked up by its key",
    "SELECT count(*) FROM patients LEFT JOIN visits USING (pid)": "would add rows",
    "SELECT count(*) FROM visits FULL JOIN patients USING (pid)": "would add rows",
    "SELECT count(*) FROM visits JOIN wards ON visits.cost = wards.floor": "looked up by its key",
    "SELECT count(*) FROM visits RIGHT JOIN wards USING (ward)": "JOIN or LEFT JOIN",
    "SELECT avg(n) FROM (SELECT p.pid, sum(cost) n FROM patients p LEFT JOIN visits v ON v.urgent GROUP BY 1)": "ids",
    "SELECT count(*) FROM visits WHERE ward IN (SELECT wing FROM wards)": "looked up by its key",
    "SELECT count(*) FROM visits WHERE EXISTS (SELECT 1 FROM wards WHERE floor = 1)": "looked up by its key",
    "SELECT count(*) FROM visits v LEFT JOIN patients p ON v.pid = p.pid AND v.cost > 5": "does not meet this",
    (
        "SELECT avg(n) FROM (SELECT p.pid, count(v.pid) n FROM patients p LEFT JOIN visits v ON v.pid = p.pid "
        "AND age > 9 GROUP BY 1)"
    ): "does not meet this",
    "SELECT count(*) FROM visits WHERE age > 3": "`age` is a column of `patients`. Write JOIN patients USING (pid)",
    "SELECT count(*) FROM tests WHERE cost > 3": "no column `cost`",
    "SELECT row_of, count(*) FROM visits GROUP BY row_of": "no column `row_of`",
    "SELECT count(*) FROM patients WHERE row_of = 'visits'": "no column `row_of`",
    "SELECT avg(a) FROM (SELECT pid, avg(cost) AS a FROM visits GROUP BY pid)": "average of one person's rows",
    "SELECT avg(n) FROM (SELECT pid, ward, count(*) AS n FROM visits GROUP BY pid, ward)": "several of these groups",
    "SELECT avg(cost) FROM (SELECT pid, cost FROM visits GROUP BY pid)": "may differ between the rows",
    "SELECT max(w) FROM (SELECT pid, max(ward) AS w FROM visits GROUP BY pid)": "no order",
    "SELECT pid FROM (SELECT pid, count(*) AS n FROM visits GROUP BY pid)": "not what the statement groups by",
    "SELECT count(*) FROM visits JOIN (SELECT pid FROM tests) t USING (pid)": "a join would multiply them",
    "SELECT count(*) FROM (SELECT pid FROM visits) a JOIN (SELECT pid FROM visits) b USING (pid)": "with itself",
    "SELECT count(*) FROM (SELECT cost FROM visits) v JOIN patients p USING (pid)": "not selected on both sides",
    "SELECT count(*) FROM (SELECT cost AS pid FROM visits) v JOIN patients p ON v.pid = p.pid": "joined by the person",
    "SELECT count(*) FROM visits v LEFT JOIN (SELECT pid FROM patients WHERE age > 9) p ON v.pid = p.pid": "keeps rows",
    "SELECT count(*) FROM visits WHERE pid IN (SELECT pid FROM visits WHERE urgent)": "chooses people by their rows",
    "SELECT count(*) FROM visits WHERE pid IN (SELECT pid FROM tests)": "chooses people by their rows",
    "SELECT avg(n) FROM (SELECT p.pid, count(*) n FROM patients p LEFT JOIN visits USING (pid) GROUP BY 1)": "add rows",
    "SELECT count(*) FROM visits WHERE pid NOT IN (SELECT pid FROM tests)": "chooses people by their rows",
}


@pytest.mark.parametrize(("sql", "words"), REFUSED.items(), ids=REFUSED)
def test_what_could_multiply_rows_or_tell_people_apart_is_refused(sql: str, words: str) -> None:
    with pytest.raises(InvalidSql) as caught:
        read_statement(sql, SCHEMA)
    assert words in str(caught.value)
    assert "Nothing was charged" in str(caught.value)


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
@pytest.mark.parametrize(
    ("sql", "within"),
    [
        ("SELECT count(*) FROM visits", 6.0),
        ("SELECT count(*) FROM visits JOIN patients USING (pid)", 6.0),
        ("SELECT count(*) FROM patients", 1.5),
        ("SELECT sum(age) FROM patients", 135.0),
        ("SELECT count(*) FROM (SELECT pid, count(*) AS n FROM patients GROUP BY pid) WHERE n = 1", 1.5),
    ],
)
def test_a_percentage_is_of_the_declared_size_of_the_table_that_is_asked(sql: str, within: float) -> None:
    linked = [replace(PATIENTS, size=150), TESTS]
    schema = Schema.of("visits", *SCHEMA.own.domain, size=600, id="pid", rows=4, linked=linked)
    asked = read_statement(sql, schema)
    question = asked.parts[0] if isinstance(asked, Statement) else asked
    assert resolve_tolerance(question, question.columns[0], "1%", size=600) == within
    curator = dodona.open(frames(), schema=schema, budget=Budget(100, "1e-6"), max_price="100%")
    both = curator.ask_many([sql, "SELECT count(*) FROM visits"], within="1%")  # what a batch shares is not the size
    assert both[0].rows[0].cells[0].high - both[0].rows[0].cells[0].value <= within
    assert schema.extends(SCHEMA)
    assert schema.digest == SCHEMA.digest  # no ledger is bound to it


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
def test_quantiles_and_averages_of_people_have_a_default_tolerance_and_words_of_their_own() -> None:
    with dodona.open(frames(), schema=SCHEMA, budget=Budget(100, "1e-6"), max_price="100%") as curator:
        people = "(SELECT pid, count(*) AS n, sum(cost) AS s FROM visits GROUP BY pid) AS p"
        answer = curator.ask(f"SELECT avg(n), median(s), count(*) FROM {people}", within="20%")  # noqa: S608
        assert len(answer.rows) == 1
        assert not any("person_" in warning for warning in answer.warnings)
        with pytest.raises(InvalidRequest, match="avg in a person's count, median in a person's sum"):
            curator.ask(f"SELECT avg(n), median(s) FROM {people}", within=3)  # noqa: S608
        joined = "patients LEFT JOIN (SELECT pid, count(*) AS n FROM visits GROUP BY pid) AS v USING (pid)"
        asked = curator.ask(f"SELECT count(*) FROM {joined} WHERE n IS NULL", within="20%")  # noqa: S608
        assert not any("never NULL" in warning for warning in asked.warnings)


def test_public_tables_may_be_written_with_the_schema_that_tools_write() -> None:
    plain = "SELECT floor, count(*) FROM visits JOIN wards ON visits.ward = wards.ward GROUP BY floor"
    tools = plain.replace("JOIN wards", 'JOIN "public"."wards" "wards"').replace(
        "FROM visits", 'FROM "public"."visits" "visits"'
    )
    question, other = (read_statement(sql, SCHEMA) for sql in (plain, tools))
    assert isinstance(question, Question)
    assert isinstance(other, Question)
    assert query_digest(question.query) == query_digest(other.query)


BESIDE_ANSWERS = [
    "SELECT ward, floor FROM wards WHERE floor > 1 ORDER BY floor DESC LIMIT 1",
    'SELECT "public"."wards"."wing" AS wing, count(*) AS n FROM "public"."wards" GROUP BY "public"."wards"."wing"',
    "SELECT w.ward, n FROM wards AS w LEFT JOIN (SELECT ward, count(*) AS n FROM visits GROUP BY ward) v USING (ward)",
    (
        "WITH x AS (SELECT * FROM wards) SELECT x.floor, n FROM x, (SELECT ward, count(*) n FROM visits GROUP BY 1) t "
        "WHERE x.ward = t.ward"
    ),
    "SELECT ward, count(*) AS n FROM visits GROUP BY ward HAVING ward IN (SELECT ward FROM wards WHERE floor > 1)",
    (
        "SELECT ward, ward NOT IN (SELECT ward FROM wards WHERE floor > 1) AS low, count(*) FROM visits "
        "WHERE ward <> 'c' GROUP BY 1"
    ),
]


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
@pytest.mark.parametrize("sql", BESIDE_ANSWERS)
def test_a_public_table_beside_answers_is_a_list_of_constants(sql: str, plain: duckdb.DuckDBPyConnection) -> None:
    with dodona.open(frames(), schema=SCHEMA, budget=Budget(1000, "1e-6"), max_price="100%") as curator:
        answer = curator.ask(sql, epsilon=100)
        shown = list(answer.columns)
        actual = [tuple(row[name] for name in shown) for row in answer.to_arrow().to_pylist()]
    expected = plain.execute(sql.replace('"public".', "")).fetchall()
    near = {tuple(round(cell) if isinstance(cell, float) else cell for cell in row) for row in actual}
    assert set(expected) <= near
    assert len(near) <= len(expected) + 2  # groups of missing and of undeclared values


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
def test_a_public_table_alone_is_free_and_a_large_one_is_not_joined_with_answers() -> None:
    with dodona.open(frames(), schema=SCHEMA, budget=Budget(1, "1e-6")) as curator:
        assert curator.ask("SELECT count(*) AS n FROM wards").to_arrow()["n"].to_pylist() == [3]
        assert curator.budget.spent == 0
    large = PublicTable.of("wards", "ward", [{"ward": str(place), "floor": place} for place in range(6000)])
    schema = Schema.of("visits", Category("ward", ["1", "2"]), size=9, public=[large])
    with pytest.raises(InvalidSql, match=r"6000 rows.*Join it with rows"):
        read_statement("SELECT * FROM wards", schema)
    assert isinstance(
        read_statement("SELECT floor, count(*) FROM visits JOIN wards USING (ward) GROUP BY 1", schema), Question
    )


def test_a_cte_hides_a_public_table_of_its_name() -> None:
    text = (
        "WITH wards AS (SELECT ward, count(*) AS n FROM visits GROUP BY 1) "
        "SELECT count(*) FROM visits WHERE ward IN (SELECT ward FROM wards)"
    )
    with pytest.raises(InvalidSql, match="depends on an answer"):
        read_statement(text, SCHEMA)


@pytest.mark.parametrize(
    "condition",
    [
        "pid NOT IN (SELECT pid FROM visits) AND pid IN (SELECT pid FROM tests)",
        "EXISTS (SELECT 1 FROM visits v WHERE v.pid > patients.pid)",
        "NOT EXISTS (SELECT * FROM tests WHERE positive)",
    ],
)
def test_people_that_are_chosen_by_their_rows_are_asked_about_as_the_refusal_says(condition: str) -> None:
    with pytest.raises(InvalidSql, match="chooses people by their rows") as refused:
        read_statement(f"SELECT sex, count(*) FROM patients WHERE {condition} GROUP BY sex", SCHEMA)  # noqa: S608
    assert read_statement(refused.value.instead.partition(": ")[2].removesuffix("."), SCHEMA)


def test_names_that_two_tables_have_must_be_qualified() -> None:
    twice = PublicTable.of("costs", "ward", [{"ward": "a", "cost": 5}])
    schema = Schema.of("visits", Category("ward", ["a"]), Number("cost", 0, 10, 1), size=9, public=[twice])
    with pytest.raises(InvalidSql, match=r"several tables.*visits\.cost or costs\.cost"):
        read_statement("SELECT sum(cost) FROM visits JOIN costs USING (ward)", schema)
    asked = read_statement("SELECT sum(costs.cost) FROM visits JOIN costs USING (ward) WHERE visits.cost > 3", schema)
    assert isinstance(asked, Question)


def test_another_public_table_of_the_same_name_is_another_question() -> None:
    digests = set()
    for floor in (1, 2):
        table = PublicTable.of("wards", "ward", [{"ward": "a", "floor": floor}])
        schema = Schema.of("visits", Category("ward", ["a", "b"]), size=9, public=[table])
        asked = read_statement("SELECT count(*) FROM visits JOIN wards USING (ward) WHERE floor = 1", schema)
        assert isinstance(asked, Question)
        digests.add(query_digest(asked.query))
    assert len(digests) == 2


def test_a_table_of_rows_joined_with_itself_is_refused_with_what_to_write() -> None:
    rows = Schema.of("t", Integer("x", 0, 9), size=100)
    with pytest.raises(InvalidSql, match=r"pairs its rows[.] Aggregate each side, and join the answers") as refused:
        read_statement("SELECT count(*) FROM t a JOIN t b ON a.x = b.x", rows)
    assert "None" not in str(refused.value)
