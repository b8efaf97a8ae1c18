"""Durable charges: one by one and by many threads at once, the syncs they take, and what crashes and tampering do."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from threading import Barrier, Thread
from typing import cast

from benchmarks.report import Row
from dodona.ledger.ledger import Ledger
from dodona.ledger.sqlite import PRAGMAS
from dodona.privacy.budget import Analyst, Budget
from tests.ledger import drill, tamper
from tests.ledger.scene import ask
from tests.ledger.server import Server

THREADS = 32
CHARGES_EACH = 300
SERIAL = 200
KILLS = 100
RACES = 10
STRIDE = 41
"""Every so many bytes of a small ledger are altered, in each of its files."""

Say = Callable[[str], None]
NOTE = (
    "A charge is reserve() to the receipt, durable with its head. The peer is one client alone in the same run; wall "
    "time, as it is the disk that is waited for. A sync is an fsync or fdatasync of the ledger, its head or the server."
)


def measure(say: Say) -> dict[str, object]:
    """Return the figures of both durable stores, on the file system of the working folder's build directory."""
    build = Path("build")
    build.mkdir(exist_ok=True)
    kind = file_system(build)
    if kind in {"tmpfs", "ramfs"}:
        raise SystemExit(f"{build.resolve()} is on {kind}, where nothing is durable; run it from a folder on a disk")
    say(f"on {kind}; sqlite pragmas {PRAGMAS}")
    figures: dict[str, object] = {"file_system": kind}
    with tempfile.TemporaryDirectory(dir=build) as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        shim = drill.build_shim(folder)
        shim.chmod(0o755)
        for name, server in (("sqlite", None), ("postgres", _server(folder, shim))):
            try:
                figures[name] = _store(name, folder, server, shim, say)
            finally:
                if server is not None:
                    server.stop()
    return figures


def file_system(path: Path) -> str:
    """Return the type of the file system that a path is on."""
    done = subprocess.run(["stat", "-f", "-c", "%T", str(path)], capture_output=True, text=True, check=True)  # noqa: S603, S607
    return done.stdout.strip()


def _server(folder: Path, shim: Path) -> Server:
    """Return a server on the same disk, whose syncs are counted with ours."""
    counter = folder / "syncs"
    counter.touch()
    counter.chmod(0o666)
    return Server({"LD_PRELOAD": str(shim), "SHIM_MATCH": "/data/", "SHIM_COUNTER": str(counter)}, above=folder)


