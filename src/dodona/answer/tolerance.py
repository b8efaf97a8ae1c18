"""Tolerances: how far off an answer may be, as people write it, in the answer's own unit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
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
from dodona.query.weight import Cases, Constant, People, Value, Weight, extremes

Tolerance = int | float | str
"""50 is absolute, in the answer's unit; "1%" is of the public size for counts, of the column's width otherwise."""
Tolerances = Tolerance | Mapping[str, Tolerance] | Sequence[Tolerance]
"""One for all columns, or one for each of them: by name, or in their order."""
_PERCENT = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*%\s*", re.ASCII)
_ACCEPTED = (
    "write a number from 1e-100 to 1e100 in the answer's own unit, such as 50, or a part of the whole, such as '1%' "
    "(for counts of the table's public size, for sums of the largest sum, otherwise of the column's width)"
)
_LEAST, _MOST = 1e-100, 1e100  # beyond, no arithmetic of doubles holds
_VARIANCES = (Spread.POPULATION_VARIANCE, Spread.SAMPLE_VARIANCE)
_HUNDRED = 100
_ROWS = "rows"
_KNOWN = (KeyOf, Literal, Comparison, Logic)
Unit = frozenset[tuple[str, int]]
"""What a number counts, as powers of columns and of rows; empty for a share."""


@dataclass(frozen=True, slots=True)
class PerColumn:
    """A tolerance for each column of estimates, by its name or by its place."""

    parts: tuple[tuple[str | int, Tolerance], ...]

    def of(self, question: Question, column: Column) -> Tolerance:
        """Return the tolerance of a column."""
        shown = _estimates(question)
        keys: tuple[str | int, ...] = (column.name.casefold(), shown.index(column))
        found = [within for key, within in self.parts if (key.casefold() if isinstance(key, str) else key) in keys]
        if len(found) != 1 or (self.listed and len(self.parts) != len(shown)):
            raise InvalidArgument("within", self.written, f"write a tolerance for each column, {_example(shown)}")
        return found[0]

    @property
    def listed(self) -> bool:
        """Whether it goes by places."""
        return all(isinstance(key, int) for key, _ in self.parts)

    @property
    def written(self) -> dict[str, Tolerance] | list[Tolerance]:
        """The tolerances as people write them."""
        return [own for _, own in self.parts] if self.listed else {str(key): own for key, own in self.parts}


def tolerance(question: Question, column: Column, within: Tolerance | PerColumn, *, size: int) -> float:
    """Return the tolerance in the unit of a column's answers.

    A number is that already: `fit` holds that all columns have one unit. "1%" is a hundredth of the whole: of the
    public size for counts, of size times the largest |value| for sums, of the column's width for averages, deviations
    and quantiles, of its square for variances. For arithmetic the whole is worked out from those of its operands: it
    is 1 for a share of counts, 100 for one in percent, and the largest |value| for a sum over a count. What only HAVING
    or ORDER BY reads is as accurate, as a part of its whole, as the most accurate column that is shown.
    """
    if not isinstance(within, PerColumn) and any(column is one for one in question.columns):
        return _read(question, column, within, size)  # nearly all questions
    shown = [one for one in _estimates(question) if not isinstance(one.expression, Certain)]
    if column not in question.columns and shown:
        parts = (tolerance(question, one, within, size=size) / whole_of(question, one, size=size) for one in shown)
        return max(_LEAST, min(parts) * whole_of(question, column, size=size))
    if isinstance(within, PerColumn):
        if not shown:
            raise InvalidArgument("within", within.written, "write one tolerance: no column that is shown has an error")
        return _read(question, column, within.of(question, column), size)
    return _read(question, column, within, size)


def fit(within: Tolerance | PerColumn, questions: Sequence[Question]) -> None:
    """Refuse a number for columns of different units, and names that no column has."""
    if isinstance(within, PerColumn):
        known = {column.name.casefold(): column.name for question in questions for column in _estimates(question)}
        for key, _ in within.parts:
            if isinstance(key, str) and key.casefold() not in known:
                accepted = f"{key!r} is no column of estimates; name {', '.join(known.values())}"
                raise InvalidArgument("within", within.written, accepted)
    elif not isinstance(within, str):
        for question in questions:
            if len(question.columns) > 1:
                _hold_one_unit(question, within)


def _hold_one_unit(question: Question, within: Tolerance) -> None:
    shown = [one for one in _estimates(question) if not isinstance(one.expression, Certain)]
    if len({unit_of(one.expression, question.query) for one in shown}) > 1:
        units = ", ".join(f"{one.name} in {_spelled(unit_of(one.expression, question.query))}" for one in shown)
        accepted = f"the columns have different units ({units}): write one for each, {_example(shown)}, or '1%' for all"
        raise InvalidArgument("within", within, accepted)


def _read(question: Question, column: Column, within: Tolerance, size: int) -> float:
    if isinstance(within, str):
        if type(column.expression) is Total:
            block = question.query.blocks[column.expression.block]
            if type(block.weight) is Constant:  # of a batch nearly all, and read once
                return _part_of_counts(within, block.weight.number, block.unit, size)
        return max(_LEAST, _part(within) * whole_of(question, column, size=size))
    number = python_number(within)
    if number is None or not _LEAST <= number <= _MOST:
        raise InvalidArgument("within", within, _ACCEPTED)
    return float(number)


def _part(within: str) -> float:
    found = _PERCENT.fullmatch(within)
    if found is None or not 0 < float(found[1]) <= _HUNDRED:
        raise InvalidArgument("within", within, _ACCEPTED)
    return float(found[1]) / _HUNDRED


@lru_cache(maxsize=1 << 8)
def _part_of_counts(within: str, weight: int, unit: Fraction, size: int) -> float:
    whole = max(abs(weight), 1) * unit * number_of(size, argument="size")
    return max(_LEAST, _part(within) * float(whole))


def _estimates(question: Question) -> list[Column]:
    """Return the columns that show estimates."""
    return [column for column in question.columns if not isinstance(column.expression, _KNOWN)]


def _example(shown: Sequence[Column]) -> str:
    return "such as within={" + ", ".join(f"{column.name!r}: '1%'" for column in shown) + "}"


def unit_of(expression: Expression, query: Query) -> Unit:  # noqa: PLR0911  one for each kind
    """Return what the numbers of an expression count: sums are of a column times rows, averages of the column."""
    match expression:
        case Total(block):
            return _times(_weighed(query.blocks[block].weight), frozenset(((_ROWS, 1),)), 1)
        case Mean(total):
            return _weighed(query.blocks[total].weight)
        case Variation(_, mean, spread):
            own = _weighed(query.blocks[mean.total].weight)
            return _times(own, own, 1) if spread in _VARIANCES else own
        case Quantile():
            return frozenset(((expression.attribute, 1),))
        case Arithmetic("*" | "/" as operator, left, right):
            return _times(unit_of(left, query), unit_of(right, query), 1 if operator == "*" else -1)
        case Arithmetic(_, left, right):
            parts = [one for one in (left, right) if not isinstance(one, Literal | Certain)]
            return _shared({unit_of(one, query) for one in parts})
        case KeyOf() | Literal() | Certain() | Comparison() | Logic():
            return frozenset()
        case _:
            assert_never(expression)


def _weighed(weight: Weight) -> Unit:
    match weight:
        case Constant() | People():
            return frozenset()
        case Value(name, _, _, _, power):
            return frozenset(((name, power),))
        case Cases(branches, otherwise):
            return _shared({_weighed(own) for own in (otherwise, *(branch for _, branch in branches))} - {frozenset()})
        case _:
            assert_never(weight)


def _times(left: Unit, right: Unit, power: int) -> Unit:
    found = dict(left)
    for name, own in right:
        found[name] = found.get(name, 0) + power * own
    return frozenset((name, own) for name, own in found.items() if own)


def _shared(units: set[Unit]) -> Unit:
    """Return the unit of what is added; a mixture is a unit of its own."""
    if len(units) <= 1:
        return next(iter(units), frozenset())
    return frozenset(((" and ".join(sorted(map(_spelled, units))), 1),))


def _spelled(unit: Unit) -> str:
    powers = [name if power == 1 else f"{name}^{power}" for name, power in sorted(unit)]
    return " x ".join(powers) or "parts of 1"


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
    return step * max(attribute.size - 1, 1)
