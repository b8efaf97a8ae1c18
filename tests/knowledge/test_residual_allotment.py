"""Noise is allotted so that targets are met, at the least price there is."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.knowledge.residuals import Factor, VarianceTarget, allot_variances, variance_shares
from dodona.lab.residuals import ExactResiduals
from dodona.privacy.measurement import ResidualMeasurement, squared_move_added, worst_ratio
from dodona.query.residual import Classes
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Domain, Neighbours, Unit
from tests.house.shares import examples

DOMAIN = Domain((Category("sex", ["f", "m"]), Boolean("urgent"), Integer("age", 0, 2)))
WAYS = tuple(Classes.of(attribute) for attribute in DOMAIN)
products = st.sets(st.sampled_from(range(3)), min_size=1).flatmap(
    lambda chosen: st.tuples(
        *(
            st.lists(st.integers(-2, 3), min_size=WAYS[place].number, max_size=WAYS[place].number)
            .filter(any)
            .map(lambda weights, own=WAYS[place]: Factor(own, tuple(weights)))
            for place in sorted(chosen)
        )
    )
)
targets = st.builds(
    VarianceTarget, products, st.fractions(min_value=Fraction(1, 10), max_value=1000, max_denominator=10)
)


def error(parts, target):
    known = dict(parts)
    shares = variance_shares(target.product)
    return sum((share * known[residual] for residual, share in shares.items() if residual in known), Fraction(0))


@settings(deadline=None, max_examples=examples(50), phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(targets)
def test_one_target_is_met_exactly_at_the_price_of_the_closed_form(target):
    parts = allot_variances([target], Unit.each_row(Neighbours.ADD_REMOVE))
    assert error(parts, target) <= target.variance
    assert float(error(parts, target) / target.variance) > 1 - 1e-6
    least = (
        sum(
            math.sqrt(squared_move_added(residual) * share)
            for residual, share in variance_shares(target.product).items()
        )
        ** 2
    )
    assert float(worst_ratio(parts, Unit.each_row(Neighbours.ADD_REMOVE))) == pytest.approx(
        least / float(target.variance), rel=1e-6
    )
    known = ExactResiduals().learn(
        ResidualMeasurement(DOMAIN, parts), [0] * len(ResidualMeasurement(DOMAIN, parts).noises)
    )
    assert known.estimate(target.product).variance == error(parts, target)


@settings(deadline=None, max_examples=15, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.lists(targets, min_size=2, max_size=4), st.sampled_from(Neighbours), st.integers(0, 2**32 - 1))
def test_no_other_allotment_that_meets_all_targets_costs_less(wanted, relation, seed):
    """40 random ones around it, none of which may be cheaper by more than two thousandths."""
    if not any(residual.classes for target in wanted for residual in variance_shares(target.product)):
        return
    parts = allot_variances(wanted, Unit.each_row(relation))
    assert all(error(parts, target) <= target.variance for target in wanted)
    price = worst_ratio(parts, Unit.each_row(relation))
    rng = np.random.default_rng(seed)
    for _ in range(40):
        moved = [(residual, value * Fraction(float(np.exp(rng.normal(0, 0.2))))) for residual, value in parts]
        over = max(error(moved, target) / target.variance for target in wanted)
        other = worst_ratio([(residual, value / over) for residual, value in moved], Unit.each_row(relation))
        assert float(price) <= float(other) * 1.002


def test_conjunctions_of_ten_bits_are_allotted_as_well_as_is_known():
    """All one-, two- and three-way conjunctions with variance 1; known were rows of variance 4, 7.6 and 29.2."""
    domain = Domain(tuple(Boolean(f"b{place}") for place in range(10)))
    ways = [Classes.split(attribute, 0b10) for attribute in domain]
    wanted = [
        VarianceTarget(tuple(Factor(classing, (1, 0)) for classing in chosen), Fraction(1))
        for size in (1, 2, 3)
        for chosen in combinations(ways, size)
    ]
    parts = allot_variances(wanted, Unit.each_row(Neighbours.REPLACE))
    assert all(error(parts, target) <= 1 for target in wanted)
    known = {1: Fraction(4, 2), 2: Fraction(76, 40), 3: Fraction(292, 80)}
    reference = worst_ratio(
        [(residual, known[len(residual.classes)]) for residual, _ in parts], Unit.each_row(Neighbours.REPLACE)
    )
    assert float(worst_ratio(parts, Unit.each_row(Neighbours.REPLACE))) <= 1.001 * float(reference)
    assert float(reference) == pytest.approx(2 * 13.2, rel=0.02)


def test_a_public_number_of_rows_is_not_bought():
    target = VarianceTarget((Factor(WAYS[0], (1, 0, 0, 0)),), Fraction(9))
    ((residual, variance),) = allot_variances([target], Unit.each_row(Neighbours.REPLACE))
    assert residual.attributes == ("sex",)
    assert float(variance) == pytest.approx(12, rel=1e-6)  # its share is 3/4


@pytest.mark.parametrize("wanted", [[], [VarianceTarget((), Fraction(1))]])
def test_targets_that_are_known_already_are_refused(wanted):
    with pytest.raises(InvalidArgument, match="not known already"):
        allot_variances(wanted, Unit.each_row(Neighbours.REPLACE))


@pytest.mark.parametrize("variance", [0, -1, 0.5, True])
def test_a_target_that_is_no_variance_is_refused(variance):
    with pytest.raises(InvalidArgument, match="fraction above 0"):
        VarianceTarget((), variance)
