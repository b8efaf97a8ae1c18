"""Attributes: the declared type, bounds, bins and labels of a column.

An attribute turns a column into an ordered, finite list of cells. Everything in it is declared by the data owner and
public. Constructors validate their arguments, so an attribute that exists is valid.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, TypeGuard, assert_never

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, Integers, format_decimal, format_fraction, to_fraction, to_integer
from dodona.schema.moments import moment_code, moment_starts, step_seconds, to_moment
from dodona.schema.names import validate_name, validate_source_name

# --- Declarations: validation of what an owner declares about a column, before the attribute is built. ---


RESERVED_LABELS = ("<missing>", "<outside>")
"""The names of the two cells that are not values."""
_LONGEST_LABEL = 200
_LARGEST_WRITTEN = Fraction(2**64)
_MOST_SHOWN = 10


def find_label_errors(labels: Iterable[object]) -> Iterator[tuple[int, str]]:
    """Yield the position of each invalid label and how to fix it."""
    seen = set[str]()
    for index, text in enumerate(labels):
        if not isinstance(text, str) or not text.isprintable() or not 0 < len(text) <= _LONGEST_LABEL:
            yield index, f"write a printable text of 1 to {_LONGEST_LABEL} characters"
        elif text in RESERVED_LABELS:
            yield index, "leave it out: this cell is always there"
        elif text in seen:
            yield index, "write each label once"
        else:
            seen.add(text)


def label_code(value: object, *, labels: tuple[str, ...]) -> int | None:
    """Return the position of a label.

    >>> label_code("other", labels=("female", "male", "other"))
    2
    """
    if value is None:
        return None
    if len(labels) == 1:
        raise _invalid_value(value, "leave it out, or write two labels or more: each row would have the only one")
    if not isinstance(value, str) or value not in labels:
        more = "" if len(labels) <= _MOST_SHOWN else f" and {len(labels) - _MOST_SHOWN} more"
        listed = ", ".join(f"'{label}'" for label in labels[:_MOST_SHOWN])
        raise _invalid_value(value, f"write one of the labels: {listed}{more}")
    return labels.index(value)


def number_code(value: object, *, lower: Fraction, step: Fraction, size: int) -> int | None:
    """Return the position of a number on a column's grid."""
    if value is None:
        return None
    try:
        number = to_fraction(value, argument="otherwise", lower=-_LARGEST_WRITTEN, upper=_LARGEST_WRITTEN)  # type: ignore[arg-type]
        steps = (number - lower) / step
    except InvalidArgument:
        steps = Fraction(-1)
    if steps.denominator != 1 or not 0 <= steps < size:
        kind = "whole number" if step.denominator == lower.denominator == 1 else "number"
        grid = "" if step == 1 else f" in steps of {format_decimal(step)}"
        upper = lower + (size - 1) * step
        raise _invalid_value(value, f"write a {kind} from {format_decimal(lower)} to {format_decimal(upper)}{grid}")
    return int(steps)


def date_code(value: object, *, lower: dt.date, upper: dt.date) -> int | None:
    """Return the number of days from the first day to a date."""
    if value is None:
        return None
    day = to_date(value)
    if day is None or not lower <= day <= upper:
        raise _invalid_value(value, f"write a day from {lower} to {upper}")
    return (day - lower).days


def to_date(value: object) -> dt.date | None:
    """Convert to a date, including from numpy; None if it is not a date or has a time of day.

    >>> to_date(dt.date(2024, 1, 31)), to_date("2024-01-31"), to_date(dt.datetime(2024, 1, 31))
    (datetime.date(2024, 1, 31), None, None)
    """
    day = value.item() if _is_numpy(value, "datetime64") else value
    return day if isinstance(day, dt.date) and not isinstance(day, dt.datetime) else None


def boolean_code(value: object) -> int | None:
    """Return 1 for true and 0 for false."""
    if value is None:
        return None
    if not isinstance(value, bool) and not _is_numpy(value, "bool", "bool_"):
        raise _invalid_value(value, "write true or false")
    return int(value)


