"""Validation of the parameters of a certificate."""

from __future__ import annotations

import math
from numbers import Real

from dodona.errors import InvalidArgument
from dodona.privacy.accuracy import validate_count

MOST_ROWS = 10**9
MOST_QUERIES = 10**9


def rows_of(value: int) -> int:
    """Return the number of sampled rows, if valid."""
    return validate_count(value, argument="rows", upper=MOST_ROWS)


def queries_of(value: int) -> int:
    """Return the number of queries, if valid."""
    return validate_count(value, argument="queries", upper=MOST_QUERIES)


def positive(value: float, *, argument: str) -> float:
    """Return a finite number above 0, if it is one."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise InvalidArgument(argument, value, "write a number above 0")
    return float(value)


def share(value: float, *, argument: str) -> float:
    """Return a number from 0 to 1, if it is one."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise InvalidArgument(argument, value, "write a number from 0 to 1")
    return float(value)


def chance(value: float, *, argument: str) -> float:
    """Return a probability strictly between 0 and 1, if it is one."""
    if not _is_number(value) or not 0 < value < 1:
        raise InvalidArgument(argument, value, "write a number between 0 and 1, such as 0.05")
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
