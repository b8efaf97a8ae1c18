"""What a ledger is made of: charges, plans, uses, releases and the owner's acts. Nothing is ever taken back."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from dodona.accounting.event import Event
from dodona.domain.neighbours import Neighbours
from dodona.ledger.release import Release
from dodona.policy import Analyst, Budget

FORMAT = 1
CAP_KEY_BYTES = 32

Earlier = tuple[str, Event]
"""What was spent before there was a ledger: on what, in words, and the event."""
Parts = tuple[tuple[Event, int], ...]
"""The events of a plan, and how often each may be asked for."""


@dataclass(frozen=True, slots=True)
class Created:
    """The first entry: whose privacy is counted, under which relation, within which budget.

    The order and the limit stand here because they are fixed for ever, whichever version reads them later.
    """

    datasets: tuple[tuple[str, str], ...]
    """Name and schema digest of each table that holds these people."""
    neighbours: Neighbours
    budget: Budget
    order: Fraction | None
    limit: int
    analysts: tuple[Analyst, ...]
    format: int = FORMAT
    cap_key: str | None = field(default=None, repr=False)
    """What chooses which rows of a person count, in hexadecimal digits; None in ledgers of earlier versions."""
    earlier: tuple[Earlier, ...] = ()
    """What was spent before there was a ledger, and counts from the start."""


@dataclass(frozen=True, slots=True)
class Charged:
    """An event was paid for; the hash of this entry is the receipt's id."""

    dataset: str
    analyst: str | None
    key: str | None
    purpose: str
    version: str
    event: Event
    plan: str | None = None
    """The id of the plan that it was taken out of, which paid for it; else the filter did."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A plan was paid for, whole, out of what was set aside; the hash of this entry is the plan's id.

    The price stands here because it is fixed for ever, whichever version reads it later.
    """

    analyst: str | None
    key: str | None
    parts: Parts
    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True)
class Redeemed:
    """A receipt was used: data may have been read under it."""

    receipt: str
    charge: int
    """The number of the line that charged it, by which a database can hold rules at little cost."""


@dataclass(frozen=True, slots=True)
class Armed:
    """A watch was armed for one more alert, under its receipt: counts may have been compared until one was above.

    It names the number of the line before it that used the receipt, at first that of the charge.
    """

    receipt: str
    charge: int
    fresh: bool
    """Whether noise for the threshold was drawn anew, as it must be by whoever opens the watch."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The table could not be read under a receipt: nothing was drawn, so that it may be used again. The charge stands.

    The next use names the number of this line, as the first one names that of the charge.
    """

    receipt: str
    charge: int


@dataclass(frozen=True, slots=True)
class Released:
    """An answer was drawn; it is stored before it is shown."""

    release: Release
    charge: int


@dataclass(frozen=True, slots=True)
class Raised:
    """The owner allowed more; the order stays, and the limit is what it gives for the new pair."""

    epsilon: Fraction
    delta: Fraction
    limit: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The ledger came back from a backup: everything unspent counts as spent, and no older receipt can be used.

    The pair is the largest budget that was ever granted, which the backup may not know of.
    """

    epsilon: Fraction
    delta: Fraction
    limit: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """The owner let an analyst in, or back in, with this share."""

    analyst: Analyst


@dataclass(frozen=True, slots=True)
class Stopped:
    """The owner stopped an analyst; what was spent stays spent."""

    analyst: str


@dataclass(frozen=True, slots=True)
class Declared:
    """The owner added a table of the same people, or changed the schema of one."""

    dataset: str
    schema: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The owner ended it: no charge and no release after this."""


Entry = (
    Created
    | Charged
    | Opened
    | Redeemed
    | Armed
    | Unanswered
    | Released
    | Raised
    | Recovered
    | Admitted
    | Stopped
    | Declared
    | Closed
)
