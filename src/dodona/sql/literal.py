"""Literals in SQL, parsed exactly: numbers, days, times, and texts that stand for them."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from dodona.sql.leaf import Constant, Mismatch, is_small
from dodona.sql.scope import Scope

_NUMBER = re.compile(r"([0-9]{1,60}([.][0-9]{0,60})?|[.][0-9]{1,60})([eE][+-]?[0-9]{1,3})?")
_MOMENT = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"([T ](?P<time>[0-2][0-9]:[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?)(Z|[+]00(:?00)?)?)?"
)


def parse_number(text: str) -> Fraction | None:
    """Parse a number exactly; None if it is not a number or has too many digits.

    >>> parse_number("0.1"), parse_number("1e3"), parse_number("1e999"), parse_number("0x10")
    (Fraction(1, 10), Fraction(1000, 1), None, None)
    """
    if not _NUMBER.fullmatch(text):
        return None
    try:
        found = Fraction(Decimal(text))
    except (InvalidOperation, ValueError):
        return None
    return found if is_small(found) else None


def parse_signed(text: str) -> Fraction:
    """Parse a number in quotes, with or without a sign."""
    bare = text.strip()
    size = parse_number(bare.removeprefix("-").removeprefix("+"))
    if size is None:
        raise Mismatch(f"'{text[:40]}' is no number.", "Write digits, without quotes.")
    return -size if bare.startswith("-") else size


def parse_moment(text: str) -> tuple[dt.date, bool]:
    """Parse a day, or an ISO 8601 time in UTC: the day, and whether the time is later than its first moment."""
    found = _MOMENT.fullmatch(text.strip())
    try:
        if found is not None:
            return dt.date.fromisoformat(found["day"]), bool((found["time"] or "").strip("0:."))
    except ValueError:
        pass
    raise Mismatch(f"'{text[:40]}' is no day.", "Write year, month and day, such as '2024-01-31'.")


def parse_date(text: str) -> dt.date:
    """Parse a date literal."""
    day, later = parse_moment(text)
    if later:
        raise Mismatch(f"'{text[:40]}' has a time of day.", "Write the day alone, such as '2024-01-31'.")
    return day


def literal_constant(scope: Scope, node: exp.Expr) -> Constant:
    """Return the value of a literal."""
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if node.args.get("is_string"):
        return str(node.this)
    found = parse_number(str(node.this))
    if found is None:
        what = f"`{str(node.this)[:60]}` is no number that is read."
        raise scope.fault(node, what, "Write digits, such as 12.5 or 1e3.")
    return found
