"""Intervals for the population that a table was sampled from: the noise, and what sampling adds to it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dodona.accuracy import sampling_error
from dodona.answer.band import Band
from dodona.answer.derived import Derived, Evidence, widths
from dodona.answer.evaluation import evaluate, in_units
from dodona.answer.law import Term, half_width, upper_quantile
from dodona.answer.measured import Measured
from dodona.answer.rank import ends
from dodona.answer.spread import mean_band
from dodona.answer.tree import tree_of
from dodona.errors import InvalidRequest
from dodona.query.expression import Certain, Expression, KeyOf, Literal, Mean, Quantile, Total
from dodona.query.weight import extremes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GRID = 1000  # levels are rounded outward to this many parts, so that groups share the laws of their noise


def population_band(expression: Expression, measured: Evidence, *, failing: float, size: int | None) -> Band:
    """Return values with intervals for what they would be in the population; a count or sum: for as many rows.

    Rows are taken to be independent draws.

    Theorem: population-interval
    """
    match expression:
        case Literal() | Certain() | KeyOf():
            return evaluate(expression, measured, failing)
        case Total(block):
            return _total(expression, measured, failing, _size(size), block)
        case Mean() if not isinstance(measured, Derived):
            return _mean(expression, measured, failing)
        case Quantile() if not isinstance(measured, Derived):
            return _quantile(expression, measured, failing)
        case _:
            raise InvalidRequest(
                "Only counts, sums, averages, shares and quantiles have an interval for the population: for other "
                "expressions no bound of the sampling error is known here. Ask for these columns one by one."
            )


def _total(total: Total, measured: Evidence, failing: float, size: int, block: int) -> Band:
    """Return a count or a sum; Hoeffding's bound holds for rows that count from the least to the most weight."""
    found = measured.question.query.blocks[block]
    least, most = extremes(found.weight)
    spread = float((max(most, 0) - min(least, 0)) * found.unit)
    value = evaluate(total, measured, failing).value
    within = float(found.unit) * widths(measured, block, failing / 2)
    within = within + spread * sampling_error(failing / 2, answers=1, sample=size)
    return Band(value, value - within, value + within)


def _mean(mean: Mean, measured: Measured, failing: float) -> Band:
    noisy = mean_band(mean, measured, failing / 3)
    rows = measured.numbers(mean.rows)[:, 0] - half_width(measured.noises[mean.rows], failing / 3)
    lower, upper = float(mean.lower), float(mean.upper)
    within = (upper - lower) * _share_error(rows, failing / 3)
    return Band(noisy.value, np.maximum(noisy.low - within, lower), np.minimum(noisy.high + within, upper))


def _quantile(quantile: Quantile, measured: Measured, failing: float) -> Band:
    """Return a quantile, between those of the levels that the sample may have moved it to."""
    tree = tree_of(quantile, measured)
    off = upper_quantile((Term.of(1.0, tree.noises[0], tree.counts[0].shape[1]),), failing / 3)
    apart = _share_error(tree.rows - off, failing / 3)
    lows = np.floor(np.clip(float(quantile.level) - apart, 0, 1) * _GRID)
    highs = np.ceil(np.clip(float(quantile.level) + apart, 0, 1) * _GRID)
    first, last = np.empty_like(apart), np.empty_like(apart)
    for low, high in np.unique(np.stack([lows, highs], axis=1), axis=0):
        least, most = ends(tree, low=low / _GRID, high=high / _GRID, failing=failing / 3)
        here = (lows == low) & (highs == high)
        first[here] = tree.walk.cuts[0] if low <= 0 else least[here]
        last[here] = tree.walk.cuts[-1] - 1 if high >= _GRID else most[here]
    point = evaluate(quantile, measured, failing).value
    found = in_units(quantile, measured, Band(first, first, last))
    return Band(np.clip(point, found.low, found.high), found.low, found.high)


def _share_error(rows: NDArray[np.float64], failing: float) -> NDArray[np.float64]:
    """Return how far the share of so many independent rows is off: √(ln(2/failing)/2n), at most 1.

    For one share this is Hoeffding's bound; for all levels of a distribution at once it is Massart's.
    """
    return np.where(rows >= 1, np.minimum(np.sqrt(math.log(2 / failing) / (2 * np.maximum(rows, 1))), 1.0), 1.0)


def _size(size: int | None) -> int:
    if size is None:
        raise InvalidRequest("The population of a count or a sum needs the public size of the table; declare it.")
    return size
