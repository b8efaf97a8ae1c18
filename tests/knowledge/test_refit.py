import itertools

import numpy as np
import pytest

from dodona.answer.measured import MeasuredValues
from dodona.errors import InvalidArgument
from dodona.knowledge.cells import Support, compute_marginals, spread_tables
from dodona.knowledge.components import ComponentBelief
from dodona.knowledge.dense import DenseBelief
from dodona.knowledge.fit import Observation, observations_from, refit, variance_bound
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.query.predicate import among, conjunction
from dodona.query.query import Block, Query, ValueWeight
from dodona.query.question import Question
from tests.knowledge.explicit import bits, matrix, random_law
from tests.query.drawing import DOMAIN

TIGHT = 1e-8


def certified(fit, *, tolerance: float) -> None:
    """The law is the one of its multipliers, and they are what the residuals say: so it is the one minimum."""
    support = fit.prior.support
    prior = fit.prior.probabilities().reshape(-1)
    powers = np.zeros(support.size)
    law = fit.belief.probabilities().reshape(-1)
    for seen, own in zip(fit.observations, fit.multipliers, strict=True):
        powers += own @ matrix(seen.query.blocks[0], support)
    wanted = prior * np.exp(powers - powers.max())
    assert law == pytest.approx(wanted / wanted.sum(), rel=1e-6, abs=1e-14)
    for seen, own in zip(fit.observations, fit.multipliers, strict=True):
        block = matrix(seen.query.blocks[0], support)
        low, high = min(block.min(), 0) if seen.query.blocks[0].keys else block.min(), block.max()
        told = np.clip(seen.values, low, max(high, 0) if seen.query.blocks[0].keys else high)
        slack = block @ law - told + seen.deviations**2 * own
        assert (np.abs(slack) <= (tolerance + 1e-7) * seen.deviations).all()


def seen(query: Query, law: np.ndarray, support: Support, rng: np.random.Generator, deviation: float) -> Observation:
    truth = matrix(query.blocks[0], support) @ law
    return Observation.of(query, truth + deviation * rng.standard_normal(truth.size), deviation=deviation)


QUERIES = (
    Query.count(DOMAIN, among(DOMAIN["sex"], [0])),
    Query.histogram(DOMAIN, ["emergency", "sex"]),
    Query.sum(DOMAIN, "age", among(DOMAIN["emergency"], [1])),
    Query.count(DOMAIN, conjunction(among(DOMAIN["sex"], [0, 2]), among(DOMAIN["age"], [1, 2, 5]))),
    Query(DOMAIN, (Block(keys=Query.histogram(DOMAIN, "sex").blocks[0].keys, weight=ValueWeight("age", 5, 3, 1, 2)),)),
    Query.count(DOMAIN, among(DOMAIN["sex"], [0])),
)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("deviation", [0.1, 0.003, 1e-5])
def test_a_fit_is_the_minimum_of_its_objective(seed, deviation):
    support, rng = Support.of(DOMAIN), np.random.default_rng(seed)
    law = random_law(support, rng)
    fit = refit(
        DenseBelief(support, random_law(support, rng)),
        [seen(query, law, support, rng, deviation * (1 + place)) for place, query in enumerate(QUERIES)],
        tolerance=1e-4,
        anchor=1.0,
    )
    assert fit.gap <= 1e-4
    certified(fit, tolerance=1e-4)


def test_a_fit_with_little_noise_has_the_observed_answers():
    support, rng = Support.values(DOMAIN), np.random.default_rng(0)
    law = random_law(support, rng)
    fit = refit(DenseBelief.uniform(support), [seen(query, law, support, rng, 1e-9) for query in QUERIES[:4]])
    for query in QUERIES[:4]:
        truth = matrix(query.blocks[0], support) @ law
        assert fit.belief.expect(query) == pytest.approx(truth, abs=1e-7)


