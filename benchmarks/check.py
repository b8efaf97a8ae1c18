"""`python -m benchmarks check`: figures that must stay, each beside its bound in `bounds.toml`.

A figure is a ratio to a peer in the same run, or CPU time in milliseconds of a machine that runs the loop of
`clock.loop` in one of them: so it says the same on fast and on slow machines. Bounds leave room for noise; what passes
them was lost.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from rich.console import Console
from rich.table import Table

from benchmarks import check_areas

ABOUT = "whether the figures that must stay are within their bounds"
BOUNDS = Path(__file__).with_name("bounds.toml")

Say = Callable[[str], None]
Areas = Mapping[str, Callable[[Path], dict[str, float]]]
"""What is measured in each area, given a folder to write to: figures by name."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The most, or the least, that a figure may be."""

    area: str
    figure: str
    limit: float
    most: bool
    why: str

    def holds(self, measured: float) -> bool:
        """Return whether a measured figure is within it."""
        return measured <= self.limit if self.most else measured >= self.limit

    def __str__(self) -> str:
        return f"{'≤' if self.most else '≥'} {self.limit:g}"


def bounds_of(path: Path) -> tuple[Bound, ...]:
    """Return the bounds that a file lists."""
    bounds = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["bound"]:
        most = "most" in entry
        limit = float(entry["most" if most else "least"])
        bounds.append(Bound(entry["area"], entry["figure"], limit, most, entry["why"]))
    return tuple(bounds)


def main(arguments: Sequence[str], say: Say, *, areas: Areas = check_areas.AREAS) -> None:
    """Measure, print a table, and exit with 1 where a bound does not hold or a figure is missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks check", description=f"Says {ABOUT}.")
    parser.add_argument("--area", action="append", choices=sorted(areas), help="an area to measure; again for more")
    parser.add_argument("--bounds", type=Path, default=BOUNDS, help="the file of bounds")
    parser.add_argument(
        "--planted", action="append", default=[], metavar="FIGURE=FACTOR", help="make a figure so many times worse"
    )
    given = parser.parse_args(arguments)
    chosen = [name for name in areas if given.area is None or name in given.area]
    bounds = [bound for bound in bounds_of(given.bounds) if bound.area in chosen]
    figures = _measured({name: areas[name] for name in chosen}, say)
    for word in given.planted:
        figure, _, factor = word.partition("=")
        listed = [bound for bound in bounds if bound.figure == figure]
        if not listed or figure not in figures:
            parser.error(f"there is no figure {figure!r} to make worse")
        figures[figure] *= float(factor) if listed[0].most else 1 / float(factor)
    failed = [bound.figure for bound in bounds if not bound.holds(figures.get(bound.figure, float("nan")))]
    _show(bounds, figures)
    if failed:
        sys.exit(f"{len(failed)} of {len(bounds)} figures are out of bounds: {', '.join(failed)}")


def _measured(areas: Areas, say: Say) -> dict[str, float]:
    """Return the figures of all areas."""
    build = Path("build")
    build.mkdir(exist_ok=True)
    figures: dict[str, float] = {}
    began = monotonic()
    for number, (name, measure) in enumerate(areas.items(), 1):
        say(f"{name}, {number} of {len(areas)}, after {monotonic() - began:.0f} s")
        with tempfile.TemporaryDirectory(dir=build) as scratch:
            figures |= measure(Path(scratch).resolve())
    return figures


def _show(bounds: Sequence[Bound], figures: Mapping[str, float]) -> None:
    table = Table(title="Figures that must stay", title_justify="left")
    for name in ("area", "figure"):
        table.add_column(name, no_wrap=True)
    for name in ("bound", "measured"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("ok", no_wrap=True)
    for bound in bounds:
        measured = figures.get(bound.figure)
        kept = measured is not None and bound.holds(measured)
        shown = "missing" if measured is None else f"{measured:.4g}"
        table.add_row(bound.area, bound.figure, str(bound), shown, "yes" if kept else "NO")
    Console(width=max(Console().width, 100)).print(table)
