"""Answers as pictures: a table with a small plot for notebooks and pages, and one drawn with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from dodona.answer.digits import digits_for, shown
from dodona.answer.estimate import Estimate, as_number
from dodona.answer.rows import Row, shown_columns
from dodona.answer.written import cell_text, end_text, notes
from dodona.errors import InvalidRequest, printable
from dodona.query.expression import KeyOf

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dodona.answer.answer import Answer

_ROWS_OF_TABLE = 200
_BARS = 40
_HEIGHT = 18
_WIDTH = 360
_MARGIN = 130
_LONGEST = 20
_INK, _PALE, _LINE = "#1d4e79", "#9bb7d4", "#c9c9c9"
_CELL = "padding:2px 10px;border-bottom:1px solid #e5e5e5"


@dataclass(frozen=True, slots=True)
class Bar:
    """One value to draw, with its interval and its name."""

    name: str
    value: float | None
    low: float
    high: float


def bars_of(answer: Answer) -> tuple[str, list[Bar]]:
    """Return the name of the first column of estimates, and its values to draw."""
    for number, estimated in enumerate(answer.estimated):
        if estimated:
            rows = answer.rows[:_BARS]
            cells = [(row, cell) for row in rows if isinstance(cell := row.cells[number], Estimate)]
            named = [
                place for place, key in enumerate(shown_columns(answer.question)) if isinstance(key.expression, KeyOf)
            ]
            return printable(answer.columns[number]), [_bar(row, named, cell) for row, cell in cells]
    return "", []


def _bar(row: Row, named: list[int], cell: Estimate) -> Bar:
    """Return a bar that is named by the group's labels, in the order of the columns."""
    name = ", ".join(cell_text(row.cells[place]) for place in named)
    value = None if cell.value is None else as_number(cell.value)
    return Bar(name, value, as_number(cell.low), as_number(cell.high))


def html(answer: Answer) -> str:
    """Return a table of values and intervals, a small plot, and what the numbers mean. It holds no script."""
    head = "".join(f'<th style="{_CELL};text-align:left">{escape(name)}</th>' for name in _heads(answer))
    body = "".join(f"<tr>{''.join(_cells(row))}</tr>" for row in answer.rows[:_ROWS_OF_TABLE])
    more = len(answer.rows) - _ROWS_OF_TABLE
    rest = f"<p>... and {more:,} more rows</p>" if more > 0 else ""
    under = "".join(f'<p style="margin:2px 0;color:#555">{escape(note)}</p>' for note in notes(answer))
    table = f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div style="font-family:sans-serif;font-size:13px">{table}{rest}{svg(answer)}{under}</div>'


def _heads(answer: Answer) -> list[str]:
    found: list[str] = []
    for name, estimated in zip(answer.columns, answer.estimated, strict=True):
        found += [printable(name), "interval"] if estimated else [printable(name)]
    return found


def _cells(row: Row) -> list[str]:
    found: list[str] = []
    for cell in row.cells:
        if isinstance(cell, Estimate):
            digits = digits_for(cell.within) if math.isfinite(cell.within) else 3
            found.append(f'<td style="{_CELL};text-align:right">{escape(shown(cell.value, digits))}</td>')
            found.append(f'<td style="{_CELL};color:#555">{escape(end_text(cell))}</td>')
        else:
            found.append(f'<td style="{_CELL}">{escape(cell_text(cell))}</td>')
    return found


def svg(answer: Answer) -> str:
    """Return a small plot of the first column of estimates; an interval without an end runs to the edge."""
    name, bars = bars_of(answer)
    ends = [end for bar in bars for end in (bar.value, bar.low, bar.high) if end is not None and math.isfinite(end)]
    if len(bars) < 2 or not ends:  # noqa: PLR2004  one value says all in words
        return ""
    least, most = min(ends), max(ends)
    if least > 0 and least < (most - least):  # show how values compare, where zero is not far
        least = 0.0
    span = (most - least) or 1.0

    def place(number: float) -> float:
        return _MARGIN + _WIDTH * min(max((number - least) / span, -0.01), 1.01)

    marks = [_mark(bar, 20 + _HEIGHT * row, place) for row, bar in enumerate(bars)]
    height = 20 + _HEIGHT * len(bars) + 16
    zero = f'<line x1="{place(0):.1f}" x2="{place(0):.1f}" y1="14" y2="{height - 16}" stroke="{_LINE}"/>'
    digits = digits_for(span / 10)
    scale = "".join(
        f'<text x="{place(end):.1f}" y="{height - 2}" font-size="10" text-anchor="middle">{shown(end, digits)}</text>'
        for end in (least, most)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_MARGIN + _WIDTH + 60}" height="{height}" role="img" '
        f'font-family="sans-serif"><title>{escape(name)}, with intervals</title>'
        f"{zero if least <= 0 <= most else ''}{''.join(marks)}{scale}</svg>"
    )


def _mark(bar: Bar, y: float, place: Callable[[float], float]) -> str:
    """Return one value as a dot on the line of its interval, behind its name."""
    low, high = place(bar.low), place(bar.high)
    name = bar.name if len(bar.name) <= _LONGEST else f"{bar.name[: _LONGEST - 1]}…"
    dot = "" if bar.value is None else f'<circle cx="{place(bar.value):.1f}" cy="{y}" r="3" fill="{_INK}"/>'
    return (
        f'<text x="{_MARGIN - 8}" y="{y + 4}" font-size="11" text-anchor="end">{escape(name)}</text>'
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{_PALE}" stroke-width="5"/>{dot}'
    )


def plot(answer: Answer, axes: Axes | None) -> Axes:
    """Draw the first column of estimates with its intervals, on given axes or new ones."""
    name, bars = bars_of(answer)
    known = [bar for bar in bars if bar.value is not None]
    if not known:
        raise InvalidRequest("This answer has no estimate to draw.")
    if axes is None:
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError as error:
            raise InvalidRequest("A picture needs matplotlib: install dodona[plot].") from error
        axes = Figure(figsize=(7.0, 0.8 + 0.3 * len(known)), layout="constrained").subplots()
    for place, bar in enumerate(known):
        value = 0.0 if bar.value is None else bar.value
        if math.isfinite(bar.low) and math.isfinite(bar.high):
            axes.hlines(place, bar.low, bar.high, color=_PALE, linewidth=5)
        axes.plot([value], [place], "o", color=_INK, markersize=5)
    axes.set_yticks(range(len(known)), [bar.name for bar in known])
    axes.invert_yaxis()
    axes.set_xlabel(f"{name}, intervals at {answer.confidence:g}")
    axes.spines[["top", "right"]].set_visible(False)
    return axes
