"""A core in a process of its own, over made-up datasets in a temporary folder."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dodona
from dodona.server.link import Caller, CoreLink, Reply

ROWS = 2000


def make_dataset(  # noqa: PLR0913  the parts of a dataset file
    folder: Path,
    name: str = "stays",
    *,
    rows: int = ROWS,
    epsilon: str = "100",
    analysts: Mapping[str, str] | None = None,
    seed: int = 1,
    extra: str = "",
    ledger: bool = True,
) -> Path:
    """Write a dataset file, its rows and its ledger; return the path of the file."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(seed)
    pl.DataFrame(
        {
            "age": draw.integers(0, 100, rows),
            "sex": draw.choice(["female", "male"], rows),
            "stay": draw.integers(0, 60, rows),
            "urgent": draw.integers(0, 2, rows).astype(bool),
        }
    ).write_parquet(folder / f"{name}.parquet")
    people = "".join(
        f'[[analysts]]\nname = "{person}"\nshare = "{share}"\n'
        for person, share in ({"ada": "1", "bob": "1"} if analysts is None else analysts).items()
    )
    path = folder / f"{name}.toml"
    path.write_text(
        f"""format = 1
dataset = "{name}"
[source]
kind = "parquet"
path = "{name}.parquet"
table = "stays"
[unit]
protects = "row"
size = {rows}
neighbours = "add-remove"
[budget]
epsilon = "{epsilon}"
delta = "1e-6"
accountant = "renyi"
[ledger]
path = "{name}.ledger"
{people}{extra}
[columns.age]
kind = "integer"
lower = 0
upper = 110
[columns.sex]
kind = "category"
labels = ["female", "male"]
[columns.stay]
kind = "integer"
lower = 0
upper = 60
[columns.urgent]
kind = "boolean"
"""
    )
    if ledger:
        dodona.create_ledger(path)
    return path


@dataclass(frozen=True)
class RunningCore:
    """A core that answers: its process and its sockets."""

    process: subprocess.Popen[str]
    analysts: Path
    owners: Path
    state: Path


@contextmanager
def running_core(folder: Path, sockets: Path, **limits: object) -> Iterator[RunningCore]:
    """Start a core over the dataset files of a folder, and end it."""
    analysts, owners, state = sockets / "a.sock", sockets / "o.sock", sockets / "state"
    settings = {
        "folder": str(folder),
        "analysts": str(analysts),
        "owners": str(owners),
        "state": str(state),
        "limits": limits,
    }
    command = [sys.executable, "-m", "dodona.server.core", json.dumps(settings)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield RunningCore(process, analysts, owners, state)
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


@dataclass(frozen=True)
class Line:
    """A link with one caller's name on it, for short tests."""

    link: CoreLink
    caller: Caller
    dataset: str = "stays"

    async def call(self, act: str, accept: str = "application/json", **arguments: object) -> Reply:
        return await self.link.call(act, dataset=self.dataset, caller=self.caller, arguments=arguments, accept=accept)

    def as_caller(self, name: str, role: str = "analyst", max_price: str | None = None) -> Line:
        return Line(self.link, Caller(name, role, max_price), self.dataset)


@asynccontextmanager
async def connected(path: Path, name: str = "ada", role: str = "analyst") -> AsyncIterator[Line]:
    """Connect to a core's socket as one caller."""
    link = await CoreLink.connect(path)
    try:
        yield Line(link, Caller(name, role))
    finally:
        await link.close()


def document(reply: Reply) -> dict[str, Any]:
    """The JSON of a reply."""
    content: dict[str, Any] = json.loads(reply.body)
    return content


async def wait_until(condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Wait until a condition holds, or fail."""
    for _ in range(int(seconds / 0.02)):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen in time")
