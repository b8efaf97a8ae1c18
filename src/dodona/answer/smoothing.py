"""Quantiles of sums of very many draws: a little normal noise is added in thought, which makes their law smooth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.term import WIDE, Term

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NORMAL = NormalDist()
_KEPT = 0.96  # of the exponent of the transform of a discrete Gaussian of scale 4 and up, at any angle
_BEYOND = 5.0  # what is cut off of a transform is about e^-5 of what may fail, over 2πx
_FAINT = 1e-30  # below this failure Chernoff's bound is used alone
_NEVER = 1e-60  # more than what a normal law differs from the sum through angles below π/2
_BESIDE = 14.0  # e^-14 of what may fail: it may lie outside of the interval, and as small are waves that are left out
_ROUNDING = 1e-13  # what a series of doubles may be off by, with room to spare
_RAREST = 1e-9  # below this failure the rounding of the series is no longer small beside it
_HALF = 0.5
_MOST_WAVES = 4096
_STEPS = 40
_FIRST = np.array([1.0, 1.05, 1.1, 1.2, 1.35, 1.6, 2.0])
_FURTHER = 2.0 * 1.25 ** np.arange(1, 40)
_POWERS = np.array([0.5, 0.65, 0.8, 0.9, 1.0])
_NEAR_POLE = 0.95
_EXACT = 1e-9
_UP = 1 + 1e-12


def bell_quantile(variance: float, reach: float, failing: float) -> float:
    """Return a number that a sum of discrete Gaussians of scale 4 and up is above with probability at most `failing`.

    The sum has this variance and no factor above `reach`.

    Theorem: smoothed-sum
    """
    rare = -math.log(failing)
    simple = math.sqrt(2 * variance * rare)
    if not _FAINT <= failing < _HALF:
        return simple
    exponent = rare + _BEYOND
    extra = reach * math.sqrt(2 * exponent) / (2 * math.pi)
    error = _cut_off(_KEPT * variance, extra, reach)
    margin = _margin(extra, math.sqrt(variance), rare)
    left = failing * _below(margin) - error
    if left <= 0:
        return simple
    return min(simple, (margin * extra - math.sqrt(variance + extra**2) * _NORMAL.inv_cdf(left)) * _UP)


def _cut_off(variance: float, extra: float, reach: float) -> float:
    """Return what the smoothed sum of discrete Gaussians may differ from a normal law by, in probability."""
    turn = 2 * math.pi / reach
    both = variance + extra**2
    exponent = (turn * extra) ** 2 / 2
    middle = math.log(2) * math.exp(-both * (turn / 4) ** 2 / 2)
    alias = 2 / turn * math.sqrt(2 * math.pi / both) * math.exp(-exponent * variance / both)
    return (middle + alias + math.exp(-exponent) / (2 * exponent)) / math.pi + _NEVER


def _margin(extra: float, deviation: float, rare: float) -> float:
    """Return how many deviations of the extra noise are added to a quantile: about those that make it least."""
    share = extra / deviation * math.sqrt(4 * math.pi * rare)
    return max(math.sqrt(-2 * math.log(share)) if share < 1 else 0.0, 0.5)


def _below(margin: float) -> float:
    """Return the probability that a normal draw is not below minus the margin."""
    return math.erfc(-margin / math.sqrt(2)) / 2


def series_quantile(terms: tuple[Term, ...], failing: float) -> float:
    """Return a number that the sum of the terms is above with probability at most `failing`; ∞ where there are too few.

    Theorem: smoothed-sum
    """
    if not _RAREST <= failing < _HALF:
        return math.inf
    reach = max([term.factor for term in terms])
    deviation = math.sqrt(sum([term.variance for term in terms]))
    rare = -math.log(failing)
    waves_of = Waves.of(terms)
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
    error = _tail(float(smooth[-1]), float(angle[-1]), extra, reach, width) + outside + _ROUNDING
    height = np.exp(smooth - (extra * angle) ** 2 / 2) / (math.pi * number)
    margin = _margin(extra, deviation, rare)
    found = _solved(height, angle, width, failing * _below(margin) - error, deviation)
    return (margin * extra + found) * _UP


def _last_angle(waves: Waves, deviation: float, most: float, fall: float) -> float | None:
    """Return an angle at which the transform of the sum has fallen to e^-fall, None where it has not at the largest."""
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


def _tail(log: float, last: float, extra: float, reach: float, width: float) -> float:
    """Return what all waves beyond the last angle may add to a probability."""
    far = 2 * math.pi / reach - last
    exponent = (extra * far) ** 2 / 2
    near = math.exp(log) * math.log(far / last)
    return (near + math.exp(-exponent) * (2 * math.pi / (far * width) + 1 / (2 * exponent))) / math.pi


def _solved(
    height: NDArray[np.float64], angle: NDArray[np.float64], width: float, target: float, deviation: float
) -> float:
    """Return where the tail of the wrapped law has come down to the target, ∞ where it is not found."""
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
class Waves:
    """The transform of a sum of draws, ready to be looked at."""

    factors: NDArray[np.float64]
    """Half of the factors of the Laplace draws: a column."""
    depths: NDArray[np.float64]
    """sinh(1/(2·scale)) of the Laplace draws: a column."""
    times: NDArray[np.float64]
    wide: float
    """The variance of all discrete Gaussians of scale 4 and up."""
    narrow: tuple[Term, ...]
    """The other discrete Gaussians."""
    steepest: float
    """The largest factor · scale of the Laplace draws, 0 where there is none."""

    @classmethod
    def of(cls, terms: tuple[Term, ...]) -> Waves:
        """Return the transform of the sum of the terms."""
        laplace = [term for term in terms if term.law == "Laplace"]
        normal = [term for term in terms if term.law != "Laplace"]
        rows = [(term.factor / 2, math.sinh(0.5 / term.scale), term.times) for term in laplace]
        table = np.array(rows, dtype=np.float64).reshape(-1, 3)
        return cls(
            table[:, :1],
            table[:, 1:2],
            table[:, 2],
            sum([term.variance for term in normal if term.scale >= WIDE]),
            tuple([term for term in normal if term.scale < WIDE]),
            max([term.factor * term.scale for term in laplace], default=0.0),
        )

    def log(self, angle: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ln E cos(angle · sum), for angles of which no factor makes more than π/2.

        Theorem: smoothed-sum
        """
        found: NDArray[np.float64] = self.wide / -2 * angle**2
        if self.steepest > 0:
            found -= self.times @ np.log1p((np.sin(self.factors * angle) / self.depths) ** 2)
        for term in self.narrow:
            steps = np.arange(1, math.ceil(10 * term.scale) + 2, dtype=np.float64)
            weights = np.exp(-((steps / term.scale) ** 2) / 2)
            waves = np.sin(np.outer(term.factor / 2 * angle, steps)) ** 2 @ weights
            found += term.times * np.log1p(-4 * waves / (1 + 2 * np.sum(weights)))
        return found

    def far(self, extra: float, deviation: float, rare: float) -> float:
        """Return what the sum and an extra normal draw are above with probability at most e^-rare, by Chernoff's bound.

        Theorem: sum-of-noises
        """
        normal = self.wide + extra**2 + sum([term.times * (term.factor * term.scale) ** 2 for term in self.narrow])
        power = math.sqrt(2 * rare) / deviation
        if self.steepest > 0:
            power = min(power, _NEAR_POLE / self.steepest)
        powers = power * _POWERS
        log = normal / 2 * powers**2
        if self.steepest > 0:  # E e^{tX} = 1/(1 - sinh²(t/2)/sinh²(1/2b))
            log -= self.times @ np.log1p(-((np.sinh(self.factors * powers) / self.depths) ** 2))
        return float(((log + rare) / powers).min())
