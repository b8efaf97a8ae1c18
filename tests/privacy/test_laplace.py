"""The discrete Laplace mechanism against sums over its law in high precision."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.lab.direct import run
from dodona.lab.mechanisms import Laplace
from dodona.lab.theorems import laplace_error
from dodona.privacy.accuracy import Accuracy, Against
from dodona.privacy.events import LaplaceEvent
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours
from tests.privacy import laws

mp = mpmath.mp.clone()
mp.dps = 40

SCALES = ["1/50", "1/3", "1", "2.5", "7", "100"]
CONFIDENCES = [0.5, 0.9, 0.95, 0.999]


def tail(scale: Fraction, steps: int) -> mpmath.mpf:
    """P(|x| > steps), term by term down to 10^-40 of the first."""
    ratio = mp.exp(-mp.mpf(scale.denominator) / scale.numerator)
    further = math.ceil(100 * scale) + 2
    weights = mp.fsum(ratio**noise for noise in range(steps + 1, steps + further))
    return 2 * weights * (1 - ratio) / (1 + ratio)


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("change", list(itertools.product((-2, -1, 0, 1, 2), repeat=2)))
def test_no_move_of_two_answers_tells_more_than_the_event_says(change: tuple[int, int]) -> None:
    """The event knows only the sum of the changes; every split of it is covered."""
    scale = 1.5
    distance = sum(map(abs, change))
    if distance == 0:
        return
    event = LaplaceEvent(distance, Fraction(3, 2), Neighbours.REPLACE)
    grid = np.arange(-90.0, 91.0)
    pairs = [(laws.laplace(grid, scale), laws.laplace(grid - step, scale)) for step in change]
    here, there = (dict(np.ndenumerate(np.outer(*half))) for half in zip(*pairs, strict=True))
    assert laws.largest_loss(here, there) <= float(event.epsilon) * (1 + 1e-12)
    assert laws.kullback_leibler(here, there) <= float(event.rho()) * (1 + 1e-12)
    for order in (Fraction(3, 2), Fraction(4)):
        assert laws.renyi(here, there, order) <= float(event.renyi(order)) * (1 + 1e-12)


def test_the_price_is_reached_by_one_answer() -> None:
    grid = np.arange(-90.0, 91.0)
    here, there = (dict(enumerate(laws.laplace(grid - step, 1.5))) for step in (0, 3))
    event = LaplaceEvent(3, Fraction(3, 2), Neighbours.REPLACE)
    assert laws.largest_loss(here, there) == pytest.approx(float(event.epsilon), rel=1e-12)
    assert laws.kullback_leibler(here, there) == pytest.approx(float(event.rho()), rel=1e-12)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("answers", [1, 10])
def test_the_stated_error_covers_and_one_step_less_does_not(scale: str, confidence: float, answers: int) -> None:
    within = Laplace(scale=scale).accuracy(confidence, answers=answers).within
    exactly = Fraction(scale)
    assert within == int(within)
    assert (1 - tail(exactly, int(within))) ** answers >= confidence
    if within > 0:
        assert (1 - tail(exactly, int(within) - 1)) ** answers < confidence


@pytest.mark.parametrize("scale", SCALES)
def test_the_expected_error_is_the_sum_over_the_law(scale: str) -> None:
    exactly = Fraction(scale)
    ratio = mp.exp(-mp.mpf(exactly.denominator) / exactly.numerator)
    weights = mp.fsum(2 * noise * ratio**noise for noise in range(1, math.ceil(100 * exactly) + 2))
    summed = weights * (1 - ratio) / (1 + ratio)
    assert Laplace(scale=scale).accuracy().expected == pytest.approx(float(summed), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("scale", SCALES)
def test_probabilities_sum_to_one(scale: str) -> None:
    mechanism = Laplace(scale=scale)
    reach = math.ceil(40 * Fraction(scale)) + 2
    assert math.fsum(mechanism.probability(noise) for noise in range(-reach, reach + 1)) == pytest.approx(1, rel=1e-12)


@given(
    within=st.floats(0, 10**6),
    confidence=st.floats(0.01, 0.9999),
    answers=st.integers(1, 10**6),
)
def test_noise_for_a_target_meets_it_and_a_hundredth_more_does_not(
    within: float, confidence: float, answers: int
) -> None:
    mechanism = Laplace.for_accuracy(Accuracy(within=within, confidence=confidence), answers=answers)
    assert mechanism.accuracy(confidence, answers=answers).within <= within
    louder = Laplace(scale=mechanism.scale * Fraction(101, 100))
    assert louder.accuracy(confidence, answers=answers).within > within


def test_the_bound_of_the_text_holds_on_the_grid_only_when_it_is_rounded_up() -> None:
    """Scale 1, β = e^-2.999: P(|x| > 2.999) is .0728, not .0498."""
    failing = math.exp(-2.999)
    bound = laplace_error(1, epsilon=1, confidence=1 - failing)
    assert bound == pytest.approx(2.999)
    assert float(tail(Fraction(1), math.floor(bound))) == pytest.approx(0.0728, abs=5e-5)
    assert tail(Fraction(1), math.ceil(bound)) <= failing
    assert Laplace(scale=1).accuracy(1 - failing).within <= math.ceil(bound)


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_the_error_against_the_population_covers_what_is_sampled(share: float) -> None:
    """4,000 tables of 400 rows: at the stated 80%, fewer than 3,000 covered tables have probability below 10^-13."""
    generator = np.random.default_rng(7)
    stated = Laplace(scale=20).accuracy(0.8, sample=400)
    assert stated.against is Against.POPULATION
    counts = generator.binomial(400, share, size=4_000)
    errors = np.abs(run(Laplace(scale=20), counts) - 400 * share)
    assert np.mean(errors <= stated.within) >= 0.75
    assert stated.expected is not None
    assert np.mean(errors) <= stated.expected * 1.02


def test_the_table_alone_would_not_cover_the_population() -> None:
    """With little noise the sample is the error: the bound against the table holds in one of ten samples at most."""
    generator = np.random.default_rng(7)
    counts = generator.binomial(10_000, 0.5, size=1_000)
    errors = np.abs(run(Laplace(scale=1), counts) - 5_000)
    assert np.mean(errors <= Laplace(scale=1).accuracy(0.95).within) < 0.1


@pytest.mark.parametrize("relation", Neighbours)
def test_a_histogram_costs_what_its_sensitivity_says(relation: Neighbours) -> None:
    mechanism = Laplace.for_privacy("1/2", Sensitivity.histogram(relation))
    assert mechanism.event(Sensitivity.histogram(relation)).epsilon == Fraction(1, 2)
    assert mechanism.scale == {Neighbours.ADD_REMOVE: 2, Neighbours.REPLACE: 4}[relation]
