"""A head that several hosts share: in another database than the ledger's."""

import os
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import psycopg
import pytest

from dodona.ledger import opening
from dodona.ledger.errors import HeadMissing, LedgerExists, LedgerRolledBack, LedgerUnavailable
from dodona.ledger.head import HeadFile, Mark
from dodona.ledger.postgres import DatabaseHead, PostgresStore
from tests.ledger.scene import TENTH, ServerPlace, answer, ask, begun, shared_server, terms_of

FIRST, SECOND = Mark(0, "a" * 64), Mark(1, "b" * 64)


@dataclass
class SharedPlace(ServerPlace):
    """A ledger in one database and its head in another."""

    @property
    def head(self) -> str:  # type: ignore[override]
        return f"{heads_address()}#{self.name}"


def heads_address() -> str:
    """Return the address of a second database, made at first use."""
    address = shared_server().address
    with psycopg.connect(address, autocommit=True) as connection:
        if not connection.execute("SELECT FROM pg_database WHERE datname = 'heads'").fetchall():
            connection.execute("CREATE DATABASE heads")
    return psycopg.conninfo.make_conninfo(address, dbname="heads") if "://" not in address else _with_database(address)


def _with_database(address: str) -> str:
    before, mark, options = address.partition("?")
    return f"{before.rsplit('/', 1)[0]}/heads{mark}{options}"


@pytest.fixture
def place(tmp_path: Path) -> SharedPlace:
    return SharedPlace(tmp_path)


def test_a_ledger_lives_with_its_head_in_another_database(place: SharedPlace):
    with begun(place) as ledger:
        answer(ledger, ask(ledger, "k"))
        head = ledger.head
    assert not list(place.folder.iterdir())
    with place.open() as ledger:
        assert ledger.head == head
        assert ledger.fetch("k", analyst=None) is not None


def test_an_old_copy_of_the_ledger_is_refused(place: SharedPlace):
    with begun(place) as ledger:
        ask(ledger)
    with closing(opening.locate_head(place.head)) as kept:
        kept.replace(Mark(kept.read().number + 1, "c" * 64))
    with pytest.raises(LedgerRolledBack):
        place.open()
    place.recover()
    with place.open() as ledger:
        assert ledger.state().left == 0


@pytest.mark.parametrize("kind", ["file", "database"])
def test_a_head_never_goes_back_and_never_forks(kind: str, tmp_path: Path):
    name = f"forward-{os.getpid()}"
    head = HeadFile(tmp_path / "head") if kind == "file" else DatabaseHead(heads_address(), name)
    with pytest.raises(HeadMissing):
        head.read()
    head.create(FIRST)
    with pytest.raises(LedgerExists):
        head.create(FIRST)
    head.advance(SECOND)
    head.advance(FIRST)
    assert head.read() == SECOND
    with pytest.raises(LedgerRolledBack):
        head.advance(Mark(1, "c" * 64))
    head.remove()
    with pytest.raises(HeadMissing):
        head.read()
    head.close()


def test_a_lost_connection_is_opened_again(place: SharedPlace):
    with begun(place) as ledger:
        ask(ledger, "before")
        with psycopg.connect(heads_address(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = 'heads' AND application_name = 'dodona ledger'"
            )
        with pytest.raises(LedgerUnavailable) as caught:
            ask(ledger, "after")
        assert caught.value.charged  # the line was written: a head that lags must not hide it
        assert ask(ledger, "after").key == "after"
        assert ledger.verify().charges == 2


def _spend(place: str, head: str, number: int) -> None:
    with opening.open_ledger(place, head=head) as ledger:
        for turn in range(5):
            ledger.reserve(TENTH, analyst=None, key=f"{number} {turn}", purpose=f"{number} {turn}", version="1")


def test_processes_without_a_shared_folder_never_fork_the_chain(place: SharedPlace):
    begun(place, terms_of()).close()
    spawn = get_context("spawn")
    workers = [spawn.Process(target=_spend, args=(place.place, place.head, number)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    with place.open() as ledger:
        assert ledger.verify().charges == 10
        assert ledger.state().left == 0
    store = PostgresStore(shared_server().address, place.name)
    lines = store.lines(0)
    store.close()
    with closing(opening.locate_head(place.head)) as kept:
        assert kept.read() == Mark(lines[-1].number, lines[-1].hash)
