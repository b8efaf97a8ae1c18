"""Compile WHERE conditions and row expressions from the syntax tree, including IN, LIKE, CASE and date parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeVar

import numpy as np
from sqlglot import exp

from dodona.numbers import Booleans
from dodona.query import predicate as predicates
from dodona.query.column import describe_undeclared_value
from dodona.schema.attributes import Attribute, Date, code_label
from dodona.sql import scalar as scalars
from dodona.sql.parse import DATE_PART_NODES, REFUSED_FUNCTIONS, RELATIONS, flatten_chain
from dodona.sql.scalar import (
    DATE_PARTS,
    PART_SYNONYMS,
    TRUNCATION_UNITS,
    Constant,
    Leaf,
    Scalar,
    Subject,
    build_case,
    leaf_present,
    leaf_truth,
    scalar_from_leaf,
)
from dodona.sql.scope import Scope
from dodona.sql.tables import LOOKUP, PRESENT

# --- Membership: whether a value, or a tuple of values, is in a list of constants. ---


ScalarCompiler = Callable[[exp.Expr], Scalar]
_Result = TypeVar("_Result")
_Join = Callable[..., predicates.Predicate]
_COMBINATION_EFFORT = 16  # a table of combinations is kept, while most other work is transient
_NO_CONSTANT = ("This is no constant.", "Write constants into the list of IN.")


def compile_in(scope: Scope, node: exp.Expr, read: ScalarCompiler) -> scalars.Truth:
    """Return where IN is true and where it is false."""
    members = node.args.get("expressions") or []
    if not members:
        raise scope.fault(node, "IN has no list here.", "Write IN (value, value, ...).")
    if isinstance(node.this, exp.Tuple):
        return _tuple_in_list(scope, node, members, read)
    subject = read(node.this)
    constants = [_constant(scope, part, read) for part in members]
    if None in constants:
        scope.warn("A list of IN with NULL in it is never false, so NOT IN is never true: leave NULL out.")
    scope.work(node, len(subject.leaves) * subject.width * len(constants))
    try:
        found = [(leaf, scalars.compare_any(leaf, constants)) for leaf in subject.leaves]
    except scalars.Mismatch:
        for part, one in zip(members, constants, strict=True):
            for leaf in subject.leaves:
                locate_mismatch(scope, part, lambda leaf=leaf, one=one: scalars.compare_leaf(leaf, "=", one))  # type: ignore[misc]
        raise
    pairs = {id(leaf): pair for leaf, pair in found}
    return subject.where(lambda leaf: pairs[id(leaf)][0]), subject.where(lambda leaf: pairs[id(leaf)][1])


def compile_tuple_equality(scope: Scope, node: exp.Expr, read: ScalarCompiler) -> scalars.Truth:
    """Return where a tuple of columns equals a tuple of constants, and where it does not."""
    return _tuple_in_list(scope, node, [node.args["expression"]], read)


def locate_mismatch(scope: Scope, node: exp.Expr, test: Callable[[], _Result]) -> _Result:
    """Run a test; if it finds a mismatch, raise an error that points at the node."""
    try:
        return test()
    except scalars.Mismatch as fault:
        raise scope.fault(node, *fault.args) from None


def _tuple_in_list(scope: Scope, node: exp.Expr, members: Sequence[exp.Expr], read: ScalarCompiler) -> scalars.Truth:
    """Return where a tuple of columns is one of some tuples of constants, and where it is not.

    Tuples are equal if all their parts are, by AND; a tuple is in a list if it equals any member, by OR.
    """
    subjects = [_subject(scope, part, read) for part in node.this.expressions]
    known: dict[tuple[int, type, Constant], scalars.Truth] = {}
    pairs = []
    for row in members:
        if not isinstance(row, exp.Tuple) or len(row.expressions) != len(subjects):
            what = f"{len(subjects)} columns are compared with something else than {len(subjects)} constants."
            raise scope.fault(row, what, "Write rows of as many constants, such as (age, sex) IN ((1, 'f'), (2, 'm')).")
        pair = []
        for place, (subject, part) in enumerate(zip(subjects, row.expressions, strict=True)):
            one = _constant(scope, part, read)
            if one is None:
                scope.warn("A comparison with NULL is never true: IS NULL asks for missing values.")
            seen = place, type(one), one
            if seen not in known:
                scope.work(part, subject.attribute.cells)
                known[seen] = locate_mismatch(scope, part, partial(scalars.compare_leaf, subject, "=", one))
            pair.append(known[seen])
        pairs.append(pair)
    attributes = {subject.attribute.name: subject.attribute for subject in subjects}
    combinations = math.prod([attribute.cells for attribute in attributes.values()])
    if combinations > predicates.MOST_COMBINATIONS:
        true = predicates.disjunction(*(predicates.conjunction(*(one for one, _ in pair)) for pair in pairs))
        return true, predicates.conjunction(*(predicates.disjunction(*(other for _, other in pair)) for pair in pairs))
    scope.work(node, _COMBINATION_EFFORT * combinations)
    return _combinations_truth(subjects, list(attributes.values()), pairs)


def _combinations_truth(
    subjects: Sequence[Subject], attributes: Sequence[Attribute], pairs: Sequence[Sequence[scalars.Truth]]
) -> scalars.Truth:
    """Return the rows by combinations of cells: those that are equal and those that differ."""
    shape = [attribute.cells for attribute in attributes]
    equal, perhaps = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    for pair in pairs:
        true = {own.name: np.ones(own.cells, dtype=np.bool_) for own in attributes}
        other = {name: own.copy() for name, own in true.items()}
        for subject, (one, differs) in zip(subjects, pair, strict=True):
            true[subject.attribute.name] &= _cells(one, subject.attribute)
            other[subject.attribute.name] &= ~_cells(differs, subject.attribute)
        equal[np.ix_(*true.values())] = True
        perhaps[np.ix_(*other.values())] = True
    return predicates.among_combinations(attributes, equal), predicates.among_combinations(attributes, ~perhaps)


def _cells(predicate: predicates.Predicate, attribute: Attribute) -> Booleans:
    return predicates.evaluate_predicate(predicate, {attribute.name: np.arange(attribute.cells, dtype=np.int64)})


def _subject(scope: Scope, node: exp.Expr, read: ScalarCompiler) -> Subject:
    found = read(node)
    if found.branches or not isinstance(found.otherwise, Subject):
        raise scope.fault(node, "This is no column.", "Write columns, such as (age, sex) IN ((1, 'f'), (2, 'm')).")
    return found.otherwise


def _constant(scope: Scope, node: exp.Expr, read: ScalarCompiler) -> Constant:
    found = read(node)
    if found.branches or isinstance(found.otherwise, Subject):
        raise scope.fault(node, *_NO_CONSTANT)
    return found.otherwise


# --- Date functions: `year(d)`, `extract(month FROM d)`, `date_trunc('month', d)`. ---


def compile_date_part(scope: Scope, node: exp.Expr, compiled: Callable[[exp.Expr], Scalar]) -> Scalar | None:
    """Compile a date part; None if the node is not one."""
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):
        return _truncate(scope, node, node.args["unit"].name, compiled(node.this))
    if isinstance(node, exp.Extract):
        return _extract(scope, node, node.this.name, compiled(node.expression))
    if isinstance(node, DATE_PART_NODES):
        return _extract(scope, node, type(node).__name__, compiled(node.this))
    return _part_by_name(scope, node, compiled) if isinstance(node, exp.Anonymous) else None


def _part_by_name(scope: Scope, node: exp.Anonymous, compiled: Callable[[exp.Expr], Scalar]) -> Scalar | None:
    """Compile a date part given by a function name that the parser does not know."""
    match node.name.lower(), node.expressions:
        case (("date_trunc" | "datetrunc"), [unit, inner]):
            return _truncate(scope, node, unit.name, compiled(inner))
        case (("date_part" | "datepart"), [unit, inner]):
            return _extract(scope, node, unit.name, compiled(inner))
        case name, [inner] if name in DATE_PARTS or name in PART_SYNONYMS:
            return _extract(scope, node, name, compiled(inner))
        case _:
            return None


def _extract(scope: Scope, node: exp.Expr, name: str, inner: Scalar) -> Scalar:
    part = PART_SYNONYMS.get(name.lower(), name.lower())
    if part not in DATE_PARTS:
        raise scope.fault(node, f"`{name[:40]}` is no part of a date.", f"Write one of {', '.join(DATE_PARTS)}.")
    return scalar_from_leaf(Subject(_date_attribute(scope, node, inner), part=part))


def _truncate(scope: Scope, node: exp.Expr, unit: str, inner: Scalar) -> Scalar:
    name = unit.lower()
    if name not in TRUNCATION_UNITS:
        raise scope.fault(node, f"A date is not cut to `{name[:40]}`.", f"Write one of {', '.join(TRUNCATION_UNITS)}.")
    return scalar_from_leaf(Subject(_date_attribute(scope, node, inner), part=f"trunc {name}"))


def _date_attribute(scope: Scope, node: exp.Expr, inner: Scalar) -> Date:
    leaf = inner.otherwise
    if inner.branches or not isinstance(leaf, Subject) or not leaf.plain or not isinstance(leaf.attribute, Date):
        raise scope.fault(node, "This takes a column of dates.", "Write the column's name alone.")
    return leaf.attribute


# --- Row conditions and scalars, compiled from the tree. ---


_CHUNK = 64  # parts joined at once, so that long chains do not hold all their sets
_MOST_BRANCHES = 256
_MOST_PAIRS = 256


def compile_condition(scope: Scope, node: exp.Expr) -> scalars.Truth:
    """Return where a condition is true and where it is false."""
    read = _CONDITIONS.get(type(node))
    found = _as_condition(scope, node, compile_scalar(scope, node)) if read is None else read(scope, node)
    scope.bounded(node, *found)
    return found


def compile_scalar(scope: Scope, node: exp.Expr) -> Scalar:
    """Compile an expression to its value in a row."""
    read = _SCALARS.get(type(node))
    if read is not None:
        return read(scope, node)
    if type(node) in _CONDITIONS:
        true, false = compile_condition(scope, node)
        known = [(true, scalar_from_leaf(leaf=True)), (false, scalar_from_leaf(leaf=False))]
        return build_case(known, scalar_from_leaf(None))
    found = compile_date_part(scope, node, lambda part: compile_scalar(scope, part))
    if found is not None:
        return found
    if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup):
        raise scope.fault(node, "An aggregate stands where single rows are meant.", "Write it in SELECT or HAVING.")
    if isinstance(node, exp.Anonymous) and node.name == LOOKUP:
        return _lookup(scope, node)
    if isinstance(node, exp.Anonymous):
        what = f"`{node.name[:60]}` is no function that is known here."
        raise scope.fault(node, *REFUSED_FUNCTIONS.get(node.name.lower(), (what, "Leave it out.")))
    instead = "Write a column, a number, a text in single quotes or a CASE."
    raise scope.fault(node, "This is no value of a row.", instead)


def _lookup(scope: Scope, node: exp.Anonymous) -> Scalar:
    """Return a column of a public table, looked up by a column: a public map of that column's cells."""
    key, *names = node.expressions
    found = compile_scalar(scope, key)
    subject = found.otherwise
    table = next((own for own in scope.schema.public if own.name == names[0].name), None) if len(names) == 2 else None  # noqa: PLR2004
    if table is None or found.branches or not isinstance(subject, Subject) or not subject.plain:
        what = "A public table is looked up by a declared column alone."
        raise scope.fault(key, what, "Write ON column = its key.")
    attribute, column = subject.attribute, names[1].name
    codes: dict[tuple[type, Constant], int] = {}
    for code in range(attribute.size):
        label = code_label(attribute, code)
        known = label if label in table.keys else str(label)
        value = known in table.keys if column == PRESENT else table.columns[column].get(known)
        meant: Constant = Fraction(value) if isinstance(value, int) and not isinstance(value, bool) else value
        codes[type(meant), meant] = codes.get((type(meant), meant), 0) | 1 << code
    scope.work(node, attribute.cells * max(1, len(codes)))
    branches = [(predicates.among_mask(attribute, mask), scalar_from_leaf(value)) for (_, value), mask in codes.items()]
    return build_case(branches, scalar_from_leaf(None))


