"""psycopg 3: both protocols, text and binary, pipelines, server cursors, COPY, cancelling."""

from __future__ import annotations

import datetime as dt
import re
import threading

import psycopg
import pytest
from psycopg import errors, rows

from tests.door.scene import ROWS, OpenDoor

WIDE = 0.05 * ROWS * 3
"""Three times the tolerance of the dataset at 95%: missed by a right answer once in 10^8."""


def test_a_count_is_near_the_truth_with_a_notice_and_is_charged_once(door: OpenDoor) -> None:
    with door.connect() as connection:
        before = door.charges()
        connection.execute("SET dodona.fresh = on")  # what other tests asked may answer it
        (count,) = connection.execute("SELECT count(*) FROM stays WHERE age >= 50").fetchone()
        assert isinstance(count, int)
        assert abs(count - door.frame.filter(door.frame["age"] >= 50).height) < WIDE
        (heard,) = door.heard(connection)
        assert "±150 at 95%" in heard
        assert "of the budget (measured). Left: " in heard
        assert door.charges() == before + 1
        connection.execute("SET dodona.fresh = off")
        (again,) = connection.execute("SELECT count(1) AS n FROM public.stays s WHERE s.age >= 50").fetchone()
        assert abs(again - count) < WIDE
        assert "Price: free" in door.heard(connection)[0]
        assert door.charges() == before + 1


@pytest.mark.parametrize("binary", [False, True])
def test_keys_have_their_types_in_both_formats(door: OpenDoor, binary) -> None:
    with door.connect() as connection, connection.cursor(binary=binary) as cursor:
        cursor.execute(
            "SELECT urgent, count(*) AS n, avg(stay) AS days FROM stays GROUP BY urgent ORDER BY 1 NULLS LAST"
        )
        fetched = cursor.fetchall()
        assert [type(value) for value in fetched[0]] == [bool, int, float]
        assert [row[0] for row in fetched] == [False, True, None, None]
        cursor.execute("SELECT admitted, count(*) FROM stays GROUP BY admitted ORDER BY admitted")
        assert cursor.fetchone()[0] == dt.date(2024, 1, 1)
        cursor.execute("SELECT age, count(*) FROM stays GROUP BY age ORDER BY age")
        assert [row[0] for row in cursor.fetchall()] == [0, 18, 40, 65, None, None]


def test_parameters_of_all_kinds_reach_the_question(door: OpenDoor) -> None:
    truth = door.frame.filter(
        (door.frame["age"] >= 30) & (door.frame["sex"] == "female") & (door.frame["admitted"] < dt.date(2024, 7, 1))
    ).height
    statement = "SELECT count(*) FROM stays WHERE age >= %s AND sex = ANY(%s) AND admitted < %s AND ward <> %s"
    values = (30, ["female"], dt.date(2024, 7, 1), "medicine")
    with door.connect() as connection:
        for binary in ("%s", "%b", "%t"):
            count = connection.execute(statement.replace("%s", binary), values).fetchone()[0]
            assert abs(count - truth * 2 / 3) < WIDE
        assert "(measured)" in door.heard(connection)[0]
        assert door.heard(connection) == []
        for _ in range(7):  # the driver prepares it after five times
            connection.execute(statement, values)
        assert all("free" in notice for notice in door.heard(connection))


def test_describing_never_charges_and_a_portal_executed_twice_charges_once(door: OpenDoor) -> None:
    statement = b"SELECT ward, count(*) FROM stays WHERE stay > 3.25 GROUP BY ward ORDER BY ward"
    with door.connect() as connection:
        before = door.charges()
        raw = connection.pgconn
        assert raw.prepare(b"later", statement).status == psycopg.pq.ExecStatus.COMMAND_OK
        described = raw.describe_prepared(b"later")
        assert [described.fname(place) for place in range(2)] == [b"ward", b"count"]
        assert [described.ftype(place) for place in range(2)] == [25, 20]
        assert door.charges() == before
        with connection.transaction(), connection.cursor("portal") as cursor:
            cursor.execute(statement.decode())
            assert door.charges() == before + 1
            first = cursor.fetchmany(1)
            rest = cursor.fetchall()
        assert [row[0] for row in first + rest] == ["children", "medicine", "surgery"]
        assert raw.exec_prepared(b"later", None).ntuples == 3
        assert door.charges() == before + 1


