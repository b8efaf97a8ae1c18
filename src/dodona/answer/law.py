"""Laws of sums of noises: how far off a sum, difference or multiple of noisy values may be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

import numpy as np

from dodona.answer.measured import Noise
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

_POINTS = 1 << 14
_SUMMED = 1000.0  # up to this scale a discrete Gaussian is summed; beyond, the normal law bounds it
_ROUNDING = 1e-13  # what a transform of so many doubles may be off by, with room to spare
_RAREST = 1e-9  # below this failure the rounding of transforms is no longer small beside it


@dataclass(frozen=True, slots=True, order=True)
class Term:
    """So many independent draws of a noise, each times a number above 0. Noise is symmetric, so no sign is kept."""

    factor: float
    law: str
    scale: float
    times: int = 1

    @classmethod
    def of(cls, factor: float, noise: Noise, times: int = 1) -> Term:
        """Return the term of some draws of a noise."""
        return cls(abs(float(factor)), type(noise).__name__, float(noise.scale), times)


@lru_cache(maxsize=65536)
def half_width(noise: Noise, failing: float, answers: int = 1) -> int:
    """Return the least m with P(|noise| > m) at most what is allowed, for all of some answers at once.

    Theorem: laplace-accuracy, gaussian-accuracy
    """
    return int(noise.accuracy(1 - failing, answers=answers).within)


def upper_quantile(terms: tuple[Term, ...], failing: float) -> float:
    """Return a number that the sum of the terms is above with probability at most `failing`.

    Theorem: sum-of-noises
    """
    kept = tuple(sorted(term for term in terms if term.factor > 0 and term.times > 0))
    return _quantile(kept, failing) if kept else 0.0


@lru_cache(maxsize=16384)
def _quantile(terms: tuple[Term, ...], failing: float) -> float:
    simple = chernoff(terms, failing)
    return simple if failing < _RAREST else min(simple, _summed(terms, failing))


def chernoff(terms: tuple[Term, ...], failing: float) -> float:
    """Return min (ln M(t) + ln 1/failing)/t over a grid of t: Chernoff's bound, M being the moment generating function.

    Theorem: sum-of-noises
    """
    laplace = [term for term in terms if term.law == "Laplace"]
    deviation = math.sqrt(sum(term.times * (term.factor * term.scale) ** 2 for term in terms))
    most = 1 / max((term.factor * term.scale for term in laplace), default=0.0) if laplace else 100 / deviation
    grid = most * np.concatenate([np.geomspace(1e-4, 0.5, 120), 1 - np.geomspace(0.5, 1e-6, 60)])
    log = np.zeros_like(grid)
    for term in terms:
        if term.law == "Laplace":
            # E e^{sX} = (1-q)²/((1-q·e^s)(1-q·e^{-s})), here as ratios that keep their digits for large scales.
            rate, power = 1 / term.scale, term.factor * grid
            one = -np.expm1(-rate)
            log -= term.times * (np.log(-np.expm1(power - rate) / one) + np.log(-np.expm1(-power - rate) / one))
        else:
            log += term.times * (term.factor * term.scale * grid) ** 2 / 2
    return float(np.min((log - math.log(failing)) / grid))


def _summed(terms: tuple[Term, ...], failing: float) -> float:
    """Return the quantile of a law that is above that of the sum: each term rounded up to a grid, then convolved."""
    slip = failing * 1e-5
    reach = chernoff(terms, slip)
    draws = sum(term.times for term in terms)
    common = _common([term.factor for term in terms])
    if 8 * draws >= _POINTS:
        return math.inf
    fine = 2.0 ** math.ceil(math.log2(2 * reach / (_POINTS - 4 * draws)))
    step = max(fine, common)  # on the common grid nothing is rounded, where it is wide enough
    product: NDArray[np.complex128] = np.ones(_POINTS // 2 + 1, dtype=np.complex128)
    for term in terms:
        product *= _power(_transform(term.factor, term.law, term.scale, step), term.times)
    law = np.fft.irfft(product, _POINTS)
    ordered = np.concatenate([law[_POINTS // 2 :], law[: _POINTS // 2]])  # from the most negative sum up
    beyond = np.cumsum(ordered[::-1])[::-1] - ordered + _ROUNDING + 2 * slip
    first = int(np.argmax(beyond <= failing))
    return float((first - _POINTS // 2) * step) * (1 + 1e-12) if beyond[first] <= failing else math.inf


@lru_cache(maxsize=64)
def _transform(factor: float, law: str, scale: float, step: float) -> NDArray[np.complex128]:
    """Return the transform of one draw times its factor, rounded up to whole steps."""
    grid = np.arange(-_POINTS // 2 - 1, _POINTS // 2, dtype=np.float64)
    whole = np.floor(grid * (step / factor) * (1 + 1e-12) + 1e-9)  # a whole number must not fall for a rounding
    above = np.clip(upper_tail(law, scale, whole), 0.0, 1.0)
    above[0], above[-1] = 1.0, 0.0
    mass = above[:-1] - above[1:]
    return np.fft.rfft(np.concatenate([mass[_POINTS // 2 :], mass[: _POINTS // 2]]))


def _power(transform: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """Return a whole power by squaring, which is many times faster than a complex power."""
    found: NDArray[np.complex128] = np.ones_like(transform)
    while times:
        if times & 1:
            found = found * transform
        transform, times = transform * transform, times >> 1
    return found


def upper_tail(law: str, scale: float, whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(X > m) for whole m, or for wide Gaussian noise P(Y > m) of the normal law, which is at least that.

    Theorem: sum-of-noises
    """
    if law == "Laplace":
        share = 1 + math.exp(-1 / scale)
        tail = np.exp(-np.where(whole >= 0, whole + 1, -whole) / scale) / share
        return np.where(whole >= 0, tail, 1 - tail)
    if scale > _SUMMED:
        from scipy.special import ndtr

        bound: NDArray[np.float64] = ndtr(-whole / scale)
        return bound
    sums = _gaussian_sums(scale)
    last = len(sums) // 2 - 1
    found: NDArray[np.float64] = sums[np.clip(whole + 1, -last, last + 1).astype(np.int64) + last]
    return found


@lru_cache(maxsize=16)
def _gaussian_sums(scale: float) -> NDArray[np.float64]:
    """Return P(X ≥ m) for each m from the least that matters up to one more than the largest."""
    last = math.ceil(40 * scale) + 2
    weights = np.exp(-((np.arange(-last, last + 1) / scale) ** 2) / 2)
    found: NDArray[np.float64] = np.concatenate([np.cumsum(weights[::-1])[::-1], [0.0]]) / np.sum(weights)
    return found


def _common(factors: list[float]) -> float:
    """Return the largest number that all factors are whole multiples of, where it is a simple one; else 0."""
    for parts in (1, 2, 4, 5, 8, 10, 20, 100, 1000):
        scaled = [factor * parts for factor in factors]
        if all(abs(number - round(number)) < 1e-12 * parts for number in scaled):
            return math.gcd(*(round(number) for number in scaled)) / parts
    return 0.0


def spelled(noise: Noise) -> str:
    """Return a noise in words.

    >>> spelled(Laplace(scale=20)), spelled(Gaussian(scale="41.5"))
    ('discrete Laplace noise of scale 20', 'discrete Gaussian noise of scale 41.5')
    """
    match noise:
        case Laplace():
            name = "Laplace"
        case Gaussian():
            name = "Gaussian"
        case _:
            assert_never(noise)
    return f"discrete {name} noise of scale {float(noise.scale):.6g}"
