"""The core's dispatcher: it queues calls, gives them to workers, ends what overruns, and holds answers to the grid.

It opens no data and no ledger, and reads no bodies: a call's header is passed on to a worker as it came, and a worker's
reply to the front. Whatever spends has a key, so that a call whose worker died is given to another one and never
charged twice.
"""

import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
import socket
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from dodona.errors import DodonaError
from dodona.server.acts import DatasetUnavailable, Pool, TookTooLong, TooManyRequests, WorkerLost
from dodona.server.admission import WorkerLimits, decode_call, permitted_act, validate_call
from dodona.server.channel import Kind
from dodona.server.link import JSON, Reply, make_reply_frame, problem_reply
from dodona.server.pools import Front, Job, Station, WorkerProcess
from dodona.server.timing import TimeGrids
from dodona.server.worker import WorkerSettings

__all__ = ["Core", "WorkerLimits", "main", "run_core"]

_LOG = logging.getLogger("dodona.server.core")
_SWEEP = 0.2
_MOST_DEATHS = 2
_SETTLING = frozenset((Kind.SETTLE_SLOW, Kind.SETTLE_LOST))
_MOST_SETTLING = 40  # looking up a charge is quick, and a wrong word about it would be worse than a wait
_LONGEST_PAUSE = 5.0
_SHORT_LIFE = 2.0
_STOPPING = 10.0


