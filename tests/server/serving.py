"""A whole server as `dodona serve` starts it: supervisor, core, workers and both fronts, over made-up datasets."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from dodona.server.accounts import Accounts
from dodona.server.places import StateFolder, Users

API = "/api/v1"
PEOPLE = {"ada": {"stays": "analyst"}, "bob": {"stays": "analyst", "visits": "analyst"}, "eve": {"stays": "auditor"},
          "grace": {"*": "owner"}}  # fmt: skip


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    process: subprocess.Popen[str]
    folder: Path
    log: Path
    tokens: dict[str, str]
    analysts: str
    owners: str
    operations: str
    sql: str = ""
    """Where PostgreSQL's clients connect, if there is an SQL door."""
    sql_operations: str = ""

    @property
    def accounts(self) -> Path:
        return StateFolder(self.folder / ".dodona").accounts

    def client(self, name: str | None = "ada", *, door: str = "analysts") -> httpx.Client:
        """Return a client of the server that sends the token of a person."""
        headers = {} if name is None else {"Authorization": f"Bearer {self.tokens[name]}"}
        return httpx.Client(base_url=getattr(self, door) + API, headers=headers, timeout=60)

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of an event in the log."""
        entries = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in entries if line["event"] == event]

    def parts(self) -> dict[str, int]:
        """Return the process ids of the parts."""
        pids = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(path.read_text().rpartition(")")[2].split()[1])
                words = (path.parent / "cmdline").read_text().split("\0")
            except OSError:
                continue
            started = "dodona.cli" not in words  # a child that has not begun its own program has its parent's words
            if parent == self.process.pid and "-m" in words and started:
                module, settings = words[words.index("-m") + 1 : words.index("-m") + 3]
                name = "core" if module.endswith("core") else json.loads(settings).get("door", "sql")
                pids[name] = int(path.parent.name)
        return pids


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; a minute is more than a busy machine needs."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@contextmanager
def serving(
    folder: Path,
    options: Sequence[str] = (),
    *,
    ready: bool = True,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """Serve the dataset files of a folder, with an account and a token for each person."""
    places = StateFolder(folder / ".dodona")
    places.create(Users())
    tokens = {}
    with Accounts.create(places.accounts) as accounts:
        for name, grants in PEOPLE.items():
            accounts.add(name)
            for dataset, role in grants.items():
                accounts.grant(name, dataset, role)
            tokens[name] = accounts.create_token(name, "test").text
    log = folder / "log.jsonl"
    ports = ("--port", "0", "--owners-port", "0", "--operations-port", "0", "--sql-operations-port", "0")
    command = [python, "-m", "dodona.cli", "serve", str(folder), *ports, *options]
    with (
        log.open("a") as lines,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=lines, text=True, env=environment) as process,
    ):
        try:
            assert process.stdout is not None
            text = ""
            while ready and "Press Ctrl+C" not in text:
                line = process.stdout.readline()
                assert line, log.read_text()
                text += line
            matches = [
                re.search(pattern, text)
                for pattern in (
                    r"at (\S+)",
                    r"Owners: (\S+)\. ",
                    r"Operators: (\S+)/health",
                    r"clients: (\S+)/DATASET",
                    r"SQL door: (\S+)/health",
                )
            ]
            yield Running(process, folder, log, tokens, *(hit[1] if hit else "" for hit in matches))
        finally:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
