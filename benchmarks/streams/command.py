"""`python -m benchmarks streams`: each stream by the ladder and by the simple ways, side by side."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.streams import hindsight, pictures, wide_run
from benchmarks.streams.baselines import Baselines
from benchmarks.streams.catalogue import GENERATED, STREAMS
from benchmarks.streams.ladder import Way, climbed, source_of
from benchmarks.streams.run import Run, summary
from benchmarks.streams.wide import LENGTH, MADE_UP, WIDE
from dodona.curator.ladder import OPTIONAL_RUNGS
from dodona.errors import DodonaError

if TYPE_CHECKING:
    from benchmarks.streams.stream import Stream

LADDER = "ladder"
NOTE = (
    "ε is what the product's own filter certifies at δ = 10⁻⁹ for all that was charged; a pure sum counts as it is. "
    "The streams are fixed by their seeds. Noise comes from the product's own entropy, which has no seed: the seeds "
    "that are listed only number independent runs. Ladders without a rung are run once. Errors are parts of the rows."
)
_AMPLE = {"approximate": "30", "pure": "300"}
"""What a ladder without one of its rungs may spend, so that its price is seen and not where it ends."""
_NEEDS = {"derive": ("bundle",)}
"""What is of no use without a rung: answers follow from a bundle by derivation."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be measured."""

    streams: tuple[str, ...]
    seeds: tuple[int, ...]
    budget: str
    prepared: bool
    data: Path | None
    folder: Path | None
    rungs: tuple[str, ...]
    """The rungs that are switched off in turn."""


def main(arguments: Sequence[str]) -> None:
    """Measure what was asked for and print it: a table, and as the last line one JSON object."""
    parser = _parser()
    given = parser.parse_args(arguments)
    asked = Asked(
        streams=_streams(given.stream, given.data),
        seeds=tuple(given.seeds),
        budget=given.budget,
        prepared=given.prepare,
        data=given.data,
        folder=given.pictures,
        rungs=() if given.whole else tuple(sorted(OPTIONAL_RUNGS)),
    )
    figures: dict[str, dict[str, object]] = {}
    try:
        for name in asked.streams:
            if name in WIDE:
                figures[name] = wide_run.measured(
                    name, given.length, asked.data, asked.budget, wide_run.RUNGS, prepared=asked.prepared
                )
            else:
                figures[name] = _measured(name, asked)
            if not given.json:
                (wide_run.show if name in WIDE else _show)(name, figures[name])
    except DodonaError as fault:
        parser.exit(1, f"{fault}\n")
    print(json.dumps(figures))


def _parser() -> argparse.ArgumentParser:
    about = {name: stream.about for name, stream in STREAMS.items()} | {
        name: stream.about for name, stream in WIDE.items()
    }
    listed = "\n".join(f"  {name:12} {description}" for name, description in about.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks streams",
        description="What a stream of questions costs: the ladder beside simple ways. " + NOTE,
        epilog=f"streams:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print nothing but the JSON object")
    parser.add_argument("--stream", action="append", choices=[*STREAMS, *WIDE], help="the stream; again for more")
    parser.add_argument("--length", type=int, default=LENGTH, help="questions of a stream over many columns")
    parser.add_argument("--seeds", type=_numbers, default=[0, 1, 2, 3, 4], help="one run for each, such as 0,1,2")
    parser.add_argument("--budget", choices=["approximate", "pure"], default="approximate")
    parser.add_argument("--prepare", action="store_true", help="declare all questions before the first one")
    parser.add_argument(
        "--data",
        type=Path,
        help="the Adult table, for adult-3: CSV or Parquet, whole codes; or the folder of adult.csv and nltcs.csv",
    )
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write a picture of each stream there")
    parser.add_argument("--whole", action="store_true", help="leave out the ladders without one of their rungs")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _streams(named: list[str] | None, data: Path | None) -> tuple[str, ...]:
    """Return the streams that are meant: without names all whose tables are there."""
    if named is not None:
        return tuple(dict.fromkeys(named))
    if data is None:
        return (*GENERATED, *MADE_UP)
    return (*GENERATED, *WIDE) if data.is_dir() else (*STREAMS, *MADE_UP)


