"""The ledger: an append-only, hash-chained account of one privacy budget, over any store.

Every method returns only what is already durable. Threads may share a ledger; a forked process opens its own.
"""

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Self, cast

from dodona.errors import DodonaError, InvalidArgument, Unavailable
from dodona.ledger import entries, errors
from dodona.ledger.account import enlarge_budget, enlarge_limit
from dodona.ledger.book import MOST_FAILURES, Book, ChargeState
from dodona.ledger.entries import Charged, Entry, Line, Receipt, Release
from dodona.ledger.head import Head
from dodona.ledger.keeper import Act, Keeper, Write, chain_contains
from dodona.ledger.limits import Allowance, ApprovalRequest, Limits, day_of
from dodona.ledger.store import Overlaps, Reservation, Store, nothing_overlaps
from dodona.numbers import Exact
from dodona.privacy.accountants import Shares
from dodona.privacy.budget import Analyst, Budget, BudgetState, Price
from dodona.privacy.events import Event

_LONGEST_RECORD = 1 << 26
PATIENCE = 300.0
"""How many seconds to wait for an answer that is being computed for another caller."""
_SHORTEST_PAUSE = 0.005
_LONGEST_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class LedgerView:
    """What a question needs to know of the ledger, as of one of its lines."""

    head: str
    """The hash of that line."""
    released: tuple[tuple[Receipt, Release], ...]
    """The releases that are new to the reader, oldest first."""


@dataclass(frozen=True, slots=True)
class Quote:
    """What an event takes of the budget, and what one call may take, as of one moment."""

    price: Price
    allowance: Allowance | None
    """By the owner's limits; None if there are none."""


@dataclass(frozen=True, slots=True)
class PriceList:
    """What an analyst may still spend and what events take, as of one moment: whoever plans reads it once."""

    left: Fraction
    """The share of the whole budget that the analyst may still spend."""
    allowance: Allowance | None
    """What one call may take by the owner's limits; None if there are none."""
    shares: Callable[[Event], Shares]
    """The share that an event takes of each account that still counts."""
    share: Callable[[Event], Fraction]
    """The share of the whole budget that an event takes: the smaller of the two."""

    def allowed(self, max_price: Fraction) -> Fraction:
        """Return the budget share a call may take: the least of its maximum price, the owner's limits and the rest."""
        left = min(max_price, self.left)
        return left if self.allowance is None else min(left, self.allowance.share)


