"""A worker: a process that opens datasets and carries out acts for the dispatcher, in a few threads.

It can be killed at any moment: whatever spends has a key, and is durable in the ledger before any data are read. An
unexpected error becomes a constant reply, and only the name of its class is logged.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dodona.errors import DodonaError, InvariantBroken, Unavailable
from dodona.server import channel
from dodona.server.acts import ACTS, BadCall, Failed, Pool, TookTooLong, WorkerLost
from dodona.server.calls import ActCall, RunLater
from dodona.server.channel import Kind
from dodona.server.link import Caller, Reply, make_progress_frame, make_reply_frame, may_repeat, problem_reply

_LOG = logging.getLogger("dodona.server.worker")
_PROGRESS_PAUSE = 0.1
_WATCH_PAUSE = 0.25
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What a worker is started with, as JSON on its command line."""

    folder: str
    """With the dataset files."""
    state: str
    """Where watches and synthetic releases keep what they need after a restart; all of it is public."""
    pool: str
    threads: int
    processor_seconds: float
    """Of one call's thread."""
    memory: int
    """Bytes of address space; 0 for no limit."""
    datasets: int
    """How many may be open."""
    patience: float
    """Seconds to wait for an answer that is being computed for another caller."""
    parent: int
    """The process that started it: without it, a worker ends."""


