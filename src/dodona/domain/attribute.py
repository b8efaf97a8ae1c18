"""Attributes: what a column may hold, as an ordered finite list of cells. All of it is declared, and public.

An attribute has two cells more than it has values: `<missing>` for NULL and NaN, and `<outside>` for what is none of
the values. Where `otherwise` names a value, both count as that one, and there are no cells but the values. So each row
lands in exactly one cell, whatever the data are; `encoding.encode` says in which.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, assert_never

from dodona.domain import declaration
from dodona.domain.naming import checked_name, checked_source
from dodona.domain.plain import plain
from dodona.errors import InvalidArgument
from dodona.exact import Exact, exact, shown, whole

MISSING, OUTSIDE = declaration.RESERVED
MOST_VALUES = 2**24
"""How many values an attribute may have."""
Label = str | int | bool | Fraction | dt.date
_DAY = dt.timedelta(days=1)
_WIDEST_INTEGER = 2**53  # whole numbers up to here are doubles, so text, double and integer columns mean the same
_WIDEST_NUMBER = Fraction(10**15)
_FINEST_STEP = Fraction(1, 10**12)
_FINEST_GRID = 2**44  # a double has 53 bits: nine are left to place a value between two neighbours on the grid


@dataclass(frozen=True, slots=True, init=False)
class Category:
    """One of some texts; any other text is outside, or counts as `otherwise`.

    >>> Category("sex", ["female", "male", "other"]).size
    3
    """

    kind: ClassVar[str] = "category"
    name: str
    labels: tuple[str, ...]
    otherwise: str | None
    """What anything else counts as, NULL too; None where there are `<missing>` and `<outside>`."""
    source: str | None
    """The column's name in the data, where it is another one; `column_of` returns it."""
    landing: int | None = field(init=False, repr=False, compare=False)
    """The code of `otherwise`."""

    def __init__(
        self, name: str, labels: Iterable[str], *, otherwise: str | None = None, source: str | None = None
    ) -> None:
        """Take labels that are printable, differ, and are not the names of the two further cells."""
        object.__setattr__(self, "name", checked_name(name, argument="name"))
        object.__setattr__(self, "labels", (labels,) if isinstance(labels, str) else tuple(labels))
        if isinstance(labels, str) or not 1 <= len(self.labels) <= MOST_VALUES:
            raise InvalidArgument("labels", labels, f"write a list of 1 to {shown(Fraction(MOST_VALUES))} texts")
        for index, wrong in declaration.label_faults(self.labels):
            raise InvalidArgument(f"labels[{index}]", self.labels[index], wrong)
        _fill(self, landing=declaration.label_code(otherwise, labels=self.labels), otherwise=otherwise)
        _fill(self, source=checked_source(source, name=self.name))

    def __hash__(self) -> int:
        """Return that of the name: labels may be thousands, and attributes are looked up all the time."""
        return hash(self.name)

    @property
    def size(self) -> int:
        """How many values there are, without `<missing>` and `<outside>`."""
        return len(self.labels)


@dataclass(frozen=True, slots=True, init=False)
class Integer:
    """A whole number, drawn into its bounds; what is no number is outside, or counts as `otherwise`."""

    kind: ClassVar[str] = "integer"
    name: str
    lower: int
    upper: int
    bins: tuple[int, ...] | None = field(compare=False)
    """The edges of the declared groups, from lower to upper."""
    otherwise: int | None
    source: str | None
    landing: int | None = field(init=False, repr=False, compare=False)
    starts: tuple[int, ...] | None = field(init=False, repr=False)
    """The first code of each bin."""

    def __init__(  # noqa: PLR0913  what an integer has
        self,
        name: str,
        lower: int,
        upper: int,
        bins: Iterable[Exact] | None = None,
        *,
        otherwise: int | None = None,
        source: str | None = None,
    ) -> None:
        """Take whole bounds, the lower one first, and bins by their edges.

        >>> Integer("age", 0, 110, bins=[0, 18, 65, 110]).starts
        (0, 18, 65)
        """
        least = whole(lower, argument="lower", lower=-_WIDEST_INTEGER, upper=_WIDEST_INTEGER)
        most = whole(upper, argument="upper", lower=-_WIDEST_INTEGER, upper=_WIDEST_INTEGER)
        _fill(self, name=checked_name(name, argument="name"), lower=least, upper=most)
        if most <= least:
            raise InvalidArgument("upper", upper, f"write a whole number above lower = {least}")
        if self.size > MOST_VALUES:
            raise InvalidArgument("upper", upper, f"write at most {least + MOST_VALUES - 1}: 2^24 values are allowed")
        code = declaration.number_code(otherwise, lower=Fraction(least), step=Fraction(1), size=self.size)
        _fill(self, landing=code, otherwise=None if code is None else least + code)
        _divide(self, bins)
        _fill(self, source=checked_source(source, name=self.name))

    def __hash__(self) -> int:
        """Return that of the name."""
        return hash(self.name)

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.upper - self.lower + 1


