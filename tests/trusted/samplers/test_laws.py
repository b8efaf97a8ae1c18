"""The samplers follow their laws, and a law that is two percent off would be noticed.

There are 54 comparisons of 10^6 draws (4·10^6 at scale 1/4, where few draws tell scales apart), each with a false-alarm
rate of 10^-9, and 44 of independence: together about 10^-7 a run. The textbook samplers' 2·10^4 draws are seeded.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency

from dodona.lab import sampling
from dodona.trusted.samplers import compiled, draw
from tests.trusted.samplers import textbook
from tests.trusted.samplers.adversary import NAMES
from tests.trusted.samplers.fit import ALARM, MISS, bins_of, cumulative, miss, p_value
from tests.trusted.samplers.oracle import Noise

pytestmark = pytest.mark.distribution

SCALES = (
    Fraction(1, 4), Fraction(1), Fraction(7, 3), Fraction(10), Fraction(33), Fraction(1000), Fraction(65536, 3),
    Fraction(10**6), Fraction(10**12),
)  # fmt: skip
NOISES = [Noise(name, scale) for name in NAMES for scale in SCALES]
OFF = Fraction(102, 100)


def shown(noise: Noise) -> str:
    return f"{noise.name}-{noise.scale}"


@pytest.mark.share(2)
@pytest.mark.parametrize("kernel", [draw.numpy_values, compiled.values], ids=["vector", "compiled"])
@pytest.mark.parametrize("noise", NOISES, ids=shown)
def test_draws_follow_the_law_and_not_one_two_percent_off(noise: Noise, kernel: draw.SamplingKernel):
    draws = 4_000_000 if noise.scale < 1 else 1_000_000
    drawn = getattr(sampling, noise.name)(noise.scale, draws, kernel=kernel)
    assert drawn.size == draws
    bins = bins_of(noise, draws)
    counts, truth = bins.counts(drawn), bins.chances(noise)
    assert p_value(counts, truth) > ALARM
    for wrong in (noise.scale * OFF, noise.scale / OFF):
        chances = bins.chances(replace(noise, scale=wrong))
        assert miss(draws, truth, chances) < MISS
        assert p_value(counts, chances) < ALARM


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize(
    "noise", [Noise(n, s) for n in NAMES for s in (Fraction(1, 2), *SCALES[1:3], SCALES[5])], ids=shown
)
def test_the_textbook_samplers_follow_the_same_laws(noise: Noise):
    rng = np.random.default_rng(11)
    pool: list[int] = []

    def randbelow(count: int) -> int:
        if count == 1:
            return 0
        while True:  # rejection from the 60 bits of a word
            if not pool:
                pool.extend(rng.integers(0, 1 << 60, size=4096).tolist())
            if (word := pool.pop()) < (1 << 60) // count * count:
                return word % count

    sampler = getattr(textbook, noise.name)
    drawn = np.array([sampler(noise.scale, randbelow) for _ in range(20_000)])
    bins = bins_of(noise, drawn.size)
    counts = bins.counts(drawn)
    assert p_value(counts, bins.chances(noise)) > ALARM
    assert p_value(counts, bins.chances(replace(noise, scale=noise.scale * Fraction(3, 2)))) < ALARM


def test_the_two_ways_to_sum_a_gaussian_agree():
    just, over = Noise("gaussian", Fraction(2000)), Noise("gaussian", Fraction(2000) + Fraction(1, 10**9))
    edges = np.arange(-20_000, 20_001, 7)
    assert np.abs(cumulative(just, edges) - cumulative(over, edges)).max() < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("noise", [n for n in NOISES if n.signed], ids=shown)
def test_sign_and_magnitude_are_independent(noise: Noise):
    """Signs in up to ten classes of magnitude; 18 comparisons; a quarter of the far half made positive is seen.

    10^6 draws, or 10^7 at scale 1/4, where few are not zero.
    """
    drawn = getattr(sampling, noise.name)(noise.scale, 10_000_000 if noise.scale < 1 else 1_000_000)
    drawn = drawn[drawn != 0]
    assert even_signs(drawn) > ALARM
    far = np.flatnonzero(np.abs(drawn) >= np.median(np.abs(drawn)))[::4]
    drawn[far] = np.abs(drawn[far])
    assert even_signs(drawn) < ALARM


def even_signs(drawn: np.ndarray) -> float:
    """The p-value of even signs in each of up to ten classes of magnitude."""
    magnitude = np.abs(drawn)
    cuts = np.unique(np.quantile(magnitude, np.linspace(0, 0.9, 10)))
    group = np.searchsorted(cuts, magnitude, side="right") - 1
    total = np.bincount(group, minlength=cuts.size)
    positive = np.bincount(group[drawn > 0], minlength=cuts.size)
    return float(chi2.sf(((2 * positive - total) ** 2 / total).sum(), cuts.size))


def contingency(counts: np.ndarray) -> float:
    return float(chi2_contingency(counts[:, counts.sum(axis=0) > 0], correction=False).pvalue)


@pytest.mark.share(2)
@pytest.mark.slow
@pytest.mark.parametrize("noise", [n for n in NOISES if n != Noise("gaussian", Fraction(1, 4))], ids=shown)
def test_draws_that_follow_each_other_are_independent(noise: Noise):
    """10^6 draws, pairs in a table of at most 5 by 5 classes; 26 comparisons at 10^-9; one repeat in ten is seen.

    The Gaussian of scale 1/4 is left out: two draws in a row that are not zero are too few to count.
    """
    drawn = getattr(sampling, noise.name)(noise.scale, 1_000_000)
    assert pairs(drawn) > ALARM
    repeating = drawn.copy()
    repeating[1::20] = repeating[::20]
    assert pairs(repeating) < ALARM


def pairs(drawn: np.ndarray) -> float:
    """The p-value of independence of each second draw from the one before it."""
    cuts = np.unique(np.quantile(drawn, [0.2, 0.4, 0.6, 0.8]))
    group = np.searchsorted(cuts, drawn, side="left")
    if np.unique(group).size == 1 or np.bincount(group).min() < 2_000:
        group = (drawn != 0).astype(np.int64)
    counts = np.zeros((cuts.size + 1, cuts.size + 1), dtype=np.int64)
    np.add.at(counts, (group[::2], group[1::2]), 1)
    counts = counts[counts.sum(axis=1) > 0]
    return contingency(counts)
