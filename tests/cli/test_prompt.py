"""`dodona ask` on a terminal: the price is shown, and nothing is paid before somebody says so."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dodona
from dodona.dataset import open_dataset_ledger
from dodona.privacy.budget import BudgetState
from tests.dataset.scene import written

pytestmark = pytest.mark.slow

OLD = "SELECT count(*) FROM stays WHERE age >= 65"
PATIENCE = 60.0
"""Seconds after which a command is taken to hang, and is stopped."""


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = written(tmp_path)
    dodona.create_ledger(path)
    return path


def state(dataset: Path) -> BudgetState:
    with open_dataset_ledger(dataset) as ledger:
        return ledger.state()


def typed(dataset: Path, answer: str, *options: str) -> tuple[int, str]:
    """Return the exit code and the screen of a command that is answered once it asks."""
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "dodona.cli", "ask", str(dataset), OLD, *options]
    environment = os.environ | {"DODONA_ANALYST": "ada", "TERM": "dumb", "COLUMNS": "200"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as process:
        os.close(terminal)
        try:
            return _talk(process, screen, answer)
        finally:
            process.kill()  # where it hangs; one that has ended is left as it is
            os.close(screen)


def _talk(process: subprocess.Popen[bytes], screen: int, answer: str) -> tuple[int, str]:
    shown, until, answered = "", time.monotonic() + PATIENCE, False
    while time.monotonic() < until:
        ready, _, _ = select.select([screen], [], [], 0.5)
        if not ready:
            continue
        try:
            some = os.read(screen, 4096)
        except OSError:  # the other side has closed: how Linux says that it ended
            some = b""
        if not some:
            return process.wait(PATIENCE), shown
        shown += some.decode("utf-8", "replace")
        if not answered and "Pay it? [y/N]:" in shown:
            answered = True
            os.write(screen, answer.encode("utf-8"))
    pytest.fail(f"The command did not end. It showed: {shown}")


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04"], ids=["no", "nothing", "the end of the input"])
def test_whoever_does_not_agree_to_the_price_is_charged_nothing(dataset: Path, answer: str) -> None:
    code, shown = typed(dataset, answer, "--within", "50")
    assert code == 1
    assert "Price: " in shown
    assert "% of the budget" in shown
    assert "Source:" not in shown
    assert state(dataset).charges == 0


def test_whoever_agrees_pays_the_price_that_was_shown(dataset: Path) -> None:
    with dodona.open(dataset, analyst="ada") as stays:
        offer = stays.quote(OLD, within=50)
    code, shown = typed(dataset, "y\n", "--within", "50")
    assert code == 0, shown
    assert f"Price: {offer.price}" in shown
    assert "Source: measured" in shown
    assert state(dataset).charges == 1
    assert state(dataset).spent == offer.price.share
    code, shown = typed(dataset, "n\n", "--within", "50")
    assert (code, "Pay it?" in shown) == (0, False)  # told again, for nothing
    assert "Source: replayed" in shown


def test_a_price_above_the_highest_is_not_offered_and_one_who_said_yes_before_is_not_asked(dataset: Path) -> None:
    code, shown = typed(dataset, "y\n", "--epsilon", "0.1", "--max-price", "1%")
    assert code != 0
    assert "Pay it?" not in shown
    assert state(dataset).charges == 0
    code, shown = typed(dataset, "n\n", "--within", "50", "--yes")
    assert (code, "Pay it?" in shown) == (0, False)
    assert state(dataset).charges == 1
