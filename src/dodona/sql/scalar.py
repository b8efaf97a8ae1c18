"""Scalars: the value of an SQL expression in one row, with CASE; arithmetic and casts of such values, all exact."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from sqlglot import exp

from dodona.query.predicate import (
    EVERYTHING,
    NOTHING,
    Predicate,
    complement,
    conjunction,
    disjunction,
    evaluate_predicate,
    predicate_attributes,
)
from dodona.schema.schema import Domain
from dodona.sql import leaf as leaves
from dodona.sql.calendar import Interval, parse_interval, shift_day
from dodona.sql.leaf import Constant, Formula, Leaf, Mapped, Mismatch, Subject, leaf_kind
from dodona.sql.literal import parse_date, parse_moment, parse_signed
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
    whole = leaves.apply_function(lambda *values: values, read)  # type: ignore[arg-type]
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


_Result = TypeVar("_Result")


def locate_mismatch(scope: Scope, node: exp.Expr, test: Callable[[], _Result]) -> _Result:
    """Run a test; if it finds a mismatch, raise an error that points at the node."""
    try:
        return test()
    except Mismatch as fault:
        raise scope.fault(node, *fault.args) from None


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
        if leaf_kind(leaf) == "boolean" and to in {"number", "whole"}:
            return leaves.formula_of(leaf)
        if leaf.numeric and (to == "number" or (to == "whole" and held != "number" and leaf.scale.denominator == 1)):
            return leaf
        if leaf.plain and (held, to) in {("category", "text"), ("boolean", "boolean")}:
            return leaf
    if leaf_kind(leaf) == "date" and to in {"date", "timestamp"} and isinstance(leaf, leaves.Computed):
        return leaf
    if isinstance(leaf, Formula) and not leaf.days and to == "number":
        return leaf
    return leaves.apply_function(leaves.strict(lambda value: cast_constant(value, to)), (leaf,))


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
