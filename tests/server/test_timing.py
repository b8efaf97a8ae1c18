"""When answers leave: on a grid that is chosen by public facts, and what an auditor of times can prove."""

from __future__ import annotations

import asyncio
import json
import random
import selectors
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.lab.audit.bound import ERROR, Codes, certified_epsilon
from dodona.server.channel import Kind
from dodona.server.core import Core, WorkerLimits
from dodona.server.link import Reply, make_reply_frame
from dodona.server.pools import Front, Job, WorkerProcess
from dodona.server.timing import TimeGrid, TimeGrids
from tests.server.scene import connected, document, make_dataset, running_core

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

QUANTUM = 0.05
DURATIONS = {"first": 0.002, "second": 0.012}
"""Seconds that the same question takes on a table and on its neighbour: a fault that the grid has to cover."""
_CODES = 16  # times are told apart to a sixteenth of the quantum


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # other processes may be busy
@given(st.floats(0.001, 10), st.floats(0, 1e6), st.floats(0, 1000), st.floats(0, 1000))
def test_all_that_is_ready_between_two_points_leaves_at_the_second(
    quantum: float, arrived: float, first: float, second: float
):
    grid = TimeGrid(quantum)
    leaving = [grid.leave(arrived=arrived, ready=arrived + took) for took in (first, second)]
    for took, left in zip((first, second), leaving, strict=True):
        assert left >= arrived + took
        assert left - arrived >= quantum * (1 - 1e-9) or left == arrived + quantum
        assert left - arrived <= max(2 * took, quantum) * (1 + 1e-6) + 1e-6
    steps = [np.log2((left - arrived) / quantum) for left in leaving]
    assert np.allclose(steps, np.round(steps), atol=1e-3 + 1e-9 * arrived / quantum)


def test_the_grid_is_chosen_by_the_name_of_the_dataset_alone():
    grids = TimeGrids(0.1, {"slow": 1.0})
    assert (grids.grid("slow"), grids.grid("other"), grids.grid(None)) == (TimeGrid(1.0), TimeGrid(0.1), TimeGrid(0.1))


@pytest.mark.parametrize("quantum", [0, -1.0, 60.0, float("nan"), float("inf")])
def test_a_quantum_that_is_no_duration_is_refused(quantum: float):
    with pytest.raises(InvalidArgument):
        TimeGrid(quantum)


class _Listener:
    """A front that notes when replies leave."""

    owners = False

    def __init__(self) -> None:
        self.left: dict[int, float] = {}
        self.wrote = asyncio.Event()

    def write(self, frame: bytes) -> None:
        length = int.from_bytes(frame[:4], "big")
        self.left[json.loads(frame[4 : 4 + length])["id"]] = asyncio.get_running_loop().time()
        self.wrote.set()


class _SlowWorker:
    """A worker whose answers take longer on one of two neighbouring tables."""

    def __init__(self, core: Core, *, free: bool) -> None:
        self.core, self.station = core, core._free if free else core._paid[0]
        self.running: dict[int, Job] = {}
        self.ready, self.room = True, True
        self.draw = random.Random(5)  # noqa: S311  the jitter of a machine
        self.station.workers.append(cast("WorkerProcess", self))

    def give(self, job: Job) -> None:
        self.running[job.number] = job
        took = DURATIONS[str(job.dataset)] + self.draw.expovariate(1000)
        asyncio.get_running_loop().call_later(took, self.answer, job)

    def answer(self, job: Job) -> None:
        frame = make_reply_frame(job.front_id, Reply(200, "application/json", b"{}"))
        self.core.hear(cast("WorkerProcess", self), Kind.REPLY, job.number, frame)


