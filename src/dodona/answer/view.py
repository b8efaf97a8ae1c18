"""Views: what the intervals of an answer cover.

A view chooses the confidence, the table or the population, single or simultaneous intervals, or intervals that hold for
any question chosen after seeing earlier answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

import numpy as np

from dodona.answer.bands import Band, combine_bands
from dodona.answer.evaluation import evaluate, population_band
from dodona.answer.laws import (
    DerivedValues,
    ErrorLaw,
    Evidence,
    GaussianSumBound,
    ModelLaw,
    NoiseSum,
    SingleRelease,
    addable_width,
    half_width,
)
from dodona.answer.sums import NoiseTerm
from dodona.errors import InvalidRequest
from dodona.numbers import Doubles
from dodona.privacy.accuracy import Against, to_failure_probability
from dodona.privacy.additive_noise import Gaussian, Laplace, RoundedGaussian
from dodona.privacy.measurement import DrawCounts, MeasuredValues
from dodona.query.predicate import Among, And
from dodona.query.query import ONE, Block
from dodona.query.question import Arithmetic, Expression, KeyLabel, LiteralExpression, PublicValue, Total
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

# --- Intervals for questions that were chosen because of the values they reuse. ---


_EVENTS = 5  # bounds on squares, on sums, on each draw of both laws, and on described counts, which fail equally rarely
_LONGEST = 500.0  # nats: a longer description makes no interval narrower
_ROUNDING = 1 + 1e-9  # scales and factors are doubles here
_ONLY = (
    "Intervals for any choice are known for released counts, sums and arithmetic of them, and what follows from these. "
    "Ask this question with fresh=True: it is then measured with new noise alone."
)


@dataclass(frozen=True, slots=True)
class CombinationBound:
    """A bound on the noise of every combination, at failure probability `failing`: at any time and for all weights.

    Theorem: any-choice
    """

    squares: float
    """Of normal draws Σ (z/σ)² is at most its square; for rounded ones σ² includes what rounding adds."""
    sums: float
    """Of Laplace draws Σ |z|/b is at most this."""
    each: tuple[float, float]
    """Of each draw |z|/b, and |z|/σ, is at most this."""
    failing: float
    """With this probability, divided among counts and releases, one release alone tells a count less precisely."""

    def described(self, release: SingleRelease, length: float, values: int) -> Doubles:
        """Return the half-widths of a block that follows from one release alone, given the length of its description.

        Theorem: any-choice
        """
        part = self.failing / (release.place * (release.place + 1)) * math.exp(-length)
        known = {law: addable_width(law, part) * _ROUNDING for law in dict.fromkeys(release.laws)}
        return np.broadcast_to(np.array([known[law] for law in release.laws], dtype=np.float64), (values,))

    def within(self, law: ErrorLaw) -> float:
        """Return the half-width of a value with this law, however it was chosen."""
        match law:
            case Laplace() | Gaussian() | RoundedGaussian():
                return self._terms((NoiseTerm.of(1.0, law),))
            case NoiseSum(terms):
                return self._terms(terms)
            case GaussianSumBound(variance, _):
                return math.sqrt(variance) * self.squares * _ROUNDING
            case ModelLaw():
                raise InvalidRequest(_ONLY)
            case _:
                assert_never(law)

    def _terms(self, terms: tuple[NoiseTerm, ...]) -> float:
        """Return the bound for a sum of draws: for each law, over all draws jointly or one by one."""
        bound = 0.0
        for normal, factor in ((False, self.each[0]), (True, self.each[1])):
            scaled = [(term.factor * term.width, term.times) for term in terms if (term.law != "Laplace") is normal]
            if not scaled:
                continue
            together = self.sums * max(size for size, _ in scaled)
            if normal:
                together = self.squares * math.sqrt(sum(size**2 * times for size, times in scaled))
            bound += min(together, factor * sum(size * times for size, times in scaled))
        return bound * _ROUNDING


@lru_cache(maxsize=256)
def bound_combinations(draws: DrawCounts, failing: float) -> CombinationBound:
    """Return the bound on all combinations of these draws; failure probability is split so that it holds at any time.

    Theorem: any-choice
    """
    part = failing / _EVENTS
    return CombinationBound(
        squares=math.sqrt(_square_sum_bound(max(draws.gaussian, 1), part)),
        sums=_absolute_sum_bound(max(draws.laplace, 1), part),
        each=(
            _single_draw_bound(max(draws.laplace, 1), part, power=1.0),
            _single_draw_bound(max(draws.gaussian, 1), part, power=0.5),
        ),
        failing=part,
    )


def any_choice_band(expression: Expression, evidence: Evidence, reach: CombinationBound) -> Band:
    """Return values and intervals that hold for every question at once, so arithmetic needs no further split."""
    match expression:
        case Total(block):
            unit = float(evidence.question.query.blocks[block].unit)
            value = evidence.numbers(block).reshape(-1) * unit
            laws = (evidence.noises[block],) if isinstance(evidence, MeasuredValues) else evidence.laws[block]
            if evidence.question.query.blocks[block].values != evidence.groups:
                raise InvalidRequest(_ONLY)
            known = {law: reach.within(law) * unit for law in dict.fromkeys(laws)}
            within = np.broadcast_to(np.array([known[law] for law in laws], dtype=np.float64), value.shape)
            for numbers, alone in _other_values(block, evidence, reach):
                # All bounds hold at once, so the narrowest may be taken; a few draws can be known better than many.
                value = np.where(alone * unit < within, np.asarray(numbers, dtype=np.float64) * unit, value)
                within = np.minimum(within, alone * unit)
            return Band(value, value - within, value + within)
        case LiteralExpression(Fraction()) | PublicValue():
            return Band.public(expression, evidence.groups)
        case Arithmetic(operator, left, right):
            first, second = (any_choice_band(side, evidence, reach) for side in (left, right))
            return combine_bands(operator, first, second)
        case _:
            raise InvalidRequest(_ONLY)


def _other_values(
    block: int, evidence: Evidence, reach: CombinationBound
) -> Iterator[tuple[Sequence[float] | Doubles, float | Doubles]]:
    """Yield other values of a block and their half-widths, in steps: as it was released, and as one release has it."""
    if not isinstance(evidence, DerivedValues) or evidence.recalled is None:
        return
    for numbers, noise in evidence.recalled.direct[block]:
        yield numbers, reach.within(noise)
    query = evidence.question.query
    length = description_length(query.blocks[block], query.domain)
    if length < _LONGEST:
        for release in evidence.recalled.alone[block]:
            yield release.values, reach.described(release, length, evidence.groups)


def description_length(block: Block, domain: Domain) -> float:
    """Return the nats that describe one value of a block: Σ e^-length over all values of all blocks is at most 1.

    Only counts of rows with a set for each of some columns, in declared or single groups, have a description; the
    length of others is infinite.

    Theorem: any-choice
    """
    parts = block.where.parts if isinstance(block.where, And) else (block.where,)
    sets = [part for part in parts if isinstance(part, Among)]
    columns, names = len(tuple(domain)), {part.attribute for part in sets}
    if block.weight != ONE or block.table is not None or len(names) < len(parts):
        return math.inf
    listed = math.log(columns + 1) + math.log(math.perm(columns, len(sets)))
    grouped = math.log(columns + 1) + len(block.keys) * math.log(2 * columns)
    for key in block.keys:
        if not isinstance(key, Partition) or not (key.single or key == Partition.of(domain[key.attribute])):
            return math.inf
    return listed + sum(map(_set_length, sets)) + grouped + math.log(block.values)


def _set_length(chosen: Among) -> float:
    """Return the nats of a set of cells: one of them, all but one, an interval, or any, each kind equally likely."""
    cells, number = chosen.cells, chosen.codes.bit_count()
    lengths = [cells * math.log(2)]
    if number in {1, cells - 1}:
        lengths.append(math.log(cells))
    lowest = chosen.codes & -chosen.codes
    if number and (chosen.codes + lowest) & chosen.codes == 0:  # its bits are adjacent
        lengths.append(math.log(cells * (cells + 1) / 2))
    return math.log(4) + min(lengths)


def _level(draws: int, failing: float) -> tuple[int, float]:
    """Return the power of two above this number of draws, and its part of the failures: 1/2 + 1/6 + 1/12 + … = 1."""
    level = draws.bit_length()
    return 1 << level, failing / (level * (level + 1))


def _square_sum_bound(draws: int, failing: float) -> float:
    """Return a bound on Σ (z/σ)² of this many normal draws, at any time of this level."""
    most, part = _level(draws, failing)
    log = math.log(1 / part)
    total = most + 2 * math.sqrt(most * log) + 2 * log  # near the best for `most` draws; any choice is valid
    slope = (1 - most / total) / 2
    return (log - draws / 2 * math.log1p(-2 * slope)) / slope


def _absolute_sum_bound(draws: int, failing: float) -> float:
    """Return a bound on Σ |z|/b of this many discrete Laplace draws, at any time of this level."""
    most, part = _level(draws, failing)
    log = math.log(1 / part)
    slope = 1 - most / (most + math.sqrt(2 * most * log) + log)
    return (log - draws * math.log1p(-slope)) / slope


def _single_draw_bound(draws: int, failing: float, *, power: float) -> float:
    """Return a bound on |z|/b, or |z|/σ for a power of a half, of each of this many draws."""
    most, part = _level(draws, failing)
    log = math.log(2 * most / part)
    return log if power == 1 else math.sqrt(2 * log)


# --- A view: the confidence of intervals, their target, and whether they hold singly or simultaneously. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Intervals for the table or the population, each at the confidence or all simultaneously."""

    confidence: float = 0.95
    against: Against = Against.TABLE
    together: bool = False
    rounded: bool = False
    size: int | None = None
    """How many rows there are about: public."""
    rows: int = 1
    """How many of them may be one person's."""
    draws: DrawCounts | None = None
    """Of all that was released so far, where intervals are to hold for every question that could be asked of it."""


