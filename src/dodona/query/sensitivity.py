"""Sensitivity: how far one privacy unit can move the answers of a query, under a neighbour relation.

`row_sensitivity` covers one row, `unit_sensitivity` the unit that the schema protects: a row, or a person with several
rows. Both depend on the query and the domain alone, never on the data.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Self

from dodona.errors import InvalidArgument
from dodona.numbers import to_integer
from dodona.query.canonical import RecentCache
from dodona.query.movement import Movement, Stack, added_row_movement, replaced_row_movement
from dodona.query.predicate import allowed_codes, as_box, predicate_attributes
from dodona.query.query import ONE, Block, PeopleWeight, Query
from dodona.schema.partition import Partition
from dodona.schema.schema import ROW_OF, Domain, Neighbours, Unit

if TYPE_CHECKING:
    from dodona.query.person_table import PersonTable

# --- The sensitivity of integer answers to one row. ---


_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Exact distances, in grid steps, between answers on neighbouring tables, and the neighbour relation.

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
    """Whether no row can raise one coordinate and lower another: true for counts, under add/remove only."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        for name, largest in (("l1", _LARGEST), ("l2_squared", _LARGEST**2), ("linf", _LARGEST)):
            object.__setattr__(self, name, to_integer(getattr(self, name), argument=name, lower=1, upper=largest))
        relation: object = self.neighbours  # the caller may pass anything
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
        """Return the sensitivity of several counts, each of which any row may change."""
        monotone = neighbours is Neighbours.ADD_REMOVE
        moved = to_integer(answers, argument="answers", lower=1, upper=_LARGEST)
        return cls(l1=moved, l2_squared=moved, linf=1, neighbours=neighbours, monotone=monotone)

    @classmethod
    def histogram(cls, neighbours: Neighbours) -> Self:
        """Return the sensitivity of counts such that each row falls into exactly one.

        >>> Sensitivity.histogram(Neighbours.REPLACE).l1
        2
        """
        moved = 1 if neighbours is Neighbours.ADD_REMOVE else 2
        return cls(l1=moved, l2_squared=moved, linf=1, neighbours=neighbours, monotone=moved == 1)

    @classmethod
    def scores(cls, largest_change: int, neighbours: Neighbours, *, monotone: bool = False) -> Self:
        """Return the sensitivity of the scores of any number of candidates: only the largest change matters.

        Selection does not use the sum over all candidates; it is set to the largest allowed value.
        """
        moved = to_integer(largest_change, argument="largest_change", lower=1, upper=_LARGEST)
        return cls(l1=_LARGEST, l2_squared=_LARGEST**2, linf=moved, neighbours=neighbours, monotone=monotone)


# --- Row sensitivity: how far one row can move the answers, from the query and the domain alone. ---


MOST_CELLS = 1 << 16
"""Products of up to this many cells are enumerated; larger ones are bounded."""
_cached_count = cache(Sensitivity.count)
_cached_histogram = cache(Sensitivity.histogram)
_SENSITIVITY_CACHE = RecentCache[Sensitivity]()


def row_sensitivity(query: Query, neighbours: Neighbours, *, limit: int = MOST_CELLS) -> Sensitivity:
    """Return how far one row can move the answers: exact if few enough cells differ, otherwise an upper bound.

    A query that no row can move gets the smallest allowed sensitivity, 1.

    >>> from dodona.schema.attributes import Integer
    >>> from dodona.schema.schema import Domain
    >>> row_sensitivity(Query.sum(Domain((Integer("age", 0, 110),)), "age"), Neighbours.ADD_REMOVE).l1
    110

    Theorem: sensitivity
    """
    if not isinstance(neighbours, Neighbours):  # a string equal to one member would be priced as the other relation
        raise InvalidArgument("neighbours", neighbours, "write Neighbours.ADD_REMOVE or Neighbours.REPLACE")
    if any(block.table is not None for block in query.blocks):
        raise InvalidArgument("query", "a table of people", "a row says nothing of it; ask for the unit's sensitivity")
    if len(query.blocks) == 1:
        known = _known_sensitivity(query.blocks[0], neighbours)
        return _block_sensitivity(query.domain, query.blocks[0], neighbours, limit) if known is None else known
    return _SENSITIVITY_CACHE.of(query, (neighbours, limit), lambda: _compute_sensitivity(query, neighbours, limit))


@lru_cache(maxsize=1 << 9)
def _block_sensitivity(domain: Domain, block: Block, neighbours: Neighbours, limit: int) -> Sensitivity:
    """Compute the sensitivity of a block: plans try each block of a large question in several queries."""
    return _compute_sensitivity(Query(domain, (block,)), neighbours, limit)


def _compute_sensitivity(query: Query, neighbours: Neighbours, limit: int) -> Sensitivity:
    """Compute the sensitivity from the cells."""
    bare = Stack.of(replace(block, keys=()) if block.keys else block for block in query.blocks)
    # keys can be dropped: a row falls into exactly one group of each block
    movement = added_row_movement(query.domain, bare, limit=limit)
    rising = all(low >= 0 for low, _ in bare.spans())
    if neighbours is Neighbours.REPLACE:
        # Replacing a row removes one and adds another, so no norm is more than twice that of a single row. If no weight
        # is negative, the two changes cannot add up in one coordinate.
        times = 1 if rising else 2
        twice = Movement(2 * movement.l1, 2 * times * movement.squares, times * movement.linf)
        keyed = any(block.keys for block in query.blocks)
        stack = Stack.of(query.blocks) if keyed else bare
        movement = replaced_row_movement(query.domain, stack, limit=limit).within(twice)
    return _sensitivity_from_movement(movement, neighbours, monotone=rising and neighbours is Neighbours.ADD_REMOVE)


