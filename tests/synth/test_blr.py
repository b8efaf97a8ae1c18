"""BLR, run exactly: its law, its lemma, its promise, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dodona.errors import InvalidArgument
from dodona.privacy.scores import DatabaseScores, database_sensitivity
from dodona.privacy.selection import Exponential
from dodona.query.query import Query
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.schema import Schema
from dodona.synth.blr import database_error, sufficient_rows
from dodona.synth.methods import Blr
from dodona.synth.synthesize import quote_synthesis, synthesize
from dodona.synth.workload import InvalidWorkload, TooManyDatabases, Workload
from dodona.trusted.samplers import contest
from tests.synth.scene import PURE, curator_of, schema, tiny, tiny_columns

SCHEMA = tiny()
WORKLOAD = Workload.ways(SCHEMA.domain, 2)
TABLE = [0] * 9 + [1] * 6 + [2] * 4 + [3]
UNIVERSE = (("first", 2), ("second", 2))


def chosen(epsilon: Fraction, draws: int) -> tuple[np.ndarray, DatabaseScores]:
    """How often each of the 20 databases of three rows was drawn."""
    moved = database_sensitivity(WORKLOAD.query, 3, SCHEMA.unit)
    selection = DatabaseScores(WORKLOAD.query, UNIVERSE, 3, 20, Exponential.for_privacy(epsilon, moved))
    scores = np.array(selection.scores(np.bincount(TABLE, minlength=4).astype(np.int64)))
    unit = 1 / selection.choice.scale
    won = contest.contests(scores, draws, unit=unit, draw=contest.ContestLaw.GUMBEL, rare=selection.rarities)
    return np.bincount(won, minlength=selection.number), selection


def law(epsilon: float) -> np.ndarray:
    """The law by plain enumeration of all ordered tables of three rows."""
    truth, weights = np.bincount(TABLE, minlength=4) / 20, dict[tuple[int, ...], float]()
    for cells in np.ndindex(4, 4, 4):
        error = np.abs(np.bincount(cells, minlength=4) / 3 - truth).max()
        key = tuple(sorted(cells))
        weights[key] = weights.get(key, 0.0) + math.exp(-epsilon * 20 * error / 2)
    masses = np.array([weights[key] for key in sorted(weights)])
    return masses / masses.sum()


def statistic(counts: np.ndarray, probabilities: np.ndarray) -> float:
    expected = counts.sum() * probabilities
    return float(((counts - expected) ** 2 / expected).sum())


def test_small_databases_are_drawn_as_often_as_enumeration_says():
    """20,000 draws; chi-square with 19 degrees of freedom is above 75 once in 6·10^7 runs."""
    counts, _ = chosen(Fraction(1), 20_000)
    assert statistic(counts, law(1.0)) < 75
    assert statistic(counts, law(0.0)) > 1000


@pytest.mark.slow
def test_a_million_databases_are_drawn_as_often_as_enumeration_says_and_no_other_law_fits():
    """10^6 draws: false alarms once in 6·10^7 runs; an ε off by 5% is rejected, and so is a multiset counted once."""
    counts, selection = chosen(Fraction(1), 10**6)
    assert statistic(counts, law(1.0)) < 75
    assert statistic(counts, law(1.05)) > 120
    assert statistic(counts, law(0.95)) > 120
    even = law(1.0) / np.array(selection.copies)
    assert statistic(counts, even / even.sum()) > 10_000


def test_rows_follow_the_lemma_and_are_never_none():
    assert sufficient_rows(1, 0.5) == 2
    for questions in (1, 4, 1000):
        for within in (0.5, 0.1, 0.03):
            rows = sufficient_rows(questions, within)
            assert rows > math.log(2 * questions) / (2 * within**2) >= rows - 1


def test_some_database_of_the_lemmas_rows_is_near_every_table():
    """All tables of 20 rows over four cells whose counts are multiples of 5."""
    rows = sufficient_rows(4, 0.35)
    selection = DatabaseScores(WORKLOAD.query, UNIVERSE, rows, 20, Exponential(scale=1))
    for counts in np.ndindex(5, 5, 5):
        if sum(counts) <= 4:
            held = 5 * np.array([*counts, 4 - sum(counts)])
            assert -max(selection.scores(held)) <= 0.35 * rows * 20


def test_the_chosen_database_is_within_the_promise():
    """5 runs. By the promise one in 20 may fail; by the law itself less than one in 10^9."""
    declared = tiny(size=2000)
    held = tiny_columns(TABLE * 100)
    workload = Workload.ways(declared.domain, 2)
    truth = np.bincount(TABLE, minlength=4) / 20
    for number in range(5):
        curator = curator_of(declared, held, budget=PURE)
        model = synthesize(curator, workload, epsilon=2, method=Blr(rows=8), name=str(number))
        assert model.promise is not None
        assert np.abs(model.expect(workload.query) / 2000 - truth).max() <= model.promise.within
        assert curator.budget.spent == pytest.approx(1, abs=1e-6)
    expected = math.sqrt(math.log(8) / 16) + (8 * math.log(4) + math.log(20)) / 2000
    assert database_error(2000, universe=4, questions=4, rows=8, epsilon=2.0) == pytest.approx(expected)


def test_without_rows_those_with_the_best_promise_are_taken():
    curator = curator_of(tiny(size=100_000), tiny_columns(TABLE), budget=PURE)
    workload = Workload.ways(curator.schema.domain, 2)
    best = quote_synthesis(curator, workload, epsilon=1, method=Blr()).promise
    others = [quote_synthesis(curator, workload, epsilon=1, method=Blr(rows=rows)).promise for rows in (2, 20, 80)]
    assert best is not None
    assert all(best.within <= other.within for other in others if other is not None)


def test_two_cells_and_very_many_rows_still_find_a_database():
    declared = Schema.of("coins", Boolean("heads", otherwise=False), size=10**7)
    curator = curator_of(declared, {"heads": [True, False]}, budget=PURE)
    workload = Workload.ways(declared.domain, 1)
    promise = quote_synthesis(curator, workload, epsilon=1, method=Blr()).promise
    assert promise is not None
    assert promise.within < 0.05


def test_larger_universes_are_refused_with_what_they_would_need():
    curator = curator_of()
    workload = Workload.ways(schema().domain, 2)
    with pytest.raises(TooManyDatabases, match=r"annealed.*Nothing was charged") as refused:
        synthesize(curator, workload, epsilon=1, method=Blr(within=0.1))
    assert refused.value.needed == math.comb(60 + sufficient_rows(workload.query.values, 0.1) - 1, 59)
    assert curator.budget.spent == 0


def test_rows_and_within_together_contradict_each_other():
    with pytest.raises(InvalidWorkload, match="rows and within"):
        Blr(rows=3, within=0.2)


def test_more_answers_than_memory_holds_are_refused_before_the_charge():
    """What fails after the charge is lost, with the exact counts in its frames."""
    declared = Schema.of("wide", Integer("days", 0, 5999, otherwise=0), size=100)
    curator = curator_of(declared, {"days": [1, 2]}, budget=PURE)
    with pytest.raises(InvalidArgument, match=r"answers·cells up to 33554432.*Nothing was charged"):
        synthesize(curator, Workload.ways(declared.domain, 1), epsilon=1, method=Blr(rows=1))
    assert curator.budget.spent == 0


def test_scores_are_the_same_in_any_number_of_parts():
    """5,015 answers: 418 of 3,655 databases are in memory at a time."""
    domain = Schema.of("stays", Integer("days", 0, 84, otherwise=0), size=9).domain
    counts = Query(domain, tuple(Workload.ways(domain, 1).query.blocks) * 59)
    selection = DatabaseScores(counts, (("days", 85),), 2, 9, Exponential(scale=1))
    held = np.tile(np.bincount([3, 3, 80], minlength=85), 59).astype(np.int64)
    scores = selection.scores(held)
    assert len(scores) == selection.number == 3655
    assert [selection.cells(place) for place in np.flatnonzero(np.array(scores) == max(scores))] == [(3, 80)]
