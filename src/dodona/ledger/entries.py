"""The entries of a ledger, with receipts and releases, their canonical JSON form, and the hash chain of their lines.

Entries record charges, uses, releases and the owner's acts. Nothing is ever undone, and text that this
version does not know is refused.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import Any, assert_never

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.ledger.limits import Limits
from dodona.privacy import events
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.events import Event
from dodona.schema.schema import Neighbours

# --- Texts in ledger entries. ---


_LONGEST = 500


def validate_text(name: str, value: str, *, longest: int = _LONGEST) -> str:
    """Return a text that is valid in an entry."""
    if type(value) is not str or not 0 < len(value) <= longest:
        raise InvalidArgument(name, value, f"write a text of 1 to {longest} characters")
    return value


def validate_texts(*, longest: int = _LONGEST, **texts: str | None) -> None:
    """Refuse texts that are not valid in an entry; None means no text."""
    for name, text in texts.items():
        if text is not None:
            validate_text(name, text, longest=longest)


# --- A receipt: proof of a durable charge. It buys one release. ---


@dataclass(frozen=True, slots=True)
class WatchUsage:
    """How much of its paid price a watch has used."""

    alerts: int
    """How often it was armed for one more alert."""
    thresholds: int
    """How often threshold noise was drawn."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Everything that was charged for, identified by the hash of the charging entry.

    The hash covers the whole ledger up to that entry, so receipts of other ledgers are not accepted.
    """

    id: str
    dataset: str
    analyst: str | None
    key: str | None
    """The analyst's own name for the question: the same key is never charged twice."""
    purpose: str
    """The digest of the canonical question."""
    version: str
    """The version of the data."""
    event: Event


# --- A release: noisy values, their mechanism and the receipt that paid for them. It is public. ---


ReleasedValue = int | Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Exact values in the order of the question: integers, or fractions on a declared grid."""

    receipt: str
    """The id of the receipt."""
    values: tuple[ReleasedValue, ...]
    mechanism: str
    question: str | None = None
    """The question in its canonical form, so that the ledger alone suffices to interpret the release."""
    text: str | None = None
    """The question as the analyst wrote it."""

    def __post_init__(self) -> None:
        """Refuse values that are not exact."""
        if type(self.values) is not tuple or any(type(value) not in {int, Fraction} for value in self.values):
            raise InvalidArgument("values", self.values, "write a tuple of int and Fraction")


def values_to_json(values: tuple[ReleasedValue, ...]) -> list[int | str]:
    """Return the values as JSON: integers as numbers, fractions as text.

    >>> values_to_json((3, Fraction(1, 2)))
    [3, '1/2']
    """
    return [value if type(value) is int else _ratio(Fraction(value)) for value in values]


def values_from_json(values: list[int | str]) -> tuple[ReleasedValue, ...]:
    """Parse the values from a JSON list.

    >>> values_from_json([3, '1/2', '2/1'])
    (3, Fraction(1, 2), Fraction(2, 1))
    """
    return tuple(value if type(value) is int else _fraction(value) for value in values)


def _ratio(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def _fraction(text: object) -> Fraction:
    if type(text) is not str:
        raise ValueError(text)
    value = Fraction(text)
    if _ratio(value) != text:
        raise ValueError(text)
    return value


# --- The entries of a ledger: charges, uses, releases and the owner's acts. Nothing is ever undone. ---


FORMAT = 2
"""The newest format: 1 has all entries but upgrades and checkpoints, 2 has these too."""
CAP_KEY_BYTES = 32

Earlier = tuple[str, Event]
"""Spending from before the ledger existed: a description and its event."""


@dataclass(frozen=True, slots=True)
class Created:
    """The first entry: whose privacy is counted, under which neighbour relation, and within which budget.

    The order and the limit are recorded because they are fixed for ever, whichever version reads them later.
    """

    datasets: tuple[tuple[str, str], ...]
    """Name and schema digest of each table about these people."""
    neighbours: Neighbours
    budget: Budget
    order: Fraction | None
    limit: int
    analysts: tuple[Analyst, ...]
    format: int = FORMAT
    cap_key: str | None = field(default=None, repr=False)
    """The key that selects the rows of a person that count, in hexadecimal; None in ledgers of earlier versions."""
    earlier: tuple[Earlier, ...] = ()
    """Spending from before the ledger existed, which counts from the start."""
    limits: Limits | None = None
    """The owner's limits on spending, until other ones are set."""


