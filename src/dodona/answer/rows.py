"""The rows of an answer: which groups are shown, in which order, with which cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.accuracy import Against
from dodona.answer.condition import holds, sorting
from dodona.answer.derived import Derived, Evidence, widths
from dodona.answer.digits import digits_for, outward
from dodona.answer.estimate import Estimate, Measure, as_number
from dodona.answer.labels import KeyValue, labels_of, labels_of_key, name_of, possible, values_of
from dodona.answer.measured import Measured
from dodona.answer.view import View, band_of, failing_of, steps_within
from dodona.domain.attribute import Boolean, Date, Integer, Label
from dodona.query.expression import Comparison, Expression, KeyOf, Literal, Logic, Quantile, Total
from dodona.query.predicate import EVERYTHING
from dodona.query.question import Column, Question, ReadAs
from dodona.query.weight import extremes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Cell = Estimate | Label
"""An estimate; or what is known beforehand: the label of a group, a number or a text that was written down."""


@dataclass(frozen=True, slots=True)
class Row:
    """One group: its labels in the order of SELECT, and a cell for each column that is shown."""

    keys: tuple[Label, ...]
    """As people read them; keys that are not shown come last."""
    cells: tuple[Cell, ...]
    values: tuple[KeyValue, ...]
    """The same keys for programs: texts, whole numbers, floats, truths and dates, and None for `<missing>`."""

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The cells that are estimates."""
        return tuple(cell for cell in self.cells if isinstance(cell, Estimate))


def shown_columns(question: Question) -> tuple[Column, ...]:
    """Return the columns that are shown: those of the question; behind the keys, where it names none of them."""
    if not question.keys or any(isinstance(column.expression, KeyOf) for column in question.columns):
        return question.columns
    return (*(Column(name_of(key), KeyOf(number)) for number, key in enumerate(question.keys)), *question.columns)


def key_order(question: Question) -> tuple[int, ...]:
    """Return the numbers of the keys in the order in which they are shown; those that are not come last."""
    named = (one.expression.key for one in question.columns if isinstance(one.expression, KeyOf))
    return tuple(dict.fromkeys((*named, *range(len(question.keys)))))


def read_as(question: Question) -> dict[int, ReadAs]:
    """Return how each key is told to programs: as the first column that shows it says."""
    found: dict[int, ReadAs] = dict.fromkeys(range(len(question.keys)), "value")
    for column in reversed(question.columns):
        if isinstance(column.expression, KeyOf):
            found[column.expression.key] = column.read_as
    return found


def _in_order(question: Question, order: tuple[int, ...]) -> Sequence[int]:
    """Return the groups that WHERE leaves, in row-major order of the keys as they are shown."""
    shape = [key.groups for key in question.keys]
    count = math.prod(shape)
    if order == tuple(range(len(order))):
        found: Sequence[int] = range(count)
    else:
        found = np.arange(count).reshape(shape).transpose(order).reshape(-1).tolist()
    if question.where == EVERYTHING:
        return found
    left = frozenset(possible(question))
    return [group for group in found if group in left]


def rows_of(measured: Evidence, view: View) -> tuple[Row, ...]:
    """Return the rows of groups that WHERE leaves: HAVING, ORDER BY, OFFSET and LIMIT are read from the noisy values.

    Ties are in the groups' order.
    """
    question = measured.question
    keys = key_order(question)
    chosen = _in_order(question, keys)
    if question.having is not None:
        kept = holds(question.having, measured, view)
        chosen = [group for group in chosen if kept[group]]
    for order in reversed(question.order):
        place = sorting(order.expression, measured, view)
        # Sorting is stable either way round; what has no value comes last.
        ranks = {group: place[group] for group in chosen if place[group] is not None}
        known = sorted(ranks, key=ranks.__getitem__, reverse=order.descending)
        chosen = [*known, *(group for group in chosen if group not in ranks)]
    last = None if question.limit is None else question.offset + question.limit
    chosen = chosen[question.offset : last]
    labels, values = _keys(question, keys, chosen)
    columns = [_cells(column.expression, measured, view, chosen) for column in shown_columns(question)]
    return tuple(map(Row, labels, zip(*columns, strict=True), values))


