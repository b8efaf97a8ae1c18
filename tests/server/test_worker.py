"""A worker by itself: errors that it did not expect, what confines it, and what the dispatcher hears of both."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import cast

import pytest

from dodona.curator.watch import Watch
from dodona.errors import InvariantBroken
from dodona.ledger.errors import LedgerUnavailable
from dodona.server.calls import ActCall
from dodona.server.channel import EnvelopeReader, Kind, pack, receive
from dodona.server.core import Core, WorkerLimits
from dodona.server.datasets import Datasets
from dodona.server.link import BadFrame, FrameReader, Reply, make_frame, make_reply_frame, problem_reply
from dodona.server.pools import Front, Job, WorkerProcess
from dodona.server.worker import Worker, WorkerSettings
from tests.server.scene import connected, document, make_dataset, running_core

SECRET = "row 17: Miller"  # noqa: S105  what must not be told


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    end, other = socket.socketpair()
    with end, other:
        yield end, other


def header(act: str = "ask") -> bytes:
    return json.dumps(
        {
            "id": 5,
            "act": act,
            "dataset": "stays",
            "caller": {"name": "ada", "role": "analyst", "max_price": None},
            "arguments": {"question": "SELECT count(*) FROM stays"} | ({} if act == "raise" else {"key": "k"}),
            "accept": "application/json",
        }
    ).encode()


def worker_settings(folder: Path) -> WorkerSettings:
    return WorkerSettings(
        folder=str(folder),
        state=str(folder),
        pool="paid",
        threads=1,
        processor_seconds=10,
        memory=0,
        datasets=2,
        patience=1,
        parent=os.getpid(),
    )


def worker_of(folder: Path, link: socket.socket) -> Worker:
    return Worker(worker_settings(folder), link)


def test_a_worker_closes_the_dataset_that_was_not_asked_for_longest(tmp_path: Path):
    """A worker with some hundred datasets open has no addresses left for the next one."""
    names = ("a", "b", "c", "d")
    for name in names:
        make_dataset(tmp_path, name)
    datasets = Datasets(tmp_path, tmp_path, lazily=False, patience=1, most=2)
    opened = {}
    for name in names:
        opened[name] = datasets.open(name)
        datasets.done()
    for name in ("a", "b"):
        with pytest.raises(LedgerUnavailable):
            opened[name].dataset.ledger.state()
    assert datasets.open("c") is opened["c"]
    assert datasets.open("a") is not opened["a"]
    datasets.done()
    assert datasets.open("a").curator("ada").ask("SELECT count(*) FROM stays", within="20%").source == "measured"
    datasets.done()


def test_a_dataset_is_not_closed_while_a_call_uses_it_and_one_with_watches_last(tmp_path: Path):
    for name in ("a", "b", "c"):
        make_dataset(tmp_path, name)
    datasets = Datasets(tmp_path, tmp_path, lazily=False, patience=1, most=1)
    watched = datasets.open("a")
    watched.watches["ada", "k"] = cast("Watch", None)
    datasets.done()
    others = threading.Thread(target=lambda: (datasets.open("b"), datasets.done(), datasets.open("c")))
    others.start()
    others.join()
    used = datasets.open("c")
    datasets.done()
    assert used.dataset.ledger.state().charges == 0  # the other thread's call still uses it
    with pytest.raises(LedgerUnavailable):
        watched.dataset.ledger.state()


@pytest.mark.parametrize("charged", [False, True])
def test_an_unexpected_error_becomes_a_constant_reply_that_is_true_about_the_charge(
    tmp_path: Path,
    pair: tuple[socket.socket, socket.socket],
    caplog: pytest.LogCaptureFixture,
    charged: bool,  # noqa: FBT001  a parameter
):
    make_dataset(tmp_path)
    worker = worker_of(tmp_path, pair[0])

    def fail(call: ActCall) -> Reply:
        if charged:
            call.opened.curator("ada").ask("SELECT count(*) FROM stays", key=call.key)
        raise ValueError(SECRET)

    worker._functions["ask"] = fail
    with caplog.at_level(logging.DEBUG):
        worker.take(Kind.CALL, 9, 0, header())
    message = receive(pair[1])
    assert message is not None
    kind, job, _, frame = message
    ((_, body),) = FrameReader().feed(frame)
    assert (kind, job) == (Kind.REPLY, 9)
    assert (json.loads(body)["code"], json.loads(body)["charged"]) == ("failed", charged)
    assert SECRET not in body.decode() + caplog.text
    assert "ValueError" in caplog.text
    worker._datasets.open("stays").dataset.ledger.close()


def replied(worker: Worker, pair: tuple[socket.socket, socket.socket], act: str = "ask") -> dict[str, object]:
    """Carry out a call, and return what is replied."""
    worker.take(Kind.CALL, 9, 0, header(act))
    message = receive(pair[1])
    assert message is not None
    ((_, body),) = FrameReader().feed(message[3])
    document: dict[str, object] = json.loads(body)
    return document


@pytest.mark.parametrize(("act", "times"), [("budget", 2), ("ask", 2), ("watch_ask", 1), ("raise", 1)])
def test_a_call_whose_ledger_was_lost_is_carried_out_once_more_if_that_is_the_same(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket], act: str, times: int
):
    """The server of a ledger was started again: the connection of before is dead, and a new one is not."""
    make_dataset(tmp_path)
    worker = worker_of(tmp_path, pair[0])
    used = []

    def fail_first(call: ActCall) -> Reply:
        used.append(call.opened)
        if len(used) == 1:
            raise LedgerUnavailable
        return Reply(200, "application/json", b'{"code": "answered"}')

    worker._functions[act] = fail_first
    assert replied(worker, pair, act)["code"] == ("answered" if times == 2 else "ledger-unavailable")
    assert len(used) == len(set(map(id, used))) == times  # the second time with a ledger that was opened anew
    worker._datasets.open("stays").dataset.ledger.close()


@pytest.mark.parametrize("charged", [False, True, None])
def test_an_error_of_our_side_says_what_the_ledger_says_of_the_charge(
    tmp_path: Path,
    pair: tuple[socket.socket, socket.socket],
    charged: bool | None,  # noqa: FBT001  a parameter
):
    path = make_dataset(tmp_path)
    worker = worker_of(tmp_path, pair[0])

    def fail(call: ActCall) -> Reply:
        if charged:
            call.opened.curator("ada").ask("SELECT count(*) FROM stays", key=call.key)
        if charged is None:
            path.with_suffix(".ledger").rename(tmp_path / "elsewhere")
            worker._datasets._opened.clear()
        raise LedgerUnavailable(charged=not charged)

    worker._functions["ask"] = fail
    assert replied(worker, pair)["charged"] is charged


def test_a_broken_invariant_ends_the_service_of_its_dataset_and_of_no_other(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket]
):
    worker = worker_of(tmp_path, pair[0])

    def fail(_: ActCall) -> Reply:
        raise InvariantBroken("two and two are five")

    worker._functions["budget"] = fail
    worker.take(Kind.CALL, 9, 0, header("budget"))
    message = receive(pair[1])
    assert message is not None
    assert message[0] is Kind.BROKEN

    class Stub:
        def __init__(self, core: Core) -> None:
            self.station, self.running, self.ready, self.room = core._free, dict[int, Job](), True, True
            core._free.workers.append(cast("WorkerProcess", self))

        def give(self, job: Job) -> None:
            self.running[job.number] = job

    class Listener:
        owners = False

        def __init__(self) -> None:
            self.frames: list[bytes] = []

        def write(self, frame: bytes) -> None:
            self.frames.append(frame)

    async def run() -> list[int]:
        core, front = Core(tmp_path, tmp_path, WorkerLimits()), Listener()
        stub = Stub(core)
        core.arrive(cast("Front", front), header("budget"))
        core.hear(cast("WorkerProcess", stub), Kind.BROKEN, 1, make_reply_frame(5, problem_reply(InvariantBroken("x"))))
        core.arrive(cast("Front", front), header("budget"))
        core.arrive(cast("Front", front), header("budget").replace(b"stays", b"other"))
        return [json.loads(envelope)["status"] for frame in front.frames for envelope, _ in FrameReader().feed(frame)]

    assert asyncio.run(run()) == [500, 503]  # the other dataset's call went to the worker


def test_a_confined_process_is_not_dumpable():
    """So that no other process of the same user can read its memory: PR_GET_DUMPABLE is 3."""
    settings = worker_settings(Path())
    code = (
        "import ctypes, json, sys; from dodona.server.worker import WorkerSettings, confine; "
        "confine(WorkerSettings(**json.loads(sys.argv[1]))); print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    command = [sys.executable, "-c", code, json.dumps(asdict(settings))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


def test_a_worker_dumps_no_core_and_has_a_limit_of_memory(tmp_path: Path):
    make_dataset(tmp_path / "data")

    async def run(path: Path) -> list[int]:
        async with connected(path) as line:
            assert (await line.call("budget")).status == 200
            status = document(await line.call("status"))
            return [number for pool in status["pools"] for number in pool["processes"]]

    with running_core(tmp_path / "data", tmp_path, memory=5 << 30) as core:
        for number in asyncio.run(run(core.analysts)):
            limits = Path(f"/proc/{number}/limits").read_text()
            rows = {line[:25].strip(): line[25:].split() for line in limits.splitlines()[1:]}
            assert rows["Max core file size"][:2] == ["0", "0"]
            assert rows["Max address space"][:2] == [str(5 << 30)] * 2


def test_a_worker_that_lacks_memory_for_a_job_asks_to_be_ended(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket]
):
    worker = worker_of(tmp_path, pair[0])

    def fail(_: ActCall) -> Reply:
        raise MemoryError

    worker._functions["ask"] = fail
    worker.take(Kind.CALL, 4, 0, header())
    assert receive(pair[1]) == (Kind.OVERRUN, 4, 0, b"")


def test_frames_and_envelopes_are_read_however_they_are_cut():
    frames = [(b"{}", b""), (b'{"id": 1}', b"x" * 1000), (b"", b"")]
    stream = b"".join(make_frame(*frame) for frame in frames)
    envelopes = [(Kind.REPLY, 3, 1, b"abc"), (Kind.NOT_FREE, 1 << 40, 0, b"")]
    packed = b"".join(pack(kind, job, content, flags) for kind, job, flags, content in envelopes)
    for size in (1, 2, 3, 7, 1000, 10_000):
        reader, letters = FrameReader(), EnvelopeReader()
        cut = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert [frame for part in cut for frame in reader.feed(part)] == frames
        cut = [packed[start : start + size] for start in range(0, len(packed), size)]
        assert [envelope for part in cut for envelope in letters.feed(part)] == envelopes


def test_a_frame_that_announces_too_much_is_refused_before_it_is_read():
    with pytest.raises(BadFrame):
        list(FrameReader(longest_header=10).feed(struct.pack(">I", 11)))
    with pytest.raises(BadFrame):
        list(FrameReader(longest_body=10).feed(struct.pack(">I", 2) + b"{}" + struct.pack(">I", 11)))
