"""Compile GROUP BY keys that are computed: bins, parts of dates, functions and CASE. All groups are public."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dodona.numbers import format_decimal
from dodona.query import query as queries
from dodona.query.predicate import NOTHING, Predicate, complement, conjunction, disjunction
from dodona.query.question import ReadAs
from dodona.schema.attributes import (
    MISSING,
    OUTSIDE,
    Boolean,
    Category,
    Date,
    Label,
    Timestamp,
    numeric_grid,
)
from dodona.schema.partition import Partition
from dodona.sql.aggregate import public_range
from dodona.sql.calendar import date_part_values, date_partition
from dodona.sql.comparison import compare_leaf, missing_predicate, null_predicate
from dodona.sql.condition import compile_scalar
from dodona.sql.scalar import (
    MOST_LEAVES,
    UNKNOWN,
    Computed,
    Formula,
    Leaf,
    Mapped,
    Outcome,
    Scalar,
    Subject,
    Unknown,
    constant_value,
    is_unknown,
    locate_mismatch,
    scalar_from_leaf,
)
from dodona.sql.scope import Scope
from dodona.sql.tables import common_unit, tabulate_scalar

_BIN = "bin"
_MOST_COMPUTED = 1 << 12
_TRUNCATED: tuple[ReadAs, ...] = ("year", "quarter", "month", "week", "day")
_TRUNCATED_AS = {f"trunc {unit}": unit for unit in _TRUNCATED}
_READ_AS: dict[type, ReadAs] = {Fraction: "number", bool: "boolean", dt.date: "date"}


@dataclass(frozen=True, slots=True)
class CompiledKey:
    """The groups of a key expression, and the type in which programs read them."""

    key: queries.Key
    read_as: ReadAs = "value"
    labels: tuple[Label, ...] | None = None
    """The labels of the groups, if they are computed."""


def compile_key(scope: Scope, node: exp.Expr) -> CompiledKey:
    """Compile a key expression to its groups: those of a column, of the values of a function, or of a CASE."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Anonymous) and node.name.lower() == _BIN:
        return CompiledKey(_bin_key(scope, node))
    scalar = compile_scalar(scope, node)
    if not scalar.branches and isinstance(scalar.otherwise, Subject):
        part = scalar.otherwise.part
        if scalar.otherwise.plain:
            return CompiledKey(_subject_key(scope, node, scalar.otherwise))
        if part in _TRUNCATED_AS or (part is not None and not part.startswith("trunc")):
            return CompiledKey(_subject_key(scope, node, scalar.otherwise), _TRUNCATED_AS.get(part, "number"))
    constant = not scalar.branches and not isinstance(scalar.otherwise, Computed)
    if constant and (isinstance(scalar.otherwise, Subject) or node.find(exp.Column) is None):  # else one group of all
        instead = "Group by a column, a function of it, or a CASE."
        raise scope.fault(node, "This makes no groups.", instead)
    if any(isinstance(leaf, Computed) and not is_unknown(leaf) for leaf in scalar.leaves):
        return _computed_key(scope, node, scalar)
    kinds = {type(leaf) for leaf in scalar.leaves if leaf is not None and not is_unknown(leaf)}
    return CompiledKey(_case_key(scalar), _READ_AS.get(kinds.pop(), "value") if len(kinds) == 1 else "value")


