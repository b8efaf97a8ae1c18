"""Rows of an answer: which groups are shown, in which order, and with which cells.

HAVING, ORDER BY, OFFSET and LIMIT are evaluated on the noisy values. Rounding is for display only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dodona.answer.estimate import (
    Cell,
    Estimate,
    EstimateValue,
    KeyValue,
    Row,
    computed_values,
    moment_of,
    round_estimate,
)
from dodona.answer.labels import group_labels, key_labels, key_name, key_values, possible_groups
from dodona.answer.laws import DerivedValues, Evidence, half_widths
from dodona.answer.view import View, cell_failure_probability, half_width_in_steps, view_band
from dodona.errors import InvalidRequest
from dodona.privacy.accuracy import Against
from dodona.privacy.measurement import MeasuredValues
from dodona.query import question as asked
from dodona.query.column import COMPARATORS
from dodona.query.query import key_attributes, weight_range
from dodona.schema.attributes import MISSING, OUTSIDE, Boolean, Date, Integer, Label, Timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# --- Conditions and orders over the groups of an answer, evaluated on the noisy values. ---


Comparable = float | Fraction | str | date


def evaluate_condition(condition: asked.Expression, measured: Evidence, view: View) -> list[bool]:
    """Return for each group whether a condition holds; it does not hold for an unknown value."""
    match condition:
        case asked.Comparison(name, left, right):
            compare = COMPARATORS[name]
            pairs = zip(_point_values(left, measured, view), _point_values(right, measured, view), strict=True)
            return [a is not None and b is not None and _compare(compare, name, a, b) for a, b in pairs]
        case asked.Logic("not", (part,)):
            return [not truth for truth in evaluate_condition(part, measured, view)]
        case asked.Logic(name, parts):
            every = zip(*(evaluate_condition(part, measured, view) for part in parts), strict=True)
            return [all(truths) if name == "and" else any(truths) for truths in every]
        case _:
            raise InvalidRequest("A condition compares two values; write one of = <> < <= > >= between them.")


def sort_values(expression: asked.Expression, measured: Evidence, view: View) -> list[Any]:
    """Return the sort value of each group; None if it is unknown.

    Groups are in the order of their labels' declaration, so a key sorts by the group's position.
    """
    if isinstance(expression, asked.KeyLabel):
        return _places(expression, measured)
    if isinstance(expression, asked.Comparison | asked.Logic):
        return list(evaluate_condition(expression, measured, view))
    return list(_point_values(expression, measured, view))


def _places(key: asked.KeyLabel, measured: Evidence) -> list[int | None]:
    """Return the position of each group's label within its key; None for `<missing>`, as NULLs come last."""
    labels = group_labels(measured.question, key)
    places: dict[object, int] = {}
    # Declared labels are in the order of their declaration; computed ones have the order of their values.
    ordered = labels if key.labels is None else sorted(key.labels, key=lambda label: (isinstance(label, str), label))
    for label in ordered:
        places.setdefault((type(label), label), len(places))
    return [None if label == MISSING else places[type(label), label] for label in labels]


def _point_values(expression: asked.Expression, measured: Evidence, view: View) -> list[Comparable | None]:
    match expression:
        case asked.LiteralExpression(value):
            return [value] * measured.groups
        case asked.KeyLabel():
            labels = group_labels(measured.question, expression)
            return [None if label == MISSING else label for label in labels]
        case _:
            numbers = view_band(expression, measured, replace(view, draws=None)).value.tolist()
            return [None if number != number else number for number in numbers]  # noqa: PLR0124  NaN


def _compare(compare: Callable[[Any, Any], bool], name: str, left: Comparable, right: Comparable) -> bool:
    """Return a comparison; a date is compared with its text, and a text differs from every number."""
    if isinstance(left, date) != isinstance(right, date):
        left, right = str(left), str(right)
    if isinstance(left, str) != isinstance(right, str):
        return name == "<>"
    return compare(left, right)


# --- The rows of an answer: which groups are shown, in which order, and with which cells. ---


def displayed_columns(question: asked.Question) -> tuple[asked.AnswerColumn, ...]:
    """Return the displayed columns: those of the question, preceded by the keys if it names none of them."""
    if not question.keys or any(isinstance(column.expression, asked.KeyLabel) for column in question.columns):
        return question.columns
    names = enumerate(map(key_name, question.keys))
    keys = (asked.AnswerColumn(name, asked.KeyLabel(number)) for number, name in names)
    return (*keys, *question.columns)


