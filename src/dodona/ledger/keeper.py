"""The keeper of a book: group commit, and no result before it is durable.

Requests that arrive during a commit share the next one. After a failed write nothing is answered until the ledger has
been opened again.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from threading import Condition, Lock, RLock
from typing import Generic, TypeVar, cast

from dodona.errors import DodonaError, InvalidRequest, Refused
from dodona.ledger.book import Book
from dodona.ledger.entries import Entry
from dodona.ledger.errors import (
    HeadMissing,
    LedgerBusy,
    LedgerForbidden,
    LedgerNewer,
    LedgerRolledBack,
    LedgerUnavailable,
    LedgerUnreadable,
)
from dodona.ledger.head import Head, Mark
from dodona.ledger.store import Line, Store

# --- Group commit: requests that wait while a commit is under way share the next one. ---


Request = TypeVar("Request")

_LONGEST_PAUSE = 0.5
"""The part of a commit that the next one may be put off for those who were just answered."""
_SHORTEST_PAUSE = 0.05


class Ticket(Generic[Request]):
    """A request, and its answer or fault once the group that it went with is done."""

    __slots__ = ("_asleep", "_gone", "_wake", "_woken", "answer", "done", "fault", "leads", "request")

    def __init__(self, request: Request) -> None:
        """Hold the request; nothing is known yet."""
        self.request = request
        self.answer: object = None
        self.fault: BaseException | None = None
        self.done = False
        self.leads = False
        self._wake = Lock()
        self._wake.acquire()
        self._gone = False
        self._woken = False
        self._asleep: deque[Ticket[Request]] | None = None

    def wait(self) -> None:
        """Sleep until the group is done, or until this request has to lead the next one."""
        self._wake.acquire()
        if self._asleep is not None:
            wake_one(self._asleep)

    def wake(self) -> bool:
        """End the wait, and return whether somebody is there to wake the next one."""
        self._woken = True
        self._wake.release()
        return not self._gone

    def end(self, asleep: deque[Ticket[Request]], *, stopped: BaseException | None) -> None:
        """Take note that the group is done, what stopped it, and who of it is still asleep."""
        if stopped is not None:
            self.fault = stopped
        self._asleep = asleep
        self.done = True

    def leave(self) -> None:
        """Give up waiting; one who was woken already wakes the next all the same."""
        self._gone = True  # before the look: either the one who wakes sees it, or this one was woken
        if self._woken and self._asleep is not None:
            wake_one(self._asleep)


def wake_one(asleep: deque[Ticket[Request]]) -> None:
    """Wake the first who is there: each wakes the next, as all at once would only queue for the interpreter."""
    while True:
        try:
            ticket = asleep.popleft()
        except IndexError:
            return
        if ticket.wake():
            return


class GroupCommit(Generic[Request]):
    """Lets one thread at a time serve all requests that are waiting; each caller gets its own answer."""

    def __init__(self, serve: Callable[[list[Ticket[Request]]], None]) -> None:
        """Take the function that serves a list of tickets in order; whatever it raises is every ticket's fault."""
        self._serve = serve
        self._mutex = Lock()
        self._waiting: list[Ticket[Request]] = []
        self._led = False
        self._commit = 0.0  # how long the last one took; 0 if it was of one request
        self._part = _LONGEST_PAUSE
        self._hoped = 0  # how many there are once all who were just answered are back
        self._full: Lock | None = None  # let go of when they are

    def run(self, request: Request) -> object:
        """Return the answer to a request after the commit that carries it."""
        ticket = Ticket(request)
        with self._mutex:
            self._waiting.append(ticket)
            ticket.leads = not self._led
            self._led = True
            if self._full is not None and len(self._waiting) >= self._hoped:
                self._full.release()
                self._full = None
        try:
            if not ticket.leads:
                ticket.wait()
            if not ticket.done:
                self._lead(ticket)
        except BaseException:  # an interrupt while asleep: whoever waits behind this request must not wait for ever
            self._withdraw(ticket)
            raise
        if ticket.fault is not None:
            raise ticket.fault
        return ticket.answer

    def _lead(self, own: Ticket[Request]) -> None:
        if self._commit > 0:
            self._pause()
        with self._mutex:
            batch, self._waiting = self._waiting, []
            self._full = None
        stopped: BaseException | None = None
        start = time.perf_counter()
        try:
            self._serve(batch)
        except BaseException as fault:  # noqa: BLE001  no waiter may be left asleep, whatever happened
            stopped = fault
        self._commit = time.perf_counter() - start if len(batch) > 1 else 0.0
        asleep = deque(ticket for ticket in batch if ticket is not own)
        for ticket in batch:
            ticket.end(asleep, stopped=stopped)
        wake_one(asleep)
        self._appoint(answered=len(batch))

    def _pause(self) -> None:
        """Wait a moment for those who were just answered; if they do not come back, less long the next time."""
        with self._mutex:
            if len(self._waiting) >= self._hoped:
                return
            full = self._full = Lock()
            full.acquire()
        back = full.acquire(timeout=self._part * self._commit)
        self._part = _LONGEST_PAUSE if back else max(self._part / 2, _SHORTEST_PAUSE)

    def _appoint(self, *, answered: int) -> None:
        """Let the first who waits lead."""
        with self._mutex:
            self._hoped = answered + len(self._waiting)
            self._led = bool(self._waiting)
            if self._led:
                self._waiting[0].leads = True
                self._waiting[0].wake()

    def _withdraw(self, ticket: Ticket[Request]) -> None:
        with self._mutex:
            waiting = ticket in self._waiting
            if waiting:
                self._waiting.remove(ticket)
        if not waiting:
            ticket.leave()
        elif ticket.leads:
            self._appoint(answered=0)


# --- The keeper: nothing is returned that is not durable, and after one failed write nothing is returned at all. ---


Clock = Callable[[], datetime]
Write = Callable[[Entry], Line]
Act = Callable[[Book, Write], object]
"""Looks at the book and writes at most one entry; what it returns is handed over after the commit."""
Result = TypeVar("Result")


def utc_now() -> datetime:
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
        self._group: GroupCommit[Act] = GroupCommit(self._serve)
        self._holds: set[str] = set()
        self._ended = Condition()

    def run(self, act: Act) -> object:
        """Return what an act returns, once what it wrote is durable."""
        return self._group.run(act)

    def read(self, look: Callable[[Book, Store, Head], Result]) -> Result:
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
            if receipt in self._holds or not self._store.holds.hold(receipt):
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
            appended.append(self._book.write(entry, time=moment))
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
            moment = self._clock().isoformat()
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
        if not chain_contains(lines, mark) or not chain_contains(lines, self._known):
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


def chain_contains(lines: Sequence[Line], mark: Mark) -> bool:
    """Return whether a chain has the marked line."""
    return mark.number < len(lines) and lines[mark.number].hash == mark.hash
