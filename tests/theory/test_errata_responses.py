"""Rows of the errata on noise and on randomized response: the printed statement fails, the right one holds."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from dodona.errors import InvalidArgument
from dodona.lab.mechanisms import Coins, Laplace, RandomizedResponse
from dodona.lab.theorems import laplace_error
from dodona.privacy.additive_noise import Calibration, calibrate_sigma, continuous_gaussian_delta
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

COUNT = Sensitivity.count(Neighbours.REPLACE)
HONESTY = math.e / (1 + math.e)


def test_row_3_the_laplace_interval_is_ten_times_narrower_than_printed() -> None:
    """P(|noise| ≥ α) should be exactly .05 at α, for a share of 1,000,000 rows at ε = 1."""

    def beyond(alpha: float) -> float:
        return math.exp(-alpha * 1_000_000)

    assert beyond(0.0000299) < 1e-12
    right = laplace_error(1e-6, epsilon=1)
    assert right == pytest.approx(2.99573e-6, rel=1e-6)
    assert beyond(right) == pytest.approx(0.05, rel=1e-12)


def test_row_4_the_logarithm_of_the_ratio_is_that_of_three_and_the_odds_sum_to_one() -> None:
    ratios = [Fraction(3, 4) / Fraction(1, 4), Fraction(1, 4) / Fraction(3, 4)]
    assert max(ratios) == 3
    assert max(abs(math.log(ratio)) for ratio in ratios) == pytest.approx(math.log(3)) != 3
    for epsilon in (0.5, 1.0, 2.0):
        printed = math.exp(epsilon) / (1 + epsilon) + 1 / (1 + epsilon)
        assert printed > 1.2
        right = math.exp(epsilon) / (1 + math.exp(epsilon)), 1 / (1 + math.exp(epsilon))
        assert sum(right) == pytest.approx(1)
        assert RandomizedResponse(epsilon=epsilon).honesty == pytest.approx(right[0])


def test_row_10_the_printed_variance_is_far_too_small() -> None:
    """Δ = 1, (.1, 10^-5): variance ln(1/δ)/ε is about 115, and δ(.1) is not 10^-5 but above .001."""
    printed = math.sqrt(math.log(1e5) / 0.1)
    assert continuous_gaussian_delta(0.1, 1 / printed) > 1e-3
    classical = calibrate_sigma(0.1, 1e-5, COUNT, Calibration.CLASSICAL)
    assert classical == pytest.approx(math.sqrt(2 * math.log(1.25e5)) / 0.1)
    assert continuous_gaussian_delta(0.1, 1 / classical) <= 1e-5


def test_row_10_the_classical_formula_ends_and_the_analytic_one_needs_less() -> None:
    def classical(epsilon: float, delta: float) -> float:
        return math.sqrt(2 * math.log(1.25 / delta)) / epsilon

    assert (
        continuous_gaussian_delta(8.7, 1 / classical(8.7, 1e-6))
        <= 1e-6
        < continuous_gaussian_delta(8.9, 1 / classical(8.9, 1e-6))
    )
    for epsilon, saved in ((0.1, 0.365), (0.001, 0.64)):
        analytic = calibrate_sigma(epsilon, 1e-5, COUNT, Calibration.ANALYTIC)
        assert continuous_gaussian_delta(epsilon, 1 / analytic) <= 1e-5 * (1 + 1e-6)
        assert 1 - analytic / classical(epsilon, 1e-5) == pytest.approx(saved, abs=5e-3)


def test_row_17_a_histogram_priced_under_one_relation_is_not_private_under_the_other() -> None:
    """Laplace noise of scale 1: adding a row tells 1, replacing one tells 2."""
    cells = {Neighbours.ADD_REMOVE: [(1, 0), (0, 1)], Neighbours.REPLACE: [(1, -1), (-1, 1)]}
    for relation, changes in cells.items():
        stated = Sensitivity.histogram(relation)
        assert max(sum(map(abs, change)) for change in changes) == stated.l1
        assert max(sum(step**2 for step in change) for change in changes) == stated.l2_squared
    grid = range(-30, 31)
    noise = {x: Laplace(scale=1).probability(x) for x in range(-40, 41)}
    worst = max(
        math.log(noise[x] * noise[y] / (noise[x - 1] * noise[y + 1])) for x, y in itertools.product(grid, repeat=2)
    )
    added = Laplace(scale=1).event(Sensitivity.histogram(Neighbours.ADD_REMOVE)).epsilon
    replaced = Laplace(scale=1).event(Sensitivity.histogram(Neighbours.REPLACE)).epsilon
    assert float(added) == 1 < worst == pytest.approx(float(replaced))


def test_row_25_yes_without_the_truth_is_two_heads() -> None:
    """Tails tells the truth; heads and a second coin tells yes on heads."""
    said = {
        (first, second, truth): truth if first == "tails" else second == "heads"
        for first, second in itertools.product(("heads", "tails"), repeat=2)
        for truth in (False, True)
    }
    assert not said["heads", "tails", False]
    lies = [coins for coins, answer in said.items() if answer and not coins[2]]
    assert lies == [("heads", "heads", False)]
    assert Fraction(len(lies), 4) == Fraction(1, 4)
    assert 1 - Coins().honesty == 0.25


def test_row_29_the_printed_interval_is_empty_and_rests_on_the_wrong_logarithm() -> None:
    n = 1_000_000
    assert math.sqrt(math.log10(40) / 2) == pytest.approx(0.89, abs=6e-3)
    assert math.sqrt(math.log(40) / 2) == pytest.approx(1.3581, abs=1e-4)
    assert all(2.16 * r - 0.5591 > 2.16 * r - 0.5619 for r in (0.0, 0.3, 1.0))
    mechanism = RandomizedResponse(epsilon=1)
    slope, start = mechanism.share(1, 1) - mechanism.share(0, 1), mechanism.share(0, 1)
    assert [slope, start] == pytest.approx([2.163953, -0.581977], abs=1e-6)
    assert mechanism.accuracy(respondents=n).within == pytest.approx(0.0029389, abs=1e-7)
    assert slope * (1 / (1 + math.e) - 0.26) == pytest.approx(0.0193, abs=1e-4)

    def coverage(true: int, low: float, high: float) -> float:
        """How often low ≤ slope·r + start - q ≤ high, by the normal tail of a sum of a million coins."""
        mean = (true * HONESTY + (n - true) * (1 - HONESTY)) / n
        spread = math.sqrt(HONESTY * (1 - HONESTY) / n)
        edges = [((edge - start + true / n) / slope - mean) / spread for edge in (low, high)]
        return 0.5 * (math.erf(edges[1] / math.sqrt(2)) - math.erf(edges[0] / math.sqrt(2)))

    right = mechanism.accuracy(respondents=n).within
    for true in (0, 300_000, n):
        assert coverage(true, -right, right) > 0.95
        # The estimate with .26 for .2689 is .0193 too high, far outside its printed half-width.
        assert coverage(true, -0.0193 - 0.0019, -0.0193 + 0.0019) < 1e-6


def test_row_30_the_raw_share_does_not_come_near_the_true_one() -> None:
    """ε = 1, nobody would say yes: the raw share tends to .2689 and only the debiased one to 0."""
    for n in (100, 10_000, 1_000_000):
        raw = 1 / (1 + math.e)
        assert raw == pytest.approx(0.2689, abs=5e-5)
        near = binom.cdf(math.floor(0.26 * n), n, raw)  # P(raw share ≤ .26)
        assert near < (0.5 if n < 1_000 else 0.03)
    mechanism = RandomizedResponse(epsilon=1)
    assert mechanism.share(268_941, 1_000_000) == pytest.approx(0, abs=1e-5)
    slope = (1 + math.e) / (math.e - 1)
    printed = slope * 0.5 - 1 / (1 + math.e)
    assert printed == pytest.approx(0.813, abs=5e-4)
    assert mechanism.share(1, 2) == pytest.approx(0.5)


def test_row_31_answers_are_independent_and_not_identically_distributed() -> None:
    """Two kinds of respondents answer yes with different probabilities, and the bound holds all the same."""
    assert pytest.approx(1 - HONESTY) != HONESTY
    n, failing = 40, 0.1
    room = math.sqrt(math.log(2 / failing) / (2 * n))
    for true in range(n + 1):
        law = np.convolve(
            binom.pmf(np.arange(true + 1), true, HONESTY), binom.pmf(np.arange(n - true + 1), n - true, 1 - HONESTY)
        )
        mean = (true * HONESTY + (n - true) * (1 - HONESTY)) / n
        assert np.sum(law[np.abs(np.arange(n + 1) / n - mean) >= room]) <= failing


def test_row_32_one_coding_one_first_row_and_one_order_of_arguments() -> None:
    sick = [1, 0, 0, 1, 0]
    turned = [1 - bit for bit in sick]
    assert sum(sick) / 5 == 1 - sum(turned) / 5 != sum(turned) / 5  # the other coding counts the healthy
    everybody = sum(1 for _ in range(5 + 1)) / 5  # the sum from 0 to n of a question that holds for all
    assert everybody > 1 == sum(1 for _ in range(1, 5 + 1)) / 5
    # Lap(b, μ) and Lap(0, b): in the first order the second has the scale 0, which no mechanism takes.
    with pytest.raises(InvalidArgument, match="scale"):
        Laplace(scale=0)
