"""Sensitivity: how far one privacy unit can move the answers of a query, under a neighbour relation.

`row_sensitivity` is about one row, `unit_sensitivity` about whatever the schema protects: a row, or a person with
several rows. Both depend on the query and the domain alone, never on the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

from dodona.errors import InvalidArgument
from dodona.numbers import to_integer
from dodona.query.canonical import RecentCache
from dodona.query.movement import Movement, Stack, added_row_movement, replaced_row_movement
from dodona.query.predicate import as_box, predicate_attributes
from dodona.query.query import ONE, Block, PeopleWeight, Query
from dodona.schema.partition import Partition
from dodona.schema.schema import Neighbours, Unit

# --- How far one row can move an integer answer. ---


_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Exact distances between the answers on neighbouring tables, in grid steps, and the relation they hold under.

    Theorem: sensitivity
    """

    l1: int
    """Largest sum of absolute changes."""
    l2_squared: int
    """Largest sum of squared changes."""
    linf: int
    """Largest change of a single coordinate."""
    neighbours: Neighbours
    monotone: bool = False
    """Whether no row can raise one coordinate and lower another: true of counts, under add/remove only."""

    def __post_init__(self) -> None:
        """Refuse what no answer can have."""
        for name, largest in (("l1", _LARGEST), ("l2_squared", _LARGEST**2), ("linf", _LARGEST)):
            object.__setattr__(self, name, to_integer(getattr(self, name), argument=name, lower=1, upper=largest))
        relation: object = self.neighbours  # anything may come
        if not isinstance(relation, Neighbours):
            accepted = "write Neighbours.ADD_REMOVE or Neighbours.REPLACE"
            raise InvalidArgument("neighbours", self.neighbours, accepted)
        if not self.linf <= self.l1 <= self.l2_squared <= self.l1**2 or self.linf**2 > self.l2_squared:
            accepted = "no whole changes have these norms: linf ≤ l1 ≤ l2² ≤ l1² and linf² ≤ l2² must hold"
            raise InvalidArgument("l2_squared", self.l2_squared, accepted)
        if self.monotone not in (False, True):
            raise InvalidArgument("monotone", self.monotone, "write True or False")
        if self.monotone and self.neighbours is Neighbours.REPLACE:
            accepted = "under replace-one a row leaves and another comes, so even counts move both ways; write False"
            raise InvalidArgument("monotone", self.monotone, accepted)

    @classmethod
    def count(cls, neighbours: Neighbours) -> Self:
        """Return the sensitivity of one count.

        >>> Sensitivity.count(Neighbours.ADD_REMOVE).l1
        1
        """
        return cls.counts(1, neighbours)

    @classmethod
    def counts(cls, answers: int, neighbours: Neighbours) -> Self:
        """Return the sensitivity of several counts, each of which any row may move."""
        monotone = neighbours is Neighbours.ADD_REMOVE
        moved = to_integer(answers, argument="answers", lower=1, upper=_LARGEST)
        return cls(l1=moved, l2_squared=moved, linf=1, neighbours=neighbours, monotone=monotone)

    @classmethod
    def histogram(cls, neighbours: Neighbours) -> Self:
        """Return the sensitivity of counts of which a row is in exactly one.

        >>> Sensitivity.histogram(Neighbours.REPLACE).l1
        2
        """
        moved = 1 if neighbours is Neighbours.ADD_REMOVE else 2
        return cls(l1=moved, l2_squared=moved, linf=1, neighbours=neighbours, monotone=moved == 1)

    @classmethod
    def scores(cls, largest_change: int, neighbours: Neighbours, *, monotone: bool = False) -> Self:
        """Return the sensitivity of scores of candidates, however many: only the largest change matters.

        The sum over all candidates is not used by a choice, and is set to the largest that is allowed.
        """
        moved = to_integer(largest_change, argument="largest_change", lower=1, upper=_LARGEST)
        return cls(l1=_LARGEST, l2_squared=_LARGEST**2, linf=moved, neighbours=neighbours, monotone=monotone)


