"""Predictions: how far off answers would be, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import assert_never

import numpy as np

from dodona.accuracy import failure, number_of
from dodona.answer.evaluation import evaluate, step_of
from dodona.answer.foresight import foreseen
from dodona.answer.law import half_width
from dodona.answer.measured import Measured, Noise, groups_of
from dodona.domain.partition import Partition
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
    Total,
    Variation,
)
from dodona.query.query import Query
from dodona.query.question import Column, Question
from dodona.query.weight import extremes


def shape_of(question: Question) -> tuple[Mapping[int, float], ...]:
    """Return for each column how wide, in steps, the noise of each block that it uses may be beside that of a count.

    With noise of scale s·r on every block, all blocks of an average or a spread add about as much to its error.
    """
    return tuple(_scales(column.expression, question.query) for column in question.columns)


def _scales(expression: Expression, query: Query) -> dict[int, float]:  # noqa: PLR0911  one for each kind
    match expression:
        case Total(block):
            return {block: 1.0}
        case Mean(total, rows):
            return _wide({rows: 1.0, total: float(_farthest(expression) / query.blocks[total].unit)})
        case Variation(squares, mean):
            far = _farthest(mean)
            half = float(far / (2 * query.blocks[mean.total].unit))
            return _wide({mean.rows: 1.0, mean.total: half, squares: float(far**2 / query.blocks[squares].unit)})
        case Quantile(levels):
            return dict.fromkeys(levels, 1.0)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return _least(_scales(left, query), _scales(right, query))
        case Logic(_, parts):
            return _least(*(_scales(part, query) for part in parts))
        case KeyOf() | Literal() | Certain():
            return {}
        case _:
            assert_never(expression)


def predicted(question: Question, column: Column, noises: tuple[Noise, ...], *, confidence: float, rows: int) -> float:
    """Return the half-width that a column would show, if each group had its part of so many rows.

    Averages and totals are taken at the worst place of their public range: all values at the bound that is farthest
    from the centre. Spreads and quantiles are taken as though values were spread evenly over the range. So a table
    that is more clustered than that has quantiles that are told better, and one with few rows around them worse. As
    the noise also moves the ends of a quantile's interval, these are taken to be as far away as they seldom are.
    Arithmetic is taken with all operands at such places, so a quotient with a smaller denominator is told less well.
    It grows with every scale. Infinite: nothing can be said of a ratio whose denominator may be 0.
    """
    failing = failure(confidence)
    if isinstance(column.expression, Total):
        block = column.expression.block
        return float(question.query.blocks[block].unit * half_width(noises[block], failing))
    if isinstance(column.expression, KeyOf | Literal | Certain | Comparison | Logic):
        return 0.0
    each = max(number_of(rows, argument="rows") / groups_of(question), 1.0)
    imagined = _imagined(question, column.expression, noises, each)
    if isinstance(column.expression, Quantile):
        return step_of(column.expression, imagined) * foreseen(column.expression, imagined, failing)
    band = evaluate(column.expression, imagined, failing)
    value, low, high = band.value.item(), band.low.item(), band.high.item()
    return math.inf if math.isnan(value) else max(high - value, value - low)


def _imagined(question: Question, expression: Expression, noises: tuple[Noise, ...], rows: float) -> Measured:
    """Return what one group of so many rows would be measured as, without noise."""
    own = len(question.keys)
    blocks = tuple(replace(block, keys=block.keys[own:]) for block in question.query.blocks)
    query = Query(question.query.domain, blocks)
    steps: dict[int, list[int]] = {}
    _fill(expression, query, rows, steps)
    values = [value for number, block in enumerate(blocks) for value in steps.get(number, [0] * block.values)]
    alone = replace(question, query=query, keys=(), having=None, order=(), limit=None, offset=0)
    return Measured(alone, np.asarray(values, dtype=np.int64), noises)


def _fill(expression: Expression, query: Query, rows: float, steps: dict[int, list[int]]) -> None:
    """Put in the steps that the blocks of an expression would have."""
    match expression:
        case Total(block):
            weight = max(extremes(query.blocks[block].weight), key=abs)
            steps.setdefault(block, [round(weight * rows)])
        case Mean():
            far = max(expression.upper - expression.centre, expression.lower - expression.centre, key=abs)
            steps[expression.rows] = [round(rows)]
            steps[expression.total] = [round(float(far / query.blocks[expression.total].unit) * round(rows))]
        case Variation(squares, mean):
            middle, width = (mean.lower + mean.upper) / 2 - mean.centre, mean.upper - mean.lower
            steps[mean.rows] = [round(rows)]
            steps[mean.total] = [round(float(middle / query.blocks[mean.total].unit) * rows)]
            steps[squares] = [round(float((middle**2 + width**2 / 12) / query.blocks[squares].unit) * rows)]
        case Quantile(levels):
            for level in levels:
                steps[level] = _even(query, level, rows)
        case Arithmetic(_, left, right):
            _fill(left, query, rows, steps)
            _fill(right, query, rows, steps)
        case KeyOf() | Literal() | Certain() | Comparison() | Logic():
            return
        case _:
            assert_never(expression)


def _even(query: Query, block: int, rows: float) -> list[int]:
    """Return a histogram of values that are spread evenly, as whole numbers that add up."""
    partition = query.blocks[block].keys[-1]
    if not isinstance(partition, Partition):
        return [0] * query.blocks[block].values
    below = [round(rows * cut / partition.size) for cut in (*partition.cuts, partition.size)]
    return [*(after - before for before, after in pairwise(below)), *[0] * partition.further]


def _wide(scales: dict[int, float]) -> dict[int, float]:
    """Return scales in which a block that is always 0 has that of a count: nothing is in proportion to no width."""
    return {block: scale or 1.0 for block, scale in scales.items()}


def _farthest(mean: Mean) -> Fraction:
    return max(mean.upper - mean.centre, mean.centre - mean.lower)


def _least(*scales: Mapping[int, float]) -> dict[int, float]:
    """Return the scales of several operands; where they want different noise on a block, the smaller."""
    found: dict[int, float] = {}
    for one in scales:
        for block, scale in one.items():
            found[block] = min(scale, found.get(block, math.inf))
    return found
