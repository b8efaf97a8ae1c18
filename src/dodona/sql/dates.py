"""Parts of dates: what `year(d)`, `date_trunc('month', d)` and their like are for each day of a column."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dodona.domain.attribute import Date
from dodona.domain.partition import Partition

SAME = {"dayofmonth": "day", "dayofweek": "dow", "weekday": "dow", "dayofyear": "doy", "weekofyear": "week"}
"""Other names of parts."""
_EPOCH = dt.date(1970, 1, 1).toordinal()
_Numbers = NDArray[np.int64]


@lru_cache(maxsize=64)
def values(attribute: Date, part: str) -> _Numbers:
    """Return the part of each day, in the order of the codes: a number, or the first day as an ordinal.

    >>> from datetime import date
    >>> values(Date("d", date(2024, 1, 30), date(2024, 2, 2)), "month").tolist()
    [1, 1, 2, 2]
    """
    ordinals = np.arange(attribute.lower.toordinal(), attribute.upper.toordinal() + 1, dtype=np.int64)
    found = _PARTS[part](ordinals)
    found.flags.writeable = False
    return found


def partition(attribute: Date, unit: str) -> Partition:
    """Return the days in groups of one unit; the first and the last group may be parts of one."""
    found = values(attribute, f"trunc {unit}")
    cuts = np.flatnonzero(np.diff(found, prepend=found[0] - 1))
    return Partition.cut(attribute, tuple(cuts.tolist()))


def _days(ordinals: _Numbers) -> NDArray[np.datetime64]:
    return (ordinals - _EPOCH).astype("datetime64[D]")


def _month(ordinals: _Numbers) -> _Numbers:
    """Return the months since January of year 1970."""
    return _days(ordinals).astype("datetime64[M]").astype(np.int64)


def _first(ordinals: _Numbers, unit: str) -> _Numbers:
    """Return the first day of the year or the month of each day."""
    return _days(ordinals).astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(np.int64) + _EPOCH


def _quarter(ordinals: _Numbers) -> _Numbers:
    """Return the first day of the quarter of each day."""
    months = _month(ordinals)
    return (months - months % 3).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + _EPOCH


def _weekday(ordinals: _Numbers) -> _Numbers:
    """Return 0 for Monday to 6 for Sunday: the first day of year 1 was a Monday."""
    return (ordinals + 6) % 7


def _week(ordinals: _Numbers) -> _Numbers:
    """Return the week, which belongs to the year of its Thursday (ISO 8601)."""
    thursday = ordinals - _weekday(ordinals) + 3
    return (thursday - _first(thursday, "Y")) // 7 + 1


_PARTS: dict[str, Callable[[_Numbers], _Numbers]] = {
    "year": lambda days: _days(days).astype("datetime64[Y]").astype(np.int64) + 1970,
    "quarter": lambda days: _month(days) % 12 // 3 + 1,
    "month": lambda days: _month(days) % 12 + 1,
    "week": _week,
    "day": lambda days: days - _first(days, "M") + 1,
    "dow": lambda days: (_weekday(days) + 1) % 7,
    "isodow": lambda days: _weekday(days) + 1,
    "doy": lambda days: days - _first(days, "Y") + 1,
    "trunc year": lambda days: _first(days, "Y"),
    "trunc quarter": _quarter,
    "trunc month": lambda days: _first(days, "M"),
    "trunc week": lambda days: days - _weekday(days),
    "trunc day": lambda days: days + 0,
}
PARTS = tuple(part for part in _PARTS if not part.startswith("trunc"))
"""Parts of a date that are numbers."""
UNITS = tuple(part.removeprefix("trunc ") for part in _PARTS if part.startswith("trunc"))
"""What a date may be cut to."""
