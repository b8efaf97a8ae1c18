"""Helmert rows are whole numbers, orthogonal, and all that a few attributes tell beyond fewer of them."""

import math
from fractions import Fraction
from functools import reduce
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.query.bases import Base, base_rows, base_squares
from dodona.query.canonical import to_json
from dodona.query.query import Query, block_weights, group_numbers, product_axes, product_shape
from dodona.query.residual import (
    Classes,
    Residual,
    blocks_of_residual,
    residual_of_blocks,
)
from dodona.query.spelling import from_json
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.house.shares import examples

DOMAIN = Domain((Category("sex", ["f", "m"]), Boolean("urgent"), Integer("age", 0, 2)))


def classings(attribute):
    """All ways to class a few cells, by a label for each of them."""
    number = attribute.cells
    labels = st.lists(st.integers(0, 3), min_size=number, max_size=number).filter(lambda own: len(set(own)) > 1)
    return labels.map(
        lambda own: Classes(
            attribute.name,
            number,
            tuple(sum(1 << code for code, other in enumerate(own) if other == label) for label in sorted(set(own))),
        )
    )


residuals = st.lists(st.sampled_from(DOMAIN.attributes), min_size=1, max_size=3, unique=True).flatmap(
    lambda chosen: st.tuples(*map(classings, chosen)).map(Residual)
)


@given(st.integers(2, 12))
def test_helmert_rows_are_orthogonal_and_leave_out_what_is_the_same_everywhere(number):
    rows = base_rows(Base.POINTS, number)
    steps = np.arange(1, number)
    assert (rows @ rows.T == np.diag(steps * (steps + 1))).all()
    assert (rows.sum(axis=1) == 0).all()


@settings(deadline=None, max_examples=examples(25))
@given(residuals)
def test_each_block_weighs_a_row_by_the_product_of_its_helmert_rows(residual):
    shape, axes = product_shape(DOMAIN, residual.attributes), product_axes(DOMAIN, residual.attributes)
    query = residual.query(DOMAIN)
    assert query.values == residual.number == len(residual.rows())
    for row, block in zip(residual.rows(), query.blocks, strict=True):
        chosen = [
            base_rows(Base.POINTS, column.number)[step - 1][column.labels()]
            for column, step in zip(residual.classes, row.steps, strict=True)
        ]
        expected = reduce(np.multiply.outer, chosen)
        assert (np.broadcast_to(block_weights(block, axes), shape) == expected).all()
        on_classes = [
            base_rows(Base.POINTS, column.number)[step - 1]
            for column, step in zip(residual.classes, row.steps, strict=True)
        ]
        assert row.square == (reduce(np.multiply.outer, on_classes) ** 2).sum()


@settings(deadline=None, max_examples=examples(25))
@given(residuals)
def test_the_rows_together_are_the_projection_that_the_residual_is(residual):
    sizes = [column.number for column in residual.classes]
    total = np.zeros((int(np.prod(sizes)),) * 2, dtype=object)
    for row in residual.rows():
        line = reduce(
            np.kron, [base_rows(Base.POINTS, size)[step - 1] for size, step in zip(sizes, row.steps, strict=True)]
        )
        total = total + np.outer(line, line).astype(object) * Fraction(1, row.square)
    centred = [np.eye(size, dtype=int).astype(object) - Fraction(1, size) for size in sizes]
    assert (total == reduce(np.kron, centred)).all()


def test_residuals_of_different_attributes_are_orthogonal():
    ways = [Classes.of(attribute) for attribute in DOMAIN]
    sets = [Residual(chosen) for size in range(4) for chosen in combinations(ways, size)]
    axes, shape = product_axes(DOMAIN, DOMAIN.names), product_shape(DOMAIN, DOMAIN.names)
    lines = [
        np.broadcast_to(block_weights(block, axes), shape).reshape(-1)
        for residual in sets
        for block in residual.query(DOMAIN).blocks
    ]
    table = np.array(lines)
    products = table @ table.T
    assert (products == np.diag(np.diag(products))).all()
    assert len(lines) == np.prod(shape)  # so they span all that can be asked


def test_rows_of_one_length_stand_together():
    squares = [row.square for row in Residual(tuple(Classes.of(attribute) for attribute in DOMAIN)).rows()]
    assert squares == sorted(squares)


def test_a_residual_is_spelled_and_read_back_as_any_query():
    query = Residual((Classes.of(DOMAIN["sex"]), Classes.split(DOMAIN["urgent"], 0b10))).query(DOMAIN)
    assert from_json(to_json(query), DOMAIN) == query


def test_no_attributes_leave_the_number_of_rows():
    assert Residual().query(DOMAIN) == Query.count(DOMAIN)


def test_classes_come_from_a_condition_or_from_groups():
    age = DOMAIN["age"]
    assert Classes.split(age, 0b00011).masks == (0b00011, 0b11100)
    assert Classes.grouped(Partition.every(age, 2)).masks == (0b00011, 0b00100, 0b01000, 0b10000)
    assert Classes.of(age).labels().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("masks", [(), (0b11111,), (0b00011, 0b11110), (0b00011, 0b01100), (0b11111, 0)])
def test_cells_in_no_class_or_in_two_are_refused(masks):
    with pytest.raises(InvalidArgument, match=r"age.*Nothing was charged"):
        Classes("age", 5, masks)


def test_an_attribute_twice_is_refused():
    with pytest.raises(InvalidArgument, match="each attribute once"):
        Residual((Classes.of(DOMAIN["sex"]), Classes.split(DOMAIN["sex"], 1)))


