"""Total-variation stability, its composition, and the lecture's calculators."""

import math
from itertools import pairwise, product

import numpy as np
import pytest

from dodona.errors import InvalidArgument, Refused
from dodona.lab.adaptive.lecture import (
    gaussian_gap,
    laplace_epsilon,
    laplace_stability,
    lecture_noise,
    noise_for,
    rows_for,
)
from dodona.lab.adaptive.stability import (
    add_stabilities,
    compose_stabilities,
    expected_gap,
    gaussian_stability,
    stability_of_privacy,
)
from dodona.lab.divergence import total_variation
from tests.lab.adaptive.worlds import worlds


def test_the_stability_of_gaussian_noise_is_the_total_variation_of_two_normal_laws():
    """Both laws on a grid of a thousandth of a standard deviation."""
    for rows, scale, queries in ((1000, 0.1, 1), (10, 0.05, 1), (10, 0.5, 9)):
        distance = math.sqrt(queries) / (rows * scale)  # the lengths of k moves of 1/m each, in standard deviations
        places = np.arange(-12, 12 + distance, 1e-3)
        laws = [np.exp(-((places - shift) ** 2) / 2) / math.sqrt(2 * math.pi) * 1e-3 for shift in (0, distance)]
        exact = float(np.abs(laws[0] - laws[1]).sum()) / 2
        stability = gaussian_stability(rows=rows, scale=scale, queries=queries)
        assert stability == pytest.approx(exact, abs=2e-7)
        assert stability <= math.sqrt(queries) / (math.sqrt(2 * math.pi) * rows * scale) * (1 + 1e-9)


def two_steps(first: np.ndarray, second: np.ndarray) -> float:
    """TV of two adaptive steps; second[o] holds the two laws after the first answer o."""
    joint = {(a, b): first[0][a] * second[a][0][b] for a, b in product(range(3), repeat=2)}
    other = {(a, b): first[1][a] * second[a][1][b] for a, b in product(range(3), repeat=2)}
    return total_variation(joint, other)


def test_adaptive_steps_are_no_further_apart_than_composed_and_that_is_at_most_the_sum():
    chance = np.random.default_rng(5)
    ratios = []
    for _ in range(400):
        first, second = chance.dirichlet(np.full(3, 0.5), 2), chance.dirichlet(np.full(3, 0.5), (3, 2))
        parts = [total_variation(*first), max(total_variation(*each) for each in second)]
        distance = two_steps(first, second)
        assert distance <= compose_stabilities(parts) <= add_stabilities(parts)
        ratios.append(distance / compose_stabilities(parts))
    assert max(ratios) > 0.9


def test_composition_is_attained_by_leaks_and_the_sum_is_not():
    """A step that leaks with probability ε keeps its secret k times with probability (1 - ε)^k."""
    leak, keep = [0.1, 0.0, 0.9], [0.0, 0.1, 0.9]
    first, second = np.array([leak, keep]), np.array([[leak, keep]] * 3)
    assert compose_stabilities([0.1, 0.1]) == pytest.approx(0.19)
    assert two_steps(first, second) == pytest.approx(0.19)
    assert add_stabilities([0.1, 0.1]) == pytest.approx(0.2)
    assert add_stabilities([0.5] * 3) == compose_stabilities([1.0, 0.5]) == 1


def test_private_worlds_are_as_stable_as_stated():
    """(e^ε - 1 + 2δ)/(e^ε + 1) at every ε of the exact curve of 60 worlds; randomized response attains it."""
    ratios = []
    for world in worlds(3, 60):
        exact = world.delta(0.0)
        for epsilon in (0.05, 0.5, 1.0, 2.0):
            bound = stability_of_privacy(epsilon=epsilon, delta=min(1.0, world.delta(epsilon)))
            ratios.append(exact / bound)
    assert max(ratios) <= 1 + 1e-9
    for epsilon in (0.1, 1.0, 5.0):
        kept = 1 / (1 + math.exp(-epsilon))
        assert stability_of_privacy(epsilon=epsilon) == pytest.approx(2 * kept - 1)


