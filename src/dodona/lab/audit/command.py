"""`dodona audit`: test every mechanism against its claim, and the audit against a catalogue of known faults."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.errors import DodonaError, InvalidArgument

if TYPE_CHECKING:
    from rich.console import Console

    from dodona.lab.audit.audit import Audit
    from dodona.lab.audit.mutants.mutant import Mutant

_WIDTH = 150  # of a table in a file, where no terminal says how wide it is
_PICTURES = (".png", ".svg", ".pdf")


def audit(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
    reduced: Annotated[bool, typer.Option("--reduced", help="A fifth of the samples: about a minute.")] = False,
    mutants: Annotated[
        bool, typer.Option(help="Also run the deliberately broken copies, which must be caught.")
    ] = True,
    only: Annotated[str | None, typer.Option(help="Part of the name of a mechanism, a case or a mutant.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to draw claimed against certified losses.")] = None,
) -> None:
    """Sample every mechanism on neighbouring tables and prove how much it loses at least.

    The exit code is 0 only if no claim is refuted and every mutant is caught.
    """
    try:
        passed = _audit(as_json=as_json, reduced=reduced, mutants=mutants, only=only, plot=plot)
    except DodonaError as error:
        typer.echo(f"{error.code}: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    raise typer.Exit(0 if passed else 1)


def _audit(*, as_json: bool, reduced: bool, mutants: bool, only: str | None, plot: Path | None) -> bool:
    if plot is not None and (plot.suffix not in _PICTURES or not plot.parent.is_dir()):
        accepted = f"write a file in a folder that exists, whose name ends in {', '.join(_PICTURES)}"
        raise InvalidArgument("plot", str(plot), accepted)
    from rich.console import Console

    from dodona.lab.audit import report
    from dodona.lab.audit.audit import FULL, REDUCED
    from dodona.lab.audit.mutants import MUTANTS

    began = time.monotonic()
    done = _run_with_progress(REDUCED if reduced else FULL, MUTANTS if mutants else (), only, Console(stderr=True))
    if plot is not None:
        from dodona.lab.audit import picture

        picture.draw(done, plot)
    figures = {**report.summary(done), "seconds": round(time.monotonic() - began, 1)}
    if as_json:
        print(json.dumps(figures, ensure_ascii=False))
    else:
        _tables(done, figures, Console(width=None if sys.stdout.isatty() else _WIDTH))
    return done.passed


def _run_with_progress(count: int, mutants: tuple[Mutant, ...], only: str | None, console: Console) -> Audit:
    """Run the audit with its progress on a console."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from dodona.lab.audit.audit import audited

    columns = (TextColumn("{task.description:48.48}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("auditing", total=None)

        def told(finished: int, total: int, name: str) -> None:
            progress.update(task, completed=finished, total=total, description=name)
            if not console.is_terminal:  # a log shows no bar
                console.print(f"{finished}/{total} {name}", markup=False, highlight=False)

        return audited(count, mutants=mutants, only=only, told=told)


def _tables(done: Audit, figures: dict[str, object], console: Console) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from dodona.lab.audit import report

    for title, headings, rows in (
        ("Right mechanisms: certified must not pass the claim", report.CASE_HEADINGS, report.case_rows(done)),
        ("Mutants: certified must pass the claim", report.MUTANT_HEADINGS, report.mutant_rows(done)),
    ):
        if rows:
            table = Table(*headings, title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1))
            for row in rows:
                table.add_row(*row, style="bold red" if row[-1].isupper() else None)
            console.print(table)
    console.print(
        f"{figures['mechanisms']} audits, {figures['violations']} violations; "
        f"{figures['caught']} of {figures['mutants']} mutants caught; {figures['seconds']} s"
    )