def _chain(scope: Scope, node: exp.Expr, if_true: _Join, if_false: _Join) -> scalars.Truth:
    pairs = [compile_condition(scope, part) for part in flatten_chain(node)]
    return _fold_in_chunks(if_true, [one for one, _ in pairs]), _fold_in_chunks(if_false, [other for _, other in pairs])


def _not(scope: Scope, node: exp.Expr) -> scalars.Truth:
    true, false = compile_condition(scope, node.this)
    return false, true


def _between(scope: Scope, node: exp.Expr) -> scalars.Truth:
    middle = _Operand(node.this, compile_scalar(scope, node.this))
    above = _compare_scalars(scope, node, (middle, _compile_operand(scope, node.args["low"])), ">=")
    below = _compare_scalars(scope, node, (middle, _compile_operand(scope, node.args["high"])), "<=")
    return predicates.conjunction(above[0], below[0]), predicates.disjunction(above[1], below[1])


def _as_condition(scope: Scope, node: exp.Expr, found: Scalar) -> scalars.Truth:
    """Convert a scalar to a condition: a boolean column, or a CASE of booleans."""
    if None in map(leaf_truth, found.leaves):
        raise scope.fault(node, "This is no condition.", "Write a comparison, such as age >= 65, or a boolean column.")

    def side(number: int) -> predicates.Predicate:
        return found.where(lambda leaf: (leaf_truth(leaf) or scalars.ALWAYS_NULL)[number])

    return side(0), side(1)


