"""Made-up rows where the owner allows them, and the counts of the door for operators."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg import errors

from tests.door.scene import OpenDoor, make_stays
from tests.server.serving import serving


@pytest.fixture(scope="module")
def open_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDoor]:
    folder: Path = tmp_path_factory.mktemp("previews")
    frame = make_stays(folder)
    file = folder / "stays.toml"
    text = file.read_text().replace("[defaults]", "[defaults]\npreviews = true")
    file.write_text(text.replace("[columns.age]", '[columns.age]\nmeans = "Whole years, at admission"'))
    with serving(folder, ["--sql", "0"]) as server:
        yield OpenDoor(server, frame, None)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM stays LIMIT 20",
        'SELECT "public"."stays"."sex" AS "sex", "public"."stays"."age" AS "age" FROM "public"."stays" LIMIT 20',
        'SELECT "stays"."public"."stays"."sex" FROM "stays"."public"."stays" LIMIT 20',
        "SELECT s.sex, s.admitted FROM stays s WHERE s.age > 10 ORDER BY s.age LIMIT 20",
        "SELECT * FROM (SELECT sex, age FROM stays) AS virtual_table LIMIT 20",
    ],
)
def test_tools_that_ask_for_rows_see_made_up_ones_and_are_told(open_door: OpenDoor, statement: str) -> None:
    with open_door.connect() as connection:
        before = open_door.charges()
        rows = connection.execute(statement).fetchall()
        assert len(rows) == 20
        assert any("made up" in notice for notice in open_door.heard(connection))
        assert open_door.charges() == before


def test_made_up_rows_have_the_types_and_the_bounds_that_are_declared(open_door: OpenDoor) -> None:
    with open_door.connect() as connection:
        rows = connection.execute("SELECT sex, ward, age, stay, admitted, urgent FROM stays").fetchall()
    assert len(rows) == 100
    assert {row[0] for row in rows} == {"female", "male"}
    assert all(0 <= row[2] <= 110 and 0 <= row[3] <= 30 and row[4].year == 2024 for row in rows)
    assert {row[5] for row in rows} == {True, False}


def test_a_column_says_what_it_means_where_tools_look_for_comments(open_door: OpenDoor) -> None:
    with open_door.connect() as connection:
        found = connection.execute(
            "SELECT col_description(attrelid, attnum) FROM pg_attribute "
            "WHERE attrelid = 'stays'::regclass AND attname = 'age'"
        ).fetchall()
    assert found == [("Whole years, at admission (integer: 0 to 110; grouped by 0, 18, 40, 65, 110)",)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT EXISTS (SELECT 1 FROM stays WHERE age > 100)",
        "SELECT 1 WHERE 5 IN (SELECT age FROM stays)",
        "SELECT (SELECT age FROM stays LIMIT 1)",
        "SELECT sum(age) OVER () FROM stays",
        "WITH r AS MATERIALIZED (SELECT * FROM stays) SELECT * FROM r, LATERAL (SELECT 1) AS t",
        "SELECT * FROM stays UNION ALL SELECT * FROM stays",
        "TABLE stays",
    ],
)
def test_nothing_is_computed_from_made_up_rows(open_door: OpenDoor, statement: str) -> None:
    with open_door.connect() as connection, pytest.raises((errors.InsufficientPrivilege, psycopg.DatabaseError)):
        connection.execute(statement).fetchall()


def test_an_aggregate_is_answered_from_the_data_all_the_same(open_door: OpenDoor) -> None:
    with open_door.server.client("ada") as ada:
        preview = ada.get("/datasets/stays/preview").json()
        assert preview["made_up"] is True
        assert len(preview["rows"]) == 100
    with open_door.connect() as connection:
        (count,) = connection.execute("SELECT count(*) FROM (SELECT * FROM stays) AS t").fetchone() or (0,)
    assert abs(count - len(open_door.frame)) < 1000  # five tolerances; 100 rows are made up


def test_operators_see_what_the_door_does(open_door: OpenDoor) -> None:
    with open_door.connect() as connection:
        connection.execute("SELECT count(*) FROM stays").fetchone()
        address = open_door.server.sql_operations
        assert httpx.get(address + "/health").status_code == 200
        assert httpx.get(address + "/ready").status_code == 200
        text = httpx.get(address + "/metrics").text
    assert re.search(r'^dodona_requests_total\{act="ask",door="sql",status="200"\} [1-9]', text, re.MULTILINE)
    assert re.search(r"^dodona_connections 1", text, re.MULTILINE)
    assert "stays" not in text


def test_without_permission_rows_are_refused_as_before(door: OpenDoor) -> None:
    with door.connect() as connection, pytest.raises(errors.InsufficientPrivilege, match="Rows are never shown"):
        connection.execute("SELECT * FROM stays LIMIT 20")


def test_an_open_transaction_keeps_nobody_out_when_the_dataset_file_changes(open_door: OpenDoor) -> None:
    file = open_door.server.folder / "stays.toml"
    written, mirror = file.read_text(), "SELECT 'stays'::regclass::oid"
    with open_door.connect(autocommit=False) as idle:  # as drivers begin one, and tools leave it open
        (before,) = idle.execute(mirror).fetchone() or ()
        idle.execute("SELECT sex, count(*) AS asked_here_alone FROM stays GROUP BY sex")
        file.write_text(written.replace("previews = true\n", ""))
        current, until = before, time.monotonic() + 30
        while current == before:
            assert time.monotonic() < until
            with open_door.connect("bob", connect_timeout="10") as connection:
                (current,) = connection.execute(mirror).fetchone() or ()
        with pytest.raises(psycopg.OperationalError):  # what it was told about the table no longer holds
            idle.execute("SELECT 1")
    file.write_text(written)
