"""A ledger in PostgreSQL: through crashes of the server and cuts of the wire."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, cast

import psycopg
import pytest

from dodona.answer.answer import Answer
from dodona.errors import DodonaError, InvalidArgument, InvalidRequest, Unavailable
from dodona.ledger import opening
from dodona.ledger.errors import (
    LedgerBusy,
    LedgerExists,
    LedgerMissing,
    LedgerRolledBack,
    LedgerUnavailable,
    LedgerUnreadable,
)
from dodona.ledger.head import HeadFile
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms, open_existing
from dodona.ledger.postgres import PostgresStore
from dodona.privacy.budget import Analyst, Budget
from tests.curator import scene
from tests.ledger import tamper
from tests.ledger.kill import lost, one_after_another
from tests.ledger.proxy import Proxy
from tests.ledger.scene import ServerPlace, answer, ask, shared_server, terms_of
from tests.ledger.server import Server

WIDE = Budget(10**4, 0, "pure")


@pytest.fixture
def kept(tmp_path: Path) -> ServerPlace:
    made = ServerPlace(tmp_path)
    made.create(terms_of(WIDE))
    return made


def owner() -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(shared_server().address, autocommit=True)


def test_opening_never_creates_and_creating_never_overwrites(kept: ServerPlace, tmp_path: Path):
    with pytest.raises(LedgerMissing):
        opening.open_ledger(f"{shared_server().address}#none", head=kept.head)
    with pytest.raises(LedgerExists):
        kept.create(terms_of())
    with pytest.raises(LedgerExists):
        opening.create_ledger_at(kept.place, terms_of(), head=tmp_path / "another.head")
    assert not (tmp_path / "another.head").exists()
    kept.open().close()


def test_a_head_must_be_named(kept: ServerPlace):
    for act in (opening.open_ledger, opening.recover_ledger, lambda where: opening.create_ledger_at(where, terms_of())):
        with pytest.raises(InvalidArgument, match="head"):
            act(kept.place)


def test_a_server_that_is_not_there_is_said_to_be_without_its_address(tmp_path: Path):
    with pytest.raises(LedgerUnavailable) as caught:
        opening.open_ledger("postgresql://user:secret@127.0.0.1:1/none", head=tmp_path / "head")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dodona_entries SET text = '{{}}' WHERE ledger = '{name}'",
        "DELETE FROM dodona_entries WHERE ledger = '{name}'",
        "TRUNCATE dodona_entries CASCADE",
        "INSERT INTO dodona_entries VALUES ('{name}', 5, '{zero}', '{zero}', 'closed', NULL, NULL, '{{}}')",
        "INSERT INTO dodona_entries VALUES ('{name}', 1, '{zero}', '{zero}', 'closed', NULL, NULL, '{{}}')",
    ],
)
def test_the_table_itself_refuses_to_be_changed(kept: ServerPlace, statement: str):
    with owner() as connection, pytest.raises(psycopg.Error):
        connection.execute(statement.format(name=kept.name, zero="0" * 64))
    kept.open().close()


def test_a_row_changed_behind_the_rules_is_noticed(kept: ServerPlace):
    with kept.open() as ledger:
        ask(ledger)
    with owner() as connection:
        connection.execute("SET session_replication_role = replica")
        change = "UPDATE dodona_entries SET text = replace(text, 'question', 'answer') WHERE ledger = %s AND number = 1"
        connection.execute(change, (kept.name,))
    with pytest.raises(LedgerUnreadable):
        kept.open()


def test_rows_taken_away_behind_the_rules_are_noticed(kept: ServerPlace):
    ledger = kept.open()
    ask(ledger)
    with owner() as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("DELETE FROM dodona_entries WHERE ledger = %s AND number = 1", (kept.name,))
    with pytest.raises(LedgerRolledBack):
        ask(ledger)
    with pytest.raises(LedgerUnavailable):
        ledger.state()
    ledger.close()
    with pytest.raises(LedgerRolledBack):
        kept.open()


def test_letters_changed_anywhere_and_rows_taken_out_are_noticed(tmp_path: Path):
    kept = ServerPlace(tmp_path)
    kept.create(terms_of(tamper.BUDGET, Analyst("ada")))
    with kept.open() as ledger:
        tamper.fill(ledger)
    tally = tamper.rows_altered(shared_server().address, kept, 61)
    assert tally["detected"] == tally["tampered"] > 40


def test_a_lock_that_another_holds_is_busy_and_nothing_is_charged(kept: ServerPlace):
    ledger = open_existing(PostgresStore(shared_server().address, kept.name, patience=0.1), HeadFile(kept.head))
    with owner() as holder:
        holder.execute("SELECT pg_advisory_lock(hashtextextended('dodona ledger ' || %s, 0))", (kept.name,))
        with pytest.raises(LedgerBusy):
            ask(ledger)
    ask(ledger)
    assert ledger.verify().charges == 1
    ledger.close()


def test_a_server_that_does_not_sync_is_refused(kept: ServerPlace):
    with owner() as connection:
        connection.execute("ALTER SYSTEM SET full_page_writes = off")
        connection.execute("SELECT pg_reload_conf()")
        try:
            for _ in range(100):
                try:
                    kept.open().close()
                except InvalidRequest as refused:
                    assert "full_page_writes" in str(refused)  # noqa: PT017
                    break
            else:
                pytest.fail("was opened")
        finally:
            connection.execute("ALTER SYSTEM RESET full_page_writes")
            connection.execute("SELECT pg_reload_conf()")


def cut_after(kept: ServerPlace, messages: int) -> bool:
    """Use a ledger over a wire that is cut; returns whether the wire held to the end."""
    said: list[str] = []
    server = shared_server()
    ledger: Ledger | None = None
    with Proxy(server.port, cut=messages) as proxy:
        through = kept.place.replace(str(server.port), str(proxy.port))
        try:
            ledger = opening.open_ledger(through, head=kept.head)
            one_after_another(ledger, said.append, f"{messages}", 2)
        except Unavailable:
            if ledger is not None:
                with pytest.raises(LedgerUnavailable):
                    ask(ledger)
        held = proxy.passed < messages
        if ledger is not None:
            ledger.close()
    with kept.open() as again:
        assert lost(again, said) == 0
        again.verify()
    return held


def test_a_wire_cut_now_and_then_loses_nothing_that_was_told(kept: ServerPlace):
    for messages in range(1, 80, 13):
        cut_after(kept, messages)


@pytest.mark.slow
def test_a_wire_cut_between_any_two_messages_loses_nothing_that_was_told(kept: ServerPlace):
    messages = 1
    while not cut_after(kept, messages):
        messages += 1
    assert messages > 50


@pytest.mark.slow
def test_a_server_that_is_killed_loses_nothing_that_was_told(tmp_path: Path):
    server = Server()
    try:
        where = f"{server.address}#stays"
        opening.create_ledger_at(where, terms_of(WIDE), head=tmp_path / "head")
        for trial in range(6):
            said: list[str] = []
            with opening.open_ledger(where, head=tmp_path / "head") as ledger:
                threads = [
                    Thread(target=_until_it_fails, args=(ledger, said, f"{trial}, {index}")) for index in range(4)
                ]
                for thread in threads:
                    thread.start()
                while len(said) < 20 * trial:
                    time.sleep(0.001)
                server.kill()
                for thread in threads:
                    thread.join()
            server.start()
            with opening.open_ledger(where, head=tmp_path / "head") as again:
                assert lost(again, said) == 0
                again.verify()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """A server that is stopped and killed; each test leaves it running, and has a ledger of its own name."""
    server = Server()
    try:
        yield server
    finally:
        server.stop()


def restarted(server: Server) -> None:
    """Stop in order and start again: every connection is lost, and nothing else."""
    assert server.process is not None
    server.process.send_signal(signal.SIGINT)
    server.process.wait()
    server.start()


def test_a_ledger_is_itself_again_after_its_server_was_restarted(own_server: Server, tmp_path: Path):
    where = f"{own_server.address}#restarted"
    opening.create_ledger_at(where, terms_of(), head=tmp_path / "head")
    with opening.open_ledger(where, head=tmp_path / "head") as ledger:
        answer(ledger, ask(ledger, "first"), 7)
        restarted(own_server)
        with pytest.raises(LedgerUnavailable) as lost:
            ask(ledger, "second")
        assert not lost.value.charged
        receipt = ask(ledger, "second")  # verified anew
        assert ledger.verify().charges == 2
        restarted(own_server)
        with pytest.raises(LedgerUnavailable) as lost:
            ledger.redeem(receipt)
        assert lost.value.charged
        with opening.open_ledger(where, head=tmp_path / "head") as other:
            answer(other, receipt, 8)
        fetched = ledger.fetch("second", analyst=None)
        assert fetched is not None
        assert fetched.values == (8,)


def test_a_ledger_that_was_rolled_back_while_its_server_was_away_is_refused(own_server: Server, tmp_path: Path):
    where = f"{own_server.address}#rolled back"
    opening.create_ledger_at(where, terms_of(), head=tmp_path / "head")
    old = (tmp_path / "head").read_bytes()
    with opening.open_ledger(where, head=tmp_path / "head") as ledger:
        ask(ledger)
        restarted(own_server)
        with psycopg.connect(own_server.address, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute("DELETE FROM dodona_entries WHERE ledger = 'rolled back' AND number = 1")
        (tmp_path / "head").write_bytes(old)  # the head with it, so that only this process knows
        with pytest.raises(LedgerUnavailable):
            ledger.state()
        with pytest.raises(LedgerRolledBack):
            ledger.state()
        with pytest.raises(LedgerUnavailable):
            ledger.state()


class _Stopping:
    """A ledger whose server is killed right before, or right after, one step of a question."""

    def __init__(self, behind: Ledger, server: Server, step: str, *, before: bool) -> None:
        self._behind, self._server, self._step, self._before = behind, server, step, before

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever is behind it
        attribute = getattr(self._behind, name)
        if name != self._step:
            return attribute

        def act(*arguments: object, **named: object) -> object:
            self._step = ""
            if self._before:
                self._server.kill()
                return attribute(*arguments, **named)
            done = attribute(*arguments, **named)
            self._server.kill()
            return done

        return act


@pytest.mark.parametrize(
    ("moment", "step", "charges"),
    [
        ("before", "reserve_once", 0),
        ("after", "reserve_once", 1),
        ("before", "redeem", 1),
        ("after", "redeem", 1),
        ("before", "record", 1),
        ("after", "record", 1),
    ],
)
def test_an_error_says_whether_it_was_charged_wherever_a_server_dies_and_the_key_fetches_the_answer(
    own_server: Server, tmp_path: Path, moment: str, step: str, charges: int
):
    where, declared = f"{own_server.address}#{moment} {step}", scene.schema()
    terms = LedgerTerms(datasets={"stays": declared.digest}, neighbours=declared.unit.neighbours, budget=Budget(100, 0))
    opening.create_ledger_at(where, terms, head=tmp_path / "head")
    ledger = opening.open_ledger(where, head=tmp_path / "head")
    stopping = cast("Ledger", _Stopping(ledger, own_server, step, before=moment == "before"))
    asked = scene.curator(kept=stopping)
    with pytest.raises(Unavailable) as failed:
        asked.ask("SELECT count(*) FROM stays", within=40, key="mine")
    assert failed.value.charged is (charges == 1)
    own_server.start()
    with opening.open_ledger(where, head=tmp_path / "head") as other:
        assert other.state().charges == charges
    answer = _once_back(lambda: asked.ask("SELECT count(*) FROM stays", within=40, key="mine"))
    assert abs(answer.value.value - scene.ROWS) < 200  # e^-15 at this noise
    assert ledger.verify().charges == 1
    assert ledger.state().releases == 1
    asked.close()


def _once_back(act: Callable[[], Answer]) -> Answer:
    """Return what an act returns at the second try: at the first the connection may be found to be gone."""
    try:
        return act()
    except LedgerUnavailable:
        return act()


def _until_it_fails(ledger: Ledger, said: list[str], name: str) -> None:
    try:
        one_after_another(ledger, said.append, name, 10**6)
    except DodonaError as fault:
        assert isinstance(fault, LedgerUnavailable)  # noqa: PT017
