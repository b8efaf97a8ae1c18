"""Declared times: their steps, and their bins of hours, days, weeks, months, quarters and years."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

from dodona.errors import InvalidArgument

if TYPE_CHECKING:
    from dodona.schema.attributes import Timestamp

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  times are declared without a zone, and mean UTC
DAY_SECONDS = 86_400
MOMENT_BINS = ("hour", "day", "week", "month", "quarter", "year")
"""The named bins of times. Weeks begin on Monday."""
_STEP = re.compile("(?:([0-9]{1,5}) ?)?(second|minute|hour|day)s?")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": DAY_SECONDS}


def step_seconds(step: object) -> int:
    """Return the seconds of a step, such as `15 minutes`; a day must be a whole number of steps.

    >>> step_seconds("15 minutes"), step_seconds("hour")
    (900, 3600)
    """
    matched = _STEP.fullmatch(step.strip().lower()) if isinstance(step, str) else None
    seconds = step if type(step) is int else 0 if matched is None else int(matched[1] or 1) * _SECONDS[matched[2]]
    if seconds < 1 or DAY_SECONDS % seconds:
        accepted = "write a part of a day, such as '1 hour', '15 minutes' or '1 day'"
        raise InvalidArgument("step", step, accepted)
    return seconds


def to_moment(value: object, *, argument: str) -> dt.datetime:
    """Return a time of whole seconds without a zone; a day is its first moment."""
    moment = dt.datetime.combine(value, dt.time()) if type(value) is dt.date else value
    if not isinstance(moment, dt.datetime) or moment.tzinfo is not None or moment.microsecond:
        accepted = "write a time of whole seconds without a zone, in UTC, such as 2024-01-31 13:00:00"
        raise InvalidArgument(argument, str(value), accepted)
    return moment


def seconds_since_epoch(moment: dt.datetime) -> int:
    """Return the whole seconds since 1970, rounded down; a time with a zone is read in UTC."""
    bare = moment if moment.utcoffset() is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (bare - EPOCH) // dt.timedelta(seconds=1)


def moment_code(value: object, *, lower: dt.datetime, step: int, size: int) -> int:
    """Return the step of a time from the lower bound."""
    seconds = seconds_since_epoch(to_moment(value, argument="otherwise")) - seconds_since_epoch(lower)
    if seconds % step or not 0 <= seconds // step < size:
        raise InvalidArgument("otherwise", str(value), f"write a time on the grid, from {lower} on")
    return seconds // step


def moment_starts(attribute: Timestamp, word: str) -> tuple[int, ...] | None:
    """Return the first code of each hour, day, week, month, quarter or year; None if each code is one."""
    if word not in MOMENT_BINS:
        raise InvalidArgument("bins", word, f"write one of {', '.join(MOMENT_BINS)}")
    moments = (attribute.lower + dt.timedelta(seconds=code * attribute.step) for code in range(attribute.size))
    starts, before = list[int](), None
    for code, moment in enumerate(moments):
        period = truncate_moment(moment, word)
        if period != before:
            starts.append(code)
        before = period
    return None if len(starts) == attribute.size else tuple(starts)


def truncate_moment(moment: dt.datetime, unit: str) -> dt.datetime:
    """Return the first moment of the minute, hour, day, week, month, quarter or year.

    >>> print(truncate_moment(dt.datetime(2024, 5, 17, 13, 45), "quarter"))
    2024-04-01 00:00:00
    """
    if unit in {"second", "minute", "hour"}:
        return moment.replace(
            microsecond=0,
            second=moment.second if unit == "second" else 0,
            minute=0 if unit == "hour" else moment.minute,
        )
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "week":
        return day - dt.timedelta(days=day.weekday())
    if unit == "day":
        return day
    months = {"month": 1, "quarter": 3, "year": 12}[unit]
    return day.replace(day=1, month=(day.month - 1) // months * months + 1)
