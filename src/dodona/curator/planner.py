"""Planning: which noise each block of a question gets, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

from dodona.answer.prediction import predict_half_width, relative_scales
from dodona.answer.tolerance import ColumnTolerances, Tolerance, resolve_tolerance
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
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.privacy.additive_noise import LARGEST_SCALE, SMALLEST_SCALE, Gaussian, Laplace
from dodona.privacy.conversion import renyi_epsilon, zcdp_limit
from dodona.privacy.events import Event
from dodona.privacy.measurement import Measurement, Noise
from dodona.query.predicate import EVERYTHING
from dodona.query.query import Block, Query
from dodona.query.question import (
    AnswerColumn,
    Comparison,
    Expression,
    Logic,
    Quantile,
    Question,
    Total,
    renumber_blocks,
)
from dodona.query.sensitivity import unit_sensitivity
from dodona.schema.schema import Unit

MAX_PLANNED_COLUMNS = 100
"""Averages, spreads and expressions that are planned at once, each in a thirtieth of a second."""
_QUANTILE = 4  # times as much work
_CACHE_SIZE = 1024


@dataclass(frozen=True, slots=True)
class PlannedMeasurement:
    """A measurement with its event and the share of the budget that it takes."""

    measurement: Measurement
    event: Event
    share: Fraction


@dataclass(frozen=True, slots=True)
class Planner:
    """Chooses laws and scales for one dataset."""

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
        """Return the measurement of all questions together that takes the smaller share, by Laplace or by Gaussian.

        For a price, the one with the smaller error of those that take no more of the budget than the call may.
        """
        asked = tuple(questions)
        if len(asked) == 1:
            return self._once(asked[0], request)
        return self._planned_for(asked, request)

    def options(self, questions: Iterable[Question], request: Request) -> tuple[PlannedMeasurement, ...]:
        """Return the measurement by each law that may be drawn, for an accuracy."""
        asked = tuple(questions)
        key = (asked, request)
        known = self._laws.get(key)
        if known is None:
            _limit_work(asked)
            rooms, query = self._rooms(asked, request), _stack_questions(asked)
            known = tuple(self._for_accuracy(law, asked, rooms, query, request) for law in self._allowed())
            if len(self._laws) >= _CACHE_SIZE:
                self._laws.clear()
            self._laws[key] = known
        return known

    def _allowed(self) -> tuple[NoiseType, ...]:
        return (Laplace, Gaussian) if self.delta > 0 else (Laplace,)

    def _once(self, question: Question, request: Request) -> PlannedMeasurement:
        """Return the plan of one question, remembered: a quote is followed by its question."""
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
            if not fitting:  # refused whichever it is: by the price nearest to what the call may take
                return min(found, key=lambda planned: planned.share)
            return min(fitting, key=lambda planned: self._error(asked, planned, request))
        rooms = self._rooms(asked, request)
        found = [self._for_accuracy(law, asked, rooms, query, request) for law in laws]
        return min(found, key=lambda planned: planned.share)

    def _rooms(self, asked: tuple[Question, ...], request: Request) -> list[float | None]:
        """Return how far off, in steps, the noise of each question with a single total may be; None for the others.

        Only its weight and its unit decide, where no tolerance is for a column by name; of many questions most share
        these, and their tolerance is read once.
        """
        within = _requested_tolerance(request)
        known: dict[tuple[int, int], float] = {}
        found: list[float | None] = []
        for question in asked:
            block = single_total(question)
            if block is None:
                found.append(None)
                continue
            same = (id(block.weight), id(block.unit))  # both live as long as the question does
            room = None if isinstance(within, ColumnTolerances) else known.get(same)
            if room is None:
                room = resolve_tolerance(question, question.columns[0], within, size=self.unit.size)
                room = known[same] = room / float(block.unit)
            found.append(room)
        return found

    def _for_accuracy(
        self, law: NoiseType, asked: tuple[Question, ...], rooms: list[float | None], query: Query, request: Request
    ) -> PlannedMeasurement:
        noises: list[Noise] = []
        for question, room in zip(asked, rooms, strict=True):
            if room is None:
                noises += self._noises(law, question, request)
            else:
                noises.append(widest_noise(law, room, request.confidence))
        return self._planned(Measurement(query, tuple(noises)))

    def _noises(self, law: NoiseType, question: Question, request: Request) -> tuple[Noise, ...]:
        """Return for each block the widest noise with which every column meets the tolerance."""
        scales: Scales = {}
        for column, shape in noisy_columns(question):
            merge_scales(scales, self._scales(law, question, column, shape, request))
        return noises_within(law, scales, len(question.query.blocks))

    def _scales(
        self, law: NoiseType, question: Question, column: AnswerColumn, shape: Mapping[int, float], request: Request
    ) -> Scales:
        """Return the largest multiple of the column's shape that meets the tolerance."""
        room = resolve_tolerance(question, column, _requested_tolerance(request), size=self.unit.size)
        own = single_column_question(question, column, tuple(shape))
        key = (law, own, room, request.confidence)
        factor = self._factors.get(key)
        if factor is None:
            factor = self._factor_within(law, own, dict(enumerate(shape.values())), room, request.confidence)
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
        self, law: NoiseType, question: Question, shape: Mapping[int, float], room: float, confidence: float
    ) -> float | None:
        def error(factor: float) -> float:
            noises = noises_within(law, {block: factor * own for block, own in shape.items()}, len(shape))
            return predict_error(question, noises, confidence=confidence, rows=self.unit.size)

        return largest_factor(error, room, lower=float(SMALLEST_SCALE) / min(shape.values()))

    def _for_price(
        self, law: NoiseType, asked: tuple[Question, ...], query: Query, request: Request
    ) -> PlannedMeasurement:
        """Return noise that costs the price, to which every column adds alike before blocks are shared."""
        scales: Scales = {}
        start = 0
        for question in asked:
            if single_total(question) is not None:
                scales[start] = unit_scale_cost(law.__name__, unit_sensitivity(question.query, self.unit))
            else:
                for _, shape in noisy_columns(question):
                    own = {start + block: relative * len(shape) for block, relative in shape.items()}
                    merge_scales(scales, self._even(law, query, own))
            start += len(question.query.blocks)
        factor = self._factor(law, make_measurement(law, scales, query).event(self.unit), request)
        scales = {block: scale * factor for block, scale in scales.items()}
        if max(scales.values()) > LARGEST_SCALE:  # less noise would cost more than was allowed
            raise InvalidArgument("epsilon", str(request.epsilon), "write more: noise is drawn up to a scale of 10^12")
        return self._planned(make_measurement(law, scales, query))

    def _even(self, law: NoiseType, query: Query, scales: Scales) -> Scales:
        """Return scales at which the column's own blocks cost one unit."""
        blocks = tuple(query.blocks[block] for block in scales)
        measurement = make_measurement(law, dict(enumerate(scales.values())), Query(query.domain, blocks))
        price = scale_cost(measurement.event(self.unit))
        return {block: scale * price for block, scale in scales.items()}

    def _factor(self, law: NoiseType, event: Event, request: Request) -> float:
        """Return what all scales are multiplied with, so that the event costs the price."""
        price = request.epsilon or Fraction(0)
        if law is Laplace:
            return float((event.epsilon or Fraction(0)) / price)
        return math.sqrt(float(event.rho()) / float(zcdp_limit(price, self.delta)))

    def _error(self, asked: tuple[Question, ...], planned: PlannedMeasurement, request: Request) -> float:
        """Return the error of the first column, which laws are compared by."""
        column, shape = noisy_columns(asked[0])[0]
        noises = tuple(planned.measurement.noises[block] for block in shape)
        own = single_column_question(asked[0], column, tuple(shape))
        return predict_error(own, noises, confidence=request.confidence, rows=self.unit.size)

    def _planned(self, measurement: Measurement) -> PlannedMeasurement:
        event = measurement.event(self.unit)
        return PlannedMeasurement(measurement, event, self.share(event))


