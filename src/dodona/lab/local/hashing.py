"""A family of hash functions over a prime field, from which every respondent draws, and fingerprints of labels.

A function maps a pair x to a·x + b in the field of 2^31 - 1 elements, and the field to buckets of nearly equal size.
For two different labels the pair of hashes is uniform over all pairs, so collision probabilities are exact fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256

import numpy as np

from dodona.lab import direct
from dodona.lab.local.channel import Keys, Words

PRIME = (1 << 31) - 1
SEED_WORDS = 3
"""Two factors and a summand, each below the prime."""
MOST_BUCKETS = 1 << 16
_PRIME = np.uint64(PRIME)
_SHIFT = np.uint64(31)


def fingerprint(label: str) -> tuple[int, int]:
    """Return two elements of the field for a label: 62 bits of its SHA-256."""
    digest = sha256(label.encode()).digest()
    return int.from_bytes(digest[:16], "big") % PRIME, int.from_bytes(digest[16:], "big") % PRIME


def draw_functions(count: int, functions: int = 1) -> Words:
    """Return seeds of `functions` hash functions for each respondent, drawn uniformly from the whole family."""
    return direct.dice(PRIME, count * functions * SEED_WORDS).reshape(count, functions * SEED_WORDS)


def hash_keys(seeds: Words, keys: Keys, buckets: int) -> Words:
    """Return the bucket of each key under the function of its row; keys are rows of two, or one such row for all.

    Theorem: local-hashing
    """
    value = seeds[:, 0] * keys[..., 0] + seeds[:, 1] * keys[..., 1] + seeds[:, 2]  # below 2^63.1
    value = (value & _PRIME) + (value >> _SHIFT)  # 2^31 is 1 in the field
    value = (value & _PRIME) + (value >> _SHIFT)
    value = np.where(value >= _PRIME, value - _PRIME, value)
    return (value * np.uint64(buckets)) >> _SHIFT


def hash_key(seed: Sequence[int], key: Sequence[int], buckets: int) -> int:
    """Return the bucket of one key, in integers."""
    return (seed[0] * key[0] + seed[1] * key[1] + seed[2]) % PRIME * buckets >> 31


@lru_cache(maxsize=256)
def collision(buckets: int) -> Fraction:
    """Return the probability that two different labels fall into one bucket: the sum of squared bucket shares.

    >>> float(collision(4))
    0.25

    Theorem: local-hashing
    """
    edges = [-(-(bucket << 31) // buckets) for bucket in range(buckets)]
    sizes = [high - low for low, high in zip(edges, [*edges[1:], PRIME], strict=True)]
    return Fraction(sum(size * size for size in sizes), PRIME * PRIME)
