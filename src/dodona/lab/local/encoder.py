"""The encoders of a question, and the channel of each."""

from __future__ import annotations

import math
from enum import Enum
from typing import assert_never

from dodona.errors import InvalidArgument
from dodona.lab.local.bloom import Bloom
from dodona.lab.local.channel import Channel
from dodona.lab.local.hashed import LocalHashing
from dodona.lab.local.kary import KaryResponse
from dodona.lab.local.odds import local_epsilon
from dodona.lab.local.unary import Unary
from dodona.numbers import Exact


class Encoder(Enum):
    """How an answer is encoded before it is randomized."""

    COINS = "coins"
    """Two coins: the truth on tails, otherwise the second coin."""
    KARY = "kary"
    """The label itself, or another one: best for few labels."""
    SYMMETRIC = "symmetric-unary"
    """A bit for each label, all randomized alike."""
    OPTIMIZED = "optimized-unary"
    """A bit for each label, randomized for the least variance: best for many labels."""
    HASHED = "hashed"
    """A bucket of a hash function that each respondent draws: best for open texts."""
    BLOOM = "bloom"
    """A Bloom filter, randomized bit by bit."""

    @property
    def hashes(self) -> bool:
        """Whether it reads texts, listed or not."""
        return self in {Encoder.HASHED, Encoder.BLOOM}


def best_encoder(labels: int, epsilon: Exact) -> Encoder:
    """Return the encoder of least variance for listed labels (Wang et al. 2017): k-ary response while k < 3·e^ε + 2."""
    few = labels < 3 * math.exp(local_epsilon(epsilon)) + 2
    return Encoder.KARY if few else Encoder.OPTIMIZED


def make_channel(encoder: Encoder, labels: int | None, epsilon: Exact | None, shape: tuple[int, int] | None) -> Channel:
    """Return the channel of an encoder for this many labels, or None for open texts."""
    if not isinstance(encoder, Encoder):
        raise InvalidArgument("encoder", encoder, "write one of dodona.lab.local.Encoder")
    if encoder is Encoder.COINS:
        return KaryResponse.coins()
    if epsilon is None:
        raise InvalidArgument("epsilon", epsilon, "write what one report may cost, such as 1")
    if encoder is Encoder.HASHED:
        return LocalHashing.of(epsilon=epsilon)
    if encoder is Encoder.BLOOM:
        bits, hashes = (128, 2) if shape is None else shape
        return Bloom.of(epsilon=epsilon, bits=bits, hashes=hashes)
    if labels is None:
        raise InvalidArgument("encoder", encoder, "open texts need Encoder.HASHED or Encoder.BLOOM, others a list")
    match encoder:
        case Encoder.KARY:
            return KaryResponse.of(labels, epsilon=epsilon)
        case Encoder.SYMMETRIC:
            return Unary.symmetric(labels, epsilon=epsilon)
        case Encoder.OPTIMIZED:
            return Unary.optimized(labels, epsilon=epsilon)
        case _:
            assert_never(encoder)
