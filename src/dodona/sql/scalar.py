"""Scalars: the value of an SQL expression in one row, with CASE, and what it compares with.

Arithmetic is exact. A comparison yields a pair of predicates: where it is true and where it is false. Elsewhere it is
NULL.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import numpy as np
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
    evaluate_predicate,
    non_negative,
    pack_bits,
    predicate_attributes,
)
from dodona.schema.attributes import MISSING, OUTSIDE, Attribute, Date
from dodona.schema.schema import Domain
from dodona.sql import leaf as leaves
from dodona.sql.calendar import Interval, date_part_values, parse_interval, shift_day
from dodona.sql.leaf import Constant, Formula, Leaf, Mapped, Mismatch, Outcome, Subject, leaf_kind
from dodona.sql.scope import Scope

# --- Scalars: the value of an expression in one row, as a function of the row's cell alone. ---


_MOST_FOLDED = 8
_MOST_LEAVES = 256


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
        return max(leaves.leaf_width(leaf) for leaf in self.leaves)

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
        return self.where(leaves.leaf_present)


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


def combine(function: Callable[..., Leaf], scalars: Sequence[Scalar]) -> Scalar:
    """Return the scalar of a function of the leaves of several scalars, whichever branches hold."""
    if math.prod(len(one.leaves) for one in scalars) > _MOST_LEAVES:
        raise Mismatch("Long CASEs are combined here.", "Write one CASE around the whole expression.")

    def rest(chosen: tuple[Leaf, ...]) -> Scalar:
        if len(chosen) == len(scalars):
            return scalar_from_leaf(function(*chosen))
        own = scalars[len(chosen)]
        branches = [(guard, rest((*chosen, leaf))) for guard, leaf in own.branches]
        return build_case(branches, rest((*chosen, own.otherwise)))

    return rest(())


def tabulate_scalar(scalar: Scalar, domain: Domain) -> Mapped:
    """Return a scalar with its branches as one table of values."""
    names = frozenset().union(*(predicate_attributes(guard) for guard, _ in scalar.branches))
    read = [*scalar.leaves, *(Subject(domain[name]) for name in sorted(names))]
    whole = leaves.apply_function(lambda *values: values, read)  # type: ignore[arg-type, return-value]
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
    outcomes = [whole.outcomes[place][leaf] for place, leaf in pairs]  # type: ignore[index]
    return Mapped.of(whole.attributes, outcomes, back.reshape(shape))


# --- Comparisons: where one leaf compares true with another, and where it compares false. ---


Truth = tuple[Predicate, Predicate]
"""Where a condition is true and where it is false. Elsewhere it is NULL."""
ALWAYS_NULL: Truth = (NOTHING, NOTHING)
ALWAYS_TRUE: Truth = (EVERYTHING, NOTHING)
ALWAYS_FALSE: Truth = (NOTHING, EVERYTHING)
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The relation with its sides swapped; = and <> are symmetric."""
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_CELLS: tuple[Constant, ...] = (MISSING, OUTSIDE)
_FAR = 10**9
_LONGEST_PATTERN = 1_000


def compare_leaves(left: Leaf, relation: str, right: Leaf) -> Truth:
    """Return where `left relation right` is true and where it is false."""
    if not isinstance(right, leaves.Computed):
        return compare_leaf(left, relation, right)
    if not isinstance(left, leaves.Computed):
        return compare_leaf(right, MIRRORED.get(relation, relation), left)
    kinds = {leaf_kind(left), leaf_kind(right)}
    if len(kinds) > 1 and None not in kinds:
        listed = " with ".join(f"a {leaf_kind(own)}" for own in (left, right))
        raise Mismatch(f"This compares {listed}.", "Compare a number with a number, a text with a text.")
    one, other = leaves.formula_of(left), leaves.formula_of(right)
    if one is not None and other is not None:
        return _compare_formula(leaves.add(one, other, -1), relation)
    if kinds == {"text"} and relation not in {"=", "<>"}:
        raise Mismatch("Labels have no order.", "Write = or <>.")
    found = leaves.apply_function(leaves.strict(COMPARATORS[relation]), (left, right))
    return leaves.leaf_truth(found) or ALWAYS_NULL


