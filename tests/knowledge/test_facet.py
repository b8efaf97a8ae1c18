"""A count is seen in the classes that it tells apart, and weighs them as it weighs their rows."""

import itertools

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dodona.knowledge.patterns import find_pattern, list_classings, refine_pattern, weigh_classes
from dodona.query.predicate import EVERYTHING, And, among, among_mask, conjunction, disjunction
from dodona.query.query import Block, ConstantWeight, Query
from dodona.query.residual import Classes
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.house.shares import examples
from tests.query.drawing import DOMAIN, MIXED, all_keys, contribution, predicates

FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
AGE = DOMAIN["age"]
BINS, CELLS = list_classings(AGE)


def weights_over(block, classes):
    """A row for each group, over all combinations of classes."""
    weighed = weigh_classes(block, classes)
    return None if weighed is None else weighed.weights * (weighed.groups == np.arange(weighed.number)[:, None])


def rows(domain):
    codes = [range(attribute.cells) for attribute in domain]
    return [dict(zip(domain.names, row, strict=True)) for row in itertools.product(*codes)]


def slow(block, domain):
    """What each row of the domain adds to each answer, one row at a time."""
    weights = np.zeros((block.values, len(rows(domain))), dtype=np.int64)
    for place, row in enumerate(rows(domain)):
        groups, weight = contribution(block, row)
        number = 0
        for key, group in zip(block.keys, groups, strict=True):
            number = number * key.groups + group
        weights[number, place] += weight
    return weights


def places(classes, domain):
    """The combination of classes that each row of the domain is in."""
    labels = [classing.labels() for classing in classes]
    each = [
        [class_of[row[classing.attribute]] for classing, class_of in zip(classes, labels, strict=True)]
        for row in rows(domain)
    ]
    return np.ravel_multi_index(np.array(each).T, [classing.number for classing in classes])


@pytest.mark.parametrize("domain", [DOMAIN, MIXED], ids=["with missing", "mixed"])
@settings(deadline=None, max_examples=examples(60), phases=FOUND)
@given(st.data())
def test_weights_over_classes_are_those_of_every_row(domain, data):
    block = Block(data.draw(predicates(domain)), data.draw(all_keys(domain)))
    order = data.draw(st.permutations(domain.attributes))
    classes = tuple(data.draw(st.sampled_from(list_classings(attribute))) for attribute in order)
    weights, expected = weights_over(block, classes), slow(block, domain)
    where = places(classes, domain)
    if weights is not None:
        assert (weights[:, where] == expected).all()
    else:  # two rows of one class are told apart, at least as the predicate is written
        assert any(classing.number < classing.cells for classing in classes)


@pytest.mark.parametrize("domain", [DOMAIN, MIXED], ids=["with missing", "mixed"])
@settings(deadline=None, max_examples=examples(80), phases=FOUND)
@given(st.data())
def test_a_facet_counts_what_its_block_counts(domain, data):
    block = Block(data.draw(predicates(domain)))
    pattern = find_pattern(block, domain)
    if pattern is None or not pattern.classes:
        return
    weights = weights_over(block, pattern.classes)
    assert weights is not None
    if pattern.sets is not None:
        inside = [
            [members >> place & 1 for place in range(classing.number)]
            for classing, members in zip(pattern.classes, pattern.sets, strict=True)
        ]
        product = np.array(1)
        for flags in inside:
            product = np.multiply.outer(product, flags)
        assert (product.reshape(-1) == weights[0]).all()
        assert pattern.names == tuple(sorted(pattern.names))


@pytest.mark.parametrize("other", [0b01, 0b10])
def test_a_conjunction_that_names_an_attribute_twice_is_one_set_of_it(other):
    block = Block(And((among(AGE, [0]), among_mask(AGE, other))))
    pattern = find_pattern(block, DOMAIN)
    assert (pattern.classes, pattern.sets) == ((CELLS,), None)
    assert weights_over(block, pattern.classes)[0].sum() == (other == 0b01)


