"""Drawing noise: a kernel turns blocks of words into values, and exact arithmetic decides the rest.

The only path from the mechanisms Laplace, Gaussian and RoundedGaussian to integers.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Self, assert_never, cast

import numpy as np
from numpy.typing import NDArray

from dodona.privacy.additive_noise import Gaussian, Laplace, Noise, RoundedGaussian
from dodona.trusted.entropy import SYSTEM, Keystream
from dodona.trusted.samplers.law import (
    GUIDE_BITS,
    REJECTED,
    SERIES_TERMS,
    WIDEST_TOP,
    WORD,
    DiscreteLaw,
    LawTable,
    NextWord,
    below_power,
    gaussian_law,
    laplace_law,
    prepare_table,
)
from dodona.trusted.samplers.rounded import CELLS, RoundedNormalLaw, RoundedTable, prepare_rounded

NoiseLaw = DiscreteLaw | RoundedNormalLaw
NoiseTable = LawTable | RoundedTable

KernelResult = tuple[NDArray[np.int64], NDArray[np.int64]]
"""A value for each column of words, and the undecided columns."""
SamplingKernel = Callable[[NoiseTable, NDArray[np.uint64]], KernelResult]


# --- Kernels: `numpy_values` here, and the same in `compiled`. ---


_WORTH_COMPILING = 1 << 24  # number of values from which starting the compiler pays off


def fastest_sampling_kernel(count: int) -> SamplingKernel:
    """Return the fastest kernel for this many values; both return the same integers for the same words."""
    if count < _WORTH_COMPILING or find_spec("numba") is None:
        return numpy_values
    return cast("SamplingKernel", import_module("dodona.trusted.samplers.compiled").values)


def numpy_values(ready: NoiseTable, words: NDArray[np.uint64]) -> KernelResult:
    """Return a value for each column of `words`, and the undecided columns.

    Theorem: exact-samplers, exact-rounded-normal
    """
    values, doubtful = _tops(ready, words[0])
    if isinstance(ready, RoundedTable):
        values, doubtful = _round(ready, values, words, doubtful)
    elif ready.law.shift:
        values, doubtful = _add_offsets(ready, values, words, doubtful)
    elif ready.law.signed:
        _negate(values, _negative(words))
    return values, doubtful


def _tops(ready: NoiseTable, words: NDArray[np.uint64]) -> KernelResult:
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
    rejected, undecided = _rejected(uniform, excess, ready.band)
    if ready.law.signed:
        negative = _negative(words)
        zero = np.flatnonzero(magnitude == 0)
        _negate(magnitude, negative)
        magnitude[zero[negative[zero] < 0]] = REJECTED  # zero has only one sign
    magnitude[rejected] = REJECTED
    return magnitude, np.union1d(doubtful, undecided) if undecided.size else doubtful


def _round(
    ready: RoundedTable, top: NDArray[np.int64], words: NDArray[np.uint64], doubtful: NDArray[np.int64]
) -> KernelResult:
    """Reveal digits of each normal number, accept it with probability e^-excess, and round its multiple."""
    place = (words[1] >> (np.uint64(64) - ready.digits)).astype(np.float64)
    place *= ready.unit
    coarse = top.astype(np.float64)
    excess = (2 * coarse + place) * place
    excess *= 0.5 / CELLS**2
    uniform = (words[1] << ready.digits).astype(np.float64)
    uniform *= 2.0**-64
    rejected, undecided = _rejected(uniform, excess, ready.band)
    place *= ready.step
    coarse *= ready.rest
    place += coarse
    place += 0.5
    whole = np.floor(place)
    place -= whole
    tied = np.flatnonzero((place < ready.below) | (place > 1 - ready.above))
    magnitude = whole.astype(np.int64)
    magnitude += top * ready.whole
    _negate(magnitude, _negative(words))
    magnitude[rejected] = REJECTED
    if undecided.size or tied.size:
        doubtful = np.unique(np.concatenate([doubtful, undecided, tied]))
    return magnitude, doubtful


def _rejected(
    uniform: NDArray[np.float64], excess: NDArray[np.float64], band: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the attempts that are certainly rejected at probability e^-excess, and those in doubt."""
    # e^-x ≥ 1 - x, so nearly every attempt is accepted without further work.
    unsure = np.flatnonzero(uniform + excess >= 1 - band)
    margin = uniform[unsure] - _power(excess[unsure])
    return unsure[margin > band], unsure[np.abs(margin) <= band]


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
    law: NoiseLaw, words: NDArray[np.uint64], more: NextWord, *, kernel: SamplingKernel = numpy_values
) -> NDArray[np.int64]:
    """Return the value of each column of words, or REJECTED.

    Theorem: exact-samplers
    """
    values, doubtful = kernel(prepare_noise(law), words)
    for column in doubtful.tolist():
        value = law.decide(tuple(words[:, column].tolist()), more)
        values[column] = REJECTED if value is None else value
    return values


