"""Quantiles of sums of independent noise draws.

A `NoiseTerm` is a number of equal draws times a factor. Each function returns an upper bound on the quantile, by
Chernoff's bound, by convolution on a grid, or by adding a little normal noise to smooth the law; the caller takes the
smallest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from dodona.numbers import Doubles
from dodona.privacy.additive_noise import Noise

if TYPE_CHECKING:
    from numpy.typing import NDArray


# --- A term of a sum of noises, and the simplest bound for such sums. ---


WIDE_SCALE = 4.0
"""From this scale on a discrete Gaussian has the variance and the transform of a normal law in every digit.

A rounded normal draw then has those of a normal and an independent uniform number.
"""
_ROUNDED = "RoundedGaussian"
_CHERNOFF_GRID: Doubles = np.concatenate([np.geomspace(1e-4, 0.5, 120), 1 - np.geomspace(0.5, 1e-6, 60)])


@dataclass(frozen=True, slots=True, order=True)
class NoiseTerm:
    """Independent draws of one noise, each times a positive factor. Noise is symmetric, so signs are dropped."""

    factor: float
    law: str
    scale: float
    times: int = 1

    @classmethod
    def of(cls, factor: float, noise: Noise, times: int = 1) -> NoiseTerm:
        """Return the term for a number of draws of a noise."""
        return cls(abs(float(factor)), type(noise).__name__, float(noise.scale), times)

    @property
    def variance(self) -> float:
        """The variance of the sum of its draws, each times the factor.

        >>> NoiseTerm(2.0, "Gaussian", 10.0, 3).variance, round(NoiseTerm(1.0, "Laplace", 10.0).variance, 3)
        (1200.0, 199.833)
        """
        if self.law == "Laplace":
            draw_variance = 0.5 * (1 / math.sinh(0.5 / self.scale)) ** 2
        elif self.law == _ROUNDED:
            draw_variance = rounded_variance(self.scale)
        elif self.scale >= WIDE_SCALE:
            draw_variance = self.scale**2
        else:
            steps = np.arange(1, math.ceil(40 * self.scale) + 2, dtype=np.float64)
            weights = np.exp(-((steps / self.scale) ** 2) / 2)
            draw_variance = float(2 * np.sum(steps**2 * weights) / (1 + 2 * np.sum(weights)))
        return self.times * self.factor**2 * draw_variance

    @property
    def width(self) -> float:
        """The scale of one draw; of a rounded one, the root of a v with E e^{tX} ≤ e^{vt²/2} for all t.

        Theorem: smoothed-sum
        """
        if self.law != _ROUNDED:
            return self.scale
        return math.sqrt(self.scale**2 + (1 / 12 if self.scale >= WIDE_SCALE else 1 / 3))

    @property
    def normal_variance(self) -> float:
        """The variance of a normal law with no lighter tails than the sum of wide normal draws, but for smoothing.

        Theorem: smoothed-sum
        """
        added = 1 / (2 * math.pi) if self.law == _ROUNDED else 0.0
        return self.times * self.factor**2 * (self.scale**2 + added)


@lru_cache(maxsize=4096)
def rounded_variance(scale: float) -> float:
    """Return the variance of rounded normal noise: σ² + 1/12 at scales from 4 up.

    >>> rounded_variance(10.0), round(rounded_variance(0.5), 4)
    (100.08333333333333, 0.3254)
    """
    if scale >= WIDE_SCALE:
        return scale**2 + 1 / 12
    steps = range(1, math.ceil(10 * scale) + 2)  # Σ k²·P(x = k) = Σ (2k - 1)·P(|x| ≥ k)
    return math.fsum((2 * step - 1) * math.erfc((step - 0.5) / (scale * math.sqrt(2))) for step in steps)


def chernoff_bound(terms: tuple[NoiseTerm, ...], failing: float) -> float:
    """Return min (ln M(t) + ln 1/failing)/t over a grid of t: Chernoff's bound, M being the moment generating function.

    Theorem: sum-of-noises
    """
    laplace = [term for term in terms if term.law == "Laplace"]
    normal = sum(term.times * (term.factor * term.width) ** 2 for term in terms if term.law != "Laplace")
    most = 1 / max(term.factor * term.scale for term in laplace) if laplace else 100 / math.sqrt(normal)
    grid = most * _CHERNOFF_GRID
    log = normal * grid**2 / 2
    if laplace:
        # E e^{sX} = (1-q)²/((1-q·e^s)(1-q·e^{-s})), written as ratios that stay precise for large scales.
        rate, times = np.array([[1 / term.scale, term.times] for term in laplace]).T
        power, complement = np.outer([term.factor for term in laplace], grid), -np.expm1(-rate)[:, None]
        up, down = (-np.expm1(sign * power - rate[:, None]) / complement for sign in (1, -1))
        log -= times @ np.log(up * down)
    return float(np.min((log - math.log(failing)) / grid))


# --- Sums of noises by convolution: exact on a common grid, otherwise every term is rounded up to a grid. ---


_POINTS = 1 << 14
_LARGEST_SUMMED_SCALE = 1000.0  # up to this scale a discrete Gaussian is summed; beyond, the normal law bounds it
_ROUNDING = 1e-13  # rounding error of a transform of this size per 64 draws, with a safety margin


def convolution_quantile(terms: tuple[NoiseTerm, ...], failing: float) -> float:
    """Return the quantile of a law that dominates the sum: each term is rounded up to a grid, then convolved.

    Infinite if there are so many draws that rounding up goes too far.

    Theorem: sum-of-noises
    """
    slip = failing * 1e-5
    reach = chernoff_bound(terms, slip)
    draws = sum(term.times for term in terms)
    step = _common_step([term.factor for term in terms])  # if it is wide enough, nothing is rounded on this grid
    if 2 * reach > (_POINTS - 4) * step:
        if 8 * draws >= _POINTS:
            return math.inf
        step = 2.0 ** math.ceil(math.log2(2 * reach / (_POINTS - 4 * draws)))
    product: NDArray[np.complex128] = np.ones(_POINTS // 2 + 1, dtype=np.complex128)
    for term in terms:
        product *= _power(_transform(term.factor, term.law, term.scale, step), term.times)
    law = np.fft.irfft(product, _POINTS)
    ordered = np.concatenate([law[_POINTS // 2 :], law[: _POINTS // 2]])  # from the most negative sum up
    beyond = np.cumsum(ordered[::-1])[::-1] - ordered + _ROUNDING * max(1.0, draws / 64) + 2 * slip
    first = int(np.argmax(beyond <= failing))
    return float((first - _POINTS // 2) * step) * (1 + 1e-12) if beyond[first] <= failing else math.inf


@lru_cache(maxsize=64)
def _transform(factor: float, law: str, scale: float, step: float) -> NDArray[np.complex128]:
    """Return the transform of one draw times its factor, rounded up to whole steps."""
    grid = np.arange(-_POINTS // 2 - 1, _POINTS // 2, dtype=np.float64)
    whole = np.floor(grid * (step / factor) * (1 + 1e-12) + 1e-9)  # rounding must not lower an integer
    above = np.clip(upper_tail(law, scale, whole), 0.0, 1.0)
    above[0], above[-1] = 1.0, 0.0
    mass = above[:-1] - above[1:]
    return np.fft.rfft(np.concatenate([mass[_POINTS // 2 :], mass[: _POINTS // 2]]))


def _power(transform: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """Return an integer power by squaring, which is many times faster than a complex power."""
    power: NDArray[np.complex128] = np.ones_like(transform)
    while times:
        if times & 1:
            power = power * transform
        transform, times = transform * transform, times >> 1
    return power


def upper_tail(law: str, scale: float, whole: Doubles) -> Doubles:
    """Return P(X > m) for integers m, or for wide Gaussian noise P(Y > m) of the normal law, which is at least that.

    Theorem: sum-of-noises
    """
    if law == "Laplace":
        share = 1 + math.exp(-1 / scale)
        tail = np.exp(-np.where(whole >= 0, whole + 1, -whole) / scale) / share
        return np.where(whole >= 0, tail, 1 - tail)
    if law == _ROUNDED or scale > _LARGEST_SUMMED_SCALE:
        from scipy.special import ndtr

        if law == _ROUNDED:
            exact: Doubles = ndtr(-(whole + 0.5) / scale)
            return exact
        bound: Doubles = ndtr(-whole / scale)
        return bound
    sums = _gaussian_sums(scale)
    last = len(sums) // 2 - 1
    probabilities: Doubles = sums[np.clip(whole + 1, -last, last + 1).astype(np.int64) + last]
    return probabilities


@lru_cache(maxsize=16)
def _gaussian_sums(scale: float) -> Doubles:
    """Return P(X ≥ m) for each m from the least relevant one to one above the largest."""
    last = math.ceil(40 * scale) + 2
    weights = np.exp(-((np.arange(-last, last + 1) / scale) ** 2) / 2)
    tails: Doubles = np.concatenate([np.cumsum(weights[::-1])[::-1], [0.0]]) / np.sum(weights)
    return tails


def _common_step(factors: list[float]) -> float:
    """Return the largest simple number that divides all factors; 0 if there is none."""
    for parts in (1, 2, 4, 5, 8, 10, 20, 100, 1000):
        scaled = [factor * parts for factor in factors]
        if all(abs(number - round(number)) < 1e-12 * parts for number in scaled):
            return math.gcd(*(round(number) for number in scaled)) / parts
    return 0.0


# --- Quantiles of sums of very many draws: hypothetical normal noise is added to make their law smooth. ---


_NORMAL = NormalDist()
_KEPT = 0.95  # of the exponent of the transform of a normal draw of scale 4 and up, at any angle
_BEYOND = 5.0  # the truncated part of a transform is about e^-5 of the failure probability, over 2πx
_FAINT = 1e-30  # below this failure probability only Chernoff's bound is used
_NEVER = 1e-60  # more than the difference of a normal law and the sum due to angles below π/2
_BESIDE = 14.0  # e^-14 of the failure probability may lie outside the interval; omitted terms are as small
_RAREST = 1e-9  # below this failure probability the rounding error of the series is not negligible
_HALF = 0.5
_MOST_WAVES = 4096
_STEPS = 40
_FIRST = np.array([1.0, 1.05, 1.1, 1.2, 1.35, 1.6, 2.0])
_FURTHER = 2.0 * 1.25 ** np.arange(1, 40)
_POWERS = np.array([0.5, 0.65, 0.8, 0.9, 1.0])
_NEAR_POLE = 0.95
_EXACT = 1e-9
_UP = 1 + 1e-12


def gaussian_sum_quantile(variance: float, reach: float, failing: float) -> float:
    """Return an upper quantile of a sum of normal draws of scale 4 and up: exceeded with probability ≤ `failing`.

    The sum has this `normal_variance` and no factor above `reach`.

    Theorem: smoothed-sum
    """
    rare = -math.log(failing)
    simple = math.sqrt(2 * variance * rare)
    if not _FAINT <= failing < _HALF:
        return simple
    exponent = rare + _BEYOND
    extra = reach * math.sqrt(2 * exponent) / (2 * math.pi)
    error = _normal_approximation_error(_KEPT * variance, extra, reach)
    margin = _margin(extra, math.sqrt(variance), rare)
    left = failing * _margin_probability(margin) - error
    if left <= 0:
        return simple
    return min(simple, (margin * extra - math.sqrt(variance + extra**2) * _NORMAL.inv_cdf(left)) * _UP)


def _normal_approximation_error(variance: float, extra: float, reach: float) -> float:
    """Return the largest difference in probability between the smoothed sum of discrete Gaussians and a normal law."""
    turn = 2 * math.pi / reach
    both = variance + extra**2
    exponent = (turn * extra) ** 2 / 2
    middle = math.log(2) * math.exp(-both * (turn / 4) ** 2 / 2)
    alias = 2 / turn * math.sqrt(2 * math.pi / both) * math.exp(-exponent * variance / both)
    return (middle + alias + math.exp(-exponent) / (2 * exponent)) / math.pi + _NEVER


def _margin(extra: float, deviation: float, rare: float) -> float:
    """Return the deviations of the extra noise to add to a quantile: nearly those that minimise it."""
    share = extra / deviation * math.sqrt(4 * math.pi * rare)
    return max(math.sqrt(-2 * math.log(share)) if share < 1 else 0.0, 0.5)


def _margin_probability(margin: float) -> float:
    """Return the probability that a normal draw is at least minus the margin."""
    return math.erfc(-margin / math.sqrt(2)) / 2


def series_quantile(terms: tuple[NoiseTerm, ...], failing: float) -> float:
    """Return a value that the sum exceeds with probability at most `failing`; ∞ if there are too few terms.

    Theorem: smoothed-sum
    """
    narrow = any(term.law == _ROUNDED and term.scale < WIDE_SCALE for term in terms)
    if narrow or not _RAREST <= failing < _HALF:  # nothing is proved here for narrow rounded draws
        return math.inf
    reach = max([term.factor for term in terms])
    deviation = math.sqrt(sum([term.variance for term in terms]))
    rare = -math.log(failing)
    waves_of = CharacteristicFunction.of(terms)
    last = _last_angle(waves_of, deviation, math.pi / (2 * reach), rare + _BESIDE)
    if last is None:
        return math.inf
    extra = math.sqrt(2 * (rare + _BEYOND)) / (2 * math.pi / reach - last)
    width = 2 * waves_of.far(extra, deviation, rare + _BESIDE)
    number = np.arange(1, math.floor(last * width / (2 * math.pi)) + 1, dtype=np.float64)
    if not 1 <= len(number) <= _MOST_WAVES:
        return math.inf
    angle = 2 * math.pi / width * number
    smooth = waves_of.log(angle)
    outside = failing * math.exp(-_BESIDE)
    last_wave = float(smooth[-1] - waves_of.log_rounding(angle[-1:])[0])
    error = _truncation_error(last_wave, float(angle[-1]), extra, reach, width) + outside + _ROUNDING
    height = np.exp(smooth - (extra * angle) ** 2 / 2) / (math.pi * number)
    margin = _margin(extra, deviation, rare)
    quantile = _solve_tail(height, angle, width, failing * _margin_probability(margin) - error, deviation)
    return (margin * extra + quantile) * _UP


def _last_angle(waves: CharacteristicFunction, deviation: float, most: float, fall: float) -> float | None:
    """Return an angle at which the sum's transform has fallen to e^-fall; None if it has not at the largest."""
    start = math.sqrt(2 * fall)  # for a normal law; no sum of draws falls faster
    if start >= deviation * most:
        return None
    for times in _FIRST, _FURTHER:
        angles = np.minimum(start / deviation * times, most)
        low = waves.log(angles) <= -fall
        first = int(low.argmax())
        if low[first]:
            return float(angles[first])
    return None


