"""SQL under privacy beside plain SQL: GROUP BY, one count, ten thousand counts, reading SQL, and honest intervals."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import duckdb

from benchmarks import asking, coverage, grouping, table
from benchmarks.report import Row
from dodona.answer.estimate import to_float
from dodona.engines.duckdb import DuckDBSource

LINES = """
curator = dodona.open(frame, schema=schema, budget=Budget(1, "1e-6", "renyi"))
answer = curator.ask("SELECT ward, count(*) FROM stays GROUP BY ward", within=50)
print(answer)
"""
"""A budget, and a noisy count by group; the schema says what the columns may hold."""
GROUPINGS = 10
NOTE = (
    "All figures are CPU time but the memory, which is the most that a fresh process held. GROUP BY reads a Parquet "
    "file of 10 million rows with 1,000 keys; the peers of the first rows are plain DuckDB, exact, and those of the "
    f"next {' and '.join(grouping.PEERS.values())} with their own noise. OpenDP counts by categories, as its interface "
    "to Polars refuses the version of Polars that is installed. Coverage is the least of two tables and two laws, of "
    "10,000 answers each; 0.95 was promised."
)

Say = Callable[[str], None]


def measure(say: Say) -> dict[str, object]:
    """Return every figure: ratios of CPU time and memory, and CPU times in the unit that a name ends with."""
    build = Path("build")
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as scratch:
        folder = Path(scratch).resolve()
        say("reading SQL")
        figures: dict[str, object] = asking.parsing()
        say("one count over a million rows")
        figures |= asking.count_overhead(table.counted(folder))
        say("ten thousand counts in one batch")
        source, cells = table.narrow()
        timings, last = asking.batch(source)
        figures |= timings
        say("coverage of every aggregate")
        held = coverage.measure() | {"batch of counts": round(asking.held(last, cells), 4)}
        say("GROUP BY over ten million rows, beside plain DuckDB, OpenDP and diffprivlib")
        path = table.grouped(folder)
        figures |= grouping.measure(path)
        held["group by"] = round(_groups_held(path), 4)
    return figures | {"coverage": held, "lines": len(LINES.split("\n")) - 2, "peers": grouping.PEERS}


def _groups_held(path: Path) -> float:
    """Return the share of 10,000 groups, asked by SQL, whose interval holds the exact count."""
    source = DuckDBSource.parquet(table.GROUPED, path)
    exact = dict(duckdb.connect().execute(f"SELECT number, count(*) FROM '{path}' GROUP BY number").fetchall())  # noqa: S608
    kept = total = 0
    for _ in range(GROUPINGS):
        answer = table.curator(table.GROUPED, source).ask("SELECT number, count(*) FROM events GROUP BY number")
        for row in answer.rows:
            count, estimate = exact.get(row.keys[0]), row.estimates[0]
            if count is not None:
                kept += to_float(estimate.low) <= count <= to_float(estimate.high)
                total += 1
    return kept / total


def rows(figures: dict[str, object]) -> list[Row]:
    """Return the figures as rows of a table."""
    rows = []
    seconds = cast("dict[str, dict[str, float]]", figures["groupby_cpu_ms"])
    peaks = cast("dict[str, dict[str, float]]", figures["groupby_peak_mb"])
    for name, unit, kinds in (("CPU", "ms", seconds), ("memory", "MB", peaks)):
        for column, by_engine in kinds.items():
            rows.append(Row(f"GROUP BY {column}, {name}", unit, by_engine["dodona"], by_engine["duckdb"], "less"))
        for peer, called in grouping.PEERS.items():
            by_engine = kinds["number"]
            rows.append(Row(f"GROUP BY number, {name}, {called}", unit, by_engine["dodona"], by_engine[peer], "less"))
    counts = cast("dict[str, float]", figures["count_ms"])
    rows.append(Row("COUNT with WHERE, 1 million rows", "ms", counts["ask"], counts["duckdb"], "less"))
    rows.append(Row("COUNT, beside the engine", "ms", counts["beside the engine"], None, "less"))
    batches = cast("dict[str, float]", figures["batch_10k_cpu_s_all"])
    rows += [Row(f"10,000 counts in a batch, {name}", "s", value, None, "less") for name, value in batches.items()]
    texts = cast("dict[str, float]", figures["parse_ms_all"])
    rows += [Row(f"reading SQL, {name}", "ms", value, None, "less") for name, value in texts.items()]
    held = cast("dict[str, float]", figures["coverage"])
    rows += [Row(f"coverage, {name}", "", value, None, "more") for name, value in held.items()]
    return [*rows, Row("lines for a noisy count by group", "", cast("int", figures["lines"]), None, "less")]
