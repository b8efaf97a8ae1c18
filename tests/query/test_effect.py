"""Sensitivities of queries against a walk through all pairs of neighbouring tables."""

import itertools
import math
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dodona.domain.attribute import Boolean, Integer, cells
from dodona.domain.domain import Domain
from dodona.domain.neighbours import Neighbours
from dodona.query.effect import sensitivity_of
from dodona.query.predicate import EVERYTHING, NOTHING, among, both, either, masked
from dodona.query.query import Block, Query, value_of
from dodona.query.sensitivity import Sensitivity
from dodona.query.weight import Constant, Value
from tests.query.drawing import DOMAIN, LARGE, Row, blocks, contribution, queries

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
Answers = Counter[tuple[int, tuple[int, ...]]]


def rows_of(domain: Domain, names: frozenset[str]) -> list[Row]:
    """Every row that there can be, as far as these attributes go."""
    own = sorted(names)
    return [dict(zip(own, codes, strict=True)) for codes in itertools.product(*(range(cells(domain[n])) for n in own))]


def answers(query: Query, row: Row) -> Answers:
    """What all blocks answer about a table of one row."""
    found: Answers = Counter()
    for number, block in enumerate(query.blocks):
        group, weight = contribution(block, row)
        found[number, group] = weight
    return found


def walked(query: Query, relation: Neighbours) -> tuple[int, int, int, bool]:
    """The largest norms over all pairs of neighbouring tables with one row at most that differs."""
    tables = [answers(query, row) for row in rows_of(query.domain, frozenset().union(*(b.attributes for b in query.blocks)))]
    pairs = ((one, Counter()) for one in tables) if relation is ADD else itertools.combinations(tables, 2)
    l1 = squares = linf = 0
    one_way = True
    for one, other in pairs:
        steps = [one[place] - other[place] for place in one.keys() | other.keys()]
        l1 = max(l1, sum(map(abs, steps)))
        squares = max(squares, sum(step * step for step in steps))
        linf = max(linf, *map(abs, steps))
        one_way &= min(steps) >= 0 or max(steps) <= 0
    return max(l1, 1), max(squares, 1), max(linf, 1), one_way


@pytest.mark.parametrize("relation", Neighbours)
@settings(max_examples=300, deadline=None)
@given(query=queries())
def test_the_norms_are_those_of_a_walk_through_all_neighbours(query: Query, relation: Neighbours) -> None:
    found = sensitivity_of(query, relation)
    l1, squares, linf, one_way = walked(query, relation)
    assert (found.l1, found.l2_squared, found.linf) == (l1, squares, linf)
    assert found.monotone <= (one_way and relation is ADD)
