"""A ledger in a file: never made by opening, never overwritten, never taken for the newest when it is old."""

import contextlib
import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from dodona.errors import Unavailable
from dodona.ledger import opening
from dodona.ledger.errors import (
    BudgetExhausted,
    HeadMissing,
    LedgerBusy,
    LedgerExists,
    LedgerForbidden,
    LedgerMissing,
    LedgerRolledBack,
    LedgerUnavailable,
    LedgerUnreadable,
)
from dodona.ledger.head import HeadFile, Mark
from dodona.ledger.opening import open_existing
from dodona.ledger.sqlite import SqliteStore
from tests.ledger.scene import FilePlace, answer, ask, terms_of


@pytest.fixture
def place(tmp_path: Path) -> FilePlace:
    made = FilePlace(tmp_path / "ledger")
    made.create(terms_of())
    return made


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_opening_never_creates(tmp_path: Path):
    with pytest.raises(LedgerMissing, match="must not become a fresh budget"):
        opening.open_ledger(tmp_path / "none.ledger")
    with pytest.raises(LedgerMissing):
        opening.recover_ledger(tmp_path / "none.ledger")
    assert files(tmp_path) == {}


def test_creating_never_overwrites(place: FilePlace):
    before = files(place.folder)
    with pytest.raises(LedgerExists):
        place.create(terms_of())
    assert files(place.folder) == before


def test_a_ledger_that_was_lost_is_not_created_anew_beside_its_head(place: FilePlace):
    place.path.unlink()
    with pytest.raises(LedgerExists, match=r"\.head"):
        place.create(terms_of())
    assert [path.name for path in place.folder.iterdir()] == ["stays.ledger.head"]


NOT_LEDGERS: dict[str, Callable[[Path], object]] = {
    "an empty file": lambda path: path.write_bytes(b""),
    "a text": lambda path: path.write_text("hello " * 1000),
    "another database": lambda path: sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close(),
    "zeros": lambda path: path.write_bytes(bytes(8192)),
}


@pytest.mark.parametrize("make", NOT_LEDGERS.values(), ids=NOT_LEDGERS)
def test_what_is_not_a_ledger_is_left_alone(place: FilePlace, make: Callable[[Path], object]):
    place.path.unlink()
    make(place.path)
    before = place.path.read_bytes()
    with pytest.raises(LedgerUnreadable):
        place.open()
    assert place.path.read_bytes() == before


def test_a_folder_is_not_a_ledger(tmp_path: Path):
    with pytest.raises(LedgerMissing):
        opening.open_ledger(tmp_path)


def test_an_old_copy_is_refused_until_the_newest_is_back(place: FilePlace, tmp_path: Path):
    with place.open() as ledger:
        ask(ledger)
    old = shutil.copy(place.path, tmp_path / "old")
    with place.open() as ledger:
        ask(ledger)
    new = shutil.copy(place.path, tmp_path / "new")
    shutil.copy(old, place.path)
    with pytest.raises(LedgerRolledBack, match="newest"):
        place.open()
    shutil.copy(new, place.path)
    with place.open() as ledger:
        assert ledger.verify().charges == 2


def test_an_old_copy_goes_on_as_spent_after_a_recovery(place: FilePlace, tmp_path: Path):
    old = shutil.copy(place.path, tmp_path / "old")
    with place.open() as ledger:
        ask(ledger)
    shutil.copy(old, place.path)
    place.recover()
    with place.open() as ledger, pytest.raises(BudgetExhausted):
        ask(ledger)


@pytest.mark.parametrize("used", ["redeemed", "recorded"])
def test_an_old_copy_cannot_bring_a_used_receipt_back(place: FilePlace, tmp_path: Path, used: str):
    with place.open() as ledger:
        receipt = ask(ledger)
    old = shutil.copy(place.path, tmp_path / "old")
    with place.open() as ledger:
        ledger.redeem(receipt) if used == "redeemed" else answer(ledger, receipt)
    shutil.copy(old, place.path)
    with pytest.raises(LedgerRolledBack):
        place.open()


def test_another_ledger_is_refused(place: FilePlace, tmp_path: Path):
    other = FilePlace(tmp_path / "other")
    other.create(terms_of())
    shutil.copy(other.path, place.path)
    with pytest.raises(LedgerRolledBack):
        place.open()


@pytest.mark.parametrize("emptied", ["", "-wal"])
def test_a_file_exchanged_under_an_open_ledger_loses_nothing_unnoticed(place: FilePlace, tmp_path: Path, emptied: str):
    old = shutil.copy(place.path, tmp_path / "old")
    ledger = place.open()
    receipts = [ask(ledger).id]
    shutil.copy(old, place.path)  # the same inode, with yesterday's bytes
    place.path.with_name(f"stays.ledger{emptied}").write_bytes(b"")
    with contextlib.suppress(Unavailable):
        receipts += [ask(ledger).id, ask(ledger).id]
    ledger.close()
    try:
        with place.open() as again:
            assert {line.hash for line in again.lines()} >= set(receipts)
    except Unavailable:
        pass


