"""Attributes: what a column may hold, as an ordered finite list of cells. All of it is declared, and public.

Every attribute has two cells more than it has values: `<missing>` for NULL and NaN, and `<outside>` for what is none of
the values. So each row lands in exactly one cell, whatever the data are.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, assert_never

MISSING = "<missing>"
OUTSIDE = "<outside>"
Label = str | int | bool | Fraction | datetime.date
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Category:
    """One of some texts; any other text is outside."""

    kind: ClassVar[str] = "category"
    name: str
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many values there are, without `<missing>` and `<outside>`."""
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number, drawn into its bounds; what is no number is outside."""

    kind: ClassVar[str] = "integer"
    name: str
    lower: int
    upper: int
    cuts: tuple[int, ...] | None = None
    """The first code of each declared bin."""

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.upper - self.lower + 1


@dataclass(frozen=True, slots=True)
class Number:
    """A number on a grid: code = floor((x - lower)/step) in IEEE doubles, drawn into the bounds; text is outside."""

    kind: ClassVar[str] = "number"
    name: str
    lower: Fraction
    upper: Fraction
    step: Fraction
    cuts: tuple[int, ...] | None = None
    """The first code of each declared bin."""

    @property
    def size(self) -> int:
        """How many points the grid has from lower to upper."""
        return int((self.upper - self.lower) / self.step) + 1


@dataclass(frozen=True, slots=True)
class Date:
    """A day; one before `lower` or after `upper` is outside."""

    kind: ClassVar[str] = "date"
    name: str
    lower: datetime.date
    upper: datetime.date
    cuts: tuple[int, ...] | None = None
    """The first code of each declared bin."""

    @property
    def size(self) -> int:
        """How many days there are."""
        return (self.upper - self.lower).days + 1


@dataclass(frozen=True, slots=True)
class Boolean:
    """False or true, in this order; text that is neither is outside."""

    kind: ClassVar[str] = "boolean"
    name: str

    @property
    def size(self) -> int:
        """Two."""
        return 2


Attribute = Category | Integer | Number | Date | Boolean


def cells(attribute: Attribute) -> int:
    """Return how many cells an attribute has, `<missing>` and `<outside>` being the last two."""
    return attribute.size + 2


def missing(attribute: Attribute) -> int:
    """Return the code of `<missing>`."""
    return attribute.size


def outside(attribute: Attribute) -> int:
    """Return the code of `<outside>`."""
    return attribute.size + 1


def label(attribute: Attribute, code: int) -> Label:
    """Return what a code stands for.

    >>> label(Integer("age", 0, 110), 65), label(Boolean("emergency"), 2)
    (65, '<missing>')
    """
    if code >= attribute.size:
        return MISSING if code == attribute.size else OUTSIDE
    match attribute:
        case Category(labels=labels):
            return labels[code]
        case Integer(lower=lower):
            return lower + code
        case Number(lower=least, step=step):
            return least + code * step
        case Date(lower=first):
            return first + code * _DAY
        case Boolean():
            return code == 1
        case _:
            assert_never(attribute)


def grid(attribute: Attribute) -> tuple[Fraction, Fraction] | None:
    """Return the value of code 0 and the step between codes; None where values are no numbers.

    A boolean counts as 0 and 1.

    >>> grid(Integer("age", 18, 110))
    (Fraction(18, 1), Fraction(1, 1))
    """
    match attribute:
        case Integer(lower=lower):
            return Fraction(lower), Fraction(1)
        case Number(lower=least, step=step):
            return least, step
        case Boolean():
            return Fraction(0), Fraction(1)
        case Category() | Date():
            return None
        case _:
            assert_never(attribute)
