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
    """Mark the tests of every source that ask Spark, wherever they are listed."""
    from tests.engines.spark import MARKS

    for item in items:
        call = getattr(item, "callspec", None)
        if call is not None and call.params.get("backend") is spark:
            for mark in MARKS:
                item.add_marker(mark)
