"""Backup and restore: a restored ledger never spends twice."""

from pathlib import Path

import pandas as pd
import pytest

import dodona
from dodona.dataset import backup as backups
from dodona.errors import InvalidRequest, Refused
from dodona.ledger.errors import LedgerRolledBack

COUNT = "SELECT count(*) FROM stays WHERE age >= 65"
FILE = """
format = 1
dataset = "stays"
[source]
kind = "csv"
path = "stays.csv"
table = "stays"
[unit]
protects = "person"
id = "patient"
rows = 2
neighbours = "add-remove"
size = 20_000
[budget]
epsilon = "4"
delta = "1e-6"
[ledger]
path = "stays.ledger"
{head}
[columns.age]
kind = "integer"
lower = 0
upper = 110
"""


def made(folder: Path, head: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    rows(folder)
    (folder / "stays.toml").write_text(FILE.replace("{head}", head))
    dodona.create_ledger(folder / "stays.toml")
    return folder / "stays.toml"


def rows(folder: Path) -> None:
    ages = [number % 100 for number in range(200)]
    pd.DataFrame({"patient": range(200), "age": ages}).to_csv(folder / "stays.csv", index=False)


def asked(path: Path, question: str = COUNT) -> dodona.answer.answer.Answer:
    with dodona.open(path) as curator:
        return curator.ask(question)


def test_a_restored_ledger_has_nothing_left_and_still_replays(tmp_path: Path):
    path = made(tmp_path / "live")
    first = asked(path)
    assert backups.backup(path.parent, tmp_path / "copy.tar.gz") == ("stays",)
    asked(path, "SELECT count(*) FROM stays WHERE age < 20")  # charged after the backup, and forgotten by it
    (restored,) = backups.restore(tmp_path / "copy.tar.gz", tmp_path / "new")
    assert restored.exhausted
    assert restored.charges == 1
    rows(tmp_path / "new")
    again = asked(restored.file)
    assert (again.source, again.value) == ("replayed", first.value)
    with dodona.open(restored.file) as curator:
        assert curator.budget.left == 0
        with pytest.raises(Refused):
            curator.ask("SELECT count(*) FROM stays WHERE age < 20")


def test_a_head_kept_elsewhere_proves_that_nothing_was_charged_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STAYS_HEAD", str(tmp_path / "heads" / "stays.head"))
    (tmp_path / "heads").mkdir()
    path = made(tmp_path / "live", 'head = "env:STAYS_HEAD"')
    asked(path)
    with dodona.open(path) as curator:
        left = curator.budget.left
    backups.backup(path, tmp_path / "copy.tar.gz")
    (restored,) = backups.restore(tmp_path / "copy.tar.gz", tmp_path / "new")
    assert not restored.exhausted
    rows(tmp_path / "new")
    with dodona.open(restored.file) as curator:
        assert 0 < curator.budget.left == left


def test_the_same_head_after_one_more_charge_proves_the_opposite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STAYS_HEAD", str(tmp_path / "heads" / "stays.head"))
    (tmp_path / "heads").mkdir()
    path = made(tmp_path / "live", 'head = "env:STAYS_HEAD"')
    asked(path)
    backups.backup(path, tmp_path / "copy.tar.gz")
    asked(path, "SELECT count(*) FROM stays WHERE age < 20")
    (restored,) = backups.restore(tmp_path / "copy.tar.gz", tmp_path / "new")
    assert restored.exhausted
    with pytest.raises(LedgerRolledBack):  # of the two copies one is in use, never both
        asked(path, "SELECT count(*) FROM stays WHERE age < 30")


@pytest.mark.parametrize("place", [0, 100, -40])
def test_a_damaged_archive_restores_nothing(tmp_path: Path, place: int):
    path = made(tmp_path / "live")
    backups.backup(path, tmp_path / "copy.tar.gz")
    damaged = bytearray((tmp_path / "copy.tar.gz").read_bytes())
    damaged[place] ^= 0x55
    (tmp_path / "copy.tar.gz").write_bytes(bytes(damaged))
    with pytest.raises(backups.BackupUnreadable, match="cannot be restored"):
        backups.restore(tmp_path / "copy.tar.gz", tmp_path / "new")
    assert not list((tmp_path / "new").glob("*")) if (tmp_path / "new").exists() else True


def test_nothing_is_overwritten(tmp_path: Path):
    path = made(tmp_path / "live")
    backups.backup(path, tmp_path / "copy.tar.gz")
    with pytest.raises(InvalidRequest, match="never overwrites"):
        backups.backup(path, tmp_path / "copy.tar.gz")
    with pytest.raises(InvalidRequest, match=r"has stays\.toml already"):
        backups.restore(tmp_path / "copy.tar.gz", path.parent)
    assert (tmp_path / "copy.tar.gz").stat().st_mode & 0o077 == 0
