"""Evaluation: for each group, what an expression is and the interval that holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from fractions import Fraction
from typing import assert_never

import numpy as np

from dodona.answer.band import Band, combined
from dodona.answer.derived import Derived, Evidence
from dodona.answer.form import form_band, form_of
from dodona.answer.labels import labels_of
from dodona.answer.measured import Measured
from dodona.answer.quotient import quotient
from dodona.answer.rank import quantile_band
from dodona.answer.ratio import unbounded
from dodona.answer.spread import mean_band, variation_band
from dodona.domain.attribute import grid
from dodona.errors import InvalidRequest, InvariantBroken
from dodona.query.expression import (
    Arithmetic,
    Certain,
    Comparison,
    Expression,
    KeyOf,
    Literal,
    Logic,
    Mean,
    Quantile,
    Total,
    Variation,
)


def evaluate(expression: Expression, measured: Evidence, failing: float) -> Band:
    """Return an expression's values and intervals, each of which fails with probability at most `failing`.

    A form that is linear in what was measured has the exact law of its noise; a ratio of two has a test inverted; any
    other expression is computed from intervals of its pieces that hold together. Of a combination of what was told
    before all forms but multiples of one block are such expressions, as its blocks are not independent.

    Theorem: sum-of-noises, honest-ratio
    """
    pieces = list(dict.fromkeys(_pieces(expression, measured)))
    each = failing / max(len(pieces), 1)
    return _joined(expression, measured, {piece: _piece(piece, measured, each) for piece in pieces})


def _pieces(expression: Expression, measured: Evidence) -> Iterator[Expression]:
    """Yield the parts of an expression that have intervals of their own; numbers and labels are known."""
    match expression:
        case Literal() | Certain() | KeyOf():
            return
        case Total() | Mean() | Variation() | Quantile():
            yield expression
        case Arithmetic(_, left, right):
            if _has_law(expression, measured):
                yield expression
            else:
                yield from _pieces(left, measured)
                yield from _pieces(right, measured)
        case Comparison() | Logic():
            return
        case _:
            assert_never(expression)


def _has_law(expression: Arithmetic, measured: Evidence) -> bool:
    """Whether the law of an expression's noise is known."""
    form = form_of(expression, measured.question.query)
    if isinstance(measured, Derived):
        return form is not None and len(form.factors) <= 1
    return form is not None or quotient(expression, measured) is not None


def _piece(expression: Expression, measured: Evidence, failing: float) -> Band:
    if isinstance(measured, Derived):
        form = form_of(expression, measured.question.query)
        if form is None:
            raise InvariantBroken(f"{type(expression).__name__} does not follow from numbers that were told before.")
        return form_band(form, measured, failing)
    match expression:
        case Mean():
            return mean_band(expression, measured, failing)
        case Variation():
            return variation_band(expression, measured, failing)
        case Quantile():
            return in_units(expression, measured, quantile_band(expression, measured, failing))
        case _:
            form = form_of(expression, measured.question.query)
            if form is not None:
                return form_band(form, measured, failing)
            ratio = quotient(expression, measured)
            if ratio is None:
                raise InvalidRequest(f"{type(expression).__name__} has no interval of its own.")
            return unbounded(ratio, failing=failing)


def _joined(expression: Expression, measured: Evidence, known: Mapping[Expression, Band]) -> Band:
    """Return the band of an expression from those of its pieces."""
    found = known.get(expression)
    if found is not None:
        return found
    match expression:
        case Literal(Fraction() as number) | Certain(number):
            return Band.constant(float(number), measured.groups)
        case KeyOf(key):
            return _numbers([labels[key] for labels in labels_of(measured.question)])
        case Arithmetic(operator, left, right):
            return combined(operator, _joined(left, measured, known), _joined(right, measured, known))
        case _:
            raise InvalidRequest("Arithmetic takes numbers and aggregates; a text or a condition is neither.")


def _numbers(labels: list[object]) -> Band:
    """Return labels as numbers; one that is none, such as `<missing>`, is not known."""
    found = np.asarray([float(x) if isinstance(x, int | Fraction) else np.nan for x in labels], dtype=np.float64)
    lost = np.isnan(found)
    return Band(found, np.where(lost, -np.inf, found), np.where(lost, np.inf, found))


def in_units(quantile: Quantile, measured: Measured, codes: Band) -> Band:
    """Return a band of codes in the column's own unit; dates count their days."""
    attribute = measured.question.query.domain[quantile.attribute]
    found, step = grid(attribute), step_of(quantile, measured)
    if found is not None:
        lower = float(found[0])
    else:
        first = getattr(attribute, "lower", None)
        lower = float(first.toordinal()) if isinstance(first, date) else 0.0
    return Band(lower + step * codes.value, lower + step * codes.low, lower + step * codes.high)


def step_of(quantile: Quantile, measured: Measured) -> float:
    """Return what a code is worth in the column's own unit: a day for dates."""
    found = grid(measured.question.query.domain[quantile.attribute])
    return 1.0 if found is None else float(found[1])
