"""Laws on bins: they give each value its share of its bin, and keep what was fitted of bins."""

import numpy as np
import pytest

from dodona.knowledge.binned import (
    BinnedLaw,
    RunCounts,
    average_runs,
    combine_levels,
    cut_bins,
    even_runs,
    run_variance,
)
from dodona.knowledge.cells import Support
from dodona.knowledge.factored import FactoredBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.query.predicate import EVERYTHING
from dodona.query.query import Block, Query
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

DOMAIN = Domain((Boolean("night", otherwise=False), Integer("age", 0, 9, otherwise=0)))
AGE, BINS = Partition.every(DOMAIN["age"], 1), Partition.cut(DOMAIN["age"], (0, 4, 5))
SHARES = np.array([0.02, 0.03, 0.0, 0.05, 0.4, 0.1, 0.1, 0.1, 0.1, 0.1])


def law() -> BinnedLaw:
    """Return a law of ages in three bins, most of them at night in the first, few in the others."""
    single = ObservedBlock.of_shares(Block(EVERYTHING, (AGE,)), SHARES, 1e-12)
    belief = FactoredBelief(Support.of(DOMAIN), 1 << 10).joined([single]).fitted(200)
    binned = BinnedLaw.of(belief, {"age": BINS}, {"age": SHARES})
    pair = Block(EVERYTHING, (Partition.every(DOMAIN["night"], 1), BINS))
    seen = ObservedBlock.of_shares(pair, np.array([0.01, 0.3, 0.4, 0.09, 0.1, 0.1]), 1e-12)
    return BinnedLaw(binned.support, binned.bins, binned.coarse.joined([seen]).fitted(200), binned.within)


def test_bins_hold_their_least_share_and_leave_frequent_values_alone():
    chance = np.random.default_rng(4)
    for _ in range(200):
        shares = chance.dirichlet(np.full(40, 0.2))
        cuts = cut_bins(shares, 0.05, (), 0.0)
        sums = np.add.reduceat(shares, cuts)
        assert cuts[0] == 0
        assert sums.min() >= 0.025
        assert cut_bins(shares, 0.0, (), 0.0) == tuple(range(40))


def test_even_runs_are_those_between_planted_steps():
    """Steps of 12 deviations are found; in about one in twenty of 100 seeded trials noise makes one step more."""
    chance = np.random.default_rng(5)
    density = np.repeat([0.004, 0.010, 0.0, 0.006], [60, 40, 80, 20])
    steps, right = np.flatnonzero(np.diff(density, prepend=-1)), 0
    for _ in range(100):
        right += even_runs(density + chance.normal(0, 0.0005, density.size), 0.0005) == (*steps.tolist(),)
    assert right >= 85
    assert even_runs(density, 1e-9) == (*steps.tolist(),)


def test_a_long_tail_without_rows_is_one_bin_with_hardly_any():
    """Noise at or above 0 in each of its values would add up to a tenth of the rows."""
    chance = np.random.default_rng(6)
    density, deviation = np.concatenate((np.full(50, 0.02), np.zeros(950))), 0.0005
    assert np.maximum(chance.normal(0, deviation, 950), 0).sum() > 0.1
    for _ in range(100):
        values = density + chance.normal(0, deviation, density.size)
        runs = even_runs(values, deviation)
        even = average_runs(values, runs)
        assert even[50:].sum() < 0.08  # five times what 950 draws add up to
        cuts = cut_bins(even, 0.002, runs, deviation)
        assert 50 in cuts
        assert len([cut for cut in cuts if cut >= 50]) < 40


def test_the_runs_of_many_values_are_found_several_at_once():
    density = np.repeat([1.0, 3.0], [20_000, 30_000]) / 110_000
    (first, second) = even_runs(density, 1e-9)
    assert first == 0
    assert abs(second - 20_000) <= 25
    assert average_runs(density, (0, 20_000)) == pytest.approx(density)