def test_a_head_that_is_gone_or_damaged_is_said_to_be(place: FilePlace):
    head = opening.default_head_path(place.path)
    kept = head.read_bytes()
    head.unlink()
    with pytest.raises(HeadMissing, match="Put the head file back"):
        place.open()
    for damaged in (b"", kept[:100], b"x" + kept[1:4096] + b"x" + kept[4097:], kept + b" "):
        head.write_bytes(damaged)
        with pytest.raises(LedgerUnreadable, match="head"):
            place.open()
    head.write_bytes(kept)
    place.open().close()


def test_a_head_that_vanishes_stops_the_ledger_and_the_charge_stands(place: FilePlace):
    head = opening.default_head_path(place.path)
    with place.open() as ledger:
        kept = head.read_bytes()
        head.unlink()
        with pytest.raises(LedgerUnavailable, match="The charge stands"):
            ask(ledger)
        head.write_bytes(kept)
        with pytest.raises(LedgerUnavailable):
            ask(ledger)
    with place.open() as ledger:
        assert ledger.state().charges == 1


def test_a_torn_head_leaves_the_one_before(tmp_path: Path):
    head = HeadFile(tmp_path / "head")
    head.create(Mark(0, "0" * 64))
    for number in range(1, 4):
        head.advance(Mark(number, f"{number:064x}"))
        whole = head.path.read_bytes()
        changed = 0 if f"head 1 {number} ".encode() in whole[:4096] else 4096
        for cut in range(0, 4096, 97):
            head.path.write_bytes(whole[: changed + cut] + bytes(4096 - cut) + whole[changed + 4096 :])
            assert head.read().number >= number - 1
        head.path.write_bytes(whole)
        assert head.read() == Mark(number, f"{number:064x}")


def test_a_head_never_goes_back(tmp_path: Path):
    head = HeadFile(tmp_path / "head")
    head.create(Mark(5, "5" * 64))
    head.advance(Mark(4, "4" * 64))
    assert head.read().number == 5
    with pytest.raises(LedgerRolledBack):
        head.advance(Mark(5, "6" * 64))
    with pytest.raises(LedgerExists):
        head.create(Mark(0, "0" * 64))


def test_the_head_may_stand_elsewhere(tmp_path: Path):
    (tmp_path / "vault").mkdir()
    path, head = tmp_path / "stays.ledger", tmp_path / "vault" / "head"
    opening.create_file_ledger(path, terms_of(), head=head)
    with opening.open_ledger(path, head=head) as ledger:
        ask(ledger)
    with pytest.raises(HeadMissing):
        opening.open_ledger(path)
    opening.recover_ledger(path, head=head)
    with opening.open_ledger(path, head=head) as ledger:
        assert ledger.state().recovered


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET text = '{}'",
        "DELETE FROM entries",
        "INSERT INTO entries VALUES (7, '{0}', '{1}', 'closed', NULL, NULL, '{{}}')",
        "INSERT INTO entries VALUES (1, '{0}', '{1}', 'closed', NULL, NULL, '{{}}')",
        "INSERT INTO entries VALUES (1, '{2}', 'short', 'closed', NULL, NULL, '{{}}')",
        "INSERT INTO entries VALUES (1, '{2}', '{1}', 'redeemed', 9, NULL, '{{}}')",
    ],
)
def test_the_file_itself_refuses_to_be_changed(place: FilePlace, statement: str):
    connection = sqlite3.connect(place.path)
    connection.execute("PRAGMA foreign_keys = ON")
    (last,) = connection.execute("SELECT hash FROM entries").fetchone()
    with pytest.raises(sqlite3.IntegrityError), connection:
        connection.execute(statement.format("0" * 64, "1" * 64, last))
    connection.close()
    place.open().close()


@pytest.mark.parametrize("statement", ["DROP TRIGGER entries_stay", "CREATE TABLE more (x)", "PRAGMA user_version = 1"])
def test_a_file_whose_rules_were_changed_is_refused(place: FilePlace, statement: str):
    connection = sqlite3.connect(place.path)
    connection.execute(statement)
    connection.close()
    with pytest.raises(LedgerUnreadable):
        place.open()


def test_a_file_that_another_holds_is_busy_and_nothing_is_charged(place: FilePlace):
    store = SqliteStore(place.path, patience=0.05)
    ledger = open_existing(store, HeadFile(opening.default_head_path(place.path)))
    holder = sqlite3.connect(place.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerBusy, match="Nothing was charged"):
        ask(ledger)
    assert ledger.state().charges == 0
    holder.execute("ROLLBACK")
    holder.close()
    ask(ledger)
    assert ledger.verify().charges == 1
    ledger.close()


def test_a_file_that_may_not_be_written_is_said_to_be(place: FilePlace):
    """As another user, since no permission holds root back."""
    place.folder.chmod(0o755)
    for path in (place.path, opening.default_head_path(place.path)):
        path.chmod(0o444)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:
        os.chdir(place.folder)
        if os.getuid() == 0:
            os.setuid(65534)
        try:
            opening.open_ledger(Path(place.path.name))
        except LedgerForbidden:
            os._exit(0)
        except BaseException:  # noqa: BLE001
            os._exit(2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
