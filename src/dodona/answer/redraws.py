"""Intervals of what is computed from answers: the released values are drawn again from the joint law of their errors.

A released value is the exact one plus noise of a known law. Drawing the noise again and subtracting it from the
released values gives values that the exact ones resemble; the statement is computed on each of them. If a result proves
linear in the released values, its interval comes from the exact law of its noise. Otherwise it is read off the redraws,
and marked as approximate. Redraws are seeded by what was released, so that they can be repeated; no privacy rests on
them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

import numpy as np

from dodona.answer.answer import Answer
from dodona.answer.bands import Band
from dodona.answer.estimate import Estimate, to_float
from dodona.answer.laws import DerivedValues, Evidence, NoiseTerm, addable_width, half_width, upper_quantile
from dodona.numbers import Booleans, Doubles
from dodona.privacy.additive_noise import Laplace, Noise
from dodona.privacy.measurement import MeasuredValues
from dodona.query import question as asked

DRAWS = 1_000
"""The number of redraws; fewer for results of very many rows."""
FEWER_DRAWS = 400
MANY_VALUES = 1_000  # released values above which fewer redraws are made
_CORNERS = 2
_NORMAL = 1.959963984540054  # the two-sided quantile of a normal law at 95%
_MODES = 3


# --- Seeded numbers: uniform, and of the laws of noise. They are no source of privacy. ---


class SeededNumbers:
    """Uniform numbers that depend on a seed alone."""

    __slots__ = ("_count", "_seed")

    def __init__(self, seed: bytes) -> None:
        """Take any bytes."""
        self._seed, self._count = seed, 0

    def uniform(self, *shape: int) -> Doubles:
        """Return numbers above 0 and below 1."""
        self._count += 1
        size = math.prod(shape)
        read = hashlib.shake_256(self._seed + self._count.to_bytes(8, "big")).digest(8 * size)
        whole = np.frombuffer(read, dtype=">u8").astype(np.float64)
        numbers: Doubles = ((whole + 0.5) / 2.0**64).clip(2.0**-60, 1 - 2.0**-53).reshape(shape)
        return numbers

    def normal(self, *shape: int) -> Doubles:
        """Return standard normal numbers, by Box and Muller's method."""
        radius = np.sqrt(-2 * np.log(self.uniform(*shape)))
        numbers: Doubles = radius * np.cos(2 * np.pi * self.uniform(*shape))
        return numbers

    def noise(self, law: Noise, *shape: int) -> Doubles:
        """Return discrete noise of a law, the negative of the first half in the second."""
        half = (shape[0] // 2, *shape[1:])
        scale = float(law.scale)
        if isinstance(law, Laplace):  # the difference of two geometric numbers
            draws = np.floor(-scale * np.log(self.uniform(*half))) - np.floor(-scale * np.log(self.uniform(*half)))
        else:
            draws = np.rint(scale * self.normal(*half))
        both: Doubles = np.concatenate([draws, -draws])
        return both


# --- Released cells: their values, their redraws, and the law of each where it is known. ---


@dataclass(frozen=True, slots=True, eq=False)
class Coordinate:
    """A released cell whose error has a known law, independent of all others: which draw it is, and its unit."""

    draw: tuple[int, int]
    """Equal for two cells that show the same released number."""
    noise: Noise
    unit: float


@dataclass(frozen=True, slots=True, eq=False)
class RedrawnPart:
    """The cells of one answer: for each column of values, one array of redraws by row."""

    values: tuple[Doubles, ...]
    """Of each column: redraws by rows; the last two are the low and the high ends of all cells together."""
    cells: tuple[tuple[Estimate | None, ...], ...]
    """Of each column and row, the estimate with its own interval; None for what is known."""
    coordinates: tuple[tuple[Coordinate | None, ...], ...]
    derived: bool = False
    """Whether cells follow from releases that others may follow from too: their joint law is not known."""
    addable: tuple[Doubles, ...] = ()
    """Of each column and row, a half-width that adds up whatever the joint law is."""


def redraw_parts(parts: Sequence[Answer], draws: int, failing: float) -> tuple[RedrawnPart, ...]:
    """Return the redraws of all cells of some answers; what they share is drawn once."""
    seed = hashlib.sha256()
    for part in parts:
        for column in _value_columns(part):
            seed.update(repr([_float(row.cells[column]) for row in part.rows]).encode())
    numbers = SeededNumbers(seed.digest())
    total = sum(len(part.rows) * len(_value_columns(part)) for part in parts)
    shared: dict[object, tuple[int, Doubles]] = {}
    return tuple(_redraw_part(part, numbers, draws, failing, max(total, 1), shared) for part in parts)


def value_columns(part: Answer) -> list[int]:
    """Return the columns of an answer that are no keys."""
    return _value_columns(part)


def _value_columns(part: Answer) -> list[int]:
    return [number for number, place in enumerate(part.key_places) if place is None]


def _redraw_part(  # noqa: PLR0913, PLR0917  all that a redraw depends on
    part: Answer,
    numbers: SeededNumbers,
    draws: int,
    failing: float,
    total: int,
    shared: dict[object, tuple[int, Doubles]],
) -> RedrawnPart:
    groups = shown_groups(part)
    evidence = part.measured
    values, cells, coordinates, addable = [], [], [], []
    wider = _simultaneous_factor(failing, total)
    for column in _value_columns(part):
        expression = part.question.columns[column].expression
        estimates = tuple(cell if isinstance(cell := row.cells[column], Estimate) else None for row in part.rows)
        known: tuple[Coordinate | None, ...] = (None,) * len(groups)
        point = np.array([_float(row.cells[column]) for row in part.rows], dtype=np.float64)
        if isinstance(evidence, MeasuredValues) and _from_blocks(expression):
            blocks = {block: _redraw_block(evidence, block, numbers, draws, shared) for block in _blocks(expression)}
            drawn = _points(expression, evidence, {block: redraw[1] for block, redraw in blocks.items()})[:, groups]
            if isinstance(expression, asked.Total):
                number, _ = blocks[expression.block]
                noise, unit = (
                    evidence.noises[expression.block],
                    float(evidence.question.query.blocks[expression.block].unit),
                )
                known = tuple(Coordinate((number, group), noise, unit) for group in groups)
        elif all(cell is None for cell in estimates):
            drawn = point[None, :]
        else:
            drawn = _from_intervals(estimates, point, numbers, draws, dependent=isinstance(evidence, DerivedValues))
        if any(cell is not None and type(cell.value) is date for cell in estimates):
            drawn = np.rint(drawn)  # of days there are no parts
        low, high = _corners(estimates, point, known, failing, total, wider)
        drawn = np.broadcast_to(drawn, (draws, len(groups)))  # what is public is the same in all
        unknown = np.array([cell is not None and cell.value is None for cell in estimates], dtype=np.bool_)
        if np.any(unknown):  # the exact value may be any number, so nothing computed from it is known either
            ends = np.where(np.arange(draws) < draws // 2, np.inf, -np.inf)[:, None]
            drawn, low, high = (
                np.where(unknown, end, redraws) for end, redraws in ((ends, drawn), (-np.inf, low), (np.inf, high))
            )
        values.append(np.concatenate([drawn, low[None, :], high[None, :]]))
        cells.append(estimates)
        coordinates.append(known)
        addable.append(_addable_widths(expression, evidence, estimates, groups, failing, wider))
    derived = isinstance(evidence, DerivedValues)
    return RedrawnPart(tuple(values), tuple(cells), tuple(coordinates), derived, tuple(addable))


def _addable_widths(  # noqa: PLR0913, PLR0917  all that they depend on
    expression: asked.Expression,
    evidence: Evidence,
    cells: Sequence[Estimate | None],
    groups: Sequence[int],
    failing: float,
    wider: float,
) -> Doubles:
    """Return half-widths that add up: of a count or a sum by Chernoff's bound, of others as wide as all together."""
    if not isinstance(expression, asked.Total):
        return np.array([wider * max(_width(cell, "low"), _width(cell, "high")) for cell in cells])
    block = expression.block
    laws = (evidence.noises[block],) if isinstance(evidence, MeasuredValues) else evidence.laws[block]
    unit = float(evidence.question.query.blocks[block].unit)
    known = {law: unit * addable_width(law, failing) for law in dict.fromkeys(laws)}
    return np.array([known[laws[group if len(laws) > 1 else 0]] for group in groups])


def shown_groups(part: Answer) -> list[int]:
    """Return the group numbers of an answer's rows, in order; parts neither sort nor leave out groups by noise."""
    from dodona.answer.rows import groups_in_order, key_order

    return [int(group) for group in groups_in_order(part.question, key_order(part.question))]


def _redraw_block(
    evidence: MeasuredValues,
    block: int,
    numbers: SeededNumbers,
    draws: int,
    shared: dict[object, tuple[int, Doubles]],
) -> tuple[int, Doubles]:
    """Return the redraws of a block in steps, by group; a block that two questions share has one noise."""
    steps = evidence.numbers(block)
    same = (evidence.question.query.blocks[block], evidence.noises[block], steps.tobytes())
    if same not in shared:
        noise = numbers.noise(evidence.noises[block], draws, len(steps))
        shared[same] = len(shared), steps[None, :, 0] - noise
    return shared[same]


def _from_blocks(expression: asked.Expression) -> bool:
    """Whether a value is computed from single numbers of blocks, so that it can be computed again."""
    match expression:
        case asked.Total() | asked.Mean() | asked.PublicValue() | asked.LiteralExpression(Fraction()):
            return True
        case asked.Arithmetic(_, left, right):
            return _from_blocks(left) and _from_blocks(right)
        case _:
            return False


def _blocks(expression: asked.Expression) -> set[int]:
    match expression:
        case asked.Total(block):
            return {block}
        case asked.Mean(total, rows):
            return {total, rows}
        case asked.Arithmetic(_, left, right):
            return _blocks(left) | _blocks(right)
        case _:
            return set()


def _points(expression: asked.Expression, evidence: MeasuredValues, drawn: dict[int, Doubles]) -> Doubles:
    """Return the values of an expression for every redraw and group, as they are computed for an answer."""
    units = [float(block.unit) for block in evidence.question.query.blocks]
    match expression:
        case asked.Total(block):
            return units[block] * drawn[block]
        case asked.Mean(total, rows):
            centre, lower, upper = float(expression.centre), float(expression.lower), float(expression.upper)
            count = drawn[rows] * units[rows]
            with np.errstate(all="ignore"):
                means = centre + drawn[total] * units[total] / np.where(count > 0, count, np.nan)
            return np.where(np.isfinite(means), np.clip(means, lower, upper), (lower + upper) / 2)
        case asked.Arithmetic(operator, left, right):
            from dodona.answer.bands import apply_operator

            return apply_operator(operator, _points(left, evidence, drawn), _points(right, evidence, drawn))
        case asked.PublicValue() | asked.LiteralExpression(Fraction()):
            return Band.public(expression, evidence.groups).value[None, :]
        case _:
            raise AssertionError


def _from_intervals(
    cells: Sequence[Estimate | None], point: Doubles, numbers: SeededNumbers, draws: int, *, dependent: bool
) -> Doubles:
    """Return redraws from the intervals of cells: normal on either side, as wide as the interval.

    Values that follow from the same releases have an unknown joint law: a third of the redraws are independent, a third
    move together, and a third move by equal amounts with random signs.
    """
    low, high = (np.array([_width(cell, end) for cell in cells]) / _NORMAL for end in ("low", "high"))
    half = draws // 2
    normal = numbers.normal(half, len(cells))
    if dependent:
        common = numbers.normal(half, 1)
        signs = np.where(numbers.uniform(half, len(cells)) < 0.5, -1.0, 1.0)  # noqa: PLR2004
        mode = (np.arange(half) % _MODES)[:, None]
        normal = np.where(mode == 0, normal, np.where(mode == 1, common, signs * common))
    normal = np.concatenate([normal, -normal])
    redraws: Doubles = point + np.where(normal < 0, normal * low, normal * high)
    return redraws


def _width(cell: Estimate | None, end: str) -> float:
    if cell is None or cell.value is None:
        return 0.0
    width = abs(to_float(getattr(cell, end)) - to_float(cell.value))
    return width if math.isfinite(width) else math.inf


def _corners(  # noqa: PLR0913, PLR0917  all that the ends depend on
    cells: Sequence[Estimate | None],
    point: Doubles,
    coordinates: Sequence[Coordinate | None],
    failing: float,
    total: int,
    wider: float,
) -> tuple[Doubles, Doubles]:
    """Return ends between which all released cells are at once, at the confidence."""
    low, high = point.copy(), point.copy()
    for place, (cell, known) in enumerate(zip(cells, coordinates, strict=True)):
        if known is not None:
            within = known.unit * half_width(known.noise, failing, total)
            low[place], high[place] = point[place] - within, point[place] + within
        elif cell is not None:
            low[place] = point[place] - wider * _width(cell, "low")
            high[place] = point[place] + wider * _width(cell, "high")
    return low, high


def _simultaneous_factor(failing: float, total: int) -> float:
    """Return how much wider than one interval all of them together are, for errors with Laplace's tails."""
    return 1 + math.log(total) / max(math.log(1 / failing), 0.1)


def _float(cell: object) -> float:
    if isinstance(cell, Estimate):
        return float(cell)
    return float(cell) if isinstance(cell, int | float | Fraction) else math.nan


# --- Intervals from redraws. ---


_LINEAR = 1e-7  # relative residual up to which a result is taken as linear; rounding of doubles is far below
_MOST_CELLS = 400  # released cells up to which linear results are recognised
_CURVED = 0.01  # share of the even part in the variance of redraws from which on a result is not smooth
_SPENT = 0.8  # of the failure probability: the rest covers that quantiles are estimated from redraws
_SPENT_CURVED = 0.2
_RAREST = 0.01  # below this, quantiles are widened as Laplace's tails are
_LEAST_PRESENT = 0.9
_MOST_LAWS = 256
_FURTHER = 64


@dataclass(frozen=True, slots=True, eq=False)
class ResultBand:
    """Intervals of one column of a result, and which of them are approximate."""

    band: Band
    approximate: Booleans
    steady: Booleans
    """Where noise changes nothing."""


@np.errstate(invalid="ignore", over="ignore")  # a value without an interval has infinite redraws
def result_band(value: Doubles, drawn: Doubles, parts: Sequence[RedrawnPart], failing: float) -> ResultBand:
    """Return the intervals of a column from its redraws by row, the two corners last; NaN is no value.

    Theorem: redraws
    """
    redraws, corners = drawn[:-_CORNERS], drawn[-_CORNERS:]
    deviation = redraws - value
    present = np.isfinite(redraws)
    steady = np.all((deviation == 0) | ~present, axis=0) & (np.isfinite(value) == present.any(axis=0))
    steady &= np.all(present, axis=0) | np.all(np.isnan(redraws), axis=0)  # what is endless is not known, nor NULL
    low, high = np.full_like(value, -np.inf), np.full_like(value, np.inf)
    defined = present.any(axis=0)
    low[defined], high[defined] = _quantile_interval(value[defined], redraws[:, defined], corners[:, defined], failing)
    approximate = np.ones(len(value), dtype=np.bool_)
    few = (present.mean(axis=0) < _LEAST_PRESENT) | ~np.isfinite(value)
    low, high = np.where(few | np.isnan(low), -np.inf, low), np.where(few | np.isnan(high), np.inf, high)
    exact = _linear_intervals(deviation, present.all(axis=0) & ~steady & np.isfinite(value), parts, failing)
    if any(part.derived for part in parts):
        slopes = _slope_widths(deviation, present.all(axis=0) & np.isfinite(value), parts)
        low, high = np.fmin(low, value - slopes), np.fmax(high, value + slopes)
    for place, (below, above) in exact.items():
        low[place], high[place], approximate[place] = value[place] - below, value[place] + above, False
    low, high = np.where(steady, value, low), np.where(steady, value, high)
    approximate &= ~steady & np.isfinite(value)
    return ResultBand(Band(value, low, high), approximate, steady)


def _quantile_interval(value: Doubles, redraws: Doubles, corners: Doubles, failing: float) -> tuple[Doubles, Doubles]:
    """Return the hull of the redraws' quantiles, of their mirror images, and where results bend, of the corners.

    The mirror images hold where results are biased to one side; the corners bound results that rise with all values.
    Where results bend they may also jump, so that rarer redraws count.
    """
    if not len(value):
        return value, value
    half = len(redraws) // 2
    first, second = redraws[:half] - value, redraws[half:] - value
    even, odd = (np.nansum(each**2, axis=0) for each in (first + second, first - second))
    curved = even > _CURVED * odd
    low, high = np.empty_like(value), np.empty_like(value)
    for places, share in ((~curved, _SPENT), (curved, _SPENT_CURVED)):
        part = max(failing, _RAREST) * share / 2
        if np.any(places):
            ends = _outer_quantiles(redraws[:, places], part)
            low[places] = np.minimum(ends[0], 2 * value[places] - ends[1])
            high[places] = np.maximum(ends[1], 2 * value[places] - ends[0])
    low = np.where(curved, np.fmin(low, np.fmin(*corners)), low)
    high = np.where(curved, np.fmax(high, np.fmax(*corners)), high)
    wider = math.log(1 / failing) / math.log(1 / _RAREST) if failing < _RAREST else 1.0
    return value - wider * (value - low), value + wider * (high - value)


def _outer_quantiles(redraws: Doubles, part: float) -> tuple[Doubles, Doubles]:
    """Return the redraws of each result that leave at most this part below, and above; NaN is left out."""
    ordered = np.sort(redraws, axis=0)  # NaN comes last
    count = np.isfinite(ordered).sum(axis=0)
    first = np.floor(part * count).astype(np.int64)
    low, high = (np.take_along_axis(ordered, place[None, :], axis=0)[0] for place in (first, count - 1 - first))
    return low, high


def _linear_intervals(
    deviation: Doubles, candidates: Booleans, parts: Sequence[RedrawnPart], failing: float
) -> dict[int, tuple[float, float]]:
    """Return how far below and above it the exact value may be, for results that are linear in released cells."""
    places = np.flatnonzero(candidates)
    columns = [column[:-_CORNERS] for part in parts for column in part.values]
    cells = [cell for part in parts for column in part.cells for cell in column]
    known = [coordinate for part in parts for column in part.coordinates for coordinate in column]
    widths_of = (
        np.concatenate([column_widths for part in parts for column_widths in part.addable]) if parts else np.zeros(0)
    )
    derived = any(part.derived for part in parts)
    moved = [column.reshape(len(column), -1) for column in columns]
    if not len(places) or not moved:
        return {}
    released = np.concatenate([np.broadcast_to(column, (len(deviation), column.shape[1])) for column in moved], axis=1)
    released = released - np.array([math.nan if cell is None else float(cell) for cell in cells])
    finite = np.all(np.isfinite(released), axis=0)  # others explain nothing: no interval, or no value in some redraws
    kept = np.flatnonzero(np.any(released != 0, axis=0) & finite)
    half = len(deviation) // 2
    if len(kept) > min(_MOST_CELLS, half - _FURTHER):
        return {}
    intervals: dict[int, tuple[float, float]] = {}
    alone = np.array([index for index in kept if known[index] is not None], dtype=np.int64)
    for chosen in (alone, kept) if len(alone) < len(kept) else (kept,):
        # Cells that are computed from others are left out first: with them, factors are not determined.
        left = np.array([place for place in places if int(place) not in intervals], dtype=np.int64)
        if not len(chosen) or not len(left):
            continue
        design, wanted = released[:half][:, chosen], deviation[:half][:, left]
        enough = len(chosen) + _FURTHER  # to determine the factors, and to notice most that is not linear
        factors = np.linalg.lstsq(design[:enough], wanted[:enough], rcond=None)[0]
        size = np.abs(wanted).max(axis=0)
        linear = np.abs(design @ factors - wanted).max(axis=0) <= _LINEAR * size
        for number in np.flatnonzero(linear).tolist()[: _MOST_LAWS - len(intervals)]:
            coefficients = factors[:, number]
            used = np.flatnonzero(np.abs(coefficients) * np.abs(design).max(axis=0) > _LINEAR * size[number])
            terms = [(float(coefficients[index]), cells[chosen[index]], known[chosen[index]]) for index in used]
            widths = _combined_width(terms, failing)
            if widths is None and derived:
                together = float(np.abs(coefficients[used]) @ widths_of[chosen[used]])
                widths = (together, together) if math.isfinite(together) else None
            if widths is not None:
                intervals[int(left[number])] = widths
    return intervals


def _slope_widths(deviation: Doubles, candidates: Booleans, parts: Sequence[RedrawnPart]) -> Doubles:
    """Return how far results may be off if they bend little: slopes times half-widths that add up; else 0.

    Redraws of cells with an unknown joint law can miss the one dependence that moves a result most.
    """
    bounds = np.zeros(deviation.shape[1])
    cells = [math.nan if cell is None else float(cell) for part in parts for column in part.cells for cell in column]
    columns = [
        np.broadcast_to(column[:-_CORNERS], (len(deviation), column.shape[1]))
        for part in parts
        for column in part.values
    ]
    released = np.nan_to_num(np.concatenate(columns, axis=1) - np.array(cells), posinf=0.0, neginf=0.0)
    kept, places = np.flatnonzero(np.any(released != 0, axis=0)), np.flatnonzero(candidates)
    if not len(kept) or not len(places) or len(kept) > min(_MOST_CELLS, len(deviation) // 2 - _FURTHER):
        return bounds
    slopes = np.linalg.lstsq(released[:, kept], deviation[:, places], rcond=None)[0]
    widths = np.concatenate([column_widths for part in parts for column_widths in part.addable])[kept]
    bounds[places] = np.abs(slopes).T @ np.where(np.isfinite(widths), widths, 0.0)
    return bounds


def _combined_width(
    terms: Sequence[tuple[float, Estimate | None, Coordinate | None]], failing: float
) -> tuple[float, float] | None:
    """Return how far below and above a linear result the exact one may be; None if no law is known.

    Theorem: sum-of-noises
    """
    if len(terms) == 1 and terms[0][1] is not None:
        factor, cell = float(f"{terms[0][0]:.9g}"), terms[0][1]
        below, above = _width(cell, "low"), _width(cell, "high")
        return (abs(factor) * below, abs(factor) * above) if factor > 0 else (abs(factor) * above, abs(factor) * below)
    merged: dict[tuple[int, int], tuple[float, Coordinate]] = {}
    for factor, _, known in terms:
        if known is None:
            return None
        before = merged[known.draw][0] if known.draw in merged else 0.0
        merged[known.draw] = before + factor * known.unit, known
    sizes = [
        (float(f"{abs(factor):.9g}"), coordinate.noise)
        for factor, coordinate in merged.values()
        if abs(factor) > _LINEAR
    ]
    if not sizes:
        return None
    unit = min(size for size, _ in sizes)
    within = unit * upper_quantile(tuple(NoiseTerm.of(size / unit, noise) for size, noise in sizes), failing / 2)
    return within, within
