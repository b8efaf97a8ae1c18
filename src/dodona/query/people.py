"""People: how far one of them can move the answers of a query, with all the rows of theirs that count."""

from __future__ import annotations

from dodona.domain.neighbours import Neighbours
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.query.effect import sensitivity_of
from dodona.query.query import Block, Query
from dodona.query.sensitivity import Sensitivity
from dodona.query.weight import People


def effect_of(query: Query, unit: Unit) -> Sensitivity:
    """Return how far what the unit protects can move the answers: a row, or a person with up to `rows` rows.

    A person counts once in a group, however many rows there are. Where people are replaced, each of the places for
    their rows may hold a row before, after, or both: the worse of an added and a replaced row is taken.

    >>> from dodona.domain.attribute import Integer
    >>> from dodona.domain.domain import Domain
    >>> ages = Query.sum(Domain((Integer("age", 0, 110),)), "age")
    >>> effect_of(ages, Unit(neighbours="add-remove", size=100, id="patient", rows=4)).l1
    440

    Theorem: people
    """
    if not isinstance(unit, Unit):  # a relation alone does not say how many rows a person has
        raise InvalidArgument("unit", unit, "write a Unit: who is protected, under which relation")
    persons = [block for block in query.blocks if isinstance(block.weight, People)]
    if unit.id is None:
        if persons:
            raise InvalidArgument("query", "count(DISTINCT ...)", "count rows: this dataset does not tell people apart")
        return sensitivity_of(query, unit.neighbours)
    rows = tuple(block for block in query.blocks if not isinstance(block.weight, People))
    moved = _rows(Query(query.domain, rows), unit) if rows else None
    if not persons:
        if moved is None:
            raise InvalidArgument("query", query, "ask for something")
        return moved
    counted = sum(_groups(block, unit) for block in persons)
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


def count_effect(unit: Unit) -> Sensitivity:
    """Return how far what the unit protects can move one count of rows."""
    one = Sensitivity.count(unit.neighbours)
    return one if unit.id is None else _times(one, unit.rows)


def score_effect(unit: Unit) -> Sensitivity:
    """Return how far it can move a distance from a count of rows, which goes both ways."""
    return Sensitivity.scores(unit.rows, unit.neighbours)


def _rows(query: Query, unit: Unit) -> Sensitivity:
    """Return how far up to `rows` rows of one person move sums over rows."""
    one = sensitivity_of(query, unit.neighbours)
    if unit.neighbours is Neighbours.REPLACE:
        one = _worse(one, sensitivity_of(query, Neighbours.ADD_REMOVE))
    return _times(one, unit.rows)


def _worse(replaced: Sensitivity, added: Sensitivity) -> Sensitivity:
    return Sensitivity(
        l1=max(replaced.l1, added.l1),
        l2_squared=max(replaced.l2_squared, added.l2_squared),
        linf=max(replaced.linf, added.linf),
        neighbours=replaced.neighbours,
    )


def _times(one: Sensitivity, rows: int) -> Sensitivity:
    """Return how far so many rows move together: each norm by the triangle inequality."""
    return Sensitivity(
        l1=rows * one.l1,
        l2_squared=rows**2 * one.l2_squared,
        linf=rows * one.linf,
        neighbours=one.neighbours,
        monotone=one.monotone,
    )


def _groups(block: Block, unit: Unit) -> int:
    """Return in how many groups a person can come or go: one for each row that counts; who replaces whom, for both."""
    moved = unit.rows if unit.neighbours is Neighbours.ADD_REMOVE else 2 * unit.rows
    return min(moved, block.values)
