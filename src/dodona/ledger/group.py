"""Group commit: requests that wait while a commit is under way share the next one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

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


class Group(Generic[Request]):
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
