"""`dodona describe`, `dodona budget` and `dodona history`: what may be asked, what is left, and what it went on."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from dodona.cli.opening import AskedDataset, ServerOption, open_curator, read_budget, read_charges
from dodona.cli.terminal import AnalystOption, JsonOption, make_console, report_errors
from dodona.errors import printable
from dodona.numbers import format_percent


def describe(
    dataset: AskedDataset, *, server: ServerOption = None, analyst: AnalystOption = None, as_json: JsonOption = False
) -> None:
    """Show what may be asked: columns and their values, who is protected, the budget and the defaults."""
    with report_errors():
        with open_curator(dataset, server=server, analyst=analyst) as curator:
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


def budget(
    dataset: AskedDataset, *, server: ServerOption = None, analyst: AnalystOption = None, as_json: JsonOption = False
) -> None:
    """Show what was spent and what is left."""
    with report_errors():
        from dodona.cli.ledger import state_tables

        state, left, name = read_budget(dataset, server=server, analyst=analyst)
        if as_json:
            print(json.dumps(state.to_json() | {"yours": str(left)}))
            return
        screen = make_console()
        for table in state_tables(state, []):
            screen.print(table)
        if name is not None:
            sentence = f"{printable(name)} may still spend {format_percent(left)} of the whole budget."
            screen.print(sentence, markup=False)


def history(
    dataset: AskedDataset,
    *,
    server: ServerOption = None,
    analyst: AnalystOption = None,
    last: Annotated[int, typer.Option(help="How many charges to show.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show what was charged, the latest last."""
    with report_errors():
        from dodona.answer.description import History, shorten

        charges = read_charges(dataset, server=server, analyst=analyst).charges
        if as_json:
            print(History(charges).to_json())
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
