"""A table in PostgreSQL: what the role may do, what the wire carries, and what happens when it is cut."""

from __future__ import annotations

import struct
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import psycopg
import pytest

from dodona.engines.cells import SourceUnfit
from dodona.engines.postgres import PostgresSource
from dodona.errors import InvalidArgument
from dodona.query.query import Query
from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number
from dodona.schema.schema import Schema
from dodona.trusted.source import SourceFailed
from tests.engines.scene import KEY, OPENED, values
from tests.engines.server import held, owner
from tests.ledger.proxy import Proxy
from tests.ledger.scene import shared_server
from tests.ledger.server import Server

AGE = Schema.of("ages", Integer("age", 0, 9), size=10)
COUNT = Query.count(AGE.domain)
PEOPLE = Schema.of("ages", Integer("age", 0, 9), size=10, id="who", rows=2)
AGES = Query.histogram(AGE.domain, ["age"])


def ages(*, types: str = "integer") -> str:
    return held("ages", {"age": [1, 2, 3]}, {"age": types})


def opened(table: str, schema: Schema = AGE, *, timeout: float = 60, url: str | None = None) -> PostgresSource:
    source = PostgresSource(
        schema, shared_server().address if url is None else url, table=table, timeout=timeout, key=KEY
    )
    OPENED.append(source)
    return source


@pytest.fixture(scope="module")
def reader() -> Iterator[str]:
    """The address of a role that has a password and no rights."""
    server = shared_server()
    access = server.folder / "data" / "pg_hba.conf"
    before = access.read_text()
    access.write_text(f"host all reader 127.0.0.1/32 scram-sha-256\n{before}")
    with owner() as connection:
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'open sesame'")
        connection.execute("SELECT pg_reload_conf()")
    yield f"postgresql://reader:open%20sesame@127.0.0.1:{server.port}/postgres"
    access.write_text(before)
    with owner() as connection:
        connection.execute("DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")
        connection.execute("SELECT pg_reload_conf()")


def slow_view() -> tuple[str, str]:
    """A view that sleeps as long as a table says, and that table."""
    table = ages()
    space = table.partition(".")[0]
    with owner() as connection:
        connection.execute(f"CREATE TABLE {space}.pause AS SELECT 0.0 AS seconds")
        connection.execute(
            f"CREATE VIEW {space}.slow AS SELECT age FROM {table} "  # noqa: S608
            f"WHERE (SELECT pg_sleep(max(seconds)) FROM {space}.pause) IS NOT NULL"
        )
    return f"{space}.slow", f"{space}.pause"


def asleep(pause: str, seconds: float) -> None:
    with owner() as connection:
        connection.execute(f"UPDATE {pause} SET seconds = {seconds}")  # noqa: S608


@contextmanager
def failing(source: PostgresSource) -> Iterator[None]:
    """Ask in another thread; the question must fail in constant words by the end of the block."""
    caught = list[BaseException]()

    def ask() -> None:
        try:
            source.exact(COUNT)
        except SourceFailed as fault:
            caught.append(fault)

    thread = threading.Thread(target=ask)
    thread.start()
    yield
    thread.join(timeout=60)
    assert len(caught) == 1
    assert str(caught[0]) == str(SourceFailed())
    assert caught[0].__cause__ is None
    assert caught[0].__context__ is None


def ended(marked: str) -> None:
    """End the server's side of the connection whose statement has a mark in it, once it runs."""
    query = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dodona source' AND query ~ %s"
    )
    until = time.monotonic() + 20
    with owner() as connection:
        while not connection.execute(f"{query} AND state = 'active'", (marked,)).fetchall():
            assert time.monotonic() < until
            time.sleep(0.01)


# --- what the role may do ---


def test_a_role_that_may_read_one_table_is_enough_and_cannot_write(reader: str):
    table, other = ages(), ages()
    space = table.partition(".")[0]
    with owner() as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA {space} TO reader")
        with pytest.raises(SourceUnfit, match=r"may not read the column age. Grant it"):
            opened(table, url=reader)
        connection.execute(f"GRANT SELECT ON {table} TO reader")
    source = opened(table, url=reader)
    assert values(source, COUNT) == [3]
    with pytest.raises(SourceUnfit, match="may not use the schema"):
        opened(other, url=reader)
    for sql in (f"DELETE FROM {table}", f"SELECT * FROM {other}", "CREATE TEMPORARY TABLE t (i int)"):  # noqa: S608
        with pytest.raises(SourceFailed):
            source._session.run(lambda connection, sql=sql: connection.execute(sql))
    assert values(source, COUNT) == [3]