def _known_sensitivity(block: Block, neighbours: Neighbours) -> Sensitivity | None:
    """Return the sensitivity of a count or a histogram that needs no enumeration of cells."""
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
    """Convert a movement to consistent norms: bounds computed separately tighten one another."""
    l1, squares = max(movement.l1, 1), max(movement.squares, 1)
    linf = min(max(movement.linf, 1), l1, math.isqrt(squares))
    l1 = min(l1, squares)
    squares = min(squares, l1 * linf)
    return Sensitivity(l1=l1, l2_squared=squares, linf=linf, neighbours=neighbours, monotone=monotone)


# --- Person sensitivity: how far one person can move the answers with all their counted rows. ---


def unit_sensitivity(query: Query, unit: Unit) -> Sensitivity:
    """Return how far one privacy unit, a row or a person with up to `rows` rows, can move the answers.

    A person counts once in a group, however many rows they have. If people are replaced, each slot for a row may hold a
    row before, after, or both: the worse of an added and a replaced row is taken.

    >>> from dodona.schema.attributes import Integer
    >>> from dodona.schema.schema import Domain
    >>> ages = Query.sum(Domain((Integer("age", 0, 110),)), "age")
    >>> unit_sensitivity(ages, Unit(neighbours="add-remove", size=100, id="patient", rows=4)).l1
    440

    Theorem: people, person-table
    """
    if not isinstance(unit, Unit):  # a relation alone does not say how many rows a person has
        raise InvalidArgument("unit", unit, "write a Unit: who is protected, under which relation")
    if unit.id is None:
        if any(block.about_people for block in query.blocks):
            raise InvalidArgument("query", "a question about people", "this dataset does not tell people apart")
        return row_sensitivity(query, unit.neighbours)
    if not unit.caps and not any(block.about_people for block in query.blocks):
        return _person_rows_sensitivity(query, unit)
    return _join_sensitivities(list(_parts_by_table(query, unit)))


def _parts_by_table(query: Query, unit: Unit) -> Iterator[Sensitivity]:
    """Yield how far one person moves the sums over rows, the numbers of people, and each table of people.

    In a table of people a person is one row at most.
    """
    alike: dict[tuple[PersonTable | None, int], list[Block]] = {}
    counted = 0
    for block in query.blocks:
        rows = 1 if block.table is not None else _rows_per_person(block, query.domain, unit)
        if isinstance(block.weight, PeopleWeight):
            counted += _groups_per_person(block, unit, rows)
        else:
            alike.setdefault((block.table, rows), []).append(replace(block, table=None))
    for (table, rows), blocks in alike.items():
        part = Query(query.domain if table is None else table.domain, tuple(blocks))
        yield _person_rows_sensitivity(part, unit, rows=rows)
    if counted:
        adding = unit.neighbours is Neighbours.ADD_REMOVE
        yield Sensitivity(l1=counted, l2_squared=counted, linf=1, neighbours=unit.neighbours, monotone=adding)


def _join_sensitivities(parts: list[Sensitivity]) -> Sensitivity:
    """Return how far answers move that consist of parts: no coordinate is in two of them."""
    return Sensitivity(
        l1=sum(part.l1 for part in parts),
        l2_squared=sum(part.l2_squared for part in parts),
        linf=max(part.linf for part in parts),
        neighbours=parts[0].neighbours,
        monotone=all(part.monotone for part in parts),
    )


def row_count_sensitivity(unit: Unit) -> Sensitivity:
    """Return how far one privacy unit can move a count of rows."""
    sensitivity = Sensitivity.count(unit.neighbours)
    return sensitivity if unit.id is None else _scale_sensitivity(sensitivity, unit.rows)


def score_sensitivity(unit: Unit) -> Sensitivity:
    """Return how far one privacy unit can move a distance from a row count, which may rise or fall."""
    return Sensitivity.scores(unit.rows, unit.neighbours)


def _person_rows_sensitivity(query: Query, unit: Unit, *, rows: int | None = None) -> Sensitivity:
    """Return how far up to `rows` rows of one person move sums over rows; by default as many as count."""
    sensitivity = row_sensitivity(query, unit.neighbours)
    if unit.neighbours is Neighbours.REPLACE:
        added = row_sensitivity(query, Neighbours.ADD_REMOVE)
        norms = {name: max(getattr(sensitivity, name), getattr(added, name)) for name in ("l1", "l2_squared", "linf")}
        sensitivity = replace(sensitivity, **norms)
    return _scale_sensitivity(sensitivity, unit.rows if rows is None else rows)


def _scale_sensitivity(sensitivity: Sensitivity, rows: int) -> Sensitivity:
    """Return how far `rows` rows move the answers together, bounding each norm by the triangle inequality."""
    return replace(
        sensitivity, l1=rows * sensitivity.l1, l2_squared=rows**2 * sensitivity.l2_squared, linf=rows * sensitivity.linf
    )


def _groups_per_person(block: Block, unit: Unit, rows: int) -> int:
    """Return how many groups one person can enter or leave: one per counted row, both people's under replacement."""
    moved = rows if unit.neighbours is Neighbours.ADD_REMOVE else 2 * rows
    return min(moved, block.values)


def _rows_per_person(block: Block, domain: Domain, unit: Unit) -> int:
    """Return how many rows of one person a block may select: those of the tables that its condition allows.

    Theorem: linked-tables
    """
    if not unit.caps or ROW_OF not in domain:
        return unit.rows
    labels = getattr(domain[ROW_OF], "labels", ())
    codes = allowed_codes(block.where, domain[ROW_OF])
    tables = {label.partition("+")[0] for code, label in enumerate(labels) if codes >> code & 1}
    return max(1, sum(most for name, most in unit.caps if name in tables))
