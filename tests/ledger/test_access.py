"""Files that a user may not touch, links that others left, lines of a newer version: each told for what it is."""

import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dodona.errors import DodonaError
from dodona.ledger import opening
from dodona.ledger.entries import Line, _hash
from dodona.ledger.errors import HeadMissing, LedgerNewer, LedgerUnreadable
from dodona.ledger.head import HeadFile, Mark
from dodona.ledger.opening import default_head_path
from dodona.ledger.store import row_from_line
from tests.ledger.processes import Say, forked
from tests.ledger.scene import FilePlace, ask, begun, terms_of
from tests.ledger.server import NOBODY


@pytest.fixture
def kept() -> Iterator[FilePlace]:
    """A ledger in a folder that every user can reach, as those of other tests are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place = FilePlace(Path(folder) / "kept")
        place.create(terms_of())
        yield place


def by_another(act: str, path: Path) -> str:
    """What a user who is not root hears; run as root, that is nobody."""

    def work(say: Say) -> None:
        os.chdir(path.parent)
        if os.getuid() == 0:
            os.setuid(NOBODY)
        try:
            ACTS[act](Path(path.name))
        except DodonaError as fault:
            say(f"{fault.code} {fault}")
        else:
            say("done")

    (said,) = forked(work).finish()
    return said


def _open(path: Path) -> None:
    with opening.open_ledger(path) as ledger:
        ask(ledger)


ACTS: dict[str, Callable[[Path], None]] = {
    "create": lambda path: opening.create_file_ledger(path, terms_of()),
    "recover": opening.recover_ledger,
    "open": _open,
}


def test_a_ledger_of_another_user_is_a_matter_of_permission(kept: FilePlace):
    kept.path.chmod(0o000 if os.getuid() else 0o600)
    assert by_another("open", kept.path).startswith("ledger-forbidden This user may not read and write")
    assert by_another("recover", kept.path).startswith("ledger-forbidden")


def test_a_head_of_another_user_is_a_matter_of_permission(kept: FilePlace):
    for name in (kept.path, kept.folder):
        name.chmod(0o777)
    default_head_path(kept.path).chmod(0o000)
    assert by_another("open", kept.path).startswith("ledger-forbidden")


@pytest.mark.parametrize("act", ["open", "create"])
def test_a_folder_that_cannot_be_written_is_a_matter_of_permission(kept: FilePlace, act: str):
    for name in (kept.path, default_head_path(kept.path)):
        name.chmod(0o666)
    kept.folder.chmod(0o555)
    where = kept.path if act == "open" else kept.folder / "another.ledger"
    assert by_another(act, where).startswith("ledger-forbidden")
    kept.folder.chmod(0o755)


def test_a_head_that_is_a_folder_is_no_raw_error(kept: FilePlace):
    default_head_path(kept.path).unlink()
    with pytest.raises(HeadMissing):
        kept.open()
    default_head_path(kept.path).mkdir()
    with pytest.raises(LedgerUnreadable, match="folder"):
        kept.open()


def test_a_link_in_place_of_a_new_head_is_not_followed(tmp_path: Path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    head = HeadFile(tmp_path / "head")
    (tmp_path / "head.new").symlink_to(precious)
    head.create(Mark(0, "0" * 64))
    assert precious.read_text() == "precious"
    assert head.read() == Mark(0, "0" * 64)
    assert not (tmp_path / "head").is_symlink()


@pytest.mark.parametrize("fields", [{"entry": "sworn", "charge": 1}, {"entry": "closed", "colour": "blue"}])
def test_a_line_of_a_newer_version_is_not_taken_for_damage(tmp_path: Path, fields: dict[str, object]):
    place = FilePlace(tmp_path)
    with begun(place) as ledger:
        ask(ledger)
        last = ledger.lines()[-1]
        text = json.dumps(fields | {"number": 2, "time": "now"}, sort_keys=True, separators=(",", ":"))
        line = Line(2, last.hash, _hash(last.hash, text), text)
        row = list(row_from_line(line))
        row[4] = fields.get("charge")
        with sqlite3.connect(place.path) as connection:
            connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        connection.close()
        with pytest.raises(LedgerNewer, match="do not recover"):
            ledger.state()
    for act in (place.open, place.recover):
        with pytest.raises(LedgerNewer, match="do not recover"):
            act()
    assert opening.default_head_path(place.path).exists()
