"""Scalars: the value of an SQL expression in one row, as a function of the row's cell, and what it compares with.

Arithmetic on literals is exact. A comparison yields a pair of predicates: where it is true and where it is false.
Elsewhere it is NULL.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dodona.errors import InvalidArgument
from dodona.query.column import COMPARATORS, comparison_mask, comparison_truth, require_special_cell, special_cell_mask
from dodona.query.predicate import (
    EVERYTHING,
    NOTHING,
    Predicate,
    among_mask,
    complement,
    conjunction,
    disjunction,
    pack_bits,
)
from dodona.schema.attributes import (
    CALENDAR_BINS,
    MISSING,
    OUTSIDE,
    Attribute,
    Boolean,
    Category,
    Date,
    period_starts,
)
from dodona.schema.partition import Partition
from dodona.sql.scope import Scope

# --- Scalars: the value of an expression in one row, as a function of the row's cell alone. ---


@dataclass(frozen=True, slots=True)
class Subject:
    """A column: shift + scale·x of a number, a date part, or the unchanged column."""

    attribute: Attribute
    shift: Fraction = Fraction(0)
    scale: Fraction = Fraction(1)
    part: str | None = None
    """The date part: `year`, ... for numbers, `trunc month`, ... for the first day."""

    @property
    def plain(self) -> bool:
        """Whether it is the unchanged column."""
        return self.part is None and self.shift == 0 and self.scale == 1

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers; false and true count as 0 and 1."""
        if self.part is not None:
            return not self.part.startswith("trunc")
        return not isinstance(self.attribute, Category | Date)


Constant = Fraction | str | bool | dt.date | None
"""None is NULL."""
Leaf = Subject | Fraction | str | bool | dt.date | None


_MOST_FOLDED = 8


