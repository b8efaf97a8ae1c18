"""Columns in Python: comparisons that build predicates, with the same meaning as in SQL.

`columns(domain).sex == "female"` is a predicate. A comparison is never true for a row without a value in the column.
"""

import datetime as dt
import difflib
import math
import operator as operators
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, assert_never, final, overload

import numpy as np

from dodona.errors import InvalidArgument
from dodona.numbers import format_decimal, to_fraction
from dodona.query.predicate import Predicate, among_combinations, among_mask, combination_shape, unpack_bits
from dodona.schema import attributes as kinds
from dodona.schema.schema import Domain

# --- Literals: the codes of an attribute for which a comparison with a literal is true. ---


LiteralValue = str | int | bool | float | Fraction | Decimal | dt.date
EQUAL, UNEQUAL = "=", "<>"
OPERATORS = (EQUAL, UNEQUAL, "<", "<=", ">", ">=")
_FUNCTIONS = (operators.eq, operators.ne, operators.lt, operators.le, operators.gt, operators.ge)
COMPARATORS: Mapping[str, Callable[[Any, Any], Any]] = dict(zip(OPERATORS, _FUNCTIONS, strict=True))
_MOST_SHOWN = 10
_MOST_COMPARED = 10_000
_WIDEST = Fraction(10**40)


def comparison_mask(attribute: kinds.Attribute, operator: str, value: LiteralValue) -> int:
    """Return the codes for which a comparison is true, as a bit mask. It is never true for `<missing>`.

    Categories support only = and <>, with `<outside>` as a separate value; `= '<missing>'` and `= '<outside>'` select
    these two cells. Numbers are compared with the grid points as exact fractions.

    >>> bin(comparison_mask(kinds.Integer("age", 0, 5), ">=", 3))
    '0b111000'
    """
    if operator not in OPERATORS:
        raise InvalidArgument("operator", operator, f"write one of {' '.join(OPERATORS)}")
    match attribute:
        case kinds.Category():
            return _category_mask(attribute, operator, value)
        case kinds.Boolean():
            if not isinstance(value, bool):
                accepted = f"{attribute.name} holds true and false; write one of them"
                raise InvalidArgument(attribute.name, value, accepted)
            return _order_mask(attribute, operator, Fraction(value))
        case kinds.Date():
            return _order_mask(attribute, operator, _days_above_lower(attribute, operator, value))
        case kinds.Timestamp():
            return _order_mask(attribute, operator, _moments_above_lower(attribute, operator, value))
        case kinds.Integer() | kinds.Number():
            return _order_mask(attribute, operator, _steps_above_lower(attribute, operator, value))
        case _:
            assert_never(attribute)


def null_comparison_mask(attribute: kinds.Attribute) -> int:
    """Return the codes for which every comparison is NULL: `<missing>`, and `<outside>` except for categories.

    >>> bin(null_comparison_mask(kinds.Boolean("emergency")))
    '0b1100'
    """
    if attribute.missing_code is None:
        return 0
    return (1 if isinstance(attribute, kinds.Category) else 0b11) << attribute.missing_code


def comparison_truth(attribute: kinds.Attribute, true: int) -> tuple[Predicate, Predicate]:
    """Return the rows in which a comparison, given by its true codes, is true, and those in which it is false.

    Elsewhere it is NULL.
    """
    comparable = ((1 << attribute.cells) - 1) & ~null_comparison_mask(attribute)
    return among_mask(attribute, true), among_mask(attribute, comparable & ~true)


def special_cell_mask(attribute: kinds.Attribute, cell: str) -> int:
    """Return the bit of `<missing>` or `<outside>`; 0 if the attribute has no such cell."""
    code = attribute.missing_code if cell == kinds.MISSING else attribute.outside_code
    return 0 if code is None else 1 << code


def require_special_cell(attribute: kinds.Attribute, cell: str) -> int:
    """Return the bit of `<missing>` or `<outside>`; refuses an attribute without such a cell."""
    bit = special_cell_mask(attribute, cell)
    if not bit:
        instead = describe_undeclared_value(attribute)
        accepted = f"{attribute.name} has no {cell}; what is missing or not declared {instead}"
        raise InvalidArgument(attribute.name, cell, accepted)
    return bit