def test_the_coarsest_classes_that_tell_nothing_apart_are_taken():
    whole_bin = find_pattern(Block(among(AGE, [0, 1])), DOMAIN)
    part_of_one = find_pattern(Block(among(AGE, [0])), DOMAIN)
    assert (whole_bin.classes, part_of_one.classes) == ((BINS,), (CELLS,))
    assert (whole_bin.sets, part_of_one.sets) == ((1,), (1,))


def test_what_is_no_product_is_seen_in_the_classes_that_it_needs():
    block = Block(disjunction(among(AGE, [0, 1]), among(DOMAIN["sex"], [0])))
    pattern = find_pattern(block, DOMAIN)
    assert pattern.sets is None
    assert set(pattern.classes) == {BINS, list_classings(DOMAIN["sex"])[-1]}


def test_a_product_in_finer_classes_counts_the_same_rows():
    block = Block(conjunction(among(AGE, [0, 1]), among(DOMAIN["sex"], [0])))
    pattern = find_pattern(block, DOMAIN)
    finer = refine_pattern(pattern, DOMAIN)
    assert pattern.classes[0] == BINS
    assert finer.classes[0] == CELLS
    assert finer.sets == (0b11, pattern.sets[1])
    assert refine_pattern(finer, DOMAIN) is None
    assert refine_pattern(find_pattern(Query.histogram(DOMAIN, ["age"]).blocks[0], DOMAIN), DOMAIN) is None


@pytest.mark.parametrize("keys", list(itertools.permutations(["emergency", "sex", "age"], 2)))
def test_a_marginal_has_its_classes_in_the_order_of_the_names_whatever_the_order_of_its_keys(keys):
    pattern = find_pattern(Query.histogram(DOMAIN, keys).blocks[0], DOMAIN)
    assert pattern.grouped
    assert pattern.names == tuple(sorted(keys))


@pytest.mark.parametrize(
    "block",
    [
        Block(weight=ConstantWeight(2)),
        Block(among(DOMAIN["sex"], [0]), Query.histogram(DOMAIN, "sex").blocks[0].keys),
        Block(EVERYTHING, (Partition.every(AGE, 3),)),
        Block(EVERYTHING, (Partition.of(AGE), Partition.every(AGE, 1))),
    ],
    ids=["weights", "a key that is a condition too", "other bins", "a column twice"],
)
def test_what_no_classes_are_measured_for_has_no_facet(block):
    assert find_pattern(block, DOMAIN) is None


def test_a_key_or_a_bin_that_every_row_is_in_tells_nothing():
    domain = Domain((Integer("age", 0, 9, bins=[0, 9], otherwise=0), Category("sex", ["f", "m"])))
    assert find_pattern(Block(EVERYTHING, (Partition.of(domain["age"]),)), domain) is None
    assert list_classings(domain["age"]) == (Classes.of(domain["age"]),)
    assert find_pattern(Block(among(domain["age"], [3])), domain).classes == list_classings(domain["age"])


def test_a_column_of_many_cells_is_classed_by_its_bins_alone():
    many = Integer("income", 0, 9999, bins=[*range(0, 10_000, 1000), 9999])
    assert [classing.number for classing in list_classings(many)] == [12]
    assert find_pattern(Block(among(many, [5])), Domain((many,))) is None


def test_classes_that_a_block_does_not_look_at_make_no_difference():
    classes = (Classes.of(DOMAIN["sex"]), BINS)
    weights = weights_over(Block(among(AGE, [0, 1])), classes)
    assert weights.reshape([classing.number for classing in classes])[:, 0].tolist() == [1] * classes[0].number
    assert weights_over(Block(among(Boolean("emergency"), [1])), classes) is None


def test_a_large_column_makes_no_classes_of_single_values_and_many_wide_bins_none_either():
    """Classes are sets of bits: as many as there are values, each as long, would fill the memory."""
    large = Integer("n", 0, 10**6)
    domain = Domain((large, Integer("m", 0, 2**20 - 1, bins=(*range(0, 2**20, 256), 2**20 - 1))))
    assert list_classings(large) == list_classings(domain["m"]) == ()
    assert find_pattern(Block(keys=(Partition.of(large),)), domain) is None
    assert find_pattern(Block(keys=(Partition.of(domain["m"]),)), domain) is None
