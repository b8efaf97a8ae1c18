"""Columns as an engine holds them: how a declared attribute is read out of a column of some type.

A reading has the meaning of `domain.encoding`. It is built once a column; predicates and codes are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from dodona.domain.attribute import Attribute, Boolean, Category, Date, Integer, Number
from dodona.domain.spelling import DATE_TEXT, DAY, FALSE_TEXT, LONGEST_TEXT, NUMBER_TEXT, TRUE_TEXT
from dodona.sql.render_dialect import Dialect


class Form(StrEnum):
    """What the values of a column are to SQL."""

    TEXT = "text"
    WHOLE = "whole number"  # of 64 bits at most
    DOUBLE = "double"
    WIDE = "wide number"  # exact numbers that a double stands for well enough: they are drawn into bounds
    DECIMAL = "decimal"  # exact numbers that are read as the nearest double, by way of their text
    TRUTH = "truth"
    DAY = "day"
    TIME = "time"
    ZONED = "time with a zone"
    CODE = "code"  # the cell's code itself, put there by an encoder
    NOTHING = "nothing"  # a column that can only hold NULL


@dataclass(frozen=True, slots=True)
class Reading:
    """SQL for one column: where it is missing, and its value in the type that its bounds are written in."""

    attribute: Attribute
    dialect: Dialect
    form: Form
    """The type of `value`: TEXT, WHOLE, DOUBLE, TRUTH, DAY, TIME, ZONED or CODE."""
    raw: str
    value: str
    """NULL where there is no such value; where `missing` holds it may be anything."""
    missing: str
    """True or false, never NULL."""
    total: bool
    """Whether everything that is not missing has a value."""


def accepted(attribute: Attribute) -> frozenset[Form]:
    """Return the forms that a column may have to be read as the attribute; any other could only be a mistake."""
    numbers = {Form.WHOLE, Form.DOUBLE, Form.WIDE, Form.DECIMAL, Form.TRUTH}
    always = {Form.TEXT, Form.CODE, Form.NOTHING}
    match attribute:
        case Category():
            return frozenset(always)
        case Integer() | Number() | Boolean():
            return frozenset(always | numbers)
        case Date():
            return frozenset(always | {Form.DAY, Form.TIME, Form.ZONED})
        case _:
            assert_never(attribute)


def reading(attribute: Attribute, raw: str, form: Form, dialect: Dialect) -> Reading:
    """Return how to read an attribute out of the SQL expression `raw`, whose values have this form."""
    if form is Form.NOTHING:
        code, missing = (attribute.size, "TRUE") if attribute.landing is None else (attribute.landing, "FALSE")
        return Reading(attribute, dialect, Form.CODE, raw, str(code), missing, total=True)
    if form is Form.CODE:
        missing = f"{raw} = {attribute.size}" if attribute.landing is None else "FALSE"
        return Reading(attribute, dialect, form, raw, raw, missing, total=True)
    match attribute:
        case Category():
            return Reading(attribute, dialect, form, raw, raw, f"{raw} IS NULL", total=True)
        case Integer() | Number():
            return _number(attribute, raw, form, dialect)
        case Date():
            return _day(attribute, raw, form, dialect)
        case Boolean():
            return _truth(attribute, raw, form, dialect)
        case _:
            assert_never(attribute)


def _number(attribute: Integer | Number, raw: str, form: Form, dialect: Dialect) -> Reading:
    if form in {Form.WHOLE, Form.TRUTH}:
        value = raw if form is Form.WHOLE else dialect.small.format(raw)
        return Reading(attribute, dialect, Form.WHOLE, raw, value, f"{raw} IS NULL", total=True)
    double = _double(raw, form, dialect)
    missing = _missing(raw, double, form, dialect)
    value = _known(double, form, dialect)
    return Reading(attribute, dialect, Form.DOUBLE, raw, value, missing, total=form is not Form.TEXT)


def _known(double: str, form: Form, dialect: Dialect) -> str:
    """Return the double, NULL where it is none.

    Statistics of Parquet files leave NaN out, and an engine that believes them holds `x < 10` to be true of every row
    where the largest number is 4. With NULL in its place, what is left of such a comparison is that there is a number.
    """
    if form not in {Form.DOUBLE, Form.TEXT}:
        return double
    return f"CASE WHEN {dialect.not_a_number.format(double)} THEN NULL ELSE {double} END"


def _double(raw: str, form: Form, dialect: Dialect) -> str:
    """Return the double nearest to the value; NULL where a text is no number."""
    if form is Form.DECIMAL:
        return dialect.read_double.format(dialect.text.format(raw))
    if form is not Form.TEXT:
        return dialect.double.format(raw)
    match = _matches(raw, NUMBER_TEXT, dialect)
    return f"CASE WHEN {match} THEN {dialect.read_double.format(raw)} END"


def _matches(raw: str, rule: str, dialect: Dialect) -> str:
    """Return whether a text follows a rule of `spelling`; NULL where it is too long to be looked at.

    Theorem: reading-rows
    """
    short = f"CASE WHEN {dialect.bytes.format(raw)} <= {LONGEST_TEXT} THEN {raw} END"
    return dialect.matches.format(short, dialect.literal(rule))


def _missing(raw: str, value: str, form: Form, dialect: Dialect) -> str:
    null = f"{raw} IS NULL"
    if form in {Form.DOUBLE, Form.TEXT}:
        return f"({null} OR coalesce({dialect.not_a_number.format(value)}, FALSE))"
    return null


def _day(attribute: Date, raw: str, form: Form, dialect: Dialect) -> Reading:
    null = f"{raw} IS NULL"
    if form is not Form.TEXT:
        return Reading(attribute, dialect, form, raw, raw, null, total=True)
    match = _matches(raw, DATE_TEXT, dialect)
    day = dialect.read_day.format(dialect.found.format(raw, dialect.literal(DAY)))
    return Reading(attribute, dialect, Form.DAY, raw, f"CASE WHEN {match} THEN {day} END", null, total=False)


def _truth(attribute: Boolean, raw: str, form: Form, dialect: Dialect) -> Reading:
    null = f"{raw} IS NULL"
    match form:
        case Form.TRUTH:
            return Reading(attribute, dialect, form, raw, raw, null, total=True)
        case Form.TEXT:
            yes, no = (_matches(raw, text, dialect) for text in (TRUE_TEXT, FALSE_TEXT))
            missing = null
        case _:
            double = raw if form is Form.WHOLE else _double(raw, form, dialect)
            number = double if form is Form.WHOLE else _known(double, form, dialect)
            yes, no = f"{number} = 1", f"{number} = 0"
            missing = _missing(raw, double, form, dialect)
    value = f"CASE WHEN {yes} THEN TRUE WHEN {no} THEN FALSE END"
    return Reading(attribute, dialect, Form.TRUTH, raw, value, missing, total=False)
