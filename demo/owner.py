"""The owner's side of the tour: a draft of the dataset file, and what the declared one does to the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from demo.dataset import CAP, Made
from demo.screen import Screen
from dodona.dataset.check import check
from dodona.dataset.draft import DraftOptions, make_draft
from dodona.dataset.guess import ProposedColumn
from dodona.dataset.place import find_place, inspect_place

if TYPE_CHECKING:
    from dodona.dataset.draft import Draft

_MOST_SHOWN = 60


def shown(made: Made, screen: Screen) -> None:
    """Show a draft as `dodona init` makes it, and what `dodona check` tells of the file that is served."""
    screen.step("The owner drafts a dataset file", f"dodona init stays.parquet --id patient --rows {CAP}")
    place = find_place(str(made.rows), table=None)
    opened = inspect_place(place)
    try:
        draft = make_draft(opened, place, DraftOptions(id="patient", rows=CAP))
    finally:
        opened.close()
    screen.console.print(_table(draft))
    screen.say("All bounds and labels came from the rows, so nothing is served before the owner has confirmed them.")
    screen.step("… corrects it, and checks what it does to the rows. For the owner alone", "dodona check stays.toml")
    _, report = check(made.file)
    people = 0 if report.people is None else report.people
    screen.say(
        f"{report.rows:,} stays of {people:,} patients; {report.cut:,} stays are cut, as {CAP} of a patient count."
    )
    outside = sum(column.outside + column.below + column.above for column in report.columns)
    missing = sum(column.missing for column in report.columns)
    screen.say(f"{outside:,} values are outside what is declared, and {missing:,} are missing.")


def _table(draft: Draft) -> Table:
    table = Table("column", "kind", "to review", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in draft.columns:
        if isinstance(column, ProposedColumn):
            review = ", ".join(f"{key.name} = {key.text}" for key in column.keys if key.from_data) or "-"
            table.add_row(column.name, column.kind, escape(_cut(review)))
        else:
            table.add_row(column.name, "left out", escape(_cut(column.reason)), style="dim")
    return table


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} …"
