"""A partition: the cells of one attribute, grouped for GROUP BY; `<missing>` and `<outside>` stay groups of their own."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Self

import numpy as np

from dodona.domain.attribute import MISSING, OUTSIDE, Attribute, Boolean, Category, Label, cells, label

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Partition:
    """Groups of neighbouring codes of an attribute, each named by its first code."""

    attribute: str
    size: int
    """How many values the attribute has."""
    cuts: tuple[int, ...]
    """The first code of each group, beginning with 0 and rising."""

    @classmethod
    def of(cls, attribute: Attribute) -> Self:
        """Return the declared bins, or one group for each value where none are declared."""
        cuts = None if isinstance(attribute, Category | Boolean) else attribute.cuts
        return cls(attribute.name, attribute.size, tuple(range(attribute.size)) if cuts is None else cuts)

    @classmethod
    def every(cls, attribute: Attribute, width: int) -> Self:
        """Return groups of `width` neighbouring codes; the last one may be smaller."""
        return cls(attribute.name, attribute.size, tuple(range(0, attribute.size, width)))

    @property
    def groups(self) -> int:
        """How many groups there are, with `<missing>` and `<outside>`."""
        return len(self.cuts) + 2

    @property
    def single(self) -> bool:
        """Whether each value is a group of its own, so that a group's number is its code."""
        return len(self.cuts) == self.size

    def table(self) -> NDArray[np.int64]:
        """Return the group of each cell."""
        found = np.searchsorted(np.asarray(self.cuts), np.arange(self.size), side="right") - 1
        return np.concatenate([found, [len(self.cuts), len(self.cuts) + 1]]).astype(np.int64)

    def span(self, group: int) -> tuple[int, int]:
        """Return the first code of a group and the one after its last."""
        if group >= len(self.cuts):
            code = self.size + group - len(self.cuts)
            return code, code + 1
        after = self.cuts[group + 1] if group + 1 < len(self.cuts) else self.size
        return self.cuts[group], after


def group_label(partition: Partition, attribute: Attribute, group: int) -> Label:
    """Return the name of a group: the value itself where it is single, else the span as people write it.

    >>> from dodona.domain.attribute import Integer
    >>> age = Integer("age", 0, 110)
    >>> group_label(Partition.every(age, 20), age, 1)
    '20 to 39'
    """
    first, after = partition.span(group)
    if group >= len(partition.cuts):
        return MISSING if group == len(partition.cuts) else OUTSIDE
    low = label(attribute, first)
    if after == first + 1:
        return low
    if isinstance(low, Fraction):
        high = label(attribute, after) if after < partition.size else label(attribute, after - 1)
        closing = ")" if after < partition.size else "]"
        return f"[{_plain(low)}, {_plain(high)}{closing}"
    last = label(attribute, after - 1)
    if isinstance(low, datetime.date) and isinstance(last, datetime.date):
        return _span(low, last)
    return f"{low} to {last}"


def checked(attribute: Attribute, code: int) -> int:
    """Return a code that the attribute has."""
    if not 0 <= code < cells(attribute):
        raise IndexError(code)
    return code


def _plain(value: Label) -> str:
    """Return a number as people write it."""
    if isinstance(value, Fraction) and value.denominator != 1:
        return f"{float(value):.12g}"
    return str(value)


def _span(first: datetime.date, last: datetime.date) -> str:
    """Return 2024, 2024-03 or both days, whichever is the whole span."""
    after = last + datetime.timedelta(days=1)
    if first.day == after.day == 1:
        if first.month == after.month == 1 and after.year == first.year + 1:
            return f"{first.year}"
        if (after.year - first.year) * 12 + after.month - first.month == 1:
            return f"{first:%Y-%m}"
    return f"{first} to {last}"
