"""Events as text: permanent tags, exact numbers, one spelling. What is not known is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dodona.accounting.event import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    Kind,
    LaplaceEvent,
    PureEvent,
    Together,
    UnevenGaussianEvent,
)
from dodona.domain.neighbours import Neighbours
from dodona.errors import InvalidRequest


class UnknownEvent(InvalidRequest):
    """The text is not an event that this version knows, so it cannot be priced."""

    code = "unknown-event"

    def __init__(self, text: str) -> None:
        """Show the start of the text."""
        super().__init__(
            f"{text[:80]!r} is not an event of this version; open the ledger with the version that wrote it."
        )


def to_json(event: Event) -> str:
    """Return the event's one spelling.

    >>> to_json(LaplaceEvent(1, Fraction(10), Neighbours.REPLACE))
    '{"distance":1,"event":"laplace","neighbours":"replace","scale":"10"}'
    """
    return json.dumps(_fields(event), sort_keys=True, separators=(",", ":"))


def from_json(text: str) -> Event:
    """Return the event that a text means; it must be the event's one spelling.

    >>> from_json('{"distance":1,"event":"laplace","neighbours":"replace","scale":"10"}').epsilon
    Fraction(1, 10)
    """
    try:
        event = _event(json.loads(text))
    except (InvalidRequest, KeyError, TypeError, ValueError, ZeroDivisionError, RecursionError) as fault:
        raise UnknownEvent(text) from fault
    if to_json(event) != text:
        raise UnknownEvent(text)
    return event


def _fields(event: Event) -> dict[str, Any]:
    match event:
        case PureEvent():
            own: dict[str, Any] = {"event": event.kind.value, "epsilon": str(event.epsilon)}
        case LaplaceEvent():
            own = {"event": "laplace", "distance": event.distance, "scale": str(event.scale)}
        case GaussianEvent():
            variance = str(event.variance)
            own = {"event": "gaussian", "squared_distance": event.squared_distance, "variance": variance}
        case UnevenGaussianEvent():
            own = {"event": "uneven-gaussian", "ratio": str(event.ratio)}
        case ExponentialEvent():
            own = {"event": "exponential", "epsilon": str(event.epsilon)}
        case Together():
            return {"event": "together", "parts": [[_fields(part), times] for part, times in event.parts]}
        case _:
            raise UnknownEvent(repr(event))
    return own | {"neighbours": event.neighbours.value}


def _event(fields: dict[str, Any]) -> Event:
    tag = fields["event"]
    if tag == "together":
        return Together(tuple((_event(part), _positive(times)) for part, times in fields["parts"]))
    return _READERS[tag](fields, Neighbours(fields["neighbours"]))


def _pure(fields: dict[str, Any], neighbours: Neighbours) -> Event:
    return PureEvent(Kind(fields["event"]), _fraction(fields["epsilon"]), neighbours)


_READERS: dict[str, Callable[[dict[str, Any], Neighbours], Event]] = {
    **{kind.value: _pure for kind in Kind},
    "laplace": lambda fields, relation: LaplaceEvent(
        _positive(fields["distance"]), _fraction(fields["scale"]), relation
    ),
    "gaussian": lambda fields, relation: GaussianEvent(
        _positive(fields["squared_distance"]), _fraction(fields["variance"]), relation
    ),
    "uneven-gaussian": lambda fields, relation: UnevenGaussianEvent(_fraction(fields["ratio"]), relation),
    "exponential": lambda fields, relation: ExponentialEvent(_fraction(fields["epsilon"]), relation),
}


def _fraction(text: str) -> Fraction:
    number = Fraction(text)
    if number <= 0:
        raise ValueError(text)
    return number


def _positive(number: int) -> int:
    if type(number) is not int or number < 1:
        raise ValueError(number)
    return number
