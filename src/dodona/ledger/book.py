"""The book: the state that results from the entries of a ledger.

The same rules decide what may be written and what is accepted when a chain is read. A refused entry changes nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from typing import Self, assert_never

from dodona.errors import DodonaError, InvalidArgument
from dodona.ledger import entries, errors
from dodona.ledger.account import Account, AnalystAccount, remaining_share, restore_filter
from dodona.ledger.entries import GENESIS_HASH, Charged, Entry, Line, Receipt, Release, line_after
from dodona.ledger.limits import NO_LIMITS, ApprovalRequest, SpendingGuard
from dodona.privacy.accountants import odometer
from dodona.privacy.bounds import float_above
from dodona.privacy.budget import AnalystState, BudgetState
from dodona.privacy.events import Event
from dodona.schema.schema import Neighbours

# --- What is left, as of one line of the ledger. ---


def _epsilon_spent(account: Account) -> float:
    whole = account.filter
    if account.recovered:
        return float_above(whole.epsilon)
    reading = odometer(account.events, delta=whole.delta)
    return float_above(whole.epsilon if reading is None else min(whole.epsilon, reading))


def _analyst_state(name: str, purse: AnalystAccount) -> AnalystState:
    left = remaining_share(purse.filter, purse.spent)
    return AnalystState(name=name, share=purse.analyst.share, spent=1 - left, left=left, stopped=purse.stopped)


# --- The book: a fold over the entries of a ledger. The same rules apply to writing and to reading. ---


MOST_FAILURES = 3
"""How often a receipt may be reused after the table could not be read. Each reuse reveals that the read failed."""


@dataclass(frozen=True, slots=True)
class ChargeState:
    """A receipt and its current status."""

    receipt: Receipt
    number: int
    """The number of the line that permits its use: its charge, or the last failed read."""
    redeemed: bool = False
    failures: int = 0
    """How often the table could not be read under it."""
    release: Release | None = None
    void: bool = False
    armed: int = 0
    """For a watch: how often it was armed for an alert."""
    thresholds: int = 0
    """How many of these armings drew new threshold noise."""


class Book:
    """A fold over entries. Entries apply atomically: a refused entry leaves the book unchanged."""

    def __init__(self, first: Line, created: entries.Created) -> None:
        """Start from the first line."""
        if created.format != entries.FORMAT:
            known = f"this version reads {entries.FORMAT}. Use the version that wrote it."
            raise errors.LedgerOfAnother(f"The ledger has format {created.format}; {known}")
        names = [name for name, _ in created.datasets]
        if not names or len(set(names)) != len(names):
            raise InvalidArgument("datasets", names, "write one name or more, each once")
        self.number = first.number
        self.head = first.hash
        self.created = created
        self.datasets = dict(created.datasets)
        self.cap_key = _cap_key(first, created)
        whole = restore_filter(created.budget, created.order, created.limit)
        self.account = Account(created.budget, whole)
        for _, event in created.earlier:
            self._same_relation(event.neighbours)
            self.account.count(event)
        for analyst in created.analysts:
            self.account.admit(analyst)
        self.charges: dict[str, ChargeState] = {}
        self.keys: dict[tuple[str | None, str], str] = {}
        self.releases: defaultdict[tuple[str, str, str], list[Release]] = defaultdict(list)
        self.released: list[Release] = []
        self._latest: dict[tuple[str, str, str], int] = {}
        self._unanswered: defaultdict[tuple[str, str, str, Event], dict[str, None]] = defaultdict(dict)
        self.guard = SpendingGuard(NO_LIMITS if created.limits is None else created.limits)
        self.closed = False

    @classmethod
    def read(cls, lines: Iterable[Line]) -> Self:
        """Return the book of a whole chain; raises LedgerUnreadable if it breaks a rule."""
        rest = iter(lines)
        first = next(rest, None)
        if first is None or not first.follows(-1, GENESIS_HASH):
            raise errors.LedgerUnreadable("its first line is missing or altered")
        try:
            created = entries.entry_from_json(first.text, number=0)
        except entries.UnknownEntry as fault:
            raise errors.LedgerNewer(0) from fault
        if not isinstance(created, entries.Created):
            raise errors.LedgerUnreadable("its first line is not a creation")
        book = cls(first, created)
        book.follow(rest)
        return book

    def follow(self, lines: Iterable[Line]) -> None:
        """Apply lines that other processes wrote."""
        for line in lines:
            if not line.follows(self.number, self.head):
                raise errors.LedgerUnreadable(f"line {self.number + 1} does not follow from the one before it")
            try:
                entry = entries.entry_from_json(line.text, number=line.number)
                timed = not self.guard.idle or isinstance(entry, entries.LimitsSet)
                self._apply(entry, line.hash, entries.entry_time(line.text) if timed else "")
            except entries.UnknownEntry as fault:  # the hash is right, so a newer version wrote it
                raise errors.LedgerNewer(line.number) from fault
            except DodonaError as fault:
                raise errors.LedgerUnreadable(f"line {line.number} breaks a rule ({fault.code})") from fault
            self.number, self.head = line.number, line.hash

    def write(self, entry: Entry, *, time: str) -> Line:
        """Apply a new entry and return its line; raises if the rules refuse it."""
        if isinstance(entry, Charged) and not self.guard.idle:
            self._hold_limits(entry, time)
        line = line_after(self.number, self.head, entry, time=time)
        self._apply(entry, line.hash, time)
        self.number, self.head = line.number, line.hash
        return line

    def state(self) -> BudgetState:
        """Return what is left."""
        account = self.account
        left = remaining_share(account.filter, account.spent)
        return BudgetState(
            total=account.budget,
            spent=1 - left,
            left=left,
            epsilon_spent=_epsilon_spent(account),
            charges=len(self.charges),
            releases=len(self.released),
            analysts=tuple(_analyst_state(name, purse) for name, purse in sorted(account.purses.items())),
            closed=self.closed,
            recovered=account.recovered,
            head=self.head,
        )

    def hold_open(self) -> None:
        """Refuse any entry after the ledger has been closed."""
        if self.closed:
            raise errors.NotPermitted("The owner closed this ledger, for ever. Earlier answers can still be fetched.")

    def hold_spending(self, analyst: str | None) -> None:
        """Refuse analysts who may not spend, and everyone after the ledger has been closed."""
        self.hold_open()
        self.account.spender(analyst)

    def charge_of(self, receipt: Receipt) -> ChargeState:
        """Return the status of a receipt, which must be exactly as this book recorded it."""
        found = self.charges.get(receipt.id)
        if found is None or found.receipt != receipt:
            raise errors.ReceiptMismatch
        return found

    def releases_after(self, seen: int) -> tuple[tuple[Receipt, Release], ...]:
        """Return the releases after the first `seen`, oldest first."""
        return tuple([(self.charges[release.receipt].receipt, release) for release in self.released[seen:]])

    def released_after(self, seen: int, asked: Charged) -> bool:
        """Return whether the same question was answered after the first `seen` releases."""
        return self._latest.get((asked.dataset, asked.purpose, asked.version), 0) > seen

    def unanswered(self, asked: Charged) -> Iterator[ChargeState]:
        """Yield the unanswered charges for exactly this request, oldest first: in progress, or lost."""
        for receipt in tuple(self._unanswered.get((asked.dataset, asked.purpose, asked.version, asked.event), ())):
            yield self.charges[receipt]

    def _hold_limits(self, entry: Charged, time: str) -> None:
        """Refuse a new charge above the owner's limits."""
        share = self.account.filter.least_share(self.account.spent, entry.event)
        allowed = self.guard.allowance(dataset=entry.dataset, analyst=entry.analyst, key=entry.key, time=time)
        if share > allowed.share:
            raise errors.PriceAboveLimit(price=share, most=allowed.share, reason=allowed.reason)

    def _apply(self, entry: Entry, own_hash: str, time: str) -> None:
        match entry:
            case Charged():
                self._charge(entry, own_hash, time)
            case entries.Redeemed():
                self._redeem(entry)
            case entries.WatchArmed():
                self._arm(entry)
            case entries.ReadFailed():
                self._unanswer(entry)
            case entries.Released():
                self._release(entry)
            case entries.Created():
                raise InvalidArgument("entry", "created", "a ledger is created once")
            case _:
                self._act(entry, own_hash, time)

    def _act(self, entry: entries.OwnersAct, own_hash: str, time: str) -> None:
        match entry:
            case entries.BudgetRaised():
                self.account.extend(entry.epsilon, entry.delta, entry.limit)
            case entries.Recovered():
                self.account.exhaust(entry.epsilon, entry.delta, entry.limit)
                self._unanswered.clear()
                lost = {receipt: charge for receipt, charge in self.charges.items() if charge.release is None}
                self.charges |= {receipt: replace(charge, void=True) for receipt, charge in lost.items()}
            case entries.AnalystAdmitted():
                self.account.admit(entry.analyst)
            case entries.AnalystStopped():
                self.account.stop(entry.analyst)
            case entries.SchemaDeclared():
                self.datasets[entry.dataset] = entry.schema
            case entries.LimitsSet():
                self.guard.change(entry.limits, time=time)
            case entries.ApprovalRequested():
                self._request(entry, own_hash, time)
            case entries.ApprovalDecided():
                self.guard.decide(entry.request, granted=entry.granted, by=entry.by)
            case entries.LedgerClosed():
                self.closed = True
            case _:
                assert_never(entry)

    def _request(self, entry: entries.ApprovalRequested, own_hash: str, time: str) -> None:
        self.hold_spending(entry.analyst)
        if entry.dataset not in self.datasets:
            raise InvalidArgument("dataset", entry.dataset, "write the name of a dataset of this ledger")
        if (entry.analyst, entry.key) in self.keys:
            raise InvalidArgument("key", entry.key, "it was charged before; write a new key")
        asked = {name: getattr(entry, name) for name in entries.ApprovalRequested.__slots__}
        self.guard.add(ApprovalRequest(id=own_hash, **asked, time=time))

    def _charge(self, entry: Charged, own_hash: str, time: str) -> None:
        if entry.dataset not in self.datasets:
            raise InvalidArgument("dataset", entry.dataset, "write the name of a dataset of this ledger")
        self.hold_open()
        self._same_relation(entry.event.neighbours)
        if entry.key is not None and (entry.analyst, entry.key) in self.keys:
            raise InvalidArgument("key", entry.key, "a key names one question, once")
        watched = not self.guard.idle
        share = self.account.filter.least_share(self.account.spent, entry.event) if watched else Fraction(0)
        self.account.charge(entry.event, entry.analyst)
        if watched:
            self.guard.count(share, dataset=entry.dataset, analyst=entry.analyst, key=entry.key, time=time)
        if entry.key is not None:
            self.keys[entry.analyst, entry.key] = own_hash
        self.charges[own_hash] = ChargeState(Receipt(own_hash, *entries.charge_fields(entry)), self.number + 1)
        self._unanswered[entry.dataset, entry.purpose, entry.version, entry.event][own_hash] = None

    def _same_relation(self, neighbours: Neighbours) -> None:
        if neighbours is not self.created.neighbours:
            accepted = f"this ledger counts under {self.created.neighbours.value}; the two relations are never mixed"
            raise InvalidArgument("event", neighbours.value, accepted)

    def _redeem(self, entry: entries.Redeemed) -> None:
        charge = self._known(entry.receipt, entry.charge)
        _hold_unused(charge, used=charge.redeemed or charge.armed > 0)
        self.hold_open()
        self.charges[entry.receipt] = replace(charge, redeemed=True)

    def _arm(self, entry: entries.WatchArmed) -> None:
        charge = self._known(entry.receipt, entry.charge)
        if not (entry.fresh or charge.armed):
            raise errors.ReceiptMismatch
        _hold_unused(charge, used=charge.redeemed)
        self.hold_open()
        drawn = charge.thresholds + entry.fresh
        self.charges[entry.receipt] = replace(charge, number=self.number + 1, armed=charge.armed + 1, thresholds=drawn)

    def _unanswer(self, entry: entries.ReadFailed) -> None:
        charge = self._known(entry.receipt, entry.charge, redeemed=True)
        _hold_unused(charge, used=charge.release is not None or charge.failures >= MOST_FAILURES)
        again = replace(charge, number=self.number + 1, redeemed=False, failures=charge.failures + 1)
        self.charges[entry.receipt] = again

    def _known(self, receipt: str, number: int, *, redeemed: bool = False) -> ChargeState:
        """Return the status of a receipt that line `number` permits to use; redeemed already, if it must be."""
        charge = self.charges.get(receipt)
        if charge is None or charge.number != number or charge.redeemed < redeemed:
            raise errors.ReceiptMismatch
        return charge

    def _release(self, entry: entries.Released) -> None:
        release = entry.release
        charge = self._known(release.receipt, entry.charge, redeemed=True)
        _hold_unused(charge, used=charge.release is not None)
        self.charges[release.receipt] = replace(charge, release=release)
        receipt = charge.receipt
        asked = (receipt.dataset, receipt.purpose, receipt.version)
        self.releases[asked].append(release)
        self.released.append(release)
        self._latest[asked] = len(self.released)
        waiting = self._unanswered.get((*asked, receipt.event), {})
        waiting.pop(release.receipt, None)
        if not waiting:
            self._unanswered.pop((*asked, receipt.event), None)


def _hold_unused(charge: ChargeState, *, used: bool) -> None:
    """Refuse a receipt that was used up, or that a recovery made void."""
    if used:
        raise errors.ReceiptReused
    if charge.void:
        raise errors.ReceiptVoid


def _cap_key(first: Line, created: entries.Created) -> bytes:
    """Return the key that selects the rows of a person that count; without one, it is derived from the first line."""
    if created.cap_key is None:
        return sha256(f"cap\n{first.hash}".encode("ascii")).digest()
    return bytes.fromhex(created.cap_key)
