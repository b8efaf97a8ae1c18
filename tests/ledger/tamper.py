"""Bytes changed and files cut short: noticed, or harmless, which means the same lines, the same state, and valid."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from dodona.errors import DodonaError
from dodona.ledger import file
from dodona.ledger.chain import Line
from dodona.policy import Analyst, Budget
from tests.ledger.scene import answer, ask, terms_of

NAME = "stays.ledger"


def small(folder: Path) -> None:
    """Make a small ledger with one of most things in it."""
    file.create(folder / NAME, terms_of(Budget(1, 0, "pure"), Analyst("ada", "1/2")))
    with file.open_ledger(folder / NAME) as ledger:
        answer(ledger, ask(ledger, "told", analyst="ada"))
        ask(ledger, analyst="ada")
        ledger.stop("ada")


def live(folder: Path) -> None:
    """Make a copy of a small ledger that is still open, so that its newest lines stand in the write-ahead log."""
    (folder / "open").mkdir()
    file.create(folder / "open" / NAME, terms_of())
    with file.open_ledger(folder / "open" / NAME) as ledger:
        answer(ledger, ask(ledger, "told"))
        for name in (NAME, f"{NAME}-wal", f"{NAME}.head"):
            shutil.copy(folder / "open" / name, folder / name)
    shutil.rmtree(folder / "open")


def flips(content: bytes, stride: int) -> Iterator[bytes]:
    """Yield copies with one bit changed: in every stride-th byte, another bit each time."""
    for place in range(0, len(content), stride):
        yield content[:place] + bytes([content[place] ^ 1 << place // stride % 8]) + content[place + 1 :]


def cuts(content: bytes, stride: int) -> Iterator[bytes]:
    """Yield copies that end too early."""
    for length in range(0, len(content), stride):
        yield content[:length]


def campaign(original: Path, scratch: Path, name: str, copies: Iterator[bytes]) -> dict[str, int]:
    """Return what became of each altered copy of one file of a ledger."""
    tally = {"tampered": 0, "detected": 0, "harmless": 0, "missed": 0, "untyped": 0}
    files = {path.name: path.read_bytes() for path in original.iterdir()}
    truth = _seen(_laid(files, scratch))
    assert truth is not None
    for content in copies:
        found = _outcome(_laid(files | {name: content}, scratch), truth)
        tally["tampered"] += 1
        tally[found] += 1
    return tally


def _outcome(path: Path, truth: list[Line]) -> str:
    try:
        return "harmless" if _seen(path) == truth else "missed"
    except DodonaError:
        return "detected"
    except Exception:  # noqa: BLE001
        return "untyped"


def _seen(path: Path) -> list[Line]:
    with file.open_ledger(path) as ledger:
        assert ledger.verify() == ledger.state()
        return list(ledger.lines())


def _laid(files: dict[str, bytes], scratch: Path) -> Path:
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for name, content in files.items():
        (scratch / name).write_bytes(content)
    return scratch / NAME
