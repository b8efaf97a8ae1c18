"""Randomized response by exact enumeration of what is said."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from dodona.errors import InvalidArgument
from dodona.lab.direct import run
from dodona.lab.mechanisms import Coins, RandomizedResponse
from dodona.lab.randomized_response import LN3
from dodona.privacy.accuracy import Accuracy, Against
from dodona.schema.schema import Neighbours
from tests.privacy import laws

RESPONSES: list[RandomizedResponse | Coins] = [
    RandomizedResponse(epsilon="1/10"),
    RandomizedResponse(epsilon=1),
    RandomizedResponse(epsilon=5),
    Coins(),
]


def law(truths: tuple[bool, ...], honesty: float) -> laws.Law:
    """The law of all answers."""
    return {
        answers: math.prod(
            honesty if said == truth else 1 - honesty for said, truth in zip(answers, truths, strict=True)
        )
        for answers in itertools.product((False, True), repeat=len(truths))
    }


def said_yes(true: int, respondents: int, honesty: float) -> laws.Floats:
    """The law of how many say yes, if so many truly would: Bin(m, h) + Bin(n - m, 1 - h)."""
    honest = binom.pmf(np.arange(true + 1), true, honesty)
    others = binom.pmf(np.arange(respondents - true + 1), respondents - true, 1 - honesty)
    return np.convolve(honest, others)


@pytest.mark.parametrize("mechanism", RESPONSES)
def test_changing_one_truth_tells_exactly_what_the_event_says(mechanism: RandomizedResponse | Coins) -> None:
    event = mechanism.event()
    for truths in itertools.product((False, True), repeat=3):
        other = (not truths[0], *truths[1:])
        here, there = law(truths, mechanism.honesty), law(other, mechanism.honesty)
        assert event.epsilon is not None
        assert laws.largest_loss(here, there) == pytest.approx(float(event.epsilon), rel=1e-11)
        assert laws.kullback_leibler(here, there) == pytest.approx(float(event.rho()), rel=1e-9)
        for order in (Fraction(3, 2), Fraction(7)):
            assert laws.renyi(here, there, order) == pytest.approx(float(event.renyi(order)), rel=1e-9)


def test_two_coins_cost_the_logarithm_of_three_rounded_up() -> None:
    tree = {
        (truth, answer): Fraction(1, 2) * (truth == answer) + Fraction(1, 4)
        for truth in (False, True)
        for answer in (False, True)
    }
    assert max(tree[True, answer] / tree[False, answer] for answer in (False, True)) == 3
    assert Coins().honesty == tree[True, True]
    assert 0 < LN3 - Fraction(math.log(3)) < Fraction(1, 10**11)
    assert Coins().event().epsilon == LN3


def test_the_number_of_respondents_is_public() -> None:
    for mechanism in RESPONSES:
        with pytest.raises(InvalidArgument, match=r"neighbours = .*REPLACE"):
            mechanism.event(Neighbours.ADD_REMOVE)


@pytest.mark.parametrize("mechanism", RESPONSES)
@pytest.mark.parametrize("true", [0, 3, 10])
def test_the_estimate_is_unbiased(mechanism: RandomizedResponse | Coins, true: int) -> None:
    chances = said_yes(true, 10, mechanism.honesty)
    mean = math.fsum(chance * mechanism.share(yes, 10) for yes, chance in enumerate(chances))
    assert mean == pytest.approx(true / 10, abs=1e-11)


@pytest.mark.parametrize("mechanism", RESPONSES)
@pytest.mark.parametrize("respondents", [1, 12, 200])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_stated_error_covers_every_table(
    mechanism: RandomizedResponse | Coins, respondents: int, confidence: float
) -> None:
    stated = mechanism.accuracy(confidence, respondents=respondents)
    estimates = np.array([mechanism.share(yes, respondents) for yes in range(respondents + 1)])
    for true in range(respondents + 1):
        errors = np.abs(estimates - true / respondents)
        chances = said_yes(true, respondents, mechanism.honesty)
        assert np.sum(chances[errors <= stated.within]) >= confidence
        assert stated.expected is not None
        assert np.sum(chances * errors) <= stated.expected * (1 + 1e-9)


def test_the_stated_error_is_not_three_times_too_wide() -> None:
    stated = RandomizedResponse(epsilon=1).accuracy(0.95, respondents=200).within / 3
    chances = said_yes(100, 200, RandomizedResponse(epsilon=1).honesty)
    estimates = np.array([RandomizedResponse(epsilon=1).share(yes, 200) for yes in range(201)])
    assert np.sum(chances[np.abs(estimates - 0.5) <= stated]) < 0.95


@pytest.mark.parametrize("epsilon", ["1/10", "1", "5"])
@pytest.mark.parametrize("respondents", [1, 7, 40])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_for_the_table_covers_every_table(epsilon: str, respondents: int, confidence: float) -> None:
    mechanism = RandomizedResponse(epsilon=epsilon)
    intervals = [
        mechanism.interval(yes, respondents, confidence=confidence, against=Against.TABLE)
        for yes in range(respondents + 1)
    ]
    for true in range(respondents + 1):
        covering = [low <= true / respondents <= high for low, high in intervals]
        assert np.sum(said_yes(true, respondents, mechanism.honesty)[covering]) >= confidence


@pytest.mark.parametrize("epsilon", ["1/10", "1", "5"])
@pytest.mark.parametrize("respondents", [1, 7, 40])
def test_the_interval_for_the_population_covers_every_share(epsilon: str, respondents: int) -> None:
    mechanism = RandomizedResponse(epsilon=epsilon)
    intervals = [mechanism.interval(yes, respondents, confidence=0.9) for yes in range(respondents + 1)]
    for share in np.linspace(0, 1, 101):
        observed = share * mechanism.honesty + (1 - share) * (1 - mechanism.honesty)
        chances = binom.pmf(np.arange(respondents + 1), respondents, observed)
        covering = [low <= share <= high for low, high in intervals]
        assert np.sum(chances[covering]) >= 0.9


def test_the_interval_for_the_table_is_narrower_where_answers_are_mostly_honest() -> None:
    """The table has no sampling error."""
    mechanism = RandomizedResponse(epsilon=5)
    table = mechanism.interval(100, 200, against=Against.TABLE)
    population = mechanism.interval(100, 200)
    assert table[1] - table[0] < 0.3 * (population[1] - population[0])


def test_a_table_interval_that_forgets_a_side_would_not_cover() -> None:
    """The inversion at twice the failure probability is a planted fault: it covers some table too rarely."""
    mechanism = RandomizedResponse(epsilon=1)
    intervals = [mechanism.interval(yes, 40, confidence=0.6, against=Against.TABLE) for yes in range(41)]
    covered = [
        np.sum(said_yes(true, 40, mechanism.honesty)[[low <= true / 40 <= high for low, high in intervals]])
        for true in range(41)
    ]
    assert min(covered) < 0.8


def test_beyond_the_inverted_sizes_the_table_has_hoeffdings_interval() -> None:
    mechanism = RandomizedResponse(epsilon=1)
    low, high = mechanism.interval(5_000, 10_000, against=Against.TABLE)
    assert (high - low) / 2 == pytest.approx(mechanism.accuracy(respondents=10_000).within, rel=1e-9)
    inner = mechanism.interval(2_048, 4_096, against=Against.TABLE)
    assert (inner[1] - inner[0]) / 2 < mechanism.accuracy(respondents=4_096).within


@pytest.mark.parametrize("against", Against)
@pytest.mark.parametrize("respondents", [100, 10_000])
def test_an_interval_stays_between_nought_and_one(against: Against, respondents: int) -> None:
    mechanism = RandomizedResponse(epsilon="1/10")
    for yes in (0, respondents):
        low, high = mechanism.interval(yes, respondents, against=against)
        assert 0 <= low <= high <= 1


@pytest.mark.parametrize("epsilon", ["1e-12", "1e-9", "0.001"])
def test_hardly_honest_answers_keep_the_digits_of_their_error(epsilon: str) -> None:
    """2h - 1 taken from a double h would be off by 10^-4 at ε = 10^-12, and the stated error too small."""
    stated = RandomizedResponse(epsilon=epsilon).accuracy(0.95, respondents=100).within
    assert stated == pytest.approx(math.sqrt(math.log(40) / 200) / (float(epsilon) / 2), rel=1e-6)


@pytest.mark.parametrize("within", [0.02, 0.1, 0.5])
def test_the_loss_for_a_target_meets_it_and_a_hundredth_less_does_not(within: float) -> None:
    mechanism = RandomizedResponse.for_accuracy(Accuracy(within=within), respondents=10_000)
    assert mechanism.accuracy(respondents=10_000).within <= within
    quieter = RandomizedResponse(epsilon=mechanism.epsilon * Fraction(99, 100))
    assert quieter.accuracy(respondents=10_000).within > within


def test_a_target_that_even_the_truth_misses_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"within = .*ask more people"):
        RandomizedResponse.for_accuracy(Accuracy(within=0.01), respondents=100)


@pytest.mark.distribution
@pytest.mark.parametrize("mechanism", RESPONSES)
def test_answers_are_true_as_often_as_the_mechanism_says(mechanism: RandomizedResponse | Coins) -> None:
    """1,000,000 answers: five standard deviations, false alarms 6·10^-7; an honesty off by a hundredth is caught."""
    asked = 1_000_000
    honest = float(np.mean(run(mechanism, np.ones(asked, dtype=np.bool_))))
    room = 5 * math.sqrt(mechanism.honesty * (1 - mechanism.honesty) / asked)
    assert abs(honest - mechanism.honesty) <= room
    assert abs(honest - 0.99 * mechanism.honesty) > room
