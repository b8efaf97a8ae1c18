"""The privacy of the interaction: laws summed over all noise, and samples of the code itself."""

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dodona.curator.weights import Distribution
from dodona.curator.weights_design import WeightsDesign
from dodona.lab.audit.bound import certified_epsilon
from dodona.lab.mechanisms import Gaussian, Laplace, SparseVector
from dodona.lab.weights import study_weights
from dodona.privacy.sparse_vector import EstimateChecker
from dodona.schema.schema import Neighbours, Unit
from tests.curator.weights.scene import draw
from tests.privacy import laws

QUERIES = ((1, 0, 0), (1, 1, 0), (0, 1, 0))
Answer = Callable[[np.ndarray], np.ndarray]


def design(answer: Laplace | Gaussian, threshold: int = 2, updates: int = 1) -> WeightsDesign:
    test = SparseVector(threshold_scale="1/2", question_scale=1, positives=updates + 1)
    checker = EstimateChecker(test, answer, threshold)
    return WeightsDesign(rows=6, universe=3, questions=3, step=0.8, checker=checker, within=1, confidence=0.5)


def transcripts(design: WeightsDesign, counts: tuple[int, ...], answer: Answer, *, noisy: bool = True) -> laws.Law:
    """The law of all that is told of three questions: "stands", a fresh answer, or "halts". Answers from -14 to 20."""
    checker = design.checker
    first, second = float(checker.test.threshold_scale), float(checker.test.question_scale)
    noise = np.arange(-40, 41, dtype=float)
    fresh = laws.laplace(noise, first)
    told_values = np.arange(-14, 21)
    law: laws.Law = {}

    def walk(asked: int, weight: np.ndarray, left: int, hypothesis: Distribution, told: tuple[object, ...]) -> None:
        if asked == len(QUERIES):
            law[told] = law.get(told, 0.0) + float(weight.sum())
            return
        query = np.array(QUERIES[asked], dtype=float)
        count, estimate = int(query @ np.array(counts)), hypothesis.expect(query)
        distance = abs(count - round(design.rows * estimate))
        need = checker.threshold + noise - distance
        below = laws.laplace_below(need - 1, second) if noisy else np.full(81, float(distance < checker.threshold))
        above = laws.laplace_above(need - 1, second) if noisy else 1 - below
        walk(asked + 1, weight * below, left, hypothesis, (*told, "stands"))
        crossed = float((weight * above).sum())
        if left == 1:
            law[*told, "halts"] = law.get((*told, "halts"), 0.0) + crossed
            return
        for value, chance in zip(told_values.tolist(), answer(told_values - count).tolist(), strict=True):
            rate = design.step if value / design.rows > estimate else -design.step
            walk(asked + 1, crossed * chance * fresh, left - 1, hypothesis.tilted(query, rate), (*told, value))

    walk(0, fresh, checker.test.positives, Distribution.uniform(3), ())
    return law


def neighbours() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    tables = [(a, b, 6 - a - b) for a in range(7) for b in range(7 - a)]
    return [
        (table, other)
        for table, other in itertools.combinations(tables, 2)
        if sum(abs(x - y) for x, y in zip(table, other, strict=True)) == 2
    ]


def test_no_pair_of_tables_tells_more_than_the_event_says():
    """Every pair of histograms of six rows in three cells that differ in one row; Laplace answers, pure losses."""
    scale = Fraction(3, 2)
    mechanism = design(Laplace(scale=scale))
    paid = mechanism.event(Unit.each_row(Neighbours.REPLACE)).epsilon
    assert paid == 2 * (2 + 2) + 1 / scale
    known = {table: None for pair in neighbours() for table in pair}
    by_table = {table: transcripts(mechanism, table, lambda off: laws.laplace(off, 1.5)) for table in known}
    assert all(sum(law.values()) == pytest.approx(1, abs=1e-3) for law in by_table.values())
    worst = max(laws.largest_loss(by_table[table], by_table[other]) for table, other in neighbours())
    assert 0.25 * float(paid) < worst <= float(paid) * (1 + 1e-9)


@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(4), Fraction(6)])
def test_gaussian_answers_are_within_their_price_at_every_order(order: Fraction):
    mechanism = design(Gaussian(scale=2))
    paid = float(mechanism.event(Unit.each_row(Neighbours.REPLACE)).renyi(order))
    normal = Gaussian(scale=2)
    by_table = {
        table: transcripts(
            mechanism, table, lambda off: np.array([normal.probability(int(distance)) for distance in off])
        )
        for pair in neighbours()[::5]
        for table in pair
    }
    worst = max(laws.renyi(by_table[table], by_table[other], order) for table, other in neighbours()[::5])
    assert 0 < worst <= paid * (1 + 1e-9)


def test_a_noiseless_test_tells_everything():
    """The same enumeration without noise on the test: an outcome that one table has always, its neighbour never."""
    mechanism = design(Laplace(scale=1))
    first, other = (4, 1, 1), (3, 2, 1)
    laws_of = [
        transcripts(mechanism, table, lambda off: laws.laplace(off, 1.0), noisy=False) for table in (first, other)
    ]
    stands = [sum(chance for transcript, chance in law.items() if transcript[0] == "stands") for law in laws_of]
    assert stands == [0, pytest.approx(1, abs=1e-3)]


def told_first(counts: list[int], runs: int) -> np.ndarray:
    """Whether the first estimate stood, in independent runs of the code."""
    test = SparseVector(threshold_scale=2, question_scale=4, positives=2)
    checker = EstimateChecker(test, Laplace(scale=2), 3)
    small = WeightsDesign(rows=10, universe=2, questions=5, step=0.5, checker=checker, within=1, confidence=0.5)
    return np.array([study_weights(small, counts, draw=draw).ask([1, 0]).source == "measured" for _ in range(runs)]) * 1


def test_samples_of_the_code_prove_no_more_than_one_test_costs():
    """1,000 runs a table; a false alarm has probability 1e-6. Without noise on the test they prove more than 3."""
    first, second = told_first([8, 2], 1_000), told_first([7, 3], 1_000)
    assert 0.2 < first.mean() < 0.9
    assert certified_epsilon(first, second) <= 1