def _computed_key(scope: Scope, node: exp.Expr, scalar: Scalar) -> CompiledKey:
    """Return the groups of rows in which an expression has the same value."""
    scope.work(node, len(scalar.leaves) * scalar.width)
    formula = scalar.otherwise if not scalar.branches else None
    if isinstance(formula, Formula) and math.prod(column.cells for column in formula.columns) > queries.MOST_TABLE:
        return _formula_key(scope, node, formula)
    table = locate_mismatch(scope, node, lambda: tabulate_scalar(scalar, scope.schema.domain))
    cut = _adjacent_groups(table)
    if cut is not None:
        firsts = [table.outcomes[table.places[code]] for code in cut.cuts]
        labels = tuple(_outcome_label(outcome) for outcome in firsts) + (MISSING, OUTSIDE)[: cut.further]
        return CompiledKey(cut, labels=labels)
    outcomes = [outcome for outcome in table.outcomes if outcome is not UNKNOWN and outcome is not None]
    if len(outcomes) > _MOST_COMPUTED:
        what = f"This has {len(outcomes)} different values; {_MOST_COMPUTED} make groups at most."
        raise scope.fault(node, what, "Group by floor(column / width) * width, or bin(column, width).")
    if len({type(outcome) for outcome in outcomes}) == 1 and not isinstance(outcomes[0], str):
        outcomes.sort()
    ordered = [*outcomes, *(outcome for outcome in (None, UNKNOWN) if outcome in table.outcomes)]
    labels = tuple(_outcome_label(outcome) for outcome in ordered)
    rows = table.each()
    branches = [(_case_label(outcome), rows[type(outcome), outcome]) for outcome in ordered[:-1]]
    return CompiledKey(queries.CaseKey(tuple(branches), _case_label(ordered[-1])), labels=labels)


def _formula_key(scope: Scope, node: exp.Expr, formula: Formula) -> CompiledKey:
    """Return a group for each value that WHERE allows of a sum, a difference or a product of wide columns."""
    scalar = scalar_from_leaf(formula)
    span = public_range(scalar, scope.where)
    unit = common_unit([number for powers, number in formula.terms if powers])
    count = (span.upper - span.lower) / unit + 1
    if formula.days or count > MOST_LEAVES:
        written = node.sql(comments=False)[:60]
        what = f"`{written}` may have {int(count)} values here; {MOST_LEAVES} make groups."
        raise scope.fault(
            node, what, f"Write WHERE {written} BETWEEN 0 AND 30, or group by CASE WHEN {written} < 7 ..."
        )
    values = [span.lower + place * unit for place in range(int(count))]
    branches = [(_case_label(value), compare_leaf(formula, "=", value)[0]) for value in values]
    scope.bounded(node, *(guard for _, guard in branches))
    complete = all(column.landing is not None for column in formula.columns)
    if not complete:
        branches += [(MISSING, null_predicate(formula)), (OUTSIDE, NOTHING)]
    labels = (*map(_outcome_label, values), *(() if complete else (MISSING, OUTSIDE)))
    return CompiledKey(queries.CaseKey(tuple(branches[:-1]), branches[-1][0]), labels=labels)


def _adjacent_groups(table: Mapped) -> Partition | None:
    """Return the groups as runs of adjacent codes of one column; None if they are not, or if NULL is not apart."""
    if len(table.attributes) > 1:
        return None
    (attribute,) = table.attributes
    held, rest = table.places[: attribute.size], table.places[attribute.size :]
    starts = [0, *(np.flatnonzero(held[1:] != held[:-1]) + 1).tolist()]
    values = [table.outcomes[held[code]] for code in starts]
    special = [table.outcomes[place] for place in rest]
    if len(set(held[starts].tolist())) < len(starts) or None in values or UNKNOWN in values:
        return None
    return Partition.cut(attribute, tuple(starts)) if special in ([], [None, UNKNOWN]) else None


def _outcome_label(outcome: Outcome) -> Label:
    """Return the label of a group: an integer where the value is one."""
    if outcome is None or outcome is UNKNOWN:
        return MISSING if outcome is None else OUTSIDE
    if isinstance(outcome, Fraction) and outcome.denominator == 1:
        return int(outcome)
    return outcome if isinstance(outcome, Fraction | str | bool | dt.date) else str(outcome)


def _subject_key(scope: Scope, node: exp.Expr, subject: Subject) -> queries.Key:
    attribute = subject.attribute
    if isinstance(attribute, Date) and subject.part is not None:
        name = subject.part.removeprefix("trunc ")
        spans = name != subject.part or name == "year"
        return date_partition(attribute, name) if spans else _date_part_key(attribute, name)
    return scope.groups(node, attribute)


