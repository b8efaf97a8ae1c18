"""Requests: the required accuracy or the price of an answer, and the dataset it is asked of.

A tolerance is the largest error of an answer: a number in its unit, a percentage, or one per column.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Literal, Self, assert_never, get_args

from dodona.answer.evaluation import ordered_grid
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.ledger.ledger import Ledger
from dodona.numbers import Exact, python_number, to_share
from dodona.privacy.accuracy import to_failure_probability, validate_count
from dodona.privacy.additive_noise import validate_noise_epsilon
from dodona.query import question as asked
from dodona.query.person_table import name_people_columns
from dodona.query.query import (
    CaseWeight,
    ConstantWeight,
    PeopleWeight,
    PolynomialWeight,
    Query,
    TableWeight,
    ValueWeight,
    Weight,
    weight_range,
)
from dodona.schema.schema import Schema
from dodona.trusted.source import Source

AfterBudget = Literal["refuse", "model"]
"""They are refused, or the model guesses: marked, without a guarantee, and for nothing."""


# --- Tolerances. ---


Tolerance = int | float | str
"""50 is absolute, in the answer's unit; "1%" is of the public size for counts, of the column's width otherwise."""
Tolerances = Tolerance | Mapping[str, Tolerance] | Sequence[Tolerance]
"""One for all columns, or one for each of them: by name, or in their order."""
_PERCENT = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*%\s*", re.ASCII)
_ACCEPTED_TOLERANCE = (
    "write a number from 1e-100 to 1e100 in the answer's own unit, such as 50, or a part of the whole, such as '1%' "
    "(for counts of the table's public size, for sums of the largest sum, otherwise of the column's width)"
)
_LEAST, _MOST = 1e-100, 1e100  # beyond these, double arithmetic fails
_VARIANCES = (asked.Spread.POPULATION_VARIANCE, asked.Spread.SAMPLE_VARIANCE)
_HUNDRED = 100
_ROWS = "rows"
_KNOWN = (asked.KeyLabel, asked.LiteralExpression, asked.Comparison, asked.Logic)
Dimension = frozenset[tuple[str, int]]
"""What a number counts, as powers of columns and of rows; empty for a share."""


@dataclass(frozen=True, slots=True)
class ColumnTolerances:
    """A tolerance for each column of estimates, by name or by position."""

    parts: tuple[tuple[str | int, Tolerance], ...]

    def of(self, question: asked.Question, column: asked.AnswerColumn) -> Tolerance:
        """Return the tolerance of a column."""
        shown = _estimate_columns(question)
        keys: tuple[str | int, ...] = (column.name.casefold(), shown.index(column))
        tolerances = [within for key, within in self.parts if (key.casefold() if isinstance(key, str) else key) in keys]
        if len(tolerances) != 1 or (self.listed and len(self.parts) != len(shown)):
            raise InvalidArgument("within", self.written, f"write a tolerance for each column, {_example(shown)}")
        return tolerances[0]

    @property
    def listed(self) -> bool:
        """Whether tolerances are given by position."""
        return all(isinstance(key, int) for key, _ in self.parts)

    @property
    def written(self) -> dict[str, Tolerance] | list[Tolerance]:
        """The tolerances as users write them."""
        return (
            [tolerance for _, tolerance in self.parts]
            if self.listed
            else {str(key): tolerance for key, tolerance in self.parts}
        )


@dataclass(frozen=True, slots=True)
class DefaultTolerance:
    """How accurate answers are where neither the call nor the owner says: as accurate as a small price allows."""

    rows: str
    """The tolerance of counts and sums, such as "1%"."""
    people: str
    """That of counts and sums in which a person counts once: these cost less, however many rows of a person count."""
    share: Fraction
    """What a question with anything else takes of the budget: how accurate an average is depends on the rows too."""

    def of(self, question: asked.Question) -> str:
        """Return the tolerance of a question's counts and sums."""
        return self.people if all(block.about_people for block in question.query.blocks) else self.rows


