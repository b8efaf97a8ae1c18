"""The analyst's commands: `ask`, `quote`, `describe`, `budget` and `history`.

What may be asked, what it would cost, the answer, and what was spent.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from dodona.answer.estimate import Estimate, to_float
from dodona.cli import terminal
from dodona.cli.opening import AskedDataset, ServerOption, is_paid, open_curator, read_budget, read_charges
from dodona.errors import InvalidArgument, InvalidRequest, printable
from dodona.numbers import format_percent

if TYPE_CHECKING:
    from rich.table import Table

    from dodona.answer.answer import Answer
    from dodona.answer.computed import ComputedAnswer
    from dodona.answer.recorded import RecordedAnswer
    from dodona.cli.opening import OpenCurator

    ShownAnswer = Answer | ComputedAnswer | RecordedAnswer


# --- Ask and quote. ---


_INTERVALS = ("single", "simultaneous", "population", "any_choice")
_DOT, _LINE = "●", "─"
_MOST_ROWS = 60
_MOST_BARS = 60
_NARROWEST = 12
_BARS = 36  # characters for all bars of a row together


def interval_bars(estimates: Sequence[Estimate], *, width: int = 32) -> list[str]:
    """Draw one interval bar per estimate; an unknown end extends to the edge.

    >>> for bar in interval_bars([Estimate(2, 1, 3), Estimate(8, 6, 10)], width=19):
    ...     print(bar.rstrip())
      ──●─
               ───●────
    """
    ends = [
        to_float(end) for estimate in estimates for end in (estimate.low, estimate.high) if math.isfinite(to_float(end))
    ]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    if high <= low:
        return [" " * width for _ in estimates]

    def place(number: float) -> int:
        clipped = min(max(number, low), high)
        return round((clipped - low) / (high - low) * (width - 1))

    return [_interval_bar(estimate, place, width) for estimate in estimates]


def _interval_bar(estimate: Estimate, place: Callable[[float], int], width: int) -> str:
    drawn = [" "] * width
    first, last = place(to_float(estimate.low)), place(to_float(estimate.high))
    drawn[first : last + 1] = _LINE * (last - first + 1)
    if estimate.value is not None:
        drawn[place(to_float(estimate.value))] = _DOT
    return "".join(drawn)


def ask(  # noqa: PLR0913  each is an option
    dataset: AskedDataset,
    question: terminal.SqlArgument,
    *,
    within: terminal.WithinOption = None,
    epsilon: terminal.EpsilonOption = None,
    confidence: terminal.ConfidenceOption = None,
    server: ServerOption = None,
    analyst: terminal.AnalystOption = None,
    max_price: terminal.MaxPriceOption = None,
    fresh: terminal.FreshOption = False,
    as_of: Annotated[
        str | None, typer.Option(help="An older version of the data: a free estimate from what was released about it.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="A name for the question; asked again under it, it is not charged again.")
    ] = None,
    intervals: Annotated[
        str, typer.Option(help="single, simultaneous (all groups), population, or any_choice.")
    ] = "single",
    output: Annotated[
        Path | None, typer.Option(help="Where to write all rows: a new file that ends in .csv, .parquet or .json.")
    ] = None,
    yes: terminal.YesOption = False,
    as_json: terminal.JsonOption = False,
) -> None:
    """Ask a question and pay for it; a question that was answered before is free.

    On a terminal the price is shown first, and you are asked. Elsewhere --max-price holds, or what the dataset says.
    """
    with terminal.report_errors():
        check_output(output)
        if intervals not in _INTERVALS:
            raise InvalidArgument("intervals", intervals, f"write one of {', '.join(_INTERVALS)}")
        asking = not yes and sys.stdin.isatty() and sys.stdout.isatty()
        text, accuracy = terminal.read_sql(question), terminal.parse_tolerance(within)
        with open_curator(dataset, server=server, analyst=analyst) as curator:
            wish: dict[str, Any] = {"within": accuracy, "epsilon": epsilon, "confidence": confidence, "fresh": fresh}
            paying = asking and as_of is None
            most = _agree_on_price(curator, text, wish, max_price, key) if paying else max_price
            answer = _with_intervals(curator.ask(text, **wish, max_price=most, key=key, as_of=as_of), intervals)
            if output is not None:
                write_answer(answer, output)
            if as_json:
                print(answer.to_json())
            else:
                show_answer(answer, output)


def quote(  # noqa: PLR0913  each is an option
    dataset: AskedDataset,
    question: terminal.SqlArgument,
    *,
    within: terminal.WithinOption = None,
    epsilon: terminal.EpsilonOption = None,
    confidence: terminal.ConfidenceOption = None,
    max_price: terminal.MaxPriceOption = None,
    fresh: terminal.FreshOption = False,
    server: ServerOption = None,
    analyst: terminal.AnalystOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Show a question's price and its accuracy. Nothing is charged."""
    with terminal.report_errors():
        with open_curator(dataset, server=server, analyst=analyst) as curator:
            offer = curator.quote(
                terminal.read_sql(question),
                within=terminal.parse_tolerance(within),
                epsilon=epsilon,
                confidence=confidence,
                max_price=max_price,
                fresh=fresh,
            )
        if as_json:
            print(offer.to_json())
        else:
            print(offer)


