"""What a change reaches is found from imports alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.reach import distances, imported
from tests.house.tree import ROOT, SOURCE


def test_what_imports_a_changed_file_is_reached_however_far() -> None:
    a, b, c, d = (Path(name) for name in "abcd")
    assert distances([a], {a: set(), b: {a}, c: {b}, d: set()}) == {a: 0, b: 1, c: 2}


def test_imports_are_found_inside_functions_and_in_tables_of_names(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text('TABLE = {"a": "dodona.errors"}\n\ndef f():\n    from tests.house import tree\n', encoding="utf-8")
    assert imported(path) >= {SOURCE / "dodona" / "errors.py", ROOT / "tests" / "house" / "tree.py"}


def test_a_file_is_read_again_when_it_has_changed_and_only_then(tmp_path: Path) -> None:
    path, known = tmp_path / "one.py", dict[str, tuple[int, int, list[str]]]()
    path.write_text("import dodona.errors\n", encoding="utf-8")
    assert imported(path, known) == {SOURCE / "dodona" / "errors.py"}
    time, size, names = known[str(path)]
    assert names == ["dodona.errors"]
    known[str(path)] = (time, size, ["tests.house.tree"])
    assert imported(path, known) == {ROOT / "tests" / "house" / "tree.py"}
    path.write_text("import dodona.numbers, sys\n", encoding="utf-8")
    assert imported(path, known) == {SOURCE / "dodona" / "numbers.py"}


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "a worker"])
def test_what_would_begin_too_late_is_left_out_and_counted(tmp_path: Path, workers: tuple[str, ...]) -> None:
    path = tmp_path / "test_late.py"
    path.write_text("def test_one(): ...\ndef test_two(): ...\n", encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.house.reach", "--seconds", "0", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, *workers, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "2 are farther from the change than 0 s reach" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
