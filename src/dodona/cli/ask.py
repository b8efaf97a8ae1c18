"""`dodona ask` and `dodona quote`: one question, its price, and its answer with error bars."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli.told import told
from dodona.errors import InvalidRequest, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dodona.answer.answer import Answer
    from dodona.answer.offer import Offer
    from dodona.answer.tolerance import Tolerance
    from dodona.online.curator import Curator

_WIDTH = 110
_MOST_ROWS = 60
_MOST_BARS = 60
_NARROWEST = 12
_BARS = 36  # letters for all bars of a row together

Dataset = Annotated[Path, typer.Argument(metavar="DATASET", help="The dataset file, such as stays.toml.")]
Sql = Annotated[str, typer.Argument(metavar="SQL", help="The question; - reads it from standard input.")]
Analyst = Annotated[str | None, typer.Option(envvar="DODONA_ANALYST", help="Who asks; $DODONA_ANALYST says it too.")]
Within = Annotated[str | None, typer.Option(help="How far off it may be: 50, or 1%, or n=50,average=2.")]
Epsilon = Annotated[str | None, typer.Option(help="What it may cost alone, instead of --within.")]
Confidence = Annotated[float | None, typer.Option(help="How sure an interval is, such as 0.95.")]
MaxPrice = Annotated[
    str | None, typer.Option(help="What it may take of the budget, such as 2%; the dataset says it otherwise.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Measure with new noise alone: for what earlier answers led to.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Pay without being asked on a terminal.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def ask(  # noqa: PLR0913  each is an option
    dataset: Dataset,
    question: Sql,
    *,
    within: Within = None,
    epsilon: Epsilon = None,
    confidence: Confidence = None,
    analyst: Analyst = None,
    max_price: MaxPrice = None,
    fresh: Fresh = False,
    key: Annotated[str | None, typer.Option(help="A name for the question: asked again, it is not charged.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where to write all rows: a new file that ends in .csv, .parquet or .json.")
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Ask a question and pay for it, unless its answer was told before.

    On a terminal the price is shown first, and you are asked. Elsewhere --max-price holds, or what the dataset says.
    """
    with told():
        import dodona

        checked_output(output)
        asking = not yes and sys.stdin.isatty() and sys.stdout.isatty()
        text, accuracy = sql_text(question), tolerance_of(within)
        with dodona.open(dataset, analyst=analyst) as curator:
            wish = Wish(accuracy, epsilon, confidence, max_price, fresh)
            most = _agreed(curator, text, wish, key) if asking else max_price
            answer = curator.ask(
                text, within=accuracy, epsilon=epsilon, confidence=confidence, max_price=most, fresh=fresh, key=key
            )
            if output is not None:
                write(answer, output)
            if as_json:
                print(answer.to_json())
            else:
                show(answer, console(), output)


def quote(  # noqa: PLR0913  each is an option
    dataset: Dataset,
    question: Sql,
    *,
    within: Within = None,
    epsilon: Epsilon = None,
    confidence: Confidence = None,
    max_price: MaxPrice = None,
    fresh: Fresh = False,
    analyst: Analyst = None,
    as_json: Json = False,
) -> None:
    """Say what a question would cost and how accurate it would be. Nothing is spent."""
    with told():
        import dodona

        with dodona.open(dataset, analyst=analyst) as curator:
            offer = curator.quote(
                sql_text(question),
                within=tolerance_of(within),
                epsilon=epsilon,
                confidence=confidence,
                max_price=max_price,
                fresh=fresh,
            )
        if as_json:
            print(json.dumps(_figures(offer)))
        else:
            print(offer)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a command asks for."""

    within: int | float | str | dict[str, int | float | str] | None
    epsilon: str | None
    confidence: float | None
    max_price: str | None
    fresh: bool


def _agreed(curator: Curator, text: str, wish: Wish, key: str | None) -> Fraction | str | None:
    """Show the price and return it if a person agrees to it: no more than that is paid."""
    desk = curator.desk
    if key is not None and desk.dataset.ledger.receipt(key, analyst=desk.analyst) is not None:
        return wish.max_price  # it was paid for
    offer = curator.quote(
        text,
        within=wish.within,
        epsilon=wish.epsilon,
        confidence=wish.confidence,
        max_price=wish.max_price,
        fresh=wish.fresh,
    )
    if offer.price.share == 0 or not offer.affordable:
        return wish.max_price  # free, or refused in the words of the refusal
    expected = ", ".join(map(str, offer.accuracy))
    typer.echo(f"Price: {offer.price}.{f' Expected: {expected}.' if expected else ''} {offer.explanation}")
    if not typer.confirm("Pay it?"):
        typer.echo("Nothing was charged.")
        raise typer.Exit(1)
    return offer.price.share


def show(answer: Answer, screen: Console, output: Path | None = None) -> None:
    """Print an answer: its first rows and columns, a bar for each estimate, and what the numbers mean."""
    from dodona.answer.written import notes

    columns = _fitting(answer, screen.width)
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
    for line in notes(answer):
        screen.print(line, style="dim", highlight=False, markup=False)


def console() -> Console:
    """Return the screen; output into a file is wide enough for a table."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH)