def _with_intervals(answer: ShownAnswer, intervals: str) -> ShownAnswer:
    """Return the answer with other intervals; one that has none of them says so, and whether it was charged."""
    if intervals == "single" or not hasattr(type(answer), intervals):  # an EXPLAIN has no intervals
        return answer
    try:
        view = getattr(answer, intervals)
        return cast("ShownAnswer", view() if callable(view) else view)
    except InvalidRequest as fault:
        raise fault if answer.price.share == 0 else fault.after_charge() from None


def _agree_on_price(
    curator: OpenCurator, text: str, wish: dict[str, Any], max_price: str | None, key: str | None
) -> Fraction | str | None:
    """Show the price and return it if the user agrees: no more than that is charged."""
    if key is not None and is_paid(curator, key):
        return max_price  # already paid for
    offer = curator.quote(text, **wish, max_price=max_price)
    if offer.price.share == 0 or not offer.affordable:
        return max_price  # free, or about to be refused with its own message
    expected = ", ".join(map(str, offer.accuracy))
    typer.echo(f"Price: {offer.price}.{f' Expected: {expected}.' if expected else ''} {offer.explanation}")
    if not typer.confirm("Pay it?"):
        typer.echo("Nothing was charged.")
        raise typer.Exit(1)
    return offer.price.share


def show_answer(answer: ShownAnswer, output: Path | None = None) -> None:
    """Print an answer: its first rows and columns, a bar for each estimate, and what the numbers mean."""
    from dodona.answer.display import answer_notes

    columns = _count_fitting_columns(answer, terminal.make_console().width)
    terminal.say(_table(answer, columns))
    more = {"rows": len(answer.rows) - _MOST_ROWS, "columns": len(answer.columns) - columns}
    hidden = [f"{number:,} more {what}" for what, number in more.items() if number > 0]
    if hidden:
        rest = "Write --output FILE.csv to have everything; asked again it is free." if output is None else ""
        terminal.say(f"… and {' and '.join(hidden)}. {rest}".rstrip(), style="bold")
    if output is not None:
        terminal.say(f"All {len(answer.rows):,} rows are in {output}.", style="bold")
    terminal.say(*map(terminal.as_options, answer_notes(answer)), style="dim")


def check_output(output: Path | None) -> None:
    """Validate the output path before anything is charged."""
    if output is None:
        return
    if output.suffix not in _WRITERS:
        raise InvalidRequest(f"--output {str(output)[:200]!r} is no name: it must end in {', '.join(_WRITERS)}.")
    if output.exists() or not output.absolute().parent.is_dir():
        why = "there is such a file already" if output.exists() else "there is no such folder"
        raise InvalidRequest(f"--output {str(output)[:200]!r} is not written: {why}. Write another name.")
    if output.suffix == ".parquet":
        import pyarrow.parquet  # noqa: F401  a missing library is reported before anything is charged


def write_answer(answer: ShownAnswer, output: Path) -> None:
    """Write all rows of an answer: estimates with their intervals, labels as texts."""
    _WRITERS[output.suffix](answer, output)