@dataclass(frozen=True, slots=True)
class Charged:
    """An event was charged; the hash of this entry is the receipt's id."""

    dataset: str
    analyst: str | None
    key: str | None
    purpose: str
    version: str
    event: Event


charge_fields = attrgetter(*Charged.__slots__)
"""What a charge and its receipt have in common."""


@dataclass(frozen=True, slots=True)
class Redeemed:
    """A receipt was used: data may have been read under it."""

    receipt: str
    charge: int
    """The number of the line that charged it, which lets a database enforce rules cheaply."""


@dataclass(frozen=True, slots=True)
class WatchArmed:
    """A watch was armed for one more alert under its receipt: counts may have been compared until one was above.

    It refers to the previous line that used the receipt, the first time to the charge.
    """

    receipt: str
    charge: int
    fresh: bool
    """Whether new threshold noise was drawn, as it must be each time a watch is opened."""


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """The table could not be read under a receipt: nothing was drawn, so it may be reused. The charge stands.

    The next use refers to the number of this line, as the first one refers to the charge.
    """

    receipt: str
    charge: int


@dataclass(frozen=True, slots=True)
class Released:
    """An answer was drawn; it is recorded before it is shown."""

    release: Release
    charge: int


@dataclass(frozen=True, slots=True)
class BudgetRaised:
    """The owner raised the budget; the order stays, and the limit is recomputed at that order for the new (ε, δ)."""

    epsilon: Fraction
    delta: Fraction
    limit: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The ledger was restored from a backup: everything unspent counts as spent, and all older receipts are void.

    The (ε, δ) is the largest budget that was ever granted, which the backup may not contain.
    """

    epsilon: Fraction
    delta: Fraction
    limit: int


@dataclass(frozen=True, slots=True)
class AnalystAdmitted:
    """The owner admitted or readmitted an analyst with this share."""

    analyst: Analyst


@dataclass(frozen=True, slots=True)
class AnalystStopped:
    """The owner stopped an analyst; past spending still counts."""

    analyst: str


@dataclass(frozen=True, slots=True)
class SchemaDeclared:
    """The owner added a table about the same people, or changed a table's schema."""

    dataset: str
    schema: str


@dataclass(frozen=True, slots=True)
class LimitsSet:
    """The owner set other limits on spending."""

    limits: Limits


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """An analyst asked the owner to approve a question above a limit; the hash of this entry is the request's id."""

    dataset: str
    analyst: str
    key: str
    question: str
    """The digest of the question."""
    share: Fraction
    """What it would take of the budget."""
    text: str


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """The owner granted or declined a request."""

    request: str
    granted: bool
    by: str


@dataclass(frozen=True, slots=True)
class LedgerClosed:
    """The owner closed the ledger: no charges or releases after this."""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The owner raised the format of the ledger: from here on it may have entries that earlier versions do not know."""

    format: int


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The digest of the state as of the line before, so that a reader need not compute it from all lines again."""

    digest: str


FormatEntry = Upgraded | Checkpointed
PolicyEntry = LimitsSet | ApprovalRequested | ApprovalDecided
OwnersAct = BudgetRaised | Recovered | AnalystAdmitted | AnalystStopped | SchemaDeclared | PolicyEntry | LedgerClosed
"""What is neither a charge nor its use: acts of the owner, and requests to the owner."""
Entry = Created | Charged | Redeemed | WatchArmed | ReadFailed | Released | OwnersAct | FormatEntry


