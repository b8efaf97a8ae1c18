"""The core's dispatcher: it queues calls, gives them to workers, ends what overruns, and holds answers to the grid.

It opens no data and no ledger, and reads no bodies: a call's header is passed on to a worker as it came, and a worker's
reply to the front. Whatever spends has a key, so that a call whose worker died is given to another one and never
charged twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import zlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

from dodona.errors import DodonaError
from dodona.server import channel
from dodona.server.acts import (
    ACTS,
    Act,
    ActUnknown,
    BadCall,
    DatasetUnavailable,
    OwnersOnly,
    Pool,
    RoleRefused,
    TookTooLong,
    TooManyRequests,
    WorkerLost,
)
from dodona.server.channel import EnvelopeReader, Kind
from dodona.server.link import (
    JSON,
    LONGEST_KEY,
    BadFrame,
    FrameReader,
    KeyMissing,
    Reply,
    make_reply_frame,
    problem_reply,
)
from dodona.server.timing import QUANTUM, TimeGrids
from dodona.server.worker import WorkerSettings

_LOG = logging.getLogger("dodona.server.core")
_SWEEP = 0.2
_MOST_DEATHS = 2
_LONGEST_BODY = 1 << 10  # of a request: all of it is in the header
_MOST_BUFFERED = 1 << 30
_LONGEST_PAUSE = 5.0
_SHORT_LIFE = 2.0
_STOPPING = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many workers there are, and what one caller and one call may use."""

    free_workers: int = 1
    paid_workers: int = 1
    free_threads: int = 2
    paid_threads: int = 16
    job_threads: int = 2
    running: int = 16
    """Calls of one caller that workers have at once."""
    waiting: int = 256
    """Calls of one caller that are under way at once, running or not; more are refused."""
    waiting_in_all: int = 8192
    free_seconds: float = 15.0
    """How long a call may run, by the clock, in the pool of free answers."""
    paid_seconds: float = 60.0
    job_seconds: float = 3600.0
    queue_seconds: float = 60.0
    """How long a call may wait for a worker."""
    processor_seconds: float = 30.0
    """Of one call's thread, in the pools of free and of measured answers."""
    memory: int = 8 << 30
    """Bytes of address space of a worker; 0 for no limit."""
    quantum: float = QUANTUM
    """The first point of the time grid, in seconds."""
    quanta: Mapping[str, float] = field(default_factory=dict)
    """The same by dataset, where it differs."""
    socket_mode: int = 0o600
    peers: tuple[int, ...] | None = None
    """The users who may connect; None for anyone whom the mode of the sockets lets in."""


@dataclass(eq=False, slots=True)
class _Job:
    number: int
    header: bytes
    front_id: object
    name: str
    act: Act
    dataset: str | None
    caller: str
    link: _Front | None
    owners: bool
    arrived: float
    kind: Kind
    key: str | None
    station: _Station | None = None
    begun: float = 0.0
    deaths: int = 0


class _FairQueue:
    """Jobs that wait, by caller; callers take turns."""

    def __init__(self) -> None:
        self._callers: OrderedDict[str, deque[_Job]] = OrderedDict()
        self.size = 0

    def push(self, job: _Job, *, first: bool = False) -> None:
        waiting = self._callers.setdefault(job.caller, deque())
        (waiting.appendleft if first else waiting.append)(job)
        self.size += 1

    def pop(self, may_run: Callable[[str], bool]) -> _Job | None:
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

    def overdue(self, before: float) -> Iterator[_Job]:
        """Take out and yield the jobs that arrived before a moment."""
        for caller, waiting in tuple(self._callers.items()):
            for job in [job for job in waiting if job.arrived < before]:
                waiting.remove(job)
                self.size -= 1
                yield job
            if not waiting:
                del self._callers[caller]


class _Front(asyncio.Protocol):
    """A connection of a front, to one of the two sockets."""

    def __init__(self, core: Core, *, owners: bool) -> None:
        self.owners = owners
        self._core = core
        self._reader = FrameReader(longest_body=_LONGEST_BODY)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peers = self._core.limits.peers
        if peers is not None and _peer_user(transport.get_extra_info("socket")) not in peers:
            _LOG.warning("a user who may not connect was turned away")
            self._transport.abort()
            return
        self._core.fronts.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            for header, _ in self._reader.feed(data):
                self._core.arrive(self, header)
        except BadFrame:
            _LOG.warning("a link was closed: bad frame")
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
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
        if self._transport is not None:
            self._transport.close()


