"""A Bloom filter with randomized bits, after RAPPOR: each hash of a label sets a bit in its own row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from dodona.errors import InvalidArgument
from dodona.lab.local.bits import all_rows, flip_bits, noisy_one_hot, padding, row_probability
from dodona.lab.local.channel import Flags, Keys, MarkProbabilities, Numbers, SupportProbabilities, Words, words_for
from dodona.lab.local.hashing import PRIME, SEED_WORDS, collision, draw_functions, hash_key, hash_keys
from dodona.lab.local.odds import local_epsilon, loss_above, odds_below
from dodona.lab.local.unary import bit_probabilities, two_bit_ratio
from dodona.numbers import Exact, to_integer

_ROWS = 1 << 13
_MOST_BITS = 1 << 12
_MOST_HASHES = 8


@dataclass(frozen=True, slots=True)
class Bloom:
    """Rows of bits, in each of which a hash of the label sets one bit; every bit is randomized.

    Each respondent draws their own hash functions where RAPPOR has a few cohorts, so collisions are random rather than
    fixed, and intervals are exact.

    Theorem: local-channels, local-hashing
    """

    bits: int
    """Bits in one row."""
    hashes: int
    epsilon: Fraction
    probabilities: MarkProbabilities

    @classmethod
    def of(cls, *, epsilon: Exact, bits: int = 128, hashes: int = 2) -> Self:
        """Return the channel with this many bits in total; each bit is randomized with odds e^(ε/(2·hashes)).

        >>> Bloom.of(epsilon=2).width
        8
        """
        number = to_integer(hashes, argument="hashes", lower=1, upper=_MOST_HASHES)
        total = to_integer(bits, argument="bits", lower=2 * number, upper=_MOST_BITS)
        if total % number:
            raise InvalidArgument("bits", bits, f"write a multiple of the number of hashes, such as {64 * number}")
        loss = local_epsilon(epsilon)
        return cls(total // number, number, loss, bit_probabilities(odds_below(loss / (2 * number))))

    @property
    def width(self) -> int:
        """Words in a report: the hash functions of all rows, then their bits."""
        return self.hashes * (SEED_WORDS + words_for(self.bits))

    @property
    def places(self) -> int:
        """Every bit is a separate mark."""
        return self.bits * self.hashes

    @property
    def support(self) -> SupportProbabilities:
        """A report supports a label once for each row that sets the label's bit."""
        same = collision(self.bits)
        return SupportProbabilities(
            self.probabilities.keep, same * self.probabilities.keep + (1 - same) * self.probabilities.lend, self.hashes
        )

    @property
    def ratio(self) -> Fraction:
        """Another answer changes at most two bits in each row."""
        return two_bit_ratio(self.probabilities) ** self.hashes

    def second_response(self, odds: Fraction) -> MarkProbabilities:
        """Return the probabilities of randomizing a bit once more."""
        return bit_probabilities(odds)

    def after(self, second: MarkProbabilities) -> Self:
        """Return the channel of bits that were randomized twice."""
        composed = replace(self, probabilities=self.probabilities.then(second))
        return replace(composed, epsilon=min(self.epsilon, loss_above(composed.ratio)))

    def seeds(self, count: int) -> Words:
        """Return a hash function for each row of each respondent."""
        return draw_functions(count, self.hashes)

    def randomize(self, keys: Keys, seeds: Words) -> Words:
        """Return the hash functions and the randomized bits for each answer.

        Theorem: local-channels
        """
        rows = [
            noisy_one_hot(hash_keys(function, keys, self.bits), self.bits, self.probabilities)
            for function in np.hsplit(seeds, self.hashes)
        ]
        return np.column_stack((seeds, *rows))

    def randomize_again(self, words: Words, second: MarkProbabilities) -> Words:
        """Return each report with its bits randomized once more."""
        functions, rows = self._parts(words)
        return np.column_stack((*functions, *(flip_bits(row, self.bits, second) for row in rows)))

    def fits(self, words: Words) -> Flags:
        """Return which reports contain functions of the family and set no bit beyond their rows."""
        functions, rows = self._parts(words)
        known = (np.column_stack(functions) < PRIME).all(axis=1)
        inside = [(row[:, -1] & ~padding(self.bits)) == 0 for row in rows]
        fits: Flags = np.logical_and.reduce([known, *inside])
        return fits

    def marks(self, words: Words, keys: Keys) -> Numbers:
        """Return how many bits in all rows support each label."""
        counts = np.zeros(keys.shape[0], dtype=np.int64)
        for start in range(0, words.shape[0], _ROWS):
            functions, rows = self._parts(np.asfortranarray(words[start : start + _ROWS]))
            for function, row in zip(functions, rows, strict=True):
                flat, lines = np.ascontiguousarray(row), np.arange(row.shape[0])
                for number, key in enumerate(keys):
                    place = hash_keys(function, key, self.bits)
                    row_words = flat[lines, (place >> np.uint64(6)).astype(np.int64)]
                    counts[number] += int(((row_words >> (place & np.uint64(63))) & np.uint64(1)).sum())
        return counts

    def probability(self, words: Sequence[int], key: Sequence[int]) -> Fraction:
        """Return the probability of these bits, given the hash functions."""
        start, step = self.hashes * SEED_WORDS, words_for(self.bits)
        probability = Fraction(1)
        for number in range(self.hashes):
            function = words[number * SEED_WORDS : (number + 1) * SEED_WORDS]
            row = words[start + number * step : start + (number + 1) * step]
            probability *= row_probability(row, hash_key(function, key, self.bits), self.bits, self.probabilities)
        return probability

    def outcomes(self, seed: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the hash functions with all rows of bits, for few bits."""
        return ((*seed, *rows) for rows in all_rows(self.bits, self.hashes))

    def _parts(self, words: Words) -> tuple[list[Words], list[Words]]:
        start = self.hashes * SEED_WORDS
        return np.hsplit(words[:, :start], self.hashes), np.hsplit(words[:, start:], self.hashes)
