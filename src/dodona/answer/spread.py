"""Variances and deviations: all values that the intervals of two means allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.band import Band
from dodona.answer.law import half_width
from dodona.answer.measured import Measured
from dodona.answer.ratio import Part, Ratio, bounded
from dodona.query.expression import Mean, Spread, Variation

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MEANS = 0.45  # of what may fail, for each of the two means; the rest is for the number of rows
_SAMPLE = (Spread.SAMPLE_VARIANCE, Spread.SAMPLE_DEVIATION)
_DEVIATION = (Spread.POPULATION_DEVIATION, Spread.SAMPLE_DEVIATION)


def mean_band(mean: Mean, measured: Measured, failing: float) -> Band:
    """Return averages, with honest intervals within the public range.

    Theorem: honest-ratio
    """
    centre = float(mean.centre)
    ratio = ratio_of(measured, mean.total, mean.rows)
    found = bounded(ratio, lower=float(mean.lower) - centre, upper=float(mean.upper) - centre, failing=failing)
    return Band(found.value + centre, found.low + centre, found.high + centre)


def ratio_of(measured: Measured, above: int, below: int) -> Ratio:
    """Return one block over another, in the unit of both."""
    units = [float(measured.question.query.blocks[block].unit) for block in (above, below)]
    first, second = Part(units[0], 0.0, measured.noises[above]), Part(0.0, units[1], measured.noises[below])
    parts = (Part(units[0], units[1], measured.noises[above]),) if above == below else (first, second)
    return Ratio(units[0] * measured.numbers(above)[:, 0], units[1] * measured.numbers(below)[:, 0], parts)


def variation_band(variation: Variation, measured: Measured, failing: float) -> Band:
    """Return variances or deviations; the interval is what both means, and the number of rows, may give together.

    Theorem: honest-spread
    """
    mean = variation.mean
    low, high = float(mean.lower - mean.centre), float(mean.upper - mean.centre)
    first = bounded(ratio_of(measured, mean.total, mean.rows), lower=low, upper=high, failing=_MEANS * failing)
    widest = max(abs(low), abs(high)) ** 2
    squares = ratio_of(measured, variation.squares, mean.rows)
    second = bounded(squares, lower=0.0, upper=widest, failing=_MEANS * failing)
    least = np.where((first.low <= 0) & (first.high >= 0), 0.0, np.minimum(first.low**2, first.high**2))
    bottom = np.maximum(second.low - np.maximum(first.low**2, first.high**2), 0.0)
    top = np.clip(second.high - least, 0.0, _room(first, low, high))
    point = np.clip(second.value - first.value**2, bottom, np.maximum(top, bottom))
    if variation.spread in _SAMPLE:
        rows = measured.numbers(mean.rows)[:, 0]
        off = half_width(measured.noises[mean.rows], (1 - 2 * _MEANS) * failing)
        few, many = np.maximum(rows - off, 2.0), np.maximum(rows + off, 2.0)
        likely = np.maximum(rows, 2.0)
        bottom, point, top = bottom * many / (many - 1), point * likely / (likely - 1), top * few / (few - 1)
        top = np.minimum(top, (high - low) ** 2 / 2)
    top = np.maximum(top, bottom)
    point = np.clip(point, bottom, top)
    if variation.spread in _DEVIATION:
        bottom, point, top = np.sqrt(bottom), np.sqrt(point), np.sqrt(top)
    return Band(point, bottom, top)


def _room(mean: Band, low: float, high: float) -> NDArray[np.float64]:
    """Return the largest variance of values between the bounds with such a mean: (high - m)(m - low)."""
    best = np.clip((low + high) / 2, mean.low, mean.high)
    found: NDArray[np.float64] = (high - best) * (best - low)
    return found