class _WorkerProcess(asyncio.Protocol):
    """A worker process, the jobs that it has, and how many more it takes."""

    def __init__(self, station: _Station, core: Core) -> None:
        self.station = station
        self.running: dict[int, _Job] = {}
        self.ready = False
        self.started = asyncio.get_running_loop().time()
        self._core = core
        self._reader = EnvelopeReader()
        self._transport: asyncio.Transport | None = None
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self, settings: WorkerSettings) -> None:
        own, other = socket.socketpair()
        with other:
            command = [sys.executable, "-m", "dodona.server.worker", json.dumps(asdict(settings)), str(other.fileno())]
            environment = os.environ | {"MALLOC_ARENA_MAX": "4"}
            self.process = subprocess.Popen(  # noqa: ASYNC220, S603  it returns at once; our own module
                command, stdin=subprocess.DEVNULL, pass_fds=(other.fileno(),), env=environment
            )
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=own)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for kind, job, _, content in self._reader.feed(data):
            self._core.hear(self, kind, job, content)

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self._core.bury(self)

    @property
    def room(self) -> bool:
        return self.ready and self._transport is not None and len(self.running) < self.station.slots

    def give(self, job: _Job) -> None:
        self.running[job.number] = job
        flags = channel.OWNERS if job.owners else 0
        if self._transport is not None:
            self._transport.write(channel.pack(job.kind, job.number, job.header, flags))

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()


@dataclass(eq=False, slots=True)
class _Station:
    """A queue, and the workers that serve it."""

    pool: Pool
    number: int
    size: int
    threads: int
    seconds: float
    processor_seconds: float
    queue: _FairQueue = field(default_factory=_FairQueue)
    workers: list[_WorkerProcess] = field(default_factory=list)
    failures: int = 0
    starting: int = 0

    @property
    def slots(self) -> int:
        """Jobs that a worker has at once: one more than it has threads, so that none of them waits for the next."""
        return self.threads + 1


