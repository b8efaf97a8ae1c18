"""The page: how large it is, how soon it can be used, and how soon a price is shown after typing stops."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from statistics import median

from benchmarks.report import Row

ABOUT = "the size and the speed of the page, in a real browser"
NOTE = "Loopback; the browser and the server share the processors. Times by the clock: medians of some visits."
_FILES = ("index.html", "page.js", "page.css")
_VISITS = 5
_QUOTES = 9


def sizes() -> dict[str, float]:
    """Return the bytes of what a browser loads, in thousands, and what they are when packed."""
    contents = [resources.files("dodona.server").joinpath("page", name).read_bytes() for name in _FILES]
    packed = [len(gzip.compress(content, 9, mtime=0)) for content in contents]
    return {"bundle_kb": sum(map(len, contents)) / 1000, "bundle_gzip_kb": sum(packed) / 1000}


def measure(say: Callable[[str], None]) -> dict[str, object]:
    """Measure the page over a made-up hospital."""
    from tests.page.scene import browser, served, visit

    folder = Path(tempfile.mkdtemp(prefix="page-"))
    try:
        with served(folder) as server, browser() as opened:
            ready = []
            for number in range(_VISITS + 1):
                context = opened.new_context()
                page = context.new_page()
                page.goto(server.analysts)
                page.get_by_label("Your token").wait_for()
                ready.append(page.evaluate("() => performance.getEntriesByName('dodona-ready')[0].startTime"))
                context.close()
                say(f"visit {number}: ready after {ready[-1]:.0f} ms")
            ada = visit(opened, server, "ada")
            ada.write("SELECT count(*) FROM stays")
            ada.offer.locator(".offer-price").wait_for()
            quotes = []
            for number in range(_QUOTES):
                ada.page.evaluate("() => performance.clearMarks('dodona-quote')")
                ada.write(f"SELECT count(*) FROM stays WHERE age > {20 + number}")  # noqa: S608  text of a question
                typed = ada.page.evaluate("() => performance.now()")
                ada.page.wait_for_function("() => performance.getEntriesByName('dodona-quote').length > 0")
                shown = ada.page.evaluate("() => performance.getEntriesByName('dodona-quote')[0].startTime")
                quotes.append(shown - typed)
                say(f"price {number}: shown {quotes[-1]:.0f} ms after typing")
            ada.context.close()
    finally:
        shutil.rmtree(folder)
    return sizes() | {"ready_ms": median(ready[1:]), "quote_ms": median(quotes)}


def rows(figures: dict[str, object]) -> list[Row]:
    """Return the figures as rows of a table."""
    about = {
        "bundle_kb": ("script, style and page", "kB"),
        "bundle_gzip_kb": ("the same when packed", "kB"),
        "ready_ms": ("from the address to a page that can be used", "ms"),
        "quote_ms": ("from the last letter of a question to its price", "ms"),
    }
    return [Row(text, unit, float(str(figures[name])), None, "less") for name, (text, unit) in about.items()]
