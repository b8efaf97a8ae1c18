"""PostgreSQL's messages, version 3 of the protocol: reading them off a stream, and writing those of the door."""

from __future__ import annotations

import asyncio
import codecs
import struct
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_MESSAGE = 16 << 20
"""Of a client: a statement with its parameters."""
_CHUNK = 1 << 16
_SHORTEST = 4
_HEAD = struct.Struct("!cI")
_COUNT = struct.Struct("!H")
_LENGTH = struct.Struct("!i")

UTF8 = "utf-8"
_CODECS = {
    "UTF8": UTF8, "SQL_ASCII": UTF8, "LATIN5": "iso8859-9", "LATIN6": "iso8859-10", "LATIN7": "iso8859-13",
    "LATIN8": "iso8859-14", "LATIN9": "iso8859-15", "LATIN10": "iso8859-16", "EUC_CN": "gb2312", "SJIS": "cp932",
    "BIG5": "cp950", "UHC": "cp949", "KOI8R": "koi8-r", "KOI8U": "koi8-u",
}  # fmt: skip
"""Python's names of PostgreSQL's encodings, where they are not the same, or windows and parts of ISO 8859 by number."""

SYNC, FLUSH, TERMINATE = b"S\0\0\0\4", b"H\0\0\0\4", b"X\0\0\0\4"


class Broken(ConnectionError):
    """The other side sent what no message is, or more than one may be."""


class Stream:
    """Cuts what arrives on a connection into messages, and gathers what is to be sent."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, longest: int = LONGEST_MESSAGE
    ) -> None:
        """Take both ends of a connection."""
        self.reader, self.writer = reader, writer
        self._longest = longest
        self._buffer = bytearray()
        self._out: list[bytes] = []
        self._gathered = 0

    async def next(self) -> tuple[bytes, bytes]:
        """Return the type and the body of the next message; raises IncompleteReadError at the end."""
        while True:
            packet = self.ready()
            if packet is not None:
                return packet
            data = await self.reader.read(_CHUNK)
            if not data:
                raise asyncio.IncompleteReadError(b"", None)
            self._buffer += data

    def ready(self) -> tuple[bytes, bytes] | None:
        """Return the next message if it has arrived."""
        if len(self._buffer) < _HEAD.size:
            return None
        kind, length = _HEAD.unpack_from(self._buffer)
        if not _SHORTEST <= length <= self._longest:
            raise Broken
        if len(self._buffer) < length + 1:
            return None
        body = bytes(self._buffer[5 : length + 1])
        del self._buffer[: length + 1]
        return kind, body

    def put(self, data: bytes) -> None:
        """Gather what is to be sent."""
        self._out.append(data)
        self._gathered += len(data)

    async def flush(self, *, beyond: int = 0) -> None:
        """Send what was gathered, if it is more than some bytes; waits for a reader that is slow."""
        if self._gathered <= beyond:
            return
        data, self._out, self._gathered = b"".join(self._out), [], 0
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()


def message(kind: bytes, body: bytes = b"") -> bytes:
    """Return a message."""
    return _HEAD.pack(kind, len(body) + 4) + body


def codec_of(encoding: str) -> str:
    """Return Python's name of an encoding of PostgreSQL's; ASCII for one that Python lacks.

    >>> [codec_of(one) for one in ("UTF8", "LATIN1", "WIN1252", "ISO_8859_5", "EUC_JP", "MULE_INTERNAL")]
    ['utf-8', 'iso8859-1', 'cp1252', 'iso8859-5', 'euc_jp', 'ascii']
    """
    codec = _CODECS.get(encoding)
    if codec is None:
        codec = encoding.lower().replace("latin", "iso8859-").replace("win", "cp").replace("iso_8859_", "iso8859-")
    try:
        codecs.lookup(codec)
    except LookupError:
        return "ascii"
    return codec


def text_of(value: str, codec: str = UTF8) -> bytes:
    """Return a text as messages hold it, with question marks for what its encoding lacks."""
    return value.encode(codec, "replace").replace(b"\0", b"") + b"\0"


def parse_message(name: bytes, statement: str, types: Sequence[int] = (), codec: str = UTF8) -> bytes:
    """Return the message Parse."""
    typed = struct.pack(f"!H{len(types)}I", len(types), *types)
    return message(b"P", name + b"\0" + text_of(statement, codec) + typed)


def describe_statement(name: bytes) -> bytes:
    """Return the message Describe of a statement."""
    return message(b"D", b"S" + name + b"\0")


def close_statement(name: bytes) -> bytes:
    """Return the message Close of a statement."""
    return message(b"C", b"S" + name + b"\0")


def close_portal(name: bytes) -> bytes:
    """Return the message Close of a portal."""
    return message(b"C", b"P" + name + b"\0")


def execute_message(portal: bytes, rows: int = 0) -> bytes:
    """Return the message Execute."""
    return message(b"E", portal + b"\0" + struct.pack("!I", rows))


def notice(severity: str, sqlstate: str, text: str, codec: str = UTF8, *, kind: bytes = b"N") -> bytes:
    """Return a notice, or with kind E an error."""
    fields = {b"S": severity, b"V": severity, b"C": sqlstate, b"M": text}
    return message(kind, b"".join(name + text_of(value, codec) for name, value in fields.items()) + b"\0")


def plain_error(body: bytes) -> bytes:
    """Return an error without the lines of the sidecar's own functions in its context."""
    return b"\0".join(part for part in body.split(b"\0") if not (part[:1] == b"W" and b" dodona." in part))


