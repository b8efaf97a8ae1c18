"""The page of errata names tests that exist, and each row once."""

import re

from tests.house.pages import is_defined
from tests.house.tree import THEORY

PAGE = (THEORY / "errata.md").read_text(encoding="utf-8")


def test_the_tests_that_rows_name_exist() -> None:
    named = re.findall(r"`(tests/[^`\s]+)`", PAGE)
    assert len(named) > 15
    assert [node_id for node_id in named if not is_defined(node_id)] == []


def test_rows_are_in_order_and_each_is_there_once() -> None:
    numbers = [int(number) for number in re.findall(r"^\| (\d+)\. ", PAGE, re.MULTILINE)]
    assert numbers == sorted(set(numbers))
