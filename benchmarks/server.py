"""The whole server over HTTP: `python -m benchmarks server [--json] [--quick]`.

A server is started as `dodona serve` does it, on a folder of this disk, and asked by clients in this process: all of it
shares the machine's cores. Counts of lost answers, double charges and overspending come from the ledger's history.

The full counts take half an hour, in steps of minutes. With `--resume FILE --steps 1` a command makes one step, and the
next command goes on from there, so that the machine is free in between; the last one has the figures of all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import cycle, islice
from pathlib import Path
from statistics import quantiles
from typing import Any
from urllib.parse import urlsplit

from benchmarks.ledger import file_system
from benchmarks.report import Row, show
from dodona.server.accounts import Accounts
from tests.server.scene import make_dataset
from tests.server.serving import Running, serving

ABOUT = "answers a second over HTTP, and what crashes and races lose"
NOTE = (
    "Wall time with all parts and the clients on the same cores. free: replayed or derived, 64 clients; charged: "
    "measured and durable, 64 clients. overspend, lost and double charges: 256 clients race for half as many charges "
    "as they want, each asking twice under one key; lost of kills: of answers under kill -9 of the workers."
)
ANALYSTS = tuple(f"analyst-{number}" for number in range(16))
_LARGE = "10000"  # a budget that the load does not use up
_ROUNDS_A_SERVER = 40  # each has a dataset of its own, and a worker holds them all open
_KILLS_A_SERVER = 50
_BETWEEN_KILLS = 20  # answers, so that each kill meets a server at work
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Load:
    """How much is asked."""

    clients: int = 64
    free: int = 20_000
    charged: int = 6_000
    racers: int = 256
    rounds: int = 200
    kills: int = 200
    questions: int = 50_000
    starts: int = 3


QUICK = Load(free=3_000, charged=1_000, rounds=4, kills=8, questions=4_000, starts=1)


def main(arguments: list[str], say: Say) -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks server", description=ABOUT)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="ask much less: two minutes instead of half an hour")
    parser.add_argument("--only", choices=sorted(_PARTS), action="append", help="only this part; may be repeated")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep each step here, and make those not in it")
    parser.add_argument("--steps", type=int, metavar="N", help="stop after so many steps; needs --resume")
    given = parser.parse_args(arguments)
    if given.steps is not None and given.resume is None:
        parser.error("--steps without --resume FILE would forget them")
    load = QUICK if given.quick else Load()
    steps = [step for part in given.only or _PARTS for step in _steps(part, load)]
    kept = _Kept.read(given.resume, load)
    missing = [step for step in steps if step.name not in kept.figures]
    for step in missing[: given.steps]:
        say(step.name)
        kept.add(step.name, _make(step))
    left = [step.name for step in steps if step.name not in kept.figures]
    if left:
        sys.exit(f"{len(steps) - len(left)} of {len(steps)} steps are kept; next: {left[0]}.")
    figures = _added(kept.figures[step.name] for step in steps)
    if given.json:
        print(json.dumps(figures))
    else:
        rows = [Row(name.replace("_", " "), "", value, None, "less") for name, value in figures.items()]
        show(ABOUT, rows, note=NOTE)


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the benchmark, or a share of its rounds, with a server of its own."""

    name: str
    part: str
    load: Load


def _steps(part: str, load: Load) -> list[Step]:
    """Return the steps of a part; the figures of those that are more than one are counts, and are added."""
    counted = {"races": ("rounds", load.rounds, _ROUNDS_A_SERVER), "kills": ("kills", load.kills, _KILLS_A_SERVER)}
    if part not in counted:
        return [Step(part, part, load)]
    of, count, most = counted[part]
    return [
        Step(f"{part} from {first}", part, replace(load, **{of: min(most, count - first)}))
        for first in range(0, count, most)
    ]


