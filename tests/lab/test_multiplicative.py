"""Multiplicative weights without privacy: the potential falls as it must, and updates end."""

import math

import numpy as np
import pytest

from dodona.curator.weights import Distribution
from dodona.errors import InvalidArgument
from dodona.lab.weights import (
    MultiplicativeWeights,
    check_query_weights,
    count_weighted_rows,
    least_drop,
    most_updates,
    sharp_drop,
    sharp_updates,
)

CASES = 3_000


def drawn(generator: np.random.Generator) -> tuple[Distribution, Distribution, np.ndarray]:
    """Data, a hypothesis and a question, from flat to nearly all on one cell."""
    cells = int(generator.integers(2, 12))
    spread = 10 ** generator.uniform(-1.5, 1.5, 2)
    shares = [generator.dirichlet(np.full(cells, each)) + 1e-12 for each in spread]
    query = generator.integers(0, 2, cells) if generator.random() < 0.5 else generator.random(cells)
    return *(Distribution(share / share.sum()) for share in shares), query.astype(float)  # type: ignore[return-value]


def test_the_potential_drops_by_twice_the_squared_gap_or_more_with_the_best_step():
    generator = np.random.default_rng(1)
    least = math.inf
    for _ in range(CASES):
        data, hypothesis, query = drawn(generator)
        gap = data.expect(query) - hypothesis.expect(query)
        if abs(gap) < 1e-3:
            continue
        before = data.divergence(hypothesis)
        step = 4 * abs(gap) * generator.uniform(0.2, 1)  # the step is set for a gap no larger than the true one
        after = data.divergence(hypothesis.tilted(query, math.copysign(step, gap)))
        assert before - after >= sharp_drop(step=step, gap=abs(gap)) - 1e-9
        assert sharp_drop(step=step, gap=abs(gap)) >= 2 * (step / 4) ** 2 - 1e-12
        best = data.divergence(hypothesis.tilted(query, 4 * gap))
        least = min(least, (before - best) / (2 * gap**2))
    assert 1 - 1e-6 <= least < 1.05  # it is tight: a uniform pair comes near


def test_the_sharp_drop_is_reached_by_a_half_that_the_data_are_a_little_off():
    data, hypothesis = Distribution(np.array([0.501, 0.499])), Distribution.uniform(2)
    query = np.array([1.0, 0.0])
    drop = data.divergence(hypothesis) - data.divergence(hypothesis.tilted(query, 4 * 0.001))
    assert drop == pytest.approx(2 * 0.001**2, rel=1e-3)
    assert drop > least_drop(step=0.004, gap=0.001)


def test_a_step_in_the_wrong_direction_raises_the_potential():
    generator = np.random.default_rng(2)
    raised = 0
    for _ in range(500):
        data, hypothesis, query = drawn(generator)
        gap = data.expect(query) - hypothesis.expect(query)
        if abs(gap) > 0.05:
            raised += data.divergence(hypothesis.tilted(query, -gap)) > data.divergence(hypothesis)
            assert data.divergence(hypothesis.tilted(query, -gap)) > data.divergence(hypothesis)
    assert raised > 100


@pytest.mark.parametrize("step", [0.05, 0.1, 0.2])
def test_updates_end_within_the_bound_and_each_round_records_its_potential(step: float):
    generator = np.random.default_rng(3)
    cells = 32
    counts = generator.multinomial(10_000, generator.dirichlet(np.full(cells, 0.1)))
    weights = MultiplicativeWeights(counts, step=step)
    for _ in range(600):
        turn = weights.ask(generator.integers(0, 2, cells))
        if turn.updated:
            assert turn.drop >= least_drop(step=step, gap=abs(turn.estimate - turn.truth)) - 1e-9
            assert turn.drop >= step**2 - 1e-9
            assert turn.answer == turn.truth
        else:
            assert turn.drop == 0
            assert abs(turn.answer - turn.truth) <= 2 * step
    assert 0 < weights.updates <= most_updates(universe=cells, step=step)
    start = weights.data.divergence(Distribution.uniform(cells))
    assert start <= math.log(cells)
    assert weights.rounds[-1].potential == pytest.approx(start - sum(turn.drop for turn in weights.rounds))
    assert weights.rounds[-1].potential == pytest.approx(weights.data.divergence(weights.hypothesis))
    assert weights.rounds[-1].potential >= 0