def _is_numpy(value: Any, *types: str) -> TypeGuard[Any]:  # noqa: ANN401  any value may be declared
    """Whether a value is a numpy scalar of one of these types, without loading numpy, which a client may not have."""
    return type(value).__module__ == "numpy" and type(value).__name__ in types


def _invalid_value(value: object, accepted: str) -> InvalidArgument:
    return InvalidArgument("otherwise", value, accepted)


# --- Attributes: the values of a column as an ordered, finite list of cells. All of it is declared and public. ---


MISSING, OUTSIDE = RESERVED_LABELS
GRID_SLACK = 2.0**-20
"""In steps: how far below a grid point of a number a value still counts as that point."""
MOST_VALUES = 2**24
"""The maximum number of values of an attribute."""
Label = str | int | bool | Fraction | dt.date
_DAY, _SECOND = dt.timedelta(days=1), dt.timedelta(seconds=1)
_WIDEST_INTEGER = 2**53  # integers up to here are doubles, so text, double and integer columns agree
_WIDEST_NUMBER = Fraction(10**15)
_FINEST_STEP = Fraction(1, 10**12)
_FINEST_GRID = 2**44  # a double has 53 bits: nine remain to place a value between two grid points


@dataclass(frozen=True, slots=True, init=False)
class _Cells:
    """The cells of an attribute: its values, then `<missing>` and `<outside>` unless `otherwise` is declared.

    Every attribute hashes by name only: there may be thousands of labels, and lookups are frequent.
    """

    name: str
    size: int = field(init=False, repr=False, compare=False)
    """The number of values, without `<missing>` and `<outside>`."""
    cells: int = field(init=False, repr=False, compare=False)
    """The number of cells, with `<missing>` and `<outside>`."""
    landing: int | None = field(init=False, repr=False, compare=False)
    """The code of `otherwise`; None if there are `<missing>` and `<outside>` cells."""
    missing_code: int | None = field(init=False, repr=False, compare=False)
    """The code of `<missing>`; None if there is no such cell."""
    outside_code: int | None = field(init=False, repr=False, compare=False)
    """The code of `<outside>`; None if there is no such cell."""

    def _finish(self, size: int, landing: int | None, *, otherwise: object, source: str | None) -> None:
        """Set the counts and the common fields of a frozen instance under construction."""
        special = landing is None
        set_fields(self, size=size, landing=landing, cells=size + 2 if special else size, otherwise=otherwise)
        set_fields(self, missing_code=size if special else None, outside_code=size + 1 if special else None)
        set_fields(self, source=validate_source_name(source, name=self.name))


@dataclass(frozen=True, slots=True, init=False)
class Category(_Cells):
    """One of a list of texts; any other text is outside, or counts as `otherwise`.

    >>> Category("sex", ["female", "male", "other"]).size
    3
    """

    kind: ClassVar[str] = "category"
    labels: tuple[str, ...]
    otherwise: str | None
    """What any other value counts as, including NULL; None if there are `<missing>` and `<outside>` cells."""
    source: str | None
    """The column's name in the data, if different; `source_column_name` returns it."""

    def __init__(
        self, name: str, labels: Iterable[str], *, otherwise: str | None = None, source: str | None = None
    ) -> None:
        """Take distinct, printable labels that are not the names of the two special cells."""
        listed = (labels,) if isinstance(labels, str) else tuple(labels)
        set_fields(self, name=validate_name(name, argument="name"), labels=listed)
        if isinstance(labels, str) or not 1 <= len(self.labels) <= MOST_VALUES:
            most = format_fraction(Fraction(MOST_VALUES))
            raise InvalidArgument("labels", labels, f"write a list of 1 to {most} texts")
        for index, wrong in find_label_errors(self.labels):
            raise InvalidArgument(f"labels[{index}]", self.labels[index], wrong)
        self._finish(len(self.labels), label_code(otherwise, labels=self.labels), otherwise=otherwise, source=source)

    __hash__ = _Cells.__hash__