def test_a_pipeline_of_questions_and_other_statements_keeps_its_order(door: OpenDoor) -> None:
    with door.connect() as connection, connection.pipeline():
        cursors = [
            connection.execute(text)
            for text in (
                "SELECT 1",
                "SELECT count(*) FROM stays WHERE urgent",
                "SELECT current_database()",
                "SELECT sum(n) FROM (SELECT ward, count(*) AS n FROM stays GROUP BY ward) AS by_ward",
            )
        ]
        values = [cursor.fetchone()[0] for cursor in cursors]
    assert values[0] == 1
    assert values[2] == "stays"
    assert abs(values[1] - door.frame["urgent"].sum()) < WIDE
    assert abs(values[3] - ROWS) < 3 * WIDE


def test_copy_out_asks_and_copy_in_is_refused(door: OpenDoor) -> None:
    with door.connect() as connection:
        with connection.cursor().copy(
            "COPY (SELECT sex, count(*) FROM stays GROUP BY sex) TO STDOUT (FORMAT csv)"
        ) as copy:
            lines = b"".join(bytes(part) for part in copy).decode().splitlines()
        assert [line.split(",")[0] for line in lines] == ["female", "male", "", "<outside>"]
        for refused in ("COPY stays FROM STDIN", "COPY stays TO STDOUT", "COPY (TABLE stays) TO STDOUT"):
            with pytest.raises(errors.InsufficientPrivilege):
                _copy(connection, refused)


def _copy(connection, statement):
    with connection.cursor().copy(statement) as copy:
        return bytes(copy.read())


def test_an_error_of_the_door_fails_the_transaction_as_postgresql_would(door: OpenDoor) -> None:
    with door.connect(autocommit=False) as connection:
        with pytest.raises(errors.SyntaxError, match="did you mean 'female'") as raised:
            connection.execute("SELECT count(*) FROM stays WHERE sex = 'femal'")
        assert raised.value.diag.message_detail == "Code: invalid-sql"
        assert raised.value.diag.context is None
        with pytest.raises(errors.InFailedSqlTransaction):
            connection.execute("SELECT count(*) FROM stays")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_after_an_error_the_session_goes_on(door: OpenDoor) -> None:
    with door.connect() as connection:
        for _ in range(2):
            with pytest.raises(errors.SyntaxError, match="did you mean"):
                connection.execute("SELECT count(*) FROM stays WHERE sex = 'femal'", prepare=True)
            assert connection.execute("SELECT count(*) FROM stays WHERE urgent", prepare=True).fetchone()
            with pytest.raises(errors.UndefinedColumn):
                connection.execute("SELECT nothing, count(*) FROM stays GROUP BY 1", prepare=True)
            assert connection.execute("SELECT count(*) FROM stays WHERE age > %s", (3,)).fetchone()


def test_what_tools_wrap_into_queries_is_answered(door: OpenDoor) -> None:
    with door.connect() as connection:
        for statement in (
            "SELECT ward, count(*) FROM (SELECT * FROM stays WHERE age > 30) AS q01 GROUP BY ward ORDER BY ward",
            "WITH base AS (SELECT ward, age FROM stays) SELECT ward, count(*) FROM base GROUP BY 1 ORDER BY 1",
            'SELECT "stays"."public"."stays"."ward", count(*) FROM "stays"."public"."stays" GROUP BY 1 ORDER BY 1',
            'SELECT "t"."ward", count(*) FROM (SELECT "ward" FROM "public"."stays") AS "t" GROUP BY 1 ORDER BY 1',
        ):
            assert [row[0] for row in connection.execute(statement)] == ["children", "medicine", "surgery"]
        decades = connection.execute(
            "SELECT (age / 10) * 10 AS decade, count(*) FROM stays GROUP BY 1 ORDER BY 1"
        ).fetchall()
        assert [row[0] for row in decades[:10]] == list(range(0, 100, 10))


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "day"])
def test_parts_of_days_are_groups_and_conditions(door: OpenDoor, unit) -> None:
    parts = getattr(door.frame["admitted"].dt, unit)().to_list()
    with door.connect() as connection:
        grouped = f"SELECT extract({unit} FROM admitted), count(*) FROM stays GROUP BY 1"  # noqa: S608
        counts = dict(connection.execute(grouped).fetchall())
        assert all(abs(counts[part] - parts.count(part)) < WIDE for part in set(parts))
        where = f"SELECT count(*) FROM stays WHERE extract({unit} FROM admitted) = 1"  # noqa: S608
        assert abs(connection.execute(where).fetchone()[0] - parts.count(1)) < WIDE