# --- Entries as text: one canonical JSON form each; unknown text is refused. ---


JsonFields = dict[str, Any]
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_PARSE_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, InvalidRequest)


class UnknownEntry(InvalidRequest):
    """The text is not an entry of this version."""

    code = "unknown-entry"

    def __init__(self) -> None:
        """Suggest what to do."""
        super().__init__("The ledger has an entry that this version does not know. Use the version that wrote it.")


def entry_to_json(entry: Entry, *, number: int, time: str) -> str:
    """Return the canonical JSON of an entry at its place.

    >>> entry_to_json(Redeemed("ab", 2), number=3, time="now")
    '{"charge":2,"entry":"redeemed","number":3,"receipt":"ab","time":"now"}'
    """
    fields = _fields(entry)
    fields["number"] = number
    fields["time"] = time
    return _dumps(fields)


def entry_from_json(text: str, *, number: int) -> Entry:
    """Parse an entry; the text must be the canonical JSON of an entry at this place."""
    try:
        fields = json.loads(text)
        entry = _READERS[fields["entry"]](fields)
        same = text == entry_to_json(entry, number=number, time=_text(fields["time"]))
    except _PARSE_ERRORS as fault:
        raise UnknownEntry from fault
    if not same:
        raise UnknownEntry
    return entry


def entry_from_trusted_json(text: str) -> Entry:
    """Parse the text of a line whose hash is known to be that of an entry of this version."""
    fields = json.loads(text)
    return _READERS[fields["entry"]](fields)


def entry_time(text: str) -> str:
    """Return when an entry was written, by a clock that nothing depends on."""
    return str(json.loads(text)["time"])


def validate_event(event: Event) -> None:
    """Raise UnknownEvent if an event does not survive conversion to JSON and back."""
    _event_fields(event)


def _dumps(fields: JsonFields) -> str:
    return _ENCODER.encode(fields)


def _fields(entry: Entry) -> JsonFields:
    match entry:
        case Charged():
            return {
                "entry": "charged",
                "dataset": entry.dataset,
                "analyst": entry.analyst,
                "key": entry.key,
                "purpose": entry.purpose,
                "version": entry.version,
                "event": _event_fields(entry.event),
            }
        case Redeemed() | ReadFailed() | WatchArmed():
            return _use_fields(entry)
        case Released(release):
            answer = {"values": values_to_json(release.values), "mechanism": release.mechanism}
            both = {"question": release.question, "text": release.text}
            asked = {name: value for name, value in both.items() if value is not None}
            return {"entry": "released", "receipt": release.receipt, "charge": entry.charge} | answer | asked
        case Created():
            return _created_fields(entry)
        case Upgraded() | Checkpointed():
            return _format_fields(entry)
        case _:
            return _act_fields(entry)


def _format_fields(entry: FormatEntry) -> JsonFields:
    if isinstance(entry, Upgraded):
        return {"entry": "upgraded", "format": entry.format}
    return {"entry": "checkpoint", "digest": entry.digest}


def _use_fields(entry: Redeemed | ReadFailed | WatchArmed) -> JsonFields:
    used = {"receipt": entry.receipt, "charge": entry.charge}
    if isinstance(entry, WatchArmed):
        return {"entry": "armed", "fresh": entry.fresh} | used
    return {"entry": "redeemed" if isinstance(entry, Redeemed) else "unanswered"} | used


def _act_fields(entry: OwnersAct) -> JsonFields:
    match entry:
        case BudgetRaised() | Recovered():
            kind = "raised" if isinstance(entry, BudgetRaised) else "recovered"
            return {"entry": kind} | _pair(entry.epsilon, entry.delta) | {"limit": entry.limit}
        case AnalystAdmitted(analyst):
            return {"entry": "admitted", "analyst": analyst.name, "share": str(analyst.share)}
        case AnalystStopped():
            return {"entry": "stopped", "analyst": entry.analyst}
        case SchemaDeclared():
            return {"entry": "declared", "dataset": entry.dataset, "schema": entry.schema}
        case LedgerClosed():
            return {"entry": "closed"}
        case _:
            return _policy_fields(entry)


