"""Linkage: background knowledge identifies a row, and two k-anonymous tables undo each other.

Sweeney 2000 for the first; Ganta, Kasiviswanathan and Smith 2008 for the second. The attacker has a roll of everybody's
traits with names, but without secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.lab.attacks.k_anonymity import AnonymousTable, Traits, anonymise
from dodona.lab.attacks.target import RandomGenerator, Secrets

YEARS, AREAS, SEXES = 60, 50, 2
VALUES = 20
"""The number of diagnoses."""

Counts = NDArray[np.float64]
"""A row for each person on the roll, a column for each diagnosis: how many rows of the table match."""
CountRows = Callable[[Traits], Counts]


@dataclass(frozen=True, slots=True)
class Ward:
    """People with unique combinations of birth year, area and sex, and a uniformly random diagnosis."""

    traits: Traits
    secrets: Secrets


def random_ward(people: int, *, generator: RandomGenerator) -> Ward:
    """Return a ward of made-up people."""
    cells = YEARS * AREAS * SEXES
    if type(people) is not int or not 1 <= people <= cells:
        raise InvalidArgument("people", people, f"write 1 to {cells}: no two people have the same traits")
    chosen = generator.choice(cells, people, replace=False)
    traits = np.stack((chosen % YEARS, chosen // YEARS % AREAS, chosen // (YEARS * AREAS)), axis=1)
    return Ward(traits, generator.integers(0, VALUES, people))


def without_names(ward: Ward) -> CountRows:
    """Return the table with only the names removed."""

    def count_rows(roll: Traits) -> Counts:
        fits = (roll[:, None] == ward.traits[None]).all(axis=2)
        counts: Counts = fits.astype(np.float64) @ np.eye(VALUES)[ward.secrets]
        return counts

    return count_rows


def link(counts: Counts) -> Secrets:
    """Return for each person on the roll the most frequent diagnosis among the matching rows."""
    guess: Secrets = np.argmax(counts, axis=1)
    return guess


def anonymous_tables(ward: Ward, *, k: int) -> tuple[AnonymousTable, AnonymousTable]:
    """Return two k-anonymous tables of the same people: one is fine by year, the other by area."""
    first = anonymise(ward.traits, ward.secrets, k=k, values=VALUES, order=(0, 1, 2))
    second = anonymise(ward.traits, ward.secrets, k=k, values=VALUES, order=(1, 2, 0))
    return first, second


def intersect_tables(published: Sequence[AnonymousTable], roll: Traits) -> Secrets:
    """Return the diagnoses that fit all tables: the certain ones, then the likeliest among the rest.

    A person's diagnosis must remain in their class of every table. It is certain if only one remains, or if exactly as
    many people of a class could have a diagnosis as do have it. Each certain diagnosis is removed and the search
    repeats.
    """
    left = [release.secrets.copy() for release in published]
    places = [release.class_of(roll) for release in published]
    diagnoses = np.full(len(roll), -1, dtype=np.int64)
    while (settled := _certain_diagnoses(left, places, diagnoses)) != []:
        for person, value in settled:
            if diagnoses[person] == -1 and all(
                counts[place[person], value] for counts, place in zip(left, places, strict=True)
            ):
                diagnoses[person] = value
                for counts, place in zip(left, places, strict=True):
                    counts[place[person], value] -= 1
    open_yet = diagnoses == -1
    weight = np.prod([counts[place] for counts, place in zip(left, places, strict=True)], axis=0)
    diagnoses[open_yet] = np.argmax(weight[open_yet], axis=1)
    return diagnoses


def _certain_diagnoses(
    left: Sequence[NDArray[np.int64]], places: Sequence[NDArray[np.int64]], diagnoses: Secrets
) -> list[tuple[int, int]]:
    possible = _possible(left, places)
    possible[diagnoses != -1] = False
    alone = np.flatnonzero(possible.sum(axis=1) == 1)
    settled = [(int(person), int(np.argmax(possible[person]))) for person in alone]
    for counts, place in zip(left, places, strict=True):
        could = np.zeros_like(counts)
        np.add.at(could, place, possible.astype(np.int64))
        must = possible & ((counts > 0) & (could == counts))[place]
        settled += [(int(person), int(value)) for person, value in np.argwhere(must)]
    return settled


def _possible(left: Sequence[NDArray[np.int64]], places: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
    least: NDArray[np.int64] = np.min([counts[place] for counts, place in zip(left, places, strict=True)], axis=0)
    return least > 0
