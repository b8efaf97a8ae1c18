import math
import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.knowledge import compiled, vector
from dodona.knowledge.cells import Contradiction, SpentBelief, Support, TooManyCells
from dodona.knowledge.dense import MOST_DENSE_CELLS, DenseBelief
from dodona.knowledge.region import RegionCache, find_region
from dodona.lab.projection import project
from dodona.query.predicate import EVERYTHING, NOTHING, among, among_mask, conjunction, disjunction
from dodona.query.query import Block, ConstantWeight, Query, ValueWeight
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.house.shares import examples
from tests.knowledge.explicit import answers, bits, cells_of, inside, matrix, random_law
from tests.query.drawing import DOMAIN, blocks, predicates, queries

KERNELS = pytest.mark.parametrize("kernel", [vector, compiled], ids=["numpy", "numba"])
SUPPORTS = st.sampled_from([Support.of(DOMAIN), Support.values(DOMAIN), Support(DOMAIN, (0b1011, 0b101, 0b1011001))])
SEEDS = st.integers(0, 2**32)


def belief(support: Support, seed: int, kernel=None) -> tuple[DenseBelief, np.ndarray]:
    law = random_law(support, np.random.default_rng(seed))
    return DenseBelief(support, 3 * law, kernel=kernel), law


@given(queries(), SUPPORTS, SEEDS)
def test_what_is_expected_is_the_sum_over_all_cells(query, support, seed):
    hypothesis, law = belief(support, seed)
    assert hypothesis.expect(query) == pytest.approx(answers(query, support, law), abs=1e-12, rel=1e-12)


@KERNELS
@given(predicates(), SUPPORTS, SEEDS, st.floats(0.1, 10))
@settings(max_examples=examples(60), deadline=None)
def test_both_kernels_sum_and_scale_the_cells_inside(kernel, where, support, seed, factor):
    region, law = find_region(where, support), random_law(support, np.random.default_rng(seed))
    meant = inside(where, support)
    if region is None:
        assert not meant.any()
        return
    assert region.cells == meant.sum()
    assert kernel.inside(law, region) == pytest.approx(law[meant].sum(), rel=1e-12)
    scaled = law.copy()
    kernel.scale(scaled, region, factor)
    assert (scaled == np.where(meant, law * factor, law)).all()


@KERNELS
def test_regions_of_many_bits_are_the_cells_that_are_meant(kernel):
    domain, rng = bits(13), np.random.default_rng(5)
    support = Support.values(domain)
    codes = np.unravel_index(np.arange(support.size), support.shape)
    law = random_law(support, rng)
    for _ in range(60):
        places = rng.choice(13, size=rng.integers(1, 5), replace=False)
        values = rng.integers(0, 2, size=len(places))
        where = conjunction(*(among(domain.attributes[p], [int(v)]) for p, v in zip(places, values, strict=True)))
        meant = np.logical_and.reduce([codes[p] == v for p, v in zip(places, values, strict=True)])
        region = find_region(where, support)
        assert kernel.inside(law, region) == pytest.approx(law[meant].sum(), rel=1e-12)
        scaled = law.copy()
        kernel.scale(scaled, region, 3.0)
        assert (scaled == np.where(meant, law * 3.0, law)).all()


@KERNELS
def test_sets_that_are_no_slices_are_found_too(kernel):
    domain = Domain((Category("a", list("pqrstu")), Category("b", [str(n) for n in range(70)])))
    support, rng = Support.of(domain), np.random.default_rng(1)
    law = random_law(support, rng)
    where = conjunction(among(domain["a"], [0, 1, 4, 7]), among(domain["b"], [*range(3, 40), 66, 71]))
    region, meant = find_region(where, support), inside(where, support)
    assert kernel.inside(law, region) == pytest.approx(law[meant].sum(), rel=1e-12)
    scaled = law.copy()
    kernel.scale(scaled, region, 0.5)
    assert (scaled == np.where(meant, law / 2, law)).all()


@KERNELS
@given(predicates(), SUPPORTS, SEEDS, st.tuples(st.floats(1e-6, 1 - 1e-6), st.sampled_from([1, 5, -2])))
@settings(max_examples=examples(60), deadline=None)
def test_a_projection_on_a_count_scales_inside_and_outside(kernel, where, support, seed, wanted):
    hypothesis, law = belief(support, seed, kernel)
    share, number = wanted
    meant = inside(where, support)
    believed = law[meant].sum()
    assume(meant.any() and not meant.all())
    query = Query(DOMAIN, (Block(where, (), ConstantWeight(number)),))
    moved = project(hypothesis, query, target=share * number)
    wanted = np.where(meant, law * share / believed, law * (1 - share) / (1 - believed))
    assert moved.probabilities().reshape(-1) == pytest.approx(wanted, rel=1e-9, abs=1e-15)
    assert moved.expect(query) == pytest.approx([share * number], rel=1e-12)


