"""Fits visit one block after the other, and reach the minimum of the whole."""

import numpy as np
import pytest

from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.fit import ObservedBlock, fit_block, fit_blocks, solve_multipliers
from dodona.privacy.additive_noise import Gaussian
from dodona.query.predicate import EVERYTHING, NOTHING
from dodona.query.query import Query
from dodona.sql.compile import compile_sql
from dodona.synth.workload import Workload, marginal_block
from tests.synth.scene import schema

SCHEMA = schema()
DOMAIN = SCHEMA.domain
SIZE = 4_000


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


def test_a_single_count_moves_as_far_as_its_noise_lets_it():
    block = compile_sql("SELECT count(*) FROM stays WHERE days >= 2", SCHEMA).query.blocks[0]
    support = Workload.marginals(DOMAIN, [["days"]]).support
    before = float(DenseBelief.uniform(support).expect(Query(support.domain, (block,)))[0])
    reached = []
    for deviation in (1e-5, 0.05, 10.0):
        observed = ObservedBlock.of_shares(block, np.array([0.9]), deviation**2)
        belief, fitted, moved = fit_block(DenseBelief.uniform(support), observed, 50.0)
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
