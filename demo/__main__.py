"""Draws exact noise, holds it to its law, times it beside a peer and paints a picture: `python -m demo`."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import peer
from demo.draws import Draws, Fit, Speed, Subject, drawn, fit, speed
from dodona.mechanisms import Gaussian, Laplace

COUNT = 1_000_000
PEER_COUNT = 20_000
THRESHOLD = 1e-6
"""A sampler that is right fails by bad luck once in a million runs."""
SUBJECTS = (
    Subject("Discrete Laplace", Laplace(scale=10), "laplace"),
    Subject("Discrete Gaussian", Gaussian(scale=10), "gaussian"),
)
PICTURE = Path(__file__).resolve().parent / "out" / "noise.png"


def main() -> None:
    """Do all of it; end with an error where draws do not fit their law."""
    console = Console(highlight=False)
    console.print("[bold]Dodona: exact noise[/bold]\n")
    results = [_examined(subject, console) for subject in SUBJECTS]
    with console.status("painting"):
        from demo.picture import paint

        paint(results, PICTURE)
    console.print()
    console.print(_fits(results))
    console.print(
        f"Chi-square over {COUNT:,} draws each; rarer values are pooled. A fit fails where p < {THRESHOLD:g}.\n"
    )
    console.print(_speeds(results))
    console.print(f"\nPicture: {PICTURE.relative_to(PICTURE.parents[2])}", soft_wrap=True)
    if any(fitted.p_value < THRESHOLD for _, fitted, _ in results):
        sys.exit("The draws do not fit their law: something is wrong.")


def _examined(subject: Subject, console: Console) -> tuple[Draws, Fit, Speed]:
    """Draw, test and time one mechanism, and say so meanwhile."""
    with console.status(f"{subject.name}: drawing {COUNT:,} values"):
        draws = drawn(subject, COUNT)
    with console.status(f"{subject.name}: comparing with the exact law"):
        fitted = fit(draws)
    with console.status(f"{subject.name}: timing beside {peer.NAME}"):
        timed = speed(subject, count=COUNT, peer_count=PEER_COUNT)
    console.print(f"  {subject.name}: {COUNT:,} values drawn, compared with the exact law, timed")
    return draws, fitted, timed


def _fits(results: list[tuple[Draws, Fit, Speed]]) -> Table:
    table = _table("Do the draws follow their law?", "chi-square", "degrees", "p", "")
    for draws, fitted, _ in results:
        verdict = "[red]no[/red]" if fitted.p_value < THRESHOLD else "[green]yes[/green]"
        table.add_row(_name(draws), f"{fitted.statistic:.1f}", str(fitted.freedom), f"{fitted.p_value:.3g}", verdict)
    return table


def _speeds(results: list[tuple[Draws, Fit, Speed]]) -> Table:
    table = _table("Samples per CPU-second", "Dodona", peer.NAME, "ratio")
    for draws, _, timed in results:
        table.add_row(_name(draws), f"{timed.ours:,.0f}", f"{timed.peer:,.0f}", f"{timed.ours / timed.peer:,.0f} ×")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _name(draws: Draws) -> str:
    return f"{draws.subject.name}, scale {draws.subject.mechanism.scale}"


if __name__ == "__main__":
    main()