def cell_failure_probability(view: View, measured: Evidence) -> float:
    """Return the failure probability of one cell's interval that keeps the view's guarantee.

    Noises of different groups and of different blocks are independent, so counts and sums split it exactly. Other
    columns of a group split it by the union bound, and so does everything if sampling error is included or if values
    are derived from the same releases.
    """
    failing = to_failure_probability(view.confidence)
    if not view.together:
        return failing
    distinct = _count_distinct_expressions(measured)
    if view.against is Against.POPULATION or isinstance(measured, DerivedValues):
        return failing / (measured.groups * len(distinct))
    if all(isinstance(expression, Total) for expression in distinct):
        return _split_failure_probability(failing, measured.groups * len(distinct))
    return _split_failure_probability(failing, measured.groups) / len(distinct)


def view_band(expression: Expression, measured: Evidence, view: View) -> Band:
    """Return an expression's values and intervals for a view."""
    if view.draws is not None:
        bound = bound_combinations(view.draws, to_failure_probability(view.confidence))
        return any_choice_band(expression, measured, bound)
    failing = cell_failure_probability(view, measured)
    if view.against is Against.POPULATION:
        return population_band(expression, measured, failing=failing, size=view.size)
    return evaluate(expression, measured, failing)


def half_width_in_steps(block: int, measured: MeasuredValues, view: View) -> int:
    """Return the half-width of a count or a sum for the table, in steps: the exact quantile of its noise."""
    distinct = _count_distinct_expressions(measured) if view.together else ()
    if view.together and all(isinstance(expression, Total) for expression in distinct):
        cells = measured.groups * len(distinct)
        return half_width(measured.noises[block], to_failure_probability(view.confidence), cells)
    return half_width(measured.noises[block], cell_failure_probability(view, measured))


def _count_distinct_expressions(measured: Evidence) -> tuple[Expression, ...]:
    """Return the distinct expressions that are not known in advance; at least one."""
    known = KeyLabel | LiteralExpression | PublicValue
    shown = (column.expression for column in measured.question.columns)
    expressions = dict.fromkeys(expression for expression in shown if not isinstance(expression, known))
    return tuple(expressions) or (LiteralExpression("nothing"),)


def _split_failure_probability(failing: float, answers: int) -> float:
    """Return the failure probability of each of several independent answers."""
    return -math.expm1(math.log1p(-failing) / answers)
