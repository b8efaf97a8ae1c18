"""Evaluation of an expression: its value and interval for each group.

An interval fails with at most the given probability, either for the table or for the population it was sampled from.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import assert_never

import numpy as np

from dodona.answer.association import association_band
from dodona.answer.bands import Band, combine_bands, form_band, linear_form
from dodona.answer.estimate import to_float
from dodona.answer.labels import group_labels
from dodona.answer.laws import DerivedValues, Evidence, NoiseTerm, half_widths, upper_quantile
from dodona.answer.quantiles import histogram_tree, quantile_band, quantile_code_range
from dodona.answer.ratios import as_ratio, mean_band, quotient_band, share_bounds, variance_band
from dodona.errors import InvalidRequest, InvariantBroken
from dodona.numbers import Doubles
from dodona.privacy.accuracy import sampling_error
from dodona.privacy.measurement import MeasuredValues
from dodona.query import question as asked
from dodona.query.query import weight_range
from dodona.schema.attributes import Attribute, Date, Timestamp, numeric_grid
from dodona.schema.moments import DAY_SECONDS

# --- Evaluation: the value of an expression for each group, and its interval. ---


def evaluate(expression: asked.Expression, measured: Evidence, failing: float) -> Band:
    """Return an expression's values and intervals, each of which fails with probability at most `failing`.

    A linear form of measured blocks uses the exact law of its noise; a ratio of two inverts a test; anything else
    is computed from simultaneous intervals of its pieces. Derived values without a joint law are of the last kind,
    except a multiple of one block, as they are not independent.

    Theorem: sum-of-noises, honest-ratio
    """
    pieces = list(dict.fromkeys(_pieces(expression, measured)))
    each = failing / max(len(pieces), 1)
    return _combine_pieces(expression, measured, {piece: _evaluate_piece(piece, measured, each) for piece in pieces})


def _pieces(expression: asked.Expression, measured: Evidence) -> Iterator[asked.Expression]:
    """Yield the parts of an expression that get separate intervals; numbers and labels are known."""
    match expression:
        case asked.LiteralExpression() | asked.PublicValue() | asked.KeyLabel():
            return
        case asked.Total() | asked.Mean() | asked.Variation() | asked.Association() | asked.Quantile():
            yield expression
        case asked.Arithmetic(_, left, right):
            if _has_law(expression, measured):
                yield expression
            else:
                yield from _pieces(left, measured)
                yield from _pieces(right, measured)
        case asked.Comparison() | asked.Logic():
            return
        case _:
            assert_never(expression)


def _has_law(expression: asked.Arithmetic, measured: Evidence) -> bool:
    """Return whether the law of an expression's noise is known."""
    form = linear_form(expression, measured.question.query)
    if isinstance(measured, DerivedValues) and measured.joint is None:
        return form is not None and len(form.factors) <= 1
    return form is not None or as_ratio(expression, measured) is not None


def _evaluate_piece(expression: asked.Expression, measured: Evidence, failing: float) -> Band:
    match expression:
        case asked.Mean():
            return mean_band(expression, measured, failing)
        case asked.Variation():
            return variance_band(expression, measured, failing)
        case asked.Association() if isinstance(measured, MeasuredValues):
            return association_band(expression, measured, failing)
        case asked.Quantile() if isinstance(measured, MeasuredValues):
            return codes_to_units(expression, measured, quantile_band(expression, measured, failing))
        case _:
            form = linear_form(expression, measured.question.query)
            if form is not None:
                return form_band(form, measured, failing)
            ratio = as_ratio(expression, measured)
            if ratio is None and isinstance(measured, DerivedValues):
                raise InvariantBroken(f"{type(expression).__name__} does not follow from earlier releases.")
            if ratio is None:
                raise InvalidRequest(f"{type(expression).__name__} has no interval of its own.")
            return quotient_band(ratio, share_bounds(expression, measured.question.query), failing=failing)


def _combine_pieces(expression: asked.Expression, measured: Evidence, known: Mapping[asked.Expression, Band]) -> Band:
    """Return the band of an expression from the bands of its pieces."""
    band = known.get(expression)
    if band is not None:
        return band
    match expression:
        case asked.LiteralExpression(Fraction()) | asked.PublicValue():
            return Band.public(expression, measured.groups)
        case asked.KeyLabel():
            return _numbers(group_labels(measured.question, expression))
        case asked.Arithmetic(operator, left, right):
            first, second = (_combine_pieces(side, measured, known) for side in (left, right))
            return combine_bands(operator, first, second)
        case _:
            raise InvalidRequest("Arithmetic takes numbers and aggregates; a text or a condition is neither.")


def _numbers(labels: Sequence[object]) -> Band:
    """Return labels as numbers; one that is not a number, such as `<missing>`, is unknown."""
    numbers = np.asarray([float(x) if isinstance(x, int | Fraction) else np.nan for x in labels], dtype=np.float64)
    lost = np.isnan(numbers)
    return Band(numbers, np.where(lost, -np.inf, numbers), np.where(lost, np.inf, numbers))


