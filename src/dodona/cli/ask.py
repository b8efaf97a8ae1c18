"""`dodona ask` and `dodona quote`: one question, its price, and its answer with error bars."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.answer.estimate import Estimate, to_float
from dodona.cli.opening import AskedDataset, ServerOption, is_paid, open_curator
from dodona.cli.terminal import (
    AnalystOption,
    ConfidenceOption,
    EpsilonOption,
    FreshOption,
    JsonOption,
    MaxPriceOption,
    SqlArgument,
    WithinOption,
    YesOption,
    make_console,
    parse_tolerance,
    read_sql,
    report_errors,
)
from dodona.errors import InvalidRequest, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dodona.answer.answer import Answer
    from dodona.answer.recorded import RecordedAnswer
    from dodona.cli.opening import OpenCurator

    ShownAnswer = Answer | RecordedAnswer


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
    ends = [to_float(end) for one in estimates for end in (one.low, one.high) if math.isfinite(to_float(end))]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    if high <= low:
        return [" " * width for _ in estimates]

    def place(number: float) -> int:
        clipped = min(max(number, low), high)
        return round((clipped - low) / (high - low) * (width - 1))

    return [_interval_bar(one, place, width) for one in estimates]


def _interval_bar(one: Estimate, place: Callable[[float], int], width: int) -> str:
    drawn = [" "] * width
    first, last = place(to_float(one.low)), place(to_float(one.high))
    drawn[first : last + 1] = _LINE * (last - first + 1)
    if one.value is not None:
        drawn[place(to_float(one.value))] = _DOT
    return "".join(drawn)


def ask(  # noqa: PLR0913  each is an option
    dataset: AskedDataset,
    question: SqlArgument,
    *,
    within: WithinOption = None,
    epsilon: EpsilonOption = None,
    confidence: ConfidenceOption = None,
    server: ServerOption = None,
    analyst: AnalystOption = None,
    max_price: MaxPriceOption = None,
    fresh: FreshOption = False,
    key: Annotated[str | None, typer.Option(help="A name for the question: asked again, it is not charged.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where to write all rows: a new file that ends in .csv, .parquet or .json.")
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Ask a question and pay for it; a question that was answered before is free.

    On a terminal the price is shown first, and you are asked. Elsewhere --max-price holds, or what the dataset says.
    """
    with report_errors():
        check_output(output)
        asking = not yes and sys.stdin.isatty() and sys.stdout.isatty()
        text, accuracy = read_sql(question), parse_tolerance(within)
        with open_curator(dataset, server=server, analyst=analyst) as curator:
            wish = AskOptions(accuracy, epsilon, confidence, max_price, fresh)
            most = _agree_on_price(curator, text, wish, key) if asking else max_price
            answer = curator.ask(
                text, within=accuracy, epsilon=epsilon, confidence=confidence, max_price=most, fresh=fresh, key=key
            )
            if output is not None:
                write_answer(answer, output)
            if as_json:
                print(answer.to_json())
            else:
                show_answer(answer, make_console(), output)


