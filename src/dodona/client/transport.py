"""Sending calls: retries under the same key with bounded waits, over a blocking or an asynchronous HTTP client.

What is decided is in `exchange`, which neither sends nor waits; the two links carry out what it says.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NoReturn, TypeVar

import httpx

from dodona.client.calls import EVENTS, RemoteCall
from dodona.client.problems import NotConnected, StrangeReply, read_problem

ReadT = TypeVar("ReadT")
Progress = Callable[[int, int], None]
"""Is called with how many are done, and of how many."""

_ERRORS: Final = 400
_BUSY: Final = 429
_GATEWAYS: Final = frozenset({502, 503, 504})
_FINAL_CODES: Final = ("took-too-long",)  # would take as long again
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_LOST: Final = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a call is sent, and how long to wait in between."""

    attempts: int = 6
    first: float = 0.25
    """Seconds before the second attempt; twice as long before each further one."""
    longest: float = 20.0
    """Seconds that one wait may take. A server that asks for a longer one is not asked again."""

    def wait(self, attempt: int) -> float:
        """Return the seconds to wait after an attempt, between half and all of a growing bound.

        >>> all(1 <= Retries(first=0.5).wait(3) <= 2 for _ in range(100))
        True
        """
        share = uuid.uuid4().int % 1024 / 1023  # spreads the clients of a server that comes back
        return float(min(self.longest, self.first * 2 ** (attempt - 1)) * (1 + share) / 2)


@dataclass(frozen=True, slots=True)
class Received:
    """A reply, or the part of it that matters here."""

    status: int
    headers: httpx.Headers
    body: bytes


Outcome = Received | httpx.TransportError


def exchange(call: RemoteCall[ReadT], retries: Retries) -> Generator[float, Outcome, ReadT]:
    """Yield the seconds to wait before each attempt, take what came of it, and return the reply as it is read."""
    outcome, wait = (yield 0.0), 0.0
    unknown: bool | None = False  # None once a request that may spend was sent, and its reply was lost
    for attempt in range(1, retries.attempts + 1):
        last = attempt == retries.attempts
        if isinstance(outcome, Received):
            again = None if last else _wait_of_reply(outcome, attempt, retries)
            if outcome.status < _ERRORS:
                return _read(call, outcome)
            if again is None:
                raise read_problem(outcome.status, outcome.body, charged=unknown)
            wait = again
        else:
            sent = not isinstance(outcome, _UNSENT)
            unknown = None if sent and call.key is not None else unknown
            if last or not isinstance(outcome, _LOST) or (sent and not call.repeatable):
                _give_up(call, outcome, charged=unknown)
            wait = retries.wait(attempt)
        outcome = yield wait
    raise AssertionError  # pragma: no cover  the last attempt returns or raises


def _wait_of_reply(reply: Received, attempt: int, retries: Retries) -> float | None:
    """Return how long to wait before the same is sent again; None if that is of no use."""
    if reply.status != _BUSY and reply.status not in _GATEWAYS:
        return None
    if any(f"/errors/{code}".encode() in reply.body for code in _FINAL_CODES):
        return None
    asked = _retry_after(reply.headers.get("retry-after"))
    if asked is None:
        return retries.wait(attempt)
    return None if asked > retries.longest else max(asked, retries.wait(attempt))


def _retry_after(written: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which is a number or a date."""
    if written is None:
        return None
    try:
        return max(0.0, float(written))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(written) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _read(call: RemoteCall[ReadT], reply: Received) -> ReadT:
    charged = None if call.key is not None else False
    try:
        return call.read(reply.body)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise StrangeReply(reply.status, charged=charged) from None


def _give_up(call: RemoteCall[ReadT], fault: httpx.TransportError, *, charged: bool | None) -> NoReturn:
    why = {
        httpx.ReadTimeout: "the reply took too long",
        httpx.ConnectTimeout: "the connection took too long",
        httpx.ConnectError: "there is no connection to it",
    }.get(type(fault), "the connection broke")
    raise NotConnected(why, key=call.key if charged is None else None, charged=charged) from fault


# --- Server-sent events: progress, then the reply. ---


class EventReader:
    """Reads lines of server-sent events; calls `progress`, and holds the last event."""

    def __init__(self, progress: Progress | None) -> None:
        """Take what is called with each progress."""
        self._progress = progress
        self._name, self._data = "", list[str]()
        self.last: tuple[str, bytes] | None = None
        """The name and the data of the event that ends the stream."""

    def line(self, line: str) -> None:
        """Take one line."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            self._event()
        elif name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)

    def _event(self) -> None:
        name, data = self._name, "\n".join(self._data)
        self._name, self._data = "", []
        if name == "progress" and self._progress is not None:
            moved = json.loads(data)
            self._progress(int(moved["done"]), int(moved["of"]))
        elif name not in {"", "progress"}:
            self.last = name, data.encode()

    def received(self, headers: httpx.Headers) -> Outcome:
        """Return the reply that the stream ended with; a stream that just stops is a broken connection."""
        if self.last is None:
            return httpx.RemoteProtocolError("The stream of events ended early.")
        name, body = self.last
        if name != "problem":
            return Received(200, headers, body)
        try:
            status = int(json.loads(body)["status"])
        except (ValueError, KeyError, TypeError):
            status = 500
        return Received(status, httpx.Headers(), body)


