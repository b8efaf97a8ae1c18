"""Parts of dates: what `year(d)`, `date_trunc('month', d)` and their like are for each day of a column."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dodona.domain.attribute import Date
from dodona.domain.partition import Partition

if TYPE_CHECKING:
    from numpy.typing import NDArray

PARTS = ("year", "quarter", "month", "week", "day", "dow", "isodow", "doy")
UNITS = ("year", "quarter", "month", "week", "day")
SAME = {"dayofmonth": "day", "dayofweek": "dow", "weekday": "dow", "dayofyear": "doy", "weekofyear": "week"}
_EPOCH = dt.date(1970, 1, 1).toordinal()


@lru_cache(maxsize=64)
def values(attribute: Date, part: str) -> NDArray[np.int64]:
    """Return the part of each day, in the order of the codes: a number, or the first day as an ordinal.

    >>> from datetime import date
    >>> values(Date("d", date(2024, 1, 30), date(2024, 2, 2)), "month").tolist()
    [1, 1, 2, 2]
    """
    ordinals = np.arange(attribute.lower.toordinal(), attribute.upper.toordinal() + 1, dtype=np.int64)
    days = (ordinals - _EPOCH).astype("datetime64[D]")
    months, years = days.astype("datetime64[M]"), days.astype("datetime64[Y]")
    month = months.astype(np.int64) % 12
    weekday = (ordinals + 6) % 7  # 0 is Monday: the first day of year 1 was one
    found: NDArray[np.int64]
    match part:
        case "year":
            found = years.astype(np.int64) + 1970
        case "quarter":
            found = month // 3 + 1
        case "month":
            found = month + 1
        case "day":
            found = (days - months).astype(np.int64) + 1
        case "dow":
            found = (weekday + 1) % 7
        case "isodow":
            found = weekday + 1
        case "doy":
            found = (days - years).astype(np.int64) + 1
        case "week":
            thursday = days - weekday + 3  # the week belongs to the year of its Thursday (ISO 8601)
            found = (thursday - thursday.astype("datetime64[Y]")).astype(np.int64) // 7 + 1
        case "trunc year":
            found = years.astype("datetime64[D]").astype(np.int64) + _EPOCH
        case "trunc quarter":
            found = (months - month % 3).astype("datetime64[D]").astype(np.int64) + _EPOCH
        case "trunc month":
            found = months.astype("datetime64[D]").astype(np.int64) + _EPOCH
        case "trunc week":
            found = ordinals - weekday
        case _:
            found = ordinals
    found.flags.writeable = False
    return found


def partition(attribute: Date, unit: str) -> Partition:
    """Return the days in groups of one unit; the first and the last group may be parts of one."""
    found = values(attribute, f"trunc {unit}")
    cuts = np.flatnonzero(np.diff(found, prepend=found[0] - 1))
    return Partition(attribute.name, attribute.size, tuple(cuts.tolist()))