@dataclass(frozen=True, slots=True, init=False)
class Integer(_Cells):
    """An integer, clamped to its bounds; a non-number is outside, or counts as `otherwise`."""

    kind: ClassVar[str] = "integer"
    lower: int
    upper: int
    bins: tuple[int, ...] | None = field(compare=False)
    """The edges of the declared bins, from lower to upper."""
    otherwise: int | None
    source: str | None
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
        """Take integer bounds, the lower one first, and bins by their edges.

        >>> Integer("age", 0, 110, bins=[0, 18, 65, 110]).starts
        (0, 18, 65)
        """
        least = to_integer(lower, argument="lower", lower=-_WIDEST_INTEGER, upper=_WIDEST_INTEGER)
        most = to_integer(upper, argument="upper", lower=-_WIDEST_INTEGER, upper=_WIDEST_INTEGER)
        set_fields(self, name=validate_name(name, argument="name"), lower=least, upper=most)
        if most <= least:
            raise InvalidArgument("upper", upper, f"write a whole number above lower = {least}")
        size = most - least + 1
        if size > MOST_VALUES:
            raise InvalidArgument("upper", upper, f"write at most {least + MOST_VALUES - 1}: 2^24 values are allowed")
        code = number_code(otherwise, lower=Fraction(least), step=Fraction(1), size=size)
        self._finish(size, code, otherwise=None if code is None else least + code, source=source)
        _set_bins(self, bins)

    __hash__ = _Cells.__hash__


@dataclass(frozen=True, slots=True, init=False)
class Number(_Cells):
    """A number on a grid: code = floor((x - lower)/step + 2^-20) in IEEE doubles, clamped to its bounds, or outside.

    Both bounds are on the grid. The millionth of a step is for grid points that are not doubles: in doubles, 0.3/0.1 is
    less than 3. It is enough where both bounds are within 2^30 steps of 0.

    >>> Number("stay", 0, 365, "0.25").size
    1461

    Theorem: rendering
    """

    kind: ClassVar[str] = "number"
    lower: Fraction
    upper: Fraction
    step: Fraction
    bins: tuple[Fraction, ...] | None = field(compare=False)
    """The edges of the declared bins, from lower to upper."""
    otherwise: Fraction | None
    source: str | None
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
        """Take exact bounds, the lower one first and an integer number of steps apart, and bins by their edges."""
        least = to_fraction(lower, argument="lower", lower=-_WIDEST_NUMBER, upper=_WIDEST_NUMBER)
        most = to_fraction(upper, argument="upper", lower=-_WIDEST_NUMBER, upper=_WIDEST_NUMBER)
        width = to_fraction(step, argument="step", lower=_FINEST_STEP, upper=_WIDEST_NUMBER)
        set_fields(self, name=validate_name(name, argument="name"), lower=least, upper=most, step=width)
        if most <= least:
            raise InvalidArgument("upper", upper, f"write a number above lower = {format_decimal(least)}")
        steps = (most - least) / width
        if steps > MOST_VALUES - 1:
            finest = format_decimal((most - least) / (MOST_VALUES - 1), digits=3)
            raise InvalidArgument("step", step, f"write {finest} or more: 2^24 values are allowed")
        if max(abs(least), abs(most)) / width > _FINEST_GRID:
            raise InvalidArgument("step", step, "write a larger step: doubles near the bounds cannot tell it apart")
        if steps.denominator != 1:
            nearest, each = format_decimal(least + max(round(steps), 1) * width), format_decimal(width)
            accepted = f"lower and upper must be whole steps of {each} apart; the nearest upper is {nearest}"
            raise InvalidArgument("upper", upper, accepted)
        code = number_code(otherwise, lower=least, step=width, size=int(steps) + 1)
        self._finish(int(steps) + 1, code, otherwise=None if code is None else least + code * width, source=source)
        _set_bins(self, bins)

    __hash__ = _Cells.__hash__


