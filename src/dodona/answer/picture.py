"""Answers as pictures: an HTML table with a small SVG plot, and a matplotlib plot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from html import escape
from typing import TYPE_CHECKING

from dodona.answer.display import AnswerTable, answer_notes, cell_text, interval_text
from dodona.answer.estimate import Estimate, Row, decimal_places, format_number, to_float
from dodona.errors import InvalidRequest, printable
from dodona.schema.attributes import RESERVED_LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS_OF_TABLE = 200
_BARS = 40
_HEIGHT = 18
_WIDTH = 360
_MARGIN = 130
_LONGEST = 20
_SLACK = 0.03  # how far a mark may lie beyond the scale, relative to its length
_INK, _PALE, _LINE, _QUIET = "#1d4e79", "#9bb7d4", "#c9c9c9", "#777777"
_CELL = "padding:2px 10px;border-bottom:1px solid #e5e5e5"


@dataclass(frozen=True, slots=True)
class EstimateBar:
    """One value to draw, with its interval and name."""

    name: str
    value: float | None
    low: float
    high: float
    declared: bool = True
    """Whether the group is one of the declared values: `<missing>`, `<outside>` and NULL are drawn apart from them."""
    day: date | None = None
    """The first day of the group, where groups are spans of days."""

    @property
    def ends(self) -> list[float]:
        """The numbers that the scale must cover."""
        return [end for end in (self.value, self.low, self.high) if end is not None and math.isfinite(end)]


def estimate_bars(answer: AnswerTable) -> tuple[str, list[EstimateBar]]:
    """Return the name of the first column of estimates, and its bars."""
    for number, estimated in enumerate(answer.estimated):
        if estimated:
            rows = answer.rows[:_BARS]
            cells = [(row, cell) for row in rows if isinstance(cell := row.cells[number], Estimate)]
            named = [place for place, key in enumerate(answer.key_places) if key is not None]
            return printable(answer.columns[number]), [_bar(row, named, cell) for row, cell in cells]
    return "", []


def _bar(row: Row, named: list[int], cell: Estimate) -> EstimateBar:
    """Return a bar named by the group's labels, in column order."""
    name = ", ".join(cell_text(row.cells[place]) for place in named)
    value = None if cell.value is None else to_float(cell.value)
    unknown = any(value is None for value in row.values)  # as statements have it, where questions have labels
    declared = not unknown and not any(key in RESERVED_LABELS for key in row.keys if isinstance(key, str))
    first = row.values[0] if len(row.keys) == 1 else None
    day = first if isinstance(first, date) else None
    return EstimateBar(name, value, to_float(cell.low), to_float(cell.high), declared, day)


def _split_declared(bars: list[EstimateBar]) -> tuple[list[EstimateBar], list[EstimateBar]]:
    """Return the bars of declared groups, and the others; if no group is declared, all together."""
    declared = [bar for bar in bars if bar.declared]
    return (declared, [bar for bar in bars if not bar.declared]) if declared else (bars, [])


def to_html(answer: AnswerTable) -> str:
    """Return a table of values and intervals, a small plot, and notes. It contains no script."""
    head = "".join(f'<th style="{_CELL};text-align:left">{escape(name)}</th>' for name in _heads(answer))
    body = "".join(f"<tr>{''.join(_cells(row))}</tr>" for row in answer.rows[:_ROWS_OF_TABLE])
    more = len(answer.rows) - _ROWS_OF_TABLE
    rest = f"<p>... and {more:,} more rows</p>" if more > 0 else ""
    under = "".join(f'<p style="margin:2px 0;color:#555">{escape(note)}</p>' for note in answer_notes(answer))
    table = f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div style="font-family:sans-serif;font-size:13px">{table}{rest}{to_svg(answer)}{under}</div>'


def _heads(answer: AnswerTable) -> list[str]:
    heads: list[str] = []
    for name, estimated in zip(answer.columns, answer.estimated, strict=True):
        heads += [printable(name), "interval"] if estimated else [printable(name)]
    return heads


def _cells(row: Row) -> list[str]:
    cells: list[str] = []
    for cell in row.cells:
        if isinstance(cell, Estimate):
            digits = decimal_places(cell.within) if math.isfinite(cell.within) else 3
            cells.append(f'<td style="{_CELL};text-align:right">{escape(format_number(cell.value, digits))}</td>')
            cells.append(f'<td style="{_CELL};color:#555">{escape(interval_text(cell))}</td>')
        else:
            cells.append(f'<td style="{_CELL}">{escape(cell_text(cell))}</td>')
    return cells


def to_svg(answer: AnswerTable) -> str:
    """Return a small plot of the first column of estimates; an unbounded interval runs to the edge.

    The scale is set by the declared groups. Missing and outside groups are separate, and may exceed it.
    """
    name, bars = estimate_bars(answer)
    shown_first, rest = _split_declared(bars)
    ends = [end for bar in shown_first for end in bar.ends]
    if len(bars) < 2 or not ends:  # noqa: PLR2004  one value says all in words
        return ""
    least, most = _scale(ends)
    span = (most - least) or 1.0

    def place(number: float) -> float:
        return _MARGIN + _WIDTH * min(max((number - least) / span, -_SLACK), 1 + _SLACK)

    gap = _HEIGHT / 2 if rest else 0
    marks = [_mark(bar, 20 + _HEIGHT * row, place, _INK, _PALE) for row, bar in enumerate(shown_first)]
    below = 20 + _HEIGHT * len(marks) + gap
    marks += [_mark(bar, below + _HEIGHT * row, place, _QUIET, _LINE) for row, bar in enumerate(rest)]
    height = 20 + _HEIGHT * len(bars) + gap + 16
    zero = f'<line x1="{place(0):.1f}" x2="{place(0):.1f}" y1="14" y2="{height - 16}" stroke="{_LINE}"/>'
    digits = decimal_places(span / 10)
    scale = "".join(
        f'<text x="{place(end):.1f}" y="{height - 2}" font-size="10" text-anchor="middle">'
        f"{format_number(end, digits)}</text>"
        for end in (least, most)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_MARGIN + _WIDTH + 60}" height="{height:g}" role="img" '
        f'font-family="sans-serif"><title>{escape(name)}, with intervals</title>'
        f"{zero if least <= 0 <= most else ''}{''.join(marks)}{scale}</svg>"
    )


