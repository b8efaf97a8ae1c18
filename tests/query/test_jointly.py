"""Sets of combinations of cells: the simplest predicate of a table, and that all else follows from its bits."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.query.canonical import block_digest, to_json
from dodona.query.column import columns
from dodona.query.predicate import (
    EVERYTHING,
    NOTHING,
    Among,
    And,
    Jointly,
    Or,
    Predicate,
    among_combinations,
    among_mask,
    as_box,
    axis_classes,
    complement,
    conjunction,
    disjunction,
    pack_bits,
    predicate_attributes,
    project_bits,
    separating_sets,
    simplify_combinations,
    unpack_bits,
)
from dodona.query.query import Block, ConstantWeight, Query
from dodona.query.spelling import from_json
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Domain
from tests.house.shares import examples
from tests.query.drawing import DOMAIN, LARGE, MIXED, Row, is_meant, tables

BITS = Domain(tuple(Boolean(f"b{place:02}", otherwise=False) for place in range(10)))
ROWS: list[Row] = [
    dict(zip(DOMAIN.names, codes, strict=True))
    for codes in itertools.product(*(range(number) for number in DOMAIN.shape))
]
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@settings(max_examples=examples(80), deadline=None)
@given(st.permutations(DOMAIN.attributes), st.integers(1, 3), st.data())
def test_a_table_means_its_cells_in_the_order_in_which_attributes_are_given(
    order: list[Boolean | Category | Integer], number: int, data: st.DataObject
) -> None:
    chosen = order[:number]
    shape = tuple(attribute.cells for attribute in chosen)
    codes = data.draw(st.integers(0, (1 << math.prod(shape)) - 1))
    table = unpack_bits(codes, math.prod(shape)).reshape(shape)
    predicate = among_combinations(chosen, table)
    assert [is_meant(predicate, row) for row in ROWS] == [
        table[tuple(row[attribute.name] for attribute in chosen)] for row in ROWS
    ]
    assert among_combinations(chosen, [tuple(place) for place in np.argwhere(table).tolist()]) == predicate
    assert among_combinations(chosen, table.reshape(-1)) == predicate


@settings(max_examples=examples(80), deadline=None)
@given(tables(), tables())
def test_tables_are_joined_and_turned_as_their_truth_values_are(one: Predicate, other: Predicate) -> None:
    for row in ROWS:
        first, second = is_meant(one, row), is_meant(other, row)
        assert is_meant(conjunction(one, other), row) == (first and second)
        assert is_meant(disjunction(one, other), row) == (first or second)
        assert is_meant(complement(one), row) == (not first)


@settings(max_examples=examples(80), deadline=None)
@given(tables(), st.sampled_from(DOMAIN.attributes))
def test_two_tables_of_the_same_rows_are_one_predicate(table: Predicate, further: Boolean | Category | Integer) -> None:
    names = sorted(predicate_attributes(table) | {further.name})
    attributes = [DOMAIN[name] for name in reversed(names)]
    rows = itertools.product(*(range(attribute.cells) for attribute in attributes))
    fixed = dict.fromkeys(DOMAIN.names, 0)
    members = [row for row in rows if is_meant(table, fixed | dict(zip(reversed(names), row, strict=True)))]
    predicate = among_combinations(attributes, members)
    assert predicate == (simplify_combinations(table) if isinstance(table, Jointly) else table)
    if isinstance(predicate, Jointly):  # it is no box, nothing in it is idle, and so for what it leaves out
        assert all(any(labels) for labels in axis_classes(predicate.shape, predicate.codes))
        assert as_box(predicate) is None
        assert complement(complement(predicate)) == predicate


def test_what_is_simpler_than_a_table_is_no_table() -> None:
    sex, age = DOMAIN["sex"], DOMAIN["age"]
    assert among_combinations([sex, age], []) == NOTHING
    assert among_combinations([sex, age], np.ones((3, 7), dtype=np.bool_)) == EVERYTHING
    assert among_combinations([], [()]) == EVERYTHING
    assert among_combinations([], []) == NOTHING
    assert among_combinations([age], [(1,), (3,)]) == Among("age", 7, 0b1010)
    assert among_combinations([sex, age], [(place, 2) for place in range(3)]) == Among("age", 7, 0b100)
    assert among_combinations([sex, age], [(0, 2)]) == And((Among("age", 7, 0b100), Among("sex", 3, 1)))
    product = itertools.product((0, 2), (1, 3))
    predicate = among_combinations([sex, age], product)
    assert predicate == And((Among("age", 7, 0b1010), Among("sex", 3, 0b101)))
    others = [row for row in itertools.product(range(3), range(7)) if row[0] == 1 or row[1] not in {1, 3}]
    assert (
        among_combinations([sex, age], others)
        == complement(predicate)
        == Or((Among("age", 7, 0b1110101), Among("sex", 3, 0b010)))
    )


def test_tables_of_the_same_attributes_are_joined_to_one() -> None:
    predicate = among_combinations([BITS["b00"], BITS["b01"]], [(0, 1), (1, 0)])
    other = among_combinations([BITS["b00"], BITS["b01"]], [(0, 0), (1, 1)])
    assert disjunction(predicate, other) == EVERYTHING
    assert conjunction(predicate, other) == NOTHING
    sex, age = DOMAIN["sex"], DOMAIN["age"]
    tables = [among_combinations([sex, age], [(0, 0), (place, place)]) for place in (1, 2)]
    assert conjunction(*tables, among_mask(sex, 0b11)) == conjunction(among_mask(sex, 1), among_mask(age, 1))
    assert disjunction(*tables) == among_combinations([sex, age], [(place, place) for place in range(3)])


@pytest.mark.parametrize(
    ("attributes", "members", "words"),
    [
        ([LARGE["stay"], LARGE["visits"], LARGE["age"], *BITS.attributes], [], "no more than 1048576 combinations"),
        ([DOMAIN["sex"], DOMAIN["sex"]], [], "each attribute once"),
        ([DOMAIN["sex"], DOMAIN["age"]], np.zeros((7, 3), dtype=np.bool_), "shape"),
        ([DOMAIN["sex"], DOMAIN["age"]], [(0, 7)], "below 3, 7"),
        ([DOMAIN["sex"], DOMAIN["age"]], [(-1, 0)], "below 3, 7"),
        ([DOMAIN["sex"], DOMAIN["age"]], [(0,)], "below 3, 7"),
    ],
)
def test_what_is_no_table_of_these_attributes_is_refused(attributes, members, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidArgument, match=words):
        among_combinations(attributes, members)


@pytest.mark.parametrize(
    "where",
    [
        Jointly(("sex", "age"), (3, 7), 1),
        Jointly(("age", "age"), (7, 7), 1),
        Jointly(("age", "sex"), (7, 4), 1),
        Jointly(("age", "sex"), (7,), 1),
        Jointly((), (), 1),
        Jointly(("age", "sex"), (7, 3), 1 << 21),
        Jointly(("age", "sex"), (7, 3), -1),
    ],
)
def test_a_query_refuses_tables_that_are_not_over_its_domain(where: Jointly) -> None:
    with pytest.raises(InvalidArgument):
        Query.count(DOMAIN, where)


def cell_by_cell(domain: Domain, places: list[int]) -> Predicate:
    """The cells of a product at these places, in row-major order, as a formula."""
    rows = (np.unravel_index(place, domain.shape) for place in places)
    return Or(
        tuple(
            And(tuple(among_mask(attribute, 1 << int(code)) for attribute, code in zip(domain, row, strict=True)))
            for row in rows
        )
    )


@pytest.mark.parametrize(("domain", "share"), [(BITS, 0.01), (BITS, 0.2), (MIXED, 0.1), (MIXED, 0.5), (MIXED, 0.9)])
def test_a_table_has_the_digest_of_its_formula(domain: Domain, share: float) -> None:
    generator = np.random.default_rng(round(100 * share))
    members = generator.random(domain.shape) < share
    formula = cell_by_cell(domain, np.flatnonzero(members).tolist())
    for number in (1, -3):
        block, other = (
            Block(where, (), ConstantWeight(number))
            for where in (among_combinations(domain.attributes, members), formula)
        )
        assert isinstance(block.where, Jointly)
        assert block_digest(block, domain) == block_digest(other, domain)
    members[(0,) * len(domain.shape)] ^= True
    assert block_digest(Block(among_combinations(domain.attributes, members)), domain) != block_digest(
        Block(formula), domain
    )


def test_a_table_that_is_not_in_its_simplest_form_has_the_same_digest() -> None:
    where = Jointly(("age", "sex"), (7, 3), pack_bits(np.repeat(np.arange(7) % 2 == 0, 3)))
    assert simplify_combinations(where) == Among("age", 7, 0b1010101)
    assert block_digest(Block(where), DOMAIN) == block_digest(Block(simplify_combinations(where)), DOMAIN)
    assert block_digest(Block(Jointly(("age", "sex"), (7, 3), 0)), DOMAIN) == block_digest(Block(NOTHING), DOMAIN)


def test_the_largest_tables_are_told_apart_and_come_back_as_they_were_written() -> None:
    domain = Domain((Integer("x", 0, 1023, otherwise=0), Integer("y", 0, 1023, otherwise=0)))
    members = np.random.default_rng(7).random((1024, 1024)) < 0.5
    queries = []
    for _ in range(2):
        queries.append(Query.count(domain, among_combinations(domain.attributes, members)))
        members[3, 5] ^= True
    assert from_json(to_json(queries[0]), domain) == queries[0]
    assert len({block_digest(query.blocks[0], domain) for query in queries}) == 2
    assert "0x" in repr(queries[0].blocks[0].where)


def test_conditions_on_very_large_columns_are_joined() -> None:
    wide, flag = Integer("wide", 0, 99_999), Boolean("flag")
    parts = [
        conjunction(among_mask(wide, (1 << end) - 1), among_mask(flag, 1 << turn))
        for turn, end in enumerate((50_000, 60_000))
    ]
    assert disjunction(*parts) == disjunction(*reversed(parts))


@settings(max_examples=examples(100), deadline=None)
@given(SHAPES, st.data())
def test_equal_slices_are_one_class_and_sets_of_places_tell_just_the_others_apart(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    number = math.prod(shape)
    codes = data.draw(st.integers(0, (1 << number) - 1))
    table = unpack_bits(codes, number).reshape(shape)
    assert pack_bits(table) == codes
    for axis, labels in enumerate(axis_classes(shape, codes)):
        slices = [np.take(table, place, axis=axis) for place in range(shape[axis])]
        firsts = [next(at for at, other in enumerate(slices) if (other == part).all()) for part in slices]
        assert list(labels) == [sorted(set(firsts)).index(first) for first in firsts]
        signs = [tuple(mask >> place & 1 for mask in separating_sets(labels)) for place in range(shape[axis])]
        assert [signs.index(sign) for sign in signs] == [labels.index(label) for label in labels]
        assert project_bits(shape, codes, axis) == pack_bits(np.array([part.any() for part in slices]))


def test_values_of_several_columns_are_looked_at_together() -> None:
    c = columns(DOMAIN)
    predicate = c["sex", "age"].isin([("female", 3), ("<missing>", 4), ("female", 3)])
    assert predicate == among_combinations([DOMAIN["sex"], DOMAIN["age"]], [(0, 0), (1, 1)])
    assert c["sex", "age"].isin([("female", 3)]) == (c.sex == "female") & (c.age == 3)
    assert c["sex", "age"].isin([]) == NOTHING


@pytest.mark.parametrize("row", [("female",), ("female", 3, 3), "ab", ("female", None), ("femal", 3), (3, "female")])
def test_rows_that_do_not_fit_their_columns_are_refused(row: tuple[str | int, ...]) -> None:
    with pytest.raises(InvalidArgument):
        columns(DOMAIN)["sex", "age"].isin([row])


def test_more_columns_than_can_be_looked_at_together_are_refused() -> None:
    c = columns(Domain((*LARGE.attributes, BITS["b00"])))
    with pytest.raises(InvalidArgument, match="1394400 combinations"):
        c["stay", "visits", "age", "sex", "emergency", "b00"].isin([])
