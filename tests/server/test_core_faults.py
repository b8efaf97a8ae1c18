"""The core under load and when things break: workers are killed, callers ask too much, links are dropped."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import struct
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from dodona.dataset.opening import open_dataset_ledger
from dodona.ledger.entries import Charged, entry_from_json
from dodona.server.link import Caller, CoreLink, CoreUnreachable, Reply, make_frame
from tests.server.scene import Line, connected, document, make_dataset, running_core, wait_until

ANALYSTS = {f"a{number}": "1" for number in range(8)}


async def processes(line: Line) -> dict[str, list[int]]:
    """The process ids of the workers of each pool."""
    status = document(await line.call("status"))
    return {pool["pool"]: pool["processes"] for pool in status["pools"]}


def charges_by_key(file: Path) -> Counter[tuple[str | None, str | None]]:
    """How often each key was charged, by the ledger, which is verified."""
    with open_dataset_ledger(file) as ledger:
        ledger.verify()
        entries = [entry_from_json(line.text, number=line.number) for line in ledger.lines()]
    return Counter((entry.analyst, entry.key) for entry in entries if isinstance(entry, Charged))


def test_sixty_four_callers_who_ask_the_same_at_once_are_charged_once(tmp_path: Path):
    file = make_dataset(tmp_path / "data", analysts=ANALYSTS)

    async def run(path: Path) -> list[Reply]:
        async with connected(path) as line:
            callers = [line.as_caller(f"a{number % 8}") for number in range(64)]
            question = "SELECT count(*) FROM stays WHERE age >= 30"
            return await asyncio.gather(
                *(caller.call("ask", question=question, within="5%", key=f"k{n}") for n, caller in enumerate(callers))
            )

    with running_core(tmp_path / "data", tmp_path) as core:
        replies = asyncio.run(run(core.analysts))
    assert {reply.status for reply in replies} == {200}
    first, *others = [document(reply)["rows"] for reply in replies]
    assert all(reply == first for reply in others)
    assert sum(Fraction(reply.headers["Dodona-Price"]) > 0 for reply in replies) == 1
    assert charges_by_key(file).total() == 1


@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.soak)])
@pytest.mark.slow
def test_workers_that_are_killed_under_load_lose_nothing_and_charge_nothing_twice(tmp_path: Path, kills: int):
    """Every call is replied to; what was answered is in the ledger; `charged` is what the ledger says.

    A kill between the use of a receipt and the record of its answer loses that answer, as page release says: then the
    charge stands, and the reply says so. Nothing was told in that case.
    """
    file = make_dataset(tmp_path / "data", epsilon="1000", analysts=ANALYSTS)
    outcomes: dict[tuple[str, str], Reply] = {}
    stop = asyncio.Event()

    async def ask(line: Line, number: int) -> None:
        asked = 0
        while not stop.is_set():
            asked += 1
            key = f"{number}-{asked}"
            question = f"SELECT count(*) FROM stays WHERE age >= {asked % 100} AND stay >= {number}"  # noqa: S608  a question
            arguments = {"question": question, "within": "20%", "fresh": True, "key": key}
            outcomes[line.caller.name, key] = await line.call("ask", **arguments)

    async def kill(line: Line) -> None:
        draw = random.Random(7)  # noqa: S311  when to kill
        for number in range(kills):
            known = await processes(line)
            os.kill(draw.choice(known["paid"] * 3 + known["free"]), signal.SIGKILL)

            async def alive(number: int = number) -> bool:
                status = document(await line.call("status"))
                return bool(status["ready"] and status["counts"].get("deaths", 0) > number)

            await wait_until(alive)
            await asyncio.sleep(draw.uniform(0.1, 1.0))
        stop.set()

    async def run(path: Path) -> dict[str, int]:
        async with connected(path) as line:
            asking = [ask(line.as_caller(f"a{number % 8}"), number) for number in range(16)]
            await asyncio.gather(kill(line), *asking)
            for (name, key), reply in outcomes.items():
                if reply.status == 200:
                    recalled = await line.as_caller(name).call("recall", key=key)
                    assert document(recalled)["rows"] == document(reply)["rows"]
            return dict(document(await line.call("status"))["counts"])

    with running_core(tmp_path / "data", tmp_path, quantum=0.001) as core:
        counts = asyncio.run(run(core.analysts))
    charged = charges_by_key(file)
    answered = [who for who, reply in outcomes.items() if reply.status == 200]
    assert counts["deaths"] >= kills
    assert len(answered) > kills
    assert set(charged.values()) == {1}
    assert all(who in charged for who in answered)
    failed = {who: document(reply) for who, reply in outcomes.items() if reply.status != 200}
    assert {failure["code"] for failure in failed.values()} <= {"answer-interrupted", "worker-lost"}
    for who, problem in failed.items():
        assert problem["charged"] is (who in charged)
    assert set(charged) <= set(outcomes)


def test_a_call_that_overruns_ends_its_worker_and_the_others_are_answered(tmp_path: Path):
    make_dataset(tmp_path / "data", analysts=ANALYSTS)
    many = [f"SELECT count(*) FROM stays WHERE age >= {n % 100} AND stay < {n // 100}" for n in range(6000)]  # noqa: S608

    async def run(path: Path) -> None:
        async with connected(path) as line:
            warm = await line.as_caller("a1").call("ask", question="SELECT count(*) FROM stays", key="warm")
            assert warm.status == 200
            long = asyncio.create_task(
                line.as_caller("a0").call("batch", questions=many, within="30%", max_price="100%", key="long")
            )
            await asyncio.sleep(0.3)
            others = await asyncio.gather(
                *(
                    line.as_caller("a1").call(
                        "ask",
                        question=f"SELECT count(*) FROM stays WHERE age = {n}",  # noqa: S608  a question
                        within="20%",
                        fresh=True,
                        key=f"short {n}",
                    )
                    for n in range(8)
                )
            )
            assert {reply.status for reply in others} == {200}
            reply = await long
            assert (reply.status, document(reply)["code"]) == (503, "took-too-long")
            assert document(reply)["charged"] is False
            assert document(await line.call("status"))["counts"]["overruns"] == 1

    with running_core(tmp_path / "data", tmp_path, processor_seconds=1.0) as core:
        asyncio.run(run(core.analysts))


def test_a_caller_who_asks_too_much_is_told_to_wait_and_others_are_not(tmp_path: Path):
    make_dataset(tmp_path / "data", analysts=ANALYSTS)

    async def run(path: Path) -> None:
        async with connected(path) as line:
            greedy, modest = line.as_caller("a0"), line.as_caller("a1")
            flood = [
                asyncio.create_task(greedy.call("quote", question=f"SELECT count(*) FROM stays WHERE age < {n}"))  # noqa: S608
                for n in range(60)
            ]
            await asyncio.sleep(0)
            other = await modest.call("quote", question="SELECT count(*) FROM stays")
            replies = await asyncio.gather(*flood)
            statuses = Counter(reply.status for reply in replies)
            assert other.status == 200
            assert statuses == {200: 20, 429: 40}
            refused = [reply for reply in replies if reply.status == 429]
            assert {reply.headers["Retry-After"] for reply in refused} == {"1"}
            assert {document(reply)["charged"] for reply in refused} == {False}

    with running_core(tmp_path / "data", tmp_path, waiting=20, running=4) as core:
        asyncio.run(run(core.analysts))


def test_a_bad_frame_closes_its_link_and_no_other(tmp_path: Path):
    make_dataset(tmp_path / "data", analysts=ANALYSTS)
    frames = {
        "too long": struct.pack(">I", 1 << 31),
        "with a body": struct.pack(">I", 2) + b"{}" + struct.pack(">I", 1 << 20),
        "no JSON": make_frame(b"\xff\xfe"),
        "too deep": make_frame(b"[" * 100_000),
        "no id": make_frame(b"{}"),
        "a list": make_frame(b"[1]"),
    }

    async def run(path: Path) -> None:
        async with connected(path, "a0") as line:
            for name, frame in frames.items():
                with socket.socket(socket.AF_UNIX) as link:
                    link.connect(str(path))
                    link.sendall(frame)
                    link.settimeout(10)
                    received = await asyncio.to_thread(_drain, link)
                    assert (name, received) == (name, b"")
                assert (await line.call("budget")).status == 200
            with socket.socket(socket.AF_UNIX) as link:  # half a frame, then silence, keeps nobody waiting
                link.connect(str(path))
                link.sendall(struct.pack(">I", 100) + b"{")
                assert (await line.call("budget")).status == 200

    with running_core(tmp_path / "data", tmp_path) as core:
        asyncio.run(run(core.analysts))


def _drain(link: socket.socket) -> bytes:
    try:
        return link.recv(1000)
    except ConnectionResetError:
        return b""


def test_a_dropped_link_is_opened_again_and_calls_with_a_key_are_sent_again(tmp_path: Path):
    file = make_dataset(tmp_path / "data", analysts=ANALYSTS)

    async def run(path: Path) -> None:
        link = await CoreLink.connect(path)
        line = Line(link, Caller("a0", "analyst"))
        waiting = asyncio.create_task(
            line.call("ask", question="SELECT count(*) FROM stays", within="5%", key="dropped")
        )
        unkeyed = asyncio.create_task(
            link.call(
                "rehearse", dataset="stays", caller=line.caller, arguments={"question": "SELECT count(*) FROM stays"}
            )
        )
        await asyncio.sleep(0)
        assert len(link._calls) == 2
        assert link._transport is not None
        link._transport.abort()  # both were sent just now, and neither can have been answered
        assert (await waiting).status == 200
        with pytest.raises(CoreUnreachable):
            await unkeyed
        assert (await line.call("budget")).status == 200
        await link.close()

    with running_core(tmp_path / "data", tmp_path) as core:
        asyncio.run(run(core.analysts))
    assert charges_by_key(file) == {("a0", "dropped"): 1}


def test_a_core_that_stops_finishes_what_it_has_and_its_sockets_and_workers_are_gone(tmp_path: Path):
    make_dataset(tmp_path / "data", analysts=ANALYSTS)

    async def run(path: Path) -> tuple[Reply, list[int]]:
        async with connected(path, "a0") as line:
            workers = [number for pool in (await processes(line)).values() for number in pool]
            last = asyncio.create_task(line.call("ask", question="SELECT count(*) FROM stays", key="last"))
            await line.call("status")  # sent after it: the core has both
            core.process.terminate()
            return await last, workers

    with running_core(tmp_path / "data", tmp_path) as core:
        reply, workers = asyncio.run(run(core.analysts))
        assert core.process.wait(timeout=60) == 0
    assert reply.status == 200
    assert not core.analysts.exists()
    assert not core.owners.exists()
    assert workers
    for number in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def test_a_watch_is_opened_again_after_its_worker_died_and_costs_no_second_charge(tmp_path: Path):
    file = make_dataset(tmp_path / "data", analysts=ANALYSTS)

    async def run(path: Path) -> None:
        async with connected(path, "a0") as line:
            opened = await line.call("watch_open", threshold=500, epsilon="2", alerts=8, max_price="50%", key="watch")
            assert opened.status == 201
            question = "SELECT count(*) FROM stays WHERE age >= 10"
            first = document(await line.call("watch_ask", question=question, key="watch"))
            for number in (await processes(line))["paid"]:
                os.kill(number, signal.SIGKILL)
            second = document(await line.call("watch_ask", question=question, key="watch"))
            assert first["above"] is second["above"] is True
            assert 0 <= second["left"] < first["left"] - 1  # new noise for the threshold took some of the alerts

    with running_core(tmp_path / "data", tmp_path) as core:
        asyncio.run(run(core.analysts))
    assert charges_by_key(file) == {("a0", "watch"): 1}


def test_long_releases_of_one_caller_keep_nobody_waiting(tmp_path: Path):
    make_dataset(tmp_path / "data", analysts=ANALYSTS)
    wanted = {"ways": 1, "columns": ["sex"], "share": "0.01"}

    async def run(path: Path) -> None:
        async with connected(path, "a0") as line:

            async def under_way() -> tuple[int, int]:
                status = document(await line.call("status"))
                (runs,) = [pool for pool in status["pools"] if pool["pool"] == "runs"]
                return runs["running"], runs["waiting"]

            async def begin(name: str, *keys: str) -> None:
                for key in keys:
                    assert (await line.as_caller(name).call("synthesize", **wanted, key=key)).status == 202

            async def done() -> bool:
                made = document(await line.call("release", key="first"))["state"] == "done"
                return made and await under_way() == (0, 0)  # its process tells of it a moment before it is free

            await begin("a0", "first")
            await wait_until(done)
            (maker,) = (await processes(line))["runs"]
            os.kill(maker, signal.SIGSTOP)  # whatever is made now takes for ever
            await begin("a0", "second", "third", "fourth")
            assert await under_way() == (1, 2)
            assert (await line.as_caller("a1").call("verify")).status == 200
            rehearsed = await line.as_caller("a1").call("rehearse", question="SELECT count(*) FROM stays")
            assert rehearsed.status == 200
            await begin("a1", "first")
            assert await under_way() == (2, 2)

    with running_core(tmp_path / "data", tmp_path, job_threads=2) as core:
        asyncio.run(run(core.analysts))


def test_a_release_goes_on_after_the_core_was_killed(tmp_path: Path):
    file = make_dataset(tmp_path / "data", analysts=ANALYSTS)
    wanted = {"ways": 2, "columns": ["sex", "urgent"], "share": "0.05", "method": "mwem", "key": "release"}

    async def begin(path: Path) -> None:
        async with connected(path, "a0") as line:
            assert (await line.call("synthesize", **wanted)).status == 202

            async def running() -> bool:
                return bool(document(await line.call("release", key="release"))["done"] > 0)

            await wait_until(running, 60)

    async def finish(path: Path) -> dict[str, object]:
        async with connected(path, "a0") as line:

            async def done() -> bool:
                return bool(document(await line.call("release", key="release"))["state"] == "done")

            await wait_until(done, 60)
            return document(await line.call("release", key="release"))

    with running_core(tmp_path / "data", tmp_path) as core:
        asyncio.run(begin(core.analysts))
        core.process.kill()
        core.process.wait()
    with running_core(tmp_path / "data", tmp_path) as core:
        job = asyncio.run(finish(core.analysts))
    charged = charges_by_key(file)
    assert set(charged.values()) == {1}
    assert isinstance(job["release"], dict)
    assert job["release"]["charges"] == charged.total()


def test_only_users_who_are_named_may_connect(tmp_path: Path):
    make_dataset(tmp_path / "data", analysts=ANALYSTS)

    async def run(path: Path) -> None:
        link = await CoreLink.connect(path)
        with pytest.raises(CoreUnreachable):
            await asyncio.wait_for(link.call("raise", dataset="stays", caller=Caller("a0", "owner"), arguments={}), 10)
        await link.close()

    with running_core(tmp_path / "data", tmp_path, peers=[os.getuid() + 1]) as core:
        assert core.analysts.stat().st_mode & 0o777 == 0o600
        asyncio.run(run(core.analysts))
