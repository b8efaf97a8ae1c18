"""How far a sparse vector's verdicts may be off, exactly for short streams and by running it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dodona.errors import Halted
from dodona.lab.direct import watch
from dodona.lab.mechanisms import SparseVector
from dodona.lab.sparse_vector import above_threshold, numeric_sparse, sparse
from dodona.lab.theorems import above_threshold_error, numeric_sparse_error, sparse_error
from dodona.privacy.accuracy import Accuracy
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours
from tests.privacy import laws

GENERAL = Sensitivity.scores(1, Neighbours.REPLACE)
MONOTONE = Sensitivity.scores(1, Neighbours.ADD_REMOVE, monotone=True)


def failure_of(mechanism: SparseVector, answers: list[int], within: float) -> float:
    """The probability of a wrong verdict or of halting before the last question; thresholds are nought."""
    law = laws.sparse_law(mechanism, answers, [0] * len(answers), gaps=0)

    def holds(told: tuple[object, ...]) -> bool:
        right = all(
            answer <= within if verdict == "below" else answer >= -within
            for verdict, answer in zip(told, answers, strict=False)
        )
        return right and len(told) == len(answers)

    return 1 - math.fsum(chance for verdicts, chance in law.items() if holds(verdicts))


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_the_stated_error_covers_streams_with_few_above(restarts: bool, confidence: float) -> None:  # noqa: FBT001
    mechanism = SparseVector(threshold_scale=2, question_scale=3, positives=2, restarts=restarts)
    stated = mechanism.accuracy(confidence, questions=6).within
    far, near = math.floor(stated) + 1, math.floor(stated)
    for answers in ([-far] * 4 + [far, far], [-far, far, -far, -far, -far, near], [far, -far, -far, -far, -far, -far]):
        assert failure_of(mechanism, answers, stated) <= 1 - confidence


def test_a_third_of_the_stated_error_does_not_cover() -> None:
    mechanism = SparseVector(threshold_scale=2, question_scale=3, positives=2)
    stated = mechanism.accuracy(0.9, questions=6).within / 3
    far = math.floor(stated) + 1
    assert failure_of(mechanism, [-far] * 4 + [far, far], stated) > 0.1


def test_more_questions_above_than_positives_halt_it_early() -> None:
    """So the condition of the theorem cannot be weakened to c questions above before the last."""
    mechanism = SparseVector(threshold_scale=2, question_scale=3, positives=2)
    stated = mechanism.accuracy(0.9, questions=6).within
    far = math.floor(stated) + 1
    assert failure_of(mechanism, [far, far, -far, -far, -far, -far], stated) > 0.8


@pytest.mark.distribution
def test_runs_miss_the_stated_error_no_more_often_than_is_stated() -> None:
    """2,000 runs of 60 questions at 80%: more than 520 misses have probability below 10^-10 if the bound holds.

    The planted fault: at a quarter of the stated error the misses are many.
    """
    mechanism = numeric_sparse(1, GENERAL, positives=2)
    stated = mechanism.accuracy(0.8, questions=60).within

    def misses(within: float) -> int:
        far = math.floor(within) + 1
        answers = [-far] * 29 + [far] + [-far] * 29 + [far]
        failed = 0
        for _ in range(2_000):
            opened = watch(mechanism)
            try:
                verdicts = [opened.ask(answer, threshold=0) for answer in answers]
            except Halted:
                failed += 1
                continue
            failed += any(
                verdict.above != (answer > 0) or (verdict.answer is not None and abs(verdict.answer - answer) > within)
                for verdict, answer in zip(verdicts, answers, strict=True)
            )
        return failed

    assert misses(stated) <= 520
    assert misses(stated / 4) > 520


@pytest.mark.parametrize("sensitivity", [GENERAL, MONOTONE], ids=["general", "monotone"])
@pytest.mark.parametrize("positives", [1, 10])
def test_the_split_is_the_best_for_one_threshold(sensitivity: Sensitivity, positives: int) -> None:
    """No other split of the same ε has a smaller error (√A + √B)²Δ/ε, β in halves."""
    chosen = SparseVector.for_privacy(1, sensitivity, questions=1000, positives=positives)
    sides = 1 if sensitivity.monotone else 2
    parts = math.log(1 / 0.025), sides * positives * math.log(1000 / 0.025)
    best = (math.sqrt(parts[0]) + math.sqrt(parts[1])) ** 2

    def error(share: float) -> float:
        return parts[0] / share + parts[1] / (1 - share)

    assert error(float(1 / chosen.threshold_scale)) == pytest.approx(best, rel=1e-4)
    assert min(error(share / 100) for share in range(1, 100)) >= best * (1 - 1e-12)
    assert chosen.event(sensitivity).epsilon == 1
    assert abs(chosen.accuracy(questions=1000).within - best) < 0.1 * best + 2


@pytest.mark.parametrize("positives", [1, 3, 200])
def test_the_cheaper_of_one_threshold_and_restarts_is_taken(positives: int) -> None:
    target = Accuracy(within=2_000)
    chosen = SparseVector.for_accuracy(target, GENERAL, questions=100, positives=positives)
    other = SparseVector(
        threshold_scale=chosen.threshold_scale,
        question_scale=chosen.question_scale,
        positives=positives,
        restarts=not chosen.restarts,
    )
    assert chosen.accuracy(questions=100).within <= 2_000
    assert chosen.restarts == (positives > 1)
    if positives > 1:
        assert other.accuracy(questions=100).within <= 2_000
        assert other.event(GENERAL).rho() > chosen.event(GENERAL).rho()


@pytest.mark.parametrize("positives", [10**5, 10**6])
def test_very_many_positives_still_leave_something_for_the_threshold(positives: int) -> None:
    chosen = SparseVector.for_privacy(1, GENERAL, questions=10, positives=positives)
    assert chosen.event(GENERAL).epsilon == 1


def test_the_textbooks_constants_are_kept() -> None:
    above = above_threshold("1/2", GENERAL)
    assert [above.threshold_scale, above.question_scale, above.positives] == [4, 8, 1]
    assert above.event(GENERAL).epsilon == Fraction(1, 2)
    several = sparse(1, GENERAL, positives=5)
    assert [several.threshold_scale, several.question_scale] == [10, 20]
    assert several.event(GENERAL).epsilon == 1
    numeric = numeric_sparse(1, GENERAL, positives=5)
    assert numeric.answer_scale == 45
    assert numeric.event(GENERAL).epsilon == 1
    loose = sparse(1, GENERAL, positives=5, delta="1e-6")
    assert float(loose.threshold_scale) == pytest.approx(math.sqrt(32 * 5 * math.log(1e6)), rel=1e-6)
    both = numeric_sparse(1, GENERAL, positives=5, delta="1e-6")
    root = math.sqrt(512)
    spread = math.sqrt(32 * 5 * math.log(2e6))
    assert float(both.threshold_scale) == pytest.approx(spread * (root + 1) / root, rel=1e-6)
    assert float(both.answer_scale or 0) == pytest.approx(spread * (root + 1) / 2, rel=1e-6)


def test_the_textbooks_bounds_cover_their_own_mechanisms() -> None:
    """α of each theorem is at least what the mechanism itself states, but for rounding to the grid."""
    for positives in (1, 4):
        several = sparse(1, GENERAL, positives=positives)
        alpha = sparse_error(epsilon=1, delta=0, questions=50, positives=positives)
        assert several.accuracy(questions=50).within <= alpha + 2
        numeric = numeric_sparse(1, GENERAL, positives=positives)
        wider = numeric_sparse_error(epsilon=1, delta=0, questions=50, positives=positives)
        assert numeric.accuracy(questions=50).within <= wider + 2
    assert above_threshold_error(epsilon=1, questions=50) == pytest.approx(8 * (math.log(50) + math.log(40)))
    assert sparse_error(epsilon=1, delta=0, questions=50, positives=1) == above_threshold_error(epsilon=1, questions=50)


def test_the_error_against_discrete_noise_is_rounded_up() -> None:
    """P(|x| > ⌈b·ln(1/β)⌉) ≤ β for every β, and without rounding up it is not."""
    for scale in (0.5, 1.0, 3.0):
        for failing in np.geomspace(0.9, 1e-6, 200):
            bound = scale * math.log(1 / failing)
            ratio = math.exp(-1 / scale)
            assert 2 * ratio ** (math.ceil(bound) + 1) / (1 + ratio) <= failing
    assert 2 * math.exp(-3) / (1 + math.exp(-1)) > math.exp(-2.999)
