"""Sums come back from residuals: exact in the mean, and with the variance that the released rows have."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dodona.curator.demands import find_block_pattern
from dodona.knowledge.joint import joint_law
from dodona.knowledge.patterns import CountPattern, KnownValues
from dodona.knowledge.residuals import ResidualStore
from dodona.knowledge.sides import PRESENT, SUM, ClassWeight
from dodona.knowledge.summed import (
    SumPattern,
    combine_patterns,
    find_rows_pattern,
    find_sum_pattern,
    follow,
)
from dodona.privacy.measurement import ResidualMeasurement, residuals_from_text
from dodona.query.bases import Base
from dodona.query.canonical import to_json
from dodona.query.predicate import among, among_mask, conjunction
from dodona.query.query import (
    Block,
    CaseWeight,
    ConstantWeight,
    Query,
    ValueWeight,
    block_weights,
    group_numbers,
    product_axes,
    product_shape,
)
from dodona.query.residual import Classes, Residual
from dodona.query.spelling import from_json
from dodona.schema.attributes import Boolean, Category, Integer, Number
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

DOMAIN = Domain(
    (
        Boolean("urgent"),
        Integer("age", 18, 26),
        Category("ward", ["a", "b", "c"]),
        Number("stay", 0, 3, "0.5", otherwise=0),
    )
)
COUNTED = tuple(Classes.of(DOMAIN[name]) for name in ("urgent", "ward"))


def lattice(name):
    """All residuals of two counted columns, without and with one that is added up: numbers, squares, classes."""
    ways = Classes.summed(DOMAIN[name]), Classes.summed(DOMAIN[name], 2), Classes.of(DOMAIN[name])
    ways = (*ways, ways[-1].based(Base.RANGES)) if ways[-1].number >= 8 else ways
    inner = [chosen for size in range(3) for chosen in combinations(COUNTED, size)]
    return [Residual(classes) for classes in inner] + [Residual((*own, value)) for value in ways for own in inner]


def answers(query, table):
    axes, shape = product_axes(DOMAIN, DOMAIN.names), product_shape(DOMAIN, DOMAIN.names)
    answers = []
    for block in query.blocks:
        groups = np.broadcast_to(group_numbers(block.keys, axes) if block.keys else np.int64(0), shape)
        totals = np.zeros(block.values, dtype=np.int64)
        np.add.at(totals, groups.reshape(-1), (np.broadcast_to(block_weights(block, axes), shape) * table).reshape(-1))
        answers += totals.tolist()
    return answers


def measured_store(name, table, variance=Fraction(50)):
    measured = ResidualMeasurement(
        DOMAIN, tuple((residual, variance + place) for place, residual in enumerate(lattice(name)))
    )
    read = residuals_from_text(measured.mechanism, from_json(to_json(measured.query), DOMAIN))
    assert read.parts == measured.parts  # what a ledger holds is read as the same residuals
    rows, store, start = measured.turned(answers(measured.query, table)), ResidualStore(total=None), 0
    for residual, part_variance in read.parts:
        store.add(residual, rows[start : start + residual.number].tolist(), part_variance)
        start += residual.number
    return store


def sums(name, conditions=(), keys=(), numbers=(3, -2)):
    """The offset, the factor and perhaps the power of a column's numbers."""
    return Block(conjunction(*conditions), keys, ValueWeight(name, DOMAIN[name].size, *numbers))


def steep(name):
    """A weight for three values, and another for all others, also for those that are missing."""
    own = among(DOMAIN[name], [0, 2, 3])
    return CaseWeight(((own, ConstantWeight(-7)),), ConstantWeight(2))


def middle(name):
    return {"age": 4, "stay": 3}[name]


URGENT = among(DOMAIN["urgent"], [1])
WARDS = among(DOMAIN["ward"], [0, 2])
KEYS = (Partition.of(DOMAIN["ward"]), Partition.of(DOMAIN["urgent"]))