@dataclass(frozen=True, slots=True, init=False)
class Date(_Cells):
    """A day; one before `lower` or after `upper` is outside, or counts as `otherwise`."""

    kind: ClassVar[str] = "date"
    lower: dt.date
    upper: dt.date
    bins: str | tuple[dt.date, ...] | None = field(compare=False)
    """The edges of the declared bins, from lower to upper, or their name, such as `month`."""
    otherwise: dt.date | None
    source: str | None
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
        """Take two days, the lower one first, and bins: a calendar word such as `month`, or their edges."""
        first, last = _require_date(lower, argument="lower"), _require_date(upper, argument="upper")
        set_fields(self, name=validate_name(name, argument="name"), lower=first, upper=last)
        if last <= first:
            raise InvalidArgument("upper", upper, f"write a day after lower = {first}")
        code = date_code(otherwise, lower=first, upper=last)
        days = (last - first).days + 1
        self._finish(days, code, otherwise=None if code is None else first + code * _DAY, source=source)
        _set_bins(self, bins)

    __hash__ = _Cells.__hash__


@dataclass(frozen=True, slots=True, init=False)
class Timestamp(_Cells):
    """A time in steps of some seconds, in UTC; one before `lower` or after the last step is outside, or `otherwise`.

    >>> Timestamp("seen", dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 23), "1 hour").size
    24
    """

    kind: ClassVar[str] = "timestamp"
    lower: dt.datetime
    upper: dt.datetime
    step: int
    """In seconds; a day is a whole number of steps."""
    bins: str | None = field(compare=False)
    """The name of the declared bins, such as `day`."""
    otherwise: dt.datetime | None
    source: str | None
    starts: tuple[int, ...] | None = field(init=False, repr=False)
    """The first code of each bin."""

    def __init__(  # noqa: PLR0913  what a time has
        self,
        name: str,
        lower: dt.datetime,
        upper: dt.datetime,
        step: str | int,
        bins: str | None = None,
        *,
        otherwise: dt.datetime | None = None,
        source: str | None = None,
    ) -> None:
        """Take two times without a zone, the lower one first, and a step such as `15 minutes`."""
        first, last = to_moment(lower, argument="lower"), to_moment(upper, argument="upper")
        width = step_seconds(step)
        set_fields(self, name=validate_name(name, argument="name"), lower=first, upper=last, step=width)
        if last <= first:
            raise InvalidArgument("upper", str(upper), f"write a time after lower = {first}")
        steps = Fraction(int((last - first).total_seconds()), width)
        within = int((first - dt.datetime.combine(first, dt.time())).total_seconds())
        if steps.denominator != 1 or within % width:
            accepted = "lower and upper must be whole steps after midnight and apart; choose another bound or step"
            raise InvalidArgument("step", step, accepted)
        if steps > MOST_VALUES - 1:
            raise InvalidArgument("step", step, "write a longer step: 2^24 values are allowed")
        code = None if otherwise is None else moment_code(otherwise, lower=first, step=width, size=int(steps) + 1)
        value = None if code is None else first + code * width * _SECOND
        self._finish(int(steps) + 1, code, otherwise=value, source=source)
        set_fields(self, bins=bins, starts=None if bins is None else moment_starts(self, bins))

    __hash__ = _Cells.__hash__


@dataclass(frozen=True, slots=True, init=False)
class Boolean(_Cells):
    """False or true, in this order; any other value is outside, or counts as `otherwise`.

    >>> Boolean("urgent").cells, Boolean("urgent", otherwise=False).cells
    (4, 2)
    """

    kind: ClassVar[str] = "boolean"
    otherwise: bool | None
    source: str | None

    def __init__(self, name: str, *, otherwise: bool | None = None, source: str | None = None) -> None:
        """Take a name."""
        code = boolean_code(otherwise)
        set_fields(self, name=validate_name(name, argument="name"))
        self._finish(2, code, otherwise=None if code is None else code == 1, source=source)

    __hash__ = _Cells.__hash__