def _scale(ends: list[float]) -> tuple[float, float]:
    """Return the range of the scale; it starts at 0, for comparison, unless that is far away."""
    least, most = min(ends), max(ends)
    return (0.0 if 0 < least < most - least else least), most


def _mark(bar: EstimateBar, y: float, place: Callable[[float], float], ink: str, pale: str) -> str:
    """Return one value as a dot on its interval line, with its name; a dot beyond the scale is omitted."""
    low, high = place(bar.low), place(bar.high)
    name = bar.name if len(bar.name) <= _LONGEST else f"{bar.name[: _LONGEST - 1]}…"
    at = None if bar.value is None else place(bar.value)
    inside = at is not None and abs((at - _MARGIN) / _WIDTH - 0.5) < 0.5 + _SLACK - 1e-9
    dot = f'<circle cx="{at:.1f}" cy="{y:g}" r="3" fill="{ink}"/>' if inside else ""
    return (
        f'<text x="{_MARGIN - 8}" y="{y + 4:g}" font-size="11" text-anchor="end">{escape(name)}</text>'
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y:g}" y2="{y:g}" stroke="{pale}" stroke-width="5"/>{dot}'
    )


def plot(answer: AnswerTable, axes: Axes | None) -> Axes:
    """Draw the first column of estimates with its intervals, on given or new axes; spans of days as a time series.

    The scale is set by the declared groups. Missing and outside groups are drawn separately.
    """
    name, bars = estimate_bars(answer)
    declared, rest = _split_declared([bar for bar in bars if bar.value is not None])
    if not declared:
        raise InvalidRequest("This answer has no estimate to draw.")
    along_time = len(declared) > 2 and all(bar.day is not None for bar in declared)  # noqa: PLR2004  a course in time
    if axes is None:
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError as error:
            raise InvalidRequest("A picture needs matplotlib: install dodona[plot].") from error
        size = (7.5, 3.8) if along_time else (7.0, 0.8 + 0.3 * (len(declared) + len(rest)))
        axes = Figure(figsize=size, layout="constrained").subplots()
    label = f"{name}, intervals at {answer.confidence:.15g}"
    if along_time:
        _plot_over_time(axes, declared, rest, label)
    else:
        _plot_groups(axes, declared, rest, label)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _plot_over_time(axes: Axes, declared: list[EstimateBar], rest: list[EstimateBar], label: str) -> None:
    """Draw values over time; groups without a date are listed below."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

    for bar in sorted(declared, key=lambda bar: bar.day or date.min):
        day = float(date2num(bar.day))
        if math.isfinite(bar.low) and math.isfinite(bar.high):
            axes.vlines(day, bar.low, bar.high, color=_PALE, linewidth=4)
        axes.plot([day], [bar.value or 0.0], "o", color=_INK, markersize=4)
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_ylabel(label)
    if rest:
        axes.set_xlabel("     ".join(map(_describe_bar, rest)), color=_QUIET, fontsize=9)


def _describe_bar(bar: EstimateBar) -> str:
    digits = decimal_places(bar.high - bar.low) if math.isfinite(bar.high - bar.low) else 3
    if all(end.is_integer() for end in bar.ends):
        digits = 0
    value, low, high = [format_number(number, digits) for number in (bar.value, bar.low, bar.high)]
    return f"{bar.name}: {value}, {low} to {high}"


def _plot_groups(axes: Axes, declared: list[EstimateBar], rest: list[EstimateBar], label: str) -> None:
    """Draw one line per group, top to bottom, and the other groups after a gap."""
    ends = [end for bar in declared for end in bar.ends]
    least, most = _scale(ends)
    margin = 0.05 * (most - least) or 1.0
    least, most = least - margin, most + margin
    places = [*range(len(declared)), *(number + 0.6 for number in range(len(declared), len(declared) + len(rest)))]
    for place, bar in zip(places, [*declared, *rest], strict=True):
        ink, pale = (_INK, _PALE) if place < len(declared) else (_QUIET, _LINE)
        value = bar.value or 0.0
        if math.isfinite(bar.low) and math.isfinite(bar.high):
            axes.hlines(place, bar.low, bar.high, color=pale, linewidth=5)
        beyond = "<" if value < least else ">" if value > most else "o"  # an arrow points to values off the scale
        axes.plot([min(max(value, least), most)], [place], beyond, color=ink, markersize=5, clip_on=False)
    if rest:
        axes.axhline(len(declared) - 0.2, color=_LINE, linewidth=0.8, linestyle=":")
        axes.set_xlim(least, most)
    axes.set_yticks(places, [bar.name for bar in (*declared, *rest)])
    axes.set_ylim(places[-1] + 0.6, -0.6)
    axes.set_xlabel(label)
