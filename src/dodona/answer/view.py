"""A view: how sure the intervals of an answer are to be, of what, and whether one by one or all at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dodona.accuracy import Against, failure
from dodona.answer.anychoice import Draws, any_choice_band, reach_of
from dodona.answer.band import Band
from dodona.answer.derived import Derived, Evidence
from dodona.answer.evaluation import evaluate
from dodona.answer.law import half_width
from dodona.answer.measured import Measured
from dodona.answer.population import population_band
from dodona.query.expression import Certain, Expression, KeyOf, Literal, Total


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Intervals for the table or for the population, each of them or all of them at the confidence."""

    confidence: float = 0.95
    against: Against = Against.TABLE
    together: bool = False
    rounded: bool = False
    size: int | None = None
    """How many rows there are about: public."""
    rows: int = 1
    """How many of them may be one person's."""
    draws: Draws | None = None
    """Of all that was told so far, where intervals are to hold for every question that could be asked of it."""


def failing_of(view: View, measured: Evidence) -> float:
    """Return how often the interval of one cell may fail, so that the view's promise holds.

    Noises of different groups, and of different blocks, are independent: so counts and sums share exactly, other
    columns of a group share by the union bound, and so does everything where the sample is in doubt as well, or where
    values follow from the same numbers.
    """
    failing = failure(view.confidence)
    if not view.together:
        return failing
    distinct = _distinct(measured)
    if view.against is Against.POPULATION or isinstance(measured, Derived):
        return failing / (measured.groups * len(distinct))
    if all(isinstance(expression, Total) for expression in distinct):
        return _share(failing, measured.groups * len(distinct))
    return _share(failing, measured.groups) / len(distinct)


def band_of(expression: Expression, measured: Evidence, view: View) -> Band:
    """Return an expression's values and intervals as a view wants them."""
    if view.draws is not None:
        return any_choice_band(expression, measured, reach_of(view.draws, failure(view.confidence)))
    failing = failing_of(view, measured)
    if view.against is Against.POPULATION:
        return population_band(expression, measured, failing=failing, size=view.size)
    return evaluate(expression, measured, failing)


def steps_within(block: int, measured: Measured, view: View) -> int:
    """Return how many steps a count or a sum may be off, against the table: the exact quantile of its noise."""
    distinct = _distinct(measured) if view.together else ()
    if view.together and all(isinstance(expression, Total) for expression in distinct):
        return half_width(measured.noises[block], failure(view.confidence), measured.groups * len(distinct))
    return half_width(measured.noises[block], failing_of(view, measured))


def _distinct(measured: Evidence) -> tuple[Expression, ...]:
    """Return the different expressions that are not known beforehand; at least one."""
    shown = (column.expression for column in measured.question.columns)
    found = dict.fromkeys(expression for expression in shown if not isinstance(expression, KeyOf | Literal | Certain))
    return tuple(found) or (Literal("nothing"),)


def _share(failing: float, answers: int) -> float:
    """Return how often one of independent answers may fail."""
    return -math.expm1(math.log1p(-failing) / answers)
