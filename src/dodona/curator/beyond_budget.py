"""Questions that the budget cannot buy: the best accuracy that still fits, or a guess of the model, marked as such."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.laws import ModelLaw, make_derived_values
from dodona.curator.desk import AffordableRequest
from dodona.curator.lookup import Found, Origin
from dodona.curator.predictions import ModelTracker
from dodona.curator.request import AfterBudget, ColumnTolerances, DefaultTolerance, Request, Tolerance, Wanted
from dodona.errors import Refused
from dodona.knowledge.bounds import bound_answers, ranges_within_noise
from dodona.knowledge.cells import Contradiction, TooManyCells
from dodona.knowledge.knowledge import Knowledge, LearnedBlock, LearnedMarginal, has_constant_weight
from dodona.knowledge.patterns import BlockMeasurement, noise_variance
from dodona.numbers import format_percent
from dodona.query.predicate import And, Predicate
from dodona.query.query import Block, Query, weight_range
from dodona.query.question import KeyLabel, Question, Total

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.knowledge.model import PredictionModel


# --- The possible range of a count that was not bought, given earlier answers. It touches no data. ---


Ends = tuple[float, float]
"""The least and the largest that a value can be."""
_MOST_FACTS = 24
_MOST_CELLS = 1 << 10  # beyond this, computing the range takes longer than a guess is worth
_MOST_VALUES = 32


def learned_about(
    query: Query, learned: Iterable[LearnedBlock | LearnedMarginal]
) -> list[LearnedBlock | LearnedMarginal]:
    """Return the releases that involve only columns of a query."""
    names = {name for block in query.blocks for name in block.attributes}
    return [release for release in learned if _names(release) <= names]


def possible_range(query: Query, knowledge: Knowledge, failing: float) -> list[Ends] | None:
    """Return the least and greatest possible value of each answer of a block, given the releases about its columns.

    All released values are within their noise bounds simultaneously, except with probability `failing`. So the ranges
    hold for all questions together, however they were chosen. None if the computation would be too large.

    Theorem: public-bounds
    """
    (block,) = query.blocks
    if block.values > _MOST_VALUES:
        return None
    every = sum(release.block.values for release in knowledge.learned if isinstance(release, LearnedBlock))
    known = [release for release in learned_about(query, knowledge.learned) if isinstance(release, LearnedBlock)]
    facts = _nearest(block, [release for release in known if release.block.values <= _MOST_VALUES])
    rows, total = knowledge.rows, None
    if rows is not None and rows.noise is None:
        total = round(rows.value)
    number = min(len(facts), _MOST_FACTS)
    while number > 0 or total is not None:
        chosen = [BlockMeasurement(fact.block, fact.values, fact.noise, fact.receipt) for fact in facts[:number]]
        drawn = sum(measurement.block.values for measurement in chosen)
        try:
            ranges = ranges_within_noise(chosen, confidence=1 - failing * drawn / every) if chosen else ()
            bounds = bound_answers(query, ranges, total=total, limit=_MOST_CELLS)
        except Contradiction:  # some noise exceeded its bound
            return None
        except TooManyCells:
            if number == 0:
                return None
            number //= 2
            continue
        return [(_end(bound.low, -math.inf), _end(bound.high, math.inf)) for bound in bounds]
    return None


def _nearest(block: Block, facts: Sequence[LearnedBlock]) -> list[LearnedBlock]:
    """Return the facts built from the conditions of a block first, those with more conditions before others."""
    parts = frozenset(_parts(block))

    def key(release: LearnedBlock) -> tuple[bool, int, float]:
        conditions = _parts(release.block)
        return not parts.issuperset(conditions), -len(conditions), noise_variance(release.noise)

    return sorted(facts, key=key)


def _parts(block: Block) -> tuple[Predicate, ...]:
    return block.where.parts if isinstance(block.where, And) else (block.where,)


def _names(release: LearnedBlock | LearnedMarginal) -> frozenset[str]:
    return (
        release.block.attributes
        if isinstance(release, LearnedBlock)
        else frozenset(classes.attribute for classes in release.classes)
    )


def _end(value: Fraction | None, otherwise: float) -> float:
    return otherwise if value is None else float(value)


# --- Beyond the budget: what could still be bought, and the model's guesses if the owner allows them. ---


_TRIES = 24
_NEAR, _FULL, _ABOVE = 1.005, 0.97, 1.004
_HUNDRED = 100.0


@dataclass(frozen=True, slots=True)
class BeyondBudget:
    """The options for questions that the budget cannot buy."""

    tracker: ModelTracker

    def guesses(self, questions: Sequence[Question], failing: float) -> list[Found] | None:
        """Return the model's guesses, marked as such; None if one question has none. Nothing is charged."""
        with self.tracker.lock:
            guesses = [self._guess(question, failing) for question in questions]
        known = [held for held in guesses if held is not None]
        return known if len(known) == len(guesses) else None

    def _guess(self, question: Question, failing: float) -> Found | None:
        """Return the model's guess of counts and sums, with an error estimate or bound.

        The estimate is its past error on questions of this kind; the bound is the range that earlier answers leave.

        Theorem: public-bounds
        """
        expressions = [column.expression for column in question.columns]
        if (
            not all(isinstance(expression, Total | KeyLabel) for expression in expressions)
            or question.having
            or question.order
        ):
            return None
        if any(not isinstance(column.expression, Total) for column, _ in question.noisy_columns):
            return None
        if any(block.about_people for block in question.query.blocks):
            return None
        model, rows = self.tracker.follow(), self.tracker.rows
        if model.predict(question.query, rows) is None:  # splits all classes that are needed, once
            model = self._narrow(question.query)
            if model.predict(question.query, rows) is None:
                return None
        values: list[NDArray[np.float64]] = []
        laws: list[ModelLaw | tuple[ModelLaw, ...]] = []
        for place, block in enumerate(question.query.blocks):
            part = question.query.part(place)
            predicted = model.predict(part, rows)
            if predicted is None or (has_constant_weight(block) and self.tracker.counted is None):
                return None  # the number of rows is only declared until it is released
            low, high = weight_range(block.weight)
            weight = max(abs(low), abs(high), high - low)
            if has_constant_weight(block) and self.tracker.counted is not None:
                values.append(predicted)
                laws.append(ModelLaw(math.sqrt(self.tracker.counted.variance) * weight))
                continue
            deviation = self.tracker.hindsight.deviation(self.tracker.kind(part)) * weight
            known = possible_range(part, self.tracker.memory.knowledge, failing)
            ends = [(-math.inf, math.inf)] * block.values if known is None else known
            value = np.array(
                [
                    min(max(float(prediction), least), most)
                    for prediction, (least, most) in zip(predicted, ends, strict=True)
                ]
            )
            away = [max(most - guess, guess - least) for guess, (least, most) in zip(value.tolist(), ends, strict=True)]
            values.append(value)
            laws.append(tuple(ModelLaw(deviation, distance, failing, rows * weight / 2) for distance in away))
        return Found(make_derived_values(question, values, laws), Origin("model", None))

    def _narrow(self, query: Query) -> PredictionModel:
        """Return a model of the columns of a query alone: the model of all columns may have too many cells."""
        from dodona.knowledge.model import PredictionModel

        knowledge, rows = self.tracker.memory.knowledge, self.tracker.rows
        model = PredictionModel(knowledge.domain)
        for release in learned_about(query, knowledge.learned):
            if isinstance(release, LearnedBlock) and release.single:
                if release.block.attributes:
                    model.take(release.block, release.values[0] / rows, math.sqrt(noise_variance(release.noise)) / rows)
            else:
                model.take_table(release, knowledge.residuals, rows)
        return model


