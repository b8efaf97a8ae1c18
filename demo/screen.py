"""What the demonstration shows in a terminal: a question, its price, its answer with error bars, and the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from demo.truth import Judged
from dodona.answer.estimate import decimal_places, format_number, to_float
from dodona.answer.offer import Offer

if TYPE_CHECKING:
    from rich.console import Console

_GAUGE, _MARGIN = 21, 2
_BAR = 14
_WIDE = 96
_FEW = 4


class Screen:
    """A console with the few forms that are used here; it numbers the steps."""

    def __init__(self, console: Console) -> None:
        """Take a console."""
        self.console = console
        self._step = 0

    def title(self, text: str) -> None:
        """Begin."""
        self.console.rule(f"[bold]{escape(text)}", style="cyan")

    def step(self, title: str, code: str = "") -> None:
        """Begin a step: what is asked, in words and as it is written."""
        self._step += 1
        self.console.print()
        self.console.rule(f"[bold cyan]{self._step}[/]  [bold]{escape(title)}", align="left", style="dim")
        if code:
            self.console.print(Padding(Text(code, style="cyan"), (0, 2), expand=False))

    def say(self, text: str, style: str = "") -> None:
        """Say something in a sentence."""
        self.console.print(Padding(Text(text, style=style), (0, 2), expand=False))

    def price(self, offer: Offer, within: float, left: float) -> None:
        """Tell the price before it is paid."""
        cost = 100 * float(offer.price.share)
        price = "free" if cost == 0 else f"{cost:.2f}% of the budget"
        line = Text.assemble(
            f"within ±{_number(within)}, 95% sure: ", (price, "bold yellow"), f"; {100 * left:.1f}% is left"
        )
        self.console.print(Padding(line, (0, 2), expand=False))

    def answer(self, found: Sequence[Judged]) -> None:
        """Show estimates beside the truth."""
        bars = _bars(found) if len(found) > _FEW and self.console.width >= _WIDE else None
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("")
        table.add_column("answer", justify="right")
        if bars is not None:
            table.add_column("", style="blue", no_wrap=True)
        table.add_column("truth", justify="right")
        table.add_column("   [cyan]●[/] answer   ◆ truth", no_wrap=True)
        for number, entry in enumerate(found):
            cells: list[str | Text] = [_name(entry, found), str(entry.estimate)]
            if bars is not None:
                cells.append(bars[number])
            table.add_row(*cells, _exact(entry), gauge(entry))
        self.console.print(Padding(table, (1, 2, 0, 2), expand=False))
        inside, of = sum(entry.inside for entry in found), len(found)
        words = "The interval holds the truth." if of == inside == 1 else f"{inside} of {of} intervals hold the truth."
        self.say(words, "green" if inside == of else "yellow")

    def working(self, text: str) -> AbstractContextManager[object]:
        """Show that something is being done."""
        return self.console.status(text)

    @contextmanager
    def progress(self, text: str) -> Iterator[Callable[[int, int], None]]:
        """Show how many of how many are done."""
        columns = (TextColumn("  {task.description}"), BarColumn(bar_width=40), MofNCompleteColumn())
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(text, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)


def gauge(one: Judged) -> Text:
    """Return the interval with the answer and the truth in it; a truth that is outside is beside it, and red.

    >>> from dodona.answer.estimate import Estimate
    >>> print(gauge(Judged("", "count", Estimate(10, 5, 15), 12.0)).plain.strip())
    ├─────────●───◆─────┤
    """
    low, high = to_float(one.estimate.low), to_float(one.estimate.high)
    drawn = [(" ", "")] * (_GAUGE + 2 * _MARGIN)
    bounded = low < high and math.isfinite(high - low)

    def place(number: float) -> int:
        if not bounded:
            middle = _MARGIN + _GAUGE // 2
            return middle + (number > high) - (number < low)
        return _MARGIN + min(max(round((number - low) / (high - low) * (_GAUGE - 1)), -_MARGIN), _GAUGE + _MARGIN - 1)

    if bounded:
        drawn[_MARGIN : _MARGIN + _GAUGE] = [("─", "dim")] * _GAUGE
        drawn[place(low)], drawn[place(high)] = ("├", "dim"), ("┤", "dim")
    drawn[place(to_float(one.estimate.value if one.estimate.value is not None else one.estimate.low))] = ("●", "cyan")
    at = place(one.truth)
    if not one.inside and low < high:  # never drawn on the line of an interval that does not hold it
        at = min(at, _MARGIN - 1) if one.truth < low else max(at, _MARGIN + _GAUGE)
    drawn[at] = ("◆", "bold green" if one.inside else "bold red")
    return Text.assemble(*drawn)


def _bars(found: Sequence[Judged]) -> list[str]:
    ends = [to_float(cell.estimate.high) for cell in found]
    most = max((end for end in ends if math.isfinite(end)), default=1.0)
    return ["▇" * max(0, round(_BAR * _known(float(cell.estimate)) / most)) for cell in found]


def _name(one: Judged, found: Sequence[Judged]) -> str:
    several = len({other.column for other in found}) > 1
    return escape(", ".join(part for part in (one.group, one.column if several or not one.group else "") if part))


def _exact(one: Judged) -> str:
    value = int(one.truth) if one.truth.is_integer() and one.estimate.within >= 1 else one.truth
    return format_number(value, decimal_places(one.estimate.within))


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


def _known(number: float) -> float:
    """Return a number, 0 where there is none."""
    return number if math.isfinite(number) else 0.0