def _store(name: str, folder: Path, server: Server | None, shim: Path, say: Say) -> dict[str, object]:
    say(f"{name}: charges by {THREADS} threads beside one by one")
    directory = folder / name
    directory.mkdir()
    address = [] if server is None else ["--server", server.address]
    outside = os.environ | {"LD_PRELOAD": str(shim), "SHIM_MATCH": "stays.ledger"}
    if server is not None:
        outside["SHIM_COUNTER"] = str(folder / "syncs")
    command = [sys.executable, "-m", "benchmarks.ledger", str(directory), *address]
    done = subprocess.run(command, env=outside, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    figures: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    say(f"{name}: {KILLS} kills")
    kills = drill.run("kill", "--folder", str(directory), "--count", str(KILLS), *address)
    figures |= {"kill_trials": kills["kill_trials"], "lost": kills["lost"] + kills["corrupt"]}
    say(f"{name}: {RACES} races of 64 threads in 4 processes")
    races = drill.run("race", "--folder", str(directory), "--count", str(RACES), *address)
    figures |= {"race_overspend": races["race_overspend"], "race_left": races["left"]}
    say(f"{name}: tampering")
    return figures | (_tampered(folder) if server is None else _rows_tampered(directory, server))


def _tampered(folder: Path) -> dict[str, int]:
    """Return how many alterations there were; those that left the same valid ledger count as harmless."""
    original = folder / "original"
    original.mkdir()
    tamper.small(original)
    total = {"tampered": 0, "detected": 0, "harmless": 0, "missed": 0}
    for path in sorted(original.iterdir()):
        for copies in (tamper.flips, tamper.cuts):
            content = path.read_bytes()
            counts = tamper.campaign(original, folder / "scratch", path.name, copies(content, STRIDE))
            total = {name: total[name] + counts[name] for name in total}
            total["missed"] += counts["untyped"]
    return total


def _rows_tampered(folder: Path, server: Server) -> dict[str, int]:
    spot = drill.Spot(folder, server.address)
    spot.fresh(tamper.BUDGET, Analyst("ada"))
    with spot.open() as ledger:
        tamper.fill(ledger)
    counts = tamper.rows_altered(server.address, spot, STRIDE)
    counts["missed"] += counts.pop("untyped")
    return counts


def charges(spot: drill.Spot) -> dict[str, float]:
    """Return the rates of charges one by one and by many threads, measured in turns on one ledger."""
    shim = ctypes.CDLL(None)
    shim.shim_syncs.restype = ctypes.c_long
    spot.fresh(Budget(10**4, "1e-6", "renyi"))
    with spot.open() as ledger:
        for _ in range(20):
            ask(ledger)
        alone = _serial(ledger, "before", SERIAL // 2)
        before = shim.shim_syncs()
        waits, seconds = _together(ledger)
        syncs = shim.shim_syncs() - before
        alone += _serial(ledger, "after", SERIAL // 2)
        ledger.verify()
    return {
        "charges_per_s": round(len(waits) / seconds, 1),
        "serial_per_s": round(SERIAL / alone, 1),
        "fsyncs_per_charge": round(syncs / len(waits), 4),
        "p99_ms": round(quantiles(waits, n=100)[98] * 1e3, 2),
    }


def _serial(ledger: Ledger, name: str, count: int) -> float:
    start = time.perf_counter()
    for number in range(count):
        _charge(ledger, f"{name}, {number}")
    return time.perf_counter() - start


def _charge(ledger: Ledger, key: str) -> None:
    """Charge, and let go of the receipt as whoever has answered does: a database has few locks."""
    ledger.let_go(ask(ledger, key))


def _together(ledger: Ledger) -> tuple[list[float], float]:
    waits: list[float] = []
    gate = Barrier(THREADS + 1)

    def client(name: int) -> None:
        gate.wait()
        for number in range(CHARGES_EACH):
            start = time.perf_counter()
            _charge(ledger, f"{name}, {number}")
            waits.append(time.perf_counter() - start)

    threads = [Thread(target=client, args=(name,)) for name in range(THREADS)]
    for thread in threads:
        thread.start()
    gate.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    if len(waits) != THREADS * CHARGES_EACH:
        raise RuntimeError(f"only {len(waits)} charges were made")
    return waits, time.perf_counter() - start


def rows(figures: dict[str, object]) -> list[Row]:
    """Return the figures as rows of a table."""
    rows = []
    for name in ("sqlite", "postgres"):
        store = cast("dict[str, float]", figures[name])
        together = f"{name}, {THREADS} clients"
        rows.append(Row(together, "charges/s", store["charges_per_s"], store["serial_per_s"], "more"))
        rows.append(Row(f"{together}, 99th of 100", "ms", store["p99_ms"], None, "less"))
        rows.append(Row(f"{together}, syncs", "a charge", store["fsyncs_per_charge"], None, "less"))
        counts = ("kill_trials", "lost", "race_overspend", "tampered", "detected", "harmless", "missed")
        rows += [Row(f"{name}, {figure.replace('_', ' ')}", "", store[figure], None, "less") for figure in counts]
    return rows


if __name__ == "__main__":
    print(json.dumps(charges(drill.Spot(Path(sys.argv[1]), sys.argv[3] if len(sys.argv) > 2 else None))))  # noqa: PLR2004
