"""Marginals and product queries come back from residuals, exact in the mean and with the variance that is said."""

from fractions import Fraction
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dodona.engines.memory import MemorySource
from dodona.errors import InvalidArgument
from dodona.knowledge.patterns import CountPattern
from dodona.knowledge.residuals import Factor, ResidualStore, variance_shares
from dodona.lab.residuals import ExactResiduals, block_product
from dodona.ledger import memory
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.privacy.measurement import ResidualMeasurement
from dodona.query.bases import Base, base_rows
from dodona.query.predicate import EVERYTHING, among, disjunction
from dodona.query.query import Block, ConstantWeight, Query, block_weights, column_weight, product_axes, product_shape
from dodona.query.residual import Classes, Residual
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Domain, Schema
from dodona.trusted.gate import release_measurement
from tests.house.shares import examples

FOUND = (Phase.explicit, Phase.reuse, Phase.generate)  # a fault is told at once; making it small takes minutes
DOMAIN = Domain((Category("sex", ["f", "m"]), Boolean("urgent"), Integer("age", 0, 3)))
WAYS = (
    Classes("age", 6, (0b000011, 0b001100, 0b010000, 0b100000)),
    Classes("sex", 4, (0b0001, 0b0010, 0b1100)),
    Classes.split(DOMAIN["urgent"], 0b0010),
)
SIZES = tuple(classing.number for classing in WAYS)
SETS = tuple(Residual(chosen) for size in range(4) for chosen in combinations(WAYS, size))

variances = st.lists(
    st.fractions(min_value=Fraction(1, 4), max_value=40, max_denominator=8), min_size=len(SETS), max_size=len(SETS)
)
tables = st.lists(st.integers(0, 50), min_size=24, max_size=24).map(lambda own: np.array(own).reshape(SIZES))
numbers = st.integers(-4, 4)
products = st.tuples(*(st.lists(numbers, min_size=size, max_size=size) for size in SIZES)).map(
    lambda lists: tuple(Factor(classing, tuple(weights)) for classing, weights in zip(WAYS, lists, strict=True))
)


def measurement(spreads):
    return ResidualMeasurement(DOMAIN, tuple(zip(SETS, spreads, strict=True)))


def lines(parts):
    """All Helmert rows over the product of classes, in the order in which they are measured."""
    rows = []
    for residual, _ in parts:
        for row in residual.rows():
            steps = dict(zip(residual.attributes, row.steps, strict=True))
            each = [
                base_rows(Base.POINTS, classing.number)[steps[classing.attribute] - 1]
                if classing.attribute in steps
                else np.ones(classing.number, int)
                for classing in WAYS
            ]
            rows.append(reduce(np.multiply.outer, each).reshape(-1))
    return np.array(rows, dtype=np.int64)


def dense(product):
    return reduce(np.multiply.outer, [np.array(factor.weights) for factor in product]).reshape(-1)


@settings(deadline=None, max_examples=examples(40), phases=FOUND)
@given(tables, products, variances)
def test_a_product_query_is_exact_where_the_noise_is_nought(table, product, spreads):
    measured = measurement(spreads)
    known = ExactResiduals().learn(measured, (lines(measured.parts) @ table.reshape(-1)).tolist())
    assert known.estimate(product).value == int(dense(product) @ table.reshape(-1))


@settings(deadline=None, max_examples=examples(25), phases=FOUND)
@given(products, variances)
def test_its_variance_is_that_of_its_coefficients_and_of_least_squares(product, spreads):
    measured = measurement(spreads)
    table = lines(measured.parts)
    laws = [variance * row.square for residual, variance in measured.parts for row in residual.rows()]
    units = np.eye(len(laws), dtype=int)
    coefficients = [ExactResiduals().learn(measured, unit.tolist()).estimate(product).value for unit in units]
    exact = ExactResiduals().learn(measured, [0] * len(laws)).estimate(product).variance
    assert exact == sum(coefficient**2 * law for coefficient, law in zip(coefficients, laws, strict=True))
    precision = table.T / np.array(laws, dtype=float) @ table
    wanted = dense(product)
    assert float(exact) == pytest.approx(wanted @ np.linalg.solve(precision, wanted), rel=1e-9, abs=1e-12)
    shares = variance_shares(product)
    assert exact == sum((share * dict(measured.parts)[residual] for residual, share in shares.items()), Fraction(0))


