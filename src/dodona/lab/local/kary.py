"""Randomized response over k labels: the true one with the best odds, otherwise any other uniformly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from dodona.lab import direct
from dodona.lab.local.channel import (
    Flags,
    Keys,
    MarkProbabilities,
    Numbers,
    SupportProbabilities,
    Words,
    unpack_bits,
    words_for,
)
from dodona.lab.local.odds import local_epsilon, loss_above, odds_below
from dodona.lab.randomized_response import LN3
from dodona.numbers import Exact, to_integer

MOST_LABELS = 1 << 20


@dataclass(frozen=True, slots=True)
class KaryResponse:
    """The truth with R times the probability of any other label, R a fraction just below e^ε. Two labels: yes and no.

    Theorem: local-channels
    """

    size: int
    epsilon: Fraction
    probabilities: MarkProbabilities
    width: int = 1
    places: int = 1

    @classmethod
    def of(cls, size: int, *, epsilon: Exact) -> Self:
        """Return the channel for this many labels.

        >>> KaryResponse.of(4, epsilon=1).ratio < Fraction("2.71828182845904523537")
        True
        """
        labels = to_integer(size, argument="size", lower=2, upper=MOST_LABELS)
        loss = local_epsilon(epsilon)
        return cls(labels, loss, response_probabilities(odds_below(loss), labels))

    @classmethod
    def coins(cls) -> Self:
        """Return the classic with two coins: the truth on tails, otherwise a second coin's yes or no. It costs ln 3.

        >>> KaryResponse.coins().probabilities.keep
        Fraction(3, 4)
        """
        return cls(2, LN3, response_probabilities(Fraction(3), 2))

    @property
    def support(self) -> SupportProbabilities:
        """A report supports the label that it names."""
        return SupportProbabilities(self.probabilities.keep, self.probabilities.lend)

    @property
    def ratio(self) -> Fraction:
        """The odds of the truth against any other label."""
        return max(self.probabilities.keep / self.probabilities.lend, self.probabilities.lend / self.probabilities.keep)

    def second_response(self, odds: Fraction) -> MarkProbabilities:
        """Return the probabilities of a second response to the label of the first."""
        return response_probabilities(odds, self.size)

    def after(self, second: MarkProbabilities) -> Self:
        """Return the channel of a response to a response."""
        composed = replace(self, probabilities=self.probabilities.then(second))
        return replace(composed, epsilon=min(self.epsilon, loss_above(composed.ratio)))

    def seeds(self, count: int) -> Words:
        """Return no seeds: this channel has none."""
        return np.empty((count, 0), dtype=np.uint64)

    def randomize(self, keys: Keys, seeds: Words) -> Words:
        """Return a label number for each answer.

        Theorem: local-channels
        """
        del seeds
        return respond(keys, self.size, self.probabilities.keep)[:, np.newaxis]

    def randomize_again(self, words: Words, second: MarkProbabilities) -> Words:
        """Return a response to each report."""
        return respond(words[:, 0], self.size, second.keep)[:, np.newaxis]

    def fits(self, words: Words) -> Flags:
        """Return which reports name a label."""
        return words[:, 0] < self.size

    def marks(self, words: Words, keys: Keys) -> Numbers:
        """Return how many reports name each label."""
        named = np.bincount(words[:, 0].astype(np.int64), minlength=self.size)
        return named[keys.astype(np.int64)].astype(np.int64)

    def probability(self, words: Sequence[int], key: Sequence[int]) -> Fraction:
        """Return the probability of naming this label."""
        return self.probabilities.keep if words[0] == key[0] else self.probabilities.lend

    def outcomes(self, seed: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the number of every label."""
        return ((*seed, label) for label in range(self.size))


def response_probabilities(odds: Fraction, size: int) -> MarkProbabilities:
    """Return the probabilities of the truth and of each other label: R/(R + k - 1) and 1/(R + k - 1)."""
    return MarkProbabilities(odds / (odds + size - 1), 1 / (odds + size - 1))


def respond(keys: Keys, size: int, keep: Fraction) -> Keys:
    """Return each number with probability `keep`, otherwise another one; both are always drawn."""
    honest = unpack_bits(direct.coins(keep, words_for(keys.size)), keys.size)
    other = direct.dice(size - 1, keys.size)
    other += other >= keys  # the labels without the true one, in their order
    return np.where(honest, keys, other)
