"""Predicates, weights and queries against a slow reading, and what is refused."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.query import query as weights
from dodona.query.movement import Stack, atom_codes, atom_labels, attribute_uses, broadcast_codes
from dodona.query.predicate import (
    EVERYTHING,
    NOTHING,
    Among,
    Predicate,
    among_mask,
    as_box,
    complement,
    conjunction,
    disjunction,
    evaluate_predicate,
    predicate_attributes,
    unpack_bits,
)
from dodona.query.query import (
    MOST_VALUES,
    Block,
    CaseKey,
    ConstantWeight,
    Query,
    ValueWeight,
    block_weights,
    column_weight,
    evaluate_weight,
    group_numbers,
    product_axes,
    product_shape,
    weight_range,
)
from dodona.query.question import question_from_query
from dodona.schema.attributes import Boolean, Category, Integer, Number
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.query.drawing import DOMAIN, all_keys, all_weights, blocks, group_in, is_meant, predicates, weight_in

NAMES = sorted(DOMAIN.names)
SHAPE = product_shape(DOMAIN, NAMES)
AXES = product_axes(DOMAIN, NAMES)
ROWS = [dict(zip(NAMES, codes, strict=True)) for codes in itertools.product(*map(range, SHAPE))]


def walked(array: object) -> list[int]:
    return list(np.broadcast_to(array, SHAPE).reshape(-1).tolist())  # type: ignore[call-overload]


@settings(deadline=None)
@given(predicates())
def test_a_predicate_holds_where_a_slow_reading_says(predicate: Predicate) -> None:
    assert walked(evaluate_predicate(predicate, AXES)) == [is_meant(predicate, row) for row in ROWS]
    assert walked(evaluate_predicate(complement(predicate), AXES)) == [not is_meant(predicate, row) for row in ROWS]
    assert predicate_attributes(predicate) <= set(DOMAIN.names)


@settings(deadline=None)
@given(st.lists(predicates(), max_size=4))
def test_joining_keeps_the_meaning(parts: list[Predicate]) -> None:
    assert walked(evaluate_predicate(conjunction(*parts), AXES)) == [
        all(is_meant(part, row) for part in parts) for row in ROWS
    ]
    assert walked(evaluate_predicate(disjunction(*parts), AXES)) == [
        any(is_meant(part, row) for part in parts) for row in ROWS
    ]
    assert conjunction(*parts) == conjunction(*reversed(parts), *parts)
    sets = as_box(conjunction(*parts))
    assert sets is None or conjunction(*sets) == conjunction(*parts)


@settings(deadline=None)
@given(all_weights())
def test_a_weight_is_what_a_slow_reading_says_and_within_its_extremes(weight: object) -> None:
    expected = [weight_in(weight, row) for row in ROWS]  # type: ignore[arg-type]
    assert walked(evaluate_weight(weight, AXES)) == expected  # type: ignore[arg-type]
    low, high = weight_range(weight)  # type: ignore[arg-type]
    assert low <= min(expected) <= max(expected) <= high


@settings(deadline=None)
@given(all_keys())
def test_groups_are_numbered_in_the_order_of_the_keys(keys: tuple[Partition | CaseKey, ...]) -> None:
    numbers = walked(group_numbers(keys, AXES))
    for row, number in zip(ROWS, numbers, strict=True):
        expected = 0
        for key in keys:
            expected = expected * key.groups + group_in(key, row)
        assert number == expected < Block(keys=keys).values


@settings(deadline=None)
@given(blocks())
def test_atoms_show_all_weights_and_groups_of_a_block(block: Block) -> None:
    seen = attribute_uses(Stack((), (block,)))
    codes = atom_codes(DOMAIN, seen, limit=1 << 16)
    assert codes is not None
    for evaluate in (block_weights, lambda block, axes: group_numbers(block.keys, axes)):
        few = np.broadcast_to(evaluate(block, broadcast_codes(codes)), [len(column) for column in codes.values()])
        index = np.ix_(*(atom_labels(SHAPE[NAMES.index(name)], trait) for name, trait in seen.items()))
        names = list(codes)
        many = np.broadcast_to(evaluate(block, product_axes(DOMAIN, names)), product_shape(DOMAIN, names))
        assert np.array_equal(few[index] if names else few, many)


@given(st.integers(1, 9000), st.data())
def test_bits_are_those_of_the_number(number: int, data: st.DataObject) -> None:
    codes = data.draw(st.integers(0, (1 << number) - 1))
    assert unpack_bits(codes, number).tolist() == [codes >> place & 1 == 1 for place in range(number)]


def test_a_few_codes_of_a_large_column_weigh_what_its_table_says() -> None:
    weight = ValueWeight("visits", 5000, -40, 3, 2)
    codes = np.arange(5002)
    whole = evaluate_weight(weight, {"visits": codes})
    assert whole[0] == 1600
    assert whole[-2:].tolist() == [0, 0]
    some = np.array([0, 7, 4999, 5000, 5001])
    assert np.array_equal(evaluate_weight(weight, {"visits": some}), whole[some])


@pytest.mark.parametrize("centre", [Fraction(0), Fraction(1, 3), Fraction(365, 2), Fraction(-7, 10)])
@pytest.mark.parametrize("power", [1, 2, 3])
def test_a_value_in_steps_is_the_value(centre: Fraction, power: int) -> None:
    stay = Number("stay", Fraction(-1, 2), Fraction(10), Fraction(1, 4))
    weight, unit = column_weight(stay, centre=centre, power=power)
    numbers = evaluate_weight(weight, {"stay": np.arange(45)}).tolist()
    assert [number * unit for number in numbers[:43]] == [
        (Fraction(code - 2, 4) - centre) ** power for code in range(43)
    ]
    assert numbers[43:] == [0, 0]


def test_labels_of_one_column_can_be_weighted() -> None:
    sex = Domain((Category("sex", ["female", "male", "other"]), Integer("age", 0, 3)))
    query = Query.weighted(sex, {"sex": {"female": 2, "other": -5, "male": 0, "<missing>": 2}})
    assert block_weights(query.blocks[0], {"sex": np.arange(5)}).tolist() == [2, 0, -5, 2, 0]
    ages = Query.weighted(sex, {"age": {3: 7, "<outside>": 1}})
    assert block_weights(ages.blocks[0], {"age": np.arange(6)}).tolist() == [0, 0, 0, 7, 0, 1]
    assert Query.weighted(sex, ConstantWeight(4)).blocks[0].weight == ConstantWeight(4)
    with pytest.raises(InvalidArgument, match="name one column"):
        Query.weighted(sex, {"sex": {"female": 1}, "age": {1: 1}})
    with pytest.raises(InvalidArgument, match="did you mean 'female'"):
        Query.weighted(sex, {"sex": {"femal": 1}})
    with pytest.raises(InvalidArgument, match=r"weight of female = 0\.5"):
        Query.weighted(sex, {"sex": {"female": 0.5}})  # type: ignore[dict-item]


def test_a_marginal_has_each_value_and_a_histogram_the_declared_bins() -> None:
    assert Query.histogram(DOMAIN, "age").values == 2 + 2
    assert Query.marginal(DOMAIN, "age").values == 5 + 2
    assert Query.marginal(DOMAIN, ["age", "sex"]).values == 7 * 3


def test_queries_over_one_domain_are_stacked() -> None:
    assert Query.count(DOMAIN).stacked(Query.sum(DOMAIN, "age")).values == 2
    with pytest.raises(InvalidArgument, match="same domain"):
        Query.count(DOMAIN).stacked(Query.count(Domain((Boolean("emergency"),))))


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (Block(Among("income", 5, 1)), "attribute = 'income'"),
        (Block(Among("sex", 4, 1)), r"blocks\[1\] = 'sex: 4 cells'.*1 values and 3 cells"),
        (Block(Among("sex", 3, 8)), r"blocks\[1\].*below 2\^3"),
        (Block(Among("sex", 3, -1)), r"blocks\[1\].*below 2\^3"),
        (Block(keys=(Partition("sex", 4, (0,)),)), r"blocks\[1\] = 'sex: groups of 4 values and 2 further cells'"),
        (Block(keys=(CaseKey((("x", Among("sex", 4, 1)),), "y"),)), r"blocks\[1\] = 'sex: 4 cells'"),
        (Block(weight=ValueWeight("age", 6, 0, 1)), r"blocks\[1\] = 'age: 6 values'"),
        (Block(weight=ValueWeight("age", 5, 1 << 61, 1)), r"2\^61 steps"),
        (Block(weight=ConstantWeight(np.int32(1 << 20))), r"blocks\[1\].weight.*whole numbers"),  # type: ignore[arg-type]
        (Block(weight=ConstantWeight(1.9)), r"blocks\[1\].weight = 1.9"),  # type: ignore[arg-type]
        (Block(weight=ValueWeight("age", 5, 0, 0.5, 8)), r"blocks\[1\].weight = 0.5"),  # type: ignore[arg-type]
        (Block(weight=ValueWeight("age", 5, np.int64(3), 1)), r"blocks\[1\].weight"),  # type: ignore[arg-type]
        (Block(weight=weights.CaseWeight((), ConstantWeight(number=True))), r"blocks\[1\].weight = True"),
        (Block(unit=Fraction(0)), r"blocks\[1\].unit"),
    ],
)
def test_a_block_that_is_not_over_the_domain_is_refused_by_its_number(block: Block, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Query(DOMAIN, (Block(), block))


def test_too_many_answers_are_refused() -> None:
    wide = Domain((Integer("one", 0, 4000), Integer("two", 0, 4000)))
    with pytest.raises(InvalidArgument, match=f"1 to {MOST_VALUES} answers"):
        Query.marginal(wide, ["one", "two"])
    with pytest.raises(InvalidArgument, match="0 answers"):
        Query(DOMAIN, ())


@pytest.mark.parametrize("power", [0, -1, 9])
def test_powers_that_nobody_adds_up_are_refused(power: int) -> None:
    with pytest.raises(InvalidArgument, match="power"):
        ValueWeight("age", 5, 0, 1, power)


def test_a_category_has_no_sum() -> None:
    with pytest.raises(InvalidArgument, match="a category has no sum"):
        Query.sum(DOMAIN, "sex")


def test_the_question_of_a_query_shows_each_block_and_refuses_keys_that_differ() -> None:
    keys = (Partition.of(DOMAIN["sex"]),)
    question = question_from_query(Query(DOMAIN, (Block(EVERYTHING, keys), Block(NOTHING, keys))))
    assert [column.name for column in question.columns] == ["value_1", "value_2"]
    assert question.keys == keys
    assert question_from_query(Query.count(DOMAIN, among_mask(DOMAIN["sex"], 1))).columns[0].name == "value"
    with pytest.raises(InvalidArgument, match=r"blocks\[1\].keys"):
        question_from_query(Query(DOMAIN, (Block(EVERYTHING, keys), Block())))


def test_a_part_of_a_query_asks_some_of_its_blocks_as_a_query_of_its_own_would() -> None:
    age = DOMAIN.attributes[0]
    some = Block(among_mask(age, 0b101))
    query = Query(DOMAIN, (some, Block(keys=(Partition.of(age),)), Block(weight=ConstantWeight(3))))
    assert query.part(2, 0) == Query(DOMAIN, (query.blocks[2], some))
    assert query.part(2, 1).values == 1 + query.blocks[1].values
    assert query.part(0, of_all_rows=True) == Query.count(DOMAIN)
    with pytest.raises(InvalidArgument):
        query.part()


def test_a_question_knows_the_columns_that_noise_shows_in() -> None:
    plain = question_from_query(Query.count(DOMAIN, among_mask(DOMAIN.attributes[0], 0b1)))
    assert plain.single_total == plain.query.blocks[0]
    assert plain.derivable
    assert plain.noisy_columns == ((plain.columns[0], {0: 1.0}),)
    assert plain.noisy_columns is plain.noisy_columns
    alone = plain.column_alone(plain.columns[0], (0,))
    assert (alone.query, alone.columns[0].expression) == (Query.count(DOMAIN), plain.columns[0].expression)
    both = question_from_query(plain.query.stacked(Query.count(DOMAIN)))
    assert both.single_total is None
    assert [coefficients for _, coefficients in both.noisy_columns] == [{0: 1.0}, {1: 1.0}]
    assert both.column_alone(both.columns[1], (1,)).query == Query.count(DOMAIN)
