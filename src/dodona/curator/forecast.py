"""Forecasts of the interval widths of a column, from public facts and earlier releases.

The width of an average, a variance or a quantile depends on the number of rows in a group and on the distribution of
their values. If released counts do not determine these, the forecast is a range. No data are touched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.offer import ExpectedAccuracy
from dodona.answer.prediction import SHAPES, ReleasedHistogram, predict_width_range
from dodona.curator.planner import predict_error
from dodona.curator.request import Request
from dodona.knowledge.knowledge import Knowledge, has_constant_weight
from dodona.knowledge.patterns import KnownValues
from dodona.privacy.additive_noise import Noise
from dodona.query.predicate import EVERYTHING, Among, And, Predicate, conjunction
from dodona.query.query import Block, Key, ValueWeight
from dodona.query.question import (
    AnswerColumn,
    Arithmetic,
    Association,
    Expression,
    Mean,
    Quantile,
    Question,
    Total,
    Variation,
)
from dodona.schema.attributes import Attribute, numeric_grid
from dodona.schema.partition import Partition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.schema.schema import Domain, Unit

_FAILING = 0.05  # failure probability of the intervals of released counts
_FACTOR = 1.5  # a single number is forecast if the whole expected range is within this factor of it
_PRESENT = 0.8  # least share of rows with a value: the number of missing values is unknown
_FEWER, _MORE = 1 / 6, 3.0  # times an equal share, if nothing was released about a group or a condition
_NOISE = 1.05  # relative change of the number of rows due to the noise of the answer itself
_CLEAR = 1.5  # times the half-width of its noise: a count this large is hardly ever an empty group
_ROUGH = 0.2  # of the rows: binned counts with more noise than this do not show the distribution of values
_OTHERWISE = 1.25  # relative change of rows that stands for values distributed unevenly, or unlike those of all rows
_APART = 1.5  # the same, if conditions were counted separately and may be dependent
_AROUND = 1.2  # relative change of a width of a quantile due to the noise of the bins around it


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """Approximate numbers of rows of the groups."""

    few: NDArray[np.float64]
    likely: NDArray[np.float64]
    many: NDArray[np.float64]
    filled: NDArray[np.bool_]
    """Which groups are likely to have rows at all."""

    def times(self, other: GroupSizes) -> GroupSizes:
        """Return the product of shares: all groups of the first, each combined with all groups of the other."""
        ends = ((self.few, other.few), (self.likely, other.likely), (self.many, other.many))
        few, likely, many = (np.outer(first, second).reshape(-1) for first, second in ends)
        return GroupSizes(few, likely, many, np.outer(self.filled, other.filled).reshape(-1))

    def scaled(self, few: float, many: float) -> GroupSizes:
        """Return the sizes with the lower and upper numbers scaled."""
        return replace(self, few=self.few * few, many=self.many * many)


@dataclass(frozen=True)
class Forecaster:
    """Forecasts for one dataset. The caller holds the lock of the knowledge."""

    knowledge: Knowledge
    unit: Unit

    def expected(  # noqa: PLR0913  all that a forecast depends on
        self,
        question: Question,
        column: AnswerColumn,
        shape: Mapping[int, float],
        noises: tuple[Noise, ...],
        request: Request,
        *,
        ranges: bool = True,
    ) -> ExpectedAccuracy:
        """Return the expected accuracy of a column measured with these noises; computing a range takes a while."""
        subquestion, used = question.column_alone(column, tuple(shape)), tuple(noises[block] for block in shape)
        counted = _count_behind(question, column.expression) if ranges else None
        if counted is None:
            return ExpectedAccuracy(
                column.name,
                predict_error(
                    subquestion, used, confidence=request.confidence, rows=subquestion.size or self.unit.size
                ),
            )
        sizes = self._sizes(counted, column.expression, question.domain)
        kept = sizes.filled if sizes.filled.any() else np.ones_like(sizes.filled)
        few, many = float(sizes.few[kept].min()) / _NOISE, float(sizes.many[kept].max()) * _NOISE
        counts = self._histogram(question, column.expression)
        if counts is not None:  # the distribution within a bin, and within a group, remains unknown
            some = bool(question.keys) or counted.where != EVERYTHING
            loose = _OTHERWISE ** (some + isinstance(column.expression, Quantile))
            few, many = few / loose, many * loose
        shapes = SHAPES if counts is None else (counts,)
        width_range = predict_width_range(
            subquestion, used, confidence=request.confidence, rows=(few, many), shapes=shapes
        )
        rows = max(round(float(np.median(sizes.likely[kept])) * subquestion.groups), 1)
        likely = predict_error(subquestion, used, confidence=request.confidence, rows=rows)
        if width_range is None:
            return ExpectedAccuracy(column.name, likely)
        low, high = width_range
        if isinstance(column.expression, Quantile):  # its width also depends on the noise of the bins around it
            low, high = low / _AROUND, high * _AROUND
        if high <= _FACTOR**2 * low:
            return ExpectedAccuracy(column.name, math.sqrt(low * high))
        reason = "how the values are spread"
        if many > _FACTOR * few:
            reason = "how many rows the group has" if question.keys else "how many rows meet the condition"
            if not question.keys and not _conditions(counted, question.domain):
                reason = "how many rows count"
        return ExpectedAccuracy(column.name, min(max(likely, low), high), low, high, reason)

    def _sizes(self, block: Block, expression: Expression, domain: Domain) -> GroupSizes:
        """Return the number of rows with a value in each group of a count."""
        conditions = _conditions(block, domain)
        whole = Block(conjunction(*conditions), block.keys)
        sizes = self._sizes_from_releases(whole)
        if sizes is None:
            sizes = self._estimate_sizes(conditions, block.keys)
        column = expression.attribute if isinstance(expression, Quantile) else None
        complete = len(conditions) == len(_conjuncts(block.where)) and (
            column is None or domain[column].landing is not None
        )
        return sizes if complete else sizes.scaled(_PRESENT, 1.0)

    def _histogram(self, question: Question, expression: Expression) -> ReleasedHistogram | None:
        """Return the distribution of a column's values, if binned counts of sufficient accuracy were released."""
        attribute = _measured_column(question, expression)
        if attribute is None:
            return None
        bins = Partition.of(attribute)
        known = self._known_values(Block(EVERYTHING, (bins,)))
        if known is None:
            return None
        below = np.maximum.accumulate(np.cumsum(np.asarray(known.values, dtype=np.float64)[: len(bins.cuts)]))
        if below[-1] <= 0 or known.within(_FAILING) * math.sqrt(len(bins.cuts)) > _ROUGH * below[-1]:
            return None
        shares = np.diff(np.clip(below / below[-1], 0.0, 1.0), prepend=0.0)
        return ReleasedHistogram(tuple(cut / bins.size for cut in (*bins.cuts, bins.size)), tuple(shares.tolist()))

    def _sizes_from_releases(self, block: Block) -> GroupSizes | None:
        """Return the number of rows of a count from releases; None if there are none."""
        if has_constant_weight(block):
            return self._all_rows
        known = self._known_values(block)
        if known is None:
            return None
        values, within, most = np.asarray(known.values, dtype=np.float64), known.within(_FAILING), self._all_rows.many
        few, many = (np.clip(bound, 0.0, most) for bound in (values - within, values + within))
        return GroupSizes(few, np.clip(values, 0.0, most), many, values > _CLEAR * within)

    def _known_values(self, block: Block) -> KnownValues | None:
        """Return the known values of a count, whatever their accuracy."""
        known = self.knowledge.lookup(block, self.knowledge.pattern(block), _any)
        return self.knowledge.combine(block, _any) if known is None else known

    def _estimate_sizes(self, conditions: list[Predicate], keys: tuple[Key, ...]) -> GroupSizes:
        """Return the estimated number of rows if conditions and groups are nearly independent."""
        factors = [*self._group_shares(keys), *map(self._condition_share, conditions)]
        sizes = self._all_rows
        for factor in factors:
            sizes = sizes.times(factor)
        return sizes.scaled(1 / _APART, _APART) if len(factors) > 1 else sizes

    def _group_shares(self, keys: tuple[Key, ...]) -> Iterator[GroupSizes]:
        """Yield the share of the rows in each group: for all keys jointly if that was released."""
        together = self._sizes_from_releases(Block(EVERYTHING, keys)) if len(keys) > 1 else None
        if together is not None:
            yield self._part(together)
            return
        for key in keys:
            known = self._sizes_from_releases(Block(EVERYTHING, (key,)))
            yield _equal_shares(key) if known is None else self._part(known)

    def _condition_share(self, condition: Predicate) -> GroupSizes:
        """Return the share of the rows that meet a condition."""
        known = self._sizes_from_releases(Block(condition))
        if known is not None:
            return self._part(known)
        share = 0.5
        if isinstance(condition, Among):
            share = condition.codes.bit_count() / condition.cells
        return _size_range(np.asarray([share]))

    def _part(self, sizes: GroupSizes) -> GroupSizes:
        rows = self._all_rows.likely[0]
        return GroupSizes(sizes.few / rows, sizes.likely / rows, sizes.many / rows, sizes.filled)

    @cached_property
    def _all_rows(self) -> GroupSizes:
        """Return the number of rows that count: if it is neither public nor released, the declared one.

        The declared number is that of all rows: how many of them a cap leaves out is unknown.
        """
        known = self._known_values(Block())
        if known is not None:
            value, within = float(known.values[0]), known.within(_FAILING)
            if within <= value / 2:
                return _row_range(value - within, value, value + within)
        size = float(self.unit.size)
        return _row_range(size if self.unit.id is None else size * _FEWER, size, size)


