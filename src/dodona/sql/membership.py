"""Membership: whether a value, or a tuple of values, is in a list of constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from sqlglot import exp

from dodona.numbers import Booleans
from dodona.query import predicate as predicates
from dodona.schema.attributes import Attribute
from dodona.sql import comparison
from dodona.sql.scalar import Computed, Constant, Mismatch, Scalar, Subject, locate_mismatch
from dodona.sql.scope import Scope

ScalarCompiler = Callable[[exp.Expr], Scalar]
_COMBINATION_EFFORT = 16  # a table of combinations is kept, while most other work is transient
_NO_CONSTANT = ("This is no constant.", "Write constants into the list of IN.")


def compile_in(scope: Scope, node: exp.Expr, read: ScalarCompiler) -> comparison.Truth:
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
    subject = comparison.admit_texts(subject, subject.leaves, constants)
    scope.work(node, len(subject.leaves) * subject.width * len(constants))
    try:
        truths = [(leaf, comparison.compare_any(leaf, constants)) for leaf in subject.leaves]
    except Mismatch:
        for part, constant in zip(members, constants, strict=True):
            for leaf in subject.leaves:
                locate_mismatch(scope, part, partial(comparison.compare_leaf, leaf, "=", constant))
        raise
    pairs = {id(leaf): pair for leaf, pair in truths}
    return subject.where(lambda leaf: pairs[id(leaf)][0]), subject.where(lambda leaf: pairs[id(leaf)][1])


def compile_tuple_equality(scope: Scope, node: exp.Expr, read: ScalarCompiler) -> comparison.Truth:
    """Return where a tuple of columns equals a tuple of constants, and where it does not."""
    return _tuple_in_list(scope, node, [node.args["expression"]], read)


def _tuple_in_list(scope: Scope, node: exp.Expr, members: Sequence[exp.Expr], read: ScalarCompiler) -> comparison.Truth:
    """Return where a tuple of columns is one of some tuples of constants, and where it is not.

    Tuples are equal if all their parts are, by AND; a tuple is in a list if it equals any member, by OR.
    """
    subjects = [_subject(scope, part, read) for part in node.this.expressions]
    known: dict[tuple[int, type, Constant], comparison.Truth] = {}
    pairs = []
    for row in members:
        if not isinstance(row, exp.Tuple) or len(row.expressions) != len(subjects):
            what = f"{len(subjects)} columns are compared with something else than {len(subjects)} constants."
            raise scope.fault(row, what, "Write rows of as many constants, such as (age, sex) IN ((1, 'f'), (2, 'm')).")
        pair = []
        for place, (subject, part) in enumerate(zip(subjects, row.expressions, strict=True)):
            constant = _constant(scope, part, read)
            if constant is None:
                scope.warn("A comparison with NULL is never true: IS NULL asks for missing values.")
            seen = place, type(constant), constant
            if seen not in known:
                scope.work(part, subject.attribute.cells)
                known[seen] = locate_mismatch(scope, part, partial(comparison.compare_leaf, subject, "=", constant))
            pair.append(known[seen])
        pairs.append(pair)
    attributes = {subject.attribute.name: subject.attribute for subject in subjects}
    combinations = math.prod([attribute.cells for attribute in attributes.values()])
    if combinations > predicates.MOST_COMBINATIONS:
        true = predicates.disjunction(*(predicates.conjunction(*(equals for equals, _ in pair)) for pair in pairs))
        return true, predicates.conjunction(*(predicates.disjunction(*(other for _, other in pair)) for pair in pairs))
    scope.work(node, _COMBINATION_EFFORT * combinations)
    return _combinations_truth(subjects, list(attributes.values()), pairs)


def _combinations_truth(
    subjects: Sequence[Subject], attributes: Sequence[Attribute], pairs: Sequence[Sequence[comparison.Truth]]
) -> comparison.Truth:
    """Return the rows by combinations of cells: those that are equal and those that differ."""
    shape = [attribute.cells for attribute in attributes]
    equal, perhaps = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    for pair in pairs:
        true = {attribute.name: np.ones(attribute.cells, dtype=np.bool_) for attribute in attributes}
        other = {name: mask.copy() for name, mask in true.items()}
        for subject, (equals, differs) in zip(subjects, pair, strict=True):
            true[subject.attribute.name] &= _cells(equals, subject.attribute)
            other[subject.attribute.name] &= ~_cells(differs, subject.attribute)
        equal[np.ix_(*true.values())] = True
        perhaps[np.ix_(*other.values())] = True
    return predicates.among_combinations(attributes, equal), predicates.among_combinations(attributes, ~perhaps)


def _cells(predicate: predicates.Predicate, attribute: Attribute) -> Booleans:
    return predicates.evaluate_predicate(predicate, {attribute.name: np.arange(attribute.cells, dtype=np.int64)})


def _subject(scope: Scope, node: exp.Expr, read: ScalarCompiler) -> Subject:
    scalar = read(node)
    if scalar.branches or not isinstance(scalar.otherwise, Subject):
        raise scope.fault(node, "This is no column.", "Write columns, such as (age, sex) IN ((1, 'f'), (2, 'm')).")
    return scalar.otherwise


def _constant(scope: Scope, node: exp.Expr, read: ScalarCompiler) -> Constant:
    scalar = read(node)
    if scalar.branches or isinstance(scalar.otherwise, Computed):
        raise scope.fault(node, *_NO_CONSTANT)
    return scalar.otherwise


def list_any(scope: Scope, node: exp.Expr) -> exp.In:
    """Return `= ANY(ARRAY[...])` or `= ANY('{a,b}')` as IN."""
    inner = node.expression.this
    while isinstance(inner, exp.Paren | exp.Cast):
        inner = inner.this
    if isinstance(inner, exp.Literal) and inner.is_string and str(inner.this)[:1] + str(inner.this)[-1:] == "{}":
        parts = [part.strip().strip('"') for part in str(inner.this)[1:-1].split(",")]
        return exp.In(this=node.this, expressions=[exp.Literal.string(part) for part in parts])
    if not isinstance(inner, exp.Array) or not inner.expressions:
        raise scope.fault(node.expression, "ANY has no list here.", "Write = ANY(ARRAY['a', 'b']), or IN ('a', 'b').")
    return exp.In(this=node.this, expressions=inner.expressions)
