"""How far one person moves answers, against a walk through all people of up to two rows."""

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.privacy.additive_noise import Laplace
from dodona.privacy.measurement import Measurement, squared_move_added, worst_ratio
from dodona.query.canonical import query_digest, to_json
from dodona.query.predicate import among
from dodona.query.query import Block, CaseWeight, ConstantWeight, PeopleWeight, Query
from dodona.query.residual import Classes, Residual
from dodona.query.sensitivity import row_count_sensitivity, row_sensitivity, score_sensitivity, unit_sensitivity
from dodona.query.spelling import from_json
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain, Neighbours, Unit
from tests.house.shares import examples
from tests.query.drawing import Row, blocks, contribution, group_in, is_meant, predicates

BOTH = pytest.mark.parametrize("relation", list(Neighbours))
SMALL = Domain((Boolean("urgent"), Integer("age", 0, 1, otherwise=0)))
ROWS = [
    dict(zip(SMALL.names, codes, strict=True))
    for codes in itertools.product(*(range(attribute.cells) for attribute in SMALL))
]
MOST = 2
Answers = Counter[tuple[int, tuple[int, ...]]]


def unit(relation: Neighbours, rows: int = MOST) -> Unit:
    return Unit(neighbours=relation, size=100, id="who", rows=rows)


def counting() -> st.SearchStrategy[Block]:
    """Blocks that count people."""
    keys = st.sampled_from([(), (Partition.of(SMALL["urgent"]),), tuple(map(Partition.of, SMALL))])
    return st.builds(Block, predicates(SMALL), keys, st.just(PeopleWeight()))


def queries() -> st.SearchStrategy[Query]:
    block_lists = st.lists(blocks(SMALL) | counting(), min_size=1, max_size=3)
    return block_lists.map(lambda own: Query(SMALL, tuple(own)))


def answers(query: Query, rows: tuple[Row, ...]) -> Answers:
    """What one person's rows add to every answer."""
    totals: Answers = Counter()
    for number, block in enumerate(query.blocks):
        if isinstance(block.weight, PeopleWeight):
            for group in {
                tuple(group_in(key, row) for key in block.keys) for row in rows if is_meant(block.where, row)
            }:
                totals[number, group] = 1
        else:
            for group, weight in (contribution(block, row) for row in rows):
                totals[number, group] += weight
    return totals


def moves(query: Query, relation: Neighbours, most: int = MOST):
    """The steps between the answers of any two neighbours, as far as one person decides them."""
    people = [rows for number in range(most + 1) for rows in itertools.combinations_with_replacement(ROWS, number)]
    tables = [answers(query, rows) for rows in people]
    pairs = (
        ((table, Answers()) for table in tables)
        if relation is Neighbours.ADD_REMOVE
        else itertools.combinations(tables, 2)
    )
    for table, other in pairs:
        yield [table[place] - other[place] for place in table.keys() | other.keys()] or [0]


@BOTH
@given(query=queries())
@settings(max_examples=examples(60), deadline=None)
def test_no_person_moves_answers_farther_than_priced(relation: Neighbours, query: Query):
    priced = unit_sensitivity(query, unit(relation))
    for steps in moves(query, relation):
        assert sum(map(abs, steps)) <= priced.l1
        assert sum(step * step for step in steps) <= priced.l2_squared
        assert max(map(abs, steps)) <= priced.linf
        if priced.monotone:
            assert min(steps) >= 0 or max(steps) <= 0


@BOTH
@pytest.mark.parametrize(
    "query",
    [
        Query.count(SMALL),
        Query.count(SMALL, among(SMALL["urgent"], [1])),
        Query.marginal(SMALL, ["urgent", "age"]),
        Query(SMALL, (Block(weight=ConstantWeight(-7)), Block(among(SMALL["age"], [1]), (), ConstantWeight(3)))),
    ],
    ids=["rows", "some rows", "groups", "weights"],
)
def test_the_price_is_reached_by_equal_rows(relation: Neighbours, query: Query):
    norms = [
        (sum(map(abs, steps)), sum(step * step for step in steps), max(map(abs, steps)))
        for steps in moves(query, relation)
    ]
    priced = unit_sensitivity(query, unit(relation))
    assert tuple(map(max, zip(*norms, strict=True))) == (priced.l1, priced.l2_squared, priced.linf)


