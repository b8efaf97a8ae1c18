"""The keeper of a book: group commit, and no result before it is durable.

Requests that arrive during a commit share the next one. After a failed write nothing is answered until the ledger has
been reopened.
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
from dodona.ledger import errors
from dodona.ledger.book import Book
from dodona.ledger.checkpoint import CHECKPOINT_FORMAT, EVERY
from dodona.ledger.entries import Entry, Line
from dodona.ledger.head import Head, Mark
from dodona.ledger.store import Store

# --- Group commit: requests that arrive during a commit share the next one. ---


Request = TypeVar("Request")

_LONGEST_PAUSE = 0.5
"""The fraction of a commit's duration by which the next one may be delayed for callers who were just answered."""
_SHORTEST_PAUSE = 0.05


class Ticket(Generic[Request]):
    """A request, and its answer or error once its group is done."""

    __slots__ = ("_asleep", "_gone", "_wake", "_woken", "answer", "done", "fault", "leads", "request")

    def __init__(self, request: Request) -> None:
        """Store the request, without an outcome yet."""
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
        """Sleep until the group is done, or until this request must lead the next group."""
        self._wake.acquire()
        if self._asleep is not None:
            wake_one(self._asleep)

    def wake(self) -> bool:
        """End the wait, and return whether the waiter is still there to wake the next one."""
        self._woken = True
        self._wake.release()
        return not self._gone

    def end(self, asleep: deque[Ticket[Request]], *, stopped: BaseException | None) -> None:
        """Record that the group is done, the error that stopped it, if any, and its tickets that are still asleep."""
        if stopped is not None:
            self.fault = stopped
        self._asleep = asleep
        self.done = True

    def leave(self) -> None:
        """Give up waiting; a ticket that was already woken still wakes the next."""
        self._gone = True  # set before the check: either the waker sees it, or this ticket has been woken
        if self._woken and self._asleep is not None:
            wake_one(self._asleep)


def wake_one(asleep: deque[Ticket[Request]]) -> None:
    """Wake the first remaining waiter; each wakes the next, as all at once would only contend for the interpreter."""
    while True:
        try:
            ticket = asleep.popleft()
        except IndexError:
            return
        if ticket.wake():
            return


class GroupCommit(Generic[Request]):
    """Lets one thread at a time serve all waiting requests; each caller gets its own answer."""

    def __init__(self, serve: Callable[[list[Ticket[Request]]], None]) -> None:
        """Take the function that serves a list of tickets in order; any exception it raises fails every ticket."""
        self._serve = serve
        self._mutex = Lock()
        self._waiting: list[Ticket[Request]] = []
        self._led = False
        self._commit = 0.0  # duration of the last commit; 0 if it had a single request
        self._part = _LONGEST_PAUSE
        self._hoped = 0  # number of requests once all callers who were just answered are back
        self._full: Lock | None = None  # released when they are

    def run(self, request: Request) -> object:
        """Return the answer to a request, after the commit that carries it."""
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
        except BaseException:  # an interrupt while asleep: requests behind this one must not wait for ever
            self._withdraw(ticket)
            raise
        if ticket.fault is not None:
            raise ticket.fault
        return ticket.answer

    def _lead(self, leader: Ticket[Request]) -> None:
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
        asleep = deque(ticket for ticket in batch if ticket is not leader)
        for ticket in batch:
            ticket.end(asleep, stopped=stopped)
        wake_one(asleep)
        self._appoint(answered=len(batch))

    def _pause(self) -> None:
        """Wait briefly for callers who were just answered; if they do not return, wait less the next time."""
        with self._mutex:
            if len(self._waiting) >= self._hoped:
                return
            full = self._full = Lock()
            full.acquire()
        back = full.acquire(timeout=self._part * self._commit)
        self._part = _LONGEST_PAUSE if back else max(self._part / 2, _SHORTEST_PAUSE)

    def _appoint(self, *, answered: int) -> None:
        """Let the first waiting request lead."""
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


# --- The keeper: returns only what is durable, and nothing at all after a failed write. ---


