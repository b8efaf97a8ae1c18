"""Planning: the noise of each block of a question, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from dodona.answer.prediction import predict_half_width
from dodona.curator.request import (
    NoiseType,
    Request,
    Scales,
    ToleranceUnreachable,
    largest_factor,
    make_measurement,
    merge_scales,
    noises_within,
    scale_cost,
    unit_scale_cost,
    widest_noise,
)
from dodona.curator.tolerance import ColumnTolerances, Tolerance, resolve_tolerance
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.privacy.additive_noise import LARGEST_SCALE, SMALLEST_SCALE, Gaussian, Laplace
from dodona.privacy.conversion import zcdp_limit
from dodona.privacy.events import Event
from dodona.privacy.measurement import Measurement, Noise
from dodona.query.query import Query
from dodona.query.question import (
    AnswerColumn,
    Quantile,
    Question,
    Total,
    renumber_blocks,
)
from dodona.query.sensitivity import unit_sensitivity
from dodona.schema.schema import Unit

MAX_PLANNED_COLUMNS = 100
"""Averages, spreads and expressions that are planned at once, each in a thirtieth of a second."""
_QUANTILE = 4  # times as much work as another column
_CACHE_SIZE = 1024


@dataclass(frozen=True, slots=True)
class PlannedMeasurement:
    """A measurement, its event, and the share of the budget that it takes."""

    measurement: Measurement
    event: Event
    share: Fraction


@dataclass(frozen=True, slots=True)
class Planner:
    """Chooses noise laws and scales for one dataset."""

    unit: Unit
    delta: Fraction
    share: Callable[[Event], Fraction]
    """Which part of the budget an event takes."""
    _known: dict[tuple[Question, Request], PlannedMeasurement] = field(default_factory=dict, repr=False)
    _laws: dict[tuple[tuple[Question, ...], Request], tuple[PlannedMeasurement, ...]] = field(
        default_factory=dict, repr=False
    )
    _factors: dict[tuple[NoiseType, Question, float, float], float] = field(default_factory=dict, repr=False)

    def plan(self, questions: Iterable[Question], request: Request) -> PlannedMeasurement:
        """Return the joint measurement of all questions that takes the smaller budget share, by Laplace or by Gaussian.

        For a price, return the one with the smaller error among those within the maximum price of the call.
        """
        asked = tuple(questions)
        if len(asked) == 1:
            return self._once(asked[0], request)
        return self._planned_for(asked, request)

    def options(self, questions: Iterable[Question], request: Request) -> tuple[PlannedMeasurement, ...]:
        """Return the measurement by each available noise law, for a given accuracy."""
        asked = tuple(questions)
        key = (asked, request)
        known = self._laws.get(key)
        if known is None:
            _limit_work(asked)
            tolerances, query = self._tolerances(asked, request), _stack_questions(asked)
            known = tuple(self._for_accuracy(law, asked, tolerances, query, request) for law in self._allowed())
            if len(self._laws) >= _CACHE_SIZE:
                self._laws.clear()
            self._laws[key] = known
        return known

    def _allowed(self) -> tuple[NoiseType, ...]:
        return (Laplace, Gaussian) if self.delta > 0 else (Laplace,)

    def _once(self, question: Question, request: Request) -> PlannedMeasurement:
        """Return the plan of one question, cached, because a quote is usually followed by its question."""
        known = self._known.get((question, request))
        if known is None:
            known = self._planned_for((question,), request)
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            self._known[question, request] = known
        return known

    def _planned_for(self, asked: tuple[Question, ...], request: Request) -> PlannedMeasurement:
        _limit_work(asked)
        query, laws = _stack_questions(asked), self._allowed()
        if request.epsilon is not None:
            found = [self._for_price(law, asked, query, request) for law in laws]
            fitting = [planned for planned in found if planned.share <= request.max_price]
            if not fitting:  # refused either way: report the price nearest to the maximum of the call
                return min(found, key=lambda planned: planned.share)
            return min(fitting, key=lambda planned: self._error(asked, planned, request))
        tolerances = self._tolerances(asked, request)
        found = [self._for_accuracy(law, asked, tolerances, query, request) for law in laws]
        return min(found, key=lambda planned: planned.share)

    def _tolerances(self, asked: tuple[Question, ...], request: Request) -> list[tuple[float, ...] | None]:
        """Return the tolerance of each block of each question, in steps; None for more than counts and sums.

        For a single total only its weight and unit matter, unless tolerances are given by column name; most questions
        of a batch share these, so their tolerance is computed once.
        """
        within = _requested_tolerance(request)
        known: dict[tuple[int, int], tuple[float, ...]] = {}
        found: list[tuple[float, ...] | None] = []
        for question in asked:
            block = question.single_total
            if block is None or isinstance(within, ColumnTolerances):
                found.append(self._total_tolerances(question, within))
                continue
            same = (id(block.weight), id(block.unit))  # both live as long as the question
            tolerances = known.get(same)
            if tolerances is None:
                tolerances = known[same] = self._total_tolerances(question, within) or ()
            found.append(tolerances)
        return found

    def _total_tolerances(self, question: Question, within: Tolerance | ColumnTolerances) -> tuple[float, ...] | None:
        """Return the tolerance of each block, if each is shown unchanged: its error is its noise."""
        columns = question.total_columns
        if columns is None:
            return None
        tolerances = [resolve_tolerance(question, column, within, size=self.unit.size) for column in columns]
        return tuple(
            [tolerance / float(block.unit) for tolerance, block in zip(tolerances, question.query.blocks, strict=True)]
        )

    def _for_accuracy(
        self,
        law: NoiseType,
        asked: tuple[Question, ...],
        tolerances: list[tuple[float, ...] | None],
        query: Query,
        request: Request,
    ) -> PlannedMeasurement:
        noises: list[Noise] = []
        for question, own in zip(asked, tolerances, strict=True):
            if own is None:
                noises += self._noises(law, question, request)
            else:
                noises += [widest_noise(law, tolerance, request.confidence) for tolerance in own]
        return self._planned(Measurement(query, tuple(noises)))

    def _noises(self, law: NoiseType, question: Question, request: Request) -> tuple[Noise, ...]:
        """Return for each block the widest noise with which every column meets its tolerance."""
        scales: Scales = {}
        for column, shape in question.noisy_columns:
            merge_scales(scales, self._scales(law, question, column, shape, request))
        return noises_within(law, scales, len(question.query.blocks))

    def _scales(
        self, law: NoiseType, question: Question, column: AnswerColumn, shape: Mapping[int, float], request: Request
    ) -> Scales:
        """Return the largest multiple of the column's scales that meets the tolerance."""
        tolerance = resolve_tolerance(question, column, _requested_tolerance(request), size=self.unit.size)
        own = question.column_alone(column, tuple(shape))
        key = (law, own, tolerance, request.confidence)
        factor = self._factors.get(key)
        if factor is None:
            factor = self._factor_within(law, own, dict(enumerate(shape.values())), tolerance, request.confidence)
            if factor is None:
                least = noises_within(law, dict.fromkeys(range(len(shape)), float(SMALLEST_SCALE)), len(shape))
                raise ToleranceUnreachable(
                    column.name, predict_error(own, least, confidence=request.confidence, rows=self.unit.size)
                )
            if len(self._factors) >= _CACHE_SIZE:
                self._factors.clear()
            self._factors[key] = factor
        return {block: factor * relative for block, relative in shape.items()}

    def _factor_within(
        self, law: NoiseType, question: Question, shape: Mapping[int, float], tolerance: float, confidence: float
    ) -> float | None:
        def error(factor: float) -> float:
            noises = noises_within(law, {block: factor * own for block, own in shape.items()}, len(shape))
            return predict_error(question, noises, confidence=confidence, rows=self.unit.size)

        return largest_factor(error, tolerance, lower=float(SMALLEST_SCALE) / min(shape.values()))

    def _for_price(
        self, law: NoiseType, asked: tuple[Question, ...], query: Query, request: Request
    ) -> PlannedMeasurement:
        """Return noise at the given price; columns contribute equally before blocks are shared."""
        scales: Scales = {}
        start = 0
        for question in asked:
            if question.single_total is not None:
                scales[start] = unit_scale_cost(law.__name__, unit_sensitivity(question.query, self.unit))
            else:
                for _, shape in question.noisy_columns:
                    own = {start + block: relative * len(shape) for block, relative in shape.items()}
                    merge_scales(scales, self._even(law, query, own))
            start += len(question.query.blocks)
        factor = self._factor(law, make_measurement(law, scales, query).event(self.unit), request)
        scales = {block: scale * factor for block, scale in scales.items()}
        if max(scales.values()) > LARGEST_SCALE:  # less noise would cost more than was allowed
            raise InvalidArgument("epsilon", str(request.epsilon), "write more: noise is drawn up to a scale of 10^12")
        return self._planned(make_measurement(law, scales, query))

    def _even(self, law: NoiseType, query: Query, scales: Scales) -> Scales:
        """Return scales at which the column's blocks cost one unit."""
        measurement = make_measurement(law, dict(enumerate(scales.values())), query.part(*scales))
        price = scale_cost(measurement.event(self.unit))
        return {block: scale * price for block, scale in scales.items()}

    def _factor(self, law: NoiseType, event: Event, request: Request) -> float:
        """Return the common factor of all scales at which the event costs the price."""
        price = request.epsilon or Fraction(0)
        if law is Laplace:
            return float((event.epsilon or Fraction(0)) / price)
        return math.sqrt(float(event.rho()) / float(zcdp_limit(price, self.delta)))

    def _error(self, asked: tuple[Question, ...], planned: PlannedMeasurement, request: Request) -> float:
        """Return the error of the first column, by which noise laws are compared."""
        column, shape = asked[0].noisy_columns[0]
        noises = tuple(planned.measurement.noises[block] for block in shape)
        own = asked[0].column_alone(column, tuple(shape))
        return predict_error(own, noises, confidence=request.confidence, rows=self.unit.size)

    def _planned(self, measurement: Measurement) -> PlannedMeasurement:
        event = measurement.event(self.unit)
        return PlannedMeasurement(measurement, event, self.share(event))