def test_grants_on_the_declared_columns_are_enough(reader: str):
    table = held("ages", {"age": [1, 2], "secret": ["a", "b"]}, {"age": "integer", "secret": "text"})
    with owner() as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA {table.partition('.')[0]} TO reader")
        connection.execute(f"GRANT SELECT (age) ON {table} TO reader")
    assert values(opened(table, url=reader), COUNT) == [2]


def test_even_a_role_that_may_write_cannot_through_a_source():
    table = ages()
    source = opened(table)
    for sql in (f"DELETE FROM {table}", "CREATE TABLE public.t (i int)", f"DROP TABLE {table}"):  # noqa: S608
        with pytest.raises(SourceFailed):
            source._session.run(lambda connection, sql=sql: connection.execute(sql))
    assert values(source, COUNT) == [3]


def test_names_are_looked_up_where_they_were_said_to_be_and_nowhere_else():
    table = ages()
    source = opened(table)
    with owner() as connection:
        connection.execute("CREATE TABLE public.div (i int)")
        connection.execute("CREATE FUNCTION public.div(numeric, numeric) RETURNS numeric LANGUAGE sql RETURN 77")
        try:
            search_path = source._session.run(lambda own: own.execute("SHOW search_path").fetchall())
            assert search_path == [("pg_catalog, pg_temp",)]
            assert values(source, Query.sum(AGE.domain, "age")) == [6]
        finally:
            connection.execute("DROP FUNCTION public.div(numeric, numeric)")
            connection.execute("DROP TABLE public.div")


# --- what the owner is told ---


def test_a_wrong_password_is_told_without_the_address(reader: str):
    wrong = reader.replace("sesame", "barley")
    with pytest.raises(SourceUnfit, match="does not let this role in with this password") as caught:
        opened("public.ages", url=wrong)
    assert "barley" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://ada:secret@127.0.0.1:1/none", "cannot be reached"),
        ("postgresql://ada:secret@127.0.0.1:notaport/none", "cannot be read|cannot be reached"),
        ("secret", "cannot be read"),
    ],
)
def test_an_address_that_leads_nowhere_is_told_without_it(url: str, words: str):
    with pytest.raises(SourceUnfit, match=words) as caught:
        opened("public.ages", url=url)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_table_that_is_not_there_is_named_with_one_that_is_spelled_alike():
    table = ages()
    space = table.partition(".")[0]
    with pytest.raises(SourceUnfit, match=rf"no table {space}\.Ages.*It has {space}\.ages: write"):
        opened(f"{space}.Ages")
    with pytest.raises(SourceUnfit, match=r"no table public\.nothing\. Check"):
        opened("nothing")
    for name in ("a.b.c", ".b", ""):
        with pytest.raises(SourceUnfit, match=r"written as public\.stays"):
            opened(name)


def test_a_column_that_is_not_there_is_named():
    table = held("ages", {"Age": [1]}, {"Age": "integer"})
    with pytest.raises(SourceUnfit, match=r"The column age is declared as an integer.*It has Age: write"):
        opened(table)
    with pytest.raises(SourceUnfit, match="The column who is declared as the id of people"):
        opened(ages(), PEOPLE)


DAY = Date("x", *(np.datetime64(day).item() for day in ("2024-01-01", "2024-01-02")))


@pytest.mark.parametrize(
    ("attribute", "kind"),
    [
        (Category("x", ["a"]), "integer"),
        (Category("x", ["a"]), "uuid"),
        (Integer("x", 0, 1), "bytea"),
        (Integer("x", 0, 1), "integer[]"),
        (Integer("x", 0, 1), "money"),
        (Number("x", 0, 1, 1), "date"),
        (Number("x", 0, 1, 1), "interval"),
        (DAY, "integer"),
        (DAY, "time"),
        (Boolean("x"), "timestamp"),
        (Boolean("x"), "json"),
    ],
)
def test_a_type_that_cannot_be_meant_is_refused(attribute: Attribute, kind: str):
    table = held("t", {"x": []}, {"x": kind})
    with pytest.raises(SourceUnfit, match=rf"x is declared as an? {attribute.kind}, and the table holds {kind[:4]}"):
        opened(table, Schema.of("t", attribute, size=1))


