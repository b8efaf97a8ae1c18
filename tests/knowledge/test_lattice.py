"""A lattice of residuals tells in doubles what exact fractions tell, whatever was measured, and however often."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dodona.knowledge.patterns import CountPattern, class_mask
from dodona.knowledge.residuals import Factor, ResidualStore
from dodona.lab.residuals import ExactResiduals
from dodona.privacy.measurement import ResidualMeasurement
from dodona.query.bases import Base, base_rows
from dodona.query.residual import Classes, Residual
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Domain
from tests.house.shares import examples

FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
DOMAIN = Domain((Integer("age", 0, 5, bins=[0, 2, 4, 5]), Category("sex", ["f", "m"]), Boolean("urgent")))
WAYS = (
    (Classes.of(DOMAIN["age"]), Classes("age", 8, (0b11, 0b1100, 0b110000, 0b1000000, 0b10000000))),
    (Classes.of(DOMAIN["sex"]), Classes("sex", 4, (0b0001, 0b1110))),
    (Classes.split(DOMAIN["urgent"], 0b10), Classes("urgent", 4, (1, 2, 12))),
)
shapes = st.tuples(*(st.sampled_from(ways) for ways in WAYS))
variances = st.fractions(120, 10**6, max_denominator=100)  # noise of scale 4 and up, measured up to seven times


def subsets(classes):
    return [Residual(inner) for size in range(len(classes) + 1) for inner in combinations(classes, size)]


@st.composite
def measured(draw):
    """A lattice and exact knowledge that have seen the same: all residuals, and some of them again."""
    classes = draw(shapes)
    public = draw(st.booleans())
    total = draw(st.integers(0, 10**6))
    lattice = ResidualStore(total=total if public else None)
    known = ExactResiduals.counting(total) if public else ExactResiduals()
    every = [residual for residual in subsets(classes) if residual.classes or not public]
    again = draw(st.lists(st.sampled_from(every), max_size=6))
    for residual in (*every, *again):
        variance = draw(variances)
        values = draw(st.lists(st.integers(-(10**6), 10**6), min_size=residual.number, max_size=residual.number))
        lattice.add(residual, values, float(variance))
        known = known.add_residual(residual, values, variance)
    return classes, lattice, known


@settings(deadline=None, max_examples=examples(60), phases=FOUND)
@given(measured(), st.data())
def test_a_product_is_told_as_by_exact_fractions(scene, data):
    classes, lattice, known = scene
    kept = sorted(data.draw(st.sets(st.integers(0, 2), min_size=1)))
    sides = tuple(classes[place] for place in kept)
    sets = tuple(data.draw(st.integers(1, (1 << side.number) - 2)) for side in sides)
    estimate = lattice.lookup(CountPattern(sides, sets))
    exact = known.estimate(
        tuple(
            Factor(side, tuple(class_mask(side, inner).astype(int).tolist()))
            for side, inner in zip(sides, sets, strict=True)
        )
    )
    assert estimate.values[0] == pytest.approx(float(exact.value), rel=1e-9, abs=1e-4)  # numbers up to 10^6 cancel
    assert estimate.laws[0].variance == pytest.approx(float(exact.variance), rel=3e-9)


@settings(deadline=None, max_examples=examples(40), phases=FOUND)
@given(measured(), st.data())
def test_many_products_are_told_together_as_each_is_alone(scene, data):
    classes, lattice, _ = scene
    patterns = [CountPattern((WAYS[0][0], Classes("other", 2, (1, 2))), (1, 1))] * 6  # never measured
    for kept in data.draw(st.lists(st.sets(st.integers(0, 2)).map(sorted), max_size=4)):
        sides = tuple(classes[place] for place in kept)
        for _ in range(data.draw(st.integers(1, 6))):  # fewer than some are told one by one
            patterns.append(
                CountPattern(sides, tuple(data.draw(st.integers(0, (1 << side.number) - 1)) for side in sides))
            )
    patterns = data.draw(st.permutations([*patterns, CountPattern(classes, None)]))
    for pattern, estimate in zip(patterns, lattice.lookup_all(patterns), strict=True):
        alone = lattice.lookup(pattern)
        assert (estimate is None) == (alone is None)
        if estimate is not None and alone is not None:
            assert estimate.values[0] == pytest.approx(alone.values[0], rel=1e-9, abs=1e-4)
            assert estimate.laws == alone.laws


@settings(deadline=None, max_examples=examples(40), phases=FOUND)
@given(measured(), st.data())
def test_the_cells_of_a_marginal_are_told_as_by_exact_fractions(scene, data):
    classes, lattice, known = scene
    kept = sorted(data.draw(st.sets(st.integers(0, 2), min_size=1)))
    sides = tuple(classes[place] for place in kept)
    estimate = lattice.cells(CountPattern(sides, None, grouped=True))
    table, exact = known.marginal(sides)
    assert estimate.values == pytest.approx(table.reshape(-1), rel=1e-9, abs=1e-4)
    assert estimate.laws[0].variance == pytest.approx(float(exact), rel=3e-9)


@settings(deadline=None, max_examples=examples(30), phases=FOUND)
@given(shapes, st.data())
def test_no_draw_is_multiplied_by_more_than_the_reach(classes, data):
    """Each number that was measured is raised by one, and the answer moves by its factor."""
    sets = tuple(data.draw(st.integers(1, (1 << classing.number) - 2)) for classing in classes)
    pattern, every = CountPattern(classes, sets), subsets(classes)
    factors = []
    for residual in every:
        for place in range(residual.number):
            lattice = ResidualStore(total=None)
            for other in every:
                lattice.add(other, [int(other == residual and place == row) for row in range(other.number)], 1e4)
            factors.append(abs(lattice.lookup(pattern).values[0]))
    assert lattice.lookup(pattern).laws[0].reach == pytest.approx(max(factors), rel=1e-9)
    assert max(factors) <= 1


def test_a_second_measurement_keeps_its_digits_beside_a_far_worse_first_one():
    classes = (Classes.split(DOMAIN["urgent"], 0b10),)
    lattice = ResidualStore(total=0)
    lattice.add(Residual(classes), [10**6], 1e14)
    lattice.add(Residual(classes), [3], 1.0)
    assert lattice.variance(Residual(classes)) == pytest.approx(1 / (1 + 1e-14), rel=1e-15)
    assert lattice.version == 2


def test_what_was_not_measured_is_not_told():
    first, second = WAYS[1][0], WAYS[2][0]
    lattice = ResidualStore(total=100)
    assert lattice.lookup(CountPattern((first,), (1,))) is None
    lattice.add(Residual((first,)), [1] * (first.number - 1), 200.0)
    assert lattice.lookup(CountPattern((first,), (1,))) is not None
    assert lattice.lookup(CountPattern((first, second), (1, 1))) is None
    assert lattice.cells(CountPattern((first, second), None, grouped=True)) is None
    assert lattice.lookup(CountPattern((first,), None)) is None
    assert lattice.variance(Residual((second,))) == float("inf")


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_what_is_told_without_noise_is_exact(size):
    classes = tuple(ways[0] for ways in WAYS[:size])
    shape = [classing.number for classing in classes]
    table = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    lattice = ResidualStore(total=int(table.sum()))
    for residual in subsets(classes)[1:]:
        marginal = table.sum(
            axis=tuple(axis for axis, classing in enumerate(classes) if classing not in residual.classes)
        )
        lattice.add(residual, residual.turned(marginal.reshape(-1)).tolist(), 20.0)
    assert lattice.cells(CountPattern(classes, None, grouped=True)).values == pytest.approx(table.reshape(-1))


def test_residuals_come_back_from_their_text_in_the_order_they_were_measured():
    """A lattice that is read again from a ledger gets the same rows in the same places."""
    classes = (WAYS[0][0], WAYS[1][0])
    measured = ResidualMeasurement(DOMAIN, tuple((residual, Fraction(3)) for residual in subsets(classes)), "LATTICE")
    table = np.arange(measured.query.values) % 7
    turned = measured.turned(table)
    start = rows = 0
    for residual, _ in measured.parts:
        shape = [classing.number for classing in residual.classes]
        marginal = table[start : start + int(np.prod(shape))].reshape(shape)
        for axis, size in enumerate(shape):
            marginal = np.moveaxis(np.tensordot(base_rows(Base.POINTS, size), marginal, axes=(1, axis)), 0, axis)
        assert turned[rows : rows + residual.number].tolist() == marginal.reshape(-1)[residual.order()].tolist()
        start, rows = start + int(np.prod(shape)), rows + residual.number
    assert len(turned) == len(measured.noises) == rows