def _stack_questions(asked: tuple[Question, ...]) -> Query:
    return asked[0].query.stacked(*(question.query for question in asked[1:])) if len(asked) > 1 else asked[0].query


def single_total(question: Question) -> Block | None:
    """Return the block of a question that shows one count or sum and nothing else; None for other questions."""
    if len(question.columns) == len(question.query.blocks) == 1 and type(question.columns[0].expression) is Total:
        return question.query.blocks[0]
    return None


def noisy_columns(question: Question) -> list[tuple[AnswerColumn, Mapping[int, float]]]:
    """Return the columns that noise shows in, with the shape of their noise.

    What only HAVING or ORDER BY reads, and needs blocks that no column does, counts as a column of its own.
    """
    found = [
        (column, shape) for column, shape in zip(question.columns, relative_scales(question), strict=True) if shape
    ]
    seen = {block for _, shape in found for block in shape}
    for column in _hidden_columns(question):
        shape = relative_scales(replace(question, columns=(column,)))[0]
        if not shape.keys() <= seen:
            found.append((column, shape))
            seen |= shape.keys()
    rest = (block for block in range(len(question.query.blocks)) if block not in seen)
    return [*found, *((AnswerColumn(f"block {block}", Total(block)), {block: 1.0}) for block in rest)]