@pytest.mark.parametrize("kind", ["json", "point", "integer[]"])
def test_people_need_a_type_that_tells_them_apart(kind: str):
    table = held("ages", {"age": [], "who": []}, {"age": "integer", "who": kind})
    with pytest.raises(SourceUnfit, match="who is declared as the id of people, and the table holds"):
        opened(table, PEOPLE)


def test_a_timeout_is_a_number_of_seconds():
    for timeout in (0, -1, float("nan"), 1e9):
        with pytest.raises(InvalidArgument, match="timeout"):
            opened("public.ages", timeout=timeout)


def test_a_column_whose_type_changed_is_not_read_as_what_it_was():
    table = ages()
    source = opened(table)
    with owner() as connection:
        connection.execute(f"ALTER TABLE {table} ALTER age TYPE bigint")
    with pytest.raises(SourceFailed):
        source.exact(COUNT)
    assert values(opened(table), COUNT) == [3]
    with owner() as connection:
        connection.execute(f"ALTER TABLE {table} ALTER age TYPE date USING NULL")
    with pytest.raises(SourceUnfit, match="holds date in it"):
        opened(table)


def test_a_view_that_fails_on_a_row_is_found_when_it_is_opened():
    table = ages()
    space = table.partition(".")[0]
    with owner() as connection:
        connection.execute(f"CREATE VIEW {space}.broken AS SELECT 1 / (age - 2) AS age FROM {table}")  # noqa: S608
        connection.execute(f"CREATE VIEW {space}.whole AS SELECT age FROM {table}")  # noqa: S608
        connection.execute(f"CREATE MATERIALIZED VIEW {space}.kept AS SELECT age FROM {table}")  # noqa: S608
    with pytest.raises(SourceUnfit, match="The view cannot be read"):
        opened(f"{space}.broken")
    assert values(opened(f"{space}.whole"), COUNT) == values(opened(f"{space}.kept"), COUNT) == [3]


# --- what the wire carries ---


def rows_sent(heard: bytes) -> int:
    """How many rows of COPY are in what a server said: each is a message of its own, and so is the end."""
    place = count = 0
    while place < len(heard):
        (length,) = struct.unpack_from(">i", heard, place + 1)
        count += heard[place : place + 1] == b"d"
        place += 1 + length
    return count - 1


@pytest.mark.parametrize("capped", [False, True])
def test_no_more_rows_come_back_than_the_query_has_cells(capped):
    number = 5_000
    columns = {
        "age": [row % 12 - 1 for row in range(number)],
        "sex": ["secret-label" if row % 5 else "f" for row in range(number)],
        "who": [f"secret-person-{row}" for row in range(number)],
    }
    table = held("stays", columns, {"age": "integer", "sex": "text", "who": "text"})
    unit = {"id": "who", "rows": 2} if capped else {}
    schema = Schema.of("stays", Integer("age", 0, 9), Category("sex", ["f", "m"]), size=number, **unit)
    with Proxy(shared_server().port, cut=10**9) as wire:
        url = f"postgresql://owner@127.0.0.1:{wire.port}/postgres?sslmode=disable&gssencmode=disable"
        source = opened(table, schema, url=url)
        for query, most in (
            (Query.count(schema.domain), 1),
            (Query.histogram(schema.domain, ["sex"]), 4),
            (Query.histogram(schema.domain, ["age", "sex"]), 48),
        ):
            wire.heard.clear()
            assert sum(values(source, query)) == number
            assert 0 < rows_sent(bytes(wire.heard)) <= most
            assert b"secret" not in wire.heard
        source.close()


def test_a_person_with_ten_thousand_rows_moves_an_answer_by_the_cap_at_most():
    others = {"age": [row % 10 for row in range(300)], "who": [f"p{row // 3}" for row in range(300)]}
    many = {"age": [row % 10 for row in range(10_000)], "who": ["ada"] * 10_000}
    both = {name: others[name] + many[name] for name in others}
    types = {"age": "integer", "who": "text"}
    without, within = (values(opened(held("ages", columns, types), PEOPLE), AGES) for columns in (others, both))
    moved = np.array(within) - np.array(without)
    assert sum(without) == 200
    assert moved.sum() == 2
    assert (moved >= 0).all()