def _stack_questions(asked: tuple[Question, ...]) -> Query:
    return asked[0].query.stacked(*(question.query for question in asked[1:])) if len(asked) > 1 else asked[0].query


@lru_cache(maxsize=1 << 10)
def predict_error(question: Question, noises: tuple[Noise, ...], *, confidence: float, rows: int) -> float:
    """Return the half-width that a question with one column would show."""
    return predict_half_width(question, question.columns[0], noises, confidence=confidence, rows=rows)


def _limit_work(asked: tuple[Question, ...]) -> None:
    """Refuse more columns than can be planned in seconds; those that differ only in conditions are planned once."""
    kinds = {
        (
            renumber_blocks(column.expression, dict.fromkeys(shape, 0)),
            *(question.query.blocks[own].weight for own in shape),
        )
        for question in asked
        if question.single_total is None
        for column, shape in question.noisy_columns
        if not isinstance(column.expression, Total)
    }
    work = sum(_QUANTILE if isinstance(expression, Quantile) else 1 for expression, *_ in kinds)
    if work > MAX_PLANNED_COLUMNS:
        raise InvalidRequest(
            f"These are {len(kinds)} different averages, spreads, quantiles and expressions. At most "
            f"{MAX_PLANNED_COLUMNS} are planned at once, or {MAX_PLANNED_COLUMNS // _QUANTILE} quantiles. Ask for "
            "fewer columns at a time."
        )


def _requested_tolerance(request: Request) -> Tolerance | ColumnTolerances:
    if request.within is None:
        raise InvalidArgument("within", None, "write a tolerance such as 50 or '1%'")
    return request.within