@pytest.mark.parametrize("name", ["age", "stay"])
@pytest.mark.parametrize(
    "block",
    [
        sums,
        lambda name: sums(name, (URGENT,)),
        lambda name: sums(name, (URGENT, WARDS), numbers=(0, 1)),
        lambda name: sums(name, keys=KEYS),
        lambda name: sums(name, (URGENT,), KEYS[:1]),
        lambda name: sums(name, (among(DOMAIN[name], range(DOMAIN[name].size)), WARDS)),
        lambda name: sums(name, (URGENT,), KEYS[:1], numbers=(-3 * middle(name), 3, 2)),
        lambda name: sums(name, (URGENT,), numbers=(-1, 1, 2)),
        lambda name: sums(name, (among(DOMAIN[name], range(2, 5)), URGENT), KEYS[:1], numbers=(-3, 2)),
        lambda name: sums(name, (among(DOMAIN[name], [1, 4]), WARDS), numbers=(3, -2, 3)),
        lambda name: Block(URGENT, KEYS[:1], steep(name)),
        lambda name: Block(conjunction(among(DOMAIN[name], [1, 2, 3]), WARDS), (), steep(name)),
        lambda name: Block(WARDS, (), CaseWeight(((among(DOMAIN[name], [1]), ConstantWeight(4)),), ConstantWeight(0))),
    ],
)
def test_sums_come_back_with_the_variance_of_their_rows(name, block):
    table = np.random.default_rng(5).integers(0, 90, product_shape(DOMAIN, DOMAIN.names))
    store = measured_store(name, table)
    own = block(name)
    pattern = find_sum_pattern(own, DOMAIN)
    found = follow(store, own, pattern, DOMAIN).known
    assert np.asarray(found.values) == pytest.approx(answers(Query(DOMAIN, (own,)), table), abs=1e-4)
    assert np.broadcast_to([law.variance for law in found.laws], own.values) == pytest.approx(
        variances_by_noise(name, own, pattern), rel=1e-6
    )


def variances_by_noise(name, block, pattern):
    """The variance of each group from the coefficient of each released row, found by moving one row at a time."""
    total = np.zeros(block.values)
    parts = [(residual, Fraction(50) + place) for place, residual in enumerate(lattice(name))]
    for residual, variance in parts:
        for place, row in enumerate(residual.rows()):
            store = ResidualStore(total=None)
            for other, spread in parts:
                values = np.zeros(other.number, dtype=np.int64)
                if other == residual:
                    values[place] = 1
                store.add(other, values, spread)
            moved = np.asarray(follow(store, block, pattern, DOMAIN).known.values)
            total += moved**2 * float(variance * row.square)
    return total


@pytest.mark.parametrize("name", ["age", "stay"])
def test_the_sum_and_the_rows_of_an_average_share_no_draw(name):
    """No released row moves both: their noise is independent, which the interval of an average rests on."""
    present = among(DOMAIN[name], range(DOMAIN[name].size))
    total = sums(name, (present, URGENT), numbers=(-middle(name), 1))
    rows = Block(conjunction(present, URGENT))
    pattern = find_sum_pattern(total, DOMAIN)
    patterns = pattern, find_rows_pattern(rows, DOMAIN, pattern)
    assert pattern.constant == 0
    parts = lattice(name)
    for residual in parts:
        for place in range(residual.number):
            store = ResidualStore(total=None)
            for other in parts:
                values = np.zeros(other.number, dtype=np.int64)
                if other == residual:
                    values[place] = 1
                store.add(other, values, 50.0)
            moved = [
                follow(store, block, pattern, DOMAIN).known.values[0]
                for block, pattern in zip((total, rows), patterns, strict=True)
            ]
            assert moved[0] * moved[1] == 0
    table = np.random.default_rng(6).integers(0, 90, product_shape(DOMAIN, DOMAIN.names))
    store = measured_store(name, table)
    for block, pattern in zip((total, rows), patterns, strict=True):
        found = follow(store, block, pattern, DOMAIN).known
        assert isinstance(found, KnownValues)
        assert found.values[0] == pytest.approx(answers(Query(DOMAIN, (block,)), table)[0], abs=1e-4)


def test_what_is_no_sum_of_a_column_by_others_has_no_pattern():
    assert find_sum_pattern(sums("age", keys=(Partition.every(DOMAIN["age"], 3),)), DOMAIN) is None
    assert find_sum_pattern(sums("age", (URGENT | among(DOMAIN["age"], [3]),)), DOMAIN) is None
    assert find_sum_pattern(Block(URGENT), DOMAIN) is None
    assert find_sum_pattern(Block(weight=CaseWeight(((URGENT, ConstantWeight(0)),), ConstantWeight(0))), DOMAIN) is None
    wide = Domain((Integer("wide", 0, 1 << 20),))
    part = among_mask(wide["wide"], 0b110)
    assert find_sum_pattern(Block(part, weight=ValueWeight("wide", wide["wide"].size, 0, 1)), wide) is None
    assert find_sum_pattern(Block(weight=ValueWeight("wide", wide["wide"].size, 0, 1)), wide) is not None
    assert Classes.summed(wide["wide"], 2) is None


