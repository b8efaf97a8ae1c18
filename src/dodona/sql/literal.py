"""Literals: constants as they are written, read exactly."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from dodona.sql.comparison import Mismatch, day
from dodona.sql.scalar import Constant

LARGEST_BITS = 1_200
"""How long numerators and denominators may grow in reckoning with constants: doubles need 1,075."""
_NUMBER = re.compile(r"([0-9]{1,60}([.][0-9]{0,60})?|[.][0-9]{1,60})([eE][+-]?[0-9]{1,3})?")
_NUMBER_TYPES = frozenset(
    (
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "INT128",
        "FLOAT",
        "DOUBLE",
        "DECIMAL",
        "UTINYINT",
        "USMALLINT",
        "UINT",
        "UBIGINT",
    )
)
_WHOLE_TYPES = _NUMBER_TYPES - {"FLOAT", "DOUBLE", "DECIMAL"}
_TEXT_TYPES = frozenset(("TEXT", "VARCHAR", "CHAR", "NVARCHAR", "NCHAR"))


def number(text: str) -> Fraction | None:
    """Return a number as it is written; None where it is none, or has more digits than anybody needs.

    >>> number("0.1"), number("1e3"), number("1e999"), number("0x10")
    (Fraction(1, 10), Fraction(1000, 1), None, None)
    """
    if not _NUMBER.fullmatch(text):
        return None
    try:
        found = Fraction(Decimal(text))
    except (InvalidOperation, ValueError):
        return None
    return found if small(found) else None


def small(value: Fraction) -> bool:
    """Whether a number is still short enough to reckon on with."""
    return max(value.numerator.bit_length(), value.denominator.bit_length()) <= LARGEST_BITS


def kind(to: exp.Expr) -> str:
    """Return what kind of value a type of SQL is: whole, number, text, date, boolean, or other."""
    name = getattr(to.this, "value", str(to.this)) if isinstance(to, exp.DataType) else ""
    if name in _WHOLE_TYPES:
        return "whole"
    if name in _NUMBER_TYPES:
        return "number"
    if name in _TEXT_TYPES:
        return "text"
    return {"DATE": "date", "BOOLEAN": "boolean"}.get(name, "other")


def cast(value: Constant, to: str) -> Constant:
    """Return a constant as another kind of value."""
    match to, value:
        case _, None:
            return None
        case "date", str():
            return day(value)
        case (("whole" | "number"), str()):
            sign, digits = (-1, value[1:]) if value.startswith("-") else (1, value)
            found = number(digits)
            if found is not None:
                return cast(sign * found, to)
        case (("whole" | "number"), bool()):
            return Fraction(value)
        case (("whole" | "number"), Fraction()) if to == "number" or value.denominator == 1:
            return value
        case ("text", str()) | ("boolean", bool()):
            return value
        case "boolean", str() if value.lower() in {"true", "false"}:
            return value.lower() == "true"
        case "date", dt.date():
            return value
        case _:
            pass
    raise Mismatch("This cast is not known.", "Write the value itself, such as 65, 'female' or DATE '2024-01-31'.")
