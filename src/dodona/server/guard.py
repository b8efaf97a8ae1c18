"""What every request passes first: who asks, how large it is, and what its reply must carry.

It is one thin layer around the application: it authenticates before a body is read, reads the body within limits of
size, depth and time, adds the security headers, and writes one line of log and a few counts at the end.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from dodona.errors import DodonaError, InvalidRequest
from dodona.server import logs, problems
from dodona.server.metrics import Metrics
from dodona.server.settings import CLIENT_SECONDS

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_LARGE_REPLY = 64 * 1024
_ALIKE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding"})
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_SECURITY = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", PAGE_POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_STRICT_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """How much of a client the server puts up with."""

    body_bytes: int = 1 << 20
    header_bytes: int = 32 << 10
    depth: int = 32
    client_seconds: float = CLIENT_SECONDS
    """How long a client may take to send the headers, to send the body, and to read a reply."""
    connections: int = 2000


@dataclass(slots=True)
class Note:
    """What is known of a request while it is answered; the log and the counts are written from it."""

    id: str
    act: str = "-"
    account: str | None = None
    dataset: str | None = None
    code: str | None = None
    questions: list[str] | None = None
    identity: Any = None
    max_day: str | None = None
    """What may be spent on a day by those whom this request asks for, if its door says so."""
    started: bool = False
    complete: bool = False
    unread: bool = False
    """Whether a body is on its way that nobody has read."""
    status: int = 0
    size: int = 0
    began: float = field(default_factory=time.perf_counter)


class Authenticate(Protocol):
    """Says who sends a request."""

    async def __call__(self, scope: Scope, note: Note) -> None:
        """Store the identity in the note, or raise."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The layer around an application."""

    app: App
    authenticate: Authenticate
    limits: ClientLimits
    metrics: Metrics
    door: str
    log_texts: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever it holds."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        note = Note(uuid.uuid4().hex)
        scope["note"] = note
        reply = _Reply(note, send, self._headers(scope), self.limits.client_seconds)
        self.metrics.running.inc()
        try:
            await self._answer(scope, receive, reply, note)
        except DodonaError as fault:
            await reply.problem(fault, problems.problem(fault))
        except asyncio.CancelledError:  # the server stops, and its patience is over
            raise
        except Exception as fault:  # noqa: BLE001  whatever it is, the caller gets a constant text
            logs.write_fault("fault", fault, request=note.id, act=note.act)
            if note.complete:
                return
            internal = problems.InternalFault()
            await reply.problem(internal, problems.problem(internal))
        finally:
            self.metrics.running.dec()
            self._finish(scope, note)

    async def _answer(self, scope: Scope, receive: Receive, reply: _Reply, note: Note) -> None:
        note.unread = any(name in _BODY_HEADERS for name, _ in scope["headers"])
        if sum(len(name) + len(value) for name, value in scope["headers"]) > self.limits.header_bytes:
            raise problems.HeadersTooLarge(self.limits.header_bytes)
        await self.authenticate(scope, note)
        body = await self._body(scope, receive)
        note.unread = False
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()  # tells when the client has gone
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, reply.send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of a request, which is UTF-8 and not too deep if there is one."""
        declared, chunked, media_type = 0, False, b""
        for name, value in scope["headers"]:
            if name == b"content-length":
                declared = int(value) if value.isdigit() and len(value) < 20 else self.limits.body_bytes + 1  # noqa: PLR2004
            elif name == b"transfer-encoding":
                chunked = True
            elif name == b"content-type":
                media_type = value.partition(b";")[0].strip().lower()
        if declared > self.limits.body_bytes:
            raise problems.BodyTooLarge(self.limits.body_bytes)
        if declared == 0 and not chunked:
            return b""
        body = await self._received(receive)
        if not body:
            return b""
        if media_type != b"application/json":
            raise problems.WrongMediaType
        return checked(body, depth=self.limits.depth)

    async def _received(self, receive: Receive) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.client_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise InvalidRequest("The client went away before its request was complete.")
                    body += message.get("body", b"")
                    if len(body) > self.limits.body_bytes:
                        raise problems.BodyTooLarge(self.limits.body_bytes)
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise problems.RequestTooSlow(self.limits.client_seconds) from None

    def _headers(self, scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
        return (*_SECURITY, _STRICT_TRANSPORT) if scope.get("scheme") == "https" else _SECURITY

    def _finish(self, scope: Scope, note: Note) -> None:
        seconds = time.perf_counter() - note.began
        self.metrics.count(act=note.act, status=note.status, code=note.code, seconds=seconds)
        logs.write(
            "request",
            door=self.door,
            request=note.id,
            method=scope["method"] if scope["method"] in _METHODS else "other",
            act=note.act,
            account=note.account,
            dataset=note.dataset,
            status=note.status,
            code=note.code,
            bytes=note.size,
            ms=round(seconds * 1000, 1),
            questions=note.questions if self.log_texts else None,
        )


@dataclass(slots=True)
class _Reply:
    """Sends a reply with our headers, and gives up on a client that does not read it."""

    note: Note
    out: Send
    headers: tuple[tuple[bytes, bytes], ...]
    seconds: float

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.note.started = True
            self.note.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self.headers, (b"x-request-id", self.note.id.encode())]
            await self.out(message)
            return
        size = len(message.get("body", b""))
        self.note.size += size
        self.note.complete = not message.get("more_body", False)
        if size < _LARGE_REPLY and not message.get("more_body", False):
            await self.out(message)
            return
        async with asyncio.timeout(self.seconds):
            await self.out(message)

    async def problem(self, fault: DodonaError, body: bytes) -> None:
        """Send an error, unless a reply has begun: then the connection is cut, so that nobody takes it for complete."""
        self.note.code = fault.code
        if self.note.started:
            raise ConnectionAbortedError
        extra = [(name.encode(), value.encode()) for name, value in problems.headers(fault).items()]
        if self.note.unread:
            extra.append((b"connection", b"close"))  # the rest of the body never is
        start = {
            "type": "http.response.start",
            "status": fault.http_status,
            "headers": [
                (b"content-type", problems.MEDIA_TYPE.encode()),
                (b"content-length", str(len(body)).encode()),
                *extra,
            ],
        }
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body})


def checked(body: bytes, *, depth: int) -> bytes:
    """Return a body that is UTF-8, and whose brackets are not nested deeper than `depth`.

    >>> checked(b'{"question": "[[[["}', depth=2)
    b'{"question": "[[[["}'
    """
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise InvalidRequest(f"The body is not UTF-8: byte {fault.start} begins no character.") from None
    if body.count(b"[") + body.count(b"{") > depth and _deeper(body, depth):
        raise InvalidRequest(f"The body is nested more than {depth} levels deep.")
    return body


def _deeper(body: bytes, depth: int) -> bool:
    """Return whether a body is nested too deeply, or has too many brackets that nothing closes.

    Texts are every other part between quotation marks. Pairs of brackets are then taken out from within, a level at a
    time. These are few passes over all bytes, as everybody waits here. A backslash outside of texts confuses it, but
    a reader of JSON stops there.
    """
    outside = b"".join(body.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])
    brackets = outside.translate(_ALIKE, _NO_BRACKETS)
    for _ in range(depth):
        if b"[" * (depth + 1) in brackets:
            return True
        brackets = brackets.replace(b"[]", b"")
    return b"[]" in brackets or brackets.count(b"[") > depth