def _count_behind(question: Question, expression: Expression) -> Block | None:
    """Return the count that determines the width of a column; None for counts, sums and what is known."""
    number = _row_block(expression) if not isinstance(expression, Total) else None
    if number is None:
        return None
    block = question.query.blocks[number]
    return None if block.about_people else Block(block.where, block.keys[: len(question.keys)])


def _row_block(expression: Expression) -> int | None:
    """Return the number of a block over the rows that an expression is about, which are those of a denominator."""
    match expression:
        case Mean(_, rows) | Variation(_, Mean(_, rows)) | Association(_, Mean(_, rows)):
            return rows
        case Quantile(levels):
            return levels[0]
        case Total(block):
            return block
        case Arithmetic(operator, left, right):
            blocks = [_row_block(side) for side in ((right, left) if operator == "/" else (left, right))]
            return next((number for number in blocks if number is not None), None)
        case _:
            return None


def _measured_column(question: Question, expression: Expression) -> Attribute | None:
    """Return the column whose values are averaged or ranked; None if the expression involves several columns."""
    domain = question.domain
    match expression:
        case Quantile(_, name):
            return domain[name]
        case Mean(total) | Variation(_, Mean(total)):
            weight = question.query.blocks[total].weight
            if not isinstance(weight, ValueWeight) or not isinstance(expression, Mean | Variation):
                return None
            mean = expression if isinstance(expression, Mean) else expression.mean
            attribute = domain[weight.attribute]
            grid = numeric_grid(attribute)
            if grid is None:
                return None
            ends = (grid[0], grid[0] + grid[1] * (attribute.size - 1))
            return attribute if (mean.lower, mean.upper) == ends else None
        case _:
            return None