Wanted = Tolerance | ColumnTolerances | DefaultTolerance
"""The accuracy that a request asks for."""


def resolve_tolerance(question: asked.Question, column: asked.AnswerColumn, within: Wanted, *, size: int) -> float:
    """Return the tolerance in the unit of a column's answers.

    A number is used as it is: `validate_tolerances` ensures that all columns have one unit. "1%" is a hundredth of the
    full scale: the public size for counts, size times the largest |value| for sums, the column's width for averages,
    deviations and quantiles, its square for variances. For arithmetic it is computed from those of its operands: it
    is 1 for a share of counts, 100 for one in percent, and the largest |value| for a sum over a count. A percentage of
    a quantile is at least 1.5 steps of its column: the value and the two beside it. Values that only HAVING or ORDER BY
    reads get the smallest relative tolerance of the displayed columns. A question of a linked table has the size of
    that table.
    """
    size = question.size or size
    if isinstance(within, DefaultTolerance):
        within = within.of(question)
    if not isinstance(within, ColumnTolerances) and any(column is other for other in question.columns):
        return _resolve_column(question, column, within, size)  # nearly all questions
    shown = [
        shown_column
        for shown_column in _estimate_columns(question)
        if not isinstance(shown_column.expression, asked.PublicValue)
    ]
    if column not in question.columns and shown:
        whole = partial(full_scale, question, size=size)
        parts = (
            resolve_tolerance(question, shown_column, within, size=size) / whole(shown_column) for shown_column in shown
        )
        return max(_LEAST, min(parts) * whole(column))
    if isinstance(within, ColumnTolerances):
        if not shown:
            raise InvalidArgument("within", within.written, "write one tolerance: no column that is shown has an error")
        return _resolve_column(question, column, within.of(question, column), size)
    return _resolve_column(question, column, within, size)


def validate_tolerances(within: Wanted, questions: Sequence[asked.Question]) -> None:
    """Refuse a number for columns of different units, and unknown column names."""
    if isinstance(within, ColumnTolerances):
        names = [column.name for question in questions for column in _estimate_columns(question)]
        known = {name.casefold(): name for name in names}
        for key, _ in within.parts:
            if isinstance(key, str) and key.casefold() not in known:
                accepted = f"{key!r} is no column of estimates; name {', '.join(known.values())}"
                raise InvalidArgument("within", within.written, accepted)
    elif not isinstance(within, str | DefaultTolerance):
        for question in questions:
            if len(question.columns) > 1:
                _require_one_dimension(question, within)


def _require_one_dimension(question: asked.Question, within: Tolerance) -> None:
    shown = [column for column in _estimate_columns(question) if not isinstance(column.expression, asked.PublicValue)]
    dimensions = [dimension_of(column.expression, question.query) for column in shown]
    if len(set(dimensions)) > 1:
        described = zip(shown, map(_describe_dimension, dimensions), strict=True)
        units = ", ".join(f"{column.name} in {unit}" for column, unit in described)
        accepted = f"the columns have different units ({units}): write one for each, {_example(shown)}, or '1%' for all"
        raise InvalidArgument("within", within, accepted)


def _resolve_column(question: asked.Question, column: asked.AnswerColumn, within: Tolerance, size: int) -> float:
    if isinstance(within, str):
        if type(column.expression) is asked.Total:
            block = question.query.blocks[column.expression.block]
            if type(block.weight) is ConstantWeight:  # nearly all of a batch, computed once
                return _percentage_of_counts(within, block.weight.number, block.unit, size)
        part = max(_parse_percentage(within), _least_part(column.expression, question.query))
        return max(_LEAST, part * full_scale(question, column, size=size))
    number = within if type(within) in {int, float} else python_number(within)
    if number is None or not _LEAST <= number <= _MOST:
        raise InvalidArgument("within", within, _ACCEPTED_TOLERANCE)
    return float(number)