@dataclass(frozen=True, slots=True)
class Scalar:
    """The leaf of the first branch that holds, otherwise the last one."""

    branches: tuple[tuple[Predicate, Leaf], ...]
    otherwise: Leaf

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, in order."""
        return (*(leaf for _, leaf in self.branches), self.otherwise)

    @property
    def width(self) -> int:
        """The number of cells of the widest column among the leaves; 0 if all are constants."""
        return max((leaf.attribute.cells for leaf in self.leaves if isinstance(leaf, Subject)), default=0)

    def mapped(self, change: Callable[[Leaf], Leaf]) -> Scalar:
        """Return the scalar with each leaf transformed."""
        return Scalar(tuple((guard, change(leaf)) for guard, leaf in self.branches), change(self.otherwise))

    def where(self, test: Callable[[Leaf], Predicate]) -> Predicate:
        """Return the rows whose leaf satisfies a test."""
        if len(self.branches) > _MOST_FOLDED:
            return self._flat(test)
        found = test(self.otherwise)
        for guard, leaf in reversed(self.branches):
            found = if_then_else(guard, test(leaf), found)
        return found

    def _flat(self, test: Callable[[Leaf], Predicate]) -> Predicate:
        """Return the same rows as a shallow formula, however many branches there are."""
        parts: list[Predicate] = []
        before: Predicate = NOTHING
        for guard, leaf in self.branches:
            parts.append(conjunction(guard, test(leaf), complement(before)))
            before = disjunction(before, guard)
        return disjunction(*parts, conjunction(test(self.otherwise), complement(before)))

    def present(self) -> Predicate:
        """Return the rows in which the scalar has a value."""
        return self.where(leaf_present)


def scalar_from_leaf(leaf: Leaf) -> Scalar:
    """Return a scalar with the same leaf in every row."""
    return Scalar((), leaf)


def if_then_else(guard: Predicate, then: Predicate, otherwise: Predicate) -> Predicate:
    """Return the rows of `then` where the guard holds, and those of `otherwise` elsewhere."""
    if EVERYTHING in {then, otherwise} or NOTHING in {then, otherwise}:  # keep it flat
        if then == otherwise:
            return then
        if then == EVERYTHING:
            return disjunction(guard, otherwise)
        if then == NOTHING:
            return conjunction(complement(guard), otherwise)
        return disjunction(then, complement(guard)) if otherwise == EVERYTHING else conjunction(guard, then)
    return disjunction(conjunction(guard, then), conjunction(complement(guard), otherwise))


def build_case(branches: list[tuple[Predicate, Scalar]], otherwise: Scalar) -> Scalar:
    """Return the scalar of the first branch that holds, or `otherwise` if none does."""
    found: list[tuple[Predicate, Leaf]] = []
    for guard, scalar in branches:
        found.extend((conjunction(guard, inner), leaf) for inner, leaf in scalar.branches)
        found.append((guard, scalar.otherwise))
    found.extend(otherwise.branches)
    last = otherwise.otherwise
    kept = []
    for guard, leaf in found:
        if guard == EVERYTHING:
            last = leaf
            break
        if guard != NOTHING:
            kept.append((guard, leaf))
    while kept and kept[-1][1] == last and type(kept[-1][1]) is type(last):
        kept.pop()
    return Scalar(tuple(kept), last)


def leaf_present(leaf: Leaf) -> Predicate:
    """Return the rows in which a leaf has a value: aggregates skip `<missing>` and `<outside>`."""
    if isinstance(leaf, Subject):
        return among_mask(leaf.attribute, (1 << leaf.attribute.size) - 1)
    return NOTHING if leaf is None else EVERYTHING


def constant_number(leaf: Leaf) -> Fraction | None:
    """Return a constant as a number, with true as 1; None if it is not a number."""
    if isinstance(leaf, bool):
        return Fraction(leaf)
    return leaf if isinstance(leaf, Fraction) else None


def leaf_truth(leaf: Leaf) -> tuple[Predicate, Predicate] | None:
    """Return where a leaf is true and where it is false; None if it is not boolean."""
    if leaf is None:
        return NOTHING, NOTHING
    if isinstance(leaf, bool):
        return (EVERYTHING, NOTHING) if leaf else (NOTHING, EVERYTHING)
    if isinstance(leaf, Subject) and isinstance(leaf.attribute, Boolean) and leaf.plain:
        return among_mask(leaf.attribute, 0b10), among_mask(leaf.attribute, 0b01)
    return None


# --- Date parts: `year(d)`, `date_trunc('month', d)` and so on for each day of a column. ---


PART_SYNONYMS = {"dayofmonth": "day", "dayofweek": "dow", "weekday": "dow", "dayofyear": "doy", "weekofyear": "week"}
"""Alternative names of date parts."""
_EPOCH = dt.date(1970, 1, 1).toordinal()
_Numbers = NDArray[np.int64]


@lru_cache(maxsize=64)
def date_part_values(attribute: Date, part: str) -> _Numbers:
    """Return the part of each day in code order: a number, or the first day as an ordinal.

    >>> from datetime import date
    >>> date_part_values(Date("d", date(2024, 1, 30), date(2024, 2, 2)), "month").tolist()
    [1, 1, 2, 2]
    """
    ordinals = np.arange(attribute.lower.toordinal(), attribute.upper.toordinal() + 1, dtype=np.int64)
    found = _PARTS[part](ordinals)
    found.flags.writeable = False
    return found


def date_partition(attribute: Date, unit: str) -> Partition:
    """Return the days grouped by one unit; the first and the last group may be incomplete."""
    found = date_part_values(attribute, f"trunc {unit}")
    cuts = np.flatnonzero(np.diff(found, prepend=found[0] - 1))
    return Partition.cut(attribute, tuple(cuts.tolist()))


def _as_days(ordinals: _Numbers) -> NDArray[np.datetime64]:
    return (ordinals - _EPOCH).astype("datetime64[D]")


def _month(ordinals: _Numbers) -> _Numbers:
    """Return the months since January 1970."""
    return _as_days(ordinals).astype("datetime64[M]").astype(np.int64)


def _weekday(ordinals: _Numbers) -> _Numbers:
    """Return 0 for Monday to 6 for Sunday: the first day of year 1 was a Monday."""
    return (ordinals + 6) % 7


def _week(ordinals: _Numbers) -> _Numbers:
    """Return the ISO 8601 week, which belongs to the year of its Thursday."""
    thursday = ordinals - _weekday(ordinals) + 3
    return (thursday - period_starts(thursday, "year")) // 7 + 1


TRUNCATION_UNITS = tuple(reversed(CALENDAR_BINS))
"""The units that a date may be truncated to."""
_PARTS: dict[str, Callable[[_Numbers], _Numbers]] = {
    "year": lambda days: _as_days(days).astype("datetime64[Y]").astype(np.int64) + 1970,
    "quarter": lambda days: _month(days) % 12 // 3 + 1,
    "month": lambda days: _month(days) % 12 + 1,
    "week": _week,
    "day": lambda days: days - period_starts(days, "month") + 1,
    "dow": lambda days: (_weekday(days) + 1) % 7,
    "isodow": lambda days: _weekday(days) + 1,
    "doy": lambda days: days - period_starts(days, "year") + 1,
    **{f"trunc {unit}": partial(period_starts, unit=unit) for unit in TRUNCATION_UNITS},
}
DATE_PARTS = tuple(part for part in _PARTS if not part.startswith("trunc"))
"""Date parts that are numbers."""


# --- Comparisons: the cells where a column compares true with a constant, and those where it compares false. ---


Truth = tuple[Predicate, Predicate]
"""Where a condition is true and where it is false. Elsewhere it is NULL."""
ALWAYS_NULL: Truth = (NOTHING, NOTHING)
ALWAYS_TRUE: Truth = (EVERYTHING, NOTHING)
ALWAYS_FALSE: Truth = (NOTHING, EVERYTHING)
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The relation with its sides swapped; = and <> are symmetric."""
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CELLS: tuple[Constant, ...] = (MISSING, OUTSIDE)
_FAR = 10**9
_LONGEST_PATTERN = 1_000