def cells_of(body: bytes, codec: str = UTF8) -> list[str | None]:
    """Return the values of a row that has all of them as text."""
    place, out = 2, list[str | None]()
    for _ in range(_COUNT.unpack_from(body)[0]):
        (length,) = _LENGTH.unpack_from(body, place)
        place += 4
        out.append(None if length < 0 else body[place : place + length].decode(codec))
        place += max(length, 0)
    return out


def columns_of(body: bytes, codec: str = UTF8) -> list[tuple[str, int, int]]:
    """Return the name, the type and the type's modifier of each column of a RowDescription."""
    place, out = 2, []
    for _ in range(_COUNT.unpack_from(body)[0]):
        end = body.index(b"\0", place)
        _, _, kind, _, modifier, _ = struct.unpack_from("!IhIhih", body, end + 1)
        out.append((body[place:end].decode(codec), kind, modifier))
        place = end + 19
    return out


def types_of(body: bytes) -> list[int]:
    """Return the types of a ParameterDescription, or of the end of Parse; raises Broken if it is none."""
    try:
        (count,) = _COUNT.unpack_from(body)
        return list(struct.unpack_from(f"!{count}I", body, 2))
    except struct.error:
        raise Broken from None


def parts_of(body: bytes, count: int) -> list[bytes]:
    """Return the texts that a message begins with, and its rest; raises Broken if it has fewer."""
    parts = body.split(b"\0", count - 1)
    if len(parts) != count:
        raise Broken
    return parts


@dataclass(frozen=True, slots=True)
class Bind:
    """The message Bind, taken apart, so that answers can be bound after the client's own parameters."""

    portal: bytes
    statement: bytes
    formats: tuple[int, ...]
    """One for each parameter."""
    values: tuple[bytes | None, ...]
    results: bytes
    """The formats of the columns, as they were sent."""

    @classmethod
    def read(cls, body: bytes) -> Bind:
        """Return the parts of a message; raises Broken if it is none."""
        try:
            portal, statement, rest = parts_of(body, 3)
            (count,) = _COUNT.unpack_from(rest)
            formats = struct.unpack_from(f"!{count}H", rest, 2)
            place = 2 + 2 * count
            (number,) = _COUNT.unpack_from(rest, place)
            place += 2
            values: list[bytes | None] = []
            for _ in range(number):
                (length,) = _LENGTH.unpack_from(rest, place)
                place += 4
                values.append(None if length < 0 else rest[place : place + length])
                place += max(length, 0)
            if place > len(rest):
                raise Broken
        except struct.error:
            raise Broken from None
        if len(formats) <= 1:
            formats = (formats or (0,)) * number
        return cls(portal, statement, tuple(formats), tuple(values), rest[place:])

    def message(
        self, extra: Sequence[bytes] = (), *, portal: bytes | None = None, statement: bytes | None = None,
        results: bytes | None = None,
    ) -> bytes:  # fmt: skip
        """Return the message with more parameters, as text, and perhaps of another portal or statement."""
        formats = (*self.formats, *(0 for _ in extra))
        parts = [
            (self.portal if portal is None else portal) + b"\0",
            (self.statement if statement is None else statement) + b"\0",
            struct.pack(f"!H{len(formats)}H", len(formats), *formats),
            _COUNT.pack(len(formats)),
        ]
        values = (*self.values, *extra)
        parts += [_LENGTH.pack(-1) if value is None else _LENGTH.pack(len(value)) + value for value in values]
        return message(b"B", b"".join([*parts, self.results if results is None else results]))


NO_VALUES = Bind(b"", b"", (), (), b"\0\0")
