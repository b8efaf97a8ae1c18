"""Planning: the noise of each block of a question, from public facts alone.

Tolerances become noise scales here: rounded up where privacy depends on them, down where accuracy does.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import NamedTuple, Self

from dodona.answer.laws import describe_normal
from dodona.answer.mechanism import describe_measurement
from dodona.answer.prediction import predict_half_width
from dodona.curator.request import ColumnTolerances, DefaultTolerance, Request, Wanted, resolve_tolerance
from dodona.errors import InvalidArgument, InvalidRequest, Refused
from dodona.knowledge.asked import BundleLevel
from dodona.knowledge.patterns import noise_variance
from dodona.ledger.ledger import PriceList
from dodona.privacy.accountants import PriceFunction, Spending, price_functions
from dodona.privacy.additive_noise import (
    LARGEST_SCALE,
    NOISE_TYPES,
    SMALLEST_SCALE,
    Laplace,
    Noise,
    NoiseType,
    RoundedGaussian,
    payable_noises,
    round_scale_down,
    round_scale_up,
    widest_within,
)
from dodona.privacy.budget import Budget
from dodona.privacy.conversion import zcdp_limit
from dodona.privacy.events import Event
from dodona.privacy.gaussian_privacy import gaussian_limit
from dodona.privacy.measurement import Measurement, ResidualMeasurement
from dodona.query.query import Query
from dodona.query.question import (
    AnswerColumn,
    Quantile,
    Question,
    Total,
    renumber_blocks,
)
from dodona.query.sensitivity import Sensitivity, row_count_sensitivity, unit_sensitivity
from dodona.schema.schema import Unit

# --- Noise scales. ---


Scales = dict[int, float]
"""By the number of a block, in its steps."""
_NEAR = 2e-3  # a gain of 1/500 in noise is not worth searching for
_STEPS = 40
_LEAP = 8.0
_ANY = float(LARGEST_SCALE)  # of a block that no column needs: it costs almost nothing


class ToleranceUnreachable(Refused):
    """No available noise is small enough."""

    code = "unreachable"

    def __init__(self, column: str, best: float) -> None:
        """State the column and the best reachable tolerance."""
        reachable = (
            f"the best is within {best:.3g}. Ask for a wider tolerance."
            if math.isfinite(best)
            else "so few rows are declared that even the least noise leaves no bounds. Ask about more rows."
        )
        super().__init__(f"{column!r} cannot be answered that precisely; {reachable}")


def largest_factor(
    error: Callable[[float], float], tolerance: float, *, lower: float, first: float = 1.0
) -> float | None:
    """Return nearly the largest factor whose error is within the tolerance; None if even the lowest is not.

    Errors grow roughly in proportion to factors, so a few proportional steps come close. Those of quantiles grow in
    jumps; if two factors have the same error, the midpoint is tried next. Only tested factors are returned. A good
    first guess saves steps.
    """
    below, above, factor, before = lower, math.inf, max(first, lower), -1.0
    for _ in range(_STEPS):
        factor_error = error(factor)
        if factor_error <= tolerance:
            below = max(below, factor)
            if factor_error >= tolerance * (1 - _NEAR):
                break
        else:
            above = min(above, factor)
        if above <= below * (1 + _NEAR):
            break
        guess = factor * tolerance / factor_error * (1 - _NEAR / 2) if 0 < factor_error < math.inf else math.nan
        if factor_error == before or not below < guess < above:  # all comparisons with NaN are false
            guess = math.sqrt(below * above) if above < math.inf else below * _LEAP
        factor, before = guess, factor_error
    return below if below > lower or error(lower) <= tolerance else None


def scale_cost(event: Event) -> float:
    """Return the cost in the unit that scales are proportional to."""
    return float(event.epsilon) if event.epsilon is not None else math.sqrt(2 * float(event.rho()))


@lru_cache(maxsize=1 << 10)
def unit_scale_cost(law: str, sensitivity: Sensitivity) -> float:
    """Return the cost of noise with scale 1."""
    return scale_cost(NOISE_TYPES[law](scale=1).event(sensitivity))


def widest_noise(law: NoiseType, tolerance: float, confidence: float) -> Noise:
    """Return the widest noise that is within the tolerance."""
    return widest_noises((law,), {tolerance}, confidence)[law, tolerance]


def widest_noises(
    laws: Iterable[NoiseType], tolerances: Collection[float], confidence: float
) -> dict[tuple[NoiseType, float], Noise]:
    """Return by law and tolerance the widest noise that is within the tolerance."""
    failing = 1 - float(confidence)
    try:
        return {
            (law, tolerance): widest_within(law.__name__, tolerance, failing)
            for law in laws
            for tolerance in tolerances
        }
    except InvalidArgument:
        raise ToleranceUnreachable("this", 0.0) from None


def merge_scales(scales: Scales, other: Mapping[int, float]) -> None:
    """Keep the smaller scale if a block serves two columns."""
    for block, scale in other.items():
        scales[block] = min(scale, scales.get(block, math.inf))


def make_measurement(law: NoiseType, scales: Scales, query: Query) -> Measurement:
    """Return the measurement of a query with noise of these scales, rounded up to preserve privacy."""
    noises = (_noise_above(law.__name__, scales.get(block, _ANY)) for block in range(len(query.blocks)))
    return Measurement(query, tuple(noises))


def noises_within(law: NoiseType, scales: Scales, blocks: int) -> tuple[Noise, ...]:
    """Return the noise of each block, with scales rounded down to preserve accuracy."""
    return tuple(_noise_below(law.__name__, scales.get(block, _ANY)) for block in range(blocks))


@lru_cache(maxsize=1 << 12)
def _noise_below(law: str, scale: float) -> Noise:
    return NOISE_TYPES[law](scale=round_scale_down(_clamp_scale(scale)))


@lru_cache(maxsize=1 << 12)
def _noise_above(law: str, scale: float) -> Noise:
    return NOISE_TYPES[law](scale=round_scale_up(_clamp_scale(scale)))


def _clamp_scale(scale: float) -> float:
    return min(max(scale, float(SMALLEST_SCALE)), float(LARGEST_SCALE))


# --- The default tolerance of a dataset. ---


_DEFAULT_SHARE = Fraction(1, 500)  # of the budget: the price of a question that does not say how accurate
_ROUND_PERCENTAGES = tuple(Fraction(digit) * Fraction(10) ** power for power in range(-4, 2) for digit in (1, 2, 3, 5))
"""Tolerances in percent, the most accurate first; wider than half of all rows says nothing."""


def default_accuracy(unit: Unit, budget: Budget, confidence: float = 0.95) -> DefaultTolerance:
    """Return how accurate questions are answered where nothing says it, from public facts alone."""
    person = Unit(neighbours=unit.neighbours, size=unit.size, id=unit.id, rows=1)
    rows, people = (default_tolerance(privacy_unit, budget, confidence) for privacy_unit in (unit, person))
    return DefaultTolerance(rows, people, _DEFAULT_SHARE)


@lru_cache(maxsize=64)
def default_tolerance(unit: Unit, budget: Budget, confidence: float = 0.95) -> str:
    """Return the default tolerance of counts and sums.

    It is the smallest round percentage at which one count takes at most a five-hundredth of the budget; for small
    tables 50%, which may take more.
    """
    first, after = 0, len(_ROUND_PERCENTAGES) - 1
    while first < after:
        middle = (first + after) // 2
        ordinary = (
            count_share(unit, budget, float(_ROUND_PERCENTAGES[middle] / 100 * unit.size), confidence) <= _DEFAULT_SHARE
        )
        first, after = (first, middle) if ordinary else (middle + 1, after)
    return f"{float(_ROUND_PERCENTAGES[first]):g}%"


def count_share(unit: Unit, budget: Budget, tolerance: float, confidence: float) -> Fraction:
    """Return the budget share of a count with this tolerance; above 1 if no noise is small enough."""
    moved, whole = row_count_sensitivity(unit), budget.filter()
    shares = [Fraction(2)]
    for law in payable_noises(budget):
        try:
            event = widest_noise(law, tolerance, confidence).event(moved)
        except Refused:  # no available noise is that small
            continue
        shares.append(whole.share(whole.charged(Spending(), event)))
    return min(shares)


# --- The planner. ---


MAX_PLANNED_COLUMNS = 100
"""Averages, spreads and expressions that are planned at once, each in a thirtieth of a second."""
_QUANTILE = 4  # times as much work as another column
_CACHE_SIZE = 1024


@dataclass(frozen=True, slots=True)
class PurchaseOrder:
    """What to measure, its event, and the share of the budget that it takes."""

    measurement: Measurement | ResidualMeasurement
    event: Event
    share: Fraction
    bundle: BundleLevel | None = None
    """The kind of bundle, where more than the answers themselves is measured."""

    @property
    def described(self) -> str:
        """The purchase in words."""
        if isinstance(self.measurement, ResidualMeasurement):
            noise = describe_normal(self.measurement.law) + " on each of its rows"
        else:
            noise = describe_measurement(self.measurement.query, self.measurement.noises)
        return noise if self.bundle is None else f"{self.bundle.value}, with {noise}"


class AccountOption(NamedTuple):
    """The cheapest measurement in one account."""

    price: PriceFunction
    order: PurchaseOrder
    cost: float


@dataclass(frozen=True, slots=True)
class Planner:
    """Chooses noise laws and scales for one dataset."""

    unit: Unit
    budget: Budget
    shares: Callable[[Sequence[Event]], Iterable[Fraction]]
    """Which part of the budget each event takes."""
    _known: dict[tuple[Question, Request], PurchaseOrder] = field(default_factory=dict, repr=False)
    _laws: dict[tuple[tuple[Question, ...], Request], tuple[PurchaseOrder, ...]] = field(
        default_factory=dict, repr=False
    )
    _factors: dict[tuple[NoiseType, Question, float, float], float] = field(default_factory=dict, repr=False)

    def with_prices(self, share: Callable[[Event], Fraction]) -> Self:
        """Return a planner with the prices of one moment, and with all that was planned before."""
        return replace(self, shares=partial(map, share))

    def plan(self, questions: Iterable[Question], request: Request) -> PurchaseOrder:
        """Return the joint measurement of all questions that takes the smaller share, by Laplace or by normal noise.

        For a price, return the one with the smaller error among those within the maximum price of the call.
        """
        asked = tuple(questions)
        if len(asked) == 1:
            return self._once(asked[0], request)
        return self._planned_for(asked, request)

    def options(
        self, questions: Iterable[Question], request: Request, tolerances: tuple[float, ...] | None = None
    ) -> tuple[PurchaseOrder, ...]:
        """Return the measurement by each available noise law, for a given accuracy.

        Of one question, the tolerance of each block may be given, where it is known from its demands.
        """
        asked = tuple(questions)
        key = (asked, request)
        known = self._laws.get(key)
        if known is None:
            given: list[tuple[float, ...] | None] = [tolerances]
            limits = self._tolerances(asked, request) if tolerances is None else given
            known = self._for_accuracy(asked, limits, _stack_questions(asked), request)
            if len(self._laws) >= _CACHE_SIZE:
                self._laws.clear()
            self._laws[key] = known
        return known

    def by_account(
        self, question: Question, request: Request, tolerances: tuple[float, ...] | None, prices: PriceList
    ) -> list[AccountOption]:
        """Return the cheapest measurement of a question in each account that counts it, at the prices of one moment."""
        options = self.with_prices(prices.share).options((question,), request, tolerances)
        cheapest = []
        for price in price_functions(prices.shares, *[planned.event for planned in options]):
            cost, place = min((price(planned.event), place) for place, planned in enumerate(options))
            if math.isfinite(cost):
                cheapest.append(AccountOption(price, options[place], cost))
        return cheapest

    def _once(self, question: Question, request: Request) -> PurchaseOrder:
        """Return the plan of one question, cached, because a quote is usually followed by its question."""
        known = self._known.get((question, request))
        if known is None:
            known = self._planned_for((question,), request)
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            self._known[question, request] = known
        return known

    def _planned_for(self, asked: tuple[Question, ...], request: Request) -> PurchaseOrder:
        if request.epsilon is not None:
            query = _stack_questions(asked)
            _limit_work(asked)
            laws = payable_noises(self.budget)
            orders = self._price(query, [self._for_price(law, asked, query, request).noises for law in laws])
            fitting = [planned for planned in orders if planned.share <= request.max_price]
            if not fitting:  # refused either way: report the price nearest to the maximum of the call
                return min(orders, key=lambda planned: planned.share)
            return min(fitting, key=lambda planned: self._error(asked, planned, request))
        return min(self.accepted(asked, request), key=lambda planned: planned.share)

    def accepted(self, asked: tuple[Question, ...], request: Request) -> tuple[PurchaseOrder, ...]:
        """Return the measurements of which any may be made for a call: for an accuracy one by each noise law.

        Which of them is cheapest may change with what is spent, so an answer by any of them is told again.
        """
        if request.epsilon is not None:
            return (self.plan(asked, request),)
        if len(asked) == 1:  # a batch has a key as long as itself
            return self.options(asked, request)
        return self._for_accuracy(asked, self._tolerances(asked, request), _stack_questions(asked), request)

    def _tolerances(self, asked: tuple[Question, ...], request: Request) -> list[tuple[float, ...] | None]:
        """Return the tolerance of each block of each question, in steps; None for more than counts and sums.

        For a single total only its weight and unit matter, unless tolerances are given by column name; most questions
        of a batch share these, so their tolerance is computed once.
        """
        within = _requested_tolerance(request)
        known: dict[tuple[int, int, int | None, bool], tuple[float, ...]] = {}
        by_question: list[tuple[float, ...] | None] = []
        for question in asked:
            block = question.single_total
            if block is None or isinstance(within, ColumnTolerances):
                by_question.append(self._total_tolerances(question, question.total_columns, within))
                continue
            # All of them live as long as the question.
            same = (id(block.weight), id(block.unit), question.size, block.about_people)
            tolerances = known.get(same)
            if tolerances is None:
                tolerances = known[same] = self._total_tolerances(question, question.total_columns, within) or ()
            by_question.append(tolerances)
        return by_question

    def _total_tolerances(
        self, question: Question, columns: Sequence[AnswerColumn] | None, within: Wanted
    ) -> tuple[float, ...] | None:
        """Return the tolerance of each block, if each is shown unchanged in a column: its error is its noise."""
        if columns is None:
            return None
        tolerances = [resolve_tolerance(question, column, within, size=self.unit.size) for column in columns]
        return tuple(
            [tolerance / float(block.unit) for tolerance, block in zip(tolerances, question.query.blocks, strict=True)]
        )

    def _for_accuracy(
        self,
        asked: tuple[Question, ...],
        tolerances: list[tuple[float, ...] | None],
        query: Query,
        request: Request,
    ) -> tuple[PurchaseOrder, ...]:
        """Return by each noise law the measurement with the widest noise at which every column meets its tolerance."""
        _limit_work([question for question, limits in zip(asked, tolerances, strict=True) if limits is None])
        laws = payable_noises(self.budget)
        totals = widest_noises(
            laws, {tolerance for limits in tolerances if limits is not None for tolerance in limits}, request.confidence
        )
        options = []
        for law in laws:
            noises: list[Noise] = []
            for question, limits in zip(asked, tolerances, strict=True):
                noises += (
                    self._noises(law, question, request)
                    if limits is None
                    else [totals[law, tolerance] for tolerance in limits]
                )
            options.append(tuple(noises))
        orders = self._price(query, options)
        if isinstance(request.within, DefaultTolerance) and all(limits is None for limits in tolerances):
            return (min(orders, key=partial(self._rank, asked, request)),)  # their prices are alike
        return orders

    def _noises(self, law: NoiseType, question: Question, request: Request) -> tuple[Noise, ...]:
        """Return for each block the widest noise with which every column meets its tolerance.

        By default it is the noise that the default price buys: what an average needs to meet a tolerance depends on
        the rows of its group, and may be most of the budget or almost nothing.
        """
        if isinstance(request.within, DefaultTolerance):
            return self._noises_for_share(law, question, request.within.share)
        scales: Scales = {}
        for column, shape in question.noisy_columns:
            merge_scales(scales, self._scales(law, question, column, shape, request))
        return noises_within(law, scales, len(question.query.blocks))

    def _scales(
        self, law: NoiseType, question: Question, column: AnswerColumn, shape: Mapping[int, float], request: Request
    ) -> Scales:
        """Return the largest multiple of the column's scales that meets the tolerance."""
        tolerance = resolve_tolerance(question, column, _requested_tolerance(request), size=self.unit.size)
        subquestion = question.column_alone(column, tuple(shape))
        key = (law, subquestion, tolerance, request.confidence)
        factor = self._factors.get(key)
        if factor is None:
            factor = self._factor_within(
                law, subquestion, dict(enumerate(shape.values())), tolerance, request.confidence
            )
            if factor is None:
                least = noises_within(law, dict.fromkeys(range(len(shape)), float(SMALLEST_SCALE)), len(shape))
                raise ToleranceUnreachable(
                    column.name,
                    predict_error(
                        subquestion, least, confidence=request.confidence, rows=subquestion.size or self.unit.size
                    ),
                )
            if len(self._factors) >= _CACHE_SIZE:
                self._factors.clear()
            self._factors[key] = factor
        return {block: factor * relative for block, relative in shape.items()}

    def _factor_within(
        self, law: NoiseType, question: Question, shape: Mapping[int, float], tolerance: float, confidence: float
    ) -> float | None:
        def error(factor: float) -> float:
            noises = noises_within(law, {block: factor * relative for block, relative in shape.items()}, len(shape))
            return predict_error(question, noises, confidence=confidence, rows=question.size or self.unit.size)

        return largest_factor(error, tolerance, lower=float(SMALLEST_SCALE) / min(shape.values()))

    def _noises_for_share(self, law: NoiseType, question: Question, share: Fraction) -> tuple[Noise, ...]:
        """Return the noises with which a question takes nearly a share of an untouched budget.

        It takes more only if it would need noise beyond the largest scale, as squares of wide columns may; its price
        is then that of the largest scale.
        """
        scales, whole = self._shape(law, (question,), question.query), self.budget.filter()

        def measured(precision: float) -> Measurement:
            return make_measurement(law, {block: scale / precision for block, scale in scales.items()}, question.query)

        def taken(precision: float) -> float:
            spent = whole.charged(Spending(), measured(precision).event(self.unit))
            return math.sqrt(whole.share(spent))

        # Prices grow with the square of the precision, or slower.
        least_precision = max(scales.values()) / float(LARGEST_SCALE)
        best_precision = largest_factor(taken, math.sqrt(share), lower=least_precision)
        return measured(best_precision or least_precision).noises

    def _for_price(self, law: NoiseType, asked: tuple[Question, ...], query: Query, request: Request) -> Measurement:
        """Return the measurement at the given price."""
        scales = self._shape(law, asked, query)
        factor = self._factor(law, make_measurement(law, scales, query).event(self.unit), request)
        scales = {block: scale * factor for block, scale in scales.items()}
        if max(scales.values()) > LARGEST_SCALE:  # less noise would cost more than was allowed
            raise InvalidArgument("epsilon", str(request.epsilon), "write more: noise is drawn up to a scale of 10^12")
        return make_measurement(law, scales, query)

    def _shape(self, law: NoiseType, asked: tuple[Question, ...], query: Query) -> Scales:
        """Return the scales of all blocks relative to each other; columns cost the same before blocks are shared."""
        scales: Scales = {}
        start = 0
        for question in asked:
            if question.single_total is not None:
                scales[start] = unit_scale_cost(law.__name__, unit_sensitivity(question.query, self.unit))
            else:
                for _, shape in question.noisy_columns:
                    column_scales = {start + block: relative * len(shape) for block, relative in shape.items()}
                    merge_scales(scales, self._even(law, query, column_scales))
            start += len(question.query.blocks)
        return scales

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
        squared = event.mu_squared() if law is RoundedGaussian else None
        if squared is not None:
            return math.sqrt(float(squared) / float(gaussian_limit(price, self.budget.delta)))
        return math.sqrt(float(event.rho()) / float(zcdp_limit(price, self.budget.delta)))

    def _rank(self, asked: tuple[Question, ...], request: Request, planned: PurchaseOrder) -> tuple[float, float]:
        """Return the error of the first column, and the noise, which decides where the error is the public range."""
        block = next(iter(asked[0].noisy_columns[0][1]))
        return self._error(asked, planned, request), noise_variance(planned.measurement.noises[block])

    def _error(self, asked: tuple[Question, ...], planned: PurchaseOrder, request: Request) -> float:
        """Return the error of the first column, by which noise laws are compared."""
        column, shape = asked[0].noisy_columns[0]
        noises = tuple(planned.measurement.noises[block] for block in shape)
        subquestion = asked[0].column_alone(column, tuple(shape))
        return predict_error(
            subquestion, noises, confidence=request.confidence, rows=subquestion.size or self.unit.size
        )

    def _price(self, query: Query, options: Iterable[tuple[Noise, ...]]) -> tuple[PurchaseOrder, ...]:
        """Return the orders of a query, with the noises of each option."""
        moved = unit_sensitivity(query, self.unit) if len(query.blocks) == 1 else None
        measurements, events = [], []
        for noises in options:
            measurements.append(Measurement(query, noises))
            events.append(measurements[-1].event(self.unit, moved))
        return tuple(map(PurchaseOrder, measurements, events, self.shares(events)))


def _stack_questions(asked: tuple[Question, ...]) -> Query:
    return asked[0].query.stacked(*(question.query for question in asked[1:])) if len(asked) > 1 else asked[0].query


@lru_cache(maxsize=1 << 10)
def predict_error(question: Question, noises: tuple[Noise, ...], *, confidence: float, rows: int) -> float:
    """Return the half-width that a question with one column would show."""
    return predict_half_width(question, question.columns[0], noises, confidence=confidence, rows=rows)


def _limit_work(asked: Sequence[Question]) -> None:
    """Refuse more columns than can be planned in seconds; those that differ only in conditions are planned once."""
    kinds = {
        (
            renumber_blocks(column.expression, dict.fromkeys(shape, 0)),
            *(question.query.blocks[block].weight for block in shape),
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


def _requested_tolerance(request: Request) -> Wanted:
    if request.within is None:
        raise InvalidArgument("within", None, "write a tolerance such as 50 or '1%'")
    return request.within