def _fold_in_chunks(join: _Join, parts: list[predicates.Predicate]) -> predicates.Predicate:
    if len(parts) <= _CHUNK:
        return join(*parts)
    return _fold_in_chunks(join, [join(*parts[first : first + _CHUNK]) for first in range(0, len(parts), _CHUNK)])


@dataclass(frozen=True, slots=True)
class _Operand:
    """One side of a comparison: its node and its value in a row, compiled once."""

    node: exp.Expr
    value: Scalar


def _compile_operand(scope: Scope, node: exp.Expr) -> _Operand:
    if isinstance(node, exp.Null):
        scope.warn("A comparison with NULL is never true: IS NULL asks for missing values.")
    return _Operand(node, compile_scalar(scope, node))


def _comparison(scope: Scope, node: exp.Expr) -> scalars.Truth:
    if isinstance(node.this, exp.Tuple):
        true, false = compile_tuple_equality(scope, node, lambda part: compile_scalar(scope, part))
        return (true, false) if isinstance(node, exp.EQ) else (false, true)
    sides = _compile_operand(scope, node.this), _compile_operand(scope, node.args["expression"])
    return _compare_scalars(scope, node, sides, RELATIONS[type(node)])


def _compare_leaves(left: Leaf, relation: str, right: Leaf) -> scalars.Truth:
    if isinstance(right, Subject):
        if isinstance(left, Subject):
            what = f"Two columns are compared, `{left.attribute.name}` and `{right.attribute.name}`."
            raise scalars.Mismatch(what, "Compare each of them with a constant.")
        return scalars.compare_leaf(right, scalars.MIRRORED.get(relation, relation), left)
    return scalars.compare_leaf(left, relation, right)