def _compare_formula(difference: Formula, relation: str) -> Truth:
    """Return where a difference compares true with 0, and where it compares false."""
    unit = common_unit([number for _, number in difference.terms])

    def holds(wanted: str) -> Predicate:
        polynomial = difference.polynomial(unit)
        match wanted:
            case ">=":
                return non_negative(polynomial)
            case ">":
                return non_negative(polynomial.plus(-1))
            case "<=":
                return non_negative(polynomial.negative())
            case "<":
                return non_negative(polynomial.negative().plus(-1))
            case "=":
                return conjunction(holds(">="), holds("<="))
            case _:
                return disjunction(holds(">"), holds("<"))

    try:
        return holds(relation), holds(_NEGATED[relation])
    except InvalidArgument as fault:
        raise Mismatch("These columns have too many digits to be compared exactly:", f"{fault.accepted}.") from None


def common_unit(spans: Sequence[Fraction]) -> Fraction:
    """Return the largest unit that divides all spans; 1 if there is none."""
    denominator = math.lcm(*(span.denominator for span in spans))
    numerator = math.gcd(*(int(span * denominator) for span in spans))
    return Fraction(numerator, denominator) if numerator else Fraction(1)


def compare_leaf(leaf: Leaf, relation: str, constant: Constant) -> Truth:
    """Return where `leaf relation constant` is true and where it is false."""
    if leaf is None or constant is None:
        return ALWAYS_NULL
    if not isinstance(leaf, leaves.Computed):
        return _compare_constants(leaf, relation, constant)
    if isinstance(leaf, Subject) and isinstance(constant, str) and constant in _CELLS:
        return _compare_special_cell(leaf.attribute, relation, constant)
    relation, constant = _coerce(leaf, relation, constant)
    if isinstance(leaf, Subject):
        return comparison_truth(leaf.attribute, _true_mask(leaf, relation, constant))
    formula, other = leaves.formula_of(leaf), leaves.formula_of(constant)
    if formula is not None and other is not None:
        return _compare_formula(leaves.add(formula, other, -1), relation)
    if not isinstance(leaf, Mapped) or type(constant) not in _COMPARABLE.get(leaf_kind(leaf) or "", ()):
        what = f"This compares a {leaf_kind(leaf) or 'value'} with something else."
        raise Mismatch(what, "Compare values of one kind.")
    holds = leaves.strict(lambda value: bool(COMPARATORS[relation](_sortable(value), _sortable(constant))))
    return leaf.where(lambda one: holds(one) is True), leaf.where(lambda one: holds(one) is False)


_COMPARABLE: dict[str, tuple[type, ...]] = {
    "number": (Fraction, bool),
    "boolean": (bool,),
    "date": (dt.date,),
    "text": (str,),
    "interval": (Interval,),
}


def _sortable(value: Constant) -> Constant | int:
    return value.length if isinstance(value, Interval) else value


def _coerce(leaf: Leaf, relation: str, constant: Constant) -> tuple[str, Constant]:
    """Return the comparison with a constant of the leaf's kind, as SQL reads a text beside a number or a day."""
    match leaf_kind(leaf), constant:
        case "number", str():
            return relation, parse_signed(constant)
        case "date", str():
            day, later = parse_moment(constant)
            if later:  # a day is its first moment
                if relation in {"=", "<>"}:
                    raise Mismatch("A day is compared with a time of day.", "Write the day alone.")
                relation = {">=": ">", "<": "<="}.get(relation, relation)
            return relation, day
        case "boolean", Fraction() if constant in {0, 1}:
            return relation, constant == 1
        case "boolean", str() if constant.lower() in {"true", "false", "t", "f"}:
            return relation, constant.lower().startswith("t")
        case "interval", str():
            found = parse_interval(constant)
            if found is None:
                raise Mismatch(f"'{constant[:40]}' is no interval.", "Write INTERVAL '7 days'.")
            return relation, found
        case _:
            return relation, constant


def compare_any(leaf: Leaf, constants: Iterable[Constant]) -> Truth:
    """Return where a leaf equals one of some constants: all comparisons joined by OR."""
    found, codes = list[Truth](), 0
    for constant in constants:
        if isinstance(leaf, Subject) and constant is not None and constant not in _CELLS:
            codes |= _true_mask(leaf, "=", _coerce(leaf, "=", constant)[1])
        else:
            found.append(compare_leaf(leaf, "=", constant))
    if isinstance(leaf, Subject):
        found.append(comparison_truth(leaf.attribute, codes))
    return disjunction(*(true for true, _ in found)), conjunction(*(false for _, false in found))


