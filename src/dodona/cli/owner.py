"""`dodona check`, `dodona confirm` and `dodona keep`: commands for the owner of the data."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli.terminal import (
    AnalystOption,
    DatasetArgument,
    JsonOption,
    MaxPriceOption,
    make_console,
    report_errors,
)
from dodona.numbers import format_percent

if TYPE_CHECKING:
    from dodona.dataset.file import DatasetFile
    from dodona.engines.inspection import TableCheck


# --- `dodona check`: exact counts of the rows against the dataset file, for the owner only. ---


PRIVATE = "PRIVATE: exact counts of the data; for the owner alone."


def check(  # noqa: PLR0913  each is an option
    dataset: DatasetArgument,
    *,
    publish: Annotated[
        str | None,
        typer.Option(metavar="EPSILON", help="Buy a noisy figure of the rows that the cap leaves out, for analysts."),
    ] = None,
    analyst: AnalystOption = None,
    max_price: MaxPriceOption = None,
    key: Annotated[str | None, typer.Option(help="With --publish: a retry under the same key is charged once.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Count what the bounds, the labels and the cap do to the rows. For the owner alone; a draft will do."""
    with report_errors():
        if publish is not None:
            _publish(dataset, publish, analyst, max_price, key, as_json=as_json)
            return
        from dodona.dataset.check import check as checked
        from dodona.dataset.check import hints

        file, found = checked(dataset)
        advice = list(hints(file, found))
        if as_json:
            figures = dataclasses.asdict(found) | {"cut": found.cut}
            print(json.dumps({"private": PRIVATE} | figures | {"hints": advice}, ensure_ascii=False))
            return
        _show_check(file, found, advice)


def _publish(  # noqa: PLR0913  each is an option
    dataset: Path, epsilon: str, analyst: str | None, max_price: str | None, key: str | None, *, as_json: bool
) -> None:
    from dodona.dataset.check import publish

    found = publish(dataset, epsilon=epsilon, analyst=analyst, max_price=max_price, key=key)
    if as_json:
        print(json.dumps({"words": found.words, "share": str(found.price)}))
        return
    make_console().print(f"published: {found.words}", markup=False, highlight=False)
    make_console().print(
        f"It took {format_percent(found.price)} of the budget. Offers and answers mention it.", highlight=False
    )


def _show_check(file: DatasetFile, found: TableCheck, advice: list[str]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from dodona.dataset.check import percentage

    screen = make_console()
    screen.print(PRIVATE, style="bold yellow", markup=False, highlight=False)
    unit = file.schema.unit
    lines = [f"{found.rows:,} rows"]
    if found.people is not None:
        lines += [
            f"{found.nobody:,} of nobody ({percentage(found.nobody, found.rows)}): no {unit.id}",
            f"{found.people:,} people",
            f"{found.cut:,} rows cut ({percentage(found.cut, found.rows)}): a person has more than {unit.rows}",
            f"{found.counting:,} rows count",
        ]
    for line in lines:
        screen.print(line, markup=False, highlight=False)
    table = Table("column", "kind", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("missing", "outside", "below", "above"):
        table.add_column(heading, justify="right")
    for column in found.columns:
        figures = (column.missing, column.outside, column.below, column.above)
        shown = (f"{figure:,} ({percentage(figure, found.rows)})" if figure else "-" for figure in figures)
        table.add_row(escape(column.name), column.kind, *shown)
    screen.print(table)
    for line in advice:
        screen.print(f"- {line}", markup=False, highlight=False)
    if file.waiting:
        screen.print("This is a draft: nothing is served before `dodona confirm`.", highlight=False)


# --- `dodona confirm`: the owner has reviewed what a draft took from the data. ---


def confirm(
    dataset: DatasetArgument,
    *,
    by: Annotated[str, typer.Option(help="Who looked; it is written into the file.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Show what a draft took from the data and, on yes, let it be served: the review is emptied."""
    with report_errors():
        from dodona.dataset.changes import confirm as confirmed
        from dodona.dataset.changes import pending_review

        items = pending_review(Path(dataset))
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
        screen = make_console()
        screen.print("These came from the data. Once confirmed, analysts may read them.", highlight=False)
        screen.print(table)
        if not yes:
            typer.confirm("Is each of them known without the data, or harmless to tell?", abort=True)
        confirmed(Path(dataset), by=by)
        typer.echo(f"confirmed: {dataset}, {len(items)} values, by {by}")


# --- `dodona keep`: select the counted rows of people once, and store them beside the table. ---


def keep(
    dataset: DatasetArgument,
    *,
    url: Annotated[
        str | None, typer.Option(help="env:NAME of an address whose role may write, where the file's may not.")
    ] = None,
) -> None:
    """Keep the rows of people that count in a table (PostgreSQL) or a folder (Spark), so that questions are quick."""
    with report_errors():
        from dodona.dataset.opening import keep_rows

        typer.echo(f"kept: {keep_rows(dataset, url=url)}")


# --- `dodona backup` and `dodona restore`. ---


ArchiveArgument = Annotated[Path, typer.Argument(metavar="ARCHIVE", help="The backup, such as stays.tar.gz.")]


def backup(
    place: Annotated[Path, typer.Argument(metavar="PLACE", help="A folder of dataset files, or one of them.")],
    archive: ArchiveArgument,
) -> None:
    """Copy dataset files and ledgers into an archive, also while questions are asked. The rows are not part of it.

    The archive says which rows of a person count, so keep it as safe as the data.
    """
    with report_errors():
        from dodona.dataset.backup import backup as write_backup

        typer.echo(f"backed up: {', '.join(write_backup(place, archive))}")


def restore(
    archive: ArchiveArgument,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the dataset files are to be.")],
) -> None:
    """Restore a backup. What was unspent in it counts as spent, unless a head kept elsewhere proves otherwise."""
    with report_errors():
        from dodona.dataset.backup import restore as read_backup

        for found in read_backup(archive, folder):
            end = "nothing is left until the budget is raised" if found.exhausted else "nothing was charged since"
            typer.echo(f"restored: {found.dataset}, {found.charges:,} charges; {end}")
