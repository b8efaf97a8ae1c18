"""Choices and coins follow their exact laws, and another law would be noticed.

Each comparison has a false-alarm rate of 10^-9; there are about 30, so a run raises a false alarm below 10^-7.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chi2

from dodona.lab import sampling
from dodona.trusted.entropy import SYSTEM
from dodona.trusted.samplers import compiled, contest, draw
from dodona.trusted.samplers.contest import ContestLaw
from tests.trusted.samplers.fit import ALARM, p_value

pytestmark = pytest.mark.distribution

ROUNDS = 400_000
SCORES = ([0, 1, 2, 3], [0, 0], [5, 4, 4, 5], [Fraction(1, 3), Fraction(-1, 2), 0, "0.75", 1])
KERNELS = pytest.mark.parametrize("kernel", [draw.numpy_values, compiled.values], ids=["vector", "compiled"])


def exponential(scores: list[float]) -> np.ndarray:
    """P(i) ∝ e^score."""
    weights = np.exp(np.array(scores) - max(scores))
    return weights / weights.sum()


def permute_and_flip(scores: list[float]) -> np.ndarray:
    """By enumeration: in a random order, each candidate in turn is kept with probability e^-gap."""
    keep = [math.exp(score - max(scores)) for score in scores]
    chances = np.zeros(len(scores))
    orders = list(permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for index in order:
            chances[index] += left * keep[index] / len(orders)
            left *= 1 - keep[index]
    return chances


def noisy_max(scores: list[int], scale: float, reach: int = 400) -> np.ndarray:
    """By summation over the maximum: a candidate is there, others are below or share the lead, which is split."""
    noise = np.arange(-reach, reach + 1)
    values = np.arange(min(scores) - reach, max(scores) + reach + 1)
    at = np.zeros((len(scores), values.size))
    for row, score in zip(at, scores, strict=True):
        start = score - min(scores)
        row[start : start + noise.size] = math.tanh(0.5 / scale) * np.exp(-np.abs(noise) / scale)
    below = np.cumsum(at, axis=1) - at
    chances = np.zeros(len(scores))
    for index in range(len(scores)):
        leaders = at[index][np.newaxis]  # leaders[k]: this one leads together with k others
        for other in range(len(scores)):
            if other != index:
                none = np.vstack([leaders * below[other], np.zeros(values.size)])
                tied = np.vstack([np.zeros(values.size), leaders * at[other]])
                leaders = none + tied
        chances[index] = (leaders.sum(axis=1) / np.arange(1, leaders.shape[0] + 1)).sum()
    return chances


LAWS = {ContestLaw.GUMBEL: exponential, ContestLaw.EXPONENTIAL: permute_and_flip}


@pytest.mark.parametrize("draw", list(ContestLaw))
@pytest.mark.parametrize("scores", SCORES, ids=str)
def test_a_contest_is_won_as_often_as_its_law_says(draw: ContestLaw, scores: list[Fraction]):
    """400,000 contests; the other contest's law, where it differs, is refused."""
    won = contest.contests(scores, ROUNDS, unit=1, draw=draw)
    counts = np.bincount(won, minlength=len(scores))
    numbers = [float(Fraction(score)) for score in scores]
    assert p_value(counts, LAWS[draw](numbers)) > ALARM
    other = LAWS[ContestLaw.GUMBEL if draw is ContestLaw.EXPONENTIAL else ContestLaw.EXPONENTIAL](numbers)
    if len(set(numbers)) > 1:
        assert p_value(counts, other) < ALARM


@pytest.mark.parametrize("draw", list(ContestLaw))
def test_single_choices_follow_the_same_law(draw: ContestLaw):
    """10,000 calls on an array of integers with a unit of 1/2."""
    sampler = sampling.choose if draw is ContestLaw.GUMBEL else sampling.permute_and_flip
    scores = np.array([0, 2, 4])
    counts = np.bincount([sampler(scores, unit="1/2") for _ in range(10_000)], minlength=3)
    assert p_value(counts, LAWS[draw]([0, 1, 2])) > ALARM
    assert p_value(counts, LAWS[draw]([0, 1.2, 2.4])) < ALARM


