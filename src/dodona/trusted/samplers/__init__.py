"""Exact samplers over a cryptographic keystream: integers out, rationals in, and no law but the one named.

Every function checks its arguments before anything is drawn.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.errors import InvalidArgument
from dodona.exact import Exact, exact
from dodona.mechanisms.scale import LARGEST, scale_of
from dodona.trusted.entropy import SYSTEM, Keystream
from dodona.trusted.samplers import law as laws
from dodona.trusted.samplers import vector
from dodona.trusted.samplers.bounds import WORD, below_power, power_floor
from dodona.trusted.samplers.contest import Draw, winner
from dodona.trusted.samplers.draw import Ahead, Kernel, draw, fastest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dodona.trusted.samplers.bounds import More

    Scores = Sequence[Exact] | NDArray[np.integer]

__all__ = [
    "Ahead", "Kernel", "below", "bernoulli", "choose", "draw", "fastest", "flips",
    "gaussian", "geometric", "integers", "laplace", "noisy_max", "permute_and_flip",
]  # fmt: skip

LARGEST_VALUE = 1 << 62
"""Integers in arrays stay within this, so that adding noise to them cannot wrap."""
LARGEST_COUNT = 1 << 40

_ZERO = Fraction(0)


def laplace(scale: Exact, count: int, *, stream: Keystream = SYSTEM, kernel: Kernel = vector) -> NDArray[np.int64]:
    """Return `count` draws of P(x) ∝ exp(-|x|/scale)."""
    return draw(laws.laplace(scale_of(scale)), _count(count), stream, kernel=kernel)


def gaussian(scale: Exact, count: int, *, stream: Keystream = SYSTEM, kernel: Kernel = vector) -> NDArray[np.int64]:
    """Return `count` draws of P(x) ∝ exp(-x²/(2·scale²))."""
    return draw(laws.gaussian(scale_of(scale) ** 2), _count(count), stream, kernel=kernel)


def geometric(scale: Exact, count: int, *, stream: Keystream = SYSTEM, kernel: Kernel = vector) -> NDArray[np.int64]:
    """Return `count` draws of P(x) ∝ exp(-x/scale) on x ≥ 0."""
    return draw(laws.geometric(scale_of(scale)), _count(count), stream, kernel=kernel)


def bernoulli(exponent: Exact, count: int, *, stream: Keystream = SYSTEM) -> NDArray[np.bool_]:
    """Return `count` draws that are true with probability e^-exponent."""
    power = exact(exponent, argument="exponent", lower=_ZERO, upper=LARGEST)
    return flips(power, stream.words(_count(count)), stream.word)


def flips(exponent: Fraction, words: NDArray[np.uint64], more: More) -> NDArray[np.bool_]:
    """Return for each word whether the uniform number it begins is below e^-exponent.

    Theorem: exact-thresholds
    """
    threshold = power_floor(exponent, WORD)
    if threshold >> WORD:
        return np.ones(words.size, dtype=np.bool_)
    below: NDArray[np.bool_] = words < np.uint64(threshold)
    for index in np.flatnonzero(words == np.uint64(threshold)).tolist():
        below[index] = below_power(exponent, threshold, WORD, more)
    return below


def choose(scores: Scores, *, unit: Exact = 1, stream: Keystream = SYSTEM, kernel: Kernel = vector) -> int:
    """Return an index drawn with probability ∝ exp(unit·score): the exponential mechanism."""
    return _contest(scores, unit, stream, kernel, Draw.GUMBEL)


def permute_and_flip(scores: Scores, *, unit: Exact = 1, stream: Keystream = SYSTEM, kernel: Kernel = vector) -> int:
    """Return the index that permute-and-flip chooses, where a candidate is kept with probability exp(-unit·gap)."""
    return _contest(scores, unit, stream, kernel, Draw.EXPONENTIAL)


def noisy_max(scores: Scores, scale: Exact, *, stream: Keystream = SYSTEM, kernel: Kernel = vector) -> int:
    """Return the index of the largest integer score + discrete Laplace noise, ties broken evenly.

    Theorem: exact-contest
    """
    width, values = scale_of(scale), integers(scores, argument="scores")
    noisy = values + draw(laws.laplace(width), values.size, stream, kernel=kernel)
    leaders = np.flatnonzero(noisy == noisy.max())
    return int(leaders[below(leaders.size, stream.word)])


def below(count: int, more: More) -> int:
    """Return a uniform integer from 0 to count - 1, by rejection.

    Theorem: exact-contest
    """
    bits = (count - 1).bit_length()
    while (found := more() >> WORD - bits if bits else 0) >= count:
        pass
    return found


def integers(values: Scores, *, argument: str) -> NDArray[np.int64]:
    """Return the values as a non-empty array of integers that noise cannot make wrap."""
    accepted = "write a non-empty flat list of integers from -2^62 to 2^62"
    found = np.asarray(values)
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "iu":
        raise InvalidArgument(argument, values, accepted)
    if int(found.max()) > LARGEST_VALUE or int(found.min()) < -LARGEST_VALUE:
        raise InvalidArgument(argument, values, accepted)
    return found.astype(np.int64)


def _contest(scores: Scores, unit: Exact, stream: Keystream, kernel: Kernel, law: Draw) -> int:
    """Check, draw a word for each candidate, and return the winner."""
    factor = exact(unit, argument="unit", lower=Fraction(1, 10**12), upper=LARGEST)
    if isinstance(scores, np.ndarray) and scores.dtype.kind in "iu":
        values = integers(scores, argument="scores")
        lags = values.max() - values
        gaps = lags * float(factor)
        return winner(
            gaps, lambda i: int(lags[i]) * factor, stream.words(lags.size), stream.word, draw=law, kernel=kernel
        )
    if len(scores) == 0:
        raise InvalidArgument("scores", scores, "write at least one candidate")
    rationals = [
        exact(score, argument=f"scores[{index}]", lower=-LARGEST, upper=LARGEST) for index, score in enumerate(scores)
    ]
    best = max(rationals)
    exact_gaps = [(best - score) * factor for score in rationals]
    words = stream.words(len(exact_gaps))
    return winner(
        np.array(exact_gaps, dtype=np.float64), exact_gaps.__getitem__, words, stream.word, draw=law, kernel=kernel
    )


def _count(count: int) -> int:
    whole = exact(count, argument="count", lower=_ZERO, upper=Fraction(LARGEST_COUNT))
    if whole.denominator != 1:
        raise InvalidArgument("count", count, "write a whole number")
    return int(whole)
