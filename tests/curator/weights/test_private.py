"""Private multiplicative weights: what is promised, what is drawn, and where it ends."""

from fractions import Fraction

import numpy as np
import pytest

from dodona.curator.weights_design import UpdatesUsed, WeightsDesign, best_design
from dodona.errors import Halted, InvalidArgument, Refused
from dodona.lab.mechanisms import Gaussian, Laplace, SparseVector
from dodona.lab.weights import square_root, study_weights
from dodona.privacy.sparse_vector import EstimateChecker
from tests.curator.weights.scene import draw, largest_error, peaked


def tiny(threshold: int = 3, updates: int = 1, rows: int = 10) -> WeightsDesign:
    test = SparseVector(threshold_scale=2, question_scale=4, positives=updates + 1)
    checker = EstimateChecker(test, Laplace(scale=2), threshold)
    return WeightsDesign(rows=rows, universe=2, questions=5, step=0.5, checker=checker, within=1, confidence=0.5)


class Script:
    """Noise as it is written, and a list of what was drawn."""

    def __init__(self, *noise: int) -> None:
        self.noise = list(noise)
        self.drawn: list[Fraction] = []

    def __call__(self, law: Laplace | Gaussian) -> int:
        self.drawn.append(law.scale)
        return self.noise.pop(0)


def test_runs_stay_within_the_guarantee():
    """20 runs, of which each may miss with probability 5%; more than 8 misses are a false alarm of 2e-7."""
    generator = np.random.default_rng(11)
    rows, cells, questions = 50_000, 32, 300
    design = best_design(rows, universe=cells, questions=questions, epsilon=1, delta="1e-6")
    assert design.within < 0.25
    missed, updates = 0, 0
    for _ in range(20):
        queries = generator.integers(0, 2, (questions, cells)).astype(float)
        error, made = largest_error(design, peaked(rows, cells, generator), queries)
        missed += error > design.within
        updates += made
    assert missed <= 8
    assert updates > 20


@pytest.mark.soak
def test_two_hundred_runs_of_ten_thousand_questions_stay_within_the_guarantee():
    """200 runs of (10^5 rows, 2^10 cells, 10^4 questions); at 5% more than 28 misses are a false alarm of 5e-7."""
    generator = np.random.default_rng(12)
    rows, cells, questions = 10**5, 2**10, 10**4
    design = best_design(rows, universe=cells, questions=questions, epsilon=1, delta="1e-6")
    queries = generator.integers(0, 2, (questions, cells)).astype(float)
    missed = sum(
        largest_error(design, peaked(rows, cells, generator, 0.002), queries)[0] > design.within for _ in range(200)
    )
    assert missed <= 28


def test_the_notes_own_design_stays_within_its_error():
    generator = np.random.default_rng(13)
    design = square_root(200_000, universe=16, questions=100, epsilon=2, delta="1e-6")
    assert design.within < 0.3
    queries = generator.integers(0, 2, (100, 16)).astype(float)
    missed = 0
    for _ in range(10):
        error, updates = largest_error(design, peaked(200_000, 16, generator), queries)
        missed += error > design.within
        assert updates > 0
    assert missed <= 6  # a false alarm of 8e-8 at 5% each


def test_an_estimate_that_stands_is_told_and_nothing_moves():
    noise = Script(0, 0)
    weights = study_weights(tiny(), [7, 3], draw=noise)
    before = weights.hypothesis
    answer = weights.ask([1, 0])
    assert (answer.value, answer.source, answer.count) == (0.5, "confirmed", 5)
    assert weights.hypothesis is before
    assert noise.drawn == [2, 4]
    assert weights.left == 1


def test_a_fresh_answer_has_noise_of_its_own_and_the_threshold_is_drawn_again():
    noise = Script(0, 0, 5, -1)  # the first threshold, the question, the next threshold, the answer
    weights = study_weights(tiny(), [8, 2], draw=noise)
    answer = weights.ask([1, 0])
    assert noise.drawn == [2, 4, 2, 2]
    assert (answer.value, answer.source) == (pytest.approx(0.7), "measured")  # 8 - 1, whatever noise was compared
    assert weights.left == 0


@pytest.mark.parametrize(("noise", "rises"), [(0, True), (-2, True), (-4, False)])
def test_an_update_goes_towards_the_answer_that_was_told(noise, rises):
    weights = study_weights(tiny(), [8, 2], draw=Script(0, 0, 0, noise))
    weights.ask([1, 0])
    assert (weights.hypothesis.expect(np.array([1.0, 0.0])) > 0.5) == rises


def test_both_sides_of_an_estimate_are_checked():
    for counts in ([8, 2], [2, 8]):
        assert study_weights(tiny(), counts, draw=Script(0, 0, 0, 0)).ask([1, 0]).source == "measured"
        assert study_weights(tiny(), counts, draw=Script(1, 0)).ask([1, 0]).source == "confirmed"
        assert study_weights(tiny(), counts, draw=Script(0, -1)).ask([1, 0]).source == "confirmed"


def test_updates_end_at_the_cap_for_good():
    weights = study_weights(tiny(), [10, 0], draw=lambda _: 0)
    assert weights.ask([1, 0]).source == "measured"
    assert weights.ask([0.5, 0.5]).source == "confirmed"  # estimates that stand are told to the end
    for _ in range(3):
        with pytest.raises(UpdatesUsed, match="opened for 1 updates") as refused:
            weights.ask([1, 0])
        assert isinstance(refused.value, Refused)
        assert not refused.value.charged
    with pytest.raises(UpdatesUsed):
        weights.ask([0.5, 0.5])
    assert weights.updates == 1


def test_no_more_answers_are_drawn_than_are_paid_for():
    """However the noise falls, at most `updates` fresh answers leave."""
    generator = np.random.default_rng(14)
    for updates in (0, 1, 3):
        design = tiny(threshold=1, updates=updates)
        for _ in range(50):
            weights = study_weights(design, [7, 3], draw=lambda law: int(generator.integers(-3, 4)))  # noqa: ARG005
            measured = 0
            for _ in range(20):
                try:
                    measured += weights.ask([1, 0]).source == "measured"
                except UpdatesUsed:
                    break
            assert measured <= updates
            assert measured == weights.updates


def test_the_checker_halts_instead_of_answering_the_last_positive():
    class Above:
        positives_left = 0

        def ask(self, value: int, threshold: int) -> "Above":
            assert (value, threshold) == (4, 3)
            return self

        above = True

    with pytest.raises(Halted):
        tiny().checker.fresh(9, 5, watch=Above(), draw=draw)


def test_counts_must_be_those_of_the_design():
    for counts in ([5, 5, 0], [5, 4]):
        with pytest.raises(InvalidArgument, match="counts"):
            study_weights(tiny(), counts, draw=draw)