def key_order(question: asked.Question) -> tuple[int, ...]:
    """Return the indices of the keys in display order; hidden keys come last."""
    named = (column.expression.key for column in question.columns if isinstance(column.expression, asked.KeyLabel))
    return tuple(dict.fromkeys((*named, *range(len(question.keys)))))


def key_columns(question: asked.Question) -> tuple[tuple[asked.KeyLabel, asked.ReadAs], ...]:
    """Return what rows have as keys: each function of a key that a column shows, in order, then hidden keys.

    Several columns may show one key in different ways, as date_trunc('year', d) and year(d) do.
    """
    labels: dict[tuple[asked.KeyLabel, asked.ReadAs], None] = {}
    for column in question.columns:
        if isinstance(column.expression, asked.KeyLabel):
            labels[column.expression, column.read_as] = None
    named = {shown.key for shown, _ in labels}
    hidden: Iterable[tuple[asked.KeyLabel, asked.ReadAs]] = (
        (asked.KeyLabel(key), "value") for key in range(len(question.keys)) if key not in named
    )
    return (*labels, *hidden)


def groups_in_order(question: asked.Question, order: tuple[int, ...]) -> Sequence[int]:
    """Return the groups that WHERE allows, in row-major order of the keys as displayed."""
    shape = [key.groups for key in question.keys]
    count = math.prod(shape)
    if order == tuple(range(len(order))):
        groups: Sequence[int] = range(count)
    else:
        groups = np.arange(count).reshape(shape).transpose(order).reshape(-1).tolist()
    possible = possible_groups(question)
    if possible is None:
        return groups
    left = frozenset(possible)
    return [group for group in groups if group in left]


def make_rows(measured: Evidence, view: View) -> tuple[Row, ...]:
    """Return the rows of groups that WHERE allows; HAVING, ORDER BY, OFFSET and LIMIT use the noisy values.

    Ties keep the groups' order.
    """
    question = measured.question
    keys = key_order(question)
    chosen = groups_in_order(question, keys)
    if question.having is not None:
        kept = evaluate_condition(question.having, measured, view)
        chosen = [group for group in chosen if kept[group]]
    for order in reversed(question.order):
        place = sort_values(order.expression, measured, view)
        # Sorting is stable in both directions; unknown values come last.
        ranks = {group: place[group] for group in chosen if place[group] is not None}
        known = sorted(ranks, key=ranks.__getitem__, reverse=order.descending)
        chosen = [*known, *(group for group in chosen if group not in ranks)]
    last = None if question.limit is None else question.offset + question.limit
    chosen = chosen[question.offset : last]
    labels, values = _group_keys(question, chosen)
    columns = [_cells(column.expression, measured, view, chosen) for column in displayed_columns(question)]
    return tuple(map(Row, labels, zip(*columns, strict=True), values))


def selects_by_noise(question: asked.Question) -> bool:
    """Return whether noisy values decide which groups are shown: HAVING, or LIMIT after sorting by them."""
    if question.having is not None and _reads_noise(question.having):
        return True
    cut = question.offset > 0 or question.limit is not None
    if not cut or not any(_reads_noise(order.expression) for order in question.order):
        return False
    groups = len(groups_in_order(question, key_order(question)))
    return question.offset > 0 or (question.limit is not None and question.limit < groups)


def _reads_noise(expression: asked.Expression) -> bool:
    match expression:
        case asked.Comparison(_, left, right):
            return _reads_noise(left) or _reads_noise(right)
        case asked.Logic(_, parts):
            return any(map(_reads_noise, parts))
        case _:
            return not isinstance(expression, asked.KeyLabel | asked.LiteralExpression | asked.PublicValue)


def null_keys_note(question: asked.Question, rows: Iterable[Row]) -> tuple[str, ...]:
    """Return a note if two rows differ in `<missing>` and `<outside>` alone, which are both NULL where keys have types.

    It says which key tells them apart, in every door.
    """
    seen: dict[tuple[KeyValue, ...], tuple[Label, ...]] = {}
    for row in rows:
        before = seen.setdefault(row.values, row.keys)
        if before == row.keys:
            continue
        place = next(place for place, pair in enumerate(zip(before, row.keys, strict=True)) if len({*pair}) > 1)
        names = sorted(key_attributes(question.keys[key_columns(question)[place][0].key]))
        whose, column = (f" of `{names[0]}`", names[0]) if len(names) == 1 else ("", "column")
        two = f"{MISSING} and {OUTSIDE}{whose} are two rows with NULL"
        return (f"Where keys have types, {two}. A further key, {column} = '{OUTSIDE}', tells them apart.",)
    return ()


