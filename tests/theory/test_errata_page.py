"""The page of errata has every row once and in order, and each names tests that exist."""

import re

from tests.house.pages import is_defined
from tests.house.tree import THEORY

PAGE = (THEORY / "errata.md").read_text(encoding="utf-8")


ROWS = {int(number): row for number, row in re.findall(r"^(?=\| (\d+)\. )(.*)$", PAGE, re.MULTILINE)}
NUMBER = 46
"""How many statements of the texts were found wrong, loose or easy to misread."""


def test_every_row_is_there_once_and_in_order() -> None:
    assert [int(number) for number in re.findall(r"^\| (\d+)\. ", PAGE, re.MULTILINE)] == list(range(1, NUMBER + 1))


def test_every_row_names_its_test_and_the_tests_exist() -> None:
    named = {number: re.findall(r"`(tests/[^`\s]+)`", row) for number, row in ROWS.items()}
    assert [number for number, node_ids in named.items() if not node_ids] == []
    assert [node_id for node_ids in named.values() for node_id in node_ids if not is_defined(node_id)] == []


def test_every_row_says_where_it_stands_where_it_fails_and_what_holds() -> None:
    cells = [re.split(r"(?<!\\)\|", row)[1:-1] for row in ROWS.values()]
    assert {len(row) for row in cells} == {3}
    assert all(cell.strip() for row in cells for cell in row)
