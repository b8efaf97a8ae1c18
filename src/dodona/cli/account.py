"""`dodona describe`, `dodona budget` and `dodona history`: what may be asked, what is left, and what it went on."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from dodona.cli.terminal import AnalystOption, DatasetArgument, JsonOption, make_console, report_errors
from dodona.errors import printable
from dodona.numbers import format_percent


def describe(dataset: DatasetArgument, *, analyst: AnalystOption = None, as_json: JsonOption = False) -> None:
    """Show what may be asked: columns and their values, who is protected, the budget and the defaults."""
    with report_errors():
        import dodona

        with dodona.open(dataset, analyst=analyst) as curator:
            description = curator.describe()
        if as_json:
            print(description.to_json())
            return
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        from dodona.answer.description import HEADINGS

        table = Table(*HEADINGS, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in description.rows:
            table.add_row(*map(escape, row))
        screen = make_console()
        screen.print(description.title, style="bold", highlight=False, markup=False)
        screen.print(table)
        for sentence in description.sentences:
            screen.print(sentence, highlight=False, markup=False)


def budget(dataset: DatasetArgument, *, analyst: AnalystOption = None, as_json: JsonOption = False) -> None:
    """Show what was spent and what is left."""
    with report_errors():
        from dodona.cli.ledger import state_tables
        from dodona.dataset import open_dataset_ledger

        with open_dataset_ledger(dataset) as ledger:
            state = ledger.state()
            left = ledger.left(analyst=analyst)
            if as_json:
                print(json.dumps(state.to_document() | {"yours": str(left)}))
                return
            screen = make_console()
            for table in state_tables(state, []):
                screen.print(table)
            if analyst is not None:
                sentence = f"{printable(analyst)} may still spend {format_percent(left)} of the whole budget."
                screen.print(sentence, markup=False)


def history(
    dataset: DatasetArgument,
    *,
    analyst: AnalystOption = None,
    last: Annotated[int, typer.Option(help="How many charges to show.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show what was charged, the latest last."""
    with report_errors():
        from dodona.answer.description import shorten
        from dodona.curator.description import read_history
        from dodona.dataset import DatasetFile, open_dataset_ledger

        with open_dataset_ledger(dataset) as ledger:
            ledger.permit(analyst)
            charges = read_history(ledger, dataset=DatasetFile.read(dataset).dataset).charges
        if as_json:
            print(json.dumps([dataclasses.asdict(charge) | {"share": str(charge.share)} for charge in charges]))
            return
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table("time", "analyst", "share", "answered", "question", box=box.SIMPLE_HEAD, pad_edge=False)
        for charge in charges[-last:]:
            share = format_percent(charge.share)
            answered = "yes" if charge.answered else "no"
            table.add_row(
                charge.time[:19],
                escape(printable(charge.analyst or "-")),
                share,
                answered,
                escape(shorten(charge.text)),
            )
        screen = make_console()
        screen.print(table if charges else "Nothing was charged yet.")
