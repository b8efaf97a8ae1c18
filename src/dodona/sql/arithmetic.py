"""Computing with values of a row: arithmetic and casts, all exact.

Sums and products of columns stay formulas of any size. Any other function of columns is the table of its values.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from sqlglot import exp

from dodona.query.polynomial import MOST_DEGREE, Powers
from dodona.query.query import MOST_TABLE
from dodona.schema.attributes import Date, Timestamp, numeric_grid
from dodona.schema.encoding import read_boolean
from dodona.schema.moments import DAY_SECONDS, seconds_since_epoch
from dodona.sql.calendar import Interval, parse_interval, shift_day
from dodona.sql.scalar import (
    Computed,
    Constant,
    Formula,
    Leaf,
    Mapped,
    Mismatch,
    Scalar,
    Subject,
    TooManyCombinations,
    combine,
    constant_number,
    is_small,
    leaf_columns,
    leaf_kind,
    parse_date,
    parse_moment,
    parse_signed,
    parse_time,
)
from dodona.sql.tables import apply_function, case_by_outcomes, strict, tabulate_moments, value_of_number

# --- Formulas: arithmetic that stays a sum of products of columns. ---


_TOO_LONG = ("This number grows too long.", "Write the result itself.")


def formula_of(leaf: Leaf) -> Formula | None:  # noqa: PLR0911  one for each kind
    """Return a number or a day as a formula; None if it is neither, or not a sum of products of columns."""
    match leaf:
        case Formula():
            return leaf
        case Subject(attribute) if leaf.part is None:
            if isinstance(attribute, Date):
                terms = {(): Fraction(attribute.lower.toordinal()), ((attribute.name, 1),): Fraction(1)}
                return Formula.of([attribute], terms, days=True)
            if isinstance(attribute, Timestamp):
                terms = {(): _days_of(attribute.lower), ((attribute.name, 1),): Fraction(attribute.step, DAY_SECONDS)}
                return Formula.of([attribute], terms, days=True, clock=True)
            grid = numeric_grid(attribute)
            if grid is None:
                return None
            terms = {(): leaf.shift + leaf.scale * grid[0], ((attribute.name, 1),): leaf.scale * grid[1]}
            return Formula.of([attribute], terms)
        case Subject() | Mapped() | None:
            return None
        case dt.date():
            return Formula.of((), {(): _days_of(leaf)}, days=True, clock=isinstance(leaf, dt.datetime))
        case _:
            number = constant_number(leaf)
            return None if number is None else Formula.of((), {(): number})


def epoch_seconds(attribute: Timestamp) -> Leaf:
    """Return the seconds since 1970 of a column of times."""
    terms = {(): Fraction(seconds_since_epoch(attribute.lower)), ((attribute.name, 1),): Fraction(attribute.step)}
    return Formula.of([attribute], terms)


def time_between(seconds: int | None, first: Leaf, last: Leaf) -> Leaf:
    """Return how many units of time are between two days or times that are whole units; None if they are not."""
    start, other = formula_of(first), formula_of(last)
    if seconds is None or start is None or other is None or not (start.days and other.days):
        return None
    units = Fraction(DAY_SECONDS, seconds)
    if any((number * units).denominator != 1 for formula in (start, other) for _, number in formula.terms):
        return None
    return leaf_of(scaled(add(other, start, -1), units))


def _days_of(day: dt.date) -> Fraction:
    """Return the ordinal of a day, with its time as a fraction."""
    if not isinstance(day, dt.datetime):
        return Fraction(day.toordinal())
    bare = dt.datetime.combine(day, dt.time())
    return day.toordinal() + Fraction((day - bare) // dt.timedelta(microseconds=1), DAY_SECONDS * 10**6)


def leaf_of(formula: Formula) -> Leaf:
    """Return a formula as the simplest leaf."""
    if not all(is_small(number) for _, number in formula.terms):
        raise Mismatch(*_TOO_LONG)
    if not formula.columns:
        return value_of_number(dict(formula.terms).get((), Fraction(0)), formula)
    if len(formula.columns) == 1 and not formula.days and formula.degree <= 1:
        (attribute,) = formula.columns
        terms, grid = dict(formula.terms), numeric_grid(attribute)
        if grid is not None:
            scale = terms.get(((attribute.name, 1),), Fraction(0)) / grid[1]
            return Subject(attribute, terms.get((), Fraction(0)) - scale * grid[0], scale)
    if formula.degree > MOST_DEGREE:
        raise Mismatch("Too many columns are multiplied.", f"Write products of at most {MOST_DEGREE} factors.")
    return formula


def add(left: Formula, right: Formula, sign: int) -> Formula:
    """Return the sum or the difference of two formulas."""
    if left.days and right.days and sign > 0:
        raise Mismatch("Two days are added.", "Add a number of days to a day, or subtract one day from another.")
    if right.days and not left.days and sign < 0:
        raise Mismatch("A day is subtracted from a number.", "Subtract a number of days from a day.")
    terms = dict(left.terms)
    for powers, number in right.terms:
        terms[powers] = terms.get(powers, Fraction(0)) + sign * number
    days = left.days != right.days
    return Formula.of((*left.columns, *right.columns), terms, days=days, clock=days and (left.clock or right.clock))


def multiply(left: Formula, right: Formula) -> Formula:
    """Return the product of two formulas."""
    if left.days or right.days:
        raise Mismatch("A day is multiplied.", "Multiply numbers only.")
    terms: dict[Powers, Fraction] = {}
    for first, coefficient in left.terms:
        for second, other in right.terms:
            powers = dict(first)
            for name, power in second:
                powers[name] = powers.get(name, 0) + power
            both = tuple(sorted(powers.items()))
            terms[both] = terms.get(both, Fraction(0)) + coefficient * other
    return Formula.of((*left.columns, *right.columns), terms)


def scaled(formula: Formula, factor: Fraction) -> Formula:
    """Return a formula times a number."""
    return replace(formula, terms=tuple((powers, number * factor) for powers, number in formula.terms if factor))


# --- Row arithmetic: exact; sums and products of columns stay formulas of any size. ---


_DAYS = ("date", "timestamp")
_OPERATORS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def calculate(sign: str, left: Leaf, right: Leaf) -> Leaf:  # noqa: C901  one case for each kind of operands
    """Return one of + - * / of two leaves; NULL propagates."""
    if left is None or right is None:
        return None
    if leaf_kind(left) in _DAYS and isinstance(right, str):  # d + '7 days', or d - '2024-01-01'
        right = parse_interval(right) or (parse_date(right) if sign == "-" else right)
    if isinstance(right, Interval) or leaf_kind(left) == "interval":
        return _calculate_interval(sign, left, right)
    for operand in (left, right):
        if leaf_kind(operand) == "text":
            what = "A text is added up." if sign in "+-" else "A text is multiplied."
            raise Mismatch(what, "Use columns of numbers only; || joins texts.")
    formula, other = formula_of(left), formula_of(right)
    if formula is not None and other is not None:
        if sign in "+-":
            return leaf_of(add(formula, other, 1 if sign == "+" else -1))
        if sign == "*":
            return leaf_of(multiply(formula, other))
        if not other.columns and not formula.days and not other.days:
            divisor = dict(other.terms).get((), Fraction(0))
            if divisor == 0:
                raise Mismatch("This divides by zero.", "Write another divisor.")
            return leaf_of(scaled(formula, 1 / divisor))
    if sign == "/":
        _check_ratio(left, right)
    return apply_function(strict(lambda a, b: _calculate_values(sign, a, b)), (left, right))


def combine_values(sign: str, sides: Sequence[Scalar]) -> Scalar:
    """Return one of + - * / of two scalars; of columns with few different values it may be a CASE."""
    try:
        return combine(partial(calculate, sign), sides)
    except TooManyCombinations:
        values = None
        if not any(side.branches for side in sides):
            values = case_by_outcomes(partial(_calculate_values, sign), *(side.otherwise for side in sides))
        if values is None:
            raise
        return values


def _check_ratio(left: Leaf, right: Leaf) -> None:
    """Refuse a ratio of columns with too many combinations of values, and say what is answered instead."""
    names, other = (tuple(column.name for column in leaf_columns(leaf)) for leaf in (left, right))
    cells = {column.name: column.cells for leaf in (left, right) for column in leaf_columns(leaf)}
    if len(cells) > 1 and math.prod(cells.values()) > MOST_TABLE and len(names) == len(other) == 1:
        a, b = names[0], other[0]
        instead = (
            f"Write sum({a}) / sum({b}) for the ratio of the totals, or compare products, as in "
            f"avg(CASE WHEN {a} > 2 * {b} THEN 1 ELSE 0 END) for the share of rows with a ratio above 2."
        )
        raise TooManyCombinations(
            f"`{a}` and `{b}` have {math.prod(cells.values())} ratios; {MOST_TABLE} are listed.", instead
        )


def _calculate_values(sign: str, left: Constant, right: Constant) -> Constant:
    """Return + - * / of two values; a division by 0 gives NULL."""
    if isinstance(left, dt.date) or isinstance(right, dt.date):
        pair = [formula_of(operand) for operand in (left, right)]
        if pair[0] is None or pair[1] is None or sign not in "+-":
            raise Mismatch("A day is added to something else than a number of days.", "Write the day, + and a number.")
        return leaf_of(add(pair[0], pair[1], 1 if sign == "+" else -1))  # type: ignore[return-value]
    number, other = constant_number(left), constant_number(right)
    if number is None or other is None:
        raise Mismatch("This is no number.", "Use numbers only.")
    if sign == "/":
        return None if other == 0 else number / other
    return _OPERATORS[sign](number, other)


def _calculate_interval(sign: str, left: Leaf, right: Leaf) -> Leaf:
    """Return a day moved by an interval, or an interval several times."""
    if sign == "*" and isinstance(left, Interval) and isinstance(right, Fraction) and right.denominator == 1:
        return left.times(int(right))
    if sign == "+" and isinstance(left, Interval) and leaf_kind(right) in _DAYS:
        left, right = right, left
    if sign not in "+-" or not isinstance(right, Interval) or leaf_kind(left) not in {*_DAYS, "interval"}:
        raise Mismatch("An interval is added to a day only.", "Write the day + INTERVAL '7 days'.")
    step = right if sign == "+" else right.times(-1)
    if step.months == 0 and (leaf_kind(left) == "timestamp" or (leaf_kind(left) == "date" and not step.seconds)):
        return calculate("+", left, step.days + Fraction(step.seconds, DAY_SECONDS))

    def moved(value: Constant) -> Constant:
        if isinstance(value, Interval):
            return value.plus(step)
        return shift_day(value, step) if isinstance(value, dt.date) else None

    return apply_function(strict(moved), (left,))


# --- Casts. ---


_TYPE_KINDS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128"), "whole"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINT", "UBIGINT"), "whole"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "number"),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR", "NVARCHAR", "NCHAR"), "text"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "TIMESTAMPLTZ", "DATETIME"), "timestamp"),
    "DATE": "date",
    "TIME": "time",
    "BOOLEAN": "boolean",
}
_WRITE_LITERAL = "Write the value itself, such as 65, 'female' or DATE '2024-01-31'."


def type_kind(to: exp.Expr) -> str:
    """Return the kind of a SQL type: whole, number, text, date, timestamp, boolean, or other."""
    kind = _TYPE_KINDS.get(getattr(to.this, "value", ""), "other") if isinstance(to, exp.DataType) else "other"
    if isinstance(to, exp.DataType) and to.expressions and kind != "timestamp":  # DECIMAL(5, 2) would round
        return "other"
    return kind


def cast_constant(value: Constant, to: str) -> Constant:  # noqa: C901  one case for each cast
    """Cast a constant to another kind of value."""
    constant: Constant = None
    match to, value:
        case (("date" | "timestamp"), str()):
            day, later = parse_moment(value)
            constant = parse_time(value) if to == "timestamp" and later else day
        case (("whole" | "number"), str()):
            constant = parse_signed(value)
        case (("whole" | "number"), bool()):
            constant = Fraction(value)
        case "boolean", str():
            constant = read_boolean(value)
        case "text", bool():
            constant = str(value).lower()
        case "text", Fraction() if value.denominator == 1:
            constant = str(value)
        case "text", dt.date():
            constant = value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
        case "date", dt.datetime():
            constant = value.date()
        case (("whole" | "number"), Fraction()) | ("text", str()) | ("boolean", bool()):
            constant = value
        case (("date" | "timestamp"), dt.date()):
            constant = value
    parts = to == "whole" and isinstance(constant, Fraction) and constant.denominator != 1
    if parts:
        raise Mismatch("Engines round a cast to whole numbers in different ways.", "Write round(), floor() or ceil().")
    if constant is None and value is not None:
        raise Mismatch("This cast is not known.", _WRITE_LITERAL)
    return constant


_SAME = {("date", "date"), ("date", "timestamp"), ("timestamp", "timestamp")}


def cast_leaf(leaf: Leaf, to: str) -> Leaf:
    """Cast a leaf, value by value."""
    if to == "time":
        instead = "Write the hour: extract(hour FROM column) BETWEEN 8 AND 9."
        raise Mismatch("Times of day are not compared by themselves.", instead)
    if isinstance(leaf, Subject):
        held = leaf.attribute.kind
        if leaf_kind(leaf) == "boolean" and to in {"number", "whole"}:
            return formula_of(leaf)
        if leaf.numeric and (to == "number" or (to == "whole" and held != "number" and leaf.scale.denominator == 1)):
            return leaf
        if leaf.plain and (held, to) in {("category", "text"), ("boolean", "boolean")}:
            return leaf
    if (leaf_kind(leaf), to) in _SAME and isinstance(leaf, Computed):
        return leaf
    if isinstance(leaf, Formula) and not leaf.days and to == "number":
        return leaf
    if isinstance(leaf, Subject) and isinstance(leaf.attribute, Timestamp) and to == "date":
        leaf = tabulate_moments(leaf.attribute, "trunc day")
    return apply_function(strict(lambda value: cast_constant(value, to)), (leaf,))
