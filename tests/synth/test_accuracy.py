"""Answers from measured tables: their intervals hold, and so do those of a model's distance from the table."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import dodona
from dodona.errors import InvalidRequest
from dodona.knowledge.fit import ObservedBlock
from dodona.query.residual import Classes, Residual
from dodona.schema.attributes import Integer
from dodona.schema.encoding import encode
from dodona.schema.schema import Domain
from dodona.synth.accuracy import interval_factor, marginal_error, noise_distance, released_counts
from dodona.synth.methods import Annealed
from dodona.synth.whole import lift
from dodona.synth.workload import Workload, marginal_block
from tests.synth.scene import PURE, ROWS, columns, curator_of, schema

SCHEMA = schema()
DOMAIN = SCHEMA.domain
CODES = {name: encode(DOMAIN[name], values) for name, values in columns().items()}


def exact(*names: str) -> np.ndarray:
    shape = [DOMAIN[name].cells for name in names]
    return np.bincount(np.ravel_multi_index([CODES[name] for name in names], shape), minlength=int(np.prod(shape)))


def observed(names: tuple[str, ...], deviation: float, chance: np.random.Generator, law: str = "normal"):
    block = marginal_block(DOMAIN, names)
    scale = deviation if law == "normal" else deviation / np.sqrt(2)
    noisy = exact(*names) + getattr(chance, law)(0, scale, block.values)
    return ObservedBlock.of_shares(block, noisy / ROWS, (deviation / ROWS) ** 2)


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_intervals_of_pooled_tables_hold_as_often_as_they_say(law: str):
    """3,000 intervals of nine in ten; fewer than .88 hold with probability below 10^-4, so far more would be needed."""
    chance, held, total = np.random.default_rng(1), 0, 0
    for _ in range(1000):
        seen = [observed(("sex", "ward"), 20, chance, law), observed(("ward", "days"), 30, chance, law)]
        estimate = released_counts(DOMAIN, seen, marginal_block(DOMAIN, ["ward"]), size=ROWS, confidence=0.9)
        assert estimate is not None
        assert estimate.within is not None
        held += int((np.abs(estimate.values - exact("ward")) <= estimate.within).sum())
        total += 3
    assert held / total > 0.88


def test_two_tables_say_more_than_either():
    chance = np.random.default_rng(2)
    seen = [observed(("sex", "ward"), 20, chance), observed(("ward", "emergency"), 20, chance)]
    block = marginal_block(DOMAIN, ["ward"])
    both = released_counts(DOMAIN, seen, block, size=ROWS, confidence=0.95)
    single = released_counts(DOMAIN, seen[:1], block, size=ROWS, confidence=0.95)
    assert both is not None
    assert single is not None
    np.testing.assert_allclose((both.within - 0.5) * np.sqrt(2), single.within - 0.5)
    np.testing.assert_allclose(single.within - 0.5, interval_factor(0.95) * 20 * np.sqrt(2))  # two cells are added
    assert released_counts(DOMAIN, seen, marginal_block(DOMAIN, ["days"]), size=ROWS, confidence=0.95) is None


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_the_interval_of_a_distance_holds_also_for_what_was_fitted_to_the_noise(law: str):
    """400 intervals of .95 each: less than .95 hold with probability below 10^-6 if they are as wide as proved."""
    chance, held = np.random.default_rng(3), 0
    truth = exact("ward", "days") / ROWS
    for _ in range(400):
        observation = observed(("ward", "days"), 25, chance, law)
        fitted = np.maximum(0, observation.values) / np.maximum(0, observation.values).sum()
        interval = marginal_error(DOMAIN, [observation], ["ward", "days"], fitted)
        held += interval.low <= 0.5 * np.abs(fitted - truth).sum() <= interval.high
    assert held >= 380
    assert marginal_error(DOMAIN, [observation], ["sex"], np.array([0.5, 0.5])).high == 1


def test_noise_stays_below_its_distance():
    """10^4 sums for each law; more than 700 of them pass a bound of .95 with probability below 10^-10."""
    chance = np.random.default_rng(4)
    for cells in (1, 4, 30):
        bound = noise_distance(cells, 9.0, 0.95)
        laplace = [chance.laplace(0, 3 / np.sqrt(2 * terms), (terms, 10_000, cells)).sum(axis=0) for terms in (1, 2, 5)]
        for drawn in (chance.normal(0, 3, (10_000, cells)), *laplace):
            assert (np.abs(drawn).sum(axis=1) > bound).sum() <= 700


def test_tables_that_share_noise_are_not_pooled_and_their_sums_are_no_more_certain_than_they_are():
    """1,000 tables whose cells all have the same noise: of nine in ten intervals, fewer than .87 hold by 10^-3."""
    chance, block = np.random.default_rng(6), marginal_block(DOMAIN, ["ward"])
    held = near = 0
    for _ in range(1000):
        noise = chance.normal(0, 20) / ROWS
        seen = tuple(
            replace(
                ObservedBlock.of_shares(marginal_block(DOMAIN, names), exact(*names) / ROWS + noise, (20 / ROWS) ** 2),
                peak=exact(*names).size * (20 / ROWS) ** 2,
            )
            for names in (("sex", "ward"), ("ward", "emergency"))
        )
        estimate = released_counts(DOMAIN, seen, block, size=ROWS, confidence=0.9)
        assert estimate is not None
        held += bool((np.abs(estimate.values - exact("ward")) <= estimate.within).all())
        error = marginal_error(DOMAIN, seen, ["sex", "ward"], exact("sex", "ward") / ROWS)
        near += error.low == 0 <= error.high
    assert held > 870
    assert near > 950


def test_what_all_cells_share_stays_below_its_distance():
    """10^4 draws; more than 700 of them pass a bound of .95 with probability below 10^-10."""
    drawn = 8 * np.abs(np.random.default_rng(7).normal(0, 3, 10_000))
    assert (drawn > noise_distance(8, 9.0, 0.95, peak=72.0)).sum() <= 700
    assert (drawn > noise_distance(8, 9.0, 0.95)).sum() > 700


@pytest.mark.parametrize("numbers", [(3,), (2, 4), (3, 2, 3)])
def test_the_noise_of_a_residual_is_the_same_in_all_directions_of_its_own(numbers: tuple[int, ...]):
    """The covariance of a lifted residual is a projection, so that its largest eigenvalue is its variance."""
    domain = Domain(tuple(Integer(f"c{place}", 0, size - 1, otherwise=0) for place, size in enumerate(numbers)))
    residual = Residual(tuple(Classes.of(attribute) for attribute in domain))
    squares = [row.square for row in residual.rows()]
    lifts = np.stack([lift(residual, row.tolist()).reshape(-1) for row in np.eye(residual.number, dtype=int)], axis=1)
    covariance = lifts @ np.diag(np.array(squares, dtype=float)) @ lifts.T
    projection = np.ones((1, 1))
    for size in numbers:
        projection = np.kron(projection, np.eye(size) - 1 / size)
    np.testing.assert_allclose(covariance, projection, atol=1e-12)


@pytest.mark.parametrize("share", ["1/2", "1/20"])
def test_intervals_of_a_release_by_residuals_hold(share: str):
    """Intervals of .99 in 20 tables; by Hoeffding's bound three in ten of them fail with probability below 2·10^-7.

    Those of one table may fail together, so that tables are counted: exp(-20·KL(0.3, 0.01)).
    """
    held = total = 0
    for _ in range(5):
        model = dodona.synthesize(curator_of(), "2-way", share=share)
        if all(observation.peak is None for observation in model.seen):
            continue  # too little is spent for it
        for names in combinations(DOMAIN.names, 1):
            estimate = model.marginal(names, confidence=0.99)
            assert estimate.within is not None
            held += int((np.abs(estimate.values - exact(*names)) <= estimate.within).sum())
            total += estimate.block.values
    assert held >= 0.7 * total


@pytest.mark.parametrize("method", [Annealed(), Annealed(law="laplace")])
def test_a_release_says_its_measured_counts_with_intervals_and_marks_the_others(method):
    model = dodona.synthesize(curator_of(), "2-way", epsilon=1, method=method, max_price=1)
    ward = model.marginal(["ward"])
    assert ward.source == "measured"
    assert ward.within is not None
    assert (np.abs(ward.values - exact("ward")) <= 6 * ward.within).all()  # 10^-7 at Laplace's tails
    frame = ward.to_pandas()
    assert frame.ward.tolist() == ["surgery", "medicine", "children"]
    assert (frame.low <= frame.estimate).all()
    days = model.count("days >= 2", confidence=0.99)
    assert days.source == "measured"
    assert days.within is not None
    assert abs(days.values[0] - (CODES["days"] >= 2).sum()) <= 4 * days.within[0]  # 10^-8
    wide = model.marginal(["sex", "ward", "days", "emergency"])
    assert wide.source == "model"
    assert wide.low is None
    assert wide.to_arrow().column("low").null_count == wide.block.values
    assert wide.values.sum() == pytest.approx(ROWS, rel=0.01)


def test_what_was_not_released_is_refused():
    model = dodona.synthesize(curator_of(), Workload.marginals(DOMAIN, [["sex", "ward"]]), epsilon=1, max_price=1)
    for call in (lambda: model.marginal(["days"]), lambda: model.count("days > 2")):
        with pytest.raises(InvalidRequest, match="days is no part of the release of sex, ward"):
            call()


QUESTIONS = (
    "SELECT ward, count(*) FROM stays GROUP BY ward",
    "SELECT count(*) FROM stays WHERE days >= 3",
    "SELECT count(*) FROM stays WHERE sex = 'male'",
)


@pytest.mark.parametrize("budget", [None, PURE], ids=["renyi", "pure"])
def test_questions_that_follow_from_a_release_are_free_also_for_another_curator(budget):
    curator = curator_of() if budget is None else curator_of(budget=budget)
    dodona.synthesize(curator, "2-way", share="1/2")
    charges = curator.budget.charges
    other = curator_of(ledger=curator.desk.dataset.ledger)  # what it knows, it reads from the ledger
    for asked in (curator, other):
        for question in QUESTIONS:
            answer = asked.ask(question, within="10%", max_price=0)
            assert answer.source in {"replayed", "derived"}
            assert answer.price.share == 0
    assert other.budget.charges == charges
