"""Every test that takes a place runs on every kind of ledger."""

from pathlib import Path

import pytest

from tests.ledger.scene import PLACES, Place


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)
