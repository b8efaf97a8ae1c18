"""Threads of several processes race for the last of a budget."""

from pathlib import Path

import pytest

from tests.ledger import drill
from tests.ledger.scene import shared_server

KINDS = ["sqlite", "postgres"]


def races(kind: str, folder: Path, count: int) -> None:
    server = ["--server", shared_server().address] if kind == "postgres" else []
    tally = drill.run("race", "--folder", str(folder), "--count", str(count), *server)
    assert tally == {"rounds": count, "race_overspend": 0, "left": 0, "untyped": 0}


@pytest.mark.parametrize("kind", KINDS)
def test_a_race_of_sixteen_threads_in_four_processes_spends_exactly_the_budget(kind: str, tmp_path: Path):
    races(kind, tmp_path, 4)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_many_races_spend_exactly_the_budget(kind: str, tmp_path: Path):
    races(kind, tmp_path, 50)
