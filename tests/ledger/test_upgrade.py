"""Upgrades: a ledger of an earlier format keeps all that it says, and goes on in the newest one."""

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.ledger.entries import FORMAT, Line, Upgraded, entry_from_json, line_after
from dodona.ledger.errors import LedgerInUse, LedgerNewer, LedgerRolledBack, LedgerUnreadable
from dodona.ledger.head import HeadFile, Mark
from dodona.ledger.keeper import read_book
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import open_ledger, restore_ledger
from dodona.ledger.sqlite import SCHEMAS, SqliteStore
from dodona.ledger.upgrade import STEPS, steps_from, upgrade_ledger
from dodona.privacy.budget import BudgetState
from tests.ledger.scene import FilePlace, ServerPlace, answer, ask, begun, terms_of

GOLDEN = Path(__file__).parent / "golden"
STATE = json.loads((GOLDEN / "format-1.json").read_text())


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A ledger file that the first version with this format wrote."""
    for name in ("format-1.ledger", "format-1.ledger.head"):
        shutil.copy(GOLDEN / name, tmp_path / name)
    return tmp_path / "format-1.ledger"


def without_head(state: BudgetState) -> dict[str, object]:
    return without_head_of(state.to_json())


def without_head_of(found: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in found.items() if name != "head"}


def read(path: Path) -> list[Line]:
    with closing(SqliteStore(path)) as store:
        return list(store.lines(0))


def dealings(ledger: Ledger) -> object:
    """What analysts got and what they may still do."""
    return (
        ledger.releases(),
        ledger.released("question", "1"),
        [ledger.receipt(key, analyst=who) for who, key in (("ada", "one"), ("bob", "lost"), ("ada", "watch"))],
        ledger.fetch("one", analyst="ada"),
        ledger.limits,
        ledger.approval_requests(),
        ledger.datasets(),
        ledger.cap_key,
    )


def test_there_is_a_step_from_every_format_to_the_next():
    assert [step.format for step in steps_from(1)] == list(range(2, FORMAT + 1))
    assert set(SCHEMAS) == {*STEPS, FORMAT}


def test_a_ledger_of_the_first_format_is_served_as_it_is(golden: Path):
    with open_ledger(golden, dataset="stays") as ledger:
        assert ledger.verify().to_json() == STATE
        answer(ledger, ask(ledger, "new", analyst="ada"))
        assert ledger.verify().charges == STATE["charges"] + 1
    with closing(SqliteStore(golden)) as store:
        assert store.layout == 1


def test_an_upgrade_keeps_totals_releases_and_every_line(golden: Path):
    with open_ledger(golden, dataset="stays") as ledger:
        before, lines = dealings(ledger), list(ledger.lines())
    done = upgrade_ledger(golden)
    assert (done.before, done.after) == (1, FORMAT)
    with open_ledger(golden, dataset="stays") as ledger:
        after = list(ledger.lines())
        assert after[: len(lines)] == lines
        assert lines[-1].hash == STATE["head"]
        assert entry_from_json(after[len(lines)].text, number=len(lines)) == Upgraded(2)
        assert dealings(ledger) == before
        assert without_head(ledger.verify()) == without_head_of(STATE)
    with open_ledger(golden, dataset="stays", checkpoint_every=1) as ledger:
        answer(ledger, ask(ledger, "new", analyst="ada"))
    with open_ledger(golden, dataset="stays") as ledger:
        assert ledger.releases()[:-1] == before[0]  # type: ignore[index]
        assert ledger.verify() == ledger.state()
        watch = ledger.receipt("watch", analyst="ada")
        assert watch is not None
        assert ledger.armings(watch).alerts == 2


def test_the_backup_is_a_ledger_of_the_earlier_format_with_all_lines(golden: Path):
    with open_ledger(golden) as ledger:
        lines = list(ledger.lines())
    backup = upgrade_ledger(golden).backup
    assert backup is not None
    with closing(SqliteStore(backup)) as store:
        store.check()
        assert (store.layout, list(store.lines(0))) == (1, lines)
    assert backup.stat().st_mode & 0o077 == 0


def test_a_second_upgrade_has_nothing_to_do(golden: Path):
    upgrade_ledger(golden)
    with open_ledger(golden) as ledger:
        head = ledger.head
    again = upgrade_ledger(golden)
    assert (again.before, again.after, again.steps, again.backup) == (FORMAT, FORMAT, (), None)
    with open_ledger(golden) as ledger:
        assert ledger.head == head


def test_an_upgrade_is_refused_while_another_has_the_ledger_open(golden: Path):
    with open_ledger(golden) as other:
        with pytest.raises(LedgerInUse):
            upgrade_ledger(golden)
        other.state()
    assert upgrade_ledger(golden).after == FORMAT


def test_another_backup_in_its_place_is_never_overwritten(golden: Path):
    backup = golden.with_name(golden.name + ".format-1")
    restore_ledger(backup, read(golden)[:1])
    with pytest.raises(InvalidRequest, match="another backup"):
        upgrade_ledger(golden)
    with open_ledger(golden) as ledger:
        assert ledger.verify().to_json() == STATE


_KILLED = """
import os, signal, sys
from pathlib import Path
from dodona.ledger.upgrade import upgrade_ledger
upgrade_ledger(Path(sys.argv[1]), clock=lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_an_upgrade_that_was_killed_is_run_again(golden: Path):
    """It is killed after the backup and within the step, when the tables are made and the line is not yet written."""
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(golden)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert golden.with_name(golden.name + ".format-1").exists()
    with open_ledger(golden, dataset="stays") as ledger:
        assert ledger.verify().to_json() == STATE
    assert upgrade_ledger(golden).after == FORMAT
    with open_ledger(golden, dataset="stays") as ledger:
        assert without_head(ledger.verify()) == without_head_of(STATE)


def test_an_upgrade_that_was_killed_before_its_head_moved_is_done(golden: Path):
    head = Path(f"{golden}.head")
    before = head.read_bytes()
    upgrade_ledger(golden)
    head.write_bytes(before)
    with open_ledger(golden, dataset="stays") as ledger:
        assert without_head(ledger.verify()) == without_head_of(STATE)
    assert upgrade_ledger(golden).steps == ()


def test_an_old_copy_is_not_upgraded(golden: Path):
    HeadFile(Path(f"{golden}.head")).replace(Mark(40, "a" * 64))
    with pytest.raises(LedgerRolledBack):
        upgrade_ledger(golden)


def test_a_ledger_in_postgresql_is_upgraded(golden: Path, tmp_path: Path):
    place = ServerPlace(tmp_path)
    lines = read(golden)
    restore_ledger(place.place, lines, head=place.head)
    HeadFile(place.head).replace(Mark(lines[-1].number, lines[-1].hash))
    with pytest.raises(InvalidArgument, match="backup"):
        upgrade_ledger(place.place, head=place.head)
    with place.open(), pytest.raises(LedgerInUse):
        upgrade_ledger(place.place, head=place.head, backup=tmp_path / "backup")
    assert upgrade_ledger(place.place, head=place.head, backup=tmp_path / "backup").after == FORMAT
    with place.open(dataset="stays") as ledger:
        assert without_head(ledger.verify()) == without_head_of(STATE)


def test_a_format_of_a_newer_version_is_not_called_damaged(tmp_path: Path):
    place = FilePlace(tmp_path / "ledger")
    begun(place, terms_of()).close()
    with closing(SqliteStore(place.path)) as store:
        first = store.lines(0)[0]
    line = line_after(0, first.hash, Upgraded(FORMAT + 1), time="now")
    with pytest.raises(LedgerNewer, match="do not recover"):
        read_book([first, line])
    connection = sqlite3.connect(place.path)
    connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    with pytest.raises(LedgerNewer, match="do not recover"):
        place.open()
    with pytest.raises(LedgerNewer, match="do not recover"):
        upgrade_ledger(place.path)


def test_a_format_that_leaves_one_out_breaks_a_rule(golden: Path):
    lines = read(golden)
    last = lines[-1]
    line = line_after(last.number, last.hash, Upgraded(1), time="now")
    with pytest.raises(LedgerUnreadable, match="breaks a rule"):
        read_book([*lines, line])
