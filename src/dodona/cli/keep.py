"""`dodona keep`: find the rows of people that count once, and keep them beside the table."""

from __future__ import annotations

from typing import Annotated

import typer

from dodona.cli.ask import Dataset
from dodona.cli.told import told


def keep(
    dataset: Dataset,
    *,
    url: Annotated[
        str | None, typer.Option(help="env:NAME of an address whose role may write, where the file's may not.")
    ] = None,
) -> None:
    """Keep the rows of people that count in a table (PostgreSQL) or a folder (Spark), so that questions are quick."""
    with told():
        from dodona.opening.opening import keep_rows

        typer.echo(f"kept: {keep_rows(dataset, url=url)}")
