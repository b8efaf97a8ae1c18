"""The map of the sources has every item once, and names code and tests that exist."""

import ast
import re
from pathlib import Path

import pytest

from tests.house.pages import is_defined
from tests.house.tree import ROOT, SOURCE

PAGE = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
ITEMS = 117
ROWS = [re.split(r"(?<!\\)\|", row)[1:-1] for row in re.findall(r"^\| \d+ \|.*$", PAGE, re.MULTILINE)]


def test_every_item_is_there_once_and_in_order() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, ITEMS + 1))


def test_every_item_has_words_code_and_a_test() -> None:
    assert {len(row) for row in ROWS} == {4}
    assert [row[0] for row in ROWS if not row[1].strip()] == []
    assert [row[0] for row in ROWS if not re.search(r"`dodona\.", row[2])] == []
    assert [row[0] for row in ROWS if not re.search(r"`tests/", row[3])] == []


def test_the_code_that_is_named_exists() -> None:
    assert [name for name in re.findall(r"`(dodona\.[\w.]+)`", PAGE) if not is_symbol(name)] == []


def test_the_tests_that_are_named_exist() -> None:
    assert [node_id for node_id in re.findall(r"`(tests/[^`]+)`", PAGE) if not is_defined(node_id)] == []


@pytest.mark.parametrize("name", ["dodona.nowhere", "dodona.errors.Nothing", "dodona.errors.DodonaError.nothing"])
def test_a_name_that_nothing_has_is_noticed(name: str) -> None:
    assert not is_symbol(name)


def is_symbol(name: str, source: Path = SOURCE) -> bool:
    """Whether a dotted name is defined in a module, or imported by a package, at any depth of classes."""
    folder, parts = source, name.split(".")
    while parts and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    is_module = parts and (folder / f"{parts[0]}.py").is_file()
    path = folder / (f"{parts.pop(0)}.py" if is_module else "__init__.py")
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for step in parts:
        definition = next((node for node in body if step in _names(node)), None)
        if definition is None:
            return False
        body = definition.body if isinstance(definition, ast.ClassDef) else []
    return True


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
        case _:
            return []
