"""`dodona attack`: attack exact answers, too little noise, and Dodona, and show what each reveals."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli.terminal import check_picture, make_console, report_errors, show_progress

if TYPE_CHECKING:
    from dodona.lab.attacks.suite import AttackRequest, AttackResult

_WIDTH = 150  # of a table in a file, where no terminal says how wide it is
_FAILED = 1


def attack(  # noqa: PLR0913  the options of a command
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Where to draw what is recovered, by noise and by epsilon.")] = None,
    epsilon: Annotated[str, typer.Option(help="The budget that Dodona is given for each table.")] = "1",
    delta: Annotated[str, typer.Option(help="Its delta: 0, or a small number such as 1e-9.")] = "0",
    people: Annotated[int, typer.Option(help="How many people the linear program is tried on, at most 1000.")] = 128,
    seed: Annotated[int, typer.Option(help="The seed of the made-up tables.")] = 1,
    only: Annotated[str | None, typer.Option(help="Part of the name of an attack.")] = None,
) -> None:
    """Try to recover the secrets of made-up people: by reconstruction, averaging, differencing, tracing and linkage.

    The exit code is 0 only if every attack breaks the targets without noise and none recovers more from Dodona than its
    budget allows. Each attack raises a false alarm once in a million runs.
    """
    with report_errors():
        passed = _attack(as_json=as_json, plot=plot, epsilon=epsilon, delta=delta, people=people, seed=seed, only=only)
    raise typer.Exit(0 if passed else _FAILED)


def _attack(  # noqa: PLR0913  the options of a command
    *, as_json: bool, plot: Path | None, epsilon: str, delta: str, people: int, seed: int, only: str | None
) -> bool:
    check_picture(plot, argument="plot")
    from dodona.lab.attacks import report
    from dodona.lab.attacks.suite import failures, make_request, run_attacks

    began = time.monotonic()
    request = make_request(seed=seed, epsilon=epsilon, delta=delta, people=people, only=only)
    with show_progress("attacking") as progress:
        results = run_attacks(request, progress=progress)
    if plot is not None:
        _draw(request, plot)
    seconds = round(time.monotonic() - began, 1)
    if as_json:
        print(json.dumps({**report.summary(request, results), "seconds": seconds}, ensure_ascii=False))
    else:
        _table(request, results, seconds)
    return failures(results) == ()


def _draw(request: AttackRequest, path: Path) -> None:
    from dodona.lab.attacks import picture
    from dodona.lab.attacks.sweep import sweep_noise
    from dodona.lab.attacks.target import seeded_generator

    with show_progress("drawing") as progress:
        picture.draw(sweep_noise(seeded_generator(request.seed), progress=progress), path)


def _table(request: AttackRequest, results: tuple[AttackResult, ...], seconds: float) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from dodona.lab.attacks import report

    console = make_console(_WIDTH)
    title = "How many secrets attacks recover, of made-up people"
    table = Table(*report.HEADINGS, title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1))
    for row, result in zip(report.rows(results), results, strict=True):
        last = result.target.value == "dodona"
        table.add_row(*row, style=None if result.passed else "bold red", end_section=last)
    console.print(table)
    for line in report.notes(request, results):
        console.print(line, highlight=False)
    console.print(f"{seconds} s", highlight=False)