def _parse_percentage(within: str) -> float:
    matched = _PERCENT.fullmatch(within)
    if matched is None or not 0 < float(matched[1]) <= _HUNDRED:
        raise InvalidArgument("within", within, _ACCEPTED_TOLERANCE)
    return float(matched[1]) / _HUNDRED


@lru_cache(maxsize=1 << 8)
def _percentage_of_counts(within: str, weight: int, unit: Fraction, size: int) -> float:
    whole = max(abs(weight), 1) * unit * validate_count(size, argument="size")
    return max(_LEAST, _parse_percentage(within) * float(whole))


def _estimate_columns(question: asked.Question) -> list[asked.AnswerColumn]:
    """Return the columns that show estimates."""
    return [column for column in question.columns if not isinstance(column.expression, _KNOWN)]


def _example(shown: Sequence[asked.AnswerColumn]) -> str:
    return "such as within={" + ", ".join(f"{column.name!r}: '1%'" for column in shown) + "}"


def dimension_of(expression: asked.Expression, query: Query) -> Dimension:  # noqa: PLR0911  one for each kind
    """Return the unit of an expression: sums are in the column's unit times rows, averages in the column's unit."""
    match expression:
        case asked.Total(block):
            return _multiply_dimensions(_weight_dimension(query.blocks[block].weight), frozenset(((_ROWS, 1),)), 1)
        case asked.Mean(total):
            return _weight_dimension(query.blocks[total].weight)
        case asked.Variation(_, mean, spread):
            dimension = _weight_dimension(query.blocks[mean.total].weight)
            return _multiply_dimensions(dimension, dimension, 1) if spread in _VARIANCES else dimension
        case asked.Association():
            means = expression.first, expression.second
            pair = [_weight_dimension(query.blocks[mean.total].weight) for mean in means]
            return _association_dimension(expression.measure, *pair)
        case asked.Quantile():
            return frozenset(((expression.attribute, 1),))
        case asked.Arithmetic("*" | "/" as operator, left, right):
            first, second = dimension_of(left, query), dimension_of(right, query)
            return _multiply_dimensions(first, second, 1 if operator == "*" else -1)
        case asked.Arithmetic(_, left, right):
            parts = [
                operand
                for operand in (left, right)
                if not isinstance(operand, asked.LiteralExpression | asked.PublicValue)
            ]
            return _common_dimension({dimension_of(operand, query) for operand in parts})
        case asked.KeyLabel() | asked.LiteralExpression() | asked.PublicValue() | asked.Comparison() | asked.Logic():
            return frozenset()
        case _:
            assert_never(expression)


def _association_dimension(measure: asked.Measure, first: Dimension, second: Dimension) -> Dimension:
    match measure:
        case asked.Measure.POPULATION_COVARIANCE | asked.Measure.SAMPLE_COVARIANCE:
            return _multiply_dimensions(first, second, 1)
        case asked.Measure.SLOPE:
            return _multiply_dimensions(second, first, -1)
        case asked.Measure.INTERCEPT:
            return second
        case _:
            return frozenset()


def _weight_dimension(weight: Weight) -> Dimension:
    match weight:
        case ConstantWeight() | PeopleWeight():
            return frozenset()
        case ValueWeight(name, _, _, _, power):
            return frozenset(((name, power),))
        case TableWeight(names):
            return frozenset((name, 1) for name in names)
        case PolynomialWeight(polynomial):
            units = [frozenset((name, power) for name, power in powers if power) for powers in polynomial.powers()]
            # Lower terms come from the columns' bounds: (a + 1) * (b + 2) is in the unit of a * b.
            return _common_dimension({unit for unit in units if not any(unit < other for other in units)})
        case CaseWeight(branches, otherwise):
            weights = (otherwise, *(branch for _, branch in branches))
            return _common_dimension(set(map(_weight_dimension, weights)) - {frozenset()})
        case _:
            assert_never(weight)