def test_rows_that_noise_selects_are_told_and_can_have_intervals_that_hold_for_all(door: OpenDoor) -> None:
    largest = "SELECT age, count(*) AS n FROM stays GROUP BY age ORDER BY n DESC LIMIT 2"
    hint = "SET dodona.intervals = simultaneous covers them all"
    with door.connect() as connection:
        connection.execute("SET dodona.intervals = on")
        pointwise = connection.execute(largest).fetchall()
        assert hint in door.heard(connection)[0]
        connection.execute("SET dodona.intervals = simultaneous")
        both = connection.execute(largest).fetchall()
        assert hint not in door.heard(connection)[0]
        assert [row[:2] for row in both] == [row[:2] for row in pointwise]
        assert all(wide[3] - wide[2] > narrow[3] - narrow[2] for wide, narrow in zip(both, pointwise, strict=True))
        connection.execute("SET dodona.intervals = off")
        connection.execute("SELECT age, count(*) AS n FROM stays GROUP BY age ORDER BY n DESC LIMIT 1000")
        assert hint not in door.heard(connection)[0]
        connection.execute("SELECT age, count(*) FROM stays GROUP BY age HAVING count(*) > 300")
        assert hint in door.heard(connection)[0]
        connection.execute("SELECT sex, avg(age) FROM stays GROUP BY sex")
        assert ", in the worst row ±" in door.heard(connection)[0]
        connection.execute("SET dodona.intervals = perhaps")
        with pytest.raises(psycopg.Error, match="write on, off or simultaneous"):
            connection.execute("SELECT count(*) FROM stays")


def test_a_price_above_the_maximum_is_refused_and_not_charged(door: OpenDoor) -> None:
    with door.connect(options="-c dodona.max_price=0.001% -c dodona.within=0.5%") as connection:
        before = door.charges()
        with pytest.raises(errors.InsufficientPrivilege, match=r"max_price.*Nothing was charged") as refused:
            connection.execute("SELECT count(*) FROM stays WHERE age = 77", prepare=True)
        assert door.charges() == before
        (allowed,) = re.findall(r"To allow it, write (SET dodona.max_price = '.*?')", str(refused.value))
        connection.execute(allowed)
        connection.execute("SELECT count(*) FROM stays WHERE age = 77")
        assert door.charges() == before + 1


def test_settings_hold_for_a_session_a_transaction_a_connection_and_a_role(door: OpenDoor) -> None:
    question = "SELECT ward, count(*) AS n FROM stays WHERE age < 30 GROUP BY ward"
    with door.connect("bob", options="-c dodona.within=11% -c dodona.fresh=on") as connection:
        connection.execute(question)
        assert "n ±330 at 95%" in door.heard(connection)[0].replace("count", "n")
        with connection.transaction():
            connection.execute("SET LOCAL dodona.within = '9%'")
            connection.execute(question)
            assert "±270 at 95%" in door.heard(connection)[0]
        connection.execute("SET dodona.confidence = '0.99'; SET dodona.intervals = on")
        cursor = connection.execute(question)
        assert [column.name for column in cursor.description] == ["ward", "n", "n_low", "n_high"]
        assert all(low < count < high for _, count, low, high in cursor)
        connection.execute("ALTER ROLE bob SET dodona.within = '8%'")
        with pytest.raises(errors.UndefinedObject):
            connection.execute("ALTER ROLE ada SET dodona.within = '1%'")
        with pytest.raises(errors.InvalidParameterValue, match="within"):
            connection.execute("SET dodona.within = 'much'; SELECT count(*) FROM stays WHERE age < 29")
    with door.connect("bob") as connection:
        assert connection.execute("SHOW dodona.within").fetchone() == ("8%",)
        connection.execute("ALTER USER bob RESET dodona.within")


def test_explain_quotes_and_charges_nothing(door: OpenDoor) -> None:
    with door.connect() as connection:
        before = door.charges()
        for prepare in (False, True):
            explained = connection.execute("EXPLAIN SELECT median(stay) FROM stays WHERE age > 60", prepare=prepare)
            lines = [line for (line,) in explained]
            assert lines[0] == "Dodona asks: SELECT median(stay) FROM stays WHERE age > 60"
            assert any(line.startswith("Price: ") for line in lines)
        assert door.charges() == before


