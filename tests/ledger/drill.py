"""Drills that need a process of their own: `python -m tests.ledger.drill NAME ...` prints a tally as JSON."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

from dodona.ledger import file
from dodona.policy import Budget
from tests.ledger import fault, kill, race
from tests.ledger.scene import terms_of

ROOT = Path(__file__).resolve().parents[2]
ROOM = 60


def run(*arguments: str, shim: Path | None = None, seconds: int = 3600) -> dict[str, int]:
    """Return the tally of a drill in a fresh process, under the shim where one is given."""
    outside = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    if shim is not None:
        outside |= {"LD_PRELOAD": str(shim), "SHIM_MATCH": "stays.ledger"}
    command = [sys.executable, "-m", "tests.ledger.drill", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    tally: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return tally


def build_shim(folder: Path) -> Path:
    """Return the shim, compiled."""
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    options = ["-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl", "-lpthread"]
    subprocess.run(["gcc", *options], check=True)  # noqa: S607
    return library


def quick_folder() -> Path | None:
    """Return a folder in memory where there is one: faults are made by the shim, not by the disk."""
    memory = Path("/dev/shm")  # noqa: S108
    return memory if os.access(memory, os.W_OK) else None


def main() -> None:
    """Run one drill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("drill", choices=["kill", "race", "fault"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--mode", choices=[mode.name for mode in fault.Mode], default="EIO")
    arguments = parser.parse_args()
    path = arguments.folder / "stays.ledger"

    def fresh(budget: Budget) -> None:
        for old in arguments.folder.glob("stays.ledger*"):
            old.unlink()
        file.create(path, terms_of(budget))

    match arguments.drill:
        case "kill":
            tally = kill.trials(
                lambda: file.open_ledger(path), lambda: fresh(Budget(10**4, 0, "pure")), count=arguments.count
            )
        case "race":
            tally = race.rounds(
                lambda: file.open_ledger(path),
                lambda: fresh(Budget(Fraction(ROOM, 10), 0, "pure")),
                count=arguments.count,
                room=ROOM,
            )
        case _:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                tally = fault.every_call(Path(folder), fault.Mode[arguments.mode], fault.use)
    print(json.dumps(tally))  # noqa: T201


if __name__ == "__main__":
    main()
