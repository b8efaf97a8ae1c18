"""Rows of bits in words: noise for one-hot rows, and column sums without unpacking."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from dodona.errors import InvalidRequest
from dodona.lab import direct
from dodona.lab.local.channel import MarkProbabilities, Numbers, Words, words_for

MOST_OUTCOMES = 1 << 16
_ONE = np.uint64(1)
_FEW = 8  # rows that are rather unpacked than added


class TooManyOutcomes(InvalidRequest):
    """A channel has too many reports to enumerate."""

    code = "too-many-outcomes"

    def __init__(self, outcomes: int, limit: int) -> None:
        """Say how many there would be and what to use instead."""
        super().__init__(
            f"The channel has {outcomes} reports, and at most {limit} can be enumerated. "
            "Take fewer labels or bits; `channel.ratio` is the same number by formula."
        )


def noisy_one_hot(places: Words, bits: int, probabilities: MarkProbabilities) -> Words:
    """Return a noisy one-hot row for each place: its bit is set with probability `keep`, every other with `lend`.

    Theorem: local-channels
    """
    width = words_for(bits)
    rows = direct.coins(probabilities.lend, places.size * width).reshape(places.size, width)
    rows[:, -1] &= padding(bits)
    index = np.arange(places.size), (places >> np.uint64(6)).astype(np.int64)
    shift = places & np.uint64(63)
    coins = direct.coins(probabilities.keep, words_for(places.size))
    kept = np.unpackbits(coins.astype("<u8").view(np.uint8), count=places.size, bitorder="little").astype(np.uint64)
    rows[index] = (rows[index] & ~(_ONE << shift)) | (kept << shift)
    return rows


def flip_bits(rows: Words, bits: int, second: MarkProbabilities) -> Words:
    """Return rows of bits, each flipped with the probability of a second response."""
    noise = direct.coins(second.lend, rows.size).reshape(rows.shape)
    noise[:, -1] &= padding(bits)
    return rows ^ noise


def padding(bits: int) -> np.uint64:
    """Return the mask of the bits in use in the last word."""
    return np.uint64((1 << (bits - 1) % 64 + 1) - 1)


def totals(rows: Words, bits: int) -> Numbers:
    """Return how many rows set each bit.

    Three rows of one weight are one row of that weight and one of twice the weight: a full adder on 64 columns at once.
    """
    counts, weight = np.zeros(bits, dtype=np.int64), 1
    while rows.shape[0] > _FEW:
        carried = []
        while rows.shape[0] > _FEW:
            third = rows.shape[0] // 3
            first, second, last = rows[:third], rows[third : 2 * third], rows[2 * third : 3 * third]
            mixed = first ^ second
            carried.append((first & second) | (mixed & last))
            rows = np.concatenate((mixed ^ last, rows[3 * third :]))
        counts += weight * _column_sums(rows, bits)
        rows, weight = np.concatenate(carried), 2 * weight
    return counts + weight * _column_sums(rows, bits)


def _column_sums(rows: Words, bits: int) -> Numbers:
    digits = np.unpackbits(rows.astype("<u8").view(np.uint8), axis=1, count=bits, bitorder="little")
    summed: Numbers = digits.sum(axis=0, dtype=np.int64)
    return summed


def row_probability(row: Sequence[int], place: int, bits: int, probabilities: MarkProbabilities) -> Fraction:
    """Return the probability of a row of bits, given the place of the true bit."""
    ones = sum(word.bit_count() for word in row)
    true_bit = row[place // 64] >> place % 64 & 1
    others = ones - true_bit
    rest = probabilities.lend**others * (1 - probabilities.lend) ** (bits - 1 - others)
    return rest * (probabilities.keep if true_bit else 1 - probabilities.keep)


def all_rows(bits: int, rows: int = 1) -> Iterator[tuple[int, ...]]:
    """Return all rows of this many bits, each as one word, or all tuples of several such rows."""
    if bits * rows > math.log2(MOST_OUTCOMES):
        raise TooManyOutcomes(1 << bits * rows, MOST_OUTCOMES)
    return itertools.product(range(1 << bits), repeat=rows)
