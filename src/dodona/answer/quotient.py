"""Quotients: expressions that are one linear form over another, which have a test to invert."""

from __future__ import annotations

from fractions import Fraction

from dodona.answer.form import Form, form_of, form_values
from dodona.answer.measured import Measured
from dodona.answer.ratio import Part, Ratio, can_invert
from dodona.query.expression import Arithmetic, Expression
from dodona.query.query import Query


def quotient(expression: Expression, measured: Measured) -> Ratio | None:
    """Return the ratio that an expression is, None where it is none or the law of its noise is not known."""
    parts = forms_of(expression, measured.question.query)
    if parts is None:
        return None
    above, below = parts
    top, bottom = dict(above.factors), dict(below.factors)
    blocks = sorted({*top, *bottom})
    if not can_invert([measured.noises[block] for block in blocks]):
        return None
    noises = tuple(
        Part(float(top.get(block, 0)), float(bottom.get(block, 0)), measured.noises[block]) for block in blocks
    )
    return Ratio(form_values(above, measured), form_values(below, measured), noises)


def forms_of(expression: Expression, query: Query) -> tuple[Form, Form] | None:
    """Return numerator and denominator of form / form, also inside multiples of it and sums with numbers."""
    if not isinstance(expression, Arithmetic):
        return None
    left, right = form_of(expression.left, query), form_of(expression.right, query)
    if left is not None and right is not None:
        return (left, right) if expression.operator == "/" else None
    if left is None:
        inner, number = forms_of(expression.left, query), right
        return (
            None if inner is None or number is None or number.factors else _behind(expression, inner, number.constant)
        )
    inner = forms_of(expression.right, query)
    return None if inner is None or left.factors else _before(expression, inner, left.constant)


def _behind(expression: Arithmetic, inner: tuple[Form, Form], number: Fraction) -> tuple[Form, Form] | None:
    """Return above/below * / + - number as one ratio."""
    above, below = inner
    match expression.operator:
        case "*":
            return above.times(number), below
        case "/":
            return None if number == 0 else (above.times(1 / number), below)
        case "+":
            return above.plus(below, number), below
        case _:
            return above.plus(below, -number), below


def _before(expression: Arithmetic, inner: tuple[Form, Form], number: Fraction) -> tuple[Form, Form]:
    """Return number * / + - above/below as one ratio."""
    above, below = inner
    match expression.operator:
        case "*":
            return above.times(number), below
        case "/":
            return below.times(number), above
        case "+":
            return above.plus(below, number), below
        case _:
            return below.times(number).plus(above, Fraction(-1)), below