def _compare_scalars(scope: Scope, node: exp.Expr, sides: tuple[_Operand, _Operand], relation: str) -> scalars.Truth:
    """Compare two scalars, leaf by leaf."""
    left, right = sides[0].value, sides[1].value
    pairs = len(left.leaves) * len(right.leaves)
    if left.branches and right.branches and pairs > _MOST_PAIRS:
        raise scope.fault(node, "Two long CASEs are compared.", "Compare one of them with constants.")
    scope.work(node, pairs * max(left.width, right.width, pairs))
    tests: dict[tuple[int, int], scalars.Truth] = {}

    def tested(one: Leaf, other: Leaf) -> scalars.Truth:
        place = id(one), id(other)
        if place not in tests:
            tests[place] = _compare_leaves(one, relation, other)
        return tests[place]

    try:
        true = left.where(lambda one: right.where(lambda other: tested(one, other)[0]))
        false = left.where(lambda one: right.where(lambda other: tested(one, other)[1]))
    except scalars.Mismatch as fault:
        fixed = [side.node for side in sides if not side.value.width]
        raise scope.fault(fixed[-1] if len(fixed) == 1 else node, *fault.args) from None
    return true, false


def _null_safe(scope: Scope, node: exp.Expr) -> scalars.Truth:
    """Compile IS [NOT] DISTINCT FROM: true or false everywhere, with NULL as an ordinary value."""
    first, second = (_Operand(side, compile_scalar(scope, side)) for side in (node.this, node.expression))
    sides = first, second
    equal, _ = _compare_scalars(scope, node, sides, "=")
    nulls = predicates.conjunction(*(side.value.where(_is_null) for side in sides))
    same = predicates.disjunction(equal, nulls)
    pair = same, predicates.complement(same)
    return pair if isinstance(node, exp.NullSafeEQ) else (pair[1], pair[0])


