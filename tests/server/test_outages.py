"""A whole server whose databases go away and come back: the ledger's, its head's and the accounts'."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


def workers(server: Running) -> Iterator[int]:
    """Yield the ids of the core's workers."""
    core = server.parts()["core"]
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may have ended
            if int(path.read_text().rpartition(")")[2].split()[1]) == core:
                yield int(path.parent.name)


@contextmanager
def full(server: Running, room: int) -> Iterator[None]:
    """Let no file of the workers grow beyond so many bytes, as on a disk that has no room for more."""
    unlimited = resource.RLIM_INFINITY
    pids = tuple(workers(server))
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (room, unlimited))
    try:
        yield
    finally:
        for pid in pids:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))


_PAGE = 4096 + 24
"""What SQLite adds to its log for a page."""


@pytest.mark.slow
def test_a_disk_that_fills_up_at_any_moment_loses_nothing_and_every_word_about_a_charge_is_true(tmp_path: Path):
    make_dataset(tmp_path, epsilon="1000")
    log = tmp_path / "stays.ledger-wal"
    charged_words: set[bool | None] = set()
    with serving(tmp_path) as server, server.client() as ada, server.client("grace") as owner:
        assert ask(server, "first").status_code == 200

        def charges() -> list[str]:
            return [charge["key"] for charge in ada.get("/datasets/stays/history?limit=1000").json()["charges"]]

        for pages in range(24):
            key = f"with room for {pages} pages"
            with full(server, log.stat().st_size + pages * _PAGE):
                reply = ask(server, key, fresh=True)
                assert ask(server, "again").json()["source"] == "replayed"  # what is free needs no room
            if reply.status_code == 200:
                break
            status, _, charged = problem(reply)
            assert status == 503
            assert charged in {None, charges().count(key) == 1}
            charged_words.add(charged)
            before = charges().count(key)
            again = ask(server, key, fresh=True)
            assert again.status_code == 200 or (before and problem(again)[1] == "answer-interrupted")
            assert charges().count(key) == 1
        assert reply.status_code == 200
        assert True in charged_words
        assert False in charged_words
        assert charges().count(key) == 1
        assert owner.post("/datasets/stays/ledger/verification").json()["verified"] is True