@pytest.mark.share(2)
@KERNELS
@pytest.mark.parametrize("scores", [[0, 1, 2, 3], [0, 0], [7, 7, 5], [-3, 0, 0, 0, 1]], ids=str)
@pytest.mark.parametrize("scale", ["1/2", "3", "7/3"])
def test_noisy_max_is_won_as_often_as_its_law_says(scores: list[int], scale: str, kernel: draw.SamplingKernel):
    """400,000 reports; ties that go to the first leader are refused."""
    won = sampling.noisy_maxima(scores, scale, ROUNDS, kernel=kernel)[:, 0]
    counts = np.bincount(won, minlength=len(scores))
    width = float(Fraction(scale))
    assert p_value(counts, noisy_max(scores, width)) > ALARM
    unfair = np.array(scores) + sampling.laplace(scale, ROUNDS * len(scores)).reshape(ROUNDS, -1)
    assert p_value(np.bincount(unfair.argmax(axis=1), minlength=len(scores)), noisy_max(scores, width)) < ALARM


def test_the_law_of_noisy_max_sums_to_one():
    assert noisy_max([0, 1, 5], 3.0).sum() == pytest.approx(1, abs=1e-12)
    assert noisy_max([2, 2, 2], 3.0) == pytest.approx([1 / 3] * 3, abs=1e-12)
    assert permute_and_flip([0, 1, 2]).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("exponent", "off"), [("0.001", 1.5), ("1/3", 1.05), ("1", 1.05), ("5/2", 1.05), ("7", 1.2)])
def test_bernoulli_is_true_as_often_as_the_power_says(exponent: str, off: float):
    """10^6 flips; an exponent 5% larger is refused (20% at 7, 50% at 0.001)."""
    true = int(sampling.bernoulli(exponent, 1_000_000).sum())
    counts = np.array([true, 1_000_000 - true])
    power = float(Fraction(exponent))
    assert p_value(counts, coin(math.exp(-power))) > ALARM
    assert p_value(counts, coin(math.exp(-power * off))) < ALARM


@pytest.mark.parametrize("epsilon", ["1/10", "1", "3"])
def test_truths_are_told_as_often_as_the_logistic_function_says(epsilon: str):
    """10^6 answers; an epsilon 50% larger is refused."""
    loss = Fraction(epsilon)
    truths = int(sampling.truths(loss, SYSTEM.words(1_000_000), SYSTEM.word).sum())
    counts = np.array([truths, 1_000_000 - truths])
    assert p_value(counts, coin(1 / (1 + math.exp(-loss)))) > ALARM
    assert p_value(counts, coin(1 / (1 + math.exp(-loss * 1.5)))) < ALARM


def coin(chance: float) -> np.ndarray:
    return np.array([chance, 1 - chance])


@pytest.mark.parametrize("exponent", [0, "0"])
def test_a_coin_of_exponent_zero_is_always_true(exponent: str):
    assert sampling.bernoulli(exponent, 10_000).all()


def test_a_coin_of_a_large_exponent_is_never_true():
    assert not sampling.bernoulli(10**12, 10_000).any()  # false alarm 10^4·e^-(10^12)


def test_words_are_even_in_every_bit():
    """2^20 words; 64 bits, each fair, with one comparison of all at 10^-9; a bit that is one in 50.5% is refused."""
    words = SYSTEM.words(1 << 20)
    ones = np.array([int((words >> np.uint64(bit) & np.uint64(1)).sum()) for bit in range(64)])
    assert bits_fit(ones, 1 << 20) > ALARM
    ones[17] += 1 << 13
    assert bits_fit(ones, 1 << 20) < ALARM


def bits_fit(ones: np.ndarray, count: int) -> float:
    return float(chi2.sf(((2 * ones - count) ** 2 / count).sum(), ones.size))
