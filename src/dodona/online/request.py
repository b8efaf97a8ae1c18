"""A request: how accurate an answer is to be, or what it may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dodona.accuracy import failure
from dodona.answer.tolerance import PerColumn, Tolerance, Tolerances
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.exact import Exact, python_number
from dodona.mechanisms.scale import epsilon_of

_ACCEPTED = "write a tolerance such as 50 or '1%', or one for each column, such as {'n': 50, 'average': 2}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One of a tolerance and a price, and how sure an interval is to be."""

    within: Tolerance | PerColumn | None
    epsilon: Fraction | None
    confidence: float


def requested(
    within: Tolerances | None, epsilon: Exact | None, confidence: float | None, *, default: Request
) -> Request:
    """Return what is asked for; the dataset's default where nothing is said."""
    if within is not None and epsilon is not None:
        raise InvalidRequest(
            "Both within and epsilon were given. Write within= for an accuracy, or epsilon= for a price, and not both."
        )
    wanted = None if within is None else _tolerances(within)
    sure = default.confidence if confidence is None else confidence
    failure(sure)
    if epsilon is not None:
        return Request(within=None, epsilon=epsilon_of(epsilon), confidence=sure)
    return Request(within=default.within if wanted is None else wanted, epsilon=None, confidence=sure)


def _tolerances(within: Tolerances) -> Tolerance | PerColumn:
    """Return a tolerance, or one for each column."""
    if isinstance(within, Mapping):
        found = PerColumn(tuple((str(name), _tolerance(own)) for name, own in within.items()))
    elif isinstance(within, list | tuple):
        found = PerColumn(tuple((place, _tolerance(own)) for place, own in enumerate(within)))
    else:
        return _tolerance(within)
    if not found.parts:
        raise InvalidArgument("within", within, _ACCEPTED)
    return found


def _tolerance(within: object) -> Tolerance:
    found = within if isinstance(within, str) else python_number(within)
    if found is None:
        raise InvalidArgument("within", within, _ACCEPTED)
    return found
