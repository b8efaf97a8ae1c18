"""A made-up ward behind a real server in processes of its own, and the same ward opened here."""

import datetime as dt
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import dodona
from dodona.server.accounts import Accounts

ROWS = 1_000
PEOPLE = {
    "ada": ("stays", "analyst"),
    "eva": ("contract", "analyst"),
    "lea": ("limited", "analyst"),
    "ben": ("*", "analyst"),
    "iris": ("*", "auditor"),
}
FILE = """\
format = 1
dataset = "{name}"
[source]
kind = "parquet"
path = "{name}.parquet"
table = "stays"
version = "1"
[unit]
protects = "row"
neighbours = "add-remove"
size = 1000
[budget]
epsilon = "1000"
delta = "1e-6"
accountant = "renyi"
[ledger]
path = "{name}.ledger"
[defaults]
within = "5%"
max_price = "50%"
[[analysts]]
name = "ada"
[[analysts]]
name = "eva"
[[analysts]]
name = "lea"
[[analysts]]
name = "ben"
share = "1/1000"
[columns.ward]
kind = "category"
labels = ["east", "west"]
[columns.urgent]
kind = "boolean"
[columns.age]
kind = "integer"
lower = 0
upper = 110
bins = [0, 18, 65, 110]
[columns.beds]
kind = "integer"
lower = 1
upper = 3
otherwise = 1
[columns.stay]
kind = "number"
means = "Days in the ward"
lower = "0"
upper = "5"
step = "0.1"
bins = [0, 1, 5]
[columns.day]
kind = "date"
lower = 2024-01-10
upper = 2025-02-05
bins = "month"
"""


LIMITS = '[limits]\nquestion = "1%"\napprovals = true\n'
"""Of a dataset whose owner approves what is above the limit."""


def make_dataset(folder: Path, name: str = "stays") -> Path:
    """Write a dataset file, its rows and its ledger; the one named `limited` has limits."""
    generator = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "ward": generator.choice(["east", "west"], ROWS),
            "urgent": generator.random(ROWS) < 0.3,
            "age": generator.integers(0, 100, ROWS),
            "beds": generator.integers(1, 4, ROWS),
            "stay": 5 * generator.random(ROWS),
            "day": [dt.date(2024, 1, 10) + dt.timedelta(days=int(day)) for day in generator.integers(0, 300, ROWS)],
        }
    )
    frame.to_parquet(folder / f"{name}.parquet")
    file = folder / f"{name}.toml"
    file.write_text(FILE.format(name=name) + (LIMITS if name == "limited" else ""), encoding="utf-8")
    dodona.create_ledger(file)
    return file


@dataclass(frozen=True)
class Server:
    """A server that answers, and a token for each person."""

    url: str
    tokens: dict[str, str]
    folder: Path
    process: subprocess.Popen[str]


@contextmanager
def serve(folder: Path) -> Iterator[Server]:
    """Serve the datasets of a folder, by the command that owners use."""
    state = folder / ".dodona"
    (state / "accounts").mkdir(parents=True, mode=0o700)
    accounts = state / "accounts" / "accounts.sqlite"
    with Accounts.create(accounts) as store:
        for name, (dataset, role) in PEOPLE.items():
            store.add(name)
            store.grant(name, dataset, role)
        tokens = {name: store.create_token(name, "test").text for name in PEOPLE}
    ports = ["--port", "0", "--owners-port", "0", "--operations-port", "0"]
    command = [sys.executable, "-m", "dodona.cli", "serve", str(folder), *ports, "--accounts", str(accounts)]
    log = folder / "server.log"
    with log.open("w") as err, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True) as process:
        assert process.stdout is not None
        try:
            yield Server(_address(process, log), tokens, folder, process)
        finally:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:  # pragma: no cover  only where a stop hangs
                process.kill()
                raise


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """Return the address that the server prints once it answers."""
    assert process.stdout is not None
    begun = time.monotonic()
    for line in process.stdout:
        if " at http" in line:
            return line.split(" at ", 1)[1].strip()
        assert time.monotonic() - begun < 120
    raise AssertionError(log.read_text())
