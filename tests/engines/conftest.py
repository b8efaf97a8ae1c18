"""What a test opened is closed when it ends; and what holds of all tests that ask Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.scene import OPENED, spark


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of every source that ask Spark, wherever they are listed.

    It takes seconds for what the others do in milliseconds: `make test` asks it one case of a test, and the soak all.
    """
    from tests.engines.spark import MARKS

    seen: set[str] = set()
    for item in items:
        call = getattr(item, "callspec", None)
        if call is None or call.params.get("backend") is not spark or item.get_closest_marker("spark") is not None:
            continue
        for mark in MARKS:
            item.add_marker(mark)
        if item.get_closest_marker("soak") is None:
            name = item.nodeid.partition("[")[0]
            if name in seen:
                item.add_marker("soak")
            seen.add(name)
