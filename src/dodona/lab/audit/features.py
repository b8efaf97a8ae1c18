"""Features of outputs: each turns a block of outputs into integer codes for the auditor.

Post-processing preserves privacy, so a feature can hide a fault but never create one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

Outputs = NDArray[np.generic]
"""A row, or a single number, for each run."""
Codes = NDArray[np.int64]

_WIDEST = 1 << 20  # codes of a number in a row stay within this, so that a few of them fit an integer


@dataclass(frozen=True, slots=True)
class Feature:
    """A named view of outputs."""

    name: str
    of: Callable[[Outputs], Codes]


def _value(outputs: Outputs) -> Codes:
    return np.floor(outputs.astype(np.float64)).astype(np.int64) if outputs.dtype.kind == "f" else outputs.astype("i8")


def _lowest_bit(outputs: Outputs) -> Codes:
    """Return the exponent of the lowest set bit; zero has none and gets a special code."""
    fraction, exponent = np.frexp(outputs.astype(np.float64))
    digits = np.ldexp(fraction, 53).astype(np.int64)
    lowest = digits & -digits
    place = np.frexp(lowest.astype(np.float64))[1]
    return np.where(digits == 0, 1 << 16, exponent.astype(np.int64) - 53 + place)


def _row(outputs: Outputs, *, reach: int) -> Codes:
    """Return one code for each row of numbers, clipped to `reach` in size."""
    width = 2 * reach + 1
    code = np.zeros(outputs.shape[0], dtype=np.int64)
    for column in outputs.reshape(outputs.shape[0], -1).T:
        code = code * width + np.clip(column.astype(np.int64), -reach, reach) + reach
    return code


def _compare(outputs: Outputs, *, at: tuple[int, ...]) -> Codes:
    powers: Codes = 1 << np.arange(len(at))
    code: Codes = ((outputs.astype(np.int64) >= np.array(at)) * powers).sum(axis=1)
    return code


def _difference(outputs: Outputs) -> Codes:
    rows = outputs.astype(np.int64)
    return rows[:, 0] - rows[:, 1]


def _column(outputs: Outputs, *, index: int) -> Codes:
    return outputs[:, index].astype(np.int64)


def _pattern(outputs: Outputs) -> Codes:
    return _row(outputs[:, :, 0], reach=1)


def _tally(outputs: Outputs, *, rising: tuple[bool, ...]) -> Codes:
    """Return how many of the rising queries were above, and how many of the others."""
    above = outputs[:, :, 0] == 1
    groups = np.array(rising)
    return _row(np.stack((above[:, groups].sum(axis=1), above[:, ~groups].sum(axis=1)), axis=1), reach=len(rising))


def _pattern_and_number(outputs: Outputs, *, index: int) -> Codes:
    """Return the pattern together with the number that the last positive released."""
    rows = outputs.astype(np.int64)
    runs, questions = rows.shape[:2]
    last = questions - 1 - (rows[:, ::-1, 0] == 1).argmax(axis=1)
    number = np.clip(rows[np.arange(runs), last, index], -_WIDEST, _WIDEST) + _WIDEST
    code: Codes = _pattern(outputs) * (2 * _WIDEST + 1) + number
    return code


VALUE = Feature("value", _value)
"""The answer itself; a double is rounded down."""
LOWEST_BIT = Feature("lowest bit", _lowest_bit)
"""The place of the lowest set bit, which exposes floating-point noise."""
DIFFERENCE = Feature("difference", _difference)
"""The difference of two answers: noise that is used twice cancels."""
INDEX = Feature("index", partial(_column, index=0))
"""Only the winner."""
PATTERN = Feature("pattern", _pattern)
"""Which queries were above the threshold, and where the mechanism halted."""
PATTERN_AND_GAP = Feature("pattern and gap", partial(_pattern_and_number, index=1))
PATTERN_AND_ANSWER = Feature("pattern and answer", partial(_pattern_and_number, index=2))


def pair(reach: int) -> Feature:
    """Return the feature of two successive answers, or an index and its gap, as one code."""
    return Feature("pair", partial(_row, reach=reach))


def comparison(*at: int) -> Feature:
    """Return the feature of which answers in a row are at least these."""
    return Feature("compared", partial(_compare, at=at))


def tally(rising: tuple[bool, ...]) -> Feature:
    """Return the feature of how many queries in each of two groups were above; long streams have too many patterns."""
    return Feature("tally", partial(_tally, rising=rising))
