"""The effect of a row: how far it can move the answers of a query, from the query and the domain alone."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from dodona.domain.neighbours import Neighbours
from dodona.domain.partition import Partition
from dodona.errors import InvalidArgument
from dodona.query.movement import Movement, added, replaced
from dodona.query.predicate import box, used
from dodona.query.query import Block, Query
from dodona.query.recent import Recent
from dodona.query.sensitivity import Sensitivity
from dodona.query.stack import Stack
from dodona.query.weight import ONE

MOST_CELLS = 1 << 16
"""Products of up to so many cells are walked through; larger ones are bounded."""
_count = cache(Sensitivity.count)
_histogram = cache(Sensitivity.histogram)
_RECENT = Recent[Sensitivity]()


def sensitivity_of(query: Query, neighbours: Neighbours, *, limit: int = MOST_CELLS) -> Sensitivity:
    """Return how far one row can move the answers: exact where few enough cells differ, else an upper bound.

    A query that no row can move has the least sensitivity there is, 1.

    >>> from dodona.domain.attribute import Integer
    >>> from dodona.domain.domain import Domain
    >>> sensitivity_of(Query.sum(Domain((Integer("age", 0, 110),)), "age"), Neighbours.ADD_REMOVE).l1
    110

    Theorem: sensitivity
    """
    if not isinstance(neighbours, Neighbours):  # a word that merely equals one would be priced as the other relation
        raise InvalidArgument("neighbours", neighbours, "write Neighbours.ADD_REMOVE or Neighbours.REPLACE")
    if len(query.blocks) == 1:
        known = _known(query.blocks[0], neighbours)
        if known is not None:
            return known
    return _RECENT.of(query, (neighbours, limit), lambda: _found(query, neighbours, limit))


def _found(query: Query, neighbours: Neighbours, limit: int) -> Sensitivity:
    """Return the sensitivity by looking at the cells."""
    bare = Stack.of(replace(block, keys=()) if block.keys else block for block in query.blocks)
    movement = added(query.domain, bare, limit=limit)  # a row comes into one group of each block, whichever it is
    rising = all(low >= 0 for low, _ in bare.spans())
    if neighbours is Neighbours.REPLACE:
        # A row that is replaced leaves, and another comes: no norm is more than twice that of one of them. Where no
        # weight is below 0, they cannot add up in one coordinate.
        times = 1 if rising else 2
        twice = Movement(2 * movement.l1, 2 * times * movement.squares, times * movement.linf)
        keyed = any(block.keys for block in query.blocks)
        stack = Stack.of(query.blocks) if keyed else bare
        movement = replaced(query.domain, stack, limit=limit).within(twice)
    return _stated(movement, neighbours, monotone=rising and neighbours is Neighbours.ADD_REMOVE)


def _known(block: Block, neighbours: Neighbours) -> Sensitivity | None:
    """Return the sensitivity of a count or a histogram that needs no look at the cells."""
    if block.weight != ONE:
        return None
    if not block.keys or neighbours is Neighbours.ADD_REMOVE:
        return _count(neighbours)
    sets = box(block.where)
    if sets is None or any(part.codes == 0 for part in sets):
        return None
    fixed = used(block.where)
    free = any(isinstance(key, Partition) and key.groups > 1 and key.attribute not in fixed for key in block.keys)
    return _histogram(neighbours) if free else None


def _stated(movement: Movement, neighbours: Neighbours, *, monotone: bool) -> Sensitivity:
    """Return the movement as norms that fit together: of bounds that were found apart, each tightens the others."""
    l1, squares = max(movement.l1, 1), max(movement.squares, 1)
    linf = min(max(movement.linf, 1), l1, math.isqrt(squares))
    l1 = min(l1, squares)
    squares = min(squares, l1 * linf)
    return Sensitivity(l1=l1, l2_squared=squares, linf=linf, neighbours=neighbours, monotone=monotone)