def _policy_fields(entry: PolicyEntry) -> JsonFields:
    match entry:
        case LimitsSet(limits):
            return {"entry": "limits"} | _limits_fields(limits)
        case ApprovalRequested():
            asked = {"dataset": entry.dataset, "analyst": entry.analyst, "request_key": entry.key, "text": entry.text}
            return {"entry": "requested", "question": entry.question, "share": _ratio(entry.share)} | asked
        case ApprovalDecided():
            return {"entry": "decided", "request": entry.request, "granted": entry.granted, "by": entry.by}
        case _:
            assert_never(entry)


def _created_fields(entry: Created) -> JsonFields:
    budget = entry.budget
    # Omitted if None, so that older lines keep their hash.
    further: JsonFields = {} if entry.cap_key is None else {"cap_key": entry.cap_key}
    if entry.earlier:
        further["earlier"] = [[purpose, _event_fields(event)] for purpose, event in entry.earlier]
    if entry.limits is not None:
        further["limits"] = _limits_fields(entry.limits)
    return {
        "entry": "created",
        "format": entry.format,
        "datasets": [list(dataset) for dataset in entry.datasets],
        "neighbours": entry.neighbours.value,
        "budget": _pair(budget.epsilon, budget.delta) | {"accountant": budget.accountant.value},
        "order": None if entry.order is None else str(entry.order),
        "limit": entry.limit,
        "analysts": [[analyst.name, str(analyst.share)] for analyst in entry.analysts],
    } | further


def _read_created(fields: JsonFields) -> Created:
    budget = fields["budget"]
    return Created(
        tuple((_text(name), _text(schema)) for name, schema in fields["datasets"]),
        Neighbours(fields["neighbours"]),
        Budget(budget["epsilon"], budget["delta"], budget["accountant"]),
        None if fields["order"] is None else Fraction(fields["order"]),
        _whole(fields["limit"]),
        tuple(Analyst(name, share) for name, share in fields["analysts"]),
        _whole(fields["format"]),
        _cap_key(fields["cap_key"]) if "cap_key" in fields else None,
        tuple(_earlier(*row) for row in fields["earlier"]) if "earlier" in fields else (),
        _read_limits(fields["limits"]) if "limits" in fields else None,
    )


def _limits_fields(limits: Limits) -> JsonFields:
    shares = {name: getattr(limits, name) for name in ("question", "analyst_day", "dataset_day")}
    written = {name: _ratio(share) for name, share in shares.items() if share is not None}
    return written | {"approvals": limits.approvals}


def _read_limits(fields: JsonFields) -> Limits:
    named = {name: _fraction(fields[name]) for name in ("question", "analyst_day", "dataset_day") if name in fields}
    return Limits(**named, approvals=_flag(fields["approvals"]))


def _read_requested(fields: JsonFields) -> ApprovalRequested:
    return ApprovalRequested(
        dataset=_text(fields["dataset"]),
        analyst=_text(fields["analyst"]),
        key=_text(fields["request_key"]),
        question=_text(fields["question"]),
        share=_fraction(fields["share"]),
        text=_text(fields["text"]),
    )


def _earlier(purpose: object, event: JsonFields) -> Earlier:
    return _text(purpose), events.event_from_json(_dumps(event))


def _cap_key(value: object) -> str:
    if len(bytes.fromhex(_text(value))) != CAP_KEY_BYTES:
        raise ValueError
    return str(value)


