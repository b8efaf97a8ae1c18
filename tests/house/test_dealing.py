"""Every test is dealt once, long modules stay whole and come first in each hand, and Spark is asked by one worker."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tests.house.dealing import beginning_elsewhere, deal


@dataclass(frozen=True)
class Item:
    """As much of a test as the dealer looks at."""

    name: str
    path: Path
    marks: frozenset[str] = frozenset()

    def get_closest_marker(self, name: str) -> str | None:
        """The mark of this name."""
        return name if name in self.marks else None


def made_up() -> list[Any]:
    short = [Item(f"short {n}", Path(f"tests/sql/test_{n // 10}.py")) for n in range(70)]
    slow = [
        Item(f"slow {n}", Path(f"tests/lab/test_{n // 4}.py"), frozenset({"slow"} if n % 4 == 0 else ()))
        for n in range(24)
    ]
    page = [Item(f"page {n}", Path("tests/page/test_page.py")) for n in range(5)]
    spark = Item("spark", Path("tests/sql/test_3.py"), frozenset({"slow", "spark"}))
    return [*short[:40], *slow, spark, *page, *short[40:]]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_every_test_is_dealt_once(workers: int) -> None:
    assert sorted(item.name for item in cast("list[Any]", deal(made_up(), workers))) == sorted(
        item.name for item in made_up()
    )


def test_each_hand_begins_with_whole_long_modules_and_ends_with_short_ones() -> None:
    dealt = cast("list[Any]", deal(made_up(), 2))
    hands = dealt[:50], dealt[50:]
    assert hands[0][0].name == "spark"
    seen = []
    for hand in hands:
        long = [item.path for item in hand if "lab" in item.path.parts or "page" in item.path.parts]
        assert {item.path for item in hand[-10:]}.isdisjoint(long)
        seen.append(set(long))
    assert seen[0].isdisjoint(seen[1])
    assert min(map(len, seen)) >= 3


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_worker_begins_with_other_files_and_comes_to_all(workers: int) -> None:
    files = list(range(7))
    orders = [beginning_elsewhere(files, worker, workers) for worker in range(workers)]
    assert all(sorted(order) == files for order in orders)
    assert len({order[0] for order in orders}) == workers
