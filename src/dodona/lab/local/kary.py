"""Randomized response over k labels: the true one with the best odds, otherwise any other uniformly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from dodona.lab import direct
from dodona.lab.local.channel import Core, Flags, Keys, Numbers, Support, Words, rows_of, words_for
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
    core: Core
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
        return cls(labels, loss, answering(odds_below(loss), labels))

    @classmethod
    def coins(cls) -> Self:
        """Return the classic with two coins: the truth on tails, otherwise a second coin's yes or no. It costs ln 3.

        >>> KaryResponse.coins().core.keep
        Fraction(3, 4)
        """
        return cls(2, LN3, answering(Fraction(3), 2))

    @property
    def support(self) -> Support:
        """A report supports the label that it names."""
        return Support(self.core.keep, self.core.lend)

    @property
    def ratio(self) -> Fraction:
        """The odds of the truth against any other label."""
        return max(self.core.keep / self.core.lend, self.core.lend / self.core.keep)

    def look(self, odds: Fraction) -> Core:
        """Return the probabilities of a second response to the label of the first."""
        return answering(odds, self.size)

    def after(self, second: Core) -> Self:
        """Return the channel of a response to a response."""
        composed = replace(self, core=self.core.then(second))
        return replace(composed, epsilon=min(self.epsilon, loss_above(composed.ratio)))

    def seeds(self, count: int) -> Words:
        """Return no seeds: this channel has none."""
        return np.empty((count, 0), dtype=np.uint64)

    def tell(self, keys: Keys, seeds: Words) -> Words:
        """Return a label number for each answer.

        Theorem: local-channels
        """
        del seeds
        return respond(keys, self.size, self.core.keep)[:, np.newaxis]

    def retell(self, told: Words, second: Core) -> Words:
        """Return a response to each report."""
        return respond(told[:, 0], self.size, second.keep)[:, np.newaxis]

    def fits(self, told: Words) -> Flags:
        """Return which reports name a label."""
        return told[:, 0] < self.size

    def marks(self, told: Words, keys: Keys) -> Numbers:
        """Return how many reports name each label."""
        named = np.bincount(told[:, 0].astype(np.int64), minlength=self.size)
        return named[keys.astype(np.int64)].astype(np.int64)

    def chance(self, told: Sequence[int], key: Sequence[int]) -> Fraction:
        """Return the probability of naming this label."""
        return self.core.keep if told[0] == key[0] else self.core.lend

    def outcomes(self, seed: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the number of every label."""
        return ((*seed, label) for label in range(self.size))


def answering(odds: Fraction, size: int) -> Core:
    """Return the probabilities of the truth and of each other label: R/(R + k - 1) and 1/(R + k - 1)."""
    return Core(odds / (odds + size - 1), 1 / (odds + size - 1))


def respond(keys: Keys, size: int, keep: Fraction) -> Keys:
    """Return each number with probability `keep`, otherwise another one; both are always drawn."""
    honest = rows_of(direct.coins(keep, words_for(keys.size)), keys.size)
    other = direct.dice(size - 1, keys.size)
    other += other >= keys  # the labels without the true one, in their order
    return np.where(honest, keys, other)
