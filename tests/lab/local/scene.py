"""Channels of every kind on small alphabets, and what they read for a few answers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dodona.lab.local.bloom import Bloom
from dodona.lab.local.channel import Channel, Keys
from dodona.lab.local.hashed import LocalHashing
from dodona.lab.local.hashing import fingerprint
from dodona.lab.local.kary import KaryResponse
from dodona.lab.local.odds import odds_below
from dodona.lab.local.unary import Unary

EPSILONS = ("1/1000", "1/2", "1", "3", "10")
TEXTS = ("oak", "beech", "ash", "lime", "elm")


def small(epsilon: str) -> dict[str, Channel]:
    """A channel of every kind with few enough reports to go through them all."""
    return {
        "yes-no": KaryResponse.of(2, epsilon=epsilon),
        "kary": KaryResponse.of(5, epsilon=epsilon),
        "symmetric": Unary.symmetric(5, epsilon=epsilon),
        "optimized": Unary.optimized(5, epsilon=epsilon),
        "hashed": LocalHashing.of(epsilon=epsilon, buckets=4),
        "bloom": Bloom.of(epsilon=epsilon, bits=6, hashes=2),
    }


NAMES = tuple(small("1"))


def twice(channel: Channel, each: Fraction = Fraction(1)) -> Channel:
    """The channel after a second look."""
    return channel.after(channel.second_response(odds_below(each)))


def keys_of(channel: Channel) -> Keys:
    """What the channel reads for its labels, or for five texts."""
    match channel:
        case KaryResponse() | Unary():
            return np.arange(channel.size, dtype=np.uint64)
        case _:
            return np.array([fingerprint(text) for text in TEXTS], dtype=np.uint64)


def listed(channel: Channel) -> list[tuple[int, ...]]:
    """The same as tuples."""
    keys = keys_of(channel)
    return [tuple(row) for row in keys.reshape(keys.shape[0], -1).tolist()]


def a_seed(channel: Channel) -> tuple[int, ...]:
    """A seed under which the five texts do not all fall in one bucket or bit."""
    while True:
        seed = tuple(channel.seeds(1)[0].tolist())
        outcomes = list(channel.outcomes(seed))
        if len({tuple(channel.probability(words, key) for words in outcomes) for key in listed(channel)}) > 1:
            return seed