def test_the_sharp_bound_holds_with_its_own_step_and_is_half_of_the_notes():
    assert sharp_updates(universe=1024, gap=0.1) == 346
    assert most_updates(universe=1024, step=0.1) == 693
    generator = np.random.default_rng(4)
    cells, gap = 64, 0.15
    data = Distribution.of(generator.multinomial(1000, generator.dirichlet(np.full(cells, 0.02))))
    hypothesis, updates = Distribution.uniform(cells), 0
    for _ in range(20_000):
        query = generator.integers(0, 2, cells).astype(float)
        off = data.expect(query) - hypothesis.expect(query)
        if abs(off) >= gap:
            hypothesis, updates = hypothesis.tilted(query, math.copysign(4 * gap, off)), updates + 1
    assert 0 < updates <= sharp_updates(universe=cells, gap=gap)


def test_counts_of_fractions_are_whole_and_one_row_moves_them_by_one_at_most():
    generator = np.random.default_rng(5)
    for _ in range(2_000):
        cells = int(generator.integers(2, 6))
        counts = generator.integers(0, 5, cells) + 1
        query = check_query_weights(generator.integers(0, 5, cells) / 4, cells)
        moved = counts.copy()
        moved[generator.integers(cells)] -= 1
        moved[generator.integers(cells)] += 1
        first, second = count_weighted_rows(query, counts), count_weighted_rows(query, moved)
        assert abs(first - second) <= 1
        assert abs(first - float(query @ counts)) <= 0.5


def test_no_cell_is_given_up_however_often_it_is_lowered():
    hypothesis = Distribution.uniform(2)
    for _ in range(2_000):
        hypothesis = hypothesis.tilted(np.array([1.0, 0.0]), -4)
    assert hypothesis.values[0] > 0
    assert math.isfinite(Distribution.uniform(2).divergence(hypothesis))
    assert hypothesis.values.sum() == pytest.approx(1)


def test_rows_that_no_question_counts_keep_their_share():
    hypothesis = Distribution.uniform((2, 3), spare=1)
    assert hypothesis.values.sum() + hypothesis.spare == pytest.approx(1)
    lowered = hypothesis.tilted(np.ones((2, 3)), -1)
    assert lowered.expect(np.ones((1, 1))) == pytest.approx(6 / (6 + math.e))
    assert lowered.values.sum() + lowered.spare == pytest.approx(1)


@pytest.mark.parametrize("counts", [[], [[1, 2]], [1.5, 2], [-1, 3], [0, 0], ["a"], [2**50, 1]], ids=str)
def test_what_is_no_histogram_is_refused(counts):
    with pytest.raises(InvalidArgument, match="counts"):
        MultiplicativeWeights(counts, step=0.1)


@pytest.mark.parametrize("query", [[1], [0, 2], [0, -0.1], [0, math.nan], ["a", "b"], [[0, 1]]], ids=str)
def test_what_is_no_question_is_refused(query):
    with pytest.raises(InvalidArgument, match="query"):
        MultiplicativeWeights([1, 2], step=0.1).ask(query)


@pytest.mark.parametrize("step", [0, -0.1, 1.5, math.nan, math.inf])
def test_what_is_no_step_is_refused(step):
    with pytest.raises(InvalidArgument, match="step"):
        MultiplicativeWeights([1, 2], step=step)
    with pytest.raises(InvalidArgument, match="rate"):
        Distribution.uniform(2).tilted(np.array([1.0, 0.0]), math.inf)
