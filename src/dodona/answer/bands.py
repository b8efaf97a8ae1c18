"""Bands: a value and an interval for every group, as arrays, and interval arithmetic.

An expression that is a linear form of measured blocks gets its interval from the exact law of the combined noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dodona.answer.laws import DerivedValues, Evidence, NoiseTerm, half_widths, upper_quantile
from dodona.answer.sums import gaussian_sum_quantile
from dodona.errors import InvariantBroken
from dodona.numbers import Doubles
from dodona.query.query import Query
from dodona.query.question import Arithmetic, Expression, LiteralExpression, PublicValue, Total

# --- A band: a value and an interval for every group, as arrays; and interval arithmetic. ---


@dataclass(frozen=True, slots=True)
class Band:
    """Values and interval ends, one of each per group. NaN marks an unknown value."""

    value: Doubles
    low: Doubles
    high: Doubles

    def __post_init__(self) -> None:
        """Extend each interval to its value, which rounding may leave outside when ends are shifted or scaled."""
        object.__setattr__(self, "low", np.fmin(self.low, self.value))
        object.__setattr__(self, "high", np.fmax(self.high, self.value))

    @classmethod
    def constant(cls, number: float, groups: int) -> Band:
        """Return the band of a known number."""
        values = np.full(groups, number, dtype=np.float64)
        return cls(values, values, values)

    @classmethod
    def public(cls, known: LiteralExpression | PublicValue, groups: int) -> Band:
        """Return the band of a number that follows from the question; it is unknown where no row can have a value.

        A prediction imagines fewer groups than the question has.
        """
        value = np.full(groups, float(known.value), dtype=np.float64)
        low, high = value.copy(), value.copy()
        absent = known.absent if isinstance(known, PublicValue) else frozenset[int]()
        for group in absent & frozenset(range(groups)):
            value[group], low[group], high[group] = np.nan, -np.inf, np.inf
        return cls(value, low, high)


def combine_bands(operator: str, left: Band, right: Band) -> Band:
    """Return the range of results for operands within their intervals.

    >>> band = combine_bands("-", Band.constant(3.0, 1), Band(np.array([1.0]), np.array([0.0]), np.array([2.0])))
    >>> band.low.item(), band.value.item(), band.high.item()
    (1.0, 2.0, 3.0)
    """
    value = apply_operator(operator, left.value, right.value)
    with np.errstate(all="ignore"):
        match operator:
            case "+":
                return Band(value, left.low + right.low, left.high + right.high)
            case "-":
                return Band(value, left.low - right.high, left.high - right.low)
            case "*":
                corners = _corners(left, right)
                return Band(value, corners.min(axis=0), corners.max(axis=0))
            case _:
                clear = (right.low > 0) | (right.high < 0)
                inverse = Band(
                    np.full_like(value, np.nan),  # only its ends are used
                    np.where(clear, 1 / np.where(clear, right.high, 1.0), -np.inf),
                    np.where(clear, 1 / np.where(clear, right.low, 1.0), np.inf),
                )
                corners = _corners(left, inverse)
                low = np.where(clear, corners.min(axis=0), -np.inf)
                return Band(value, low, np.where(clear, corners.max(axis=0), np.inf))


def apply_operator(operator: str, left: Doubles, right: Doubles) -> Doubles:
    """Return the result of + - * / ; NaN for a division by 0."""
    with np.errstate(all="ignore"):
        match operator:
            case "+":
                result = left + right
            case "-":
                result = left - right
            case "*":
                result = left * right
            case _:
                result = left / np.where(right == 0, np.nan, right)
    return np.where(np.isfinite(result), result, np.nan)


def _corners(left: Band, right: Band) -> Doubles:
    """Return the products of the ends; 0 times an unbounded end is 0, as the exact value is finite."""
    products = np.stack([a * b for a in (left.low, left.high) for b in (right.low, right.high)])
    return np.where(np.isnan(products), 0.0, products)


# --- Linear forms: weighted sums of measured blocks, whose error has an exact law. ---


@dataclass(frozen=True, slots=True)
class LinearForm:
    """constant + Σ factor · steps of a block, by the block's index."""

    factors: tuple[tuple[int, Fraction], ...]
    constant: Fraction = Fraction(0)

    def plus(self, other: LinearForm, times: Fraction) -> LinearForm:
        """Return the sum of this form and a multiple of another."""
        factors = dict(self.factors)
        for block, factor in other.factors:
            factors[block] = factors.get(block, Fraction(0)) + times * factor
        kept = tuple((block, factor) for block, factor in sorted(factors.items()) if factor != 0)
        return LinearForm(kept, self.constant + times * other.constant)

    def times(self, number: Fraction) -> LinearForm:
        """Return a multiple of this form."""
        return LinearForm((), Fraction(0)).plus(self, number)


def linear_form(expression: Expression, query: Query) -> LinearForm | None:
    """Return an expression as a linear form; None if it is not linear."""
    match expression:
        case PublicValue(_, absent) if absent:
            return None
        case LiteralExpression(Fraction() as number) | PublicValue(number):
            return LinearForm((), number)
        case Total(block):
            return LinearForm(((block, query.blocks[block].unit),))
        case Arithmetic(operator, left, right):
            first, second = linear_form(left, query), linear_form(right, query)
            return None if first is None or second is None else _combine_forms(operator, first, second)
        case _:
            return None


def _combine_forms(operator: str, left: LinearForm, right: LinearForm) -> LinearForm | None:
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


def form_band(form: LinearForm, measured: Evidence, failing: float) -> Band:
    """Return a form's values, with intervals from the law of the sum of its noises.

    Theorem: sum-of-noises
    """
    value, within = form_values(form, measured), form_width(form, measured, failing)
    return Band(value, value - within, value + within)


def joint_width(form: LinearForm, derived: DerivedValues, failing: float) -> Doubles:
    """Return the half-width of a form of blocks that follow from the same draws, for each group.

    Theorem: joint-law, smoothed-sum
    """
    if derived.joint is None:
        raise InvariantBroken("The errors of blocks that follow from the same numbers are not independent.")
    factors = {block: float(factor) for block, factor in form.factors}
    quantile = gaussian_sum_quantile(1.0, derived.joint.share, failing / 2)
    widths: Doubles = quantile * np.sqrt(np.maximum(derived.covariance(factors, factors), 0.0))
    return widths


def form_values(form: LinearForm, measured: Evidence) -> Doubles:
    """Return a form's noisy value for each group."""
    value: Doubles = np.full(measured.groups, float(form.constant))
    for block, factor in form.factors:
        value = value + float(factor) * measured.numbers(block)[:, 0]
    return value


def form_width(form: LinearForm, measured: Evidence, failing: float) -> float | Doubles:
    """Return the half-width of a form's intervals: one for all groups, or one for each."""
    match form.factors:
        case ():
            return 0.0
        case ((block, factor),):
            return float(abs(factor)) * half_widths(measured, block, failing)
        case _ if isinstance(measured, DerivedValues):
            return joint_width(form, measured, failing)
        case _:
            # The common divisor is factored out, so that sums of counts stay on the integer grid.
            shared = min(abs(factor) for _, factor in form.factors)
            draws = ((float(factor / shared), measured.noises[block]) for block, factor in form.factors)
            terms = tuple(NoiseTerm.of(*draw) for draw in draws)
            return float(shared) * upper_quantile(terms, failing / 2)