class Worker:
    """The threads of a worker process, and what they are working on."""

    def __init__(self, settings: WorkerSettings, link: socket.socket) -> None:
        """Take the socket of the dispatcher."""
        from dodona.server.datasets import Datasets

        self._settings = settings
        self._link = link
        self._sending, self._receiving = threading.Lock(), threading.Lock()
        self._working: dict[int, tuple[int, float]] = {}
        lazily = settings.pool == Pool.FREE.value
        self._datasets = Datasets(
            Path(settings.folder),
            Path(settings.state),
            lazily=lazily,
            patience=settings.patience,
            most=settings.datasets,
        )
        self._functions: dict[str, Callable[[ActCall], Reply | None]] = {}

    def serve(self) -> None:
        """Work until the dispatcher is gone."""
        for _ in range(self._settings.threads):
            threading.Thread(target=self._work, daemon=True).start()
        self._send(Kind.READY, 0)
        while True:
            time.sleep(_WATCH_PAUSE)
            if os.getppid() != self._settings.parent:
                os._exit(0)
            for thread, (job, started) in tuple(self._working.items()):
                with contextlib.suppress(OSError, KeyError):  # the thread may have ended
                    if _thread_seconds(thread) - started > self._settings.processor_seconds:
                        self._send(Kind.OVERRUN, job)

    def _work(self) -> None:
        thread = threading.get_ident()
        while True:
            with self._receiving:  # the threads take turns at reading, so that no other thread hands jobs over
                message = channel.receive(self._link)
            if message is None:
                os._exit(0)
            self._working[thread] = (message[1], _thread_seconds(thread))
            try:
                self.take(*message)
                self._datasets.done()
            finally:
                self._working.pop(thread, None)

    def take(self, kind: Kind, job: int, flags: int, content: bytes) -> None:
        """Carry out one job, or ask to be ended if there is not enough memory for it."""
        try:
            self._carry_out(kind, job, flags, content)
        except MemoryError:
            self._send(Kind.OVERRUN, job)

    def _carry_out(self, kind: Kind, job: int, flags: int, content: bytes) -> None:
        header = json.loads(content)
        number = header["id"]
        outcome = Kind.REPLY
        try:
            call = self._call(kind, job, flags, header)
            match kind:
                case Kind.SETTLE_SLOW | Kind.SETTLE_LOST:
                    error = TookTooLong if kind is Kind.SETTLE_SLOW else WorkerLost
                    reply = problem_reply(error(charged=self._charged(call)))
                case Kind.RUN:
                    self._function(f"{call.act}_run")(call)
                    self._send(Kind.RAN, job)
                    return
                case _:
                    answer = self._answer(call)
                    if answer is None:
                        self._send(Kind.NOT_FREE, job)
                        return
                    reply = answer
        except RunLater as later:
            reply, outcome = later.reply, Kind.REPLY_THEN_RUN
        except InvariantBroken as fault:
            _LOG.critical("broken invariant: %s", type(fault).__name__)
            reply, outcome = problem_reply(fault), Kind.BROKEN
        except DodonaError as fault:
            reply = problem_reply(self._with_ledger_word(fault, header))
        except MemoryError:
            raise
        except Exception as fault:  # noqa: BLE001  its text may hold anything, and is neither shown nor logged
            _LOG.error("unexpected error in %s: %s", header["act"], type(fault).__name__)
            reply = problem_reply(Failed(charged=self._charged_by(header)))
        if kind is Kind.RUN:
            self._send(Kind.RAN, job)
            return
        self._send(outcome, job, make_reply_frame(number, reply))

    def _call(self, kind: Kind, job: int, flags: int, header: Mapping[str, object]) -> ActCall:
        caller, arguments = header["caller"], header["arguments"]
        if not isinstance(caller, dict) or not isinstance(arguments, dict):
            raise BadCall("A call names its caller and its arguments.")
        last = [0.0]

        def progress(done: int, of: int) -> None:
            now = time.monotonic()
            if done == of or now - last[0] >= _PROGRESS_PAUSE:
                last[0] = now
                self._send(Kind.PROGRESS, job, make_progress_frame(header["id"], done, of))

        return ActCall(
            act=str(header["act"]),
            dataset=str(header["dataset"] or ""),
            caller=Caller(**caller),
            arguments=arguments,
            accept=str(header["accept"]),
            owners=bool(flags & channel.OWNERS),
            datasets=self._datasets,
            progress=progress,
            only_free=kind is Kind.CALL_IF_FREE,
        )

    def _answer(self, call: ActCall) -> Reply | None:
        """Carry out an act, and once more if the ledger was lost on the way: its disk or server may be back."""
        try:
            return self._function(call.act)(call)
        except Unavailable as fault:
            lost = self._datasets.forget_if_lost(call.dataset, fault)
            if not lost or not may_repeat(call.act, call.arguments):
                raise
        return self._function(call.act)(call)

    def _function(self, act: str) -> Callable[[ActCall], Reply | None]:
        function = self._functions.get(act)
        if function is None:
            base = act.removesuffix("_run")
            module, _, name = ACTS[base].function.partition(":")
            name = name if base == act else f"{name}_run"
            function = getattr(importlib.import_module(f"dodona.server.{module}"), name)
            self._functions[act] = function
        return function

    def _with_ledger_word(self, fault: DodonaError, header: Mapping[str, object]) -> DodonaError:
        """Return an error whose word about the charge is the ledger's: what failed cannot always know it."""
        if not isinstance(fault, Unavailable):
            return fault
        self._datasets.forget_if_lost(str(header["dataset"] or ""), fault)
        return fault.with_charge(charged=self._charged_by(header))

    def _charged_by(self, header: Mapping[str, object]) -> bool | None:
        """Return whether a failed call was charged, as the ledger says; None if it cannot be asked now."""
        if not ACTS[str(header["act"])].spends:
            return False
        try:
            return self._charged(self._call(Kind.CALL, 0, 0, header))
        except Exception:  # noqa: BLE001  whatever it is, the ledger did not say
            return None

    @staticmethod
    def _charged(call: ActCall) -> bool:
        ledger = call.opened.dataset.ledger
        return ledger.receipt(call.key, analyst=call.caller.name) is not None

    def _send(self, kind: Kind, job: int, content: bytes = b"") -> None:
        with self._sending:
            try:
                self._link.sendall(channel.pack(kind, job, content))
            except OSError:
                os._exit(0)  # the dispatcher is gone


def _thread_seconds(thread: int) -> float:
    """Return the processor time that a thread of this process has used."""
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


def confine(settings: WorkerSettings) -> None:
    """Limit this process: its memory, no core dumps, no debugger of the same user, and no life without its parent."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if settings.memory:
        resource.setrlimit(resource.RLIMIT_AS, (settings.memory, settings.memory))
    with contextlib.suppress(OSError, AttributeError):  # where the system has no prctl
        library = ctypes.CDLL(None, use_errno=True)
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let no warning of a library reach the log: it may quote a value."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def main(settings: str, descriptor: str) -> None:
    """Run a worker: with its settings, and the descriptor of the dispatcher's socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the dispatcher ends its workers itself
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    options = WorkerSettings(**json.loads(settings))
    confine(options)
    for module in ("dodona.curator.curator", "dodona.dataset.opening", "dodona.server.asking", "dodona.server.reading"):
        importlib.import_module(module)  # before it takes jobs, so that none of them waits for a library
    gc.collect()
    gc.freeze()
    with _quiet(), socket.socket(fileno=int(descriptor)) as link:
        Worker(options, link).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
