"""Conditions and scalars of single rows, compiled from the tree.

SQL has three truth values. A condition is compiled to the pair of where it is true and where it is false; NOT swaps
them, AND and OR join them by De Morgan's laws, and WHERE takes the true one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from dodona.query.literal import counted
from dodona.query.predicate import Predicate, both, complement, either
from dodona.sql.arithmetic import ZERO, computed
from dodona.sql.comparison import MIRRORED, NEVER, Mismatch, Truth, compared, like, null
from dodona.sql.datepart import date_part
from dodona.sql.grammar import CALLS, RELATIONS, chain
from dodona.sql.literal import changed, constant, kind
from dodona.sql.membership import located, member, same
from dodona.sql.scalar import Leaf, Scalar, Subject, cases, of_leaf, present, truth
from dodona.sql.scope import Scope

_CHUNK = 64  # parts that are joined at once, so that long chains do not hold all their sets
_MOST_BRANCHES = 256
_MOST_PAIRS = 256


def condition(scope: Scope, node: exp.Expr) -> Truth:
    """Return where a condition is true and where it is false."""
    found = _condition(scope, node)
    scope.bounded(node, *found)
    return found


def scalar(scope: Scope, node: exp.Expr) -> Scalar:
    """Return the value of an expression in a row."""
    read = _SCALARS.get(type(node))
    if read is not None:
        return read(scope, node)
    if type(node) in _CONDITIONS:
        true, false = condition(scope, node)
        return cases([(true, of_leaf(leaf=True)), (false, of_leaf(leaf=False))], of_leaf(None))
    found = date_part(scope, node, lambda part: scalar(scope, part))
    if found is not None:
        return found
    if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup):
        raise scope.fault(node, "An aggregate stands where single rows are meant.", "Write it in SELECT or HAVING.")
    if isinstance(node, exp.Anonymous):
        what = f"`{node.name[:60]}` is no function that is known here."
        raise scope.fault(node, *CALLS.get(node.name.lower(), (what, "Leave it out.")))
    instead = "Write a column, a number, a text in single quotes or a CASE."
    raise scope.fault(node, "This is no value of a row.", instead)


def _condition(scope: Scope, node: exp.Expr) -> Truth:
    read = _CONDITIONS.get(type(node))
    return _as_condition(scope, node, scalar(scope, node)) if read is None else read(scope, node)


def _and(scope: Scope, node: exp.Expr) -> Truth:
    pairs = [condition(scope, part) for part in chain(node)]
    return _folded(both, [true for true, _ in pairs]), _folded(either, [false for _, false in pairs])


def _or(scope: Scope, node: exp.Expr) -> Truth:
    pairs = [condition(scope, part) for part in chain(node)]
    return _folded(either, [true for true, _ in pairs]), _folded(both, [false for _, false in pairs])


def _not(scope: Scope, node: exp.Expr) -> Truth:
    true, false = condition(scope, node.this)
    return false, true


def _between(scope: Scope, node: exp.Expr) -> Truth:
    middle = _Side(node.this, scalar(scope, node.this))
    above = _paired(scope, node, (middle, _side(scope, node.args["low"])), ">=")
    below = _paired(scope, node, (middle, _side(scope, node.args["high"])), "<=")
    return both(above[0], below[0]), either(above[1], below[1])


def _as_condition(scope: Scope, node: exp.Expr, found: Scalar) -> Truth:
    """Return a scalar as a condition: a column of truth values, or a CASE of them."""
    if any(truth(leaf) is None for leaf in found.leaves):
        raise scope.fault(node, "This is no condition.", "Write a comparison, such as age >= 65, or a boolean column.")
    return found.where(lambda leaf: (truth(leaf) or NEVER)[0]), found.where(lambda leaf: (truth(leaf) or NEVER)[1])


def _folded(join: Callable[..., Predicate], parts: list[Predicate]) -> Predicate:
    if len(parts) <= _CHUNK:
        return join(*parts)
    return _folded(join, [join(*parts[first : first + _CHUNK]) for first in range(0, len(parts), _CHUNK)])


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a comparison: where it stands, and what it is in a row. It is compiled once."""

    node: exp.Expr
    value: Scalar


