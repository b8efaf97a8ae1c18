"""GROUP BY count with 1,000 known keys over ten million rows of Parquet: ours, plain DuckDB, OpenDP and diffprivlib.

Run as a program it does one of them once in a fresh process and prints the most memory that it held.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import cast

import duckdb
import numpy as np

from benchmarks import clock, table
from dodona.engines.duckdb import DuckDBSource

REPEATS = 9
PEAKS = 3
COLUMNS = ("number", "word")
PEERS = {"opendp": f"OpenDP {version('opendp')}", "diffprivlib": f"diffprivlib {version('diffprivlib')}"}
_SCALE = 1.0

_PLAINLY = """
import sys, duckdb
duckdb.connect().execute(sys.argv[1]).fetchnumpy()
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""
"""A process with nothing in it but DuckDB."""

Work = Callable[[], object]
Figures = dict[str, object]


def measure(path: Path) -> Figures:
    """Return CPU times and peaks over those of plain DuckDB, of the worse of the two columns, and all of them."""
    seconds = {column: _seconds(path, column) for column in COLUMNS}
    peaks = {column: _peaks(path, column) for column in COLUMNS}
    ratios = {column: by_engine["dodona"] / by_engine["duckdb"] for column, by_engine in seconds.items()}
    memory = {column: by_engine["dodona"] / by_engine["duckdb"] for column, by_engine in peaks.items()}
    plain = seconds["number"]["duckdb"]
    return {
        "groupby_ratio": round(max(ratios.values()), 3),
        "groupby_peak_ratio": round(max(memory.values()), 3),
        "opendp_groupby_ratio": round(seconds["number"]["opendp"] / plain, 3),
        "diffprivlib_groupby_ratio": round(seconds["number"]["diffprivlib"] / plain, 3),
        "groupby_cpu_ms": {column: _rounded(by_engine, 1e3) for column, by_engine in seconds.items()},
        "groupby_peak_mb": {column: _rounded(by_engine, 1 / 1024) for column, by_engine in peaks.items()},
    }


def works(path: Path, column: str) -> dict[str, Work]:
    """Return what each of them does, from the file to counts in memory; peers group integers only."""
    works: dict[str, Work] = {"duckdb": _plain(path, column), "dodona": _ours(path, column)}
    if column == "number":
        works |= {"opendp": _opendp(path), "diffprivlib": _diffprivlib(path)}
    return works


def _seconds(path: Path, column: str) -> dict[str, float]:
    """Return the median CPU seconds of each, taken in turns after one round to warm up."""
    return _in_turns(works(path, column), REPEATS)


def beside_duckdb(path: Path, column: str, *, repeats: int) -> dict[str, float]:
    """Return the median CPU seconds of ours and of plain DuckDB, as above; at most `REPEATS` times each."""
    return _in_turns({"duckdb": _plain(path, column), "dodona": _ours(path, column)}, repeats)


def _in_turns(each: dict[str, Work], repeats: int) -> dict[str, float]:
    rounds = [{name: clock.once(work) for name, work in each.items()} for _ in range(repeats + 1)][1:]
    return {name: median(times[name] for times in rounds) for name in each}


def _ours(path: Path, column: str) -> Work:
    source = DuckDBSource.parquet(table.GROUPED, path)
    text = f"SELECT {column}, count(*) FROM events GROUP BY {column}"  # noqa: S608  a column named above

    fresh = [table.curator(table.GROUPED, source) for _ in range(REPEATS + 1)]  # so that nothing is told again
    return lambda: fresh.pop().ask(text).rows


def _plain(path: Path, column: str) -> Work:
    connection, text = duckdb.connect(), _grouped(path, column)
    return lambda: connection.execute(text).fetchnumpy()


def _grouped(path: Path, column: str) -> str:
    return f"SELECT {column}, count(*) FROM read_parquet('{path}') GROUP BY {column}"  # noqa: S608  see above


def _opendp(path: Path) -> Work:
    """Return OpenDP's count by categories with Laplace noise.

    Its interface to Polars reads the plans of Polars 1.36.1 alone and refuses those of the version that is installed.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain, metric = dp.vector_domain(dp.atom_domain(T="i32")), dp.symmetric_distance()
    counts = dp.t.make_count_by_categories(
        domain, metric, categories=list(range(table.KEYS)), MO="L1Distance<i64>", TOA="i64"
    )
    release = counts >> dp.m.then_laplace(scale=_SCALE)
    return lambda: release(_column(path))


def _diffprivlib(path: Path) -> Work:
    """Return diffprivlib's histogram with its geometric noise.

    Its package does not import with the scikit-learn that is installed; its tools are loaded before that fails.
    """
    with contextlib.suppress(ImportError):
        import diffprivlib  # noqa: F401
    from diffprivlib.tools import histogram

    count = partial(histogram, epsilon=1 / _SCALE, bins=table.KEYS, range=(0, table.KEYS))
    return lambda: count(_column(path))


def _column(path: Path) -> object:
    import pyarrow.parquet as pq

    return np.asarray(pq.read_table(path, columns=["number"])["number"])


def _peaks(path: Path, column: str) -> dict[str, float]:
    """Return the median of the most kibibytes that a fresh process held, for each."""
    names = ("duckdb", "dodona", "opendp", "diffprivlib") if column == "number" else ("duckdb", "dodona")
    rounds = [{name: peak(path, column, name) for name in names} for _ in range(PEAKS)]
    return {name: median(kibibytes[name] for kibibytes in rounds) for name in names}


def peak(path: Path, column: str, name: str) -> float:
    """Return the most kibibytes that a fresh process held that did it once."""
    command = [sys.executable, "-m", "benchmarks.grouping", str(path), column, name]
    if name == "duckdb":
        command = [sys.executable, "-c", _PLAINLY, _grouped(path, column)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603  named above
    return cast("float", json.loads(done.stdout.splitlines()[-1]))


def held() -> float:
    """Return the most kibibytes that this process held since it began.

    Not `ru_maxrss`: that counts what the parent held when it started this process.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return float(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def _rounded(values: dict[str, float], factor: float) -> dict[str, float]:
    return {name: round(value * factor, 2) for name, value in values.items()}


_ALONE: dict[str, Callable[[Path, str], Work]] = {
    "dodona": _ours,
    "opendp": lambda path, _: _opendp(path),
    "diffprivlib": lambda path, _: _diffprivlib(path),
}

if __name__ == "__main__":
    _ALONE[sys.argv[3]](Path(sys.argv[1]), sys.argv[2])()
    print(json.dumps(held()))
