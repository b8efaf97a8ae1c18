"""What a sparse vector tells of short streams, on every pair of neighbours, against what its event says."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dodona.errors import EntropyFailed, Halted
from dodona.lab.mechanisms import SparseVector
from dodona.privacy.events import ComposedEvent, LaplaceEvent, PureEvent, PureMechanism
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours
from dodona.trusted.gate import OpenSparseVector
from tests.privacy import laws

ORDERS = [Fraction(5, 4), Fraction(2), Fraction(8)]
GENERAL = Sensitivity.scores(1, Neighbours.REPLACE)
MONOTONE = Sensitivity.scores(1, Neighbours.ADD_REMOVE, monotone=True)
RELATIONS = pytest.mark.parametrize("sensitivity", [GENERAL, MONOTONE], ids=["general", "monotone"])
# (mechanism, answers, thresholds): one positive, restarts, one threshold for two positives, a threshold a question.
STREAMS = [
    (SparseVector(threshold_scale=2, question_scale=4), (0, 1, -2), (0, 0, 0)),
    (SparseVector(threshold_scale=2, question_scale=4, positives=2), (0, 2, 0), (0, 0, 0)),
    (SparseVector(threshold_scale=2, question_scale=4, positives=2, restarts=False), (0, 2, 0), (0, 0, 0)),
    (SparseVector(threshold_scale=1, question_scale=3, positives=2, restarts=False), (0, 5, 1), (3, 1, -2)),
]


@pytest.mark.parametrize(("mechanism", "answers", "thresholds"), STREAMS)
@RELATIONS
def test_no_pair_of_neighbours_tells_more_than_the_event_says(
    mechanism: SparseVector, answers: tuple[int, ...], thresholds: tuple[int, ...], sensitivity: Sensitivity
) -> None:
    event = mechanism.event(sensitivity)
    assert event.epsilon is not None
    here = laws.sparse_law(mechanism, answers, thresholds, gaps=4)
    assert math.isclose(sum(here.values()), 1, rel_tol=1e-12)
    for move in laws.moves(len(answers), monotone=sensitivity.monotone):
        moved = [answer + step for answer, step in zip(answers, move, strict=True)]
        there = laws.sparse_law(mechanism, moved, thresholds, gaps=4)
        assert laws.largest_loss(here, there) <= float(event.epsilon) * (1 + 1e-12)
        assert laws.kullback_leibler(here, there) <= float(event.rho())
        for order in ORDERS:
            assert laws.renyi(here, there, order) <= float(event.renyi(order))


@pytest.mark.parametrize("restarts", [False, True])
@RELATIONS
def test_the_price_is_nearly_reached_by_many_questions_before_each_positive(
    restarts: bool,  # noqa: FBT001
    sensitivity: Sensitivity,
) -> None:
    """Questions far above what they are asked for all go down, and those that cross go up: every part is needed."""
    mechanism = SparseVector(threshold_scale=1, question_scale=2, positives=2, restarts=restarts)
    event = mechanism.event(sensitivity)
    many = 60
    streams = []
    for below, above in ((0, -40), (-1, -39)) if not sensitivity.monotone else ((0, -40), (-1, -40), (0, -39)):
        streams.append(([*([below] * many), above] * 2, [0] * (2 * many + 2)))
    transcript = (*["below"] * many, 0, *["below"] * many, 0)
    chances = [chance_of(mechanism, transcript, *stream) for stream in streams]
    loss = max(abs(math.log(a / b)) for a in chances for b in chances)
    assert event.epsilon is not None
    assert 0.95 * float(event.epsilon) < loss <= float(event.epsilon) * (1 + 1e-12)


def chance_of(mechanism: SparseVector, told: tuple[object, ...], values: list[int], thresholds: list[int]) -> float:
    """The probability of one list of verdicts."""
    first, second = float(mechanism.threshold_scale), float(mechanism.question_scale)
    noise = np.arange(-200, 201, dtype=np.float64)
    fresh = laws.laplace(noise, first)
    weight = fresh
    for verdict, value, threshold in zip(told, values, thresholds, strict=True):
        need = threshold + noise - value
        if verdict == "below":
            weight = weight * laws.laplace_below(need - 1, second)
        else:
            weight = weight * laws.laplace(need + verdict, second)  # type: ignore[operator]  # a gap
            if mechanism.restarts:
                weight = float(weight.sum()) * fresh
    return float(weight.sum())


def test_noise_on_the_threshold_is_needed() -> None:
    """Without it a long list of negatives alone passes any price, however much noise a question has."""
    still = SparseVector(threshold_scale="1/1000", question_scale=4)
    transcript = tuple(["below"] * 60)
    here, there = (chance_of(still, transcript, [value] * 60, [0] * 60) for value in (0, -1))
    assert abs(math.log(here / there)) > 5 / 4 * 2


def test_a_gap_told_of_negatives_too_would_cost_more() -> None:
    """The price of one positive among three does not cover three gaps: each would shift its own noise."""
    mechanism = SparseVector(threshold_scale=2, question_scale=4)
    price = mechanism.event(GENERAL).epsilon
    assert price is not None
    here = math.prod(laws.laplace(np.array([30.0]), 4.0)[0] for _ in range(5))
    there = math.prod(laws.laplace(np.array([31.0]), 4.0)[0] for _ in range(5))
    assert math.log(here / there) > float(price)


def test_prices_are_those_of_the_theorem() -> None:
    once = SparseVector(threshold_scale=2, question_scale=4)
    assert once.event(GENERAL) == PureEvent(PureMechanism.SPARSE_VECTOR, Fraction(1), Neighbours.REPLACE)
    assert once.event(MONOTONE).epsilon == Fraction(3, 4)
    shared = SparseVector(threshold_scale=2, question_scale=4, positives=3, restarts=False)
    assert shared.event(GENERAL).epsilon == Fraction(1, 2) + 3 * 2 * Fraction(1, 4)
    again = SparseVector(threshold_scale=2, question_scale=4, positives=3, answer_scale=10)
    event = again.event(GENERAL)
    assert isinstance(event, ComposedEvent)
    assert [times for _, times in event.parts] == [3, 3]
    assert event.parts[1][0] == LaplaceEvent(1, Fraction(10), Neighbours.REPLACE)
    assert event.epsilon == 3 * 1 + 3 * Fraction(1, 10)


class Noise:
    """Noise from a list; it counts what was drawn."""

    def __init__(self, *values: int) -> None:
        self.values = list(values)
        self.drawn: list[Fraction] = []

    def __call__(self, scale: Fraction) -> int:
        self.drawn.append(scale)
        return self.values.pop(0)


def test_the_watch_compares_as_the_theorem_says() -> None:
    """At or above is above; the gap is counted from the noisy threshold; a restart draws a new threshold."""
    noise = Noise(5, 0, 1, -2, 3, 7, -1, 0)
    watch = OpenSparseVector(SparseVector(threshold_scale=1, question_scale=2, positives=2, answer_scale=9), noise)
    assert not watch.ask(4, threshold=0).above  # 4 + 0 < 0 + 5
    crossed = watch.ask(4, threshold=0)  # 4 + 1 ≥ 0 + 5, the threshold's noise becomes -2, the answer is 4 + 3
    assert (crossed.above, crossed.gap, crossed.answer) == (True, 0, 7)
    again = watch.ask(2, threshold=-1)  # 2 + 7 against -1 - 2, the answer is 2 + 0
    assert (again.gap, again.answer, watch.positives_left) == (12, 2, 0)
    assert noise.drawn == [1, 2, 2, 1, 9, 2, 1, 9]


def test_one_threshold_is_kept_for_all_positives() -> None:
    watch = OpenSparseVector(
        SparseVector(threshold_scale=1, question_scale=2, positives=2, restarts=False), Noise(5, 0, 0)
    )
    assert [watch.ask(9, threshold=0).gap, watch.ask(7, threshold=0).gap] == [4, 2]


def test_where_chance_fails_at_a_positive_the_old_threshold_serves_no_more() -> None:
    drawn = iter([0, 0])  # the first threshold and the first question; there is no second threshold

    def noise(_scale: Fraction) -> int:
        value = next(drawn, None)
        if value is None:
            raise EntropyFailed
        return value

    watch = OpenSparseVector(SparseVector(threshold_scale=1, question_scale=2, positives=3), noise)
    with pytest.raises(EntropyFailed):
        watch.ask(9, threshold=0)
    with pytest.raises(Halted):
        watch.ask(9, threshold=0)


def test_after_the_last_positive_nothing_is_drawn() -> None:
    noise = Noise(0, 0, 0)
    watch = OpenSparseVector(SparseVector(threshold_scale=1, question_scale=2), noise)
    watch.ask(1, threshold=0)
    before = len(noise.drawn)
    with pytest.raises(Halted, match="opened for 1 alert,"):
        watch.ask(1, threshold=0)
    assert len(noise.drawn) == before
