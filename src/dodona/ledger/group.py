"""Group commit: requests that wait while a commit is under way share the next one."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

Request = TypeVar("Request")

_PART_OF_A_COMMIT = 0.1


class Ticket(Generic[Request]):
    """A request, and its answer or fault once the group that it went with is done."""

    __slots__ = ("_wake", "answer", "done", "fault", "leads", "request")

    def __init__(self, request: Request) -> None:
        """Hold the request; nothing is known yet."""
        self.request = request
        self.answer: object = None
        self.fault: BaseException | None = None
        self.done = False
        self.leads = False
        self._wake = Lock()
        self._wake.acquire()

    def wait(self) -> None:
        """Sleep until the group is done, or until this request has to lead the next one."""
        self._wake.acquire()

    def wake(self) -> None:
        """End the wait."""
        self._wake.release()


class Group(Generic[Request]):
    """Lets one thread at a time serve all requests that are waiting; each caller gets its own answer."""

    def __init__(self, serve: Callable[[list[Ticket[Request]]], None]) -> None:
        """Take the function that serves a list of tickets in order; whatever it raises is every ticket's fault."""
        self._serve = serve
        self._mutex = Lock()
        self._waiting: list[Ticket[Request]] = []
        self._led = False
        self._pause = 0.0

    def run(self, request: Request) -> object:
        """Return the answer to a request after the commit that carries it."""
        ticket = Ticket(request)
        with self._mutex:
            self._waiting.append(ticket)
            ticket.leads = not self._led
            self._led = True
        try:
            if not ticket.leads:
                ticket.wait()
            if not ticket.done:
                self._lead()
        except BaseException:  # an interrupt while asleep: whoever waits behind this request must not wait for ever
            self._withdraw(ticket)
            raise
        if ticket.fault is not None:
            raise ticket.fault
        return ticket.answer

    def _lead(self) -> None:
        if self._pause > 0:  # those who were just answered may be back in a moment, and are worth a short wait
            time.sleep(self._pause)
        with self._mutex:
            batch, self._waiting = self._waiting, []
        stopped: BaseException | None = None
        start = time.perf_counter()
        try:
            self._serve(batch)
        except BaseException as fault:  # noqa: BLE001  no waiter may be left asleep, whatever happened
            stopped = fault
        self._pause = _PART_OF_A_COMMIT * (time.perf_counter() - start) if len(batch) > 1 else 0.0
        for ticket in batch:
            ticket.fault = ticket.fault if stopped is None else stopped
            ticket.done = True
        for ticket in batch:
            ticket.wake()
        self._appoint()

    def _appoint(self) -> None:
        """Let the first who waits lead."""
        with self._mutex:
            self._led = bool(self._waiting)
            if self._led:
                self._waiting[0].leads = True
                self._waiting[0].wake()

    def _withdraw(self, ticket: Ticket[Request]) -> None:
        with self._mutex:
            if ticket not in self._waiting:
                return
            self._waiting.remove(ticket)
        if ticket.leads:
            self._appoint()