def _hidden_columns(question: Question) -> Iterator[AnswerColumn]:
    """Yield what ORDER BY and HAVING read, as columns."""
    for order in question.order:
        yield AnswerColumn("ORDER BY", order.expression)
    if question.having is not None:
        yield from (AnswerColumn("HAVING", operand) for operand in _operands(question.having))


def _operands(condition: Expression) -> Iterator[Expression]:
    """Yield what is compared in a condition."""
    match condition:
        case Comparison(_, left, right):
            yield from (left, right)
        case Logic(_, parts):
            for part in parts:
                yield from _operands(part)
        case _:
            yield condition


def single_column_question(question: Question, column: AnswerColumn, blocks: tuple[int, ...]) -> Question:
    """Return a question for one column and its blocks: all that its prediction hangs on.

    Predictions take every group to have its part of the rows, whatever the conditions, so these are left out: columns
    that differ in nothing else are planned once.
    """
    places = {block: place for place, block in enumerate(blocks)}
    own = tuple(replace(question.query.blocks[block], where=EVERYTHING) for block in blocks)
    return Question(
        text="",
        query=Query(question.query.domain, own),
        keys=question.keys,
        columns=(AnswerColumn("", renumber_blocks(column.expression, places)),),
    )


@lru_cache(maxsize=1 << 10)
def predict_error(question: Question, noises: tuple[Noise, ...], *, confidence: float, rows: int) -> float:
    """Return the half-width that a question for one column would show."""
    return predict_half_width(question, question.columns[0], noises, confidence=confidence, rows=rows)


def _limit_work(asked: tuple[Question, ...]) -> None:
    """Refuse more columns than are planned in a few seconds; those that differ in conditions alone are planned once."""
    kinds = {
        (
            renumber_blocks(column.expression, dict.fromkeys(shape, 0)),
            *(question.query.blocks[own].weight for own in shape),
        )
        for question in asked
        if single_total(question) is None
        for column, shape in noisy_columns(question)
        if not isinstance(column.expression, Total)
    }
    work = sum(_QUANTILE if isinstance(expression, Quantile) else 1 for expression, *_ in kinds)
    if work > MAX_PLANNED_COLUMNS:
        raise InvalidRequest(
            f"These are {len(kinds)} different averages, spreads, quantiles and expressions. At most "
            f"{MAX_PLANNED_COLUMNS} are planned at once, or {MAX_PLANNED_COLUMNS // _QUANTILE} quantiles. Ask for "
            "fewer columns at a time."
        )


@lru_cache(maxsize=1 << 12)
def standalone_epsilon(event: Event, delta: Fraction) -> float:
    """Return the ε of an event asked alone at a δ, rounded up."""
    if event.epsilon is not None:
        return math.nextafter(float(event.epsilon), math.inf)
    return renyi_epsilon(event.renyi, delta=delta)


def _requested_tolerance(request: Request) -> Tolerance | ColumnTolerances:
    if request.within is None:
        raise InvalidArgument("within", None, "write a tolerance such as 50 or '1%'")
    return request.within
