"""Conditions and orders over the groups of an answer, read from the noisy values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any

from dodona.answer.derived import Evidence
from dodona.answer.labels import labels_of
from dodona.answer.view import View, band_of
from dodona.domain.attribute import MISSING
from dodona.errors import InvalidRequest
from dodona.query.expression import Comparison, Expression, KeyOf, Literal, Logic

Comparable = float | Fraction | str | date
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(condition: Expression, measured: Evidence, view: View) -> list[bool]:
    """Return for each group whether a condition holds; one on a value that is not known does not."""
    match condition:
        case Comparison(name, left, right):
            compare = _OPERATORS[name]
            pairs = zip(_points(left, measured, view), _points(right, measured, view), strict=True)
            return [a is not None and b is not None and _compared(compare, name, a, b) for a, b in pairs]
        case Logic("not", (part,)):
            return [not truth for truth in holds(part, measured, view)]
        case Logic(name, parts):
            every = zip(*(holds(part, measured, view) for part in parts), strict=True)
            return [all(truths) if name == "and" else any(truths) for truths in every]
        case _:
            raise InvalidRequest("A condition compares two values; write one of = <> < <= > >= between them.")


def sorting(expression: Expression, measured: Evidence, view: View) -> list[Any]:
    """Return for each group what it is sorted by; None where nothing is known.

    Groups are in the order of their labels' declaration, so a key sorts by the group's own place.
    """
    if isinstance(expression, KeyOf):
        return _places(expression.key, measured)
    if isinstance(expression, Comparison | Logic):
        return list(holds(expression, measured, view))
    return list(_points(expression, measured, view))


def _places(key: int, measured: Evidence) -> list[int | None]:
    """Return the place of each group's label within its key; `<missing>` has none, as NULLs come last."""
    labels = [group[key] for group in labels_of(measured.question)]
    places: dict[object, int] = {}
    for label in labels:
        places.setdefault((type(label), label), len(places))
    return [None if label == MISSING else places[type(label), label] for label in labels]


def _points(expression: Expression, measured: Evidence, view: View) -> list[Comparable | None]:
    match expression:
        case Literal(value):
            return [value] * measured.groups
        case KeyOf(key):
            return [None if group[key] == MISSING else group[key] for group in labels_of(measured.question)]
        case _:
            numbers = band_of(expression, measured, replace(view, draws=None)).value.tolist()
            return [None if number != number else number for number in numbers]  # noqa: PLR0124  NaN


def _compared(compare: Callable[[Any, Any], bool], name: str, left: Comparable, right: Comparable) -> bool:
    """Return a comparison; a date is compared with the text of one, and a text differs from every number."""
    if isinstance(left, date) != isinstance(right, date):
        left, right = str(left), str(right)
    if isinstance(left, str) != isinstance(right, str):
        return name == "<>"
    return compare(left, right)