def _added(figures: Iterable[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for step in figures:
        total |= {name: total.get(name, 0) + value for name, value in step.items()}
    return total


@dataclass(frozen=True, slots=True)
class _Kept:
    """The figures of the steps that were made, in a file where there is one."""

    path: Path | None
    load: dict[str, int]
    figures: dict[str, dict[str, float]]

    @classmethod
    def read(cls, path: Path | None, load: Load) -> _Kept:
        """Read the file, if there is one; refuse that of another load."""
        if path is None or not path.exists():
            return cls(path, asdict(load), {})
        content = json.loads(path.read_text())
        if content["load"] != asdict(load):
            raise SystemExit(f"{path} holds steps of another load; name another file, or remove it")
        return cls(path, asdict(load), content["figures"])

    def add(self, step: str, figures: dict[str, float]) -> None:
        """Keep the figures of a step."""
        self.figures[step] = figures
        if self.path is not None:
            self.path.write_text(json.dumps({"load": self.load, "figures": self.figures}))


def measure(load: Load, parts: Iterable[str]) -> dict[str, float]:
    """Return the figures of some parts."""
    return _added(_make(step) for part in parts for step in _steps(part, load))


def _make(step: Step) -> dict[str, float]:
    """Return the figures of a step."""
    import uvloop

    build = Path("build")
    build.mkdir(exist_ok=True)
    if file_system(build) in {"tmpfs", "ramfs"}:
        raise SystemExit(f"{build.resolve()} is in memory, where nothing is durable; run it from a folder on a disk")
    with (
        tempfile.TemporaryDirectory(dir=build) as scratch,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(_PARTS[step.part](Path(scratch).resolve(), step.load))


# --- Clients: plain HTTP over a kept connection, so that they take little of the cores that they measure. ---


@dataclass(slots=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float


@dataclass(slots=True)
class Client:
    """One connection of one analyst; a connection that was cut is opened again by the next request."""

    host: str
    port: int
    token: str
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None

    async def send(self, method: str, path: str, body: bytes = b"", key: str = "") -> Reply:
        """Send a request, and return its reply."""
        if self.reader is None or self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        head = f"{method} /api/v1{path} HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {self.token}\r\n"
        if body:
            head += f"Idempotency-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        began = time.perf_counter()
        try:
            self.writer.write(f"{head}\r\n".encode() + body)
            start, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
            content = await self.reader.readexactly(int(headers["content-length"]))
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            raise
        return Reply(int(start.split()[1]), headers, content, time.perf_counter() - began)

    async def ask(self, dataset: str, key: str, **asked: object) -> Reply:
        """Ask a question."""
        return await self.send("POST", f"/datasets/{dataset}/answers", json.dumps(asked).encode(), key)

    def close(self) -> None:
        """Close the connection."""
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


@dataclass(slots=True)
class Server:
    """A server, and clients of it."""

    running: Running
    tokens: dict[str, str]
    opened: list[Client] = field(default_factory=list)

    def client(self, name: str) -> Client:
        """Return a client of an analyst, or of the owner grace."""
        address = urlsplit(self.running.analysts)
        made = Client(address.hostname or "", address.port or 0, self.tokens[name])
        self.opened.append(made)
        return made

    def clients(self, count: int) -> list[Client]:
        """Return so many clients of the analysts in turn."""
        return [self.client(ANALYSTS[number % len(ANALYSTS)]) for number in range(count)]

    async def history(self, dataset: str) -> list[dict[str, Any]]:
        """Return all charges of a dataset, as its owner sees them."""
        owner, charges, after = self.client("grace"), [], 0
        while True:
            page = json.loads((await owner.send("GET", f"/datasets/{dataset}/history?after={after}&limit=1000")).body)
            charges += page["charges"]
            if page["next"] is None:
                return charges
            after = page["next"]

    def processes(self) -> list[int]:
        """Return the ids of all processes of the server."""
        return family(self.running.process.pid)

    def workers(self) -> list[int]:
        """Return the ids of the core's workers."""
        core = self.running.parts().get("core")
        ids = []
        for number in self.processes():
            try:
                parent = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == core:
                ids.append(number)
        return ids

    def megabytes(self) -> float:
        """Return the memory of all processes that no other process shares."""
        total = 0
        for number in self.processes():
            try:
                text = Path(f"/proc/{number}/smaps_rollup").read_text()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_"))
        return total / 1024


def family(first: int) -> list[int]:
    """Return the ids of a process and of all below it."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    processes, more = set[int](), {first}
    while more:
        processes |= more
        more = {child for child, parent in parents.items() if parent in more} - processes
    return sorted(processes)


def processor_seconds(processes: list[int]) -> float:
    """Return the processor time that processes took, with that of their children that have ended."""
    ticks = 0
    for number in processes:
        try:
            ticks += sum(map(int, Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def serve(folder: Path) -> AsyncIterator[Server]:
    """Start a server over the datasets of a folder, with accounts for all analysts."""
    with serving(folder) as running:
        tokens = dict(running.tokens)
        with Accounts.open(running.accounts) as accounts:
            for name in ANALYSTS:
                accounts.add(name)
                accounts.grant(name, "*", "analyst")
                tokens[name] = accounts.create_token(name, "benchmark").text
        server = Server(running, tokens)
        try:
            yield server
        finally:
            for client in server.opened:
                client.close()


async def drive(
    clients: list[Client], count: int, one: Callable[[Client, int], Awaitable[Reply]]
) -> tuple[float, float]:
    """Let the clients send `count` requests between them; return requests a second, and the 99th percentile in ms."""
    numbers, waits = iter(range(count)), list[float]()

    async def work(client: Client) -> None:
        for number in numbers:
            reply = await one(client, number)
            if reply.status != 200:  # noqa: PLR2004  HTTP
                raise RuntimeError(reply.body.decode())
            waits.append(reply.seconds)

    began = time.perf_counter()
    await asyncio.gather(*(work(client) for client in clients))
    seconds = time.perf_counter() - began
    return round(count / seconds, 1), round(quantiles(waits, n=100)[98] * 1000, 1)


def dataset(folder: Path, name: str, **further: Any) -> None:  # noqa: ANN401  what make_dataset takes
    """Make a dataset that all analysts may spend from."""
    make_dataset(folder, name, analysts=dict.fromkeys((*ANALYSTS, "grace"), "1"), **further)


# --- The parts. ---


_LOOKED_UP = tuple(f"SELECT count(*) FROM stays WHERE age >= {age} AND age < {age + 10}" for age in range(90))  # noqa: S608
_GROUPED = ("SELECT age, count(*) FROM stays GROUP BY age", "SELECT sex, count(*) FROM stays GROUP BY sex")


async def measure_free(folder: Path, load: Load) -> dict[str, float]:
    """Answers that were bought before, or follow from what was bought."""
    dataset(folder, "stays", epsilon=_LARGE)
    async with serve(folder) as server:
        clients = server.clients(load.clients)
        for number, question in enumerate(_GROUPED):
            await clients[0].ask("stays", f"bought-{number}", question=question, within=50)
        before = len(await server.history("stays"))
        asked = (*_LOOKED_UP, _GROUPED[1])

        async def one(client: Client, number: int) -> Reply:
            question = asked[number % len(asked)]
            return await client.ask("stays", f"free-{number}", question=question, within=400)

        await drive(clients, 10 * load.clients, one)
        began = processor_seconds(server.processes())
        rate, p99 = await drive(clients, load.free, one)
        taken = processor_seconds(server.processes()) - began
        after = len(await server.history("stays"))
    figures = {"free_per_s": rate, "free_p99_ms": p99, "free_cpu_ms": round(1000 * taken / load.free, 3)}
    return figures | {"free_charged": after - before}


async def measure_charged(folder: Path, load: Load) -> dict[str, float]:
    """Answers that are measured, each under a charge of its own that is durable before it is sent."""
    dataset(folder, "stays", epsilon=_LARGE)
    async with serve(folder) as server:
        clients = server.clients(load.clients)

        async def one(client: Client, number: int) -> Reply:
            return await client.ask(
                "stays", f"charged-{number}", question=_threshold(number), epsilon="0.01", fresh=True
            )

        async def warm(client: Client, number: int) -> Reply:
            return await one(client, -1 - number)

        await drive(clients, 4 * load.clients, warm)
        before = len(await server.history("stays"))
        began = processor_seconds(server.processes())
        rate, p99 = await drive(clients, load.charged, one)
        taken = processor_seconds(server.processes()) - began
        charges = len(await server.history("stays")) - before
    figures = {"charged_per_s": rate, "charged_p99_ms": p99, "charged_cpu_ms": round(1000 * taken / load.charged, 3)}
    return figures | {"charged_missing": load.charged - charges}


async def measure_races(folder: Path, load: Load) -> dict[str, float]:
    """Many clients race for half as many charges as they want; each asks twice at once under one key."""
    figures = dict.fromkeys(("overspend", "lost", "double_charges", "race_faults"), 0.0)
    fitting, price = load.racers // 2, Fraction(1, 100)
    for number in range(load.rounds):
        dataset(folder, f"round-{number}", rows=200)
        _rewrite(folder / f"round-{number}.toml", f'accountant = "pure"\nepsilon = "{price * fitting}"')
    async with serve(folder) as server:
        pairs = [(server.client(name), server.client(name)) for name in islice(cycle(ANALYSTS), load.racers)]
        for number in range(load.rounds):
            replies = await asyncio.gather(
                *(_race(client, f"round-{number}", racer, price) for racer, pair in enumerate(pairs) for client in pair)
            )
            charges = await server.history(f"round-{number}")
            counts = _judge(replies, charges) | {"overspend": max(0, len(charges) - fitting)}
            figures = {name: figures[name] + counts[name] for name in figures}
    return figures | {"rounds": load.rounds}


def _rewrite(path: Path, budget: str) -> None:
    """Give a dataset a budget of pure epsilon, which fits an exact number of charges, and a new ledger."""
    import dodona

    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition("[budget]")
    path.write_text(f"{head}[budget]\n{budget}\n{rest[rest.index('[ledger]') :]}", encoding="utf-8")
    for old in path.parent.glob(f"{path.stem}.ledger*"):
        old.unlink()
    for old in path.parent.glob(f".{path.stem}*"):
        old.unlink()
    dodona.create_ledger(path)


async def _race(client: Client, name: str, racer: int, price: Fraction) -> tuple[int, Reply]:
    question = f"SELECT count(*) FROM stays WHERE age >= {racer % 100} AND stay >= {racer // 100}"  # noqa: S608
    asked = {"question": question, "epsilon": str(price), "fresh": True, "max_price": "100%"}
    for _ in range(50):
        reply = await client.ask(name, f"racer-{racer}", **asked)
        if reply.status not in {429, 503}:
            break
        await asyncio.sleep(0.1)
    return racer, reply


def _judge(replies: list[tuple[int, Reply]], charges: list[dict[str, Any]]) -> dict[str, float]:
    """Return what was lost or charged twice, by comparing replies with the ledger's history."""
    receipts: dict[int, set[str]] = {}
    faults = 0
    for racer, reply in replies:
        match reply.status:
            case 200:
                receipts.setdefault(racer, set()).add(reply.headers["dodona-receipt"])
            case 403:
                pass
            case _:
                faults += 1
    known = {str(charge["receipt"]) for charge in charges}
    answered = set[str]().union(*receipts.values()) if receipts else set()
    return {
        "lost": len(answered - known) + sum(not charge["answered"] for charge in charges),
        "double_charges": sum(len(per_racer) - 1 for per_racer in receipts.values()) + len(known - answered),
        "race_faults": faults,
    }


@dataclass(slots=True)
class _Killing:
    """What was asked while workers are killed, and what came of it."""

    kills: int
    killed: int = 0
    receipts: dict[str, str] = field(default_factory=dict)
    """By key, of what was answered."""
    interrupted: set[str] = field(default_factory=set)
    """Keys whose answer was lost after the charge, as the reply says for ever."""
    nothing: int = 0

    async def ask(self, client: Client, own: int) -> None:
        """Ask one question after the other, each under its key until its fate is known."""
        number = 0
        while self.killed < self.kills:
            number += 1
            key = f"killed-{own}-{number}"
            for _ in range(400):
                try:
                    asked = _threshold(number)
                    reply = await client.ask("stays", key, question=asked, epsilon="0.01", fresh=True)
                except (OSError, asyncio.IncompleteReadError):
                    continue
                if reply.status == 200:  # noqa: PLR2004  HTTP
                    self.receipts[key] = reply.headers["dodona-receipt"]
                    break
                if json.loads(reply.body)["code"] == "answer-interrupted":
                    self.interrupted.add(key)
                    break
                await asyncio.sleep(0.05)
            else:
                self.nothing += 1

    async def kill(self, server: Server) -> None:
        """Kill a worker after every few answers, so that each kill meets a server at work."""
        goal = _BETWEEN_KILLS
        while self.killed < self.kills:
            await asyncio.sleep(0.01)
            workers = server.workers() if len(self.receipts) >= goal else []
            if workers:
                with suppress(ProcessLookupError):
                    os.kill(workers[self.killed % len(workers)], signal.SIGKILL)
                    self.killed += 1
                    goal = len(self.receipts) + _BETWEEN_KILLS


async def measure_kills(folder: Path, load: Load) -> dict[str, float]:
    """Charged questions while workers are killed.

    An answer that left without a charge, or a question without a final reply, is lost. A kill between the moment at
    which a receipt is used and the one at which its release is recorded costs the answer: the charge stands, the reply
    says so, and it counts as interrupted.
    """
    dataset(folder, "stays", epsilon=_LARGE)
    async with serve(folder) as server:
        run = _Killing(load.kills)
        await asyncio.gather(
            run.kill(server), *(run.ask(client, number) for number, client in enumerate(server.clients(16)))
        )
        charges = await server.history("stays")
    known = [str(charge["receipt"]) for charge in charges]
    return {
        "kills": run.killed,
        "kill_answers": len(run.receipts),
        "kill_lost": len(set(run.receipts.values()) - set(known)) + run.nothing,
        "kill_double_charges": len(known) - len(run.receipts) - len(run.interrupted),
        "kill_interrupted": len(run.interrupted),
    }


def _threshold(number: int) -> str:
    return f"SELECT count(*) FROM stays WHERE age >= {number % 100}"  # noqa: S608  a number


async def measure_growth(folder: Path, load: Load) -> dict[str, float]:
    """The memory of all processes after many questions, beside that after a tenth of them."""
    dataset(folder, "stays", epsilon=_LARGE)
    async with serve(folder) as server:
        clients = server.clients(32)

        async def one(client: Client, number: int) -> Reply:
            if number % 25 == 0:
                question = f"SELECT count(*) FROM stays WHERE age >= {number % 100} AND stay < {number // 25 % 60 + 1}"  # noqa: S608
                return await client.ask("stays", f"new-{number}", question=question, within=60)
            return await client.ask("stays", f"old-{number}", question=_LOOKED_UP[number % len(_LOOKED_UP)], within=400)

        for part, question in enumerate(_GROUPED):
            await clients[0].ask("stays", f"bought-{part}", question=question, within=50)
        await drive(clients, load.questions // 10, one)
        before = server.megabytes()
        await drive(clients, load.questions - load.questions // 10, lambda client, number: one(client, number + 10**6))
        after = server.megabytes()
    return {"growth_mb": round(after - before, 1), "memory_mb": round(after, 1)}


async def measure_start(folder: Path, load: Load) -> dict[str, float]:
    """The time from starting the command to the first answer, which is measured."""
    dataset(folder, "stays", epsilon=_LARGE)
    async with serve(folder):
        pass  # makes the accounts
    starts = [await _first_answer(folder, number) for number in range(load.starts)]
    return {
        "start_to_first_answer_s": round(min(seconds for seconds, _ in starts), 2),
        "start_processor_s": round(min(taken for _, taken in starts), 2),
    }


async def _first_answer(folder: Path, number: int) -> tuple[float, float]:
    from dodona.server.places import StateFolder

    with Accounts.open(StateFolder(folder / ".dodona").accounts) as accounts:
        token = accounts.create_token(ANALYSTS[0], f"start {number}").text
    port = 18_741 + number
    began = time.perf_counter()
    command = ("-m", "dodona.cli", "serve", str(folder), "--port", str(port), "--owners-port", "0")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, "--operations-port", "0",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    client = Client("127.0.0.1", port, token)
    try:
        while True:
            try:
                reply = await client.ask(
                    "stays", f"start-{number}", question="SELECT count(*) FROM stays", epsilon="0.01", fresh=True
                )
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.01)
                continue
            if reply.status == 200:  # noqa: PLR2004  HTTP
                return time.perf_counter() - began, processor_seconds(family(process.pid))
            await asyncio.sleep(0.01)
    finally:
        client.close()
        process.terminate()
        await process.wait()


_PARTS: dict[str, Callable[[Path, Load], Coroutine[None, None, dict[str, float]]]] = {
    "free": measure_free,
    "charged": measure_charged,
    "races": measure_races,
    "kills": measure_kills,
    "growth": measure_growth,
    "start": measure_start,
}
