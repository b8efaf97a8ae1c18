"""Compile functions of dates: `year(d)`, `extract(month FROM d)`, `date_trunc('month', d)`, intervals."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from sqlglot import exp

from dodona.schema.attributes import Date, Timestamp
from dodona.schema.moments import DAY_SECONDS
from dodona.sql import functions
from dodona.sql.arithmetic import calculate, epoch_seconds
from dodona.sql.calendar import CLOCK_PARTS, DATE_PARTS, PART_SYNONYMS, TRUNCATION_UNITS, parse_interval
from dodona.sql.parse import DATE_PART_NODES
from dodona.sql.scalar import Constant, Scalar, Subject, combine, leaf_kind, locate_mismatch, scalar_from_leaf
from dodona.sql.scope import Scope
from dodona.sql.tables import apply_function, tabulate_moments


def compile_date_function(scope: Scope, node: exp.Expr, compiled: Callable[[exp.Expr], Scalar]) -> Scalar | None:
    """Compile a date part; None if the node is not one."""
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):
        return _truncate(scope, node, node.args["unit"].name, compiled(node.this))
    if isinstance(node, exp.Extract):
        return _elapsed(scope, node, compiled) or _extract(scope, node, node.this.name, compiled(node.expression))
    if isinstance(node, exp.Interval):
        return scalar_from_leaf(_interval(scope, node))
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


def _elapsed(scope: Scope, node: exp.Extract, compiled: Callable[[exp.Expr], Scalar]) -> Scalar | None:
    """Return the seconds from one time to another, written EXTRACT(EPOCH FROM last - first); None for all else."""
    inner = node.expression.unnest()
    if node.this.name.lower() != "epoch" or not isinstance(inner, exp.Sub):
        return None
    sides = [compiled(side) for side in (inner.this, inner.expression)]
    if not {leaf_kind(leaf) for side in sides for leaf in side.leaves} <= {"date", "timestamp"}:
        return None
    whole = Fraction(DAY_SECONDS)
    return locate_mismatch(
        scope, node, lambda: combine(lambda *leaves: calculate("*", calculate("-", *leaves), whole), sides)
    )


def _extract(scope: Scope, node: exp.Expr, name: str, inner: Scalar) -> Scalar:
    part = PART_SYNONYMS.get(name.lower(), name.lower())
    if part not in DATE_PARTS:
        raise scope.fault(node, f"`{name[:40]}` is no part of a date.", f"Write one of {', '.join(DATE_PARTS)}.")
    column = _time_column(inner)
    if isinstance(column, Date) and part not in CLOCK_PARTS:
        return scalar_from_leaf(Subject(column, part=part))
    if isinstance(column, Timestamp):
        read = partial(epoch_seconds, column) if part == "epoch" else partial(tabulate_moments, column, part)
        return scalar_from_leaf(locate_mismatch(scope, node, read))
    function = functions.date_or_interval_part(part)
    return locate_mismatch(scope, node, lambda: inner.mapped(lambda leaf: apply_function(function, (leaf,))))


def _truncate(scope: Scope, node: exp.Expr, unit: str, inner: Scalar) -> Scalar:
    name = unit.lower()
    if name not in TRUNCATION_UNITS:
        raise scope.fault(node, f"A date is not cut to `{name[:40]}`.", f"Write one of {', '.join(TRUNCATION_UNITS)}.")
    column = _time_column(inner)
    if isinstance(column, Date) and name not in CLOCK_PARTS:
        return scalar_from_leaf(Subject(column, part=f"trunc {name}"))
    if isinstance(column, Timestamp):
        return scalar_from_leaf(locate_mismatch(scope, node, partial(tabulate_moments, column, f"trunc {name}")))
    function = functions.truncated(name)
    return locate_mismatch(scope, node, lambda: inner.mapped(lambda leaf: apply_function(function, (leaf,))))


def _time_column(inner: Scalar) -> Date | Timestamp | None:
    """Return the column that a scalar is, if it is a plain column of dates or of times."""
    leaf = inner.otherwise
    if inner.branches or not isinstance(leaf, Subject) or not leaf.plain:
        return None
    return leaf.attribute if isinstance(leaf.attribute, Date | Timestamp) else None


def _interval(scope: Scope, node: exp.Interval) -> Constant:
    """Return the interval that INTERVAL '1 month', INTERVAL '1' month or INTERVAL 1 month means."""
    unit = node.args.get("unit")
    interval = parse_interval(node.this.name if node.this is not None else "", "" if unit is None else unit.name)
    if interval is None:
        raise scope.fault(node, "This is no interval.", "Write INTERVAL '7 days', hours, months or years.")
    return interval