# --- The effect of a row: how far it can move the answers of a query, from the query and the domain alone. ---


MOST_CELLS = 1 << 16
"""Products of up to so many cells are walked through; larger ones are bounded."""
_cached_count = cache(Sensitivity.count)
_cached_histogram = cache(Sensitivity.histogram)
_SENSITIVITY_CACHE = RecentCache[Sensitivity]()


def row_sensitivity(query: Query, neighbours: Neighbours, *, limit: int = MOST_CELLS) -> Sensitivity:
    """Return how far one row can move the answers: exact where few enough cells differ, else an upper bound.

    A query that no row can move has the least sensitivity there is, 1.

    >>> from dodona.schema.attributes import Integer
    >>> from dodona.schema.schema import Domain
    >>> row_sensitivity(Query.sum(Domain((Integer("age", 0, 110),)), "age"), Neighbours.ADD_REMOVE).l1
    110

    Theorem: sensitivity
    """
    if not isinstance(neighbours, Neighbours):  # a word that merely equals one would be priced as the other relation
        raise InvalidArgument("neighbours", neighbours, "write Neighbours.ADD_REMOVE or Neighbours.REPLACE")
    if len(query.blocks) == 1:
        known = _known_sensitivity(query.blocks[0], neighbours)
        if known is not None:
            return known
    return _SENSITIVITY_CACHE.of(query, (neighbours, limit), lambda: _compute_sensitivity(query, neighbours, limit))


def _compute_sensitivity(query: Query, neighbours: Neighbours, limit: int) -> Sensitivity:
    """Return the sensitivity by looking at the cells."""
    bare = Stack.of(replace(block, keys=()) if block.keys else block for block in query.blocks)
    movement = added_row_movement(
        query.domain, bare, limit=limit
    )  # a row comes into one group of each block, whichever it is
    rising = all(low >= 0 for low, _ in bare.spans())
    if neighbours is Neighbours.REPLACE:
        # A row that is replaced leaves, and another comes: no norm is more than twice that of one of them. Where no
        # weight is below 0, they cannot add up in one coordinate.
        times = 1 if rising else 2
        twice = Movement(2 * movement.l1, 2 * times * movement.squares, times * movement.linf)
        keyed = any(block.keys for block in query.blocks)
        stack = Stack.of(query.blocks) if keyed else bare
        movement = replaced_row_movement(query.domain, stack, limit=limit).within(twice)
    return _sensitivity_from_movement(movement, neighbours, monotone=rising and neighbours is Neighbours.ADD_REMOVE)


def _known_sensitivity(block: Block, neighbours: Neighbours) -> Sensitivity | None:
    """Return the sensitivity of a count or a histogram that needs no look at the cells."""
    if block.weight != ONE:
        return None
    if not block.keys or neighbours is Neighbours.ADD_REMOVE:
        return _cached_count(neighbours)
    sets = as_box(block.where)
    if sets is None or any(part.codes == 0 for part in sets):
        return None
    fixed = predicate_attributes(block.where)
    free = any(isinstance(key, Partition) and key.groups > 1 and key.attribute not in fixed for key in block.keys)
    return _cached_histogram(neighbours) if free else None


def _sensitivity_from_movement(movement: Movement, neighbours: Neighbours, *, monotone: bool) -> Sensitivity:
    """Return the movement as norms that fit together: of bounds that were found apart, each tightens the others."""
    l1, squares = max(movement.l1, 1), max(movement.squares, 1)
    linf = min(max(movement.linf, 1), l1, math.isqrt(squares))
    l1 = min(l1, squares)
    squares = min(squares, l1 * linf)
    return Sensitivity(l1=l1, l2_squared=squares, linf=linf, neighbours=neighbours, monotone=monotone)


