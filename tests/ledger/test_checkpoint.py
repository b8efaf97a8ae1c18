"""Checkpoints: what is read from one is what the lines say, and one that says anything else is not used."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from dodona.ledger.book import Book
from dodona.ledger.checkpoint import state_digest
from dodona.ledger.entries import GENESIS_HASH, Checkpointed, Line, Released, entry_from_json, line_after
from dodona.ledger.errors import (
    AnswerInterrupted,
    LedgerRolledBack,
    LedgerUnreadable,
    ReceiptReused,
)
from dodona.ledger.head import HeadFile, Mark
from dodona.ledger.keeper import read_book
from dodona.ledger.ledger import Ledger
from dodona.ledger.limits import make_limits
from dodona.ledger.opening import first_line, open_existing, open_ledger
from dodona.ledger.sqlite import SqliteStore, write_sqlite_ledger
from dodona.privacy.budget import Analyst, Budget
from tests.ledger.scene import TENTH, FilePlace, ServerPlace, answer, ask, terms_of

EVERY = 4


class Watched(SqliteStore):
    """A store that notes from which line it was read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read_from: list[int] = []

    def lines(self, since: int):  # type: ignore[no-untyped-def]
        self.read_from.append(since)
        return super().lines(since)


def fill(ledger: Ledger) -> None:
    """Write one of everything that a state holds."""
    answer(ledger, ask(ledger, "told", analyst="ada"), 7, 8)
    lost = ask(ledger, "lost", analyst="bob", purpose="another")
    ledger.redeem(lost)
    ledger.let_go(lost)
    failed = ask(ledger, "failed", analyst="ada", purpose="third")
    ledger.redeem(failed)
    ledger.unanswered(failed)
    ledger.set_limits(make_limits(question="20%", analyst_day="1/2", approvals=True))
    ledger.request_approval(analyst="ada", key="dear", question="d", share=TENTH.epsilon, text="SELECT 1")
    ask(ledger, "unused", analyst="ada", purpose="fourth")
    answer(ledger, ask(ledger, None, analyst="bob"), 9)
    ledger.stop("bob")


@pytest.fixture
def place(tmp_path: Path) -> FilePlace:
    file_place = FilePlace(tmp_path / "ledger", checkpoint_every=EVERY)
    file_place.create(terms_of(Budget(2, 0, "pure"), Analyst("ada", "1/2"), Analyst("bob")))
    with file_place.open() as ledger:
        fill(ledger)
    return file_place


def states(path: Path) -> list[tuple[int, str]]:
    store = SqliteStore(path)
    states = list(store.states())
    store.close()
    return states


