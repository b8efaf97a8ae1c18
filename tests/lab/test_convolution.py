"""Composed losses: with a common lattice exact, without one never too small."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dodona.lab.convolution import (
    LossDistribution,
    LossTail,
    compose_losses,
    composed_loss_delta,
    composed_loss_epsilon,
    gaussian_loss_distribution,
    laplace_loss_distribution,
    pure_loss_distribution,
)
from tests.house.shares import examples


def direct(parts: list[tuple[LossDistribution, int]], level: float) -> float:
    """δ(ε) by convolution in plain arithmetic; sums of losses are rounded to 10^-12, so that equal ones meet."""
    values, weights = np.zeros(1), np.ones(1)
    for law, times in parts:
        each = float(law.top) - float(law.step) * np.arange(len(law.weights))
        for _ in range(times):
            values = np.round(np.add.outer(values, each).ravel(), 12)
            weights = np.multiply.outer(weights, law.weights).ravel()
            values, place = np.unique(values, return_inverse=True)
            weights = np.bincount(place, weights=weights)
    return math.fsum(weights * np.maximum(-np.expm1(level - values), 0.0))


laws = st.one_of(
    st.builds(lambda number: pure_loss_distribution(Fraction(number, 40)), st.integers(1, 80)),
    st.builds(
        lambda distance, scale: laplace_loss_distribution(distance, Fraction(scale, 4)),
        st.integers(1, 4),
        st.integers(2, 30),
    ),
    st.builds(lambda number: gaussian_loss_distribution(Fraction(number, 3)), st.sampled_from([1, 4, 12])),
)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.tuples(laws, st.integers(1, 3)), min_size=1, max_size=3), st.integers(1, 60))
def test_composed_losses_agree_with_plain_arithmetic(parts: list[tuple[LossDistribution, int]], level: int) -> None:
    exact = direct(parts, level / 20)
    delta = composed_loss_delta(parts, level / 20)
    assert exact - 1e-11 <= delta <= exact * (1 + 1e-5) + 1e-9  # sums of losses are rounded to 10^-12


@settings(deadline=None, max_examples=examples(25))
@given(
    st.lists(st.integers(1000, 9999), min_size=2, max_size=3, unique=True),
    st.integers(1, 6),
    st.sampled_from([1e-2, 1e-5]),
)
def test_losses_without_a_common_lattice_are_spread_and_never_too_small(
    steps: list[int], times: int, delta: float
) -> None:
    parts = [(pure_loss_distribution(Fraction(step, 9973)), times) for step in steps]
    epsilon = composed_loss_epsilon(parts, delta)
    assert direct(parts, epsilon) <= delta
    if epsilon > 0:
        assert direct(parts, epsilon * (1 - 1e-6)) > delta * (1 - 1e-4)


@pytest.mark.parametrize("tilt", [0.01, 1.0, 5.0, 30.0])
def test_every_tilt_is_sound(tilt: float) -> None:
    parts = [
        (pure_loss_distribution(Fraction(1, 10)), 12),
        (laplace_loss_distribution(3, Fraction(10)), 2),
    ]
    for level in (0.2, 0.8, 1.3, 1.7):
        assert direct(parts, level) <= compose_losses(parts, tilt).delta(level)


def test_a_window_shorter_than_the_losses_is_sound() -> None:
    """10^4 mechanisms of ε = 1 have losses from -10^4 to 10^4 on a lattice that is cut to its window."""
    parts = [
        (pure_loss_distribution(Fraction(1)), 10**4),
        (pure_loss_distribution(Fraction(1, 99991)), 1),
    ]
    tail = compose_losses(parts, 0.05)
    assert len(tail.losses) * float(tail.losses[0] - tail.losses[1]) < 2 * 10**4
    from dodona.lab.composition import homogeneous_delta, mechanism_group

    for level in (4700, 4900, 5000, 5100):
        exact = homogeneous_delta(mechanism_group(1, times=10**4), epsilon=level) / (1 + 1e-8)
        assert exact <= tail.delta(level) <= exact * 1.001 + 1e-9


def test_the_error_of_the_transform_is_counted() -> None:
    """Noise of the counted length, all in the tail that is asked for, does not lift δ past what is returned."""
    parts = [(pure_loss_distribution(Fraction(1, 10)), 100)]
    tail = compose_losses(parts, 2.0)
    shaken = LossTail(
        losses=tail.losses,
        weights=tail.weights + tail.spread * np.eye(len(tail.weights))[np.argmin(abs(tail.losses - 4.9))],
        tilt=tail.tilt,
        scale=tail.scale,
    )
    assert tail.spread > 0
    assert shaken.delta(4.774) <= tail.delta(4.774)


def test_infinite_losses_count_whole() -> None:
    law = pure_loss_distribution(Fraction(1, 10))
    leaking = LossDistribution(law.top, law.step, law.weights * 0.99, 0.01)
    assert composed_loss_delta([(leaking, 3)], 5.0) >= 0.03
    assert math.isinf(composed_loss_epsilon([(leaking, 3)], 0.02))


@pytest.mark.parametrize(("variance", "times", "level"), [(1, 5, 25.0), (4, 8, 20.0)])
def test_far_tails_of_gaussian_losses_have_eight_digits(variance: int, times: int, level: float) -> None:
    """δ about 10^-25 and 10^-42, against convolution with fifty digits."""
    mp.dps = 50
    single = [mp.exp(-mpf(x * x) / (2 * variance)) for x in range(-40, 41)]
    single = [weight / sum(single) for weight in single]
    law = [mpf(1)]
    for _ in range(times):
        longer = [mpf(0)] * (len(law) + len(single) - 1)
        for (i, first), (j, second) in itertools.product(enumerate(law), enumerate(single)):
            longer[i + j] += first * second
        law = longer
    values = [(mpf(times * 81) / 2 - place) / variance for place in range(len(law))]
    exact = sum(
        weight * (1 - mp.exp(level - value)) for value, weight in zip(values, law, strict=True) if value > level
    )
    delta = composed_loss_delta([(gaussian_loss_distribution(Fraction(variance)), times)], level)
    assert exact <= delta <= exact * mpf("1.00000002")
