"""A request: how accurate an answer is to be, or what it may cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dodona.accuracy import failure
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.exact import Exact, python_number
from dodona.mechanisms.scale import epsilon_of

Tolerance = int | float | str
"""50 is absolute, in the answer's unit; "1%" is of the public size for counts, of the column's width otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One of a tolerance and a price, and how sure an interval is to be."""

    within: Tolerance | None
    epsilon: Fraction | None
    confidence: float


def requested(
    within: Tolerance | None, epsilon: Exact | None, confidence: float | None, *, default: Request
) -> Request:
    """Return what is asked for; the dataset's default where nothing is said."""
    if within is not None and epsilon is not None:
        raise InvalidRequest(
            "Both within and epsilon were given. Write within= for an accuracy, or epsilon= for a price, and not both."
        )
    wanted = within if within is None or isinstance(within, str) else python_number(within)
    if within is not None and wanted is None:
        raise InvalidArgument("within", within, "write a tolerance such as 50 or '1%'")
    sure = default.confidence if confidence is None else confidence
    failure(sure)
    if epsilon is not None:
        return Request(within=None, epsilon=epsilon_of(epsilon), confidence=sure)
    return Request(within=default.within if wanted is None else wanted, epsilon=None, confidence=sure)
