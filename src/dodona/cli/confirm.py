"""`dodona confirm`: the owner has looked at what a draft took from the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dodona.cli.ask import Dataset, console
from dodona.cli.told import told


def confirm(
    dataset: Dataset,
    *,
    by: Annotated[str, typer.Option(help="Who looked; it is written into the file.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Show what a draft took from the data and, on yes, let it be served: the review is emptied."""
    with told():
        from dodona.opening.confirm import confirm as confirmed
        from dodona.opening.confirm import waiting

        items = waiting(Path(dataset))
        if not items:
            typer.echo(f"Nothing in {dataset} waits for a review.")
            return
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table("line", "what", "value", box=box.SIMPLE_HEAD, pad_edge=False)
        for item in items:
            value = "is not in the file any more" if item.value is None else item.value
            table.add_row(str(item.line or ""), escape(item.name), escape(value))
        screen = console()
        screen.print("These came from the data. Once confirmed, analysts may read them.", highlight=False)
        screen.print(table)
        if not yes:
            typer.confirm("Is each of them known without the data, or harmless to tell?", abort=True)
        confirmed(Path(dataset), by=by)
        typer.echo(f"confirmed: {dataset}, {len(items)} values, by {by}")
