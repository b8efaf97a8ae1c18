"""Scales: how wide the noise of each block may be, and the noise of a scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from dodona.accounting.event import Event
from dodona.accuracy import Accuracy
from dodona.errors import InvalidArgument, Refused
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.measurement import Measurement, Noise
from dodona.mechanisms.scale import LARGEST, SMALLEST, rounded_scale_down, rounded_scale_up
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity

Scales = dict[int, float]
"""By the number of a block, in its steps."""
Law = type[Laplace | Gaussian]
_LAWS: dict[str, Law] = {law.__name__: law for law in (Laplace, Gaussian)}
_NEAR = 2e-3  # a five-hundredth more noise is not worth finding
_STEPS = 40
_LEAP = 8.0
_ANY = float(LARGEST)  # of a block that no column needs: it costs next to nothing


class Unreachable(Refused):
    """No noise that is drawn here is small enough."""

    code = "unreachable"

    def __init__(self, column: str, best: float) -> None:
        """Name the column and the best that there is."""
        super().__init__(f"{column!r} cannot be told that precisely; the best is within {best:.3g}. Ask for more.")


def largest(error: Callable[[float], float], room: float, *, lower: float, first: float = 1.0) -> float | None:
    """Return nearly the largest factor whose error is within the room; None where even the lowest is not.

    Errors grow about as factors do, so a few steps of proportion come near. Those of quantiles grow in steps, and
    where two factors have the same error, the middle comes next. Only factors that were tried are returned. A first
    one that is near saves steps.
    """
    below, above, factor, before = lower, math.inf, max(first, lower), -1.0
    for _ in range(_STEPS):
        found = error(factor)
        if found <= room:
            below = max(below, factor)
            if found >= room * (1 - _NEAR):
                break
        else:
            above = min(above, factor)
        if above <= below * (1 + _NEAR):
            break
        guess = factor * room / found * (1 - _NEAR / 2) if 0 < found < math.inf else math.nan
        if found == before or not below < guess < above:  # all comparisons with what is not a number are false
            guess = math.sqrt(below * above) if above < math.inf else below * _LEAP
        factor, before = guess, found
    return below if below > lower or error(lower) <= room else None


def cost(event: Event) -> float:
    """Return the cost in the unit that scales are proportional to."""
    return float(event.epsilon) if event.epsilon is not None else math.sqrt(2 * float(event.rho()))


@lru_cache(maxsize=1 << 10)
def cost_of_one(law: str, sensitivity: Sensitivity) -> float:
    """Return what noise of scale 1 costs."""
    return cost(_LAWS[law](scale=1).event(sensitivity))


def widest(law: Law, room: float, confidence: float) -> Noise:
    """Return the most noise that is within the room."""
    try:
        return _laplace(room, confidence) if law is Laplace else _gaussian(room, confidence)
    except InvalidArgument:
        raise Unreachable("this", 0.0) from None


@lru_cache(maxsize=1 << 12)
def _laplace(room: float, confidence: float) -> Laplace:
    return Laplace.for_accuracy(Accuracy(within=room, confidence=confidence))


@lru_cache(maxsize=1 << 12)
def _gaussian(room: float, confidence: float) -> Gaussian:
    return Gaussian.for_accuracy(Accuracy(within=room, confidence=confidence))


def merge(scales: Scales, other: Mapping[int, float]) -> None:
    """Take the smaller scale where a block serves two columns."""
    for block, scale in other.items():
        scales[block] = min(scale, scales.get(block, math.inf))


def measured(law: Law, scales: Scales, query: Query) -> Measurement:
    """Return the measurement of a query with noise of these scales, rounded up: privacy is kept."""
    noises = (_noise_above(law.__name__, scales.get(block, _ANY)) for block in range(len(query.blocks)))
    return Measurement(query, tuple(noises))


def noises_within(law: Law, scales: Scales, blocks: int) -> tuple[Noise, ...]:
    """Return the noise of each block, its scale rounded down: accuracy is kept."""
    return tuple(_noise_below(law.__name__, scales.get(block, _ANY)) for block in range(blocks))


@lru_cache(maxsize=1 << 12)
def _noise_below(law: str, scale: float) -> Noise:
    return _LAWS[law](scale=rounded_scale_down(_inside(scale)))


@lru_cache(maxsize=1 << 12)
def _noise_above(law: str, scale: float) -> Noise:
    return _LAWS[law](scale=rounded_scale_up(_inside(scale)))


def _inside(scale: float) -> float:
    return min(max(scale, float(SMALLEST)), float(LARGEST))
