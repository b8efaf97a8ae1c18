"""Declarations: what an owner may write down about a column, held to its rules before the attribute is made.

`otherwise` names a value that counts for what is missing or was not declared. The functions for it return its code, in
a column of one kind; None where none was named.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np

from dodona.domain.plain import plain
from dodona.errors import InvalidArgument
from dodona.exact import exact

RESERVED = ("<missing>", "<outside>")
"""The names of the two cells that are no values."""
_LONGEST_LABEL = 200
_WIDEST = Fraction(2**64)
_MOST_SHOWN = 10


def label_faults(labels: Iterable[object]) -> Iterator[tuple[int, str]]:
    """Yield the place of each label that may not be one, and what to do about it."""
    seen = set[str]()
    for index, text in enumerate(labels):
        if not isinstance(text, str) or not text.isprintable() or not 0 < len(text) <= _LONGEST_LABEL:
            yield index, f"write a printable text of 1 to {_LONGEST_LABEL} characters"
        elif text in RESERVED:
            yield index, "leave it out: this cell is always there"
        elif text in seen:
            yield index, "write each label once"
        else:
            seen.add(text)


def label_code(value: object, *, labels: tuple[str, ...]) -> int | None:
    """Return the place of a label.

    >>> label_code("other", labels=("female", "male", "other"))
    2
    """
    if value is None:
        return None
    if len(labels) == 1:
        raise _refused(value, "leave it out, or write two labels or more: each row would have the only one")
    if not isinstance(value, str) or value not in labels:
        more = "" if len(labels) <= _MOST_SHOWN else f" and {len(labels) - _MOST_SHOWN} more"
        listed = ", ".join(f"'{label}'" for label in labels[:_MOST_SHOWN])
        raise _refused(value, f"write one of the labels: {listed}{more}")
    return labels.index(value)


def number_code(value: object, *, lower: Fraction, step: Fraction, size: int) -> int | None:
    """Return the place of a number on the grid of a column."""
    if value is None:
        return None
    try:
        steps = (exact(value, argument="otherwise", lower=-_WIDEST, upper=_WIDEST) - lower) / step  # type: ignore[arg-type]
    except InvalidArgument:
        steps = Fraction(-1)
    if steps.denominator != 1 or not 0 <= steps < size:
        kind = "whole number" if step.denominator == lower.denominator == 1 else "number"
        grid = "" if step == 1 else f" in steps of {plain(step)}"
        upper = lower + (size - 1) * step
        raise _refused(value, f"write a {kind} from {plain(lower)} to {plain(upper)}{grid}")
    return int(steps)


def day_code(value: object, *, lower: dt.date, upper: dt.date) -> int | None:
    """Return how many days after the first one a day is."""
    if value is None:
        return None
    day = day_of(value)
    if day is None or not lower <= day <= upper:
        raise _refused(value, f"write a day from {lower} to {upper}")
    return (day - lower).days


def day_of(value: object) -> dt.date | None:
    """Return a day, also one of numpy's; None where it is none, or where it has a time of day.

    >>> day_of(np.datetime64("2024-01-31")), day_of("2024-01-31"), day_of(dt.datetime(2024, 1, 31))
    (datetime.date(2024, 1, 31), None, None)
    """
    day = value.item() if isinstance(value, np.datetime64) else value
    return day if isinstance(day, dt.date) and not isinstance(day, dt.datetime) else None


def truth_code(value: object) -> int | None:
    """Return 1 for true and 0 for false."""
    if value is None:
        return None
    if not isinstance(value, bool | np.bool_):
        raise _refused(value, "write true or false")
    return int(value)


def _refused(value: object, accepted: str) -> InvalidArgument:
    return InvalidArgument("otherwise", value, accepted)
