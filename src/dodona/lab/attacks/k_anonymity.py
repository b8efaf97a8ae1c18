"""k-anonymity: a table without names, whose people are grouped into classes of at least k that look alike.

Samarati and Sweeney 1998; classes are found as in Mondrian (LeFevre, DeWitt and Ramakrishnan 2006). It is here to be
attacked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.lab.attacks.target import Secrets

Traits = NDArray[np.int64]
"""A row for each person, a column for each trait that others may know, such as the year of birth."""


@dataclass(frozen=True, slots=True)
class AnonymousTable:
    """A k-anonymous table as published: ranges of traits, and the unordered secrets of each class."""

    lowest: Traits
    highest: Traits
    """A row for each class, a column for each trait."""
    secrets: NDArray[np.int64]
    """A row for each class, a column for each value of the secret: how many people have it."""

    def class_of(self, traits: Traits) -> NDArray[np.int64]:
        """Return the class of each person with known traits."""
        inside = (traits[:, None] >= self.lowest) & (traits[:, None] <= self.highest)
        classes: NDArray[np.int64] = np.argmax(inside.all(axis=2), axis=1)
        return classes


def anonymise(traits: Traits, secrets: Secrets, *, k: int, values: int, order: Sequence[int]) -> AnonymousTable:
    """Return a k-anonymous table, whose classes are split by the first trait in `order` that can be split."""
    people = len(traits)
    if type(k) is not int or not 1 <= k <= people:
        raise InvalidArgument("k", k, f"write the size of the smallest class, 1 to the {people} people there are")
    classes = list(_split_classes(traits, np.arange(people), k, tuple(order)))
    counts = np.zeros((len(classes), values), dtype=np.int64)
    for number, members in enumerate(classes):
        counts[number] = np.bincount(secrets[members], minlength=values)
    lowest, highest = (np.stack([end(traits[members], axis=0) for members in classes]) for end in (np.min, np.max))
    return AnonymousTable(lowest, highest, counts)


def _split_classes(
    traits: Traits, members: NDArray[np.int64], k: int, order: Sequence[int]
) -> Iterator[NDArray[np.int64]]:
    """Yield the classes of these members; each split is at the median or next to it."""
    for trait in order:
        known = traits[members, trait]
        middle = int(np.sort(known)[len(known) // 2])
        for cut in (middle, middle + 1):
            left, right = members[known < cut], members[known >= cut]
            if min(len(left), len(right)) >= k:
                yield from _split_classes(traits, left, k, order)
                yield from _split_classes(traits, right, k, order)
                return
    yield members
