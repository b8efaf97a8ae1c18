"""Runs a benchmark by name: `python -m benchmarks noise [--json]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import (
    accounting,
    check,
    doors,
    engines,
    ledger,
    noise,
    page,
    quotes,
    server,
    sources,
    sql,
    sqlcorpus,
    synthetic,
    weights,
)
from benchmarks.report import Row, show
from benchmarks.streams import command


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What a module offers: a measurement, the rows that it is shown as, and a note below them."""

    about: str
    measure: Callable[[Callable[[str], None]], dict[str, object]]
    rows: Callable[[dict[str, object]], list[Row]]
    note: str


BENCHMARKS = {
    "accounting": Benchmark(
        "the speed and the tightness of accounting", accounting.measure, accounting.rows, accounting.NOTE
    ),
    "doors": Benchmark(doors.ABOUT, doors.measure, doors.rows, doors.NOTE),
    "ledger": Benchmark("durable charges, together and one by one", ledger.measure, ledger.rows, ledger.NOTE),
    "noise": Benchmark("the speed of exact noise, beside OpenDP", noise.measure, noise.rows, noise.NOTE),
    "page": Benchmark(page.ABOUT, page.measure, page.rows, page.NOTE),
    "quotes": Benchmark("how well quotes foresee widths", quotes.measure, quotes.rows, quotes.NOTE),
    "sql": Benchmark("SQL under privacy, beside plain DuckDB and peers", sql.measure, sql.rows, sql.NOTE),
    "sqlcorpus": Benchmark(
        "SQL as analysts and their tools write it", sqlcorpus.measure, sqlcorpus.rows, sqlcorpus.NOTE
    ),
    "weights": Benchmark("the speed of beliefs", weights.measure, weights.rows, weights.NOTE),
}


def main() -> None:
    """Measure what was asked for and print it."""
    if sys.argv[1:2] == ["streams"]:  # these have words of their own
        command.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["engines"]:
        engines.main(sys.argv[2:], _say)
        return
    if sys.argv[1:2] == ["check"]:
        check.main(sys.argv[2:], _say)
        return
    if sys.argv[1:2] == ["server"]:
        server.main(sys.argv[2:], _say)
        return
    if sys.argv[1:2] == ["sources"]:
        sources.main(sys.argv[2:], _say)
        return
    if sys.argv[1:2] == ["synthetic"]:
        synthetic.main(sys.argv[2:], _say)
        return
    names = "\n".join(f"  {name}  {benchmark.about}" for name, benchmark in BENCHMARKS.items())
    names += f"\n  check  {check.ABOUT}; see python -m benchmarks check --help"
    names += f"\n  engines  {engines.ABOUT}; see python -m benchmarks engines --help"
    names += f"\n  server  {server.ABOUT}; see python -m benchmarks server --help"
    names += f"\n  sources  {sources.ABOUT}; see python -m benchmarks sources --help"
    names += f"\n  synthetic  {synthetic.ABOUT}; see python -m benchmarks synthetic --help"
    names += "\n  streams  what a stream of questions costs; see python -m benchmarks streams --help"
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures CPU time, side by side with a peer.",
        epilog=f"benchmarks:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=sorted(BENCHMARKS), help="the benchmark to run")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    arguments = parser.parse_args()
    benchmark = BENCHMARKS[arguments.name]
    figures = benchmark.measure(_say)
    if arguments.json:
        print(json.dumps(figures))
    else:
        show(benchmark.about, benchmark.rows(figures), note=benchmark.note)


def _say(step: str) -> None:
    """Tell on stderr what is being measured, so that stdout holds the figures alone."""
    print(f"measuring {step} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
