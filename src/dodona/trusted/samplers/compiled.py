"""The numba sampling kernel: makes the same decisions as the NumPy kernel. Needs the `fast` extra."""

import numba
import numpy as np
from numpy.typing import NDArray

from dodona.trusted.samplers.law import GUIDE_BITS, REJECTED, SERIES_TERMS, LawTable
from dodona.trusted.samplers.rounded import CELLS, RoundedTable

_GUIDE_SHIFT = np.uint64(64 - GUIDE_BITS)
_ONE = np.uint64(1)


def values(ready: LawTable | RoundedTable, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a value for each column of `words`, and the undecided columns.

    Theorem: exact-samplers, exact-rounded-normal
    """
    columns = words.shape[1]
    values, doubtful = np.empty(columns, dtype=np.int64), np.empty(columns, dtype=np.int64)
    if isinstance(ready, RoundedTable):
        scale = (ready.digits, ready.whole, ready.rest, ready.step)
        ends = (ready.band, ready.below, ready.above)
        doubts = _rounded(words[0], words[1], ready.guide, ready.bounds, *scale, *ends, values, doubtful)
        return values, doubtful[:doubts]
    law = ready.law
    if law.shift:
        filters = (np.uint64(law.shift), ready.linear, ready.quadratic, ready.band)
        doubts = _wide(words[0], words[1], ready.guide, ready.bounds, law.signed, *filters, values, doubtful)
    else:
        doubts = _narrow(words[0], ready.guide, ready.bounds, law.signed, values, doubtful)
    return values, doubtful[:doubts]


@numba.njit(nogil=True)
def _top(word, guide, bounds):  # type: ignore[no-untyped-def]
    """Return the outcome and whether the word equals a threshold."""
    top = np.int64(guide[word >> _GUIDE_SHIFT])
    if top >= 0:
        return top, False
    wanted = word >> _ONE
    low, high = 0, bounds.size
    while low < high:
        middle = (low + high) // 2
        if bounds[middle] <= wanted:
            low = middle + 1
        else:
            high = middle
    return np.int64(low), low > 0 and bounds[low - 1] == wanted


@numba.njit(nogil=True)
def _narrow(words, guide, bounds, signed, values, doubtful):  # type: ignore[no-untyped-def]
    """Sample a law that fits the table completely."""
    doubts = 0
    for column in range(words.size):
        word = words[column]
        top, tied = _top(word, guide, bounds)
        if tied:
            doubtful[doubts] = column
            doubts += 1
        negative = -np.int64(word & _ONE) if signed else np.int64(0)
        values[column] = (top ^ negative) - negative
    return doubts


@numba.njit(nogil=True)
def _wide(words, seconds, guide, bounds, signed, shift, linear, quadratic, band, values, doubtful):  # type: ignore[no-untyped-def]
    """Add a uniform offset to each top, and accept it with probability e^-excess."""
    doubts = 0
    for column in range(words.size):
        word, second = words[column], seconds[column]
        top, doubt = _top(word, guide, bounds)
        offset = np.int64(second >> (np.uint64(64) - shift))
        base = top << np.int64(shift)
        magnitude = base + offset
        factor = np.float64(base + magnitude) * quadratic if quadratic else linear
        excess = np.float64(offset) * factor
        uniform = np.float64(second << shift) * 2.0**-64
        negative = -np.int64(word & _ONE) if signed else np.int64(0)
        rejected = magnitude == 0 and negative != 0  # zero has only one sign
        # e^-x >= 1 - x, so nearly every attempt is accepted without further work.
        if uniform + excess >= 1 - band:
            power = 1.0
            for term in range(SERIES_TERMS, 0, -1):
                power = 1 - excess * power / term
            rejected |= uniform - power > band
            doubt |= abs(uniform - power) <= band
        if doubt:
            doubtful[doubts] = column
            doubts += 1
        values[column] = REJECTED if rejected else (magnitude ^ negative) - negative
    return doubts


@numba.njit(nogil=True)
def _rounded(words, seconds, guide, bounds, digits, whole, rest, step, band, below, above, values, doubtful):  # type: ignore[no-untyped-def]
    """Reveal digits of each normal number, accept it with probability e^-excess, and round its multiple."""
    doubts = 0
    unit = 2.0 ** -np.float64(digits)
    for column in range(words.size):
        word, second = words[column], seconds[column]
        top, doubt = _top(word, guide, bounds)
        coarse = np.float64(top)
        place = np.float64(second >> (np.uint64(64) - digits)) * unit
        excess = (2 * coarse + place) * place * (0.5 / CELLS**2)
        uniform = np.float64(second << digits) * 2.0**-64
        rejected = False
        if uniform + excess >= 1 - band:
            power = 1.0
            for term in range(SERIES_TERMS, 0, -1):
                power = 1 - excess * power / term
            rejected = uniform - power > band
            doubt |= abs(uniform - power) <= band
        position = place * step + coarse * rest + 0.5
        magnitude = np.floor(position)
        part = position - magnitude
        if doubt or part < below or part > 1 - above:
            doubtful[doubts] = column
            doubts += 1
        negative = -np.int64(word & _ONE)
        value = np.int64(magnitude) + top * whole
        values[column] = REJECTED if rejected else (value ^ negative) - negative
    return doubts