def draw_values(
    law: NoiseLaw, count: int, stream: Keystream, *, kernel: SamplingKernel = numpy_values
) -> NDArray[np.int64]:
    """Return `count` independent values of the law.

    Theorem: exact-samplers
    """
    drawn = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        columns = min(_COLUMNS, count - filled)
        words = stream.words(law.words * columns).reshape(law.words, columns)
        values = decide_values(law, words, stream.word, kernel=kernel)
        words.fill(0)
        if law.rejects:
            values = values[values != REJECTED]
        drawn[filled : filled + values.size] = values
        filled += values.size
    return drawn


class BufferedDraws:
    """Single values of one law, buffered in blocks, so that the time of a draw does not reveal its value.

    Theorem: exact-samplers
    """

    __slots__ = ("_drawn", "_epoch", "_law", "_owner", "_stream")

    def __init__(self, law: NoiseLaw, stream: Keystream) -> None:
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


def prepare_noise(law: NoiseLaw) -> NoiseTable:
    """Return the table of a law."""
    return prepare_rounded(law) if isinstance(law, RoundedNormalLaw) else prepare_table(law)


def noise_law(mechanism: Noise) -> NoiseLaw:
    """Return the law of the mechanism's noise."""
    match mechanism:
        case Laplace(scale=scale):
            return laplace_law(scale)
        case Gaussian(scale=scale):
            return gaussian_law(scale**2)
        case RoundedGaussian(scale=scale):
            return RoundedNormalLaw(scale)
        case _:
            assert_never(mechanism)


@lru_cache(maxsize=1024)
def _buffered_draws(mechanism: Noise) -> BufferedDraws:
    return BufferedDraws(noise_law(mechanism), SYSTEM)


# --- Noise of many scales at once, as residuals need it: discrete Gaussians of all scales share one table. ---

TOPS = DiscreteLaw(Fraction(0), Fraction(1, 2 * WIDEST_TOP**2), signed=False, shift=0)
"""The law of the coarse part of every scale: no Gaussian of more than one step is wider, in its own steps."""
UNEVEN_BAND = 2.0**-40
"""Doubles decide only outside this band around the true value; rounding uses a quarter of it (page exact-samplers)."""
_HALVINGS = 6  # of an exponent, so that the series for e^-x applies; as many squarings follow
_FAR = 45.0  # e^-45 < 2^-64: all larger exponents are the same to a word
_SEVERAL = 8  # noises: for fewer, their own tables are built, and kept for the next question
_MANY = 1 << 14  # values of one noise that are worth a table of their own, which rejects fewer attempts


