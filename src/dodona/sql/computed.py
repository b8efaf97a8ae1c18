"""Computed columns: expressions of a row that the owner declared by name, with bounds that values beyond them count as.

A sum costs what its bounds allow. So revenue = quantity * unit_price, which is 4,000 at most by its columns and 500 by
what the owner knows, is eight times cheaper to add up. Bounds are public, and no ledger is bound to them: what is
measured is the clamped expression, whatever it is called.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from sqlglot import exp

from dodona.numbers import format_fraction
from dodona.schema.schema import ComputedColumn
from dodona.sql.condition import compare_scalars, compile_scalar
from dodona.sql.parse import parse
from dodona.sql.scalar import Scalar, build_case, locate_mismatch, scalar_from_leaf
from dodona.sql.scope import InvalidSql, Scope


def compile_computed(scope: Scope, node: exp.Expr, declared: ComputedColumn) -> Scalar:
    """Return the value of a computed column in a row: its expression within its bounds, or NULL."""
    try:
        value = _unbounded(scope, declared)
    except InvalidSql as fault:
        what = f"`{declared.name}` is {declared.expression}, which is not known here: {fault.what}"
        raise scope.fault(node, what, fault.instead) from None
    return _clamp(scope, node, declared, value)


def apply_declared_bounds(scope: Scope, node: exp.Expr, value: Scalar) -> Scalar:
    """Return a value that is added up within the bounds that the owner declared for the same expression, if any."""
    for declared in scope.schema.computed:
        try:
            same = not value.branches and _unbounded(scope, declared) == value
        except InvalidSql:  # of columns that this table does not have
            continue
        if same:
            return _clamp(scope, node, declared, value)
    return value


def _clamp(scope: Scope, node: exp.Expr, declared: ComputedColumn, value: Scalar) -> Scalar:
    lower, upper = scalar_from_leaf(declared.lower), scalar_from_leaf(declared.upper)

    def clamped() -> Scalar:
        above, below = compare_scalars(value, ">", upper)[0], compare_scalars(value, "<", lower)[0]
        return build_case([(above, upper), (below, lower)], value)

    scalar = locate_mismatch(scope, node, clamped)
    if scalar != value:
        least, most = format_fraction(declared.lower), format_fraction(declared.upper)
        within = f"declared from {least} to {most}: a row beyond counts as the bound."
        scope.warn(f"{declared.name} is {declared.expression}, {within}")
    return scalar


def _unbounded(scope: Scope, declared: ComputedColumn) -> Scalar:
    """Return the expression of a computed column; errors point into it."""
    alone = replace(scope, text=declared.expression, tables=frozenset(), schema=replace(scope.schema, computed=()))
    return compile_scalar(alone, _parse(declared.expression).copy())


@lru_cache(maxsize=256)
def _parse(expression: str) -> exp.Expr:
    tree = parse(f"SELECT {expression} FROM rows")  # noqa: S608  checked node by node
    if len(tree.expressions) != 1 or any(
        tree.args.get(part) for part in ("where", "group", "having", "order", "limit")
    ):
        raise InvalidSql(expression, 0, "This is no expression of a row.", "Write one, such as quantity * unit_price.")
    node: exp.Expr = tree.expressions[0]
    return node.unalias()
