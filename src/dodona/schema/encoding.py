"""Encoding: from the raw values of a column to the codes of its cells.

Every value, of whatever Python, numpy or pandas type, gets exactly one code. The same rules are written in SQL by
`dodona.engines.cells`, and the two must agree on every value.
"""

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.numbers import Doubles, Integers
from dodona.schema.attributes import GRID_SLACK, Attribute, Boolean, Category, Date, Integer, Number, Timestamp
from dodona.schema.moments import DAY_SECONDS, seconds_since_epoch

# --- Spelling of values in text columns: the only definition of which text is a number, a day or a boolean. ---


LONGEST_TEXT = 1_000
"""In bytes: a longer text is not a number, a day or a boolean. It is not even examined, as matching a pattern takes an
engine at least as long as the text is, and one row must not show in the time of an answer."""
_SPACE = "[ \t\n\r\f\x0b]*"
_DIGITS = "([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
_INFINITY = "[iI][nN][fF]([iI][nN][iI][tT][yY])?"
_NAN = "[nN][aA][nN]"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?Z?"

NUMBER_TEXT = f"{_SPACE}[+-]?({_DIGITS}|{_INFINITY}|{_NAN}){_SPACE}"
"""A number, cast to a double. A result of NaN is missing, as in a column of doubles."""
DAY_TEXT = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
"""The part of a date's text that is cast to a day: its first match in a text that `DATE_TEXT` accepts."""
CLOCK_TEXT = "[0-9]{2}:[0-9]{2}(?::[0-9]{2})?"
"""The part of a date's text that says the hour, the minute and perhaps the second: its first match."""
DATE_TEXT = f"{_SPACE}{DAY_TEXT}([T ]{_TIME})?{_SPACE}"
"""A day, or a day with a time in UTC or without a zone. A day that the calendar does not have is outside."""
TRUE_TEXT = f"{_SPACE}([tT]([rR][uU][eE])?|[yY]([eE][sS])?|1){_SPACE}"
"""True."""
FALSE_TEXT = f"{_SPACE}([fF]([aA][lL][sS][eE])?|[nN][oO]?|0){_SPACE}"
"""False."""


# --- One value, of whatever type: its double, its day, its truth, and so its code. `encoding` says what each means. ---


EPOCH = dt.date(1970, 1, 1).toordinal()
"""The ordinal of the day that numpy counts from."""
_NUMBER, _DATE, _DAY, _TRUE, _FALSE = map(re.compile, (NUMBER_TEXT, DATE_TEXT, DAY_TEXT, TRUE_TEXT, FALSE_TEXT))
_CLOCK = re.compile(CLOCK_TEXT)
_MISSING_TYPE_NAMES = frozenset({"NAType", "NaTType"})  # of pandas, which need not be installed
_COARSE_UNITS = frozenset({"Y", "M", "W"})
_EARLIEST, _LATEST = np.datetime64("0000-01-01", "D"), np.datetime64("10000-12-31", "D")


def fallback_codes(attribute: Attribute) -> tuple[int, int]:
    """Return the code of NULL and NaN, and the code of all other undeclared values.

    >>> fallback_codes(Boolean("urgent")), fallback_codes(Boolean("urgent", otherwise=False))
    ((2, 3), (0, 0))

    Theorem: complete-columns
    """
    code = attribute.landing
    return (attribute.size, attribute.size + 1) if code is None else (code, code)


def encode_value(attribute: Attribute, value: object) -> int:
    """Return the code of a value.

    >>> encode_value(Integer("age", 0, 110), 1e300), encode_value(Boolean("emergency"), "Yes")
    (110, 1)
    """
    missing, outside = fallback_codes(attribute)
    if is_missing(value):
        return missing
    code: int | None
    match attribute:
        case Category(labels=labels):
            code = labels.index(value) if isinstance(value, str) and value in labels else None
        case Integer() | Number():
            double = _double(value)
            code = None if double is None else _grid_code(attribute, double)
        case Date(lower=lower, upper=upper):
            day = _ordinal(value)
            first, last = lower.toordinal(), upper.toordinal()
            code = day - first if day is not None and first <= day <= last else None
        case Timestamp():
            seconds = _seconds(value)
            code = None if seconds is None else _moment_code(attribute, seconds)
        case Boolean():
            code = _boolean(value)
        case _:
            assert_never(attribute)
    return outside if code is None else code


def days_since_epoch(values: NDArray[Any]) -> Integers:
    """Return numpy times as days since 1970, rounded down; years beyond every attribute's range are clamped."""
    if np.datetime_data(values.dtype)[0] in _COARSE_UNITS:  # a distant year would overflow as a number of days
        values = np.clip(values, _EARLIEST.astype(values.dtype), _LATEST.astype(values.dtype))
    days: Integers = values.astype("datetime64[D]").astype(np.int64)
    return days