def _side(scope: Scope, node: exp.Expr) -> _Side:
    if isinstance(node, exp.Null):
        scope.warn("A comparison with NULL is never true: IS NULL asks for missing values.")
    return _Side(node, scalar(scope, node))


def _comparison(scope: Scope, node: exp.Expr) -> Truth:
    if isinstance(node.this, exp.Tuple):
        true, false = same(scope, node, lambda part: scalar(scope, part))
        return (true, false) if isinstance(node, exp.EQ) else (false, true)
    sides = _side(scope, node.this), _side(scope, node.args["expression"])
    return _paired(scope, node, sides, RELATIONS[type(node)])


def _leaves(left: Leaf, relation: str, right: Leaf) -> Truth:
    if isinstance(right, Subject):
        if isinstance(left, Subject):
            what = f"Two columns are compared, `{left.attribute.name}` and `{right.attribute.name}`."
            raise Mismatch(what, "Compare each of them with a constant.")
        return compared(right, MIRRORED.get(relation, relation), left)
    return compared(left, relation, right)


def _paired(scope: Scope, node: exp.Expr, sides: tuple[_Side, _Side], relation: str) -> Truth:
    """Return a comparison of two scalars, leaf by leaf."""
    left, right = sides[0].value, sides[1].value
    pairs = len(left.leaves) * len(right.leaves)
    if left.branches and right.branches and pairs > _MOST_PAIRS:
        raise scope.fault(node, "Two long CASEs are compared.", "Compare one of them with constants.")
    scope.work(node, pairs * max(left.width, right.width, pairs))
    tests: dict[tuple[int, int], Truth] = {}

    def tested(one: Leaf, other: Leaf) -> Truth:
        place = id(one), id(other)
        if place not in tests:
            tests[place] = _leaves(one, relation, other)
        return tests[place]

    try:
        true = left.where(lambda one: right.where(lambda other: tested(one, other)[0]))
        false = left.where(lambda one: right.where(lambda other: tested(one, other)[1]))
    except Mismatch as fault:
        fixed = [side.node for side in sides if not side.value.width]
        raise scope.fault(fixed[-1] if len(fixed) == 1 else node, *fault.args) from None
    return true, false


def _null_safe(scope: Scope, node: exp.Expr) -> Truth:
    """Return IS [NOT] DISTINCT FROM: true or false everywhere, NULL being a value like any other."""
    sides = _Side(node.this, scalar(scope, node.this)), _Side(node.expression, scalar(scope, node.expression))
    equal, _ = _paired(scope, node, sides, "=")
    nulls = both(*(side.value.where(_null) for side in sides))
    same = either(equal, nulls)
    pair = same, complement(same)
    return pair if isinstance(node, exp.NullSafeEQ) else (pair[1], pair[0])


def _is(scope: Scope, node: exp.Expr) -> Truth:
    match node.expression:
        case exp.Null():
            asked = scalar(scope, node.this)
            columns = [leaf.attribute for leaf in asked.leaves if isinstance(leaf, Subject)]
            for own in (column for column in columns if column.otherwise is not None):
                scope.warn(f"`{own.name}` is never NULL: what is missing {counted(own)}.")
            found = asked.where(_null)
        case exp.Boolean(this=wanted):
            pair = condition(scope, node.this)
            found = pair[0] if wanted else pair[1]
        case _:
            raise scope.fault(node.expression, "IS is followed by something else than NULL, TRUE or FALSE.", "Write =.")
    return found, complement(found)


def _null(leaf: Leaf) -> Predicate:
    """Return where a leaf is NULL. `<outside>` is not, though nothing is known of it."""
    if isinstance(leaf, Subject):
        return null(leaf.attribute)
    return complement(present(leaf))