@settings(deadline=None, max_examples=examples(25), phases=FOUND)
@given(st.lists(st.integers(-1000, 1000), min_size=24, max_size=24), variances, st.sampled_from([0, 1, 2, 3]))
def test_a_marginal_has_what_each_of_its_cells_has_alone(values, spreads, size):
    known = ExactResiduals().learn(measurement(spreads), values)
    chosen = WAYS[:size]
    cells, variance = known.marginal(chosen)
    assert cells.shape == SIZES[:size]
    for place in np.ndindex(cells.shape):
        ones = tuple(
            Factor(classing, tuple(int(other == here) for other in range(classing.number)))
            for classing, here in zip(chosen, place, strict=True)
        )
        alone = known.estimate(ones)
        assert cells[place] == pytest.approx(float(alone.value), rel=1e-9, abs=1e-9)
        assert variance == alone.variance


def test_a_second_measurement_is_weighed_with_the_first_one():
    spreads, further = (
        [Fraction(3, divisor) for divisor in range(1, 9)],
        [Fraction(number, 5) for number in range(2, 10)],
    )
    product = tuple(Factor(classing, tuple(range(1, classing.number + 1))) for classing in WAYS)
    first, second = measurement(spreads), measurement(further)
    known = ExactResiduals().learn(first, [0] * 24).learn(second, [0] * 24)
    joined = [1 / (1 / spread + 1 / other) for spread, other in zip(spreads, further, strict=True)]
    assert (
        known.estimate(product).variance
        == ExactResiduals().learn(measurement(joined), [0] * 24).estimate(product).variance
    )
    table = np.arange(24)
    exact = (lines(first.parts) @ table).tolist()
    again = ExactResiduals().learn(first, exact).learn(second, exact)
    assert again.estimate(product).value == int(dense(product) @ table)
    only_first, two = ExactResiduals().learn(first, [1] * 24), ExactResiduals().learn(second, [1] * 24)
    share = spreads[0] / (spreads[0] + further[0])
    top = only_first.learn(second, [2] * 24).rows[Residual()]
    assert only_first.rows[Residual()] == two.rows[Residual()] == 1
    assert top == 1 + share


def test_the_least_noise_may_be_measured_twice():
    """Two draws of scale 4 are averaged: each has half the weight, so that their mean may be narrower than one."""
    store = ResidualStore(total=None)
    for residual in SETS:
        for _ in range(3):
            store.add(residual, [0] * residual.number, Fraction(16))
    pattern = CountPattern(WAYS, tuple(1 for _ in WAYS))
    known = store.lookup(pattern)
    assert known is not None
    once = ResidualStore(total=None)
    for residual in SETS:
        once.add(residual, [0] * residual.number, Fraction(16))
    alone = once.lookup(pattern)
    assert alone is not None
    assert known.laws[0].variance == pytest.approx(alone.laws[0].variance / 3)
    assert store.cells(pattern) is not None
    assert all(answer is not None for answer in store.lookup_all([pattern] * 9))


def test_a_public_number_of_rows_has_no_variance():
    known = ExactResiduals.counting(700)
    assert known.estimate(()).value == 700
    assert known.estimate(()).variance == 0


def test_what_was_not_measured_is_not_told():
    ones = Factor(WAYS[1], (1, 0, 0))
    known = ExactResiduals().learn(ResidualMeasurement(DOMAIN, ((Residual(WAYS[1:2]), Fraction(1)),)), [3, 4])
    assert known.estimate((ones,)) is None
    assert known.marginal(WAYS[1:2]) is None
    assert known.estimate((Factor(WAYS[1], (2, -1, -1)),)).variance == 6  # it has no part in the number of rows