def _multiply_dimensions(left: Dimension, right: Dimension, power: int) -> Dimension:
    exponents = dict(left)
    for name, exponent in right:
        exponents[name] = exponents.get(name, 0) + power * exponent
    return frozenset((name, exponent) for name, exponent in exponents.items() if exponent)


def _common_dimension(units: set[Dimension]) -> Dimension:
    """Return the unit of a sum; a mixture is a separate unit."""
    if len(units) <= 1:
        return next(iter(units), frozenset())
    return frozenset(((" and ".join(sorted(map(_describe_dimension, units))), 1),))


def _describe_dimension(unit: Dimension) -> str:
    powers = [name if power == 1 else f"{name}^{power}" for name, power in sorted(unit)]
    return name_people_columns(" x ".join(powers)) or "parts of 1"


def full_scale(question: asked.Question, column: asked.AnswerColumn, *, size: int) -> float:
    """Return the value that 100% of a column's answers stands for, from public facts."""
    return float(_expression_full_scale(column.expression, question.query, validate_count(size, argument="size")))


def _expression_full_scale(expression: asked.Expression, query: Query, size: int) -> Fraction:  # noqa: PLR0911  one for each kind
    match expression:
        case asked.Total(block):
            weight = max(map(abs, weight_range(query.blocks[block].weight)))
            return max(weight, 1) * query.blocks[block].unit * size
        case asked.Mean():
            return expression.upper - expression.lower
        case asked.Variation(_, mean, spread):
            width = mean.upper - mean.lower
            return width**2 if spread in _VARIANCES else width
        case asked.Association():
            widths = [mean.upper - mean.lower for mean in (expression.first, expression.second)]
            scales = {asked.Measure.SLOPE: widths[1] / widths[0], asked.Measure.INTERCEPT: widths[1]}
            scales |= {asked.Measure.CORRELATION: Fraction(1), asked.Measure.DETERMINATION: Fraction(1)}
            return scales.get(expression.measure, widths[0] * widths[1])
        case asked.Quantile():
            return _quantile_full_scale(expression, query)
        case asked.Arithmetic(operator, left, right):
            first, second = (_expression_full_scale(side, query, size) for side in (left, right))
            return _combine_full_scales(operator, first, second)
        case asked.LiteralExpression(Fraction() as number) | asked.PublicValue(number):
            return abs(number)
        case asked.KeyLabel() | asked.LiteralExpression() | asked.Comparison() | asked.Logic():
            return Fraction(1)
        case _:
            assert_never(expression)


def _combine_full_scales(operator: str, left: Fraction, right: Fraction) -> Fraction:
    match operator:
        case "+" | "-":
            return left + right
        case "*":
            return left * right
        case _:
            return left if right == 0 else left / right


_QUANTILE_STEPS = 1.5


def _least_part(expression: asked.Expression, query: Query) -> float:
    """Return the least tolerance of quantiles, as a part of the width of their columns; 0 if there is none.

    Less is out of reach, or dear: of 20,000 rows with 100 values, a median within 1 step has an ε of 65, within 1.5
    steps one of 0.43.
    """
    match expression:
        case asked.Quantile():
            return _QUANTILE_STEPS / max(query.domain_of(expression.levels[0])[expression.attribute].size - 1, 1)
        case asked.Arithmetic(_, left, right):
            return max(_least_part(left, query), _least_part(right, query))
        case _:
            return 0.0


def _quantile_full_scale(quantile: asked.Quantile, query: Query) -> Fraction:
    """Return the width of a column; in days for dates and times."""
    attribute = query.domain_of(quantile.levels[0])[quantile.attribute]
    grid = ordered_grid(attribute)
    step = Fraction(1) if grid is None else grid[1]
    return step * max(attribute.size - 1, 1)


# --- Requests. ---


_ACCEPTED_TOLERANCES = "write a tolerance such as 50 or '1%', or one for each column, such as {'n': 50, 'average': 2}"


