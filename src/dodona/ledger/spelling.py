"""Entries as text: one canonical JSON spelling each, and what is not known is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, assert_never, cast

from dodona.accounting import record
from dodona.accounting.event import Event, Together
from dodona.domain.neighbours import Neighbours
from dodona.errors import InvalidRequest
from dodona.ledger.entry import (
    CAP_KEY_BYTES,
    Admitted,
    Armed,
    Charged,
    Closed,
    Created,
    Declared,
    Earlier,
    Entry,
    Opened,
    Parts,
    Raised,
    Recovered,
    Redeemed,
    Released,
    Stopped,
    Unanswered,
)
from dodona.ledger.release import Release, values_from_json, values_to_json
from dodona.policy import Analyst, Budget

Fields = dict[str, Any]
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_FAULTS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, InvalidRequest)


class UnknownEntry(InvalidRequest):
    """The text is not an entry of this version."""

    code = "unknown-entry"

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__("The ledger has an entry that this version does not know. Use the version that wrote it.")


def to_json(entry: Entry, *, number: int, time: str) -> str:
    """Return the one spelling of an entry at its place.

    >>> to_json(Redeemed("ab", 2), number=3, time="now")
    '{"charge":2,"entry":"redeemed","number":3,"receipt":"ab","time":"now"}'
    """
    fields = _fields(entry)
    fields["number"] = number
    fields["time"] = time
    return _dumps(fields)


def from_json(text: str, *, number: int) -> Entry:
    """Return the entry that a text means; it must be the one spelling of an entry at this place."""
    try:
        fields = json.loads(text)
        entry = _READERS[fields["entry"]](fields)
        same = text == to_json(entry, number=number, time=_text(fields["time"]))
    except _FAULTS as fault:
        raise UnknownEntry from fault
    if not same:
        raise UnknownEntry
    return entry


def time_of(text: str) -> str:
    """Return the time that an entry was written, by a clock that nothing depends on."""
    return str(json.loads(text)["time"])


def checked_event(event: Event) -> None:
    """Raise UnknownEvent where an event has no spelling that means the same event again."""
    _event_fields(event)


def _dumps(fields: Fields) -> str:
    return _ENCODER.encode(fields)


def _fields(entry: Entry) -> Fields:
    match entry:
        case Charged():
            served = {} if entry.plan is None else {"plan": entry.plan}  # so that older lines keep their hash
            return {
                "entry": "charged",
                "dataset": entry.dataset,
                "analyst": entry.analyst,
                "key": entry.key,
                "purpose": entry.purpose,
                "version": entry.version,
                "event": _event_fields(entry.event),
            } | served
        case Opened():
            return {
                "entry": "opened",
                "analyst": entry.analyst,
                "key": entry.key,
                "parts": _event_fields(Together(entry.parts))["parts"],
            } | _pair(entry.epsilon, entry.delta)
        case Redeemed() | Unanswered() | Armed():
            return _use_fields(entry)
        case Released(release):
            own = {"values": values_to_json(release.values), "mechanism": release.mechanism}
            told = {"question": release.question, "text": release.text}
            asked = {name: value for name, value in told.items() if value is not None}
            return {"entry": "released", "receipt": release.receipt, "charge": entry.charge} | own | asked
        case Created():
            return _created_fields(entry)
        case _:
            return _act_fields(entry)


def _use_fields(entry: Redeemed | Unanswered | Armed) -> Fields:
    used = {"receipt": entry.receipt, "charge": entry.charge}
    if isinstance(entry, Armed):
        return {"entry": "armed", "fresh": entry.fresh} | used
    return {"entry": "redeemed" if isinstance(entry, Redeemed) else "unanswered"} | used


def _act_fields(entry: Raised | Recovered | Admitted | Stopped | Declared | Closed) -> Fields:
    match entry:
        case Raised():
            return {"entry": "raised"} | _pair(entry.epsilon, entry.delta) | {"limit": entry.limit}
        case Recovered():
            return {"entry": "recovered"} | _pair(entry.epsilon, entry.delta) | {"limit": entry.limit}
        case Admitted(analyst):
            return {"entry": "admitted", "analyst": analyst.name, "share": str(analyst.share)}
        case Stopped():
            return {"entry": "stopped", "analyst": entry.analyst}
        case Declared():
            return {"entry": "declared", "dataset": entry.dataset, "schema": entry.schema}
        case Closed():
            return {"entry": "closed"}
        case _:
            assert_never(entry)


def _created_fields(entry: Created) -> Fields:
    budget = entry.budget
    further: Fields = {} if entry.cap_key is None else {"cap_key": entry.cap_key}  # so that older lines keep their hash
    if entry.earlier:
        further["earlier"] = [[purpose, _event_fields(event)] for purpose, event in entry.earlier]
    return {
        "entry": "created",
        "format": entry.format,
        "datasets": [list(dataset) for dataset in entry.datasets],
        "neighbours": entry.neighbours.value,
        "budget": _pair(budget.epsilon, budget.delta) | {"accountant": budget.accountant.value},
        "plans": _pair(*budget.plans),
        "order": None if entry.order is None else str(entry.order),
        "limit": entry.limit,
        "analysts": [[analyst.name, str(analyst.share)] for analyst in entry.analysts],
    } | further


def _created(fields: Fields) -> Created:
    budget, plans = fields["budget"], fields["plans"]
    return Created(
        tuple((_text(name), _text(schema)) for name, schema in fields["datasets"]),
        Neighbours(fields["neighbours"]),
        Budget(budget["epsilon"], budget["delta"], budget["accountant"], (plans["epsilon"], plans["delta"])),
        None if fields["order"] is None else Fraction(fields["order"]),
        _whole(fields["limit"]),
        tuple(Analyst(name, share) for name, share in fields["analysts"]),
        _whole(fields["format"]),
        _cap_key(fields["cap_key"]) if "cap_key" in fields else None,
        tuple(_earlier(*own) for own in fields["earlier"]) if "earlier" in fields else (),
    )


def _earlier(purpose: object, event: Fields) -> Earlier:
    return _text(purpose), _event(_dumps(event))


def _cap_key(value: object) -> str:
    if len(bytes.fromhex(_text(value))) != CAP_KEY_BYTES:
        raise ValueError
    return str(value)


def _charged(fields: Fields) -> Charged:
    return Charged(
        _text(fields["dataset"]),
        _named(fields["analyst"]),
        _named(fields["key"]),
        _text(fields["purpose"]),
        _text(fields["version"]),
        _event(_dumps(fields["event"])),
        _text(fields["plan"]) if "plan" in fields else None,
    )


def _opened(fields: Fields) -> Opened:
    together = _event(_dumps({"event": "together", "parts": fields["parts"]}))
    parts: Parts = cast("Together", together).parts
    epsilon, delta = Fraction(_text(fields["epsilon"])), Fraction(_text(fields["delta"]))
    return Opened(_named(fields["analyst"]), _named(fields["key"]), parts, epsilon, delta)


def _released(fields: Fields) -> Released:
    values = values_from_json(fields["values"])
    mechanism = _text(fields["mechanism"])
    asked = {name: _text(fields[name]) for name in ("question", "text") if name in fields}
    release = Release(receipt=_text(fields["receipt"]), values=values, mechanism=mechanism, **asked)
    return Released(release, _whole(fields["charge"]))


_READERS: dict[str, Callable[[Fields], Entry]] = {
    "created": _created,
    "charged": _charged,
    "opened": _opened,
    "redeemed": lambda fields: Redeemed(_text(fields["receipt"]), _whole(fields["charge"])),
    "armed": lambda fields: Armed(_text(fields["receipt"]), _whole(fields["charge"]), _flag(fields["fresh"])),
    "unanswered": lambda fields: Unanswered(_text(fields["receipt"]), _whole(fields["charge"])),
    "released": _released,
    "raised": lambda fields: Raised(*_numbers(fields)),
    "recovered": lambda fields: Recovered(*_numbers(fields)),
    "admitted": lambda fields: Admitted(Analyst(fields["analyst"], fields["share"])),
    "stopped": lambda fields: Stopped(_text(fields["analyst"])),
    "declared": lambda fields: Declared(_text(fields["dataset"]), _text(fields["schema"])),
    "closed": lambda _: Closed(),
}


KINDS = tuple(_READERS)
"""The entries that this version knows."""


def _pair(epsilon: Fraction, delta: Fraction) -> Fields:
    return {"epsilon": str(epsilon), "delta": str(delta)}


def _numbers(fields: Fields) -> tuple[Fraction, Fraction, int]:
    return Fraction(_text(fields["epsilon"])), Fraction(_text(fields["delta"])), _whole(fields["limit"])


@lru_cache(maxsize=1 << 14)
def _event_fields(event: Event) -> Fields:
    """Return the event's fields; equal events share one dictionary, which nothing changes."""
    text = record.to_json(event)
    _event(text)
    found: Fields = json.loads(text)
    return found


@lru_cache(maxsize=1 << 14)
def _event(text: str) -> Event:
    return record.from_json(text)


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError(value)
    return value


def _named(value: object) -> str | None:
    return None if value is None else _text(value)


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError(value)
    return value
