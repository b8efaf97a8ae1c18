"""Pictures of the main views for the documentation. To take them anew: `python -m tests.page.screenshots`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib import image
from playwright.sync_api import Browser

from tests.page.scene import Served, Visit, browser, served, visit

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LARGEST = 150_000


def _quote(opened: Browser, server: Served) -> Visit:
    ada = visit(opened, server, "ada", viewport={"width": 1200, "height": 800})
    ada.page.get_by_label("by", exact=True).select_option("diagnosis")
    ada.page.get_by_label("Only rows where").select_option("age")
    ada.page.get_by_label("from", exact=True).fill("65")
    ada.offer.get_by_role("img").nth(1).wait_for()
    return ada


def _answer(opened: Browser, server: Served) -> Visit:
    ada = visit(opened, server, "ada", viewport={"width": 1200, "height": 820})
    ada.ask("SELECT diagnosis, count(*)\nFROM stays\nWHERE age >= 65\nGROUP BY diagnosis")
    ada.page.evaluate("() => document.querySelector('section.answer').scrollIntoView()")
    return ada


def _editor(opened: Browser, server: Served) -> Visit:
    ada = visit(opened, server, "ada", viewport={"width": 1280, "height": 720}, color_scheme="dark")
    ada.write("SELECT diagnosi, avg(stay)\nFROM stays\nWHERE emergency AND age >= 65\nGROUP BY diagnosis")
    ada.page.keyboard.press("Escape")
    ada.page.get_by_role("button", name="Write diagnosis").wait_for()
    return ada


def _phone(opened: Browser, server: Served) -> Visit:
    ada = visit(opened, server, "ada", viewport={"width": 390, "height": 844})
    ada.ask("SELECT admitted, count(*) FROM stays GROUP BY admitted")
    ada.page.evaluate("() => document.querySelector('section.answer').scrollIntoView()")
    return ada


def _budget(opened: Browser, server: Served) -> Visit:
    ada = visit(opened, server, "ada", viewport={"width": 1280, "height": 900})
    ada.go("What the budget means")
    ada.page.get_by_role("heading", name="What this budget means").wait_for()
    return ada


def _console(opened: Browser, server: Served) -> Visit:
    with server.api("ben") as ben:
        asked = {"question": "SELECT admitted, avg(cost) FROM stays GROUP BY admitted", "within": "2%"}
        ben.post("/datasets/hospital-stays/answers", json=asked, headers={"Idempotency-Key": "console"})
    grace = visit(opened, server, "grace", door="owners", viewport={"width": 1280, "height": 1180})
    grace.page.get_by_role("img", name="Budget left by day").wait_for()
    return grace


def _draft(opened: Browser, server: Served) -> Visit:
    grace = visit(opened, server, "grace", door="owners", viewport={"width": 1280, "height": 760})
    grace.page.get_by_role("link", name="New dataset").click()
    grace.page.get_by_label("File or database", exact=True).select_option("visits.csv")
    grace.page.get_by_label("Name of the dataset").fill("drafted")
    grace.page.get_by_label("Protect").select_option("row")
    grace.page.get_by_role("button", name="Draft the declaration").click()
    grace.page.get_by_label("columns.visits.upper").wait_for()
    return grace


def _audit(opened: Browser, server: Served) -> Visit:
    iris = visit(opened, server, "iris", viewport={"width": 1280, "height": 860})
    iris.page.get_by_role("button", name="Verify the chain").click()
    iris.page.get_by_text("The chain holds").wait_for()
    return iris


VIEWS: dict[str, Callable[[Browser, Served], Visit]] = {
    "quote": _quote,
    "answer": _answer,
    "editor": _editor,
    "phone": _phone,
    "budget": _budget,
    "console": _console,
    "draft": _draft,
    "audit": _audit,
}


def take(opened: Browser, server: Served, folder: Path) -> None:
    """Take all pictures."""
    for name, view in VIEWS.items():
        page_visit = view(opened, server)
        page_visit.page.screenshot(path=folder / f"page-{name}.png", animations="disabled", caret="hide")
        page_visit.context.close()


def is_drawn(path: Path) -> bool:
    """Return whether a picture shows something: text and shapes of several colours, not one blank sheet."""
    pixels = (image.imread(path)[..., :3] * 255).astype(np.int64)
    return len(np.unique(pixels @ [1 << 16, 1 << 8, 1])) > 50  # smoothed letters alone have as many


if __name__ == "__main__":
    place = Path(tempfile.mkdtemp(prefix="page-"))
    try:
        with served(place) as running, browser() as started:
            take(started, running, IMAGES)
    finally:
        shutil.rmtree(place)
    sys.exit(any(path.stat().st_size > LARGEST for path in IMAGES.glob("page-*.png")))
