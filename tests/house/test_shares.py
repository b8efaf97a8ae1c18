"""One case in so many is kept, every value of every parameter is among them, and the soak runs all others."""

import subprocess
import sys
from pathlib import Path

from tests.house.tree import ROOT

TESTS = """\
import pytest

@pytest.mark.share(3)
@pytest.mark.parametrize("engine", "abc")
@pytest.mark.parametrize(("seed", "name"), [(seed, str(seed)) for seed in range(6)])
def test_many(engine, seed, name): ...

def test_one(): ...
"""


def collected(folder: Path, expression: str) -> set[str]:
    """The names of the tests that are chosen by an expression."""
    command = [sys.executable, "-m", "pytest", "--co", "-q", "--rootdir", str(folder), "-p", "no:cacheprovider"]
    plugins = ["-p", "tests.house.shares", "-m", expression, str(folder)]
    done = subprocess.run([*command, *plugins], cwd=ROOT, capture_output=True, text=True, check=True)
    return {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}


def test_a_share_is_kept_and_the_soak_has_all_the_rest(tmp_path: Path) -> None:
    (tmp_path / "test_shares_example.py").write_text(TESTS, encoding="utf-8")
    kept, rest = collected(tmp_path, "not soak"), collected(tmp_path, "soak")
    assert kept == {f"test_many[{seed}-{seed}-{'abc'[-seed % 3]}]" for seed in range(6)} | {"test_one"}
    assert len(rest) == 12
    assert not kept & rest
