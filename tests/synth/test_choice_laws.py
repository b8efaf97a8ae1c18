"""Audits by exact computation: the whole law of each choice, on all pairs of neighbouring toy tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from dodona.privacy.scores import (
    DatabaseScores,
    DistanceScores,
    ExcessScores,
    database_sensitivity,
    distance_sensitivity,
    excess_sensitivity,
)
from dodona.privacy.selection import Exponential, PermuteAndFlip, ScoredCandidates
from dodona.query.query import Query, block_weights, group_numbers
from dodona.schema.schema import Neighbours, Unit
from dodona.synth.workload import marginal_block
from tests.synth.scene import tiny

DOMAIN = tiny().domain
CELLS = 4
QUERY = Query(
    DOMAIN,
    (
        marginal_block(DOMAIN, ["first"]),
        marginal_block(DOMAIN, ["first", "second"]),
        marginal_block(DOMAIN, ["second"]),
    ),
)
EPSILON = Fraction(3, 4)
UNIVERSE = (("first", 2), ("second", 2))


def answers() -> np.ndarray:
    """What each cell adds to each answer."""
    axes = {"first": np.array([0, 0, 1, 1]), "second": np.array([0, 1, 0, 1])}
    rows = []
    for block in QUERY.blocks:
        table = np.zeros((block.values, CELLS), dtype=np.int64)
        table[group_numbers(block.keys, axes), np.arange(CELLS)] = block_weights(block, axes)
        rows.append(table)
    return np.concatenate(rows)


def neighbours_of(relation: Neighbours, *, most: int = 4) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs of neighbouring tables of up to so many rows, by their counts."""
    unit = np.eye(CELLS, dtype=np.int64)
    for rows in range(most):
        for cells in itertools.combinations_with_replacement(range(CELLS), rows):
            held = np.bincount(cells, minlength=CELLS).astype(np.int64) if cells else np.zeros(CELLS, dtype=np.int64)
            for place in range(CELLS):
                if relation is Neighbours.ADD_REMOVE:
                    yield held, held + unit[place]
                    yield held + unit[place], held
                else:
                    for other in range(CELLS):
                        if other != place:
                            yield held + unit[other], held + unit[place]


def log_law(selection: ScoredCandidates, values: np.ndarray) -> np.ndarray:
    """The logarithm of the probability of each candidate, by the exponential mechanism."""
    powers = np.array([float(score) for score in selection.scores(values)]) / float(selection.choice.scale)
    if selection.rarities:
        powers -= np.log(np.array([float(rarity) for rarity in selection.rarities]))
    powers -= powers.max()
    return powers - math.log(float(np.exp(powers).sum()))


def worst(selection: ScoredCandidates, relation: Neighbours) -> tuple[float, float]:
    """The largest loss of any outcome, and the widest span of losses, over all pairs."""
    table, loss, span = answers(), 0.0, 0.0
    for counts, other in neighbours_of(relation):
        losses = log_law(selection, table @ counts) - log_law(selection, table @ other)
        loss, span = max(loss, float(np.abs(losses).max())), max(span, float(losses.max() - losses.min()))
    return loss, span


def distances(relation: Neighbours) -> DistanceScores:
    factors = (1, 3, 2)
    choice = Exponential.for_privacy(EPSILON, distance_sensitivity(QUERY, factors, Unit.each_row(relation)))
    return DistanceScores(QUERY, (2, 0, 1, 1, 0, 0, 1, 1), factors, (0, 2, -1), choice)


def excesses(relation: Neighbours) -> ExcessScores:
    return ExcessScores(
        QUERY,
        (2, 0, 1, 1, 0, 0, 1, 1),
        Exponential.for_privacy(EPSILON, excess_sensitivity(QUERY, Unit.each_row(relation))),
    )


def small_databases(relation: Neighbours) -> DatabaseScores:
    choice = Exponential.for_privacy(EPSILON, database_sensitivity(QUERY, 3, Unit.each_row(relation)))
    return DatabaseScores(QUERY, UNIVERSE, 3, 3, choice)


MADE = [distances, excesses, small_databases]


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("made", MADE)
def test_no_pair_of_neighbours_tells_more_than_the_event_says(made, relation: Neighbours):
    selection = made(relation)
    claimed = float(selection.event(Unit.each_row(relation)).epsilon)
    assert claimed == pytest.approx(float(EPSILON))
    loss, span = worst(selection, relation)
    assert loss <= claimed + 1e-9
    assert span <= claimed + 1e-9  # bounded range, which the price ε²/8 rests on


