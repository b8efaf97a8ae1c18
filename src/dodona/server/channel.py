"""The channel between the dispatcher and a worker: envelopes around the frames of the link, which pass unread.

An envelope says which job it is about and what it means; its content is the front's own header on the way in, and a
whole frame for the front on the way out.
"""

import socket
import struct
from collections.abc import Iterator
from enum import IntEnum

_HEAD = struct.Struct(">IQBB")


class Kind(IntEnum):
    """What an envelope means."""

    CALL = 1
    """Carry out a call."""
    CALL_IF_FREE = 2
    """Answer a question if it costs nothing, and else say that it does."""
    SETTLE_SLOW = 3
    """Say whether a call was charged that was ended because it took too long."""
    SETTLE_LOST = 4
    """Say whether a call was charged whose workers ended twice."""
    RUN = 5
    """Carry out the long part of a call that was replied to before."""

    READY = 10
    """The worker takes jobs."""
    REPLY = 11
    """The last frame of a call."""
    PROGRESS = 12
    """A frame that says how far a call is."""
    NOT_FREE = 13
    """The question costs something: ask the pool that measures."""
    OVERRUN = 14
    """The call uses more processor time or memory than one may: end this worker."""
    BROKEN = 15
    """The last frame of a call that met a broken invariant: serve this dataset no more."""
    REPLY_THEN_RUN = 16
    """The last frame of a call whose long part is still to be run."""
    RAN = 17
    """The long part of a call ended."""


OWNERS = 1
"""A flag: the call came through the owners' socket."""


def pack(kind: Kind, job: int, content: bytes = b"", flags: int = 0) -> bytes:
    """Return an envelope."""
    return _HEAD.pack(len(content), job, kind, flags) + content


class EnvelopeReader:
    """Cuts a stream of bytes into envelopes."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._buffer = bytearray()
        self._needed = _HEAD.size

    def feed(self, data: bytes) -> Iterator[tuple[Kind, int, int, bytes]]:
        """Yield the kind, the job, the flags and the content of each envelope that is complete."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= self._needed:
            length, job, kind, flags = _HEAD.unpack_from(buffer, 0)
            end = _HEAD.size + length
            if len(buffer) < end:
                self._needed = end
                return
            content = bytes(buffer[_HEAD.size : end])
            del buffer[:end]
            self._needed = _HEAD.size
            yield Kind(kind), job, flags, content


def receive(channel: socket.socket) -> tuple[Kind, int, int, bytes] | None:
    """Return the next envelope of a blocking socket; None if the other end is gone."""
    head = _receive_exactly(channel, _HEAD.size)
    if head is None:
        return None
    length, job, kind, flags = _HEAD.unpack(head)
    content = _receive_exactly(channel, length) if length else b""
    return None if content is None else (Kind(kind), job, flags, content)


def _receive_exactly(channel: socket.socket, length: int) -> bytes | None:
    first = channel.recv(length)
    if len(first) == length:
        return first
    buffer = bytearray(first)
    while len(buffer) < length:
        more = channel.recv(min(length - len(buffer), 1 << 20))
        if not more:
            return None
        buffer += more
    return bytes(buffer)
