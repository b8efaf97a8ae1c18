"""How far a choice may be below the best, by exact laws and by running it."""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dodona.lab.direct import repeat
from dodona.lab.mechanisms import Exponential, NoisyMax, PermuteAndFlip
from dodona.lab.theorems import noisy_max_error
from dodona.privacy.accuracy import Accuracy
from dodona.privacy.selection import exponential_error
from tests.privacy import laws

SCORES = [(0, 1, 2, 9), (0, 0, 0, 5), (3, 3, 0, 3), (0, 4, 8, 12)]


def noisy_max(scores: Sequence[int], scale: float) -> laws.Law:
    """The law of the winner alone."""
    orders = list(itertools.permutations(range(len(scores))))
    law = laws.mixed([laws.noisy_max_law(scores, scale, order, gaps=0) for order in orders])
    return {outcome[0]: chance for outcome, chance in law.items()}


LAWS: dict[type, Callable[[Sequence[int], float], laws.Law]] = {
    Exponential: laws.exponential_law,
    PermuteAndFlip: laws.permute_and_flip_law,
    NoisyMax: noisy_max,
}


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("scale", ["1/2", "2", "7"])
def test_the_stated_error_covers(kind: type, scores: tuple[int, ...], scale: str) -> None:
    law = LAWS[kind](scores, float(Fraction(scale)))
    for confidence in (0.3, 0.8, 0.95, 0.999):
        stated = kind(scale=scale).accuracy(confidence, candidates=len(scores))
        near = [index for index, score in enumerate(scores) if score >= max(scores) - stated.within]
        assert sum(law[index] for index in near) >= confidence
        if stated.expected is not None:
            lost = math.fsum(law[index] * (max(scores) - score) for index, score in enumerate(scores))
            assert lost <= stated.expected


def test_several_best_candidates_sharpen_the_error() -> None:
    mechanism = Exponential(scale=2)
    shared = mechanism.accuracy(0.9, candidates=8, best=4)
    assert shared.within < mechanism.accuracy(0.9, candidates=8).within
    for gap in range(1, 30):
        law = laws.exponential_law([0] * 4 + [-gap] * 4, 2.0)
        if gap > shared.within:
            assert sum(law[index] for index in range(4)) >= 0.9


def test_the_bounds_are_the_textbooks() -> None:
    assert exponential_error(2.0, confidence=0.95, candidates=50) == pytest.approx(2 * (math.log(50) + math.log(20)))
    assert noisy_max_error(2.0, confidence=0.95, candidates=50) == pytest.approx(2 * (math.log(20) + math.log(49 * 20)))
    assert NoisyMax(scale=2).accuracy(candidates=50).within == pytest.approx(2 * (math.log(20) + math.log(980)) + 2)


def test_the_error_of_the_exponential_mechanism_is_reached_to_a_unit_of_its_scale() -> None:
    """39 candidates that all lack a little less than the bound are chosen too often; permute-and-flip halves that."""
    stated = Exponential(scale=1).accuracy(0.95, candidates=40).within
    lacking = [0] * 39 + [math.floor(stated)]
    assert 1 - laws.exponential_law(lacking, 1.0)[39] > 0.05


@pytest.mark.distribution
@pytest.mark.parametrize("kind", LAWS)
def test_runs_miss_the_stated_error_no_more_often_than_is_stated(kind: type) -> None:
    """20,000 runs at 90%: more than 2,300 misses have probability below 10^-11 if the bound holds.

    The planted fault: at a third of the stated error the misses are many.
    """
    scores = [0] * 19 + [6]
    stated = kind(scale=2).accuracy(0.9, candidates=20).within
    draws = repeat(kind(scale=2), scores, 20_000)
    winners = draws if draws.ndim == 1 else draws[:, 0]
    lost = 6 - np.array(scores)[winners]
    assert np.sum(lost > stated) <= 2_300
    assert np.sum(lost > stated / 3) > 2_300


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("within", [3.0, 20.0, 500.0])
def test_a_choice_for_a_target_meets_it_by_its_exact_law(kind: Any, within: float) -> None:  # noqa: ANN401
    mechanism = kind.for_accuracy(Accuracy(within=within, confidence=0.9), candidates=4)
    scale = float(mechanism.scale)
    if scale * laws.REACH > 10**5:
        return
    for gap in (math.floor(within) + 1, 2 * math.ceil(within)):
        law = LAWS[kind]((0, 0, 0, gap), scale)
        assert law[3] >= 0.9
