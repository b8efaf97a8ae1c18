"""Sums of noises by convolution: exact on a common grid, else every term is rounded up to one."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.term import Term, chernoff

if TYPE_CHECKING:
    from numpy.typing import NDArray

_POINTS = 1 << 14
_SUMMED = 1000.0  # up to this scale a discrete Gaussian is summed; beyond, the normal law bounds it
_ROUNDING = 1e-13  # what a transform of so many doubles may be off by, for each 64 draws, with room to spare


def summed(terms: tuple[Term, ...], failing: float) -> float:
    """Return the quantile of a law that is above that of the sum: each term rounded up to a grid, then convolved.

    Infinite where so many draws would be rounded up too far.

    Theorem: sum-of-noises
    """
    slip = failing * 1e-5
    reach = chernoff(terms, slip)
    draws = sum(term.times for term in terms)
    step = _common([term.factor for term in terms])  # on the common grid nothing is rounded, where it is wide enough
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
