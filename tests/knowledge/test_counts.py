"""Sums of a released table are as near as least squares can bring them, and as far off as their law says."""

import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dodona.knowledge.patterns import CountPattern, find_pattern, noise_variance
from dodona.knowledge.tables import CountTable, RowCount, count_law
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.query.predicate import EVERYTHING, among, conjunction, disjunction
from dodona.query.query import Block, Query
from dodona.query.residual import Classes
from dodona.schema.attributes import Category
from dodona.schema.schema import Domain
from tests.house.shares import examples
from tests.query.drawing import is_meant

FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
DOMAIN = Domain((Category("a", ["0", "1"]), Category("b", ["0"]), Category("c", ["0", "1", "2"])))
CLASSES = tuple(Classes.of(attribute) for attribute in DOMAIN)
SHAPE = tuple(classes.number for classes in CLASSES)
SIZE = math.prod(SHAPE)
noises = st.sampled_from([Laplace(scale=7), Laplace(scale=2), Gaussian(scale=5), Gaussian(scale="3/2")])
values = st.lists(st.integers(-20, 300), min_size=SIZE, max_size=SIZE).map(np.array)


def least_squares(weights, noise, rows, table):
    """The best unbiased estimate of weights·x and its variance: the table, brought up to date by the number of rows."""
    estimate, spread = table.astype(float), noise_variance(noise) * np.eye(SIZE)
    if rows is not None:
        ones = np.ones((1, SIZE))
        gain = spread @ ones.T @ np.linalg.inv(ones @ spread @ ones.T + rows.variance)
        estimate = estimate + gain @ (rows.value - ones @ estimate)
        spread = spread - gain @ ones @ spread
    return weights @ estimate, weights @ spread @ weights


@st.composite
def scenes(draw):
    noise, other = draw(noises), draw(noises)
    rows = draw(st.sampled_from([None, RowCount(1234.0), RowCount(1234.0, other)]))
    return draw(values), noise, rows


@settings(deadline=None, max_examples=examples(60), phases=FOUND)
@given(
    scenes(), st.tuples(*(st.integers(1, (1 << size) - 1) for size in SHAPE)), st.sets(st.integers(0, 2), min_size=1)
)
def test_a_product_is_what_least_squares_make_of_the_table_and_the_number_of_rows(scene, sets, kept):
    table, noise, rows = scene
    chosen = sorted(kept)
    pattern = CountPattern(tuple(CLASSES[place] for place in chosen), tuple(sets[place] for place in chosen))
    known = CountTable(CLASSES, table.astype(float), noise, "receipt").product(pattern, rows)
    (value,), (law,) = known.values, known.laws
    weights = np.array(1)
    for place, size in enumerate(SHAPE):
        members = [sets[place] >> code & 1 if place in kept else 1 for code in range(size)]
        weights = np.multiply.outer(weights, members)
    expected = least_squares(weights.reshape(-1).astype(float), noise, rows, table)
    assert (value, law.variance) == pytest.approx(expected, rel=1e-9, abs=1e-8)


@settings(deadline=None, max_examples=examples(40), phases=FOUND)
@given(scenes(), st.permutations(range(3)), st.data())
def test_every_group_of_a_block_is_what_least_squares_make_of_it(scene, order, data):
    table, noise, rows = scene
    sides = [
        among(attribute, data.draw(st.sets(st.integers(0, size - 1))))
        for attribute, size in zip(DOMAIN, SHAPE, strict=True)
    ]
    where = data.draw(st.sampled_from([EVERYTHING, sides[0], disjunction(sides[0], sides[2]), conjunction(*sides)]))
    keys = data.draw(st.sampled_from([(), ("a",), ("c", "a"), ("b", "c", "a")]))
    block = Query.histogram(DOMAIN, keys, where).blocks[0] if keys else Block(where)
    counts = CountTable(tuple(CLASSES[place] for place in order), table.astype(float), noise, "receipt")
    known = counts.lookup(block, rows)
    codes = np.unravel_index(np.arange(SIZE), [SHAPE[place] for place in order])
    by_name = {DOMAIN.names[place]: column for place, column in zip(order, codes, strict=True)}
    inside = np.array(
        [is_meant(where, {name: column[cell] for name, column in by_name.items()}) for cell in range(SIZE)]
    )
    groups = np.zeros(SIZE, dtype=int)
    for name in keys:
        groups = groups * SHAPE[DOMAIN.names.index(name)] + by_name[name]
    assert len(known.values) == block.values
    for group, (value, law) in enumerate(zip(known.values, known.laws, strict=True)):
        weights = (inside & (groups == group)).astype(float)
        assert (value, law.variance) == pytest.approx(least_squares(weights, noise, rows, table), rel=1e-9, abs=1e-8)


