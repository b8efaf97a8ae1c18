"""Other real clients of PostgreSQL ask at the door: each step is one that its users take every day."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pandas as pd
import pg8000.dbapi
import polars as pl
import psycopg2
import pytest
import sqlalchemy as sa
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.door.scene import ROWS, OpenDoor

GROUPS = "SELECT ward, count(*) AS n FROM stays GROUP BY ward ORDER BY ward"
WARDS = ["children", "medicine", "surgery"]
JDBC = Path("/usr/share/java/postgresql.jar")


def unverified() -> ssl.SSLContext:
    """Return how to connect to a server whose certificate nobody signed."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


# --- psql. ---


def psql(door: OpenDoor, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["psql", "-X", "-v", "ON_ERROR_STOP=0", *options, door.address()]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=False, timeout=120)


def test_psql_lists_and_describes_everything(door: OpenDoor) -> None:
    commands = (
        r"\d \d+ \d_stays \d+_stays \dt \dt+ \di \ds \dv \dm \dn \dn+ \du \dp \dC \dD \dT \dF \dg \dL \do \dO \dx \df"
        r" \da \l \l+ \conninfo \encoding \dRp \des \dew \det \dy \ddp \dconfig \drds \z"
    )
    script = "\n".join(word.replace("_", " ") for word in commands.split())
    done = psql(door, script + "\n\\dt+ stays\n")
    assert set(done.stderr.splitlines()) <= {"Did not find any relations.", "Did not find any settings."}
    assert "CHECK (age >= 0 AND age <= 110)" in done.stdout
    assert "Protects each person." in done.stdout


def test_psql_asks_copies_describes_and_fetches_in_parts(door: OpenDoor) -> None:
    done = psql(door, f"{GROUPS};\n{GROUPS} \\gdesc\n\\copy ({GROUPS}) TO STDOUT CSV\n", "-A", "-t", "-F", ",")
    lines = done.stdout.splitlines()
    assert [line.split(",")[0] for line in lines[:3]] == WARDS
    assert lines[3:5] == ["ward,text", "n,bigint"]
    assert lines[5:] == lines[:3]
    assert re.search(r"NOTICE:  count ±[\d.]+ at 95%\. Price: ", done.stderr)
    done = psql(door, f"\\set FETCH_COUNT 2\n{GROUPS};\n\\set n 3\n{GROUPS} \\crosstabview\n", "-A", "-t", "-F", ",")
    assert [line.split(",")[0] for line in done.stdout.splitlines()[:3]] == WARDS
    done = psql(door, "SELECT * FROM stays;\nSELECT 1 AS alive;\nSELECT count(*) FROM stay;\n")
    assert "Rows are never shown" in done.stderr
    assert 'relation "stay" does not exist' in done.stderr
    assert "alive" in done.stdout


# --- Drivers of Python. ---


def test_asyncpg_prepares_binds_streams_and_copies(door: OpenDoor) -> None:
    async def ask() -> None:
        pool = asyncpg.create_pool(
            host="127.0.0.1", port=door.port, user="ada", password=door.server.tokens["ada"], database="stays",
            ssl=unverified(), min_size=1, max_size=1,
        )  # fmt: skip
        async with pool, pool.acquire() as connection:
            heard: list[Any] = []
            connection.add_log_listener(listen := lambda _, notice: heard.append(notice))
            prepared = await connection.prepare(
                "SELECT ward, count(*)::int AS n FROM stays WHERE age >= $1 GROUP BY ward ORDER BY 1"
            )
            assert [parameter.name for parameter in prepared.get_parameters()] == ["int4"]
            assert [attribute.type.name for attribute in prepared.get_attributes()] == ["text", "int4"]
            assert heard == []
            assert [row["ward"] for row in await prepared.fetch(18)] == WARDS
            assert "Price:" in heard[0].message
            assert await connection.fetchval("SELECT count(*) FROM stays WHERE ward = ANY($1::text[])", ["surgery"]) > 0
            async with connection.transaction():
                counts = [row["n"] async for row in connection.cursor(GROUPS, prefetch=1)]
            assert abs(sum(counts) - ROWS) < 0.3 * ROWS
            sink = io.BytesIO()
            await connection.copy_from_query(GROUPS, output=sink, format="csv")
            assert [line.split(",")[0] for line in sink.getvalue().decode().splitlines()] == WARDS
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.fetch("SELECT * FROM stays")
            assert await connection.fetch("SELECT * FROM stays LIMIT 0") == []
            connection.remove_log_listener(listen)
            await pool.release(connection)  # which unlocks and unlistens
            assert await pool.fetchval("SELECT count(*) FROM stays") > 0

    asyncio.run(ask())