Attribute = Category | Integer | Number | Date | Timestamp | Boolean


def source_column_name(attribute: Attribute) -> str:
    """Return the name that a column has in the data.

    >>> source_column_name(Integer("age", 0, 110)), source_column_name(Integer("age", 0, 110, source="Age (years)"))
    ('age', 'Age (years)')
    """
    return attribute.name if attribute.source is None else attribute.source


def code_label(attribute: Attribute, code: int) -> Label:  # noqa: PLR0911  one for each kind
    """Return the value that a code represents.

    >>> code_label(Integer("age", 0, 110), 65), code_label(Boolean("emergency"), 2)
    (65, '<missing>')
    """
    if not 0 <= code < attribute.cells:
        raise InvalidArgument("code", code, f"write a code of {attribute.name}, from 0 to {attribute.cells - 1}")
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
        case Timestamp(lower=start, step=width):
            return start + int(code) * width * _SECOND
        case Boolean():
            return bool(code == 1)
        case _:
            assert_never(attribute)


def numeric_grid(attribute: Attribute) -> tuple[Fraction, Fraction] | None:
    """Return the value of code 0 and the step between codes; None if values are not numbers.

    A boolean counts as 0 and 1.

    >>> numeric_grid(Integer("age", 18, 110))
    (Fraction(18, 1), Fraction(1, 1))
    """
    match attribute:
        case Integer(lower=lower):
            return Fraction(lower), Fraction(1)
        case Number(lower=least, step=step):
            return least, step
        case Boolean():
            return Fraction(0), Fraction(1)
        case Category() | Date() | Timestamp():
            return None
        case _:
            assert_never(attribute)


def _require_date(value: object, *, argument: str) -> dt.date:
    day = to_date(value)
    if day is None:
        raise InvalidArgument(argument, value, "write a day, such as datetime.date(2024, 1, 31)")
    return day


def _set_bins(attribute: Integer | Number | Date, bins: str | Iterable[object] | None) -> None:
    """Set the declared bins of an attribute whose grid is already set."""
    starts = None if bins is None else bin_starts(attribute, bins if isinstance(bins, str) else tuple(bins))
    shown_as = bins if isinstance(bins, str) and starts is not None else bin_edges(attribute, starts)
    set_fields(attribute, starts=starts, bins=shown_as)


