"""`dodona init`: draft a dataset file from a table, for its owner to correct."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from dodona.cli.terminal import make_table, report_errors, say

if TYPE_CHECKING:
    from dodona.dataset.draft import Draft

PRIVATE = "PRIVATE: what follows was read off the rows; for the owner alone."


def init(  # noqa: PLR0913  each is an option
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A Parquet, CSV or DuckDB file, a pattern with *, a folder, or env:NAME of a database.",
        ),
    ],
    *,
    output: Annotated[Path | None, typer.Option(help="Where the draft goes; TABLE.toml unless said otherwise.")] = None,
    table: Annotated[
        str | None, typer.Option(help="The name that analysts use; for a database, the table inside it.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="spark, to have Spark read the rows.")] = None,
    person: Annotated[
        str | None, typer.Option("--id", help="The column that identifies people, to protect people.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="How many rows of a person count, with --id.")] = None,
    protects: Annotated[str | None, typer.Option(help="row or person; guessed unless said.")] = None,
    neighbours: Annotated[str, typer.Option(help="add-remove or replace.")] = "add-remove",
    epsilon: Annotated[str, typer.Option(help="The whole budget.")] = "1",
    delta: Annotated[str | None, typer.Option(help="1e-6, or less for a large table, unless said.")] = None,
) -> None:
    """Draft a dataset file from a table. The rows are read, by you and for you; nothing is served from a draft."""
    with report_errors():
        from dodona.dataset.draft import (
            DraftOptions,
            FileExists,
            default_output,
            drafted_before,
            make_draft,
            write_draft,
        )
        from dodona.dataset.place import find_place, inspect_place

        wishes = DraftOptions(
            id=person, rows=rows, protects=protects, neighbours=neighbours, epsilon=epsilon, delta=delta
        )
        place = find_place(source, table=table, engine=engine)
        path = default_output(place) if output is None else output
        if path.exists():  # refuse before reading the rows, which may take long
            raise FileExists(str(path))
        opened = inspect_place(place)
        try:
            draft = make_draft(opened, place, wishes, earlier=drafted_before(place, path.parent))
        finally:
            opened.close()
        write_draft(draft, path)
        _show(draft, path)


def _show(draft: Draft, path: Path) -> None:

    from dodona.dataset.guess import ProposedColumn

    say(PRIVATE, style="bold yellow")
    table = make_table("column", "kind", "in the data", "to review")
    for column in draft.columns:
        if isinstance(column, ProposedColumn):
            review = ", ".join(f"{key.name} = {key.text}" for key in column.keys if key.from_data) or "-"
            table.add_row(*map(escape, (column.name, column.kind, column.private, review)))
        else:
            name = column.name if column.name.isprintable() else repr(column.name)
            table.add_row(escape(name), "left out", escape(column.private), escape(column.reason), style="dim")
    say(table)
    if draft.place.guessed:
        settings = ", ".join(f"{key} = {getattr(draft.place.form, key)!r}" for key in draft.place.guessed)
        say(f"The files seem to be written with {settings}.")
    say(*_unit(draft), _spending(path), f"\nWritten: {path}. Next:")
    for command, what in (
        (f"edit {path}", "correct each marked value to what is known without the data"),
        (f"dodona check {path}", "see what the bounds and the cap do to the rows"),
        (f"dodona confirm {path} --by NAME", "say that you looked"),
        (f"dodona ledger create {path}", "once"),
        (f'dodona ask {path} "SELECT count(*) FROM {draft.place.table}"', ""),  # noqa: S608  for people to type
    ):
        say(f"  {command}{f'    # {what}' if what else ''}", soft_wrap=True)


def _spending(path: Path) -> str:
    """Describe the cost of questions without a stated accuracy, and the maximum price of one question."""
    from dodona.curator.request import count_share
    from dodona.dataset.file import DatasetFile
    from dodona.numbers import format_percent, to_share

    file = DatasetFile.draft(path)
    unit = file.schema.unit
    part = to_share(file.within, argument="within")  # a draft leaves it open
    share = count_share(unit, file.budget, float(part * unit.size), file.confidence)
    return (
        f"A question that does not say how accurate is answered within {file.within}: a count then takes "
        f"{format_percent(share)} of the budget. No question takes more than {format_percent(file.max_price)} without "
        "--max-price."
    )


def _unit(draft: Draft) -> list[str]:
    """Describe the proposed privacy unit."""
    from dodona.dataset.guess import CAP_EPSILON

    unit = {key.name: key for key in draft.unit}
    size = f"{draft.rows:,} rows; unit.size = {unit['size'].text}."
    if "id" not in unit:
        return [size, "Each row is protected by itself. If a person may have several rows, write --id COLUMN."]
    guess = " Guessed by its name: check that it identifies people." if unit["id"].from_data else ""
    capped = (
        f" Chosen with noise (epsilon {float(CAP_EPSILON):g}, which the ledger begins with): all rows of about 19 in "
        "20 people count. Decide."
        if unit["rows"].from_data
        else ""
    )
    return [
        size,
        f"People are protected, identified by {unit['id'].text}.{guess}",
        f"Of each person {unit['rows'].text} rows count.{capped}",
    ]
