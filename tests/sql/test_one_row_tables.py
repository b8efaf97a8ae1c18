"""Tables that all have one row of a person: they are joined either way, except that the first one lends no columns."""

from __future__ import annotations

from itertools import product

import duckdb
import numpy as np
import pandas as pd
import pytest

from dodona.engines.duckdb import DuckDBSource
from dodona.query.question import Question
from dodona.query.sensitivity import unit_sensitivity
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Domain, LinkedTable, Schema
from dodona.sql.compile import read_statement
from dodona.sql.scope import InvalidSql
from dodona.trusted.gate import unseal

SURVEYS = LinkedTable("surveys", Domain((Boolean("happy", otherwise=False), Integer("score", 0, 9))), "id")
LABS = LinkedTable("labs", Domain((Boolean("positive", otherwise=False),)), "pid")
VISITS = LinkedTable("visits", Domain((Integer("cost", 0, 50, otherwise=0),)), "person", 3)
SCHEMA = Schema.of(
    "patients",
    Category("sex", ["f", "m"], otherwise="f"),
    Integer("age", 0, 90, otherwise=0),
    size=200,
    id="pid",
    linked=[SURVEYS, LABS, VISITS],
)


def frames() -> dict[str, pd.DataFrame]:
    generator = np.random.default_rng(3)
    visits = [person for person in range(120) for _ in range(generator.integers(0, 4))]
    return {
        "patients": pd.DataFrame(
            {"pid": range(160), "sex": generator.choice(["f", "m"], 160), "age": generator.integers(0, 91, 160)}
        ),
        "surveys": pd.DataFrame(
            {"id": range(60, 200), "happy": generator.random(140) < 0.4, "score": generator.integers(0, 10, 140)}
        ),
        "labs": pd.DataFrame({"pid": range(0, 180, 3), "positive": generator.random(60) < 0.5}),
        "visits": pd.DataFrame({"person": visits, "cost": generator.integers(0, 51, len(visits))}),
    }


ANSWERED = [
    "SELECT count(*), sum(score) FROM patients p JOIN surveys s ON s.id = p.pid WHERE age > 30",
    "SELECT count(*), sum(score) FROM surveys s JOIN patients p ON s.id = p.pid WHERE sex = 'm'",
    "SELECT count(*), sum(age) FROM patients p LEFT JOIN surveys s ON s.id = p.pid WHERE score IS NULL OR score > 4",
    "SELECT count(*), sum(score) FROM surveys s WHERE EXISTS (SELECT 1 FROM patients p WHERE p.pid = s.id AND age > 9)",
    "SELECT count(*) FROM surveys s WHERE NOT EXISTS (SELECT 1 FROM patients p WHERE p.pid = s.id AND p.sex = 'f')",
    "SELECT count(*), sum(age) FROM patients WHERE pid IN (SELECT id FROM surveys WHERE happy)",
    "SELECT count(*) FROM labs WHERE pid NOT IN (SELECT id FROM surveys WHERE happy)",
    "SELECT count(*), sum(score) FROM surveys s LEFT JOIN labs l ON l.pid = s.id WHERE positive",
    (
        "SELECT count(*), count(n), sum(a) FROM surveys s LEFT JOIN "
        "(SELECT pid, count(*) AS n, max(age) AS a FROM patients GROUP BY pid) p ON p.pid = s.id"
    ),
    (
        "SELECT count(*), sum(n) FROM (SELECT s.id, count(p.pid) AS n FROM surveys s LEFT JOIN patients p "
        "ON p.pid = s.id AND p.age > 40 GROUP BY s.id) AS x"
    ),
    "SELECT count(*) FROM surveys s WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.person = s.id AND cost > 20)",
    "SELECT count(*), sum(score) FROM surveys WHERE id IN (SELECT person FROM visits WHERE cost > 20)",
    "SELECT count(*), sum(n) FROM labs l JOIN (SELECT person, count(*) n FROM visits GROUP BY 1) v ON v.person = l.pid",
    (
        "SELECT sum(n), count(*) FROM (SELECT l.pid, count(v.person) AS n FROM labs l LEFT JOIN visits v "
        "ON v.person = l.pid GROUP BY l.pid) AS x WHERE n > 0"
    ),
]


@pytest.mark.parametrize("sql", ANSWERED)
def test_what_is_asked_of_tables_with_one_row_of_a_person_is_what_sql_says(sql: str) -> None:
    asked = read_statement(sql, SCHEMA)
    assert isinstance(asked, Question)
    exact = unseal(DuckDBSource.frame(SCHEMA, frames(), key=bytes(32)).exact(asked.query))
    with duckdb.connect(config={"threads": 1}) as plain:
        for name, frame in frames().items():
            plain.register(name, frame)
        expected = plain.execute(sql).fetchone()
    found = [int(value) * block.unit for value, block in zip(exact, asked.query.blocks, strict=True)]
    assert found == [value or 0 for value in expected or ()]


@pytest.mark.parametrize("sql", [sql for sql in ANSWERED if "visits" not in sql])
def test_no_person_moves_them_farther_than_priced(sql: str) -> None:
    """Brute force in SQL: everybody with at most one row in each table, alone in the tables."""
    asked = read_statement(sql, SCHEMA)
    assert isinstance(asked, Question)
    priced = unit_sensitivity(asked.query, SCHEMA.unit)
    people = product([None, ("f", 90), ("m", 0), ("m", 90)], [None, (True, 9), (False, 0)], [None, (True,)])
    with duckdb.connect(config={"threads": 1}) as tables:
        tables.execute("CREATE TABLE patients (pid INT, sex TEXT, age INT); CREATE TABLE labs (pid INT, positive BOOL)")
        tables.execute("CREATE TABLE surveys (id INT, happy BOOL, score INT)")
        for rows in people:
            tables.execute("DELETE FROM patients; DELETE FROM surveys; DELETE FROM labs")
            for name, row in zip(("patients", "surveys", "labs"), rows, strict=True):
                if row is not None:
                    tables.execute(f"INSERT INTO {name} VALUES (1, {', '.join('?' * len(row))})", row)  # noqa: S608  names above
            moved = sum(abs(value or 0) for value in tables.execute(sql).fetchone() or ())
            assert moved <= priced.l1 * max(float(block.unit) for block in asked.query.blocks)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(age) FROM visits v JOIN patients p ON v.person = p.pid",
        "SELECT count(age) FROM visits v LEFT JOIN patients p ON v.person = p.pid",
        "SELECT sum(cost) FROM visits v WHERE EXISTS (SELECT 1 FROM patients p WHERE p.pid = v.person AND age > 30)",
        "SELECT count(*) FROM patients p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.person = p.pid)",
        "SELECT count(*) FROM patients p WHERE NOT EXISTS (SELECT 1 FROM labs l WHERE l.pid = p.pid)",
        "SELECT sum(n) FROM patients LEFT JOIN (SELECT person, count(*) AS n FROM visits GROUP BY 1) v ON person = pid",
        "SELECT count(n) FROM patients JOIN (SELECT person, count(*) AS n FROM visits GROUP BY 1) v ON person = pid",
    ],
)
def test_columns_of_the_first_table_in_rows_of_another_are_refused(sql: str) -> None:
    with pytest.raises(InvalidSql, match="patients is the first table of this dataset: its columns cannot stand in"):
        read_statement(sql, SCHEMA)
