"""Kills, power cuts and failing disks: what was told is kept, and after a failed write nothing is told."""

from pathlib import Path

import pytest

from tests.ledger import drill
from tests.ledger.fault import Mode
from tests.ledger.scene import shared_server


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return drill.build_shim(tmp_path_factory.mktemp("shim"))


KINDS = ["sqlite", "postgres"]


def kills(kind: str, folder: Path, count: int) -> None:
    server = ["--server", shared_server().address] if kind == "postgres" else []
    tally = drill.run("kill", "--folder", str(folder), "--count", str(count), *server)
    assert tally["kill_trials"] == count
    assert tally["told"] > 0
    assert tally["lost"] == tally["corrupt"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_kills_lose_nothing_that_was_told(kind: str, tmp_path: Path):
    kills(kind, tmp_path, 25)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_kills_lose_nothing_that_was_told(kind: str, tmp_path: Path):
    kills(kind, tmp_path, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)
def test_a_fault_at_any_call_loses_nothing_and_nothing_is_told_after_it(mode: Mode, shim: Path, tmp_path: Path):
    """At every write, sync and truncation: an error, a full disk, half a write, a kill, or the power cut.

    A power cut takes back every write that was not synced, so it would show a charge that was told too early.
    """
    folder = drill.quick_folder() or tmp_path
    tally = drill.run("fault", "--folder", str(folder), "--mode", mode.name, shim=shim)
    assert tally["calls"] > 50
    assert tally["told"] > 100
    assert tally["lost"] == tally["answered_after"] == tally["untyped"] == tally["corrupt"] == 0
    if mode is Mode.EIO:
        assert tally["failed"] == tally["calls"] - 1
