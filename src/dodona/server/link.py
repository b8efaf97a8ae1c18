"""The link between a front and the core: frames on a local socket, callers, replies, and the front's end of it.

A front that is taken over sees questions, released values and constant errors, and nothing else. So this module knows
no data, no ledger and no noise, and a front that imports it loads none.
"""

import asyncio
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final, Self, cast

from dodona.errors import DodonaError, InvalidRequest, Unavailable

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
LONGEST_KEY: Final = 200


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the front authenticated it. The core accepts no nameless caller."""

    name: str
    role: str
    """"analyst", "owner" or "auditor" of the dataset that is asked."""
    max_price: str | None = None
    """The largest share of the budget that the caller's token may spend in one call, such as "1%"."""
    max_day: str | None = None
    """The share that may be spent in the caller's name on a day (UTC), as the caller wishes, or the agents' door."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the core answers; a front passes it on as it is."""

    status: int
    media_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Progress = Callable[[int, int], None]
"""Is called with how many are done, and of how many."""


# --- Errors as replies: one table, the fields of the error classes. ---


_FIGURES = ("asked", "left", "of", "best", "price", "most", "argument", "accepted", "line", "column")
"""Fields of errors that clients may want as values; all are public."""


class CoreUnreachable(Unavailable):
    """The core does not answer: it is not running, or it was restarted while the call was on its way."""

    code = "core-unreachable"
    retry_after = 1

    def __init__(self) -> None:
        """Set a constant message."""
        super().__init__(
            "The server's core does not answer at the moment. Ask again with the same key: nothing is charged twice."
        )


class KeyMissing(InvalidRequest):
    """A call that spends has no key, so that a repetition could be charged twice."""

    code = "key-missing"

    def __init__(self) -> None:
        """Say what to send."""
        super().__init__(
            f"Whatever spends needs a key of 1 to {LONGEST_KEY} printable characters (the header Idempotency-Key). "
            "A repetition under the same key is charged once."
        )


def problem_reply(error: DodonaError) -> Reply:
    """Return an error as problem+json (RFC 9457), with its code, its status and whether anything was charged."""
    document: dict[str, object] = {
        "type": f"/errors/{error.code}",
        "title": error.code.replace("-", " ").capitalize().replace("sql", "SQL"),
        "status": error.http_status,
        "detail": error.message,
        "code": error.code,
        "sqlstate": error.sqlstate,
        "charged": error.charged,
    }
    for name in _FIGURES:
        value = getattr(error, name, None)
        if isinstance(value, str | int | Fraction):
            document[name] = str(value) if isinstance(value, Fraction) else value
    if alternatives := getattr(error, "alternatives", ()):
        document["alternatives"] = [dict(alternative) for alternative in alternatives]
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return Reply(error.http_status, PROBLEM, json.dumps(document).encode(), headers)


# --- Frames: the length of a JSON header, the header, the length of a body, and the body. ---


LONGEST_HEADER: Final = 16 << 20
LONGEST_BODY: Final = 512 << 20
_LENGTH = struct.Struct(">I")


class BadFrame(InvalidRequest):
    """What came over the link is no frame, or longer than one may be; the link is closed."""

    code = "bad-frame"

    def __init__(self, fault: str) -> None:
        """Say what is wrong with it."""
        super().__init__(f"The frame {fault}.")


def make_frame(header: bytes, body: bytes = b"") -> bytes:
    """Return a frame with an encoded header and a body."""
    return b"".join((_LENGTH.pack(len(header)), header, _LENGTH.pack(len(body)), body))


def make_reply_frame(number: object, reply: Reply) -> bytes:
    """Return the last frame of a call."""
    header = {
        "id": number,
        "status": reply.status,
        "media_type": reply.media_type,
        "headers": dict(reply.headers),
    }
    return make_frame(json.dumps(header).encode(), reply.body)


