"""Nothing is ever computed from a mirror: over two hundred ways to execute something over it, in both protocols."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.door.scene import ROWS, OpenDoor, find_sidecar

SOURCES = (
    "stays", "public.stays", '"public"."stays"', "ONLY stays", "stays AS s", "stays *", "(TABLE stays) AS t",
    "(SELECT * FROM stays) AS t", "(SELECT * FROM stays OFFSET 0) AS t", "(SELECT DISTINCT ON (age) * FROM stays) AS t",
    "LATERAL (SELECT * FROM stays) AS t", "generate_series(1, 2) AS g CROSS JOIN stays",
    "generate_series(1, 2) AS g LEFT JOIN stays ON true", "(VALUES (1)) AS v (x), stays",
    "stays AS a NATURAL JOIN stays AS b",
    "stays TABLESAMPLE SYSTEM (100)", "(WITH w AS (SELECT * FROM stays) TABLE w) AS t",
    "(WITH w AS MATERIALIZED (SELECT * FROM stays) SELECT * FROM w) AS t",
    "(SELECT * FROM stays UNION ALL SELECT * FROM stays) AS t", "(SELECT * FROM stays LIMIT 1) AS t",
)  # fmt: skip
TARGETS = ("*", "1", "count(*) OVER ()", "row_number() OVER ()", "coalesce('x')")
OVER_ONE = (
    "age", "ctid", "tableoid::regclass", "xmin", "row_to_json(stays)", "stays", "stays::text", "to_jsonb(stays)",
    "pg_column_size(stays)", "age IS NULL", "coalesce(age, 7)", "rank() OVER (ORDER BY age)",
    "lag(age) OVER (PARTITION BY sex ORDER BY age)", "sum(age) OVER ()", "CASE WHEN age IS NULL THEN 1 END",
    "1 / coalesce(age, 1)", "generate_series(1, coalesce(age, 2))", "num_nulls(age, sex)", "hashtext(stays::text)",
    "(SELECT count(*) FROM generate_series(1, 3)) + coalesce(age, 0)",
)  # fmt: skip
WHOLE = tuple(
    line for line in (Path(__file__).parent / "refused.sql").read_text().splitlines() if not line.startswith("-- ")
)
PROBES = (
    "SELECT * FROM stays LIMIT 0",
    "SELECT * FROM stays WHERE false",
    "SELECT age FROM stays WHERE 1 = 0",
    "SELECT * FROM stays TABLESAMPLE SYSTEM (0)",
)
ANSWERED = (
    "SELECT {} FROM stays", "SELECT {} FROM public.stays", 'SELECT {} FROM "stays" AS "s"', "(SELECT {} FROM stays)",
    "SELECT n FROM (SELECT {} AS n FROM stays) AS t", "WITH w AS (SELECT {} AS n FROM stays) SELECT n FROM w",
    "SELECT (SELECT {} FROM stays)", "VALUES (3), (4) UNION ALL SELECT {} FROM stays ORDER BY 1 DESC LIMIT 1",
    "SELECT n FROM generate_series(1, 1) AS g CROSS JOIN LATERAL (SELECT {} AS n FROM stays) AS t",
    "SELECT max(n) FROM (SELECT {} AS n FROM stays UNION ALL SELECT 0) AS t", "SELECT coalesce({}, 0) FROM stays",
    "SELECT {} FROM stays HAVING {} > 10", "SELECT {} FROM stays ORDER BY {} LIMIT 1", "SELECT 0 + {} FROM stays",
    "SELECT sum({}) OVER () FROM stays", "SELECT {} FROM stays WHERE true",
    "SELECT CASE WHEN {} > 1 THEN {} END FROM stays", "SELECT greatest(1, {}) FROM stays /* x */;",
    "BEGIN; DECLARE c CURSOR FOR SELECT {} FROM stays; FETCH ALL FROM c", "SELECT DISTINCT {} FROM stays",
    "SELECT n FROM (VALUES (1)) AS v (x), (SELECT {} AS n FROM stays) AS t",
)  # fmt: skip


def refused_ways() -> Iterator[str]:
    """Yield statements that must not be executed."""
    yield from (f"SELECT {target} FROM {source}" for source, target in product(SOURCES, TARGETS))  # noqa: S608
    yield from (f"SELECT {target} FROM stays" for target in OVER_ONE)  # noqa: S608
    yield from WHOLE


def attempt(
    connection: psycopg.Connection[Any], heard: list[str], statement: str, *, extended: bool
) -> tuple[str, Any]:
    """Return what became of a statement, and its rows: an error, nothing, an answer of Dodona's, or a leak."""
    heard.clear()
    values: list[Any] = []
    raw = connection.pgconn
    try:
        results = [raw.exec_params(statement.encode(), None)] if extended else []
        if not extended:
            raw.send_query(statement.encode())
            while (result := raw.get_result()) is not None:
                results.append(result)
                if result.status == psycopg.pq.ExecStatus.COPY_OUT:
                    while raw.get_copy_data(0)[0] > 0:
                        values.append("copied")
        elif results[0].status == psycopg.pq.ExecStatus.COPY_OUT:
            while raw.get_copy_data(0)[0] > 0:
                values.append("copied")
            results.append(raw.get_result())
        failed = any(result is not None and result.status == psycopg.pq.ExecStatus.FATAL_ERROR for result in results)
        shown = [result for result in results if result is not None and result.ntuples]
        values += [result.get_value(row, 0) for result in shown for row in range(result.ntuples)]
        raw.exec_(b"ROLLBACK")
        raw.exec_(b"DISCARD ALL")
    except psycopg.OperationalError as fault:
        raise AssertionError(statement) from fault
    if values:
        return ("answered" if any("Price:" in notice for notice in heard) else "LEAK"), values
    return ("error" if failed else "nothing"), values


