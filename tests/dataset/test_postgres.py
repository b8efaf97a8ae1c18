"""A dataset file whose rows are in PostgreSQL."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dodona
from dodona.cli.main import app
from dodona.dataset.file import DatasetFile
from dodona.dataset.opening import VersionChanged
from dodona.engines.cells import SourceUnfit
from dodona.errors import InvalidRequest
from dodona.trusted.source import SourceFailed
from tests.dataset.scene import TOML
from tests.engines.server import held, owner
from tests.ledger.scene import shared_server

OLD = "SELECT count(*) FROM stays WHERE age >= 65"
SOURCE = 'kind = "csv"\npath = "stays.csv"'


def stays() -> str:
    columns = {"sex": ["male", "female", "female"] * 300, "age": [row % 100 for row in range(900)]}
    return held("Stays", columns, {"sex": "text", "age": "integer"})


def text(table: str) -> str:
    return TOML.replace(
        SOURCE, f'kind = "postgres"\nurl = "env:STAYS_DATABASE"\nsource_table = "{table}"\ntimeout = 60'
    )


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAYS_DATABASE", shared_server().address)
    return tmp_path / "stays.toml"


def opened(path: Path, table: str) -> dodona.Curator:
    path.write_text(text(table), encoding="utf-8")
    dodona.create_ledger(path)
    return dodona.open(path, analyst="ada")


def test_a_dataset_file_names_a_variable_and_a_table(path: Path):
    table = stays()
    with opened(path, table) as asked:
        answer = asked.ask(OLD)
    assert answer.source == "measured"
    assert abs(answer.value.value - 315) < 400
    file = DatasetFile.read(path)
    assert (file.kind, file.source, file.source_table, file.timeout) == ("postgres", "env:STAYS_DATABASE", table, 60)
    assert "127.0.0.1" not in repr(file)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"env:STAYS_DATABASE"', '"postgresql://ada:secret@host/db"', r"source\.url.*may hold a password"),
        ("url =", "path =", r"source\.url is missing"),
        ("timeout = 60", "timeout = 0", r"source\.timeout"),
        ('"postgres"', '"parquet"', r"source\.path is missing"),
    ],
)
def test_mistakes_are_told_and_no_secret_is(path: Path, old: str, new: str, words: str):
    path.write_text(text("public.stays").replace(old, new), encoding="utf-8")
    with pytest.raises(InvalidRequest, match=words) as caught:
        DatasetFile.read(path)
    assert "secret" not in str(caught.value)


def test_a_variable_that_is_not_set_and_a_table_that_is_not_there_are_told(path: Path, monkeypatch):
    path.write_text(text("public.nothing"), encoding="utf-8")
    dodona.create_ledger(path)
    with pytest.raises(SourceUnfit, match=r"no table public\.nothing"):
        dodona.open(path, analyst="ada")
    monkeypatch.delenv("STAYS_DATABASE")
    with pytest.raises(InvalidRequest, match="STAYS_DATABASE is not set"):
        dodona.open(path, analyst="ada")


def test_changed_rows_under_an_old_version_are_refused(path: Path):
    table = stays()
    name = table.replace("Stays", '"Stays"')
    with opened(path, table) as asked:
        asked.ask(OLD)
    with owner() as connection:
        connection.execute(f"UPDATE {name} SET age = 70 WHERE age = 3")  # noqa: S608
        with pytest.raises(VersionChanged, match="2026-10"):
            dodona.open(path, analyst="ada")
        connection.execute(f"UPDATE {name} SET age = 3 WHERE age = 70")  # noqa: S608
        connection.execute(f"DELETE FROM {name} WHERE age = 3")  # noqa: S608
    path.write_text(text(table).replace("2026-10", "2026-11"), encoding="utf-8")
    with dodona.open(path, analyst="ada") as asked:
        assert asked.ask(OLD).source == "measured"
        assert asked.budget.charges == 2


def test_a_question_whose_connection_is_lost_stays_charged_and_the_next_is_answered_and_told_again(path: Path):
    table = stays()
    space, name = table.partition(".")[0], table.replace("Stays", '"Stays"')
    with owner() as connection:
        connection.execute(f"CREATE TABLE {space}.pause AS SELECT 0.0 AS seconds")
        connection.execute(
            f"CREATE VIEW {space}.slow AS SELECT * FROM {name} "  # noqa: S608
            f"WHERE (SELECT pg_sleep(max(seconds)) FROM {space}.pause) IS NOT NULL"
        )
        with opened(path, f"{space}.slow") as asked:
            connection.execute(f"UPDATE {space}.pause SET seconds = 30")  # noqa: S608
            thread = threading.Thread(target=end, args=(space,))
            thread.start()
            with pytest.raises(SourceFailed) as caught:
                asked.ask(OLD, key="monday")
            thread.join()
            assert caught.value.charged
            spent = asked.budget.spent
            assert asked.budget.charges == 1
            connection.execute(f"UPDATE {space}.pause SET seconds = 0")  # noqa: S608
            answer = asked.ask(OLD, key="monday")  # nothing was drawn: what was paid for is measured now
            assert answer.source == "measured"
            assert asked.budget.spent == spent
            again = asked.ask(OLD, key="monday")
            assert again.value == answer.value
            assert again.price.share == 0
            assert asked.budget.charges == 1
        with dodona.open(path, analyst="ada") as asked:
            assert asked.ask(OLD, key="monday").value == answer.value


def end(space: str) -> None:
    """End the server's side of a connection that is reading a view."""
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND query ~ %s"
    until = time.monotonic() + 20
    with owner() as connection:
        while not connection.execute(query, (f"^COPY.*{space}",)).fetchall() and time.monotonic() < until:
            time.sleep(0.01)


def test_the_rows_of_people_are_kept_once_and_asked_there(path: Path):
    rows = range(900)
    columns = {"sex": ["male", "female", "female"] * 300, "age": [row % 100 for row in rows]}
    table = held(
        "Stays", columns | {"who": [row // 3 for row in rows]}, {"sex": "text", "age": "integer", "who": "integer"}
    )
    space = table.partition(".")[0]
    person = text(table).replace('protects = "row"', 'protects = "person"\nid = "who"\nrows = 2')
    path.write_text(person.replace("timeout = 60", f'timeout = 60\nkept = "{space}.kept"'), encoding="utf-8")
    dodona.create_ledger(path)
    with pytest.raises(SourceUnfit, match="no table"):
        dodona.open(path, analyst="ada")
    done = CliRunner().invoke(app, ["keep", str(path)])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"kept: {space}.kept\n"
    with dodona.open(path, analyst="ada") as asked:
        assert asked.ask(OLD).about == "Of each person at most 2 rows count."
    with owner() as connection:
        connection.execute(f"UPDATE {space}.kept SET c1 = 0 WHERE c1 = 1")  # noqa: S608
    with pytest.raises(VersionChanged):
        dodona.open(path, analyst="ada")
    path.write_text(path.read_text(encoding="utf-8").replace("2026-10", "2026-11"), encoding="utf-8")
    with pytest.raises(SourceUnfit, match="not kept for this version"):
        dodona.open(path, analyst="ada")
    assert CliRunner().invoke(app, ["keep", str(path)]).exit_code == 0
    dodona.open(path, analyst="ada").close()


def test_rows_are_kept_for_people_alone(path: Path):
    path.write_text(text("public.stays"), encoding="utf-8")
    done = CliRunner().invoke(app, ["keep", str(path)])
    assert done.exit_code != 0
    assert "Rows are kept where people are protected" in done.output.replace("\n", " ")
