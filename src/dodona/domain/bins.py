"""Bins: the groups that an owner declares for GROUP BY and quantiles, by their edges or by the calendar."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import assert_never

from dodona.domain.attribute import Date, Integer, Label, Number, label
from dodona.domain.declaration import day_of
from dodona.domain.plain import plain
from dodona.errors import InvalidArgument
from dodona.exact import exact

CALENDAR = ("day", "week", "month", "quarter", "year")
"""The bins of days that have names. Weeks begin on Monday."""
Binned = Integer | Number | Date
_WIDEST = Fraction(2**64)


def starts_of(attribute: Binned, bins: str | Sequence[object]) -> tuple[int, ...] | None:
    """Return the first code of each bin: of edges that rise from lower to upper, the last bin taking upper in.

    >>> starts_of(Integer("age", 0, 110), [0, 18, 65, 110])
    (0, 18, 65)
    >>> starts_of(Date("admitted", dt.date(2024, 1, 31), dt.date(2024, 3, 1)), "month")
    (0, 1, 30)
    """
    if isinstance(bins, str):
        return _calendar(attribute, bins)
    for index, wrong in edge_faults(attribute, bins):
        raise InvalidArgument("bins" if index is None else f"bins[{index}]", bins, wrong)
    codes = [_code(attribute, edge) for edge in bins]
    return tuple(code for code in codes[:-1] if code is not None)


def edges_of(attribute: Binned, starts: tuple[int, ...] | None) -> tuple[Label, ...] | None:
    """Return the edges of bins: their first values, and the last value of all.

    >>> edges_of(Integer("age", 0, 110), (0, 18, 65))
    (0, 18, 65, 110)
    """
    return None if starts is None else tuple(label(attribute, code) for code in (*starts, attribute.size - 1))


def edge_faults(attribute: Binned, edges: Sequence[object]) -> Iterator[tuple[int | None, str]]:
    """Yield the place of each edge that may not be one, and what to write instead; None stands for the whole list."""
    first, last = _shown(label(attribute, 0)), _shown(label(attribute, attribute.size - 1))
    if len(edges) < 2:  # noqa: PLR2004  a bin has two edges
        yield None, f"write at least two edges, from {first} to {last}"
        return
    reached = -1
    for index, edge in enumerate(edges):
        code = _code(attribute, edge)
        if code is None:
            yield index, f"write {_what(attribute)} from {first} to {last}"
        elif code <= reached:
            yield index, "write edges that rise"
        elif index == 0 and code != 0:
            yield index, f"begin with lower, {first}"
        elif index == len(edges) - 1 and code != attribute.size - 1:
            yield index, f"end with upper, {last}"
        reached = max(reached, -1 if code is None else code)


def _code(attribute: Binned, edge: object) -> int | None:
    """Return the code of an edge, or None where it is not on the grid between the bounds."""
    if isinstance(attribute, Date):
        day = day_of(edge)
        if day is None:
            return None
        steps = Fraction((day - attribute.lower).days)
    else:
        try:
            point = exact(edge, argument="edge", lower=-_WIDEST, upper=_WIDEST)  # type: ignore[arg-type]
        except InvalidArgument:
            return None
        step = 1 if isinstance(attribute, Integer) else attribute.step
        steps = (point - attribute.lower) / step
    return int(steps) if steps.denominator == 1 and 0 <= steps < attribute.size else None


def _calendar(attribute: Binned, word: str) -> tuple[int, ...] | None:
    """Return the first code of each day (None, as for no bins), week, month, quarter or year."""
    if not isinstance(attribute, Date) or word not in CALENDAR:
        accepted = f"one of {', '.join(CALENDAR)}, or " if isinstance(attribute, Date) else ""
        raise InvalidArgument("bins", word, f"write {accepted}a list of edges")
    if word == "day":
        return None
    days = (attribute.lower + dt.timedelta(days=code) for code in range(1, attribute.size))
    return (0, *((day - attribute.lower).days for day in days if _begins(day, word)))


def _begins(day: dt.date, word: str) -> bool:
    """Whether a week, month, quarter or year begins with this day."""
    match word:
        case "week":
            return day.weekday() == 0
        case "month":
            return day.day == 1
        case "quarter":
            return day.day == 1 and day.month % 3 == 1
        case _:
            return day.day == day.month == 1


def _what(attribute: Binned) -> str:
    match attribute:
        case Integer():
            return "a whole number"
        case Number():
            return f"a number on the grid of steps of {plain(attribute.step)}"
        case Date():
            return "a day"
        case _:
            assert_never(attribute)


def _shown(value: Label) -> str:
    return plain(value) if isinstance(value, Fraction) else str(value)
