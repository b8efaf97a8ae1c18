"""Membership: whether a value, or several values together, are in a list of constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from sqlglot import exp

from dodona.domain.attribute import Attribute, cells
from dodona.query.jointly import jointly
from dodona.query.predicate import MOST_COMBINATIONS, Predicate, both, either, holds
from dodona.sql.comparison import Mismatch, Truth, among, compared
from dodona.sql.scalar import Constant, Scalar, Subject
from dodona.sql.scope import Scope

if TYPE_CHECKING:
    from numpy.typing import NDArray

Read = Callable[[exp.Expr], Scalar]
_Result = TypeVar("_Result")
_DEAR = 16  # a table of combinations is kept, while most other work is forgotten
_NO_CONSTANT = ("This is no constant.", "Write constants into the list of IN.")


def member(scope: Scope, node: exp.Expr, read: Read) -> Truth:
    """Return where IN is true, and where it is false."""
    members = node.args.get("expressions") or []
    if not members:
        raise scope.fault(node, "IN has no list here.", "Write IN (value, value, ...).")
    if isinstance(node.this, exp.Tuple):
        return _rows(scope, node, members, read)
    subject = read(node.this)
    constants = [_constant(scope, part, read) for part in members]
    if None in constants:
        scope.warn("A list of IN with NULL in it is never false, so NOT IN is never true: leave NULL out.")
    scope.work(node, len(subject.leaves) * subject.width * len(constants))
    try:
        found = [(leaf, among(leaf, constants)) for leaf in subject.leaves]
    except Mismatch:
        for part, one in zip(members, constants, strict=True):
            for leaf in subject.leaves:
                located(scope, part, lambda leaf=leaf, one=one: compared(leaf, "=", one))  # type: ignore[misc]
        raise
    pairs = {id(leaf): pair for leaf, pair in found}
    return subject.where(lambda leaf: pairs[id(leaf)][0]), subject.where(lambda leaf: pairs[id(leaf)][1])


def same(scope: Scope, node: exp.Expr, read: Read) -> Truth:
    """Return where several columns are equal to several constants, and where they are not."""
    return _rows(scope, node, [node.args["expression"]], read)


def located(scope: Scope, node: exp.Expr, test: Callable[[], _Result]) -> _Result:
    """Return what a test says; where two things do not fit, point at the node."""
    try:
        return test()
    except Mismatch as fault:
        raise scope.fault(node, *fault.args) from None


def _rows(scope: Scope, node: exp.Expr, members: Sequence[exp.Expr], read: Read) -> Truth:
    """Return where a row of columns is one of some rows of constants.

    A row equals another if all its parts do, by AND; it is in a list if it equals any of it, by OR.
    """
    subjects = [_subject(scope, part, read) for part in node.this.expressions]
    known: dict[tuple[int, type, Constant], Truth] = {}
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
                scope.work(part, cells(subject.attribute))
                known[seen] = located(scope, part, lambda subject=subject, one=one: compared(subject, "=", one))  # type: ignore[misc]
            pair.append(known[seen])
        pairs.append(pair)
    attributes = {subject.attribute.name: subject.attribute for subject in subjects}
    combinations = math.prod(map(cells, attributes.values()))
    if combinations > MOST_COMBINATIONS:
        true = either(*(both(*(one for one, _ in pair)) for pair in pairs))
        return true, both(*(either(*(other for _, other in pair)) for pair in pairs))
    scope.work(node, _DEAR * combinations)
    return _table(subjects, list(attributes.values()), pairs)


def _table(subjects: Sequence[Subject], attributes: Sequence[Attribute], pairs: Sequence[Sequence[Truth]]) -> Truth:
    """Return the rows by all combinations of cells: those that are equal, and those that differ."""
    shape = [cells(attribute) for attribute in attributes]
    equal, perhaps = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    for pair in pairs:
        true = {own.name: np.ones(cells(own), dtype=np.bool_) for own in attributes}
        other = {name: own.copy() for name, own in true.items()}
        for subject, (one, differs) in zip(subjects, pair, strict=True):
            true[subject.attribute.name] &= _cells(one, subject.attribute)
            other[subject.attribute.name] &= ~_cells(differs, subject.attribute)
        equal[np.ix_(*true.values())] = True
        perhaps[np.ix_(*other.values())] = True
    return jointly(attributes, equal), jointly(attributes, ~perhaps)


def _cells(predicate: Predicate, attribute: Attribute) -> NDArray[np.bool_]:
    return holds(predicate, {attribute.name: np.arange(cells(attribute), dtype=np.int64)})


def _subject(scope: Scope, node: exp.Expr, read: Read) -> Subject:
    found = read(node)
    if found.branches or not isinstance(found.otherwise, Subject):
        raise scope.fault(node, "This is no column.", "Write columns, such as (age, sex) IN ((1, 'f'), (2, 'm')).")
    return found.otherwise


def _constant(scope: Scope, node: exp.Expr, read: Read) -> Constant:
    found = read(node)
    if found.branches or isinstance(found.otherwise, Subject):
        raise scope.fault(node, *_NO_CONSTANT)
    return found.otherwise
