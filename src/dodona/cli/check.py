"""`dodona check`: exact counts of the rows against the dataset file, for the owner alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli.ask import Analyst, Dataset, Json, MaxPrice, console
from dodona.cli.told import told
from dodona.exact import percent

if TYPE_CHECKING:
    from dodona.backends.check import Check
    from dodona.opening.file import DatasetFile

PRIVATE = "PRIVATE: exact counts of the data; for the owner alone."


def check(  # noqa: PLR0913  each is an option
    dataset: Dataset,
    *,
    publish: Annotated[
        str | None,
        typer.Option(metavar="EPSILON", help="Buy a noisy figure of the rows that the cap leaves out, for analysts."),
    ] = None,
    analyst: Analyst = None,
    max_price: MaxPrice = None,
    key: Annotated[str | None, typer.Option(help="With --publish: a retry under the same key is charged once.")] = None,
    as_json: Json = False,
) -> None:
    """Count what the bounds, the labels and the cap do to the rows. For the owner alone; a draft will do."""
    with told():
        if publish is not None:
            _publish(dataset, publish, analyst, max_price, key, as_json=as_json)
            return
        from dodona.opening.check import check as checked
        from dodona.opening.check import hints

        file, found = checked(dataset)
        advice = list(hints(file, found))
        if as_json:
            figures = dataclasses.asdict(found) | {"cut": found.cut}
            print(json.dumps({"private": PRIVATE} | figures | {"hints": advice}, ensure_ascii=False))
            return
        _show(file, found, advice)


def _publish(  # noqa: PLR0913  each is an option
    dataset: Path, epsilon: str, analyst: str | None, max_price: str | None, key: str | None, *, as_json: bool
) -> None:
    from dodona.opening.check import publish

    found = publish(dataset, epsilon=epsilon, analyst=analyst, max_price=max_price, key=key)
    if as_json:
        print(json.dumps({"words": found.words, "share": str(found.price)}))
        return
    console().print(f"published: {found.words}", markup=False, highlight=False)
    console().print(f"It took {percent(found.price)} of the budget. Offers and answers mention it.", highlight=False)


def _show(file: DatasetFile, found: Check, advice: list[str]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from dodona.opening.check import share

    screen = console()
    screen.print(PRIVATE, style="bold yellow", markup=False, highlight=False)
    lines = [f"{found.rows:,} rows"]
    if found.people is not None:
        lines += [
            f"{found.nobody:,} of nobody ({share(found.nobody, found.rows)}): no {file.schema.unit.id}",
            f"{found.people:,} people",
            f"{found.cut:,} rows cut ({share(found.cut, found.rows)}): more than {file.schema.unit.rows} of a person",
            f"{found.counting:,} rows count",
        ]
    for line in lines:
        screen.print(line, markup=False, highlight=False)
    table = Table("column", "kind", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("missing", "outside", "below", "above"):
        table.add_column(heading, justify="right")
    for column in found.columns:
        figures = (column.missing, column.outside, column.below, column.above)
        shown = (f"{figure:,} ({share(figure, found.rows)})" if figure else "-" for figure in figures)
        table.add_row(escape(column.name), column.kind, *shown)
    screen.print(table)
    for line in advice:
        screen.print(f"- {line}", markup=False, highlight=False)
    if file.waiting:
        screen.print("This is a draft: nothing is served before `dodona confirm`.", highlight=False)