def test_a_query_of_a_stable_mechanism_generalizes_as_stated():
    """Exact: all samples of four rows, a mechanism that tells a noisy majority, and the query that agrees with it."""
    rows, share, failing = 4, 0.5, 0.2
    for loss in (0.1, 0.5):
        yes = [1 / (1 + math.exp(-loss * (count - rows / 2))) for count in range(rows + 1)]
        stability = max(abs(a - b) for a, b in pairwise(yes))
        bound = expected_gap(stability=stability, rows=rows, failing=failing)
        beyond = sum(
            math.comb(rows, count) * share**rows
            for count in range(rows + 1)
            if abs((2 * yes[count] - 1) * (count / rows - share)) > bound
        )
        assert beyond <= failing


def test_the_mean_gap_is_the_stability_at_most():
    """E[q(S) - q(D)] over samples and answers is at most ε for every world: half the words of the proof."""
    for world in worlds(4, 60):
        assert float((world.told * world.gaps).sum()) <= world.delta(0.0) + 1e-12


def test_the_bounded_difference_is_that_of_the_proof():
    """At ε = 0 the bound is McDiarmid's for a fixed query: √(ln(2/β)/(2m))."""
    assert expected_gap(stability=0, rows=50, failing=0.05) == pytest.approx(math.sqrt(math.log(40) / 100))
    assert expected_gap(stability=0.01, rows=50, failing=0.05) == pytest.approx(
        0.01 + 2 * math.sqrt(math.log(40) / 100)
    )


def test_the_noise_that_is_found_is_enough_and_less_is_not():
    arguments = {"rows": 10**6, "queries": 10, "within": 0.1, "failing": 0.05}
    scale = noise_for(**arguments)
    assert gaussian_gap(rows=10**6, queries=10, scale=scale, failing=0.05) <= 0.1
    assert gaussian_gap(rows=10**6, queries=10, scale=scale * 0.999, failing=0.05) > 0.1
    # The lecture's own chain adds the stability of queries: k in place of √k.
    theirs = lecture_noise(**arguments)
    assert theirs > scale
    assert expected_gap(stability=10 * gaussian_stability(rows=10**6, scale=theirs), rows=10**6, failing=0.05) <= 0.1


def test_the_rows_that_are_found_are_enough_and_one_less_is_not():
    rows = rows_for(queries=10, scale=0.5, within=0.1, failing=0.05)
    assert gaussian_gap(rows=rows, queries=10, scale=0.5, failing=0.05) <= 0.1
    assert gaussian_gap(rows=rows - 1, queries=10, scale=0.5, failing=0.05) > 0.1


def test_laplace_noise_allows_a_loss_that_falls_as_the_root_of_queries():
    losses = [laplace_epsilon(rows=10**6, queries=k, within=0.1, failing=0.05) for k in (10, 1000, 100_000)]
    for queries, loss in zip((10, 1000, 100_000), losses, strict=True):
        stability = laplace_stability(epsilon=loss, queries=queries)
        assert expected_gap(stability=stability, rows=10**6, failing=0.05) <= 0.1
        more = laplace_stability(epsilon=loss * 1.01, queries=queries)
        assert expected_gap(stability=more, rows=10**6, failing=0.05) > 0.1
    assert 9 < losses[0] / losses[1] < 20
    assert 9 < losses[1] / losses[2] < 20


def test_what_cannot_be_had_is_refused_with_what_can():
    with pytest.raises(Refused, match=r"without any question it may be 0\.136"):
        noise_for(rows=100, queries=1, within=0.1, failing=0.05)
    with pytest.raises(Refused, match="more rows"):
        laplace_epsilon(rows=100, queries=1, within=0.1, failing=0.05)
    with pytest.raises(Refused, match="more rows"):
        lecture_noise(rows=500, queries=1, within=0.1, failing=0.05)
    with pytest.raises(Refused, match="more noise"):
        rows_for(queries=10**6, scale=1e-6, within=1e-4, failing=0.05)
    with pytest.raises(InvalidArgument):
        compose_stabilities([])
    with pytest.raises(InvalidArgument):
        add_stabilities([1.1])
