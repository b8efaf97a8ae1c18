"""A question: the linear query that is measured, and the columns computed from its noisy values.

Expressions are post-processing: they cost no privacy budget. A question comes from SQL or from a `Query`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property, reduce
from types import UnionType
from typing import Literal, assert_never

from dodona.errors import InvalidArgument
from dodona.query.predicate import EVERYTHING, Predicate
from dodona.query.query import Block, Key, Query, weight_range
from dodona.schema.attributes import Label
from dodona.schema.schema import Domain

# --- Expressions: post-processing of the measured blocks of a question, per group. ---


@dataclass(frozen=True, slots=True)
class KeyLabel:
    """The group's label under the key with this number."""

    key: int
    labels: tuple[Label, ...] | None = None
    """The labels of the groups, if they are not those of the key: computed values, `<missing>` for NULL."""


@dataclass(frozen=True, slots=True)
class LiteralExpression:
    """A literal number or text."""

    value: Fraction | str


@dataclass(frozen=True, slots=True)
class PublicValue:
    """An aggregate determined by the question and the schema alone, such as the average of a constant."""

    value: Fraction
    absent: frozenset[int] = frozenset()
    """The groups in which no row can have a value: it is NULL there."""


@dataclass(frozen=True, slots=True)
class Total:
    """A count or a sum: the block with this number, in the block's unit."""

    block: int


@dataclass(frozen=True, slots=True)
class Mean:
    """centre + total/rows: an average or a share."""

    total: int
    """The block number of Σ (x - centre)."""
    rows: int
    """The block number of the count of rows with a value."""
    centre: Fraction
    lower: Fraction
    """A public lower bound on the average."""
    upper: Fraction


class Spread(Enum):
    """The measure of spread."""

    POPULATION_VARIANCE = "var_pop"
    SAMPLE_VARIANCE = "var_samp"
    POPULATION_DEVIATION = "stddev_pop"
    SAMPLE_DEVIATION = "stddev_samp"


@dataclass(frozen=True, slots=True)
class Variation:
    """A variance or a standard deviation."""

    squares: int
    """The block number of Σ (x - centre)²."""
    mean: Mean
    spread: Spread


class Measure(Enum):
    """How two columns vary together."""

    POPULATION_COVARIANCE = "covar_pop"
    SAMPLE_COVARIANCE = "covar_samp"
    CORRELATION = "corr"
    SLOPE = "regr_slope"
    INTERCEPT = "regr_intercept"
    DETERMINATION = "regr_r2"


@dataclass(frozen=True, slots=True)
class Association:
    """A covariance, a correlation, or the line that predicts the second column from the first."""

    products: int
    """The block number of Σ (x - its centre)·(y - its centre)."""
    first: Mean
    second: Mean
    first_squares: int | None
    """The block number of Σ (x - its centre)², if it is needed."""
    second_squares: int | None
    measure: Measure

    @property
    def blocks(self) -> tuple[int, ...]:
        """The numbers of all blocks."""
        squares = [block for block in (self.first_squares, self.second_squares) if block is not None]
        return (self.first.rows, self.first.total, self.second.total, self.products, *squares)


