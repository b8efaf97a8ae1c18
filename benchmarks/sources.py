"""`python -m benchmarks sources`: what the texts that Dodona is built from describe, and how far it gets here."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report import Row, show
from benchmarks.sources_adaptive import adaptive_k
from benchmarks.sources_attack import attack
from benchmarks.sources_local import ldp
from benchmarks.sources_mwem import mwem
from benchmarks.sources_plan import plan_max_relative_difference
from benchmarks.streams.adult import COLUMNS

if TYPE_CHECKING:
    from typing import Literal

ABOUT = "the sources: adaptive questions, planning, releases, surveys, attacks"
NOTE = (
    "Adaptive questions are those within a tenth at 95%, beside the better of sample splitting and Jung et al. 2020. "
    "Total variation and largest error are of a released census table, beside MWEM with a graphical model at the same "
    "ε; without --data they are left out. Surveys are 10⁶ reports of 10³ values, beside multi-freq-ldpy if it is "
    "there (benchmarks/sources_local.py says how to put it there). Secrets are the share that a linear program gets."
)
_ADAPTIVE = {"10000": 38, "100000": 320, "1000000": 24_940}
"""The better of sample splitting (38, 281, 2,222) and the form of Jung et al. 2020 (4, 320, 24,940)."""
_RELEASED = {"0.1": (0.200, 0.122, 18.67), "1": (0.033, 0.0124, 35.47), "10": (0.0231, 0.0135, 39.83)}
"""Mean total variation, largest error and CPU seconds of MWEM with a graphical model (mbi), on the same table."""

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """The measurements, each by itself, so that a test may ask for less of one."""

    adaptive: Callable[[], dict[str, int]] = adaptive_k
    plan: Callable[[], float] = plan_max_relative_difference
    release: Callable[[Path], dict[str, dict[str, float]]] = mwem
    survey: Callable[[], dict[str, float | None]] = ldp
    secrets: Callable[[], dict[str, float]] = attack


def main(arguments: Sequence[str], say: Callable[[str], None], work: Work | None = None) -> None:
    """Measure and print: a table and, if JSON is wanted, one object as the last line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sources", description=f"Measures {ABOUT}.")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--data", type=Path, metavar="FILE", help="a CSV of census codes, with the recipe's columns")
    given = parser.parse_args(arguments)
    if given.data is not None:
        _look_at(parser, given.data)
    figures = measure(say, data=given.data, work=Work() if work is None else work)
    show(ABOUT, rows(figures), note=NOTE)
    if given.json:
        print(json.dumps(figures))


def measure(say: Callable[[str], None], *, data: Path | None, work: Work) -> dict[str, object]:
    """Return every figure by name; what needs a table is None without one."""
    say("how many adaptive questions a sample answers")
    adaptive = work.adaptive()
    say("the planner beside known guarantees")
    plan = work.plan()
    say("a released census table" if data is not None else "no release, for want of --data")
    released = None if data is None else work.release(data)
    say("a survey of a million respondents")
    survey = work.survey()
    say("an attack by linear programming")
    return {
        "adaptive_k": adaptive,
        "plan_max_relative_difference": plan,
        "mwem": released,
        "ldp": survey,
        "attack": work.secrets(),
    }


def rows(figures: Figures) -> list[Row]:
    """Return the figures as rows of a table, beside what is known."""
    rows = [
        _row(f"adaptive questions of {int(size):,} rows", "", count, _ADAPTIVE.get(size), "more")
        for size, count in figures["adaptive_k"].items()
    ]
    rows.append(_row("planner: largest difference", "%", 100 * figures["plan_max_relative_difference"], None, "less"))
    for epsilon, release in (figures["mwem"] or {}).items():
        known = _RELEASED[epsilon]
        rows += [
            _row(f"release at ε = {epsilon}: {name}", unit, scale * release[key], scale * known[place], "less")
            for place, (name, key, unit, scale) in enumerate(
                (("mean total variation", "mean_tv", "%", 100), ("largest error", "max_error", "%", 100),
                 ("time", "cpu_s", "CPU s", 1))
            )
        ]  # fmt: skip
    survey = figures["ldp"]
    rows.append(_row("survey: all reports and their counts", "CPU s", survey["ours_s"], survey["peer_s"], "less"))
    rows += [
        _row(f"secrets recovered from {name}", "%", 100 * share, None, "less")
        for name, share in figures["attack"].items()
    ]
    return rows


def _row(figure: str, unit: str, ours: float, peer: float | None, better: Literal["more", "less"]) -> Row:
    return Row(figure=figure, unit=unit, ours=ours, peer=peer, better=better)


def _look_at(parser: argparse.ArgumentParser, path: Path) -> None:
    """End before anything is measured where the file is not the table of the recipe."""
    try:
        with path.open(encoding="utf-8") as file:
            header = file.readline().strip().split(",")
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"--data {path}: cannot be read ({error}).")
    if missing := [name for name in COLUMNS if name not in header]:
        parser.error(f"--data {path}: no column {', '.join(missing)}. Its first line must name {', '.join(COLUMNS)}.")
