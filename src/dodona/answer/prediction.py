"""Predicted accuracy: the interval widths of an answer, from public facts alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import assert_never

import numpy as np

from dodona.answer.evaluation import code_step, evaluate
from dodona.answer.laws import half_width
from dodona.answer.quantiles import TYPICAL_FACTOR, WORST_CASE_FACTOR, expected_quantile_width
from dodona.privacy.accuracy import to_failure_probability, validate_count
from dodona.privacy.additive_noise import Noise
from dodona.privacy.measurement import MeasuredValues
from dodona.query import question as asked
from dodona.query.predicate import EVERYTHING
from dodona.query.query import CaseKey, ConstantWeight, Key, Query, weight_range
from dodona.schema.partition import Partition

_failure_probability = lru_cache(maxsize=16)(to_failure_probability)  # few values, reused for every scale tried


def predict_half_width(
    question: asked.Question, column: asked.AnswerColumn, noises: tuple[Noise, ...], *, confidence: float, rows: int
) -> float:
    """Return the half-width that a column would show if the rows were divided equally among groups.

    Averages and totals are evaluated at the worst case of their public range: all values at the bound farthest from
    the centre. Spreads and quantiles assume values evenly distributed over the range: more clustered values give more
    accurate quantiles, few rows around them less accurate ones. As noise also moves the ends of a quantile's interval,
    these are assumed to be as far away as they rarely are. Arithmetic takes all operands at these points, so a quotient
    with a smaller denominator is less accurate.
    It increases with every scale. Infinite if a ratio's denominator may be 0.
    """
    failing = _failure_probability(confidence)
    if isinstance(column.expression, asked.Total):
        block = column.expression.block
        return float(question.query.blocks[block].unit * half_width(noises[block], failing))
    known = asked.KeyLabel | asked.LiteralExpression | asked.PublicValue
    if isinstance(column.expression, known | asked.Comparison | asked.Logic):
        return 0.0
    each = max(validate_count(rows, argument="rows") / question.groups, 1.0)
    return _width(column.expression, _imagined_all(question, column.expression, noises, [(each, None)]), failing)


@dataclass(frozen=True, slots=True)
class BetaShape:
    """A beta distribution of values over their public range, scaled to [0, 1]."""

    first: float
    second: float

    @property
    def mean(self) -> float:
        """The average."""
        return self.first / (self.first + self.second)

    @property
    def variance(self) -> float:
        """The variance."""
        return self.mean * (1 - self.mean) / (self.first + self.second + 1)

    def below(self, places: Sequence[float]) -> list[float]:
        """Return the share of the values below each point."""
        from scipy.special import betainc

        return [float(part) for part in betainc(self.first, self.second, np.asarray(places, dtype=np.float64))]


@dataclass(frozen=True, slots=True)
class ReleasedHistogram:
    """A distribution of values over their public range from released counts: uniform within each bin."""

    edges: tuple[float, ...]
    """From 0 to 1, rising."""
    shares: tuple[float, ...]
    """Of the values, one for each bin; they add up to 1."""

    @property
    def mean(self) -> float:
        """The average."""
        return sum(share * (first + last) / 2 for share, (first, last) in self._bins())

    @property
    def variance(self) -> float:
        """The variance."""
        squares = sum(share * (first * first + first * last + last * last) / 3 for share, (first, last) in self._bins())
        return max(squares - self.mean**2, 0.0)

    def below(self, places: Sequence[float]) -> list[float]:
        """Return the share of the values below each point."""
        summed = np.concatenate([[0.0], np.cumsum(self.shares)])
        return [float(part) for part in np.interp(places, self.edges, np.minimum(summed, 1.0))]

    def _bins(self) -> Iterator[tuple[float, tuple[float, float]]]:
        return zip(self.shares, pairwise(self.edges), strict=True)


ValueDistribution = BetaShape | ReleasedHistogram
"""How values lie in their range."""
_UNIFORM = BetaShape(1, 1)
SHAPES = tuple(BetaShape(*pair) for pair in ((1, 1), (6, 6), (1.5, 6), (6, 1.5), (30, 30), (4, 40), (40, 4)))
"""Spread evenly, or gathered in a half or a fifth of the range: in its middle, or near an end."""


@lru_cache(maxsize=1 << 10)
def predict_width_range(
    question: asked.Question,
    noises: tuple[Noise, ...],
    *,
    confidence: float,
    rows: tuple[float, float],
    shapes: tuple[ValueDistribution, ...] = SHAPES,
) -> tuple[float, float] | None:
    """Return the least and largest expected half-width of one column, for a group within a range of row counts.

    Values may follow any of several distributions. None if the column is a count, a sum or a label.
    """
    expression = question.columns[0].expression
    known = asked.Mean | asked.Variation | asked.Quantile | asked.Association | asked.Arithmetic
    if not isinstance(expression, known):
        return None
    failing, (few, many) = to_failure_probability(confidence), (max(count, 1.0) for count in rows)
    ends = [[(count, shape) for shape in shapes] for count in dict.fromkeys((many, few))]
    if isinstance(expression, asked.Quantile):

        def width(group: tuple[float, ValueDistribution]) -> float:
            imagined = _imagined_all(question, expression, noises, [group])
            return _width(expression, imagined, failing, TYPICAL_FACTOR)

        return min(map(width, ends[0])), max(map(width, ends[-1]))
    imagined = _imagined_all(question, expression, noises, [group for end in ends for group in end])
    together = _widths(expression, imagined, failing)
    return min(together[: len(shapes)]), max(together[-len(shapes) :])


def _widths(expression: asked.Expression, imagined: MeasuredValues, failing: float) -> list[float]:
    """Return the half-widths of all simulated groups."""
    band = evaluate(expression, imagined, failing)
    away = np.maximum(band.high - band.value, band.value - band.low)
    widths: list[float] = np.where(np.isnan(band.value), np.inf, away).tolist()
    return widths


def _width(
    expression: asked.Expression, imagined: MeasuredValues, failing: float, times: float = WORST_CASE_FACTOR
) -> float:
    """Return the half-width of a simulated measurement."""
    if isinstance(expression, asked.Quantile):
        return code_step(expression, imagined) * expected_quantile_width(expression, imagined, failing, times=times)
    return _widths(expression, imagined, failing)[0]


def _imagined_all(
    question: asked.Question,
    expression: asked.Expression,
    noises: tuple[Noise, ...],
    groups: Sequence[tuple[float, ValueDistribution | None]],
) -> MeasuredValues:
    """Return noiseless measurements of groups, each with a number of rows and a distribution of values.

    Without a distribution, values are at the worst case for averages and totals, and uniform for all else. Several
    groups are evaluated at once.
    """
    key_count = len(question.keys)
    blocks = (replace(block, keys=block.keys[key_count:]) for block in question.query.blocks)
    query = Query(question.query.domain, tuple(blocks))
    steps_by_block: list[list[int]] = [[] for _ in query.blocks]
    for rows, shape in groups:
        steps: dict[int, list[int]] = {}
        _fill_blocks(expression, query, rows, steps, shape)
        for number, block in enumerate(query.blocks):
            steps_by_block[number] += steps.get(number, [0] * block.values)
    keys: tuple[Key, ...] = ()
    if len(groups) > 1:
        keys = (CaseKey(tuple((str(place), EVERYTHING) for place in range(len(groups) - 1)), ""),)
        query = Query(query.domain, tuple(replace(block, keys=(*keys, *block.keys)) for block in query.blocks))
    alone = replace(question, query=query, keys=keys, having=None, order=(), limit=None, offset=0)
    return MeasuredValues(
        alone, np.asarray([value for values in steps_by_block for value in values], dtype=np.int64), noises
    )


def _fill_blocks(
    expression: asked.Expression,
    query: Query,
    rows: float,
    steps: dict[int, list[int]],
    shape: ValueDistribution | None,
) -> None:
    """Fill in the expected steps of an expression's blocks."""
    match expression:
        case asked.Total(block):
            steps.setdefault(block, [round(_typical_weight(query, block, shape) * rows)])
        case asked.Mean():
            ends = expression.lower - expression.centre, expression.upper - expression.centre
            far = (
                max(ends[1], ends[0], key=abs)
                if shape is None
                else ends[0] + Fraction(shape.mean) * (ends[1] - ends[0])
            )
            steps[expression.rows] = [round(rows)]
            steps[expression.total] = [round(float(far / query.blocks[expression.total].unit) * round(rows))]
        case asked.Association():
            _fill_association(expression, query, rows, steps, _UNIFORM if shape is None else shape)
        case asked.Variation(squares, mean):
            distribution = _UNIFORM if shape is None else shape
            width = mean.upper - mean.lower
            middle = mean.lower + Fraction(distribution.mean) * width - mean.centre
            square = middle**2 + Fraction(distribution.variance) * width**2
            steps[mean.rows] = [round(rows)]
            steps[mean.total] = [round(float(middle / query.blocks[mean.total].unit) * rows)]
            steps[squares] = [round(float(square / query.blocks[squares].unit) * rows)]
        case asked.Quantile(levels):
            for level in levels:
                steps[level] = _histogram(query, level, rows, shape)
        case asked.Arithmetic(operator, left, right):
            shape = _UNIFORM if shape is None and _has_spread(expression) else shape
            if operator == "/" and isinstance(right, asked.Total) and _is_count(query, right.block):
                _fill_blocks(right, query, rows, steps, None)  # a denominator counts all rows
            _fill_blocks(left, query, rows, steps, shape)
            _fill_blocks(right, query, rows, steps, shape)
        case asked.KeyLabel() | asked.LiteralExpression() | asked.PublicValue() | asked.Comparison() | asked.Logic():
            return
        case _:
            assert_never(expression)