class Mismatch(Exception):
    """A column and a constant that cannot be compared: what is wrong, and what to write instead."""


def compare_leaf(leaf: Leaf, relation: str, constant: Constant) -> Truth:
    """Return where `leaf relation constant` is true and where it is false."""
    if leaf is None or constant is None:
        return ALWAYS_NULL
    if not isinstance(leaf, Subject):
        return _compare_constants(leaf, relation, constant)
    attribute = leaf.attribute
    if isinstance(constant, str) and constant in _CELLS:
        return _compare_special_cell(attribute, relation, constant)
    return comparison_truth(attribute, _true_mask(leaf, relation, constant))


def compare_any(leaf: Leaf, constants: Iterable[Constant]) -> Truth:
    """Return where a leaf equals one of some constants: all comparisons joined by OR."""
    found, codes = list[Truth](), 0
    for constant in constants:
        if isinstance(leaf, Subject) and constant is not None and constant not in _CELLS:
            codes |= _true_mask(leaf, "=", constant)
        else:
            found.append(compare_leaf(leaf, "=", constant))
    if isinstance(leaf, Subject):
        found.append(comparison_truth(leaf.attribute, codes))
    return disjunction(*(true for true, _ in found)), conjunction(*(false for _, false in found))


def match_like(subject: Subject, pattern: str, *, folded: Callable[[str], str]) -> Truth:
    """Return where a label matches a pattern. An outside text is unknown, so it neither matches nor fails."""
    attribute = subject.attribute
    if not isinstance(attribute, Category):
        raise Mismatch(f"LIKE compares texts, and `{attribute.name}` holds none.", "Write = or BETWEEN.")
    if len(pattern) > _LONGEST_PATTERN:
        raise Mismatch("This pattern is longer than any label.", "Write a shorter one.")
    wanted = folded(pattern)
    true = sum(1 << code for code, label in enumerate(attribute.labels) if matches_pattern(folded(label), wanted))
    return among_mask(attribute, true), among_mask(attribute, ((1 << attribute.size) - 1) & ~true)


def matches_pattern(text: str, pattern: str) -> bool:
    """Whether a text matches a LIKE pattern: % is any text, _ any character. Time is bounded by the product of lengths.

    >>> matches_pattern("female", "%ma_e"), matches_pattern("female", "ma%")
    (True, False)
    """
    at = here = mark = 0
    star = -1
    while at < len(text):
        sign = pattern[here] if here < len(pattern) else None
        if sign == "%":
            star, mark, here = here, at, here + 1
        elif sign is not None and sign in {"_", text[at]}:
            at, here = at + 1, here + 1
        elif star >= 0:
            here, mark = star + 1, mark + 1  # let the last % match one more character; earlier ones need not change
            at = mark
        else:
            return False
    return not pattern[here:].strip("%")


def null_predicate(attribute: Attribute) -> Predicate:
    """Return the rows in which a column is NULL; none if `otherwise` says what they count as."""
    return among_mask(attribute, special_cell_mask(attribute, MISSING))


def parse_date(text: str) -> dt.date:
    """Parse a date literal."""
    try:
        if _DAY.fullmatch(text):
            return dt.date.fromisoformat(text)
    except ValueError:
        pass
    raise Mismatch(f"'{text[:40]}' is no day.", "Write year, month and day, such as '2024-01-31'.")


