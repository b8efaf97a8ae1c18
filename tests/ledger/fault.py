"""A fault at the k-th write or sync, for every k: nothing is answered after it, and nothing answered before is lost."""

import ctypes
import shutil
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from pathlib import Path

from dodona.errors import DodonaError, Unavailable
from dodona.ledger import opening
from dodona.ledger.head import HeadFile
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import open_existing
from dodona.ledger.sqlite import SqliteStore
from dodona.privacy.budget import Budget
from tests.ledger.kill import lost, one_after_another
from tests.ledger.processes import Say, forked
from tests.ledger.scene import ask, terms_of


class Mode(IntEnum):
    """What the shim does at the chosen call; the numbers are the shim's."""

    EIO = 1
    ENOSPC = 2
    SHORT = 3
    KILL_BEFORE = 4
    KILL_AFTER = 5
    POWER = 6


ROUNDS = 2


def every_call(folder: Path, mode: Mode, work: Callable[[Path, Say], None]) -> dict[str, int]:
    """Return what faults at every call did to a ledger in this folder while the work was done."""
    shim = ctypes.CDLL(None)
    tally = {"calls": 0, "told": 0, "failed": 0, "lost": 0, "answered_after": 0, "untyped": 0, "corrupt": 0}
    template = folder / "template"
    template.mkdir()
    opening.create_file_ledger(template / "stays.ledger", terms_of(Budget(10, 0, "pure")))
    with opening.open_ledger(template / "stays.ledger") as ledger:
        ask(ledger)
    reached = True
    while reached:
        tally["calls"] += 1
        copy = Path(shutil.copytree(template, folder / "copy"))
        arm = partial(shim.shim_arm, int(mode), ctypes.c_long(tally["calls"]))
        child = forked(partial(_armed, shim, arm, tally["calls"], partial(work, copy)))
        said = child.finish()
        reached = "steps were fewer" not in said
        reported = [word for word in said if word.startswith(("charged", "redeemed", "released"))]
        tally["told"] += len(reported)
        tally["failed"] += "failed" in said
        tally["answered_after"] += "answered after a failure" in said
        tally["untyped"] += sum(word.startswith("untyped") for word in said)
        try:
            with opening.open_ledger(copy / "stays.ledger") as ledger:
                tally["lost"] += lost(ledger, reported)
                ledger.verify()
                ask(ledger)
        except DodonaError:
            tally["corrupt"] += 1
        shutil.rmtree(copy)
    shutil.rmtree(template)
    return tally


def use(folder: Path, say: Say) -> None:
    """Open, ask, use and answer, with a checkpoint now and then; after a failure, try in vain."""
    path = folder / "stays.ledger"
    ledger: Ledger | None = None
    try:
        store = SqliteStore(path, commits_between_checkpoints=2)
        ledger = open_existing(store, HeadFile(opening.default_head_path(path)))
        one_after_another(ledger, say, "k", ROUNDS)
        ledger.close()
    except Unavailable:
        say("failed")
        if ledger is not None:
            _in_vain(ledger, say)


def _in_vain(ledger: Ledger, say: Say) -> None:
    for number in range(2):
        try:
            ask(ledger, f"after {number}")
        except Unavailable:
            continue
        say("answered after a failure")


def _armed(shim: ctypes.CDLL, arm: Callable[[], object], call: int, work: Callable[[Say], None], say: Say) -> None:
    arm()
    work(say)
    if shim.shim_steps() < call:
        say("steps were fewer")