def _order_mask(attribute: kinds.Attribute, operator: str, place: Fraction) -> int:
    """Return the codes that satisfy an order comparison; `place` is a code or lies between two codes."""
    size = attribute.size
    below = (1 << min(max(math.ceil(place), 0), size)) - 1
    through = (1 << min(max(math.floor(place) + 1, 0), size)) - 1
    everything = (1 << size) - 1
    match operator:
        case "<":
            return below
        case "<=":
            return through
        case ">":
            return everything ^ through
        case ">=":
            return everything ^ below
        case "=":
            return below ^ through
        case _:
            return everything ^ below ^ through


def _category_mask(attribute: kinds.Category, operator: str, value: LiteralValue) -> int:
    name = attribute.name
    if operator not in {EQUAL, UNEQUAL}:
        raise InvalidArgument("operator", operator, f"the labels of {name} have no order; write = or <> with a label")
    if not isinstance(value, str):
        raise InvalidArgument(name, value, f"{name} holds texts; write a label in quotes: {_list_labels(attribute)}")
    if value in {kinds.MISSING, kinds.OUTSIDE}:
        mask = require_special_cell(attribute, value)
    elif value in attribute.labels:
        mask = 1 << attribute.labels.index(value)
    else:
        near = _closest_label(value, attribute.labels)
        meant = "" if near is None else f"did you mean '{near}'? "
        raise InvalidArgument(name, value, f"{meant}The labels of {name} are {_list_labels(attribute)}")
    if operator == EQUAL:
        return mask
    return ((1 << attribute.cells) - 1) & ~mask & ~special_cell_mask(attribute, kinds.MISSING)


def describe_undeclared_value(attribute: kinds.Attribute) -> str:
    """Describe what happens to an undeclared value, as the end of a sentence."""
    match attribute.otherwise:
        case None:
            return f"is {kinds.OUTSIDE}"
        case bool() as truth:
            return f"counts as {str(truth).lower()}"
        case Fraction() as number:
            return f"counts as {format_decimal(number)}"
        case int() as number:
            return f"counts as {number}"
        case value:
            return f"counts as '{value}'"


def _closest_label(value: str, labels: tuple[str, ...]) -> str | None:
    """Return the label that was probably meant."""
    known = {label.casefold(): label for label in labels[:_MOST_COMPARED]}
    matches = difflib.get_close_matches(value.casefold().strip(), known, n=1)
    return known[matches[0]] if matches else None


def _list_labels(attribute: kinds.Category) -> str:
    shown = ", ".join(f"'{label}'" for label in attribute.labels[:_MOST_SHOWN])
    more = attribute.size - _MOST_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _days_above_lower(attribute: kinds.Date, operator: str, value: LiteralValue) -> Fraction:
    """Return the number of days from the column's first day to a literal date."""
    day = value
    if isinstance(value, str):
        try:
            day = dt.date.fromisoformat(value.strip())
        except ValueError:
            day = value
    if isinstance(day, dt.datetime) or not isinstance(day, dt.date):
        accepted = f"{attribute.name} holds days; write one such as '{attribute.lower.isoformat()}'"
        raise InvalidArgument(attribute.name, value, accepted)
    if operator in {EQUAL, UNEQUAL} and not attribute.lower <= day <= attribute.upper:
        span, other = f"from {attribute.lower} to {attribute.upper}", describe_undeclared_value(attribute)
        raise InvalidArgument(attribute.name, str(day), f"write a day {span}; any other {other}")
    return Fraction((day - attribute.lower).days)


