"""An epoch of checks: how much noise it takes, what it costs, and how likely a check fails. All of it is public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from dodona.accounting.event import Event
from dodona.answer.claim import Checked
from dodona.answer.law import upper_quantile
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.mechanisms.scale import rounded_scale_down
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.query.people import score_effect
from dodona.query.sensitivity import Sensitivity

_RATIOS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)  # of the question's noise to that of the threshold
_STEPS = 60
_WASTED = 0.1
_LESS = 0.99


@dataclass(frozen=True, slots=True)
class Epoch:
    """A sparse vector that confirms predictions until the first that fails."""

    mechanism: SparseVector
    event: Event

    @property
    def scales(self) -> tuple[float, float]:
        """The scales of the noise on the threshold and on each question."""
        return float(self.mechanism.threshold_scale), float(self.mechanism.question_scale)

    def law(self, room: float, failing: float) -> Checked | None:
        """Return how a count is compared that may be off by the room, in steps; None where noise leaves no threshold.

        The threshold is the largest at which a confirmed prediction is within the room, but with that probability.

        Theorem: confirmed-answer
        """
        first, second = self.scales
        within = upper_quantile(Checked(1, first, second).noise, failing)
        threshold = math.floor(room - within) + 1
        return Checked(threshold, first, second) if threshold >= 1 else None

    def failing(self, law: Checked, error: float) -> float:
        """Return how likely a check fails where a prediction is off by so many steps."""
        return _tail(law.threshold - error, *self.scales)


@lru_cache(maxsize=1 << 12)
def draft_for(room: float, failing: float, unit: Unit) -> Epoch | None:
    """Return about the cheapest epoch for counts of this accuracy; None where no such noise is drawn.

    Its noise passes half of the room so rarely that the threshold can be half of the room: no more often than an
    answer may be wrong. And so rarely that right predictions which are refused, by noise alone, waste no more than a
    tenth of what a single answer costs, a check. It is found for continuous noise, which is quick.
    """
    sensitivity = score_effect(unit)
    single, rare = unit.rows * math.log(1 / failing) / room, failing
    for _ in range(_STEPS):
        scales = min(
            ((scale := _scale(room / 2, rare, ratio), ratio * scale) for ratio in _RATIOS),
            key=lambda own: 1 / own[0] + 2 / own[1],
        )
        found = _epoch(*scales, sensitivity)
        if found is None or rare * float(found.event.epsilon or 0) <= _WASTED * single:
            return found
        rare /= 2
    return None


@lru_cache(maxsize=1 << 8)
def epoch_for(room: float, failing: float, unit: Unit) -> Epoch | None:
    """Return the draft with so little noise that half of the room is kept as a threshold, by a bound that is proved."""
    found = draft_for(room, failing, unit)
    for _ in range(_STEPS):
        law = None if found is None else found.law(room, failing)
        if found is None or (law is not None and law.threshold >= room / 2):
            return found
        first, second = found.scales
        found = _epoch(_LESS * first, _LESS * second, score_effect(unit))
    return None


def _epoch(first: float, second: float, sensitivity: Sensitivity) -> Epoch | None:
    try:
        mechanism = SparseVector(threshold_scale=rounded_scale_down(first), question_scale=rounded_scale_down(second))
    except InvalidArgument:
        return None
    return Epoch(mechanism, mechanism.event(sensitivity))


def _scale(half: float, rare: float, ratio: float) -> float:
    """Return the threshold's scale at which continuous noise passes a distance that often."""
    low, high = half / 1000, half
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _tail(half, middle, ratio * middle) <= rare else (low, middle)
    return low


def _tail(distance: float, first: float, second: float) -> float:
    """Return how likely the difference of two continuous Laplace draws is above a distance."""
    if distance < 0:
        return 1 - _tail(-distance, first, second)
    if math.isclose(first, second, rel_tol=1e-6):
        return (0.5 + distance / (4 * first)) * math.exp(-distance / first)
    parts = first**2 * math.exp(-distance / first) - second**2 * math.exp(-distance / second)
    return parts / (2 * (first**2 - second**2))
