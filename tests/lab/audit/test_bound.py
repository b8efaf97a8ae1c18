"""What samples prove is never above the truth, and close to it when there are many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from dodona.errors import InvalidArgument
from dodona.lab.audit.bound import certified_epsilon, certified_mu, certified_rho, highest, lowest

MANY = 10**6


def responses(epsilon: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Randomized response on both truths."""
    generator = np.random.default_rng(seed)
    honest = generator.random((2, count)) < 1 / (1 + math.exp(-epsilon))
    return honest[0].astype(np.int64), 1 - honest[1].astype(np.int64)


def parities(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two laws on 2,000 values: even ones are e times likelier under the first, odd ones under the second."""
    generator = np.random.default_rng(seed)
    first, second = responses(1, count, seed + 10**6)
    return tuple(2 * generator.integers(1000, size=count) + side for side in (first, second))  # type: ignore[return-value]


@pytest.mark.parametrize("total", [1, 7, 40])
@pytest.mark.parametrize("error", [1e-6, 0.025, 0.3])
def test_bounds_on_a_probability_fail_as_seldom_as_they_say(total: int, error: float):
    counts = np.arange(total + 1)
    low = np.array([lowest(int(count), total, error) for count in counts])
    high = np.array([highest(int(count), total, error) for count in counts])
    for truth in np.linspace(0, 1, 301):
        weight = binom.pmf(counts, total, truth)
        # A sum over all outcomes, not a sample: only rounding is allowed for.
        assert weight[low > truth].sum() <= error * (1 + 1e-9)
        assert weight[high < truth].sum() <= error * (1 + 1e-9)


def test_bounds_on_a_probability_are_no_wider_than_they_must_be():
    assert binom.sf(699, 1000, lowest(700, 1000, 1e-6)) == pytest.approx(1e-6, rel=1e-9)
    assert binom.cdf(700, 1000, highest(700, 1000, 1e-6)) == pytest.approx(1e-6, rel=1e-9)
    assert (lowest(0, 9, 0.1), highest(9, 9, 0.1)) == (0.0, 1.0)


@pytest.mark.distribution
def test_a_million_responses_prove_nearly_all_of_epsilon():
    """False alarm: 1e-6, if the generator is taken for ideal; its seed is fixed."""
    proved = certified_epsilon(*responses(1, MANY, seed=1))
    assert 0.95 <= proved <= 1


@pytest.mark.distribution
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2, 4])
def test_no_more_than_the_truth_is_proved_of_known_pairs(epsilon: float):
    """Laplace noise at 2·10^5 samples; false alarm 1e-6 each."""
    generator = np.random.default_rng(2)
    noise = generator.geometric(1 - math.exp(-epsilon), size=(4, 200_000))
    first, second = noise[0] - noise[1], noise[2] - noise[3] + 1
    assert 0.5 * epsilon <= certified_epsilon(first, second) <= epsilon


@pytest.mark.distribution
def test_a_shifted_normal_law_proves_its_mu_and_no_more():
    """10^6 samples rounded to hundredths; false alarm 1e-6."""
    normal = np.random.default_rng(3).normal(size=(2, MANY))
    first, second = np.rint(100 * normal[0]).astype(np.int64), np.rint(100 * (normal[1] + 1)).astype(np.int64)
    assert 0.95 <= certified_mu(first, second) <= 1


@pytest.mark.distribution
def test_responses_prove_their_divergence_and_no_more():
    """10^6 samples; false alarm 1e-6. The zCDP price of randomized response is ε·tanh(ε/2)."""
    proved = certified_rho(*responses(1, MANY, seed=4))
    assert 0.95 * math.tanh(0.5) <= proved <= math.tanh(0.5)


@pytest.mark.distribution
def test_equal_laws_prove_nothing():
    """200 audits of 4,000 samples on 10^4 values; the false-alarm rate of all is below 3·10^-4."""
    generator = np.random.default_rng(5)
    for _ in range(100):
        first, second = generator.integers(10_000, size=(2, 4_000))
        assert certified_epsilon(first, second) == 0
        assert certified_mu(first, second) == 0
        assert certified_rho(first, second) == 0


@pytest.mark.distribution
def test_looking_for_the_best_event_is_no_evidence():
    """50 audits of 4,000 samples on 2,000 values, where luck makes ratios far above e; false alarm 5·10^-5."""
    assert max(certified_epsilon(*parities(4_000, seed)) for seed in range(50)) <= 1


@pytest.mark.distribution
def test_a_bound_is_above_the_truth_as_seldom_as_it_says():
    """600 audits at error 0.2: more than 0.28 of them fail with probability below 10^-5."""
    above = sum(certified_epsilon(*responses(1, 400, seed), error=0.2) > 1 for seed in range(600))
    assert above <= 0.28 * 600


def test_delta_is_taken_from_what_is_proved():
    always, never = np.zeros(10_000, dtype=np.int64), np.ones(10_000, dtype=np.int64)
    whole, half = (certified_epsilon(always, never, delta=delta) for delta in (0.0, 0.5))
    assert whole - half == pytest.approx(math.log(2), abs=0.01)
    assert certified_epsilon(always, never, delta=1.0) == 0


def test_too_few_samples_are_refused():
    few = np.zeros(99, dtype=np.int64)
    with pytest.raises(InvalidArgument, match="at least 100"):
        certified_epsilon(few, few)
