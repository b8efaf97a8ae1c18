"""Rows of the errata on choosing: each shows a statement as it is printed failing, and the right one holding."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest

from dodona.lab.mechanisms import Exponential, Laplace, NoisyMax
from dodona.privacy.events import ComposedEvent
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours
from tests.privacy import laws

mp = mpmath.mp.clone()
mp.dps = 60


def arg_max(scores: tuple[int, ...], density: object, below: object) -> list[float]:
    """The law of the arg-max with independent noise on the reals, by integration."""
    corners = sorted({*map(float, scores), -14.0, -5.0, 0.0, 10.0, 30.0, 80.0})

    def chance(winner: int) -> float:
        def at(value: mpmath.mpf) -> mpmath.mpf:
            others = mp.fprod(
                below(value - score)  # type: ignore[operator]
                for index, score in enumerate(scores)
                if index != winner
            )
            return density(value - scores[winner]) * others  # type: ignore[operator]

        return float(mp.quad(at, corners))

    return [chance(winner) for winner in range(len(scores))]


def test_row_2_one_sided_noise_is_permute_and_flip_and_not_the_exponential_mechanism() -> None:
    scores, scale = (0, 1, 2), 2  # ε = 1: the parameter ε/2 is a scale of 2
    one_sided = arg_max(
        scores,
        lambda x: mp.exp(-x / scale) / scale if x >= 0 else mp.mpf(0),
        lambda x: 1 - mp.exp(-x / scale) if x >= 0 else mp.mpf(0),
    )
    gumbel = arg_max(
        scores,
        lambda x: mp.exp(-x / scale - mp.exp(-x / scale)) / scale,
        lambda x: mp.exp(-mp.exp(-x / scale)),
    )
    exponential = list(laws.exponential_law(scores, scale).values())
    assert one_sided == pytest.approx(list(laws.permute_and_flip_law(scores, scale).values()), abs=1e-9)
    assert one_sided == pytest.approx([0.146751, 0.266077, 0.587172], abs=1e-6)
    assert exponential == pytest.approx([0.186324, 0.307196, 0.506480], abs=1e-6)
    assert max(abs(a - b) for a, b in zip(one_sided, exponential, strict=True)) > 0.08
    assert gumbel == pytest.approx(exponential, abs=1e-6)


def laplace_wins(gap: float, scale: float) -> float:
    """P(a candidate that lacks `gap` ≥ 0 wins against one other), continuous Laplace noise."""
    return (0.5 + gap / (4 * scale)) * math.exp(-gap / scale)


def test_row_12_noisy_max_with_noise_of_scale_one_over_epsilon_needs_monotone_scores() -> None:
    """ε = 1. Two counts 20 apart: replacing a row moves both, adding one moves the gap by one at most."""
    replaced = math.log(laplace_wins(18, 1) / laplace_wins(20, 1))
    added = math.log(laplace_wins(19, 1) / laplace_wins(20, 1))
    assert replaced == pytest.approx(1.905, abs=5e-4)
    assert added <= 1
    assert max(math.log(laplace_wins(gap, 1) / laplace_wins(gap + 2, 1)) for gap in range(500)) > 1.99
    # With twice the noise every pair is covered.
    assert all(math.log(laplace_wins(gap, 2) / laplace_wins(gap + 2, 2)) <= 1 for gap in range(500))
    general = Sensitivity.counts(2, Neighbours.REPLACE)
    assert NoisyMax(scale=1).event(general).epsilon == 2
    assert NoisyMax(scale=1).event(Sensitivity.counts(2, Neighbours.ADD_REMOVE)).epsilon == 1


@pytest.mark.parametrize("counts", [2, 10])
def test_row_19_the_winning_count_is_not_free(counts: int) -> None:
    """ε = 1 and counts that all rise from 0 to 1: P(noisy max ≤ 0) falls by e^counts."""
    before, after = 0.5**counts, (0.5 * math.exp(-1)) ** counts
    assert math.log(before / after) == pytest.approx(counts)
    if counts == 10:
        assert [before, after] == pytest.approx([9.8e-4, 4.4e-8], rel=1e-2)
    monotone = Sensitivity.counts(counts, Neighbours.ADD_REMOVE)
    index = NoisyMax(scale=1).event(monotone)
    assert index.epsilon == 1 < math.log(before / after)
    # The gap is free: its law on these counts stays within the price of the index.
    orders = list(itertools.permutations(range(2)))
    here, there = (
        laws.mixed([laws.noisy_max_law(scores, 1.0, order, gaps=6) for order in orders]) for scores in ((0, 0), (1, 1))
    )
    assert laws.largest_loss(here, there) <= 1
    # The count of the winner, asked on its own, is one more release.
    count = Laplace(scale=1).event(Sensitivity.count(Neighbours.ADD_REMOVE))
    assert ComposedEvent(((index, 1), (count, 1))).epsilon == 2


BIDS = (100, 100, 100, 301)


def revenue(price: int) -> int:
    return price * sum(bid >= price for bid in BIDS)


def test_row_20_four_bidders_pay_four_dollars_at_one_dollar() -> None:
    printed = 300
    assert revenue(100) == 400 > printed
    assert max(range(1, 400), key=revenue) == 100
    assert [revenue(price) for price in (300, 301, 302)] == [300, 301, 0]


def gaussian_half_wins(candidates: int, sigma: float) -> float:
    """P(the winner is in the half that moved down by one, the rest up by one), Gaussian noise on each."""
    half, step = mp.mpf(candidates) / 2, 1 / mp.mpf(sigma)

    def log_below(z: mpmath.mpf) -> mpmath.mpf:
        return mp.log1p(-mp.erfc(z / mp.sqrt(2)) / 2)

    def at(z: mpmath.mpf) -> mpmath.mpf:
        return half * mp.npdf(z + step) * mp.exp((half - 1) * log_below(z + step) + half * log_below(z - step))

    top = mp.sqrt(2 * mp.log(candidates))
    return float(mp.quad(at, [top + shift for shift in (-6, -3, -2, -1, 0, 1, 2, 4, 9)]))


def laplace_half_wins(candidates: int, scale: float) -> float:
    """The same with Laplace noise."""
    half = mp.mpf(candidates) / 2

    def below(x: mpmath.mpf) -> mpmath.mpf:
        return 1 - mp.exp(-x / scale) / 2 if x >= 0 else mp.exp(x / scale) / 2

    def at(x: mpmath.mpf) -> mpmath.mpf:
        density = mp.exp(-abs(x + 1) / scale) / (2 * scale)
        return half * density * below(x + 1) ** (half - 1) * below(x - 1) ** half

    top = scale * mp.log(candidates)
    return float(mp.quad(at, [top + shift * scale for shift in (-8, -5, -3, -1, 0, 2, 5, 10, 30, 60)]))


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize(("exponent", "loss"), [(2, 0.60), (6, 1.31), (12, 2.09), (30, 3.71)])
def test_row_24_gaussian_noisy_max_tells_more_the_more_candidates_there_are(exponent: int, loss: float) -> None:
    """With equal scores on both tables, as printed, nothing is told at all; with scores that differ by one it grows."""
    sigma = math.sqrt(2 * math.log(1.25e6))  # the classical σ for (1, 10^-6)
    moved = gaussian_half_wins(10**exponent, sigma)
    assert math.log(0.5 / moved) == pytest.approx(loss, abs=6e-3)
    excess = 0.5 - math.e * moved  # how far the chance on one table passes e^ε times that on the other
    assert (excess > 1e-6) == (exponent > 2)
    # Laplace noise of scale 2 is 1-private for any number of candidates.
    assert math.log(0.5 / laplace_half_wins(10**exponent, 2.0)) <= 1


def test_row_28_noisy_max_errs_in_more_cases_than_one_up_and_one_down() -> None:
    """ε = 1, counts 0 and 1: the quarter with A up and B down gives .1839 of .2759."""
    exactly = laplace_wins(1, 1)
    both_ways = 0.25 * (1 + 1) * math.exp(-1)  # two one-sided draws sum to more than one
    assert exactly == pytest.approx(0.2759, abs=5e-5)
    assert both_ways == pytest.approx(0.1839, abs=5e-5)
    for lead in (1, 2, 5):
        summed = 0.5 * (1 + lead / 2) * math.exp(-lead)
        assert laplace_wins(lead, 1) == pytest.approx(summed, rel=1e-12)
        integral = mp.quad(
            lambda x, lead=lead: (
                mp.exp(-abs(x)) / 2 * (mp.exp(-(lead + x)) / 2 if lead + x > 0 else 1 - mp.exp(lead + x) / 2)
            ),
            [-60, -lead, 0, 60],
        )
        assert float(integral) == pytest.approx(summed, rel=1e-9)


def test_row_8_the_exponential_mechanism_with_the_distance_as_score_prefers_what_is_far() -> None:
    """ε = 1, Δ = 1, one count with answer 0 on a grid: with the minus sign it is Laplace noise of scale 2Δ/ε."""
    grid = range(-120, 121)
    printed = laws.exponential_law([abs(x) for x in grid], 2.0)
    right = laws.exponential_law([-abs(x) for x in grid], 2.0)
    assert printed[0] > 1e6 * printed[120]
    wanted = {index: Laplace(scale=2).probability(x) for index, x in enumerate(grid)}
    assert all(math.isclose(right[index], wanted[index], rel_tol=1e-9) for index in wanted)
    assert not math.isclose(right[120], Laplace(scale=1).probability(0), rel_tol=0.1)
    scores = Sensitivity.scores(1, Neighbours.REPLACE)
    assert (
        Exponential.for_privacy(1, scores).scale
        == 2
        == Laplace.for_privacy(Fraction(1, 2), Sensitivity.count(Neighbours.REPLACE)).scale
    )
