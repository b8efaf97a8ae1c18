"""Randomness for synthetic tables, for an attacker's choices and for insufficient noise. It never protects anybody."""

from __future__ import annotations

from numpy.random import Generator, default_rng  # noqa: TID251  made-up data comes from a seeded generator

from dodona.errors import InvalidArgument

Chance = Generator


def seeded(seed: int) -> Chance:
    """Return a reproducible generator: the same seed makes the same tables."""
    if type(seed) is not int or seed < 0:
        raise InvalidArgument("seed", seed, "write a whole number, 0 or above")
    return default_rng(seed)