def _is(scope: Scope, node: exp.Expr) -> scalars.Truth:
    match node.expression:
        case exp.Null():
            asked = compile_scalar(scope, node.this)
            columns = [leaf.attribute for leaf in asked.leaves if isinstance(leaf, Subject)]
            for own in (column for column in columns if column.otherwise is not None):
                scope.warn(f"`{own.name}` is never NULL: what is missing {describe_undeclared_value(own)}.")
            found = asked.where(_is_null)
        case exp.Boolean(this=wanted):
            pair = compile_condition(scope, node.this)
            found = pair[0] if wanted else pair[1]
        case _:
            raise scope.fault(node.expression, "IS is followed by something else than NULL, TRUE or FALSE.", "Write =.")
    return found, predicates.complement(found)


def _is_null(leaf: Leaf) -> predicates.Predicate:
    """Return where a leaf is NULL. `<outside>` is not NULL, although its value is unknown."""
    if isinstance(leaf, Subject):
        return scalars.null_predicate(leaf.attribute)
    return predicates.complement(leaf_present(leaf))


def _like(scope: Scope, node: exp.Expr) -> scalars.Truth:
    one, other = compile_scalar(scope, node.this), compile_scalar(scope, node.expression)
    pattern = other.otherwise
    if one.branches or other.branches or not isinstance(one.otherwise, Subject) or not isinstance(pattern, str):
        raise scope.fault(node, "LIKE compares a column with a text.", "Write column LIKE 'pattern%'.")
    subject, folded = one.otherwise, str.lower if isinstance(node, exp.ILike) else str
    scope.work(node, subject.attribute.size * len(pattern))
    true, false = locate_mismatch(scope, node, lambda: scalars.match_like(subject, pattern, folded=folded))
    return (false, true) if node.args.get("negate") else (true, false)


