"""`dodona ask` and `dodona quote`: one question, its price, and its answer with error bars."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli.told import told
from dodona.errors import InvalidRequest

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dodona.answer.answer import Answer
    from dodona.answer.offer import Offer

_WIDTH = 110
_MOST_BARS = 60
_NARROWEST = 12
_BARS = 36  # letters for all bars of a row together

Dataset = Annotated[Path, typer.Argument(metavar="DATASET", help="The dataset file, such as stays.toml.")]
Sql = Annotated[str, typer.Argument(metavar="SQL", help="The question; - reads it from standard input.")]
Analyst = Annotated[str | None, typer.Option(envvar="DODONA_ANALYST", help="Who asks; $DODONA_ANALYST says it too.")]
Within = Annotated[str | None, typer.Option(help="How far off it may be: 50, or 1%.")]
Epsilon = Annotated[str | None, typer.Option(help="What it may cost alone, instead of --within.")]
Confidence = Annotated[float | None, typer.Option(help="How sure an interval is, such as 0.95.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def ask(  # noqa: PLR0913  each is an option
    dataset: Dataset,
    question: Sql,
    *,
    within: Within = None,
    epsilon: Epsilon = None,
    confidence: Confidence = None,
    analyst: Analyst = None,
    key: Annotated[str | None, typer.Option(help="A name for the question: asked again, it is not charged.")] = None,
    as_json: Json = False,
) -> None:
    """Ask a question and pay for it, unless its answer was told before."""
    with told():
        import dodona

        with dodona.open(dataset, analyst=analyst) as curator:
            answer = curator.ask(
                _text(question), within=_tolerance(within), epsilon=epsilon, confidence=confidence, key=key
            )
            if as_json:
                print(answer.to_json())
            else:
                show(answer, console())


def quote(  # noqa: PLR0913  each is an option
    dataset: Dataset,
    question: Sql,
    *,
    within: Within = None,
    epsilon: Epsilon = None,
    confidence: Confidence = None,
    analyst: Analyst = None,
    as_json: Json = False,
) -> None:
    """Say what a question would cost and how accurate it would be. Nothing is spent."""
    with told():
        import dodona

        with dodona.open(dataset, analyst=analyst) as curator:
            offer = curator.quote(_text(question), within=_tolerance(within), epsilon=epsilon, confidence=confidence)
        if as_json:
            print(json.dumps(_figures(offer)))
        else:
            print(offer)


def show(answer: Answer, screen: Console) -> None:
    """Print an answer: its rows, a bar for each estimate, and what the numbers mean."""
    from dodona.answer.written import notes

    screen.print(_table(answer))
    for line in notes(answer):
        screen.print(line, style="dim", highlight=False, markup=False)


def console() -> Console:
    """Return the screen; output into a file is wide enough for a table."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH)


def _table(answer: Answer) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from dodona.answer.estimate import Estimate
    from dodona.answer.written import cell_text
    from dodona.cli.bars import bars

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    drawn: dict[int, list[str]] = {}
    width = _BARS // max(1, sum(answer.estimated))
    for number, (name, estimated) in enumerate(zip(answer.columns, answer.estimated, strict=True)):
        table.add_column(escape(name), justify="right" if estimated else "left", no_wrap=estimated)
        column = [row.cells[number] for row in answer.rows]
        estimates = [cell for cell in column if isinstance(cell, Estimate)]
        if estimated and len(estimates) == len(column) and 1 < len(column) <= _MOST_BARS and width >= _NARROWEST:
            table.add_column("", style="cyan", no_wrap=True)
            drawn[number] = bars(estimates, width=width)
    for place, row in enumerate(answer.rows):
        cells = []
        for number, cell in enumerate(row.cells):
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
        "accuracy": [{"column": one.column, "within": one.within} for one in offer.accuracy],
        "explanation": offer.explanation,
    }


def _text(question: str) -> str:
    return sys.stdin.read() if question == "-" else question


def _tolerance(within: str | None) -> int | float | str | None:
    """Return a number where one was written, else the text: a percentage."""
    if within is None or within.strip().endswith("%"):
        return within
    try:
        return float(within)
    except ValueError:
        raise InvalidRequest(f"--within {within[:40]!r} is no tolerance: write 50, or 1%.") from None