def _date_part_key(attribute: Date, part: str) -> queries.CaseKey:
    """Return the groups of days that share a date part, such as the month in any year."""
    subject = Subject(attribute, part=part)
    numbers = sorted(set(date_part_values(attribute, part).tolist()))
    branches = [(str(number), compare_leaf(subject, "=", Fraction(number))[0]) for number in numbers]
    if attribute.otherwise is not None:
        return queries.CaseKey(tuple(branches[:-1]), branches[-1][0])
    return queries.CaseKey((*branches, (MISSING, missing_predicate(attribute))), OUTSIDE)


def _bin_key(scope: Scope, node: exp.Anonymous) -> Partition:
    """Return bins of equal width that begin at multiples of it; without a width, the declared bins."""
    column, *widths = node.expressions or [node]
    scalar = compile_scalar(scope, column) if column is not node else None
    subject = None if scalar is None or scalar.branches else scalar.otherwise
    if not isinstance(subject, Subject) or not subject.plain or len(widths) > 1:
        raise scope.fault(node, "bin() takes a column and a width.", "Write bin(column, width), such as bin(age, 10).")
    attribute = subject.attribute
    if isinstance(attribute, Category | Boolean):
        raise scope.fault(node, f"`{attribute.name}` has no widths.", f"Write GROUP BY {attribute.name}.")
    if isinstance(attribute, Timestamp) and widths:
        instead = f"Write date_trunc('hour', {attribute.name}), or GROUP BY {attribute.name}."
        raise scope.fault(node, "Times have no widths as numbers.", instead)
    if not widths:
        if attribute.starts is None:
            raise scope.fault(node, f"`{attribute.name}` has no declared bins.", f"Write bin({attribute.name}, width).")
        return scope.groups(node, attribute)
    width = constant_value(compile_scalar(scope, widths[0]))
    if isinstance(attribute, Date):
        lower, step = Fraction(0), Fraction(1)  # days are counted from the first one
    else:
        lower, step = numeric_grid(attribute) or (Fraction(0), Fraction(1))
    if width is None or width <= 0 or (width / step).denominator != 1:
        unit = "days" if isinstance(attribute, Date) else f"multiples of {format_decimal(step)}"
        raise scope.fault(widths[0], "This is no width of bins here.", f"Write a number above 0, in {unit}.")
    if attribute.size * step / width > queries.MOST_VALUES:
        raise scope.fault(widths[0], "This makes too many groups.", "Write a larger width.")
    each, before = int(width / step), math.floor(lower / step)  # bins begin at multiples of the width, not at the bound
    cuts = range((math.floor(lower / width) + 1) * each - before, attribute.size, each)
    return Partition.cut(attribute, (0, *(cuts if cuts.start > 0 else cuts[1:])))


def _case_key(scalar: Scalar) -> queries.CaseKey:
    """Return the groups of a CASE: one per label, even if several branches give it."""
    last = _case_label(scalar.otherwise)
    labels = [_case_label(leaf) for _, leaf in scalar.branches]
    if len({*labels, last}) == len(labels) + 1:
        return queries.CaseKey(tuple(zip(labels, (guard for guard, _ in scalar.branches), strict=True)), last)
    merged: dict[str, Predicate] = {}
    before: Predicate = NOTHING
    for (guard, _), label in zip(scalar.branches, labels, strict=True):
        merged[label] = disjunction(merged.get(label, NOTHING), conjunction(guard, complement(before)))
        before = disjunction(before, guard)
    merged.pop(last, None)
    return queries.CaseKey(tuple(merged.items()), last)


def _case_label(leaf: Leaf | Outcome) -> str:
    match leaf:
        case None:
            return MISSING
        case Mapped() | Unknown():
            return OUTSIDE
        case bool():
            return str(leaf).lower()
        case Fraction():
            return format_decimal(leaf)
        case dt.date():
            return leaf.isoformat()
        case _:
            return str(leaf)