def match_like(leaf: Leaf, pattern: str, *, folded: Callable[[str], str]) -> Truth:
    """Return where a text matches a pattern. An outside text is unknown, so it neither matches nor fails."""
    if leaf_kind(leaf) != "text" or not isinstance(leaf, Subject | Mapped):
        raise Mismatch("LIKE compares texts, and this is none.", "Write = or BETWEEN.")
    if len(pattern) > _LONGEST_PATTERN:
        raise Mismatch("This pattern is longer than any label.", "Write a shorter one.")
    wanted = folded(pattern)
    table = leaves.tabulate(leaf)

    def matches(one: Outcome) -> bool | None:
        return matches_pattern(folded(one), wanted) if isinstance(one, str) else None

    return table.where(lambda one: matches(one) is True), table.where(lambda one: matches(one) is False)


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


def null_predicate(leaf: Leaf) -> Predicate:
    """Return where a leaf is NULL. `<outside>` is not NULL, although its value is unknown."""
    if isinstance(leaf, Mapped):
        return leaf.where(lambda one: one is None)
    if isinstance(leaf, Subject | Formula):
        return disjunction(*(missing_predicate(own) for own in leaves.leaf_columns(leaf)))
    return complement(leaves.leaf_present(leaf))


def missing_predicate(attribute: Attribute) -> Predicate:
    """Return the rows in which a column is NULL; none if `otherwise` says what they count as."""
    return among_mask(attribute, special_cell_mask(attribute, MISSING))


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
    return ALWAYS_TRUE if COMPARATORS[relation](_sortable(left), _sortable(right)) else ALWAYS_FALSE


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
    if not subject.plain:
        if isinstance(constant, bool) or not isinstance(constant, Fraction):
            raise Mismatch(f"`{attribute.name}` is used as a number.", "Compare it with a number.")
        if subject.scale == 0:
            return (1 << attribute.size) - 1 if COMPARATORS[relation](subject.shift, constant) else 0
        relation = MIRRORED.get(relation, relation) if subject.scale < 0 else relation
        constant = (constant - subject.shift) / subject.scale
    try:
        if constant is None or isinstance(constant, Interval):
            return 0
        return comparison_mask(attribute, relation, constant)
    except InvalidArgument as fault:
        raise Mismatch(f"`{attribute.name}` is not compared with this:", f"{fault.accepted}.") from None


def _date_part_mask(attribute: Date, part: str, relation: str, constant: Constant) -> int:
    """Return the days whose date part compares true with a number or a day."""
    if part.startswith("trunc"):
        if not isinstance(constant, dt.date):
            raise Mismatch(f"`{attribute.name}` is a date.", "Compare it with a day, such as '2024-01-31'.")
        number = Fraction(constant.toordinal())
    elif isinstance(constant, bool) or not isinstance(constant, Fraction):
        raise Mismatch(f"The {part} of a date is a number.", "Compare it with a number.")
    else:
        number = constant
    limited = min(max(number, Fraction(-(_FAR**2))), Fraction(_FAR**2))
    if limited.denominator != 1 and relation in {"=", "<>"}:
        return 0 if relation == "=" else (1 << attribute.size) - 1
    whole = math.ceil(limited) if relation in {"<", ">="} else math.floor(limited)
    holds = COMPARATORS[relation](date_part_values(attribute, part), whole)
    return pack_bits(holds)


# --- Literals: parsed exactly. ---


_NUMBER = re.compile(r"([0-9]{1,60}([.][0-9]{0,60})?|[.][0-9]{1,60})([eE][+-]?[0-9]{1,3})?")
_MOMENT = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"([T ](?P<time>[0-2][0-9]:[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?)(Z|[+]00(:?00)?)?)?"
)
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
    return found if leaves.is_small(found) else None


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
            found = parse_date(value) if to == "timestamp" else parse_moment(value)[0]
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
            found = value.isoformat()
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