@dataclass(frozen=True, slots=True)
class Quantile:
    """The smallest value such that at least a given share of the rows with a value do not exceed it."""

    levels: tuple[int, ...]
    """Blocks with one key more than the question: the column in groups, from coarse to fine."""
    attribute: str
    level: Fraction
    """0.5 for the median."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """One of + - * / on two expressions, or a unary minus (left is 0)."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Comparison:
    """One of = <> < <= > >= on two expressions, evaluated on the noisy values."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Logic:
    """`and` or `or` of all parts, or `not` of one."""

    operator: str
    parts: tuple[Expression, ...]


_Known = KeyLabel | LiteralExpression | PublicValue
_Measured = Total | Mean | Variation | Association | Quantile
Expression = _Known | _Measured | Arithmetic | Comparison | Logic


def renumber_blocks(expression: Expression, places: Mapping[int, int]) -> Expression:  # noqa: PLR0911  one for each kind
    """Return the same expression with its blocks renumbered."""
    match expression:
        case Total(block):
            return Total(places[block])
        case Mean(total, rows):
            return replace(expression, total=places[total], rows=places[rows])
        case Variation(squares, mean):
            inner = replace(mean, total=places[mean.total], rows=places[mean.rows])
            return replace(expression, squares=places[squares], mean=inner)
        case Association(products, first, second, first_squares, second_squares):
            return Association(
                places[products],
                replace(first, total=places[first.total], rows=places[first.rows]),
                replace(second, total=places[second.total], rows=places[second.rows]),
                None if first_squares is None else places[first_squares],
                None if second_squares is None else places[second_squares],
                expression.measure,
            )
        case Quantile(levels):
            return replace(expression, levels=tuple(places[level] for level in levels))
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return replace(expression, left=renumber_blocks(left, places), right=renumber_blocks(right, places))
        case Logic(_, parts):
            return replace(expression, parts=tuple(renumber_blocks(part, places) for part in parts))
        case KeyLabel() | LiteralExpression() | PublicValue():
            return expression
        case _:
            assert_never(expression)


def noise_scales(expression: Expression, query: Query) -> dict[int, float]:  # noqa: PLR0911  one for each kind
    """Return the noise scale, in steps and relative to a count, of each block that an expression uses.

    With noise of scale s·r on every block, all blocks of an average, a spread or a quotient contribute about equally to
    its error. So the noise of a sum grows with its largest value wherever it is combined with other blocks.
    """
    match expression:
        case Total(block):
            return {block: 1.0}
        case Mean(total, rows):
            return _without_zeros({rows: 1.0, total: float(_farthest(expression) / query.blocks[total].unit)})
        case Variation(squares, mean):
            far = _farthest(mean)
            half, square = far / (2 * query.blocks[mean.total].unit), far**2 / query.blocks[squares].unit
            return _without_zeros({mean.rows: 1.0, mean.total: float(half), squares: float(square)})
        case Association():
            return _without_zeros(_association_scales(expression, query))
        case Quantile(levels):
            return dict.fromkeys(levels, 1.0)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return _smallest_scales(_operand_scales(left, query), _operand_scales(right, query))
        case Logic(_, parts):
            return _smallest_scales(*(_operand_scales(part, query) for part in parts))
        case KeyLabel() | LiteralExpression() | PublicValue():
            return {}
        case _:
            assert_never(expression)


def _operand_scales(expression: Expression, query: Query) -> dict[int, float]:
    if isinstance(expression, Total):
        largest = max(map(abs, weight_range(query.blocks[expression.block].weight)))
        return _without_zeros({expression.block: float(largest)})
    return noise_scales(expression, query)


def _association_scales(association: Association, query: Query) -> dict[int, float]:
    pair = ((association.first, association.first_squares), (association.second, association.second_squares))
    far = [_farthest(mean) for mean, _ in pair]
    scales = {association.first.rows: 1.0}
    scales[association.products] = float(far[0] * far[1] / query.blocks[association.products].unit)
    for (mean, squares), distance in zip(pair, far, strict=True):
        scales[mean.total] = float(distance / query.blocks[mean.total].unit)
        if squares is not None:
            scales[squares] = float(distance**2 / query.blocks[squares].unit)
    return scales


def _without_zeros(scales: dict[int, float]) -> dict[int, float]:
    """Replace zero scales, of blocks that are always 0, by the scale of a count."""
    return {block: scale or 1.0 for block, scale in scales.items()}


def _farthest(mean: Mean) -> Fraction:
    return max(mean.upper - mean.centre, mean.centre - mean.lower)


def _smallest_scales(*scales: Mapping[int, float]) -> dict[int, float]:
    """Merge the scales of several operands, taking the smaller scale for a shared block."""
    by_block: dict[int, float] = {}
    for operand_scales in scales:
        for block, scale in operand_scales.items():
            by_block[block] = min(scale, by_block.get(block, math.inf))
    return by_block


_Sums = Total | KeyLabel | LiteralExpression | PublicValue


def _consists_of(expression: Expression, kinds: UnionType) -> bool:
    """Whether an expression consists only of parts of some kinds, and arithmetic and conditions of them."""
    match expression:
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return _consists_of(left, kinds) and _consists_of(right, kinds)
        case Logic(_, parts):
            return all(_consists_of(part, kinds) for part in parts)
        case _:
            return isinstance(expression, kinds)


def _operands(condition: Expression) -> Iterator[Expression]:
    """Yield the operands compared in a condition."""
    match condition:
        case Comparison(_, left, right):
            yield from (left, right)
        case Logic(_, parts):
            for part in parts:
                yield from _operands(part)
        case _:
            yield condition


# --- A question: what is measured and what is shown. It comes from SQL or from a Query. ---


ReadAs = Literal["value", "number", "boolean", "date", "year", "quarter", "month", "week", "day"]
"""How a program reads a group: its first value in the column's type, or the text of a CASE; a number, boolean or date
that was extracted or written in a CASE; or the first day of the year, quarter, month or week of a truncated date."""


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """A column of the answer."""

    name: str
    expression: Expression
    read_as: ReadAs = "value"
    """The type in which a program receives the groups of a key."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """A sort key for the rows of the answer."""

    expression: Expression
    descending: bool = False


@dataclass(frozen=True, kw_only=True)
class Question:
    """One linear query, and the columns computed from it for each group.

    Properties that take long are cached on the instance, so the class has no slots.
    """

    text: str
    """The question as asked, or a description of it."""
    query: Query
    keys: tuple[Key, ...] = ()
    """The keys that all blocks are grouped by; a quantile's block has one more key, the last."""
    columns: tuple[AnswerColumn, ...]
    having: Expression | None = None
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    warnings: tuple[str, ...] = ()
    where: Predicate = EVERYTHING
    """The rows that all columns cover; groups that no such row can belong to are not shown."""
    size: int | None = None
    """The declared number of rows of the table that is asked; None if it is the dataset's."""

    @cached_property
    def domain(self) -> Domain:
        """The domain of the columns that it names: of the rows, or of all tables of people that its blocks name."""
        domains = [block.table.domain for block in self.query.blocks if block.table is not None]
        return reduce(Domain.merge, domains) if domains else self.query.domain

    @property
    def groups(self) -> int:
        """The number of groups."""
        return math.prod([key.groups for key in self.keys])

    @property
    def single_total(self) -> Block | None:
        """The block of a question that shows exactly one count or sum; None for other questions."""
        blocks, columns = self.query.blocks, self.columns
        return blocks[0] if len(columns) == len(blocks) == 1 and type(columns[0].expression) is Total else None

    @cached_property
    def total_columns(self) -> tuple[AnswerColumn, ...] | None:
        """For each block, the one column that shows it unchanged; None if noise appears in anything else."""
        noisy = [column for column, _ in self.noisy_columns]
        shown = {column.expression.block: column for column in noisy if type(column.expression) is Total}
        if not len(shown) == len(self.noisy_columns) == len(self.query.blocks):
            return None
        return tuple([shown[block] for block in range(len(shown))])

    @property
    def derivable(self) -> bool:
        """Whether it consists only of counts and sums, including in HAVING and ORDER BY."""
        if self.columns is _ONE_VALUE and self.having is None and not self.order:  # nearly all questions of a batch
            return True
        return all(_consists_of(expression, _Sums) for expression in self._read)

    @cached_property
    def from_sums(self) -> bool:
        """Whether all that it shows is computed from counts and sums: these, averages, spreads, and arithmetic."""
        return all(_consists_of(expression, _Sums | Mean | Variation) for expression in self._read)

    @property
    def _read(self) -> list[Expression]:
        read = [*[column.expression for column in self.columns], *[order.expression for order in self.order]]
        return read if self.having is None else [*read, self.having]

    @cached_property
    def noisy_columns(self) -> tuple[tuple[AnswerColumn, Mapping[int, float]], ...]:
        """The columns affected by noise, each with the relative noise scales of its blocks.

        An expression that only HAVING or ORDER BY reads counts as a column if it needs blocks that no column uses.
        """
        pairs = [(column, noise_scales(column.expression, self.query)) for column in self.columns]
        pairs = [(column, scales) for column, scales in pairs if scales]
        seen = {block for _, scales in pairs for block in scales}
        hidden = [AnswerColumn("ORDER BY", order.expression) for order in self.order]
        if self.having is not None:
            hidden += [AnswerColumn("HAVING", operand) for operand in _operands(self.having)]
        for column in hidden:
            scales = noise_scales(column.expression, self.query)
            if not scales.keys() <= seen:
                pairs.append((column, scales))
                seen |= scales.keys()
        rest = [block for block in range(len(self.query.blocks)) if block not in seen]
        return (*pairs, *[(AnswerColumn(f"block {block}", Total(block)), {block: 1.0}) for block in rest])

    def column_alone(self, column: AnswerColumn, blocks: tuple[int, ...]) -> Question:
        """Return a question for one column and its blocks: all that its predicted error depends on.

        Predictions assume that every group has its share of the rows, whatever the conditions. Conditions are therefore
        dropped, so that columns differing only in them are planned once.
        """
        places = {block: place for place, block in enumerate(blocks)}
        alone = AnswerColumn("", renumber_blocks(column.expression, places))
        query = self.query.part(*blocks, of_all_rows=True)
        return Question(text="", query=query, keys=self.keys, columns=(alone,), size=self.size)


_ONE_VALUE = (AnswerColumn("value", Total(0)),)


def question_from_query(query: Query) -> Question:
    """Return the question for all values of a query, with one column per block."""
    keys = query.blocks[0].keys
    if len(query.blocks) == 1:
        return Question(text="", query=query, keys=keys, columns=_ONE_VALUE)
    for number, block in enumerate(query.blocks):
        if block.keys != keys:
            accepted = "group all blocks of a query in the same way, or ask them as questions of their own"
            raise InvalidArgument(f"blocks[{number}].keys", block.keys, accepted)
    columns = tuple(AnswerColumn(f"value_{number + 1}", Total(number)) for number in range(len(query.blocks)))
    return Question(text="", query=query, keys=keys, columns=columns)