def draw_runs(runs: Sequence[tuple[Noise, int]]) -> NDArray[np.int64]:
    """Return independent values in the order of the runs (noise, count); values of the same noise are drawn at once.

    Residuals have thousands of short runs, often each with a scale of its own.

    Theorem: exact-samplers
    """
    totals: defaultdict[Noise, int] = defaultdict(int)
    starts = []
    for mechanism, count in runs:
        starts.append(totals[mechanism])
        totals[mechanism] += count
    if len(totals) < _SEVERAL:
        drawn = {mechanism: draw_many(mechanism, count) for mechanism, count in totals.items()}
    else:
        drawn = _draw_several(totals)
    parts = [drawn[mechanism][start : start + count] for (mechanism, count), start in zip(runs, starts, strict=True)]
    return np.concatenate(parts)


def _draw_several(totals: dict[Noise, int]) -> dict[Noise, NDArray[np.int64]]:
    """Return the values of each noise; those of few values and more than one step are drawn together."""
    drawn: dict[Noise, NDArray[np.int64]] = {}
    uneven: dict[Noise, DiscreteLaw] = {}
    rounded: dict[Noise, RoundedNormalLaw] = {}
    for noise, count in totals.items():
        law = noise_law(noise)
        if count < _MANY and isinstance(law, RoundedNormalLaw):
            rounded[noise] = law
        elif count < _MANY and isinstance(noise, Gaussian) and isinstance(law, DiscreteLaw) and law.shift:
            uneven[noise] = law
        else:
            drawn[noise] = draw_values(law, count, SYSTEM)
    for noises, values in (
        (uneven, draw_uneven(tuple(uneven.values()), [totals[noise] for noise in uneven], SYSTEM)),
        (rounded, draw_rounded(tuple(rounded.values()), [totals[noise] for noise in rounded], SYSTEM)),
    ):
        ends = np.cumsum([totals[noise] for noise in noises])
        drawn |= {noise: values[end - totals[noise] : end] for noise, end in zip(noises, ends.tolist(), strict=True)}
    return drawn


# --- Rounded normal draws of many scales. ---


def draw_rounded(laws: Sequence[RoundedNormalLaw], counts: Sequence[int], stream: Keystream) -> NDArray[np.int64]:
    """Return independent values of each law in turn, as many as its count.

    Theorem: exact-rounded-normal
    """
    return _draw_each(counts, stream, lambda which, words: decide_rounded(laws, which, words, stream.word))


def decide_rounded(
    laws: Sequence[RoundedNormalLaw], which: NDArray[np.int64], words: NDArray[np.uint64], more: NextWord
) -> NDArray[np.int64]:
    """Return the value of each column of words under the law with the given number, or REJECTED.

    Theorem: exact-rounded-normal
    """
    values, doubtful = numpy_values(RoundedTable.of(laws, which), words)
    for column in doubtful.tolist():
        value = laws[which[column]].decide(tuple(words[:, column].tolist()), more)
        values[column] = REJECTED if value is None else value
    return values


