"""Real engines with people as the unit: `python -m benchmarks engines [--json] [--rows N]`.

Ten million rows of two million people are grouped by 1,000 keys, four rows of a person counting: by the engine's own
SQL, and by ours. Each engine is measured in a process of its own, ours and its own query in turns; its figures are
printed at once, as a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.engine_run import ENGINES
from benchmarks.report import Row, show

ABOUT = "questions about people on DuckDB, PostgreSQL and Spark, beside the engines' own SQL"
ROWS = 10_000_000
_NOTE = (
    "ratio: the time of one question over that of the engine's own capped query; opened: with opening the table too; "
    "kept ratio: with the rows that count kept, over a plain GROUP BY of them; "
    "overhead: what a question takes beyond its statement, on 100,000 rows; peak: of our process."
)


def main(arguments: list[str], say: Callable[[str], None]) -> None:
    """Measure the engines that were asked for, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks engines", description=ABOUT)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the large table; {ROWS:,} if left out")
    parser.add_argument("--engine", choices=sorted(ENGINES), action="append", help="only this one; may be repeated")
    given = parser.parse_args(arguments)
    figures = {}
    for name, measured in measure(say, rows=given.rows, engines=tuple(given.engine or ENGINES)):
        figures[name] = measured
        print(
            json.dumps({name: measured}), flush=True
        )  # at once, so that a run that is cut short leaves what it measured
    if given.json:
        print(json.dumps(figures))
    else:
        show(ABOUT, shown(figures), note=_NOTE)


def measure(
    say: Callable[[str], None], *, rows: int = ROWS, engines: tuple[str, ...] = tuple(ENGINES)
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the figures of each engine as soon as it is measured."""
    with tempfile.TemporaryDirectory() as folder:
        for name in engines:
            say(name)
            command = [sys.executable, "-m", "benchmarks.engine_run", name, folder, str(rows)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())  # noqa: S603
            yield name, json.loads(done.stdout.splitlines()[-1])


def shown(figures: dict[str, dict[str, float]]) -> list[Row]:
    """Return the figures as rows of a table."""
    units = {"ratio": "x", "opened_ratio": "x", "overhead_ms": "ms", "rows_returned": "rows", "peak_mb": "MB"}
    units |= {"asked_seconds": "s", "kept_seconds": "s", "kept_ratio": "x"}
    return [
        Row(f"{engine}: {name.replace('_', ' ')}", unit, measured[name], None, "less")
        for engine, measured in figures.items()
        for name, unit in units.items()
        if name in measured
    ]
