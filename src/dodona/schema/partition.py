"""Partitions: the cells of one attribute, grouped for GROUP BY.

Groups are runs of adjacent codes; `<missing>` and `<outside>` remain separate groups.
"""

import calendar
import datetime as dt
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

import numpy as np

from dodona.errors import InvalidArgument
from dodona.numbers import Integers, format_decimal
from dodona.schema import attributes as kinds


@dataclass(frozen=True, slots=True)
class Partition:
    """Groups of adjacent codes of an attribute, each identified by its first code."""

    attribute: str
    size: int
    """The number of values of the attribute."""
    cuts: tuple[int, ...] = field(hash=False)
    """The first code of each group, ascending from 0; there may be millions, so they are not hashed."""
    further: int = field(default=2, hash=False)
    """The number of additional groups: `<missing>` and `<outside>`, or none."""
    groups: int = field(init=False, repr=False, compare=False, hash=True)
    """The number of groups, including `<missing>` and `<outside>` if the attribute has them."""
    cells: int = field(init=False, repr=False, compare=False)
    """The number of cells of the attribute."""
    single: bool = field(init=False, repr=False, compare=False)
    """Whether each value is its own group, so that group numbers equal codes."""

    def __post_init__(self) -> None:
        """Refuse groups that miss a value or overlap."""
        firsts = np.asarray(self.cuts, dtype=np.int64)
        if not firsts.size or firsts[0] != 0 or firsts[-1] >= self.size or np.any(firsts[1:] <= firsts[:-1]):
            accepted = f"write the first code of each group: 0, then rising, < {self.size}"
            raise InvalidArgument("cuts", self.cuts, accepted)
        if self.further not in {0, 2}:
            raise InvalidArgument("further", self.further, "write 2, or 0 where the attribute has no such cells")
        groups, cells = len(self.cuts) + self.further, self.size + self.further
        kinds.set_fields(self, groups=groups, cells=cells, single=len(self.cuts) == self.size)

    @classmethod
    def of(cls, attribute: kinds.Attribute) -> Self:
        """Return the declared bins, or one group per value if none are declared."""
        cuts = None if isinstance(attribute, kinds.Category | kinds.Boolean) else attribute.starts
        firsts = tuple(range(attribute.size)) if cuts is None else cuts
        return cls.cut(attribute, firsts)

    @classmethod
    def every(cls, attribute: kinds.Attribute, width: int) -> Self:
        """Return groups of `width` adjacent codes; the last one may be smaller."""
        if width < 1:
            raise InvalidArgument("width", width, "write a whole number from 1")
        return cls.cut(attribute, tuple(range(0, attribute.size, width)))

    @classmethod
    def cut(cls, attribute: kinds.Attribute, cuts: tuple[int, ...]) -> Self:
        """Return the groups that begin at these codes."""
        return cls(attribute.name, attribute.size, cuts, attribute.cells - attribute.size)

    def table(self) -> Integers:
        """Return the group of each cell."""
        groups = np.searchsorted(np.asarray(self.cuts), np.arange(self.size), side="right") - 1
        return np.concatenate([groups, np.arange(len(self.cuts), self.groups)]).astype(np.int64)

    def span(self, group: int) -> tuple[int, int]:
        """Return the first code of a group and the code after its last."""
        if not 0 <= group < self.groups:
            raise InvalidArgument("group", group, f"write a group's number, from 0 to {self.groups - 1}")
        if group >= len(self.cuts):
            code = self.size + group - len(self.cuts)
            return code, code + 1
        after = self.cuts[group + 1] if group + 1 < len(self.cuts) else self.size
        return self.cuts[group], after


def group_label(partition: Partition, attribute: kinds.Attribute, group: int) -> kinds.Label:
    """Return the label of a group: the value of a single-value group, otherwise the span as people write it.

    >>> from dodona.schema.attributes import Integer
    >>> age = Integer("age", 0, 110)
    >>> group_label(Partition.every(age, 20), age, 1)
    '20 to 39'
    """
    first, after = partition.span(group)
    if group >= len(partition.cuts):
        return kinds.MISSING if group == len(partition.cuts) else kinds.OUTSIDE
    low = kinds.code_label(attribute, first)
    if after == first + 1:
        return low
    if isinstance(low, Fraction):
        high = kinds.code_label(attribute, min(after, partition.size - 1))
        end = format_decimal(high) if isinstance(high, Fraction) else high
        return f"[{format_decimal(low)}, {end}{']' if after == partition.size else ')'}"
    high = kinds.code_label(attribute, after - 1)
    if isinstance(attribute, kinds.Timestamp) and isinstance(low, dt.datetime) and isinstance(high, dt.datetime):
        last = high + dt.timedelta(seconds=attribute.step)
        whole = low.time() == last.time() == dt.time()
        return _date_span_label(low.date(), (last - dt.timedelta(days=1)).date()) if whole else f"{low} to {last}"
    if isinstance(low, dt.date) and isinstance(high, dt.date):
        return _date_span_label(low, high)
    return f"{low} to {high}"


def _date_span_label(first: dt.date, last: dt.date) -> str:
    """Return 2024, 2024-Q1, 2024-03 or both days, whichever is the whole span."""
    if first.day == 1 and first.year == last.year and last.day == calendar.monthrange(last.year, last.month)[1]:
        match first.month, last.month:
            case 1, 12:
                return f"{first.year:04}"
            case (1, 3) | (4, 6) | (7, 9) | (10, 12):
                return f"{first.year:04}-Q{last.month // 3}"
            case month, same if month == same:
                return f"{first.year:04}-{month:02}"
    return f"{first} to {last}" if first != last else f"{first}"