def _typical_weight(query: Query, block: int, shape: ValueDistribution | None) -> float:
    """Return the farthest weight of a row, or the average one: for a count, the share that meets its condition."""
    low, high = weight_range(query.blocks[block].weight)
    if shape is None:
        return max(low, high, key=abs)
    return min(low, 0) + shape.mean * (max(high, 0) - min(low, 0))


def _is_count(query: Query, block: int) -> bool:
    return isinstance(query.blocks[block].weight, ConstantWeight)


def _has_spread(expression: asked.Expression) -> bool:
    """Return whether a spread is part of an expression: it and an average of its column share their blocks."""
    if isinstance(expression, asked.Arithmetic):
        return _has_spread(expression.left) or _has_spread(expression.right)
    return isinstance(expression, asked.Variation | asked.Association)


def _fill_association(
    association: asked.Association, query: Query, rows: float, steps: dict[int, list[int]], shape: ValueDistribution
) -> None:
    """Fill in the steps of two columns that have this distribution and vary independently."""
    pair = (association.first, association.first_squares), (association.second, association.second_squares)
    middles = []
    for mean, squares in pair:
        parts: dict[int, list[int]] = {}
        spread = asked.Variation(mean.total if squares is None else squares, mean, asked.Spread.POPULATION_VARIANCE)
        _fill_blocks(spread, query, rows, parts, shape)
        middles.append(mean.lower + Fraction(shape.mean) * (mean.upper - mean.lower) - mean.centre)
        if squares is None:
            parts[mean.total] = [round(float(middles[-1] / query.blocks[mean.total].unit) * rows)]
        steps |= parts
    product = middles[0] * middles[1] / query.blocks[association.products].unit
    steps[association.products] = [round(float(product) * rows)]


def _histogram(query: Query, block: int, rows: float, shape: ValueDistribution | None) -> list[int]:
    """Return a histogram of values, uniform if no distribution is given, as integers with the right sum."""
    partition = query.blocks[block].keys[-1]
    if not isinstance(partition, Partition):
        return [0] * query.blocks[block].values
    places = [cut / partition.size for cut in (*partition.cuts, partition.size)]
    below = [round(rows * part) for part in (places if shape is None else shape.below(places))]
    return [*(after - before for before, after in pairwise(below)), *[0] * partition.further]
