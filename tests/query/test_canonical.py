"""Digests: the same for questions that mean the same, and only for these."""

import itertools
from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.query import query as weights
from dodona.query.canonical import block_digest, block_text, digest_hint, enumerated_text, query_digest
from dodona.query.predicate import (
    EVERYTHING,
    NOTHING,
    Among,
    And,
    Or,
    Predicate,
    among_mask,
    complement,
    conjunction,
    disjunction,
)
from dodona.query.query import Block, CaseKey, ConstantWeight, Query, Weight, column_weight
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.house.shares import examples
from tests.query.drawing import DOMAIN, LARGE, MIXED, Row, all_weights, is_meant, predicates, weight_in

ROWS: list[Row] = [
    dict(zip(DOMAIN.names, codes, strict=True))
    for codes in itertools.product(*(range(number) for number in DOMAIN.shape))
]


def meaning(block: Block) -> list[int]:
    """What each row of the domain counts for."""
    return [weight_in(block.weight, row) if is_meant(block.where, row) else 0 for row in ROWS]


def told_apart(first: Block, second: Block) -> bool:
    return block_digest(first, DOMAIN) != block_digest(second, DOMAIN)


def cell_by_cell(predicate: Predicate) -> Predicate:
    """The same predicate, as a list of all cells that are meant."""
    cells_meant = [row for row in ROWS if is_meant(predicate, row)]
    return Or(
        tuple(And(tuple(among_mask(DOMAIN[name], 1 << code) for name, code in row.items())) for row in cells_meant)
    )


@settings(max_examples=examples(80), deadline=None)
@given(predicates(), predicates())
def test_two_formulas_have_one_digest_just_if_they_have_one_truth_table(first: Predicate, second: Predicate) -> None:
    same = all(is_meant(first, row) == is_meant(second, row) for row in ROWS)
    assert told_apart(Block(first), Block(second)) == (not same)


@settings(max_examples=examples(50), deadline=None)
@given(predicates(), predicates())
def test_other_words_for_the_same_rows_make_the_same_digest(first: Predicate, second: Predicate) -> None:
    plain = Block(conjunction(first, second))
    assert not told_apart(plain, Block(And((second, first, first))))
    assert not told_apart(plain, Block(complement(disjunction(complement(second), complement(first)))))
    assert not told_apart(plain, Block(conjunction(first, disjunction(second, complement(first)))))
    assert not told_apart(plain, Block(cell_by_cell(conjunction(first, second))))
    assert not told_apart(
        plain, Block(EVERYTHING, (), weights.CaseWeight(((plain.where, ConstantWeight(1)),), ConstantWeight(0)))
    )


def simple_blocks(domain: Domain) -> st.SearchStrategy[Block]:
    """Weights in one column on a conjunction of sets, by columns: what hints are given of."""
    column = st.sampled_from(domain.attributes)
    sets = column.flatmap(lambda own: st.integers(0, (1 << own.cells) - 1).map(lambda codes: (own, codes)))
    wheres = st.lists(sets, max_size=2).map(lambda found: And(tuple([Among(a.name, a.cells, c) for a, c in found])))
    small = st.integers(-2, 2)
    values = st.builds(lambda own, *rest: weights.ValueWeight(own.name, own.size, *rest), column, small, small)
    keys = st.just(()) | column.map(lambda own: (Partition.of(own),))
    return st.builds(Block, wheres, keys, small.map(ConstantWeight) | values | st.just(weights.PeopleWeight()))


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(simple_blocks(DOMAIN), min_size=40, max_size=60), st.lists(simple_blocks(MIXED), max_size=60))
def test_blocks_with_one_digest_have_one_hint(plain: list[Block], complete: list[Block]) -> None:
    for domain, drawn in ((DOMAIN, plain), (MIXED, complete)):
        hints: dict[str, str | None] = {}
        for block in drawn:
            hint = digest_hint(block, domain)
            assert hint is not None
            assert hints.setdefault(block_digest(block, domain), hint) == hint


def test_a_hint_does_not_depend_on_how_a_block_is_written() -> None:
    yes, visits = MIXED["emergency"], LARGE["visits"]
    count, added = Block(among_mask(yes, 2)), Block(weight=weights.ValueWeight("emergency", 2, 0, 1))
    every, positive = (Block(among_mask(visits, (1 << 98) - first), (), column_weight(visits)[0]) for first in (1, 2))
    nothing = Block(where=NOTHING), Block(weight=ConstantWeight(0)), Block(among_mask(visits, 1), (), every.weight)
    pairs = [(count, added, MIXED), (every, positive, LARGE), *[(nothing[0], empty, LARGE) for empty in nothing]]
    pairs.append((Block(), Block(Among("emergency", 2, 3)), MIXED))
    for block, other, domain in pairs:
        assert block_digest(block, domain) == block_digest(other, domain)
        if digest_hint(block, domain) is not None:
            assert digest_hint(block, domain) == digest_hint(other, domain)


def test_a_hint_is_given_where_it_is_seen_and_tells_most_blocks_apart() -> None:
    visits = LARGE["visits"]
    sums = [Block(among_mask(visits, 1 << 9 | 1 << code), (), column_weight(visits)[0]) for code in range(9)]
    assert len({digest_hint(block, LARGE) for block in sums}) == len(sums)
    assert digest_hint(Block(Or((sums[1].where, sums[2].where))), LARGE) is None