# --- Links. ---


class Link:
    """Sends calls and waits for their replies."""

    def __init__(self, http: httpx.Client, retries: Retries, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Take a client that knows the address and the token."""
        self._http, self._retries, self._sleep = http, retries, sleep

    def send(self, call: RemoteCall[ReadT], progress: Progress | None = None) -> ReadT:
        """Return the reply to a call, as it is read."""
        steps = exchange(call, self._retries)
        wait = next(steps)
        while True:
            if wait:
                self._sleep(wait)
            try:
                wait = steps.send(self._try(call, progress))
            except StopIteration as done:
                reply: ReadT = done.value
                return reply

    def _try(self, call: RemoteCall[ReadT], progress: Progress | None) -> Outcome:
        try:
            with self._http.stream(
                call.method, call.path, json=call.body, params=call.parameters or None, headers=call.headers
            ) as reply:
                if not _is_stream(reply):
                    return Received(reply.status_code, reply.headers, reply.read())
                events = EventReader(progress)
                for line in _lines(reply.iter_text()):
                    events.line(line)
                return events.received(reply.headers)
        except httpx.TransportError as fault:
            return fault

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class AsyncLink:
    """Sends calls, and lets others run until their replies come."""

    def __init__(self, http: httpx.AsyncClient, retries: Retries) -> None:
        """Take a client that knows the address and the token."""
        self._http, self._retries = http, retries

    async def send(self, call: RemoteCall[ReadT], progress: Progress | None = None) -> ReadT:
        """Return the reply to a call, as it is read."""
        steps = exchange(call, self._retries)
        wait = next(steps)
        while True:
            if wait:
                await asyncio.sleep(wait)
            try:
                wait = steps.send(await self._try(call, progress))
            except StopIteration as done:
                reply: ReadT = done.value
                return reply

    async def _try(self, call: RemoteCall[ReadT], progress: Progress | None) -> Outcome:
        try:
            async with self._http.stream(
                call.method, call.path, json=call.body, params=call.parameters or None, headers=call.headers
            ) as reply:
                if not _is_stream(reply):
                    return Received(reply.status_code, reply.headers, await reply.aread())
                events, lines = EventReader(progress), LineReader()
                async for text in reply.aiter_text():
                    for line in lines.take(text):
                        events.line(line)
                return events.received(reply.headers)
        except httpx.TransportError as fault:
            return fault

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Let others run for so long."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class BlockingLink:
    """A link that is called as an asynchronous one, and blocks: its coroutines end without waiting for a loop."""

    def __init__(self, link: Link) -> None:
        """Take the link that blocks."""
        self._link = link

    async def send(self, call: RemoteCall[ReadT], progress: Progress | None = None) -> ReadT:
        """Return the reply to a call, as it is read."""
        return self._link.send(call, progress)

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Block for so long."""
        time.sleep(seconds)  # noqa: ASYNC251  nobody else runs

    async def close(self) -> None:
        """Close the connections."""
        self._link.close()


def _is_stream(reply: httpx.Response) -> bool:
    return str(reply.headers.get("content-type", "")).startswith(EVENTS)


class LineReader:
    r"""Splits text at line feeds alone: other separators may occur in the data.

    >>> reader = LineReader()
    >>> list(reader.take("event: x\nda")), list(reader.take("ta: y\r\n"))
    (['event: x'], ['data: y'])
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._rest = list[str]()

    def take(self, text: str) -> Iterator[str]:
        """Yield the lines that are complete."""
        first, *further = text.split("\n")
        self._rest.append(first)  # joined once a line is complete: one of many megabytes comes in many pieces
        for following in further:
            yield "".join(self._rest).removesuffix("\r")
            self._rest = [following]


def _lines(texts: Iterable[str]) -> Iterator[str]:
    reader = LineReader()
    for text in texts:
        yield from reader.take(text)