# --- People: how far one of them can move the answers of a query, with all the rows of theirs that count. ---


def unit_sensitivity(query: Query, unit: Unit) -> Sensitivity:
    """Return how far what the unit protects can move the answers: a row, or a person with up to `rows` rows.

    A person counts once in a group, however many rows there are. Where people are replaced, each of the places for
    their rows may hold a row before, after, or both: the worse of an added and a replaced row is taken.

    >>> from dodona.schema.attributes import Integer
    >>> from dodona.schema.schema import Domain
    >>> ages = Query.sum(Domain((Integer("age", 0, 110),)), "age")
    >>> unit_sensitivity(ages, Unit(neighbours="add-remove", size=100, id="patient", rows=4)).l1
    440

    Theorem: people
    """
    if not isinstance(unit, Unit):  # a relation alone does not say how many rows a person has
        raise InvalidArgument("unit", unit, "write a Unit: who is protected, under which relation")
    persons = [block for block in query.blocks if isinstance(block.weight, PeopleWeight)]
    if unit.id is None:
        if persons:
            raise InvalidArgument("query", "count(DISTINCT ...)", "count rows: this dataset does not tell people apart")
        return row_sensitivity(query, unit.neighbours)
    rows = tuple(block for block in query.blocks if not isinstance(block.weight, PeopleWeight))
    moved = _person_rows_sensitivity(Query(query.domain, rows), unit) if rows else None
    if not persons:
        if moved is None:
            raise InvalidArgument("query", query, "ask for something")
        return moved
    counted = sum(_groups_per_person(block, unit) for block in persons)
    adding = unit.neighbours is Neighbours.ADD_REMOVE
    if moved is None:
        return Sensitivity(l1=counted, l2_squared=counted, linf=1, neighbours=unit.neighbours, monotone=adding)
    return Sensitivity(
        l1=moved.l1 + counted,
        l2_squared=moved.l2_squared + counted,
        linf=moved.linf,
        neighbours=unit.neighbours,
        monotone=moved.monotone,
    )


def row_count_sensitivity(unit: Unit) -> Sensitivity:
    """Return how far what the unit protects can move one count of rows."""
    one = Sensitivity.count(unit.neighbours)
    return one if unit.id is None else _scale_sensitivity(one, unit.rows)


def score_sensitivity(unit: Unit) -> Sensitivity:
    """Return how far it can move a distance from a count of rows, which goes both ways."""
    return Sensitivity.scores(unit.rows, unit.neighbours)


def _person_rows_sensitivity(query: Query, unit: Unit) -> Sensitivity:
    """Return how far up to `rows` rows of one person move sums over rows."""
    one = row_sensitivity(query, unit.neighbours)
    if unit.neighbours is Neighbours.REPLACE:
        one = _larger_sensitivity(one, row_sensitivity(query, Neighbours.ADD_REMOVE))
    return _scale_sensitivity(one, unit.rows)


def _larger_sensitivity(replaced: Sensitivity, added: Sensitivity) -> Sensitivity:
    return Sensitivity(
        l1=max(replaced.l1, added.l1),
        l2_squared=max(replaced.l2_squared, added.l2_squared),
        linf=max(replaced.linf, added.linf),
        neighbours=replaced.neighbours,
    )


def _scale_sensitivity(one: Sensitivity, rows: int) -> Sensitivity:
    """Return how far so many rows move together: each norm by the triangle inequality."""
    return Sensitivity(
        l1=rows * one.l1,
        l2_squared=rows**2 * one.l2_squared,
        linf=rows * one.linf,
        neighbours=one.neighbours,
        monotone=one.monotone,
    )


def _groups_per_person(block: Block, unit: Unit) -> int:
    """Return in how many groups a person can come or go: one for each row that counts; who replaces whom, for both."""
    moved = unit.rows if unit.neighbours is Neighbours.ADD_REMOVE else 2 * unit.rows
    return min(moved, block.values)
