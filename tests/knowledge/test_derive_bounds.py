"""Public facts bound what was not told: no table is outside, and the bounds are as near as they can be."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from dodona.errors import InvalidArgument
from dodona.knowledge.bounds import KnownRange, bound_answers, ranges_within_noise
from dodona.knowledge.cells import Contradiction, TooManyCells
from dodona.knowledge.patterns import BlockMeasurement
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.query.predicate import EVERYTHING, among, conjunction, disjunction
from dodona.query.query import Block, Query, block_weights, column_weight, group_numbers, product_axes, product_shape
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.house.shares import examples

FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
DOMAIN = Domain((Category("sex", ["f"]), Integer("age", 0, 1)))
SEX, AGE = DOMAIN["sex"], DOMAIN["age"]
SHAPE, AXES = product_shape(DOMAIN, DOMAIN.names), product_axes(DOMAIN, DOMAIN.names)

sets = st.tuples(st.sets(st.integers(0, 2)), st.sets(st.integers(0, 3))).map(
    lambda pair: (among(SEX, pair[0]), among(AGE, pair[1]))
)
wheres = sets.flatmap(lambda pair: st.sampled_from([conjunction(*pair), disjunction(*pair), *pair]))
keys = st.sampled_from([(), (), (Partition.of(SEX),), (Partition.of(AGE),)])
blocks = st.builds(Block, wheres, keys)
tables = st.lists(st.integers(0, 20), min_size=12, max_size=12).map(np.array)


def lines(block):
    cell_weights = np.broadcast_to(block_weights(block, AXES), SHAPE).reshape(-1)
    groups = np.broadcast_to(group_numbers(block.keys, AXES), SHAPE).reshape(-1)
    table = np.zeros((block.values, len(cell_weights)), dtype=np.int64)
    table[groups, np.arange(len(cell_weights))] = cell_weights
    return table


def exactly(block, table):
    values = tuple(Fraction(int(value)) for value in lines(block) @ table)
    return KnownRange(block, values, values)


@settings(deadline=None, max_examples=examples(40), phases=FOUND)
@given(tables, st.lists(blocks, max_size=4), blocks, st.booleans())
def test_no_table_is_outside_and_the_bounds_are_those_of_linear_programming(table, known, asked, counted):
    ranges = [exactly(block, table) for block in known]
    intervals = bound_answers(Query(DOMAIN, (asked,)), ranges, total=int(table.sum()) if counted else None)
    facts = np.concatenate(
        [*(lines(block) for block in known), *([np.ones((1, 12))] if counted else [np.zeros((1, 12))])]
    )
    for wanted, interval in zip(lines(asked), intervals, strict=True):
        truth = int(wanted @ table)
        assert interval.low is not None
        assert interval.low <= truth
        least = linprog(wanted, A_eq=facts, b_eq=facts @ table).fun
        assert float(interval.low) == pytest.approx(least, abs=1e-6)
        most = linprog(-wanted, A_eq=facts, b_eq=facts @ table)
        if interval.high is None:
            assert most.status == 3  # nothing bounds it
        else:
            assert truth <= interval.high
            assert float(interval.high) == pytest.approx(-most.fun, abs=1e-6)


@pytest.mark.parametrize(("first", "second", "low", "high"), [(40, 70, 70, 100), (20, 30, 30, 50), (0, 0, 0, 0)])
def test_one_or_the_other_is_between_the_larger_and_the_sum(first, second, low, high):
    female, young = among(SEX, [0]), among(AGE, [0])
    ranges = [
        KnownRange(Block(predicate), (Fraction(n),), (Fraction(n),))
        for predicate, n in ((female, first), (young, second))
    ]
    (interval,) = bound_answers(Query.count(DOMAIN, disjunction(female, young)), ranges, total=100)
    assert (interval.low, interval.high) == (low, high)


def test_counts_are_not_negative_and_nothing_else_is_known_without_facts():
    (interval,) = bound_answers(Query.count(DOMAIN, among(SEX, [0])), [])
    assert (interval.low, interval.high) == (0, None)
    (interval,) = bound_answers(Query.count(DOMAIN, among(SEX, [0])), [], total=12)
    assert (interval.low, interval.high) == (0, 12)
    (interval,) = bound_answers(Query.sum(DOMAIN, "age"), [], total=12)
    assert (interval.low, interval.high) == (0, 12)


def test_intervals_are_carried_over():
    female, young = among(SEX, [0]), among(AGE, [0])
    ranges = [
        KnownRange(Block(female), (Fraction(30),), (Fraction(45),)),
        KnownRange(Block(young), (Fraction(5),), (Fraction(9),)),
    ]
    (interval,) = bound_answers(Query.count(DOMAIN, disjunction(female, young)), ranges)
    assert (interval.low, interval.high) == (30, 54)
    (interval,) = bound_answers(Query.count(DOMAIN, conjunction(female, young)), ranges)
    assert (interval.low, interval.high) == (0, 9)


@settings(deadline=None, max_examples=20, phases=FOUND)
@given(tables, st.lists(blocks, min_size=1, max_size=4), blocks)
def test_rounding_never_cuts_a_table_off(table, known, asked):
    """Sevenths are no doubles, so every multiplier and every interval is rounded on the way."""
    third = [exactly(block, table) for block in known]
    ranges = [
        KnownRange(
            exact.block, tuple(v - Fraction(1, 7) for v in exact.low), tuple(v + Fraction(1, 7) for v in exact.high)
        )
        for exact in third
    ]
    for wanted, interval in zip(lines(asked), bound_answers(Query(DOMAIN, (asked,)), ranges), strict=True):
        assert interval.low is None or interval.low <= int(wanted @ table)
        assert interval.high is None or int(wanted @ table) <= interval.high


def test_released_numbers_are_within_their_noise_as_often_as_is_said():
    """Two blocks share the failures by their numbers of answers."""
    releases = [
        BlockMeasurement(Query.histogram(DOMAIN, "age").blocks[0], (5, 6, 7, 8), Laplace(scale=2)),
        BlockMeasurement(Block(), (26,), Gaussian(scale=3)),
    ]
    ages, everyone = ranges_within_noise(releases, confidence=0.95)
    room = int(Laplace(scale=2).accuracy(0.96, answers=4).within)
    assert ages.low == tuple(Fraction(value - room) for value in (5, 6, 7, 8))
    wide = int(Gaussian(scale=3).accuracy(0.99).within)
    assert (everyone.low, everyone.high) == ((26 - wide,), (26 + wide,))
    (interval,) = bound_answers(Query.count(DOMAIN, among(AGE, [0, 1])), [ages, everyone])
    assert (interval.low, interval.high) == (0, min(11 + 2 * room, 26 + wide))


def test_facts_that_no_table_has_are_refused():
    female = among(SEX, [0])
    ranges = [KnownRange(Block(female), (Fraction(50),), (Fraction(60),))]
    with pytest.raises(Contradiction, match="No table has all of these"):
        bound_answers(Query.count(DOMAIN, female), ranges, total=40)


def test_empty_and_missing_intervals_are_refused():
    with pytest.raises(InvalidArgument, match="no more than the upper end"):
        KnownRange(Block(), (Fraction(2),), (Fraction(1),))
    with pytest.raises(InvalidArgument, match="one interval for each of 4"):
        KnownRange(Query.histogram(DOMAIN, "age").blocks[0], (Fraction(2),), (Fraction(3),))
    with pytest.raises(InvalidArgument, match="between 0 and 1"):
        ranges_within_noise([], confidence=1.0)


def test_too_many_cells_are_refused_with_their_number():
    wide = Domain(tuple(Boolean(f"b{place:02}") for place in range(16)))
    everywhere = disjunction(*(among(attribute, [1]) for attribute in wide))
    with pytest.raises(TooManyCells, match=r"2\^16"):
        bound_answers(Query.count(wide, everywhere), [])


def test_a_block_of_another_domain_is_refused():
    other = KnownRange(Block(EVERYTHING, (), column_weight(Integer("height", 0, 9))[0]), (Fraction(0),), (Fraction(1),))
    with pytest.raises(InvalidArgument):
        bound_answers(Query.count(DOMAIN), [other])