class Core:
    """The dispatcher: fronts on one side, workers on the other."""

    def __init__(self, folder: Path, state: Path, limits: Limits) -> None:
        """Take the folder of the dataset files, and one for what outlives a worker."""
        self.limits = limits
        self.fronts: set[_Front] = set()
        self._folder, self._state = folder, state
        self._grids = TimeGrids(limits.quantum, limits.quanta)
        self._last = 0
        self._under_way: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._broken: set[str] = set()
        self._runs: set[tuple[str | None, str, str | None]] = set()
        self._counts: Counter[str] = Counter()
        self._stopping = False
        self._tasks: set[asyncio.Task[None]] = set()
        free = _Station(
            Pool.FREE, 0, limits.free_workers, limits.free_threads, limits.free_seconds, limits.processor_seconds
        )
        paid = [
            _Station(Pool.PAID, number, 1, limits.paid_threads, limits.paid_seconds, limits.processor_seconds)
            for number in range(limits.paid_workers)
        ]
        jobs = _Station(Pool.JOBS, 0, 1, limits.job_threads, limits.job_seconds, limits.job_seconds)
        self._free, self._paid, self._jobs = free, paid, jobs
        self._stations = (free, *paid, jobs)

    # --- Calls arrive. ---

    def arrive(self, front: _Front, header: bytes) -> None:
        """Take a call of a front: refuse it, or let it wait for a worker."""
        front_id: object = None
        try:
            call = _parse(header)
            front_id = call["id"]
            if call["act"] == "status":
                front.write(make_reply_frame(front_id, self._status()))
                return
            job = self._admit(front, header, call)
        except DodonaError as refusal:
            headers = {"Retry-After": "1"} if isinstance(refusal, TooManyRequests) else None
            self._counts[f"refused {refusal.code}"] += 1
            front.write(make_reply_frame(front_id, problem_reply(refusal, headers=headers)))
            return
        self._under_way[job.caller] += 1
        self._enqueue(job)

    def _admit(self, front: _Front, header: bytes, call: Mapping[str, object]) -> _Job:
        name, dataset, caller = str(call["act"]), call["dataset"], cast("dict[str, object]", call["caller"])
        arguments = cast("dict[str, object]", call["arguments"])
        act = ACTS.get(name)
        if act is None:
            raise ActUnknown
        if act.owners_only and not front.owners:
            raise OwnersOnly
        if caller["role"] not in act.roles:
            raise RoleRefused(act.roles)
        key = arguments.get("key")
        if act.needs_key and not _is_key(key):
            raise KeyMissing
        if act.needs_dataset and not isinstance(dataset, str):
            raise BadCall("This act is about a dataset: name it.")
        if dataset in self._broken:
            raise DatasetUnavailable
        asking = str(caller["name"])
        if self._under_way[asking] >= self.limits.waiting or self._under_way.total() >= self.limits.waiting_in_all:
            raise TooManyRequests
        self._last += 1
        return _Job(
            number=self._last,
            header=header,
            front_id=call["id"],
            name=name,
            act=act,
            dataset=cast("str | None", dataset),
            caller=asking,
            link=front,
            owners=front.owners,
            arrived=_now(),
            kind=Kind.CALL_IF_FREE if act.free_first else Kind.CALL,
            key=cast("str | None", key),
        )

    def _enqueue(self, job: _Job, *, first: bool = False) -> None:
        job.station = self._station(job)
        job.station.queue.push(job, first=first)
        self._pump(job.station)

    def _station(self, job: _Job) -> _Station:
        """Return where a job is done: what measures one dataset goes to one worker, so that commits are shared."""
        pool = Pool.FREE if job.kind is Kind.CALL_IF_FREE else job.act.pool
        if pool is Pool.PAID:
            return self._paid[zlib.crc32((job.dataset or "").encode()) % len(self._paid)]
        return self._free if pool is Pool.FREE else self._jobs

    def _pump(self, station: _Station) -> None:
        """Give waiting jobs to the workers that have room."""
        while station.queue.size:
            if len(station.workers) + station.starting < station.size:
                self._start(station)
            worker = min((one for one in station.workers if one.room), key=lambda one: len(one.running), default=None)
            if worker is None:
                return
            job = station.queue.pop(lambda caller: self._running[caller] < self.limits.running)
            if job is None:
                return
            job.begun = _now()
            self._running[job.caller] += 1
            worker.give(job)

    # --- Workers reply, die, or overrun. ---

    def hear(self, worker: _WorkerProcess, kind: Kind, number: int, content: bytes) -> None:
        """Take what a worker sent."""
        if kind is Kind.READY:
            worker.ready = True
            self._pump(worker.station)
            return
        job = worker.running.get(number)
        if job is None:
            return
        match kind:
            case Kind.PROGRESS:
                if job.link is not None:
                    job.link.write(content)
            case Kind.OVERRUN:
                self._overrun(worker, job)
            case Kind.NOT_FREE:
                self._release(worker, job)
                job.kind = Kind.CALL
                self._enqueue(job)
                self._pump(worker.station)
            case _:
                worker.station.failures = 0
                self._release(worker, job)
                if kind is Kind.BROKEN and job.dataset is not None:
                    _LOG.critical("a dataset is no longer served: broken invariant")
                    self._broken.add(job.dataset)
                if kind is not Kind.RAN:
                    self._reply(job, content)
                else:
                    self._finish(job)
                if kind is Kind.REPLY_THEN_RUN:
                    self._run_later(job)
                self._pump(worker.station)

    def _release(self, worker: _WorkerProcess, job: _Job) -> None:
        del worker.running[job.number]
        self._lower(self._running, job.caller)
        for station in self._stations:  # the caller may have jobs that waited for this one elsewhere
            if station is not worker.station and station.queue.size:
                self._pump(station)

    def _reply(self, job: _Job, frame: bytes) -> None:
        """Send the last frame of a call: what comes from where data are read leaves on the time grid."""
        if job.station is not None and job.station.pool is not Pool.FREE:
            now = _now()
            at = self._grids.grid(job.dataset).leave(arrived=job.arrived, ready=now)
            if at > now:
                asyncio.get_running_loop().call_at(at, self._send, job, frame)
                return
        self._send(job, frame)

    def _send(self, job: _Job, frame: bytes) -> None:
        if job.link is not None:
            job.link.write(frame)
        self._finish(job)

    def _finish(self, job: _Job) -> None:
        self._counts[f"done {job.name}"] += 1
        self._lower(self._under_way, job.caller)
        if job.kind is Kind.RUN:
            self._runs.discard((job.dataset, job.caller, job.key))

    def _run_later(self, job: _Job) -> None:
        """Let the long part of a call wait for a worker, unless it is running already."""
        run = (job.dataset, job.caller, job.key)
        if run in self._runs:
            return
        self._runs.add(run)
        self._last += 1
        self._under_way[job.caller] += 1
        self._enqueue(
            _Job(
                number=self._last,
                header=job.header,
                front_id=None,
                name=job.name,
                act=job.act,
                dataset=job.dataset,
                caller=job.caller,
                link=None,
                owners=job.owners,
                arrived=_now(),
                kind=Kind.RUN,
                key=job.key,
            )
        )

    def _overrun(self, worker: _WorkerProcess, job: _Job) -> None:
        """End a worker because of one of its jobs; the others are done again elsewhere."""
        self._counts["overruns"] += 1
        _LOG.warning("a worker is ended: %s took too long", job.name)
        self._release(worker, job)
        worker.kill()
        self._settle(job, Kind.SETTLE_SLOW)

    def bury(self, worker: _WorkerProcess) -> None:
        """Give the jobs of a worker that died to others."""
        station = worker.station
        if worker in station.workers:
            station.workers.remove(worker)
        worker.kill()
        if worker.process is not None:
            self._spawn(_reap(worker.process))
        if self._stopping:
            return
        self._counts["deaths"] += 1
        short = _now() - worker.started < _SHORT_LIFE
        station.failures = station.failures + 1 if short else 0
        for job in tuple(worker.running.values()):
            self._release(worker, job)
            job.deaths += 1
            if job.deaths >= _MOST_DEATHS:
                self._settle(job, Kind.SETTLE_LOST)
            else:
                self._enqueue(job, first=True)
        self._start(station)

    def _settle(self, job: _Job, kind: Kind) -> None:
        """Reply to a call that is given up: a worker looks up whether it was charged."""
        error = TookTooLong if kind is Kind.SETTLE_SLOW else WorkerLost
        if job.kind is Kind.RUN:
            self._finish(job)
        elif not job.act.spends:
            self._reply(job, make_reply_frame(job.front_id, problem_reply(error())))
        elif job.kind in {Kind.SETTLE_SLOW, Kind.SETTLE_LOST}:  # not even that could be done: it may have been charged
            self._reply(job, make_reply_frame(job.front_id, problem_reply(error(charged=True))))
        else:
            job.kind, job.deaths = kind, 0
            self._enqueue(job, first=True)

    # --- The processes. ---

    def _start(self, station: _Station) -> None:
        """Start a worker, later if the last ones ended soon after their start."""
        if self._stopping or len(station.workers) + station.starting >= station.size:
            return
        station.starting += 1
        pause = min(_LONGEST_PAUSE, 0.1 * 2**station.failures) if station.failures else 0.0
        self._spawn(self._start_after(station, pause))

    async def _start_after(self, station: _Station, pause: float) -> None:
        try:
            if pause:
                await asyncio.sleep(pause)
            if self._stopping:
                return
            worker = _WorkerProcess(station, self)
            await worker.start(self._settings(station))
            station.workers.append(worker)
        finally:
            station.starting -= 1

    def _settings(self, station: _Station) -> WorkerSettings:
        return WorkerSettings(
            folder=str(self._folder),
            state=str(self._state),
            pool=station.pool.value,
            threads=station.threads,
            processor_seconds=station.processor_seconds,
            memory=self.limits.memory,
            patience=max(1.0, station.seconds / 2),
            parent=os.getpid(),
        )

    def _spawn(self, work: object) -> None:
        task = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sweep(self) -> None:
        """End what runs too long, and refuse what waits too long."""
        while True:
            await asyncio.sleep(_SWEEP)
            now = _now()
            for station in self._stations:
                for worker in tuple(station.workers):
                    late = [job for job in worker.running.values() if now - job.begun > station.seconds]
                    if late:
                        self._overrun(worker, min(late, key=lambda job: job.begun))
                if station.pool is not Pool.JOBS:
                    for job in station.queue.overdue(now - self.limits.queue_seconds):
                        refusal = problem_reply(TooManyRequests(), headers={"Retry-After": "5"})
                        self._reply(job, make_reply_frame(job.front_id, refusal))

    @staticmethod
    def _lower(counter: Counter[str], name: str) -> None:
        counter[name] -= 1
        if counter[name] <= 0:
            del counter[name]

    def _status(self) -> Reply:
        """Return how the core is doing, for health checks and metrics; nothing of it depends on data."""
        document = {
            "ready": all(any(one.ready for one in station.workers) for station in (self._free, *self._paid)),
            "pools": [
                {
                    "pool": station.pool.value,
                    "number": station.number,
                    "workers": sum(one.ready for one in station.workers),
                    "running": sum(len(one.running) for one in station.workers),
                    "waiting": station.queue.size,
                    "processes": [one.process.pid for one in station.workers if one.process is not None],
                }
                for station in self._stations
            ],
            "under_way": self._under_way.total(),
            "broken": len(self._broken),
            "counts": dict(self._counts),
        }
        return Reply(200, JSON, json.dumps(document).encode())

    # --- Start and end. ---

    async def serve(self, analysts: Path, owners: Path, ready: Callable[[], None], stop: asyncio.Event) -> None:
        """Serve both sockets until `stop` is set, and then end in order: calls that run are finished first."""
        loop = asyncio.get_running_loop()
        servers = []
        for path, of_owners in ((analysts, False), (owners, True)):
            listening = _listen(path, self.limits.socket_mode)
            servers.append(
                await loop.create_unix_server(lambda own=of_owners: _Front(self, owners=own), sock=listening)
            )
        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        for station in (self._free, *self._paid):
            for _ in range(station.size):
                self._start(station)
        sweeping = loop.create_task(self._sweep())
        while not json.loads(self._status().body)["ready"]:
            await asyncio.sleep(0.01)
        ready()
        await stop.wait()
        for server in servers:
            server.close()
        until = _now() + _STOPPING
        while self._under_way.total() > len(self._runs) and _now() < until:
            await asyncio.sleep(0.02)
        self._stopping = True
        sweeping.cancel()
        for front in tuple(self.fronts):
            front.close()
        for station in self._stations:
            for worker in tuple(station.workers):
                worker.kill()
        for path in (analysts, owners):
            path.unlink(missing_ok=True)
        while any(station.workers for station in self._stations):
            await asyncio.sleep(0.01)
        await asyncio.gather(*self._tasks, return_exceptions=True)


