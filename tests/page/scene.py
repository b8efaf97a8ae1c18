"""A server with a made-up hospital and an odd dataset, and a browser to look at its page with."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import polars as pl
from playwright.sync_api import Browser, BrowserContext, Locator, Page, sync_playwright

import dodona
from dodona.server.accounts import Accounts
from dodona.server.demo import DATASET, make_demo
from dodona.server.places import StateFolder, Users
from tests.ledger.scene import shared_server

WEB = Path(__file__).parents[2] / "web"
API = "/api/v1"
PASSWORD = "a long password for the tests"  # noqa: S105  of accounts that live for a test run
MARKUP = "<img src=x onerror=window.broken=1>"
CHROMIUM = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_ODD = f"""\
format = 1
dataset = "odd"
[source]
kind = "parquet"
path = "odd.parquet"
table = "odd"
version = "1"
[unit]
protects = "row"
size = 2000
neighbours = "add-remove"
[budget]
epsilon = "20"
delta = "1e-6"
[ledger]
path = "odd.ledger"
[defaults]
within = "2%"
max_price = "50%"
[[analysts]]
name = "ada"
[[analysts]]
name = "ben"
[columns.mark]
kind = "category"
labels = [{json.dumps(MARKUP)}, "{"x" * 200}", "plain"]
[columns.large]
kind = "number"
lower = "0"
upper = "1000000000000000"
step = "10000000000"
[columns.seen]
kind = "timestamp"
lower = 2024-01-01T00:00:00
upper = 2024-01-02T23:00:00
step = "1 hour"
bins = "day"
"""


@dataclass(frozen=True)
class Served:
    """A server that answers, with what is needed to log in."""

    analysts: str
    owners: str
    folder: Path
    tokens: dict[str, str]
    accounts: Path

    def api(self, name: str, *, door: str = "analysts") -> httpx.Client:
        """Return a client of the HTTP API for a person."""
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        return httpx.Client(base_url=getattr(self, door) + API, headers=headers, timeout=60)


def _write_odd(folder: Path) -> None:
    rows: dict[str, list[Any]] = {"mark": [MARKUP, "x" * 200, "plain", "plain"] * 500, "large": [1e15] * 2000}
    rows["seen"] = [dt.datetime(2024, 1, 1 + place % 2, place % 24) for place in range(2000)]  # noqa: DTZ001  in UTC
    pl.DataFrame(rows).write_parquet(folder / "odd.parquet")
    (folder / "odd.toml").write_text(_ODD, encoding="utf-8")
    dodona.create_ledger(folder / "odd.toml")


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Serve the hospital and the odd dataset; everybody of the demonstration also has a password."""
    places = StateFolder(folder / ".dodona")
    places.create(Users())
    demo = make_demo(folder, places.accounts)
    _write_odd(folder)
    with Accounts.open(places.accounts) as accounts:
        for name in ("ada", "ben"):
            accounts.grant(name, "odd", "analyst")
        for name in ("ada", "grace"):
            accounts.set_password(name, PASSWORD)
    pl.DataFrame({"town": ["north", "south"] * 100, "visits": list(range(200))}).write_csv(folder / "visits.csv")
    ports = ("--port", "0", "--owners-port", "0", "--operations-port", "0")
    command = [sys.executable, "-m", "dodona.cli", "serve", str(folder), "--demo", *ports]
    environment = os.environ | {"WARDS_DATABASE": shared_server().address}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            text = ""
            while "Press Ctrl+C" not in text:
                line = process.stdout.readline()
                assert line, text
                text += line
            startup = re.search(r"at (http\S+)\s+Owners: (\S+)\. ", text)
            assert startup is not None, text
            yield Served(startup[1], startup[2], folder, demo.tokens, places.accounts)
        finally:
            process.terminate()
            process.wait(timeout=60)


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Debian's browser, without a screen."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=list(CHROMIUM))
        try:
            yield opened
        finally:
            opened.close()


@dataclass
class Visit:
    """A page that somebody looks at, and everything about it that should not have happened."""

    page: Page
    context: BrowserContext
    server: Served
    faults: list[str]

    def go(self, view: str) -> None:
        """Choose a view of the dataset."""
        self.page.get_by_role("navigation", name="Views of the dataset").get_by_role(
            "link", name=view, exact=True
        ).click()

    def write(self, question: str) -> None:
        """Write a question as SQL."""
        self.page.get_by_role("tab", name="SQL").click()
        self.editor.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(question)

    def ask(self, question: str | None = None) -> Locator:
        """Ask a question, and return its answer."""
        if question is not None:
            self.write(question)
        with self.page.expect_response(lambda response: response.url.endswith("/answers")):  # not what stands there
            self.page.get_by_role("button", name=re.compile(r"^Ask(, for free)?$")).click()
        self.page.get_by_text("The answer is below.").wait_for()
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 200)))")
        return self.answer  # which a card takes up once it was painted

    @property
    def editor(self) -> Locator:
        return self.page.get_by_role("textbox", name="Question in SQL")

    @property
    def answer(self) -> Locator:
        return self.page.locator("section.answer")

    @property
    def offer(self) -> Locator:
        return self.page.get_by_role("group", name="Before you pay")

    def axe(self, *rules: str) -> list[dict[str, Any]]:
        """Return the violations of accessibility rules, of all or of some, on the page as it is now."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate((WEB / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8"))
        options = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
        report = self.page.evaluate("options => axe.run(options)", options)
        return [
            {"id": violation["id"], "nodes": [node["html"][:200] for node in violation["nodes"]]}
            for violation in report["violations"]
        ]


def visit(
    opened: Browser,
    server: Served,
    name: str | None,
    *,
    door: str = "analysts",
    dataset: str = DATASET,
    **options: Any,  # noqa: ANN401  the browser's
) -> Visit:
    """Open the page, logged in with the token of a person; requests to elsewhere and errors are noted."""
    context = opened.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
    page = context.new_page()
    page.set_default_timeout(60_000)  # a busy machine must not look like a fault
    faults: list[str] = []
    address = getattr(server, door)
    page.on("request", lambda sent: None if sent.url.startswith((address, "blob:")) else faults.append(sent.url))
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.on("console", lambda said: faults.append(said.text) if "Content Security Policy" in said.text else None)
    page.goto(f"{address}/#/{dataset}/")
    if name is not None:
        page.get_by_label("Your token").fill(server.tokens[name])
        page.get_by_role("button", name="Log in", exact=True).click()
        page.get_by_role("navigation", name="Views of the dataset").wait_for()
    return Visit(page, context, server, faults)