def _read_charged(fields: JsonFields) -> Charged:
    return Charged(
        _text(fields["dataset"]),
        _optional_text(fields["analyst"]),
        _optional_text(fields["key"]),
        _text(fields["purpose"]),
        _text(fields["version"]),
        events.event_from_json(_dumps(fields["event"])),
    )


def _read_released(fields: JsonFields) -> Released:
    values = values_from_json(fields["values"])
    mechanism = _text(fields["mechanism"])
    asked = {name: _text(fields[name]) for name in ("question", "text") if name in fields}
    release = Release(receipt=_text(fields["receipt"]), values=values, mechanism=mechanism, **asked)
    return Released(release, _whole(fields["charge"]))


_READERS: dict[str, Callable[[JsonFields], Entry]] = {
    "created": _read_created,
    "charged": _read_charged,
    "redeemed": lambda fields: Redeemed(_text(fields["receipt"]), _whole(fields["charge"])),
    "armed": lambda fields: WatchArmed(_text(fields["receipt"]), _whole(fields["charge"]), _flag(fields["fresh"])),
    "unanswered": lambda fields: ReadFailed(_text(fields["receipt"]), _whole(fields["charge"])),
    "released": _read_released,
    "raised": lambda fields: BudgetRaised(*_numbers(fields)),
    "recovered": lambda fields: Recovered(*_numbers(fields)),
    "admitted": lambda fields: AnalystAdmitted(Analyst(fields["analyst"], fields["share"])),
    "stopped": lambda fields: AnalystStopped(_text(fields["analyst"])),
    "declared": lambda fields: SchemaDeclared(_text(fields["dataset"]), _text(fields["schema"])),
    "limits": lambda fields: LimitsSet(_read_limits(fields)),
    "requested": _read_requested,
    "decided": lambda fields: ApprovalDecided(_text(fields["request"]), _flag(fields["granted"]), _text(fields["by"])),
    "closed": lambda _: LedgerClosed(),
    "upgraded": lambda fields: Upgraded(_whole(fields["format"])),
    "checkpoint": lambda fields: Checkpointed(_text(fields["digest"])),
}


ENTRY_KINDS = frozenset(_READERS)
"""The entry kinds that this version knows."""


def _pair(epsilon: Fraction, delta: Fraction) -> JsonFields:
    return {"epsilon": str(epsilon), "delta": str(delta)}


def _numbers(fields: JsonFields) -> tuple[Fraction, Fraction, int]:
    return Fraction(_text(fields["epsilon"])), Fraction(_text(fields["delta"])), _whole(fields["limit"])


@lru_cache(maxsize=1 << 14)
def _event_fields(event: Event) -> JsonFields:
    """Return the event's fields; equal events share one dictionary, which is never modified."""
    text = events.event_to_json(event)
    events.event_from_json(text)
    fields: JsonFields = json.loads(text)
    return fields


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError(value)
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError(value)
    return value


# --- The hash chain: each line's hash covers the line and, through the one before it, everything before it. ---


GENESIS_HASH = "0" * 64
"""The hash that precedes the first line."""


@dataclass(frozen=True, slots=True)
class Line:
    """An entry at its place in the chain."""

    number: int
    previous: str
    hash: str
    text: str = field(repr=False)
    """The entry; the first one contains the cap key, so it is not shown."""

    def follows(self, number: int, previous: str) -> bool:
        """Return whether this is, unaltered, the next line after the one with this number and hash."""
        return self.number == number + 1 and self.previous == previous and self.intact

    @property
    def intact(self) -> bool:
        """Whether its hash is that of its text."""
        return self.hash == _hash(self.previous, self.text)


def line_after(number: int, previous: str, entry: Entry, *, time: str) -> Line:
    """Return the line of an entry, chained to the line with this number and hash."""
    text = entry_to_json(entry, number=number + 1, time=time)
    return Line(number + 1, previous, _hash(previous, text), text)


def _hash(previous: str, text: str) -> str:
    return sha256(f"{previous}\n{text}".encode()).hexdigest()
