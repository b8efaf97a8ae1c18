"""Divergences of finite laws, post-processing, and the two constructions of Lemma 3.17."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.lab.divergence import (
    align_laws,
    approximate_maximum,
    close_law,
    close_pair,
    hockey_stick,
    kullback_leibler,
    maximum,
    post_process,
    renyi,
    total_variation,
)
from tests.house.shares import examples

Array = np.ndarray


def law(weights: list[int]) -> Array:
    return np.array(weights, float) / sum(weights)


weights = st.lists(st.integers(0, 30), min_size=5, max_size=5).filter(any)
pairs = st.tuples(weights, weights).map(lambda both: (law(both[0]), law(both[1])))
full = st.lists(st.integers(1, 30), min_size=5, max_size=5).map(law)
channels = st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any), min_size=5, max_size=5).map(
    lambda rows: np.array([law(row) for row in rows])
)


def brute_hockey_stick(first: Array, second: Array, epsilon: float) -> float:
    return max(
        first[list(chosen)].sum() - math.exp(epsilon) * second[list(chosen)].sum()
        for size in range(len(first) + 1)
        for chosen in itertools.combinations(range(len(first)), size)
    )


def brute_maximum(first: Array, second: Array, delta: float) -> float:
    best = -math.inf
    for size in range(1, len(first) + 1):
        for chosen in itertools.combinations(range(len(first)), size):
            upper, lower = first[list(chosen)].sum() - delta, second[list(chosen)].sum()
            if upper > 1e-15:
                best = max(best, math.inf if lower == 0 else math.log(upper / lower))
    return best


@settings(deadline=None)
@given(pairs, st.integers(0, 40))
def test_the_hockey_stick_is_the_largest_over_all_sets(laws: tuple[Array, Array], level: int) -> None:
    assert hockey_stick(*laws, epsilon=level / 10) == pytest.approx(brute_hockey_stick(*laws, level / 10), abs=1e-12)


@settings(deadline=None)
@given(pairs, st.sampled_from([0.0, 0.01, 0.1, 0.3]))
def test_the_max_divergence_is_the_largest_over_all_sets(laws: tuple[Array, Array], delta: float) -> None:
    divergence, expected = approximate_maximum(*laws, delta=delta), brute_maximum(*laws, delta)
    assert divergence == pytest.approx(expected, abs=1e-9)
    if delta == 0:
        assert maximum(*laws) == divergence


@settings(deadline=None)
@given(pairs, st.sampled_from([0.01, 0.1, 0.3]))
def test_the_two_are_each_others_inverse(laws: tuple[Array, Array], delta: float) -> None:
    epsilon = approximate_maximum(*laws, delta=delta)
    if math.isfinite(epsilon):
        assert hockey_stick(*laws, epsilon=epsilon) == pytest.approx(delta, abs=1e-9)


@settings(deadline=None)
@given(pairs)
def test_the_divergences_are_in_their_order(laws: tuple[Array, Array]) -> None:
    ordered = [kullback_leibler(*laws), renyi(*laws, order=2), renyi(*laws, order=20), maximum(*laws)]
    assert all(less <= more + 1e-9 for less, more in itertools.pairwise(ordered))
    assert hockey_stick(*laws, epsilon=0) == pytest.approx(total_variation(*laws), abs=1e-12)
    assert total_variation(*laws) ** 2 <= kullback_leibler(*laws) / 2 + 1e-12  # Pinsker


@settings(deadline=None)
@given(pairs, channels, st.sampled_from([1.5, 2, 10]), st.integers(0, 20))
def test_no_divergence_grows_under_post_processing(
    laws: tuple[Array, Array], channel: Array, order: float, level: int
) -> None:
    after = post_process(laws[0], channel), post_process(laws[1], channel)
    assert kullback_leibler(*after) <= kullback_leibler(*laws) + 1e-9
    assert maximum(*after) <= maximum(*laws) + 1e-9
    assert approximate_maximum(*after, delta=0.05) <= approximate_maximum(*laws, delta=0.05) + 1e-9
    assert total_variation(*after) <= total_variation(*laws) + 1e-12
    assert hockey_stick(*after, epsilon=level / 10) <= hockey_stick(*laws, epsilon=level / 10) + 1e-12
    assert renyi(*after, order=order) <= renyi(*laws, order=order) + 1e-9


@settings(deadline=None)
@given(pairs)
def test_renaming_outcomes_keeps_every_divergence(laws: tuple[Array, Array]) -> None:
    order = [4, 2, 0, 1, 3]
    after = post_process(laws[0], np.eye(5)[order]), post_process(laws[1], np.eye(5)[order])
    assert kullback_leibler(*after) == pytest.approx(kullback_leibler(*laws), abs=1e-12)
    assert maximum(*after) == pytest.approx(maximum(*laws), abs=1e-12)


@settings(deadline=None)
@given(pairs, st.integers(1, 30))
def test_the_first_construction_is_as_near_as_the_delta(laws: tuple[Array, Array], level: int) -> None:
    epsilon = level / 10
    near = close_law(*laws, epsilon=epsilon)
    assert np.all(near >= 0)
    assert near.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(near <= math.exp(epsilon) * laws[1] + 1e-12)
    assert total_variation(laws[0], near) == pytest.approx(hockey_stick(*laws, epsilon=epsilon), abs=1e-12)


@settings(deadline=None, max_examples=examples(300))
@given(pairs, st.integers(1, 30))
def test_the_second_construction_is_close_in_both_directions(laws: tuple[Array, Array], level: int) -> None:
    epsilon = level / 10
    first, second = close_pair(*laws, epsilon=epsilon)
    for made in (first, second):
        assert np.all(made >= -1e-15)
        assert made.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(first <= math.exp(epsilon) * second + 1e-12)
    assert np.all(second <= math.exp(epsilon) * first + 1e-12)
    delta = max(hockey_stick(*laws, epsilon=epsilon), hockey_stick(*reversed(laws), epsilon=epsilon))
    allowed = delta / (math.exp(epsilon) + 1) + 1e-12
    assert total_variation(laws[0], first) <= allowed
    assert total_variation(laws[1], second) <= allowed


@settings(deadline=None)
@given(full, full)
def test_the_mean_loss_is_at_most_that_of_randomized_response(first: Array, second: Array) -> None:
    epsilon = max(maximum(first, second), maximum(second, first))
    largest = epsilon * math.tanh(epsilon / 2)
    assert max(kullback_leibler(first, second), kullback_leibler(second, first)) <= largest + 1e-12
    assert largest <= epsilon**2 / 2 <= epsilon * math.expm1(epsilon)


def test_randomized_response_attains_the_mean_loss() -> None:
    kept = 1 / (1 + math.exp(-1))
    divergence = kullback_leibler([kept, 1 - kept], [1 - kept, kept])
    assert divergence == pytest.approx(math.tanh(0.5), rel=1e-12)


def test_laws_by_name_are_put_in_the_same_order() -> None:
    first, second = align_laws({"yes": 0.75, "no": 0.25}, {"no": 0.5, "maybe": 0.5})
    assert first.tolist() == [0.75, 0.25, 0.0]
    assert second.tolist() == [0.0, 0.5, 0.5]
    assert maximum({"yes": 1.0}, {"no": 1.0}) == math.inf
    assert kullback_leibler({"yes": 1.0}, {"yes": 1.0}) == 0


@pytest.mark.parametrize("bad", [[0.5, 0.6], [-0.1, 1.1], [math.nan, 1.0], [[0.5, 0.5]], []])
def test_what_is_no_law_is_refused(bad: list[float]) -> None:
    with pytest.raises(InvalidArgument, match="law"):
        kullback_leibler(bad, [0.5, 0.5])


def test_laws_of_unequal_length_and_bad_channels_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="second"):
        total_variation([1.0], [0.5, 0.5])
    with pytest.raises(InvalidArgument, match="channel"):
        post_process([0.5, 0.5], [[1.0]])
    with pytest.raises(InvalidArgument, match="law"):
        post_process([0.5, 0.5], [[1.0], [0.5]])
    with pytest.raises(InvalidArgument, match="order"):
        renyi([1.0], [1.0], order=1)
    with pytest.raises(InvalidArgument, match="epsilon"):
        close_pair([1.0], [1.0], epsilon=0)
