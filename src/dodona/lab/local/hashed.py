"""Optimal local hashing: a label of any alphabet falls into one of few buckets, and the bucket is randomized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from dodona.lab.local.channel import Flags, Keys, MarkProbabilities, Numbers, SupportProbabilities, Words
from dodona.lab.local.hashing import MOST_BUCKETS, PRIME, SEED_WORDS, collision, draw_functions, hash_key, hash_keys
from dodona.lab.local.kary import respond, response_probabilities
from dodona.lab.local.odds import local_epsilon, loss_above, odds_below
from dodona.numbers import Exact, to_integer

_ROWS = 1 << 13  # reports that the near caches hold while candidates are looked for in them


@dataclass(frozen=True, slots=True)
class LocalHashing:
    """Each respondent sends a random hash function, and the bucket of the label or another one.

    Theorem: local-channels, local-hashing
    """

    buckets: int
    epsilon: Fraction
    probabilities: MarkProbabilities
    width: int = SEED_WORDS + 1
    places: int = 1

    @classmethod
    def of(cls, *, epsilon: Exact, buckets: int | None = None) -> Self:
        """Return the channel; without `buckets`, about e^ε + 1 buckets, which have the least variance.

        >>> LocalHashing.of(epsilon=1).buckets, LocalHashing.of(epsilon=3).buckets
        (4, 21)
        """
        loss = local_epsilon(epsilon)
        best = min(max(round(odds_below(loss)) + 1, 2), MOST_BUCKETS)
        number = best if buckets is None else to_integer(buckets, argument="buckets", lower=2, upper=MOST_BUCKETS)
        return cls(number, loss, response_probabilities(odds_below(loss), number))

    @property
    def support(self) -> SupportProbabilities:
        """A report supports all labels that its function puts in its bucket."""
        same = collision(self.buckets)
        return SupportProbabilities(
            self.probabilities.keep, same * self.probabilities.keep + (1 - same) * self.probabilities.lend
        )

    @property
    def ratio(self) -> Fraction:
        """The odds of the true bucket against any other, given the function."""
        return max(self.probabilities.keep / self.probabilities.lend, self.probabilities.lend / self.probabilities.keep)

    def second_response(self, odds: Fraction) -> MarkProbabilities:
        """Return the probabilities of a second response to the bucket of the first."""
        return response_probabilities(odds, self.buckets)

    def after(self, second: MarkProbabilities) -> Self:
        """Return the channel of a response to a response."""
        composed = replace(self, probabilities=self.probabilities.then(second))
        return replace(composed, epsilon=min(self.epsilon, loss_above(composed.ratio)))

    def seeds(self, count: int) -> Words:
        """Return a hash function for each respondent."""
        return draw_functions(count)

    def randomize(self, keys: Keys, seeds: Words) -> Words:
        """Return the function and a bucket for each answer.

        Theorem: local-channels
        """
        buckets = hash_keys(seeds, keys, self.buckets)
        return np.column_stack((seeds, respond(buckets, self.buckets, self.probabilities.keep)))

    def randomize_again(self, words: Words, second: MarkProbabilities) -> Words:
        """Return a response to each report, with its function."""
        again = respond(words[:, SEED_WORDS], self.buckets, second.keep)
        return np.column_stack((words[:, :SEED_WORDS], again))

    def fits(self, words: Words) -> Flags:
        """Return which reports contain a function of the family and a valid bucket."""
        fits: Flags = (words[:, :SEED_WORDS] < PRIME).all(axis=1) & (words[:, SEED_WORDS] < self.buckets)
        return fits

    def marks(self, words: Words, keys: Keys) -> Numbers:
        """Return how many reports support each label."""
        counts = np.zeros(keys.shape[0], dtype=np.int64)
        for start in range(0, words.shape[0], _ROWS):
            block = np.asfortranarray(words[start : start + _ROWS])
            for number, key in enumerate(keys):
                counts[number] += np.count_nonzero(hash_keys(block, key, self.buckets) == block[:, SEED_WORDS])
        return counts

    def probability(self, words: Sequence[int], key: Sequence[int]) -> Fraction:
        """Return the probability of this bucket, given the function."""
        bucket = hash_key(words[:SEED_WORDS], key, self.buckets)
        return self.probabilities.keep if words[SEED_WORDS] == bucket else self.probabilities.lend

    def outcomes(self, seed: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the function with every bucket."""
        return ((*seed, bucket) for bucket in range(self.buckets))
