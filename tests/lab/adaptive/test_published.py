"""The published transfers hold in worlds that are written out, and ours is sharper."""

import math
from itertools import product

import numpy as np
import pytest

from dodona.lab.adaptive.published import information_gap, jung_gap, jung_noise, plain_gaussian
from dodona.lab.adaptive.transfer import gaussian_transfer
from dodona.lab.mechanisms import Gaussian
from tests.lab.adaptive.worlds import World, worlds


def information(world: World) -> tuple[float, float]:
    """The exact mutual information of sample and answer, and E[max over queries of E[(q(S) - q(P))² | answer]]."""
    weights = np.array([np.prod(world.letters[list(s)]) for s in world.samples])
    joint = weights[:, None] * world.answers
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log(world.answers / world.told), 0.0)
    queries = np.array(list(product((0, 1), repeat=len(world.letters))))
    shares = np.array([np.bincount(s, minlength=len(world.letters)) / world.rows for s in world.samples])
    squared = ((shares - world.letters) @ queries.T) ** 2
    return float(terms.sum()), float((joint.T @ squared).max(axis=1).sum())


def test_mutual_information_is_at_most_the_price_times_the_rows_and_bounds_the_squared_gap():
    for world in worlds(9, 60):
        if world.rho == math.inf:
            continue
        shared, gap = information(world)
        assert shared <= world.rho * world.rows + 1e-12
        for part in (0.3, 0.6, 0.9):
            assert gap <= (2 * shared - math.log1p(-part)) / (4 * world.rows * part) + 1e-12


def test_the_gap_by_information_is_the_best_part_of_its_formula():
    rows, queries, scale, failing = 10_000, 50, 0.02, 0.03
    rho = queries / (2 * (rows * scale) ** 2)
    plain = min((2 * rho * rows - math.log1p(-part)) / part for part in np.linspace(0.01, 0.999, 5000))
    gap = information_gap(rows=rows, queries=queries, scale=scale, failing=failing)
    assert gap == pytest.approx(math.sqrt(plain / (4 * rows * failing)), rel=1e-5)


def test_the_published_form_of_jung_holds_and_ours_is_sharper():
    for world in worlds(10, 40):
        for gap, chance in world.tails()[:3]:
            for epsilon in (0.1, 0.5, 1.0):
                assert gap <= math.expm1(epsilon) + 2 * world.delta(epsilon) / chance + 1e-12
    for mu, failing in ((0.01, 0.05), (0.1, 0.025), (0.3, 0.04)):
        assert gaussian_transfer(mu, failing=failing) < 0.5 * jung_gap(mu, failing=failing)


def test_the_noise_of_jung_costs_more_than_its_quantile():
    noise = jung_noise(scale=0.01, answers=100, failing=0.02)
    chances = np.geomspace(1e-6, 1, 4000)
    from statistics import NormalDist

    plain = min(c - 0.01 * NormalDist().inv_cdf(min(0.5, c * 0.02 / 200)) for c in chances)
    assert noise == pytest.approx(plain, rel=1e-4)


@pytest.mark.parametrize("scale", ["1/2", "1", "7"])
def test_discrete_draws_are_within_the_plain_bound(scale):
    law = Gaussian(scale=scale)
    for failing in (0.2, 1e-3, 1e-6):
        within = plain_gaussian(scale=float(law.scale), answers=1, failing=failing)
        assert sum(law.probability(x) for x in range(-400, 401) if abs(x) > within) <= failing
