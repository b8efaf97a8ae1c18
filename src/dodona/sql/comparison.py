"""Comparisons of a column with constants, and exact arithmetic on literals.

A comparison yields a pair of predicates: where it is true and where it is false. Elsewhere it is NULL.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from dodona.errors import InvalidArgument
from dodona.query.column import COMPARATORS, comparison_mask, comparison_truth, require_special_cell, special_cell_mask
from dodona.query.predicate import EVERYTHING, NOTHING, Predicate, among_mask, conjunction, disjunction, pack_bits
from dodona.schema.attributes import MISSING, OUTSIDE, Attribute, Category, Date
from dodona.sql.scalar import Constant, Leaf, Scalar, Subject, constant_number, date_part_values, scalar_from_leaf
from dodona.sql.scope import Scope

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
