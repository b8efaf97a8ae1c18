"""What can be recovered at most: the bounds against every guess on small mechanisms, and mechanisms that reach them."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from dodona.errors import InvalidArgument
from dodona.lab.attacks.bound import largest_share, luck
from dodona.lab.plan.person import Exposure

EPSILONS = (0.0, 0.3, 1.0, 2.5)


def tables(people: int, values: int) -> list[tuple[int, ...]]:
    return list(product(range(values), repeat=people))


def delta_of(law: dict[tuple[int, ...], np.ndarray], epsilon: float) -> float:
    """The smallest δ at which tables that differ in one secret are (ε, δ)-indistinguishable."""
    delta = 0.0
    for first, chances in law.items():
        for second, other in law.items():
            if sum(a != b for a, b in zip(first, second, strict=True)) == 1:
                delta = max(delta, float(np.maximum(chances - math.exp(epsilon) * other, 0).sum()))
    return delta


def best_tail(law: dict[tuple[int, ...], np.ndarray], people: int, values: int, least: int) -> float:
    """The largest probability, over all ways to guess, of so many right guesses, when all tables are as likely."""
    every = tables(people, values)
    right = np.array([[sum(a == b for a, b in zip(t, g, strict=True)) >= least for t in every] for g in every])
    joint = np.array([law[table] for table in every]) / len(every)
    return float((right.astype(float) @ joint).max(axis=0).sum())


def best_share(law: dict[tuple[int, ...], np.ndarray], people: int, values: int) -> float:
    every = tables(people, values)
    right = np.array([[sum(a == b for a, b in zip(t, g, strict=True)) / people for t in every] for g in every])
    joint = np.array([law[table] for table in every]) / len(every)
    return float((right @ joint).max(axis=0).sum())


def responses(people: int, values: int, epsilon: float) -> dict[tuple[int, ...], np.ndarray]:
    """Everybody tells their secret, or any other, by randomized response."""
    every = tables(people, values)
    truth = math.exp(epsilon) / (math.exp(epsilon) + values - 1)
    lie = 1 / (math.exp(epsilon) + values - 1)
    return {
        table: np.array(
            [math.prod(truth if a == b else lie for a, b in zip(table, answer, strict=True)) for answer in every]
        )
        for table in every
    }


def random_law(people: int, values: int, outputs: int, rng: np.random.Generator) -> dict[tuple[int, ...], np.ndarray]:
    """A mechanism made of chance: outputs that lean on single secrets, on all of them, or on nothing."""
    weight = rng.choice([0.05, 0.3, 1.0])
    return {
        table: (drawn := np.exp(rng.normal(0, 1 + weight, outputs)) * (rng.random(outputs) > 0.1 * weight) + 1e-3)
        / drawn.sum()
        for table in tables(people, values)
    }


@pytest.mark.parametrize(("people", "values"), [(1, 2), (2, 2), (3, 2), (1, 4), (2, 3)])
def test_no_guess_beats_the_bounds_on_any_small_mechanism(people: int, values: int):
    rng = np.random.default_rng(1)
    for _ in range(60):
        law = random_law(people, values, int(rng.integers(2, 7)), rng)
        for epsilon in EPSILONS:
            delta = min(1.0, delta_of(law, epsilon))
            assert best_share(law, people, values) <= largest_share(epsilon, delta=delta, values=values) + 1e-12
            for least in range(people + 1):
                allowed = luck(least, people, epsilon=epsilon, delta=delta, values=values)
                assert best_tail(law, people, values, least) <= allowed + 1e-12


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("people", "values"), [(1, 2), (3, 2), (2, 3)])
def test_randomized_response_reaches_both_bounds(people: int, values: int, epsilon: float):
    law = responses(people, values, epsilon)
    assert delta_of(law, epsilon) < 1e-12
    assert best_share(law, people, values) == pytest.approx(largest_share(epsilon, values=values), abs=1e-12)
    for least in range(1, people + 1):
        allowed = luck(least, people, epsilon=epsilon, values=values)
        assert best_tail(law, people, values, least) == pytest.approx(allowed, abs=1e-12)


@pytest.mark.parametrize("values", [2, 5])
def test_telling_now_and_then_reaches_the_bound_with_delta(values: int):
    """With probability δ the secret is told outright, else by randomized response."""
    epsilon, delta = 1.0, 0.07
    response = responses(1, values, epsilon)
    law = {
        table: np.concatenate((delta * np.eye(values)[table[0]], (1 - delta) * chances))
        for table, chances in response.items()
    }
    assert delta_of(law, epsilon) == pytest.approx(delta)
    allowed = largest_share(epsilon, delta=delta, values=values)
    assert best_share(law, 1, values) == pytest.approx(allowed, abs=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", 0), ("1", 0), ("1", "1e-6"), ("3", "0.1")])
def test_one_secret_of_two_is_what_a_budget_means_to_one_person(epsilon: str, delta: str):
    exposure = Exposure(epsilon, delta=delta)
    share = largest_share(float(exposure.epsilon), delta=float(exposure.delta))
    assert share == pytest.approx(exposure.guess, abs=1e-12)
    assert 2 * share - 1 == pytest.approx(exposure.advantage, abs=1e-12)


def test_luck_is_a_binomial_tail_and_delta_is_added():
    assert luck(0, 10, epsilon=1) == 1
    generator = math.e / (1 + math.e)
    assert luck(10, 10, epsilon=1) == pytest.approx(generator**10)
    assert luck(10, 10, epsilon=1, delta=1e-3) == pytest.approx(generator**10 + 10 * 1e-3 / (1 + math.e))


@pytest.mark.parametrize(
    "call",
    [
        lambda: largest_share(-1),
        lambda: largest_share(math.nan),
        lambda: largest_share(1, delta=2),
        lambda: largest_share(1, values=1),
        lambda: luck(11, 10, epsilon=1),
        lambda: luck(-1, 10, epsilon=1),
    ],
)
def test_what_makes_no_sense_is_refused(call):
    with pytest.raises(InvalidArgument, match="is not accepted"):
        call()
