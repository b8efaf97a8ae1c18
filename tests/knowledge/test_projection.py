import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.knowledge.cells import Support
from dodona.knowledge.dense import DenseBelief
from dodona.lab.projection import bernoulli_divergence, guarded_target, project
from dodona.query.predicate import among
from dodona.query.query import Query
from dodona.schema.attributes import Integer
from dodona.schema.schema import Domain
from tests.knowledge.explicit import cells_of, relative_entropy

ROUNDING = 1e-9


def case(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table's law, a belief and the cells inside, of 2 to 40 cells, flat or sharp."""
    size = int(rng.integers(2, 41))
    table, belief = (rng.dirichlet(np.full(size, 10.0 ** rng.uniform(-1, 1))) + 1e-6 for _ in range(2))
    inside = rng.random(size) < rng.uniform(0.1, 0.9)
    inside[int(rng.integers(size))] ^= inside.all() or not inside.any()
    return table / table.sum(), belief / belief.sum(), inside


@pytest.mark.slow
def test_a_guarded_step_drops_the_relative_entropy_by_its_promise():
    """6,000 random cases, noise up to its bound in both directions, ends included: none falls short."""
    rng = np.random.default_rng(7)
    used = lowest = 0
    least = math.inf
    for _ in range(6_000):
        table, belief, inside = case(rng)
        truth, believed = float(table[inside].sum()), float(belief[inside].sum())
        margin = abs(truth - believed) * rng.uniform(0.05, 1.0)
        doubt = rng.uniform(0, 1.5) * abs(truth - believed)
        noisy = truth + doubt * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)])
        if margin < 1e-4 or (noisy > believed) != (truth > believed):
            continue  # the direction is that of the truth in the good event
        target = guarded_target(believed, noisy=noisy, margin=margin, doubt=doubt)
        domain = cells_of(len(table))
        query = Query.count(domain, among(domain["cell"], np.flatnonzero(inside).tolist()))
        moved = project(DenseBelief(Support.values(domain), belief.copy()), query, target=target).probabilities()
        drop = relative_entropy(table, belief) - relative_entropy(table, moved)
        promise = bernoulli_divergence(target, believed)
        assert drop >= promise - ROUNDING
        assert promise >= 2 * margin**2 * (1 - ROUNDING)
        used += 1
        lowest += drop < 3 * margin**2
        least = min(least, drop / (2 * margin**2))
    assert used > 3_000
    assert lowest > 0, "some cases come near the promise, so that a smaller step would be noticed"
    assert 1 - ROUNDING <= least < 1.1


def test_a_step_to_the_noisy_answer_itself_would_break_the_promise():
    rng = np.random.default_rng(3)
    short = 0
    for _ in range(2000):
        table, belief, inside = case(rng)
        truth, believed = float(table[inside].sum()), float(belief[inside].sum())
        margin = abs(truth - believed)
        noisy = float(np.clip(truth + rng.uniform(-1, 1) * margin, 1e-6, 1 - 1e-6))
        ratio = noisy * (1 - believed) / (believed * (1 - noisy))
        moved = np.where(inside, belief * ratio, belief)
        drop = relative_entropy(table, belief) - relative_entropy(table, moved / moved.sum())
        short += drop < 2 * margin**2
    assert short > 50


def test_a_step_on_a_sum_drops_the_relative_entropy_by_its_promise():
    """2,000 random cases: a row counts for 3 to 9, so gaps are in sixths."""
    domain = Domain((Integer("visits", 3, 9),))
    support, query, rng = Support.values(domain), Query.sum(domain, "visits"), np.random.default_rng(1)
    values = np.arange(3, 10)
    for _ in range(2000):
        table, belief = (rng.dirichlet(np.full(7, 10.0 ** rng.uniform(-0.5, 1))) + 1e-9 for _ in range(2))
        table, belief = table / table.sum(), belief / belief.sum()
        truth, believed = float(table @ values), float(belief @ values)
        target = believed + rng.uniform(0.1, 1) * (truth - believed)
        moved = project(DenseBelief(support, belief.copy()), query, target=target).probabilities()
        drop = relative_entropy(table, belief) - relative_entropy(table, moved)
        assert drop >= bernoulli_divergence((target - 3) / 6, (believed - 3) / 6) - ROUNDING
        assert drop >= relative_entropy(moved, belief) - ROUNDING


@given(st.floats(0, 1), st.floats(-0.5, 1.5), st.floats(0, 0.3), st.floats(0, 0.3))
def test_a_guarded_target_moves_by_the_margin_at_least_and_towards_what_was_told(believed, told, margin, doubt):
    try:
        target = guarded_target(believed, noisy=told, margin=margin, doubt=doubt)
    except InvalidArgument:
        assert (believed + margin if told >= believed else 1 - believed + margin) >= 1
        return
    assert 0 <= target <= 1
    if told >= believed:
        assert target >= believed + margin
        assert target <= max(believed + margin, told - doubt)
    else:
        assert target <= believed - margin + 1e-15
        assert target >= min(believed - margin, told + doubt) - 1e-15


@pytest.mark.parametrize(
    ("believed", "told", "margin", "doubt", "word"),
    [
        (1.5, 0.5, 0.1, 0.1, "believed"),
        (0.5, math.nan, 0.1, 0.1, "noisy"),
        (0.5, 0.6, -0.1, 0.1, "margin"),
        (0.5, 0.6, 0.1, math.inf, "doubt"),
        (0.95, 0.99, 0.1, 0.0, "above 0.95; write a smaller margin"),
        (0.05, 0.01, 0.1, 0.0, "below 0.05; write a smaller margin"),
    ],
)
def test_guards_that_make_no_sense_are_refused(believed, told, margin, doubt, word):
    with pytest.raises(InvalidArgument, match=word):
        guarded_target(believed, noisy=told, margin=margin, doubt=doubt)
