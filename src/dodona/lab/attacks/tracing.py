"""Membership tracing: was this person in the table? Thousands of harmless averages tell.

Homer et al. 2008; Dwork, Smith, Steinke, Ullman and Vadhan 2015. Somebody who is in the table pulls every average a
little towards themselves; added up over many columns this shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.lab.attacks.chance import Chance
from dodona.lab.attacks.target import Noise, Numbers, Secrets

Marks = NDArray[np.bool_]
"""A row for each person, a column for each mark that they have or have not."""
Published = Callable[[Marks], Numbers]
"""Tells of a table how many people have each mark."""

MOST_MARKS = 5000
_COMMON = (0.2, 0.8)  # how common marks are


@dataclass(frozen=True, slots=True)
class Study:
    """Pairs of people from one population. A coin decided which of each pair takes part; the attacker knows both."""

    frequencies: Numbers
    """How common each mark is in the population: this is public."""
    first: Marks
    second: Marks
    member: Secrets
    """The secret: 0 where the first of a pair is in the table, 1 where the second is."""

    @property
    def table(self) -> Marks:
        """The people who take part."""
        return np.where(self.member[:, None] == 0, self.first, self.second)


def made_up(pairs: int, *, marks: int, chance: Chance) -> Study:
    """Return a study of made-up people."""
    if type(pairs) is not int or pairs < 1:
        raise InvalidArgument("pairs", pairs, "write how many pairs of people there are, 1 or more")
    if type(marks) is not int or not 1 <= marks <= MOST_MARKS:
        raise InvalidArgument("marks", marks, f"write how many marks there are, 1 to {MOST_MARKS}")
    frequencies = chance.uniform(*_COMMON, marks)
    first, second = (chance.random((pairs, marks)) < frequencies for _ in range(2))
    return Study(frequencies, first, second, chance.integers(0, 2, pairs))


def traced(study: Study, counts: Numbers) -> Secrets:
    """Return who of each pair takes part: the one who agrees more with how the table differs from the population."""
    spread = study.frequencies * (1 - study.frequencies)
    pull = (counts / study.member.size - study.frequencies) / spread
    return (study.second @ pull > study.first @ pull).astype(np.int64)


def exact(table: Marks) -> Numbers:
    """Return how many people have each mark."""
    counts: Numbers = table.sum(axis=0, dtype=np.float64)
    return counts


def under_noised(noise: Noise) -> Published:
    """Return counts with noise on each of them, whatever their number."""
    return lambda table: exact(table) + noise(table.shape[1])


def attack(study: Study, published: Published) -> Secrets:
    """Return who of each pair takes part, by what is published of the table."""
    return traced(study, published(study.table))
