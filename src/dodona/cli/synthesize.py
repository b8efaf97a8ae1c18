"""`dodona synthesize`: release a workload from a file step by step, with synthetic rows and a report."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dodona
from dodona.cli.terminal import AnalystOption, JsonOption, YesOption, report_errors
from dodona.errors import DodonaError, InvalidRequest

if TYPE_CHECKING:
    from dodona.synth.file import SynthesisFile
    from dodona.synth.model import SyntheticModel
    from dodona.synth.run import ProgressCallback
    from dodona.synth.synthesize import SynthesisOffer
    from dodona.synth.table import SyntheticRows


def synthesize(  # noqa: PLR0913  each is an option
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The release file; or the dataset file, with --workload or --target.")
    ],
    *,
    workload: Annotated[str | None, typer.Option(help="The workload: 2-way or 3-way.")] = None,
    target: Annotated[str | None, typer.Option(help="A column to be predicted from the others.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="Of this column, and of those in further --column.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="The price of the workload alone, such as 1.")] = None,
    share: Annotated[str | None, typer.Option(help="What it may take of the budget, such as 10%.")] = None,
    name: Annotated[str, typer.Option(help="The name of the release; another name makes a new one.")] = "release",
    output: Annotated[
        Path | None, typer.Option(help="Where to write the rows: a .parquet, .csv or .arrow file.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Where to write the report: an .html file.")] = None,
    only_quote: Annotated[bool, typer.Option("--quote", help="Show the price; nothing is charged.")] = False,
    analyst: AnalystOption = None,
    max_price: Annotated[
        str | None,
        typer.Option(help="The most it may take of the budget, such as 50%. Default: its share."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Owner only: the exact rows, Parquet or CSV, for --owner-report.")
    ] = None,
    owner_report: Annotated[
        Path | None, typer.Option(help="Owner only: where to write a comparison with the exact rows. Not private.")
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Release a workload: a model of some columns, made-up rows, and a report.

    On a terminal it first says what it takes, and asks. An interrupted release is taken up again by the same command;
    what was paid for is not charged twice.
    """
    with report_errors():
        from dodona.synth.synthesize import quote_synthesis

        if (compare is None) != (owner_report is None):
            raise InvalidRequest("--compare and --owner-report go together: the exact rows, and the page about them.")
        if owner_report is not None and (owner_report.suffix != ".html" or not owner_report.parent.is_dir()):
            raise InvalidRequest("--owner-report must end in .html, in a folder that exists.")
        words = {"target": target, "columns": None if column is None else tuple(column), "name": name}
        declaration = _declaration(file, workload, words | {"epsilon": epsilon, "share": share}, output, report)
        exact = None if compare is None else _columns(compare)
        settings = {key: getattr(declaration, key) for key in ("epsilon", "share", "method", "cells", "name")}
        with dodona.open(declaration.dataset, analyst=analyst) as curator:
            if only_quote:
                _show_declared(quote_synthesis(curator, declaration.workload, **settings), as_json=as_json)
                return
            if not yes and sys.stdin.isatty() and sys.stdout.isatty():
                _agree(quote_synthesis(curator, declaration.workload, **settings))
            with _progress() as progress:
                model = dodona.synthesize(
                    curator, declaration.workload, **settings, max_price=max_price, progress=progress
                )
        with _charged(model):
            rows = _write(declaration, model)
        if owner_report is not None and exact is not None:
            from dodona.synth.report import owner_report as made

            owner_report.write_text(made(model, exact, rows), encoding="utf-8")
        _show(declaration, model, rows, as_json=as_json)


def _declaration(
    file: Path, word: str | None, words: dict[str, Any], output: Path | None, report: Path | None
) -> SynthesisFile:
    """Return what is to be released: as a release file says, or in words about a dataset file."""
    from dodona.synth.file import OutputSettings, SynthesisFile

    if word is not None or words["target"] is not None:
        return SynthesisFile.of_words(file, word, output=OutputSettings(path=output, report=report), **words)
    given = [f"--{key}" for key in ("columns", "epsilon", "share") if words[key] is not None]
    given += [f"--{key}" for key, path in (("output", output), ("report", report)) if path is not None]
    if given:
        options = ", ".join(given).replace("--columns", "--column")
        raise InvalidRequest(f"{options} belong to --workload or --target; a release file says these itself.")
    return SynthesisFile.read(file)