@settings(deadline=None, max_examples=20, phases=FOUND)
@given(scenes(), st.integers(-3, 4), st.sampled_from([(), ("a",), ("c", "a")]))
def test_sums_of_other_weights_than_one_have_the_same_care(scene, number, keys):
    table, noise, rows = scene
    grouped = Query.histogram(DOMAIN, keys).blocks[0].keys if keys else ()
    weight = Query.weighted(DOMAIN, {"c": {"0": 2, "1": number}}).blocks[0].weight
    known = CountTable(CLASSES, table.astype(float), noise, "receipt").lookup(Block(EVERYTHING, grouped, weight), rows)
    each = np.array([2, number, 0, 0, 0])
    codes = np.array(np.unravel_index(np.arange(SIZE), SHAPE))
    groups = np.zeros(SIZE, dtype=int)
    for name in keys:
        groups = groups * SHAPE[DOMAIN.names.index(name)] + codes[DOMAIN.names.index(name)]
    for group, (value, law) in enumerate(zip(known.values, known.laws, strict=True)):
        weights = each[codes[2]] * (groups == group).astype(float)
        assert (value, law.variance) == pytest.approx(least_squares(weights, noise, rows, table), rel=1e-9, abs=1e-8)


def test_a_group_by_over_a_large_table_needs_no_more_than_the_table():
    """10,404 groups of 41,616 counts are 3.4 GB where each group has a row of its own."""
    domain = Domain((Category("x", list(map(str, range(100)))), Category("y", list(map(str, range(102)))), *DOMAIN))
    classes = tuple(Classes.of(domain[name]) for name in ("a", "x", "y"))
    table = np.arange(4.0 * 102 * 104)
    known = CountTable(classes, table, Laplace(scale=3), "r").lookup(
        Query.histogram(domain, ("y", "x")).blocks[0], RowCount(5.0)
    )
    expected = table.reshape(4, 102, 104).sum(axis=0).T.reshape(-1) + 4 / table.size * (5 - table.sum())
    assert known.values == pytest.approx(expected)
    assert len(set(known.laws)) == 1


def test_what_tells_a_class_apart_is_not_told():
    coarse = CountTable((Classes.split(DOMAIN["c"], 0b11),), np.array([1.0, 2.0]), Laplace(scale=3), "receipt")
    assert coarse.lookup(Block(among(DOMAIN["c"], [0])), None) is None
    assert coarse.lookup(Block(among(DOMAIN["a"], [0])), None) is None
    assert coarse.product(find_pattern(Block(among(DOMAIN["c"], [0])), DOMAIN), None) is None
    assert coarse.lookup(Block(among(DOMAIN["c"], [0, 1])), None).values[0] == 1.0


def test_all_rows_are_the_number_of_rows_where_that_is_public():
    counts = CountTable(CLASSES, np.zeros(SIZE), Laplace(scale=3), "receipt")
    known = counts.lookup(Block(), RowCount(500.0))
    (value,), (law,) = known.values, known.laws
    assert value == 500
    assert law.variance == 0
    assert law.accuracy(0.99).within == 0


@pytest.mark.parametrize("noise", [Laplace(scale=6), Gaussian(scale=6)], ids=["Laplace", "Gaussian"])
@pytest.mark.parametrize("other", [None, Laplace(scale=20), Gaussian(scale=20)], ids=["known", "Laplace", "Gaussian"])
@pytest.mark.parametrize("number", [1, 7, 30, 60])
def test_a_sum_is_as_far_off_as_its_law_says(noise, other, number):
    """Of 20,000 sums a tenth may be beyond; 8 standard deviations more are a false alarm of 10^-14.

    Nine tenths of the bound are passed by 14% of them, so a bound that wastes as much is noticed.
    """
    size, times, failing = 60, 20_000, 0.1
    random = np.random.default_rng(number)
    drawn = _drawn(random, noise, (times, size))
    rows = RowCount(0.0) if other is None else RowCount(0.0, other)
    off = np.zeros(times) if other is None else _drawn(random, other, (times,))
    share = noise_variance(noise) * number / (size * noise_variance(noise) + rows.variance)
    errors = drawn[:, :number].sum(axis=1) - share * drawn.sum(axis=1) + share * off
    law = count_law(size, number, noise, rows)
    within = law.accuracy(1 - failing).within
    beyond = int((np.abs(errors) > within).sum())
    if number == size and other is None:
        assert (within, beyond) == (0, 0)
        return
    assert beyond <= failing * times + 8 * math.sqrt(failing * times)
    assert int((np.abs(errors) > 0.9 * within).sum()) > failing * times
    assert float(errors.var()) == pytest.approx(law.variance, rel=0.1)


def _drawn(random, noise, shape):
    """Discrete noise by a plain generator: the difference of two geometric numbers, or a rounded normal one."""
    scale = float(noise.scale)
    if isinstance(noise, Laplace):
        odds = -math.expm1(-1 / scale)
        return random.geometric(odds, shape) - random.geometric(odds, shape)
    return np.round(random.normal(0, scale, shape))