def _in(scope: Scope, node: exp.Expr) -> Truth:
    return member(scope, node, lambda part: scalar(scope, part))


def _like(scope: Scope, node: exp.Expr) -> Truth:
    one, other = scalar(scope, node.this), scalar(scope, node.expression)
    pattern = other.otherwise
    if one.branches or other.branches or not isinstance(one.otherwise, Subject) or not isinstance(pattern, str):
        raise scope.fault(node, "LIKE compares a column with a text.", "Write column LIKE 'pattern%'.")
    subject, folded = one.otherwise, str.lower if isinstance(node, exp.ILike) else str
    scope.work(node, subject.attribute.size * len(pattern))
    true, false = located(scope, node, lambda: like(subject, pattern, folded=folded))
    return (false, true) if node.args.get("negate") else (true, false)


def _case(scope: Scope, node: exp.Expr) -> Scalar:
    """Return a CASE: with conditions, or with a subject that is compared with one value after the other."""
    ifs = [node] if isinstance(node, exp.If) else node.args["ifs"]
    default = node.args.get("false" if isinstance(node, exp.If) else "default")
    if len(ifs) > _MOST_BRANCHES:
        raise scope.fault(
            node, f"This CASE has more than {_MOST_BRANCHES} branches.", "Write IN (...), or fewer branches."
        )
    subject = _side(scope, node.this) if isinstance(node, exp.Case) and node.this is not None else None
    branches = []
    for branch in ifs:
        if subject is None:
            guard = condition(scope, branch.this)
        else:
            guard = _paired(scope, branch, (subject, _side(scope, branch.this)), "=")
        branches.append((guard[0], scalar(scope, branch.args["true"])))
    found = cases(branches, of_leaf(None) if default is None else scalar(scope, default))
    scope.bounded(node, *(guard for guard, _ in found.branches))
    return found


def _coalesce(scope: Scope, node: exp.Expr) -> Scalar:
    """Return the first argument that is not NULL. `<outside>` is not NULL."""
    parts = (node.this, *node.args["expressions"])
    if len(parts) > _MOST_BRANCHES:
        raise scope.fault(node, f"coalesce has more than {_MOST_BRANCHES} arguments.", "Write fewer.")
    found = [scalar(scope, part) for part in parts]
    branches = [(complement(part.where(_null)), part) for part in found[:-1]]
    scope.bounded(node, *(guard for guard, _ in branches))
    return cases(branches, found[-1])


def _cast(scope: Scope, node: exp.Expr) -> Scalar:
    """Return a cast of constants, or one that changes nothing."""
    to = kind(node.args["to"])
    inner = scalar(scope, node.this)
    return located(scope, node, lambda: inner.mapped(lambda leaf: changed(leaf, to)))


def _column(scope: Scope, node: exp.Expr) -> Scalar:
    return of_leaf(Subject(scope.column(node)))


def _negative(scope: Scope, node: exp.Expr) -> Scalar:
    return computed(scope, node, ZERO, scalar(scope, node.this))


def _computed(scope: Scope, node: exp.Expr) -> Scalar:
    return computed(scope, node, scalar(scope, node.this), scalar(scope, node.expression))


_CONDITIONS: dict[type[exp.Expr], Callable[[Scope, exp.Expr], Truth]] = {
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.ILike: _like,
    exp.NullSafeEQ: _null_safe,
    exp.NullSafeNEQ: _null_safe,
    **dict.fromkeys(RELATIONS, _comparison),
}
_SCALARS: dict[type[exp.Expr], Callable[[Scope, exp.Expr], Scalar]] = {
    exp.Paren: lambda scope, node: scalar(scope, node.this),
    exp.Column: _column,
    **dict.fromkeys((exp.Literal, exp.Boolean, exp.Null), lambda scope, node: of_leaf(constant(scope, node))),
    **dict.fromkeys((exp.Case, exp.If), _case),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div), _computed),
    exp.Coalesce: _coalesce,
    exp.Cast: _cast,
    exp.Neg: _negative,
}
