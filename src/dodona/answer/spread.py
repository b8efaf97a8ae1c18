"""Averages, variances and deviations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.band import Band, at_points
from dodona.answer.law import half_width
from dodona.answer.measured import Measured
from dodona.answer.ratio import Part, Ratio, bounded
from dodona.query.expression import Mean, Spread, Variation

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SUMS = 3
_SAMPLE = (Spread.SAMPLE_VARIANCE, Spread.SAMPLE_DEVIATION)
_DEVIATION = (Spread.POPULATION_DEVIATION, Spread.SAMPLE_DEVIATION)


def mean_band(mean: Mean, measured: Measured, failing: float) -> Band:
    """Return averages, with honest intervals within the public range.

    Theorem: honest-ratio
    """
    centre, lower, upper = float(mean.centre), float(mean.lower), float(mean.upper)
    low, high = lower - centre, upper - centre
    found = bounded(ratio_of(measured, mean.total, mean.rows), lower=low, upper=high, failing=failing)

    def moved(ends: NDArray[np.float64]) -> NDArray[np.float64]:
        # What is taken off and added again may be a rounding away from the bounds, which are values themselves.
        inside = np.clip(ends + centre, lower, upper)
        return np.where(ends <= low, lower, np.where(ends >= high, upper, inside))

    return Band(moved(found.value), moved(found.low), moved(found.high))


def ratio_of(measured: Measured, above: int, below: int) -> Ratio:
    """Return one block over another, in the unit of both."""
    units = [float(measured.question.query.blocks[block].unit) for block in (above, below)]
    first, second = Part(units[0], 0.0, measured.noises[above]), Part(0.0, units[1], measured.noises[below])
    parts = (Part(units[0], units[1], measured.noises[above]),) if above == below else (first, second)
    return Ratio(units[0] * measured.numbers(above)[:, 0], units[1] * measured.numbers(below)[:, 0], parts)


def variation_band(variation: Variation, measured: Measured, failing: float) -> Band:
    """Return variances or deviations: all that the two sums and the number of rows, each within its noise, may give.

    Theorem: honest-spread
    """
    mean = variation.mean
    low, high = float(mean.lower - mean.centre), float(mean.upper - mean.centre)
    rows, total, squares = (_span(measured, block, failing) for block in (mean.rows, mean.total, variation.squares))
    few, many = np.maximum(rows.low, 1.0), np.maximum(rows.high, 1.0)
    first = Band(
        at_points("/", total.value, np.maximum(rows.value, 1.0)),
        np.clip(np.where(total.low < 0, total.low / few, total.low / many), low, high),
        np.clip(np.where(total.high > 0, total.high / few, total.high / many), low, high),
    )
    nearest = np.where((total.low <= 0) & (total.high >= 0), 0.0, np.minimum(np.abs(total.low), np.abs(total.high)))
    farthest = np.maximum(np.abs(total.low), np.abs(total.high))
    # q·x - s²x² in x = 1/rows is concave: largest at its top or the end next to it, least at one of the ends.
    most, least = np.maximum(squares.high, 0.0), np.maximum(squares.low, 0.0)
    with np.errstate(all="ignore"):
        peak = np.where(nearest > 0, most / (2 * nearest**2), np.inf)
    best = np.clip(peak, 1 / many, 1 / few)
    top = np.clip(most * best - (nearest * best) ** 2, 0.0, _room(first, low, high))
    bottom = np.minimum(*(least * end - (farthest * end) ** 2 for end in (1 / few, 1 / many)))
    bottom = np.minimum(np.maximum(bottom, 0.0), top)
    point = squares.value / np.maximum(rows.value, 1.0) - first.value**2
    if variation.spread in _SAMPLE:
        few, many, likely = (np.maximum(count, 2.0) for count in (few, many, rows.value))
        bottom, point, top = bottom * many / (many - 1), point * likely / (likely - 1), top * few / (few - 1)
        top = np.minimum(top, (high - low) ** 2 / 2)
    bottom = np.minimum(bottom, top)
    point = np.clip(point, bottom, top)
    if variation.spread in _DEVIATION:
        bottom, point, top = np.sqrt(bottom), np.sqrt(point), np.sqrt(top)
    return Band(point, bottom, top)


def _span(measured: Measured, block: int, failing: float) -> Band:
    """Return one of the three sums within its noise; all three hold together, as their noises are independent."""
    unit = float(measured.question.query.blocks[block].unit)
    value = unit * measured.numbers(block)[:, 0]
    within = unit * half_width(measured.noises[block], failing, _SUMS)
    return Band(value, value - within, value + within)


def _room(mean: Band, low: float, high: float) -> NDArray[np.float64]:
    """Return the largest variance of values between the bounds with such a mean: (high - m)(m - low)."""
    best = np.clip((low + high) / 2, mean.low, mean.high)
    found: NDArray[np.float64] = (high - best) * (best - low)
    return found