def quote(  # noqa: PLR0913  each is an option
    dataset: AskedDataset,
    question: SqlArgument,
    *,
    within: WithinOption = None,
    epsilon: EpsilonOption = None,
    confidence: ConfidenceOption = None,
    max_price: MaxPriceOption = None,
    fresh: FreshOption = False,
    server: ServerOption = None,
    analyst: AnalystOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a question would cost and how accurate it would be. Nothing is spent."""
    with report_errors():
        with open_curator(dataset, server=server, analyst=analyst) as curator:
            offer = curator.quote(
                read_sql(question),
                within=parse_tolerance(within),
                epsilon=epsilon,
                confidence=confidence,
                max_price=max_price,
                fresh=fresh,
            )
        if as_json:
            print(offer.to_json())
        else:
            print(offer)


@dataclass(frozen=True, slots=True)
class AskOptions:
    """The options of a command that asks a question."""

    within: int | float | str | dict[str, int | float | str] | None
    epsilon: str | None
    confidence: float | None
    max_price: str | None
    fresh: bool


def _agree_on_price(curator: OpenCurator, text: str, wish: AskOptions, key: str | None) -> Fraction | str | None:
    """Show the price and return it if the user agrees: no more than that is charged."""
    if key is not None and is_paid(curator, key):
        return wish.max_price  # already paid for
    offer = curator.quote(
        text,
        within=wish.within,
        epsilon=wish.epsilon,
        confidence=wish.confidence,
        max_price=wish.max_price,
        fresh=wish.fresh,
    )
    if offer.price.share == 0 or not offer.affordable:
        return wish.max_price  # free, or about to be refused with its own message
    expected = ", ".join(map(str, offer.accuracy))
    typer.echo(f"Price: {offer.price}.{f' Expected: {expected}.' if expected else ''} {offer.explanation}")
    if not typer.confirm("Pay it?"):
        typer.echo("Nothing was charged.")
        raise typer.Exit(1)
    return offer.price.share


def show_answer(answer: ShownAnswer, screen: Console, output: Path | None = None) -> None:
    """Print an answer: its first rows and columns, a bar for each estimate, and what the numbers mean."""
    from dodona.answer.display import answer_notes

    columns = _count_fitting_columns(answer, screen.width)
    screen.print(_table(answer, columns))
    hidden = [
        f"{number:,} more {what}"
        for number, what in ((len(answer.rows) - _MOST_ROWS, "rows"), (len(answer.columns) - columns, "columns"))
        if number > 0
    ]
    if hidden:
        rest = "Write --output FILE.csv to have everything; asked again it is free." if output is None else ""
        screen.print(f"… and {' and '.join(hidden)}. {rest}".rstrip(), style="bold", highlight=False, markup=False)
    if output is not None:
        screen.print(f"All {len(answer.rows):,} rows are in {output}.", style="bold", highlight=False, markup=False)
    for line in answer_notes(answer):
        screen.print(line, style="dim", highlight=False, markup=False)


def check_output(output: Path | None) -> Path | None:
    """Validate the output path before anything is charged."""
    if output is None:
        return None
    if output.suffix not in _WRITERS:
        raise InvalidRequest(f"--output {str(output)[:200]!r} is no name: it must end in {', '.join(_WRITERS)}.")
    if output.exists() or not output.absolute().parent.is_dir():
        why = "there is such a file already" if output.exists() else "there is no such folder"
        raise InvalidRequest(f"--output {str(output)[:200]!r} is not written: {why}. Write another name.")
    if output.suffix == ".parquet":
        import pyarrow.parquet  # noqa: F401  a missing library is reported before anything is charged
    return output


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


_WRITERS: dict[str, Callable[[ShownAnswer, Path], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".json": _write_json,
}


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
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from dodona.answer.display import cell_text
    from dodona.answer.estimate import Estimate

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    drawn: dict[int, list[str]] = {}
    width = _BARS // max(1, sum(answer.estimated))
    shown = answer.rows[:_MOST_ROWS]
    for number, (name, estimated) in enumerate(zip(answer.columns[:columns], answer.estimated, strict=False)):
        table.add_column(escape(printable(name)), justify="right" if estimated else "left", no_wrap=estimated)
        column = [row.cells[number] for row in shown]
        estimates = [cell for cell in column if isinstance(cell, Estimate)]
        if estimated and len(estimates) == len(column) and 1 < len(column) <= _MOST_BARS and width >= _NARROWEST:
            table.add_column("", style="cyan", no_wrap=True)
            drawn[number] = interval_bars(estimates, width=width)
    for place, row in enumerate(shown):
        cells = []
        for number, cell in enumerate(row.cells[:columns]):
            cells.append(escape(cell_text(cell)))
            if number in drawn:
                cells.append(drawn[number][place])
        table.add_row(*cells)
    return table
