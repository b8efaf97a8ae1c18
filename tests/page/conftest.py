"""One server for all tests of the page, and one browser for each file of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.page.scene import Served, Visit, browser, served, visit

expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def server() -> Iterator[Served]:
    folder = Path(tempfile.mkdtemp(prefix="page-"))  # pytest's own are too long for the paths of sockets
    try:
        with served(folder) as running:
            yield running
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")  # while it is open an event loop runs in this thread, and other tests start their own
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def look(chromium, server) -> Iterator[Callable[..., Visit]]:
    """Open the page as somebody; at the end nothing may have gone wrong on it."""
    visits: list[Visit] = []

    def opened(name: str | None, **options: Any) -> Visit:  # noqa: ANN401  the browser's
        page_visit = visit(chromium, server, name, **options)
        visits.append(page_visit)
        return page_visit

    yield opened
    for page_visit in visits:
        page_visit.context.close()
        assert page_visit.faults == []