DEFAULT_MAX_PRICE = Fraction(1, 50)
"""What one call may take of the budget where neither the call nor the dataset says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A tolerance or a price, the confidence of intervals, and the maximum share of the budget for the call."""

    within: Wanted | None
    epsilon: Fraction | None
    confidence: float
    max_price: Fraction = Fraction(1)
    """A share of the whole budget."""
    fresh: bool = False
    """Whether earlier releases may not be used: neither replayed nor combined with new noise."""


def make_request(  # noqa: PLR0913  all that a call may say
    within: Tolerances | None,
    epsilon: Exact | None,
    confidence: float | None,
    max_price: Exact | None,
    *,
    fresh: bool = False,
    default: Request,
) -> Request:
    """Return the request of a call, with the dataset's defaults for what is not given."""
    if within is not None and epsilon is not None:
        raise InvalidRequest(
            "Both within and epsilon were given. Write within= for an accuracy, or epsilon= for a price, and not both."
        )
    wanted = None if within is None else _validate_tolerances(within)
    sure = default.confidence
    if confidence is not None:
        sure = confidence
        to_failure_probability(sure)
    most = effective_max_price(max_price, default)
    if epsilon is not None:
        return Request(
            within=None, epsilon=validate_noise_epsilon(epsilon), confidence=sure, max_price=most, fresh=fresh
        )
    return Request(
        within=default.within if wanted is None else wanted, epsilon=None, confidence=sure, max_price=most, fresh=fresh
    )


def _validate_tolerances(within: Tolerances) -> Tolerance | ColumnTolerances:
    """Return a tolerance, or one for each column."""
    if isinstance(within, Mapping):
        tolerances = ColumnTolerances(
            tuple((str(name), _validate_tolerance(tolerance)) for name, tolerance in within.items())
        )
    elif isinstance(within, list | tuple):
        tolerances = ColumnTolerances(
            tuple((place, _validate_tolerance(tolerance)) for place, tolerance in enumerate(within))
        )
    else:
        return _validate_tolerance(within)
    if not tolerances.parts:
        raise InvalidArgument("within", within, _ACCEPTED_TOLERANCES)
    return tolerances


def _validate_tolerance(within: object) -> Tolerance:
    if isinstance(within, str) or type(within) is int or type(within) is float:
        return within
    number = python_number(within)
    if number is None:
        raise InvalidArgument("within", within, _ACCEPTED_TOLERANCES)
    return number


def effective_max_price(max_price: Exact | None, default: Request) -> Fraction:
    """Return the maximum share of the budget for a call: its own setting, or else the dataset's."""
    return default.max_price if max_price is None else to_share(max_price, argument="max_price")


# --- The open dataset. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A schema, its source, and the ledger to which questions are charged."""

    name: str
    """As the ledger knows it."""
    schema: Schema
    source: Source
    ledger: Ledger
    default: Request
    """What is asked for where a question does not say."""
    after: AfterBudget = "refuse"
    """What becomes of questions that the budget cannot buy."""
    left_out: str = ""
    """What was published of the rows that the cap leaves out, in words."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """What columns mean, in the owner's words."""

    @property
    def about(self) -> str:
        """The protected unit of answers if people are protected; otherwise empty."""
        return " ".join(part for part in (self.schema.unit.about, self.left_out) if part)

    def about_promise(self, *, empty: bool) -> str:
        """What an answer is about, and whether its error bound says nothing that is not public."""
        size = self.schema.unit.size
        void = f"That promises nothing, as there are about {size:,} rows: a larger epsilon promises more."
        return f"{self.about} {void}".lstrip() if empty else self.about

    def within_day(self, max_day: Exact | None) -> Self:
        """Return the dataset for a caller who may not have spent more than a share of the budget on a day (UTC)."""
        if max_day is None:
            return self
        return replace(self, ledger=self.ledger.within_day(to_share(max_day, argument="max_day")))

    def __post_init__(self) -> None:
        """Raise if an option is invalid."""
        if self.after not in get_args(AfterBudget):
            raise InvalidArgument("after", self.after, 'write "refuse" or "model"')
