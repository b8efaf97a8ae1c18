"""The best plan in hindsight for questions over many columns, from scalars alone: any number of cells will do.

A plan measures, for each set of columns, the part that no smaller set tells, by a base of each column. A base has a
price, the largest squared change by one row, and a variance for each kind of question. Points: every value with even
noise. Ranges: noise of its own in each frequency, for the worst range. Values: the direction of the number alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.streams.asking import Asked, CodeSet, WideStream
from benchmarks.streams.certified import cost_of
from dodona.privacy.events import UnevenGaussianEvent
from dodona.schema.schema import Neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

POINTS, RANGES, VALUES = "points", "ranges", "values"
_TURNS = 3000
_GAP = 2e-3
_LARGEST = 1e9
"""Of a ratio: what costs more than that is told as endless."""


@dataclass(frozen=True, slots=True)
class Side:
    """What a question needs of one column: its base, the mean of its weights, and the variance of the rest."""

    place: int
    base: str
    price: float
    mean: float
    variance: float


@lru_cache(maxsize=32)
def range_base(size: int) -> tuple[float, NDArray[np.float64]]:
    """Return the price of noise for ranges of a column, and its variance for each length of a range from 1.

    The noise is circulant, so price and variances are sums over frequencies; weights of lengths that minimise
    price × largest variance are found by multiplying each with its share, as for residuals.
    """
    frequency = np.arange(1, size)
    lengths = np.arange(1, size)
    waves = (np.sin(np.pi * np.outer(lengths, frequency) / size) / np.sin(np.pi * frequency / size)) ** 2 / size
    weight = np.full(len(lengths), 1 / len(lengths))
    best, chosen = math.inf, np.ones(len(frequency))
    for _ in range(_TURNS):
        pressed = weight @ waves
        spread = 1 / np.sqrt(pressed)
        variances = waves @ spread
        reached = float((1 / spread).sum() / size * variances.max())
        if reached < best:
            best, chosen = reached, spread
        if best <= (1 + _GAP) * float(np.sqrt(pressed / size).sum()) ** 2:
            break
        weight = weight * variances / (weight @ variances)
    return float((1 / chosen).sum() / size), waves @ chosen


@lru_cache(maxsize=32)
def range_spread(size: int) -> NDArray[np.float64]:
    """Return the variance of each frequency in the base for ranges of a column, from the variances of its ranges."""
    frequency = np.arange(1, size)
    waves = (np.sin(np.pi * np.outer(frequency, frequency) / size) / np.sin(np.pi * frequency / size)) ** 2 / size
    return np.asarray(np.linalg.lstsq(waves, range_base(size)[1], rcond=None)[0], dtype=np.float64)


def sides_of(stream: WideStream, asked: Asked, ranged: frozenset[int], *, values: bool) -> tuple[Side, ...] | None:
    """Return what a question needs of each column; None where it is true of every row."""
    table = stream.table
    sets = {code_set.place: code_set for code_set in asked.where} | {key: CodeSet(key, (0,)) for key in asked.keys}
    found = []
    for place, code_set in sets.items():
        if place != asked.total:
            size, number = table.columns[place].size, len(code_set.codes)
            if number == size:
                continue
            if place in ranged:
                price, variances = range_base(size)
                found.append(Side(place, RANGES, price, number / size, float(variances[number - 1])))
            else:
                found.append(Side(place, POINTS, 1 - 1 / size, number / size, number * (1 - number / size)))
    if asked.total is not None:
        found.append(_value_side(stream, asked, sets.get(asked.total), ranged, values=values))
    return tuple(found)


def _value_side(
    stream: WideStream, asked: Asked, kept: CodeSet | None, ranged: frozenset[int], *, values: bool
) -> Side:
    """Return the weights of a sum; of an average, those of what its error is a multiple of."""
    place = asked.total or 0
    size = stream.table.columns[place].size
    weights = np.arange(size, dtype=np.float64)
    if asked.average:
        weights -= float(np.nan_to_num(asked.truth(stream.table)[0]))
    if kept is not None:
        inside = np.zeros(size)
        inside[list(kept.codes)] = 1
        weights *= inside
    mean = float(weights.mean())
    spread = (weights - mean) ** 2
    whole = float(spread.sum())
    if values and kept is None:
        return Side(place, VALUES, float(spread.max()) / whole, mean, whole)
    if place in ranged:
        power = np.abs(np.fft.fft(weights)[1:]) ** 2 / size
        return Side(place, RANGES, range_base(size)[0], mean, float(power @ range_spread(size)))
    return Side(place, POINTS, 1 - 1 / size, mean, whole)


def tolerance_of(stream: WideStream, asked: Asked) -> float:
    """Return how far off the number may be whose error is looked at.

    An average is promised as if every group had its share of all rows, whatever the conditions; so is a plan's.
    """
    within = asked.within(stream.table, stream.share)
    if asked.average:
        within *= stream.table.rows / math.prod(stream.table.columns[key].size for key in asked.keys)
    return within


Line = tuple[tuple[Side, ...], float]
"""What a question needs of each column, and the variance that its answer may have."""


def plan_ratio(stream: WideStream, questions: Iterable[Asked], *, ranged: frozenset[int], values: bool) -> float:
    """Return Σ change²/variance of the plan that answers questions at the least price."""
    lines: dict[tuple[Side, ...], float] = {}
    for asked in questions:
        sides, variance = _line(stream, asked, ranged, values=values)
        lines[sides] = min(lines.get(sides, math.inf), variance)
    return _solved([*lines.items()])[0]


def mixed_ratio(
    stream: WideStream, questions: Sequence[Asked], alone: Sequence[float], *, ranged: frozenset[int]
) -> float:
    """Return the ratio of a plan for some questions and of single answers to the others, given those of all of them.

    A plan's price is the sum of the weights of its questions. Those whose weight is above what they cost alone leave
    it, the worst half at a time.
    """
    lines = [_line(stream, asked, ranged, values=True) for asked in questions]
    kept, best = list(range(len(lines))), sum(alone)
    while kept:
        price, weights = _solved([lines[place] for place in kept])
        best = min(best, price + sum(alone) - sum(alone[place] for place in kept))
        over = {place: weight * price / alone[place] for place, weight in zip(kept, weights.tolist(), strict=True)}
        leaving = sorted((place for place in kept if over[place] > 1), key=lambda place: -over[place])
        if not leaving:
            break
        gone = {*leaving[: (len(leaving) + 1) // 2]}
        kept = [place for place in kept if place not in gone]
    return best


def _line(stream: WideStream, asked: Asked, ranged: frozenset[int], *, values: bool) -> Line:
    quantile = NormalDist().inv_cdf((1 + stream.confidence) / 2)
    return sides_of(stream, asked, ranged, values=values) or (), (tolerance_of(stream, asked) / quantile) ** 2


def _solved(lines: Sequence[Line]) -> tuple[float, NDArray[np.float64]]:
    """Return the least ratio of a plan, and the weight of each line in it."""
    columns: dict[frozenset[tuple[int, str]], int] = {}
    prices: list[float] = []
    entries: list[tuple[int, int, float]] = []
    for line, (sides, variance) in enumerate(lines):
        for size in range(len(sides) + 1):
            for inner in combinations(sides, size):
                name = frozenset((side.place, side.base) for side in inner)
                if name not in columns:
                    columns[name] = len(columns)
                    prices.append(math.prod(side.price for side in inner))
                outer = (side.mean**2 for side in sides if side not in inner)
                share = math.prod(side.variance for side in inner) * math.prod(outer)
                entries.append((line, columns[name], share / variance))
    rows, places, numbers = (np.array(column) for column in zip(*entries, strict=True))
    return _least(np.array(prices), rows, places, numbers, len(lines))


def _least(
    prices: NDArray[np.float64],
    rows: NDArray[np.int64],
    places: NDArray[np.int64],
    numbers: NDArray[np.float64],
    lines: int,
) -> tuple[float, NDArray[np.float64]]:
    """Return the least Σ price/s with every line's Σ number·s at most 1, to a few thousandths, and their weights."""
    weight, best = np.full(lines, 1 / lines), math.inf
    for _ in range(_TURNS):
        pressed = np.bincount(places, weights=numbers * weight[rows], minlength=len(prices))
        spread = np.sqrt(prices / np.maximum(pressed, 1e-300))
        errors = np.bincount(rows, weights=numbers * spread[places], minlength=lines)
        best = min(best, float((prices / spread).sum() * errors.max()))
        if best <= (1 + _GAP) * float(np.sqrt(prices * pressed).sum()) ** 2:
            break
        weight = weight * errors / (weight @ errors)
    return best, weight


