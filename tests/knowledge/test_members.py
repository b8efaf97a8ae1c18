"""Sets of combinations over released counts: the bits as they are say what a walk through the cells says."""

import itertools
import math

import numpy as np
import pytest

from dodona.knowledge.patterns import find_pattern, member_classes, weigh_classes
from dodona.knowledge.tables import CountTable, RowCount
from dodona.privacy.additive_noise import Gaussian
from dodona.query.predicate import Jointly, Or, Predicate, among_combinations, among_mask, conjunction
from dodona.query.query import Block, ConstantWeight
from dodona.query.residual import Classes
from dodona.schema.attributes import Attribute, Boolean, Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

DOMAIN = Domain(
    (
        Category("ward", ["a", "b", "c"], otherwise="a"),
        Boolean("urgent"),
        Integer("age", 0, 5, bins=[0, 2, 5], otherwise=0),
        Boolean("late", otherwise=False),
    )
)


def table(attributes: list[Attribute], seed: int) -> Jointly:
    """A random set of combinations that is neither a box nor all but one."""
    generator = np.random.default_rng(seed)
    while True:
        predicate = among_combinations(
            attributes, generator.random([attribute.cells for attribute in attributes]) < 0.4
        )
        if isinstance(predicate, Jointly):
            return predicate


def formula(where: Jointly) -> Predicate:
    """The same rows, cell by cell."""
    chosen = [place for place in range(math.prod(where.shape)) if where.codes >> place & 1]
    rows = (zip(where.names, np.unravel_index(place, where.shape), strict=True) for place in chosen)
    return Or(tuple(conjunction(*(among_mask(DOMAIN[name], 1 << int(code)) for name, code in row)) for row in rows))


@pytest.mark.parametrize("order", list(itertools.permutations(DOMAIN.names)), ids="-".join)
def test_members_are_the_weights_in_every_order_of_the_axes(order: tuple[str, ...]) -> None:
    classes = tuple(Classes.of(DOMAIN[name]) for name in order)
    for number, names in enumerate(itertools.combinations(order, 2)):
        where = table([DOMAIN[name] for name in names], number)
        members = member_classes(Block(where), classes)
        assert members is not None
        for block in (Block(where), Block(formula(where))):
            weighed = weigh_classes(block, classes)
            assert weighed is not None
            assert (members == weighed.weights).all()


def test_only_counts_over_single_cells_are_read_from_bits() -> None:
    where = table([DOMAIN["age"], DOMAIN["late"]], 3)
    late, age = Classes.of(DOMAIN["late"]), Classes.of(DOMAIN["age"])
    assert member_classes(Block(where), (late, age)) is not None
    assert member_classes(Block(where), (late,)) is None
    assert member_classes(Block(where), (late, Classes.grouped(Partition.of(DOMAIN["age"])))) is None
    assert member_classes(Block(where), (late, Classes("age", 6, age.masks[::-1]))) is None
    assert member_classes(Block(where, (), ConstantWeight(2)), (late, age)) is None
    assert member_classes(Block(where, (Partition.of(DOMAIN["late"]),)), (late, age)) is None
    assert member_classes(Block(among_mask(DOMAIN["late"], 1)), (late, age)) is None


@pytest.mark.parametrize("rows", [None, RowCount(900.0), RowCount(905.0, Gaussian(scale=9))])
def test_a_set_of_combinations_is_told_as_its_formula_is(rows: RowCount | None) -> None:
    names = ("ward", "late", "age")
    classes = tuple(Classes.of(DOMAIN[name]) for name in names)
    values = np.random.default_rng(5).integers(0, 60, 36).astype(np.float64)
    counts = CountTable(classes, values, Gaussian(scale=4), "receipt")
    for seed in range(5):
        where = table([DOMAIN["age"], DOMAIN["ward"]], seed)
        known, other = counts.lookup(Block(where), rows), counts.lookup(Block(formula(where)), rows)
        assert known is not None
        assert other is not None
        assert known.values == pytest.approx(other.values, rel=1e-12)
        assert known.laws == other.laws


def test_long_tables_are_added_up_part_by_part() -> None:
    domain = Domain((Integer("x", 0, 99, otherwise=0), Integer("y", 0, 99, otherwise=0)))
    values = np.random.default_rng(6).integers(0, 60, 10_000).astype(np.float64)
    counts = CountTable(tuple(map(Classes.of, domain)), values, Gaussian(scale=4), "receipt")
    members = np.random.default_rng(7).random((100, 100)) < 0.3
    known = counts.lookup(Block(among_combinations(domain.attributes, members)), None)
    assert known is not None
    assert known.values[0] == values.reshape(100, 100)[members].sum()


@pytest.mark.parametrize("seed", range(10))
def test_a_set_of_combinations_is_seen_in_the_classes_of_its_formula(seed: int) -> None:
    for names in itertools.combinations(DOMAIN.names, 2):
        where = table([DOMAIN[name] for name in names], seed)
        assert find_pattern(Block(where), DOMAIN) == find_pattern(Block(formula(where)), DOMAIN)
    bins = np.repeat(np.array([[True, False], [False, True]]), [2, 4], axis=0)
    grouped = find_pattern(Block(among_combinations([DOMAIN["age"], DOMAIN["late"]], bins)), DOMAIN)
    assert grouped is not None
    assert grouped.classes[0] == Classes.grouped(Partition.of(DOMAIN["age"]))