@settings(max_examples=examples(80), deadline=None)
@given(predicates(), all_weights(), predicates(), all_weights())
def test_two_blocks_have_one_digest_just_if_every_row_counts_the_same(
    first: Predicate, heavy: Weight, second: Predicate, light: Weight
) -> None:
    block, other = Block(first, (), heavy), Block(second, (), light)
    assert told_apart(block, other) == (meaning(block) != meaning(other))


@settings(max_examples=examples(80), deadline=None)
@given(
    st.lists(
        st.sampled_from(DOMAIN.attributes).flatmap(
            lambda own: st.integers(1, (1 << own.cells) - 2).map(lambda codes: among_mask(own, codes))
        )
    ),
    st.integers(-3, 3),
)
def test_a_box_reads_the_same_at_sight_and_after_a_walk(parts: list[Predicate], number: int) -> None:
    block = Block(conjunction(*parts), (), ConstantWeight(number))
    assert block_text(block, DOMAIN) == enumerated_text(block, DOMAIN)


def test_a_conjunction_of_cells_of_large_columns_is_compared_by_meaning() -> None:
    """Three columns with 697,200 cells together, of which few differ."""
    stay, visits, age = LARGE["stay"], LARGE["visits"], LARGE["age"]
    long, often, old = (
        among_mask(stay, ((1 << 40) - 1) << 41),
        among_mask(visits, 0b111 << 50),
        among_mask(age, 0b11000),
    )
    formula = conjunction(disjunction(long, often), old)
    other = disjunction(conjunction(long, old), conjunction(often, complement(long), old))
    assert block_digest(Block(formula), LARGE) == block_digest(Block(other), LARGE)
    assert block_digest(Block(formula), LARGE) != block_digest(
        Block(conjunction(disjunction(long, often), complement(old))), LARGE
    )


def test_formulas_beyond_the_limit_are_compared_by_their_rewritten_form() -> None:
    domain = Domain(tuple(Integer(f"score_{number}", 0, 100) for number in range(4)))
    weight, _ = column_weight(domain["score_0"])
    many = [
        weights.CaseWeight(((among_mask(attribute, 1 << place), column_weight(attribute)[0]),), weight)
        for place, attribute in enumerate(domain)
    ]
    parts = [among_mask(attribute, 0b1011) for attribute in domain]
    first = Block(conjunction(*parts), (), many[3])
    assert block_digest(first, domain) == block_digest(replace(first, where=conjunction(*reversed(parts))), domain)
    assert block_digest(first, domain) != block_digest(replace(first, weight=many[2]), domain)


def test_keys_count_in_their_order_and_their_names_do_not() -> None:
    sex, age = Partition.of(DOMAIN["sex"]), Partition.of(DOMAIN["age"])
    assert told_apart(Block(keys=(sex, age)), Block(keys=(age, sex)))
    assert told_apart(Block(keys=(age,)), Block(keys=(Partition.every(DOMAIN["age"], 1),)))
    assert told_apart(Block(keys=(age,)), Block())
    old = among_mask(DOMAIN["age"], 0b11000)
    named = CaseKey((("old", old),), "young")
    assert not told_apart(Block(keys=(named,)), Block(keys=(CaseKey((("65+", complement(complement(old))),), "-65"),)))
    assert told_apart(Block(keys=(named,)), Block(keys=(CaseKey((("young", complement(old)),), "old"),)))
    assert told_apart(Block(keys=(named,)), Block(keys=(CaseKey((("old", old), ("none", NOTHING)), "young"),)))


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(predicates(), max_size=3), st.lists(predicates(), max_size=3))
def test_keys_of_cases_have_one_digest_just_if_they_make_the_same_groups(
    first: list[Predicate], second: list[Predicate]
) -> None:
    case_key, other = (CaseKey(tuple(("", part) for part in parts), "") for parts in (first, second))
    groups = [
        [next((number for number, (_, part) in enumerate(key.branches) if is_meant(part, row)), -1) for row in ROWS]
        for key in (case_key, other)
    ]
    same = len(first) == len(second) and groups[0] == groups[1]
    assert told_apart(Block(keys=(case_key,)), Block(keys=(other,))) == (not same)


def test_what_a_step_is_worth_is_no_part_of_the_digest() -> None:
    assert not told_apart(Block(), Block(unit=Fraction(1, 4)))


def test_the_digest_of_a_query_goes_with_its_blocks_in_their_order() -> None:
    block, other = Block(among_mask(DOMAIN["sex"], 1)), Block()
    assert query_digest(Query(DOMAIN, (block, other))) != query_digest(Query(DOMAIN, (other, block)))
    assert query_digest(Query(DOMAIN, (block,))) == block_digest(block, DOMAIN)


def test_a_column_that_is_added_later_changes_no_digest() -> None:
    later = Domain((*DOMAIN.attributes, Boolean("insured")))
    where = Or((Among("sex", 3, 1), among_mask(DOMAIN["age"], 0b110)))
    assert query_digest(Query.count(DOMAIN, where)) == query_digest(Query.count(later, where))