def _agree(offer: SynthesisOffer) -> None:
    """Show what a release takes, and go on if the user agrees."""
    typer.echo(str(offer))
    if not offer.affordable:
        return  # it is about to be refused with its own message
    if not typer.confirm("Release it?"):
        typer.echo("Nothing was charged.")
        raise typer.Exit(1)


def _write(file: SynthesisFile, model: SyntheticModel) -> SyntheticRows | None:
    from dodona.synth.file import source_types
    from dodona.synth.report import public_report
    from dodona.synth.table import replace_whole

    output, rows = file.output, None
    if output.path is not None and model.schema.linked:
        for name, table in model.tables(output.count).items():
            table.write(output.path.with_stem(f"{output.path.stem}-{name}"), types=source_types(file.dataset, name))
    elif output.path is not None:
        match output.kind:
            case "weighted":
                rows = model.weighted()
            case "sampled":
                rows = model.sampled(output.count)
            case _:
                rows = model.rounded(output.count)
        rows.write(output.path, types=source_types(file.dataset))
    if output.report is not None:
        with replace_whole(output.report) as page:
            page.write(public_report(model, rows).encode())
    return rows


@contextmanager
def _charged(model: SyntheticModel) -> Iterator[None]:
    """Mark errors about rows as coming after a charge, if this command made one: rows themselves cost nothing."""
    try:
        yield
    except DodonaError as fault:
        if any(step.how == "paid" for step in model.steps):
            raise fault.after_charge() from fault
        raise


def _show(file: SynthesisFile, model: SyntheticModel, rows: SyntheticRows | None, *, as_json: bool) -> None:
    output = file.output
    if as_json:
        figures = {
            "method": model.method,
            "columns": list(model.workload.names),
            "share": str(model.share),
            "charges": len(model.steps),
            "paid": sum(step.how == "paid" for step in model.steps),
            "lost": sum(step.how == "lost" for step in model.steps),
            "within": None if model.promise is None else model.promise.within,
            "confidence": None if model.promise is None else model.promise.confidence,
            "rows": None if rows is None else len(rows),
            "redrawn": None if rows is None else rows.redrawn,
            "path": None if output.path is None else str(output.path),
            "report": None if output.report is None else str(output.report),
        }
        print(json.dumps(figures))
        return
    print(model)
    if output.path is not None and model.schema.linked:
        listed = (model.schema.table, *(linked.name for linked in model.schema.linked))
        print(f"Rows of {len(listed)} tables: {', '.join(f'{output.path.stem}-{name}' for name in listed)}")
    if rows is not None:
        anew = f" ({rows.redrawn:,} drawn anew, to meet the constraints)" if rows.redrawn else ""
        print(f"{len(rows):,} {output.kind} rows{anew}: {output.path}")
    if output.report is not None:
        print(f"Report: {output.report}")


def _show_declared(declared: SynthesisOffer, *, as_json: bool) -> None:
    promise = declared.promise
    if as_json:
        figures = {
            "method": declared.method,
            "share": str(declared.share),
            "left": str(declared.left),
            "price": declared.price,
            "unit": declared.unit,
            "seconds": declared.effort.seconds,
            "memory": declared.effort.memory,
            "within": None if promise is None else promise.within,
            "confidence": None if promise is None else promise.confidence,
        }
        print(json.dumps(figures))
        return
    print(declared)


def _columns(path: Path) -> dict[str, list[object]]:
    """Return the owner's exact columns."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path) if path.suffix == ".parquet" else pc.read_csv(path)
    except (OSError, pa.ArrowException):
        raise InvalidRequest(f"{path.name} cannot be read. Give --compare a Parquet or CSV file.") from None
    return {name: table.column(name).to_pylist() for name in table.column_names}


@contextmanager
def _progress() -> Iterator[ProgressCallback]:
    """Show a progress bar on a terminal, and nothing in a log."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:48.48}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("releasing", total=1.0)

        def moved(part: float, about: str) -> None:
            progress.update(task, completed=part, description=about)

        yield moved
