"""A Bloom filter with randomized bits, after RAPPOR: each hash of a label sets a bit in its own row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from dodona.errors import InvalidArgument
from dodona.lab.local.bits import chance_of, every_row, flipped, marked, padding
from dodona.lab.local.channel import Core, Flags, Keys, Numbers, Support, Words, words_for
from dodona.lab.local.hashing import PRIME, SEED_WORDS, collision, drawn, hashed, hashed_one
from dodona.lab.local.odds import local_epsilon, loss_above, odds_below
from dodona.lab.local.unary import telling, two_bits
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
    core: Core

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
        return cls(total // number, number, loss, telling(odds_below(loss / (2 * number))))

    @property
    def width(self) -> int:
        """Words in a report: the hash functions of all rows, then their bits."""
        return self.hashes * (SEED_WORDS + words_for(self.bits))

    @property
    def places(self) -> int:
        """Every bit is a separate mark."""
        return self.bits * self.hashes

    @property
    def support(self) -> Support:
        """A report supports a label once for each row that sets the label's bit."""
        same = collision(self.bits)
        return Support(self.core.keep, same * self.core.keep + (1 - same) * self.core.lend, self.hashes)

    @property
    def ratio(self) -> Fraction:
        """Another answer changes at most two bits in each row."""
        return two_bits(self.core) ** self.hashes

    def look(self, odds: Fraction) -> Core:
        """Return the probabilities of randomizing a bit once more."""
        return telling(odds)

    def after(self, second: Core) -> Self:
        """Return the channel of bits that were randomized twice."""
        composed = replace(self, core=self.core.then(second))
        return replace(composed, epsilon=min(self.epsilon, loss_above(composed.ratio)))

    def seeds(self, count: int) -> Words:
        """Return a hash function for each row of each respondent."""
        return drawn(count, self.hashes)

    def tell(self, keys: Keys, seeds: Words) -> Words:
        """Return the hash functions and the randomized bits for each answer.

        Theorem: local-channels
        """
        rows = [
            marked(hashed(function, keys, self.bits), self.bits, self.core)
            for function in np.hsplit(seeds, self.hashes)
        ]
        return np.column_stack((seeds, *rows))

    def retell(self, told: Words, second: Core) -> Words:
        """Return each report with its bits randomized once more."""
        functions, rows = self._parts(told)
        return np.column_stack((*functions, *(flipped(row, self.bits, second) for row in rows)))

    def fits(self, told: Words) -> Flags:
        """Return which reports contain functions of the family and set no bit beyond their rows."""
        functions, rows = self._parts(told)
        known = (np.column_stack(functions) < PRIME).all(axis=1)
        inside = [(row[:, -1] & ~padding(self.bits)) == 0 for row in rows]
        fits: Flags = np.logical_and.reduce([known, *inside])
        return fits

    def marks(self, told: Words, keys: Keys) -> Numbers:
        """Return how many bits in all rows support each label."""
        found = np.zeros(keys.shape[0], dtype=np.int64)
        for start in range(0, told.shape[0], _ROWS):
            functions, rows = self._parts(np.asfortranarray(told[start : start + _ROWS]))
            for function, row in zip(functions, rows, strict=True):
                flat, lines = np.ascontiguousarray(row), np.arange(row.shape[0])
                for number, key in enumerate(keys):
                    place = hashed(function, key, self.bits)
                    words = flat[lines, (place >> np.uint64(6)).astype(np.int64)]
                    found[number] += int(((words >> (place & np.uint64(63))) & np.uint64(1)).sum())
        return found

    def chance(self, told: Sequence[int], key: Sequence[int]) -> Fraction:
        """Return the probability of these bits, given the hash functions."""
        start, step = self.hashes * SEED_WORDS, words_for(self.bits)
        chance = Fraction(1)
        for number in range(self.hashes):
            function = told[number * SEED_WORDS : (number + 1) * SEED_WORDS]
            row = told[start + number * step : start + (number + 1) * step]
            chance *= chance_of(row, hashed_one(function, key, self.bits), self.bits, self.core)
        return chance

    def outcomes(self, seed: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the hash functions with all rows of bits, for few bits."""
        return ((*seed, *rows) for rows in every_row(self.bits, self.hashes))

    def _parts(self, told: Words) -> tuple[list[Words], list[Words]]:
        start = self.hashes * SEED_WORDS
        return np.hsplit(told[:, :start], self.hashes), np.hsplit(told[:, start:], self.hashes)
