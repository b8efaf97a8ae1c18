"""Intervals for ratios, averages, variances and standard deviations.

A ratio of two noisy linear forms gets its interval by inverting a test, so the interval is valid even if the
denominator is close to 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from dodona.answer.bands import Band, LinearForm, apply_operator, form_values, linear_form
from dodona.answer.estimate import to_float
from dodona.answer.laws import DerivedValues, Evidence, half_width, half_widths
from dodona.answer.sums import gaussian_sum_quantile
from dodona.errors import InvariantBroken
from dodona.numbers import Booleans, Doubles
from dodona.privacy.additive_noise import Noise, NormalNoise
from dodona.privacy.measurement import MeasuredValues
from dodona.query.predicate import NOTHING, complement, conjunction
from dodona.query.query import ONE, Block, Query, weight_range
from dodona.query.question import Arithmetic, Expression, Mean, Spread, Variation

# --- Valid intervals for ratios of noisy values, by inverting a test; all groups at once. ---


_HALVINGS = 40  # of the distance between both ends: 10^-12
_DOUBLINGS = 400
_PAIR = 2
_TINY = 1e-12
_SMALL = 1e-5
_BEYOND = 40
_FEW = 1 << 12
_Pair = tuple[Doubles, Doubles]


@dataclass(frozen=True, slots=True)
class RatioNoise:
    """A noise, and its factors in the numerator and the denominator."""

    above: float
    below: float
    noise: Noise


@dataclass(frozen=True, slots=True)
class Ratio:
    """Noisy numerators and denominators of all groups, and their noises."""

    above: Doubles
    below: Doubles
    parts: tuple[RatioNoise, ...]

    def accepts(self, candidate: Doubles, failing: float) -> Booleans:
        """Return whether the test at level `failing` accepts a candidate ratio, for each group.

        Theorem: honest-ratio
        """
        factors = [np.abs(part.above - candidate * part.below) for part in self.parts]
        distance = np.abs(self.above - candidate * self.below)
        # A discrete draw is less than 1 from a continuous one, so this much is subtracted from the distance.
        distance = distance * (1 - 1e-12) - np.sum(factors, axis=0)
        scales = [factor * float(part.noise.scale) for factor, part in zip(factors, self.parts, strict=True)]
        normal = [isinstance(part.noise, NormalNoise) for part in self.parts]
        kept: Booleans = (distance <= 0) | (_tail(distance, scales, normal, failing) >= failing)
        return kept

    def repeated(self) -> Ratio:
        """Return all groups twice."""
        return Ratio(np.tile(self.above, 2), np.tile(self.below, 2), self.parts)

    def accepts_zero_below(self, failing: float) -> Booleans:
        """Return whether the test accepts a denominator of 0, so that the ratio is unbounded."""
        parts = tuple(RatioNoise(part.below, part.above, part.noise) for part in self.parts)
        turned = Ratio(self.below, self.above, parts)
        return turned.accepts(np.zeros_like(self.below), failing)


@dataclass(frozen=True, slots=True)
class NormalRatio:
    """Numerators and denominators that are sums of the same or of other normal draws, by group."""

    above: Doubles
    below: Doubles
    variances: tuple[Doubles, Doubles]
    """Of the numerators, and of the denominators."""
    covariance: Doubles
    share: float
    """What no factor of a draw is above in a combination of both, over its deviation."""

    def accepts(self, candidate: Doubles, failing: float) -> Booleans:
        """Return whether the test at level `failing` accepts a candidate ratio, for each group.

        The difference of the numerator and a multiple of the denominator is a sum of the draws of both.

        Theorem: honest-ratio, joint-law, smoothed-sum
        """
        spread = self.variances[0] - 2 * candidate * self.covariance + candidate**2 * self.variances[1]
        width = gaussian_sum_quantile(1.0, self.share, failing / 2) * np.sqrt(np.maximum(spread, 0.0))
        kept: Booleans = np.abs(self.above - candidate * self.below) * (1 - 1e-12) <= width
        return kept

    def repeated(self) -> NormalRatio:
        """Return all groups twice."""
        first, second, both = (np.tile(values, 2) for values in (*self.variances, self.covariance))
        return NormalRatio(np.tile(self.above, 2), np.tile(self.below, 2), (first, second), both, self.share)

    def accepts_zero_below(self, failing: float) -> Booleans:
        """Return whether the test accepts a denominator of 0, so that the ratio is unbounded."""
        turned = NormalRatio(self.below, self.above, self.variances[::-1], self.covariance, self.share)
        return turned.accepts(np.zeros_like(self.below), failing)


def derived_ratio(derived: DerivedValues, above: LinearForm, below: LinearForm) -> NormalRatio:
    """Return the ratio of two forms of blocks that follow from the same residuals."""
    if derived.joint is None:
        raise InvariantBroken("These values have no joint law.")
    values = form_values(above, derived), form_values(below, derived)
    factors = [{block: float(factor) for block, factor in form.factors} for form in (above, below)]
    shape = values[0].shape
    first, second, both = (
        np.broadcast_to(derived.covariance(*pair), shape)
        for pair in ((factors[0], factors[0]), (factors[1], factors[1]), factors)
    )
    return NormalRatio(values[0], values[1], (first, second), both, derived.joint.share)


def can_invert(noises: Sequence[Noise]) -> bool:
    """Return whether the tail of a combination of these noises is known: any number of Gaussians, or any two."""
    return len(noises) <= _PAIR or all(isinstance(noise, NormalNoise) for noise in noises)


def quotient_band(ratio: Ratio | NormalRatio, bounds: tuple[float, float] | None, *, failing: float) -> Band:
    """Return quotients, within their public bounds where they have any."""
    if bounds is None:
        return ratio_band(ratio, failing=failing)
    return bounded_ratio_band(ratio, lower=bounds[0], upper=bounds[1], failing=failing)


def bounded_ratio_band(ratio: Ratio | NormalRatio, *, lower: float, upper: float, failing: float) -> Band:
    """Return ratios with known public bounds, with valid intervals within these.

    If the denominator is not clearly above its noise, the interval is the whole public range. The ratio itself does not
    depend on the confidence: it is that of the noisy values, or the middle of the range if no rows are counted.

    Theorem: honest-ratio
    """
    ends = np.full_like(ratio.above, lower), np.full_like(ratio.above, upper)
    with np.errstate(all="ignore"):
        point = apply_operator("/", ratio.above, ratio.below)
        first, last = (ratio.accepts(end, failing) for end in ends)
        inside = (point >= lower) & (point <= upper)
        # Every accepted set contains an end or the point itself; otherwise the noise exceeded its bound.
        known = inside | first | last
        low_from = np.where(inside, point, np.where(last, upper, lower))
        high_from = np.where(inside, point, np.where(first, lower, upper))
        low_edge, high_edge = _edges(ratio, ends, (low_from, high_from), failing)
        low = np.where(first | ~known, lower, low_edge)
        high = np.where(last | ~known, upper, high_edge)
        guess = np.where((ratio.below > 0) & np.isfinite(point), np.clip(point, lower, upper), (lower + upper) / 2)
    return Band(guess, low, high)


def ratio_band(ratio: Ratio | NormalRatio, *, failing: float) -> Band:
    """Return unbounded ratios; if the denominator may be 0, their intervals are infinite.

    Theorem: honest-ratio
    """
    with np.errstate(all="ignore"):
        point = apply_operator("/", ratio.above, ratio.below)
        endless = ratio.accepts_zero_below(failing) | ~np.isfinite(point)
        start = np.where(np.isfinite(point), point, 0.0)
        ends = []
        for sign in (-1.0, 1.0):
            stride = np.maximum(np.abs(start), 1.0) * 1e-9
            outer = start + sign * stride
            for _ in range(_DOUBLINGS):
                more = ratio.accepts(outer, failing) & ~endless
                if not np.any(more):
                    break
                stride = np.where(more, 2 * stride, stride)
                outer = start + sign * stride
            ends.append(np.where(endless, sign * np.inf, _acceptance_edge(ratio, outer, start, failing)))
    return Band(point, ends[0], ends[1])


def _edges(ratio: Ratio | NormalRatio, outer: _Pair, inner: _Pair, failing: float) -> _Pair:
    """Return both edges; those of few groups are searched together, as each step costs the same as for one."""
    if len(ratio.above) > _FEW:
        low, high = (_acceptance_edge(ratio, *ends, failing) for ends in zip(outer, inner, strict=True))
        return low, high
    low, high = np.split(_acceptance_edge(ratio.repeated(), np.concatenate(outer), np.concatenate(inner), failing), 2)
    return low, high


def _acceptance_edge(ratio: Ratio | NormalRatio, outer: Doubles, inner: Doubles, failing: float) -> Doubles:
    """Return the edge of acceptance between a rejected and an accepted candidate, rounded outward."""
    for _ in range(_HALVINGS):
        middle = (outer + inner) / 2
        kept = ratio.accepts(middle, failing)
        inner, outer = np.where(kept, middle, inner), np.where(kept, outer, middle)
    return outer


def _tail(distance: Doubles, scales: list[Doubles], normal: list[bool], failing: float) -> Doubles:
    """Return P(|Σ scale · noise| > distance) for continuous noises of scale 1; for Gaussian ones 0 or 1."""
    with np.errstate(all="ignore"):
        if all(normal):
            deviation = np.sqrt(np.sum(np.square(scales), axis=0))
            reach = -NormalDist().inv_cdf(failing / 2) * deviation
            return np.where(distance <= reach, 1.0, 0.0)
        if len(scales) == 1:
            return np.exp(-distance / scales[0])
        if any(normal):
            laplace, gaussian = scales if normal[1] else scales[::-1]
            return _laplace_gaussian_tail(distance, laplace, gaussian)
        return two_laplace_tail(distance, scales[0], scales[1])


def two_laplace_tail(distance: Doubles, first: Doubles, second: Doubles) -> Doubles:
    """Return P(|aX + cY| > d) = (a²e^{-d/a} - c²e^{-d/c})/(a² - c²) for Laplace X, Y of scale 1, also if a = c.

    With r = c/a ≤ 1, x = d/a and y = x(1 - r)/r it is e^{-x}·(1 + r·x·φ(y)/(1 + r)) with φ(y) = (1 - e^{-y})/y.

    Theorem: honest-ratio
    """
    with np.errstate(all="ignore"):
        large, small = np.maximum(first, second), np.minimum(first, second)
        share, length = small / large, distance / large
        rest = length * (1 - share) / share
        slope = np.where(rest > _TINY, -np.expm1(-rest) / rest, 1.0)
        tail = np.exp(-length) * (1 + np.where(share > 0, share * length * slope / (1 + share), 0.0))
    return np.where(large > 0, tail, 0.0)


def _laplace_gaussian_tail(distance: Doubles, laplace: Doubles, gaussian: Doubles) -> Doubles:
    """Return P(|bX + sY| > d) for X Laplace and Y normal: the normal tail plus the contribution of the Laplace part."""
    from scipy.special import log_ndtr

    wide = np.maximum(laplace, 1e-300)
    deviation = np.maximum(gaussian, 1e-300)
    place, rate = distance / deviation, deviation / wide
    added = np.exp(rate**2 / 2 - distance / wide + log_ndtr(place - rate))
    taken = np.exp(rate**2 / 2 + distance / wide + log_ndtr(-place - rate))
    tail: Doubles = 2 * np.exp(log_ndtr(-place)) + added - taken
    # A Laplace part this small is hardly ever beyond 40 of its scales, and the terms above would lose precision.
    bound = 2 * np.exp(log_ndtr(-(distance - _BEYOND * laplace) / deviation))
    return np.where(laplace <= _SMALL * gaussian, bound, tail)


# --- Quotients: one linear form over another, whose intervals come from inverting a test. ---


def as_ratio(expression: Expression, measured: Evidence) -> Ratio | NormalRatio | None:
    """Return an expression as a ratio; None if it is not one, or the law of its noise is unknown."""
    parts = numerator_and_denominator(expression, measured.question.query)
    if parts is None:
        return None
    above, below = parts
    if isinstance(measured, DerivedValues):
        return None if measured.joint is None else derived_ratio(measured, above, below)
    top, bottom = dict(above.factors), dict(below.factors)
    blocks = sorted({*top, *bottom})
    if not can_invert([measured.noises[block] for block in blocks]):
        return None
    factors = ((float(top.get(block, 0)), float(bottom.get(block, 0)), block) for block in blocks)
    noises = tuple(RatioNoise(first, second, measured.noises[block]) for first, second, block in factors)
    return Ratio(form_values(above, measured), form_values(below, measured), noises)


def share_bounds(expression: Expression, query: Query) -> tuple[float, float] | None:
    """Return what a share of rows, or a sum over rows by their number, lies between; None if an expression is neither.

    Of B rows some are added up again, each as at most so many steps, so that (a·A + b·B) / (c·B) lies between its
    values for the least and the most steps of a row, where 0 stands for a row that is not added up.

    Theorem: honest-ratio
    """
    forms = numerator_and_denominator(expression, query)
    if forms is None or any(form.constant for form in forms):
        return None
    above, below = (dict(form.factors) for form in forms)
    if len(below) != 1 or len(above.keys() - below) != 1:
        return None
    (whole, times), (part,) = *below.items(), above.keys() - below
    rows, added = query.blocks[whole], query.blocks[part]
    if rows.weight != ONE or not _adds_some_of(added, rows):
        return None
    low, high = weight_range(added.weight, added.where)
    ends = sorted(
        (above.get(whole, Fraction(0)) + steps * above[part]) / times for steps in (min(low, 0), max(high, 0))
    )
    return to_float(ends[0]), to_float(ends[1])


def _adds_some_of(part: Block, whole: Block) -> bool:
    """Return whether a block adds up, in the same groups, only rows that are in another."""
    if part.about_people or whole.about_people or part.keys != whole.keys:
        return False
    return conjunction(part.where, complement(whole.where)) == NOTHING


def numerator_and_denominator(expression: Expression, query: Query) -> tuple[LinearForm, LinearForm] | None:  # noqa: PLR0911  one for each kind
    """Return numerator and denominator of form / form, also inside multiples of it and sums with numbers."""
    if not isinstance(expression, Arithmetic):
        return None
    left, right = linear_form(expression.left, query), linear_form(expression.right, query)
    if left is not None and right is not None:
        return (left, right) if expression.operator == "/" else None
    number = right if left is None else left
    inner = numerator_and_denominator(expression.left if left is None else expression.right, query)
    if inner is None or number is None or number.factors:
        return None
    above, below = inner
    match expression.operator:
        case "*":
            return above.times(number.constant), below
        case "+":
            return above.plus(below, number.constant), below
        case "-" if left is None:
            return above.plus(below, -number.constant), below
        case "-":
            return below.times(number.constant).plus(above, Fraction(-1)), below
        case _ if left is None:
            return None if number.constant == 0 else (above.times(1 / number.constant), below)
        case _:
            return below.times(number.constant), above


# --- Averages, variances and standard deviations. ---


_SUMS = 3
_SAMPLE = (Spread.SAMPLE_VARIANCE, Spread.SAMPLE_DEVIATION)
_DEVIATION = (Spread.POPULATION_DEVIATION, Spread.SAMPLE_DEVIATION)


def mean_band(mean: Mean, measured: Evidence, failing: float) -> Band:
    """Return averages, with valid intervals within the public range.

    Theorem: honest-ratio
    """
    centre, lower, upper = float(mean.centre), float(mean.lower), float(mean.upper)
    low, high = lower - centre, upper - centre
    ratio: Ratio | NormalRatio = (
        derived_ratio(measured, *[_block_form(measured, block) for block in (mean.total, mean.rows)])
        if isinstance(measured, DerivedValues)
        else block_ratio(measured, mean.total, mean.rows)
    )
    band = bounded_ratio_band(ratio, lower=low, upper=high, failing=failing)

    def moved(ends: Doubles) -> Doubles:
        # Subtracting and adding the offset may round values past the bounds, which are attainable.
        inside = np.clip(ends + centre, lower, upper)
        return np.where(ends <= low, lower, np.where(ends >= high, upper, inside))

    return Band(moved(band.value), moved(band.low), moved(band.high))


def _block_form(measured: Evidence, block: int) -> LinearForm:
    return LinearForm(((block, measured.question.query.blocks[block].unit),))


def block_ratio(measured: MeasuredValues, above: int, below: int) -> Ratio:
    """Return the ratio of two blocks, in their units."""
    units = [float(measured.question.query.blocks[block].unit) for block in (above, below)]
    first, second = RatioNoise(units[0], 0.0, measured.noises[above]), RatioNoise(0.0, units[1], measured.noises[below])
    parts = (RatioNoise(units[0], units[1], measured.noises[above]),) if above == below else (first, second)
    return Ratio(units[0] * measured.numbers(above)[:, 0], units[1] * measured.numbers(below)[:, 0], parts)


def variance_band(variation: Variation, measured: Evidence, failing: float) -> Band:
    """Return variances or standard deviations: the range given by the two sums and the row count within their noise.

    The value itself does not depend on the confidence: it is that of the noisy sums, as far as their mean allows it.

    Theorem: honest-spread
    """
    mean = variation.mean
    low, high = float(mean.lower - mean.centre), float(mean.upper - mean.centre)
    blocks = mean.rows, mean.total, variation.squares
    rows, total, squares = (_sum_interval(measured, block, failing) for block in blocks)
    few, many = np.maximum(rows.low, 1.0), np.maximum(rows.high, 1.0)
    first = Band(
        np.clip(total.value / np.maximum(rows.value, 1.0), low, high),
        np.clip(np.where(total.low < 0, total.low / few, total.low / many), low, high),
        np.clip(np.where(total.high > 0, total.high / few, total.high / many), low, high),
    )
    nearest = np.where((total.low <= 0) & (total.high >= 0), 0.0, np.minimum(np.abs(total.low), np.abs(total.high)))
    farthest = np.maximum(np.abs(total.low), np.abs(total.high))
    # q·x - s²x² in x = 1/rows is concave: its maximum is at its vertex or the nearest end, its minimum at an end.
    most, least = np.maximum(squares.high, 0.0), np.maximum(squares.low, 0.0)
    with np.errstate(all="ignore"):
        peak = np.where(nearest > 0, most / (2 * nearest**2), np.inf)
    best = np.clip(peak, 1 / many, 1 / few)
    top = np.clip(most * best - (nearest * best) ** 2, 0.0, _largest_variance(first.low, first.high, low, high))
    bottom = np.minimum(*(least * end - (farthest * end) ** 2 for end in (1 / few, 1 / many)))
    bottom = np.minimum(np.maximum(bottom, 0.0), top)
    point = squares.value / np.maximum(rows.value, 1.0) - first.value**2
    point = np.clip(point, 0.0, _largest_variance(first.value, first.value, low, high))
    if variation.spread in _SAMPLE:
        few, many, likely = (np.maximum(count, 2.0) for count in (few, many, rows.value))
        bottom, point, top = bottom * many / (many - 1), point * likely / (likely - 1), top * few / (few - 1)
        top, point = (np.minimum(end, (high - low) ** 2 / 2) for end in (top, point))
    bottom = np.minimum(bottom, top)
    if variation.spread in _DEVIATION:
        bottom, point, top = np.sqrt(bottom), np.sqrt(point), np.sqrt(top)
    return Band(point, bottom, top)


def _sum_interval(measured: Evidence, block: int, failing: float) -> Band:
    """Return the interval of one of the three sums; all three hold together.

    Where they were measured their noises are independent; where they follow, each may fail a third as often.
    """
    unit = float(measured.question.query.blocks[block].unit)
    value = unit * measured.numbers(block)[:, 0]
    if isinstance(measured, DerivedValues):
        within = unit * half_widths(measured, block, failing / _SUMS)
    else:
        within = unit * half_width(measured.noises[block], failing, _SUMS)
    return Band(value, value - within, value + within)


def _largest_variance(least: Doubles, most: Doubles, low: float, high: float) -> Doubles:
    """Return the largest variance of values between the bounds whose mean m is in a range: (high - m)(m - low)."""
    best = np.clip((low + high) / 2, least, most)
    variance: Doubles = (high - best) * (best - low)
    return variance
