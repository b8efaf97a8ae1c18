"""Functions of dates, compiled from the tree: `year(d)`, `extract(month FROM d)`, `date_trunc('month', d)`."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dodona.domain.attribute import Date
from dodona.sql.dates import PARTS, SAME, UNITS
from dodona.sql.scalar import Scalar, Subject, of_leaf
from dodona.sql.scope import Scope

_NAMED = (exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear)


def date_part(scope: Scope, node: exp.Expr, compiled: Callable[[exp.Expr], Scalar]) -> Scalar | None:
    """Return a part of a date; None where the node is none."""
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):
        return _truncated(scope, node, node.args["unit"].name, compiled(node.this))
    if isinstance(node, exp.Extract):
        return _extracted(scope, node, node.this.name, compiled(node.expression))
    if isinstance(node, _NAMED):
        return _extracted(scope, node, type(node).__name__, compiled(node.this))
    return _called(scope, node, compiled) if isinstance(node, exp.Anonymous) else None


def _called(scope: Scope, node: exp.Anonymous, compiled: Callable[[exp.Expr], Scalar]) -> Scalar | None:
    """Return a part of a date by a name that the parser leaves as it is."""
    match node.name.lower(), node.expressions:
        case (("date_trunc" | "datetrunc"), [unit, inner]):
            return _truncated(scope, node, unit.name, compiled(inner))
        case (("date_part" | "datepart"), [unit, inner]):
            return _extracted(scope, node, unit.name, compiled(inner))
        case name, [inner] if name in PARTS or name in SAME:
            return _extracted(scope, node, name, compiled(inner))
        case _:
            return None


def _extracted(scope: Scope, node: exp.Expr, name: str, inner: Scalar) -> Scalar:
    part = SAME.get(name.lower(), name.lower())
    if part not in PARTS:
        raise scope.fault(node, f"`{name[:40]}` is no part of a date.", f"Write one of {', '.join(PARTS)}.")
    return of_leaf(Subject(_date(scope, node, inner), part=part))


def _truncated(scope: Scope, node: exp.Expr, unit: str, inner: Scalar) -> Scalar:
    name = unit.lower()
    if name not in UNITS:
        raise scope.fault(node, f"A date is not cut to `{name[:40]}`.", f"Write one of {', '.join(UNITS)}.")
    return of_leaf(Subject(_date(scope, node, inner), part=f"trunc {name}"))


def _date(scope: Scope, node: exp.Expr, inner: Scalar) -> Date:
    leaf = inner.otherwise
    if inner.branches or not isinstance(leaf, Subject) or not leaf.plain or not isinstance(leaf.attribute, Date):
        raise scope.fault(node, "This takes a column of dates.", "Write the column's name alone.")
    return leaf.attribute