def _case(scope: Scope, node: exp.Expr) -> Scalar:
    """Compile a CASE: with conditions, or with a subject compared with each value in turn."""
    ifs = [node] if isinstance(node, exp.If) else node.args["ifs"]
    default = node.args.get("false" if isinstance(node, exp.If) else "default")
    if len(ifs) > _MOST_BRANCHES:
        what = f"This CASE has more than {_MOST_BRANCHES} branches."
        raise scope.fault(node, what, "Write IN (...), or fewer branches.")
    subject = _compile_operand(scope, node.this) if isinstance(node, exp.Case) and node.this is not None else None
    branches = []
    for branch in ifs:
        if subject is None:
            guard = compile_condition(scope, branch.this)
        else:
            guard = _compare_scalars(scope, branch, (subject, _compile_operand(scope, branch.this)), "=")
        branches.append((guard[0], compile_scalar(scope, branch.args["true"])))
    found = build_case(branches, scalar_from_leaf(None) if default is None else compile_scalar(scope, default))
    scope.bounded(node, *(guard for guard, _ in found.branches))
    return found


def _coalesce(scope: Scope, node: exp.Expr) -> Scalar:
    """Return the first argument that is not NULL. `<outside>` is not NULL."""
    parts = (node.this, *node.args["expressions"])
    if len(parts) > _MOST_BRANCHES:
        raise scope.fault(node, f"coalesce has more than {_MOST_BRANCHES} arguments.", "Write fewer.")
    found = [compile_scalar(scope, part) for part in parts]
    branches = [(predicates.complement(part.where(_is_null)), part) for part in found[:-1]]
    scope.bounded(node, *(guard for guard, _ in branches))
    return build_case(branches, found[-1])


def _cast(scope: Scope, node: exp.Expr) -> Scalar:
    """Compile a cast of constants, or one that changes nothing."""
    to = scalars.type_kind(node.args["to"])
    inner = compile_scalar(scope, node.this)
    return locate_mismatch(scope, node, lambda: inner.mapped(lambda leaf: scalars.cast_leaf(leaf, to)))


def _negative(scope: Scope, node: exp.Expr) -> Scalar:
    return scalars.apply_arithmetic(scope, node, scalars.ZERO, compile_scalar(scope, node.this))


def _arithmetic(scope: Scope, node: exp.Expr) -> Scalar:
    left, right = compile_scalar(scope, node.this), compile_scalar(scope, node.expression)
    return scalars.apply_arithmetic(scope, node, left, right)


_CONDITIONS: dict[type[exp.Expr], Callable[[Scope, exp.Expr], scalars.Truth]] = {
    exp.And: lambda scope, node: _chain(scope, node, predicates.conjunction, predicates.disjunction),
    exp.Or: lambda scope, node: _chain(scope, node, predicates.disjunction, predicates.conjunction),
    exp.Not: _not,
    exp.Is: _is,
    exp.In: lambda scope, node: compile_in(scope, node, lambda part: compile_scalar(scope, part)),
    exp.Between: _between,
    exp.Like: _like,
    exp.ILike: _like,
    exp.NullSafeEQ: _null_safe,
    exp.NullSafeNEQ: _null_safe,
    **dict.fromkeys(RELATIONS, _comparison),
}
_SCALARS: dict[type[exp.Expr], Callable[[Scope, exp.Expr], Scalar]] = {
    exp.Paren: lambda scope, node: compile_scalar(scope, node.this),
    exp.Column: lambda scope, node: scalar_from_leaf(Subject(scope.column(node))),
    **dict.fromkeys(
        (exp.Literal, exp.Boolean, exp.Null),
        lambda scope, node: scalar_from_leaf(scalars.literal_constant(scope, node)),
    ),
    **dict.fromkeys((exp.Case, exp.If), _case),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div), _arithmetic),
    exp.Coalesce: _coalesce,
    exp.Cast: _cast,
    exp.Neg: _negative,
}
