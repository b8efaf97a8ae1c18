"""Sensitivities of queries against a walk through all pairs of neighbouring tables."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.query.predicate import EVERYTHING, NOTHING, And, among, among_mask, conjunction, disjunction
from dodona.query.query import Block, CaseKey, ConstantWeight, Query, ValueWeight, column_weight
from dodona.query.sensitivity import Sensitivity, row_sensitivity
from dodona.schema.attributes import Boolean, Integer, Number
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain, Neighbours
from tests.house.shares import examples
from tests.query.drawing import DOMAIN, MIXED, Row, blocks, contribution, queries

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
WIDE = Domain((Boolean("emergency"), Integer("age", -7, 280, bins=[-7, 23, 280])))
"""Large enough that not all cells are walked through, and small enough that all pairs can be."""
WIDE_AND_COMPLETE = Domain(
    (Boolean("emergency"), Integer("age", -7, 280, bins=[-7, 23, 280], otherwise=40), Boolean("late", otherwise=False))
)
STAYS = Domain(
    (Number("stay", Fraction(0), Fraction(365), Fraction(1, 4)), Integer("age", 0, 110), Boolean("emergency"))
)
SMALL = Domain(tuple(Boolean(f"answer_{number}") for number in range(10)))
Answers = Counter[tuple[int, tuple[int, ...]]]
Norms = tuple[int, int, int]


def rows_of(query: Query) -> list[Row]:
    """Every row that there can be, as far as the query looks at it."""
    names = sorted(frozenset().union(*(block.attributes for block in query.blocks)))
    codes = itertools.product(*(range(query.domain[name].cells) for name in names))
    return [dict(zip(names, row, strict=True)) for row in codes]


def walked(query: Query, relation: Neighbours) -> tuple[Norms, bool]:
    """The largest norms over all pairs of tables that differ in one row, and whether all answers went one way."""
    distinct: dict[frozenset[object], Answers] = {}  # rows with the same answers make the same pairs
    for row in rows_of(query):
        answers: Answers = Counter()
        for number, block in enumerate(query.blocks):
            group, weight = contribution(block, row)
            answers[number, group] = weight
        distinct[frozenset(answers.items())] = answers
    tables = list(distinct.values())
    pairs = ((table, Answers()) for table in tables) if relation is ADD else itertools.combinations(tables, 2)
    l1 = squares = linf = 1  # no sensitivity is below
    one_way = True
    for table, other in pairs:
        steps = [table[place] - other[place] for place in table.keys() | other.keys()]
        l1, squares = max(l1, sum(map(abs, steps))), max(squares, sum(step * step for step in steps))
        linf = max(linf, *map(abs, steps))
        one_way &= min(steps) >= 0 or max(steps) <= 0
    return (l1, squares, linf), one_way


def paired(query: Query, relation: Neighbours) -> Norms:
    """The same for more rows, with all pairs at once."""
    rows = rows_of(query)
    l1, squares, linf = np.zeros((3, len(rows), len(rows)), dtype=np.int64)
    for block in query.blocks:
        contributions = [contribution(block, row) for row in rows]
        numbers = {group: number for number, group in enumerate({group for group, _ in contributions})}
        group = np.array([numbers[group] for group, _ in contributions])
        weight = np.array([value for _, value in contributions])
        stays = group[:, None] == group[None, :]
        here, there = np.broadcast_arrays(weight[:, None], weight[None, :] if relation is REPLACE else 0)
        gone, came = (np.where(stays, here - there, here), np.where(stays, 0, there))
        l1 += np.abs(gone) + np.abs(came)
        squares += gone**2 + came**2
        np.maximum(linf, np.maximum(np.abs(gone), np.abs(came)), out=linf)
    return max(int(l1.max()), 1), max(int(squares.max()), 1), max(int(linf.max()), 1)


def norms(sensitivity: Sensitivity) -> Norms:
    return sensitivity.l1, sensitivity.l2_squared, sensitivity.linf


def conjunctions(domain: Domain, *, numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Block]:
    sets = st.sampled_from(domain.attributes).flatmap(
        lambda own: st.integers(1, (1 << own.cells) - 2).map(lambda codes: among_mask(own, codes))
    )
    return st.builds(
        lambda parts, number: Block(conjunction(*parts), (), ConstantWeight(number)),
        st.lists(sets, max_size=3),
        numbers,
    )


@pytest.mark.parametrize("relation", Neighbours)
@settings(max_examples=examples(120), deadline=None)
@given(query=queries() | queries(MIXED))
def test_the_norms_are_those_of_a_walk_through_all_neighbours(query: Query, relation: Neighbours) -> None:
    sensitivity = row_sensitivity(query, relation)
    expected, one_way = walked(query, relation)
    assert norms(sensitivity) == expected
    assert sensitivity.monotone <= (one_way and relation is ADD)
    assert sensitivity.neighbours is relation


@pytest.mark.parametrize("relation", Neighbours)
@settings(max_examples=examples(40), deadline=None)
@given(query=queries(WIDE) | queries(WIDE_AND_COMPLETE, most=2))
def test_a_few_codes_stand_for_all_of_them(query: Query, relation: Neighbours) -> None:
    computed = norms(row_sensitivity(query, relation))
    expected = paired(query, relation)
    if relation is ADD or len(query.blocks) == 1:
        assert computed == expected
    else:  # stacks of powers of so many values are bounded
        assert all(ours >= theirs for ours, theirs in zip(computed, expected, strict=True))


@pytest.mark.parametrize("relation", Neighbours)
@settings(max_examples=examples(50), deadline=None)
@given(
    query=st.sampled_from([DOMAIN, MIXED]).flatmap(
        lambda domain: st.lists(conjunctions(domain, numbers=st.integers(-3, 3)), min_size=2, max_size=12).map(
            lambda found: Query(domain, tuple(found))
        )
    )
)
def test_many_boxes_move_as_far_as_a_walk_says(query: Query, relation: Neighbours) -> None:
    assert norms(row_sensitivity(query, relation)) == walked(query, relation)[0]


@pytest.mark.parametrize("relation", Neighbours)
@settings(max_examples=examples(100), deadline=None)
@given(query=queries() | queries(MIXED), limit=st.integers(0, 30))
def test_the_bound_beyond_the_limit_is_never_below_the_exact_norms(
    query: Query, relation: Neighbours, limit: int
) -> None:
    bound, exact = row_sensitivity(query, relation, limit=limit), row_sensitivity(query, relation)
    assert all(ours >= theirs for ours, theirs in zip(norms(bound), norms(exact), strict=True))
    assert bound.monotone == exact.monotone


@pytest.mark.parametrize("relation", Neighbours)
@settings(max_examples=examples(50), deadline=None)
@given(
    found=st.lists(conjunctions(SMALL, numbers=st.just(1)), min_size=2, max_size=30),
)
def test_many_attributes_are_bounded_by_those_that_blocks_share(found: list[Block], relation: Neighbours) -> None:
    """Over 2^20 cells the sum over the sets of attributes is above the truth, and never above one for each count."""
    bound = row_sensitivity(Query(SMALL, tuple(found)), relation, limit=1 << 8)
    exact = row_sensitivity(Query(SMALL, tuple(found)), relation, limit=1 << 20)
    assert exact.l1 <= bound.l1 <= len(found)
    assert exact.l2_squared <= bound.l2_squared <= len(found)
    assert bound.linf == exact.linf == 1


@pytest.mark.parametrize("relation", Neighbours)
@settings(max_examples=examples(50), deadline=None)
@given(block=blocks())
def test_a_query_asked_twice_moves_twice_as_far(block: Block, relation: Neighbours) -> None:
    once = walked(Query(DOMAIN, (block,)), relation)[0]
    if once != (1, 1, 1):  # a query that nobody moves still has sensitivity 1
        twice = norms(row_sensitivity(Query(DOMAIN, (block, block)), relation))
        assert twice == (2 * once[0], 2 * once[1], once[2])


def test_a_sum_moves_by_its_largest_value_and_by_the_whole_width_when_a_row_is_replaced() -> None:
    weight, _ = column_weight(STAYS["stay"], centre=Fraction(365, 2))
    query = Query(STAYS, (Block(weight=weight),))
    assert row_sensitivity(query, ADD).l1 == 730  # half the width of 365 days, in steps of a quarter
    assert norms(row_sensitivity(query, REPLACE)) == (1460, 1460**2, 1460)


@pytest.mark.parametrize("keys", [(), (Partition.of(Boolean("flag")),)], ids=["alone", "grouped"])
def test_beyond_the_limit_a_replaced_row_moves_a_sum_by_the_whole_width(keys: tuple[Partition, ...]) -> None:
    """From -5 to 7 is 12 steps, more than the largest value; one cell as the limit leaves the weight alone to go by."""
    domain = Domain((Integer("level", -5, 7), Boolean("flag")))
    weight, unit = column_weight(domain["level"])
    query = Query(domain, (Block(EVERYTHING, keys, weight, unit),))
    bound, exact = row_sensitivity(query, Neighbours.REPLACE, limit=1), row_sensitivity(query, Neighbours.REPLACE)
    assert exact.linf == 12
    assert all(ours >= theirs for ours, theirs in zip(norms(bound), norms(exact), strict=True))


def test_a_condition_on_the_column_itself_makes_its_sum_move_less() -> None:
    short = among_mask(STAYS["stay"], (1 << 41) - 1)  # up to ten days
    query = Query.sum(STAYS, "stay", conjunction(short, among_mask(STAYS["age"], 1 << 65)))
    assert norms(row_sensitivity(query, ADD)) == (40, 1600, 40)


def test_an_average_and_its_rows_are_exact_under_replace() -> None:
    """The sum and the count over 1,463 values: from one end to the other, or from an end to a missing value."""
    weight, _ = column_weight(STAYS["stay"])
    present = among_mask(STAYS["stay"], (1 << 1461) - 1)
    query = Query(STAYS, (Block(present), Block(present, (), weight)))
    assert norms(row_sensitivity(query, REPLACE)) == (1461, 1460**2 + 1, 1460)


def test_the_largest_movement_of_a_value_and_its_square_may_lie_between_the_ends() -> None:
    """50·|x - y| + |x² - y²| is largest for y = 199 and x = -25, neither an end nor next to 0."""
    tall = Domain((Integer("age", -100, 1400),))
    low = among_mask(tall["age"], (1 << 300) - 1)
    size = tall["age"].size
    query = Query(
        tall,
        (Block(low, (), ValueWeight("age", size, -5000, 50)), Block(low, (), ValueWeight("age", size, -100, 1, 2))),
    )
    assert row_sensitivity(query, REPLACE).l1 == 50 * 224 + 199**2 - 25**2
    assert norms(row_sensitivity(query, REPLACE)) == paired(query, REPLACE)


def test_a_stack_of_histograms_moves_two_groups_of_each() -> None:
    by = [(Partition.of(DOMAIN[name]),) for name in ("emergency", "sex")]
    query = Query(DOMAIN, tuple(Block(keys=keys) for keys in by))
    assert norms(row_sensitivity(query, ADD)) == (2, 2, 1)
    assert norms(row_sensitivity(query, REPLACE)) == (4, 4, 1)


def test_a_histogram_with_one_group_is_not_moved_when_a_row_is_replaced() -> None:
    whole = Query(MIXED, (Block(keys=(Partition.every(MIXED["age"], 9),)),))
    assert whole.values == 1
    assert norms(row_sensitivity(whole, REPLACE)) == walked(whole, REPLACE)[0] == (1, 1, 1)
    assert norms(row_sensitivity(Query.histogram(MIXED, "emergency"), REPLACE)) == (2, 2, 1)


def test_an_average_of_a_complete_column_does_not_move_its_rows_under_replace() -> None:
    """The number of rows is the same, and the sum moves from one end to the other: 4 steps; with a cell more, 5."""
    weight, _ = column_weight(MIXED["age"], centre=Fraction(3))
    query = Query(MIXED, (Block(), Block(weight=weight)))
    assert norms(row_sensitivity(query, REPLACE)) == walked(query, REPLACE)[0] == (4, 16, 4)
    present = among_mask(DOMAIN["age"], 0b11111)
    other = Query(DOMAIN, (Block(present), Block(present, (), column_weight(DOMAIN["age"], centre=Fraction(3))[0])))
    assert norms(row_sensitivity(other, REPLACE)) == walked(other, REPLACE)[0] == (5, 17, 4)


def test_a_histogram_under_a_condition_on_its_own_key_may_move_one_group_only() -> None:
    by = (Partition.of(DOMAIN["emergency"]),)
    query = Query(DOMAIN, (Block(among(DOMAIN["emergency"], [1]), by),))
    two = Query(DOMAIN, (Block(among(DOMAIN["emergency"], [0, 1]), by),))
    assert norms(row_sensitivity(query, REPLACE)) == (1, 1, 1)
    assert norms(row_sensitivity(two, REPLACE)) == (2, 2, 1)


@pytest.mark.parametrize("relation", Neighbours)
def test_a_query_that_no_row_moves_has_the_least_sensitivity(relation: Neighbours) -> None:
    everyone = Query.count(DOMAIN, EVERYTHING)
    assert norms(row_sensitivity(Query.count(DOMAIN, NOTHING), relation)) == (1, 1, 1)
    assert norms(row_sensitivity(Query(DOMAIN, (Block(weight=ConstantWeight(0)),)), relation)) == (1, 1, 1)
    assert norms(row_sensitivity(everyone, relation)) == (1, 1, 1)
    assert norms(row_sensitivity(Query(DOMAIN, (Block(weight=ConstantWeight(-7)),)), REPLACE)) == (1, 1, 1)


@pytest.mark.parametrize(("relation", "times", "squared"), [(ADD, 1, 1), (REPLACE, 2, 2)])
def test_numbers_near_the_largest_are_exact(relation: Neighbours, times: int, squared: int) -> None:
    large = (1 << 60) - 1
    by = (Partition.of(DOMAIN["sex"]),)
    query = Query(DOMAIN, (Block(EVERYTHING, by, ConstantWeight(large)), Block(EVERYTHING, by, ConstantWeight(3))))
    assert norms(row_sensitivity(query, relation)) == (times * (large + 3), squared * (large**2 + 9), large)
    two = Query(DOMAIN, (Block(among(DOMAIN["sex"], [0]), (), ConstantWeight(large)), Block(weight=ConstantWeight(1))))
    assert row_sensitivity(two, relation).l2_squared == large**2 + (relation is ADD)


def test_a_row_may_not_count_for_more_than_can_be_priced() -> None:
    half = Block(weight=ConstantWeight(-(1 << 60)))
    assert row_sensitivity(Query(DOMAIN, (half, half)), ADD).l1 == 1 << 61
    with pytest.raises(InvalidArgument, match="2\\^61 steps"):
        Query(DOMAIN, (half, half, Block()))


def test_only_weights_that_never_fall_are_monotone() -> None:
    rising, falling = Query.count(DOMAIN), Query(DOMAIN, (Block(weight=ConstantWeight(-1)),))
    mixed = Query(DOMAIN, (Block(weight=ValueWeight("age", 5, -1, 1)), Block()))
    assert row_sensitivity(rising, ADD).monotone
    assert row_sensitivity(Query.sum(DOMAIN, "age"), ADD).monotone
    assert not row_sensitivity(falling, ADD).monotone
    assert not row_sensitivity(mixed, ADD).monotone
    assert not row_sensitivity(rising, REPLACE).monotone


def test_cases_with_empty_branches_are_not_taken_for_groups() -> None:
    empty = conjunction(among(DOMAIN["sex"], [0]), disjunction(among(DOMAIN["sex"], [1]), NOTHING))
    key = CaseKey((("never", empty), ("always", EVERYTHING)), "never either")
    assert norms(row_sensitivity(Query(DOMAIN, (Block(keys=(key,)),)), REPLACE)) == (1, 1, 1)


def test_a_conjunction_that_names_an_attribute_twice_is_read_as_it_stands() -> None:
    never = And((among(DOMAIN["sex"], [0]), among(DOMAIN["sex"], [1])))
    ten = Block(never, (), ConstantWeight(10))
    assert norms(row_sensitivity(Query(DOMAIN, (ten, ten)), ADD)) == (1, 1, 1)


@pytest.mark.parametrize("relation", ["replace", "add-remove", None])
def test_a_relation_in_other_words_is_refused(relation: object) -> None:
    with pytest.raises(InvalidArgument, match="neighbours = "):
        row_sensitivity(Query.count(DOMAIN), relation)  # type: ignore[arg-type]
