"""A channel: what one respondent's device does to an answer before it leaves, and what the collector may read of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dodona.privacy.events import PureEvent, PureMechanism
from dodona.schema.schema import Neighbours

Words = NDArray[np.uint64]
"""Reports, one a row; or seeds, one a row."""
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Keys = NDArray[np.uint64]
"""Answers as the channel reads them: the numbers of labels, or rows of two for a label's fingerprint."""


@dataclass(frozen=True, slots=True)
class Core:
    """The two chances that a channel is made of: of a mark where the answer is, and where it is not."""

    keep: Fraction
    lend: Fraction

    def then(self, second: Core) -> Core:
        """Return the chances after a second channel has read each mark."""
        keep, lend = (mark * second.keep + (1 - mark) * second.lend for mark in (self.keep, self.lend))
        return Core(keep, lend)


@dataclass(frozen=True, slots=True)
class Support:
    """How often reports speak for a label: each in `trials` marks, with chance `keep` if it is meant and `lend` if not.

    Theorem: local-estimates
    """

    keep: Fraction
    lend: Fraction
    trials: int = 1

    def share(self, marks: int, respondents: int) -> Fraction:
        """Return the unbiased estimate of the share of respondents who mean the label.

        Theorem: local-estimates
        """
        return (Fraction(marks, respondents * self.trials) - self.lend) / (self.keep - self.lend)

    def variance(self, share: float, respondents: int) -> float:
        """Return the variance of that estimate for respondents of whom such a share means the label."""
        keep, lend = float(self.keep), float(self.lend)
        each = share * keep * (1 - keep) + (1 - share) * lend * (1 - lend)
        return each / (self.trials * respondents * float(self.keep - self.lend) ** 2)


class Channel(Protocol):
    """A private channel. All of its chances are fractions."""

    @property
    def epsilon(self) -> Fraction:
        """What one report costs the respondent, exact."""

    @property
    def core(self) -> Core:
        """The chances of its marks."""

    @property
    def support(self) -> Support:
        """The chances with which reports speak for a label."""

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's chances under two answers."""

    @property
    def width(self) -> int:
        """How many words a report has."""

    @property
    def places(self) -> int:
        """In how many marks, each looked at on its own, two reports may differ."""

    def seeds(self, count: int) -> Words:
        """Return what so many respondents draw before they look at their answers."""

    def tell(self, keys: Keys, seeds: Words) -> Words:
        """Return a fresh report for each answer."""

    def look(self, odds: Fraction) -> Core:
        """Return the chances of a second look at one mark, with such odds for what is there."""

    def retell(self, told: Words, second: Core) -> Words:
        """Return each report as a second look with fresh chance tells it."""

    def after(self, second: Core) -> Channel:
        """Return the channel of reports that a second look has told."""

    def fits(self, told: Words) -> Flags:
        """Return which reports this channel can send."""

    def marks(self, told: Words, keys: Keys) -> Numbers:
        """Return how many marks in all the reports speak for each label."""

    def chance(self, told: Sequence[int], key: Sequence[int]) -> Fraction:
        """Return the chance of this report, given its seed, from this answer."""

    def outcomes(self, seed: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Return every report that there is with this seed."""


def rows_of(bits: Words, count: int) -> Flags:
    """Return the first so many bits of words, each as a truth value."""
    return np.unpackbits(bits.astype("<u8").view(np.uint8), count=count, bitorder="little").view(np.bool_)


def words_for(bits: int) -> int:
    """Return how many words hold so many bits."""
    return -(-bits // 64)


def local_event(epsilon: Fraction) -> PureEvent:
    """Return what one report costs: whatever the respondent's answer is, replaced by any other."""
    return PureEvent(PureMechanism.RANDOMIZED_RESPONSE, epsilon, Neighbours.REPLACE)