Clock = Callable[[], datetime]
Write = Callable[[Entry], Line]
Act = Callable[[Book, Write], object]
"""Reads the book and writes at most one entry; its result is returned after the commit."""
Result = TypeVar("Result")


def utc_now() -> datetime:
    """Return the time of this machine, which is recorded but never relied on."""
    return datetime.now(UTC)


_PASSED_ON = (
    errors.LedgerRolledBack, errors.LedgerUnreadable, errors.LedgerNewer, errors.LedgerForbidden, errors.HeadMissing,
)  # fmt: skip


class Keeper:
    """A book, the store of its lines and the external head. Threads may share it; a forked process may not."""

    def __init__(  # noqa: PLR0913  the parts of a ledger
        self,
        store: Store,
        head: Head,
        book: Book,
        *,
        clock: Clock,
        again: Callable[[], Store] | None = None,
        checkpoint_every: int = EVERY,
    ) -> None:
        """Take a book that was read from the store and contains the head.

        With `again`, an unreachable store is reopened before the next use, and verified as at first. A checkpoint is
        written after every so many lines.
        """
        self._every = checkpoint_every
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
        """Return the result of an act, once its entry is durable."""
        return self._group.run(act)

    def read(self, look: Callable[[Book, Store, Head], Result]) -> Result:
        """Return the result of `look` on the book, after applying what other processes wrote."""
        with self._guard:
            self._usable()
            try:
                self._follow(self._store.lines(self._book.number))
                self._known = Mark(self._book.number, self._book.head)
                return look(self._book, self._store, self._head)
            except (errors.LedgerBusy, InvalidRequest, Refused):
                raise
            except BaseException as fault:
                raise self._fail(fault, charged=False) from fault

    def time(self) -> str:
        """Return the current time as entries record it."""
        return self._clock().isoformat()

    def hold(self, receipt: str) -> bool:
        """Lock a receipt against all other threads and processes; return whether that succeeded. Acts may call it."""
        with self._guard:
            if receipt in self._holds or not self._store.holds.hold(receipt):
                return False
            self._holds.add(receipt)
            return True

    def held(self, receipt: str) -> bool:
        """Return whether any thread or process has locked a receipt. Acts may call it."""
        with self._guard:
            return receipt in self._holds or self._store.holds.held(receipt)

    def let_go(self, receipt: str) -> None:
        """Unlock a receipt, whatever the state of the ledger, and wake those who wait for it."""
        with self._guard, suppress(Exception):  # a store that failed has already released everything
            if receipt in self._holds and self._process == os.getpid():
                self._holds.discard(receipt)
                self._store.holds.let_go(receipt)
        with self._ended:
            self._ended.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until a thread of this process unlocks a receipt, for at most `seconds`."""
        with self._ended:
            self._ended.wait(seconds)

    def close(self) -> None:
        """Close the store, unless it belongs to the parent of this forked process."""
        with self._guard:
            self._broken, self._lost = True, False
            if self._process == os.getpid():
                self._let_go_of_all()
                self._store.close()
                self._head.close()

    def _serve(self, batch: list[Ticket[Act]]) -> None:
        """Decide all requests in order, make the outcome durable, then advance the head."""
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
                if isinstance(fault, errors.LedgerBusy) and not appended:
                    raise
                raise self._fail(fault, charged=bool(appended)) from fault
            if self._book.due >= self._every:
                self.write_checkpoint()

    def write_checkpoint(self) -> None:
        """Write a checkpoint, unless another process just did. If it fails, nothing that was confirmed is affected."""
        with self._guard:

            def decide(lines: Sequence[Line]) -> Sequence[Line]:
                self._follow(lines)
                if self._book.due < self._every:
                    return []
                self._book.on_checkpoint = self._store.keep_state
                return [self._book.write(self._book.next_checkpoint(), time=self._clock().isoformat())]

            try:
                self._store.append(self._book.number, decide)
                self._known = Mark(self._book.number, self._book.head)
                self._head.advance(self._known)
            except errors.LedgerBusy:
                return  # the next commit tries again
            except BaseException as fault:  # noqa: BLE001  the requests of this commit are answered
                self._fail(fault, charged=False)
            finally:
                self._book.on_checkpoint = lambda _, __: None

    def _follow(self, lines: Sequence[Line]) -> None:
        """Apply what others wrote; the last line known here must still be there."""
        if not lines or (lines[0].number, lines[0].hash) != (self._book.number, self._book.head):
            raise errors.LedgerRolledBack
        self._book.follow(lines[1:])

    def _let_go_of_all(self) -> None:
        with suppress(Exception):  # a failed store may raise; its locks end with it
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
            raise errors.LedgerUnavailable

    def _reopen(self) -> None:
        """Reread the ledger from a store that is reachable again; it must contain the head and all earlier results."""
        if self._again is None:
            return
        store = self._again()
        try:
            book = open_book(store, self._head.read(), self._known)
        except BaseException as fault:
            self._lost = self._lost and not isinstance(fault, errors.LedgerRolledBack)
            store.close()
            raise
        with suppress(Exception):
            self._store.close()
        self._store, self._book, self._known = store, book, Mark(book.number, book.head)
        self._broken = self._lost = False

    def _fail(self, fault: BaseException, *, charged: bool) -> DodonaError:
        """Refuse everything from now on, and return a constant error: the original text could contain anything."""
        self._broken = True
        self._lost = self._again is not None and isinstance(fault, errors.LedgerUnavailable)
        self._let_go_of_all()
        passed_on = isinstance(fault, _PASSED_ON) and not charged
        return cast("DodonaError", fault) if passed_on else errors.LedgerUnavailable(charged=charged)


# --- Reading a book: from the last checkpoint that can be trusted, or else from the first line. ---


def open_book(store: Store, *marks: Mark) -> Book:
    """Return the book of a store, verified; its chain must contain all marks.

    A checkpoint is used only if no mark is before it: then the marks, which were kept outside, vouch for it. If there
    is none, everything is computed from the first line, and states that were lost or altered are written again.

    Theorem: ledger-checkpoint
    """
    store.check_rules()
    restored = _read_from_checkpoint(store, marks)
    if restored is not None:
        return restored
    store.check()
    lines = store.lines(0)
    states: list[tuple[int, str]] = []
    book = read_book(lines, on_checkpoint=lambda number, text: states.append((number, text)))
    if not all(chain_contains(lines, mark) for mark in marks):
        raise errors.LedgerRolledBack
    book.archive.fetch = store.fetch
    if book.format >= CHECKPOINT_FORMAT and states != list(store.states()):
        with suppress(errors.LedgerBusy):
            store.replace_states(states)
    return book


def _read_from_checkpoint(store: Store, marks: Sequence[Mark]) -> Book | None:
    """Return the book from the newest checkpoint that the marks vouch for; None if that is not possible."""
    oldest = min(mark.number for mark in marks)
    states = [(number, text) for number, text in store.states() if number <= oldest]
    if not states:
        return None
    start = states[-1][0]
    try:
        lines = store.lines(start)
        book = Book.restore([text for _, text in states], lines[0], store.fetch)
        book.follow(lines[1:])
    except errors.LedgerUnavailable:
        raise
    except (DodonaError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return None  # reading all of it tells what is wrong, if anything is
    contained = all(chain_contains(lines, Mark(mark.number - start, mark.hash)) for mark in marks)
    return book if contained else None


def read_book(lines: Sequence[Line], *, on_checkpoint: Callable[[int, str], None] | None = None) -> Book:
    """Return the book of a chain; an entry of a newer version is distinguished from a broken chain."""
    try:
        return Book.read(lines, on_checkpoint=on_checkpoint)
    except InvalidRequest as fault:
        raise errors.LedgerUnreadable(f"its first line breaks a rule ({fault.code})") from fault


def chain_contains(lines: Sequence[Line], mark: Mark) -> bool:
    """Return whether a chain contains the marked line."""
    return 0 <= mark.number < len(lines) and lines[mark.number].hash == mark.hash
