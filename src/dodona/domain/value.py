"""One value, of whatever type: its double, its day, its truth, and so its code. `encoding` says what each means."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np

from dodona.domain.attribute import Attribute, Boolean, Category, Date, Integer, Number
from dodona.domain.spelling import DATE_TEXT, DAY, FALSE_TEXT, LONGEST_TEXT, NUMBER_TEXT, TRUE_TEXT

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPOCH = dt.date(1970, 1, 1).toordinal()
"""The ordinal of the day that numpy counts from."""
_NUMBER, _DATE, _DAY, _TRUE, _FALSE = map(re.compile, (NUMBER_TEXT, DATE_TEXT, DAY, TRUE_TEXT, FALSE_TEXT))
_NAMES_OF_NOTHING = frozenset({"NAType", "NaTType"})  # of pandas, which need not be installed
_COARSE_UNITS = frozenset({"Y", "M", "W"})
_EARLIEST, _LATEST = np.datetime64("0000-01-01", "D"), np.datetime64("10000-12-31", "D")


def landings(attribute: Attribute) -> tuple[int, int]:
    """Return the code that NULL and NaN have, and the code of all else that is none of the values.

    >>> landings(Boolean("urgent")), landings(Boolean("urgent", otherwise=False))
    ((2, 3), (0, 0))

    Theorem: complete-columns
    """
    code = attribute.landing
    return (attribute.size, attribute.size + 1) if code is None else (code, code)


def code_of(attribute: Attribute, value: object) -> int:
    """Return the code of a value.

    >>> code_of(Integer("age", 0, 110), 1e300), code_of(Boolean("emergency"), "Yes")
    (110, 1)
    """
    missing, outside = landings(attribute)
    if is_missing(value):
        return missing
    code: int | None
    match attribute:
        case Category(labels=labels):
            code = labels.index(value) if isinstance(value, str) and value in labels else None
        case Integer() | Number():
            double = _double(value)
            code = None if double is None else _point(attribute, double)
        case Date(lower=lower, upper=upper):
            day = _ordinal(value)
            first, last = lower.toordinal(), upper.toordinal()
            code = day - first if day is not None and first <= day <= last else None
        case Boolean():
            code = _truth(value)
        case _:
            assert_never(attribute)
    return outside if code is None else code


def days(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the days since 1970 of numpy's times, rounded down; years that no attribute has are drawn nearer."""
    if np.datetime_data(values.dtype)[0] in _COARSE_UNITS:  # a year far away would overflow as a number of days
        values = np.clip(values, _EARLIEST.astype(values.dtype), _LATEST.astype(values.dtype))
    found: NDArray[np.int64] = values.astype("datetime64[D]").astype(np.int64)
    return found


def is_missing(value: object) -> bool:
    """Return whether a value stands for nothing: None, NaN, NaT, pandas' NA, or masked."""
    match value:
        case None:
            return True
        case float() | np.floating() | np.complexfloating():
            return bool(np.isnan(value))
        case Decimal():
            return value.is_nan()
        case np.datetime64() | np.timedelta64():
            return bool(np.isnat(value))
        case _:
            return value is np.ma.masked or type(value).__name__ in _NAMES_OF_NOTHING


def _spelled(rule: re.Pattern[str], text: str) -> bool:
    """Return whether a text follows a rule; one that does has as many bytes as characters."""
    return len(text) <= LONGEST_TEXT and rule.fullmatch(text) is not None


def _point(attribute: Integer | Number, double: float) -> int:
    """Return the place on the grid. The clamp comes first, as an infinity has no floor."""
    if math.isnan(double):
        return landings(attribute)[0]
    if isinstance(attribute, Integer):
        return math.floor(min(max(double, attribute.lower), attribute.upper)) - attribute.lower
    steps = (double - float(attribute.lower)) / float(attribute.step)
    return math.floor(min(max(steps, 0), attribute.size - 1))


def _double(value: object) -> float | None:
    """Return the double nearest to a number or to a text that is one."""
    match value:
        case str():
            return float(value) if _spelled(_NUMBER, value) else None
        case np.timedelta64():  # numpy counts it among the whole numbers
            return None
        case bool() | np.bool_():
            return float(value)
        case Real() | Decimal():
            try:
                return float(value)
            except OverflowError:  # no double is so large
                return math.inf if value == abs(value) else -math.inf
        case _:
            return None


def _ordinal(value: object) -> int | None:
    """Return the number of a day in the calendar of `datetime`."""
    match value:
        case dt.datetime():
            try:
                return (value if value.utcoffset() is None else value.astimezone(dt.UTC)).toordinal()
            except OverflowError:  # a zone moves it out of the calendar
                return None
        case dt.date():
            return value.toordinal()
        case np.datetime64():
            return int(days(np.asarray([value]))[0]) + EPOCH
        case str():
            return _ordinal_of_text(value)
        case _:
            return None


def _ordinal_of_text(text: str) -> int | None:
    day = _DAY.search(text) if _spelled(_DATE, text) else None
    try:
        return None if day is None else dt.date.fromisoformat(day.group()).toordinal()
    except ValueError:
        return None


def _truth(value: object) -> int | None:
    match value:
        case str():
            return 1 if _spelled(_TRUE, value) else 0 if _spelled(_FALSE, value) else None
        case np.timedelta64():
            return None
        case bool() | np.bool_() | Real() | Decimal():
            double = _double(value)
            return 1 if double == 1 else 0 if double == 0 else None
        case _:
            return None