class Ledger:
    """The account of one budget, in any store. Every method returns only what is already durable.

    After a failed write the object refuses everything: reopen the ledger. Threads may share it; a forked process
    must open its own.
    """

    def __init__(
        self, keeper: Keeper, *, dataset: str | None, patience: float = PATIENCE, beside: Path | None = None
    ) -> None:
        """Take the keeper of the book, and the dataset of the questions if there are several.

        `patience` is how many seconds to wait for an answer that is being computed for another caller. What is computed
        from the lines may be kept in files whose paths begin like `beside`.
        """
        self.beside = beside
        self._keeper = keeper
        self._dataset = dataset
        self._patience = patience
        self._unrecorded: dict[str, Release] = {}
        self._max_day: Fraction | None = None

    def within_day(self, max_day: Fraction) -> Self:
        """Return this ledger for a caller who may not have spent more than a share of the budget on a day (UTC).

        What the same analyst spends in any other way counts too. Like the owner's limits, it is held to when a charge
        is written, so that no two callers can each take what is left.

        Theorem: agent-spending
        """
        ledger = copy(self)
        ledger._max_day = max_day  # noqa: SLF001  of its own class
        return ledger

    def reserve(self, event: Event, *, analyst: str | None, key: str | None, purpose: str, version: str) -> Receipt:
        """Charge an event for a question and return the receipt; the same key and question are charged once.

        Raises BudgetExhausted or NotPermitted, and KeyReused if the key belongs to another question.
        """
        asked = self._make_charge(event, analyst, key, purpose, version)

        def act(book: Book, write: Write) -> Receipt:
            wanted = asked(book)
            charge = _find_by_key(book, wanted)
            return self._write_charge(book, write, wanted) if charge is None else charge.receipt

        return cast("Receipt", self._keeper.run(act))

    def reserve_once(  # noqa: PLR0913  each is a field of the entry
        self,
        event: Event,
        *,
        analyst: str | None,
        key: str | None,
        purpose: str,
        version: str,
        seen: int | None,
        overlaps: Overlaps = nothing_overlaps,
    ) -> Reservation | None:
        """Charge an event for a question, unless it is being answered or was answered after the first `seen` releases.

        In that case wait until the answer is done and return None: the caller should look at the releases again. So it
        is for a charge whose purpose `overlaps`: as it takes its share, two callers may plan the same question
        differently. An unused charge for exactly the same, whose caller died, is taken over instead of charging again.
        Without `seen`, a new measurement is made regardless of other callers. The caller must release the reservation's
        receipt with `let_go`. Raises AskedElsewhere if the wait is too long.
        """
        asked = self._make_charge(event, analyst, key, purpose, version)

        def act(book: Book, write: Write) -> Reservation | str | None:
            wanted = asked(book)
            charge = _find_by_key(book, wanted)
            if charge is not None:
                return self._again(charge)
            if seen is not None:
                if book.released_after(seen, wanted) or book.overlapped_after(seen, wanted, overlaps):
                    return None
                book.hold_spending(analyst)
                for other in book.unanswered(wanted):
                    if other.redeemed and not self._keeper.held(other.receipt.id):
                        continue  # its answer was lost: that charge can no longer buy anything
                    if other.redeemed or not self._keeper.hold(other.receipt.id):
                        return other.receipt.id
                    return Reservation(other.receipt, taken_over=True)
                others = (receipt.id for receipt in book.overlapping(wanted, overlaps))
                waited = next(filter(self._keeper.held, others), None)
                if waited is not None:
                    return waited
            return Reservation(self._write_charge(book, write, wanted), taken_over=False)

        outcome = self._keeper.run(act)
        if isinstance(outcome, str):
            self._wait(outcome)
            return None
        return cast("Reservation | None", outcome)

    def let_go(self, receipt: Receipt) -> None:
        """End a reservation, answered or not, and wake those who wait for it."""
        self._keeper.let_go(receipt.id)

    def wait_for(self, receipt: Receipt) -> None:
        """Wait while any caller is answering under a receipt; raises AskedElsewhere if that takes too long."""
        self._wait(receipt.id)

    def redeem(self, receipt: Receipt) -> None:
        """Use a receipt, once: ReceiptReused the second time, ReceiptMismatch if it is not from this ledger."""

        def act(book: Book, write: Write) -> None:
            write(entries.Redeemed(receipt.id, book.charge_of(receipt).number))

        if type(receipt) is not Receipt or self._dataset not in {None, receipt.dataset}:
            raise errors.ReceiptMismatch
        self._run_charged(act)

    def arm(self, receipt: Receipt, *, fresh: bool) -> entries.WatchUsage:
        """Arm a watch durably for one more alert, and return its usage including this one; replaces `redeem`.

        `fresh` if new threshold noise is drawn, as it must be the first time.
        """

        def act(book: Book, write: Write) -> entries.WatchUsage:
            charge = book.charge_of(receipt)
            book.hold_spending(receipt.analyst)
            write(entries.WatchArmed(receipt.id, charge.number, fresh))
            return _watch_usage(book.charge_of(receipt))

        return cast("entries.WatchUsage", self._run_charged(act))

    def armings(self, receipt: Receipt) -> entries.WatchUsage:
        """Return the usage of a watch over all processes."""
        return self._keeper.read(lambda book, _, __: _watch_usage(book.charge_of(receipt)))

    def unanswered(self, receipt: Receipt) -> None:
        """Let a receipt be reused if nothing was read or drawn under it; the last time it stays used."""

        def act(book: Book, write: Write) -> None:
            charge = book.charge_of(receipt)
            if charge.failures < MOST_FAILURES:
                write(entries.ReadFailed(receipt.id, charge.number))

        self._run_charged(act)
        self._keeper.let_go(receipt.id)

    def record(self, release: Release) -> None:
        """Record the release of a redeemed receipt, once, before it is shown."""
        if type(release) is not Release:
            raise InvalidArgument("release", release, "write a Release")
        texts = {"mechanism": release.mechanism, "question": release.question, "text": release.text}
        entries.validate_texts(longest=_LONGEST_RECORD, **texts)
        entries.validate_text("receipt", release.receipt)

        def act(book: Book, write: Write) -> None:
            charge = book.charge(release.receipt)
            if charge is None:
                raise errors.ReceiptMismatch
            if not again or charge.release != release:  # unless a failed attempt was durable after all
                write(entries.Released(release, charge.number))

        again = self._unrecorded.get(release.receipt) == release
        self._unrecorded[release.receipt] = release
        try:
            self._run_charged(act)
        except (
            errors.ReceiptMismatch,
            errors.ReceiptReused,
        ):  # refused for good: only what could not be written is kept
            self._unrecorded.pop(release.receipt, None)
            raise
        del self._unrecorded[release.receipt]
        self._keeper.let_go(release.receipt)

    def released(self, purpose: str, version: str) -> tuple[Release, ...]:
        """Return all answers to a question on a version of the data, oldest first; replaying them is free."""
        return self._keeper.read(lambda book, _, __: book.answers(self._one(book), purpose, version))

    def releases(self, *, after: int = 0) -> tuple[tuple[Receipt, Release], ...]:
        """Return all releases, oldest first, skipping the first `after`."""
        return self._keeper.read(lambda book, _, __: book.releases_after(after))

    def releases_at(self, places: Sequence[int]) -> tuple[tuple[Receipt, Release], ...]:
        """Return the releases at these places, which ascend from 0."""
        return self._keeper.read(lambda book, _, __: book.releases_at(places))

    def release_line(self, place: int) -> tuple[int, str] | None:
        """Return the number and the hash of the line of the release at a place, from 0; None if there is none."""
        return self._keeper.read(lambda book, _, __: book.release_line(place))

    def release_place(self, receipt: str) -> int | None:
        """Return the place of a receipt's release, from 0; None if it has none."""
        return self._keeper.read(lambda book, _, __: book.release_place(receipt))

    def look(self, *, analyst: str | None, after: int) -> LedgerView:
        """Return what an analyst's question needs, all from one moment: the releases after the first `after`.

        Raises NotPermitted as `permit` does.
        """

        def view(book: Book, *_: object) -> LedgerView:
            book.account.permit(analyst)
            return LedgerView(book.head, book.releases_after(after))

        return self._keeper.read(view)

    def share(self, event: Event) -> Fraction:
        """Return the share of the whole budget that an event takes."""
        return self.share_each((event,))[0]

    def share_each(self, events: Sequence[Event]) -> list[Fraction]:
        """Return the share of the whole budget that each of several events would take."""

        def shares(book: Book, *_: object) -> list[Fraction]:
            whole, spent = book.account.filter, book.account.spent
            return [whole.least_share(spent, event) for event in events]

        return self._keeper.read(shares)

    def shares(self) -> Callable[[Event], Shares]:
        """Return the share that any event takes now of each account that still counts."""
        return self._keeper.read(lambda book, _, __: partial(book.account.filter.shares, book.account.spent))

    def prices(self, *, analyst: str | None, key: str | None = None) -> PriceList:
        """Return what an analyst may still spend and what events take, all as of this moment."""

        def look(book: Book, *_: object) -> PriceList:
            account = book.account
            shares = partial(account.filter.shares, account.spent)
            return PriceList(
                account.left(analyst),
                self._allowance(book, analyst, key),
                shares,
                partial(account.filter.least_share, account.spent),
            )

        return self._keeper.read(look)

    def left(self, *, analyst: str | None) -> Fraction:
        """Return the share of the whole budget that the analyst may still spend."""
        return self._keeper.read(lambda book, _, __: book.account.left(analyst))

    def permit(self, analyst: str | None) -> None:
        """Raise NotPermitted if analysts are declared and this is not one of them; a stopped analyst may still read.

        Others see nothing: neither answers nor prices nor the history.
        """
        self._keeper.read(lambda book, _, __: book.account.permit(analyst))

    def hold_spending(self, analyst: str | None) -> None:
        """Raise NotPermitted if the analyst may not spend, whatever is left."""
        self._keeper.read(lambda book, _, __: book.hold_spending(analyst))

    def fetch(self, key: str, *, analyst: str | None) -> Release | None:
        """Return the answer recorded under an analyst's key; None if none was paid for and begun.

        Raises AnswerInterrupted if the receipt was used and no answer is recorded.
        """
        charge = self._charge(key, analyst)
        if charge is not None and charge.redeemed and charge.release is None:
            kept = self._unrecorded.get(charge.receipt.id)
            if kept is None:
                raise errors.AnswerInterrupted
            self.record(kept)  # it was drawn, but could not be written to the ledger at that time
            return kept
        return None if charge is None else charge.release

    def receipt(self, key: str, *, analyst: str | None) -> Receipt | None:
        """Return the receipt of an analyst's key."""
        charge = self._charge(key, analyst)
        return None if charge is None else charge.receipt

    def state(self) -> BudgetState:
        """Return what has been spent and what is left."""
        return self._keeper.read(lambda book, _, __: book.state())

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return self._keeper.read(lambda book, _, __: book.account.budget)

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return self._keeper.read(lambda book, _, __: book.head)

    @property
    def mark(self) -> tuple[str, int]:
        """The hash and the number of the last line."""
        return self._keeper.read(lambda book, _, __: (book.head, book.number))

    def lines(self, since: int = 0) -> Sequence[Line]:
        """Return the whole chain, or its lines from a number on."""
        return self._keeper.read(lambda _, store, __: store.lines(since))

    def verify(self) -> BudgetState:
        """Return the state, after recomputing every hash and every total from the store."""
        return self._keeper.read(_verified_state)

    def raise_budget(self, epsilon: Exact, delta: Exact) -> None:
        """Raise the budget; the order of the first budget is kept."""

        def act(book: Book, write: Write) -> None:
            book.hold_open()
            budget = enlarge_budget(book.account.budget, epsilon, delta)
            write(entries.BudgetRaised(budget.epsilon, budget.delta, enlarge_limit(book.account.filter, budget)))

        self._keeper.run(act)

    def admit(self, analyst: Analyst) -> None:
        """Admit an analyst, or change a share."""
        self._write(entries.AnalystAdmitted(analyst))

    def stop(self, analyst: str) -> None:
        """Stop an analyst from spending."""
        self._write(entries.AnalystStopped(entries.validate_text("analyst", analyst)))

    def declare(self, dataset: str, schema: str, *, head: str | None = None) -> None:
        """Add a table about the same people, or record the new digest of a schema that gained columns.

        `head` is the head that the decision was based on: raises LedgerBusy if anything was written since.
        """
        name, digest = entries.validate_text("dataset", dataset), entries.validate_text("schema", schema)
        self._write(entries.SchemaDeclared(name, digest), head=head)

    @property
    def limits(self) -> Limits:
        """The owner's limits on spending."""
        return self._keeper.read(lambda book, _, __: book.guard.limits)

    def set_limits(self, limits: Limits) -> None:
        """Set other limits on spending, from now on."""
        self._write(entries.LimitsSet(limits))

    def allowance(self, *, analyst: str | None, key: str | None = None) -> Allowance | None:
        """Return what one call may take by the owner's limits at this moment; None if there are none."""
        return self._keeper.read(lambda book, _, __: self._allowance(book, analyst, key))

    def quote(self, event: Event, *, analyst: str | None, key: str | None = None) -> Quote:
        """Return the price of an event and what one call may take, both from one moment."""

        def look(book: Book, *_: object) -> Quote:
            account, allowed = book.account, self._allowance(book, analyst, key)
            share = account.filter.least_share(account.spent, event)
            return Quote(Price(share, (event,), account.budget.delta), allowed)

        return self._keeper.read(look)

    def _allowance(self, book: Book, analyst: str | None, key: str | None) -> Allowance | None:
        if book.guard.idle:
            return None
        return book.guard.allowance(dataset=self._one(book), analyst=analyst, key=key, time=self._keeper.time())

    def request_approval(self, *, analyst: str, key: str, question: str, share: Fraction, text: str) -> ApprovalRequest:
        """Ask the owner to approve a question above a limit, and return the request; repeated, it is the same one."""
        entries.validate_texts(analyst=analyst, key=key, question=question)
        entries.validate_text("text", text, longest=_LONGEST_RECORD)

        def act(book: Book, write: Write) -> ApprovalRequest:
            known = book.guard.request_of(analyst, key)
            if known is not None and known.question == question:
                return known
            line = write(entries.ApprovalRequested(self._one(book), analyst, key, question, share, text))
            return book.guard.requests[line.hash]

        return cast("ApprovalRequest", self._keeper.run(act))

    def decide(self, request: str, *, granted: bool, by: str) -> ApprovalRequest:
        """Grant or decline a request, once; `by` is the owner who decides."""
        entries.validate_texts(request=request, by=by)

        def act(book: Book, write: Write) -> ApprovalRequest:
            book.hold_open()
            write(entries.ApprovalDecided(request, granted, by))
            return book.guard.requests[request]

        return cast("ApprovalRequest", self._keeper.run(act))

    def approval_requests(self) -> tuple[ApprovalRequest, ...]:
        """Return all requests for approval, oldest first."""
        return self._keeper.read(lambda book, _, __: tuple(book.guard.requests.values()))

    def approval(self, key: str, *, analyst: str | None) -> ApprovalRequest | None:
        """Return the request that an analyst made under a key."""
        return self._keeper.read(lambda book, _, __: book.guard.request_of(analyst, key))

    def datasets(self) -> dict[str, str]:
        """Return the schema digest of each dataset."""
        return self._keeper.read(lambda book, _, __: dict(book.datasets))

    @property
    def cap_key(self) -> bytes:
        """The permanent key that selects the rows of a person that count: for sources only, never to be shown."""
        return self._keeper.read(lambda book, _, __: book.cap_key)

    def end(self) -> None:
        """Close the account for ever; answers can still be fetched."""
        self._write(entries.LedgerClosed())

    def close(self) -> None:
        """Close files and connections; the account continues when it is reopened."""
        self._keeper.close()

    def __enter__(self) -> Self:
        """Return the ledger."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close files and connections."""
        self.close()

    def _make_charge(
        self, event: Event, analyst: str | None, key: str | None, purpose: str, version: str
    ) -> Callable[[Book], Charged]:
        """Return the charge that is asked for, given the book, after validating it."""
        entries.validate_event(event)
        entries.validate_texts(analyst=analyst, key=key)
        entries.validate_text("purpose", purpose)
        entries.validate_text("version", version)
        return lambda book: Charged(self._one(book), analyst, key, purpose, version, event)

    def _write_charge(self, book: Book, write: Write, wanted: Charged) -> Receipt:
        """Return the receipt of a new charge, locked: nobody else can use it until it is released."""
        if self._max_day is not None:
            self._hold_day(book, wanted, self._max_day)
        receipt = book.written(write(wanted).hash)
        try:
            self._keeper.hold(receipt.id)
        except DodonaError as fault:
            raise fault.after_charge() from None
        return receipt

    def _hold_day(self, book: Book, wanted: Charged, most: Fraction) -> None:
        """Refuse a charge that would leave more than this spent by its analyst today."""
        share = partial(book.account.filter.least_share, book.account.spent)
        today = book.charged_on(day_of(self._keeper.time()), wanted)
        price, left = share(wanted.event), most - sum(map(share, today), Fraction(0))
        if price > left:
            raise errors.DaySpent(price=price, most=max(Fraction(0), left))

    def _again(self, charge: ChargeState) -> Reservation | str | None:
        """Return a reservation for a key charged before, the receipt to wait for, or None if it has been answered."""
        receipt = charge.receipt.id
        if charge.release is not None:
            return None
        if charge.redeemed:
            if self._keeper.held(receipt):
                return receipt
            raise errors.AnswerInterrupted
        return Reservation(charge.receipt, taken_over=False) if self._keeper.hold(receipt) else receipt

    def _wait(self, receipt: str) -> None:
        """Wait while anybody has locked a receipt: threads of this process wake it, other processes are polled."""
        until, pause = time.monotonic() + self._patience, _SHORTEST_PAUSE
        while self._keeper.read(lambda *_: self._keeper.held(receipt)):
            if time.monotonic() > until:
                raise errors.AskedElsewhere
            self._keeper.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _run_charged(self, act: Act) -> object:
        """Run an act on something that was charged: whatever fails, the charge stands."""
        try:
            return self._keeper.run(act)
        except Unavailable as fault:
            if fault.charged:
                raise
            raise fault.after_charge() from None

    def _write(self, entry: Entry, *, head: str | None = None) -> None:
        def act(book: Book, write: Write) -> None:
            book.hold_open()
            if head not in {None, book.head}:
                raise errors.LedgerBusy
            write(entry)

        self._keeper.run(act)

    def _charge(self, key: str, analyst: str | None) -> ChargeState | None:
        def find(book: Book, *_: object) -> ChargeState | None:
            known = book.key(analyst, key)
            return None if known is None else book.charge(known)

        return self._keeper.read(find)

    def _one(self, book: Book) -> str:
        if self._dataset is not None:
            return self._dataset
        names = tuple(book.datasets)
        if len(names) > 1:
            raise InvalidArgument("dataset", None, f"open the ledger for one of its datasets: {', '.join(names)}")
        return names[0]


def _find_by_key(book: Book, wanted: Charged) -> ChargeState | None:
    """Return the charge under a key, which must be for the same request."""
    known = book.key(wanted.analyst, wanted.key)
    if known is None:
        return None
    charge = book.charge(known)
    if charge is None or _charge_entry(charge.receipt) != wanted:
        raise errors.KeyReused(str(wanted.key))
    return charge


def _watch_usage(charge: ChargeState) -> entries.WatchUsage:
    return entries.WatchUsage(charge.armed, charge.thresholds)


def _charge_entry(receipt: Receipt) -> Charged:
    """Return the charging entry of a receipt."""
    return Charged(*entries.charge_fields(receipt))


def _verified_state(book: Book, store: Store, head: Head) -> BudgetState:
    store.check()
    mark = head.read()
    lines = store.lines(0)
    verified = Book.read(lines)
    if verified.number < book.number or lines[book.number].hash != book.head or not chain_contains(lines, mark):
        raise errors.LedgerRolledBack
    return verified.state()