def _measured(name: str, asked: Asked) -> dict[str, object]:
    """Return the figures of one stream."""
    stream = STREAMS[name].stream(asked.data)
    ways = _runs(stream, asked)
    ladder = ways.pop(LADDER)
    figures = summary(stream, ladder) | {
        "seeds": list(asked.seeds),
        "budget": asked.budget,
        "budget_epsilon": float(stream.epsilon[asked.budget]),
        "prepared": asked.prepared,
        "alpha": stream.share,
        "beta": stream.failing,
        "rows": stream.rows,
        "note": NOTE,
        "runs": [run.told() for run in ladder],
        "baselines": {way: summary(stream, runs) for way, runs in ways.items()},
    }
    if name == "adult-3":
        figures["prefixes"] = hindsight.prefixes(stream, ladder, budget=asked.budget)
    if asked.folder is not None:
        asked.folder.mkdir(parents=True, exist_ok=True)
        kind = "" if asked.budget == "approximate" else ", pure budget"
        shown = {"ladder, prepared" if asked.prepared else LADDER: ladder, **ways}
        file = f"stream-{name}{'-pure' if kind else ''}{'-prepared' if asked.prepared else ''}.png"
        pictures.draw(asked.folder / file, title=f"{name}: {STREAMS[name].about}{kind}", ways=shown)
    return figures


def _runs(stream: Stream, asked: Asked) -> dict[str, list[Run]]:
    """Return the runs of every way, the ladder's first."""
    whole = Way(budget=asked.budget, epsilon=stream.epsilon[asked.budget], prepared=asked.prepared)
    climbs = {LADDER: (whole, len(asked.seeds))}
    for rung in asked.rungs:
        off = frozenset((rung, *_NEEDS.get(rung, ())))
        climbs[f"{LADDER}-without-{rung}"] = replace(whole, epsilon=_AMPLE[asked.budget], rungs=OPTIONAL_RUNGS - off), 1
    runs: dict[str, list[Run]] = {}
    source = source_of(stream)
    with _progress() as progress:
        for way, (how, times) in climbs.items():
            task = progress.add_task(f"{stream.name} {way}", total=len(stream.asked) * times)
            advance = partial(progress.advance, task)
            runs[way] = [climbed(stream, source, how, advance) for _ in range(times)]
        for way, run in Baselines(stream, asked.budget).named():
            task = progress.add_task(f"{stream.name} {way}", total=len(asked.seeds))
            runs[way] = []
            for _ in asked.seeds:
                runs[way].append(run())
                progress.advance(task, 1)
    return runs


def _progress() -> Progress:
    """Return a bar on stderr, so that stdout holds the figures alone."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))


def _show(name: str, figures: dict[str, object]) -> None:
    """Print one stream as a table."""
    table = Table(title=f"{name}: {STREAMS[name].about}", title_justify="left")
    came = Table(title="where answers came from", title_justify="left")
    for view in (table, came):
        view.add_column("way", no_wrap=True)
    for column in ("ε", "zCDP", "pure", "error", "beyond", "held", "µs"):
        table.add_column(column, justify="right", no_wrap=True)
    came.add_column("a run, on average")
    baselines = figures["baselines"]
    ways = {LADDER: figures, **(baselines if isinstance(baselines, dict) else {})}
    for way, entry in ways.items():
        losses = (_mean(entry[f"{kind}_epsilon"]) for kind in ("certified", "zcdp", "pure"))
        rest = (entry[kind] for kind in ("max_error", "beyond_alpha", "coverage", "us_per_free_answer"))
        table.add_row(way, *(_digits(value) for value in (*losses, *rest)))
        came.add_row(way, ", ".join(f"{rung} {count:.6g}" for rung, count in entry["rungs"].items()))
    Console().print(table)
    Console().print(came)
    prefixes = figures.get("prefixes")
    if isinstance(prefixes, dict):
        prefix_table = Table(title=f"{name}: ε until a turn, beside what was best in hindsight", title_justify="left")
        for column in ("questions", "ladder", "best", "ε of the best", "ratio"):
            prefix_table.add_column(column, justify="right")
        for turn, entry in prefixes.items():
            best = entry["best"]
            prefix_table.add_row(
                turn, _digits(_mean(entry["ladder"])), best, _digits(entry[best]), _digits(_mean(entry["ratio"]))
            )
        Console().print(prefix_table)


def _mean(values: object) -> float | None:
    known = [value for value in values if value is not None] if isinstance(values, list) else []
    return fmean(known) if known else None


def _digits(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else "-"


if __name__ == "__main__":
    main(sys.argv[1:])
