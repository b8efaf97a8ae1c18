"""The keeper of a book: nothing is told that is not durable, and after one failed write nothing is told at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from threading import Condition, RLock
from typing import TypeVar, cast

from dodona.errors import DodonaError, InvalidRequest, Refused
from dodona.ledger.book import Book
from dodona.ledger.chain import Line
from dodona.ledger.entry import Entry
from dodona.ledger.faults import (
    HeadMissing,
    LedgerBusy,
    LedgerForbidden,
    LedgerNewer,
    LedgerRolledBack,
    LedgerUnavailable,
    LedgerUnreadable,
)
from dodona.ledger.group import Group, Ticket
from dodona.ledger.head import Head, Mark
from dodona.ledger.store import Store

Clock = Callable[[], datetime]
Write = Callable[[Entry], Line]
Act = Callable[[Book, Write], object]
"""Looks at the book and writes at most one entry; what it returns is handed over after the commit."""
Found = TypeVar("Found")


def utc() -> datetime:
    """Return the time of this machine, which is written down and never relied on."""
    return datetime.now(UTC)


class Keeper:
    """A book, the store that its lines are in and the head outside. Threads share it; a forked process may not."""

    def __init__(
        self, store: Store, head: Head, book: Book, *, clock: Clock, again: Callable[[], Store] | None = None
    ) -> None:
        """Take a book that was read from the store and found to contain the head.

        With `again` a store that could not be reached is opened anew before the next use, and verified as at first.
        """
        self._again = again
        self._lost = False
        self._known = Mark(book.number, book.head)
        self._store = store
        self._head = head
        self._book = book
        self._clock = clock
        self._broken = False
        self._process = os.getpid()
        self._guard = RLock()
        self._group: Group[Act] = Group(self._serve)
        self._holds: set[str] = set()
        self._ended = Condition()

    def run(self, act: Act) -> object:
        """Return what an act returns, once what it wrote is durable."""
        return self._group.run(act)

    def read(self, look: Callable[[Book, Store, Head], Found]) -> Found:
        """Return what is seen in the book, brought up to what other processes wrote."""
        with self._guard:
            self._usable()
            try:
                self._follow(self._store.lines(self._book.number))
                self._known = Mark(self._book.number, self._book.head)
                return look(self._book, self._store, self._head)
            except (LedgerBusy, InvalidRequest, Refused):
                raise
            except BaseException as fault:
                raise self._fail(fault, charged=False) from fault

    def hold(self, receipt: str) -> bool:
        """Hold a receipt against all other threads and processes; returns whether. Acts may call it."""
        with self._guard:
            if receipt in self._holds or not self._store.holds.hold([receipt]):
                return False
            self._holds.add(receipt)
            return True

    def held(self, receipt: str) -> bool:
        """Return whether any thread or process holds a receipt. Acts may call it."""
        with self._guard:
            return receipt in self._holds or self._store.holds.held(receipt)

    def let_go(self, receipt: str) -> None:
        """Let go of a receipt, whatever became of the ledger, and wake those who wait for it."""
        with self._guard, suppress(Exception):  # a store that failed has let go of everything already
            if receipt in self._holds and self._process == os.getpid():
                self._holds.discard(receipt)
                self._store.holds.let_go(receipt)
        with self._ended:
            self._ended.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until somebody in this process lets go of a receipt, at most so long."""
        with self._ended:
            self._ended.wait(seconds)

    def close(self) -> None:
        """Let go of the store, unless it belongs to the process that this one was forked from."""
        with self._guard:
            self._broken, self._lost = True, False
            if self._process == os.getpid():
                self._let_go_of_all()
                self._store.close()

    def _serve(self, batch: list[Ticket[Act]]) -> None:
        """Decide upon all requests in order, make the outcome durable, then move the head."""
        appended: list[Line] = []

        def write(entry: Entry) -> Line:
            appended.append(self._book.write(entry, time=time))
            return appended[-1]

        def decide(lines: Sequence[Line]) -> Sequence[Line]:
            self._follow(lines)
            for ticket in batch:
                try:
                    ticket.answer = ticket.request(self._book, write)
                except DodonaError as refusal:
                    ticket.fault = refusal
            return appended

        with self._guard:
            self._usable()
            time = self._clock().isoformat()
            try:
                self._store.append(self._book.number, decide)
                self._known = Mark(self._book.number, self._book.head)
                if appended:
                    self._head.advance(self._known)
            except BaseException as fault:
                if isinstance(fault, LedgerBusy) and not appended:
                    raise
                raise self._fail(fault, charged=bool(appended)) from fault

    def _follow(self, lines: Sequence[Line]) -> None:
        """Take in what others wrote; the line that was last here must still be there."""
        if not lines or (lines[0].number, lines[0].hash) != (self._book.number, self._book.head):
            raise LedgerRolledBack
        self._book.follow(lines[1:])

    def _let_go_of_all(self) -> None:
        with suppress(Exception):  # a store that failed may not be able to, and its locks end with it
            for receipt in self._holds:
                self._store.holds.let_go(receipt)
        with suppress(Exception):
            self._store.holds.close()
        self._holds.clear()
        with self._ended:
            self._ended.notify_all()

    def _usable(self) -> None:
        if self._process == os.getpid() and self._lost:
            self._reopen()
        if self._broken or self._process != os.getpid():
            raise LedgerUnavailable

    def _reopen(self) -> None:
        """Read the whole ledger anew from a store that is back; it must hold the head, and all that was told here."""
        if self._again is None:
            return
        store = self._again()
        try:
            store.check()
            mark, lines = self._head.read(), store.lines(0)
            book = Book.read(lines)
        except BaseException:
            store.close()
            raise
        if not contains(lines, mark) or not contains(lines, self._known):
            self._lost = False
            store.close()
            raise LedgerRolledBack
        with suppress(Exception):
            self._store.close()
        self._store, self._book, self._known = store, book, Mark(book.number, book.head)
        self._broken = self._lost = False

    def _fail(self, fault: BaseException, *, charged: bool) -> DodonaError:
        """Refuse everything from now on, and return what to say: a failure's own text could carry anything."""
        self._broken = True
        self._lost = self._again is not None and isinstance(fault, LedgerUnavailable)
        self._let_go_of_all()
        told = (
            isinstance(fault, LedgerRolledBack | LedgerUnreadable | LedgerNewer | LedgerForbidden | HeadMissing)
            and not charged
        )
        return cast("DodonaError", fault) if told else LedgerUnavailable(charged=charged)


def contains(lines: Sequence[Line], mark: Mark) -> bool:
    """Return whether a chain has the marked line."""
    return mark.number < len(lines) and lines[mark.number].hash == mark.hash