def hindsight(stream: WideStream, turn: int, alone: Sequence[float] | None = None) -> dict[str, float]:
    """Return the certified ε of the best plans for the first questions, by what they know.

    With the ratios of single answers to the different questions also that of the best mixture.
    """
    questions = list(dict.fromkeys(asked for asked, _ in stream.asked[:turn]))
    ranged = frozenset(
        code_set.place
        for asked in questions
        for code_set in asked.where
        if stream.table.columns[code_set.place].ordered and code_set.is_run
    )
    cells = math.prod(column.size for column in stream.table.columns)
    quantile = NormalDist().inv_cdf((1 + stream.confidence) / 2)
    counts = [tolerance_of(stream, asked) for asked in questions if asked.total is None]
    ratios = {"histogram": cells / (4 * (min(counts) / quantile) ** 2) if counts else math.inf}
    ratios["residuals"] = plan_ratio(stream, questions, ranged=frozenset(), values=False)
    if ranged or any(asked.total is not None for asked in questions):
        ratios["ranges"] = min(
            ratios["residuals"],
            *(plan_ratio(stream, questions, ranged=places, values=True) for places in (ranged, frozenset())),
        )
    if alone is not None:
        ratios["mixed"] = min(
            mixed_ratio(stream, questions, alone, ranged=places) for places in {ranged, frozenset[int]()}
        )
    return {name: epsilon_of(ratio) for name, ratio in ratios.items()}


def epsilon_of(ratio: float) -> float:
    """Return the certified ε of Gaussian noise with this ratio."""
    if ratio > _LARGEST:
        return math.inf
    event = UnevenGaussianEvent(Fraction(ratio).limit_denominator(10**15), Neighbours.ADD_REMOVE)
    return cost_of([event], budget="approximate").certified
