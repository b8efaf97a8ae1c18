"""The privacy of a channel, decided in exact fractions: by enumerating its reports, or by its formula."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dodona.errors import InvalidArgument
from dodona.lab.local.channel import Channel
from dodona.lab.local.odds import is_within


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
