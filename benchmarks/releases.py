"""A ledger of 1,000 releases: what a plain count costs on it; and what a free quote of a large question costs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

import dodona
from benchmarks import clock
from benchmarks.grouping import held
from dodona import Budget, Integer, Schema
from dodona.curator.curator import Curator
from dodona.dataset.opening import open_dataset_ledger
from dodona.ledger.entries import Charged, Redeemed, Release, Released
from dodona.ledger.keeper import Write
from dodona.ledger.ledger import Ledger
from dodona.privacy.additive_noise import Laplace
from dodona.privacy.measurement import Measurement
from dodona.query.canonical import to_json
from dodona.sql.compile import read_questions

RELEASES = 1_000
ROWS = 20_000
_FILE = """format = 1
dataset = "stays"
[source]
kind = "parquet"
table = "stays"
path = "stays.parquet"
version = "1"
[unit]
protects = "row"
neighbours = "replace"
size = 20000
[budget]
epsilon = 1000
delta = "1e-6"
accountant = "renyi"
[ledger]
path = "stays.ledger"
[defaults]
within = "1%"
[columns.age]
kind = "integer"
lower = 0
upper = 110
[columns.cost]
kind = "integer"
lower = 0
upper = 9999
[columns.days]
kind = "integer"
lower = 0
upper = 99
[columns.sex]
kind = "category"
labels = ["f", "m"]
"""
_TEXTS = (
    "SELECT count(*) FROM stays WHERE age >= {0} AND age < {0} + 9 AND days >= {1} AND cost < {2}",
    "SELECT sum(cost) FROM stays WHERE age = {0} AND days < {1}",
    "SELECT avg(cost) FROM stays WHERE age >= {0} AND days < {1}",
    "SELECT sex, count(*) FROM stays WHERE cost >= {2} GROUP BY sex",
)
"""Ranges of three columns, sums, averages and tables with a condition."""
_PLAIN = "SELECT count(*) FROM stays WHERE age > {} AND cost < 1234"
_LARGE = 400_000
_LONG, _BATCH = 12_000, 1_000
_OPENINGS = 7
"""The first count after an opening is timed so often: one alone may meet a cold machine, or a collection of garbage."""


def measure(folder: Path) -> dict[str, float]:
    """Return CPU seconds of counts on the ledger: of one in process, of the first one, and of the whole command."""
    path = filled(folder)
    firsts = list[float]()
    for age in range(22, 22 + _OPENINGS):  # another question each time, as a repeated one is not computed
        with dodona.open(path) as stays:
            firsts.append(_count(stays, age))
            others = [_count(stays, years) for years in range(31, 52)] if len(firsts) == _OPENINGS else []
    bytecode = folder / "bytecode"
    _command(path, 59, bytecode)  # compiles all modules, as an installer does
    return {
        "count_on_1000_ms": median(others),
        "first_count_on_1000_ms": median(firsts),
        "command_on_1000_ms": median(_command(path, number, bytecode) for number in range(60, 63)),
    }


def _count(stays: Curator, age: int) -> float:
    """Return the CPU seconds of a plain count."""
    return clock.once(lambda: stays.ask(_PLAIN.format(age)))


def filled(folder: Path, releases: int = RELEASES) -> Path:
    """Return a dataset file whose ledger has so many releases."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    columns = {"age": 111, "cost": 10_000, "days": 100}
    words = pa.array(["f", "m"]).take(pa.array(random.integers(0, 2, ROWS)))
    numbers = {name: random.integers(0, cells, ROWS) for name, cells in columns.items()}
    pq.write_table(pa.table(numbers | {"sex": words}), folder / "stays.parquet")
    path = folder / "stays.toml"
    path.write_text(_FILE, encoding="utf-8")
    dodona.create_ledger(path)
    with dodona.open(path) as stays:
        while stays.budget.releases < releases:
            _asked(stays, random)
    return path


def measure_long(folder: Path) -> float:
    """Return the CPU seconds of opening a ledger of 12,000 releases and of the first count, once others have asked."""
    path, random = filled(folder, 0), np.random.default_rng(1)
    with dodona.open(path) as stays:
        dataset = stays.desk.dataset
        texts = [text.format(*random.integers(1, 90, 2).tolist(), 970) for text in _TEXTS for _ in range(100)]
        queries = [read_questions(text, dataset.schema)[0].query for text in texts]
    measured = [Measurement(query, (Laplace(scale=10**8),) * len(query.blocks)) for query in queries]
    unit = dataset.schema.unit
    charged = [
        (measurement, Charged("stays", None, None, measurement.purpose, "1", measurement.event(unit)))
        for measurement in measured
    ]
    with open_dataset_ledger(path) as ledger:
        for _ in range(_LONG // _BATCH):
            _write(ledger, [charged[place] for place in random.integers(0, len(charged), _BATCH)])
    for age in (22, 23):  # the first one reads all of them
        with dodona.open(path) as stays:
            _count(stays, age)

    def first() -> None:
        with dodona.open(path) as stays:
            stays.ask(_PLAIN.format(24))

    return clock.once(first)


def _write(ledger: Ledger, charged: Sequence[tuple[Measurement, Charged]]) -> None:
    """Write releases with made-up values, in one commit."""

    def act(_: object, write: Write) -> None:
        for measurement, charge in charged:
            line = write(charge)
            write(Redeemed(line.hash, line.number))
            values, question = (7,) * measurement.query.values, to_json(measurement.query)
            release = Release(receipt=line.hash, values=values, mechanism=measurement.mechanism, question=question)
            write(Released(release, line.number))

    ledger._keeper.run(act)  # noqa: SLF001  one commit for all of them


def _asked(stays: Curator, random: np.random.Generator) -> None:
    for text in _TEXTS:
        low, other, cost = random.integers(1, 90, 3).tolist()
        stays.ask(text.format(low, other, 97 * cost))


def _command(path: Path, age: int, bytecode: Path) -> float:
    """Return the CPU seconds of a whole `dodona ask`, from its start to its end, with modules compiled in a folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "dodona.cli", "ask", str(path), _PLAIN.format(age)]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = str(bytecode)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=kept)  # noqa: S603  named above
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def large_quote() -> str:
    """Return the CPU seconds and the megabytes that quotes of many filtered averages and of many groups add."""
    import pyarrow as pa

    columns = (Integer("number", 0, _LARGE), Integer("cost", 0, 9_999), Integer("age", 0, 110))
    schema = Schema.of("stays", *columns, size=ROWS, neighbours="replace")
    frame = pa.table({column.name: [1, 2, 3] for column in columns})
    stays = dodona.open(frame, schema=schema, budget=Budget(1, "1e-6", "renyi"))
    averages = ", ".join(f"avg(cost) FILTER (WHERE age >= {low})" for low in range(100))
    before = held()

    def quotes() -> None:
        stays.quote(f"SELECT {averages} FROM stays")  # noqa: S608  written here
        stays.quote("SELECT number, count(*) FROM stays GROUP BY number")
        stays.quote("SELECT bin(number, 2), count(*) FROM stays GROUP BY bin(number, 2)")

    return f"{clock.once(quotes)} {(held() - before) / 1024}"
