"""The book: the state that results from the entries of a ledger.

The same rules decide what may be written and what is accepted when a chain is read. A refused entry changes nothing.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from itertools import chain
from typing import Self, assert_never

from dodona.errors import DodonaError, InvalidArgument
from dodona.ledger import checkpoint, entries, errors
from dodona.ledger.account import BudgetAccount, remaining_share, restore_filter
from dodona.ledger.checkpoint import CHECKPOINT_FORMAT, Archive, FetchLines, fetch_listed, state_digest
from dodona.ledger.entries import GENESIS_HASH, Charged, Entry, Line, Receipt, Release, line_after
from dodona.ledger.limits import NO_LIMITS, ApprovalRequest, SpendingGuard, day_of
from dodona.ledger.store import Overlaps
from dodona.privacy.budget import BudgetState
from dodona.privacy.events import Event, event_to_json
from dodona.schema.schema import Neighbours

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
    """A fold over entries. Entries apply atomically: a refused entry leaves the book unchanged.

    What was answered before the last checkpoint is in the archive, which reads it from the store when it is asked for.
    """

    def __init__(self, first: Line, created: entries.Created, fetch: FetchLines) -> None:
        """Start from the first line; `fetch` reads lines that were applied before."""
        if created.format > entries.FORMAT:
            raise errors.LedgerNewer
        names = [name for name, _ in created.datasets]
        if not names or len(set(names)) != len(names):
            raise InvalidArgument("datasets", names, "write one name or more, each once")
        self.number = first.number
        self.head = first.hash
        self.created = created
        self.datasets = dict(created.datasets)
        self.cap_key = _cap_key(first, created)
        whole = restore_filter(created.budget, created.order, created.limit)
        self.account = BudgetAccount(created.budget, whole)
        for _, event in created.earlier:
            self._same_relation(event.neighbours)
            self.account.count(event)
        for analyst in created.analysts:
            self.account.admit(analyst)
        self.format = created.format
        self.archive = Archive(fetch)
        self.checkpoint = 0
        """The number of the last checkpoint; 0 if there is none."""
        self.on_checkpoint: Callable[[int, str], None] = lambda _, __: None
        """Called with the number and the state of every checkpoint that is applied."""
        self._digest = GENESIS_HASH
        self._first = first.hash
        self._charges: dict[str, ChargeState] = {}  # new since the checkpoint, or not answered
        self._charged: dict[str, int] = {}  # the line of each that is new
        self._keys: dict[tuple[str | None, str], str] = {}
        self._releases: defaultdict[tuple[str, str, str], list[Release]] = defaultdict(list)
        self._released: list[tuple[Release, int, str]] = []  # since the checkpoint, with number and hash of the line
        self._latest: dict[tuple[str, str, str], int] = {}
        self._unanswered: defaultdict[tuple[str, str, str, Event], dict[str, None]] = defaultdict(dict)
        self.guard = SpendingGuard(NO_LIMITS if created.limits is None else created.limits)
        self.closed = False

    @classmethod
    def read(cls, lines: Sequence[Line], *, on_checkpoint: Callable[[int, str], None] | None = None) -> Self:
        """Return the book of a whole chain; raises LedgerUnreadable if it breaks a rule."""
        book = cls._begin(lines[0] if lines else None, fetch_listed(lines))
        if on_checkpoint is not None:
            book.on_checkpoint = on_checkpoint
        book.follow(lines[1:])
        return book

    @classmethod
    def restore(cls, states: Sequence[str], line: Line, fetch: FetchLines) -> Self:
        """Return the book as of a checkpoint, from all states up to it and its line.

        Raises LedgerUnreadable, or whatever parsing raises, if they are not what the line says.
        """
        digest = GENESIS_HASH
        for text in states:
            digest = state_digest(digest, text)
        state = json.loads(states[-1])
        entry = entries.entry_from_json(line.text, number=line.number)
        if entry != entries.Checkpointed(digest) or not line.follows(state["number"], state["head"]):
            raise errors.LedgerUnreadable("a checkpoint is not the one of its line")
        book = cls._begin(next(iter(fetch(0, 0)), None), fetch)
        if book.head != state["first"]:
            raise errors.LedgerUnreadable("its first line was altered")
        for text in states:
            book._settle(json.loads(text))  # noqa: SLF001  of its own class
        book._resume(state, digest)  # noqa: SLF001
        book.number, book.head, book.checkpoint = line.number, line.hash, line.number
        return book

    @classmethod
    def _begin(cls, first: Line | None, fetch: FetchLines) -> Self:
        if first is None or not first.follows(-1, GENESIS_HASH):
            raise errors.LedgerUnreadable("its first line is missing or altered")
        try:
            created = entries.entry_from_json(first.text, number=0)
        except entries.UnknownEntry as fault:
            raise errors.LedgerNewer(0) from fault
        if not isinstance(created, entries.Created):
            raise errors.LedgerUnreadable("its first line is not a creation")
        return cls(first, created, fetch)

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
            epsilon_spent=account.epsilon_spent,
            charges=len(self.archive.charges) + len(self._charged),
            releases=len(self.archive.released) + len(self._released),
            analysts=tuple(purse.state for _, purse in sorted(account.purses.items())),
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
        charge = self.charge(receipt.id)
        if charge is None or charge.receipt != receipt:
            raise errors.ReceiptMismatch
        return charge

    def charge(self, receipt: str) -> ChargeState | None:
        """Return the status of the receipt with this id."""
        charge = self._charges.get(receipt)
        if charge is None and self.archive.answered(receipt):
            archived, release = self.archive.receipt(receipt), self.archive.release(receipt)
            return ChargeState(archived, self.archive.charges[receipt], redeemed=True, release=release)
        return charge

    def written(self, receipt: str) -> Receipt:
        """Return the receipt of a charge that was just written."""
        return self._charges[receipt].receipt

    def key(self, analyst: str | None, key: str | None) -> str | None:
        """Return the receipt that an analyst's key was charged under."""
        if key is None:
            return None
        return self._keys.get((analyst, key)) or self.archive.key(analyst, key)

    def answers(self, dataset: str, purpose: str, version: str) -> tuple[Release, ...]:
        """Return all answers to a question, oldest first."""
        asked = (dataset, purpose, version)
        return (*self.archive.answers(asked), *self._releases.get(asked, ()))

    def releases_after(self, seen: int) -> tuple[tuple[Receipt, Release], ...]:
        """Return the releases after the first `seen`, oldest first."""
        return self.releases_at(range(seen, len(self.archive.released) + len(self._released)))

    def releases_at(self, places: Sequence[int]) -> tuple[tuple[Receipt, Release], ...]:
        """Return the releases at these places, which ascend from 0."""
        archived = len(self.archive.released)
        new = (self._released[place - archived][0] for place in places if place >= archived)
        releases = [(self._charges[release.receipt].receipt, release) for release in new]
        old = places[: len(places) - len(releases)]
        return (*self.archive.read(old), *releases) if old else tuple(releases)

    def release_line(self, place: int) -> tuple[int, str] | None:
        """Return the number and the hash of the line of the release at a place, from 0; None if there is none."""
        archived = len(self.archive.released)
        rows = self.archive.released[place : place + 1] or self._released[max(0, place - archived) :][:1]
        return rows[0][1:] if rows else None

    def release_place(self, receipt: str) -> int | None:
        """Return the place of a receipt's release, from 0; None if it has none."""
        place = self.archive.place(receipt)
        if place is None:
            new = (number for number, entry in enumerate(self._released) if entry[0].receipt == receipt)
            place = next((len(self.archive.released) + number for number in new), None)
        return place

    def released_after(self, seen: int, asked: Charged) -> bool:
        """Return whether the same question was answered after the first `seen` releases."""
        question = (asked.dataset, asked.purpose, asked.version)
        if self._latest.get(question, 0) > seen:
            return True
        return seen < len(self.archive.released) and self.archive.latest(question) > seen

    def overlapped_after(self, seen: int, asked: Charged, overlaps: Overlaps) -> bool:
        """Return whether anything that may answer the same question was released after the first `seen` releases."""
        same = (asked.dataset, asked.version)
        return any((new.dataset, new.version) == same and overlaps(new.purpose) for new, _ in self.releases_after(seen))

    def unanswered(self, asked: Charged) -> Iterator[ChargeState]:
        """Yield the unanswered charges for exactly this request, oldest first: in progress, or lost."""
        for receipt in tuple(self._unanswered.get((asked.dataset, asked.purpose, asked.version, asked.event), ())):
            yield self._charges[receipt]

    def overlapping(self, asked: Charged, overlaps: Overlaps) -> Iterator[Receipt]:
        """Yield the unanswered charges for this question with other noise, or for what may answer it too."""
        for (dataset, purpose, version, event), receipts in self._unanswered.items():
            same = purpose == asked.purpose
            if (dataset, version) != (asked.dataset, asked.version):
                continue
            if event != asked.event if same else overlaps(purpose):
                yield from (self._charges[receipt].receipt for receipt in receipts)

    def charged_on(self, day: str, asked: Charged) -> Iterator[Event]:
        """Yield what was charged since a day began to the analyst of a charge, for the same dataset, newest first."""
        new = (id_ for id_ in reversed(self._charged) if self._charges[id_].receipt.analyst == asked.analyst)
        for id_ in chain(new, reversed(self.archive.charges)):
            number = self._charged.get(id_) or self.archive.charges[id_]
            if "" < day_of(self.archive.time(id_, number)) < day:
                return
            receipt = self._charges[id_].receipt if id_ in self._charged else self.archive.receipt(id_)
            if (receipt.analyst, receipt.dataset) == (asked.analyst, asked.dataset):
                yield receipt.event

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
                self._release(entry, own_hash)
            case entries.Checkpointed():
                self._check(entry)
            case entries.Upgraded():
                self._upgrade(entry)
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
                lost = {receipt: charge for receipt, charge in self._charges.items() if charge.release is None}
                self._charges |= {receipt: replace(charge, void=True) for receipt, charge in lost.items()}
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
        if self.key(entry.analyst, entry.key) is not None:
            raise InvalidArgument("key", entry.key, "it was charged before; write a new key")
        asked = {name: getattr(entry, name) for name in entries.ApprovalRequested.__slots__}
        self.guard.add(ApprovalRequest(id=own_hash, **asked, time=time))

    def _charge(self, entry: Charged, own_hash: str, time: str) -> None:
        if entry.dataset not in self.datasets:
            raise InvalidArgument("dataset", entry.dataset, "write the name of a dataset of this ledger")
        self.hold_open()
        self._same_relation(entry.event.neighbours)
        if self.key(entry.analyst, entry.key) is not None:
            raise InvalidArgument("key", entry.key, "a key names one question, once")
        watched = not self.guard.idle
        share = self.account.filter.least_share(self.account.spent, entry.event) if watched else Fraction(0)
        self.account.charge(entry.event, entry.analyst)
        if watched:
            self.guard.count(share, dataset=entry.dataset, analyst=entry.analyst, key=entry.key, time=time)
        if entry.key is not None:
            self._keys[entry.analyst, entry.key] = own_hash
        self._charged[own_hash] = self.number + 1
        self._charges[own_hash] = ChargeState(Receipt(own_hash, *entries.charge_fields(entry)), self.number + 1)
        self._unanswered[entry.dataset, entry.purpose, entry.version, entry.event][own_hash] = None

    def _same_relation(self, neighbours: Neighbours) -> None:
        if neighbours is not self.created.neighbours:
            accepted = f"this ledger counts under {self.created.neighbours.value}; the two relations are never mixed"
            raise InvalidArgument("event", neighbours.value, accepted)

    def _redeem(self, entry: entries.Redeemed) -> None:
        charge = self._known(entry.receipt, entry.charge)
        _hold_unused(charge, used=charge.redeemed or charge.armed > 0)
        self.hold_open()
        self._charges[entry.receipt] = replace(charge, redeemed=True)

    def _arm(self, entry: entries.WatchArmed) -> None:
        charge = self._known(entry.receipt, entry.charge)
        if not (entry.fresh or charge.armed):
            raise errors.ReceiptMismatch
        _hold_unused(charge, used=charge.redeemed)
        self.hold_open()
        drawn = charge.thresholds + entry.fresh
        self._charges[entry.receipt] = replace(charge, number=self.number + 1, armed=charge.armed + 1, thresholds=drawn)

    def _unanswer(self, entry: entries.ReadFailed) -> None:
        charge = self._known(entry.receipt, entry.charge, redeemed=True)
        _hold_unused(charge, used=charge.release is not None or charge.failures >= MOST_FAILURES)
        again = replace(charge, number=self.number + 1, redeemed=False, failures=charge.failures + 1)
        self._charges[entry.receipt] = again

    def _known(self, receipt: str, number: int, *, redeemed: bool = False) -> ChargeState:
        """Return the status of a receipt that line `number` permits to use; redeemed already, if it must be."""
        charge = self.charge(receipt)
        if charge is None or charge.number != number or charge.redeemed < redeemed:
            raise errors.ReceiptMismatch
        return charge

    def _release(self, entry: entries.Released, own_hash: str) -> None:
        release = entry.release
        charge = self._known(release.receipt, entry.charge, redeemed=True)
        _hold_unused(charge, used=charge.release is not None)
        self._charges[release.receipt] = replace(charge, release=release)
        receipt = charge.receipt
        asked = (receipt.dataset, receipt.purpose, receipt.version)
        self._releases[asked].append(release)
        self._released.append((release, self.number + 1, own_hash))
        self._latest[asked] = len(self.archive.released) + len(self._released)
        waiting = self._unanswered.get((*asked, receipt.event), {})
        waiting.pop(release.receipt, None)
        if not waiting:
            self._unanswered.pop((*asked, receipt.event), None)

    # --- Checkpoints. ---

    @property
    def due(self) -> int:
        """How many lines there are after the last checkpoint; 0 where the format has none."""
        return self.number - self.checkpoint if self.format >= CHECKPOINT_FORMAT else 0

    def next_checkpoint(self) -> entries.Checkpointed:
        """Return the entry that a checkpoint would be now."""
        return entries.Checkpointed(state_digest(self._digest, self._state()))

    def _check(self, entry: entries.Checkpointed) -> None:
        """Compute the state that a checkpoint says, and keep what was answered in the archive."""
        if self.format < CHECKPOINT_FORMAT:
            raise InvalidArgument("entry", "checkpoint", f"a ledger of format {self.format} has none")
        text = self._state()
        digest = state_digest(self._digest, text)
        if digest != entry.digest:
            raise InvalidArgument("digest", entry.digest, f"the lines before it give {digest}")
        self._settle(json.loads(text))
        self.checkpoint, self._digest = self.number + 1, digest
        self.on_checkpoint(self.checkpoint, text)

    def _upgrade(self, entry: entries.Upgraded) -> None:
        if entry.format > entries.FORMAT:
            raise entries.UnknownEntry
        if entry.format != self.format + 1:
            raise InvalidArgument("format", entry.format, f"the next one is {self.format + 1}")
        self.format = entry.format

    def _state(self) -> str:
        """Return the state in its canonical form: totals and unanswered charges in full, answers that are new."""
        waiting = [
            [each.receipt.id, each.number, each.redeemed, each.failures, each.void, each.armed, each.thresholds]
            for each in self._charges.values()
            if each.release is None
        ]
        counted = [[event_to_json(event), times] for event, times in self.account.events.fresh.items()]
        state = {
            "state": 1,
            "number": self.number,
            "head": self.head,
            "first": self._first,
            "format": self.format,
            "account": checkpoint.account_to_json(self.account),
            "guard": checkpoint.guard_to_json(self.guard),
            "datasets": list(self.datasets.items()),
            "closed": self.closed,
            "waiting": waiting,
            "events": sorted(counted),
            "charged": [checkpoint.charge_row(self._charges[id_].receipt, at) for id_, at in self._charged.items()],
            "released": [[release.receipt, number, line_hash] for release, number, line_hash in self._released],
        }
        return json.dumps(state, sort_keys=True, separators=(",", ":"))

    def _settle(self, state: checkpoint.Json) -> None:
        """Move what a state says was answered to the archive."""
        self.archive.add(state["charged"], state["released"])
        self.account.events.settle((text, times) for text, times in state["events"])
        for receipt, _, _ in state["released"]:
            self._charges.pop(receipt, None)
        for new in (self._charged, self._keys, self._releases, self._released, self._latest):
            new.clear()

    def _resume(self, state: checkpoint.Json, digest: str) -> None:
        """Set everything that is not in the archive to what a state says."""
        self._digest = digest
        tally = self.account.events
        self.account = checkpoint.account_from_json(state["account"], self.account)
        self.account.events = tally
        self.guard = checkpoint.guard_from_json(state["guard"])
        self.datasets, self.closed, self.format = dict(state["datasets"]), state["closed"], state["format"]
        for id_, number, redeemed, failures, void, armed, thresholds in state["waiting"]:
            receipt = self.archive.receipt(id_)
            charge = ChargeState(receipt, number, redeemed, failures, None, void, armed, thresholds)
            self._charges[id_] = charge
            if not void:
                self._unanswered[receipt.dataset, receipt.purpose, receipt.version, receipt.event][id_] = None


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
