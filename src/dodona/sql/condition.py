"""Conditions and scalars of single rows, compiled from the tree.

SQL has three truth values. A condition is compiled to the pair of where it is true and where it is false; NOT swaps
them, AND and OR join them by De Morgan's laws, and WHERE takes the true one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from dodona.query.predicate import Among, Predicate, both, complement, either
from dodona.sql.arithmetic import ZERO, computed
from dodona.sql.comparison import MIRRORED, NEVER, Mismatch, Truth, among, compared, like, null
from dodona.sql.datepart import date_part
from dodona.sql.literal import cast, kind, number
from dodona.sql.scalar import Constant, Leaf, Scalar, Subject, cases, of_leaf, present, truth
from dodona.sql.scope import Scope

LARGEST_CONDITION = 5_000
"""How many sets of cells a condition may be made of."""
_CHUNK = 64  # parts that are joined at once, so that long chains do not hold all their sets
_RELATIONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_CONDITIONS = (*_RELATIONS, exp.And, exp.Or, exp.Not, exp.In, exp.Between, exp.Like, exp.ILike, exp.Is)
_SAFE = (exp.NullSafeEQ, exp.NullSafeNEQ)


def condition(scope: Scope, node: exp.Expr) -> Truth:
    """Return where a condition is true and where it is false."""
    found = _condition(scope, node)
    if _size(found[0]) + _size(found[1]) > LARGEST_CONDITION:
        raise scope.fault(
            node, "This condition is too large.", "Write IN (...) or BETWEEN instead of many comparisons."
        )
    return found


def scalar(scope: Scope, node: exp.Expr) -> Scalar:
    """Return the value of an expression in a row."""
    match node:
        case exp.Paren():
            return scalar(scope, node.this)
        case exp.Column():
            return of_leaf(Subject(scope.column(node)))
        case exp.Literal() | exp.Boolean() | exp.Null():
            return of_leaf(constant(scope, node))
        case exp.Case() | exp.If():
            return _case(scope, node)
        case exp.Coalesce():
            return _coalesce(scope, node)
        case exp.Cast():
            return _cast(scope, node)
        case exp.Neg():
            return computed(scope, node, ZERO, scalar(scope, node.this))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return computed(scope, node, scalar(scope, node.this), scalar(scope, node.expression))
        case _ if isinstance(node, (*_CONDITIONS, *_SAFE)):
            true, false = condition(scope, node)
            return cases([(true, of_leaf(leaf=True)), (false, of_leaf(leaf=False))], of_leaf(None))
    found = date_part(scope, node, lambda part: scalar(scope, part))
    if found is not None:
        return found
    if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup):
        raise scope.fault(node, "An aggregate stands where single rows are meant.", "Write it in SELECT or HAVING.")
    if isinstance(node, exp.Anonymous):
        raise scope.fault(node, f"`{node.name[:60]}` is no function that is known here.", "Leave it out.")
    raise scope.fault(
        node, "This is no value of a row.", "Write a column, a number, a text in single quotes or a CASE."
    )


def constant(scope: Scope, node: exp.Expr) -> Constant:
    """Return what a literal stands for."""
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if node.args.get("is_string"):
        return str(node.this)
    found = number(str(node.this))
    if found is None:
        raise scope.fault(
            node, f"`{str(node.this)[:60]}` is no number that is read.", "Write digits, such as 12.5 or 1e3."
        )
    return found


def _condition(scope: Scope, node: exp.Expr) -> Truth:
    match node:
        case exp.Paren():
            return condition(scope, node.this)
        case exp.And():
            pairs = [condition(scope, part) for part in chain(node)]
            return _folded(both, [true for true, _ in pairs]), _folded(either, [false for _, false in pairs])
        case exp.Or():
            pairs = [condition(scope, part) for part in chain(node)]
            return _folded(either, [true for true, _ in pairs]), _folded(both, [false for _, false in pairs])
        case exp.Not():
            true, false = condition(scope, node.this)
            return false, true
        case exp.Is():
            return _is(scope, node)
        case exp.In():
            return _in(scope, node)
        case exp.Between():
            above = _comparison(scope, node, node.this, ">=", node.args["low"])
            below = _comparison(scope, node, node.this, "<=", node.args["high"])
            return both(above[0], below[0]), either(above[1], below[1])
        case exp.Like() | exp.ILike():
            return _like(scope, node)
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            return _null_safe(scope, node)
    relation = _RELATIONS.get(type(node))
    if relation is not None:
        return _comparison(scope, node, node.this, relation, node.expression)
    return _as_condition(scope, node, scalar(scope, node))


def _as_condition(scope: Scope, node: exp.Expr, found: Scalar) -> Truth:
    """Return a scalar as a condition: a column of truth values, or a CASE of them."""
    if any(truth(leaf) is None for leaf in found.leaves):
        raise scope.fault(node, "This is no condition.", "Write a comparison, such as age >= 65, or a boolean column.")
    return found.where(lambda leaf: (truth(leaf) or NEVER)[0]), found.where(lambda leaf: (truth(leaf) or NEVER)[1])


def chain(node: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a chain of ANDs, or of ORs, without recursion."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _folded(join: Callable[..., Predicate], parts: list[Predicate]) -> Predicate:
    if len(parts) <= _CHUNK:
        return join(*parts)
    return _folded(join, [join(*parts[first : first + _CHUNK]) for first in range(0, len(parts), _CHUNK)])


def _comparison(scope: Scope, node: exp.Expr, left: exp.Expr, relation: str, right: exp.Expr) -> Truth:
    one, other = scalar(scope, left), scalar(scope, right)
    if any(isinstance(leaf, exp.Null) for leaf in (left, right)):
        scope.warn("A comparison with NULL is never true: IS NULL asks for missing values.")
    return _paired(scope, node, one, other, lambda a, b: _leaves(a, relation, b))


def _leaves(left: Leaf, relation: str, right: Leaf) -> Truth:
    if isinstance(right, Subject):
        if isinstance(left, Subject):
            what = f"Two columns are compared, `{left.attribute.name}` and `{right.attribute.name}`."
            raise Mismatch(what, "Compare each of them with a constant.")
        return compared(right, MIRRORED.get(relation, relation), left)
    return compared(left, relation, right)


def _paired(scope: Scope, node: exp.Expr, left: Scalar, right: Scalar, test: Callable[[Leaf, Leaf], Truth]) -> Truth:
    """Return a test of two scalars, leaf by leaf."""
    try:
        found = [
            left.where(lambda one, side=side: right.where(lambda other: test(one, other)[side]))  # type: ignore[misc]
            for side in (0, 1)
        ]
    except Mismatch as fault:
        raise scope.fault(node, *fault.args) from None
    return found[0], found[1]


def _null_safe(scope: Scope, node: exp.Expr) -> Truth:
    """Return IS [NOT] DISTINCT FROM: true or false everywhere, NULL being a value like any other."""
    one, other = scalar(scope, node.this), scalar(scope, node.expression)
    equal, _ = _paired(scope, node, one, other, lambda a, b: _leaves(a, "=", b))
    same = either(equal, both(one.where(_null), other.where(_null)))
    pair = same, complement(same)
    return pair if isinstance(node, exp.NullSafeEQ) else (pair[1], pair[0])


def _is(scope: Scope, node: exp.Is) -> Truth:
    match node.expression:
        case exp.Null():
            found = scalar(scope, node.this).where(_null)
            return found, complement(found)
        case exp.Boolean(this=wanted):
            pair = condition(scope, node.this)
            found = pair[0] if wanted else pair[1]
            return found, complement(found)
        case _:
            raise scope.fault(node.expression, "IS is followed by something else than NULL, TRUE or FALSE.", "Write =.")


def _null(leaf: Leaf) -> Predicate:
    """Return where a leaf is NULL. `<outside>` is not, though nothing is known of it."""
    if isinstance(leaf, Subject):
        return null(leaf.attribute)
    return complement(present(leaf))


def _in(scope: Scope, node: exp.In) -> Truth:
    subject = scalar(scope, node.this)
    members = node.expressions
    if not members:
        raise scope.fault(node, "IN has no list here.", "Write IN (value, value, ...).")
    values = [scalar(scope, member) for member in members]
    constants: list[Constant] = []
    for member, value in zip(members, values, strict=True):
        if value.branches or isinstance(value.otherwise, Subject):
            raise scope.fault(member, "This is no constant.", "Write constants into the list of IN.")
        constants.append(value.otherwise)
    if None in constants:
        scope.warn("A list of IN with NULL in it is never false, so NOT IN is never true: leave NULL out.")
    try:
        return (
            subject.where(lambda leaf: among(leaf, constants)[0]),
            subject.where(lambda leaf: among(leaf, constants)[1]),
        )
    except Mismatch as fault:
        raise scope.fault(node, *fault.args) from None


def _like(scope: Scope, node: exp.Like | exp.ILike) -> Truth:
    one, other = scalar(scope, node.this), scalar(scope, node.expression)
    pattern = other.otherwise
    if one.branches or other.branches or not isinstance(one.otherwise, Subject) or not isinstance(pattern, str):
        raise scope.fault(node, "LIKE compares a column with a text.", "Write column LIKE 'pattern%'.")
    try:
        flags = re.IGNORECASE if isinstance(node, exp.ILike) else re.NOFLAG
        true, false = like(one.otherwise, pattern, flags=flags)
    except Mismatch as fault:
        raise scope.fault(node, *fault.args) from None
    return (false, true) if node.args.get("negate") else (true, false)


def _case(scope: Scope, node: exp.Case | exp.If) -> Scalar:
    """Return a CASE: with conditions, or with a subject that is compared with one value after the other."""
    ifs = [node] if isinstance(node, exp.If) else node.args["ifs"]
    default = node.args.get("false" if isinstance(node, exp.If) else "default")
    subject = node.this if isinstance(node, exp.Case) else None
    branches = []
    for branch in ifs:
        guard = (
            condition(scope, branch.this) if subject is None else _comparison(scope, branch, subject, "=", branch.this)
        )
        branches.append((guard[0], scalar(scope, branch.args["true"])))
    return cases(branches, of_leaf(None) if default is None else scalar(scope, default))


def _coalesce(scope: Scope, node: exp.Coalesce) -> Scalar:
    """Return the first argument that is not NULL. `<outside>` is not NULL."""
    found = [scalar(scope, part) for part in (node.this, *node.expressions)]
    branches = [(complement(part.where(_null)), part) for part in found[:-1]]
    return cases(branches, found[-1])


def _cast(scope: Scope, node: exp.Cast) -> Scalar:
    """Return a cast of constants, or one that changes nothing."""
    to = kind(node.args["to"])
    inner = scalar(scope, node.this)

    def changed(leaf: Leaf) -> Leaf:
        if not isinstance(leaf, Subject):
            return cast(leaf, to)
        fits = {"category": "text", "date": "date", "boolean": "boolean", "integer": "whole"}.get(leaf.attribute.kind)
        if to == ("whole" if leaf.part in {"year"} else fits) or (to in {"number", "whole"} and leaf.numeric):
            if to == "whole" and leaf.attribute.kind == "number":
                raise Mismatch(
                    f"`{leaf.attribute.name}` has parts of a whole.", "Leave the cast out, or group by bin()."
                )
            return leaf
        raise Mismatch(f"`{leaf.attribute.name}` is a {leaf.attribute.kind}.", "Leave the cast out.")

    try:
        return inner.mapped(changed)
    except Mismatch as fault:
        raise scope.fault(node, *fault.args) from None


def _size(predicate: Predicate) -> int:
    """Return how many sets a predicate is made of."""
    if isinstance(predicate, Among):
        return 1
    return sum(map(_size, predicate.parts))
