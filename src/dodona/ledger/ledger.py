"""The ledger: an append-only, hash-chained account of one privacy budget, over any store.

Whatever a method returns was durable before it returned. Threads may share a ledger; a forked process opens its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Self, cast

from dodona.errors import DodonaError, InvalidArgument, Unavailable
from dodona.ledger.account import enlarge_budget, enlarge_limit
from dodona.ledger.book import MOST_FAILURES, Book, BudgetState, ChargeState
from dodona.ledger.entries import (
    AnalystAdmitted,
    AnalystStopped,
    BudgetRaised,
    Charged,
    Entry,
    LedgerClosed,
    ReadFailed,
    Receipt,
    Redeemed,
    Release,
    Released,
    SchemaDeclared,
    WatchArmed,
    WatchUsage,
    validate_event,
    validate_optional_texts,
    validate_text,
)
from dodona.ledger.errors import (
    AnswerInterrupted,
    AskedElsewhere,
    KeyReused,
    LedgerBusy,
    LedgerRolledBack,
    ReceiptMismatch,
)
from dodona.ledger.head import Head
from dodona.ledger.keeper import Act, Keeper, Write, chain_contains
from dodona.ledger.store import Line, Reservation, Store
from dodona.numbers import Exact
from dodona.privacy.accountants import Shares
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.events import Event

_LONGEST_RECORD = 1 << 26
PATIENCE = 300.0
"""How many seconds one waits for an answer that another caller is getting."""
_SHORTEST_PAUSE = 0.005
_LONGEST_PAUSE = 0.1


class Ledger:
    """The account of one budget, in any store. Whatever a method returns was durable before it returned.

    After a failed write the object refuses everything: open the ledger again. Threads may share it; a forked process
    must open its own.
    """

    def __init__(self, keeper: Keeper, *, dataset: str | None, patience: float = PATIENCE) -> None:
        """Take the keeper of the book, and the dataset that questions are about where there are several.

        `patience` is how many seconds one waits for an answer that another caller is getting.
        """
        self._keeper = keeper
        self._dataset = dataset
        self._patience = patience
        self._unrecorded: dict[str, Release] = {}

    def reserve(
        self,
        event: Event,
        *,
        analyst: str | None,
        key: str | None,
        purpose: str,
        version: str,
    ) -> Receipt:
        """Charge an event for a question and return the receipt; the same key and question is charged once.

        Raises BudgetExhausted or NotPermitted, and KeyReused where the key belongs to another question.
        """
        validate_event(event)
        validate_optional_texts(analyst=analyst, key=key)
        purpose, version = validate_text("purpose", purpose), validate_text("version", version)

        def act(book: Book, write: Write) -> Receipt:
            wanted = Charged(self._one(book), analyst, key, purpose, version, event)
            found = _find_by_key(book, wanted)
            return self._written(book, write, wanted) if found is None else found.receipt

        return cast("Receipt", self._keeper.run(act))

    def reserve_once(  # noqa: PLR0913  each is a word of the entry
        self,
        event: Event,
        *,
        analyst: str | None,
        key: str | None,
        purpose: str,
        version: str,
        seen: int | None,
    ) -> Reservation | None:
        """Charge an event for a question, unless the same is being answered or was after the first `seen` releases.

        Then it waits until that is done, and returns None: look at the releases again. A charge for the same that
        nobody used, as its caller died, is taken over instead of a new one. Without `seen` a new measurement is wanted
        whatever others ask. Whoever gets a reservation lets go of its receipt at the end. Raises AskedElsewhere where
        the wait is too long.
        """
        validate_event(event)
        validate_optional_texts(analyst=analyst, key=key)
        purpose, version = validate_text("purpose", purpose), validate_text("version", version)

        def act(book: Book, write: Write) -> Reservation | str | None:
            wanted = Charged(self._one(book), analyst, key, purpose, version, event)
            own = _find_by_key(book, wanted)
            if own is not None:
                return self._again(own)
            if seen is not None:
                if book.released_after(seen, wanted):
                    return None
                book.hold_spending(analyst)
                for other in book.unanswered(wanted):
                    if other.redeemed and not self._keeper.held(other.receipt.id):
                        continue  # its answer was lost: nothing can be had for that charge any more
                    if other.redeemed or not self._keeper.hold(other.receipt.id):
                        return other.receipt.id
                    return Reservation(other.receipt, taken_over=True)
            return Reservation(self._written(book, write, wanted), taken_over=False)

        found = self._keeper.run(act)
        if isinstance(found, str):
            self._wait(found)
            return None
        return cast("Reservation | None", found)

    def let_go(self, receipt: Receipt) -> None:
        """End what a reservation began, answered or not: whoever waits for it goes on."""
        self._keeper.let_go(receipt.id)

    def wait_for(self, receipt: Receipt) -> None:
        """Wait while anybody is answering under a receipt; raises AskedElsewhere where that takes too long."""
        self._wait(receipt.id)

    def redeem(self, receipt: Receipt) -> None:
        """Use a receipt, once: ReceiptReused the second time, ReceiptMismatch where it is not of this ledger."""

        def act(book: Book, write: Write) -> None:
            write(Redeemed(receipt.id, book.charge_of(receipt).number))

        if type(receipt) is not Receipt or self._dataset not in {None, receipt.dataset}:
            raise ReceiptMismatch
        self._run_charged(act)

    def arm(self, receipt: Receipt, *, fresh: bool) -> WatchUsage:
        """Arm a watch for one more alert, durably, and return what it has used with that; instead of `redeem`.

        `fresh` where noise for its threshold is drawn anew, as it must be the first time.
        """

        def act(book: Book, write: Write) -> WatchUsage:
            charge = book.charge_of(receipt)
            book.hold_spending(receipt.analyst)
            write(WatchArmed(receipt.id, charge.number, fresh))
            return _watch_usage(book.charge_of(receipt))

        return cast("WatchUsage", self._run_charged(act))

    def armings(self, receipt: Receipt) -> WatchUsage:
        """Return what a watch has used, whichever process used it."""
        return self._keeper.read(lambda book, _, __: _watch_usage(book.charge_of(receipt)))

    def unanswered(self, receipt: Receipt) -> None:
        """Let a used receipt be used again, under which nothing was read or drawn; the last time it stays used."""

        def act(book: Book, write: Write) -> None:
            charge = book.charge_of(receipt)
            if charge.failures < MOST_FAILURES:
                write(ReadFailed(receipt.id, charge.number))

        self._run_charged(act)
        self._keeper.let_go(receipt.id)

    def record(self, release: Release) -> None:
        """Store what a redeemed receipt bought, once, before it is shown."""
        if type(release) is not Release:
            raise InvalidArgument("release", release, "write a Release")
        validate_text("mechanism", release.mechanism, longest=_LONGEST_RECORD)
        for name, text in (("question", release.question), ("text", release.text)):
            if text is not None:
                validate_text(name, text, longest=_LONGEST_RECORD)
        validate_text("receipt", release.receipt)

        def act(book: Book, write: Write) -> None:
            charge = book.charges.get(release.receipt)
            if charge is None:
                raise ReceiptMismatch
            if not again or charge.release != release:  # where the first try was kept and nobody heard of it
                write(Released(release, charge.number))

        again = self._unrecorded.get(release.receipt) == release
        self._unrecorded[release.receipt] = release
        self._run_charged(act)
        del self._unrecorded[release.receipt]
        self._keeper.let_go(release.receipt)

    def released(self, purpose: str, version: str) -> tuple[Release, ...]:
        """Return all answers to a question on a version of the data, oldest first; replaying them is free."""
        return self._keeper.read(lambda book, _, __: tuple(book.releases.get((self._one(book), purpose, version), ())))

    def releases(self, *, after: int = 0) -> tuple[tuple[Receipt, Release], ...]:
        """Return what was released, oldest first, without the first `after` releases."""
        return self._keeper.read(
            lambda book, _, __: tuple(
                (book.charges[release.receipt].receipt, release) for release in book.released[after:]
            )
        )

    def share(self, event: Event) -> Fraction:
        """Return which part of the whole budget an event takes."""
        return self._keeper.read(lambda book, _, __: book.account.filter.least_share(book.account.spent, event))

    def shares(self, event: Event) -> Shares:
        """Return which part of each account that still counts an event takes."""
        return self._keeper.read(lambda book, _, __: book.account.filter.shares(book.account.spent, event))

    def left(self, *, analyst: str | None) -> Fraction:
        """Return which part of the whole budget the analyst may still spend."""
        return self._keeper.read(lambda book, _, __: book.account.left(analyst))

    def permit(self, analyst: str | None) -> None:
        """Raise NotPermitted where analysts are declared and this is none of them; one who was stopped may still read.

        Strangers see nothing: neither answers nor prices nor the history.
        """
        self._keeper.read(lambda book, _, __: book.account.permit(analyst))

    def fetch(self, key: str, *, analyst: str | None) -> Release | None:
        """Return the answer that was recorded under an analyst's key; None where none was paid for and begun.

        Raises AnswerInterrupted where the receipt was used and no answer is recorded.
        """
        charge = self._charge(key, analyst)
        if charge is not None and charge.redeemed and charge.release is None:
            kept = self._unrecorded.get(charge.receipt.id)
            if kept is None:
                raise AnswerInterrupted
            self.record(kept)  # it was drawn, and the ledger could not be written just then
            return kept
        return None if charge is None else charge.release

    def receipt(self, key: str, *, analyst: str | None) -> Receipt | None:
        """Return the receipt of an analyst's key."""
        charge = self._charge(key, analyst)
        return None if charge is None else charge.receipt

    def state(self) -> BudgetState:
        """Return what was spent and what is left."""
        return self._keeper.read(lambda book, _, __: book.state())

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return self._keeper.read(lambda book, _, __: book.account.budget)

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return self._keeper.read(lambda book, _, __: book.head)

    def lines(self) -> Sequence[Line]:
        """Return the whole chain."""
        return self._keeper.read(lambda _, store, __: store.lines(0))

    def verify(self) -> BudgetState:
        """Return the state, having computed every hash and every total anew from what is stored."""
        return self._keeper.read(_verified_state)

    def raise_budget(self, epsilon: Exact, delta: Exact) -> None:
        """Allow a larger total; the order of the first budget is kept."""

        def act(book: Book, write: Write) -> None:
            book.hold_open()
            budget = enlarge_budget(book.account.budget, epsilon, delta)
            write(BudgetRaised(budget.epsilon, budget.delta, enlarge_limit(book.account.filter, budget)))

        self._keeper.run(act)

    def admit(self, analyst: Analyst) -> None:
        """Let an analyst in, or change a share."""
        self._write(AnalystAdmitted(analyst))

    def stop(self, analyst: str) -> None:
        """Let an analyst spend no more."""
        self._write(AnalystStopped(validate_text("analyst", analyst)))

    def declare(self, dataset: str, schema: str, *, head: str | None = None) -> None:
        """Add a table of the same people, or write down the new digest of a schema that got more columns.

        With the head that the decision was made on: LedgerBusy if anything was written since.
        """
        self._write(SchemaDeclared(validate_text("dataset", dataset), validate_text("schema", schema)), head=head)

    def datasets(self) -> dict[str, str]:
        """Return the digest of the schema that each dataset is bound to."""
        return self._keeper.read(lambda book, _, __: dict(book.datasets))

    @property
    def cap_key(self) -> bytes:
        """What chooses which rows of a person count, fixed for ever: for sources alone, never to be shown."""
        return self._keeper.read(lambda book, _, __: book.cap_key)

    def end(self) -> None:
        """Close the account for ever; answers can still be fetched."""
        self._write(LedgerClosed())

    def close(self) -> None:
        """Let go of files and connections; the account goes on when it is opened again."""
        self._keeper.close()

    def __enter__(self) -> Self:
        """Return the ledger."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of files and connections."""
        self.close()

    def _written(self, book: Book, write: Write, wanted: Charged) -> Receipt:
        """Return the receipt of a new charge, held: until it is let go of, nobody else uses it."""
        receipt = book.charges[write(wanted).hash].receipt
        try:
            self._keeper.hold(receipt.id)
        except DodonaError as fault:
            raise fault.after_charge() from None
        return receipt

    def _again(self, own: ChargeState) -> Reservation | str | None:
        """Return what a key that was charged before gets: its receipt, if nobody is using it."""
        receipt = own.receipt.id
        if own.release is not None:
            return None
        if own.redeemed:
            if self._keeper.held(receipt):
                return receipt
            raise AnswerInterrupted
        return Reservation(own.receipt, taken_over=False) if self._keeper.hold(receipt) else receipt

    def _wait(self, receipt: str) -> None:
        """Wait while anybody holds a receipt: woken by threads of this process, and looking now and then for others."""
        until, pause = time.monotonic() + self._patience, _SHORTEST_PAUSE
        while self._keeper.read(lambda *_: self._keeper.held(receipt)):
            if time.monotonic() > until:
                raise AskedElsewhere
            self._keeper.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _run_charged(self, act: Act) -> object:
        """Run an act upon something that was charged: whatever fails, the charge stands."""
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
                raise LedgerBusy
            write(entry)

        self._keeper.run(act)

    def _charge(self, key: str, analyst: str | None) -> ChargeState | None:
        def find(book: Book, *_: object) -> ChargeState | None:
            known = book.keys.get((analyst, key))
            return None if known is None else book.charges.get(known)

        return self._keeper.read(find)

    def _one(self, book: Book) -> str:
        if self._dataset is not None:
            return self._dataset
        names = tuple(book.datasets)
        if len(names) > 1:
            raise InvalidArgument("dataset", None, f"open the ledger for one of its datasets: {', '.join(names)}")
        return names[0]


def _find_by_key(book: Book, wanted: Charged) -> ChargeState | None:
    """Return what was charged under a key, which must be for the same."""
    known = None if wanted.key is None else book.keys.get((wanted.analyst, wanted.key))
    if known is None:
        return None
    found = book.charges.get(known)
    if found is None or _charge_entry(found.receipt) != wanted:
        raise KeyReused(str(wanted.key))
    return found


def _watch_usage(charge: ChargeState) -> WatchUsage:
    return WatchUsage(charge.armed, charge.thresholds)


def _charge_entry(receipt: Receipt) -> Charged:
    """Return the entry that a receipt was written for."""
    return Charged(receipt.dataset, receipt.analyst, receipt.key, receipt.purpose, receipt.version, receipt.event)


def _verified_state(book: Book, store: Store, head: Head) -> BudgetState:
    store.check()
    mark = head.read()
    lines = store.lines(0)
    found = Book.read(lines)
    if found.number < book.number or lines[book.number].hash != book.head or not chain_contains(lines, mark):
        raise LedgerRolledBack
    return found.state()
