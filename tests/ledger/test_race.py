"""Threads of several processes race for the last of a budget."""

from pathlib import Path

import pytest

from tests.ledger import drill


def races(folder: Path, count: int) -> None:
    tally = drill.run("race", "--folder", str(folder), "--count", str(count))
    assert tally == {"rounds": count, "race_overspend": 0, "left": 0, "untyped": 0}


def test_a_race_of_sixteen_threads_in_four_processes_spends_exactly_the_budget(tmp_path: Path):
    races(tmp_path, 3)


@pytest.mark.slow
def test_fifty_races_spend_exactly_the_budget(tmp_path: Path):
    races(tmp_path, 50)
