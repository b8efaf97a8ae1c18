"""Bounds of the noise that hold for all combinations of released numbers at once."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from dodona.answer.laws import GaussianSumBound, ModelLaw, NoiseSum
from dodona.answer.view import bound_combinations, description_length
from dodona.errors import InvalidRequest
from dodona.lab import direct
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.privacy.measurement import DrawCounts
from dodona.query.predicate import Among, And, Or
from dodona.query.query import Block, ValueWeight
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

FALSE_ALARM = 1e-6
FAILING = 0.05


def most_failures(trials: int) -> int:
    """Failures that a promise of 95% passes with probability at most 10^-6."""
    return int(binom.isf(FALSE_ALARM, trials, FAILING))


@pytest.mark.parametrize(
    "noise", [Laplace(scale=Fraction(1, 2)), Laplace(scale=20), Gaussian(scale=1), Gaussian(scale=20)]
)
@pytest.mark.parametrize("number", [1, 3, 64, 500])
def test_the_largest_combination_of_draws_stays_within_reach(noise, number):
    """2,000 tables of draws each; the weights are the worst for each table; false alarm 10^-6 a case."""
    trials = 2_000
    z = np.abs(direct.run(noise, np.zeros((trials * number,), dtype=np.int64)).reshape(trials, number)).astype(float)
    laplace = isinstance(noise, Laplace)
    reach = bound_combinations(DrawCounts(laplace=number) if laplace else DrawCounts(gaussian=number), FAILING)
    half = max(1, number // 2)
    largest = np.sort(z, axis=1)[:, ::-1]
    failed = np.zeros(trials, dtype=bool)
    for count in {1, half, number}:  # the largest so many draws, with their signs
        failed |= largest[:, :count].sum(axis=1) > reach.within(NoiseSum.of(np.ones(count), noise))
    if not laplace:  # weights along the noise itself are the worst for squares
        scale = float(noise.scale)
        failed |= (z**2).sum(axis=1) > np.sqrt((z**2).sum(axis=1)) * scale * reach.squares
    else:
        failed |= z.sum(axis=1) / float(noise.scale) > reach.sums
    assert failed.sum() <= most_failures(trials)


@pytest.mark.parametrize("number", [1, 2, 64, 65, 10_000])
def test_the_bounds_are_not_far_from_what_one_law_needs(number):
    """A bound that promised all would be as wide as one likes: these are within a half of the quantile at one time."""
    from scipy.stats import chi2, gamma

    reach = bound_combinations(DrawCounts(laplace=number, gaussian=number), FAILING)
    assert chi2.isf(FAILING, number) <= reach.squares**2
    assert gamma.isf(FAILING, number) <= reach.sums
    if number > 2:
        assert reach.squares**2 <= 1.6 * chi2.isf(FAILING, number)
        assert reach.sums <= 1.6 * gamma.isf(FAILING, number)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1, 2), 1, 3, 50])
def test_the_bounds_of_one_draw_hold_for_the_exact_discrete_laws(scale):
    """The moment generating functions of |z|/b and (z/σ)², summed over the law itself, and both tails."""
    laplace, gaussian = Laplace(scale=scale), Gaussian(scale=scale)
    width = float(scale)
    steps, near = (np.arange(-math.ceil(far * width) - 3, math.ceil(far * width) + 4) for far in (60, 14))
    for s in (0.1, 0.4):
        assert sum(laplace.probability(int(k)) * math.exp(s * abs(k) / width) for k in steps) <= 1 / (1 - s) + 1e-9
        squares = sum(gaussian.probability(int(k)) * math.exp(s * (k / width) ** 2) for k in near)
        assert squares <= (1 - 2 * s) ** -0.5 + 1e-9
    for x in (0.3, 1.0, 2.5, 6.0):
        assert sum(laplace.probability(int(k)) for k in steps if abs(k) > x * width) <= 2 * math.exp(-x) + 1e-12
        assert sum(gaussian.probability(int(k)) for k in near if abs(k) > x * width) <= 2 * math.exp(-x * x / 2) + 1e-12


def test_more_draws_reach_farther_and_what_may_fail_is_never_spent_twice():
    reaches = [
        bound_combinations(DrawCounts(laplace=number, gaussian=number), FAILING)
        for number in (1, 2, 3, 4, 7, 8, 100, 10**6)
    ]
    assert [reach.squares for reach in reaches] == sorted(reach.squares for reach in reaches)
    assert [reach.sums for reach in reaches] == sorted(reach.sums for reach in reaches)
    assert sum(1 / (level * (level + 1)) for level in range(1, 100_000)) < 1


def test_a_sum_of_both_laws_is_bounded_by_both_and_what_is_known_is_exact():
    reach = bound_combinations(DrawCounts(laplace=10, gaussian=10), FAILING)
    laplace, gaussian = NoiseSum.of([1.0, 1.0], Laplace(scale=5)), NoiseSum.of([0.5], Gaussian(scale=9))
    both = NoiseSum((*laplace.terms, *gaussian.terms))
    assert reach.within(both) == pytest.approx(reach.within(laplace) + reach.within(gaussian))
    assert reach.within(NoiseSum(())) == 0
    assert reach.within(GaussianSumBound(400.0, 1.0)) == pytest.approx(20 * reach.squares)


def test_a_prediction_has_no_interval_for_any_choice():
    with pytest.raises(InvalidRequest, match="fresh=True"):
        bound_combinations(DrawCounts(laplace=1), FAILING).within(ModelLaw(3.0))


def test_descriptions_of_all_counts_of_a_small_domain_leave_room_for_one_another():
    """Kraft's inequality: all sets of each column in all orders, all groupings by up to two columns, all values."""
    domain = Domain((Boolean("a", otherwise=False), Integer("b", 0, 2, bins=[0, 1, 2], otherwise=0)))
    sets = [
        [Among(attribute.name, attribute.cells, codes) for codes in range(1 << attribute.cells)] for attribute in domain
    ]
    conditions = [And(()), *(And((clause,)) for clauses in sets for clause in clauses)]
    conditions += [And((clause, other)) for clause in sets[0] for other in sets[1]]
    conditions += [And((other, clause)) for clause in sets[0] for other in sets[1]]
    partitions = [Partition.of(domain["a"]), Partition.of(domain["b"]), Partition("b", 3, (0, 1, 2), 0)]
    grouped = [
        (),
        *((partition,) for partition in partitions),
        *((partition, other) for partition in partitions for other in partitions),
    ]
    total = 0.0
    for where in conditions:
        for keys in grouped:
            block = Block(where, keys)
            total += block.values * math.exp(-description_length(block, domain))
    assert 0.1 < total <= 1


def test_what_is_no_count_of_a_set_for_each_column_has_no_description():
    domain = Domain((Boolean("a"), Integer("b", 0, 9)))
    clause, other = Among("b", 12, 1), Among("a", 4, 2)
    for block in (
        Block(Or((clause, other))),
        Block(And((clause, Among("b", 12, 3)))),
        Block(clause, (), ValueWeight("b", 10, 0, 1)),
        Block(clause, (Partition("b", 10, (0, 7)),)),
    ):
        assert description_length(block, domain) == math.inf
    short, long = Block(clause), Block(Among("b", 12, 0b101101))
    assert description_length(short, domain) < description_length(long, domain) < math.inf