def _truncation_error(log: float, last: float, extra: float, reach: float, width: float) -> float:
    """Return the largest contribution to a probability of all terms beyond the last angle."""
    far = 2 * math.pi / reach - last
    exponent = (extra * far) ** 2 / 2
    near = math.exp(log) * math.log(far / last)
    return (near + math.exp(-exponent) * (2 * math.pi / (far * width) + 1 / (2 * exponent))) / math.pi


def _solve_tail(height: Doubles, angle: Doubles, width: float, target: float, deviation: float) -> float:
    """Return the point at which the tail of the wrapped law has fallen to the target; ∞ if it is not found."""
    if target <= 0:
        return math.inf
    slope, place = height * angle, -deviation * _NORMAL.inv_cdf(target)
    aim = target * (1 - _EXACT)
    for _ in range(_STEPS):
        turned = angle * place
        beyond = 0.5 - place / width - float(height @ np.sin(turned))
        if abs(beyond - aim) <= target * _EXACT:
            return place
        density = 1 / width + float(slope @ np.cos(turned))
        if density <= 0:
            return math.inf
        place = min(max(place + (beyond - aim) / density, 0.0), width / 2)
    return math.inf


@dataclass(frozen=True, slots=True, eq=False)
class CharacteristicFunction:
    """The characteristic function of a sum of draws, ready for evaluation."""

    factors: Doubles
    """Half of the factors of the Laplace draws: a column."""
    depths: Doubles
    """sinh(1/(2·scale)) of the Laplace draws: a column."""
    times: Doubles
    wide: float
    """The variance of all normal draws of scale 4 and up, before they are rounded."""
    rounded: Doubles
    """Half of the factors of the rounded draws: a column."""
    rounded_times: Doubles
    narrow: tuple[NoiseTerm, ...]
    """The other discrete Gaussians."""
    steepest: float
    """The largest factor · scale of the Laplace draws, 0 where there is none."""

    @classmethod
    def of(cls, terms: tuple[NoiseTerm, ...]) -> CharacteristicFunction:
        """Return the characteristic function of the sum of the terms."""
        laplace = [term for term in terms if term.law == "Laplace"]
        normal = [term for term in terms if term.law != "Laplace"]
        rows = [(term.factor / 2, math.sinh(0.5 / term.scale), term.times) for term in laplace]
        table = np.array(rows, dtype=np.float64).reshape(-1, 3)
        return cls(
            table[:, :1],
            table[:, 1:2],
            table[:, 2],
            sum([term.times * (term.factor * term.scale) ** 2 for term in normal if term.scale >= WIDE_SCALE]),
            np.array([[term.factor / 2] for term in normal if term.law == _ROUNDED]).reshape(-1, 1),
            np.array([float(term.times) for term in normal if term.law == _ROUNDED]),
            tuple([term for term in normal if term.scale < WIDE_SCALE]),
            max([term.factor * term.scale for term in laplace], default=0.0),
        )

    def log(self, angle: Doubles) -> Doubles:
        """Return ln E cos(angle · sum), for angles that no factor takes beyond π/2.

        Theorem: smoothed-sum
        """
        logarithm: Doubles = self.wide / -2 * angle**2 + self.log_rounding(angle)
        if self.steepest > 0:
            logarithm -= self.times @ np.log1p((np.sin(self.factors * angle) / self.depths) ** 2)
        for term in self.narrow:
            steps = np.arange(1, math.ceil(10 * term.scale) + 2, dtype=np.float64)
            weights = np.exp(-((steps / term.scale) ** 2) / 2)
            waves = np.sin(np.outer(term.factor / 2 * angle, steps)) ** 2 @ weights
            logarithm += term.times * np.log1p(-4 * waves / (1 + 2 * np.sum(weights)))
        return logarithm

    def log_rounding(self, angle: Doubles) -> Doubles:
        """Return the part of it that is due to rounding: for each rounded draw, a uniform number times its factor."""
        logarithm: Doubles = self.rounded_times @ np.log(np.sinc(self.rounded * angle / np.pi))
        return logarithm

    def far(self, extra: float, deviation: float, rare: float) -> float:
        """Return a value that the sum plus an extra normal draw exceeds with probability at most e^-rare, by Chernoff.

        Theorem: sum-of-noises
        """
        normal = self.wide + extra**2 + sum([term.times * (term.factor * term.scale) ** 2 for term in self.narrow])
        normal += float(self.rounded_times @ self.rounded[:, 0] ** 2) / 3  # of a uniform number times 2r: r²/3
        power = math.sqrt(2 * rare) / deviation
        if self.steepest > 0:
            power = min(power, _NEAR_POLE / self.steepest)
        powers = power * _POWERS
        log = normal / 2 * powers**2
        if self.steepest > 0:  # E e^{tX} = 1/(1 - sinh²(t/2)/sinh²(1/2b))
            log -= self.times @ np.log1p(-((np.sinh(self.factors * powers) / self.depths) ** 2))
        return float(((log + rare) / powers).min())