@dataclass(frozen=True, slots=True, init=False)
class Number:
    """A number on a grid: code = floor((x - lower)/step) in IEEE doubles, drawn into its bounds, or outside.

    Both bounds are on the grid. A grid whose points are no doubles puts some of them into the cell before theirs:
    in doubles, 0.3/0.1 is less than 3. Steps of 1, 1/2, 1/4 ... from a bound that is a double are exact.

    >>> Number("stay", 0, 365, "0.25").size
    1461
    """

    kind: ClassVar[str] = "number"
    name: str
    lower: Fraction
    upper: Fraction
    step: Fraction
    bins: tuple[Fraction, ...] | None = field(compare=False)
    """The edges of the declared groups, from lower to upper."""
    otherwise: Fraction | None
    source: str | None
    landing: int | None = field(init=False, repr=False, compare=False)
    starts: tuple[int, ...] | None = field(init=False, repr=False)
    """The first code of each bin."""

    def __init__(  # noqa: PLR0913  what a grid has
        self,
        name: str,
        lower: Exact,
        upper: Exact,
        step: Exact,
        bins: Iterable[Exact] | None = None,
        *,
        otherwise: Exact | None = None,
        source: str | None = None,
    ) -> None:
        """Take exact bounds, the lower one first, that are a whole number of steps apart, and bins by their edges."""
        least = exact(lower, argument="lower", lower=-_WIDEST_NUMBER, upper=_WIDEST_NUMBER)
        most = exact(upper, argument="upper", lower=-_WIDEST_NUMBER, upper=_WIDEST_NUMBER)
        width = exact(step, argument="step", lower=_FINEST_STEP, upper=_WIDEST_NUMBER)
        _fill(self, name=checked_name(name, argument="name"), lower=least, upper=most, step=width)
        if most <= least:
            raise InvalidArgument("upper", upper, f"write a number above lower = {plain(least)}")
        steps = (most - least) / width
        if steps > MOST_VALUES - 1:
            finest = plain((most - least) / (MOST_VALUES - 1), digits=3)
            raise InvalidArgument("step", step, f"write {finest} or more: 2^24 values are allowed")
        if max(abs(least), abs(most)) / width > _FINEST_GRID:
            raise InvalidArgument("step", step, "write a larger step: doubles near the bounds cannot tell it apart")
        if steps.denominator != 1:
            nearest = plain(least + max(round(steps), 1) * width)
            accepted = f"lower and upper must be whole steps of {plain(width)} apart; the nearest upper is {nearest}"
            raise InvalidArgument("upper", upper, accepted)
        code = declaration.number_code(otherwise, lower=least, step=width, size=self.size)
        _fill(self, landing=code, otherwise=None if code is None else least + code * width)
        _divide(self, bins)
        _fill(self, source=checked_source(source, name=self.name))

    def __hash__(self) -> int:
        """Return that of the name."""
        return hash(self.name)

    @property
    def size(self) -> int:
        """How many points the grid has from lower to upper."""
        return int((self.upper - self.lower) / self.step) + 1


@dataclass(frozen=True, slots=True, init=False)
class Date:
    """A day; one before `lower` or after `upper` is outside, or counts as `otherwise`."""

    kind: ClassVar[str] = "date"
    name: str
    lower: dt.date
    upper: dt.date
    bins: str | tuple[dt.date, ...] | None = field(compare=False)
    """The edges of the declared groups, from lower to upper, or their name: `month`."""
    otherwise: dt.date | None
    source: str | None
    landing: int | None = field(init=False, repr=False, compare=False)
    starts: tuple[int, ...] | None = field(init=False, repr=False)
    """The first code of each bin."""

    def __init__(  # noqa: PLR0913  what a date has
        self,
        name: str,
        lower: dt.date,
        upper: dt.date,
        bins: str | Iterable[dt.date] | None = None,
        *,
        otherwise: dt.date | None = None,
        source: str | None = None,
    ) -> None:
        """Take two days, the lower one first, and bins: `month` or another word of the calendar, or their edges."""
        first, last = _day(lower, argument="lower"), _day(upper, argument="upper")
        _fill(self, name=checked_name(name, argument="name"), lower=first, upper=last)
        if last <= first:
            raise InvalidArgument("upper", upper, f"write a day after lower = {first}")
        code = declaration.day_code(otherwise, lower=first, upper=last)
        _fill(self, landing=code, otherwise=None if code is None else first + code * _DAY)
        _divide(self, bins)
        _fill(self, source=checked_source(source, name=self.name))

    def __hash__(self) -> int:
        """Return that of the name."""
        return hash(self.name)

    @property
    def size(self) -> int:
        """How many days there are."""
        return (self.upper - self.lower).days + 1


