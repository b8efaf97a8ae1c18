"""Runs many random sessions.

python -m tests.sessions --sessions 10000 --jobs 2 --seed 1

A session that breaks an invariant is shrunk and printed as Python; the exit code is 1 if there was one, or if intervals
fail more often than they promise.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from tests.sessions.figures import FIGURES, explained, sessions


def main() -> int:
    """Run what the command line says."""
    options = argparse.ArgumentParser(prog="python -m tests.sessions", description="Run random sessions.")
    options.add_argument("act", nargs="?", choices=("run", "figures"), default="run", help="figures: of the last soak")
    options.add_argument("--sessions", type=int, default=1_000)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", type=int, help="shrink and print the session of one seed")
    options.add_argument("--json", action="store_true", help="print the figures as the last line")
    given = options.parse_args()
    if given.act == "figures":
        print(FIGURES.read_text(encoding="utf-8"))  # noqa: T201
        return 0
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    seeds = range(given.only, given.only + 1) if given.only is not None else None
    start = given.seed * 1_000_000
    batch = sessions(
        seeds or range(start, start + given.sessions), jobs=1 if seeds else given.jobs, shown=seeds is None
    )
    print(*batch.figures.lines(), sep="\n")  # noqa: T201  what was asked for
    print(f"{len(batch.broken)} broken; {batch.seconds:.0f} CPU-s")  # noqa: T201
    for seed, invariant, detail in sorted(batch.broken)[:200]:
        print(f"  {seed}: {invariant}: {detail[:160]!r}")  # noqa: T201
    for text in explained(batch):
        print("-" * 60, text, sep="\n")  # noqa: T201
    failing = batch.figures.failing()
    if failing:
        print("intervals fail more often than they promise:", ", ".join(failing))  # noqa: T201
    if given.json:
        print(json.dumps({**batch.figures.written(), "broken": len(batch.broken), "cpu_s": round(batch.seconds)}))  # noqa: T201
    return 1 if batch.broken or failing else 0


if __name__ == "__main__":
    sys.exit(main())