def _write_csv(answer: ShownAnswer, output: Path) -> None:
    import csv

    from dodona.answer.display import plain_columns

    columns = plain_columns(answer)
    with output.open("x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _write_parquet(answer: ShownAnswer, output: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(answer.to_arrow(), output)


def _write_json(answer: ShownAnswer, output: Path) -> None:
    with output.open("x", encoding="utf-8") as file:
        file.write(f"{answer.to_json()}\n")


_WRITERS = {".csv": _write_csv, ".parquet": _write_parquet, ".json": _write_json}


def _count_fitting_columns(answer: ShownAnswer, width: int) -> int:
    """Return how many columns fit on a screen, at least one."""
    from dodona.answer.display import cell_text

    used = 0
    for number, name in enumerate(answer.columns):
        texts = (cell_text(row.cells[number]) for row in answer.rows[:_MOST_ROWS])
        used += max(len(name), *map(len, texts), 0) + 3
        if used > width and number > 0:
            return number
    return len(answer.columns)


def _table(answer: ShownAnswer, columns: int) -> Table:

    from dodona.answer.display import cell_text

    table = terminal.make_table()
    drawn: dict[int, list[str]] = {}
    width = _BARS // max(1, sum(answer.estimated))
    shown = answer.rows[:_MOST_ROWS]
    for number, (name, estimated) in enumerate(zip(answer.columns[:columns], answer.estimated, strict=False)):
        table.add_column(printable(name), justify="right" if estimated else "left", no_wrap=estimated)
        column = [row.cells[number] for row in shown]
        estimates = [cell for cell in column if isinstance(cell, Estimate)]
        if estimated and len(estimates) == len(column) and 1 < len(column) <= _MOST_BARS and width >= _NARROWEST:
            table.add_column("", style="cyan", no_wrap=True)
            drawn[number] = interval_bars(estimates, width=width)
    for place, row in enumerate(shown):
        cells = []
        for number, cell in enumerate(row.cells[:columns]):
            cells.append(cell_text(cell))
            if number in drawn:
                cells.append(drawn[number][place])
        table.add_row(*cells)
    return table


# --- What may be asked, what is left, and what it went on. ---


def describe(
    dataset: AskedDataset,
    *,
    server: ServerOption = None,
    analyst: terminal.AnalystOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Show what may be asked: columns and their values, who is protected, the budget and the defaults."""
    with terminal.report_errors():
        with open_curator(dataset, server=server, analyst=analyst) as curator:
            description = curator.describe()
        if as_json:
            print(description.to_json())
            return

        from dodona.answer.description import HEADINGS

        table = terminal.make_table(*HEADINGS)
        for row in description.rows:
            table.add_row(*row)
        terminal.say(description.title, style="bold")
        terminal.say(table, *description.sentences)


def budget(
    dataset: AskedDataset,
    *,
    server: ServerOption = None,
    analyst: terminal.AnalystOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Show what was spent and what is left."""
    with terminal.report_errors():
        from dodona.cli.ledger import state_tables

        state, left, name = read_budget(dataset, server=server, analyst=analyst)
        if as_json:
            print(json.dumps(state.to_json() | {"yours": str(left)}))
            return
        terminal.say(*state_tables(state, []))
        if name is not None:
            terminal.say(f"{name} may still spend {format_percent(left)} of the whole budget.")


def history(
    dataset: AskedDataset,
    *,
    server: ServerOption = None,
    analyst: terminal.AnalystOption = None,
    last: Annotated[int, typer.Option(help="How many charges to show.")] = 20,
    as_json: terminal.JsonOption = False,
) -> None:
    """Show what was charged, the latest last."""
    with terminal.report_errors():
        from dodona.answer.description import shorten

        record = read_charges(dataset, server=server, analyst=analyst)
        charges = record.charges
        if as_json:
            print(record.to_json())
            return

        table = terminal.make_table("time", "analyst", "share", "answered", "question")
        for charge in charges[-last:]:
            who, answered = printable(charge.analyst or "-"), "yes" if charge.answered else "no"
            row = charge.time[:19], who, format_percent(charge.share), answered, shorten(charge.text)
            table.add_row(*row)
        terminal.say(table if charges else "Nothing was charged yet.")