@given(blocks(), SUPPORTS, SEEDS, st.floats(-1.5, 1.5))
def test_a_tilt_multiplies_each_cell_by_the_power_of_its_weight(block, support, seed, exponent):
    hypothesis, law = belief(support, seed)
    exponents = exponent * np.cos(np.arange(block.values)) / 50
    wanted = np.exp(exponents @ matrix(block, support))
    assume(np.ptp(exponents @ matrix(block, support)) < 300)
    wanted = wanted * law / (wanted @ law)
    moved = hypothesis.tilted(Query(DOMAIN, (block,)), exponents=exponents)
    assert moved.probabilities().reshape(-1) == pytest.approx(wanted, rel=1e-9, abs=1e-15)


@given(SEEDS, st.floats(0.02, 0.98), SUPPORTS)
def test_a_projection_on_a_sum_tilts_to_the_mean(seed, share, support):
    hypothesis, law = belief(support, seed)
    block = Block(among(DOMAIN["emergency"], [0, 1]), (), ValueWeight("age", 5, 3, 1, 2))
    values = matrix(block, support)[0]
    target = values.min() + share * np.ptp(values)
    moved = project(hypothesis, Query(DOMAIN, (block,)), target=target)
    after = moved.probabilities().reshape(-1)
    assert after @ values == pytest.approx(target, rel=1e-9)
    powers = np.log(after / law)  # the logarithm is a line in the weight: this is the nearest law
    line = np.polyfit(values, powers, 1)
    assert powers == pytest.approx(np.polyval(line, values), abs=1e-6)


def test_a_projection_on_groups_gives_each_its_share():
    support = Support.of(DOMAIN)
    hypothesis, law = belief(support, 8)
    block = Block(among(DOMAIN["sex"], [0]), (Partition.of(DOMAIN["age"]), Partition.of(DOMAIN["emergency"])))
    table = matrix(block, support)
    targets = np.random.default_rng(2).dirichlet(np.ones(block.values)) * 0.8
    moved = project(hypothesis, Query(DOMAIN, (block,)), target=targets)
    assert table @ moved.probabilities().reshape(-1) == pytest.approx(targets, rel=1e-9)
    outside = table.sum(axis=0) == 0
    ratio = moved.probabilities().reshape(-1)[outside] / law[outside]
    assert ratio == pytest.approx(np.full(outside.sum(), 0.2 / law[outside].sum()), rel=1e-9)


def test_a_whole_histogram_can_be_taken_over():
    query = Query.marginal(DOMAIN, ["sex", "age"])
    targets = np.random.default_rng(2).dirichlet(np.ones(query.values))
    moved = project(DenseBelief.uniform(DOMAIN), query, target=targets)
    assert moved.expect(query) == pytest.approx(targets, rel=1e-9)
    with pytest.raises(Contradiction, match=r"add up to 1\.1"):
        project(moved, query, target=targets * 1.1)


def test_marginals_share_their_sums_and_are_those_of_the_law():
    hypothesis, law = belief(Support.of(DOMAIN), 3)
    cube = law.reshape(hypothesis.support.shape)
    for ways in range(4):
        marginals = hypothesis.laws(combinations(range(3), ways))
        assert len(marginals) == math.comb(3, ways)
        for kept, table in marginals.items():
            others = tuple(place for place in range(3) if place not in kept)
            assert table == pytest.approx(cube.sum(axis=others), rel=1e-12)


def test_a_belief_that_was_moved_is_spent_and_a_copy_is_not():
    hypothesis, query = DenseBelief.uniform(DOMAIN), Query.count(DOMAIN, among(DOMAIN["sex"], [0]))
    kept = hypothesis.copied()
    moved = project(hypothesis, query, target=0.9)
    for use in (
        lambda: hypothesis.expect(query),
        lambda: project(hypothesis, query, target=0.5),
        lambda: hypothesis.sample(1, np.random.default_rng(0)),
        hypothesis.copied,
        hypothesis.probabilities,
    ):
        with pytest.raises(SpentBelief, match="copied"):
            use()
    assert kept.expect(query) == pytest.approx([1 / 3])
    assert moved.expect(query) == pytest.approx([0.9])


def test_many_steps_leave_the_total_exact_and_inside_the_range():
    """1,500 steps between shares of 1e-9 and 1 - 1e-9: unguarded, single weights would leave the doubles."""
    domain = cells_of(64)
    hypothesis, rng = DenseBelief.uniform(Support.values(domain)), np.random.default_rng(0)
    for step in range(1500):
        codes = np.flatnonzero(rng.random(64) < 0.5)
        query = Query.count(domain, among(domain["cell"], codes.tolist()))
        hypothesis = project(hypothesis, query, target=[1e-9, 1 - 1e-9, 0.3][step % 3])
        assert hypothesis.expect(query) == pytest.approx([[1e-9, 1 - 1e-9, 0.3][step % 3]], rel=1e-6)
    assert hypothesis.expect(Query.count(domain)) == pytest.approx([1.0], rel=1e-12)
    assert hypothesis.probabilities().sum() == pytest.approx(1.0, rel=1e-12)