def cast_leaf(leaf: Leaf, to: str) -> Leaf:
    """Cast a leaf, value by value."""
    if isinstance(leaf, Subject):
        held = leaf.attribute.kind
        if leaf.numeric and (to == "number" or (to == "whole" and held != "number" and leaf.scale.denominator == 1)):
            return leaf
        if leaf.plain and (held, to) in {("category", "text"), ("boolean", "boolean")}:
            return leaf
    if leaf_kind(leaf) == "date" and to in {"date", "timestamp"} and isinstance(leaf, leaves.Computed):
        return leaf
    if isinstance(leaf, Formula) and not leaf.days and to == "number":
        return leaf
    return leaves.apply_function(leaves.strict(lambda value: cast_constant(value, to)), (leaf,))


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


# --- Row arithmetic: exact; sums and products of columns stay formulas of any size. ---


_OPERATORS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def constant_value(found: Scalar) -> Fraction | None:
    """Return the number that a scalar equals in every row; None if there is none."""
    return None if found.branches else leaves.constant_number(found.otherwise)


def calculate(sign: str, left: Leaf, right: Leaf) -> Leaf:  # noqa: C901  one case for each kind of operands
    """Return one of + - * / of two leaves; NULL propagates."""
    if left is None or right is None:
        return None
    if leaf_kind(left) == "date" and isinstance(right, str):  # d + '7 days', or d - '2024-01-01'
        right = parse_interval(right) or (parse_date(right) if sign == "-" else right)
    if isinstance(right, Interval) or leaf_kind(left) == "interval":
        return _calculate_interval(sign, left, right)
    for own in (left, right):
        if leaf_kind(own) == "text":
            what = "A text is added up." if sign in "+-" else "A text is multiplied."
            raise Mismatch(what, "Use columns of numbers only; || joins texts.")
    one, other = leaves.formula_of(left), leaves.formula_of(right)
    if one is not None and other is not None:
        if sign in "+-":
            return leaves.leaf_of(leaves.add(one, other, 1 if sign == "+" else -1))
        if sign == "*":
            return leaves.leaf_of(leaves.multiply(one, other))
        if not other.columns and not one.days and not other.days:
            divisor = dict(other.terms).get((), Fraction(0))
            if divisor == 0:
                raise Mismatch("This divides by zero.", "Write another divisor.")
            return leaves.leaf_of(leaves.scaled(one, 1 / divisor))
    return leaves.apply_function(leaves.strict(lambda a, b: _calculate_values(sign, a, b)), (left, right))


def _calculate_values(sign: str, left: Constant, right: Constant) -> Constant:
    """Return + - * / of two values; a division by 0 gives NULL."""
    if isinstance(left, dt.date) or isinstance(right, dt.date):
        pair = [leaves.formula_of(own) for own in (left, right)]
        if pair[0] is None or pair[1] is None or sign not in "+-":
            raise Mismatch("A day is added to something else than a number of days.", "Write the day, + and a number.")
        return leaves.leaf_of(leaves.add(pair[0], pair[1], 1 if sign == "+" else -1))  # type: ignore[return-value]
    one, other = leaves.constant_number(left), leaves.constant_number(right)
    if one is None or other is None:
        raise Mismatch("This is no number.", "Use numbers only.")
    if sign == "/":
        return None if other == 0 else one / other
    return _OPERATORS[sign](one, other)


def _calculate_interval(sign: str, left: Leaf, right: Leaf) -> Leaf:
    """Return a day moved by an interval, or an interval several times."""
    if sign == "*" and isinstance(left, Interval) and isinstance(right, Fraction) and right.denominator == 1:
        return left.times(int(right))
    if sign == "+" and isinstance(left, Interval) and leaf_kind(right) == "date":
        left, right = right, left
    if sign not in "+-" or not isinstance(right, Interval) or leaf_kind(left) not in {"date", "interval"}:
        raise Mismatch("An interval is added to a day only.", "Write the day + INTERVAL '7 days'.")
    step = right if sign == "+" else right.times(-1)
    if step.months == 0 and leaf_kind(left) == "date":
        return calculate("+", left, Fraction(step.days))

    def moved(value: Constant) -> Constant:
        if isinstance(value, Interval):
            return Interval(value.months + step.months, value.days + step.days)
        return shift_day(value, step) if isinstance(value, dt.date) else None

    return leaves.apply_function(leaves.strict(moved), (left,))


ZERO = scalar_from_leaf(Fraction(0))