def test_intervals_by_function_and_relations_of_the_door(door: OpenDoor) -> None:
    with door.connect() as connection:
        connection.row_factory = rows.dict_row
        row = connection.execute(
            "SELECT sex, count(*) AS n, dp_interval_low(n) AS low, DP_INTERVAL_HIGH(count(*)) FROM stays GROUP BY sex"
        ).fetchone()
        assert row["low"] < row["n"] < row["dp_interval_high"]
        with pytest.raises(errors.UndefinedColumn, match="DP_INTERVAL_LOW"):
            connection.execute("SELECT count(*) AS n, DP_INTERVAL_LOW(m) FROM stays")
        budget = connection.execute("SELECT * FROM dodona.budget").fetchone()
        assert budget["charges"] == door.charges()
        assert budget["spent"] + budget["left"] == pytest.approx(1)
        history = connection.execute("SELECT count(*) AS n FROM dodona.history h WHERE h.share > 0").fetchone()
        assert history["n"] == door.charges()
        columns = connection.execute("SELECT column_name FROM dodona.columns ORDER BY place").fetchall()
        assert [column["column_name"] for column in columns] == ["sex", "ward", "age", "stay", "admitted", "urgent"]


def test_several_questions_of_a_statement_are_one_charge(door: OpenDoor) -> None:
    statement = """SELECT ward, round(100.0 * count(*) / (SELECT count(*) FROM stays WHERE age > 21), 1) AS percent
        FROM stays WHERE age > 21 AND urgent GROUP BY ward
        UNION ALL SELECT 'all', sum(n) FROM (SELECT sex, count(*) AS n FROM stays WHERE age > 21 GROUP BY sex) AS t"""
    with door.connect() as connection:
        before = door.charges()
        first = connection.execute(statement).fetchall()
        assert door.charges() == before + 1
        assert connection.execute(statement).fetchall() == first
        assert door.charges() == before + 1
        assert len(first) == 4


def test_a_cancelled_statement_ends_and_others_cannot_cancel_it(door: OpenDoor) -> None:
    with door.connect() as connection, door.connect("bob") as other:
        pid = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
        with pytest.raises(errors.InsufficientPrivilege):
            other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        timer = threading.Timer(0.3, connection.cancel_safe)
        timer.start()
        with pytest.raises(errors.QueryCanceled):
            connection.execute("SELECT pg_sleep(30)")
        timer.join()
        assert connection.execute("SELECT 2").fetchone() == (2,)


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "EUC_JP", "SQL_ASCII", "UTF8"])
def test_texts_keep_their_letters_in_every_encoding_of_a_client(door: OpenDoor, encoding) -> None:
    text = {"EUC_JP": "漢字"}.get(encoding, "café")
    with door.connect(client_encoding=encoding) as connection:
        codec = connection.info.encoding if encoding != "SQL_ASCII" else "utf-8"
        for answered in ("", ", count(*) AS n FROM stays"):
            for result in (
                connection.pgconn.exec_(f"SELECT '{text}' AS \"{text}\"{answered}".encode(codec)),
                connection.pgconn.exec_params(
                    f'SELECT $1::text AS "{text}"{answered}'.encode(codec), [text.encode(codec)]
                ),
            ):
                assert result.error_message == b""
                assert (result.fname(0), result.get_value(0, 0)) == (text.encode(codec),) * 2
        asked = f"SELECT count(*) FROM stays WHERE ward <> '{text}'".encode(codec)  # noqa: S608
        assert text.encode(codec) in connection.pgconn.exec_(asked).error_message
        connection.execute("SET client_encoding = 'UTF8'")
        assert connection.execute("SELECT 'é' AS x, count(*) FROM stays").fetchone()[0] == "é"


def test_a_text_that_is_no_text_is_refused_by_postgresql_itself(door: OpenDoor) -> None:
    with door.connect() as connection:
        refused = connection.pgconn.exec_(b"SELECT 'caf\xe9', count(*) FROM stays")
        assert refused.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"22021"


@pytest.mark.parametrize(
    "statement",
    [
        "NOTIFY wards, 'x'", "SELECT 1; notify wards", "/* x */ LISTEN wards", "BEGIN; LISTEN wards; COMMIT",
        "SET standard_conforming_strings = off; SELECT '\\''; NOTIFY wards --'", "SELECT pg_notify('wards', 'x')",
    ],
)  # fmt: skip
def test_sessions_send_each_other_no_messages(door: OpenDoor, statement) -> None:
    with door.connect() as connection:
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(statement)
        connection.rollback()
        assert connection.execute("SELECT 'NOTIFY', 'listen' AS listen").fetchone() == ("NOTIFY", "listen")
        connection.execute("UNLISTEN *")