def set_fields(value: object, **fields: object) -> None:
    """Set fields of a frozen instance under construction."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)


# --- Bins: groups that an owner declares for GROUP BY and quantiles, by edges or by the calendar. ---


_EPOCH = dt.date(1970, 1, 1).toordinal()
CALENDAR_BINS = ("day", "week", "month", "quarter", "year")
"""The named bins of days. Weeks begin on Monday."""
BinnedAttribute = Integer | Number | Date
_LARGEST_EDGE = Fraction(2**64)


def bin_starts(attribute: BinnedAttribute, bins: str | Sequence[object]) -> tuple[int, ...] | None:
    """Return the first code of each bin, for edges ascending from lower to upper; the last bin includes upper.

    >>> bin_starts(Integer("age", 0, 110), [0, 18, 65, 110])
    (0, 18, 65)
    >>> bin_starts(Date("admitted", dt.date(2024, 1, 31), dt.date(2024, 3, 1)), "month")
    (0, 1, 30)
    """
    if isinstance(bins, str):
        return _calendar_starts(attribute, bins)
    for index, wrong in find_edge_errors(attribute, bins):
        raise InvalidArgument("bins" if index is None else f"bins[{index}]", bins, wrong)
    codes = [_edge_code(attribute, edge) for edge in bins]
    return tuple(code for code in codes[:-1] if code is not None)


def bin_edges(attribute: BinnedAttribute, starts: tuple[int, ...] | None) -> tuple[Label, ...] | None:
    """Return the edges of bins: their first values, and the last value of the column.

    >>> bin_edges(Integer("age", 0, 110), (0, 18, 65))
    (0, 18, 65, 110)
    """
    return None if starts is None else tuple(code_label(attribute, code) for code in (*starts, attribute.size - 1))


def find_edge_errors(attribute: BinnedAttribute, edges: Sequence[object]) -> Iterator[tuple[int | None, str]]:
    """Yield the position of each invalid edge, or None for the whole list, and what to write instead."""
    first, last = _format_edge(code_label(attribute, 0)), _format_edge(code_label(attribute, attribute.size - 1))
    if len(edges) < 2:  # noqa: PLR2004  a bin has two edges
        yield None, f"write at least two edges, from {first} to {last}"
        return
    reached = -1
    for index, edge in enumerate(edges):
        code = _edge_code(attribute, edge)
        if code is None:
            yield index, f"write {_describe_values(attribute)} from {first} to {last}"
        elif code <= reached:
            yield index, "write edges that rise"
        elif index == 0 and code != 0:
            yield index, f"begin with lower, {first}"
        elif index == len(edges) - 1 and code != attribute.size - 1:
            yield index, f"end with upper, {last}"
        reached = max(reached, -1 if code is None else code)


def _edge_code(attribute: BinnedAttribute, edge: object) -> int | None:
    """Return the code of an edge, or None if it is not on the grid between the bounds."""
    if isinstance(attribute, Date):
        day = to_date(edge)
        if day is None:
            return None
        steps = Fraction((day - attribute.lower).days)
    else:
        try:
            point = to_fraction(edge, argument="edge", lower=-_LARGEST_EDGE, upper=_LARGEST_EDGE)  # type: ignore[arg-type]
        except InvalidArgument:
            return None
        step = 1 if isinstance(attribute, Integer) else attribute.step
        steps = (point - attribute.lower) / step
    return int(steps) if steps.denominator == 1 and 0 <= steps < attribute.size else None


def _calendar_starts(attribute: BinnedAttribute, word: str) -> tuple[int, ...] | None:
    """Return the first code of each week, month, quarter or year; None for days, as for no bins."""
    if not isinstance(attribute, Date) or word not in CALENDAR_BINS:
        accepted = f"one of {', '.join(CALENDAR_BINS)}, or " if isinstance(attribute, Date) else ""
        raise InvalidArgument("bins", word, f"write {accepted}a list of edges")
    if word == "day":
        return None
    days = (attribute.lower + dt.timedelta(days=code) for code in range(1, attribute.size))
    return (0, *((day - attribute.lower).days for day in days if _starts_period(day, word)))


def _starts_period(day: dt.date, word: str) -> bool:
    """Whether a week, month, quarter or year begins on this day; without numpy, which a client may not have."""
    if word == "week":
        return day.weekday() == 0
    return day.day == 1 and (day.month - 1) % {"month": 1, "quarter": 3, "year": 12}[word] == 0


def period_starts(days: Integers, unit: str) -> Integers:
    """Return the first day of the day, week, month, quarter or year that each day is in; days are ordinals."""
    if unit in {"day", "week"}:  # the first day of year 1 was a Monday
        return days - (days + 6) % 7 * (unit == "week")
    months = (days - _EPOCH).astype("datetime64[D]").astype("datetime64[M]").astype("int64")
    firsts = months - months % {"month": 1, "quarter": 3, "year": 12}[unit]
    starts: Integers = firsts.astype("datetime64[M]").astype("datetime64[D]").astype("int64") + _EPOCH
    return starts


def _describe_values(attribute: BinnedAttribute) -> str:
    match attribute:
        case Integer():
            return "a whole number"
        case Number():
            return f"a number on the grid of steps of {format_decimal(attribute.step)}"
        case Date():
            return "a day"
        case _:
            assert_never(attribute)


def _format_edge(value: Label) -> str:
    return format_decimal(value) if isinstance(value, Fraction) else str(value)
