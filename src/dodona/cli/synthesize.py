"""`dodona synthesize`: release a workload from a file step by step, with synthetic rows and a report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dodona
from dodona.cli.terminal import AnalystOption, JsonOption, report_errors
from dodona.errors import InvalidRequest

if TYPE_CHECKING:
    from dodona.synth.file import SynthesisFile
    from dodona.synth.model import SyntheticModel
    from dodona.synth.rows import SyntheticRows
    from dodona.synth.run import ProgressCallback
    from dodona.synth.synthesize import SynthesisOffer


def synthesize(  # noqa: PLR0913  each is an option
    workload: Annotated[Path, typer.Argument(metavar="WORKLOAD", help="The release file, such as workload.toml.")],
    *,
    only_quote: Annotated[bool, typer.Option("--quote", help="Say what it would take; nothing is charged.")] = False,
    analyst: AnalystOption = None,
    max_price: Annotated[
        str | None,
        typer.Option(help="What it may take of the budget, such as 50%; a share in the file says it too."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Owner only: the exact rows, Parquet or CSV, for --owner-report.")
    ] = None,
    owner_report: Annotated[
        Path | None, typer.Option(help="Owner only: where a page goes that compares with the exact rows. Not private.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Release a workload: a model of some columns, made-up rows, and a report.

    An interrupted release is taken up again by the same command; what was paid for is not charged twice.
    """
    with report_errors():
        from dodona.synth.file import SynthesisFile
        from dodona.synth.synthesize import quote_synthesis

        if (compare is None) != (owner_report is None):
            raise InvalidRequest("--compare and --owner-report go together: the exact rows, and the page about them.")
        if owner_report is not None and (owner_report.suffix != ".html" or not owner_report.parent.is_dir()):
            raise InvalidRequest("--owner-report must end in .html, in a folder that exists.")
        file = SynthesisFile.read(workload)
        exact = None if compare is None else _columns(compare)
        settings = {key: getattr(file, key) for key in ("epsilon", "share", "method", "cells", "name")}
        with dodona.open(file.dataset, analyst=analyst) as curator:
            if only_quote:
                _show_declared(quote_synthesis(curator, file.workload, **settings), as_json=as_json)
                return
            with _progress() as progress:
                model = dodona.synthesize(curator, file.workload, **settings, max_price=max_price, progress=progress)
        rows = _write(file, model)
        if owner_report is not None and exact is not None:
            from dodona.synth.report import owner_report as made

            owner_report.write_text(made(model, exact, rows), encoding="utf-8")
        _show(file, model, rows, as_json=as_json)


def _write(file: SynthesisFile, model: SyntheticModel) -> SyntheticRows | None:
    from dodona.synth.report import public_report

    output, rows = file.output, None
    if output.path is not None:
        match output.kind:
            case "weighted":
                rows = model.weighted()
            case "sampled":
                rows = model.sampled(output.count)
            case _:
                rows = model.rounded(output.count)
        rows.write(output.path)
    if output.report is not None:
        output.report.write_text(public_report(model, rows), encoding="utf-8")
    return rows


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
            "path": None if output.path is None else str(output.path),
            "report": None if output.report is None else str(output.report),
        }
        print(json.dumps(figures))
        return
    print(model)
    if rows is not None:
        print(f"{len(rows):,} {output.kind} rows: {output.path}")
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
