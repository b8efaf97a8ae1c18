"""What a choice tells, on every pair of neighbours with few candidates, against what its event says."""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

from dodona.lab import sampling
from dodona.lab.mechanisms import Exponential, NoisyMax, PermuteAndFlip
from dodona.privacy.events import Event
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours
from tests.privacy import laws

ORDERS = [Fraction(5, 4), Fraction(2), Fraction(5), Fraction(30)]
SCORES = [(0, 0, 0), (0, 0, 7), (0, 1, 3), (0, 6, 6)]
SCALE = Fraction(3, 2)
GENERAL = Sensitivity.scores(1, Neighbours.REPLACE)
MONOTONE = Sensitivity.scores(1, Neighbours.ADD_REMOVE, monotone=True)


def noisy_max(scores: Sequence[int], scale: float) -> laws.Law:
    orders = itertools.permutations(range(len(scores)))
    return laws.mixed([laws.noisy_max_law(scores, scale, order, gaps=8) for order in orders])


LAWS: dict[type, Callable[[Sequence[int], float], laws.Law]] = {
    Exponential: laws.exponential_law,
    PermuteAndFlip: laws.permute_and_flip_law,
    NoisyMax: noisy_max,
}


def holds(first: laws.Law, second: laws.Law, event: Event) -> float:
    """The largest loss, after each price of the event was found to cover the two laws."""
    assert event.epsilon is not None
    loss = laws.largest_loss(first, second)
    assert loss <= float(event.epsilon) * (1 + 1e-12) + 1e-12
    assert laws.kullback_leibler(first, second) <= float(event.rho()) + 1e-12
    for order in ORDERS:
        divergence = laws.renyi(first, second, order)
        assert divergence <= float(event.renyi(order)) + 1e-12
        assert divergence <= float(order) * float(event.rho()) + 1e-12
    return loss


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("sensitivity", [GENERAL, MONOTONE], ids=["general", "monotone"])
def test_no_pair_of_neighbours_tells_more_than_the_event_says(kind: type, sensitivity: Sensitivity) -> None:
    event = kind(scale=SCALE).event(sensitivity)
    law = LAWS[kind]
    for scores in SCORES:
        here = law(scores, float(SCALE))
        assert math.isclose(sum(here.values()), 1, rel_tol=1e-12)
        for move in laws.moves(3, monotone=sensitivity.monotone):
            there = law([score + step for score, step in zip(scores, move, strict=True)], float(SCALE))
            holds(here, there, event)


@pytest.mark.parametrize("monotone", [False, True])
def test_noisy_max_with_its_gap_is_private_for_each_order_of_the_candidates(monotone: bool) -> None:  # noqa: FBT001
    """No privacy rests on the law of the order."""
    event = NoisyMax(scale=SCALE).event(MONOTONE if monotone else GENERAL)
    for order in itertools.permutations(range(3)):
        here = laws.noisy_max_law((0, 1, 3), float(SCALE), order, gaps=8)
        for move in laws.moves(3, monotone=monotone):
            there = [score + step for score, step in zip((0, 1, 3), move, strict=True)]
            holds(here, laws.noisy_max_law(there, float(SCALE), order, gaps=8), event)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("sensitivity", [GENERAL, MONOTONE], ids=["general", "monotone"])
def test_the_price_is_reached_when_one_candidate_is_far_ahead(kind: type, sensitivity: Sensitivity) -> None:
    """So the pure price cannot be lowered: a candidate far behind catches up by the whole sensitivity."""
    event, law = kind(scale=SCALE).event(sensitivity), LAWS[kind]
    moved = (1, 40) if sensitivity.monotone else (1, 39)
    loss = laws.largest_loss(law((0, 40), float(SCALE)), law(moved, float(SCALE)))
    assert loss > 0.97 * float(event.epsilon)


@pytest.mark.parametrize("kind", LAWS)
def test_the_monotone_price_does_not_cover_scores_that_move_both_ways(kind: type) -> None:
    event, law = kind(scale=SCALE).event(MONOTONE), LAWS[kind]
    loss = laws.largest_loss(law((0, 40), float(SCALE)), law((1, 39), float(SCALE)))
    assert loss > 1.9 * float(event.epsilon)


def test_only_the_exponential_mechanism_has_the_price_of_bounded_range() -> None:
    """Permute-and-flip and noisy max on these scores pass it, so their events must be those of pure mechanisms."""
    bounded = Exponential(scale=SCALE).event(GENERAL)
    for law in (laws.permute_and_flip_law, noisy_max):
        passed = laws.kullback_leibler(law((0, 0), float(SCALE)), law((1, -1), float(SCALE)))
        assert passed > 1.1 * float(bounded.rho())


def test_the_gap_passes_the_price_of_bounded_range() -> None:
    """The gap is free only at the pure price."""
    bounded = Exponential(scale=SCALE).event(GENERAL)
    with_gap = laws.kullback_leibler(noisy_max((0, 3), float(SCALE)), noisy_max((1, 2), float(SCALE)))
    assert with_gap > float(bounded.rho())


@pytest.mark.distribution
def test_what_is_drawn_is_the_law_that_was_enumerated() -> None:
    """400,000 reports, 27 outcomes: chi-squared with 26 degrees passes 76 with probability 10^-6."""
    scores, times = (0, 1, 3), 400_000
    drawn = sampling.noisy_maxima(list(scores), SCALE, times)

    def statistic(law: laws.Law) -> float:
        cells = drawn[:, 0] * 9 + np.minimum(drawn[:, 1], 8)
        counts = np.bincount(cells, minlength=27)
        expected = np.array([times * law[index, gap] for index in range(3) for gap in range(9)])
        return float(np.sum((counts - expected) ** 2 / expected))

    assert statistic(noisy_max(scores, float(SCALE))) < 76
    assert statistic(noisy_max(scores, float(SCALE) * 1.03)) > 76