def run_core(  # noqa: PLR0913  what an operator sets
    folder: Path,
    *,
    analysts: Path,
    owners: Path,
    state: Path | None = None,
    limits: Limits | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve the dataset files of a folder on two local sockets, until SIGTERM or SIGINT. It blocks.

    `state` is a folder that only the core may read; `ready` is called once calls are answered.
    """
    asyncio.run(_run(folder, analysts, owners, state, limits or Limits(), ready))


async def _run(  # noqa: PLR0913, PLR0917  what an operator sets
    folder: Path, analysts: Path, owners: Path, state: Path | None, limits: Limits, ready: Callable[[], None]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    core = Core(folder.resolve(), (folder / ".state" if state is None else state).resolve(), limits)
    await core.serve(analysts, owners, ready, stop)


def _parse(header: bytes) -> dict[str, object]:
    """Return a call's header if it has all parts; the core accepts no nameless caller."""
    try:
        call = json.loads(header)
    except (ValueError, RecursionError):
        raise BadCall("The call is no JSON.") from None
    if not isinstance(call, dict) or not {"id", "act", "dataset", "caller", "arguments", "accept"} <= call.keys():
        raise BadCall("A call has an id, an act, a dataset, a caller, arguments and what it accepts.")
    caller = call["caller"]
    if not isinstance(caller, dict) or not {"name", "role"} <= caller.keys() <= {"name", "role", "max_price"}:
        raise BadCall("A caller has a name and a role.")
    name = caller["name"]
    if not isinstance(name, str) or not name or not isinstance(caller["role"], str):
        raise BadCall("The core accepts no nameless caller.")
    if not isinstance(call["arguments"], dict) or not isinstance(call["dataset"], str | None):
        raise BadCall("Arguments are an object, and a dataset is named by a text.")
    return call


def _is_key(key: object) -> bool:
    return isinstance(key, str) and 1 <= len(key) <= LONGEST_KEY and key.isprintable()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _listen(path: Path, mode: int) -> socket.socket:
    """Return a listening socket at a path; only those whom the mode names may connect, from the first moment on."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)
    try:
        listening.bind(str(path))
    finally:
        os.umask(before)
    listening.listen(128)
    listening.setblocking(False)
    return listening


def _peer_user(connection: socket.socket) -> int:
    """Return the user at the other end of a local socket."""
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(user)


async def _reap(process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        await asyncio.sleep(0.01)


def main(settings: str) -> None:
    """Run the core with its settings as JSON; a line on standard output says that it is ready."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    found = json.loads(settings)

    def ready() -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()

    state = found.get("state")
    run_core(
        Path(found["folder"]),
        analysts=Path(found["analysts"]),
        owners=Path(found["owners"]),
        state=None if state is None else Path(state),
        limits=Limits(**found.get("limits", {})),
        ready=ready,
    )


if __name__ == "__main__":
    main(sys.argv[1])
