"""Unary encodings: one bit for each label, each randomized independently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from dodona.lab.local.bits import all_rows, flip_bits, noisy_one_hot, padding, row_probability, totals
from dodona.lab.local.channel import Flags, Keys, MarkProbabilities, Numbers, SupportProbabilities, Words, words_for
from dodona.lab.local.kary import MOST_LABELS
from dodona.lab.local.odds import local_epsilon, loss_above, odds_below
from dodona.numbers import Exact, to_integer


@dataclass(frozen=True, slots=True)
class Unary:
    """One bit for each label: the true one is set with probability p, each other with probability q.

    Theorem: local-channels
    """

    size: int
    epsilon: Fraction
    probabilities: MarkProbabilities

    @classmethod
    def symmetric(cls, size: int, *, epsilon: Exact) -> Self:
        """Return the encoding whose bits are all randomized alike, with odds e^(ε/2)."""
        loss = local_epsilon(epsilon)
        return cls(_labels(size), loss, bit_probabilities(odds_below(loss / 2)))

    @classmethod
    def optimized(cls, size: int, *, epsilon: Exact) -> Self:
        """Return the encoding of least variance: the true bit by a fair coin, the others with probability 1/(1 + e^ε).

        >>> Unary.optimized(1_000, epsilon=1).probabilities.keep
        Fraction(1, 2)
        """
        loss = local_epsilon(epsilon)
        return cls(_labels(size), loss, MarkProbabilities(Fraction(1, 2), 1 / (1 + odds_below(loss))))

    @property
    def width(self) -> int:
        """A bit for each label."""
        return words_for(self.size)

    @property
    def places(self) -> int:
        """Every bit is a separate mark."""
        return self.size

    @property
    def support(self) -> SupportProbabilities:
        """A report supports the labels whose bits are set."""
        return SupportProbabilities(self.probabilities.keep, self.probabilities.lend)

    @property
    def ratio(self) -> Fraction:
        """Another answer changes two bits: p(1 - q)/((1 - p)q)."""
        return two_bit_ratio(self.probabilities)

    def second_response(self, odds: Fraction) -> MarkProbabilities:
        """Return the probabilities of randomizing a bit once more."""
        return bit_probabilities(odds)

    def after(self, second: MarkProbabilities) -> Self:
        """Return the channel of bits that were randomized twice."""
        composed = replace(self, probabilities=self.probabilities.then(second))
        return replace(composed, epsilon=min(self.epsilon, loss_above(composed.ratio)))

    def seeds(self, count: int) -> Words:
        """Return no seeds: this channel has none."""
        return np.empty((count, 0), dtype=np.uint64)

    def randomize(self, keys: Keys, seeds: Words) -> Words:
        """Return a row of bits for each answer.

        Theorem: local-channels
        """
        del seeds
        return noisy_one_hot(keys, self.size, self.probabilities)

    def randomize_again(self, words: Words, second: MarkProbabilities) -> Words:
        """Return each report with its bits randomized once more."""
        return flip_bits(words, self.size, second)

    def fits(self, words: Words) -> Flags:
        """Return which reports set no bit beyond the labels."""
        fits: Flags = (words[:, -1] & ~padding(self.size)) == 0
        return fits

    def marks(self, words: Words, keys: Keys) -> Numbers:
        """Return how many reports set each label's bit."""
        return totals(words, self.size)[keys.astype(np.int64)]

    def probability(self, words: Sequence[int], key: Sequence[int]) -> Fraction:
        """Return the probability of these bits."""
        return row_probability(words, key[0], self.size, self.probabilities)

    def outcomes(self, seed: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield every row of bits, for few labels."""
        return ((*seed, *row) for row in all_rows(self.size))


def bit_probabilities(odds: Fraction) -> MarkProbabilities:
    """Return the probabilities of a bit that is randomized with these odds for the truth."""
    return MarkProbabilities(odds / (1 + odds), 1 / (1 + odds))


def two_bit_ratio(probabilities: MarkProbabilities) -> Fraction:
    """Return the largest ratio if a mark moves from one bit to another."""
    odds = probabilities.keep * (1 - probabilities.lend) / ((1 - probabilities.keep) * probabilities.lend)
    return max(odds, 1 / odds)


def _labels(size: int) -> int:
    return to_integer(size, argument="size", lower=2, upper=MOST_LABELS)
