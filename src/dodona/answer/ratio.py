"""Honest intervals for ratios of noisy values, by inverting a test; all groups at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.band import Band, at_points
from dodona.answer.measured import Noise
from dodona.mechanisms.gaussian import Gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HALVINGS = 40  # of what is left between both ends: 10^-12
_DOUBLINGS = 400
_PAIR = 2
_TINY = 1e-12
_SMALL = 1e-5
_BEYOND = 40
_FEW = 1 << 12
_Pair = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


@dataclass(frozen=True, slots=True)
class Part:
    """A noise, and how often it is in the numerator and in the denominator."""

    above: float
    below: float
    noise: Noise


@dataclass(frozen=True, slots=True)
class Ratio:
    """Noisy numerators and denominators of all groups, and the noises that they are made of."""

    above: NDArray[np.float64]
    below: NDArray[np.float64]
    parts: tuple[Part, ...]

    def accepts(self, candidate: NDArray[np.float64], failing: float) -> NDArray[np.bool_]:
        """Whether the test at level `failing` leaves a candidate ratio possible, for each group.

        Theorem: honest-ratio
        """
        factors = [np.abs(part.above - candidate * part.below) for part in self.parts]
        distance = np.abs(self.above - candidate * self.below)
        # A discrete draw is less than 1 from a continuous one, so so much of the distance is granted.
        distance = distance * (1 - 1e-12) - np.sum(factors, axis=0)
        scales = [factor * float(part.noise.scale) for factor, part in zip(factors, self.parts, strict=True)]
        normal = [isinstance(part.noise, Gaussian) for part in self.parts]
        kept: NDArray[np.bool_] = (distance <= 0) | (_tail(distance, scales, normal, failing) >= failing)
        return kept

    def accepts_zero_below(self, failing: float) -> NDArray[np.bool_]:
        """Whether the test leaves a denominator of 0 possible, so that no ratio is too large."""
        turned = Ratio(self.below, self.above, tuple(Part(part.below, part.above, part.noise) for part in self.parts))
        return turned.accepts(np.zeros_like(self.below), failing)


def can_invert(noises: Sequence[Noise]) -> bool:
    """Whether the tail of a combination of these noises is known: any number of Gaussian ones, or two of any kind."""
    return len(noises) <= _PAIR or all(isinstance(noise, Gaussian) for noise in noises)


def bounded(ratio: Ratio, *, lower: float, upper: float, failing: float) -> Band:
    """Return ratios that are known to lie between public bounds, with honest intervals within these.

    Where the denominator is not clearly above its noise, the interval is all of the public range.

    Theorem: honest-ratio
    """
    ends = np.full_like(ratio.above, lower), np.full_like(ratio.above, upper)
    with np.errstate(all="ignore"):
        point = at_points("/", ratio.above, ratio.below)
        first, last = (ratio.accepts(end, failing) for end in ends)
        inside = (point >= lower) & (point <= upper)
        # Every accepted set has an end or the point itself in it; with none of them the noise was beyond its bound.
        known = inside | first | last
        low_from = np.where(inside, point, np.where(last, upper, lower))
        high_from = np.where(inside, point, np.where(first, lower, upper))
        low_edge, high_edge = _edges(ratio, ends, (low_from, high_from), failing)
        low = np.where(first | ~known, lower, low_edge)
        high = np.where(last | ~known, upper, high_edge)
        guess = np.where((ratio.below > 0) & np.isfinite(point), point, (low + high) / 2)
    return Band(np.clip(guess, low, high), low, high)


def unbounded(ratio: Ratio, *, failing: float) -> Band:
    """Return ratios of any size; where the denominator may be 0 their intervals have no ends.

    Theorem: honest-ratio
    """
    with np.errstate(all="ignore"):
        point = at_points("/", ratio.above, ratio.below)
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
            ends.append(np.where(endless, sign * np.inf, _edge(ratio, outer, start, failing)))
    return Band(point, ends[0], ends[1])


def _edges(ratio: Ratio, outer: _Pair, inner: _Pair, failing: float) -> _Pair:
    """Return both edges; those of few groups are looked for together, as each step costs as much as for one."""
    if len(ratio.above) > _FEW:
        return _edge(ratio, outer[0], inner[0], failing), _edge(ratio, outer[1], inner[1], failing)
    twice = Ratio(np.tile(ratio.above, 2), np.tile(ratio.below, 2), ratio.parts)
    low, high = np.split(_edge(twice, np.concatenate(outer), np.concatenate(inner), failing), 2)
    return low, high


def _edge(ratio: Ratio, outer: NDArray[np.float64], inner: NDArray[np.float64], failing: float) -> NDArray[np.float64]:
    """Return where acceptance ends between a rejected and an accepted candidate, seen from outside."""
    for _ in range(_HALVINGS):
        middle = (outer + inner) / 2
        kept = ratio.accepts(middle, failing)
        inner, outer = np.where(kept, middle, inner), np.where(kept, outer, middle)
    return outer


def _tail(
    distance: NDArray[np.float64], scales: list[NDArray[np.float64]], normal: list[bool], failing: float
) -> NDArray[np.float64]:
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
            return _mixed(distance, laplace, gaussian)
        return two_laplace(distance, scales[0], scales[1])


def two_laplace(
    distance: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return P(|aX + cY| > d) = (a²e^{-d/a} - c²e^{-d/c})/(a² - c²) for Laplace X, Y of scale 1, also where a = c.

    With r = c/a ≤ 1, x = d/a and y = x(1 - r)/r it is e^{-x}·(1 + r·x·φ(y)/(1 + r)) with φ(y) = (1 - e^{-y})/y.

    Theorem: honest-ratio
    """
    with np.errstate(all="ignore"):
        large, small = np.maximum(first, second), np.minimum(first, second)
        share, length = small / large, distance / large
        rest = length * (1 - share) / share
        slope = np.where(rest > _TINY, -np.expm1(-rest) / rest, 1.0)
        found = np.exp(-length) * (1 + np.where(share > 0, share * length * slope / (1 + share), 0.0))
    return np.where(large > 0, found, 0.0)


def _mixed(
    distance: NDArray[np.float64], laplace: NDArray[np.float64], gaussian: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return P(|bX + sY| > d) for X Laplace and Y normal: the normal tail, and what the Laplace part adds to it."""
    from scipy.special import log_ndtr

    wide = np.maximum(laplace, 1e-300)
    deviation = np.maximum(gaussian, 1e-300)
    place, rate = distance / deviation, deviation / wide
    added = np.exp(rate**2 / 2 - distance / wide + log_ndtr(place - rate))
    taken = np.exp(rate**2 / 2 + distance / wide + log_ndtr(-place - rate))
    found: NDArray[np.float64] = 2 * np.exp(log_ndtr(-place)) + added - taken
    # So small a Laplace part is hardly ever beyond 40 of its scales, and the terms above would lose their digits.
    bound = 2 * np.exp(log_ndtr(-(distance - _BEYOND * laplace) / deviation))
    return np.where(laplace <= _SMALL * gaussian, bound, found)
