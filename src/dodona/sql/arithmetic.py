"""Arithmetic in a row: exact, and only as far as the result is still a number times a column plus a number."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dodona.sql.literal import small
from dodona.sql.scalar import Leaf, Scalar, Subject, number, of_leaf
from dodona.sql.scope import Scope

_TOGETHER = "Two columns are reckoned together in one row."
_APART = "Ask for sums of each column, and reckon with the answers: sum(a) + sum(b)."


def computed(scope: Scope, node: exp.Expr, left: Scalar, right: Scalar) -> Scalar:
    """Return left + right and its like; at least one side must be a constant."""
    if not left.branches and not isinstance(left.otherwise, Subject):
        fixed = left.otherwise
        return right.mapped(lambda leaf: _computed(scope, node, fixed, leaf))
    if not right.branches and not isinstance(right.otherwise, Subject):
        given = right.otherwise
        return left.mapped(lambda leaf: _computed(scope, node, leaf, given))
    raise scope.fault(node, _TOGETHER, _APART)


def constant_value(found: Scalar) -> Fraction | None:
    """Return the number that a scalar is in every row; None where it is none."""
    return None if found.branches or isinstance(found.otherwise, Subject) else number(found.otherwise)


def _computed(scope: Scope, node: exp.Expr, left: Leaf, right: Leaf) -> Leaf:
    """Return one step of arithmetic; NULL makes NULL."""
    if left is None or right is None:
        return None
    one, other = _affine(scope, node, left), _affine(scope, node, right)
    match node:
        case exp.Add():
            shift, scale = one[0] + other[0], one[1] + other[1]
        case exp.Sub() | exp.Neg():
            shift, scale = one[0] - other[0], one[1] - other[1]
        case exp.Mul():
            shift, scale = one[0] * other[0], one[0] * other[1] + one[1] * other[0]
        case _:
            if other[1] != 0:
                raise scope.fault(node, "A number is divided by a column.", "Divide answers: sum(a) / sum(b).")
            if other[0] == 0:
                raise scope.fault(node, "This divides by zero.", "Write another divisor.")
            shift, scale = one[0] / other[0], one[1] / other[0]
    if not (small(shift) and small(scale)):
        raise scope.fault(node, "This number grows too long.", "Write the result itself.")
    subject = left if isinstance(left, Subject) else right
    return Subject(subject.attribute, shift, scale) if isinstance(subject, Subject) else shift


def _affine(scope: Scope, node: exp.Expr, leaf: Leaf) -> tuple[Fraction, Fraction]:
    """Return shift and scale of a leaf; a constant has scale 0."""
    if isinstance(leaf, Subject):
        if leaf.numeric and leaf.part is None:
            return leaf.shift, leaf.scale
        raise scope.fault(
            node, f"`{leaf.attribute.name}` is not reckoned with.", "Reckon with columns of numbers only."
        )
    found = number(leaf)
    if found is None:
        raise scope.fault(node, "A text or a day is reckoned with.", "Reckon with numbers only.")
    return found, Fraction(0)


ZERO = of_leaf(Fraction(0))