@BOTH
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_people_are_counted_once_in_each_group(relation: Neighbours, rows: int):
    added_or_both = 1 if relation is Neighbours.ADD_REMOVE else 2
    alone = unit_sensitivity(Query.people(SMALL), unit(relation, rows))
    assert (alone.l1, alone.l2_squared, alone.linf) == (1, 1, 1)
    groups = Query.people(SMALL, ["urgent", "age"])
    keyed = unit_sensitivity(groups, unit(relation, rows))
    assert (keyed.l1, keyed.l2_squared, keyed.linf) == (min(added_or_both * rows, groups.values),) * 2 + (1,)
    assert keyed.monotone == (relation is Neighbours.ADD_REMOVE)


@BOTH
def test_one_row_each_under_add_remove_costs_what_a_row_costs(relation: Neighbours):
    query = Query.marginal(SMALL, ["urgent", "age"])
    assert unit_sensitivity(query, unit(relation, 1)) == row_sensitivity(query, relation)
    assert unit_sensitivity(query, Unit.each_row(relation)) == row_sensitivity(query, relation)


def test_where_people_are_replaced_the_number_of_rows_is_not_the_same():
    everyone = Query(SMALL, (Block(), Block(among(SMALL["urgent"], [0, 1, 2, 3]))))
    assert unit_sensitivity(everyone, unit(Neighbours.REPLACE)).l1 == 4
    assert not unit(Neighbours.REPLACE).fixed
    assert Unit.each_row(Neighbours.REPLACE).fixed


@BOTH
def test_residuals_of_people_cost_the_worse_of_an_added_and_a_replaced_row(relation: Neighbours):
    ways = tuple(Classes.of(SMALL[name]) for name in ("urgent", "age"))
    every = [Residual(inner) for size in range(3) for inner in itertools.combinations(ways, size)]
    cheap = [(every[0], Fraction(1, 10)), *((residual, Fraction(9)) for residual in every[1:])]
    for parts in (cheap, [(residual, Fraction(3)) for residual in every]):
        grown = sum(squared_move_added(residual) / variance for residual, variance in parts)
        replaced = worst_ratio(parts, Unit.each_row(Neighbours.REPLACE))
        worse = grown if relation is Neighbours.ADD_REMOVE else max(grown, replaced)
        assert worst_ratio(parts, unit(relation, 3)) == 9 * worse
    assert worst_ratio(cheap, unit(Neighbours.REPLACE, 1)) > worst_ratio(cheap, Unit.each_row(Neighbours.REPLACE))


@BOTH
def test_one_count_and_a_distance_move_by_all_rows_of_a_person(relation: Neighbours):
    assert (row_count_sensitivity(unit(relation, 4)).l1, row_count_sensitivity(unit(relation, 4)).l2_squared) == (4, 16)
    assert score_sensitivity(unit(relation, 4)).linf == 4
    assert row_count_sensitivity(Unit.each_row(relation)).l1 == 1


def test_prices_are_of_a_unit_and_not_of_a_relation():
    with pytest.raises(InvalidArgument, match="Unit"):
        unit_sensitivity(Query.count(SMALL), Neighbours.REPLACE)
    with pytest.raises(InvalidArgument, match="Unit"):
        Measurement(Query.count(SMALL), (Laplace(scale=1),)).event(Neighbours.REPLACE)


def test_people_cannot_be_counted_where_rows_are_protected():
    with pytest.raises(InvalidArgument, match="does not tell people apart"):
        unit_sensitivity(Query.people(SMALL), Unit.each_row(Neighbours.REPLACE))


def test_people_are_not_mixed_with_rows_in_one_weight():
    with pytest.raises(InvalidArgument, match="condition of their own"):
        Query(SMALL, (Block(weight=CaseWeight(((among(SMALL["age"], [1]), PeopleWeight()),), ConstantWeight(0))),))


def test_a_count_of_people_has_a_spelling_and_a_digest_of_its_own():
    people, rows = Query.people(SMALL, "urgent"), Query.histogram(SMALL, "urgent")
    assert from_json(to_json(people), SMALL) == people
    assert query_digest(people) != query_digest(rows)
    predicate, other = among(SMALL["urgent"], [1, 2]), among(SMALL["urgent"], [2, 1])
    assert query_digest(Query.people(SMALL, (), predicate)) == query_digest(Query.people(SMALL, (), other))
