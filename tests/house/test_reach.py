"""What a change reaches is found from imports alone."""

from pathlib import Path

from tests.house.reach import distances, imported
from tests.house.tree import ROOT, SOURCE


def test_what_imports_a_changed_file_is_reached_however_far() -> None:
    a, b, c, d = (Path(name) for name in "abcd")
    assert distances([a], {a: set(), b: {a}, c: {b}, d: set()}) == {a: 0, b: 1, c: 2}


def test_imports_are_found_inside_functions_and_in_tables_of_names(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text('TABLE = {"a": "dodona.errors"}\n\ndef f():\n    from tests.house import tree\n', encoding="utf-8")
    assert imported(path) >= {SOURCE / "dodona" / "errors.py", ROOT / "tests" / "house" / "tree.py"}
