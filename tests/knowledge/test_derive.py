"""What follows from earlier releases is found, exactly, with the least variance; what does not is not."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.knowledge import derive as derivations
from dodona.knowledge.derive import MOST_BLOCKS, PRIME, Derivation, Span, derive
from dodona.knowledge.patterns import BlockMeasurement, block_vectors, dependence, noise_variance
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.query.predicate import EVERYTHING, NOTHING, among, conjunction, disjunction
from dodona.query.query import (
    Block,
    CaseWeight,
    ConstantWeight,
    Query,
    block_weights,
    column_weight,
    group_numbers,
    product_axes,
    product_shape,
)
from dodona.query.residual import Classes, Residual
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from tests.house.shares import examples

FOUND = (Phase.explicit, Phase.reuse, Phase.generate)  # a fault is told at once; making it small takes minutes
DOMAIN = Domain((Category("sex", ["f", "m"]), Integer("age", 0, 2)))
SEX, AGE = DOMAIN["sex"], DOMAIN["age"]
SHAPE = product_shape(DOMAIN, DOMAIN.names)
AXES = product_axes(DOMAIN, DOMAIN.names)

sexes = st.sets(st.integers(0, 3)).map(lambda codes: among(SEX, codes))
ages = st.sets(st.integers(0, 4)).map(lambda codes: among(AGE, codes))
wheres = st.tuples(sexes, ages).flatmap(lambda pair: st.sampled_from([conjunction(*pair), disjunction(*pair), *pair]))
weights = st.sampled_from([ConstantWeight(1), ConstantWeight(3), column_weight(AGE)[0], column_weight(AGE, power=2)[0]])
keys = st.sampled_from(
    [(), (), (Partition.of(SEX),), (Partition.every(AGE, 2),), (Partition.of(SEX), Partition.of(AGE))]
)
blocks = st.builds(Block, wheres, keys, weights)
noises = st.sampled_from([Laplace(scale=2), Laplace(scale="7/2"), Gaussian(scale=3), Gaussian(scale="1/2")])


def lines(block):
    """The weights of every cell in each group, as whole numbers."""
    cell_weights = np.broadcast_to(block_weights(block, AXES), SHAPE).reshape(-1)
    groups = np.broadcast_to(group_numbers(block.keys, AXES), SHAPE).reshape(-1)
    table = np.zeros((block.values, len(cell_weights)), dtype=np.int64)
    table[groups, np.arange(len(cell_weights))] = cell_weights
    return table


def weighing(table):
    """A block that weighs each cell as the table says."""
    age, sex = np.unravel_index(np.arange(table.size), SHAPE)  # attributes in the order of their names
    branches = tuple(
        (conjunction(among(SEX, [int(sex_code)]), among(AGE, [int(two)])), ConstantWeight(int(number)))
        for sex_code, two, number in zip(sex, age, table.reshape(-1), strict=True)
    )
    return Block(EVERYTHING, (), CaseWeight(branches, ConstantWeight(0)))


def rank(rows):
    """The rank of whole numbers, by elimination in fractions."""
    left = [[Fraction(int(value)) for value in row] for row in rows]
    pivots = 0
    for column in range(len(left[0]) if left else 0):
        pivot = next((place for place in range(pivots, len(left)) if left[place][column]), None)
        if pivot is None:
            continue
        left[pivots], left[pivot] = left[pivot], left[pivots]
        for place in range(pivots + 1, len(left)):
            factor = left[place][column] / left[pivots][column]
            left[place] = [entry - factor * two for entry, two in zip(left[place], left[pivots], strict=True)]
        pivots += 1
    return pivots


def least(table, spread, wanted):
    """The variance of generalised least squares, by dense linear algebra."""
    scaled = table / np.sqrt(spread)[:, None]
    shares, *_ = np.linalg.lstsq(scaled.T, wanted, rcond=1e-12)
    return float(shares @ shares)


def told(own, noise_of):
    return [
        BlockMeasurement(block, tuple(range(block.values)), noise) for block, noise in zip(own, noise_of, strict=False)
    ]


several = st.lists(blocks, min_size=3, max_size=7).flatmap(
    lambda own: st.lists(noises, min_size=len(own), max_size=len(own)).map(lambda laws: told(own, laws))
)


@settings(deadline=None, max_examples=examples(60), phases=FOUND)
@given(several, st.data())
def test_any_combination_of_releases_is_found_exactly_and_with_the_least_variance(releases, data):
    table = np.concatenate([lines(release.block) for release in releases])
    spread = np.concatenate([[noise_variance(release.noise)] * release.block.values for release in releases])
    numbers = data.draw(st.lists(st.integers(-3, 3), min_size=len(table), max_size=len(table)))
    assume(sum(number != 0 for number in numbers) >= 3)
    common = data.draw(st.sampled_from([1, 2, 3]))
    wanted = np.array(numbers) @ table
    assume((wanted % common == 0).all())
    (estimate,) = derive(Query(DOMAIN, (weighing(wanted // common),)), releases)
    firsts = np.cumsum([0, *(release.block.values for release in releases)])
    total = np.zeros(table.shape[1], dtype=object)
    for term in estimate.terms:
        total = total + term.coefficient * table[firsts[term.release] + term.group].astype(object)
        assert term.value == releases[term.release].values[term.group]
    assert (total == wanted // common).all()
    assert estimate.constant == 0
    assert estimate.value == sum(term.coefficient * term.value for term in estimate.terms)
    assert estimate.variance == pytest.approx(least(table, spread, wanted // common), rel=1e-9, abs=1e-12)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(60), phases=FOUND)
@given(several, blocks.filter(lambda block: not block.keys))
def test_what_is_no_combination_is_not_found_and_what_is_one_is(releases, asked):
    table = np.concatenate([lines(release.block) for release in releases])
    wanted = lines(asked)
    follows = rank(np.concatenate([table, wanted])) == rank(table)
    assert (derive(Query(DOMAIN, (asked,)), releases) is not None) == follows


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(40), phases=FOUND)
@given(several, blocks.filter(lambda block: not block.keys), st.integers(0, 500))
def test_a_public_number_of_rows_is_used(releases, asked, rows):
    table = np.concatenate([lines(release.block) for release in releases])
    spread = np.concatenate([[noise_variance(release.noise)] * release.block.values for release in releases])
    ones, wanted = np.ones((1, table.shape[1]), dtype=np.int64), lines(asked)
    with_rows = np.concatenate([table, ones])
    estimates = derive(Query(DOMAIN, (asked,)), releases, total=rows)
    assert (estimates is not None) == (rank(np.concatenate([with_rows, wanted])) == rank(with_rows))
    if estimates is not None:
        (estimate,) = estimates
        firsts = np.cumsum([0, *(other.block.values for other in releases)])
        total = sum(
            (term.coefficient * table[firsts[term.release] + term.group].astype(object) for term in estimate.terms),
            np.zeros(table.shape[1], dtype=object),
        )
        left = wanted[0].astype(object) - total
        assert len(set(left.tolist())) == 1  # the same for every row, so it is known
        assert estimate.constant == left[0] * rows
        known = table - table.mean(axis=1, keepdims=True)  # what the number of rows does not tell
        expected = least(known, spread, wanted[0] - wanted[0].mean())
        assert estimate.variance == pytest.approx(expected, rel=1e-9, abs=1e-12)


def count(*codes: int, of=SEX):
    return Block(among(of, codes))


def test_the_rest_follows_from_the_whole_and_the_parts():
    releases = [
        BlockMeasurement(count(0, 1, 2), (90,), Laplace(scale=2)),
        BlockMeasurement(count(0), (40,), Gaussian(scale=3)),
    ]
    (estimate,) = derive(Query(DOMAIN, (count(1, 2),)), releases)
    assert estimate.value == 50
    assert estimate.variance == pytest.approx(noise_variance(Laplace(scale=2)) + 9)
    assert derive(Query(DOMAIN, (count(1),)), releases) is None


def test_three_releases_give_a_union():
    either_of = Block(disjunction(among(SEX, [0]), among(AGE, [1])))
    releases = [
        BlockMeasurement(count(0), (40,), Laplace(scale=2)),
        BlockMeasurement(count(1, of=AGE), (30,), Laplace(scale=2)),
        BlockMeasurement(Block(conjunction(among(SEX, [0]), among(AGE, [1]))), (10,), Laplace(scale=2)),
    ]
    (estimate,) = derive(Query(DOMAIN, (either_of,)), releases)
    assert [term.coefficient for term in estimate.terms] == [1, 1, -1]
    assert estimate.value == 60


def test_the_same_question_twice_is_averaged_by_the_inverse_variances():
    releases = [
        BlockMeasurement(count(0), (40,), Gaussian(scale=10)),
        BlockMeasurement(count(0), (50,), Gaussian(scale=20)),
    ]
    (estimate,) = derive(Query(DOMAIN, (count(0),)), releases)
    assert float(estimate.value) == pytest.approx(42)
    assert estimate.variance == pytest.approx(80, rel=1e-12)
    assert sum(term.coefficient for term in estimate.terms) == 1  # exactly: it has no bias


def test_one_release_that_comes_twice_is_taken_once():
    measurement = BlockMeasurement(count(0), (40,), Laplace(scale=10))
    under = [
        BlockMeasurement(count(0), (40,), Laplace(scale=10), origin=receipt) for receipt in ("one", "one", "other")
    ]
    variance = noise_variance(measurement.noise)
    for releases, drawn in (([measurement, measurement], 1), (under[:2], 1), (under, 2), ([measurement, *under], 3)):
        (estimate,) = derive(Query(DOMAIN, (count(0),)), releases)
        assert estimate.variance == pytest.approx(variance / drawn, rel=1e-12)
        assert len(estimate.terms) == drawn
        (both,) = derive(
            Query(DOMAIN, (count(0),)), [*releases, BlockMeasurement(count(0, 1), (50,), Laplace(scale=1))]
        )
        assert both.variance == pytest.approx(variance / drawn, rel=1e-12)  # also where classes are begun anew


@given(block=blocks)
@settings(max_examples=examples(400), phases=FOUND)
def test_the_columns_that_a_block_depends_on_are_those_of_each_of_its_vectors(block):
    columns = dependence(block)
    if columns is not None:
        for vector in block_vectors(block, DOMAIN):
            assert {name for column in vector for name, _, _ in column} == columns


def test_of_many_releases_only_those_of_the_same_columns_are_expanded(monkeypatch):
    """Of releases that are only found again, a question expands those that may be its own, and each of them once."""
    expanded = []
    monkeypatch.setattr(
        derivations, "block_vectors", lambda block, domain: expanded.append(block) or block_vectors(block, domain)
    )
    people = Derivation(DOMAIN)
    ages = Block(EVERYTHING, (Partition.of(AGE),))
    both = Block(among(SEX, [0]), (Partition.of(AGE),))
    for number in range(MOST_BLOCKS):
        people.add(BlockMeasurement(count(0), (40,), Laplace(scale=10), origin=f"first {number}"))
    for number in range(50):
        people.add(
            BlockMeasurement(replace(both), (1, 2, 3, 4, 5), Laplace(scale=10 + number), origin=f"both {number}")
        )
        people.add(BlockMeasurement(replace(ages), (6, 7, 8, 9, 10), Laplace(scale=10), origin=f"ages {number}"))
    cell = Block(conjunction(among(SEX, [0]), among(AGE, [2])))
    for _ in range(2):  # the second time it is known
        (estimate,) = people.recall_blocks((cell,))
        assert (estimate.value, estimate.terms[0].release, estimate.terms[0].group) == (3, MOST_BLOCKS, 2)
    assert len(expanded) == MOST_BLOCKS + 50 + 2
    assert people.derive_blocks((cell,)) is None  # the first releases alone are combined
    assert people.recall_blocks((Block(among(AGE, [1])),))[0].value == 7
    assert len(expanded) == MOST_BLOCKS + 50 + 2 + 50 + 1


def test_a_histogram_tells_all_coarser_ones_and_each_answer_by_itself():
    fine = Query.histogram(DOMAIN, ["sex", "age"])
    releases = [BlockMeasurement(fine.blocks[0], tuple(range(20)), Laplace(scale=5))]
    estimates = derive(Query.histogram(DOMAIN, "age"), releases)
    assert [estimate.value for estimate in estimates] == [30, 34, 38, 42, 46]
    assert {round(estimate.variance / noise_variance(Laplace(scale=5)), 9) for estimate in estimates} == {4}
    assert derive(Query.sum(DOMAIN, "age"), releases)[0].value == 34 + 2 * 38


def test_an_estimate_is_as_near_as_the_sum_of_its_noises():
    """20,000 draws; a share of 0.95 has a standard deviation of 0.0015, and the bounds are 6 of them away."""
    releases = [
        BlockMeasurement(count(0, 1, 2), (0,), Laplace(scale=20)),
        BlockMeasurement(count(0), (0,), Gaussian(scale=30)),
    ]
    (estimate,) = derive(Query(DOMAIN, (count(1, 2),)), releases)
    rng = np.random.default_rng(5)
    steps = np.arange(-600, 601)
    drawn = sum(
        float(term.coefficient) * rng.choice(steps, size=20_000, p=law / law.sum())
        for term in estimate.terms
        for law in [np.array([term.noise.probability(int(step)) for step in steps])]
    )
    assert (np.abs(drawn) <= estimate.within(0.95)).mean() == pytest.approx(0.95, abs=0.01)
    (alone,) = derive(Query(DOMAIN, (count(0),)), releases)
    assert alone.within(0.9) == pytest.approx(Gaussian(scale=30).accuracy(0.9).within, rel=1e-9)


def test_nothing_is_known_to_be_nought():
    (estimate,) = derive(Query.count(DOMAIN, NOTHING), [])
    assert estimate.within(0.99) == 0
    assert (estimate.value, estimate.variance, estimate.terms) == (0, 0, ())


def test_a_public_number_of_rows_is_an_answer():
    (estimate,) = derive(Query.count(DOMAIN), [], total=700)
    assert (estimate.value, estimate.variance) == (700, 0)
    assert derive(Query.count(DOMAIN), []) is None


def test_the_rest_follows_from_the_public_number_of_rows():
    releases = [
        BlockMeasurement(count(0, 3), (40,), Gaussian(scale=3))
    ]  # with <outside>, which is left out of the vectors
    (estimate,) = derive(Query(DOMAIN, (count(1, 2),)), releases, total=100)
    assert (estimate.value, estimate.constant, estimate.variance) == (60, 100, noise_variance(Gaussian(scale=3)))


def test_nearly_parallel_questions_are_not_taken_for_the_same():
    large = 1 << 50
    first = Query.weighted(DOMAIN, {"sex": {"f": large, "m": large + 1}}).blocks[0]
    second = Query.weighted(DOMAIN, {"sex": {"f": large, "m": large}}).blocks[0]
    releases = [BlockMeasurement(first, (7,), Laplace(scale=2))]
    assert derive(Query(DOMAIN, (second,)), releases) is None
    assert derive(Query(DOMAIN, (first,)), releases)[0].value == 7


def test_numbers_that_vanish_modulo_the_prime_are_no_accident():
    span = Span()
    assert span.add({0: 1, 1: PRIME})
    assert span.combination({0: 1}) is None  # the same modulo the prime, and not in whole numbers
    assert span.combination({0: 3, 1: 3 * PRIME}) == {0: 3}


def test_fractions_with_large_terms_are_found():
    span = Span()
    assert span.add({0: 10**12 + 39, 1: 7})
    assert span.add({0: 5, 1: 10**15 + 37})
    combination = span.combination({0: 1, 1: 1})
    assert combination[0] * (10**12 + 39) + combination[1] * 5 == 1
    assert combination[0] * 7 + combination[1] * (10**15 + 37) == 1


def test_residuals_tell_what_least_squares_tells():
    ways = (Classes.of(SEX), Classes.of(AGE))
    sets = [Residual(), Residual(ways[:1]), Residual(ways[1:]), Residual(ways)]
    releases = [
        BlockMeasurement(residual.block(row), (1,), Gaussian(scale=3)) for residual in sets for row in residual.rows()
    ]
    table = np.concatenate([lines(release.block) for release in releases])
    asked = Block(conjunction(among(SEX, [0, 1]), among(AGE, [1, 2])))
    (estimate,) = derive(Query(DOMAIN, (asked,)), releases)
    assert estimate.variance == pytest.approx(least(table, np.full(len(table), 9.0), lines(asked)[0]), rel=1e-9)


def test_releases_may_come_in_any_order_and_finer_ones_later():
    learned = Derivation(DOMAIN)
    learned.add(BlockMeasurement(count(0, 1), (60,), Laplace(scale=2)))
    assert learned.derive(Query(DOMAIN, (count(0),))) is None
    learned.add(BlockMeasurement(count(1), (25,), Laplace(scale=2)))  # tells the class of the first one apart
    assert learned.derive(Query(DOMAIN, (count(0),)))[0].value == 35
    learned.add(BlockMeasurement(count(0, of=AGE), (9,), Laplace(scale=2)))
    assert learned.derive(Query(DOMAIN, (count(0),)))[0].value == 35
    assert learned.derive(Query(DOMAIN, (count(0, of=AGE),)))[0].value == 9


def test_a_range_is_two_steps_of_each_column_whatever_else_was_told():
    wide = Domain(tuple(Integer(f"n{place}", 0, 10**5) for place in range(3)))
    ranges = [
        Block(conjunction(*(among(attribute, range(low, low + 1000)) for attribute in wide)))
        for low in range(1, 2000, 100)
    ]
    (vector,) = block_vectors(ranges[-1], wide)
    assert sorted(vector.values()) == [-1] * 4 + [1] * 4
    learned = Derivation(wide)
    for block in ranges:
        learned.add(BlockMeasurement(block, (7,), Laplace(scale=2)))
        assert learned.derive(Query(wide, (block,)))[0].value == 7  # what was taken in before is not written again
    assert learned.derive(Query.count(wide, among(wide["n0"], [5]))) is None


def test_the_values_of_a_large_column_add_up_over_its_ranges_and_over_other_columns():
    domain = Domain((Boolean("urgent"), Integer("cost", -3, 10**4)))
    cost, urgent = domain["cost"], domain["urgent"]
    for power in (1, 2, 3):
        weight, unit = column_weight(cost, power=power)
        cheap, dear = among(cost, range(500)), among(cost, range(500, 10**4 + 4))
        others = [Block(conjunction(dear, among(urgent, [code])), (), weight, unit) for code in range(4)]
        releases = [BlockMeasurement(Block(cheap, (), weight, unit), (5,), Laplace(scale=2))]
        assert derive(Query(domain, (Block(dear, (), weight, unit),)), releases) is None
        releases += [BlockMeasurement(block, (10**place,), Laplace(scale=2)) for place, block in enumerate(others)]
        (estimate,) = derive(Query(domain, (Block(EVERYTHING, (), weight, unit),)), releases)
        assert estimate.value == 1116
        halves = CaseWeight(((among(urgent, [0]), weight),), ConstantWeight(0))
        assert derive(Query(domain, (Block(dear, (), halves, unit),)), releases)[0].value == 1


def test_what_is_too_much_work_is_left_out_and_the_rest_still_follows():
    wide = Domain(tuple(Integer(f"n{place}", 0, 99) for place in range(3)))
    learned = Derivation(wide)
    learned.add(BlockMeasurement(Block(among(wide["n0"], range(50))), (30,), Laplace(scale=2)))
    striped = [among(attribute, range(1, 25, 2)) for attribute in wide]  # 24 steps each
    for code in range(26, 100):  # 24^3 products of steps, then many of them
        learned.add(BlockMeasurement(Block(conjunction(*striped)), (1,), Laplace(scale=2)))
        learned.add(
            BlockMeasurement(
                Block(conjunction(striped[0], striped[1], among(wide["n2"], [code]))), (1,), Laplace(scale=2)
            )
        )
    learned.add(BlockMeasurement(Block(among(wide["n0"], range(50, 100))), (60,), Laplace(scale=2)))
    assert learned.derive(Query(wide, (Block(conjunction(*striped)),))) is None
    assert learned.derive(Query.count(wide, among(wide["n0"], range(100))))[0].value == 90


def test_threads_may_ask_while_others_tell():
    """Eight threads; each sees all that it told itself."""
    domain = Domain((Integer("n", 0, 999),))
    learned = Derivation(domain)
    blocks_of = [[Block(among(domain["n"], [8 * step + thread])) for step in range(20)] for thread in range(8)]

    def tell(own):
        for block in own:
            learned.add(BlockMeasurement(block, (3,), Laplace(scale=2)))
            assert learned.derive(Query(domain, (block,)))[0].value == 3

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tell, blocks_of))
    assert learned.derive(Query.count(domain, among(domain["n"], range(160))))[0].value == 480


def test_many_attributes_cost_no_more_than_those_that_are_looked_at():
    wide = Domain(tuple(Boolean(f"b{place:02}") for place in range(60)))  # 4^60 cells
    learned = Derivation(wide)
    for place in range(59):
        pair = [wide[f"b{place:02}"], wide[f"b{place + 1:02}"]]
        learned.add(
            BlockMeasurement(
                Query.marginal(wide, [attribute.name for attribute in pair]).blocks[0], (1,) * 16, Laplace(scale=1)
            )
        )
    (estimate,) = learned.derive(Query.count(wide, among(wide["b30"], [1])))
    assert estimate.variance < 4 * noise_variance(Laplace(scale=1))  # both pairs that have it are used
    assert {term.release for term in estimate.terms} >= {29, 30}


@pytest.mark.parametrize(
    ("noise", "variance"), [(Laplace(scale=3), 17.8352), (Gaussian(scale="1/2"), 0.2154), (Gaussian(scale=9), 81)]
)
def test_the_variance_is_that_of_the_discrete_law(noise, variance):
    steps = np.arange(-4000, 4001)
    law = np.array([noise.probability(int(step)) for step in steps])
    assert noise_variance(noise) == pytest.approx(float((law * steps**2).sum()), rel=1e-9)
    assert noise_variance(noise) == pytest.approx(variance, abs=1e-3)


def test_noise_that_is_as_good_as_none_has_hardly_any_variance():
    assert 0 < noise_variance(Laplace(scale="1/1000")) < 1e-200
    assert 0 < noise_variance(Gaussian(scale="1/1000")) < 1e-200


def test_values_of_another_block_and_another_domain_are_refused():
    with pytest.raises(InvalidArgument, match="the block has 1"):
        BlockMeasurement(count(0), (1, 2), Laplace(scale=1))
    for value in (1.5, float("nan"), True):
        with pytest.raises(InvalidArgument, match="whole numbers"):
            BlockMeasurement(count(0), (value,), Laplace(scale=1))
    for total in (-1, 2.5):
        with pytest.raises(InvalidArgument, match="total"):
            Derivation(DOMAIN, total=total)
    with pytest.raises(InvalidArgument, match="write one of"):
        derive(Query.count(Domain((AGE,))), [BlockMeasurement(count(0), (1,), Laplace(scale=1))])
    with pytest.raises(InvalidArgument, match="ask about age"):
        Derivation(Domain((AGE,))).derive(Query.count(DOMAIN))


def test_a_block_with_too_many_cells_is_left_out():
    wide = Domain(tuple(Integer(f"n{place}", 0, 99) for place in range(4)))
    large = Block(EVERYTHING, tuple(Partition.of(attribute) for attribute in wide))
    assert block_vectors(large, wide) is None


@given(
    ages=st.sets(st.integers(0, 11)),
    kinds=st.sets(st.integers(0, 4)),
    cuts=st.sets(st.integers(1, 9)),
    weight=st.integers(-3, 3),
    both=st.booleans(),
)
def test_the_vectors_of_grouped_conjunctions_add_up_to_their_weights_in_every_cell(ages, kinds, cuts, weight, both):
    age, kind = Integer("age", 0, 9), Category("kind", ["a", "b", "c"])
    domain = Domain((kind, age))
    keys = (Partition.cut(age, (0, *sorted(cuts))), Partition.of(kind))[: 2 if both else 1]
    where = conjunction(among(age, ages), among(kind, kinds))
    block = Block(where, keys, ConstantWeight(weight))
    vectors = block_vectors(block, domain)
    assert len(vectors) == block.values
    for cell in product(range(age.cells), range(kind.cells)):
        code = dict(zip(("age", "kind"), cell, strict=True))
        reached = [
            sum(jump for steps, jump in vector.items() if all(code[name] >= at for name, at, _ in steps))
            for vector in vectors
        ]
        axes = {name: np.asarray(value) for name, value in code.items()}
        meant = [0] * block.values
        meant[int(group_numbers(keys, axes))] = weight if cell[0] in ages and cell[1] in kinds else 0
        assert reached == meant


def test_two_answers_that_are_far_more_accurate_than_the_others_are_combined():
    yes = among(SEX, [1])
    learned = Derivation(DOMAIN)
    for number in range(3):
        learned.add(BlockMeasurement(Block(yes), (number,), Laplace(scale=10**9)))
    assert float(learned.derive(Query.count(DOMAIN, yes))[0].value) == pytest.approx(1)
    for number in range(2):
        learned.add(BlockMeasurement(Block(yes), (7 + 2 * number,), Laplace(scale=1)))
    assert float(learned.derive(Query.count(DOMAIN, yes))[0].value) == pytest.approx(8)


def test_what_is_learned_one_by_one_is_combined_as_well_as_what_is_learned_at_once():
    """Least squares follow each release by an update: after more than a hundred they are still exact."""
    domain = Domain((Integer("a", 0, 19, otherwise=0),))
    column, rng = domain["a"], np.random.default_rng(3)
    growing, table, spread = Derivation(domain), [], []
    for turn in range(120):
        codes = np.flatnonzero(rng.random(20) < 0.4).tolist() or [0]
        noise = Gaussian(scale=int(rng.integers(5, 200)))
        growing.add(BlockMeasurement(Block(among(column, codes)), (turn,), noise))
        table.append([float(code in codes) for code in range(20)])
        spread.append(noise_variance(noise))
        wanted = np.zeros(20)
        wanted[rng.choice(20, 3, replace=False)] = 1
        estimates = growing.derive(Query(domain, (Block(among(column, np.flatnonzero(wanted).tolist())),)))
        if estimates is not None:
            assert estimates[0].variance == pytest.approx(least(np.array(table), np.array(spread), wanted), rel=1e-7)
    assert estimates is not None


def test_a_cell_of_a_released_table_is_the_number_that_was_released():
    table = BlockMeasurement(Block(among(SEX, [0]), (Partition.of(AGE),)), (7, 8, 9, 1, 2), Gaussian(scale=3))
    again = BlockMeasurement(Block(conjunction(among(SEX, [0]), among(AGE, [1]))), (20,), Gaussian(scale=2))
    learned = Derivation(DOMAIN, total=50)
    learned.add(table)
    cell = (Block(conjunction(among(SEX, [0]), among(AGE, [1]))),)
    assert [(estimate.value, estimate.variance) for estimate in learned.recall_blocks(cell)] == [
        (8, noise_variance(table.noise))
    ]
    learned.add(again)  # the most accurate one
    assert [estimate.value for estimate in learned.recall_blocks(cell)] == [20]
    assert learned.recall_blocks((Block(among(SEX, [0])),)) is None  # it follows, and was not released
    assert learned.recall_blocks((Block(),)) is None


def test_the_rest_of_a_public_number_of_rows_is_recalled_too():
    learned = Derivation(DOMAIN, total=50)
    learned.add(BlockMeasurement(Block(), (49,), Gaussian(scale=3)))
    learned.add(BlockMeasurement(Block(among(SEX, [1, 2, 3])), (30,), Gaussian(scale=3)))
    (estimate,) = learned.recall_blocks((Block(among(SEX, [1, 2, 3])),))
    assert estimate.value == 30
    assert learned.recall_blocks((Block(),)) is None  # it is public: no noise that was told on it is of use