def checked_output(output: Path | None) -> Path | None:
    """Return where an answer is to be written; what could not be written is refused before anything is charged."""
    if output is None:
        return None
    if output.suffix not in _WRITERS:
        raise InvalidRequest(f"--output {str(output)[:200]!r} is no name: it must end in {', '.join(_WRITERS)}.")
    if output.exists() or not output.absolute().parent.is_dir():
        why = "there is such a file already" if output.exists() else "there is no such folder"
        raise InvalidRequest(f"--output {str(output)[:200]!r} is not written: {why}. Write another name.")
    if output.suffix == ".parquet":
        import pyarrow.parquet  # noqa: F401  where it is missing, that is told before anything is charged
    return output


def write(answer: Answer, output: Path) -> None:
    """Write all rows of an answer: estimates with their intervals, labels as texts."""
    _WRITERS[output.suffix](answer, output)


def _write_csv(answer: Answer, output: Path) -> None:
    import csv

    from dodona.answer.frames import plain_columns

    columns = plain_columns(answer)
    with output.open("x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _write_parquet(answer: Answer, output: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(answer.to_arrow(), output)


def _write_json(answer: Answer, output: Path) -> None:
    with output.open("x", encoding="utf-8") as file:
        file.write(f"{answer.to_json()}\n")


_WRITERS: dict[str, Callable[[Answer, Path], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".json": _write_json,
}


def _fitting(answer: Answer, width: int) -> int:
    """Return how many columns have room on a screen, at least one."""
    from dodona.answer.written import cell_text

    used = 0
    for number, name in enumerate(answer.columns):
        texts = (cell_text(row.cells[number]) for row in answer.rows[:_MOST_ROWS])
        used += max(len(name), *map(len, texts), 0) + 3
        if used > width and number > 0:
            return number
    return len(answer.columns)


def _table(answer: Answer, columns: int) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from dodona.answer.estimate import Estimate
    from dodona.answer.written import cell_text
    from dodona.cli.bars import bars

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
            drawn[number] = bars(estimates, width=width)
    for place, row in enumerate(shown):
        cells = []
        for number, cell in enumerate(row.cells[:columns]):
            cells.append(escape(cell_text(cell)))
            if number in drawn:
                cells.append(drawn[number][place])
        table.add_row(*cells)
    return table


def _figures(offer: Offer) -> dict[str, object]:
    return {
        "question": offer.question.text,
        "price": {"share": str(offer.price.share), "epsilon": offer.price.epsilon},
        "source": offer.source,
        "mechanism": offer.mechanism,
        "confidence": offer.confidence,
        "accuracy": [
            {"column": one.column, "within": one.within, "low": one.low, "high": one.high} for one in offer.accuracy
        ],
        "affordable": offer.affordable,
        "explanation": offer.explanation,
        "about": offer.about,
    }


def sql_text(question: str) -> str:
    """Return the question that was written, or read from standard input."""
    return sys.stdin.read() if question == "-" else question


def tolerance_of(within: str | None) -> Tolerance | dict[str, Tolerance] | None:
    """Return a tolerance, or one for each column where names are written."""
    if within is None:
        return None
    if "=" not in within:
        return _one(within, within)
    pairs = [part.rpartition("=") for part in within.split(",")]
    return {name.strip(): _one(own, within) for name, _, own in pairs}


def _one(written: str, within: str) -> Tolerance:
    """Return a number where one was written, else the text: a percentage."""
    if written.strip().endswith("%"):
        return written
    try:
        return float(written)
    except ValueError:
        accepted = "write 50, or 1%, or one for each column: n=50,average=2"
        raise InvalidRequest(f"--within {within[:40]!r} is no tolerance: {accepted}.") from None
