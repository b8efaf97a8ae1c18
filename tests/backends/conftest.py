"""What a test opened is closed when it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends.scene import OPENED


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()