def ordered_grid(attribute: Attribute) -> tuple[Fraction, Fraction] | None:
    """Return the value of code 0 and the step between codes, in days for dates and times; None for labels.

    >>> from datetime import date
    >>> ordered_grid(Date("d", date(1, 1, 2), date(1, 1, 9)))
    (Fraction(2, 1), Fraction(1, 1))
    """
    match attribute:
        case Date(lower=day):
            return Fraction(day.toordinal()), Fraction(1)
        case Timestamp(lower=moment, step=seconds):
            return Fraction(round(to_float(moment) * DAY_SECONDS), DAY_SECONDS), Fraction(seconds, DAY_SECONDS)
        case _:
            return numeric_grid(attribute)


def codes_to_units(quantile: asked.Quantile, measured: MeasuredValues, codes: Band) -> Band:
    """Return a band of codes in the column's unit; dates and times count days."""
    grid, step = ordered_grid(measured.question.domain[quantile.attribute]), code_step(quantile, measured)
    lower = 0.0 if grid is None else float(grid[0])
    return Band(lower + step * codes.value, lower + step * codes.low, lower + step * codes.high)


def code_step(quantile: asked.Quantile, measured: MeasuredValues) -> float:
    """Return the size of one code in the column's unit: days for dates and times."""
    grid = ordered_grid(measured.question.domain[quantile.attribute])
    return 1.0 if grid is None else float(grid[1])


# --- Intervals for the population that a table was sampled from: noise plus sampling error. ---


_GRID = 1000  # levels are rounded outward to this many parts, so that groups share noise laws


def population_band(expression: asked.Expression, measured: Evidence, *, failing: float, size: int | None) -> Band:
    """Return values with intervals for the population; a count or sum refers to a table of as many rows.

    Rows are assumed to be independent draws.

    Theorem: population-interval
    """
    match expression:
        case asked.LiteralExpression() | asked.PublicValue() | asked.KeyLabel():
            return evaluate(expression, measured, failing)
        case asked.Total(block):
            if size is None:
                what = "The population of a count or a sum needs the public size of the table"
                raise InvalidRequest(f"{what}; declare it.")
            return _population_total(expression, measured, failing, size, block)
        case asked.Mean():
            return _population_mean(expression, measured, failing)
        case asked.Quantile() if not isinstance(measured, DerivedValues):
            return _population_quantile(expression, measured, failing)
        case _:
            raise InvalidRequest(
                "Only counts, sums, averages, shares and quantiles have an interval for the population: for other "
                "expressions no bound of the sampling error is known here. Ask for these columns one by one."
            )


def _population_total(total: asked.Total, measured: Evidence, failing: float, size: int, block: int) -> Band:
    """Return a count or a sum, with Hoeffding's bound for row weights between the least and the greatest."""
    query_block = measured.question.query.blocks[block]
    least, most = weight_range(query_block.weight)
    spread = float((max(most, 0) - min(least, 0)) * query_block.unit)
    value = evaluate(total, measured, failing).value
    within = float(query_block.unit) * half_widths(measured, block, failing / 2)
    within = within + spread * sampling_error(failing / 2, answers=1, sample=size)
    return Band(value, value - within, value + within)


def _population_mean(mean: asked.Mean, measured: Evidence, failing: float) -> Band:
    noisy = mean_band(mean, measured, failing / 3)
    rows = measured.numbers(mean.rows)[:, 0] - half_widths(measured, mean.rows, failing / 3)
    lower, upper = float(mean.lower), float(mean.upper)
    within = (upper - lower) * _hoeffding_error(rows, failing / 3)
    return Band(noisy.value, np.maximum(noisy.low - within, lower), np.minimum(noisy.high + within, upper))


def _population_quantile(quantile: asked.Quantile, measured: MeasuredValues, failing: float) -> Band:
    """Return a quantile, between those of the levels that sampling may have shifted it to."""
    tree = histogram_tree(quantile, measured)
    off = upper_quantile((NoiseTerm.of(1.0, tree.noises[0], tree.counts[0].shape[1]),), failing / 3)
    apart = _hoeffding_error(tree.rows - off, failing / 3)
    lows = np.floor(np.clip(float(quantile.level) - apart, 0, 1) * _GRID)
    highs = np.ceil(np.clip(float(quantile.level) + apart, 0, 1) * _GRID)
    first, last = np.empty_like(apart), np.empty_like(apart)
    for low, high in np.unique(np.stack([lows, highs], axis=1), axis=0):
        least, most = quantile_code_range(tree, low=low / _GRID, high=high / _GRID, failing=failing / 3)
        here = (lows == low) & (highs == high)
        first[here] = tree.walk.cuts[0] if low <= 0 else least[here]
        last[here] = tree.walk.cuts[-1] - 1 if high >= _GRID else most[here]
    point = evaluate(quantile, measured, failing).value
    band = codes_to_units(quantile, measured, Band(first, first, last))
    return Band(point, band.low, band.high)


def _hoeffding_error(rows: Doubles, failing: float) -> Doubles:
    """Return the sampling error bound of a share of this many independent rows: √(ln(2/failing)/2n), at most 1.

    For one share this is Hoeffding's bound; for all levels of a distribution at once it is Massart's.
    """
    return np.where(rows >= 1, np.minimum(np.sqrt(math.log(2 / failing) / (2 * np.maximum(rows, 1))), 1.0), 1.0)
