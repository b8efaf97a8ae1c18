"""The NumPy kernel: turns blocks of words into values, and reports the few columns that need exact arithmetic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dodona.trusted.samplers.law import GUIDE_BITS, REJECTED, SERIES_TERMS, LawTable

Values = tuple[NDArray[np.int64], NDArray[np.int64]]


def values(ready: LawTable, words: NDArray[np.uint64]) -> Values:
    """Return a value for each column of `words`, and the undecided columns.

    Theorem: exact-samplers
    """
    found, doubtful = _tops(ready, words[0])
    if ready.law.shift:
        found, doubtful = _add_offsets(ready, found, words, doubtful)
    elif ready.law.signed:
        _negate(found, _negative(words))
    return found, doubtful


def _tops(ready: LawTable, words: NDArray[np.uint64]) -> Values:
    """Look up each word; a word that equals a threshold is undecided."""
    cell = (words >> np.uint64(64 - GUIDE_BITS)).view(np.int64)
    top = ready.guide.take(cell, mode="clip").astype(np.int64)
    unsure = np.flatnonzero(top < 0)
    word = words[unsure] >> np.uint64(1)
    after = ready.bounds.searchsorted(word, side="right")
    top[unsure] = after
    return top, unsure[(after > 0) & (ready.bounds[after - 1] == word)]


def _add_offsets(
    ready: LawTable, top: NDArray[np.int64], words: NDArray[np.uint64], doubtful: NDArray[np.int64]
) -> Values:
    """Add a uniform offset to each top, and accept it with probability e^-excess."""
    shift = ready.law.shift
    offset = (words[1] >> np.uint64(64 - shift)).view(np.int64)
    top <<= shift
    magnitude = top + offset
    excess = offset.astype(np.float64)
    excess *= (top + magnitude) * ready.quadratic if ready.quadratic else ready.linear
    uniform = (words[1] << np.uint64(shift)).astype(np.float64)
    uniform *= 2.0**-64
    # e^-x ≥ 1 - x, so nearly every attempt is accepted without further work.
    unsure = np.flatnonzero(uniform + excess >= 1 - ready.band)
    margin = uniform[unsure] - _power(excess[unsure])
    rejected = unsure[margin > ready.band]
    undecided = unsure[np.abs(margin) <= ready.band]
    if ready.law.signed:
        negative = _negative(words)
        zero = np.flatnonzero(magnitude == 0)
        _negate(magnitude, negative)
        magnitude[zero[negative[zero] < 0]] = REJECTED  # zero has only one sign
    magnitude[rejected] = REJECTED
    return magnitude, np.union1d(doubtful, undecided) if undecided.size else doubtful


def _negative(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return -1 where the sign bit is set and 0 elsewhere."""
    negative: NDArray[np.int64] = -(words[0] & np.uint64(1)).view(np.int64)
    return negative


def _negate(magnitude: NDArray[np.int64], negative: NDArray[np.int64]) -> None:
    """Apply the sign to each magnitude, in two's complement, in place."""
    magnitude ^= negative
    magnitude -= negative


def _power(exponent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return e^-exponent by its series in basic operations only, which IEEE 754 rounds identically everywhere."""
    power = np.ones_like(exponent)
    for term in range(SERIES_TERMS, 0, -1):
        power = 1 - exponent * power / term
    return power


def contest_keys(words: NDArray[np.uint64], gaps: NDArray[np.float64], *, gumbel: bool) -> NDArray[np.float64]:
    """Return draw - gap in doubles, where the draw is -ln(-ln(1 - U)) or -ln U."""
    uniform = words.astype(np.float64)
    uniform *= 2.0**-64
    np.clip(uniform, 2.0**-64, 1 - 2.0**-53, out=uniform)
    if gumbel:
        np.negative(uniform, out=uniform)
        np.log1p(uniform, out=uniform)
        np.negative(uniform, out=uniform)
    np.log(uniform, out=uniform)
    uniform += gaps
    return np.negative(uniform, out=uniform)