@pytest.mark.parametrize("made", MADE)
def test_the_price_is_nearly_reached_so_that_no_smaller_one_would_do(made):
    relation = Neighbours.REPLACE
    selection = made(relation)
    _, span = worst(selection, relation)
    assert span > 0.6 * float(EPSILON)


def test_a_planted_fault_in_the_sensitivity_is_seen():
    """The factor of a block forgotten, the rows of a database forgotten: the same audit refutes the claim."""
    relation = Neighbours.REPLACE
    factors = (1, 3, 2)
    forgot = DistanceScores(
        QUERY,
        (2, 0, 1, 1, 0, 0, 1, 1),
        factors,
        (0, 2, -1),
        Exponential.for_privacy(EPSILON, distance_sensitivity(QUERY, (1, 1, 1), Unit.each_row(relation))),
    )
    assert worst(forgot, relation)[1] > float(EPSILON) * 1.2
    few = DatabaseScores(
        QUERY, UNIVERSE, 3, 3, Exponential.for_privacy(EPSILON, database_sensitivity(QUERY, 1, Unit.each_row(relation)))
    )
    assert worst(few, relation)[1] > float(EPSILON) * 1.2


def test_a_belief_that_looks_at_the_table_is_seen():
    """Rounded beliefs are public; were they the exact answers, the choice would tell them apart."""
    relation, table = Neighbours.ADD_REMOVE, answers()
    first, other = np.array([2, 1, 0, 0]), np.array([2, 1, 1, 0])
    laws = []
    for held in (first, other):
        believed = tuple((table @ np.array([2, 1, 0, 0]) if held is first else table @ held - 9).tolist())
        choice = Exponential.for_privacy(EPSILON, distance_sensitivity(QUERY, (1, 3, 2), Unit.each_row(relation)))
        laws.append(log_law(DistanceScores(QUERY, believed, (1, 3, 2), (0, 0, 0), choice), table @ held))
    assert float(np.abs(laws[0] - laws[1]).max()) > float(EPSILON)


def test_a_choice_by_permute_and_flip_has_its_own_price():
    choice = PermuteAndFlip.for_privacy(
        EPSILON, distance_sensitivity(QUERY, (1, 1, 1), Unit.each_row(Neighbours.ADD_REMOVE))
    )
    selection = DistanceScores(QUERY, (0,) * 8, (1, 1, 1), (0, 0, 0), choice)
    event = selection.event(Unit.each_row(Neighbours.ADD_REMOVE))
    assert event.epsilon == EPSILON
    assert float(event.rho()) == pytest.approx(float(EPSILON) * math.tanh(float(EPSILON) / 2))


def test_the_exponential_choice_costs_an_eighth_of_the_square():
    event = distances(Neighbours.REPLACE).event(Unit.each_row(Neighbours.REPLACE))
    assert float(event.rho()) <= float(EPSILON) ** 2 / 8
    assert float(event.rho()) == pytest.approx(float(EPSILON) ** 2 / 8, rel=0.02)


def test_a_database_stands_for_all_orders_of_its_rows():
    selection = small_databases(Neighbours.REPLACE)
    assert sum(selection.copies) == CELLS**3
    seen = {}
    for ordered in itertools.product(range(CELLS), repeat=3):
        seen[tuple(sorted(ordered))] = seen.get(tuple(sorted(ordered)), 0) + 1
    assert [seen[selection.cells(number)] for number in range(selection.number)] == list(selection.copies)
    assert min(selection.rarities) == 1


def test_the_score_of_a_database_is_its_worst_answer():
    selection, table, truth = small_databases(Neighbours.REPLACE), answers(), np.array([1, 0, 2, 0])
    scores = selection.scores(table @ truth)
    for number in range(selection.number):
        achieved = table @ np.bincount(selection.cells(number), minlength=CELLS)
        assert scores[number] == -max(
            abs(3 * int(a) - 3 * int(b)) for a, b in zip(table @ truth, achieved, strict=True)
        )


def test_answers_beyond_64_bits_are_scored_exactly():
    large = [1 << 90, 0, 1 << 90, 0, 0, 0, 1 << 90, 0]
    assert max(distances(Neighbours.REPLACE).scores(large)) == 3 * ((1 << 90) - 1 + 1) - 2
    assert max(excesses(Neighbours.REPLACE).scores(large)) == (1 << 90) - 1
    assert len(small_databases(Neighbours.REPLACE).scores(large)) == 20
