"""Quantiles: a tree of counts over a column, from coarse groups to fine ones."""

from __future__ import annotations

from dodona.domain.attribute import Attribute
from dodona.domain.partition import Partition

FAN_OUT = 16
"""How many groups of a level make one of the level above."""
FINEST = 4_096
"""How many groups the finest level has at most. A column with more values is told to this part of its range."""


def levels(attribute: Attribute) -> tuple[Partition, ...]:
    """Return the levels of the tree; each group of one is made of whole groups of the next.

    >>> from dodona.domain.attribute import Integer
    >>> [len(level.cuts) for level in levels(Integer("age", 0, 110))]
    [7, 111]
    """
    width = -(-attribute.size // FINEST)
    found = [Partition.every(attribute, width)]
    while len(found[0].cuts) > FAN_OUT:
        found.insert(0, Partition.cut(attribute, found[0].cuts[::FAN_OUT]))
    return tuple(found)
