"""Targets of attacks: anything that counts how many people of a set have a secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator, default_rng  # noqa: TID251  made-up data comes from a seeded generator
from numpy.typing import NDArray

from dodona.errors import InvalidArgument

RandomGenerator = Generator
"""Randomness for synthetic tables, for an attacker's choices and for insufficient noise. It never protects anybody."""


def seeded_generator(seed: int) -> RandomGenerator:
    """Return a reproducible generator: the same seed makes the same tables."""
    if type(seed) is not int or seed < 0:
        raise InvalidArgument("seed", seed, "write a whole number, 0 or above")
    return default_rng(seed)


Secrets = NDArray[np.int64]
"""A number for each person: 1 for yes and 0 for no."""
Sets = NDArray[np.bool_]
"""A row for each query, a column for each person who may be in the set."""
Numbers = NDArray[np.float64]
NoiseFunction = Callable[[int], Numbers]
"""Returns an array of the given number of noise values."""

_HALF = 0.5


class AttackTarget(Protocol):
    """Counts how many people of a set have the secret. An attack sees nothing else."""

    @property
    def people(self) -> int:
        """The number of people in the table, which is public."""

    def counts(self, sets: Sets, /) -> Numbers:
        """Return an answer for each set."""

    def individual_counts(self) -> Numbers:
        """Return an answer for each person; may be called repeatedly."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Answers exactly."""

    secrets: Secrets

    @property
    def people(self) -> int:
        """The number of people in the table."""
        return self.secrets.size

    def counts(self, sets: Sets, /) -> Numbers:
        """Return an answer for each set."""
        if sets.ndim != 2 or sets.shape[1] != self.people:  # noqa: PLR2004
            raise InvalidArgument("sets", sets.shape, f"write a row for each set, with {self.people} columns")
        return sets.astype(np.float64) @ self.secrets.astype(np.float64)

    def individual_counts(self) -> Numbers:
        """Return an answer for each person."""
        return self.secrets.astype(np.float64)


@dataclass(frozen=True, slots=True)
class UnderNoised:
    """Adds fresh noise to every answer, without limiting their number."""

    exact: Exact
    noise: NoiseFunction

    @property
    def people(self) -> int:
        """The number of people in the table."""
        return self.exact.people

    def counts(self, sets: Sets, /) -> Numbers:
        """Return an answer for each set."""
        answers = self.exact.counts(sets)
        return answers + self.noise(answers.size)

    def individual_counts(self) -> Numbers:
        """Return an answer for each person, with new noise."""
        return self.exact.individual_counts() + self.noise(self.people)


def guess_bits(values: Numbers) -> Secrets:
    """Return 1 where an estimate is above one half."""
    guess: Secrets = (values > _HALF).astype(np.int64)
    return guess


def random_secrets(people: int, generator: RandomGenerator) -> Secrets:
    """Return uniformly random secrets, 0 or 1 for each person."""
    if type(people) is not int or people < 1:
        raise InvalidArgument("people", people, "write how many people there are, 1 or more")
    return generator.integers(0, 2, people)


def bounded_noise(largest: int, generator: RandomGenerator) -> NoiseFunction:
    """Return noise that is uniform on the integers up to `largest` in size."""
    return lambda count: generator.integers(-largest, largest, count, endpoint=True).astype(np.float64)


def laplace_noise(scale: float, generator: RandomGenerator) -> NoiseFunction:
    """Return Laplace noise: at scale 1 it protects one answer, and only one, at ε = 1."""
    return lambda count: generator.laplace(0.0, scale, count)