def _compare_constants(left: Constant, relation: str, right: Constant) -> Truth:
    """Compare two constants: the result is the same in every row."""
    if isinstance(left, dt.date) and isinstance(right, str):
        right = parse_date(right)
    elif isinstance(right, dt.date) and isinstance(left, str):
        left = parse_date(left)
    numbers = (bool, Fraction)
    if type(left) is not type(right) and not (isinstance(left, numbers) and isinstance(right, numbers)):
        instead = "Compare a number with a number, a text with a text."
        raise Mismatch("Two different kinds of values are compared.", instead)
    return ALWAYS_TRUE if COMPARATORS[relation](left, right) else ALWAYS_FALSE


def _compare_special_cell(attribute: Attribute, relation: str, cell: str) -> Truth:
    """Compare with `<missing>` or `<outside>`, which have no order."""
    if relation not in {"=", "<>"}:
        raise Mismatch(f"{cell} has no order.", f"Write `{attribute.name} = '{cell}'`.")
    try:
        true = require_special_cell(attribute, cell)
    except InvalidArgument as fault:
        raise Mismatch(f"`{attribute.name}` is not compared with this:", f"{fault.accepted}.") from None
    false = ((1 << attribute.cells) - 1) & ~true & ~(0 if cell == MISSING else special_cell_mask(attribute, MISSING))
    pair = among_mask(attribute, true), among_mask(attribute, false)
    return pair if relation == "=" else (pair[1], pair[0])


def _true_mask(subject: Subject, relation: str, constant: Constant) -> int:
    """Return the cells in which a comparison is true."""
    attribute = subject.attribute
    if subject.part is not None and isinstance(attribute, Date):
        return _date_part_mask(attribute, subject.part, relation, constant)
    if isinstance(attribute, Date) and isinstance(constant, str):
        constant = parse_date(constant)
    if not subject.plain:
        if isinstance(constant, bool) or not isinstance(constant, Fraction):
            raise Mismatch(f"`{attribute.name}` is reckoned with as a number.", "Compare it with a number.")
        if subject.scale == 0:
            return (1 << attribute.size) - 1 if COMPARATORS[relation](subject.shift, constant) else 0
        relation = MIRRORED.get(relation, relation) if subject.scale < 0 else relation
        constant = (constant - subject.shift) / subject.scale
    try:
        return comparison_mask(attribute, relation, constant) if constant is not None else 0
    except InvalidArgument as fault:
        raise Mismatch(f"`{attribute.name}` is not compared with this:", f"{fault.accepted}.") from None


def _date_part_mask(attribute: Date, part: str, relation: str, constant: Constant) -> int:
    """Return the days whose date part compares true with a number or a day."""
    if part.startswith("trunc"):
        place = parse_date(constant) if isinstance(constant, str) else constant
        if not isinstance(place, dt.date):
            raise Mismatch(f"`{attribute.name}` is a date.", "Compare it with a day, such as '2024-01-31'.")
        number = Fraction(place.toordinal())
    elif isinstance(constant, bool) or not isinstance(constant, Fraction):
        raise Mismatch(f"The {part} of a date is a number.", "Compare it with a number without quotes.")
    else:
        number = constant
    limited = min(max(number, Fraction(-_FAR)), Fraction(_FAR))
    if limited.denominator != 1 and relation in {"=", "<>"}:
        return 0 if relation == "=" else (1 << attribute.size) - 1
    whole = math.ceil(limited) if relation in {"<", ">="} else math.floor(limited)
    holds = COMPARATORS[relation](date_part_values(attribute, part), whole)
    return pack_bits(holds)


# --- Literals: parsed exactly. ---


LARGEST_BITS = 1_200
"""The maximum size of numerators and denominators in constant arithmetic: doubles need 1,075 bits."""
_NUMBER = re.compile(r"([0-9]{1,60}([.][0-9]{0,60})?|[.][0-9]{1,60})([eE][+-]?[0-9]{1,3})?")
_TYPE_KINDS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128"), "whole"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINT", "UBIGINT"), "whole"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "number"),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR", "NVARCHAR", "NCHAR"), "text"),
    "DATE": "date",
    "BOOLEAN": "boolean",
}


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


def is_small(value: Fraction) -> bool:
    """Whether a number is still short enough for further arithmetic."""
    return max(value.numerator.bit_length(), value.denominator.bit_length()) <= LARGEST_BITS


def type_kind(to: exp.Expr) -> str:
    """Return the kind of a SQL type: whole, number, text, date, boolean, or other."""
    plain = isinstance(to, exp.DataType) and not to.expressions  # DECIMAL(5, 2) would round
    return _TYPE_KINDS.get(getattr(to.this, "value", "") if plain else "", "other")


