"""Fits visit one block after the other, and reach the minimum of the whole."""

import math

import numpy as np
import pytest

from dodona.knowledge.components import ComponentBelief
from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.fit import RELATIVE_ANCHOR, FitState, ObservedBlock, fit_block, fit_blocks, solve_multipliers
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.query.predicate import EVERYTHING, NOTHING
from dodona.query.query import Block, Query
from dodona.sql.compile import compile_sql
from dodona.synth.workload import Workload, marginal_block
from tests.knowledge.explicit import matrix
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
    multipliers, answers = solve_multipliers(np.log(base), values, 0.02, outside)
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
    fitted = FitState(belief.uniform(workload.support)).joined(seen).swept(400)
    assert fitted.gap <= 1e-3
    certify(fitted, workload, RELATIVE_ANCHOR * SIZE / scale)


def certify(fitted: FitState, workload: Workload, anchor: float) -> None:
    """The law is the one of its multipliers, and they are what the residuals say: so it is the one minimum."""
    support = workload.support
    law = fitted.belief.expect(workload.over([marginal_block(DOMAIN, DOMAIN.names)]))
    law = law[law > 0]
    assert law.size == support.size
    powers = np.zeros(support.size)
    for one in fitted.seen:
        table = matrix(one.block, support)
        powers += one.multipliers @ table
        shares = one.values + (1 - one.values.sum()) / one.values.size if one.block.keys else one.values
        np.testing.assert_allclose(table @ law, shares - anchor * one.variance * one.multipliers, atol=2e-5)
    weights = np.exp(powers - powers.max())
    np.testing.assert_allclose(law, weights / weights.sum(), rtol=1e-6)


def test_a_single_count_moves_as_far_as_its_noise_lets_it():
    block = compile_sql("SELECT count(*) FROM stays WHERE days >= 2", SCHEMA).query.blocks[0]
    support = Workload.marginals(DOMAIN, [["days"]]).support
    before = float(DenseBelief.uniform(support).expect(Query(support.domain, (block,)))[0])
    reached = []
    for deviation in (1e-5, 0.05, 10.0):
        one = ObservedBlock.of_shares(block, np.array([0.9]), deviation**2)
        belief, fitted, moved = fit_block(DenseBelief.uniform(support), one, 50.0)
        share = float(belief.expect(Query(support.domain, (block,)))[0])
        assert share == pytest.approx(0.9 - 50 * deviation**2 * float(fitted.multipliers[0]), abs=1e-9)
        assert moved == pytest.approx(abs(share - before) / deviation)
        reached.append(share)
    assert reached[0] == pytest.approx(0.9, abs=1e-6)
    assert before < reached[2] < reached[1] < 0.9
    assert reached[2] == pytest.approx(before, abs=1e-3)


def test_a_count_of_all_rows_or_of_none_leaves_the_belief_as_it_is():
    support = Workload.marginals(DOMAIN, [["days"]]).support
    for where, share in ((EVERYTHING, 0.7), (NOTHING, 0.3)):
        block = Query.count(DOMAIN, where).blocks[0]
        belief = DenseBelief.uniform(support)
        assert fit_block(belief, ObservedBlock.of_shares(block, np.array([share]), 1e-4), 50.0)[0] is belief


def test_a_fit_that_has_converged_ends_before_its_last_sweep():
    block = marginal_block(DOMAIN, ["days"])
    support = Workload.marginals(DOMAIN, [["days"]]).support
    seen = [ObservedBlock.of(block, [2000, 1000, 500, 300, 200], Gaussian(scale=20), size=SIZE)]
    belief, gap = fit_blocks(DenseBelief.uniform(support), seen, anchor=1.0, sweeps=1)
    assert gap > 1
    before = seen[0].multipliers
    _, gap = fit_blocks(belief, seen, anchor=1.0, sweeps=10**9)
    assert gap < 1e-6
    np.testing.assert_allclose(seen[0].multipliers, before, atol=1e-9)


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
