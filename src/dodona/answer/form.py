"""Linear forms: expressions that are sums of multiples of measured blocks, whose error has an exact law."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.band import Band
from dodona.answer.derived import Derived, Evidence, widths
from dodona.answer.law import Term, upper_quantile
from dodona.errors import InvariantBroken
from dodona.query.expression import Arithmetic, Certain, Expression, Literal, Total
from dodona.query.query import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Form:
    """constant + Σ factor · steps of a block, by the block's number."""

    factors: tuple[tuple[int, Fraction], ...]
    constant: Fraction = Fraction(0)

    def plus(self, other: Form, times: Fraction) -> Form:
        """Return this form and a multiple of another one together."""
        found = dict(self.factors)
        for block, factor in other.factors:
            found[block] = found.get(block, Fraction(0)) + times * factor
        kept = tuple((block, factor) for block, factor in sorted(found.items()) if factor != 0)
        return Form(kept, self.constant + times * other.constant)

    def times(self, number: Fraction) -> Form:
        """Return a multiple of this form."""
        return Form((), Fraction(0)).plus(self, number)


def form_of(expression: Expression, query: Query) -> Form | None:
    """Return the linear form that an expression is, None where it is none."""
    match expression:
        case Literal(Fraction() as number) | Certain(number):
            return Form((), number)
        case Total(block):
            return Form(((block, query.blocks[block].unit),))
        case Arithmetic(operator, left, right):
            first, second = form_of(left, query), form_of(right, query)
            return None if first is None or second is None else _joined(operator, first, second)
        case _:
            return None


def _joined(operator: str, left: Form, right: Form) -> Form | None:
    match operator:
        case "+":
            return left.plus(right, Fraction(1))
        case "-":
            return left.plus(right, Fraction(-1))
        case "*":
            if not right.factors:
                return left.times(right.constant)
            return None if left.factors else right.times(left.constant)
        case _:
            return None if right.factors or right.constant == 0 else left.times(1 / right.constant)


def form_band(form: Form, measured: Evidence, failing: float) -> Band:
    """Return a form's values, with intervals from the law of the sum of its noises.

    Theorem: sum-of-noises
    """
    value, within = form_values(form, measured), form_width(form, measured, failing)
    return Band(value, value - within, value + within)


def form_values(form: Form, measured: Evidence) -> NDArray[np.float64]:
    """Return a form's noisy value for each group."""
    value: NDArray[np.float64] = np.full(measured.groups, float(form.constant))
    for block, factor in form.factors:
        value = value + float(factor) * measured.numbers(block)[:, 0]
    return value


def form_width(form: Form, measured: Evidence, failing: float) -> float | NDArray[np.float64]:
    """Return how far off a form may be: for all groups, or for each."""
    match form.factors:
        case ():
            return 0.0
        case ((block, factor),):
            return float(abs(factor)) * widths(measured, block, failing)
        case _ if isinstance(measured, Derived):
            raise InvariantBroken("The errors of blocks that follow from the same numbers are not independent.")
        case _:
            # What all factors share is taken out, so that sums of counts stay on the grid of whole numbers.
            shared = min(abs(factor) for _, factor in form.factors)
            terms = tuple(Term.of(float(factor / shared), measured.noises[block]) for block, factor in form.factors)
            return float(shared) * upper_quantile(terms, failing / 2)