def cast_constant(value: Constant, to: str) -> Constant:
    """Cast a constant to another kind of value."""
    found: Constant = None
    match to, value:
        case "date", str():
            found = parse_date(value)
        case (("whole" | "number"), str()):
            size = parse_number(value.removeprefix("-"))
            found = size if size is None or not value.startswith("-") else -size
        case (("whole" | "number"), bool()):
            found = Fraction(value)
        case "boolean", str() if value.lower() in {"true", "false"}:
            found = value.lower() == "true"
        case (("whole" | "number"), Fraction()) | ("text", str()) | ("boolean", bool()) | ("date", dt.date()):
            found = value
    parts = to == "whole" and isinstance(found, Fraction) and found.denominator != 1
    if parts or (found is None and value is not None):
        raise Mismatch("This cast is not known.", "Write the value itself, such as 65, 'female' or DATE '2024-01-31'.")
    return found


def cast_leaf(leaf: Leaf, to: str) -> Leaf:
    """Cast a leaf: supported for constants, and for columns that the cast does not change."""
    if not isinstance(leaf, Subject):
        return cast_constant(leaf, to)
    name, held = leaf.attribute.name, leaf.attribute.kind
    if leaf.numeric and (to == "number" or (to == "whole" and held != "number" and leaf.scale.denominator == 1)):
        return leaf
    if leaf.plain and (held, to) in {("category", "text"), ("date", "date"), ("boolean", "boolean")}:
        return leaf
    raise Mismatch(f"`{name}` is a column of kind {held}, and this cast would change it.", "Leave the cast out.")


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


# --- Row arithmetic: exact, and only while the result stays affine in one column. ---


_TWO_COLUMNS = "Two columns are reckoned together in one row."
_APART = "Ask for sums of each column, and reckon with the answers: sum(a) + sum(b)."


def apply_arithmetic(scope: Scope, node: exp.Expr, left: Scalar, right: Scalar) -> Scalar:
    """Return left + right or a similar operation; at least one side must be a constant."""
    if not left.branches and not isinstance(left.otherwise, Subject):
        fixed = left.otherwise
        return right.mapped(lambda leaf: _apply_to_leaves(scope, node, fixed, leaf))
    if not right.branches and not isinstance(right.otherwise, Subject):
        given = right.otherwise
        return left.mapped(lambda leaf: _apply_to_leaves(scope, node, leaf, given))
    raise scope.fault(node, _TWO_COLUMNS, _APART)


def constant_value(found: Scalar) -> Fraction | None:
    """Return the number that a scalar equals in every row; None if there is none."""
    return None if found.branches or isinstance(found.otherwise, Subject) else constant_number(found.otherwise)


def _apply_to_leaves(scope: Scope, node: exp.Expr, left: Leaf, right: Leaf) -> Leaf:
    """Apply one arithmetic operation; NULL propagates."""
    if left is None or right is None:
        return None
    one, other = _affine(scope, node, left), _affine(scope, node, right)
    match node:
        case exp.Add():
            shift, scale = one[0] + other[0], one[1] + other[1]
        case exp.Sub() | exp.Neg():
            shift, scale = one[0] - other[0], one[1] - other[1]
        case exp.Mul():
            shift, scale = one[0] * other[0], one[0] * other[1] + one[1] * other[0]
        case _:
            if other[1] != 0:
                raise scope.fault(node, "A number is divided by a column.", "Divide answers: sum(a) / sum(b).")
            if other[0] == 0:
                raise scope.fault(node, "This divides by zero.", "Write another divisor.")
            shift, scale = one[0] / other[0], one[1] / other[0]
    if not (is_small(shift) and is_small(scale)):
        raise scope.fault(node, "This number grows too long.", "Write the result itself.")
    subject = left if isinstance(left, Subject) else right
    return Subject(subject.attribute, shift, scale) if isinstance(subject, Subject) else shift


def _affine(scope: Scope, node: exp.Expr, leaf: Leaf) -> tuple[Fraction, Fraction]:
    """Return the shift and scale of a leaf; a constant has scale 0."""
    if isinstance(leaf, Subject):
        if leaf.numeric and leaf.part is None:
            return leaf.shift, leaf.scale
        what = f"`{leaf.attribute.name}` is not reckoned with."
        raise scope.fault(node, what, "Reckon with columns of numbers only.")
    found = constant_number(leaf)
    if found is None:
        raise scope.fault(node, "A text or a day is reckoned with.", "Reckon with numbers only.")
    return found, Fraction(0)


ZERO = scalar_from_leaf(Fraction(0))
