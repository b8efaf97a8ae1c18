"""Intervals for covariances, correlations and regression lines, from the sums of two columns and of their product."""

from __future__ import annotations

import numpy as np

from dodona.answer.bands import Band
from dodona.answer.laws import half_width
from dodona.answer.ratios import variance_band
from dodona.privacy.measurement import MeasuredValues
from dodona.query.question import Association, Mean, Measure, Spread, Variation

_SUMS = 4
_PARTS = 3


def association_band(association: Association, measured: MeasuredValues, failing: float) -> Band:
    """Return how two columns vary together: the range that their sums allow, all within their noise.

    If a column may not vary at all, a slope and an intercept are unbounded, and a correlation is between -1 and 1.

    Theorem: honest-association
    """
    each = failing / _PARTS  # the sums of the covariance, and those of the two variances
    rows, first, second, covariance = _covariance_band(association, measured, each)
    if association.measure is Measure.POPULATION_COVARIANCE:
        return covariance
    if association.measure is Measure.SAMPLE_COVARIANCE:
        return _sample(covariance, rows)
    spreads = []
    for squares, mean in (
        (association.first_squares, association.first),
        (association.second_squares, association.second),
    ):
        spread = Variation(squares or 0, mean, Spread.POPULATION_VARIANCE)
        spreads.append(None if squares is None else variance_band(spread, measured, each))
    if spreads[0] is None:
        raise ValueError("a slope and a correlation need the squares of the first column")
    if association.measure in {Measure.CORRELATION, Measure.DETERMINATION} and spreads[1] is not None:
        return _correlation(covariance, spreads[0], spreads[1], squared=association.measure is Measure.DETERMINATION)
    slope = _divide(covariance, spreads[0])
    if association.measure is Measure.SLOPE:
        return slope
    return _intercept(slope, _shift_band(first, association.first), _shift_band(second, association.second))


def _covariance_band(
    association: Association, measured: MeasuredValues, failing: float
) -> tuple[Band, Band, Band, Band]:
    """Return the rows, both means less their centres, and the population covariance."""
    first, second = association.first, association.second
    rows, first_total, second_total, products = (
        _sum_interval(measured, block, failing)
        for block in (first.rows, first.total, second.total, association.products)
    )
    rows = Band(np.maximum(rows.value, 1.0), np.maximum(rows.low, 1.0), np.maximum(rows.high, 1.0))
    means = [_mean(total, rows, mean) for total, mean in ((first_total, first), (second_total, second))]
    product = _multiply(*means)
    mixed = _mean(products, rows, None)
    widths = [float(mean.upper - mean.lower) for mean in (first, second)]
    most = widths[0] * widths[1] / 4  # the root of the product of the largest variances
    ends = mixed.value - product.value, mixed.low - product.high, mixed.high - product.low
    value, low, high = (np.clip(end, -most, most) for end in ends)
    return rows, means[0], means[1], Band(value, np.minimum(low, value), np.maximum(high, value))


def _sum_interval(measured: MeasuredValues, block: int, failing: float) -> Band:
    """Return the interval of one of the sums; all of them hold together."""
    unit = float(measured.question.query.blocks[block].unit)
    value = unit * measured.numbers(block)[:, 0]
    within = unit * half_width(measured.noises[block], failing, _SUMS)
    return Band(value, value - within, value + within)


def _mean(total: Band, rows: Band, mean: Mean | None) -> Band:
    """Return the quotient of a sum and the rows, within its public range if it has one."""
    low = np.where(total.low < 0, total.low / rows.low, total.low / rows.high)
    high = np.where(total.high > 0, total.high / rows.low, total.high / rows.high)
    value = total.value / rows.value
    if mean is None:
        return Band(value, low, high)
    ends = float(mean.lower - mean.centre), float(mean.upper - mean.centre)
    return Band(np.clip(value, *ends), np.clip(low, *ends), np.clip(high, *ends))


def _shift_band(band: Band, mean: Mean) -> Band:
    centre = float(mean.centre)
    return Band(band.value + centre, band.low + centre, band.high + centre)


def _multiply(left: Band, right: Band) -> Band:
    """Return the product of two bands, with 0 times an unbounded end as 0."""
    with np.errstate(all="ignore"):
        corners = [np.nan_to_num(a * b, nan=0.0) for a in (left.low, left.high) for b in (right.low, right.high)]
        value = left.value * right.value
    return Band(value, np.minimum.reduce(corners), np.maximum.reduce(corners))


def _divide(above: Band, below: Band) -> Band:
    """Return the quotient of a band and a band that is not negative; unbounded if the latter may be 0."""
    with np.errstate(all="ignore"):
        value = np.where(below.value > 0, above.value / below.value, np.nan)
        corners = [a / b for a in (above.low, above.high) for b in (below.low, below.high)]
    known = below.low > 0
    low = np.where(known, np.minimum.reduce(corners), -np.inf)
    high = np.where(known, np.maximum.reduce(corners), np.inf)
    return Band(value, low, high)


def _correlation(covariance: Band, first: Band, second: Band, *, squared: bool) -> Band:
    roots = [
        Band(*(np.sqrt(end) for end in (variance.value, variance.low, variance.high))) for variance in (first, second)
    ]
    correlation = _divide(covariance, _multiply(*roots))
    value, low, high = (np.clip(end, -1.0, 1.0) for end in (correlation.value, correlation.low, correlation.high))
    if not squared:
        return Band(value, low, high)
    nearest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(low**2, high**2))
    return Band(value**2, nearest, np.maximum(low**2, high**2))


def _intercept(slope: Band, first: Band, second: Band) -> Band:
    """Return second - slope·first."""
    product = _multiply(slope, first)
    unbounded = ~np.isfinite(slope.low) | ~np.isfinite(slope.high)
    low = np.where(unbounded, -np.inf, second.low - product.high)
    high = np.where(unbounded, np.inf, second.high - product.low)
    return Band(second.value - slope.value * first.value, low, high)


def _sample(covariance: Band, rows: Band) -> Band:
    """Return the sample covariance: n/(n - 1) times that of the population, from two rows on."""
    few, many, likely = (np.maximum(end, 2.0) for end in (rows.low, rows.high, rows.value))
    factors = [few / (few - 1), many / (many - 1)]
    low = np.minimum(*(covariance.low * factor for factor in factors))
    high = np.maximum(*(covariance.high * factor for factor in factors))
    return Band(covariance.value * likely / (likely - 1), low, high)
