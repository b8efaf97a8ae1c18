"""What a question would be answered without noise, worked out from its blocks and expressions over rows of codes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np

from dodona.query.query import Block, Key, block_weights, group_numbers
from dodona.query.question import (
    Arithmetic,
    Association,
    Comparison,
    Expression,
    KeyLabel,
    LiteralExpression,
    Logic,
    Mean,
    Measure,
    PublicValue,
    Quantile,
    Question,
    Spread,
    Total,
    Variation,
)
from dodona.schema.attributes import code_label
from dodona.schema.partition import Partition, group_label
from dodona.schema.schema import Domain
from tests.sql.scene import ROWS, Axes

Cell = object
_ARITHMETIC: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_RELATIONS: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Exact:
    """The answers of a question without noise."""

    def __init__(self, question: Question, meant: Block, axes: Axes) -> None:
        self.question = question
        self.blocks = [summed(block, axes) for block in question.query.blocks]
        self.groups = int(np.prod([key.groups for key in question.keys], initial=1))
        self.meant = summed(meant, axes)

    def rows(self) -> list[tuple[Cell, ...]]:
        """Return the rows that are shown, of groups that have rows at all."""
        groups = [group for group in range(self.groups) if self.meant[group] > 0 or not self.question.keys]
        having = self.question.having
        if having is not None:
            groups = [group for group in groups if self.true(having, group)]
        for order in reversed(self.question.order):
            groups.sort(
                key=lambda group, one=order: _sortable(self.value(one.expression, group)), reverse=order.descending
            )  # type: ignore[misc]
        groups = groups[self.question.offset :]
        if self.question.limit is not None:
            groups = groups[: self.question.limit]
        return [tuple(self.value(column.expression, group) for column in self.question.columns) for group in groups]

    def total(self, block: int, group: int) -> Fraction:
        return self.question.query.blocks[block].unit * int(self.blocks[block][group])

    def value(self, expression: Expression, group: int) -> Cell:  # noqa: C901, PLR0911  one case for each expression
        match expression:
            case KeyLabel(key, labels):
                return self.key(key, group, labels)
            case LiteralExpression(value) | PublicValue(value):
                return value
            case Total(block):
                return self.total(block, group)
            case Mean():
                rows = self.total(expression.rows, group)
                if rows == 0:
                    return None
                mean = expression.centre + self.total(expression.total, group) / rows
                assert expression.lower <= mean <= expression.upper
                return mean
            case Variation():
                return self.spread(expression, group)
            case Association():
                return self.association(expression, group)
            case Quantile():
                return self.quantile(expression, group)
            case Arithmetic(sign, left, right):
                operand, other = self.value(left, group), self.value(right, group)
                if operand is None or other is None or (sign == "/" and other == 0):
                    return None
                assert isinstance(operand, Fraction)
                assert isinstance(other, Fraction)
                return _ARITHMETIC[sign](operand, other)
            case Comparison() | Logic():
                return self.true(expression, group)

    def true(self, expression: Expression, group: int) -> bool:
        match expression:
            case Comparison(relation, left, right):
                return _RELATIONS[relation](self.value(left, group), self.value(right, group))
            case Logic("and", parts):
                return all(self.true(part, group) for part in parts)
            case Logic("or", parts):
                return any(self.true(part, group) for part in parts)
            case Logic("not", (part,)):
                return not self.true(part, group)
            case _:
                raise AssertionError(expression)

    def spread(self, expression: Variation, group: int) -> float | None:
        rows = self.total(expression.mean.rows, group)
        sample = expression.spread in {Spread.SAMPLE_VARIANCE, Spread.SAMPLE_DEVIATION}
        if rows <= sample:
            return None
        moved = self.total(expression.mean.total, group)
        variance = float((self.total(expression.squares, group) - moved**2 / rows) / (rows - sample))
        deviation = expression.spread in {Spread.SAMPLE_DEVIATION, Spread.POPULATION_DEVIATION}
        return variance**0.5 if deviation else variance

    def association(self, expression: Association, group: int) -> float | None:
        """Return a covariance, a correlation or a line from the sums alone."""
        rows = self.total(expression.first.rows, group)
        if rows <= (expression.measure is Measure.SAMPLE_COVARIANCE):
            return None
        means = [self.total(variable.total, group) / rows for variable in (expression.first, expression.second)]
        covariance = self.total(expression.products, group) / rows - means[0] * means[1]
        if expression.measure is Measure.POPULATION_COVARIANCE:
            return float(covariance)
        if expression.measure is Measure.SAMPLE_COVARIANCE:
            return float(covariance * rows / (rows - 1))
        pair = zip((expression.first_squares, expression.second_squares), means, strict=True)
        spreads = [self.total(squares, group) / rows - mean**2 for squares, mean in pair if squares is not None]
        slope = covariance / spreads[0]
        if expression.measure is Measure.SLOPE:
            return float(slope)
        if expression.measure is Measure.INTERCEPT:
            moved = [
                mean + variable.centre
                for mean, variable in zip(means, (expression.first, expression.second), strict=True)
            ]
            return float(moved[1] - slope * moved[0])
        square = float(covariance**2 / (spreads[0] * spreads[1]))
        return square if expression.measure is Measure.DETERMINATION else square**0.5 * (1 if covariance > 0 else -1)

    def quantile(self, expression: Quantile, group: int) -> Cell:
        """Return the least value that the wanted part of rows does not exceed; all levels must agree."""
        attribute = self.question.query.domain[expression.attribute]
        spans = []
        for number in expression.levels:
            block = self.question.query.blocks[number]
            last = block.keys[-1]
            assert isinstance(last, Partition)
            counts = self.blocks[number].reshape(self.groups, last.groups)[group, : len(last.cuts)]
            if counts.sum() == 0:
                return None
            wanted = expression.level * int(counts.sum())
            spans.append(last.span(int(np.flatnonzero(np.cumsum(counts) >= float(wanted))[0])))
        for outer, inner in pairwise(spans):
            assert outer[0] <= inner[0] < inner[1] <= outer[1]
        return code_label(attribute, spans[-1][0])

    def key(self, number: int, group: int, labels: tuple[Cell, ...] | None) -> Cell:
        for key in reversed(self.question.keys[number + 1 :]):
            group //= key.groups
        group_key = self.question.keys[number]
        if labels is not None:
            return labels[group % group_key.groups]
        return _name(group_key, group % group_key.groups, self.question.query.domain)


def summed(block: Block, axes: Axes):
    """Return the exact sums of a block, by group."""
    groups = np.broadcast_to(group_numbers(block.keys, axes), (ROWS,))
    weights = np.broadcast_to(block_weights(block, axes), (ROWS,))
    return np.bincount(groups, weights, minlength=block.values).astype(np.int64)  # exact: all sums are below 2^53


def _name(key: Key, group: int, domain: Domain) -> object:
    if isinstance(key, Partition):
        return group_label(key, domain[key.attribute], group)
    labels = [name for name, _ in key.branches]
    return [*labels, key.otherwise][group]


def _sortable(value: object) -> tuple[int, object]:
    if value is None:
        return 2, 0
    return (1, value) if isinstance(value, str) else (0, value)
