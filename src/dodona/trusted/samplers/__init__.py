"""Exact samplers over a cryptographic keystream: rational parameters, integer samples, and exactly the stated law.

Every function validates its arguments before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, to_fraction, to_integer
from dodona.privacy.additive_noise import LARGEST_SCALE, validate_scale
from dodona.trusted.entropy import SYSTEM, Keystream
from dodona.trusted.samplers import law as laws
from dodona.trusted.samplers.contest import ContestLaw, contest_winners
from dodona.trusted.samplers.draw import (
    BufferedDraws,
    draw_many,
    draw_one,
    draw_runs,
    draw_values,
    fastest_sampling_kernel,
    numpy_values,
)
from dodona.trusted.samplers.law import WORD, is_below, logistic_floor, power_floor

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dodona.trusted.samplers.draw import SamplingKernel
    from dodona.trusted.samplers.law import NextWord

    Scores = Sequence[Exact] | NDArray[np.integer]

__all__ = [
    "BufferedDraws", "ContestLaw", "bernoulli", "choose", "contests", "draw_many", "draw_one", "draw_runs",
    "draw_values", "fastest_sampling_kernel", "flips", "gaussian", "geometric", "integers", "laplace", "noisy_max",
    "noisy_maxima", "numpy_values", "permute_and_flip", "truths",
]  # fmt: skip

LARGEST_VALUE = 1 << 62
"""Integers in arrays stay within this bound, so that adding noise cannot overflow."""
LARGEST_COUNT = 1 << 40
_LAST = np.uint64(2**64 - 1)
_CONTEST_WORDS = 1 << 18  # words in memory at a time for many contests

_ZERO = Fraction(0)


def laplace(
    scale: Exact, count: int, *, stream: Keystream = SYSTEM, kernel: SamplingKernel = numpy_values
) -> NDArray[np.int64]:
    """Return `count` draws of P(x) ∝ exp(-|x|/scale)."""
    return draw_values(laws.laplace_law(validate_scale(scale)), _count(count), stream, kernel=kernel)


def gaussian(
    scale: Exact, count: int, *, stream: Keystream = SYSTEM, kernel: SamplingKernel = numpy_values
) -> NDArray[np.int64]:
    """Return `count` draws of P(x) ∝ exp(-x²/(2·scale²))."""
    return draw_values(laws.gaussian_law(validate_scale(scale) ** 2), _count(count), stream, kernel=kernel)


def geometric(
    scale: Exact, count: int, *, stream: Keystream = SYSTEM, kernel: SamplingKernel = numpy_values
) -> NDArray[np.int64]:
    """Return `count` draws of P(x) ∝ exp(-x/scale) on x ≥ 0."""
    return draw_values(laws.geometric_law(validate_scale(scale)), _count(count), stream, kernel=kernel)


def bernoulli(exponent: Exact, count: int, *, stream: Keystream = SYSTEM) -> NDArray[np.bool_]:
    """Return `count` draws that are true with probability e^-exponent."""
    power = to_fraction(exponent, argument="exponent", lower=_ZERO, upper=LARGEST_SCALE)
    return flips(power, stream.words(_count(count)), stream.word)


def flips(exponent: Fraction, words: NDArray[np.uint64], more: NextWord) -> NDArray[np.bool_]:
    """Return for each word whether the uniform number that it begins is below e^-exponent.

    Theorem: exact-thresholds
    """
    return _lower(partial(power_floor, exponent), words, more)


def truths(epsilon: Fraction, words: NDArray[np.uint64], more: NextWord) -> NDArray[np.bool_]:
    """Return for each word whether its uniform number is below e^ε/(1 + e^ε): the truth in randomized response.

    Theorem: exact-thresholds
    """
    return _lower(partial(logistic_floor, epsilon), words, more)


def _lower(floor: Callable[[int], int], words: NDArray[np.uint64], more: NextWord) -> NDArray[np.bool_]:
    """Return which uniform numbers are below p, where floor(bits) = ⌊2^bits·p⌋."""
    threshold = floor(WORD)
    if threshold >> WORD:
        return np.ones(words.size, dtype=np.bool_)
    lower: NDArray[np.bool_] = words < np.uint64(threshold)
    for index in np.flatnonzero(words == np.uint64(threshold)).tolist():
        lower[index] = is_below(floor, threshold, WORD, more)
    return lower


def choose(scores: Scores, *, unit: Exact = 1, stream: Keystream = SYSTEM) -> int:
    """Return an index drawn with probability ∝ exp(unit·score): the exponential mechanism."""
    return int(contests(scores, 1, unit=unit, draw=ContestLaw.GUMBEL, stream=stream)[0])


def permute_and_flip(scores: Scores, *, unit: Exact = 1, stream: Keystream = SYSTEM) -> int:
    """Return the index that permute-and-flip chooses; a candidate is accepted with probability exp(-unit·gap)."""
    return int(contests(scores, 1, unit=unit, draw=ContestLaw.EXPONENTIAL, stream=stream)[0])


def contests(  # noqa: PLR0913  the law, the number of draws, and the source
    scores: Scores,
    times: int,
    *,
    unit: Exact,
    draw: ContestLaw,
    rare: Sequence[Fraction] = (),
    stream: Keystream = SYSTEM,
) -> NDArray[np.int64]:
    """Return the winners of `times` independent contests, where a gap is unit·(best score - score).

    A rarity r ≥ 1 adds ln r to a candidate's gap: under Gumbel draws it is chosen with probability
    ∝ exp(unit·score)/r. If `rare` is given, it has one number below 2^1000 for each candidate.
    """
    factor = to_fraction(unit, argument="unit", lower=Fraction(1, 10**12), upper=LARGEST_SCALE)
    gaps, gap = _gaps(scores, factor)
    gaps = gaps + np.log(np.array(rare, dtype=np.float64)) if rare else gaps
    won = np.empty(_count(times), dtype=np.int64)
    rows = max(1, _CONTEST_WORDS // gaps.size)
    for start in range(0, won.size, rows):
        block = won[start : start + rows]
        words = stream.words(block.size * gaps.size).reshape(block.size, gaps.size)
        block[:] = contest_winners(gaps, gap, words, stream.word, draw=draw, rare=rare)
        words.fill(0)
    return won


def noisy_max(
    scores: Scores, scale: Exact, *, stream: Keystream = SYSTEM, kernel: SamplingKernel = numpy_values
) -> int:
    """Return the index of the largest integer score + discrete Laplace noise; ties are broken uniformly."""
    return int(noisy_maxima(scores, scale, 1, stream=stream, kernel=kernel)[0, 0])


def noisy_maxima(
    scores: Scores, scale: Exact, times: int, *, stream: Keystream = SYSTEM, kernel: SamplingKernel = numpy_values
) -> NDArray[np.int64]:
    """Return a row (winner, gap) for each of `times` reports of the noisy maximum.

    The candidates are in random order. The gap is the winner's noisy score minus the least that would have won: one
    more than every candidate before it, and as much as every candidate after it.

    Theorem: choice-privacy
    """
    width, values, count = validate_scale(scale), integers(scores, argument="scores"), _count(times)
    noise = draw_values(laws.laplace_law(width), count * values.size, stream, kernel=kernel)
    noisy = noise.reshape(count, values.size) + values
    order = stream.words(noisy.size).reshape(noisy.shape)
    top = noisy.max(axis=1, initial=-LARGEST_VALUE * 2)
    leading, rows = noisy == top[:, np.newaxis], np.arange(count)
    ranked = np.where(leading, order, _LAST)
    won = (leading & (ranked == ranked.min(axis=1, keepdims=True, initial=_LAST))).argmax(axis=1)
    place = order[rows, won][:, np.newaxis]
    # Equal words (one pair in 2^64) keep the list order: redrawing would make the order depend on the data.
    noisy += (order < place) | ((order == place) & (np.arange(values.size) < won[:, np.newaxis]))
    noisy[rows, won] = noisy.min(axis=1) if values.size > 1 else top  # the winner is not its own runner-up
    return np.stack((won, top - noisy.max(axis=1)), axis=1)


def integers(values: Scores, *, argument: str) -> NDArray[np.int64]:
    """Return the values as a non-empty array of integers that cannot overflow when noise is added."""
    accepted = "write a non-empty flat list of integers from -2^62 to 2^62"
    try:
        found = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise InvalidArgument(argument, values, accepted) from None
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "iu":
        raise InvalidArgument(argument, values, accepted)
    if int(found.max()) > LARGEST_VALUE or int(found.min()) < -LARGEST_VALUE:
        raise InvalidArgument(argument, values, accepted)
    return found.astype(np.int64)


def _gaps(scores: object, factor: Fraction) -> tuple[NDArray[np.float64], Callable[[int], Fraction]]:
    """Return the gap of each candidate to the best: as doubles, and as an exact function of the index."""
    if isinstance(scores, np.ndarray) and scores.dtype.kind in "iu":
        values = integers(scores, argument="scores").astype(np.uint64)
        lags = np.uint64(int(np.asarray(scores).max()) % 2**64) - values  # unsigned, so that 2^63 does not overflow
        return lags.astype(np.float64) * float(factor), lambda index: int(lags[index]) * factor
    listed = scores.ndim == 1 if isinstance(scores, np.ndarray) else isinstance(scores, Sequence)
    candidates = cast("Sequence[Exact]", scores) if listed and not isinstance(scores, str | bytes) else ()
    if len(candidates) == 0:
        raise InvalidArgument("scores", scores, "write a flat list with the score of each candidate")
    rationals = [
        to_fraction(score, argument=f"scores[{index}]", lower=-LARGEST_SCALE, upper=LARGEST_SCALE)
        for index, score in enumerate(candidates)
    ]
    best = max(rationals)
    gaps = [(best - score) * factor for score in rationals]
    return np.array(gaps, dtype=np.float64), gaps.__getitem__


def _count(count: int) -> int:
    return to_integer(count, argument="count", lower=0, upper=LARGEST_COUNT)
