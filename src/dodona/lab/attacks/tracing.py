"""Membership tracing: was this person in the table? Thousands of harmless averages reveal it.

Homer et al. 2008; Dwork, Smith, Steinke, Ullman and Vadhan 2015. Each member pulls every average slightly towards their
own values, and over many columns this adds up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.lab.attacks.target import NoiseFunction, Numbers, RandomGenerator, Secrets

Marks = NDArray[np.bool_]
"""A row for each person, a column for each binary mark."""
CountMarks = Callable[[Marks], Numbers]
"""Publishes how many people of a table have each mark."""

MOST_MARKS = 5000
_COMMON = (0.2, 0.8)  # how common marks are


@dataclass(frozen=True, slots=True)
class Study:
    """Pairs of people from one population. A coin decided which of each pair takes part; the attacker knows both."""

    frequencies: Numbers
    """The public frequency of each mark in the population."""
    first: Marks
    second: Marks
    member: Secrets
    """The secret: 0 if the first of a pair is in the table, 1 if the second is."""

    @property
    def table(self) -> Marks:
        """The people who take part."""
        return np.where(self.member[:, None] == 0, self.first, self.second)


def random_study(pairs: int, *, marks: int, generator: RandomGenerator) -> Study:
    """Return a study of made-up people."""
    if type(pairs) is not int or pairs < 1:
        raise InvalidArgument("pairs", pairs, "write how many pairs of people there are, 1 or more")
    if type(marks) is not int or not 1 <= marks <= MOST_MARKS:
        raise InvalidArgument("marks", marks, f"write how many marks there are, 1 to {MOST_MARKS}")
    frequencies = generator.uniform(*_COMMON, marks)
    first, second = (generator.random((pairs, marks)) < frequencies for _ in range(2))
    return Study(frequencies, first, second, generator.integers(0, 2, pairs))


def guess_members(study: Study, counts: Numbers) -> Secrets:
    """Return which person of each pair takes part: the one closer to the table's deviation from the population."""
    spread = study.frequencies * (1 - study.frequencies)
    pull = (counts / study.member.size - study.frequencies) / spread
    return (study.second @ pull > study.first @ pull).astype(np.int64)


def exact_counts(table: Marks) -> Numbers:
    """Return how many people have each mark."""
    counts: Numbers = table.sum(axis=0, dtype=np.float64)
    return counts


def noisy_counts(noise: NoiseFunction) -> CountMarks:
    """Return counts with noise on each, however many there are."""
    return lambda table: exact_counts(table) + noise(table.shape[1])


def attack(study: Study, published: CountMarks) -> Secrets:
    """Return which person of each pair takes part, given what is published about the table."""
    return guess_members(study, published(study.table))