def best_affordable(
    price: Callable[[Request], Fraction], request: Request, most: Fraction, *, pure: bool
) -> AffordableRequest | None:
    """Return nearly the best accuracy, or for a price nearly the largest one, that costs at most a share of the budget.

    None if nothing fits. Prices fall with the tolerance or its square, so a few proportional steps come close;
    each step may have to plan thousands of questions.
    """
    if most <= 0:
        return None
    if isinstance(request.within, DefaultTolerance):
        request = replace(request, within=request.within.rows)
    best: AffordableRequest | None = None
    fails, fits, factor = 1.0, math.inf, 1.0
    for _ in range(_TRIES):
        wish, share = _reduce_request(request, factor), None
        try:
            share = None if wish is None else price(wish)
            met = share is None or share <= most  # a tolerance wider than all rows needs no measurement
        except Refused:  # no available noise is that small
            met = False
        if met:
            fits = min(fits, factor)
            best = _affordable_request(wish, share) or best
        else:
            fails = max(fails, factor)
        if fits < fails * _NEAR or (best is not None and share is not None and most * _FULL <= share <= most):
            break
        guess = math.nan
        if share is not None and share > 0:
            guess = factor * float(share / most) ** (1.0 if pure else 0.5) * _ABOVE
        if not fails < guess < fits:
            guess = math.sqrt(fails * fits) if math.isfinite(fits) else 2 * fails
        factor = guess
    return best