def _keys(
    question: Question, order: tuple[int, ...], chosen: Sequence[int]
) -> tuple[Iterable[tuple[Label, ...]], Iterable[tuple[KeyValue, ...]]]:
    """Return the labels of the groups that are shown, and what they stand for."""
    if not order:
        return ((),) * len(chosen), ((),) * len(chosen)
    domain, kinds = question.query.domain, read_as(question)
    codes = np.unravel_index(np.asarray(chosen, dtype=np.int64), [key.groups for key in question.keys])
    labels, values = [], []
    for number in order:
        key, places = question.keys[number], codes[number].tolist()
        names, typed = labels_of_key(key, domain), values_of(key, domain, kinds[number])
        labels.append([names[place] for place in places])
        values.append([typed[place] for place in places])
    return zip(*labels, strict=True), zip(*values, strict=True)


def _cells(expression: Expression, measured: Evidence, view: View, chosen: Sequence[int]) -> list[Cell]:
    """Return the cells of a column for the groups that are shown."""
    match expression:
        case KeyOf(key):
            labels = labels_of(measured.question)
            return [labels[group][key] for group in chosen]
        case Literal(value):
            return [value for _ in chosen]
        case Comparison() | Logic():
            truths = holds(expression, measured, view)
            return [truths[group] for group in chosen]
        case Total(block) if view.against is Against.TABLE and view.draws is None and isinstance(measured, Measured):
            unit, steps = measured.question.query.blocks[block].unit, measured.steps(block)
            within = steps_within(block, measured, view)
            middle = [steps[group] for group in chosen]
            if unit == 1:
                found = [Estimate(value, value - within, value + within) for value in middle]
            else:
                exact = [(unit * value, unit * (value - within), unit * (value + within)) for value in middle]
                found = [Estimate(*map(_plain, ends)) for ends in exact]
        case Total(block) if view.against is Against.TABLE and view.draws is None and isinstance(measured, Derived):
            found = _derived(block, measured, view, chosen)
        case _:
            band = band_of(expression, measured, view)
            typed = _type(expression, measured)
            found = [
                Estimate(
                    None if np.isnan(band.value[group]) else typed(band.value[group].item()),
                    typed(band.low[group].item()),
                    typed(band.high[group].item()),
                )
                for group in chosen
            ]
    return [_rounded(cell, least=_least(expression, measured)) for cell in found] if view.rounded else list(found)


def _derived(block: int, derived: Derived, view: View, chosen: Sequence[int]) -> list[Estimate]:
    """Return counts or sums that follow from numbers told before, each with the width of its own law."""
    unit, values = float(derived.question.query.blocks[block].unit), derived.parts[block]
    within = widths(derived, block, failing_of(view, derived))
    each = within.tolist() if isinstance(within, np.ndarray) else [within] * len(values)
    pairs = [(float(values[group]), each[group]) for group in chosen]
    return [Estimate(unit * value, unit * (value - wide), unit * (value + wide)) for value, wide in pairs]


def _plain(number: Fraction) -> int | Fraction:
    return number.numerator if number.denominator == 1 else number


def _type(expression: Expression, measured: Evidence) -> Callable[[float], Measure]:
    """Return how the numbers of a column are told: a quantile is one of the column's own values."""
    if not isinstance(expression, Quantile):
        return float
    match measured.question.query.domain[expression.attribute]:
        case Date():
            return lambda number: date.fromordinal(round(number))
        case Integer() | Boolean():
            return round
        case _:
            return float


def _least(expression: Expression, measured: Evidence) -> float:
    """Return what a count or sum cannot be below, whatever the rows are."""
    if isinstance(expression, Total) and extremes(measured.question.query.blocks[expression.block].weight)[0] >= 0:
        return 0.0
    return -math.inf


def _rounded(cell: Estimate, *, least: float) -> Estimate:
    """Return an estimate for the eye: no more digits than its error leaves, ends outward, no negative counts."""
    if cell.value is None or isinstance(cell.value, date) or math.isinf(cell.within):
        return cell
    low, high = outward(as_number(cell.low), as_number(cell.high), cell.within)
    whole = isinstance(cell.value, int)
    ends = [max(end, least) for end in (low, high)]
    value = max(as_number(cell.value) if whole else round(as_number(cell.value), digits_for(cell.within)), least)
    return Estimate(int(value), *map(int, ends)) if whole else Estimate(value, *ends)
