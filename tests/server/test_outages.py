"""A whole server whose databases go away and come back: the ledger's, its head's and the accounts'."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import dodona
from dodona.server.accounts import Accounts
from tests.ledger.server import Server
from tests.server.scene import make_dataset
from tests.server.serving import Running, serving, wait_until

QUESTION = {"question": "SELECT count(*) FROM stays", "within": 40}


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@contextmanager
def away(database: Server) -> Iterator[None]:
    """Let a database be away, as after a crash of its machine."""
    database.kill()
    try:
        yield
    finally:
        database.start()


def ask(server: Running, key: str, **asked: object) -> httpx.Response:
    with server.client() as ada:
        return ada.post("/datasets/stays/answers", json=QUESTION | asked, headers={"Idempotency-Key": key})


def problem(reply: httpx.Response) -> tuple[int, str, bool | None]:
    assert reply.headers["content-type"] == "application/problem+json"
    body = reply.json()
    return reply.status_code, body["code"], body["charged"]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["ledger", "head"])
def test_a_database_of_a_ledger_that_was_away_is_used_again_and_nothing_is_charged_twice(
    tmp_path: Path, database: Server, monkeypatch: pytest.MonkeyPatch, part: str
):
    monkeypatch.setenv("OUTAGE_DATABASE", f"{database.address}#{part}")
    path = make_dataset(tmp_path, ledger=False)
    where = {
        "ledger": 'url = "env:OUTAGE_DATABASE"\nhead = "stays.head"',
        "head": 'path = "stays.ledger"\nhead = "env:OUTAGE_DATABASE"',
    }
    path.write_text(path.read_text().replace('path = "stays.ledger"', where[part]))
    dodona.create_ledger(path)
    with serving(tmp_path) as server:
        first = ask(server, "first")
        assert first.status_code == 200
        with away(database):
            status, code, charged = problem(ask(server, "second", fresh=True))
            assert (status, code) in {(503, "ledger-unavailable"), (503, "dataset-unavailable")}
            assert charged is not False  # nobody can know it now
            with server.client() as ada:
                ada.get("/datasets/stays/history")  # which may need the database or not
        with server.client() as ada:  # at once, and without an error
            history = ada.get("/datasets/stays/history").json()
            assert history["charges"][0]["key"] == "first"
        again = ask(server, "first")
        assert again.json()["rows"] == first.json()["rows"]
        wait_until(lambda: ask(server, "second", fresh=True).status_code == 200)
        with server.client("grace") as owner:
            assert owner.get("/datasets/stays/history").json()["total"] == 2
            assert owner.post("/datasets/stays/ledger/verification").json()["verified"] is True


@pytest.mark.slow
def test_a_front_that_is_started_again_without_its_accounts_says_so_and_goes_on_when_they_are_back(
    tmp_path: Path, database: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OUTAGE_ACCOUNTS", database.address)
    make_dataset(tmp_path)
    with Accounts.create(database.address) as accounts:
        accounts.add("ada")
        accounts.grant("ada", "stays", "analyst")
        token = accounts.create_token("ada", "test").text
    with serving(tmp_path, ["--accounts", "env:OUTAGE_ACCOUNTS"]) as server:
        server.tokens["ada"] = token
        assert ask(server, "first").status_code == 200
        with away(database):
            before = server.parts()["analysts"]
            os.kill(before, signal.SIGKILL)
            assert problem(ask(server, "first")) == (503, "accounts-unavailable", False)
            assert server.parts()["analysts"] != before
        wait_until(lambda: ask(server, "first").status_code == 200)
        assert [line["part"] for line in server.lines("restart")] == ["front"]
