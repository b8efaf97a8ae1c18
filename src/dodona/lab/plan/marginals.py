"""A workload of marginals: counts of all combinations of values, for all choices of `ways` columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dodona.errors import InvalidArgument
from dodona.numbers import to_integer
from dodona.privacy.accuracy import validate_count

_MOST_COLUMNS = 400
_MOST_VALUES = 10**6


@dataclass(frozen=True, slots=True, init=False)
class Marginals:
    """All marginals of `ways` columns each.

    >>> Marginals([2] * 10, ways=3).number, Marginals([2] * 10, ways=3).questions
    (120, 960)
    """

    columns: tuple[int, ...]
    """The number of values of each column."""
    ways: int
    """The number of columns in a marginal."""

    def __init__(self, columns: Sequence[int], *, ways: int) -> None:
        """Accept columns of two values or more, and from one of them to all in a marginal."""
        sizes = tuple(to_integer(size, argument="columns", lower=2, upper=_MOST_VALUES) for size in columns)
        if not 1 <= len(sizes) <= _MOST_COLUMNS:
            accepted = f"write from 1 to {_MOST_COLUMNS} columns, each by its number of values, such as 2,2,5"
            raise InvalidArgument("columns", len(sizes), accepted)
        object.__setattr__(self, "columns", sizes)
        object.__setattr__(self, "ways", validate_count(ways, argument="ways", upper=len(sizes)))

    @property
    def number(self) -> int:
        """The number of marginals."""
        return math.comb(len(self.columns), self.ways)

    @property
    def cells(self) -> int:
        """The number of cells of all columns together."""
        return math.prod(self.columns)

    @property
    def questions(self) -> int:
        """The number of counts of all marginals together."""
        sums = [1] + [0] * self.ways  # the elementary symmetric polynomials of the columns so far
        for values in self.columns:
            for size in range(self.ways, 0, -1):
                sums[size] += values * sums[size - 1]
        return sums[self.ways]