@dataclass(frozen=True, slots=True, init=False)
class Boolean:
    """False or true, in this order; what is neither is outside, or counts as `otherwise`.

    >>> cells(Boolean("urgent")), cells(Boolean("urgent", otherwise=False))
    (4, 2)
    """

    kind: ClassVar[str] = "boolean"
    name: str
    otherwise: bool | None
    source: str | None
    landing: int | None = field(init=False, repr=False, compare=False)

    def __init__(self, name: str, *, otherwise: bool | None = None, source: str | None = None) -> None:
        """Take a name."""
        code = declaration.truth_code(otherwise)
        _fill(
            self, name=checked_name(name, argument="name"), landing=code, otherwise=None if code is None else code == 1
        )
        _fill(self, source=checked_source(source, name=self.name))

    def __hash__(self) -> int:
        """Return that of the name."""
        return hash(self.name)

    @property
    def size(self) -> int:
        """Two."""
        return 2


Attribute = Category | Integer | Number | Date | Boolean


def column_of(attribute: Attribute) -> str:
    """Return the name that a column has in the data.

    >>> column_of(Integer("age", 0, 110)), column_of(Integer("age", 0, 110, source="Age (years)"))
    ('age', 'Age (years)')
    """
    return attribute.name if attribute.source is None else attribute.source


def further(attribute: Attribute) -> int:
    """Return how many cells there are beyond the values: `<missing>` and `<outside>`, or none."""
    return 2 if attribute.landing is None else 0


def cells(attribute: Attribute) -> int:
    """Return how many cells an attribute has; `<missing>` and `<outside>` are the last two where there are any."""
    return attribute.size + 2 if attribute.landing is None else attribute.size


def missing(attribute: Attribute) -> int | None:
    """Return the code of `<missing>`; None where there is no such cell."""
    return attribute.size if attribute.landing is None else None


def outside(attribute: Attribute) -> int | None:
    """Return the code of `<outside>`; None where there is no such cell."""
    return attribute.size + 1 if attribute.landing is None else None


def label(attribute: Attribute, code: int) -> Label:
    """Return what a code stands for.

    >>> label(Integer("age", 0, 110), 65), label(Boolean("emergency"), 2)
    (65, '<missing>')
    """
    if not 0 <= code < cells(attribute):
        raise InvalidArgument("code", code, f"write a code of {attribute.name}, from 0 to {cells(attribute) - 1}")
    if code >= attribute.size:
        return MISSING if code == attribute.size else OUTSIDE
    match attribute:
        case Category(labels=labels):
            return labels[code]
        case Integer(lower=lower):
            return lower + int(code)
        case Number(lower=least, step=step):
            return least + int(code) * step
        case Date(lower=first):
            return first + int(code) * _DAY
        case Boolean():
            return bool(code == 1)
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


def _day(value: object, *, argument: str) -> dt.date:
    day = declaration.day_of(value)
    if day is None:
        raise InvalidArgument(argument, value, "write a day, such as datetime.date(2024, 1, 31)")
    return day


def _divide(attribute: Integer | Number | Date, bins: str | Iterable[object] | None) -> None:
    """Set the declared groups of an attribute that has its grid already."""
    from dodona.domain.bins import edges_of, starts_of  # which looks at attributes itself

    starts = None if bins is None else starts_of(attribute, bins if isinstance(bins, str) else tuple(bins))
    shown_as = bins if isinstance(bins, str) and starts is not None else edges_of(attribute, starts)
    _fill(attribute, starts=starts, bins=shown_as)


def _fill(attribute: Attribute, **fields: object) -> None:
    """Set fields of a frozen value that is being made."""
    for name, value in fields.items():
        object.__setattr__(attribute, name, value)