def test_a_marginal_of_values_is_that_of_bins_times_the_share_of_each_value():
    marginals = law().laws([(0, 1), (1,)])
    assert marginals[1,] == pytest.approx(SHARES, abs=1e-3)
    assert marginals[0, 1][1, :4] == pytest.approx(0.9 * SHARES[:4], abs=1e-3)
    asked = Query(DOMAIN, (Block(EVERYTHING, (Partition.every(DOMAIN["night"], 1), BINS)),))
    assert law().expect(asked) == pytest.approx([0.01, 0.3, 0.4, 0.09, 0.1, 0.1], abs=1e-3)


@pytest.mark.parametrize("independent", [False, True])
def test_rows_of_a_bin_are_spread_over_its_values(independent):
    """10,000 rows of the last bin, five values: evenly up to a row each, or within six deviations of 2,000."""
    binned = law()
    codes = {"night": np.zeros(10_000, dtype=np.int64), "age": np.full(10_000, 5)}
    made = binned.spread(codes, np.random.default_rng(1), independent=independent)
    counts = np.bincount(made["age"], minlength=10)
    assert counts[:5].sum() == 0
    assert np.abs(counts[5:] - 2_000).max() <= (240 if independent else 3)


def test_no_row_has_a_value_without_weight():
    made = law().sample(20_000, np.random.default_rng(2))
    assert np.bincount(made["age"], minlength=10)[2] <= 2
    assert np.bincount(made["age"], minlength=10) / 20_000 == pytest.approx(SHARES, abs=0.02)


def test_counts_of_runs_and_of_values_are_combined_by_least_squares():
    """Three levels over 12 values, each with noise: the estimate is that of the normal equations, written out."""
    chance = np.random.default_rng(4)
    cuts = [tuple(range(12)), (0, 3, 5, 9), (0, 5)]
    levels = [
        RunCounts(starts, chance.normal(0.1, 0.05, len(starts)), variance)
        for starts, variance in zip(cuts, (0.03, 0.01, 0.02), strict=True)
    ]
    sums = [
        np.array([np.searchsorted(level.cuts, range(12), side="right") - 1 == run for run in range(len(level.cuts))])
        for level in levels
    ]
    rows = np.concatenate([table / np.sqrt(level.variance) for table, level in zip(sums, levels, strict=True)])
    aims = np.concatenate([level.shares / np.sqrt(level.variance) for level in levels])
    expected = np.linalg.lstsq(rows, aims, rcond=None)[0]
    np.testing.assert_allclose(combine_levels(levels), expected, atol=1e-12)
    assert run_variance(levels, 0, 12, 12) == pytest.approx(2 * 0.02)
    assert run_variance(levels, 1, 9, 12) == pytest.approx(2 * 0.03 + 2 * 0.01)
    assert run_variance(levels, 2, 12, 12) == pytest.approx(0.03 + 0.01 + 0.02)
    estimated = np.linalg.inv(rows.T @ rows)
    for first, after in ((0, 12), (1, 9), (2, 12), (5, 9)):
        inside = (np.arange(12) >= first) & (np.arange(12) < after)
        assert inside @ estimated @ inside <= run_variance(levels, first, after, 12)


def test_marginals_in_runs_are_sums_of_those_of_values():
    """Runs of other values than the bins have, in both orders of the columns."""
    binned = law()
    fine = binned.expect(Query(DOMAIN, (Block(EVERYTHING, (Partition.every(DOMAIN["night"], 1), AGE)),))).reshape(2, 10)
    runs = Partition.cut(DOMAIN["age"], (0, 3, 7))
    night, sums = Partition.every(DOMAIN["night"], 1), np.add.reduceat(fine, (0, 3, 7), axis=1)
    for keys, wanted in (((night, runs), sums), ((runs, night), sums.T), ((runs,), sums.sum(axis=0))):
        shares = binned.expect(Query(DOMAIN, (Block(EVERYTHING, keys),)))
        np.testing.assert_allclose(shares, wanted.reshape(-1), atol=1e-12)


def test_there_are_no_more_bins_than_there_is_room_for():
    chance = np.random.default_rng(8)
    for most in (1, 3, 20):
        shares = chance.dirichlet(np.full(200, 0.5))
        cuts = cut_bins(shares, 1e-4, (0, 50, 90), 0.01, most=most)
        assert most / 3 <= len(cuts) <= most
    assert cut_bins(shares, 0.05, (), 0.0, most=200) == cut_bins(shares, 0.05, (), 0.0)
