"""Bytes changed and files cut short: noticed, or harmless, which means the same lines, the same state, and valid."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psycopg

from dodona.errors import DodonaError
from dodona.ledger import opening
from dodona.ledger.entries import Line
from dodona.ledger.ledger import Ledger
from dodona.privacy.budget import Analyst, Budget
from tests.ledger.scene import answer, ask, terms_of

NAME = "stays.ledger"
BUDGET = Budget(1, 0, "pure")


class Spot(Protocol):
    """A ledger that can be opened again and again."""

    @property
    def place(self) -> str:
        """Where it is."""

    def open(self) -> Ledger:
        """Open it."""


def small(folder: Path) -> None:
    """Make a small ledger with one of most things in it."""
    opening.create_file_ledger(folder / NAME, terms_of(BUDGET, Analyst("ada", "1/2")))
    with opening.open_ledger(folder / NAME) as ledger:
        fill(ledger)


def fill(ledger: Ledger) -> None:
    """Write what a small ledger holds, for an analyst called ada."""
    answer(ledger, ask(ledger, "told", analyst="ada"))
    ask(ledger, analyst="ada")
    ledger.stop("ada")


def live(folder: Path) -> None:
    """Make a copy of a small ledger that is still open, so that its newest lines stand in the write-ahead log."""
    (folder / "open").mkdir()
    opening.create_file_ledger(folder / "open" / NAME, terms_of())
    with opening.open_ledger(folder / "open" / NAME) as ledger:
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
        outcome = _outcome(_laid(files | {name: content}, scratch), truth)
        tally["tampered"] += 1
        tally[outcome] += 1
    return tally


def _outcome(path: Path, truth: list[Line]) -> str:
    try:
        return "harmless" if _seen(path) == truth else "missed"
    except DodonaError:
        return "detected"
    except Exception:  # noqa: BLE001
        return "untyped"


def _seen(path: Path) -> list[Line]:
    with opening.open_ledger(path) as ledger:
        assert ledger.verify() == ledger.state()
        return list(ledger.lines())


def _laid(files: dict[str, bytes], scratch: Path) -> Path:
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for name, content in files.items():
        (scratch / name).write_bytes(content)
    return scratch / NAME


def rows_altered(address: str, spot: Spot, stride: int) -> dict[str, int]:
    """Return what became of rows altered or taken out in a database, by someone whom its rules do not hold back."""
    tally = {"tampered": 0, "detected": 0, "harmless": 0, "missed": 0, "untyped": 0}
    name = spot.place.partition("#")[2]
    columns = ("previous", "hash", "kind", "charge", "key", "text")
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute("SET session_replication_role = replica")
        names = ", ".join(columns)
        select = f"SELECT number, {names} FROM dodona_entries WHERE ledger = %s ORDER BY number"  # noqa: S608
        rows = owner.execute(select, (name,)).fetchall()
        truth = _lines(spot)
        for number, *values in rows:
            for column, value in zip(columns, values, strict=True):
                for altered in (None, *texts(value, stride)):
                    if altered != value and (altered is not None or column in {"charge", "key"}):
                        change = f"UPDATE dodona_entries SET {column} = %s WHERE ledger = %s AND number = %s"  # noqa: S608
                        owner.execute(change, (altered, name, number))
                        _count(tally, spot, truth)
                        owner.execute(change, (value, name, number))
            owner.execute("CREATE TEMPORARY TABLE away AS SELECT * FROM dodona_entries WHERE ledger = %s", (name,))
            owner.execute("DELETE FROM dodona_entries WHERE ledger = %s AND number >= %s", (name, number))
            _count(tally, spot, truth)
            owner.execute("INSERT INTO dodona_entries SELECT * FROM away WHERE number >= %s", (number,))
            owner.execute("DROP TABLE away")
        assert _lines(spot) == truth
    return tally


def texts(value: str | int | None, stride: int) -> Iterator[str | int]:
    """Yield copies of a text with one letter changed; letters stay letters, so that the table's own checks hold."""
    if isinstance(value, int):
        yield value + 1
        return
    for place in range(0, len(value or ""), stride):
        letter = (value or "")[place]
        if letter not in "{}":
            yield f"{(value or '')[:place]}{'b' if letter == 'a' else 'a'}{(value or '')[place + 1 :]}"


def _count(tally: dict[str, int], spot: Spot, truth: list[Line]) -> None:
    tally["tampered"] += 1
    try:
        tally["harmless" if _lines(spot) == truth else "missed"] += 1
    except DodonaError:
        tally["detected"] += 1
    except Exception:  # noqa: BLE001
        tally["untyped"] += 1


def _lines(spot: Spot) -> list[Line]:
    with spot.open() as ledger:
        assert ledger.verify() == ledger.state()
        return list(ledger.lines())
