"""Drawing noise: a kernel turns blocks of words into values, and exact arithmetic decides the rest.

The only path from the mechanisms Laplace and Gaussian to integers.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import assert_never, cast

import numpy as np
from numpy.typing import NDArray

from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.privacy.measurement import Noise
from dodona.trusted.entropy import SYSTEM, Keystream
from dodona.trusted.samplers.law import (
    GUIDE_BITS,
    REJECTED,
    SERIES_TERMS,
    DiscreteLaw,
    LawTable,
    NextWord,
    gaussian_law,
    laplace_law,
    prepare_table,
)

KernelResult = tuple[NDArray[np.int64], NDArray[np.int64]]
"""A value for each column of words, and the undecided columns."""
SamplingKernel = Callable[[LawTable, NDArray[np.uint64]], KernelResult]


# --- Kernels: `numpy_values` here, and the same in `compiled`. ---


_WORTH_COMPILING = 1 << 24  # number of values from which starting the compiler pays off


def fastest_sampling_kernel(count: int) -> SamplingKernel:
    """Return the fastest kernel for this many values; both return the same integers for the same words."""
    if count < _WORTH_COMPILING or find_spec("numba") is None:
        return numpy_values
    return cast("SamplingKernel", import_module("dodona.trusted.samplers.compiled").values)


def numpy_values(ready: LawTable, words: NDArray[np.uint64]) -> KernelResult:
    """Return a value for each column of `words`, and the undecided columns.

    Theorem: exact-samplers
    """
    found, doubtful = _tops(ready, words[0])
    if ready.law.shift:
        found, doubtful = _add_offsets(ready, found, words, doubtful)
    elif ready.law.signed:
        _negate(found, _negative(words))
    return found, doubtful


def _tops(ready: LawTable, words: NDArray[np.uint64]) -> KernelResult:
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
) -> KernelResult:
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


# --- Values of a law. ---


_COLUMNS = 1 << 14  # attempts per block, to fit the caches
_AHEAD = 1 << 10  # values buffered for single draws


def decide_values(
    law: DiscreteLaw, words: NDArray[np.uint64], more: NextWord, *, kernel: SamplingKernel = numpy_values
) -> NDArray[np.int64]:
    """Return the value of each column of words, or REJECTED.

    Theorem: exact-samplers
    """
    found, doubtful = kernel(prepare_table(law), words)
    for column in doubtful.tolist():
        value = law.decide(tuple(words[:, column].tolist()), more)
        found[column] = REJECTED if value is None else value
    return found


def draw_values(
    law: DiscreteLaw, count: int, stream: Keystream, *, kernel: SamplingKernel = numpy_values
) -> NDArray[np.int64]:
    """Return `count` independent values of the law.

    Theorem: exact-samplers
    """
    drawn = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        columns = min(_COLUMNS, count - filled)
        words = stream.words(law.words * columns).reshape(law.words, columns)
        found = decide_values(law, words, stream.word, kernel=kernel)
        words.fill(0)
        if law.shift:
            found = found[found != REJECTED]
        drawn[filled : filled + found.size] = found
        filled += found.size
    return drawn


class BufferedDraws:
    """Single values of one law, buffered in blocks, so that the time of a draw does not reveal its value.

    Theorem: exact-samplers
    """

    __slots__ = ("_drawn", "_epoch", "_law", "_owner", "_stream")

    def __init__(self, law: DiscreteLaw, stream: Keystream) -> None:
        """Start with an empty buffer."""
        self._law = law
        self._stream = stream
        self._epoch = object()
        self._owner = 0
        self._drawn: list[int] = []

    def one(self) -> int:
        """Return the next value; no value is ever returned twice, in this process or a fork of it."""
        # Threads share the list, whose pop is atomic; a thread that finds it empty creates a new one.
        if self._owner == os.getpid() and self._epoch is self._stream.epoch and self._drawn:
            with suppress(IndexError):
                return self._drawn.pop()
        epoch = self._stream.epoch
        fresh: list[int] = draw_values(self._law, _AHEAD, self._stream).tolist()
        value = fresh.pop()
        self._drawn = fresh  # set before the owner, so that no thread takes an inherited list for its own
        self._epoch, self._owner = epoch, os.getpid()
        return value


# --- The noise of a mechanism. ---


def draw_one(mechanism: Noise) -> int:
    """Return one value, from a buffer drawn in advance."""
    return _buffered_draws(mechanism).one()


def draw_many(mechanism: Noise, count: int) -> NDArray[np.int64]:
    """Return `count` independent values."""
    if count == 1:
        return np.array([draw_one(mechanism)], dtype=np.int64)
    return draw_values(noise_law(mechanism), count, SYSTEM, kernel=fastest_sampling_kernel(count))


def draw_runs(runs: Sequence[tuple[Noise, int]]) -> NDArray[np.int64]:
    """Return independent values in the order of the runs (noise, count); values of the same noise are drawn at once.

    Residuals have thousands of short runs with only a few distinct noises.
    """
    totals: defaultdict[Noise, int] = defaultdict(int)
    starts = []
    for mechanism, count in runs:
        starts.append(totals[mechanism])
        totals[mechanism] += count
    drawn = {mechanism: draw_many(mechanism, count) for mechanism, count in totals.items()}
    parts = [drawn[own][start : start + count] for (own, count), start in zip(runs, starts, strict=True)]
    return np.concatenate(parts)


def noise_law(mechanism: Noise) -> DiscreteLaw:
    """Return the law of the mechanism's noise."""
    match mechanism:
        case Laplace(scale=scale):
            return laplace_law(scale)
        case Gaussian(scale=scale):
            return gaussian_law(scale**2)
        case _:
            assert_never(mechanism)


@lru_cache(maxsize=1024)
def _buffered_draws(mechanism: Noise) -> BufferedDraws:
    return BufferedDraws(noise_law(mechanism), SYSTEM)
