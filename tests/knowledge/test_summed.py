"""Sums come back from residuals: exact in the mean, and with the variance that the released rows have."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dodona.knowledge.asked import PRESENT, SUM
from dodona.knowledge.patterns import CountPattern, KnownValues
from dodona.knowledge.residuals import ResidualStore
from dodona.knowledge.summed import SumPattern, find_sum_pattern, look_up_sums
from dodona.privacy.measurement import ResidualMeasurement, residuals_from_text
from dodona.query.canonical import to_json
from dodona.query.predicate import among, conjunction
from dodona.query.query import Block, Query, ValueWeight, block_weights, group_numbers, product_axes, product_shape
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
    """All residuals of two counted columns, with and without the one that is added up."""
    value = Classes.summed(DOMAIN[name])
    inner = [chosen for size in range(3) for chosen in combinations(COUNTED, size)]
    return [Residual(own) for own in inner] + [Residual((*own, value)) for own in inner]


def answers(query, table):
    axes, shape = product_axes(DOMAIN, DOMAIN.names), product_shape(DOMAIN, DOMAIN.names)
    found = []
    for block in query.blocks:
        groups = np.broadcast_to(group_numbers(block.keys, axes) if block.keys else np.int64(0), shape)
        own = np.zeros(block.values, dtype=np.int64)
        np.add.at(own, groups.reshape(-1), (np.broadcast_to(block_weights(block, axes), shape) * table).reshape(-1))
        found += own.tolist()
    return found


def measured_store(name, table, variance=Fraction(50)):
    measured = ResidualMeasurement(DOMAIN, tuple((own, variance + place) for place, own in enumerate(lattice(name))))
    read = residuals_from_text(measured.mechanism, from_json(to_json(measured.query), DOMAIN))
    assert read.parts == measured.parts  # what a ledger holds is read as the same residuals
    rows, store, start = measured.turned(answers(measured.query, table)), ResidualStore(total=None), 0
    for residual, own in read.parts:
        store.add(residual, rows[start : start + residual.number].tolist(), own)
        start += residual.number
    return store


def sums(name, conditions=(), keys=(), *, offset=3, factor=-2):
    size = DOMAIN[name].size
    return Block(conjunction(*conditions), keys, ValueWeight(name, size, offset, factor))


URGENT = among(DOMAIN["urgent"], [1])
WARDS = among(DOMAIN["ward"], [0, 2])
KEYS = (Partition.of(DOMAIN["ward"]), Partition.of(DOMAIN["urgent"]))


@pytest.mark.parametrize("name", ["age", "stay"])
@pytest.mark.parametrize(
    "block",
    [
        sums,
        lambda name: sums(name, (URGENT,)),
        lambda name: sums(name, (URGENT, WARDS), offset=0, factor=1),
        lambda name: sums(name, keys=KEYS),
        lambda name: sums(name, (URGENT,), KEYS[:1]),
        lambda name: sums(name, (among(DOMAIN[name], range(DOMAIN[name].size)), WARDS)),
    ],
)
def test_sums_come_back_with_the_variance_of_their_rows(name, block):
    table = np.random.default_rng(5).integers(0, 90, product_shape(DOMAIN, DOMAIN.names))
    store = measured_store(name, table)
    own = block(name)
    pattern = find_sum_pattern(own, DOMAIN)
    found = look_up_sums(store, own, pattern, DOMAIN)
    assert np.asarray(found.values) == pytest.approx(answers(Query(DOMAIN, (own,)), table), abs=1e-4)
    assert np.broadcast_to([law.variance for law in found.laws], own.values) == pytest.approx(
        variances_by_noise(name, own, pattern), rel=1e-6
    )


def variances_by_noise(name, block, pattern):
    """The variance of each group from the coefficient of each released row, found by moving one row at a time."""
    total = np.zeros(block.values)
    parts = [(own, Fraction(50) + place) for place, own in enumerate(lattice(name))]
    for residual, variance in parts:
        for place, row in enumerate(residual.rows()):
            store = ResidualStore(total=None)
            for other, spread in parts:
                values = np.zeros(other.number, dtype=np.int64)
                if other == residual:
                    values[place] = 1
                store.add(other, values, spread)
            moved = np.asarray(look_up_sums(store, block, pattern, DOMAIN).values)
            total += moved**2 * float(variance * row.square)
    return total


@pytest.mark.parametrize("name", ["age", "stay"])
def test_the_sum_and_the_rows_of_an_average_share_no_draw(name):
    """No released row moves both: their noise is independent, which the interval of an average rests on."""
    middle = {"age": 4, "stay": 3}[name]
    present = among(DOMAIN[name], range(DOMAIN[name].size))
    total = sums(name, (present, URGENT), offset=-middle, factor=1)
    rows = Block(conjunction(present, URGENT))
    patterns = find_sum_pattern(total, DOMAIN), find_sum_pattern(rows, DOMAIN, name)
    assert patterns[0].centred
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
                look_up_sums(store, block, pattern, DOMAIN).values[0]
                for block, pattern in zip((total, rows), patterns, strict=True)
            ]
            assert moved[0] * moved[1] == 0
    table = np.random.default_rng(6).integers(0, 90, product_shape(DOMAIN, DOMAIN.names))
    store = measured_store(name, table)
    for block, pattern in zip((total, rows), patterns, strict=True):
        found = look_up_sums(store, block, pattern, DOMAIN)
        assert isinstance(found, KnownValues)
        assert found.values[0] == pytest.approx(answers(Query(DOMAIN, (block,)), table)[0], abs=1e-4)


def test_what_is_no_sum_of_a_column_by_others_has_no_pattern():
    some = among(DOMAIN["age"], [3, 4])
    assert find_sum_pattern(sums("age", (some,)), DOMAIN) is None  # a condition on the column itself
    assert find_sum_pattern(sums("age", keys=(Partition.every(DOMAIN["age"], 3),)), DOMAIN) is None
    assert find_sum_pattern(Block(weight=ValueWeight("age", 9, 0, 1, 2)), DOMAIN) is None  # of squares
    assert find_sum_pattern(Block(URGENT), DOMAIN) is None
    assert find_sum_pattern(Block(URGENT), DOMAIN, "age") is None  # counts rows without an age too
    assert find_sum_pattern(Block(URGENT), DOMAIN, "stay").counted.sets == (0b10,)


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
    assert look_up_sums(store, block, find_sum_pattern(block, DOMAIN), DOMAIN) is None
