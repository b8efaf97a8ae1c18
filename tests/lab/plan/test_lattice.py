"""Workloads of marginals: residuals and noise on every marginal, beside their prices and simulated noise."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dodona.lab.plan import Marginals, Setting, Unsuitable, promise_for
from dodona.lab.plan.lattice import _ratio
from dodona.schema.schema import Neighbours
from tests.lab.plan import brute


def setting(columns, ways, **sides: object):
    right = {"rows": 10_000, "epsilon": 1, "delta": "1e-6"}
    return Setting(**{**right, **sides}, workload=Marginals(columns, ways=ways))


def test_a_workload_counts_its_marginals_and_cells():
    workload = Marginals([2, 3, 5], ways=2)
    assert (workload.number, workload.questions, workload.cells) == (3, 6 + 10 + 15, 30)
    plan = setting([2, 3, 5], 2)
    assert (plan.questions, plan.cells) == (31, 30)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_residuals_are_scaled_to_the_price_and_every_cell_to_its_variance(neighbours):
    """One marginal of one column: n_i = (n + residual)/m, or without n where rows come and go; the price by hand."""
    plan = setting([4], 1, neighbours=neighbours)
    price = brute.rho(1.0, 1e-6)
    # A histogram of 4 cells: its Gaussian noise has squared distance 1, or 2 where a row is replaced. Residuals leave
    # the known number of rows out, which spares a quarter of the variance.
    distance = 1.0 if neighbours is Neighbours.ADD_REMOVE else 2 * 0.75
    variance = distance / (2 * price)
    error = math.sqrt(2 * variance * math.log(2 * 4 / 0.05))
    assert promise_for(plan, "residuals").within == pytest.approx(error / plan.rows, rel=2e-3)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_noise_on_every_marginal_costs_no_more_than_the_price(neighbours):
    """Both norms by brute force: all pairs of rows, all marginals."""
    columns, ways = [2, 3, 2], 2
    plan = setting(columns, ways, neighbours=neighbours)
    rows = list(np.ndindex(*columns))
    places = list(combinations(range(3), ways))

    def cells(row):
        return {(chosen, tuple(row[place] for place in chosen)) for chosen in places}

    if neighbours is Neighbours.ADD_REMOVE:
        moved = max(len(cells(row)) for row in rows)
    else:
        moved = max(len(cells(first) ^ cells(second)) for first in rows for second in rows)
    price = brute.rho(1.0, 1e-6)
    best = min(
        brute.laplace(1 / moved, plan.questions, 0.05),
        brute.gaussian(math.sqrt(moved / (2 * price)), plan.questions, 0.05),
    )
    assert promise_for(plan, "marginals").within * plan.rows == pytest.approx(best, abs=1.01)


def test_the_marginal_of_all_columns_is_the_histogram():
    assert float(_ratio(Marginals([2, 3, 2], ways=3), Neighbours.ADD_REMOVE)) == pytest.approx(1, rel=2e-3)


def test_residuals_promise_what_is_drawn():
    """All 2-way marginals of 5 bits from Walsh residuals of equal variances; 4,000 runs, passed in 5% at most.

    The allotted price is at most that of equal variances, and the promise holds for normal noise of the allotted kind.
    """
    bits, ways = 5, 2
    plan = setting([2] * bits, ways, neighbours=Neighbours.ADD_REMOVE)
    ratio = _ratio(plan.workload, Neighbours.ADD_REMOVE)
    subsets = [chosen for size in range(ways + 1) for chosen in combinations(range(bits), size)]
    # A cell of a 2-way marginal is the mean of 4 residual terms ±y_A/4·…: variance Σ_A σ_A²/4 over the 4 subsets, where
    # y_A is the signed count with variance σ_A²·2^|A|·2^-|A|; a row moves each y_A by 1.
    kinds = [math.comb(bits, size) for size in range(ways + 1)]
    used = [1, 2, 1]
    # Least Σ kinds/s with Σ used·s/16 = 1: s ∝ √(kinds/used).
    least = sum(math.sqrt(kind * use / 16) for kind, use in zip(kinds, used, strict=True)) ** 2
    assert float(ratio) == pytest.approx(least, rel=2e-3)
    scale = float(ratio) / (2 * brute.rho(1.0, 1e-6))
    spread = [math.sqrt(kind / (use / 16)) for kind, use in zip(kinds, used, strict=True)]
    unit = sum(use / 16 * variance for use, variance in zip(used, spread, strict=True))
    generator = np.random.default_rng(6)
    drawn = {
        chosen: generator.normal(scale=math.sqrt(spread[len(chosen)] / unit * scale), size=4000) for chosen in subsets
    }
    worst = np.zeros(4000)
    for chosen in combinations(range(bits), ways):
        for signs in ((0, 0), (0, 1), (1, 0), (1, 1)):
            error = (
                sum(
                    drawn[tuple(np.array(chosen)[list(part)])] * math.prod(-1 if signs[place] else 1 for place in part)
                    for size in range(ways + 1)
                    for part in combinations(range(ways), size)
                )
                / 4
            )
            worst = np.maximum(worst, np.abs(error))
    promise = promise_for(plan, "residuals").within * plan.rows
    assert (worst > promise).mean() < 0.06
    assert promise < 1.35 * np.quantile(worst, 0.95)


def test_residuals_beat_noise_on_every_marginal_and_the_histogram_on_many_bits():
    plan = setting([2] * 10, 3, rows=10**5)
    within = {name: promise_for(plan, name).within for name in ("residuals", "marginals", "histogram", "gaussian-zcdp")}
    assert min(within, key=within.get) == "residuals"
    assert within["marginals"] / within["residuals"] > 2


def test_too_many_residuals_are_refused_with_what_would_work():
    with pytest.raises(Unsuitable, match="fewer ways"):
        promise_for(setting([2] * 60, 5), "residuals")
    with pytest.raises(Unsuitable, match="marginals"):
        promise_for(Setting(rows=10, questions=3, epsilon=1, delta="1e-6"), "residuals")


def test_without_delta_marginals_get_laplace_noise():
    promise = promise_for(setting([2, 2], 1, delta=0), "marginals")
    assert promise.law.startswith("Laplace noise of scale 4")
    assert isinstance(_ratio(Marginals([2, 2], ways=1), Neighbours.REPLACE), Fraction)