def _reduce_request(request: Request, factor: float) -> Request | None:
    """Return a less demanding request; None if its tolerance exceeds all rows."""
    if request.epsilon is not None:
        return replace(request, epsilon=Fraction(f"{float(request.epsilon) / factor:.2e}"))
    wider = None if request.within is None else _widen_tolerances(request.within, factor)
    return None if wider is None else replace(request, within=wider)


def _affordable_request(wish: Request | None, share: Fraction | None) -> AffordableRequest | None:
    if wish is None or share is None:
        return None
    if wish.epsilon is not None:
        return AffordableRequest(f"epsilon {float(wish.epsilon):g}", f'epsilon="{float(wish.epsilon):g}"', share)
    if wish.within is None:
        return None
    spelled = _tolerance_text(wish.within)
    plain = spelled if isinstance(wish.within, ColumnTolerances) else spelled.replace(",", "")
    return AffordableRequest(
        f"within {spelled}", f'within="{plain}"' if isinstance(wish.within, str) else f"within={plain}", share
    )


def explain_options(left: Fraction, questions: int, *, dear: bool, best: str | None, after: AfterBudget) -> str:
    """Return the remaining budget, and how more expensive questions are handled, in words."""
    several = "" if questions == 1 else f" for {questions} questions together"
    said = f"You have {format_percent(left)} of the budget left{several}"
    if not dear:
        return f"{said}."
    cheaper = "Ask for less accuracy." if best is None else f"The best that is left is {best}."
    if after == "model":
        return f"{said}: the model would guess it, without a guarantee. {cheaper}"
    return f"{said}: it would be refused. {cheaper}"


def _widen_tolerances(within: Wanted, factor: float) -> Tolerance | ColumnTolerances | None:
    """Return a tolerance times a factor; None if it exceeds all rows."""
    if isinstance(within, ColumnTolerances):
        parts = [(key, _scale_tolerance(tolerance, factor)) for key, tolerance in within.parts]
        if all(tolerance is None for _, tolerance in parts):
            return None
        return ColumnTolerances(tuple((key, "100%" if tolerance is None else tolerance) for key, tolerance in parts))
    return _scale_tolerance(within.rows if isinstance(within, DefaultTolerance) else within, factor)


def _scale_tolerance(within: Tolerance, factor: float) -> Tolerance | None:
    if not isinstance(within, str):
        unit = 10.0 ** (math.floor(math.log10(within * factor)) - 2)  # three digits, rounded up
        return math.ceil(within * factor / unit) * unit
    part = float(within.strip().removesuffix("%")) * factor
    return None if part > _HUNDRED else f"{Decimal(f'{part:.4g}'):f}%"


def _tolerance_text(within: Wanted) -> str:
    if isinstance(within, DefaultTolerance):
        return within.rows
    if isinstance(within, ColumnTolerances):
        return str(within.written)
    return within if isinstance(within, str) else f"{within:,.6g}"