def test_made_up_rows_follow_the_law():
    """100,000 rows, 84 cells: each frequency within 5.5 deviations; a false alarm in 84·4e-8 = 3e-6 of seeds."""
    support = Support(DOMAIN, (0b1011, 0b101, 0b1111001))
    hypothesis, law = belief(support, 4)
    drawn = hypothesis.sample(100_000, np.random.default_rng(11))
    assert set(drawn) == set(DOMAIN.names)
    assert all(set(np.unique(drawn[name])) == set(support.codes[name].tolist()) for name in drawn)
    places = [np.searchsorted(support.codes[name], drawn[name]) for name in DOMAIN.names]
    counts = np.bincount(np.ravel_multi_index(places, support.shape), minlength=support.size)
    deviation = np.sqrt(law * (1 - law) * 100_000)
    assert (np.abs(counts - 100_000 * law) < 5.5 * deviation + 1).all()
    assert (np.abs(counts - 100_000 * np.roll(law, 1)) > 5.5 * deviation + 1).any()


def test_cells_without_weight_are_never_drawn():
    hypothesis = DenseBelief(Support.values(cells_of(5)), np.array([0.0, 1.0, 0.0, 2.0, 0.0]))

    class Last:
        def random(self, size: int, /) -> np.ndarray:
            return np.array([0.0, 1 / 3, np.nextafter(1, 0)][:size])

    assert hypothesis.sample(3, Last())["cell"].tolist() == [1, 3, 3]
    assert hypothesis.sample(0, Last())["cell"].tolist() == []


def test_a_universe_that_is_too_large_is_refused_with_its_size_and_a_way_out():
    with pytest.raises(TooManyCells, match=r"2\^28 cells.*2\^27.*FactoredBelief") as caught:
        DenseBelief.uniform(bits(14))
    assert (caught.value.cells, caught.value.limit) == (1 << 28, MOST_DENSE_CELLS)
    with pytest.raises(TooManyCells, match=r"2\^64"):
        DenseBelief.uniform(bits(32))


COUNT = Query.count(DOMAIN, among(DOMAIN["sex"], [0]))


@pytest.mark.parametrize(
    ("query", "target", "error", "words"),
    [
        (COUNT, 0.0, InvalidArgument, "never come back"),
        (COUNT, 1.0, InvalidArgument, "never come back"),
        (COUNT, 1.5, InvalidArgument, "share between 0 and 1"),
        (COUNT, math.nan, InvalidArgument, "finite"),
        (COUNT, [0.1, 0.2], InvalidArgument, "write 1, one for each answer"),
        (Query.count(DOMAIN, NOTHING), 0.5, Contradiction, "no weight"),
        (Query.count(DOMAIN, EVERYTHING), 0.5, Contradiction, "all weight"),
        (Query.sum(DOMAIN, "age"), 8.0, Contradiction, "0 to 7"),
        (Query.sum(DOMAIN, "age"), 7 - 1e-300, Contradiction, "0 to 7"),
        (Query.histogram(DOMAIN, "sex"), [0.5, 0.5, 0.1], Contradiction, "add up to 1.1"),
        (Query.histogram(DOMAIN, "sex"), [0.5, 0.6, -0.1], InvalidArgument, r"target\[2\]"),
        (COUNT.stacked(COUNT), [0.5, 0.5], InvalidArgument, "one block at a time"),
        (Query(DOMAIN, (Block(keys=(Partition.of(DOMAIN["sex"]),), weight=ValueWeight("age", 5, 3, 1)),)), [1, 1, 1],
         InvalidArgument, "one group at a time"),
        (Query(DOMAIN, (Block(weight=ConstantWeight(0)),)), 0.5, Contradiction, "0 to 0"),
        (Query.count(cells_of(4)), 0.5, InvalidArgument, "ask about emergency, sex, age"),
    ],
)  # fmt: skip
def test_targets_that_cannot_be_are_refused_and_change_nothing(query, target, error, words):
    hypothesis = DenseBelief.uniform(DOMAIN)
    with pytest.raises(error, match=words):
        project(hypothesis, query, target=target)
    assert hypothesis.probabilities().reshape(-1) == pytest.approx(np.full(84, 1 / 84))


def test_a_group_without_weight_takes_no_share_but_zero():
    support = Support.values(DOMAIN)
    query = Query.histogram(DOMAIN, "emergency")
    moved = project(DenseBelief.uniform(support), query, target=[0.25, 0.75, 0, 0])
    assert moved.expect(query) == pytest.approx([0.25, 0.75, 0, 0])
    with pytest.raises(Contradiction, match=r"target\[3\]"):
        project(moved, query, target=[0.25, 0.5, 0, 0.25])


