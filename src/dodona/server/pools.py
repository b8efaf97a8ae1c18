"""The parts of the dispatcher: calls that wait, fronts that are connected, and worker processes.

Callers take turns, so that nobody waits longer because another one asks much.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
import subprocess
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Protocol, cast

from dodona.server import channel
from dodona.server.acts import Act, Pool
from dodona.server.channel import EnvelopeReader, Kind
from dodona.server.link import BadFrame, FrameReader
from dodona.server.worker import WorkerSettings

_LOG = logging.getLogger("dodona.server.core")
_LONGEST_BODY = 1 << 10  # of a request: all of it is in the header
_MOST_BUFFERED = 1 << 30


@dataclass(eq=False, slots=True)
class Job:
    """A call on its way."""

    number: int
    header: bytes
    front_id: object
    name: str
    act: Act
    dataset: str | None
    caller: str
    link: Front | None
    owners: bool
    arrived: float
    kind: Kind
    key: str | None
    station: Station | None = None
    begun: float = 0.0
    deaths: int = 0


class FairQueue:
    """Jobs that wait, by caller; callers take turns."""

    def __init__(self) -> None:
        """Begin with nobody waiting."""
        self._callers: OrderedDict[str, deque[Job]] = OrderedDict()
        self.size = 0

    def push(self, job: Job, *, first: bool = False) -> None:
        """Let a job wait behind the others of its caller, or before them if it waited already."""
        waiting = self._callers.setdefault(job.caller, deque())
        (waiting.appendleft if first else waiting.append)(job)
        self.size += 1

    def pop(self, may_run: Callable[[str], bool]) -> Job | None:
        """Take out and return the next job; callers who have enough running are passed over."""
        for caller, waiting in self._callers.items():
            if may_run(caller):
                job = waiting.popleft()
                self.size -= 1
                if waiting:
                    self._callers.move_to_end(caller)
                else:
                    del self._callers[caller]
                return job
        return None

    def overdue(self, before: float) -> Iterator[Job]:
        """Take out and yield the jobs that arrived before a moment."""
        for caller, waiting in tuple(self._callers.items()):
            for job in [job for job in waiting if job.arrived < before]:
                waiting.remove(job)
                self.size -= 1
                yield job
            if not waiting:
                del self._callers[caller]


class Dispatcher(Protocol):
    """What fronts and workers tell the dispatcher."""

    fronts: set[Front]
    peers: tuple[int, ...] | None
    """The users who may connect; None for anyone."""

    def arrive(self, front: Front, header: bytes) -> None:
        """Take a call of a front."""

    def hear(self, worker: WorkerProcess, kind: Kind, number: int, content: bytes) -> None:
        """Take what a worker sent."""

    def bury(self, worker: WorkerProcess) -> None:
        """Take note that a worker ended."""


class Front(asyncio.Protocol):
    """A connection of a front, to one of the two sockets."""

    def __init__(self, core: Dispatcher, *, owners: bool) -> None:
        """Take the dispatcher, and which of the two sockets it is."""
        self.owners = owners
        self._core = core
        self._reader = FrameReader(longest_body=_LONGEST_BODY)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self._transport = cast("asyncio.Transport", transport)
        peers = self._core.peers
        if peers is not None and _peer_user(transport.get_extra_info("socket")) not in peers:
            _LOG.warning("a user who may not connect was turned away")
            self._transport.abort()
            return
        self._core.fronts.add(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes that arrived."""
        try:
            for header, _ in self._reader.feed(data):
                self._core.arrive(self, header)
        except BadFrame:
            _LOG.warning("a link was closed: bad frame")
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        """Forget the connection."""
        self._core.fronts.discard(self)
        self._transport = None

    def write(self, frame: bytes) -> None:
        """Send a frame; a front that reads nothing for very long is cut off."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(frame)
        if self._transport.get_write_buffer_size() > _MOST_BUFFERED:
            self._transport.abort()

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()


class WorkerProcess(asyncio.Protocol):
    """A worker process, the jobs that it has, and how many more it takes."""

    def __init__(self, station: Station, core: Dispatcher) -> None:
        """Take the queue that it serves; `start` starts the process."""
        self.station = station
        self.running: dict[int, Job] = {}
        self.ready = False
        self.started = asyncio.get_running_loop().time()
        self._core = core
        self._reader = EnvelopeReader()
        self._transport: asyncio.Transport | None = None
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self, settings: WorkerSettings) -> None:
        """Start the process, with one end of a pair of sockets."""
        parent, other = socket.socketpair()
        with other:
            command = [sys.executable, "-m", "dodona.server.worker", json.dumps(asdict(settings)), str(other.fileno())]
            environment = os.environ | {"MALLOC_ARENA_MAX": "4"}
            self.process = subprocess.Popen(  # noqa: ASYNC220, S603  it returns at once; our own module
                command, stdin=subprocess.DEVNULL, pass_fds=(other.fileno(),), env=environment
            )
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=parent)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take bytes that arrived."""
        for kind, job, _, content in self._reader.feed(data):
            self._core.hear(self, kind, job, content)

    def connection_lost(self, _: Exception | None) -> None:
        """Forget the connection."""
        self._transport = None
        self._core.bury(self)

    @property
    def room(self) -> bool:
        """Whether it takes another job."""
        return self.ready and self._transport is not None and len(self.running) < self.station.slots

    def give(self, job: Job) -> None:
        """Give it a job."""
        self.running[job.number] = job
        flags = channel.OWNERS if job.owners else 0
        if self._transport is not None:
            self._transport.write(channel.pack(job.kind, job.number, job.header, flags))

    def kill(self) -> None:
        """End the process at once, whatever it is doing."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()


@dataclass(eq=False, slots=True)
class Station:
    """A queue, and the workers that serve it."""

    pool: Pool
    number: int
    size: int
    threads: int
    seconds: float
    processor_seconds: float
    most: int | None = None
    """How many jobs of one caller its workers have at once, where jobs take so long that others would wait in vain."""
    queue: FairQueue = field(default_factory=FairQueue)
    workers: list[WorkerProcess] = field(default_factory=list)
    failures: int = 0
    starting: int = 0

    def has_room_for(self, caller: str) -> bool:
        """Return whether a caller may have a further job here."""
        if self.most is None:
            return True
        return sum(job.caller == caller for worker in self.workers for job in worker.running.values()) < max(
            1, self.most
        )

    @property
    def slots(self) -> int:
        """Jobs that a worker has at once: one more than it has threads, so that none of them waits for the next."""
        return self.threads + 1


def _peer_user(connection: socket.socket) -> int:
    """Return the user at the other end of a local socket."""
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(user)