@pytest.mark.parametrize("names", [(), ("sex",), ("sex", "urgent"), ("age", "sex", "urgent")])
def test_counts_of_classes_turn_into_what_each_row_adds_up_to(names):
    ways = {
        "sex": Classes.of(DOMAIN["sex"]),
        "urgent": Classes.split(DOMAIN["urgent"], 0b10),
        "age": Classes.of(DOMAIN["age"]),
    }
    residual = Residual(tuple(ways[name] for name in names))
    axes, shape = product_axes(DOMAIN, DOMAIN.names), product_shape(DOMAIN, DOMAIN.names)
    table = np.random.default_rng(4).integers(0, 1 << 40, shape)
    (marginal,) = blocks_of_residual(residual, DOMAIN)
    groups = np.broadcast_to(group_numbers(marginal.keys, axes), shape).reshape(-1)
    counts = np.zeros(marginal.values, dtype=np.int64)
    np.add.at(counts, groups, table.reshape(-1))
    expected = [
        int((np.broadcast_to(block_weights(residual.block(row), axes), shape) * table).sum()) for row in residual.rows()
    ]
    assert residual.turned(counts).tolist() == expected
    assert residual.turned([int(count) << 80 for count in counts]).tolist() == [number << 80 for number in expected]
    assert residual_of_blocks([marginal], DOMAIN) == residual


SUMMED = Domain((Boolean("urgent"), Integer("age", 18, 21), Integer("stay", 0, 3, otherwise=0)))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("name", ["age", "stay"])
@pytest.mark.parametrize("others", [(), ("urgent",)])
def test_rows_of_sums_are_those_of_the_blocks_that_are_measured(name, others, power):
    """Steps from the middle or twice their squares less 4, and rows without a number, by the other column's rows."""
    value = Classes.summed(SUMMED[name], power)
    residual = Residual((*(Classes.of(SUMMED[other]) for other in others), value))
    axes, shape = product_axes(SUMMED, SUMMED.names), product_shape(SUMMED, SUMMED.names)
    table = np.random.default_rng(4).integers(0, 1 << 40, shape)
    blocks, numbers = blocks_of_residual(residual, SUMMED), []
    for block in blocks:
        weights = np.broadcast_to(block_weights(block, axes), shape) * table
        groups = np.broadcast_to(group_numbers(block.keys, axes) if block.keys else np.int64(0), shape)
        sums = np.zeros(block.values, dtype=np.int64)
        np.add.at(sums, groups.reshape(-1), weights.reshape(-1))
        numbers += sums.tolist()
    assert len(numbers) == residual.values
    ages = {"age": 2, "stay": 2}[name]
    codes = np.arange(SUMMED[name].cells)
    row = codes - ages if power == 1 else 2 * (codes - ages) ** 2 - 4
    lines = [np.where(codes < 4, row, 0)] + [np.where(codes < 4, 0, 1)] * (name == "age")
    steps = [np.array([1, -1, 0, 0]), np.array([1, 1, -2, 0]), np.array([1, 1, 1, -3])] if others else [np.ones(4, int)]
    expected = {}
    for place, line in enumerate(lines):
        for step, row in enumerate(steps):
            sums = (row * table).sum(axis=2)  # by age and stay
            other = 1 if name == "age" else 0
            total = int((sums.sum(axis=other) * line).sum())
            at = {"urgent": step + 1, name: place + 1}
            expected[tuple(at[each] for each in residual.attributes)] = total
    assert residual.turned(numbers).tolist() == [expected[row.steps] for row in residual.rows()]
    assert residual_of_blocks(blocks, SUMMED, [column.base for column in residual.classes]) == residual
    squares = {1: 4**power, 2: 1}
    helmert = {0: 1, 1: 2, 2: 6, 3: 12}
    for row in residual.rows():
        at = dict(zip(residual.attributes, row.steps, strict=True))
        assert row.square == squares[at[name]] * helmert[at.get("urgent", 0)]


def test_what_is_no_column_of_numbers_has_no_sums():
    assert Classes.summed(DOMAIN["sex"]) is None
    value = Classes.summed(SUMMED["age"])
    with pytest.raises(InvalidArgument, match="at most"):
        Residual((value, Classes.summed(SUMMED["stay"])))
    with pytest.raises(InvalidArgument, match="points or ranges"):
        Classes.of(SUMMED["age"]).based(value.base)
    other = Domain((Integer("age", 18, 30),))
    with pytest.raises(InvalidArgument, match="column of numbers"):
        blocks_of_residual(Residual((value,)), other)  # a wider column would move farther than it is priced for


@pytest.mark.parametrize("base", [Base.POINTS, Base.RANGES])
def test_rows_come_by_their_noise_and_then_by_their_steps(base):
    """The order is permanent: released numbers are recorded in it. The largest squares do not fit in 64 bits."""
    numbers = 1 << 23
    wide = Classes("wide", numbers + 1, ((1 << numbers) - 1, 1 << numbers), Base.VALUES)
    few, more = (Classes("few", 3, (1, 2, 4)).based(base), Classes("more", 5, (1, 2, 4, 8, 16)).based(base))
    for classes in ((), (few,), (few, more), (few, more, wide)):
        residual = Residual(classes)
        squares = [base_squares(*column.side) for column in residual.classes]
        steps = product(*(range(1, len(column_squares) + 1) for column_squares in squares))
        listed = zip((math.prod(factors) for factors in product(*squares)), steps, strict=True)
        assert [(row.square, row.steps) for row in residual.rows()] == sorted(listed)
        assert residual.squares() == [row.square for row in residual.rows()]
    assert base is Base.POINTS or residual.squares()[-1] > 1 << 63
