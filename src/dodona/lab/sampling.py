"""Exact samplers that serving does not need: noise by name, single selections, noisy maxima, coins and dice.

They draw from the same keystream and by the same exact comparisons as `dodona.trusted`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dodona.numbers import Exact, to_fraction
from dodona.privacy.additive_noise import LARGEST_SCALE, validate_scale
from dodona.trusted.entropy import SYSTEM, Keystream
from dodona.trusted.samplers import law as laws
from dodona.trusted.samplers.contest import LARGEST_VALUE, ContestLaw, contests, integers, validate_draws
from dodona.trusted.samplers.draw import SamplingKernel, draw_values, numpy_values
from dodona.trusted.samplers.law import WORD, NextWord, is_below, power_floor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.trusted.samplers.contest import Scores


def logistic_floor(exponent: Fraction, bits: int) -> int:
    """Return floor(2^bits / (1 + e^-exponent)), exactly, for an exponent > 0.

    Theorem: exact-thresholds
    """
    precision = bits + WORD
    while True:
        power = power_floor(exponent, precision)
        scale = 1 << precision
        low, high = (scale << bits) // (scale + power + 1), (scale << bits) // (scale + power)
        if low == high:
            return low
        precision *= 2


_LAST = np.uint64(2**64 - 1)


_ZERO = Fraction(0)


def laplace(
    scale: Exact, count: int, *, stream: Keystream = SYSTEM, kernel: SamplingKernel = numpy_values
) -> NDArray[np.int64]:
    """Return `count` draws of P(x) ∝ exp(-|x|/scale)."""
    return draw_values(laws.laplace_law(validate_scale(scale)), validate_draws(count), stream, kernel=kernel)


def gaussian(
    scale: Exact, count: int, *, stream: Keystream = SYSTEM, kernel: SamplingKernel = numpy_values
) -> NDArray[np.int64]:
    """Return `count` draws of P(x) ∝ exp(-x²/(2·scale²))."""
    return draw_values(laws.gaussian_law(validate_scale(scale) ** 2), validate_draws(count), stream, kernel=kernel)


def geometric(
    scale: Exact, count: int, *, stream: Keystream = SYSTEM, kernel: SamplingKernel = numpy_values
) -> NDArray[np.int64]:
    """Return `count` draws of P(x) ∝ exp(-x/scale) on x ≥ 0."""
    return draw_values(laws.geometric_law(validate_scale(scale)), validate_draws(count), stream, kernel=kernel)


def bernoulli(exponent: Exact, count: int, *, stream: Keystream = SYSTEM) -> NDArray[np.bool_]:
    """Return `count` draws that are true with probability e^-exponent."""
    power = to_fraction(exponent, argument="exponent", lower=_ZERO, upper=LARGEST_SCALE)
    return flips(power, stream.words(validate_draws(count)), stream.word)


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
    width, values, count = validate_scale(scale), integers(scores, argument="scores"), validate_draws(times)
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


_WORDS = 1 << 13  # block size: fits the caches together with its random bits


_DIGITS = 8  # binary digits after which fully decided words are dropped


def toss_coins(probability: Fraction, words: int, *, stream: Keystream = SYSTEM) -> NDArray[np.uint64]:
    """Return `words` words whose bits are independent, each 1 with probability exactly `chance`.

    Theorem: exact-coins
    """
    if probability >= 1:
        return np.full(words, 2**64 - 1, dtype=np.uint64)
    tossed = np.zeros(words, dtype=np.uint64)
    for start in range(0, words, _WORDS):
        block = tossed[start : start + _WORDS]
        _toss(probability.numerator, probability.denominator, block, ~block, stream)
    return tossed


def _toss(rest: int, whole: int, tossed: NDArray[np.uint64], undecided: NDArray[np.uint64], stream: Keystream) -> None:
    """Compare a uniform number for each bit with rest/whole, one binary digit at a time, until all are decided."""
    for _ in range(_DIGITS):
        if rest == 0:  # a number that agrees with all digits of a finite expansion is not below it
            return
        rest *= 2
        drawn = stream.words(tossed.size)
        if rest >= whole:
            rest -= whole
            tossed |= undecided & ~drawn
            undecided &= drawn
        else:
            undecided &= ~drawn
    left = np.flatnonzero(undecided)
    if left.size:
        part = tossed[left]
        _toss(rest, whole, part, undecided[left], stream)
        tossed[left] = part


def roll_dice(faces: int, count: int, *, stream: Keystream = SYSTEM) -> NDArray[np.uint64]:
    """Return `count` independent uniform integers from 0 to faces - 1; there may be up to 2^63 faces.

    Theorem: exact-coins
    """
    most = np.uint64((1 << 64) // faces * faces - 1)  # larger words would favour the lower faces
    thrown = stream.words(count)
    while (again := np.flatnonzero(thrown > most)).size:
        thrown[again] = stream.words(again.size)
    return thrown % np.uint64(faces)