class Core:
    """The dispatcher: fronts on one side, workers on the other."""

    def __init__(self, folder: Path, state: Path, limits: WorkerLimits) -> None:
        """Take the folder of the dataset files, and one for what outlives a worker."""
        self.limits, self.peers = limits, limits.peers
        self.fronts: set[Front] = set()
        self._folder, self._state = folder, state
        self._grids = TimeGrids(limits.quantum, limits.quanta)
        self._last = 0
        self._under_way: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._broken: set[str] = set()
        self._runs: set[tuple[str | None, str, str | None]] = set()
        self._counts: Counter[str] = Counter()
        self._stopping = False
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[object]] = set()
        free = Station(
            Pool.FREE, 0, limits.free_workers, limits.free_threads, limits.free_seconds, limits.processor_seconds
        )
        paid = [
            Station(Pool.PAID, number, 1, limits.paid_threads, limits.paid_seconds, limits.processor_seconds)
            for number in range(limits.paid_workers)
        ]
        threads, seconds = limits.job_threads, limits.job_seconds
        jobs, runs = (
            Station(pool, 0, 1, threads, seconds, seconds, most=threads // 2) for pool in (Pool.JOBS, Pool.RUNS)
        )
        self._free, self._paid, self._long = free, paid, {Pool.JOBS: jobs, Pool.RUNS: runs}
        self._stations = (free, *paid, jobs, runs)

    # --- Calls arrive. ---

    def arrive(self, front: Front, header: bytes) -> None:
        """Take a call of a front: refuse it, or let it wait for a worker."""
        call = decode_call(header)
        front_id = call["id"]
        try:
            validate_call(call)
            if call["act"] == "status":
                front.write(make_reply_frame(front_id, self._status()))
                return
            job = self._admit(front, header, call)
        except DodonaError as refusal:
            self._counts[f"refused {refusal.code}"] += 1
            front.write(make_reply_frame(front_id, problem_reply(refusal)))
            return
        self._under_way[job.caller] += 1
        self._enqueue(job)

    def _admit(self, front: Front, header: bytes, call: Mapping[str, object]) -> Job:
        name, dataset, caller = str(call["act"]), call["dataset"], cast("dict[str, object]", call["caller"])
        arguments = cast("dict[str, object]", call["arguments"])
        act = permitted_act(call, owners=front.owners)
        if dataset in self._broken:
            raise DatasetUnavailable
        asking = str(caller["name"])
        if self._under_way[asking] >= self.limits.waiting or self._under_way.total() >= self.limits.waiting_in_all:
            raise TooManyRequests
        self._last += 1
        return Job(
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
            kind=Kind.CALL_IF_FREE if act.free_first and not arguments.get("fresh") else Kind.CALL,
            key=cast("str | None", arguments.get("key")),
        )

    def _enqueue(self, job: Job, *, first: bool = False) -> None:
        job.station = self._station(job)
        job.station.queue.push(job, first=first)
        self._pump(job.station)

    def _station(self, job: Job) -> Station:
        """Return where a job is done: what measures one dataset goes to one worker, so that commits are shared."""
        pool = Pool.FREE if job.kind is Kind.CALL_IF_FREE else job.act.pool
        pool = Pool.RUNS if job.kind is Kind.RUN else pool
        if pool is Pool.PAID:
            return self._paid[zlib.crc32((job.dataset or "").encode()) % len(self._paid)]
        return self._free if pool is Pool.FREE else self._long[pool]

    def _pump(self, station: Station) -> None:
        """Give waiting jobs to the workers that have room."""
        while station.queue.size:
            if len(station.workers) + station.starting < station.size:
                self._start(station)
            worker = min(
                (candidate for candidate in station.workers if candidate.room),
                key=lambda candidate: len(candidate.running),
                default=None,
            )
            if worker is None:
                return
            job = station.queue.pop(
                lambda caller: self._running[caller] < self.limits.running and station.has_room_for(caller)
            )
            if job is None:
                return
            job.begun = _now()
            self._running[job.caller] += 1
            worker.give(job)

    # --- Workers reply, die, or overrun. ---

    def hear(self, worker: WorkerProcess, kind: Kind, number: int, content: bytes) -> None:
        """Take what a worker sent."""
        if kind is Kind.READY:
            worker.ready = True
            self._changed.set()
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

    def _release(self, worker: WorkerProcess, job: Job) -> None:
        del worker.running[job.number]
        self._lower(self._running, job.caller)
        for station in self._stations:  # the caller may have jobs that waited for this one elsewhere
            if station is not worker.station and station.queue.size:
                self._pump(station)

    def _reply(self, job: Job, frame: bytes) -> None:
        """Send the last frame of a call: what comes from where data are read leaves on the time grid."""
        if job.station is not None and job.station.pool is not Pool.FREE:
            now = _now()
            at = self._grids.grid(job.dataset).leave(arrived=job.arrived, ready=now)
            if at > now:
                asyncio.get_running_loop().call_at(at, self._send, job, frame)
                return
        self._send(job, frame)

    def _send(self, job: Job, frame: bytes) -> None:
        if job.link is not None:
            job.link.write(frame)
        self._finish(job)

    def _finish(self, job: Job) -> None:
        self._counts[f"done {job.name}"] += 1
        self._lower(self._under_way, job.caller)
        self._changed.set()
        if job.kind is Kind.RUN:
            self._runs.discard((job.dataset, job.caller, job.key))

    def _run_later(self, job: Job) -> None:
        """Let the long part of a call wait for a worker, unless it is running already."""
        run = (job.dataset, job.caller, job.key)
        if run in self._runs:
            return
        self._runs.add(run)
        self._last += 1
        self._under_way[job.caller] += 1
        later = replace(job, number=self._last, front_id=None, link=None, arrived=_now(), kind=Kind.RUN, deaths=0)
        self._enqueue(later)

    def _overrun(self, worker: WorkerProcess, job: Job) -> None:
        """End a worker because of one of its jobs; the others are done again elsewhere."""
        self._counts["overruns"] += 1
        _LOG.warning("a worker is ended: %s took too long", job.name)
        self._release(worker, job)
        worker.kill()
        self._settle(job, Kind.SETTLE_SLOW)

    def bury(self, worker: WorkerProcess) -> None:
        """Give the jobs of a worker that died to others."""
        station = worker.station
        if worker in station.workers:
            station.workers.remove(worker)
        worker.kill()
        if worker.process is not None:
            self._spawn(asyncio.to_thread(worker.process.wait))
        self._changed.set()
        if self._stopping:
            return
        self._counts["deaths"] += 1
        short = _now() - worker.started < _SHORT_LIFE
        station.failures = station.failures + 1 if short else 0
        for job in tuple(worker.running.values()):
            self._release(worker, job)
            job.deaths += 1
            if job.deaths >= (_MOST_SETTLING if job.kind in _SETTLING else _MOST_DEATHS):
                self._settle(job, Kind.SETTLE_LOST)
            else:
                self._enqueue(job, first=True)
        self._start(station)

    def _settle(self, job: Job, kind: Kind) -> None:
        """Reply to a call that is given up: a worker looks up whether it was charged."""
        error = TookTooLong if kind is Kind.SETTLE_SLOW else WorkerLost
        if job.kind is Kind.RUN:
            self._finish(job)
        elif not job.act.spends:
            self._reply(job, make_reply_frame(job.front_id, problem_reply(error())))
        elif job.kind in _SETTLING:  # not even that could be done
            self._reply(job, make_reply_frame(job.front_id, problem_reply(error(charged=None))))
        else:
            job.kind, job.deaths = kind, 0
            self._enqueue(job, first=True)

    # --- The processes. ---

    def _start(self, station: Station) -> None:
        """Start a worker, later if the last ones ended soon after their start."""
        if self._stopping or len(station.workers) + station.starting >= station.size:
            return
        station.starting += 1
        pause = min(_LONGEST_PAUSE, 0.1 * 2**station.failures) if station.failures else 0.0
        self._spawn(self._start_after(station, pause))

    async def _start_after(self, station: Station, pause: float) -> None:
        try:
            if pause:
                await asyncio.sleep(pause)
            if self._stopping:
                return
            worker = WorkerProcess(station, self)
            await worker.start(self._settings(station))
            station.workers.append(worker)
        finally:
            station.starting -= 1

    def _settings(self, station: Station) -> WorkerSettings:
        return WorkerSettings(
            folder=str(self._folder),
            state=str(self._state),
            pool=station.pool.value,
            threads=station.threads,
            processor_seconds=station.processor_seconds,
            memory=self.limits.memory,
            datasets=self.limits.datasets,
            patience=max(1.0, station.seconds / 2),
            parent=os.getpid(),
        )

    def _spawn(self, work: Coroutine[object, object, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
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
                if station.pool not in self._long:
                    for job in station.queue.overdue(now - self.limits.queue_seconds):
                        refusal = problem_reply(TooManyRequests(retry_after=5))
                        self._reply(job, make_reply_frame(job.front_id, refusal))

    @staticmethod
    def _lower(counter: Counter[str], name: str) -> None:
        counter[name] -= 1
        if counter[name] <= 0:
            del counter[name]

    def _status(self) -> Reply:
        """Return how the core is doing, for health checks and metrics; nothing of it depends on data."""
        document = {
            "ready": self._ready,
            "pools": [
                {
                    "pool": station.pool.value,
                    "number": station.number,
                    "workers": sum(worker.ready for worker in station.workers),
                    "running": sum(len(worker.running) for worker in station.workers),
                    "waiting": station.queue.size,
                    "processes": [worker.process.pid for worker in station.workers if worker.process is not None],
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
        servers = [
            await loop.create_unix_server(partial(Front, self, owners=of_owners), sock=listening)
            for listening, of_owners in (
                (_listen(analysts, self.limits.socket_mode), False),
                (_listen(owners, self.limits.socket_mode), True),
            )
        ]
        for station in (self._free, *self._paid):
            for _ in range(station.size):
                self._start(station)
        sweeping = loop.create_task(self._sweep())
        await self._until(lambda: self._ready)
        ready()
        await stop.wait()
        for server in servers:
            server.close()
        await self._until(lambda: self._under_way.total() <= len(self._runs), seconds=_STOPPING)
        self._stopping = True
        sweeping.cancel()
        for front in tuple(self.fronts):
            front.close()
        for station in self._stations:
            for worker in tuple(station.workers):
                worker.kill()
        await self._until(lambda: not any(station.workers for station in self._stations), seconds=_STOPPING)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def _ready(self) -> bool:
        return all(any(worker.ready for worker in station.workers) for station in (self._free, *self._paid))

    async def _until(self, condition: Callable[[], bool], *, seconds: float | None = None) -> None:
        """Wait until something is so, or for some seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()


def run_core(  # noqa: PLR0913  what an operator sets
    folder: Path,
    *,
    analysts: Path,
    owners: Path,
    state: Path | None = None,
    limits: WorkerLimits | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve the dataset files of a folder on two local sockets, until SIGTERM or SIGINT. It blocks.

    `state` is a folder that only the core may read; `ready` is called once calls are answered.
    """
    kept = (folder / ".state" if state is None else state).resolve()
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        asyncio.run(_run(Core(folder.resolve(), kept, limits or WorkerLimits()), analysts, owners, ready))
    finally:
        for path in (analysts, owners):
            path.unlink(missing_ok=True)


async def _run(core: Core, analysts: Path, owners: Path, ready: Callable[[], None]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await core.serve(analysts, owners, ready, stop)


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
    listening.setblocking(False)  # noqa: FBT003  the argument has no name
    return listening


def main(settings: str) -> None:
    """Run the core with its settings as JSON; a line on standard output says that it is ready."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump would hold questions and answers
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    options = json.loads(settings)

    def ready() -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()

    state = options.get("state")
    run_core(
        Path(options["folder"]),
        analysts=Path(options["analysts"]),
        owners=Path(options["owners"]),
        state=None if state is None else Path(state),
        limits=WorkerLimits(**options.get("limits", {})),
        ready=ready,
    )


if __name__ == "__main__":
    main(sys.argv[1])
