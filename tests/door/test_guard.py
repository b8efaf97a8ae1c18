"""Nothing is ever computed from a mirror: over two hundred ways to execute something over it, in both protocols."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import psycopg
import pytest

from tests.door.scene import ROWS, OpenDoor, find_sidecar

SOURCES = (
    "stays", "public.stays", '"public"."stays"', "ONLY stays", "stays AS s", "stays *", "(TABLE stays) AS t",
    "(SELECT * FROM stays) AS t", "(SELECT * FROM stays OFFSET 0) AS t", "(SELECT DISTINCT ON (age) * FROM stays) AS t",
    "LATERAL (SELECT * FROM stays) AS t", "generate_series(1, 2) AS g CROSS JOIN stays",
    "generate_series(1, 2) AS g LEFT JOIN stays ON true", "(VALUES (1)) AS v (x), stays", "stays AS a NATURAL JOIN stays AS b",
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
WHOLE = (
    "TABLE stays", "TABLE ONLY stays", "SELECT EXISTS (SELECT FROM stays)", "SELECT NOT EXISTS (SELECT 1 FROM stays)",
    "SELECT EXISTS (SELECT FROM stays WHERE age IS NULL)", "SELECT ARRAY(SELECT age FROM stays)",
    "SELECT ARRAY(SELECT 1 FROM stays)", "SELECT (SELECT 1 FROM stays)", "SELECT (SELECT age FROM stays) IS NULL",
    "SELECT 1 IN (SELECT coalesce(age, 1) FROM stays)", "SELECT 1 = ANY (SELECT coalesce(age, 1) FROM stays)",
    "SELECT 1 = ALL (SELECT coalesce(age, 1) FROM stays)", "SELECT 1 WHERE EXISTS (SELECT FROM stays)",
    "SELECT 1 FROM generate_series(1, 3) WHERE 1 = (SELECT 1 FROM stays)", "VALUES ((SELECT 1 FROM stays))",
    "VALUES (EXISTS (SELECT FROM stays))", "SELECT 1 FROM stays UNION SELECT 2", "SELECT 2 UNION ALL SELECT 1 FROM stays",
    "SELECT 1 INTERSECT SELECT 1 FROM stays", "SELECT 2 EXCEPT SELECT 1 FROM stays", "(SELECT 1 FROM stays)",
    "((TABLE stays))", "WITH w AS (TABLE stays) SELECT * FROM w", "WITH w AS (SELECT 1 FROM stays) SELECT count(*) OVER () FROM w",
    "WITH RECURSIVE r AS (SELECT 1 AS n FROM stays UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
    "SELECT * FROM stays FOR UPDATE", "SELECT * FROM stays FOR SHARE", "SELECT * FROM stays ORDER BY age LIMIT 1",
    "SELECT * FROM stays FETCH FIRST ROW ONLY", "SELECT * FROM stays WHERE sex = 'female'", "SELECT * FROM stays WHERE age IS NULL",
    "SELECT g FROM generate_series(1, 3) AS g ORDER BY (SELECT age FROM stays), g",
    "SELECT g FROM generate_series(1, 3) AS g LIMIT (SELECT 1 FROM stays)",
    "SELECT g FROM generate_series(1, 3) AS g OFFSET (SELECT 1 FROM stays)",
    "SELECT sum(g) FROM generate_series(1, 3) AS g, stays WHERE g > (SELECT 0 FROM stays)",
    "SELECT sum(g) FILTER (WHERE EXISTS (SELECT FROM stays)) FROM generate_series(1, 3) AS g",
    "SELECT CASE WHEN EXISTS (SELECT FROM stays) THEN 1 ELSE 2 END", "SELECT coalesce((SELECT age FROM stays), 3)",
    "SELECT * FROM ROWS FROM (generate_series(1, (SELECT 2 FROM stays))) AS r",
    "SELECT * FROM generate_series(1, (SELECT 2 FROM stays))", "SELECT * FROM unnest(ARRAY(SELECT 1 FROM stays))",
    "SELECT * FROM json_to_recordset((SELECT json_agg(t) FROM (TABLE stays) AS t)) AS r (age int)",
    "SELECT array_agg(t) FROM (TABLE stays) AS t", "SELECT json_agg(stays) FROM stays", "SELECT string_agg(sex, ',') FROM stays",
    "SELECT xmlagg(xmlelement(name a, age)) FROM stays", "SELECT bool_and(age IS NULL) FROM stays",
    "SELECT jsonb_object_agg(coalesce(age, 1), 1) FROM stays", "SELECT count(*) FROM stays TABLESAMPLE BERNOULLI (0)",
    "SELECT count(*) FROM stays AS a, stays AS b", "SELECT count(*) FROM stays JOIN generate_series(1, 5) ON true",
    "SELECT grouping(sex), count(*) FROM (TABLE stays) AS t GROUP BY CUBE (sex), age IS NULL, ctid",
    "SELECT a.n FROM (SELECT count(*) AS n FROM stays, LATERAL (SELECT 1) AS o) AS a",
    "SELECT (SELECT count(*) FROM stays WHERE age > g) FROM generate_series(1, 2) AS g",
    "SELECT count(*) FROM stays WHERE ctid IS NOT NULL", "SELECT min(ctid) FROM stays", "SELECT count(xmin) FROM stays",
    "SELECT mode() WITHIN GROUP (ORDER BY sex) FROM stays", "SELECT every(age IS NULL) FROM stays",
    "COPY stays TO STDOUT", "COPY stays (age) TO STDOUT", "COPY (SELECT * FROM stays) TO STDOUT",
    "COPY (TABLE stays) TO STDOUT (FORMAT binary)", "COPY (SELECT 1 FROM stays) TO STDOUT",
    "COPY stays TO '/tmp/x'", "COPY stays TO PROGRAM 'cat'", "COPY stays FROM '/etc/passwd'",
    "BEGIN; DECLARE c CURSOR FOR SELECT * FROM stays; FETCH 1 FROM c", "BEGIN; DECLARE c SCROLL CURSOR FOR TABLE stays; MOVE 1 FROM c",
    "BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 1 FROM stays; COMMIT", "BEGIN;declare c cursor for select age from stays;fetch all from c",
    "PREPARE p AS SELECT * FROM stays; EXECUTE p", "PREPARE p AS SELECT count(*) FROM stays; EXECUTE p",
    "PREPARE p (int) AS SELECT count(*) FROM stays WHERE age > $1; EXECUTE p (3)",
    "DO $$ BEGIN PERFORM 1 FROM stays; END $$", "DO LANGUAGE sql 'SELECT 1 FROM stays'",
    "EXPLAIN ANALYZE SELECT * FROM stays", "EXPLAIN (ANALYZE, TIMING off) SELECT 1 FROM stays", "EXPLAIN ANALYZE TABLE stays",
    "EXPLAIN ANALYZE SELECT EXISTS (SELECT FROM stays)", "EXPLAIN ANALYZE CREATE TABLE x AS TABLE stays",
    "CREATE VIEW v AS SELECT count(*) FROM stays", "CREATE TABLE x AS SELECT * FROM stays", "CREATE TABLE x AS TABLE stays",
    "CREATE TEMP TABLE x AS SELECT count(*) FROM stays", "CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM stays",
    "SELECT * INTO x FROM stays", "SELECT count(*) INTO x FROM stays", "SELECT count(*) INTO TEMP x FROM stays",
    "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM stays'", "CREATE RULE r AS ON SELECT TO stays DO INSTEAD SELECT 1",
    "INSERT INTO stays SELECT * FROM stays", "INSERT INTO stays (age) VALUES (1) RETURNING *", "INSERT INTO stays DEFAULT VALUES",
    "UPDATE stays SET age = 3 RETURNING *", "DELETE FROM stays RETURNING *", "DELETE FROM stays USING stays AS s", "TRUNCATE stays",
    "MERGE INTO stays AS a USING stays AS b ON a.age = b.age WHEN MATCHED THEN DELETE",
    "WITH d AS (DELETE FROM stays RETURNING *) SELECT count(*) FROM d", "WITH c AS (SELECT count(*) AS n FROM stays) INSERT INTO stays (age) SELECT n FROM c",
    "LOCK TABLE stays IN ACCESS EXCLUSIVE MODE", "ANALYZE stays; SELECT 1 FROM stays",
    "ALTER TABLE stays DISABLE ROW LEVEL SECURITY", "DROP POLICY never ON stays", "ALTER TABLE stays OWNER TO CURRENT_USER",
    "SET row_security = off; SELECT * FROM stays", "SET ROLE dodona; SELECT * FROM stays", "SET SESSION AUTHORIZATION dodona; SELECT * FROM stays",
    "SELECT query_to_xml('SELECT * FROM stays', true, true, '')", "SELECT table_to_xml('stays', true, true, '')",
    "SELECT schema_to_xml('public', true, true, '')", "SELECT database_to_xml(true, true, '')", "SELECT * FROM ts_stat('SELECT sex::tsvector FROM stays')",
    "SELECT query_to_xml('SELECT count(*) FROM stays TABLESAMPLE SYSTEM (0)', true, true, '')",
    "SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery FROM stays')",
    "CREATE OR REPLACE FUNCTION dodona.refuse() RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "SELECT lo_import('/etc/passwd')", "SELECT pg_read_file('/etc/passwd')", "SELECT pg_ls_dir('.')", "SELECT pg_advisory_lock(1)",
    "SELECT pg_notify('a', 'b')", "SELECT set_config('role', 'dodona', false); SELECT 1 FROM stays", "CALL dodona.fail('1', '2', '3')",
    "SELECT 1 FROM stays -- count(*)\n", "SELECT /* count(*) */ age FROM stays", "SELECT 'count(*)' FROM stays GROUP BY 1, age, ctid",
    "SELECT $a$ FROM stays $a$ FROM stays", "SELECT U&'\\0041' FROM stays", "SELECT 1 FROM U&\"st\\0061ys\"", "SELECT E'\\'' FROM stays --'",
    "SELECT * FROM \"dodona\".\"budget\" AS b, stays", "SELECT 1 FROM dodona.budget, stays",
    "SET search_path = dodona; SELECT * FROM budget", "TABLE dodona.history", "SELECT * FROM stays.public.stays",
)  # fmt: skip
PROBES = ("SELECT * FROM stays LIMIT 0", "SELECT * FROM stays WHERE false", "SELECT age FROM stays WHERE 1 = 0", "SELECT * FROM stays TABLESAMPLE SYSTEM (0)")
ANSWERED = (
    "SELECT {} FROM stays", "SELECT {} FROM public.stays", 'SELECT {} FROM "stays" AS "s"', "(SELECT {} FROM stays)",
    "SELECT n FROM (SELECT {} AS n FROM stays) AS t", "WITH w AS (SELECT {} AS n FROM stays) SELECT n FROM w",
    "SELECT (SELECT {} FROM stays)", "VALUES (3), (4) UNION ALL SELECT {} FROM stays ORDER BY 1 DESC LIMIT 1",
    "SELECT n FROM generate_series(1, 1) AS g CROSS JOIN LATERAL (SELECT {} AS n FROM stays) AS t",
    "SELECT max(n) FROM (SELECT {} AS n FROM stays UNION ALL SELECT 0) AS t", "SELECT coalesce({}, 0) FROM stays",
    "SELECT {} FROM stays HAVING {} > 10", "SELECT {} FROM stays ORDER BY {} LIMIT 1", "SELECT 0 + {} FROM stays",
    "SELECT sum({}) OVER () FROM stays", "SELECT {} FROM stays WHERE true", "SELECT CASE WHEN {} > 1 THEN {} END FROM stays",
    "BEGIN; DECLARE c CURSOR FOR SELECT {} FROM stays; FETCH ALL FROM c", "SELECT DISTINCT {} FROM stays",
    "SELECT n FROM (VALUES (1)) AS v (x), (SELECT {} AS n FROM stays) AS t", "SELECT greatest(1, {}) FROM stays /* x */;",
)  # fmt: skip


def refused_ways() -> Iterator[str]:
    """Yield statements that must not be executed."""
    yield from (f"SELECT {target} FROM {source}" for source, target in product(SOURCES, TARGETS))
    yield from (f"SELECT {target} FROM stays" for target in OVER_ONE)
    yield from WHOLE


def attempt(connection: psycopg.Connection[Any], heard: list[str], statement: str, *, extended: bool) -> tuple[str, Any]:
    """Return what became of a statement, and its rows: an error, nothing, an answer of Dodona's, or a leak."""
    heard.clear()
    found: list[Any] = []
    raw = connection.pgconn
    try:
        results = [raw.exec_params(statement.encode(), None)] if extended else []
        if not extended:
            raw.send_query(statement.encode())
            while (one := raw.get_result()) is not None:
                results.append(one)
                if one.status == psycopg.pq.ExecStatus.COPY_OUT:
                    while raw.get_copy_data(0)[0] > 0:
                        found.append("copied")
        elif results[0].status == psycopg.pq.ExecStatus.COPY_OUT:
            while raw.get_copy_data(0)[0] > 0:
                found.append("copied")
            results.append(raw.get_result())
        failed = any(one is not None and one.status == psycopg.pq.ExecStatus.FATAL_ERROR for one in results)
        shown = [one for one in results if one is not None and one.ntuples]
        found += [one.get_value(row, 0) for one in shown for row in range(one.ntuples)]
        raw.exec_(b"ROLLBACK")
        raw.exec_(b"DISCARD ALL")
    except psycopg.OperationalError as fault:
        raise AssertionError(statement) from fault
    if found:
        return ("answered" if any("Price:" in one for one in heard) else "LEAK"), found
    return ("error" if failed else "nothing"), found


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
            outcome, found = attempt(connection, heard, way, extended=extended)
            allowed = {"error", "nothing"} if "SAMPLE SYSTEM (0)" in way or "SAMPLE BERNOULLI (0)" in way else {"error"}
            if outcome not in allowed:
                wrong[way] = (outcome, found[:3])
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
            outcome, found = attempt(connection, heard, statement, extended=extended)
            assert outcome == "answered", (statement, found)
            assert abs(int(found[0]) - ROWS) < 0.15 * ROWS, statement


def test_without_the_guard_the_same_ways_would_be_noticed(door: OpenDoor) -> None:
    """The administrator of the sidecar passes the guard: what is then computed from the mirror must count as a leak."""
    _, folder = find_sidecar(door.server)
    leaks = 0
    with psycopg.connect(f"host={folder} port=5432 user=dodona dbname=stays", autocommit=True) as connection:
        for way in (*PROBES, "SELECT count(*) FROM stays", "TABLE stays", "SELECT EXISTS (SELECT FROM stays)", "COPY stays TO STDOUT"):
            outcome, _ = attempt(connection, [], way, extended=False)
            leaks += outcome == "LEAK"
        assert attempt(connection, [], "SELECT count(*) FROM stays", extended=False) == ("LEAK", [b"1"])
    assert leaks == 4