@pytest.mark.parametrize(
    ("kind", "people", "counted"),
    [
        ("double precision", ["1", "1.0", "NaN", "NaN", "NaN", None, "-0", "0"], [4]),
        ("real", ["1", "1", "1", "NaN", "NaN", "NaN"], [2]),
        ("numeric", ["1", "1.00", "1.0", "NaN", "NaN", "NaN"], [2]),
        ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"] * 3 + [None], [2]),
        ("character(5)", ["a", "a ", "a  ", "b"], [3]),
        ("text", ["a", "a ", "A", "a", "a"], [4]),
        ("bytea", ["\\x00", "\\x00", "\\x00", "\\x01"], [3]),
        ("timestamptz", ["2024-01-01 00:00+00", "2024-01-01 01:00+01", "2023-12-31 23:00-01"], [2]),
    ],
)
def test_people_are_told_apart_by_their_values_and_nan_is_nobody(kind: str, people: list[str], counted: list[int]):
    table = held("ages", {"age": [1] * len(people), "who": people}, {"age": "integer", "who": kind})
    assert values(opened(table, PEOPLE), COUNT) == counted


# --- when the wire is cut ---


def test_a_statement_that_takes_too_long_fails_and_the_next_one_works():
    view, pause = slow_view()
    source = opened(view, timeout=3)
    asleep(pause, 30)
    with failing(source):
        pass
    asleep(pause, 0)
    assert values(source, COUNT) == [3]


def test_a_table_that_is_locked_for_too_long_fails_too():
    table = ages()
    source = opened(table, timeout=3)
    with psycopg.connect(shared_server().address) as holder:
        holder.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        with failing(source):
            pass
    assert values(source, COUNT) == [3]


def test_a_connection_that_ends_in_the_middle_of_a_question_fails_it_and_the_next_one_connects_anew():
    view, pause = slow_view()
    source = opened(view)
    asleep(pause, 30)
    with failing(source):
        ended(f"COPY.*{view.partition('.')[0]}")
    asleep(pause, 0)
    assert values(source, COUNT) == [3]


def test_a_connection_that_was_lost_between_questions_is_replaced_before_the_next():
    table = ages()
    source = opened(table)
    ((pid,),) = source._session.run(lambda connection: connection.execute("SELECT pg_backend_pid()").fetchall())
    with owner() as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    assert values(source, COUNT) == [3]
    assert source.fingerprint() == opened(table).fingerprint()


def test_a_server_that_cannot_be_reached_any_more_fails_each_question():
    table = ages()
    with Proxy(shared_server().port, cut=10**9) as wire:
        url = f"postgresql://owner@127.0.0.1:{wire.port}/postgres?sslmode=disable&gssencmode=disable"
        source = opened(table, url=url)
        assert values(source, COUNT) == [3]
    for _ in range(2):
        with failing(source):
            pass


@pytest.mark.slow
def test_a_server_that_dies_in_the_middle_of_a_question_serves_again_when_it_is_back():
    server = Server()
    try:
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute("CREATE TABLE public.ages AS SELECT 1 AS age")
            connection.execute("CREATE TABLE public.pause AS SELECT 0.0 AS seconds")
            connection.execute(
                "CREATE VIEW public.slow AS SELECT age FROM ages "
                "WHERE (SELECT pg_sleep(max(seconds)) FROM pause) IS NOT NULL"
            )
            source = opened("public.slow", url=server.address)
            connection.execute("UPDATE public.pause SET seconds = 30")
        with failing(source):
            time.sleep(1)
            server.kill()
        with failing(source):
            pass
        server.start()
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute("UPDATE public.pause SET seconds = 0")
        assert values(source, COUNT) == [1]
        source.close()
    finally:
        server.stop()


def test_a_closed_source_stays_closed():
    source = opened(ages())
    source.close()
    with failing(source):
        pass


def test_an_interrupted_question_leaves_no_transaction_behind():
    source = opened(ages())

    def interrupted(connection: psycopg.Connection) -> None:
        connection.execute("SELECT 1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        source._session.run(interrupted)
    assert values(source, COUNT) == [3]


def test_a_source_answers_many_threads_at_once():
    source = opened(ages())
    wrong = list[object]()

    def ask() -> None:
        for _ in range(10):
            counts = values(source, AGES)
            if counts != [0, 1, 1, 1, *[0] * 8]:
                wrong.append(counts)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_fingerprint_is_of_the_cells_in_any_order():
    def found(rows: list[int | None], kind: str = "integer") -> str:
        return opened(held("ages", {"age": rows}, {"age": kind})).fingerprint()

    before = found([1, 2, 3])
    assert found([3, 1, 2]) == found([1, 2, 3], "numeric") == found([1, 2, 3], "text") == before
    for rows in ([1, 2], [1, 2, 4], [1, 2, 3, 3], [1, 2, None]):
        assert found(rows) != before
