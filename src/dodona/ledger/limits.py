"""The owner's limits on spending, and approvals of questions above them.

Limits are policy, not privacy: the budget holds without them. So they are checked when a charge is written, and only
counted when a chain is read. Days are those of the ledger: they never go back, whatever the clock says.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

from dodona.errors import InvalidArgument
from dodona.ledger.errors import NotPermitted
from dodona.numbers import Exact, to_share

MOST_OPEN_REQUESTS = 20
"""How many requests of one analyst may wait for a decision."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?=T)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest shares of the budget that may be spent at once and in a day; None where there is no limit."""

    question: Fraction | None = None
    """By one call."""
    analyst_day: Fraction | None = None
    """By one analyst in a day (UTC)."""
    dataset_day: Fraction | None = None
    """By everyone together, on one dataset, in a day."""
    approvals: bool = False
    """Whether an analyst may ask the owner to approve a question above a limit."""

    def __post_init__(self) -> None:
        """Refuse anything but shares of the budget."""
        for name, share in zip(_NAMES, self.shares, strict=True):
            if share is not None and (type(share) is not Fraction or not 0 < share <= 1):
                raise InvalidArgument(name, share, 'write a share of the budget such as "2%"')
        if type(self.approvals) is not bool:
            raise InvalidArgument("approvals", self.approvals, "write true or false")

    def to_json(self) -> dict[str, object]:
        """Return them as an object: shares as texts, None where there is no limit."""
        shares = zip(_NAMES, self.shares, strict=True)
        return {name: None if share is None else str(share) for name, share in shares} | {"approvals": self.approvals}

    @property
    def shares(self) -> tuple[Fraction | None, ...]:
        """The three limits."""
        return self.question, self.analyst_day, self.dataset_day


_NAMES = ("question", "analyst_day", "dataset_day")
NO_LIMITS = Limits()


def make_limits(
    *,
    question: Exact | None = None,
    analyst_day: Exact | None = None,
    dataset_day: Exact | None = None,
    approvals: bool = False,
) -> Limits:
    """Return limits from shares as people write them.

    >>> make_limits(question="2%", analyst_day="1/10").question
    Fraction(1, 50)
    """
    given = zip(_NAMES, (question, analyst_day, dataset_day), strict=True)
    shares = {name: None if value is None else to_share(value, argument=name) for name, value in given}
    return Limits(**shares, approvals=approvals)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A question above a limit that an analyst wants the owner to approve."""

    id: str
    """The hash of the entry that requested it."""
    dataset: str
    analyst: str
    key: str
    """The key that the question will be asked with."""
    question: str
    """The digest of the question, which an approval is bound to."""
    share: Fraction
    """What it would take of the budget; an approval allows no more."""
    text: str
    time: str
    granted: bool | None = None
    """None while it waits for a decision."""
    decided_by: str | None = None
    used: bool = False
    """Whether it was charged since."""

    def to_json(self) -> dict[str, object]:
        """Return it as an object of plain values."""
        fields = ("id", "dataset", "analyst", "key", "text", "time", "state", "decided_by")
        return {name: getattr(self, name) for name in fields} | {"share": str(self.share)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the request that `to_json` described; it lacks the digest of its question."""
        fields = ("id", "dataset", "analyst", "key", "text", "time", "decided_by")
        state = document["state"]
        return cls(
            **{name: document[name] for name in fields},
            question="",
            share=Fraction(document["share"]),
            granted=None if state == "waiting" else state != "declined",
            used=state == "used",
        )

    @property
    def state(self) -> str:
        """Where it stands, in a word."""
        if self.granted is None:
            return "waiting"
        return "used" if self.used else "granted" if self.granted else "declined"


@dataclass(frozen=True, slots=True)
class Allowance:
    """The largest share that one call may take at this moment, and which limit says so."""

    share: Fraction
    reason: str