def _draw_each(
    counts: Sequence[int],
    stream: Keystream,
    decide: Callable[[NDArray[np.int64], NDArray[np.uint64]], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Return values of each law in turn; `decide` maps the numbers of laws and their words to values or REJECTED."""
    which = np.repeat(np.arange(len(counts)), counts)
    drawn = np.empty(len(which), dtype=np.int64)
    left = np.arange(len(which))
    while left.size:
        words = stream.words(2 * left.size).reshape(2, left.size)
        values = decide(which[left], words)
        words.fill(0)
        kept = values != REJECTED
        drawn[left[kept]] = values[kept]
        left = left[~kept]
    return drawn


# --- Discrete Gaussians of many scales: a coarse part from one table, accepted with the right probability. ---


@dataclass(frozen=True, slots=True, eq=False)
class UnevenLaws:
    """Discrete Gaussian laws, and what the filter in doubles needs of each."""

    laws: tuple[DiscreteLaw, ...]
    shifts: NDArray[np.uint64]
    quadratics: NDArray[np.float64]
    surpluses: NDArray[np.float64]
    """By how much each falls faster than `TOPS`, in its own steps."""
    band: float

    @classmethod
    def of(cls, laws: Sequence[DiscreteLaw]) -> Self:
        """Return them prepared; each is a signed Gaussian of more than one step."""
        surpluses = [float(law.quadratic * (1 << 2 * law.shift) - TOPS.quadratic) for law in laws]
        shifts = np.array([law.shift for law in laws], dtype=np.uint64)
        quadratics = np.array([float(law.quadratic) for law in laws])
        widest = max((law.shift for law in laws), default=0)
        return cls(tuple(laws), shifts, quadratics, np.array(surpluses), UNEVEN_BAND + 2.0 ** (widest - WORD))


def draw_uneven(laws: Sequence[DiscreteLaw], counts: Sequence[int], stream: Keystream) -> NDArray[np.int64]:
    """Return independent values of each law in turn, as many as its count.

    Theorem: exact-samplers
    """
    ready = UnevenLaws.of(laws)
    return _draw_each(counts, stream, lambda which, words: decide_uneven(ready, which, words, stream.word))


def decide_uneven(
    ready: UnevenLaws, which: NDArray[np.int64], words: NDArray[np.uint64], more: NextWord
) -> NDArray[np.int64]:
    """Return the value of each column of words under the law with the given number, or REJECTED.

    Theorem: exact-samplers
    """
    values, doubtful = uneven_values(ready, which, words)
    for column in doubtful.tolist():
        value = decide_shared(ready.laws[which[column]], tuple(words[:, column].tolist()), more)
        values[column] = REJECTED if value is None else value
    return values


def decide_shared(law: DiscreteLaw, words: tuple[int, ...], more: NextWord) -> int | None:
    """Return the integer for these words, or None if the attempt is rejected; integer arithmetic throughout.

    Theorem: exact-samplers
    """
    top = TOPS.decide(words[:1], more) or 0
    bits = WORD - law.shift
    offset, fraction = words[1] >> bits, words[1] & ((1 << bits) - 1)
    magnitude = (top << law.shift) + offset
    excess = law.quadratic * magnitude**2 - TOPS.quadratic * top**2
    if not below_power(excess, fraction, bits, more):
        return None
    if not words[0] & 1:
        return magnitude
    return -magnitude if magnitude else None  # zero has only one sign


def uneven_values(
    ready: UnevenLaws, which: NDArray[np.int64], words: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a value for each column of words, and the undecided columns.

    Theorem: exact-samplers
    """
    top, tied = numpy_values(prepare_table(TOPS), words[:1])
    shift = ready.shifts[which]
    offset = (words[1] >> (np.uint64(WORD) - shift)).view(np.int64)
    base = top << shift.view(np.int64)
    magnitude = base + offset
    excess = offset.astype(np.float64) * (base + magnitude) * ready.quadratics[which]
    excess += (top * top) * ready.surpluses[which]
    uniform = (words[1] << shift).astype(np.float64) * 2.0**-WORD
    # e^-x ≥ 1 - x, so many attempts are accepted without further work.
    unsure = np.flatnonzero(uniform + excess >= 1 - ready.band)
    margin = uniform[unsure] - _uneven_power(excess[unsure])
    negative = (words[0] & np.uint64(1)).astype(np.bool_)
    values = np.where(negative, -magnitude, magnitude)
    values[negative & (magnitude == 0)] = REJECTED  # zero has only one sign
    values[unsure[margin > ready.band]] = REJECTED
    return values, np.union1d(tied, unsure[np.abs(margin) <= ready.band])


def _uneven_power(exponent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return e^-exponent in basic operations only: the series for a small part of the exponent, then squared."""
    part = np.minimum(exponent, _FAR) * 2.0**-_HALVINGS
    power = np.ones_like(part)
    for term in range(SERIES_TERMS, 0, -1):
        power = 1 - part * power / term
    for _ in range(_HALVINGS):
        power *= power
    return power
