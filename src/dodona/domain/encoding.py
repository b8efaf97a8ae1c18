"""Encoding: from the raw values of a column to the codes of its cells. Every value lands in exactly one.

This is the meaning that each backend's SQL is held to. Where an attribute has no `<missing>` and `<outside>`, both
stand for the value that `otherwise` names.

- None, NaN, NaT and masked values are `<missing>`, in every attribute.
- **Category**: a text that is exactly a label, no blanks taken away, no capitals changed; all else is outside. A number
  or a truth is never guessed to be a text.
- **Integer**: a number x becomes floor(x), drawn into the bounds; infinities too. True is 1.
- **Number**: floor((x - lower)/step) in IEEE doubles, lower and step being the doubles nearest to what was declared,
  drawn into 0 ... size - 1; infinities too. -0.0 is 0. True is 1.
- **Date**: a day, or the day of a time (of one with a zone: its day in UTC); outside where it is not in the bounds.
- **Boolean**: true and false, and the numbers 1 and 0; any other number is outside.
- Whole numbers and decimals of any size mean the double nearest to them, infinity where there is none.
- Text is read by the rules of `spelling`; text that they do not accept is outside, and so is any other type: a number
  in a column of dates, a day in one of numbers, bytes, lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dodona.domain.attribute import Attribute, Boolean, Category, Date, Integer, Number
from dodona.domain.value import EPOCH, code_of, days, landings
from dodona.errors import InvalidArgument

Codes = NDArray[np.int64]
_BLOCK = 2**16  # rows at a time, so that what a block passes through stays in the processor's cache


def encode(attribute: Attribute, values: Sequence[object] | NDArray[Any]) -> Codes:
    """Return the code of each value.

    >>> from dodona.domain.attribute import Integer
    >>> encode(Integer("age", 0, 110), [65, 200, None, "30", "unknown"]).tolist()
    [65, 110, 111, 30, 112]
    """
    column = _column(values)
    hidden = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    column = np.asarray(column)
    codes = np.empty(column.shape, dtype=np.int64)
    block = _way(attribute, column.dtype)
    for start in range(0, len(column), _BLOCK):
        here = slice(start, start + _BLOCK)
        codes[here] = block(attribute, column[here])
    if hidden is not None:
        codes[hidden] = landings(attribute)[0]
    return codes


def _column(values: Sequence[object] | NDArray[Any]) -> NDArray[Any]:
    """Return the values as an array that still tells their types apart: numpy would turn [1, "a"] into texts."""
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return np.fromiter(values, dtype=object, count=len(values))
    column = np.asanyarray(values)
    if column.ndim != 1:
        raise InvalidArgument("values", column.shape, "write one column")
    return column.astype(object) if column.dtype.kind == "T" else column


def _way(attribute: Attribute, dtype: np.dtype[Any]) -> Callable[[Any, NDArray[Any]], Codes]:  # noqa: PLR0911  a table
    """Return how to encode values of one type."""
    match attribute, dtype.kind:
        case Integer(), "b" | "i" | "u":
            return _whole_numbers
        case Integer() | Number(), "b" | "i" | "u" | "f":
            return _numbers
        case Boolean(), "b" | "i" | "u" | "f":
            return _truths
        case Date(), "M":
            return _dates
        case Category(), "O":
            return _labels
        case _, "O":
            return _objects
        case _, "U":
            return _texts
        case _:
            return _elsewhere


def _whole_numbers(attribute: Integer, values: NDArray[Any]) -> Codes:
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(2**63 - 1))
    codes: Codes = np.clip(values.astype(np.int64), attribute.lower, attribute.upper)
    codes -= attribute.lower
    return codes


def _numbers(attribute: Integer | Number, values: NDArray[Any]) -> Codes:
    with np.errstate(all="ignore"):
        doubles: NDArray[np.float64] = values.astype(np.float64)
        if isinstance(attribute, Integer):
            steps = np.floor(doubles) - attribute.lower  # exact between bounds of at most 2^53
        else:
            steps = np.floor((doubles - float(attribute.lower)) / float(attribute.step))
        steps = np.clip(steps, 0, attribute.size - 1)
    steps[np.isnan(steps)] = landings(attribute)[0]
    codes: Codes = steps.astype(np.int64)
    return codes


def _truths(attribute: Boolean, values: NDArray[Any]) -> Codes:
    missing, outside = landings(attribute)
    codes = np.where(values == 1, 1, np.where(values == 0, 0, outside))
    codes[np.isnan(values)] = missing
    return codes


def _dates(attribute: Date, values: NDArray[Any]) -> Codes:
    codes = days(values) - (attribute.lower.toordinal() - EPOCH)
    missing, outside = landings(attribute)
    codes[(codes < 0) | (codes >= attribute.size)] = outside
    codes[np.isnat(values)] = missing
    return codes


def _labels(attribute: Category, values: NDArray[Any]) -> Codes:
    """Look texts up in a table; what is no text goes the slow way."""
    table = {text: code for code, text in enumerate(attribute.labels)}
    _, other = landings(attribute)
    found = (table.get(value, other) if type(value) is str else code_of(attribute, value) for value in values.tolist())
    return np.fromiter(found, dtype=np.int64, count=len(values))


def _objects(attribute: Attribute, values: NDArray[Any]) -> Codes:
    """Encode one by one, but each text of a block once."""
    known: dict[str, int] = {}
    codes = np.empty(len(values), dtype=np.int64)
    for place, value in enumerate(values.tolist()):
        if type(value) is str:
            code = known.get(value)
            if code is None:
                code = known[value] = code_of(attribute, value)
        else:
            code = code_of(attribute, value)
        codes[place] = code
    return codes


def _texts(attribute: Attribute, values: NDArray[Any]) -> Codes:
    """Encode each text of a block once, however often it occurs."""
    different, place = np.unique(values, return_inverse=True)
    codes = _way(attribute, np.dtype(object))(attribute, different.astype(object))
    return codes[place]


def _elsewhere(attribute: Attribute, values: NDArray[Any]) -> Codes:
    """Return `<outside>` for values of a type that the attribute does not have."""
    missing, outside = landings(attribute)
    codes = np.full(len(values), outside, dtype=np.int64)
    if values.dtype.kind in "fc":
        codes[np.isnan(values)] = missing
    elif values.dtype.kind in "Mm":
        codes[np.isnat(values)] = missing
    return codes
