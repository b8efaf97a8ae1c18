"""`dodona audit`: test every mechanism against its claim, and the audit against a catalogue of known faults."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli.terminal import check_picture, make_console, report_errors, show_progress

if TYPE_CHECKING:
    from rich.console import Console

    from dodona.lab.audit.audit import Audit

_WIDTH = 150  # of a table in a file, where no terminal says how wide it is


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
    """Sample every mechanism on neighbouring tables and prove a lower bound on its privacy loss.

    The exit code is 0 only if no claim is refuted and every mutant is caught.
    """
    with report_errors():
        passed = _audit(as_json=as_json, reduced=reduced, mutants=mutants, only=only, plot=plot)
    raise typer.Exit(0 if passed else 1)


def _audit(*, as_json: bool, reduced: bool, mutants: bool, only: str | None, plot: Path | None) -> bool:
    check_picture(plot, argument="plot")
    from dodona.lab.audit import report
    from dodona.lab.audit.audit import FULL, REDUCED, run_audit
    from dodona.lab.audit.mutants import MUTANTS

    began = time.monotonic()
    with show_progress("auditing") as progress:
        count = REDUCED if reduced else FULL
        done = run_audit(count, mutants=MUTANTS if mutants else (), only=only, progress=progress)
    if plot is not None:
        from dodona.lab.audit import picture

        picture.draw(done, plot)
    figures = {**report.summary(done), "seconds": round(time.monotonic() - began, 1)}
    if as_json:
        print(json.dumps(figures, ensure_ascii=False))
    else:
        _tables(done, figures, make_console(_WIDTH))
    return done.passed


def _tables(done: Audit, figures: dict[str, object], console: Console) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from dodona.lab.audit import report

    for title, headings, rows in (
        ("Correct mechanisms: certified must not exceed the claim", report.CASE_HEADINGS, report.case_rows(done)),
        ("Mutants: certified must exceed the claim", report.MUTANT_HEADINGS, report.mutant_rows(done)),
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
