"""Every test that takes a place runs on every kind of store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dodona.server.accounts import Accounts
from tests.server.accounts.scene import PLACES, Place


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)


@pytest.fixture
def accounts(place: Place) -> Iterator[Accounts]:
    """Accounts with one analyst of one dataset."""
    with place.create() as store:
        store.add("ada", email="ada@example.org")
        store.grant("ada", "hospital", "analyst")
        yield store
