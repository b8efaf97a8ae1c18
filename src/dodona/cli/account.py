"""`dodona describe`, `dodona budget` and `dodona history`: what may be asked, what is left, and what it went on."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from dodona.cli.ask import Analyst, Dataset, Json, console
from dodona.cli.told import told
from dodona.errors import printable
from dodona.exact import percent


def describe(dataset: Dataset, *, analyst: Analyst = None, as_json: Json = False) -> None:
    """Show what may be asked: columns and their values, who is protected, the budget and the defaults."""
    with told():
        import dodona

        with dodona.open(dataset, analyst=analyst) as curator:
            found = curator.describe()
        if as_json:
            print(found.to_json())
            return
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        from dodona.online.description import HEADINGS

        table = Table(*HEADINGS, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in found.rows:
            table.add_row(*map(escape, row))
        screen = console()
        screen.print(found.title, style="bold", highlight=False, markup=False)
        screen.print(table)
        for sentence in found.sentences:
            screen.print(sentence, highlight=False, markup=False)


def budget(dataset: Dataset, *, analyst: Analyst = None, as_json: Json = False) -> None:
    """Show what was spent and what is left."""
    with told():
        from dodona.cli.ledger_view import figures, tables
        from dodona.opening import ledger_of

        with ledger_of(dataset) as ledger:
            state = ledger.state()
            left = ledger.left(analyst=analyst)
            if as_json:
                print(json.dumps(figures(state) | {"yours": str(left)}))
                return
            screen = console()
            for table in tables(state, []):
                screen.print(table)
            if analyst is not None:
                told_left = f"{printable(analyst)} may still spend {percent(left)} of the whole budget."
                screen.print(told_left, markup=False)


def history(
    dataset: Dataset,
    *,
    analyst: Analyst = None,
    last: Annotated[int, typer.Option(help="How many charges to show.")] = 20,
    as_json: Json = False,
) -> None:
    """Show what was charged, the latest last."""
    with told():
        from dodona.online.history import history_of, shortened
        from dodona.opening import DatasetFile, ledger_of

        with ledger_of(dataset) as ledger:
            ledger.permit(analyst)
            charges = history_of(ledger, dataset=DatasetFile.read(dataset).dataset).charges
        if as_json:
            print(json.dumps([dataclasses.asdict(charge) | {"share": str(charge.share)} for charge in charges]))
            return
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table("time", "analyst", "share", "answered", "question", box=box.SIMPLE_HEAD, pad_edge=False)
        for charge in charges[-last:]:
            share = percent(charge.share)
            answered = "yes" if charge.answered else "no"
            table.add_row(
                charge.time[:19],
                escape(printable(charge.analyst or "-")),
                share,
                answered,
                escape(shortened(charge.text)),
            )
        screen = console()
        screen.print(table if charges else "Nothing was charged yet.")
