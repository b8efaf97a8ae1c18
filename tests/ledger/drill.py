"""Drills that need a process of their own: `python -m tests.ledger.drill NAME ...` prints a tally as JSON."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from dodona.ledger import opening
from dodona.ledger.ledger import Ledger
from dodona.privacy.budget import Analyst, Budget
from tests.ledger import fault, flight, kill, race
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


@dataclass
class Spot:
    """The place that a drill is held at, and a fresh ledger there for every part of it."""

    folder: Path
    server: str | None
    number: int = 0
    process: int = field(default_factory=os.getpid)

    @property
    def place(self) -> str:
        """The path, or the address with the newest name."""
        path = self.folder / "stays.ledger"
        return str(path) if self.server is None else f"{self.server}#stays-{self.process}-{self.number}"

    @property
    def head(self) -> Path:
        """The head file of the newest ledger."""
        return self.folder / f"stays.ledger.{self.number}.head"

    def fresh(self, budget: Budget, *analysts: Analyst) -> None:
        """Begin a new ledger."""
        self.number += 1
        for old in self.folder.glob("stays.ledger*"):
            old.unlink()
        opening.create_ledger_at(self.place, terms_of(budget, *analysts), head=self.head)

    def open(self) -> Ledger:
        """Open the newest ledger."""
        return opening.open_ledger(self.place, head=self.head)


def main() -> None:
    """Run one drill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("drill", choices=["kill", "race", "flight", "fault"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--server", help="the address of a database, instead of a file in the folder")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--mode", choices=[mode.name for mode in fault.Mode], default="EIO")
    arguments = parser.parse_args()
    spot = Spot(arguments.folder, arguments.server)
    match arguments.drill:
        case "kill":
            tally = kill.trials(spot.open, lambda: spot.fresh(Budget(10**4, 0, "pure")), count=arguments.count)
        case "race":
            budget = Budget(Fraction(ROOM, 10), 0, "pure")
            tally = race.rounds(spot.open, lambda: spot.fresh(budget), count=arguments.count, room=ROOM)
        case "flight":
            fresh = lambda: spot.fresh(Budget(ROOM, 0, "pure"))  # noqa: E731
            tally = flight.rounds(spot.open, fresh, count=arguments.count)
        case _:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                tally = fault.every_call(Path(folder), fault.Mode[arguments.mode], fault.use)
    print(json.dumps(tally))  # noqa: T201


if __name__ == "__main__":
    main()