def test_values_of_another_number_are_refused():
    with pytest.raises(InvalidArgument, match="1 rows"):
        ExactResiduals().learn(ResidualMeasurement(DOMAIN, ((Residual(), Fraction(1)),)), [1, 2])


@pytest.mark.parametrize(
    "block",
    [
        Block(),
        Block(among(DOMAIN["sex"], [0, 2, 3])),
        Block(among(DOMAIN["sex"], [0]) & among(DOMAIN["age"], [0, 1, 4]), (), ConstantWeight(-3)),
        Block(among(DOMAIN["urgent"], [1]), (), Query.weighted(DOMAIN, {"sex": {"f": 2, "m": 5}}).blocks[0].weight),
        Block(among(DOMAIN["sex"], [1]), (), Query.weighted(DOMAIN, {"sex": {"f": 2, "m": 5}}).blocks[0].weight),
    ],
)
def test_a_block_is_read_as_a_product(block):
    product = block_product(block, {classing.attribute: classing for classing in WAYS})
    names = sorted(block.attributes)
    expected = np.broadcast_to(
        block_weights(block, product_axes(DOMAIN, names)), product_shape(DOMAIN, names) if names else ()
    )
    labelled = [np.array(factor.weights)[factor.classes.labels()] for factor in product]
    assert [factor.classes.attribute for factor in product] == names
    assert (reduce(np.multiply.outer, labelled, np.array(1)) == expected).all()


@pytest.mark.parametrize(
    "block",
    [
        Block(among(DOMAIN["age"], [0])),  # tells two cells of a class apart
        Block(disjunction(among(DOMAIN["sex"], [0]), among(DOMAIN["urgent"], [1]))),
        Block(EVERYTHING, Query.histogram(DOMAIN, "sex").blocks[0].keys),
        Block(EVERYTHING, (), column_weight(DOMAIN["age"])[0]),
        Block(EVERYTHING, (), ConstantWeight(2)),
    ],
)
def test_a_block_that_is_no_product_of_classes_is_told_apart(block):
    assert block_product(block, {classing.attribute: classing for classing in WAYS}) is None


def test_a_column_that_is_not_classed_makes_no_product():
    assert block_product(Block(among(DOMAIN["sex"], [0])), {"urgent": WAYS[2]}) is None


def test_residuals_are_released_as_any_measurement():
    """24 cells, each within 8 standard deviations of its count, which are below 1/2: false alarm below 10^-13."""
    schema = Schema.of("stays", *DOMAIN.attributes, size=5)
    codes = {"sex": ["f", "m", "m", None, "x"], "urgent": [True, True, False, False, None], "age": [0, 1, 2, 3, None]}
    source = MemorySource(schema, codes)
    ledger = memory.create_memory_ledger(
        LedgerTerms(
            datasets={"stays": schema.digest}, neighbours=schema.unit.neighbours, budget=Budget(10**4, "1e-6", "renyi")
        )
    )
    measured = measurement([Fraction(1, 400)] * len(SETS))
    receipt = ledger.reserve(measured.event(schema.unit), analyst=None, key=None, purpose=measured.purpose, version="1")
    released = release_measurement(measured, receipt, ledger=ledger, source=source, unit=schema.unit)
    cells, variance = ExactResiduals().learn(measured, [int(value) for value in released.values]).marginal(WAYS)
    expected = np.zeros(SIZES)
    for age, sex, urgent in ((0, 0, 0), (0, 1, 0), (1, 1, 1), (1, 2, 1), (2, 2, 1)):
        expected[age, sex, urgent] += 1
    room = 8 * float(variance) ** 0.5
    assert room < 0.5
    assert np.abs(cells - expected).max() < room