def make_progress_frame(number: object, done: int, of: int) -> bytes:
    """Return a frame that says how far a call is."""
    return make_frame(json.dumps({"id": number, "progress": [done, of]}).encode())


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self, *, longest_header: int = LONGEST_HEADER, longest_body: int = LONGEST_BODY) -> None:
        """Take the largest sizes that are accepted."""
        self._buffer = bytearray()
        self._longest = (longest_header, longest_body)
        self._needed = _LENGTH.size

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the header and the body of each frame that is complete; raise BadFrame at one that is too long."""
        self._buffer += data
        while len(self._buffer) >= self._needed:
            frame = self._next()
            if frame is not None:
                yield frame

    def _next(self) -> tuple[bytes, bytes] | None:
        """Return a complete frame, or learn how many bytes are needed for one."""
        buffer, size = self._buffer, _LENGTH.size
        (header,) = _LENGTH.unpack_from(buffer, 0)
        if header > self._longest[0]:
            raise BadFrame("has a header that is too long")
        self._needed = size + header + size
        if len(buffer) < self._needed:
            return None
        (body,) = _LENGTH.unpack_from(buffer, size + header)
        if body > self._longest[1]:
            raise BadFrame("has a body that is too long")
        end = self._needed + body
        if len(buffer) < end:
            self._needed = end
            return None
        frame = bytes(buffer[size : size + header]), bytes(buffer[end - body : end])
        del buffer[:end]
        self._needed = size
        return frame


# --- The front's end: many calls at once over one connection, which is opened again after it was dropped. ---


REPEATABLE: Final = frozenset(
    {
        *("budget", "datasets", "describe", "history", "ledger", "quote", "recall", "release", "release_rows"),
        *("requests", "status", "verify", "watch"),
    }
)
"""Acts that only read, and may be repeated after a connection was lost. Others are repeated if they have a key."""
_ONCE: Final = frozenset(("watch_ask",))  # its key names the watch: a second alert would be used up


def may_repeat(act: str, arguments: Mapping[str, object]) -> bool:
    """Return whether an act that may have been carried out can be carried out again, as if it had not."""
    return act in REPEATABLE or (arguments.get("key") is not None and act not in _ONCE)


_REPEATS = 3
_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)


@dataclass(slots=True)
class _OpenCall:
    frame: bytes
    repeatable: bool
    done: asyncio.Future[Reply]
    progress: Progress | None
    sent: int = 0


class CoreLink:
    """A connection to the core. Any number of calls may be under way at once.

    A dropped connection is opened again; calls that have a key, or only read, are sent again, others fail.
    """

    def __init__(self, path: Path) -> None:
        """Take the path of the core's socket; `connect` opens it."""
        self._path = path
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, _OpenCall] = {}
        self._last = 0
        self._closed = False
        self._reopening: asyncio.Task[None] | None = None

    @classmethod
    async def connect(cls, path: Path) -> Self:
        """Return an open link; raise CoreUnreachable if no core listens there."""
        link = cls(path)
        await link._open()
        return link

    async def call(  # noqa: PLR0913  the parts of a call
        self,
        act: str,
        *,
        dataset: str | None,
        caller: Caller,
        arguments: Mapping[str, object],
        accept: str = JSON,
        progress: Progress | None = None,
    ) -> Reply:
        """Return the core's reply to an act; raise CoreUnreachable if there is none."""
        if self._closed:
            raise CoreUnreachable
        self._last += 1
        header = {
            "id": self._last,
            "act": act,
            "dataset": dataset,
            "caller": asdict(caller),
            "arguments": dict(arguments),
            "accept": accept,
        }
        encoded = json.dumps(header).encode()
        if len(encoded) > LONGEST_HEADER:
            raise BadFrame("of this request would be too long")
        call = _OpenCall(
            make_frame(encoded), may_repeat(act, arguments), asyncio.get_running_loop().create_future(), progress
        )
        number = self._last
        self._calls[number] = call
        try:
            self._send(call)
            return await call.done
        finally:
            self._calls.pop(number, None)

    async def close(self) -> None:
        """Close the link; calls that are under way fail."""
        self._closed = True
        if self._reopening is not None:
            self._reopening.cancel()
        if self._transport is not None:
            self._transport.close()
        for call in self._calls.values():
            _fail(call)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_unix_connection(lambda: _LinkProtocol(self), str(self._path))
        except OSError:
            raise CoreUnreachable from None
        self._transport = transport

    def _send(self, call: _OpenCall) -> None:
        if self._transport is None:  # it is being opened again, and sent then
            return
        call.sent += 1
        self._transport.write(call.frame)

    def receive(self, header: bytes, body: bytes) -> None:
        """Take a frame that arrived."""
        fields = json.loads(header)
        call = self._calls.get(fields["id"])
        if call is None or call.done.done():
            return
        if "progress" in fields:
            if call.progress is not None:
                call.progress(*fields["progress"])
            return
        call.done.set_result(Reply(fields["status"], fields["media_type"], body, fields["headers"]))

    def lose(self, transport: asyncio.Transport | None) -> None:
        """Open the connection again, after it was dropped."""
        if transport is not self._transport:
            return
        self._transport = None
        for call in tuple(self._calls.values()):
            if not call.repeatable or call.sent > _REPEATS:
                _fail(call)
        if not self._closed and (self._reopening is None or self._reopening.done()):
            self._reopening = asyncio.get_running_loop().create_task(self._reopen())

    async def _reopen(self) -> None:
        for pause in _PAUSES:
            try:
                await self._open()
            except CoreUnreachable:
                await asyncio.sleep(pause)
                continue
            for call in tuple(self._calls.values()):
                self._send(call)
            return
        for call in tuple(self._calls.values()):
            _fail(call)
        # The next call tries again: a core that is started later must be found.
        self._transport = None
        self._reopening = asyncio.get_running_loop().create_task(self._retry_slowly())

    async def _retry_slowly(self) -> None:
        while not self._closed:
            await asyncio.sleep(_PAUSES[-1])
            try:
                await self._open()
            except CoreUnreachable:
                for call in tuple(self._calls.values()):
                    _fail(call)
                continue
            for call in tuple(self._calls.values()):
                self._send(call)
            return


class _LinkProtocol(asyncio.Protocol):
    def __init__(self, link: CoreLink) -> None:
        self._link = link
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for header, body in self._reader.feed(data):
                self._link.receive(header, body)
        except (BadFrame, ValueError, KeyError, TypeError):
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        self._link.lose(self._transport)


def _fail(call: _OpenCall) -> None:
    if not call.done.done():
        call.done.set_exception(CoreUnreachable())
