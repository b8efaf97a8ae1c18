"""The owner's commands: `dodona init`, `dodona check`, `confirm`, `keep`, `backup` and `restore`.

`init` drafts a dataset file from a table; the others look at it, confirm it, keep the rows that count, and copy it.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli import terminal
from dodona.numbers import format_percent

if TYPE_CHECKING:
    from dodona.dataset.draft import Draft
    from dodona.dataset.file import DatasetFile
    from dodona.engines.inspection import TableCheck


# --- Check, confirm and keep. ---


# --- `dodona check`: exact counts of the rows against the dataset file, for the owner only. ---


PRIVATE = "PRIVATE: exact counts of the data; for the owner alone."


def check(  # noqa: PLR0913  each is an option
    dataset: terminal.DatasetArgument,
    *,
    publish: Annotated[
        str | None,
        typer.Option(metavar="EPSILON", help="Buy and publish a noisy count of the rows that the cap leaves out."),
    ] = None,
    analyst: terminal.AnalystOption = None,
    max_price: terminal.MaxPriceOption = None,
    key: Annotated[str | None, typer.Option(help="With --publish: retries under one key are charged once.")] = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Count how the bounds, the labels and the cap affect the rows. For the owner only; works on a draft too."""
    with terminal.report_errors():
        if publish is not None:
            _publish(dataset, publish, analyst, max_price, key, as_json=as_json)
            return
        from dodona.dataset.check import check as checked
        from dodona.dataset.check import hints

        file, stats = checked(dataset)
        advice = list(hints(file, stats))
        if as_json:
            figures = dataclasses.asdict(stats) | {"cut": stats.cut}
            print(json.dumps({"private": PRIVATE} | figures | {"hints": advice}, ensure_ascii=False))
            return
        _show_check(file, stats, advice)


def _publish(  # noqa: PLR0913  each is an option
    dataset: Path, epsilon: str, analyst: str | None, max_price: str | None, key: str | None, *, as_json: bool
) -> None:
    from dodona.dataset.check import publish

    figure = publish(dataset, epsilon=epsilon, analyst=analyst, max_price=max_price, key=key)
    if as_json:
        print(json.dumps({"words": figure.words, "share": str(figure.price)}))
        return
    price = format_percent(figure.price)
    terminal.say(f"published: {figure.words}", f"It took {price} of the budget. Offers and answers mention it.")


def _show_check(file: DatasetFile, stats: TableCheck, advice: list[str]) -> None:

    from dodona.dataset.check import percentage

    terminal.say(PRIVATE, style="bold yellow")
    unit = file.schema.unit
    lines = [f"{stats.rows:,} rows"]
    if stats.people is not None:
        lines += [
            f"{stats.nobody:,} of nobody ({percentage(stats.nobody, stats.rows)}): no {unit.id}",
            f"{stats.people:,} people",
            f"{stats.cut:,} rows cut ({percentage(stats.cut, stats.rows)}): a person has more than {unit.rows}",
            f"{stats.counting:,} rows count",
        ]
    terminal.say(*lines)
    table = terminal.make_table("column", "kind")
    for heading in ("missing", "outside", "below", "above", "between steps"):
        table.add_column(heading, justify="right")
    for column in stats.columns:
        figures = (column.missing, column.outside, column.below, column.above, column.between)
        shown = (f"{figure:,} ({percentage(figure, stats.rows)})" if figure else "-" for figure in figures)
        table.add_row(column.name, column.kind, *shown)
    terminal.say(table, *(f"- {line}" for line in advice))
    if file.waiting:
        terminal.say("This is a draft: nothing is served before `dodona confirm`.")


# --- `dodona confirm`: the owner has reviewed what a draft took from the data. ---


def confirm(
    dataset: terminal.DatasetArgument,
    *,
    by: Annotated[str, typer.Option(help="Who reviewed it; the name is written into the file.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not prompt.")] = False,
) -> None:
    """Show what a draft took from the data; if you agree, the dataset may be served."""
    with terminal.report_errors():
        from dodona.dataset.changes import confirm as confirmed
        from dodona.dataset.changes import pending_review

        items = pending_review(Path(dataset))
        if not items:
            typer.echo(f"Nothing in {dataset} waits for a review.")
            return

        table = terminal.make_table("line", "what", "value")
        for item in items:
            value = "is not in the file any more" if item.value is None else item.value
            table.add_row(str(item.line or ""), item.name, value)
        terminal.say("These came from the data. Once confirmed, analysts may read them.", table)
        if not yes:
            typer.confirm("Is each of them known without the data, or harmless to tell?", abort=True)
        confirmed(Path(dataset), by=by)
        typer.echo(f"confirmed: {dataset}, {len(items)} values, by {by}")


# --- `dodona keep`: select the counted rows of people once, and store them beside the table. ---