def test_psycopg2_and_pg8000_ask(door: OpenDoor) -> None:
    with psycopg2.connect(door.address()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT ward, count(*) FROM stays WHERE age >= %s GROUP BY ward ORDER BY ward", (40,))
        assert [row[0] for row in cursor] == WARDS
    connection.close()
    words = {"host": "127.0.0.1", "port": door.port, "database": "stays", "ssl_context": unverified()}
    other = pg8000.dbapi.connect("ada", password=door.server.tokens["ada"], **words)
    other_cursor = other.cursor()
    other_cursor.execute("SELECT ward, count(*) FROM stays WHERE age >= %s GROUP BY ward ORDER BY ward", (40,))
    assert [row[0] for row in other_cursor.fetchall()] == WARDS
    other.close()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_sqlalchemy_reflects_and_pandas_reads(door: OpenDoor, driver) -> None:
    engine = sa.create_engine(door.url(scheme=f"postgresql+{driver}", query="?sslmode=require"))
    with engine.connect() as connection:
        table = sa.Table("stays", sa.MetaData(), autoload_with=engine)
        assert [str(column.type) for column in table.columns][:4] == ["TEXT", "TEXT", "INTEGER", "DOUBLE PRECISION"]
        seen = sa.inspect(engine)
        assert seen.get_table_names() == ["stays"]
        assert seen.get_schema_names() == ["dodona", "information_schema", "public"]
        assert any("age" in constraint["sqltext"] for constraint in seen.get_check_constraints("stays"))
        month = sa.func.date_trunc("month", table.c.admitted).label("month")
        question = sa.select(month, sa.func.count().label("n")).where(table.c.age > 17).group_by(month).order_by(month)
        assert len(connection.execute(question).all()) == 12 + 2  # what is missing, and what is outside
        share = sa.select(
            table.c.ward, sa.func.count(), sa.func.rank().over(order_by=sa.desc(sa.func.count()))
        ).group_by(table.c.ward)
        assert sorted(row[2] for row in connection.execute(share)) == [1, 2, 3]
        frame = pd.read_sql_query(sa.text(GROUPS), connection)
        assert list(frame["ward"]) == WARDS
        assert frame["n"].dtype == "int64"
    engine.dispose()


def test_polars_reads_by_adbc(door: OpenDoor) -> None:
    frame = pl.read_database_uri(GROUPS, door.url(query="?sslmode=require"), engine="adbc")
    assert frame["ward"].to_list() == WARDS
    assert frame.schema["n"] == pl.Int64


def test_pgcli_completes_and_asks(door: OpenDoor, tmp_path) -> None:
    command = [
        sys.executable,
        "-m",
        "pgcli.main",
        "--warn",
        "off",
        "--less-chatty",
        "--pgclirc",
        str(tmp_path / "rc"),
        door.url(query="?sslmode=require"),
    ]
    outside = os.environ | {"HOME": str(tmp_path), "PAGER": "cat", "TERM": "dumb"}
    done = subprocess.run(
        command, input=f"\\d\n{GROUPS};\nexit\n", capture_output=True, text=True, check=False, timeout=120, env=outside
    )
    assert all(ward in done.stdout for ward in WARDS), done.stderr
    assert "Price:" in done.stdout + done.stderr


# --- Java. ---


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    """A Java machine with PostgreSQL's driver, which calls it from here."""
    assert JDBC.is_file(), "install the driver: apt-get install libpostgresql-jdbc-java"
    port, process = launch_gateway(classpath=str(JDBC), die_on_exit=True, return_proc=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    yield gateway.jvm
    gateway.shutdown()
    process.stdin.close()
    process.stdout.close()
    process.wait()


@pytest.mark.parametrize("mode", ["extended", "simple"])
def test_jdbc_describes_binds_fetches_in_parts_and_warns(door: OpenDoor, java, mode) -> None:
    address = f"jdbc:postgresql://localhost:{door.port}/stays?sslmode=require&preferQueryMode={mode}"
    properties = java.java.util.Properties()
    properties.setProperty("user", "ada")
    properties.setProperty("password", door.server.tokens["ada"])
    connection = java.org.postgresql.Driver().connect(address, properties)
    try:
        facts = connection.getMetaData()
        tables = facts.getTables(None, "public", "%", None)
        assert tables.next()
        assert (tables.getString("TABLE_NAME"), tables.getString("REMARKS")[:9]) == ("stays", "Protects ")
        columns, names = facts.getColumns(None, "public", "stays", "%"), []
        while columns.next():
            names.append((columns.getString("COLUMN_NAME"), columns.getInt("DATA_TYPE")))
        assert names[:4] == [("sex", 12), ("ward", 12), ("age", 4), ("stay", 8)]
        connection.setAutoCommit(False)
        asking = connection.prepareStatement(
            "SELECT ward, count(*) AS n FROM stays WHERE age >= ? GROUP BY ward ORDER BY 1"
        )
        asking.setFetchSize(2)
        asking.setInt(1, 18)
        rows, groups = asking.executeQuery(), []
        while rows.next():
            groups.append((rows.getString(1), rows.getLong("n")))
        assert [group[0] for group in groups] == WARDS
        assert "Price:" in asking.getWarnings().getMessage()
        plain = connection.createStatement()
        with pytest.raises(Exception, match="Rows are never shown"):
            plain.executeQuery("SELECT * FROM stays")
        connection.rollback()
        rows = plain.executeQuery("SELECT urgent, avg(stay) FROM stays GROUP BY urgent ORDER BY 1")
        assert rows.next()
        assert (rows.getBoolean(1), 0 < rows.getDouble(2) < 30) == (False, True)
    finally:
        connection.close()


def test_a_file_of_answers_is_what_was_answered(door: OpenDoor) -> None:
    done = psql(door, f"\\copy ({GROUPS}) TO STDOUT CSV HEADER\n")
    with door.connect() as connection:
        expected = connection.execute(GROUPS).fetchall()
    assert [(row["ward"], int(row["n"])) for row in csv.DictReader(io.StringIO(done.stdout))] == expected