def alter(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def opened_from(place: FilePlace) -> list[int]:
    """From which lines a ledger is read when it is opened."""
    store = Watched(place.path)
    open_existing(store, HeadFile(Path(f"{place.path}.head"))).close()
    return store.read_from


def answers_of(ledger: Ledger) -> object:
    """Everything that a ledger can be asked."""
    fetched = ledger.fetch("told", analyst="ada")
    with pytest.raises(AnswerInterrupted):
        ledger.fetch("lost", analyst="bob")
    return (
        ledger.state(),
        fetched,
        ledger.fetch("failed", analyst="ada"),
        ledger.receipt("unused", analyst="ada"),
        ledger.released("question", "1"),
        [ledger.releases(after=seen) for seen in range(4)],
        ledger.limits,
        ledger.approval_requests(),
        ledger.allowance(analyst="ada"),
        ledger.datasets(),
        ledger.cap_key,
        ledger.left(analyst="ada"),
    )


def test_a_ledger_opened_from_a_checkpoint_is_the_one_that_its_lines_give(place: FilePlace):
    with place.open() as short:
        answers = answers_of(short)
        lines = list(short.lines())
    assert sum(isinstance(entry_from_json(line.text, number=line.number), Checkpointed) for line in lines) >= 3
    alter(place.path, "DELETE FROM checkpoints")
    with place.open() as whole:
        assert answers_of(whole) == answers


def test_opening_reads_from_the_last_checkpoint_and_verifying_from_the_first_line(place: FilePlace):
    last = states(place.path)[-1][0]
    assert opened_from(place) == [last]
    store = Watched(place.path)
    with open_existing(store, HeadFile(Path(f"{place.path}.head"))) as ledger:
        assert ledger.verify() == ledger.state()
        assert 0 in store.read_from


def test_what_was_answered_before_a_checkpoint_cannot_be_used_or_recorded_again(place: FilePlace):
    with place.open() as ledger:
        receipt = ledger.receipt("told", analyst="ada")
        assert receipt is not None
        with pytest.raises(ReceiptReused):
            ledger.redeem(receipt)
        release = ledger.fetch("told", analyst="ada")
        assert release is not None
        with pytest.raises(ReceiptReused):
            ledger.record(replace(release, values=(1,)))
        lost = ledger.receipt("lost", analyst="bob")
        assert lost is not None
        with pytest.raises(ReceiptReused):
            ledger.redeem(lost)


def test_an_unused_receipt_from_before_a_checkpoint_can_be_used_once(place: FilePlace):
    with place.open() as ledger:
        for key in ("unused", "failed"):
            receipt = ledger.receipt(key, analyst="ada")
            assert receipt is not None
            answer(ledger, receipt, 5)
            with pytest.raises(ReceiptReused):
                ledger.redeem(receipt)


def less_spent(text: str) -> str:
    state = json.loads(text)
    state["account"]["spent"][0] = "0"
    return json.dumps(state, sort_keys=True, separators=(",", ":"))


def forgotten(text: str) -> str:
    state = json.loads(text)
    state["waiting"] = []
    return json.dumps(state, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("forge", [less_spent, forgotten, lambda _: "{}", lambda text: text[:-2] + "}"])
def test_a_state_that_was_altered_is_refused_and_written_again(place: FilePlace, forge: Callable[[str], str]):
    before = states(place.path)
    number, text = before[-1]
    with place.open() as ledger:
        spent = ledger.state()
    connection = sqlite3.connect(place.path)
    connection.execute("UPDATE checkpoints SET text = ? WHERE number = ?", (forge(text), number))
    connection.commit()
    connection.close()
    assert opened_from(place) == [number, 0]
    assert states(place.path) == before
    with place.open() as ledger:
        assert ledger.state() == spent
    assert opened_from(place) == [number]


def test_a_state_that_is_missing_costs_time_alone(place: FilePlace):
    before = states(place.path)
    with place.open() as ledger:
        spent = ledger.state()
    for lost in (before[0][0], before[-1][0]):
        alter(place.path, f"DELETE FROM checkpoints WHERE number = {lost}")  # noqa: S608  our own number
        with place.open() as ledger:
            assert ledger.state() == spent


def forge_chain(place: FilePlace) -> Mark:
    """Put a ledger in place whose last checkpoint says that less was spent, with every hash right; return its head."""
    kept = states(place.path)
    with place.open() as ledger:
        lines = list(ledger.lines())
    number, text = kept[-1]
    forged = [*kept[:-1], (number, less_spent(text))]
    digest = GENESIS_HASH
    for _, state in forged:
        digest = state_digest(digest, state)
    chain = lines[:number]
    for old in lines[number:]:
        entry = Checkpointed(digest) if old.number == number else entry_from_json(old.text, number=old.number)
        chain.append(line_after(chain[-1].number, chain[-1].hash, entry, time=json.loads(old.text)["time"]))
    for path in place.folder.glob("stays.ledger*"):
        if path.suffix != ".head":
            path.unlink()
    write_sqlite_ledger(place.path, chain[0], layout=2)
    store = SqliteStore(place.path)
    store.append(0, lambda _: chain[1:])
    store.replace_states(forged)
    store.close()
    return Mark(chain[-1].number, chain[-1].hash)


def test_a_forged_checkpoint_is_noticed_by_the_head_that_is_kept_elsewhere(place: FilePlace):
    forge_chain(place)
    with pytest.raises(LedgerUnreadable, match="breaks a rule"):  # all of it is read, as the head does not vouch for it
        place.open()


def test_whoever_forges_the_head_as_well_is_found_out_by_verification(place: FilePlace):
    """One who can write ledger and head can write any ledger; a forged checkpoint is no better, and is noticed."""
    HeadFile(Path(f"{place.path}.head")).replace(forge_chain(place))
    with place.open() as ledger, pytest.raises(LedgerUnreadable, match="breaks a rule"):
        ledger.verify()


def test_a_checkpoint_after_the_head_is_not_believed(place: FilePlace):
    """A crash before the head moved, or a forged end of the chain: the lines are read from before the head."""
    numbers = [number for number, _ in states(place.path)]
    with place.open() as ledger:
        lines = list(ledger.lines())
    old = numbers[-1] - 1
    HeadFile(Path(f"{place.path}.head")).replace(Mark(old, lines[old].hash))
    assert opened_from(place) == [numbers[-2]]


def test_an_old_line_that_was_altered_is_refused_when_it_is_read(place: FilePlace):
    with place.open() as ledger:
        release = next(line for line in ledger.lines() if '"entry":"released"' in line.text)
    entry = entry_from_json(release.text, number=release.number)
    assert isinstance(entry, Released)
    changed = replace(entry, release=replace(entry.release, values=(70, 8)))
    line = line_after(release.number - 1, release.previous, changed, time=json.loads(release.text)["time"])
    alter(
        place.path,
        "PRAGMA foreign_keys = off",
        "DROP TRIGGER entries_stay",
        f"UPDATE entries SET text = '{line.text}', hash = '{line.hash}' WHERE number = {line.number}",  # noqa: S608
    )
    store = SqliteStore(place.path)
    book = Book.restore(
        [text for _, text in states(place.path)], store.lines(states(place.path)[-1][0])[0], store.fetch
    )
    with pytest.raises(LedgerUnreadable, match="altered"):
        book.charge(entry.release.receipt)
    with pytest.raises(LedgerUnreadable, match="altered"):
        book.releases_after(0)
    with pytest.raises(LedgerUnreadable, match="altered"):
        book.answers("stays", "question", "1")
    store.close()


def test_a_checkpoint_that_the_lines_do_not_give_breaks_a_rule():
    first = first_line(terms_of())
    line = line_after(0, first.hash, Checkpointed("0" * 64), time="now")
    with pytest.raises(LedgerUnreadable, match="breaks a rule"):
        read_book([first, line])


def test_a_checkpoint_in_a_ledger_of_the_first_format_breaks_a_rule():
    created = entry_from_json(first_line(terms_of()).text, number=0)
    first = line_after(-1, GENESIS_HASH, replace(created, format=1), time="now")
    book = read_book([first])
    line = line_after(0, first.hash, book.next_checkpoint(), time="now")
    assert book.due == 0
    with pytest.raises(LedgerUnreadable, match="breaks a rule"):
        read_book([first, line])


def test_processes_that_share_a_ledger_agree_on_checkpoints(place: FilePlace):
    with place.open() as ledger, place.open() as other:
        ledger.raise_budget(20, 0)
        for number in range(4):
            answer(ledger, ask(ledger, f"one {number}", analyst="ada", purpose="one"))
            answer(other, ask(other, f"other {number}", analyst="ada", purpose="other"))
        assert ledger.state() == other.state() == ledger.verify()
        assert ledger.releases() == other.releases()


def test_a_ledger_in_postgresql_opens_from_a_checkpoint(tmp_path: Path):
    place = ServerPlace(tmp_path, checkpoint_every=EVERY)
    place.create(terms_of(Budget(2, 0, "pure"), Analyst("ada", "1/2"), Analyst("bob")))
    with place.open() as ledger:
        fill(ledger)
        before = answers_of(ledger)
        assert ledger.verify() == ledger.state()
    address, _, name = place.place.partition("#")
    with place.open() as ledger:
        assert answers_of(ledger) == before
    with psycopg.connect(address, autocommit=True) as owner:
        count = owner.execute("SELECT count(*) FROM dodona_checkpoints WHERE ledger = %s", (name,)).fetchall()
        assert count[0][0] >= 3
        owner.execute("UPDATE dodona_checkpoints SET text = '{}' WHERE ledger = %s", (name,))
    with place.open() as ledger:
        assert answers_of(ledger) == before
        assert ledger.verify() == ledger.state()
    with psycopg.connect(address) as owner:
        again = owner.execute("SELECT count(*) FROM dodona_checkpoints WHERE ledger = %s AND text <> '{}'", (name,))
        assert again.fetchall() == count


def test_a_copy_of_a_ledger_and_its_checkpoints_from_before_is_still_rolled_back(place: FilePlace, tmp_path: Path):
    kept = tmp_path / "old"
    shutil.copy(place.path, kept)
    with place.open() as ledger:
        ask(ledger, "new", analyst="ada", purpose="new")
    shutil.copy(kept, place.path)
    for rest in ("-wal", "-shm"):
        Path(f"{place.path}{rest}").unlink(missing_ok=True)
    with pytest.raises(LedgerRolledBack):
        open_ledger(place.path)


def test_lines_know_whether_they_are_intact():
    line = first_line(terms_of())
    assert line.intact
    assert not Line(line.number, line.previous, "1" * 64, line.text).intact
