"""Literals: constants as they are written, read exactly."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from dodona.sql.comparison import Mismatch, day
from dodona.sql.scalar import Constant, Leaf, Subject
from dodona.sql.scope import Scope

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
    plain = isinstance(to, exp.DataType) and not to.expressions  # DECIMAL(5, 2) would round
    name = getattr(to.this, "value", "") if plain else ""
    if name in _WHOLE_TYPES:
        return "whole"
    if name in _NUMBER_TYPES:
        return "number"
    if name in _TEXT_TYPES:
        return "text"
    return {"DATE": "date", "BOOLEAN": "boolean"}.get(name, "other")


def cast(value: Constant, to: str) -> Constant:
    """Return a constant as another kind of value."""
    found: Constant = None
    match to, value:
        case "date", str():
            found = day(value)
        case (("whole" | "number"), str()):
            size = number(value.removeprefix("-"))
            found = size if size is None or not value.startswith("-") else -size
        case (("whole" | "number"), bool()):
            found = Fraction(value)
        case "boolean", str() if value.lower() in {"true", "false"}:
            found = value.lower() == "true"
        case (("whole" | "number"), Fraction()) | ("text", str()) | ("boolean", bool()) | ("date", dt.date()):
            found = value
    if (found is None and value is not None) or (
        to == "whole" and isinstance(found, Fraction) and found.denominator != 1
    ):
        raise Mismatch("This cast is not known.", "Write the value itself, such as 65, 'female' or DATE '2024-01-31'.")
    return found


def changed(leaf: Leaf, to: str) -> Leaf:
    """Return a leaf after a cast, which is known for constants, and for columns where it changes nothing."""
    if not isinstance(leaf, Subject):
        return cast(leaf, to)
    name, held = leaf.attribute.name, leaf.attribute.kind
    if leaf.numeric and (to == "number" or (to == "whole" and held != "number" and leaf.scale.denominator == 1)):
        return leaf
    if (
        leaf.part is None
        and leaf.plain
        and (held, to) in {("category", "text"), ("date", "date"), ("boolean", "boolean")}
    ):
        return leaf
    raise Mismatch(f"`{name}` is a column of kind {held}, and this cast would change it.", "Leave the cast out.")


def constant(scope: Scope, node: exp.Expr) -> Constant:
    """Return what a literal stands for."""
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if node.args.get("is_string"):
        return str(node.this)
    found = number(str(node.this))
    if found is None:
        raise scope.fault(
            node, f"`{str(node.this)[:60]}` is no number that is read.", "Write digits, such as 12.5 or 1e3."
        )
    return found
