"""Computing with values of a row: tables of values, arithmetic and casts, all exact.

Sums and products of columns stay formulas of any size. Any other function of columns is the table of its values.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from sqlglot import exp

from dodona.numbers import Integers
from dodona.query.polynomial import MOST_DEGREE, Powers
from dodona.query.predicate import evaluate_predicate, predicate_attributes
from dodona.query.query import MOST_TABLE
from dodona.schema.attributes import Attribute, Date, Timestamp, code_label, numeric_grid
from dodona.schema.moments import DAY_SECONDS
from dodona.schema.schema import Domain
from dodona.sql.calendar import Interval, date_part_values, parse_interval, shift_day
from dodona.sql.scalar import (
    UNKNOWN,
    Computed,
    Constant,
    Formula,
    Leaf,
    Mapped,
    Mismatch,
    Outcome,
    Scalar,
    Subject,
    Unknown,
    constant_number,
    is_small,
    leaf_columns,
    leaf_kind,
    parse_date,
    parse_moment,
    parse_signed,
    parse_time,
)

# --- Tables: any leaf as a function by its values, and functions of such leaves. ---


MOST_MAPPED = 1 << 18
"""The largest number of cells of a column whose values are listed one by one."""
_LARGEST_PLACE = 1 << 62


@lru_cache(maxsize=32)
def _column_outcomes(attribute: Attribute) -> tuple[Outcome, ...]:
    """Return the value of each cell of a column."""
    special: tuple[Outcome, ...] = () if attribute.landing is not None else (None, UNKNOWN)
    labels = (code_label(attribute, code) for code in range(attribute.size))
    values: list[Outcome] = [Fraction(own) if type(own) is int else own for own in labels]  # type: ignore[misc]
    return (*values, *special)


def tabulate(leaf: Computed) -> Mapped:
    """Return a leaf as a table of its values; refuses one with too many."""
    if isinstance(leaf, Mapped):
        return leaf
    attributes = leaf_columns(leaf)
    shape = tuple(own.cells for own in attributes)
    _check_size(attributes)
    if isinstance(leaf, Formula):
        return _tabulate_formula(leaf, shape)
    (attribute,) = attributes
    places = np.arange(attribute.cells, dtype=np.int64)
    if leaf.part is not None and isinstance(attribute, Date):
        numbers = date_part_values(attribute, leaf.part).tolist()
        days = leaf.part.startswith("trunc")
        values = [dt.date.fromordinal(max(1, number)) if days else Fraction(number) for number in numbers]
        return Mapped.of(attributes, (*values, *_column_outcomes(attribute)[attribute.size :]), places)
    outcomes = _column_outcomes(attribute)
    if leaf.plain:
        return Mapped(attributes, outcomes, places)
    moved = [leaf.shift + leaf.scale * Fraction(own) if _is_number(own) else own for own in outcomes]  # type: ignore[arg-type]
    return Mapped.of(attributes, moved, places)


def _is_number(value: Outcome) -> bool:
    return isinstance(value, Fraction | bool)


def _tabulate_formula(formula: Formula, shape: tuple[int, ...]) -> Mapped:
    """Return the values of a formula: NULL where a column is missing, unknown where one is outside."""
    unit = common_unit([number for _, number in formula.terms])
    steps = {powers: int(number / unit) for powers, number in formula.terms}
    last = {own.name: own.cells for own in formula.columns}
    largest = sum(abs(n) * math.prod(last[name] ** power for name, power in powers) for powers, n in steps.items())
    kind = np.int64 if largest < _LARGEST_PLACE else object
    axes = {
        own.name: np.arange(own.cells).astype(kind).reshape([-1 if own is other else 1 for other in formula.columns])
        for own in formula.columns
    }
    total = np.zeros(shape, dtype=kind)
    for powers, number in steps.items():
        total = total + number * math.prod(axes[name] ** power for name, power in powers)
    distinct, places = np.unique(total, return_inverse=True)
    places = places.reshape(shape)
    for special, codes in enumerate(("outside_code", "missing_code")):  # NULL goes first
        for own in formula.columns:
            places = np.where(axes[own.name] == getattr(own, codes), len(distinct) + special, places)
    outcomes = [*(value_of_number(int(number) * unit, formula) for number in distinct.tolist()), UNKNOWN, None]
    used, first, back = np.unique(places, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Mapped.of(formula.columns, [outcomes[place] for place in used[order].tolist()], rank[back].reshape(shape))


def value_of_number(number: Fraction, formula: Formula) -> Constant:
    """Return a number, or the day with this ordinal, with a time if it has one; NULL if the calendar lacks it."""
    if not formula.days:
        return number
    whole = math.floor(number)
    if not 1 <= whole <= dt.date.max.toordinal():
        return None
    if not formula.clock:
        return dt.date.fromordinal(whole)
    seconds = math.floor((number - whole) * DAY_SECONDS)
    return dt.datetime.fromordinal(whole) + dt.timedelta(seconds=seconds)


def apply_function(function: Callable[..., Outcome], leaves: Sequence[Leaf]) -> Leaf:
    """Return the function of some leaves, by a table of its values."""
    attributes = tuple(sorted({own for leaf in leaves for own in leaf_columns(leaf)}, key=lambda own: own.name))
    if not attributes:
        found = function(*leaves)
        return None if isinstance(found, Unknown) else found
    _check_size(attributes)
    tables: list[tuple[tuple[Outcome, ...], Integers]] = []
    for leaf in leaves:
        if isinstance(leaf, Subject | Formula | Mapped):
            own = tabulate(leaf)
            inner = [one.name for one in own.attributes]
            axes = [one.cells if one.name in inner else 1 for one in attributes]
            tables.append((own.outcomes, own.places.reshape(axes)))
        else:
            tables.append(((leaf,), np.zeros([1] * len(attributes), dtype=np.int64)))
    shape = tuple(own.cells for own in attributes)
    joint, size = np.asarray(0, dtype=np.int64), 1
    for outcomes, places in tables:
        if size * len(outcomes) > _LARGEST_PLACE:  # number those that occur, so that 64 bits hold every place
            found_places, back = np.unique(joint, return_inverse=True)
            joint, size = back.reshape(joint.shape), len(found_places)
        joint, size = joint * len(outcomes) + places, size * len(outcomes)
    joint = np.broadcast_to(joint, shape)
    _, first, back = np.unique(joint, return_index=True, return_inverse=True)
    each = [np.broadcast_to(places, shape).reshape(-1)[first] for _, places in tables]
    arguments = [[outcomes[place] for place in own.tolist()] for (outcomes, _), own in zip(tables, each, strict=True)]
    results = [function(*values) for values in zip(*arguments, strict=True)]
    return Mapped.of(attributes, results, back.reshape(joint.shape))


def strict(function: Callable[..., Constant]) -> Callable[..., Outcome]:
    """Return the function that is NULL if an argument is, and unknown if one is unknown."""

    def checked(*values: Outcome) -> Outcome:
        if any(value is None for value in values):
            return None
        return UNKNOWN if any(value is UNKNOWN for value in values) else function(*values)

    return checked


def _check_size(attributes: Sequence[Attribute]) -> None:
    """Refuse a table with too many combinations of cells."""
    number, names = math.prod(own.cells for own in attributes), " and ".join(f"`{own.name}`" for own in attributes)
    if len(attributes) == 1 and number > MOST_MAPPED:
        what = f"{names} has {number} values, too many to list what a function makes of each."
        raise Mismatch(what, "Write arithmetic with + - *, or bin(column, width) in GROUP BY.")
    if len(attributes) > 1 and number > MOST_TABLE:
        what = f"This depends on {number} combinations of {names}; {MOST_TABLE} are listed at most."
        instead = "Write sums, differences and products of columns, or each column by itself"
        if all(numeric_grid(own) is not None for own in attributes):
            instead += f", or compare: CASE WHEN {' * '.join(own.name for own in attributes)} < 100 THEN 1 ELSE 2 END"
        raise Mismatch(what, f"{instead}.")


def tabulate_scalar(scalar: Scalar, domain: Domain) -> Mapped:
    """Return a scalar with its branches as one table of values."""
    names = frozenset().union(*(predicate_attributes(guard) for guard, _ in scalar.branches))
    read = [*scalar.leaves, *(Subject(domain[name]) for name in sorted(names))]
    whole = apply_function(lambda *values: values, read)  # type: ignore[arg-type]
    if not isinstance(whole, Mapped):
        raise Mismatch("This is the same in every row.", "Group by a column.")
    shape = whole.places.shape
    axes = {
        own.name: np.arange(own.cells).reshape([-1 if own is other else 1 for other in whole.attributes])
        for own in whole.attributes
    }
    chosen = np.full(shape, len(scalar.branches), dtype=np.int64)
    for place, (guard, _) in reversed(tuple(enumerate(scalar.branches))):
        chosen[np.broadcast_to(evaluate_predicate(guard, axes), shape)] = place
    joint, back = np.unique(whole.places * len(scalar.leaves) + chosen, return_inverse=True)
    pairs = [divmod(number, len(scalar.leaves)) for number in joint.tolist()]
    outcomes = [whole.outcomes[place][leaf] for place, leaf in pairs]
    return Mapped.of(whole.attributes, outcomes, back.reshape(shape))


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
            found = numeric_grid(attribute)
            if found is None:
                return None
            terms = {(): leaf.shift + leaf.scale * found[0], ((attribute.name, 1),): leaf.scale * found[1]}
            return Formula.of([attribute], terms)
        case Subject() | Mapped() | None:
            return None
        case dt.date():
            return Formula.of((), {(): _days_of(leaf)}, days=True, clock=isinstance(leaf, dt.datetime))
        case _:
            number = constant_number(leaf)
            return None if number is None else Formula.of((), {(): number})


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
    for first, one in left.terms:
        for second, other in right.terms:
            powers = dict(first)
            for name, power in second:
                powers[name] = powers.get(name, 0) + power
            both = tuple(sorted(powers.items()))
            terms[both] = terms.get(both, Fraction(0)) + one * other
    return Formula.of((*left.columns, *right.columns), terms)


def scaled(formula: Formula, factor: Fraction) -> Formula:
    """Return a formula times a number."""
    return replace(formula, terms=tuple((powers, number * factor) for powers, number in formula.terms if factor))


def common_unit(spans: Sequence[Fraction]) -> Fraction:
    """Return the largest unit that divides all spans; 1 if there is none."""
    denominator = math.lcm(*(span.denominator for span in spans))
    numerator = math.gcd(*(int(span * denominator) for span in spans))
    return Fraction(numerator, denominator) if numerator else Fraction(1)


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
    for own in (left, right):
        if leaf_kind(own) == "text":
            what = "A text is added up." if sign in "+-" else "A text is multiplied."
            raise Mismatch(what, "Use columns of numbers only; || joins texts.")
    one, other = formula_of(left), formula_of(right)
    if one is not None and other is not None:
        if sign in "+-":
            return leaf_of(add(one, other, 1 if sign == "+" else -1))
        if sign == "*":
            return leaf_of(multiply(one, other))
        if not other.columns and not one.days and not other.days:
            divisor = dict(other.terms).get((), Fraction(0))
            if divisor == 0:
                raise Mismatch("This divides by zero.", "Write another divisor.")
            return leaf_of(scaled(one, 1 / divisor))
    if sign == "/":
        _check_ratio(left, right)
    return apply_function(strict(lambda a, b: _calculate_values(sign, a, b)), (left, right))


def _check_ratio(left: Leaf, right: Leaf) -> None:
    """Refuse a ratio of columns with too many combinations of values, and say what is answered instead."""
    one, other = (tuple(own.name for own in leaf_columns(leaf)) for leaf in (left, right))
    cells = {own.name: own.cells for leaf in (left, right) for own in leaf_columns(leaf)}
    if len(cells) > 1 and math.prod(cells.values()) > MOST_TABLE and len(one) == len(other) == 1:
        a, b = one[0], other[0]
        instead = (
            f"Write sum({a}) / sum({b}) for the ratio of the totals, or compare products, as in "
            f"avg(CASE WHEN {a} > 2 * {b} THEN 1 ELSE 0 END) for the share of rows with a ratio above 2."
        )
        raise Mismatch(f"`{a}` and `{b}` have {math.prod(cells.values())} ratios; {MOST_TABLE} are listed.", instead)


def _calculate_values(sign: str, left: Constant, right: Constant) -> Constant:
    """Return + - * / of two values; a division by 0 gives NULL."""
    if isinstance(left, dt.date) or isinstance(right, dt.date):
        pair = [formula_of(own) for own in (left, right)]
        if pair[0] is None or pair[1] is None or sign not in "+-":
            raise Mismatch("A day is added to something else than a number of days.", "Write the day, + and a number.")
        return leaf_of(add(pair[0], pair[1], 1 if sign == "+" else -1))  # type: ignore[return-value]
    one, other = constant_number(left), constant_number(right)
    if one is None or other is None:
        raise Mismatch("This is no number.", "Use numbers only.")
    if sign == "/":
        return None if other == 0 else one / other
    return _OPERATORS[sign](one, other)


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
    found: Constant = None
    match to, value:
        case (("date" | "timestamp"), str()):
            day, later = parse_moment(value)
            found = parse_time(value) if to == "timestamp" and later else day
        case (("whole" | "number"), str()):
            found = parse_signed(value)
        case (("whole" | "number"), bool()):
            found = Fraction(value)
        case "boolean", str() if value.lower() in {"true", "false"}:
            found = value.lower() == "true"
        case "text", bool():
            found = str(value).lower()
        case "text", Fraction() if value.denominator == 1:
            found = str(value)
        case "text", dt.date():
            found = value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
        case "date", dt.datetime():
            found = value.date()
        case (("whole" | "number"), Fraction()) | ("text", str()) | ("boolean", bool()):
            found = value
        case (("date" | "timestamp"), dt.date()):
            found = value
    parts = to == "whole" and isinstance(found, Fraction) and found.denominator != 1
    if parts:
        raise Mismatch("Engines round a cast to whole numbers in different ways.", "Write round(), floor() or ceil().")
    if found is None and value is not None:
        raise Mismatch("This cast is not known.", _WRITE_LITERAL)
    return found


_SAME = {("date", "date"), ("date", "timestamp"), ("timestamp", "timestamp")}


def cast_leaf(leaf: Leaf, to: str) -> Leaf:
    """Cast a leaf, value by value."""
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
    return apply_function(strict(lambda value: cast_constant(value, to)), (leaf,))
