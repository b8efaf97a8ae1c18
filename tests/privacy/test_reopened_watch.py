"""A watch that is opened again: no transcript of all its openings tells more than was paid for."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dodona.privacy.events import ComposedEvent, Event
from dodona.privacy.sparse_vector import SparseVector
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

REACH = 400
"""Noise beyond it, at these scales, is rarer than e^-80."""
QUESTIONS = 5
BOTH = pytest.mark.parametrize("neighbours", Neighbours)


def mechanisms() -> list[SparseVector]:
    return [
        SparseVector(threshold_scale=first, question_scale=second, positives=positives, restarts=restarts)
        for first, second, positives in ((2, 3, 3), (3, 2, 4), (Fraction(5, 2), 4, 2))
        for restarts in (False, True)
    ]


def epsilon_of(event: Event) -> Fraction:
    parts = event.parts if isinstance(event, ComposedEvent) else ((event, 1),)
    return sum((Fraction(part.epsilon or 0) * times for part, times in parts), Fraction(0))


def laplace(scale: Fraction) -> np.ndarray:
    """The discrete law on -REACH … REACH."""
    shape = np.exp(-np.abs(np.arange(-REACH, REACH + 1)) / float(scale))
    return shape / shape.sum()


def chance(
    mechanism: SparseVector, moved: Sensitivity, answers: tuple[int, ...], acts: tuple[str, ...]
) -> float | None:
    """Return the probability of a transcript; None where what was paid for does not allow it.

    Each question gets an act: told above or below, each with or without the watch being opened again just before it.
    """
    law, tail = laplace(mechanism.threshold_scale), np.cumsum(laplace(mechanism.question_scale)[::-1])[::-1]
    levels = np.arange(-REACH, REACH + 1)
    probability, armed, thresholds = 1.0, 0, 0
    weights: np.ndarray | None = None  # of the threshold's noise, given what was told since it was drawn
    ready = False
    for answer, act in zip(answers, acts, strict=True):
        if "again" in act and weights is not None:
            probability, weights, ready = probability * float(weights.sum()), None, False
        if not ready:
            kept = weights is not None
            if mechanism.alerts_left(moved, armed=armed, thresholds=thresholds, kept=kept) == 0:
                return None
            fresh = not kept or mechanism.restarts
            if fresh:
                probability, weights = probability * (1.0 if weights is None else float(weights.sum())), law
            armed, thresholds, ready = armed + 1, thresholds + fresh, True
        assert weights is not None
        place = np.clip(levels - answer + REACH, 0, 2 * REACH)  # the question's noise has to reach the noisy threshold
        above = tail[place]
        weights = weights * (above if "above" in act else 1 - above)
        ready = "above" not in act
    return probability * (1.0 if weights is None else float(weights.sum()))


@pytest.mark.share(2)
@BOTH
@pytest.mark.parametrize("mechanism", mechanisms(), ids=str)
def test_no_transcript_of_any_openings_tells_more_than_was_paid_for(mechanism: SparseVector, neighbours: Neighbours):
    """Every transcript of five questions, with every way to open it again, on the worst of neighbours."""
    moved = Sensitivity.count(neighbours)
    paid = float(epsilon_of(mechanism.event(moved)))
    pairs = [((0,) * QUESTIONS, (1,) * QUESTIONS)]
    if not moved.monotone:
        pairs.append(((0, 1, 0, 1, 0), (1, 0, 1, 0, 1)))
    compared = 0
    for acts in product(("above", "below", "again, above", "again, below"), repeat=QUESTIONS):
        for base, other in pairs:
            first, second = (chance(mechanism, moved, answers, acts) for answers in (base, other))
            if first is None or second is None:
                continue
            compared += 1
            assert abs(math.log(first / second)) <= paid + 1e-9
    assert compared >= 20


@BOTH
@pytest.mark.parametrize("mechanism", mechanisms(), ids=str)
def test_as_many_alerts_are_left_as_the_price_allows_and_not_one_more(mechanism: SparseVector, neighbours: Neighbours):
    moved = Sensitivity.count(neighbours)
    paid, sides = epsilon_of(mechanism.event(moved)), 1 if moved.monotone else 2
    for armed, thresholds, kept in product(range(6), range(6), (False, True)):
        left = mechanism.alerts_left(moved, armed=armed, thresholds=thresholds, kept=kept)

        losses = []
        for more in (left, left + 1):
            new = more if mechanism.restarts else int(more > 0 and not kept)
            alerts = (armed + more) * sides * moved.linf / mechanism.question_scale
            losses.append(alerts + (thresholds + new) * moved.linf / mechanism.threshold_scale)
        assert left == 0 or losses[0] <= paid
        assert losses[1] > paid
    assert mechanism.alerts_left(moved, armed=0, thresholds=0, kept=False) == mechanism.positives
