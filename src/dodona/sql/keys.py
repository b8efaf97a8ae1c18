"""GROUP BY keys. All groups are public: declared values or bins, parts of dates, or labels of a CASE."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dodona.numbers import format_decimal
from dodona.query.predicate import NOTHING, Predicate, complement, conjunction, disjunction
from dodona.query.query import MOST_VALUES, CaseKey, Key
from dodona.query.question import ReadAs
from dodona.schema.attributes import MISSING, OUTSIDE, Boolean, Category, Date, numeric_grid
from dodona.schema.partition import Partition
from dodona.sql.comparison import compare_leaf, constant_value, null_predicate
from dodona.sql.condition import compile_scalar
from dodona.sql.scalar import Constant, Scalar, Subject, date_part_values, date_partition
from dodona.sql.scope import Scope

_BIN = "bin"
_TRUNCATED: tuple[ReadAs, ...] = ("year", "quarter", "month", "week", "day")
_TRUNCATED_AS = {f"trunc {unit}": unit for unit in _TRUNCATED}
_READ_AS: dict[type, ReadAs] = {Fraction: "number", bool: "boolean", dt.date: "date"}


@dataclass(frozen=True, slots=True)
class CompiledKey:
    """The groups of a key expression, and the type in which programs read them."""

    key: Key
    read_as: ReadAs = "value"


def compile_key(scope: Scope, node: exp.Expr) -> CompiledKey:
    """Compile a key expression to its groups: numbers may be extracted, and dates truncated to their first day."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Anonymous) and node.name.lower() == _BIN:
        return CompiledKey(_bin_key(scope, node))
    found = compile_scalar(scope, node)
    if not found.branches and isinstance(found.otherwise, Subject):
        part = found.otherwise.part
        read_as = "value" if part is None else _TRUNCATED_AS.get(part, "number")
        return CompiledKey(_subject_key(scope, node, found.otherwise), read_as)
    if not found.branches or any(isinstance(leaf, Subject) for leaf in found.leaves):
        instead = "Group by a column, bin(column, width), date_trunc(...), or a CASE whose results are texts."
        raise scope.fault(node, "This makes no groups.", instead)
    kinds = {type(leaf) for leaf in found.leaves if leaf is not None}
    return CompiledKey(_case_key(found), _READ_AS.get(kinds.pop(), "value") if len(kinds) == 1 else "value")


def default_key_name(scope: Scope, node: exp.Expr) -> str:
    """Return the default column name of a key."""
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    if isinstance(node, exp.Column):
        return scope.column(node).name
    return scope.word(node) if isinstance(node, exp.Func) and not isinstance(node, exp.Case) else "case"


def key_rank(one: Key) -> tuple[int, str, int, tuple[int, ...]]:
    """Return the sort rank of a key, so that GROUP BY a, b and GROUP BY b, a are the same question."""
    if isinstance(one, Partition):
        return 0, one.attribute, len(one.cuts), one.cuts
    return 1, repr(one), 0, ()


def _subject_key(scope: Scope, node: exp.Expr, subject: Subject) -> Key:
    attribute = subject.attribute
    if isinstance(attribute, Date) and subject.part is not None:
        name = subject.part.removeprefix("trunc ")
        spans = name != subject.part or name == "year"
        return date_partition(attribute, name) if spans else _date_part_key(attribute, name)
    if not subject.plain:
        raise scope.fault(node, "Groups are not reckoned.", f"Write bin({attribute.name}, width).")
    cuts = None if isinstance(attribute, Category | Boolean) else attribute.starts
    if (attribute.size if cuts is None else len(cuts)) > MOST_VALUES:
        what = f"`{attribute.name}` has {attribute.size} values, too many groups."
        raise scope.fault(node, what, f"Write bin({attribute.name}, width).")
    return Partition.of(attribute)


def _date_part_key(attribute: Date, part: str) -> CaseKey:
    """Return the groups of days that share a date part, such as the month in any year."""
    subject = Subject(attribute, part=part)
    numbers = sorted(set(date_part_values(attribute, part).tolist()))
    branches = [(str(number), compare_leaf(subject, "=", Fraction(number))[0]) for number in numbers]
    if attribute.otherwise is not None:
        return CaseKey(tuple(branches[:-1]), branches[-1][0])
    return CaseKey((*branches, (MISSING, null_predicate(attribute))), OUTSIDE)


def _bin_key(scope: Scope, node: exp.Anonymous) -> Partition:
    """Return bins of equal width that begin at multiples of it; without a width, the declared bins."""
    column, *widths = node.expressions or [node]
    found = compile_scalar(scope, column) if column is not node else None
    subject = None if found is None or found.branches else found.otherwise
    if not isinstance(subject, Subject) or not subject.plain or len(widths) > 1:
        raise scope.fault(node, "bin() takes a column and a width.", "Write bin(column, width), such as bin(age, 10).")
    attribute = subject.attribute
    if isinstance(attribute, Category | Boolean):
        raise scope.fault(node, f"`{attribute.name}` has no widths.", f"Write GROUP BY {attribute.name}.")
    if not widths:
        if attribute.starts is None:
            raise scope.fault(node, f"`{attribute.name}` has no declared bins.", f"Write bin({attribute.name}, width).")
        return Partition.of(attribute)
    width = constant_value(compile_scalar(scope, widths[0]))
    if isinstance(attribute, Date):
        lower, step = Fraction(0), Fraction(1)  # days are counted from the first one
    else:
        lower, step = numeric_grid(attribute) or (Fraction(0), Fraction(1))
    if width is None or width <= 0 or (width / step).denominator != 1:
        unit = "days" if isinstance(attribute, Date) else f"multiples of {format_decimal(step)}"
        raise scope.fault(widths[0], "This is no width of bins here.", f"Write a number above 0, in {unit}.")
    if attribute.size * step / width > MOST_VALUES:
        raise scope.fault(widths[0], "This makes too many groups.", "Write a larger width.")
    each, before = int(width / step), math.floor(lower / step)  # bins begin at multiples of the width, not at the bound
    cuts = range((math.floor(lower / width) + 1) * each - before, attribute.size, each)
    return Partition.cut(attribute, (0, *(cuts if cuts.start > 0 else cuts[1:])))


def _case_key(found: Scalar) -> CaseKey:
    """Return the groups of a CASE: one per label, even if several branches give it."""
    last = _case_label(found.otherwise)
    labels = [_case_label(leaf) for _, leaf in found.branches]
    if len({*labels, last}) == len(labels) + 1:
        return CaseKey(tuple(zip(labels, (guard for guard, _ in found.branches), strict=True)), last)
    merged: dict[str, Predicate] = {}
    before: Predicate = NOTHING
    for (guard, _), label in zip(found.branches, labels, strict=True):
        merged[label] = disjunction(merged.get(label, NOTHING), conjunction(guard, complement(before)))
        before = disjunction(before, guard)
    merged.pop(last, None)
    return CaseKey(tuple(merged.items()), last)


def _case_label(leaf: Constant | Subject) -> str:
    match leaf:
        case None:
            return MISSING
        case bool():
            return str(leaf).lower()
        case Fraction():
            return format_decimal(leaf)
        case dt.date():
            return leaf.isoformat()
        case _:
            return str(leaf)
