"""Expressions: what is computed from the measured blocks of a question, for each group, as post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import assert_never


@dataclass(frozen=True, slots=True)
class KeyOf:
    """The label of the group, of the key with this number."""

    key: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or a text that was written down."""

    value: Fraction | str


@dataclass(frozen=True, slots=True)
class Certain:
    """An aggregate that the question and the schema decide, whatever the rows are: the average of a constant."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Total:
    """A count or a sum: the block with this number, in its own unit."""

    block: int


@dataclass(frozen=True, slots=True)
class Mean:
    """centre + total/rows: an average, or a share."""

    total: int
    """The block of Σ (x - centre)."""
    rows: int
    """The block of how many rows have a value."""
    centre: Fraction
    lower: Fraction
    """No average is below this: it is public."""
    upper: Fraction


class Spread(Enum):
    """Which measure of spread."""

    POPULATION_VARIANCE = "var_pop"
    SAMPLE_VARIANCE = "var_samp"
    POPULATION_DEVIATION = "stddev_pop"
    SAMPLE_DEVIATION = "stddev_samp"


@dataclass(frozen=True, slots=True)
class Variation:
    """A variance or a standard deviation."""

    squares: int
    """The block of Σ (x - centre)²."""
    mean: Mean
    spread: Spread


@dataclass(frozen=True, slots=True)
class Quantile:
    """The least value that a part of the rows with a value does not exceed."""

    levels: tuple[int, ...]
    """Blocks with one more key than the question has: the column in groups, from coarse to fine."""
    attribute: str
    level: Fraction
    """0.5 for the median."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """One of + - * / over two expressions, or a minus before one (left is 0)."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Comparison:
    """One of = <> < <= > >= over two expressions, read from the noisy values."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Logic:
    """`and`, `or` over all parts, `not` over one."""

    operator: str
    parts: tuple[Expression, ...]


Expression = KeyOf | Literal | Certain | Total | Mean | Variation | Quantile | Arithmetic | Comparison | Logic


def renumbered(expression: Expression, places: Mapping[int, int]) -> Expression:  # noqa: PLR0911  one for each kind
    """Return the same expression of blocks that have other numbers."""
    match expression:
        case Total(block):
            return Total(places[block])
        case Mean(total, rows):
            return replace(expression, total=places[total], rows=places[rows])
        case Variation(squares, mean):
            inner = replace(mean, total=places[mean.total], rows=places[mean.rows])
            return replace(expression, squares=places[squares], mean=inner)
        case Quantile(levels):
            return replace(expression, levels=tuple(places[level] for level in levels))
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return replace(expression, left=renumbered(left, places), right=renumbered(right, places))
        case Logic(_, parts):
            return replace(expression, parts=tuple(renumbered(part, places) for part in parts))
        case KeyOf() | Literal() | Certain():
            return expression
        case _:
            assert_never(expression)
