"""Declarations: what an owner may write down about a column, held to its rules before the attribute is made.

`otherwise` names a value that counts for what is missing or was not declared. The functions for it return its code, in
a column of one kind; None where none was named.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterable, Iterator
from fractions import Fraction

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


def checked_cuts(cuts: Iterable[int] | None, *, size: int) -> tuple[int, ...] | None:
    """Return the first codes of bins, which must rise from 0 and stay below the size."""
    if cuts is None:
        return None
    found = tuple(cuts)
    if not found or found[0] != 0 or any(a >= b for a, b in itertools.pairwise(found)) or found[-1] >= size:
        raise InvalidArgument("cuts", found, f"write the first code of each bin: 0, then rising, below {size}")
    return found


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
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date) or not lower <= value <= upper:
        raise _refused(value, f"write a day from {lower} to {upper}")
    return (value - lower).days


def truth_code(value: object) -> int | None:
    """Return 1 for true and 0 for false."""
    if value is None:
        return None
    if not isinstance(value, bool):
        raise _refused(value, "write true or false")
    return int(value)


def _refused(value: object, accepted: str) -> InvalidArgument:
    return InvalidArgument("otherwise", value, accepted)