def _moments_above_lower(attribute: kinds.Timestamp, operator: str, value: LiteralValue) -> Fraction:
    """Return the number of steps from the column's first moment to a literal time."""
    moment: object = value
    if isinstance(value, str):
        try:
            moment = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            moment = value
    if type(moment) is dt.date:
        moment = dt.datetime.combine(moment, dt.time())
    if not isinstance(moment, dt.datetime):
        accepted = f"{attribute.name} holds times; write one such as '{attribute.lower}'"
        raise InvalidArgument(attribute.name, value, accepted)
    bare = moment if moment.utcoffset() is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
    away = bare - attribute.lower
    place = Fraction(away // dt.timedelta(microseconds=1), attribute.step * 10**6)
    if operator in {EQUAL, UNEQUAL} and (place.denominator != 1 or not 0 <= place < attribute.size):
        accepted = f"write a time from {attribute.lower} to {attribute.upper} in steps of {attribute.step} seconds"
        raise InvalidArgument(attribute.name, str(moment), accepted)
    return place


def _steps_above_lower(attribute: kinds.Integer | kinds.Number, operator: str, value: LiteralValue) -> Fraction:
    """Return the number of steps from the lower bound to a literal number."""
    name, step = attribute.name, attribute.step if isinstance(attribute, kinds.Number) else Fraction(1)
    if isinstance(value, str | bool | dt.date):
        whole = isinstance(attribute, kinds.Integer)
        held = "whole numbers" if whole else f"numbers in steps of {format_decimal(step)}"
        accepted = f"{name} holds {held} {_describe_span(attribute)}; write a number, without quotes"
        raise InvalidArgument(name, value, accepted)
    if type(value) is Fraction and value.denominator == 1 and -_WIDEST <= value <= _WIDEST:
        number = value  # the common case in SQL: nothing to convert
    else:
        number = to_fraction(value, argument=name, lower=-_WIDEST, upper=_WIDEST)
    place = (number - attribute.lower) / step
    if operator in {EQUAL, UNEQUAL}:
        if not 0 <= place < attribute.size:
            accepted = f"write a number {_describe_span(attribute)}; what is beyond counts as the bound"
            raise InvalidArgument(name, format_decimal(number), accepted)
        if place.denominator != 1:
            near = [format_decimal(attribute.lower + around * step) for around in (math.floor(place), math.ceil(place))]
            accepted = f"{name} has no such value; the nearest on its grid are {' and '.join(near)}"
            raise InvalidArgument(name, format_decimal(number), accepted)
    return place


def _describe_span(attribute: kinds.Integer | kinds.Number) -> str:
    return f"from {format_decimal(Fraction(attribute.lower))} to {format_decimal(Fraction(attribute.upper))}"


# --- Columns in Python: comparisons that build the same predicates as SQL. ---


@final
class Column:
    """A column to compare with values. A comparison is never true for rows without a value.

    >>> from dodona.schema.attributes import Integer
    >>> age = Column(Integer("age", 0, 5))
    >>> (age >= 2) & (age != 4)
    Among(attribute='age', cells=8, codes=44)
    """

    __slots__ = ("attribute",)

    def __init__(self, attribute: kinds.Attribute) -> None:
        """Wrap an attribute of a domain."""
        self.attribute = attribute

    def __eq__(self, value: LiteralValue) -> Predicate:  # type: ignore[override]
        """Return the rows with this value."""
        return self._compare(EQUAL, value)

    def __ne__(self, value: LiteralValue) -> Predicate:  # type: ignore[override]
        """Return the rows with a different value; for a category, `<outside>` is one."""
        return self._compare(UNEQUAL, value)

    def __lt__(self, value: LiteralValue) -> Predicate:
        return self._compare("<", value)

    def __le__(self, value: LiteralValue) -> Predicate:
        return self._compare("<=", value)

    def __gt__(self, value: LiteralValue) -> Predicate:
        return self._compare(">", value)

    def __ge__(self, value: LiteralValue) -> Predicate:
        return self._compare(">=", value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Column({self.attribute.name})"

    def isin(self, values: Iterable[LiteralValue]) -> Predicate:
        """Return the rows with one of these values."""
        if isinstance(values, str):
            raise InvalidArgument("values", values, f"write a list, such as ['{values}']")
        codes = 0
        for value in values:
            codes |= self._codes(EQUAL, value)
        return among_mask(self.attribute, codes)

    def between(self, first: LiteralValue, last: LiteralValue) -> Predicate:
        """Return the rows with a value from `first` to `last`, inclusive."""
        return among_mask(self.attribute, self._codes(">=", first) & self._codes("<=", last))

    def is_missing(self) -> Predicate:
        """Return the rows without a value (NULL or NaN); none if `otherwise` says what they count as."""
        return among_mask(self.attribute, special_cell_mask(self.attribute, kinds.MISSING))

    def is_outside(self) -> Predicate:
        """Return the rows with an undeclared value; none if `otherwise` says what they count as."""
        return among_mask(self.attribute, special_cell_mask(self.attribute, kinds.OUTSIDE))

    def _compare(self, operator: str, value: LiteralValue) -> Predicate:
        return among_mask(self.attribute, self._codes(operator, value))

    def _codes(self, operator: str, value: LiteralValue) -> int:
        return _compare_column(self.attribute, operator, value)


@final
class ColumnTuple:
    """Several columns whose values are compared as a tuple."""

    __slots__ = ("attributes",)

    def __init__(self, attributes: Sequence[kinds.Attribute]) -> None:
        """Wrap attributes of a domain."""
        self.attributes = tuple(attributes)

    def __repr__(self) -> str:
        return f"Together({', '.join(attribute.name for attribute in self.attributes)})"

    def isin(self, rows: Iterable[Sequence[LiteralValue]]) -> Predicate:
        """Return the rows whose tuple of values is one of these, with one value per column.

        >>> from dodona.schema.attributes import Boolean
        >>> c = columns(Domain((Boolean("planned", otherwise=False), Boolean("urgent", otherwise=False))))
        >>> c["urgent", "planned"].isin([(True, False), (False, True)])
        Jointly(names=('planned', 'urgent'), shape=(2, 2), codes=0x6)
        """
        combination_shape(self.attributes)
        chosen = np.zeros([attribute.cells for attribute in self.attributes], dtype=np.bool_)
        for row in rows:
            if isinstance(row, str) or len(row) != len(self.attributes):
                raise InvalidArgument("rows", row, f"write {len(self.attributes)} values, one of each column")
            pairs = zip(self.attributes, row, strict=True)
            chosen[
                np.ix_(
                    *(
                        unpack_bits(_compare_column(attribute, EQUAL, value), attribute.cells)
                        for attribute, value in pairs
                    )
                )
            ] = True
        return among_combinations(self.attributes, chosen)


@final
class Columns:
    """The columns of a domain by name, as attributes or in brackets. Several names give a tuple of columns."""

    __slots__ = ("_domain",)

    def __init__(self, domain: Domain) -> None:
        """Wrap a domain."""
        self._domain = domain

    @overload
    def __getitem__(self, name: str) -> Column: ...

    @overload
    def __getitem__(self, name: tuple[str, ...]) -> ColumnTuple: ...

    def __getitem__(self, name: str | tuple[str, ...]) -> Column | ColumnTuple:
        if isinstance(name, tuple):
            return ColumnTuple([self._domain[column_name] for column_name in name])
        return Column(self._domain[name])

    def __getattr__(self, name: str) -> Column:
        if name.startswith("__") or name not in self._domain:
            # Python looks up attributes implicitly and expects an AttributeError for missing ones.
            raise AttributeError(f"there is no column {name}; the columns are {', '.join(self._domain.names)}")
        return Column(self._domain[name])

    def __dir__(self) -> list[str]:
        return list(self._domain.names)

    def __repr__(self) -> str:
        return f"Columns({', '.join(self._domain.names)})"


def columns(domain: Domain) -> Columns:
    """Return the columns of a domain, for writing predicates.

    >>> from dodona.schema.attributes import Boolean, Integer
    >>> c = columns(Domain((Integer("age", 0, 110), Boolean("emergency"))))
    >>> c.emergency == True
    Among(attribute='emergency', cells=4, codes=2)
    """
    return Columns(domain)


def _compare_column(attribute: kinds.Attribute, operator: str, value: LiteralValue) -> int:
    if value is None:
        raise InvalidArgument(attribute.name, value, "write .is_missing() for rows without a value")
    return comparison_mask(attribute, operator, value)
