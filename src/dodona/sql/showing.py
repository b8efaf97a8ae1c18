"""What is shown: arithmetic and conditions over aggregates, as post-processing of noisy values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dodona.query.expression import Arithmetic, Certain, Comparison, Expression, KeyOf, Literal, Logic
from dodona.query.query import Key
from dodona.sql.aggregate import Blocks, aggregate, name_of
from dodona.sql.grammar import RELATIONS, chain
from dodona.sql.key import key
from dodona.sql.literal import constant, kind
from dodona.sql.scope import Scope

_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_NO_KEY = (
    "HAVING filters groups by their noisy values.",
    "Write conditions on columns into WHERE: that costs nothing.",
)


@dataclass(frozen=True, slots=True)
class Show:
    """What may be shown in a statement: its keys, its blocks, and the columns that have names already."""

    scope: Scope
    keys: tuple[Key, ...]
    blocks: Blocks
    aliases: Mapping[str, Expression]


def has_aggregate(node: exp.Expr) -> bool:
    """Whether some part of an expression is an aggregate."""
    return any(name_of(part) is not None for part in node.walk())


def value(show: Show, node: exp.Expr) -> Expression:
    """Return an expression over aggregates and numbers."""
    while isinstance(node, exp.Paren):
        node = node.this
    if name_of(node) is not None:
        return aggregate(show.scope, node, show.blocks)
    if isinstance(node, exp.Column):
        return _column(show, node)
    if isinstance(node, exp.Literal) and not node.is_string:
        return Literal(_number(show, node))
    if isinstance(node, exp.Neg):
        return Arithmetic("-", Literal(Fraction(0)), _part(show, node.this))
    if isinstance(node, exp.Cast):
        return _cast(show, node)
    return _arithmetic(show, node)


def _arithmetic(show: Show, node: exp.Expr) -> Expression:
    sign = _ARITHMETIC.get(type(node))
    if sign is None:
        what = "This is not reckoned from the answers."
        raise show.scope.fault(node, what, "Write aggregates and numbers with + - * / between them.")
    before = len(show.blocks.found)
    left, right = _part(show, node.this), _part(show, node.expression)
    if sign == "/" and isinstance(right, Literal | Certain) and right.value == 0:
        raise show.scope.fault(node.expression, "This divides by zero.", "Write another divisor.")
    if sign == "/" and left == right and not isinstance(left, Literal):
        show.blocks.forget(before)
        return Certain(Fraction(1))  # a share of all in all, in every group that has rows
    return Arithmetic(sign, left, right)


def _part(show: Show, node: exp.Expr) -> Expression:
    """Return a part of a sum: anything but the name of a group, or a text."""
    found = value(show, node)
    if isinstance(found, KeyOf) or (isinstance(found, Literal) and isinstance(found.value, str)):
        raise show.scope.fault(node, "A name is not reckoned with.", "Show it in a column of its own.")
    return found


def shown_key(show: Show, node: exp.Expr) -> KeyOf:
    """Return the key that an expression without aggregates is."""
    for column in node.find_all(exp.Column):
        show.scope.column(column)
    if not show.keys and not isinstance(node, exp.Anonymous):
        raise show.scope.fault(
            node,
            "Rows are never shown, so this column has no single value.",
            "Write an aggregate, such as count(*) or avg(...), or name it in GROUP BY.",
        )
    found = key(show.scope, node)
    if found not in show.keys:
        instead = "Name it in GROUP BY just as in SELECT, or write an aggregate of it."
        raise show.scope.fault(node, "This is not what the statement groups by.", instead)
    return KeyOf(show.keys.index(found))


def having(show: Show, node: exp.Expr) -> Expression:
    """Return a condition over the noisy values of a group."""
    match node:
        case exp.Paren():
            return having(show, node.this)
        case exp.Not():
            return Logic("not", (having(show, node.this),))
        case exp.And() | exp.Or():
            word = "and" if isinstance(node, exp.And) else "or"
            return Logic(word, tuple(having(show, part) for part in chain(node)))
        case exp.Between():
            middle = _compared(show, node.this)
            low, high = _compared(show, node.args["low"]), _compared(show, node.args["high"])
            return Logic("and", (Comparison(">=", middle, low), Comparison("<=", middle, high)))
        case exp.In() if node.expressions:
            one = _compared(show, node.this)
            return Logic("or", tuple(Comparison("=", one, _compared(show, part)) for part in node.expressions))
    relation = RELATIONS.get(type(node))
    if relation is None:
        raise show.scope.fault(node, "This is no condition on answers.", "Write a comparison, such as count(*) > 100.")
    return Comparison(relation, _compared(show, node.this), _compared(show, node.expression))


def _compared(show: Show, node: exp.Expr) -> Expression:
    found = value(show, node)
    if isinstance(found, KeyOf):
        raise show.scope.fault(node, *_NO_KEY)
    return found


def _number(show: Show, node: exp.Expr) -> Fraction:
    found = constant(show.scope, node)
    return found if isinstance(found, Fraction) else Fraction(0)


def _cast(show: Show, node: exp.Cast) -> Expression:
    if kind(node.args["to"]) != "number":
        raise show.scope.fault(node, "Answers are numbers with parts of a whole.", "Leave the cast out.")
    return value(show, node.this)


def _column(show: Show, node: exp.Column) -> Expression:
    if node.args.get("table") is None:
        found = show.aliases.get(node.name.casefold())
        if found is not None:
            return found
    return shown_key(show, node)
