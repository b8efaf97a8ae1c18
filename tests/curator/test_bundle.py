"""Bundles keep what they promise: to every sum of a table, and to every product of a lattice, bought at once or not."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dodona
from dodona.answer.laws import GaussianSumBound
from dodona.curator.bundles import design_count_table, design_residuals, gaussian_variance_within, is_small_enough
from dodona.knowledge.patterns import CountPattern
from dodona.knowledge.residuals import ResidualStore
from dodona.knowledge.sides import SUM
from dodona.knowledge.tables import RowCount, count_law
from dodona.privacy.additive_noise import LARGEST_SCALE, Gaussian, Laplace
from dodona.privacy.budget import Budget
from dodona.privacy.measurement import ResidualMeasurement, worst_ratio
from dodona.query.residual import Classes, Residual
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Domain, Neighbours, Schema, Unit
from tests.house.shares import examples

FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
REPLACE, ADDED = Neighbours.REPLACE, Neighbours.ADD_REMOVE
DOMAIN = Domain((Boolean("a"), Category("b", ["x", "y", "z"]), Boolean("c"), Category("d", list(map(str, range(30))))))
CLASSES = tuple(Classes.of(attribute) for attribute in DOMAIN)
BITS = tuple(Classes.split(DOMAIN[name], 0b10) for name in ("a", "c"))


def told(measurement, size):
    """The law of each sum of a table, by how many counts are in it."""
    noise, rows = measurement.noises[0], RowCount(0.0, *measurement.noises[1:])
    return [count_law(size, number, noise, rows) for number in range(1, size + 1)]


@pytest.mark.parametrize("law", [Laplace, Gaussian])
@pytest.mark.parametrize(
    ("neighbours", "failing", "tolerance"),
    [
        (REPLACE, 0.05, 40.0),
        (REPLACE, 1e-3, 1000.0),
        (REPLACE, 1e-6, 5.0),
        (REPLACE, 1e-8, 12.0),
        (REPLACE, 1e-12, 400.0),
        (ADDED, 0.05, 300.0),
        (ADDED, 1e-12, 500.0),
    ],
)
@pytest.mark.parametrize("classes", [BITS[:1], CLASSES[:1], BITS, CLASSES[:2], (*BITS, CLASSES[1])])
def test_every_sum_of_a_table_is_within_its_room(law, neighbours, failing, tolerance, classes):
    size = math.prod(classing.number for classing in classes)
    design = design_count_table(DOMAIN, Unit.each_row(neighbours), classes, law, tolerance=tolerance, failing=failing)
    if design is None:  # no noise that is drawn is small enough
        assert tolerance <= 12
        return
    far = max(error.accuracy(1 - failing).within for error in told(design, size))
    assert 0.9 * tolerance < far <= tolerance


@pytest.mark.parametrize("law", [Laplace, Gaussian])
@pytest.mark.parametrize("failing", [1e-3, 1e-12])
def test_every_sum_of_a_larger_table_is_within_its_room(law, failing):
    design = design_count_table(DOMAIN, Unit.each_row(REPLACE), CLASSES, law, tolerance=2000.0, failing=failing)
    size = 4 * 5 * 4 * 32
    noise, rows = design.noises[0], RowCount(0.0)
    numbers = (*range(1, 200, 9), *range(200, size // 2 + 1, 53), size // 2)
    assert max(count_law(size, number, noise, rows).accuracy(1 - failing).within for number in numbers) <= 2000


def test_where_rows_are_added_their_number_is_measured_with_the_table():
    design = design_count_table(DOMAIN, Unit.each_row(ADDED), CLASSES[:2], Laplace, tolerance=300.0, failing=0.01)
    assert [block.values for block in design.query.blocks] == [20, 1]
    assert [
        block.values
        for block in design_count_table(
            DOMAIN, Unit.each_row(REPLACE), CLASSES[:2], Laplace, tolerance=9.0, failing=0.1
        ).query.blocks
    ] == [20]


@pytest.mark.parametrize("classes", [(), CLASSES[3:] * 1 + tuple(CLASSES[:3])])
def test_a_table_of_one_cell_or_of_too_many_is_not_made(classes):
    many = Domain(tuple(Category(f"c{place}", list(map(str, range(60)))) for place in range(4)))
    wide = tuple(Classes.of(attribute) for attribute in many) if classes else ()
    assert design_count_table(many, REPLACE, wide, Laplace, tolerance=1000.0, failing=0.05) is None


@settings(deadline=None, max_examples=examples(60), phases=FOUND)
@given(st.floats(5, 1e6), st.sampled_from([0.2, 0.05, 1e-3, 1e-6, 1e-12]))
def test_the_variance_of_a_bell_is_nearly_the_largest_that_is_within_the_room(tolerance, failing):
    variance = gaussian_variance_within(tolerance, failing)
    if variance == 0:
        assert GaussianSumBound(16.0, 1.0).accuracy(1 - failing).within > tolerance
    else:
        assert GaussianSumBound(variance * (1 + 2e-8), 1.0).accuracy(1 - failing).within <= tolerance
        assert GaussianSumBound(variance * 1.001, 1.0).accuracy(1 - failing).within > tolerance


targets = st.sets(
    st.tuples(*(st.integers(0, classing.number - 1) for classing in CLASSES[:3])), min_size=1, max_size=4
).map(
    lambda drawn: frozenset(
        tuple((classing, (1 << number) - 1) for classing, number in zip(CLASSES, numbers, strict=False) if number)
        for numbers in drawn
        if any(numbers)
    )
)


def bought(known, parts):
    """What is known once these residuals are measured, whatever they say."""
    for residual, variance in parts:
        known.add(residual, [0] * residual.number, float(variance))


@settings(deadline=None, max_examples=examples(40), phases=FOUND)
@given(targets, targets, st.sampled_from([REPLACE, ADDED]), st.floats(1, 20))
def test_a_lattice_meets_its_targets_and_tops_up_what_is_known(first, second, neighbours, tighter):
    known = ResidualStore(total=0 if neighbours is REPLACE else None)
    price = 0.0
    for wanted, variance in ((first, 4000.0), (first | second, 4000.0), (first | second, 4000.0 / tighter)):
        if not wanted:
            continue
        fresh = design_residuals(
            Unit.each_row(neighbours), wanted, variance, ResidualStore(total=0 if neighbours is REPLACE else None)
        )
        parts = design_residuals(Unit.each_row(neighbours), wanted, variance, known) or ()
        whole = worst_ratio(fresh, Unit.each_row(neighbours))
        topped = worst_ratio(parts, Unit.each_row(neighbours)) if parts else Fraction(0)
        assert topped <= whole  # what is known is never paid for again
        price += float(topped)
        bought(known, parts)
        if not parts and neighbours is ADDED:  # at most the number of rows is missing: it is bought as a count
            bought(known, [(Residual(()), Fraction(1, 1000))])
        for sides in wanted:
            pattern = CountPattern(tuple(classing for classing, _ in sides), tuple(members for _, members in sides))
            assert known.lookup(pattern).laws[0].variance <= variance * (1 + 2e-8)
    assert design_residuals(Unit.each_row(neighbours), first | second, 4000.0 / tighter, known) is None or not (
        first | second
    )


def test_sets_of_the_same_sizes_have_the_same_variance_as_the_one_that_stands_for_them():
    known = ResidualStore(total=0)
    bought(
        known,
        design_residuals(Unit.each_row(REPLACE), frozenset((((CLASSES[0], 0b11), (CLASSES[1], 0b111)),)), 500.0, known),
    )
    variances = {
        round(
            known.lookup(
                CountPattern(CLASSES[:2], (sum(1 << code for code in first), sum(1 << code for code in other)))
            )
            .laws[0]
            .variance,
            6,
        )
        for first in combinations(range(4), 2)
        for other in combinations(range(5), 3)
    }
    assert len(variances) == 1
    assert max(variances) <= 500


def test_residuals_whose_shortest_rows_would_get_draws_below_scale_4_are_not_bought():
    wide = frozenset((((CLASSES[3], (1 << 16) - 1),),))
    assert design_residuals(Unit.each_row(REPLACE), wide, 16.0, ResidualStore(total=0)) is None
    parts = design_residuals(Unit.each_row(REPLACE), wide, 16.0 * 8, ResidualStore(total=0))
    assert all(float(variance) * 2 >= 16 for _, variance in parts)


def test_nothing_is_bought_for_no_target_for_too_many_and_below_what_is_drawn():
    target = frozenset((((CLASSES[0], 0b1),),))
    many = frozenset(((classing, 1),) for classing in (Classes.split(DOMAIN["d"], codes) for codes in range(1, 4099)))
    known = ResidualStore(total=0)
    assert design_residuals(Unit.each_row(REPLACE), frozenset(), 400.0, known) is None
    assert design_residuals(Unit.each_row(REPLACE), target, 15.9, known) is None
    assert design_residuals(Unit.each_row(REPLACE), many, 400.0, known) is None
    assert np.isfinite(
        float(worst_ratio(design_residuals(Unit.each_row(REPLACE), target, 400.0, known), Unit.each_row(REPLACE)))
    )


def test_residuals_with_very_many_rows_are_not_bought():
    """Measuring 2^16 rows takes a second, however many lengths they have."""
    few, some, many = (
        [Classes.of(Category("abc"[place], [str(n) for n in range(size)], otherwise="0")) for place in range(3)]
        for size in (4, 31, 41)
    )
    assert is_small_enough([tuple(few)])
    assert is_small_enough([tuple(some)])
    assert not is_small_enough([tuple(many)])
    assert is_small_enough([(classing,) for classing in many])


def test_all_triples_of_ten_small_columns_may_be_bought():
    classings = [Classes.of(Category(f"c{place}", ["no", "yes"])) for place in range(10)]
    assert is_small_enough(list(combinations(classings, 3)))


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
def test_a_workload_may_have_residuals_that_are_too_many_for_one_question():
    """220 tables of three of twelve columns have 75,460 rows of residuals, which cost three fifths of single tables."""
    names = [f"c{number:02}" for number in range(12)]
    schema = Schema.of("t", *[Category(name, list("abcdefg"), otherwise="a") for name in names], size=50_000)
    frame = pa.table({name: ["a"] * 3 for name in names})
    curator = dodona.open(frame, schema=schema, budget=Budget(50, "1e-9", "renyi"))
    texts = [
        f"SELECT {', '.join(triple)}, count(*) FROM t GROUP BY {', '.join(triple)}"  # noqa: S608  names from above
        for triple in combinations(names, 3)
    ]
    offer = curator.quote(texts, within=500)
    assert "residuals" in offer.mechanism
    alone = [curator.quote(text, within=500).price.share for text in texts[:1]]
    assert offer.price.share < len(texts) * alone[0] * Fraction(3, 5)


def test_what_is_hardly_missing_of_large_numbers_is_bought_with_noise_that_can_be_drawn():
    cost = Integer("cost", 0, 4_000_000)
    summed = Classes.summed(cost)
    assert summed is not None
    unit, targets, none = Unit.each_row(ADDED), frozenset([((summed, SUM),)]), ResidualStore(total=None)
    first = design_residuals(unit, targets, 1e8, none)
    assert first is not None
    known = none.expecting(
        [(residual, variance * Fraction(1_000_001, 10**6)) for residual, variance in first], fixed=False
    )
    more = design_residuals(unit, targets, 1e8, known)
    assert more is not None
    noises = ResidualMeasurement(Domain((cost,)), more).noises
    assert max(noise.scale for noise in noises) <= LARGEST_SCALE
    assert max(noise.scale for noise in noises) > LARGEST_SCALE * 0.99
