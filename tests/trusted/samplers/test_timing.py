"""The time of a single draw does not tell its value."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import spearmanr

from dodona.trusted.entropy import SYSTEM
from dodona.trusted.samplers import law as laws
from dodona.trusted.samplers.draw import BufferedDraws

DRAWS = 100_000
LIMIT = 0.02
"""10^5 independent pairs have a rank correlation of standard error 0.0032: six of them, so a false alarm of 10^-9."""


def correlation(one: Callable[[], int]) -> float:
    """The rank correlation between the magnitude of a draw and the nanoseconds that it took."""
    for _ in range(2_000):
        one()
    drawn, took = [0] * DRAWS, [0] * DRAWS
    clock = time.perf_counter_ns
    collecting = gc.isenabled()
    gc.disable()
    try:
        for index in range(DRAWS):
            start = clock()
            value = one()
            took[index] = clock() - start
            drawn[index] = value
    finally:
        if collecting:
            gc.enable()
    return float(spearmanr(np.abs(drawn), took).statistic)


@pytest.mark.distribution
def test_the_time_of_a_draw_does_not_follow_its_magnitude():
    assert abs(correlation(BufferedDraws(laws.laplace_law(Fraction(1000)), SYSTEM).one)) < LIMIT


@pytest.mark.distribution
def test_a_sampler_that_counts_up_to_its_value_is_caught():
    """The planted fault: a loop of |noise|/100 steps, about ten on average."""
    ahead = BufferedDraws(laws.laplace_law(Fraction(1000)), SYSTEM)

    def slow() -> int:
        value = ahead.one()
        for _ in range(abs(value) // 100):
            pass
        return value

    assert correlation(slow) > 5 * LIMIT
