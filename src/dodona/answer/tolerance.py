"""Tolerances: how far off an answer may be, as people write it, in the answer's own unit."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import assert_never

from dodona.accuracy import number_of
from dodona.domain.attribute import Date, grid
from dodona.errors import InvalidArgument
from dodona.exact import python_number
from dodona.query.expression import (
    Arithmetic,
    Certain,
    Comparison,
    Expression,
    KeyOf,
    Literal,
    Logic,
    Mean,
    Quantile,
    Spread,
    Total,
    Variation,
)
from dodona.query.query import Query
from dodona.query.question import Column, Question
from dodona.query.weight import extremes

Tolerance = int | float | str
_PERCENT = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*%\s*", re.ASCII)
_ACCEPTED = (
    "write a number above 0 in the answer's own unit, such as 50, or a part of the whole, such as '1%' "
    "(for counts of the table's public size, for sums of the largest sum, otherwise of the column's width)"
)
_VARIANCES = (Spread.POPULATION_VARIANCE, Spread.SAMPLE_VARIANCE)
_HUNDRED = 100


def tolerance(question: Question, column: Column, within: Tolerance, *, size: int) -> float:
    """Return the tolerance in the unit of a column's answers.

    A number is that already. "1%" is a hundredth of the whole: of the public size for counts, of size times the
    largest |value| for sums, of the column's width for averages, deviations and quantiles, of its square for
    variances. For arithmetic the whole is worked out from those of its operands, so it is 1 for a share of counts,
    100 for one in percent, and the largest |value| for a sum over a count.
    """
    if isinstance(within, str):
        found = _PERCENT.fullmatch(within)
        if found is None or not 0 < float(found[1]) <= _HUNDRED:
            raise InvalidArgument("within", within, _ACCEPTED)
        return float(found[1]) / _HUNDRED * whole_of(question, column, size=size)
    number = python_number(within)
    if number is None or not 0 < number < math.inf:
        raise InvalidArgument("within", within, _ACCEPTED)
    return float(number)


def whole_of(question: Question, column: Column, *, size: int) -> float:
    """Return what 100% of a column's answers is, from public facts."""
    return float(_whole(column.expression, question.query, number_of(size, argument="size")))


def _whole(expression: Expression, query: Query, size: int) -> Fraction:  # noqa: PLR0911  one for each kind
    match expression:
        case Total(block):
            weight = max(map(abs, extremes(query.blocks[block].weight)))
            return max(weight, 1) * query.blocks[block].unit * size
        case Mean():
            return expression.upper - expression.lower
        case Variation(_, mean, spread):
            width = mean.upper - mean.lower
            return width**2 if spread in _VARIANCES else width
        case Quantile():
            return _width(expression, query)
        case Arithmetic(operator, left, right):
            return _joined(operator, _whole(left, query, size), _whole(right, query, size))
        case Literal(Fraction() as number) | Certain(number):
            return abs(number)
        case KeyOf() | Literal() | Comparison() | Logic():
            return Fraction(1)
        case _:
            assert_never(expression)


def _joined(operator: str, left: Fraction, right: Fraction) -> Fraction:
    match operator:
        case "+" | "-":
            return left + right
        case "*":
            return left * right
        case _:
            return left if right == 0 else left / right


def _width(quantile: Quantile, query: Query) -> Fraction:
    """Return the width of a column: days for dates."""
    attribute = query.domain[quantile.attribute]
    found = grid(attribute)
    step = Fraction(1) if found is None or isinstance(attribute, Date) else found[1]
    return step * (attribute.size - 1)