def test_a_condition_on_the_column_itself_makes_weights_of_its_classes():
    found = find_sum_pattern(sums("age", (among(DOMAIN["age"], [3, 4]),), numbers=(0, 1)), DOMAIN)
    largest = DOMAIN["age"].size - 1  # whatever the condition, so that weights compare
    assert found.weights == ClassWeight((0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0), largest)
    assert found.size == largest


def test_rows_are_counted_by_the_residuals_of_the_sum():
    age, stay = (find_sum_pattern(sums(name), DOMAIN) for name in ("age", "stay"))
    with_age = Block(conjunction(URGENT, among(DOMAIN["age"], range(9))))
    assert find_rows_pattern(with_age, DOMAIN, age).value == age.value
    assert find_rows_pattern(Block(URGENT), DOMAIN, age).names == ("urgent",)  # counts rows without an age too
    assert find_rows_pattern(Block(URGENT), DOMAIN, stay).counted.sets == (0b10,)
    assert find_rows_pattern(sums("age"), DOMAIN, age) is None


@pytest.mark.parametrize("name", ["age", "stay"])
@pytest.mark.parametrize("times", [Fraction(0), Fraction(5, 64), Fraction(-3)])
def test_a_sum_less_a_multiple_of_a_count_is_one_pattern(name, times):
    """It has the value and the variance that the two have together."""
    table = np.random.default_rng(7).integers(0, 90, product_shape(DOMAIN, DOMAIN.names))
    store, some = measured_store(name, table), among(DOMAIN[name], [1, 2, 5])
    pairs = [
        (Block(conjunction(URGENT, some), KEYS[:1]), Block(URGENT, KEYS[:1])),
        (sums(name, (URGENT, some)), Block(conjunction(URGENT, some))),
        (Block(URGENT, (), steep(name)), Block(URGENT)),
        (Block(conjunction(URGENT, WARDS)), Block(WARDS)),
    ]
    for pair in pairs:
        patterns = [find_block_pattern(own, DOMAIN) for own in pair]
        together = combine_patterns(*patterns, times, DOMAIN)
        found = [follow(store, pair[0], own, DOMAIN) for own in (*patterns, together)]
        values = [np.asarray(own.known.values) for own in found]
        assert values[2] == pytest.approx(values[0] - float(times) * values[1], abs=1e-5)
        law = joint_law(store, found[:2], [(0, 1)])
        both = law.covariances[0, 1]
        spread = [np.broadcast_to([one.variance for one in own.known.laws], len(both)) for own in found]
        least = spread[0] - 2 * float(times) * both + float(times) ** 2 * spread[1]
        assert (spread[2] <= least * (1 + 1e-6)).all()  # of several bases it has the average that suits it best
        assert spread[2] == pytest.approx(least, rel=0.05)


def test_sums_that_differ_in_several_columns_are_no_one_pattern():
    patterns = [
        find_block_pattern(own, DOMAIN) for own in (Block(conjunction(URGENT, WARDS)), Block(), Block(URGENT, KEYS[:1]))
    ]
    assert combine_patterns(patterns[0], patterns[1], Fraction(1), DOMAIN) is None
    assert combine_patterns(patterns[0], patterns[2], Fraction(1), DOMAIN) is None
    assert combine_patterns(patterns[0], patterns[0], Fraction(1), DOMAIN) is None


def test_the_rows_of_a_column_without_other_cells_are_those_of_the_count():
    counted = CountPattern((COUNTED[0],), (0b10,))
    pattern = SumPattern(counted, Classes.summed(DOMAIN["stay"]), 0, 1)
    assert pattern.pattern(PRESENT) == counted
    assert pattern.pattern(SUM).names == ("stay", "urgent")
    assert SumPattern(counted, Classes.summed(DOMAIN["age"]), 0, 1).pattern(PRESENT).names == ("age", "urgent")


def test_sums_do_not_follow_from_less_than_they_need():
    table = np.ones(product_shape(DOMAIN, DOMAIN.names), dtype=np.int64)
    store = measured_store("age", table)
    block = sums("stay", (URGENT,))
    assert follow(store, block, find_sum_pattern(block, DOMAIN), DOMAIN) is None