@pytest.mark.parametrize("extended", [False, True])
def test_no_way_shows_anything_of_the_mirror(door: OpenDoor, extended) -> None:
    ways = list(refused_ways())
    assert len(set(ways)) > 200
    before = door.charges()
    wrong = {}
    with door.connect() as connection:
        heard = door.notices[id(connection)]
        for way in ways:
            assert not connection.closed, way
            outcome, values = attempt(connection, heard, way, extended=extended)
            allowed = {"error", "nothing"} if "SAMPLE SYSTEM (0)" in way or "SAMPLE BERNOULLI (0)" in way else {"error"}
            if outcome not in allowed:
                wrong[way] = (outcome, values[:3])
        for way in PROBES:
            assert attempt(connection, heard, way, extended=extended) == ("nothing", [])
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert wrong == {}
    assert door.charges() == before


@pytest.mark.parametrize("extended", [False, True])
def test_what_is_answered_is_an_answer_of_the_core(door: OpenDoor, extended) -> None:
    with door.connect() as connection:
        heard = door.notices[id(connection)]
        for way in ANSWERED:
            statement = way.replace("{}", "count(*)")
            if extended and ";" in statement.rstrip(";"):
                continue
            outcome, values = attempt(connection, heard, statement, extended=extended)
            assert outcome == "answered", (statement, values)
            assert abs(int(values[0]) - ROWS) < 0.15 * ROWS, statement


def test_without_the_guard_the_same_ways_would_be_noticed(door: OpenDoor) -> None:
    """The administrator of the sidecar passes the guard: what is then computed from the mirror must count as a leak."""
    _, folder = find_sidecar(door.server)
    leaks = 0
    with psycopg.connect(f"host={folder} port=5432 user=dodona dbname=stays", autocommit=True) as connection:
        for way in (
            *PROBES,
            "SELECT count(*) FROM stays",
            "TABLE stays",
            "SELECT EXISTS (SELECT FROM stays)",
            "COPY stays TO STDOUT",
        ):
            outcome, _ = attempt(connection, [], way, extended=False)
            leaks += outcome == "LEAK"
        assert attempt(connection, [], "SELECT count(*) FROM stays", extended=False) == ("LEAK", [b"1"])
    assert leaks == 4
