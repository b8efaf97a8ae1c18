"""A connection to the sidecar: starting it, steps of the door's own, and what goes straight on to the client."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dodona.errors import Unavailable
from dodona.server.door.wire import (
    FLUSH,
    SYNC,
    UTF8,
    Bind,
    Stream,
    cells_of,
    close_portal,
    close_statement,
    codec_of,
    columns_of,
    describe_statement,
    execute_message,
    message,
    parse_message,
    text_of,
    types_of,
)

_PROTOCOL = 3 << 16
_CANCEL = 80877102
_STEP = b"dodona_step"
_ASIDE = frozenset((b"N", b"S"))
_LONGEST = 1 << 30
_ENCODING = b"client_encoding\0"
_MESSAGE = b"A"
"""Of another session: none may be sent, and none is passed on."""


class SidecarUnreachable(Unavailable):
    """The sidecar of the SQL door does not answer: it is being started, or was ended."""

    code = "sidecar-unreachable"
    sqlstate = "57P03"

    def __init__(self) -> None:
        """Use a constant message."""
        super().__init__(
            "The SQL door is being started. Connect again in a moment; what was charged is not charged again."
        )


class StepFailed(Exception):
    """PostgreSQL raised an error in a step of the door's; its message is to be passed on."""

    def __init__(self, body: bytes) -> None:
        """Take the body of the message."""
        super().__init__()
        self.body = body

    @property
    def said(self) -> str:
        """The text of the error."""
        parts = {part[:1]: part[1:] for part in self.body.split(b"\0")}
        return parts.get(b"M", b"").decode("utf-8", "replace")


@dataclass(slots=True)
class Backend:
    """A connection to the sidecar, for one session or for the door itself."""

    stream: Stream
    path: Path
    key: bytes = b""
    status: bytes = b"I"
    """Of the transaction: idle, in one, or in a failed one."""
    seconds: float = 65.0
    """How long it may be silent."""
    codec: str = UTF8
    """How texts are encoded here, as the client set it."""

    @classmethod
    async def connect(
        cls, path: Path, parameters: Mapping[str, str], *, seconds: float = 65.0
    ) -> tuple[Backend, list[tuple[bytes, bytes]]]:
        """Return an open connection, and what the sidecar said; raises StepFailed with what it refuses."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(path))
        except OSError:
            raise SidecarUnreachable from None
        backend = cls(Stream(reader, writer, longest=_LONGEST), path, seconds=seconds)
        body = b"".join(text_of(name) + text_of(value) for name, value in parameters.items()) + b"\0"
        backend.stream.put(struct.pack("!II", len(body) + 8, _PROTOCOL) + body)
        try:
            await backend.stream.flush()
            said = []
            while True:
                kind, body = await backend.next()
                if kind == b"E":
                    raise StepFailed(body)  # noqa: TRY301  closed below
                if kind == b"K":
                    backend.key = body
                said.append((kind, body))
                if kind == b"Z":
                    return backend, said
        except (OSError, asyncio.IncompleteReadError):
            backend.close()
            raise SidecarUnreachable from None
        except StepFailed:
            backend.close()
            raise

    async def next(self) -> tuple[bytes, bytes]:
        """Return the next message, and remember the state of the transaction and the encoding."""
        reply = self.stream.ready()
        if reply is None:
            async with asyncio.timeout(self.seconds):
                reply = await self.stream.next()
        if reply[0] == b"Z":
            self.status = reply[1]
        elif reply[0] == b"S" and reply[1].startswith(_ENCODING):
            self.codec = codec_of(reply[1][len(_ENCODING) : -1].decode())
        return reply if reply[0] != _MESSAGE else await self.next()

    async def exchange(self, data: bytes, aside: Stream | None, end: bytes) -> list[tuple[bytes, bytes]]:
        """Send messages of the door's own, and return the replies up to the `end`th that ends a step.

        `end` has the types of the messages that are waited for, in order. Notices and settings go on to the client.
        """
        self.stream.put(data + FLUSH)
        await self.stream.flush()
        replies, place = [], 0
        while place < len(end):
            kind, body = await self.next()
            if kind in _ASIDE:
                if aside is not None:
                    aside.put(message(kind, body))
                continue
            if kind == b"E":
                raise StepFailed(body)
            replies.append((kind, body))
            if kind == end[place : place + 1] or (kind == b"n" and end[place : place + 1] == b"T"):
                place += 1
        return replies

    async def describe(
        self, statement: str, types: Sequence[int], aside: Stream | None
    ) -> tuple[list[int], list[tuple[str, int, int]]]:
        """Return the types of the parameters and the columns of a statement, which is not executed."""
        parsed = close_statement(_STEP) + parse_message(
            _STEP, statement, types, self.codec
        )  # one that failed was not closed
        step = parsed + describe_statement(_STEP) + close_statement(_STEP)
        parameters, columns = list[int](), list[tuple[str, int, int]]()
        for kind, body in await self.exchange(step, aside, b"31T3"):
            if kind == b"t":
                parameters = types_of(body)
            elif kind == b"T":
                columns = columns_of(body, self.codec)
        return parameters, columns

    async def fetch(
        self, statement: str, types: Sequence[int], bind: Bind, aside: Stream | None
    ) -> list[list[str | None]]:
        """Return the rows of a statement of the door's, with a client's parameters."""
        step = b"".join(
            (
                close_portal(_STEP),
                close_statement(_STEP),
                parse_message(_STEP, statement, types, self.codec),
                bind.message(portal=_STEP, statement=_STEP, results=b"\0\0"),
                execute_message(_STEP),
                close_portal(_STEP),
                close_statement(_STEP),
            )
        )
        replies = await self.exchange(step, aside, b"3312C33")
        return [cells_of(body, self.codec) for kind, body in replies if kind == b"D"]

    async def run(self, *statements: str) -> list[list[str | None]]:
        """Return the rows of statements of the door's, sent as one text; raises StepFailed."""
        rows, failed = list[list[str | None]](), None
        for statement in statements:
            self.stream.put(message(b"Q", text_of(statement)))
            await self.stream.flush()
            while True:
                kind, body = await self.next()
                if kind == b"D":
                    rows.append(cells_of(body))
                elif kind == b"E":
                    failed = StepFailed(body)
                elif kind == b"Z":
                    break
            if failed is not None:
                raise failed
        return rows

    async def sync(self) -> None:
        """End the steps of the door's own."""
        self.stream.put(SYNC)
        await self.stream.flush()
        while (await self.next())[0] != b"Z":
            pass

    async def cancel(self) -> None:
        """Ask the sidecar to end what this connection is doing."""
        try:
            _, writer = await asyncio.open_unix_connection(str(self.path))
            writer.write(struct.pack("!II", 16, _CANCEL) + self.key)
            await writer.drain()
            writer.close()
        except OSError:
            return

    def close(self) -> None:
        """Close the connection."""
        self.stream.close()