@dataclass(slots=True)
class SpendingGuard:
    """What was spent today and what was approved, as of one line of a ledger."""

    limits: Limits = NO_LIMITS
    day: str = ""
    by_analyst: defaultdict[str | None, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    by_dataset: defaultdict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    requests: dict[str, ApprovalRequest] = field(default_factory=dict)
    idle: bool = field(init=False)
    """Whether there is nothing to hold a charge to."""
    _keys: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Notice whether there is a limit."""
        self.idle = self.limits == NO_LIMITS

    def change(self, limits: Limits, *, time: str) -> None:
        """Replace the limits. The owner's act also sets the day, so that a clock that was ahead can be corrected."""
        self.limits = limits
        self.idle = limits == NO_LIMITS and not self.requests
        if day_of(time) not in {"", self.day}:
            self._begin(day_of(time))

    def count(self, share: Fraction, *, dataset: str, analyst: str | None, key: str | None, time: str) -> None:
        """Count a charge that was written."""
        self._move(day_of(time))
        self.by_analyst[analyst] += share
        self.by_dataset[dataset] += share
        approved = self.request_of(analyst, key)
        if approved is not None:
            self.requests[approved.id] = replace(approved, used=True)

    def allowance(self, *, dataset: str, analyst: str | None, key: str | None, time: str) -> Allowance:
        """Return what a call may take now; an approval under its key replaces the limits."""
        approved = self.request_of(analyst, key)
        if approved is not None and approved.granted:
            return Allowance(approved.share, f"{approved.decided_by} approved it")
        today = day_of(time) <= self.day
        spent = self.by_analyst[analyst] if today else Fraction(0), self.by_dataset[dataset] if today else Fraction(0)
        question, analyst_day, dataset_day = self.limits.shares
        allowances = [Allowance(Fraction(1), "")]
        if question is not None:
            allowances.append(Allowance(question, "one question"))
        if analyst_day is not None:
            allowances.append(Allowance(max(Fraction(0), analyst_day - spent[0]), "the rest of an analyst's day"))
        if dataset_day is not None:
            allowances.append(Allowance(max(Fraction(0), dataset_day - spent[1]), "the rest of the dataset's day"))
        return min(allowances, key=lambda allowance: allowance.share)

    def add(self, request: ApprovalRequest) -> None:
        """Keep a request until the owner decides."""
        if not self.limits.approvals:
            raise NotPermitted("The owner takes no requests for approval here. Ask for less.")
        if (request.analyst, request.key) in self._keys:
            raise InvalidArgument("key", request.key, "an approval was requested under it before; write a new key")
        waiting = sum(
            1 for other in self.requests.values() if other.analyst == request.analyst and other.granted is None
        )
        if waiting >= MOST_OPEN_REQUESTS:
            raise NotPermitted(f"{waiting} requests of yours wait for the owner. Wait for a decision first.")
        self.requests[request.id] = request
        self._keys[request.analyst, request.key] = request.id

    def restore(self, request: ApprovalRequest) -> None:
        """Take a request as a checkpoint has it."""
        self.requests[request.id] = request
        self._keys[request.analyst, request.key] = request.id
        self.idle = False

    def decide(self, request: str, *, granted: bool, by: str) -> None:
        """Record the owner's decision, which is final."""
        approval = self.requests.get(request)
        if approval is None:
            raise InvalidArgument("request", request, "write the id of a request of this ledger")
        if approval.granted is not None:
            raise InvalidArgument("request", request, f"{approval.decided_by} decided it before; a decision is final")
        self.requests[request] = replace(approval, granted=granted, decided_by=by)

    def request_of(self, analyst: str | None, key: str | None) -> ApprovalRequest | None:
        """Return the request that an analyst made under a key."""
        if analyst is None or key is None or (analyst, key) not in self._keys:
            return None
        return self.requests[self._keys[analyst, key]]

    def _move(self, day: str) -> None:
        if day > self.day:
            self._begin(day)

    def _begin(self, day: str) -> None:
        self.day = day
        self.by_analyst.clear()
        self.by_dataset.clear()


def day_of(time: str) -> str:
    """Return the day of a moment; empty if it is not written as one.

    >>> day_of("2026-11-17T08:00:00+00:00"), day_of("now")
    ('2026-11-17', '')
    """
    day_match = _DAY.match(time)
    return "" if day_match is None else day_match[0]