def test_steps_that_would_make_weights_vanish_are_refused():
    hypothesis = DenseBelief.uniform(DOMAIN)
    for query, exponent in ((COUNT, 301.0), (Query.sum(DOMAIN, "age"), -60.0)):
        with pytest.raises(InvalidArgument, match="smaller steps"):
            hypothesis.tilted(query, exponents=exponent)
    for weights in ([1.0, -1.0], [0.0, 0.0], [math.inf, 1.0], [math.nan, 1.0], [1.0]):
        with pytest.raises(InvalidArgument, match="weights"):
            DenseBelief(Support.values(cells_of(2)), np.array(weights))


def test_a_support_is_a_choice_of_codes_of_every_attribute():
    domain = Domain((Boolean("a"), Integer("b", 1, 3)))
    assert Support.of(domain).shape == (4, 5)
    assert Support.values(domain).shape == (2, 3)
    assert Support.values(domain).project(["b"]).shape == (3,)
    for masks in ((1,), (0, 1), (1, 1 << 5)):
        with pytest.raises(InvalidArgument, match="masks"):
            Support(domain, masks)


def test_a_predicate_over_everything_at_once_moves_the_cells_that_it_means():
    domain = bits(6)
    where = disjunction(
        *(conjunction(among(a, [1]), among(b, [0])) for a, b in zip(domain, domain.attributes[1:], strict=False))
    )
    for kernel in (vector, compiled):
        moved = project(
            DenseBelief.uniform(Support.values(domain), kernel=kernel), Query.count(domain, where), target=0.25
        )
        meant = inside(where, moved.support)
        assert moved.probabilities().reshape(-1)[meant] == pytest.approx(0.25 / meant.sum())


@pytest.mark.parametrize("kind", ["slice", "mask", "sum"])
def test_a_step_needs_no_more_than_three_vectors(kind):
    """2^20 cells. What is allocated while a belief is made, asked and moved, with its own vector."""
    domain = Domain((Integer("cell", 0, (1 << 20) - 1),)) if kind == "mask" else bits(20)
    support = Support.values(domain)
    if kind == "mask":
        chosen = np.packbits(np.random.default_rng(0).random(1 << 20) < 0.5, bitorder="little").tobytes()
        query = Query.count(domain, among_mask(domain["cell"], int.from_bytes(chosen, "little")))
    elif kind == "slice":
        query = Query.count(domain, conjunction(*(among(domain.attributes[place], [1]) for place in (2, 11, 19))))
    else:
        query = Query.sum(domain, "b07")
    project(DenseBelief.uniform(support), query, target=0.3)  # compiles
    tracemalloc.start()
    moved = DenseBelief.uniform(support)
    moved.expect(query)
    moved = project(moved, query, target=0.3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert moved.expect(query) == pytest.approx([0.3], rel=1e-12)
    assert peak <= 3 * 8 * (1 << 20)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_weights_of_any_size_are_taken(size):
    hypothesis = DenseBelief(Support.values(cells_of(4)), np.array([0.0, 1.0, 2.0, 5.0]) * size)
    assert hypothesis.probabilities() == pytest.approx([0, 1 / 8, 1 / 4, 5 / 8])


def test_a_cell_that_sinks_keeps_a_trace_and_a_cell_without_weight_gets_none():
    domain = cells_of(4)
    hypothesis = DenseBelief(Support.values(domain), np.array([0.0, 1.0, 1.0, 1.0]))
    low, rest = (Query.count(domain, among(domain["cell"], codes)) for codes in ([0, 1], [2]))
    for _ in range(40):  # e^-8000 without the trace
        hypothesis = hypothesis.tilted(low, exponents=-200.0)
    assert 0 < hypothesis.expect(low)[0] < 1e-90
    hypothesis = project(hypothesis, low, target=0.5)
    assert hypothesis.probabilities() == pytest.approx([0, 0.5, 0.25, 0.25])
    assert hypothesis.expect(rest) == pytest.approx([0.25])


def test_regions_that_are_kept_stay_within_their_room():
    domain = Domain((Integer("cell", 0, (1 << 16) - 1),))
    regions, rng = RegionCache(Support.of(domain), room=1 << 18), np.random.default_rng(0)
    masks = [int.from_bytes(rng.bytes(1 << 13), "little") for _ in range(12)]
    made = [regions.of(among_mask(domain["cell"], mask)) for mask in masks]
    again = [regions.of(among_mask(domain["cell"], mask)) for mask in reversed(masks)]
    assert [region is other for region, other in zip(made, reversed(again), strict=True)] == [False] * 9 + [True] * 3
