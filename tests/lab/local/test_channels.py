"""Every channel by enumeration of its reports: chances are fractions with ratios of at most e^ε, and draws follow."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dodona.errors import InvalidArgument
from dodona.lab.local.bits import TooManyOutcomes
from dodona.lab.local.bloom import Bloom
from dodona.lab.local.channel import MarkProbabilities, check_by_enumeration, check_by_formula
from dodona.lab.local.hashed import LocalHashing
from dodona.lab.local.kary import KaryResponse
from dodona.lab.local.odds import is_within, odds_below
from dodona.lab.local.unary import Unary
from dodona.lab.randomized_response import LN3
from tests.lab.local.scene import EPSILONS, NAMES, a_seed, keys_of, listed, small, twice

ALARM = 1e-9
EVERY = pytest.mark.parametrize("name", NAMES)


@EVERY
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_report_tells_two_answers_apart_by_more_than_the_loss(name: str, epsilon: str):
    channel = small(epsilon)[name]
    verdict = check_by_enumeration(channel, listed(channel), a_seed(channel))
    assert verdict.private
    assert is_within(verdict.ratio, channel.epsilon)
    assert not is_within(verdict.ratio, channel.epsilon * Fraction(99, 100)) or name == "bloom"
    assert check_by_formula(channel).private
    # With a Bloom filter's worst seed the ratio is the formula's; an arbitrary one may collide in a row.
    assert verdict.ratio == check_by_formula(channel).ratio or (
        name == "bloom" and verdict.ratio <= check_by_formula(channel).ratio
    )


def test_a_bloom_filter_without_collisions_reaches_its_formula():
    channel = Bloom.of(epsilon=1, bits=6, hashes=2)
    apart = (0, 1, 0, 0, 1, 0)  # the second element of the key alone decides, in both rows
    verdict = check_by_enumeration(channel, [(0, 0), (0, 2**30)], apart)
    assert verdict.ratio == check_by_formula(channel).ratio
    assert not is_within(verdict.ratio, Fraction(999, 1000))


@EVERY
@pytest.mark.parametrize("looks", [1, 2])
def test_the_chances_of_all_reports_are_one(name: str, looks: int):
    channel = small("1")[name]
    if looks == 2:
        channel = twice(channel)
    seed = a_seed(channel)
    for key in listed(channel):
        assert sum(channel.probability(words, key) for words in channel.outcomes(seed)) == 1


@EVERY
def test_a_second_look_at_a_report_is_private_by_its_own_formula(name: str):
    channel = twice(small("1")[name])
    verdict = check_by_enumeration(channel, listed(channel), a_seed(channel))
    assert verdict.private
    assert channel.epsilon < small("1")[name].epsilon
    assert check_by_formula(channel).private


@pytest.mark.distribution
@EVERY
@pytest.mark.parametrize("looks", [1, 2])
def test_drawn_reports_follow_the_chances(name: str, looks: int):
    """200,000 reports of one answer with one seed: chi-square at 10^-9; the law of ε = 1.5 is refused."""
    count, first = 200_000, small("1")[name]
    seed, key = a_seed(first), listed(first)[1]
    keys = np.repeat(keys_of(first)[1:2], count, axis=0)
    words = first.randomize(keys, np.tile(np.array(seed, dtype=np.uint64), (count, 1)))
    channel, other = first, small("1.5")[name]
    if looks == 2:
        words = first.randomize_again(words, first.second_response(odds_below(Fraction(1))))
        channel, other = twice(first), twice(other)
    assert first.fits(words).all()
    assert words.shape == (count, channel.width)
    seen: dict[tuple[int, ...], int] = {}
    rows, times = np.unique(words, axis=0, return_counts=True)
    for row, number in zip(rows.tolist(), times.tolist(), strict=True):
        seen[tuple(row)] = number
    outcomes = list(channel.outcomes(seed))
    assert set(seen) <= set(outcomes)

    def surprise(law) -> float:
        # Reports are put together until 50 are expected; the last bin may expect fewer.
        bins = [[0.0, 0.0]]
        for outcome in outcomes:
            if bins[-1][0] >= 50:
                bins.append([0.0, 0.0])
            bins[-1][0] += float(law.probability(outcome, key)) * count
            bins[-1][1] += seen.get(outcome, 0)
        return float(chi2.sf(sum((observed - wanted) ** 2 / wanted for wanted, observed in bins), len(bins) - 1))

    assert surprise(channel) > ALARM
    assert surprise(other) < ALARM


@EVERY
def test_reports_of_fresh_seeds_fit_and_no_others_do(name: str):
    channel = small("1")[name]
    words = channel.randomize(np.repeat(keys_of(channel)[:1], 100, axis=0), channel.seeds(100))
    assert channel.fits(words).all()
    for column in range(channel.width):
        spoiled = words.copy()
        spoiled[:, column] = 2**64 - 1
        assert not channel.fits(spoiled).any()


def test_two_coins_tell_the_truth_three_times_in_four_and_cost_the_logarithm_of_three():
    coins = KaryResponse.coins()
    assert coins.probabilities == MarkProbabilities(Fraction(3, 4), Fraction(1, 4))
    assert check_by_formula(coins).ratio == 3
    assert coins.epsilon == LN3
    assert check_by_formula(coins).private


def test_wide_encodings_have_the_same_law_in_every_word():
    """100,000 reports of label 69 among 130: each bit of 130 within six standard deviations; false alarms 3·10^-7."""
    channel, count = Unary.optimized(130, epsilon=2), 100_000
    words = channel.randomize(np.full(count, 69, dtype=np.uint64), channel.seeds(count))
    marks = channel.marks(words, keys_of(channel))
    probabilities = np.full(130, float(channel.probabilities.lend))
    probabilities[69] = 0.5
    assert (np.abs(marks - count * probabilities) <= 6 * np.sqrt(count * probabilities * (1 - probabilities))).all()


def test_marks_are_the_column_sums_however_many_rows_there_are():
    rows = np.random.default_rng(5)
    channel = Unary.symmetric(70, epsilon=1)
    for count in (1, 2, 8, 9, 10, 26, 27, 100, 1001):
        bits = rows.integers(0, 2, (count, 70))
        words = np.packbits(np.pad(bits, ((0, 0), (0, 58))).astype(np.uint8), axis=1, bitorder="little").view("<u8")
        assert (channel.marks(words.astype(np.uint64), keys_of(channel)) == bits.sum(axis=0)).all()


def test_planted_faults_are_seen_by_the_check():
    """The classics: the odds of one bit where two move, a Bloom filter that forgets a row, k labels told as two."""
    loss = Fraction(1)
    odds = odds_below(loss)
    one_bit = Unary(5, loss, MarkProbabilities(odds / (1 + odds), 1 / (1 + odds)))
    half = odds_below(loss / 2)
    one_row = Bloom(3, 2, loss, MarkProbabilities(half / (1 + half), 1 / (1 + half)))
    as_two = KaryResponse(5, loss, MarkProbabilities(odds / (1 + odds), 1 / (1 + odds) / 4))
    steps = (0, 1, 0, 0, 1, 0)
    for channel, keys, seed in (
        (one_bit, [(0,), (1,)], ()),
        (one_row, [(0, 0), (0, 2**30)], steps),
        (as_two, [(0,), (1,)], ()),
    ):
        verdict = check_by_enumeration(channel, keys, seed)
        assert not verdict.private
        assert verdict.ratio > odds
        assert not check_by_formula(channel).private


def test_one_part_in_a_billion_billion_too_much_is_seen():
    loss = Fraction(1)
    odds = odds_below(loss, bits=64) + Fraction(1, 2**64)
    channel = KaryResponse(2, loss, MarkProbabilities(odds / (1 + odds), 1 / (1 + odds)))
    assert not check_by_formula(channel).private
    assert check_by_formula(KaryResponse.of(2, epsilon=1)).private


def test_optimized_bits_have_less_variance_than_symmetric_ones_and_four_times_the_textbook_odds():
    """Wang et al. 2017: 4·e^ε/(n·(e^ε - 1)²) for rare labels."""
    for epsilon in (0.5, 1.0, 3.0):
        optimized = Unary.optimized(1000, epsilon=epsilon).support.variance(0.0, 1000)
        assert optimized == pytest.approx(4 * math.exp(epsilon) / (1000 * (math.exp(epsilon) - 1) ** 2), rel=1e-9)
        assert optimized < Unary.symmetric(1000, epsilon=epsilon).support.variance(0.0, 1000)
        hashed = LocalHashing.of(epsilon=epsilon).support.variance(0.0, 1000)
        assert hashed == pytest.approx(optimized, rel=0.05)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: KaryResponse.of(1, epsilon=1), lambda: KaryResponse.of(2, epsilon=0),
        lambda: KaryResponse.of(2, epsilon=-1), lambda: Bloom.of(epsilon=1, hashes=0),
        lambda: Unary.optimized(2**20 + 1, epsilon=1), lambda: Unary.symmetric(0, epsilon=1),
        lambda: LocalHashing.of(epsilon=1, buckets=1), lambda: LocalHashing.of(epsilon="nan"),
        lambda: Bloom.of(epsilon=1, bits=7, hashes=2), lambda: Bloom.of(epsilon=1, bits=1),
        lambda: check_by_enumeration(KaryResponse.coins(), [(0,)]),
    ],
)  # fmt: skip
def test_what_is_no_channel_is_refused(wrong):
    with pytest.raises(InvalidArgument, match="Nothing was drawn"):
        wrong()


def test_channels_with_too_many_reports_are_left_to_the_formula():
    wide = Unary.optimized(1000, epsilon=1)
    with pytest.raises(TooManyOutcomes, match=r"channel\.ratio"):
        check_by_enumeration(wide, [(0,), (1,)])
    assert check_by_formula(wide).private
    assert all(check_by_formula(channel).private for epsilon in ("1e-6", "50") for channel in small(epsilon).values())


def test_two_answers_to_yes_and_no_are_told_as_randomized_response_tells_them():
    channel = KaryResponse.of(2, epsilon=1)
    for truth, words in itertools.product((0, 1), repeat=2):
        wanted = 1 / (1 + math.exp(-1 if truth == words else 1))
        assert float(channel.probability((words,), (truth,))) == pytest.approx(wanted, rel=1e-15)