def test_the_same_answer_seen_twice_counts_by_its_noise():
    query = QUERIES[0]
    first, second = (Observation.of(query, value, deviation=d) for value, d in ((0.3, 0.001), (0.6, 0.002)))
    fit = refit(DenseBelief.uniform(DOMAIN), [first, second], tolerance=TIGHT)
    assert fit.belief.expect(query) == pytest.approx([(4 * 0.3 + 0.6) / 5], abs=1e-5)


def test_a_fit_goes_on_from_an_earlier_one_and_ends_at_the_same_law():
    support, rng = Support.of(DOMAIN), np.random.default_rng(2)
    law = random_law(support, rng)
    many = [seen(query, law, support, rng, 0.01) for query in QUERIES * 3]
    fresh = refit(DenseBelief.uniform(support), many, tolerance=TIGHT)
    begun = refit(DenseBelief.uniform(support), many[:-1], tolerance=TIGHT)
    grown = begun.extended(many[-1:])
    assert grown.belief.probabilities() == pytest.approx(fresh.belief.probabilities(), rel=1e-5)
    assert grown.rounds < fresh.rounds
    assert begun.extended([]).rounds == 0
    again = refit(DenseBelief.uniform(support), many, tolerance=TIGHT)
    assert (again.belief.probabilities() == fresh.belief.probabilities()).all(), "the same input, the same fit"


def test_the_prior_and_the_earlier_belief_stay_usable():
    prior = DenseBelief.uniform(DOMAIN)
    fit = refit(prior, [Observation.of(QUERIES[0], 0.9, deviation=0.01)])
    later = fit.extended([Observation.of(QUERIES[3], 0.1, deviation=0.01)])
    assert prior.expect(QUERIES[0]) == pytest.approx([1 / 3])
    assert fit.belief.expect(QUERIES[0]) == pytest.approx([0.9], abs=0.001)
    assert later.belief.expect(QUERIES[3]) == pytest.approx([0.1], abs=0.001)
    assert refit(prior, []).belief.expect(QUERIES[0]) == pytest.approx([1 / 3])


def test_values_that_no_table_has_are_drawn_to_the_nearest_one():
    fit = refit(DenseBelief.uniform(DOMAIN), [Observation.of(QUERIES[0], -0.01, deviation=1e-6)])
    assert 0 < fit.belief.expect(QUERIES[0])[0] < 1e-6
    fit = refit(DenseBelief.uniform(DOMAIN), [Observation.of(QUERIES[2], 20.0, deviation=0.001)])
    assert fit.belief.expect(QUERIES[2])[0] == pytest.approx(7, abs=1e-3)


def test_components_are_fitted_each_to_what_is_about_them():
    support, rng = Support.of(DOMAIN), np.random.default_rng(4)
    law = random_law(support, rng)
    apart = [Query.marginal(DOMAIN, "age"), QUERIES[1], Query.count(DOMAIN, among(DOMAIN["emergency"], [1]))]
    told = [seen(query, law, support, rng, 0.01) for query in apart]
    fit = refit(ComponentBelief.uniform(support), told, tolerance=TIGHT)
    whole = refit(DenseBelief.uniform(support), told, tolerance=TIGHT)
    assert sorted(part.support.domain.names for part in fit.belief.parts) == [("age",), ("emergency", "sex")]
    for query in (*QUERIES, *apart):
        assert fit.belief.expect(query) == pytest.approx(whole.belief.expect(query), rel=1e-6, abs=1e-8)
    for own, other in zip(fit.multipliers, whole.multipliers, strict=True):
        assert own == pytest.approx(other, rel=1e-4, abs=1e-3)
    grown = fit.extended([seen(QUERIES[3], law, support, rng, 0.01)])
    assert len(grown.belief.parts) == 1
    assert len(fit.belief.parts) == 2


