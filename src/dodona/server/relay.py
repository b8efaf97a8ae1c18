"""From a request to the core and back: who asks, which act, in which media type; the core's bytes are the reply."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.responses import Response, StreamingResponse

from dodona.errors import Unavailable
from dodona.server import problems
from dodona.server.guard import Note
from dodona.server.identity import NotAuthenticated, RoleMissing
from dodona.server.link import Caller, CoreLink, CoreUnreachable, Progress, Reply

if TYPE_CHECKING:
    from starlette.requests import Request

JSON = "application/json"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
EVENTS = "text/event-stream"
MAX_DAY = "dodona-max-day"
"""The header with the share of the budget that may be spent in the caller's name on a day (UTC)."""
TABLES = (JSON, CSV, ARROW)
SPENDING = frozenset(
    {"ask", "batch", "prepare", "choose", "watch_open", "watch_ask", "weights", "synthesize", "request", "publish"}
)
_HEARTBEAT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class _RelayedCall:
    act: str
    dataset: str | None
    caller: Caller
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Relay:
    """Sends acts to the core in the name of whoever was authenticated."""

    link: CoreLink
    running: set[asyncio.Task[Reply]] = field(default_factory=set)
    """Calls whose client may have gone: what was charged is answered to the end, and is there to be recalled."""

    async def call(
        self,
        request: Request,
        act: str,
        dataset: str | None,
        arguments: Mapping[str, object],
        *,
        offered: tuple[str, ...] = (JSON,),
    ) -> Response:
        """Return the core's reply to an act."""
        note = note_of(request, act, dataset, arguments)
        accept = negotiate(request.headers.get("accept"), offered)
        caller = caller_of(note, dataset, max_day=note.max_day or request.headers.get(MAX_DAY))
        call = _RelayedCall(act, dataset, caller, arguments)
        if accept == EVENTS:
            return await self._events(note, call)
        return response_of(note, await self._reply(call, accept))

    async def _reply(self, call: _RelayedCall, accept: str, progress: Progress | None = None) -> Reply:
        try:
            return await self.link.call(
                call.act,
                dataset=call.dataset,
                caller=call.caller,
                arguments=call.arguments,
                accept=accept,
                progress=progress,
            )
        except CoreUnreachable:
            if call.act in SPENDING:
                raise problems.ReplyLost from None
            raise

    async def _events(self, note: Note, call: _RelayedCall) -> Response:
        """Return progress as server-sent events, and the reply as the last one.

        A refusal that comes before any progress is an ordinary problem with its status.
        """
        events: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        reply = asyncio.create_task(self._reply(call, JSON, lambda done, of: events.put_nowait((done, of))))
        self.running.add(reply)
        reply.add_done_callback(self.running.discard)
        first = asyncio.create_task(events.get())
        await asyncio.wait((reply, first), return_when=asyncio.FIRST_COMPLETED)
        if reply.done() and not first.done():
            first.cancel()
            done = reply.result()
            if done.status >= HTTPStatus.BAD_REQUEST:
                return response_of(note, done)
        return StreamingResponse(_stream(note, reply, first, events), media_type=EVENTS)


async def _stream(
    note: Note, reply: asyncio.Task[Reply], first: asyncio.Task[tuple[int, int]], events: asyncio.Queue[tuple[int, int]]
) -> AsyncIterator[bytes]:
    waiting: asyncio.Task[tuple[int, int]] | None = first
    while not reply.done():
        waiting = waiting or asyncio.create_task(events.get())
        await asyncio.wait((reply, waiting), return_when=asyncio.FIRST_COMPLETED, timeout=_HEARTBEAT_SECONDS)
        if waiting.done() and not waiting.cancelled():
            yield _progress(*waiting.result())
            waiting = None
        elif not reply.done():
            yield b": still at work\n\n"
    if waiting is not None:
        if waiting.done() and not waiting.cancelled():
            yield _progress(*waiting.result())
        waiting.cancel()
    while not events.empty():
        yield _progress(*events.get_nowait())
    try:
        last = reply.result()
        name, body = ("answers", last.body) if last.status < HTTPStatus.BAD_REQUEST else ("problem", last.body)
    except Unavailable as fault:
        name, body = "problem", problems.problem(fault)
        note.code = fault.code
    yield _event(name, body)


def _progress(done: int, of: int) -> bytes:
    return _event("progress", json.dumps({"done": done, "of": of}).encode())


def _event(name: str, data: bytes) -> bytes:
    lines = b"".join(b"data: " + line + b"\n" for line in data.splitlines() or [b""])
    return b"event: " + name.encode() + b"\n" + lines + b"\n"


def note_of(
    request: Request, act: str, dataset: str | None = None, arguments: Mapping[str, object] | None = None
) -> Note:
    """Return the note of a request, with the act that it turned out to be."""
    note: Note = request.scope["note"]
    note.act, note.dataset = act, dataset
    if arguments:
        texts: list[Any] = [arguments.get("question"), *_texts(arguments.get("questions"))]
        note.questions = [text for text in texts if isinstance(text, str)]
    return note


def _texts(questions: object) -> list[object]:
    return questions if isinstance(questions, list) else []


def caller_of(note: Note, dataset: str | None, *, max_day: str | None = None) -> Caller:
    """Return the caller as the core sees it: the account, its role for the dataset, and what may be spent."""
    identity = note.identity
    if identity is None:
        raise NotAuthenticated
    if dataset is None:
        return Caller(name=identity.account, role="analyst", max_price=identity.max_price, max_day=max_day)
    role = identity.role(dataset)
    if role is None:
        raise RoleMissing("owner", "analyst", "auditor")
    return Caller(name=identity.account, role=role, max_price=identity.max_price, max_day=max_day)


def response_of(note: Note, reply: Reply) -> Response:
    """Return the core's reply as it is."""
    if reply.status >= HTTPStatus.BAD_REQUEST:
        note.code = code_of(reply.body)
    return Response(reply.body, reply.status, dict(reply.headers), reply.media_type)


def code_of(body: bytes) -> str:
    """Return the code of a problem, for the log."""
    try:
        return str(json.loads(body)["type"]).rpartition("/")[2]
    except (ValueError, KeyError, TypeError):
        return "unknown"


def negotiate(accept: str | None, offered: tuple[str, ...]) -> str:
    """Return the media type that the client likes best of those offered; the first of them wins a tie.

    >>> negotiate("text/csv;q=0.9, */*;q=0.1", ("application/json", "text/csv"))
    'text/csv'
    """
    if not accept or accept == "*/*":
        return offered[0]
    if accept in offered:
        return accept
    ranges = [_range(part) for part in accept.split(",")]
    best, chosen = 0.0, ""
    for kind in offered:
        quality = _quality(kind, ranges)
        if quality > best:
            best, chosen = quality, kind
    if not chosen:
        raise problems.NotAcceptable(offered)
    return chosen


def _range(part: str) -> tuple[str, float]:
    kind, *parameters = (word.strip().lower() for word in part.split(";"))
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                quality = min(max(float(value), 0.0), 1.0)
            except ValueError:
                quality = 0.0
    return kind, quality


def _quality(kind: str, ranges: list[tuple[str, float]]) -> float:
    """Return how much a media type is liked: its most specific range decides."""
    for wanted in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        for media_range, quality in ranges:
            if media_range == wanted:
                return quality
    return 0.0
