"""`dodona describe`, `dodona budget` and `dodona history`: what may be asked, what is left, and what it went on."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from rich.markup import escape

import dodona
from dodona.cli.terminal import AnalystOption, DatasetArgument, JsonOption, make_table, report_errors, say
from dodona.errors import printable
from dodona.numbers import format_percent


def describe(dataset: DatasetArgument, *, analyst: AnalystOption = None, as_json: JsonOption = False) -> None:
    """Show what may be asked: columns and their values, who is protected, the budget and the defaults."""
    with report_errors():
        with dodona.open(dataset, analyst=analyst) as curator:
            description = curator.describe()
        if as_json:
            print(description.to_json())
            return

        from dodona.curator.description import HEADINGS

        table = make_table(*HEADINGS)
        for row in description.rows:
            table.add_row(*map(escape, row))
        say(description.title, style="bold")
        say(table, *description.sentences)


def budget(dataset: DatasetArgument, *, analyst: AnalystOption = None, as_json: JsonOption = False) -> None:
    """Show what was spent and what is left."""
    with report_errors():
        from dodona.cli.ledger import state_tables, state_to_json
        from dodona.dataset import open_dataset_ledger

        with open_dataset_ledger(dataset) as ledger:
            state = ledger.state()
            left = ledger.left(analyst=analyst)
            if as_json:
                print(json.dumps(state_to_json(state) | {"yours": str(left)}))
                return
            say(*state_tables(state, []))
            if analyst is not None:
                say(f"{analyst} may still spend {format_percent(left)} of the whole budget.")


def history(
    dataset: DatasetArgument,
    *,
    analyst: AnalystOption = None,
    last: Annotated[int, typer.Option(help="How many charges to show.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show what was charged, the latest last."""
    with report_errors():
        from dodona.curator.description import read_history, shorten
        from dodona.dataset import DatasetFile, open_dataset_ledger

        with open_dataset_ledger(dataset) as ledger:
            ledger.permit(analyst)
            charges = read_history(ledger, dataset=DatasetFile.read(dataset).dataset).charges
        if as_json:
            print(json.dumps([dataclasses.asdict(charge) | {"share": str(charge.share)} for charge in charges]))
            return

        table = make_table("time", "analyst", "share", "answered", "question")
        for charge in charges[-last:]:
            who, answered = printable(charge.analyst or "-"), "yes" if charge.answered else "no"
            row = charge.time[:19], who, format_percent(charge.share), answered, shorten(charge.text)
            table.add_row(*map(escape, row))
        say(table if charges else "Nothing was charged yet.")