def seconds_of_numpy(values: NDArray[Any]) -> Integers:
    """Return numpy times as seconds since 1970, rounded down; years beyond every attribute's range are clamped."""
    if np.datetime_data(values.dtype)[0] in {*_COARSE_UNITS, "D", "h", "m"}:  # a distant year would overflow
        values = np.clip(values, _EARLIEST.astype(values.dtype), _LATEST.astype(values.dtype))
    seconds: Integers = values.astype("datetime64[s]").astype(np.int64)
    return seconds


def is_missing(value: object) -> bool:
    """Return whether a value is missing: None, NaN, NaT, pandas' NA, or masked."""
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
            return value is np.ma.masked or type(value).__name__ in _MISSING_TYPE_NAMES


def _matches_rule(rule: re.Pattern[str], text: str) -> bool:
    """Return whether a text matches a rule; a text that does has as many bytes as characters."""
    return len(text) <= LONGEST_TEXT and rule.fullmatch(text) is not None


def _grid_code(attribute: Integer | Number, double: float) -> int:
    """Return the grid position. Clamp first, as an infinity has no floor."""
    if math.isnan(double):
        return fallback_codes(attribute)[0]
    if isinstance(attribute, Integer):
        return math.floor(min(max(double, attribute.lower), attribute.upper)) - attribute.lower
    steps = (double - float(attribute.lower)) / float(attribute.step) + GRID_SLACK
    return math.floor(min(max(steps, 0), attribute.size - 1))


def _double(value: object) -> float | None:
    """Return the double nearest to a number or to a text that is a number."""
    match value:
        case str():
            return float(value) if _matches_rule(_NUMBER, value) else None
        case np.timedelta64():  # numpy treats it as an integer
            return None
        case bool() | np.bool_():
            return float(value)
        case Real() | Decimal():
            try:
                return float(value)
            except OverflowError:  # too large for a double
                return math.inf if value == abs(value) else -math.inf
        case _:
            return None


def _ordinal(value: object) -> int | None:
    """Return the proleptic ordinal of a day, as in `datetime`."""
    match value:
        case dt.datetime():
            try:
                return (value if value.utcoffset() is None else value.astimezone(dt.UTC)).toordinal()
            except OverflowError:  # the zone moves it out of the calendar
                return None
        case dt.date():
            return value.toordinal()
        case np.datetime64():
            return int(days_since_epoch(np.asarray([value]))[0]) + EPOCH
        case str():
            return _ordinal_of_text(value)
        case _:
            return None


def _ordinal_of_text(text: str) -> int | None:
    day = _DAY.search(text) if _matches_rule(_DATE, text) else None
    try:
        return None if day is None else dt.date.fromisoformat(day.group()).toordinal()
    except ValueError:
        return None


def _moment_code(attribute: Timestamp, seconds: int) -> int | None:
    code = (seconds - seconds_since_epoch(attribute.lower)) // attribute.step
    return code if 0 <= code < attribute.size else None


def _seconds(value: object) -> int | None:
    """Return the whole seconds since 1970 of a time, or of the first moment of a day."""
    match value:
        case dt.datetime():
            try:
                return seconds_since_epoch(value)
            except OverflowError:  # the zone moves it out of the calendar
                return None
        case np.datetime64():
            return int(seconds_of_numpy(np.asarray([value]))[0])
        case str():
            day, time = _ordinal_of_text(value), _CLOCK.search(value)
            if day is None:
                return None
            parts = ("00:00" if time is None else time.group()).split(":")
            hours, minutes, seconds = (int(part) for part in (*parts, "0")[:3])
            return (day - EPOCH) * DAY_SECONDS + hours * 3600 + minutes * 60 + seconds
        case _:
            days = _ordinal(value)
            return None if days is None else (days - EPOCH) * DAY_SECONDS


def read_boolean(text: str) -> bool | None:
    """Return what a text means as a boolean, in a column or in a question; None if it means neither.

    >>> read_boolean("Yes"), read_boolean("N"), read_boolean("off")
    (True, False, None)
    """
    return True if _matches_rule(_TRUE, text) else False if _matches_rule(_FALSE, text) else None


def _boolean(value: object) -> int | None:
    match value:
        case str():
            truth = read_boolean(value)
            return None if truth is None else int(truth)
        case np.timedelta64():
            return None
        case bool() | np.bool_() | Real() | Decimal():
            double = _double(value)
            return 1 if double == 1 else 0 if double == 0 else None
        case _:
            return None


# --- Encoding: from the raw values of a column to the codes of its cells. Every value gets exactly one. ---


Codes = NDArray[np.int64]
RawColumn = Sequence[object] | NDArray[Any]
_BLOCK = 2**16  # rows at a time, so that intermediate results stay in the processor's cache


def encode(attribute: Attribute, values: RawColumn) -> Codes:
    """Return the code of each value.

    >>> from dodona.schema.attributes import Integer
    >>> encode(Integer("age", 0, 110), [65, 200, None, "30", "unknown"]).tolist()
    [65, 110, 111, 30, 112]
    """
    column = _as_array(values)
    hidden = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    column = np.asarray(column)
    codes = np.empty(column.shape, dtype=np.int64)
    block = _choose_encoder(attribute, column.dtype)
    for start in range(0, len(column), _BLOCK):
        here = slice(start, start + _BLOCK)
        codes[here] = block(attribute, column[here])
    if hidden is not None:
        codes[hidden] = fallback_codes(attribute)[0]
    return codes


