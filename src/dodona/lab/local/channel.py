"""A channel: how a respondent's device randomizes an answer, and what the collector can read from the report."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.lab.local.odds import is_within
from dodona.privacy.events import PureEvent, PureMechanism
from dodona.schema.schema import Neighbours

Words = NDArray[np.uint64]
"""Reports, or seeds, one in each row."""
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Keys = NDArray[np.uint64]
"""Answers as the channel reads them: label numbers, or rows of two for fingerprints."""


@dataclass(frozen=True, slots=True)
class MarkProbabilities:
    """The probabilities of a mark at the true answer (`keep`) and elsewhere (`lend`)."""

    keep: Fraction
    lend: Fraction

    def then(self, second: MarkProbabilities) -> MarkProbabilities:
        """Return the probabilities after a second channel has randomized each mark."""
        keep, lend = (mark * second.keep + (1 - mark) * second.lend for mark in (self.keep, self.lend))
        return MarkProbabilities(keep, lend)


@dataclass(frozen=True, slots=True)
class SupportProbabilities:
    """How often reports support a label: in each of `trials` marks, with probability `keep` if it is true, else `lend`.

    Theorem: local-estimates
    """

    keep: Fraction
    lend: Fraction
    trials: int = 1

    def share(self, marks: int, respondents: int) -> Fraction:
        """Return the unbiased estimate of the share of respondents with this label.

        Theorem: local-estimates
        """
        return (Fraction(marks, respondents * self.trials) - self.lend) / (self.keep - self.lend)

    def variance(self, share: float, respondents: int) -> float:
        """Return the variance of that estimate if this share of the respondents has the label."""
        keep, lend = float(self.keep), float(self.lend)
        each = share * keep * (1 - keep) + (1 - share) * lend * (1 - lend)
        return each / (self.trials * respondents * float(self.keep - self.lend) ** 2)


class Channel(Protocol):
    """A private channel. All its probabilities are fractions."""

    @property
    def epsilon(self) -> Fraction:
        """The privacy loss of one report, exact."""

    @property
    def probabilities(self) -> MarkProbabilities:
        """The probabilities of its marks."""

    @property
    def support(self) -> SupportProbabilities:
        """The probabilities that a report supports a label."""

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities under two answers."""

    @property
    def width(self) -> int:
        """The number of words in a report."""

    @property
    def places(self) -> int:
        """The number of separate marks in which two reports may differ."""

    def seeds(self, count: int) -> Words:
        """Return what respondents draw before they look at their answers."""

    def randomize(self, keys: Keys, seeds: Words) -> Words:
        """Return a fresh report for each answer."""

    def second_response(self, odds: Fraction) -> MarkProbabilities:
        """Return the probabilities of a second response to one mark, with these odds for the truth."""

    def randomize_again(self, words: Words, second: MarkProbabilities) -> Words:
        """Return each report after a second, fresh randomization."""

    def after(self, second: MarkProbabilities) -> Channel:
        """Return the channel of reports that were randomized a second time."""

    def fits(self, words: Words) -> Flags:
        """Return which reports this channel can send."""

    def marks(self, words: Words, keys: Keys) -> Numbers:
        """Return how many marks in all the reports support each label."""

    def probability(self, words: Sequence[int], key: Sequence[int]) -> Fraction:
        """Return the probability of this report, given its seed and this answer."""

    def outcomes(self, seed: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield every possible report with this seed."""


def unpack_bits(bits: Words, count: int) -> Flags:
    """Return the first `count` bits of words as booleans."""
    return np.unpackbits(bits.astype("<u8").view(np.uint8), count=count, bitorder="little").view(np.bool_)


def words_for(bits: int) -> int:
    """Return the number of words that hold this many bits."""
    return -(-bits // 64)


def local_event(epsilon: Fraction) -> PureEvent:
    """Return the event of one report: the respondent's answer may be replaced by any other."""
    return PureEvent(PureMechanism.RANDOMIZED_RESPONSE, epsilon, Neighbours.REPLACE)


# --- The privacy of a channel, decided in exact fractions: by enumerating its reports, or by its formula. ---


@dataclass(frozen=True, slots=True)
class PrivacyCheck:
    """How much a report can reveal at most."""

    ratio: Fraction
    """The largest ratio of a report's probabilities under two answers; exact."""
    private: bool
    """Whether the ratio is at most e^ε; decided exactly."""


def check_by_formula(channel: Channel) -> PrivacyCheck:
    """Check a channel by its formula, for alphabets of any size.

    Theorem: local-channels
    """
    return PrivacyCheck(channel.ratio, is_within(channel.ratio, channel.epsilon))


def check_by_enumeration(channel: Channel, keys: Sequence[Sequence[int]], seed: Sequence[int] = ()) -> PrivacyCheck:
    """Check a channel over all reports with this seed and all pairs of these answers.

    Seeds are drawn before the answer is known, so their probability is the same under every answer.

    >>> from dodona.lab.local.kary import KaryResponse
    >>> check_by_enumeration(KaryResponse.coins(), [(0,), (1,)])
    PrivacyCheck(ratio=Fraction(3, 1), private=True)

    Theorem: local-channels
    """
    if len(keys) <= 1:
        raise InvalidArgument("keys", keys, "write at least two answers to tell apart")
    ratio = Fraction(0)
    for words in channel.outcomes(seed):
        probabilities = [channel.probability(words, key) for key in keys]
        ratio = max(ratio, *(probability / other for probability, other in itertools.permutations(probabilities, 2)))
    return PrivacyCheck(ratio, is_within(ratio, channel.epsilon))
