"""Fits visit one block after the other, and reach what Newton's method on the whole reaches."""

import math

import numpy as np
import pytest

from dodona.knowledge.components import ComponentBelief
from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.fit import Observation, refit
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.query.query import Block, Query
from dodona.sql.compile import compile_sql
from dodona.synth.fit import ANCHOR, FitState, ObservedBlock, _solve_multipliers
from dodona.synth.workload import Workload, marginal_block
from tests.synth.scene import columns, schema

SCHEMA = schema()
DOMAIN = SCHEMA.domain
SIZE = 4_000


def counts(block: Block, seed: int, scale: float) -> list[int]:
    from dodona.engines.answers import answer_block
    from dodona.schema.encoding import encode

    codes = {name: encode(DOMAIN[name], held) for name, held in columns().items()}
    exact = np.asarray(answer_block(block, codes, counts=None, rows=SIZE))
    noise = np.random.default_rng(seed).normal(0, scale, exact.size)
    return [int(value) for value in np.rint(exact + noise)]


@pytest.mark.parametrize("outside", [0.0, 0.3])
def test_the_best_multipliers_of_a_block_solve_its_equations(outside: float):
    chance = np.random.default_rng(1)
    base = chance.dirichlet(np.ones(7)) * (1 - outside)
    values = base + chance.normal(0, 0.05, 7)
    values += 0 if outside else (1 - values.sum()) / 7
    multipliers, answers = _solve_multipliers(np.log(base), values, 0.02, outside)
    np.testing.assert_allclose(answers, values - 0.02 * multipliers, atol=1e-12)
    weights = base * np.exp(multipliers)
    np.testing.assert_allclose(answers, weights / (weights.sum() + outside), atol=1e-9)


@pytest.mark.parametrize("belief", [DenseBelief, ComponentBelief])
def test_visiting_blocks_in_turn_reaches_the_fit_of_all_at_once(belief: type[DenseBelief] | type[ComponentBelief]):
    sets = [["sex", "ward"], ["ward", "days"], ["days", "emergency"], ["sex"]]
    blocks = [marginal_block(DOMAIN, names) for names in sets]
    workload = Workload.marginals(DOMAIN, sets)
    scale = 20.0
    seen = [
        ObservedBlock.of(block, counts(block, place, scale), Gaussian(scale=20), size=SIZE)
        for place, block in enumerate(blocks)
    ]
    fitted = FitState(belief.uniform(workload.support)).joined(seen).swept(400, tolerance=1e-12)
    # The same function, all of it at once: shares that add up to 1, as the visits take them.
    told = [one.values + (1 - one.values.sum()) / one.values.size for one in seen]
    observed = [
        Observation.of(workload.over([block]), values, deviation=scale / SIZE)
        for block, values in zip(blocks, told, strict=True)
    ]
    whole = refit(belief.uniform(workload.support), observed, anchor=ANCHOR * SIZE / scale, tolerance=1e-4).belief
    query = workload.over([marginal_block(DOMAIN, DOMAIN.names)])
    np.testing.assert_allclose(fitted.belief.expect(query), whole.expect(query), atol=2e-5)


def test_counts_of_some_rows_are_fitted_beside_marginals():
    block = compile_sql("SELECT count(*) FROM stays WHERE days >= 2 AND emergency", SCHEMA).query.blocks[0]
    workload = Workload(Query(DOMAIN, (block, marginal_block(DOMAIN, ["sex", "ward"]))))
    seen = [ObservedBlock.of(one, counts(one, 5, 1.0), Laplace(scale=1), size=SIZE) for one in workload.query.blocks]
    fitted = FitState(DenseBelief.uniform(workload.support)).joined(seen).swept(50)
    for one in seen:
        np.testing.assert_allclose(fitted.belief.expect(workload.over([one.block])), one.values, atol=3e-3)


def test_two_measurements_of_a_block_count_by_their_precision():
    block = marginal_block(DOMAIN, ["sex"])
    first = ObservedBlock.of(block, [1000, 3000], Gaussian(scale=10), size=SIZE)
    second = ObservedBlock.of(block, [1300, 2700], Gaussian(scale=20), size=SIZE)
    both_seen = (
        FitState(DenseBelief.uniform(Workload.marginals(DOMAIN, [["sex"]]).support))
        .joined([first])
        .joined([second])
        .seen
    )
    assert len(both_seen) == 1
    np.testing.assert_allclose(both_seen[0].values * SIZE, [1060, 2940])
    assert math.sqrt(both_seen[0].variance) * SIZE == pytest.approx(math.sqrt(80))


def test_noisy_counts_below_zero_leave_cells_nearly_empty():
    block = marginal_block(DOMAIN, ["days"])
    seen = ObservedBlock.of(block, [2000, 1500, 540, -30, -10], Gaussian(scale=20), size=SIZE)
    workload = Workload.marginals(DOMAIN, [["days"]])
    shares = (
        FitState(DenseBelief.uniform(workload.support)).joined([seen]).swept(50).belief.expect(workload.over([block]))
    )
    assert (shares > 0).all()
    assert shares[3] * SIZE < 10