def _conjuncts(where: Predicate) -> tuple[Predicate, ...]:
    return where.parts if isinstance(where, And) else (where,)


def _only_present(part: Predicate, domain: Domain) -> bool:
    """Return whether a condition only excludes missing or undeclared values."""
    if not isinstance(part, Among):
        return False
    values = (1 << domain[part.attribute].size) - 1
    return part.codes & values == values


def _conditions(block: Block, domain: Domain) -> list[Predicate]:
    """Return the conditions of a count, except those that only exclude missing or undeclared values."""
    return [part for part in _conjuncts(block.where) if not _only_present(part, domain)]


def _row_range(*rows: float) -> GroupSizes:
    few, likely, many = (np.asarray([max(count, 1.0)]) for count in rows)
    return GroupSizes(few, likely, many, np.asarray([True]))


def _equal_shares(key: Key) -> GroupSizes:
    """Return equal shares for all groups of a key; `<missing>` and `<outside>` are assumed to be empty."""
    beyond = key.further if isinstance(key, Partition) else 0
    group_count = key.groups - beyond
    return _size_range(np.asarray([1 / group_count] * group_count + [0.0] * beyond))


def _size_range(shares: NDArray[np.float64]) -> GroupSizes:
    return GroupSizes(shares * _FEWER, shares, np.minimum(shares * _MORE, 1.0), shares > 0)


def _any(_found: KnownValues) -> bool:
    return True