def group_values(question: asked.Question) -> list[tuple[KeyValue, ...]]:
    """Return the typed keys of the groups that WHERE allows, in order: all of it is public."""
    return list(_group_keys(question, groups_in_order(question, key_order(question)))[1])


def _group_keys(
    question: asked.Question, chosen: Sequence[int]
) -> tuple[Iterable[tuple[Label, ...]], Iterable[tuple[KeyValue, ...]]]:
    """Return the labels of the displayed groups, and their typed values."""
    if not question.keys:
        return ((),) * len(chosen), ((),) * len(chosen)
    codes = np.unravel_index(np.asarray(chosen, dtype=np.int64), [key.groups for key in question.keys])
    labels, values = [], []
    for shown, read_as in key_columns(question):
        key, places = question.keys[shown.key], codes[shown.key].tolist()
        names = shown.labels or key_labels(key, question.domain)
        typed = computed_values(shown.labels) if shown.labels else key_values(key, question.domain, read_as)
        labels.append([names[place] for place in places])
        values.append([typed[place] for place in places])
    return zip(*labels, strict=True), zip(*values, strict=True)


def _cells(expression: asked.Expression, measured: Evidence, view: View, chosen: Sequence[int]) -> list[Cell]:
    """Return the cells of a column for the displayed groups."""
    plain = view.against is Against.TABLE and view.draws is None
    match expression:
        case asked.KeyLabel():
            labels = group_labels(measured.question, expression)
            return [labels[group] for group in chosen]
        case asked.LiteralExpression(value):
            return [value for _ in chosen]
        case asked.Comparison() | asked.Logic():
            truths = evaluate_condition(expression, measured, view)
            return [truths[group] for group in chosen]
        case asked.Total(block) if plain and isinstance(measured, MeasuredValues):
            unit, steps = measured.question.query.blocks[block].unit, measured.steps(block)
            within = half_width_in_steps(block, measured, view)
            middle = [steps[group] for group in chosen]
            if unit == 1:
                cells = [Estimate(value, value - within, value + within) for value in middle]
            else:
                exact = [(unit * value, unit * (value - within), unit * (value + within)) for value in middle]
                cells = [Estimate(*(int(end) if end.denominator == 1 else end for end in ends)) for ends in exact]
        case asked.Total(block) if plain and isinstance(measured, DerivedValues):
            cells = _derived_cells(block, measured, view, chosen)
        case asked.PublicValue(_, absent) if absent:
            known = replace(expression, absent=frozenset())
            return [
                None if group in absent else cell
                for group, cell in zip(chosen, _cells(known, measured, view, chosen), strict=True)
            ]
        case _:
            band = view_band(expression, measured, view)
            typed = _number_converter(expression, measured)
            cells = [
                Estimate(
                    None if np.isnan(band.value[group]) else typed(band.value[group].item()),
                    typed(band.low[group].item()),
                    typed(band.high[group].item()),
                )
                for group in chosen
            ]
    if not view.rounded:
        return list(cells)
    return [round_estimate(cell, least=lower_bound(expression, measured.question)) for cell in cells]


def _derived_cells(block: int, derived: DerivedValues, view: View, chosen: Sequence[int]) -> list[Estimate]:
    """Return derived counts or sums, each with the half-width of its error law."""
    unit, values = float(derived.question.query.blocks[block].unit), derived.parts[block]
    within = half_widths(derived, block, cell_failure_probability(view, derived))
    each = within.tolist() if isinstance(within, np.ndarray) else [within] * len(values)
    pairs = [(float(values[group]), each[group]) for group in chosen]
    return [Estimate(unit * value, unit * (value - wide), unit * (value + wide)) for value, wide in pairs]


def _number_converter(expression: asked.Expression, measured: Evidence) -> Callable[[float], EstimateValue]:
    """Return the output conversion of a column's numbers: a quantile is one of the column's values."""
    if not isinstance(expression, asked.Quantile):
        return float
    match measured.question.domain[expression.attribute]:
        case Date():
            return lambda number: date.fromordinal(round(number))
        case Timestamp():
            return moment_of
        case Integer() | Boolean():
            return round
        case _:
            return float


def lower_bound(expression: asked.Expression, question: asked.Question) -> float:
    """Return the lower bound of a count or sum that holds for any rows."""
    blocks = question.query.blocks
    rising = isinstance(expression, asked.Total) and weight_range(blocks[expression.block].weight)[0] >= 0
    return 0.0 if rising else -math.inf