@pytest.mark.slow
def test_many_marginals_of_many_cells_are_fitted_by_shared_sums():
    """11 bits and all 165 three-way marginals: 10,560 answers, too many for one matrix with 2,048 columns."""
    domain, rng = bits(11), np.random.default_rng(6)
    support = Support.values(domain)
    law = random_law(support, rng, sharpness=4.0).reshape(support.shape)
    told = []
    for names in itertools.combinations(domain.names, 3):
        query = Query.marginal(domain, names)
        others = tuple(place for place, name in enumerate(domain.names) if name not in names)
        truth = np.zeros((4, 4, 4))
        truth[:2, :2, :2] = law.sum(axis=others)
        told.append(Observation.of(query, truth.reshape(-1) + 0.002 * rng.standard_normal(64), deviation=0.002))
    fit = refit(DenseBelief.uniform(support), told, tolerance=0.01)
    assert fit.gap <= 0.01
    off = [fit.belief.expect(one.query) - one.values for one in told]
    inside = np.concatenate([part.reshape(4, 4, 4)[:2, :2, :2].reshape(-1) for part in off])
    assert np.sqrt(np.mean(inside**2)) < 0.0025
    assert np.abs(inside).max() < 0.012


def test_spreading_tables_is_the_transpose_of_summing_marginals():
    rng = np.random.default_rng(0)
    shape = (2, 3, 4, 2, 1, 3)
    cells = rng.standard_normal(shape)
    for _ in range(40):
        sets = {tuple(sorted(rng.choice(6, size=rng.integers(0, 5), replace=False).tolist())) for _ in range(4)}
        tables = {places: rng.standard_normal([shape[place] for place in places]) for places in sets}
        sums = compute_marginals(cells, shape, sets)
        left = sum(float((sums[places] * tables[places]).sum()) for places in sets)
        assert left == pytest.approx(float(spread_tables(tables, shape) @ cells.reshape(-1)), rel=1e-9, abs=1e-9)
    assert not spread_tables({}, shape).any()


def test_measurements_become_observations_of_the_mean_row():
    query = QUERIES[0].stacked(QUERIES[1])
    question = Question(text="made up", query=query, columns=())
    measured = MeasuredValues(question, [30, *range(12)], (Laplace(scale=4), Gaussian(scale=3)))
    first, second = observations_from(measured, rows=100)
    assert first.values.tolist() == [0.3]
    assert second.values == pytest.approx(np.arange(12) / 100)
    assert first.deviations == pytest.approx([np.sqrt(2) * 4 / 100], rel=0.01)
    assert second.deviations == pytest.approx(np.full(12, 0.03))
    assert (first.query, second.query) == (QUERIES[0], QUERIES[1])
    noise = np.arange(-200, 201)
    for law in (Laplace(scale=4), Laplace(scale="1/2")):
        assert variance_bound(law) == pytest.approx(sum(law.probability(int(x)) * x * x for x in noise), rel=1e-9)


def test_observations_and_fits_that_make_no_sense_are_refused():
    with pytest.raises(InvalidArgument, match="one block"):
        Observation.of(QUERIES[0].stacked(QUERIES[1]), 0.5, deviation=0.1)
    for values, deviation in (([0.1, 0.2], 0.1), (np.nan, 0.1), (0.1, 0.0), (0.1, -1.0), (0.1, [0.1, 0.1])):
        with pytest.raises(InvalidArgument, match=r"values|deviation"):
            Observation.of(QUERIES[0], values, deviation=deviation)
    one = Observation.of(QUERIES[0], 0.5, deviation=0.1)
    with pytest.raises(InvalidArgument, match="tolerance"):
        refit(DenseBelief.uniform(DOMAIN), [one], tolerance=0.0)
    with pytest.raises(InvalidArgument, match="anchor"):
        refit(DenseBelief.uniform(DOMAIN), [one], anchor=-1.0)
    with pytest.raises(InvalidArgument, match="in doubles"):
        refit(
            DenseBelief.uniform(DOMAIN),
            [one, Observation.of(QUERIES[0], 0.2, deviation=1e-7)],
            tolerance=1e-12,
            anchor=1.0,
        )
    with pytest.raises(InvalidArgument, match="ask about"):
        refit(DenseBelief.uniform(bits(2)), [one])