def _as_array(values: RawColumn) -> NDArray[Any]:
    """Return the values as an array that preserves their types: numpy would turn [1, "a"] into texts."""
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return np.fromiter(values, dtype=object, count=len(values))
    column = np.asanyarray(values)
    if column.ndim != 1:
        raise InvalidArgument("values", column.shape, "write one column")
    return column.astype(object) if column.dtype.kind == "T" else column


def _choose_encoder(attribute: Attribute, dtype: np.dtype[Any]) -> Callable[[Any, NDArray[Any]], Codes]:  # noqa: PLR0911  a table
    """Return the encoder for values of one type."""
    match attribute, dtype.kind:
        case Integer(), "b" | "i" | "u":
            return _encode_integers
        case Integer() | Number(), "b" | "i" | "u" | "f":
            return _encode_numbers
        case Boolean(), "b" | "i" | "u" | "f":
            return _encode_booleans
        case Date(), "M":
            return _encode_dates
        case Timestamp(), "M":
            return _encode_moments
        case Category(), "O":
            return _encode_labels
        case _, "O":
            return _encode_objects
        case _, "U":
            return _encode_texts
        case _:
            return _encode_all_outside


def _encode_integers(attribute: Integer, values: NDArray[Any]) -> Codes:
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(2**63 - 1))
    codes: Codes = np.clip(values.astype(np.int64), attribute.lower, attribute.upper)
    codes -= attribute.lower
    return codes


def _encode_numbers(attribute: Integer | Number, values: NDArray[Any]) -> Codes:
    with np.errstate(all="ignore"):
        doubles: Doubles = values.astype(np.float64)
        if isinstance(attribute, Integer):
            steps = np.floor(doubles) - attribute.lower  # exact between bounds of at most 2^53
        else:
            steps = np.floor((doubles - float(attribute.lower)) / float(attribute.step) + GRID_SLACK)
        steps = np.clip(steps, 0, attribute.size - 1)
    steps[np.isnan(steps)] = fallback_codes(attribute)[0]
    codes: Codes = steps.astype(np.int64)
    return codes


def _encode_booleans(attribute: Boolean, values: NDArray[Any]) -> Codes:
    missing, outside = fallback_codes(attribute)
    codes = np.where(values == 1, 1, np.where(values == 0, 0, outside))
    codes[np.isnan(values)] = missing
    return codes


def _encode_dates(attribute: Date, values: NDArray[Any]) -> Codes:
    codes = days_since_epoch(values) - (attribute.lower.toordinal() - EPOCH)
    missing, outside = fallback_codes(attribute)
    codes[(codes < 0) | (codes >= attribute.size)] = outside
    codes[np.isnat(values)] = missing
    return codes


def _encode_moments(attribute: Timestamp, values: NDArray[Any]) -> Codes:
    codes = (seconds_of_numpy(values) - seconds_since_epoch(attribute.lower)) // attribute.step
    missing, outside = fallback_codes(attribute)
    codes[(codes < 0) | (codes >= attribute.size)] = outside
    codes[np.isnat(values)] = missing
    return codes


def _encode_labels(attribute: Category, values: NDArray[Any]) -> Codes:
    """Look texts up in a table; other values take the slow path."""
    table = {text: code for code, text in enumerate(attribute.labels)}
    _, other = fallback_codes(attribute)
    codes = (
        table.get(value, other) if type(value) is str else encode_value(attribute, value) for value in values.tolist()
    )
    return np.fromiter(codes, dtype=np.int64, count=len(values))


def _encode_objects(attribute: Attribute, values: NDArray[Any]) -> Codes:
    """Encode one by one, but each distinct text of a block once."""
    known: dict[str, int] = {}
    codes = np.empty(len(values), dtype=np.int64)
    for place, value in enumerate(values.tolist()):
        code = known.get(value) if type(value) is str else None
        if code is None:
            code = encode_value(attribute, value)
            if type(value) is str:
                known[value] = code
        codes[place] = code
    return codes


def _encode_texts(attribute: Attribute, values: NDArray[Any]) -> Codes:
    """Encode each distinct text of a block once."""
    different, place = np.unique(values, return_inverse=True)
    codes = _choose_encoder(attribute, np.dtype(object))(attribute, different.astype(object))
    return codes[place]


def _encode_all_outside(attribute: Attribute, values: NDArray[Any]) -> Codes:
    """Return `<outside>` for values of a type that the attribute does not support."""
    missing, outside = fallback_codes(attribute)
    codes = np.full(len(values), outside, dtype=np.int64)
    if values.dtype.kind in "fc":
        codes[np.isnan(values)] = missing
    elif values.dtype.kind in "Mm":
        codes[np.isnat(values)] = missing
    return codes