def keep(
    dataset: terminal.DatasetArgument,
    *,
    url: Annotated[
        str | None, typer.Option(help="env:NAME of an address whose role may write, where the file's may not.")
    ] = None,
) -> None:
    """Keep the rows of people that count in a table (PostgreSQL) or a folder (Spark), so that questions are quick."""
    with terminal.report_errors():
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
    with terminal.report_errors():
        from dodona.dataset.backup import backup as write_backup

        typer.echo(f"backed up: {', '.join(write_backup(place, archive))}")


def restore(
    archive: ArchiveArgument,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the dataset files are to be.")],
) -> None:
    """Restore a backup. What was unspent in it counts as spent, unless a head kept elsewhere proves otherwise."""
    with terminal.report_errors():
        from dodona.dataset.backup import restore as read_backup

        for restored in read_backup(archive, folder):
            end = "nothing is left until the budget is raised" if restored.exhausted else "nothing was charged since"
            typer.echo(f"restored: {restored.dataset}, {restored.charges:,} charges; {end}")


# --- Init: a draft of a dataset file. ---


PRIVATE_VALUES = "PRIVATE: what follows was read off the rows; for the owner alone."


def init(  # noqa: PLR0913  each is an option
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A Parquet, CSV or DuckDB file, a pattern with *, a folder, or env:NAME of a database.",
        ),
    ],
    *,
    output: Annotated[Path | None, typer.Option(help="Where to write the draft. Default: TABLE.toml.")] = None,
    table: Annotated[
        str | None, typer.Option(help="The name that analysts use; for a database, the table inside it.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="spark to read the rows with Spark.")] = None,
    person: Annotated[
        str | None, typer.Option("--id", help="The column that identifies people, to protect people.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="How many rows of a person count, with --id.")] = None,
    protects: Annotated[str | None, typer.Option(help="row or person. Default: a guess, for you to confirm.")] = None,
    neighbours: Annotated[str, typer.Option(help="add-remove or replace.")] = "add-remove",
    epsilon: Annotated[str, typer.Option(help="The whole budget.")] = "1",
    delta: Annotated[
        str | None, typer.Option(help="The budget's delta. Default: 1e-6, or less for a large table.")
    ] = None,
) -> None:
    """Draft a dataset file from a table. The draft depends on the rows: review it before anything is served."""
    with terminal.report_errors():
        from dodona.dataset import draft as drafts
        from dodona.dataset.place import find_place, inspect_place

        wishes = drafts.DraftOptions(
            id=person, rows=rows, protects=protects, neighbours=neighbours, epsilon=epsilon, delta=delta
        )
        place = find_place(source, table=table, engine=engine)
        path = drafts.default_output(place) if output is None else output
        if path.exists():  # refuse before reading the rows, which may take long
            raise drafts.FileExists(str(path))
        opened = inspect_place(place)
        try:
            draft = drafts.make_draft(opened, place, wishes, earlier=drafts.drafted_before(place, path.parent))
        finally:
            opened.close()
        drafts.write_draft(draft, path)
        _show_draft(draft, path)


def _show_draft(draft: Draft, path: Path) -> None:

    from dodona.dataset.guess import ProposedColumn

    terminal.say(PRIVATE_VALUES, style="bold yellow")
    table = terminal.make_table("column", "kind", "in the data", "to review")
    for column in draft.columns:
        if isinstance(column, ProposedColumn):
            review = ", ".join(f"{key.name} = {key.text}" for key in column.keys if key.from_data) or "-"
            table.add_row(column.name, column.kind, column.private, review)
        else:
            name = column.name if column.name.isprintable() else repr(column.name)
            table.add_row(name, "left out", column.private, column.reason, style="dim")
    terminal.say(table)
    if draft.place.guessed:
        settings = ", ".join(f"{key} = {getattr(draft.place.form, key)!r}" for key in draft.place.guessed)
        terminal.say(f"The files seem to be written with {settings}.")
    terminal.say(*_unit(draft), _spending(path), f"\nWritten: {path}. Next:")
    for command, what in (
        (f"edit {path}", "correct each marked value to what is known without the data"),
        (f"dodona check {path}", "see what the bounds and the cap do to the rows"),
        (f"dodona confirm {path} --by NAME", "say that you looked"),
        (f"dodona ledger create {path}", "once"),
        (f'dodona ask {path} "SELECT count(*) FROM {draft.place.table}"', ""),  # noqa: S608  for people to type
    ):
        terminal.say(f"  {command}{f'    # {what}' if what else ''}", soft_wrap=True)


def _spending(path: Path) -> str:
    """Describe the cost of questions without a stated accuracy, and the maximum price of one question."""
    from dodona.curator.planner import count_share
    from dodona.curator.request import DefaultTolerance
    from dodona.dataset.file import DatasetFile
    from dodona.numbers import format_percent, to_share

    file = DatasetFile.draft(path)
    unit = file.schema.unit
    within = file.within.rows if isinstance(file.within, DefaultTolerance) else file.within
    share = count_share(unit, file.budget, float(to_share(within, argument="within") * unit.size), file.confidence)
    return (
        f"A question that does not say how accurate is answered for about {format_percent(share)} of the budget, which "
        f"counts rows within {within}. No question takes more than {format_percent(file.max_price)} without "
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
