"""Factored beliefs: message passing against all cells written out, the fit against its equations, and drawn rows."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from dodona.engines.answers import answer_block
from dodona.errors import InvalidRequest
from dodona.knowledge.cells import Support
from dodona.knowledge.factored import IMPOSSIBLE, FactoredBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.knowledge.junction import JunctionTree, Table, count_cells, draw_rows, eliminate
from dodona.knowledge.maxent import RELATIVE_ANCHOR, Target, fit_law
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.query.predicate import EVERYTHING
from dodona.query.query import Block, Query
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.encoding import encode
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from dodona.sql.compile import compile_sql
from dodona.synth.rows import round_rows
from dodona.synth.workload import Workload, marginal_block
from tests.knowledge.explicit import matrix
from tests.synth.scene import columns, schema

SCHEMA = schema()
DOMAIN = SCHEMA.domain
SIZE = 4_000
LIMIT = 1 << 20
SHAPE = (3, 2, 4, 3, 2, 5)
SETS = ((0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (1,), (2, 3, 4))


def tables(seed: int, sets=SETS) -> dict[tuple[int, ...], Table]:
    chance = np.random.default_rng(seed)
    return {axes: chance.normal(0, 3, [SHAPE[place] for place in axes]) for axes in sets}


def dense(given: dict[tuple[int, ...], Table]) -> tuple[float, Table]:
    """The normalisation and the law, with every cell written out."""
    logs = np.zeros(SHAPE)
    for axes, table in given.items():
        logs += table.reshape([SHAPE[place] if place in axes else 1 for place in range(len(SHAPE))])
    most = float(logs.max())
    weights = np.exp(logs - most)
    return math.log(weights.sum()) + most, weights / weights.sum()


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_messages_give_the_normalisation_and_the_marginals_of_all_cells(seed: int, *, whole: bool):
    """Cycles are filled in, columns that nothing ties are on their own, and one clique of all is no other law."""
    given = tables(seed)
    tree = JunctionTree.over(SHAPE, SETS, cliques=[tuple(range(len(SHAPE)))] if whole else None)
    assert tree.cells == math.prod(SHAPE) if whole else tree.cells < math.prod(SHAPE) / 5
    law = tree.calibrate(given)
    total, cells = dense(given)
    assert law.log_total == pytest.approx(total, rel=1e-12)
    sets = [axes for size in (1, 2, 3) for axes in combinations(range(len(SHAPE)), size) if tree.find(axes) is not None]
    assert set(SETS) <= set(sets)
    for axes, table in law.marginals(sets).items():
        others = tuple(place for place in range(len(SHAPE)) if place not in axes)
        np.testing.assert_allclose(table, cells.sum(axis=others), rtol=1e-9)


@pytest.mark.parametrize("left_out", SETS)
def test_a_set_that_the_tree_holds_needs_no_table(left_out: tuple[int, ...]):
    given = {axes: table for axes, table in tables(4).items() if axes != left_out and not set(axes) < set(left_out)}
    total, cells = dense(given)
    for cliques in (None, [tuple(range(len(SHAPE)))]):
        law = JunctionTree.over(SHAPE, SETS, cliques=cliques).calibrate(given)
        assert law.log_total == pytest.approx(total, rel=1e-12)
        np.testing.assert_allclose(law.marginals([left_out])[left_out].sum(), 1, rtol=1e-9)
        np.testing.assert_allclose(law.marginals([(2, 3)])[2, 3], cells.sum(axis=(0, 1, 4, 5)), rtol=1e-9)


def test_tables_of_thousands_of_nats_neither_overflow_nor_vanish():
    given = {axes: 1000 * table for axes, table in tables(1).items()}
    law = JunctionTree.over(SHAPE, SETS).calibrate(given)
    total, cells = dense(given)
    assert law.log_total == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(law.marginals([(2, 3)])[2, 3], cells.sum(axis=(0, 1, 4, 5)), atol=1e-9)


def test_cliques_hold_every_set_and_are_not_inside_each_other():
    chance = np.random.default_rng(5)
    for _ in range(50):
        shape = tuple(chance.integers(1, 6, 9).tolist())
        sets = [tuple(sorted(chance.choice(9, 3, replace=False).tolist())) for _ in range(5)]
        cliques = [set(clique) for clique in eliminate(shape, sets)]
        assert set().union(*cliques) == set(range(9))
        assert all(any(set(axes) <= clique for clique in cliques) for axes in sets)
        assert not any(clique < other for clique in cliques for other in cliques)
        assert count_cells(shape, eliminate(shape, sets)) == JunctionTree.over(shape, sets).cells


@pytest.mark.parametrize("seed", range(3))
def test_the_derivative_of_marginals_is_a_covariance_over_all_cells(seed: int):
    """Of the cells of each set with the sum of some tables, whether or not cliques lie between them."""
    tree, added = JunctionTree.over(SHAPE, SETS), tables(seed + 10, SETS[:4])
    law, (_, cells) = tree.calibrate(tables(seed)), dense(tables(seed))
    sums = np.zeros(SHAPE)
    for axes, table in added.items():
        sums += table.reshape([SHAPE[place] if place in axes else 1 for place in range(len(SHAPE))])
    change = cells * (sums - (cells * sums).sum())
    for axes, table in law.derivative(added, SETS).items():
        others = tuple(place for place in range(len(SHAPE)) if place not in axes)
        np.testing.assert_allclose(table, change.sum(axis=others), rtol=1e-7, atol=1e-12)


def test_the_gradient_of_the_dual_is_what_finite_differences_say():
    chance = np.random.default_rng(2)
    sets = ((0, 1), (1, 2), (0, 2))
    targets = [
        Target(axes, chance.dirichlet(np.ones(math.prod(SHAPE[place] for place in axes))), 0.01) for axes in sets
    ]
    tree = JunctionTree.over(SHAPE, sets)
    theta = [chance.normal(0, 1, target.values.size) for target in targets]

    def value(at: list[Table]) -> float:
        given = {
            target.columns: multipliers.reshape([SHAPE[place] for place in target.columns])
            for target, multipliers in zip(targets, at, strict=True)
        }
        penalty = sum(
            RELATIVE_ANCHOR * target.deviation * float(multipliers @ multipliers) / 2
            for target, multipliers in zip(targets, at, strict=True)
        )
        return (
            tree.calibrate(given).log_total
            - sum(float(target.values @ multipliers) for target, multipliers in zip(targets, at, strict=True))
            + penalty
        )

    at = {
        target.columns: multipliers.reshape([SHAPE[place] for place in target.columns])
        for target, multipliers in zip(targets, theta, strict=True)
    }
    marginals = tree.calibrate(at).marginals(sets)
    for place, target in enumerate(targets):
        gradient = (
            marginals[target.columns].reshape(-1) - target.values + RELATIVE_ANCHOR * target.deviation * theta[place]
        )
        for cell in range(target.values.size):
            near = [multipliers.copy() for multipliers in theta], [multipliers.copy() for multipliers in theta]
            near[0][place][cell] -= 1e-5
            near[1][place][cell] += 1e-5
            assert (value(near[1]) - value(near[0])) / 2e-5 == pytest.approx(gradient[cell], abs=1e-8)


def test_each_measurement_has_its_own_anchor():
    """A coarse measurement is fitted as well beside a fine one as alone: the fine one says nothing about it."""
    coarse = Target((0,), np.array([0.7, 0.2, 0.1]), 0.05)
    fine = Target((5,), np.full(5, 0.2), 1e-6)
    reached = []
    for targets in ([coarse], [coarse, fine]):
        tree = JunctionTree.over(SHAPE, [target.columns for target in targets])
        start = [np.zeros(target.values.size) for target in targets]
        fitted = fit_law(tree, targets, start, prior={}, steps=500, tolerance=1e-6)
        assert fitted.gap <= 1e-6
        reached.append(fitted.law.marginals([(0,)])[0,])
    np.testing.assert_allclose(reached[0], reached[1], atol=1e-6)
    assert reached[0][0] > 0.65


def counts(block: Block, seed: int, scale: float) -> list[int]:
    codes = {name: encode(DOMAIN[name], held) for name, held in columns().items()}
    exact = np.asarray(answer_block(block, codes, counts=None, rows=SIZE))
    noise = np.random.default_rng(seed).normal(0, scale, exact.size)
    return [int(value) for value in np.rint(exact + noise)]


def test_a_fit_is_the_minimum_that_its_equations_describe():
    """The law is the one of its multipliers, and they are what the residuals say: so it is the one minimum."""
    sets = [["sex", "ward"], ["ward", "days"], ["days", "emergency"], ["sex"]]
    workload = Workload.marginals(DOMAIN, sets)
    scale = 20.0
    seen = [
        ObservedBlock.of(block, counts(block, place, scale), Gaussian(scale=20), size=SIZE)
        for place, block in enumerate(workload.query.blocks)
    ]
    fitted = FactoredBelief(workload.support, LIMIT).joined(seen).fitted(500, tolerance=1e-6)
    assert fitted.gap <= 1e-6
    assert fitted.tree.cells < workload.support.size
    support = workload.support
    law = FactoredBelief(support, LIMIT, seen=fitted.seen).probabilities().reshape(-1)
    powers, pulled = np.zeros(support.size), np.zeros(support.size)
    for observed in fitted.seen:
        table = matrix(observed.block, support)
        powers += observed.multipliers @ table
        shares = observed.values + (1 - observed.values.sum()) / observed.values.size
        pulled += (shares - table @ law) / (RELATIVE_ANCHOR * math.sqrt(observed.variance)) @ table
        np.testing.assert_allclose(fitted.expect(workload.over([observed.block])), table @ law, atol=1e-9)
    for logs in (powers, pulled):
        weights = np.exp(logs - logs.max())
        np.testing.assert_allclose(law, weights / weights.sum(), rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_converges_in_few_steps_however_much_its_marginals_repeat_each_other(seed: int):
    """With a multiplier for each answer, as many steps leave a gap of 0.2 to 6."""
    chance = np.random.default_rng(seed)
    shape = (3, 2, 4, 3, 2)
    weights = sum(
        3 * chance.normal(size=[length if place in pair else 1 for place, length in enumerate(shape)])
        for pair in combinations(range(5), 2)
    )
    exact = np.exp(weights)
    exact /= exact.sum()
    targets = []
    for axes in (axes for ways in (1, 2, 3) for axes in combinations(range(5), ways)):
        marginal = exact.sum(axis=tuple(place for place in range(5) if place not in axes)).reshape(-1)
        noisy = marginal + chance.normal(0, 1e-4, marginal.size)
        targets.append(Target(axes, noisy + (1 - noisy.sum()) / noisy.size, 1e-4))
    tree = JunctionTree.over(shape, [target.columns for target in targets])
    fit = fit_law(
        tree, targets, [np.zeros(target.values.size) for target in targets], prior={}, steps=150, tolerance=0.02
    )
    assert fit.gap <= 0.02
    marginals = fit.law.marginals([target.columns for target in targets])
    for target in targets:
        np.testing.assert_allclose(marginals[target.columns].reshape(-1), target.values, atol=1e-3)


def test_counts_of_some_rows_are_fitted_beside_marginals():
    block = compile_sql("SELECT count(*) FROM stays WHERE days >= 2 AND emergency", SCHEMA).query.blocks[0]
    workload = Workload(Query(DOMAIN, (block, marginal_block(DOMAIN, ["sex", "ward"]))))
    seen = [
        ObservedBlock.of(block, counts(block, 5, 1.0), Laplace(scale=1), size=SIZE) for block in workload.query.blocks
    ]
    fitted = FactoredBelief(workload.support, LIMIT).joined(seen).fitted(100)
    for observed in seen:
        np.testing.assert_allclose(fitted.expect(workload.over([observed.block])), observed.values, atol=3e-3)


def test_two_measurements_of_a_block_count_by_their_precision():
    block = marginal_block(DOMAIN, ["sex"])
    first = ObservedBlock.of(block, [1000, 3000], Gaussian(scale=10), size=SIZE)
    second = ObservedBlock.of(block, [1300, 2700], Gaussian(scale=20), size=SIZE)
    support = Workload.marginals(DOMAIN, [["sex"]]).support
    (seen,) = FactoredBelief(support, LIMIT).joined([first]).joined([second]).seen
    np.testing.assert_allclose(seen.values * SIZE, [1060, 2940])
    assert math.sqrt(seen.variance) * SIZE == pytest.approx(math.sqrt(80))


def test_noisy_counts_below_zero_leave_cells_nearly_empty():
    block = marginal_block(DOMAIN, ["days"])
    seen = ObservedBlock.of(block, [2000, 1500, 540, -30, -10], Gaussian(scale=20), size=SIZE)
    workload = Workload.marginals(DOMAIN, [["days"]])
    shares = FactoredBelief(workload.support, LIMIT).joined([seen]).fitted(100).expect(workload.over([block]))
    assert (shares > 0).all()
    assert shares[3] * SIZE < 10


def test_cells_that_a_prior_rules_out_have_no_weight_whatever_was_measured():
    workload = Workload.marginals(DOMAIN, [["sex", "ward"], ["ward", "days"]])
    prior = {("sex", "ward"): np.array([[0, 0, 0], [IMPOSSIBLE, 0, 0]])}
    seen = [
        ObservedBlock.of(block, counts(block, 5, 1.0), Gaussian(scale=5), size=SIZE) for block in workload.query.blocks
    ]
    fitted = FactoredBelief(workload.support, LIMIT, prior).joined(seen).fitted(100)
    assert fitted.expect(workload.over([workload.query.blocks[0]]))[3] == 0
    drawn = fitted.sample(20_000, np.random.default_rng(1))
    assert not ((drawn["sex"] == 1) & (drawn["ward"] == 0)).any()


def test_a_belief_stays_within_its_limit_and_says_what_it_holds():
    workload = Workload.ways(DOMAIN, 2)
    belief = FactoredBelief(workload.support, 30)
    days, sex = (marginal_block(DOMAIN, names) for names in (["ward", "days"], ["sex", "ward"]))
    assert belief.holds([days, sex])
    assert not belief.holds(workload.query.blocks)
    seen = [
        ObservedBlock.of(block, counts(block, 1, 5), Gaussian(scale=5), size=SIZE) for block in workload.query.blocks
    ]
    with pytest.raises(InvalidRequest, match="at most 30"):
        belief.joined(seen).fitted(1)
    fitted = belief.joined([seen[0], seen[3]]).fitted(50)
    assert fitted.covers(["sex", "ward"])
    assert fitted.tree.cells <= 30


@pytest.mark.parametrize("seed", range(3))
def test_marginals_across_cliques_are_those_of_all_cells(seed: int):
    """Of two to four columns, whether cliques lie between them, share nothing, or one of them has nearly all."""
    given = tables(seed)
    tree = JunctionTree.over(SHAPE, SETS)
    law, (_, cells) = tree.calibrate(given), dense(given)
    sets = [axes for size in (2, 3, 4) for axes in combinations(range(len(SHAPE)), size) if tree.find(axes) is None]
    assert len(sets) > 20
    for axes, table in law.across(sets).items():
        others = tuple(place for place in range(len(SHAPE)) if place not in axes)
        np.testing.assert_allclose(table, cells.sum(axis=others), rtol=1e-9)
        assert tree.crossing(axes) >= table.size


def test_marginals_outside_the_cliques_are_exact_where_few_cells_lie_between_their_columns():
    """Rows meet them too: they are nearer to the law than drawn rows are."""
    workload = Workload.marginals(DOMAIN, [["sex", "ward"], ["ward", "days"]])
    seen = [
        ObservedBlock.of(block, counts(block, 5, 1.0), Gaussian(scale=5), size=SIZE) for block in workload.query.blocks
    ]
    small = FactoredBelief(workload.support, 22).joined(seen).fitted(100)
    whole = FactoredBelief(workload.support, LIMIT, seen=small.seen).probabilities()
    assert not small.covers(["sex", "days"])
    places = workload.support.places(["sex", "days"])
    np.testing.assert_allclose(small.laws([places])[places], whole.sum(axis=1), rtol=1e-9)
    assert places in small.held([places])
    rows = round_rows(small, SIZE, seed="0123456789abcdef", wanted=[places])
    counted = np.histogram2d(rows.codes["sex"], rows.codes["days"], bins=[np.arange(size + 1) for size in (2, 5)])[0]
    np.testing.assert_allclose(counted, SIZE * whole.sum(axis=1), atol=2)


def test_marginals_across_large_cliques_are_counted_on_rows_in_proportion_to_the_law():
    """2^17 rows spread evenly: a share of a half is off by less than 0.004 but once in a thousand."""
    domain = Domain((Integer("first", 0, 999), Integer("tie", 0, 69), Integer("last", 0, 999)))
    workload = Workload.marginals(domain, [["first", "tie"], ["tie", "last"]], values_only=True)
    chance = np.random.default_rng(3)
    seen = []
    for block in workload.query.blocks:
        heights = np.linspace(0, 3, block.keys[0].groups)[:, None] * np.linspace(-1, 1, block.keys[1].groups)
        multipliers = heights.reshape(-1) + chance.normal(0, 0.1, block.values)
        seen.append(replace(ObservedBlock.of_shares(block, np.zeros(block.values), 1.0), multipliers=multipliers))
    law = FactoredBelief(workload.support, LIMIT).joined(seen)
    places = workload.support.places(["first", "last"])
    assert not law.covers(["first", "last"])
    assert law.held([places]) == law.held([])
    first, last = (law.laws([workload.support.places(names)]) for names in (["first", "tie"], ["tie", "last"]))
    ((_, start),), ((_, end),) = first.items(), last.items()
    exact = start @ (end / end.sum(axis=1, keepdims=True))
    halves = [table.reshape(2, 500, 2, 500).sum(axis=(1, 3)) for table in (law.laws([places])[places], exact)]
    np.testing.assert_allclose(*halves, atol=0.004)
    assert np.abs(exact.reshape(2, 500, 2, 500).sum(axis=(1, 3)) - 0.25).max() > 0.02


@pytest.mark.parametrize("independent", [False, True])
def test_drawn_rows_are_in_proportion_to_the_law(*, independent: bool):
    """40,000 rows, in 45 classes at most: a statistic above 110 has probability below 1e-6."""
    given = tables(3)
    law = JunctionTree.over(SHAPE, SETS).calibrate(given)
    rows = draw_rows(law, 40_000, np.random.default_rng(7), independent=independent)
    _, cells = dense(given)
    expected = 40_000 * cells.sum(axis=(1, 2, 4)).reshape(-1)
    observed = np.bincount(np.ravel_multi_index((rows[:, 0], rows[:, 3], rows[:, 5]), (3, 3, 5)), minlength=45)
    kept = expected > 5
    assert kept.sum() > 10
    statistic = float(((observed - expected)[kept] ** 2 / expected[kept]).sum())
    assert statistic < 110
    inside = np.bincount(np.ravel_multi_index((rows[:, 2], rows[:, 3]), (4, 3)), minlength=12)
    off = np.abs(inside - 40_000 * cells.sum(axis=(0, 1, 4, 5)).reshape(-1))
    assert (off.max() < 30) or independent


def test_a_fit_computes_in_one_thread():
    """Inner products of many numbers are not split among threads of a BLAS, which spin while they wait."""
    chance = np.random.default_rng(3)
    shape = (150, 200)
    tree = JunctionTree.over(shape, [(0, 1)])
    values = chance.dirichlet(np.full(30_000, 0.3))
    target = Target((0, 1), values, 1e-5)
    process, thread = time.process_time(), time.thread_time()
    fit = fit_law(tree, [target], [np.zeros(values.size)], prior={}, steps=60, tolerance=0.0)
    process, thread = time.process_time() - process, time.thread_time() - thread
    assert fit.steps > 10
    assert process < 1.2 * thread + 0.05


def test_a_widened_tree_has_the_cells_of_its_path():
    """A chain of pairs: its two ends, tied together, go into every clique between them."""
    tree = JunctionTree.over((2, 3, 5, 7, 11), [(0, 1), (1, 2), (2, 3), (3, 4)])
    assert tree.cells == 6 + 15 + 35 + 77
    assert tree.widened((1, 2)) == tree.cells
    assert tree.widened((1, 3)) == 6 + 15 * 7 + 35 * 3 + 77
    assert tree.widened((0, 4)) == 6 * 11 + 15 * 2 * 11 + 35 * 2 * 11 + 77 * 2
    apart = JunctionTree.over((2, 3, 5), [(0, 1)])
    assert apart.widened((0, 2)) == 6 * 5 + 5 * 2


def test_a_widened_tree_bounds_what_the_best_order_of_elimination_needs():
    """Ten columns with random pairs: some tree has no more cells than `widened` says, found over random orders."""
    chance = np.random.default_rng(4)
    for _ in range(30):
        shape = tuple(chance.integers(2, 6, 7).tolist())
        pairs = [tuple(sorted(chance.choice(7, 2, replace=False).tolist())) for _ in range(6)]
        tree = JunctionTree.over(shape, pairs)
        asked = tuple(sorted(chance.choice(7, 3, replace=False).tolist()))
        sets = [clique.columns for clique in tree.cliques]
        best = min(_eliminated(shape, [*sets, asked], chance.permutation(7).tolist()) for _ in range(400))
        assert best <= tree.widened(asked)


def _eliminated(shape: tuple[int, ...], sets: list[tuple[int, ...]], order: list[int]) -> int:
    """Return the cells of the maximal cliques that an order of elimination leaves."""
    around = {place: {place}.union(*(axes for axes in sets if place in axes)) for place in range(len(shape))}
    cliques: list[set[int]] = []
    for place in order:
        clique = around.pop(place)
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
        for other in clique - {place}:
            around[other] = (around[other] | clique) - {place}
    return sum(math.prod(shape[place] for place in clique) for clique in cliques)


def test_a_belief_holds_more_columns_than_an_array_can_have_axes():
    domain = Domain(tuple(Boolean(f"c{place}", otherwise=False) for place in range(70)))
    blocks = [marginal_block(domain, [f"c{place}", f"c{place + 1}"]) for place in range(69)]
    seen = [ObservedBlock.of_shares(block, np.array([0.4, 0.1, 0.1, 0.4]), 1e-6) for block in blocks]
    belief = FactoredBelief(Support.of(domain), LIMIT).joined(seen).fitted(200)
    rows = belief.rows(4_000, np.random.default_rng(1))
    assert rows.shape == (4_000, 70)
    assert np.mean(rows[:, 0] == rows[:, 1]) == pytest.approx(0.8, abs=0.01)
    assert belief.holds([marginal_block(domain, ["c0", "c69"])], limit=1_000)
    assert not belief.holds([marginal_block(domain, ["c0", "c69"])], limit=300)


def test_a_belief_that_holds_more_blocks_stays_within_its_limit_with_them():
    """Batches of random blocks of ten columns, each added if it is held with those before it, as in a round.

    What a clique of the present tree holds may tie more columns in another tree, to which the others of its batch lead.
    """
    chance, limit = np.random.default_rng(2), 3_000
    for _ in range(40):
        domain = Domain(tuple(Integer(f"c{place}", 0, int(chance.integers(1, 12)), otherwise=0) for place in range(10)))
        belief = FactoredBelief(Support.of(domain), limit)
        for _ in range(12):
            batch = list[Block]()
            for _ in range(6):
                names = chance.choice(domain.names, int(chance.integers(2, 4)), replace=False).tolist()
                more = [*batch, marginal_block(domain, names)]
                batch = more if len(set(more)) == len(more) and belief.holds(more) else batch
            before, inside = belief.tree.cells, all(belief.covers(block.attributes) for block in batch)
            belief = belief.joined(ObservedBlock.of_shares(block, np.zeros(block.values), 1.0) for block in batch)
            assert belief.tree.cells <= limit
            assert belief.tree.cells == before or not inside
            assert all(belief.covers(observed.block.attributes) for observed in belief.seen)


def test_columns_beyond_what_an_array_can_have_as_axes_are_never_put_into_one_table():
    """40 columns of one value each make one cell, and no array of it."""
    domain = Domain(tuple(Category(f"c{place}", ["a"]) for place in range(40)))
    support = Support.values(domain)
    blocks = [marginal_block(domain, [f"c{place}", f"c{place + 1}"]) for place in range(39)]
    seen = [ObservedBlock.of_shares(block, np.eye(1, block.values)[0], 1e-6) for block in blocks]
    belief = FactoredBelief(support, 1 << 20).joined(seen).fitted(5)
    assert belief.rows(10, np.random.default_rng(1)).shape == (10, 40)
    assert not belief.whole


def test_a_loose_marginal_is_believed_as_far_as_noise_does_not_explain_it():
    """Three columns in cliques of one: a pair that no clique holds is as measured, and noise alone moves nothing."""
    domain = Domain(tuple(Boolean(name, otherwise=False) for name in "abc"))
    belief = FactoredBelief(Support.of(domain), 6).joined([])
    pair = Block(EVERYTHING, tuple(Partition.every(domain[name], 1) for name in "ab"))
    shares = np.array([0.5, 0.0, 0.0, 0.5])
    loose = belief.loosened([ObservedBlock.of_shares(pair, shares, 1e-6)])
    assert loose.laws([(0, 1)])[0, 1].reshape(-1) == pytest.approx(shares, abs=0.01)
    triple = loose.laws([(0, 1, 2)])[0, 1, 2]
    assert triple.sum(axis=2).reshape(-1) == pytest.approx(shares, abs=0.01)
    assert triple.sum(axis=(0, 1)) == pytest.approx([0.5, 0.5], abs=0.01)
    noisy = belief.loosened([ObservedBlock.of_shares(pair, np.array([0.26, 0.24, 0.24, 0.26]), 1e-2)])
    assert noisy.laws([(0, 1)])[0, 1] == pytest.approx(belief.laws([(0, 1)])[0, 1])
