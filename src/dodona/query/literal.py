"""Literals: which codes of an attribute a comparison with a written value is true for."""

from __future__ import annotations

import datetime as dt
import difflib
import math
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dodona.domain.attribute import (
    MISSING,
    OUTSIDE,
    Attribute,
    Boolean,
    Category,
    Date,
    Integer,
    Number,
    cells,
    missing,
    outside,
)
from dodona.domain.plain import plain
from dodona.errors import InvalidArgument
from dodona.exact import exact

Literal = str | int | bool | float | Fraction | Decimal | dt.date
EQUAL, UNEQUAL = "=", "<>"
OPERATORS = (EQUAL, UNEQUAL, "<", "<=", ">", ">=")
_MOST_SHOWN = 10
_MOST_COMPARED = 10_000
_WIDEST = Fraction(10**40)


def compare(attribute: Attribute, operator: str, value: Literal) -> int:
    """Return the codes for which a comparison is true, one bit each. It is never true of `<missing>`.

    A category takes = and <> alone, and `<outside>` is a value of its own there; `= '<missing>'` and `= '<outside>'`
    mean these two cells. Numbers are compared with the points of the grid, as exact fractions.

    >>> bin(compare(Integer("age", 0, 5), ">=", 3))
    '0b111000'
    """
    if operator not in OPERATORS:
        raise InvalidArgument("operator", operator, f"write one of {' '.join(OPERATORS)}")
    match attribute:
        case Category():
            return _category(attribute, operator, value)
        case Boolean():
            if not isinstance(value, bool):
                raise InvalidArgument(
                    attribute.name, value, f"{attribute.name} holds true and false; write one of them"
                )
            return _ordered(attribute, operator, Fraction(value))
        case Date():
            return _ordered(attribute, operator, _days(attribute, operator, value))
        case Integer() | Number():
            return _ordered(attribute, operator, _steps(attribute, operator, value))
        case _:
            assert_never(attribute)


def unknown(attribute: Attribute) -> int:
    """Return the codes for which every comparison is NULL: `<missing>`, and `<outside>` except for categories.

    >>> bin(unknown(Boolean("emergency"))), bin(unknown(Boolean("emergency", otherwise=False)))
    ('0b1100', '0b0')
    """
    if isinstance(attribute, Category):
        return further_mask(attribute, MISSING)
    return further_mask(attribute, MISSING) | further_mask(attribute, OUTSIDE)


def further_mask(attribute: Attribute, cell: str) -> int:
    """Return the bit of `<missing>` or `<outside>`; 0 where the attribute has no such cell."""
    code = missing(attribute) if cell == MISSING else outside(attribute)
    return 0 if code is None else 1 << code


def further_cell(attribute: Attribute, cell: str) -> int:
    """Return the bit of `<missing>` or `<outside>`; refuses an attribute without such a cell, to whoever names it."""
    found = further_mask(attribute, cell)
    if not found:
        accepted = f"{attribute.name} has no {cell}; what is missing or not declared {counted(attribute)}"
        raise InvalidArgument(attribute.name, cell, accepted)
    return found


def _ordered(attribute: Attribute, operator: str, place: Fraction) -> int:
    """Return the codes in the order that the operator says; `place` is a code, or between two of them."""
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


def _category(attribute: Category, operator: str, value: Literal) -> int:
    name = attribute.name
    if operator not in {EQUAL, UNEQUAL}:
        raise InvalidArgument("operator", operator, f"the labels of {name} have no order; write = or <> with a label")
    if not isinstance(value, str):
        raise InvalidArgument(name, value, f"{name} holds texts; write a label in quotes: {_listed(attribute)}")
    if value in {MISSING, OUTSIDE}:
        found = further_cell(attribute, value)
    elif value in attribute.labels:
        found = 1 << attribute.labels.index(value)
    else:
        near = _nearest(value, attribute.labels)
        meant = "" if near is None else f"did you mean '{near}'? "
        raise InvalidArgument(name, value, f"{meant}The labels of {name} are {_listed(attribute)}")
    if operator == EQUAL:
        return found
    return ((1 << cells(attribute)) - 1) & ~found & ~further_mask(attribute, MISSING)


def counted(attribute: Attribute) -> str:
    """Return what becomes of a value that was not declared, as the end of a sentence."""
    match attribute.otherwise:
        case None:
            return f"is {OUTSIDE}"
        case bool() as truth:
            return f"counts as {str(truth).lower()}"
        case Fraction() as number:
            return f"counts as {plain(number)}"
        case int() as number:
            return f"counts as {number}"
        case value:
            return f"counts as '{value}'"


def _nearest(value: str, labels: tuple[str, ...]) -> str | None:
    """Return the label that was probably meant."""
    known = {label.casefold(): label for label in labels[:_MOST_COMPARED]}
    found = difflib.get_close_matches(value.casefold().strip(), known, n=1)
    return known[found[0]] if found else None


def _listed(attribute: Category) -> str:
    shown = ", ".join(f"'{label}'" for label in attribute.labels[:_MOST_SHOWN])
    more = attribute.size - _MOST_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _days(attribute: Date, operator: str, value: Literal) -> Fraction:
    """Return how many days after the first day of the column a written day is."""
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
        span = f"from {attribute.lower} to {attribute.upper}"
        raise InvalidArgument(attribute.name, str(day), f"write a day {span}; any other {counted(attribute)}")
    return Fraction((day - attribute.lower).days)


def _steps(attribute: Integer | Number, operator: str, value: Literal) -> Fraction:
    """Return how many steps above the lower bound a written number is."""
    name, step = attribute.name, attribute.step if isinstance(attribute, Number) else Fraction(1)
    span = f"from {plain(Fraction(attribute.lower))} to {plain(Fraction(attribute.upper))}"
    if isinstance(value, str | bool | dt.date):
        held = "whole numbers" if isinstance(attribute, Integer) else f"numbers in steps of {plain(step)}"
        raise InvalidArgument(name, value, f"{name} holds {held} {span}; write a number, without quotes")
    number = exact(value, argument=name, lower=-_WIDEST, upper=_WIDEST)
    place = (number - attribute.lower) / step
    if operator in {EQUAL, UNEQUAL}:
        if not 0 <= place < attribute.size:
            raise InvalidArgument(name, plain(number), f"write a number {span}; what is beyond counts as the bound")
        if place.denominator != 1:
            near = [plain(attribute.lower + around * step) for around in (math.floor(place), math.ceil(place))]
            accepted = f"{name} has no such value; the nearest on its grid are {' and '.join(near)}"
            raise InvalidArgument(name, plain(number), accepted)
    return place
