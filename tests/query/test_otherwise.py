"""Questions about columns without `<missing>` and `<outside>`."""

from __future__ import annotations

import datetime as dt
import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from dodona.errors import InvalidArgument
from dodona.query.canonical import block_digest, query_digest, to_json
from dodona.query.column import OPERATORS, columns, comparison_mask, null_comparison_mask
from dodona.query.predicate import EVERYTHING, NOTHING, Among, complement, conjunction, disjunction
from dodona.query.query import Block, Query, ValueWeight, block_weights, group_numbers
from dodona.query.residual import Classes, Residual
from dodona.query.spelling import from_json
from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.house.shares import examples
from tests.query.drawing import MIXED, all_weights, contribution, is_meant, predicates, queries, weight_in

WARD = Category("ward", ["a", "b", "c"], otherwise="c")
AGE = Integer("age", -3, 12, otherwise=0)
STAY = Number("stay", "-1", "2", "0.25", otherwise="0.5")
DAY = Date("day", dt.date(2024, 2, 27), dt.date(2024, 3, 3), otherwise=dt.date(2024, 2, 29))
URGENT = Boolean("urgent", otherwise=True)
EACH: tuple[Attribute, ...] = (WARD, AGE, STAY, DAY, URGENT)
VALUES = {"ward": "b", "age": 4, "stay": Fraction(1, 4), "day": dt.date(2024, 3, 1), "urgent": False}
ROWS = [
    dict(zip(MIXED.names, codes, strict=True))
    for codes in itertools.product(*(range(number) for number in MIXED.shape))
]


@pytest.mark.parametrize("attribute", EACH)
@pytest.mark.parametrize("sign", OPERATORS)
def test_each_comparison_is_true_or_false_of_every_row(attribute: Attribute, sign: str) -> None:
    opposite = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}[sign]
    if isinstance(attribute, Category) and sign not in {"=", "<>"}:
        return
    true, false = (comparison_mask(attribute, way, VALUES[attribute.name]) for way in (sign, opposite))
    assert true & false == 0
    assert true | false == (1 << attribute.size) - 1
    assert null_comparison_mask(attribute) == 0


@pytest.mark.parametrize("attribute", EACH)
def test_no_row_is_missing_or_outside(attribute: Attribute) -> None:
    column = columns(Domain((attribute,)))[attribute.name]
    assert column.is_missing() == column.is_outside() == NOTHING
    value = VALUES[attribute.name]
    assert complement(column == value) == (column != value)
    assert disjunction(column == value, column != value) == EVERYTHING


@pytest.mark.parametrize("cell", ["<missing>", "<outside>"])
@pytest.mark.parametrize(
    ("attribute", "words"), tuple(zip(EACH, ["'c'", "0", "0.5", "'2024-02-29'", "true"], strict=True))
)
def test_a_cell_that_is_not_there_is_refused_by_name(attribute: Attribute, words: str, cell: str) -> None:
    domain = Domain((attribute,))
    accepted = f"{attribute.name} has no {cell}; what is missing or not declared counts as {words}"
    with pytest.raises(InvalidArgument, match=accepted):
        Query.weighted(domain, {attribute.name: {cell: 1}})
    if isinstance(attribute, Category):
        with pytest.raises(InvalidArgument, match=accepted):
            _ = columns(domain)["ward"] == cell


def test_a_day_beyond_the_bounds_is_told_what_it_counts_as() -> None:
    with pytest.raises(InvalidArgument, match="any other counts as '2024-02-29'"):
        comparison_mask(DAY, "=", "2023-01-01")


@settings(max_examples=examples(60), deadline=None)
@given(queries(MIXED))
def test_weights_and_groups_are_those_of_each_row_by_itself(query: Query) -> None:
    axes = {name: np.array([row[name] for row in ROWS]) for name in MIXED.names}
    for block in query.blocks:
        weights = np.broadcast_to(block_weights(block, axes), len(ROWS)).tolist()
        groups = np.broadcast_to(group_numbers(block.keys, axes), len(ROWS)).tolist()
        shape = [key.groups for key in block.keys]
        for row, weight, group in zip(ROWS, weights, groups, strict=True):
            expected, number = contribution(block, row)
            assert weight == number
            assert group == (np.ravel_multi_index(expected, shape) if shape else 0)


@settings(max_examples=examples(80), deadline=None)
@given(predicates(MIXED), all_weights(MIXED), predicates(MIXED), all_weights(MIXED))
def test_two_blocks_have_one_digest_just_if_every_row_counts_the_same(first, heavy, second, light) -> None:
    candidate, other = Block(first, (), heavy), Block(second, (), light)
    meanings = [
        [weight_in(block.weight, row) if is_meant(block.where, row) else 0 for row in ROWS]
        for block in (candidate, other)
    ]
    assert (block_digest(candidate, MIXED) == block_digest(other, MIXED)) == (meanings[0] == meanings[1])


@settings(max_examples=examples(80), deadline=None)
@given(queries(MIXED))
def test_a_query_comes_back_as_it_was_written(query: Query) -> None:
    assert from_json(to_json(query), MIXED) == query


def test_the_spelling_is_that_of_other_columns_and_is_read_by_what_the_column_has() -> None:
    """Append to this list, never change a line: ledgers hold these texts and digests."""
    text = '{"format":1,"blocks":[{"by":[{"column":"ward"},{"column":"age","cuts":[0,2]}]},{"where":"ward:4"}]}'
    query = from_json(text, MIXED)
    assert to_json(query) == text
    assert query.values == 3 * 2 + 1
    assert query_digest(query) == "098b8b40068069d9ed21b131f7dbe07067a0e22c0f4278dcff108c630a67aba6"
    with pytest.raises(InvalidArgument, match="write bits below 2\\^3"):
        from_json('{"format":1,"blocks":[{"where":"ward:8"}]}', MIXED)


def test_parts_of_another_column_of_that_name_are_refused() -> None:
    plain = Category("ward", ["a", "b", "c"])
    for block in (
        Block(Among("ward", 5, 1)),
        Block(keys=(Partition.of(plain),)),
        Block(keys=(Partition("age", 7, (0,), 0),)),
        Block(weight=ValueWeight("age", 3, 0, 1)),
    ):
        with pytest.raises(InvalidArgument, match=r"values and \d cells here"):
            Query(MIXED, (block,))
    with pytest.raises(InvalidArgument, match="3 values and 5 cells here"):
        Query(Domain((plain,)), (Block(keys=(Partition.of(WARD),)),))


def test_histograms_and_residuals_of_complete_columns_have_a_fraction_of_the_cells() -> None:
    complete = Domain(tuple(Boolean(f"a{number}", otherwise=False) for number in range(6)))
    other = Domain(tuple(Boolean(f"a{number}") for number in range(6)))
    assert (Query.marginal(complete, complete.names).values, Query.marginal(other, other.names).values) == (64, 4096)
    residuals = [Residual(tuple(Classes.of(attribute) for attribute in domain)) for domain in (complete, other)]
    assert [residual.number for residual in residuals] == [1, 729]
    assert Classes.grouped(Partition.every(WARD, 2)).masks == (0b011, 0b100)
    assert conjunction(columns(complete).a0 == True, columns(complete).a0 == False) == NOTHING  # noqa: E712