class _NoSockets(selectors.BaseSelector):
    """A selector that waits for nothing, and lets the loop's own time pass instead."""

    def __init__(self) -> None:
        self.now = 0.0
        self._keys: dict[FileDescriptorLike, selectors.SelectorKey] = {}

    def register(self, fileobj: FileDescriptorLike, events: int, data: object = None) -> selectors.SelectorKey:
        self._keys[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return self._keys[fileobj]

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> dict[FileDescriptorLike, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += max(0.0, timeout or 0.0)
        return []


class _ExactLoop(asyncio.SelectorEventLoop):
    """A loop with a clock of its own: times depend on the code that is tested, and not on the machine."""

    def __init__(self) -> None:
        self._passing = _NoSockets()
        super().__init__(self._passing)

    def time(self) -> float:
        return self._passing.now


def leaving_times(count: int, *, quantum: float, act: str) -> tuple[Codes, Codes]:
    """How long calls of the two tables take, in sixteenths of 50 ms."""

    async def run() -> dict[int, float]:
        core, front = Core(Path(), Path(), WorkerLimits(quantum=quantum, waiting=10**6, running=10**6)), _Listener()
        _SlowWorker(core, free=act == "describe")
        took: dict[int, float] = {}
        for number in range(2 * count):
            header = {
                "id": number,
                "act": act,
                "dataset": ("first", "second")[number % 2],
                "caller": {"name": "ada", "role": "analyst"},
                "arguments": {"key": str(number)} if act == "batch" else {},
                "accept": "application/json",
            }
            arrived = asyncio.get_running_loop().time()
            core.arrive(cast("Front", front), json.dumps(header).encode())
            await asyncio.wait_for(front.wrote.wait(), 10)
            front.wrote.clear()
            took[number] = front.left[number] - arrived
        return took

    with asyncio.Runner(loop_factory=_ExactLoop) as runner:
        return _coded(runner.run(run()))


def _coded(took: dict[int, float]) -> tuple[Codes, Codes]:
    codes = [
        np.array([int(took[n] / QUANTUM * _CODES + 0.01) for n in sorted(took) if n % 2 == parity]) for parity in (0, 1)
    ]
    return codes[0].astype(np.int64), codes[1].astype(np.int64)


def test_measured_answers_of_neighbouring_tables_are_not_told_apart_by_time():
    """2,000 answers of each; a bound above 0 would be wrong once in a million times."""
    first, second = leaving_times(2000, quantum=QUANTUM, act="batch")
    assert certified_epsilon(first, second, error=ERROR) < 0.1
    assert first.min() >= _CODES  # none leaves before the first point


def test_without_a_grid_the_auditor_tells_them_apart():
    """The planted fault: answers leave when they are ready, and one table takes 10 ms longer."""
    first, second = leaving_times(2000, quantum=1e-6, act="batch")
    assert certified_epsilon(first, second, error=ERROR) > 1.0


def test_what_reads_no_data_waits_for_no_grid():
    first, _ = leaving_times(100, quantum=1.0, act="describe")
    assert first.max() < _CODES


@pytest.fixture(params=[120, pytest.param(1500, marks=pytest.mark.soak)])
def count(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.slow
def test_a_real_core_does_not_tell_neighbouring_tables_apart_by_time(tmp_path: Path, count: int):
    """Tables that differ in one row, asked in turns; with 120 answers each a bound of up to 1.2 could be proved."""
    make_dataset(tmp_path / "data", "first", rows=2000, epsilon="1000")
    make_dataset(tmp_path / "data", "second", rows=1999, epsilon="1000")
    took: dict[int, float] = {}

    async def run(path: Path) -> None:
        async with connected(path) as line:
            clock = asyncio.get_running_loop().time
            for number in range(-4, 2 * count):
                question = f"SELECT count(*) FROM stays WHERE age >= {abs(number) // 2 % 100}"  # noqa: S608  a question
                arguments = {"question": question, "within": "20%", "fresh": True, "key": str(number)}
                start = clock()
                reply = await line.link.call(
                    "ask", dataset=("first", "second")[number % 2], caller=line.caller, arguments=arguments
                )
                assert document(reply)["source"] == "measured"
                if number >= 0:
                    took[number] = clock() - start

    with running_core(tmp_path / "data", tmp_path, quantum=QUANTUM) as core:
        asyncio.run(run(core.analysts))
    first, second = _coded(took)
    assert first.size == second.size == count
    assert min(first.min(), second.min()) >= _CODES
    assert certified_epsilon(first, second, error=ERROR) < 0.1
