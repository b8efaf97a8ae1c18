"""What tests of more than one folder share."""

from collections.abc import Iterator

import pytest

from tests.house.forks import Run, forks

pytest_plugins = ["tests.house.reach", "tests.house.shares"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that ask Spark first: workers begin with runs of neighbours, so that only one starts the engine."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


@pytest.fixture(scope="session")
def forked() -> Iterator[Run]:
    """How to run a module in a process that has imported nothing of Dodona, without waiting for the libraries."""
    with forks() as run:
        yield run
