"""The scene of the accounts' tests: clocks that can be set, and places to keep accounts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg

from dodona.server.accounts import Accounts, Clock
from tests.ledger.scene import shared_server

START = 1_800_000_000
_NUMBERS = count()


@dataclass
class Time:
    """Two clocks: `pass_by` moves both, `jump` only the one on the wall."""

    wall: float = START
    steady: float = 5_000.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def jump(self, seconds: float) -> None:
        self.wall += seconds

    def clock(self) -> Clock:
        return Clock(wall=lambda: self.wall, steady=lambda: self.steady)


@dataclass
class Place:
    """Somewhere to keep accounts, and the clock of those who open them."""

    address: str | Path
    time: Time = field(default_factory=Time)

    def create(self) -> Accounts:
        return Accounts.create(self.address, clock=self.time.clock())

    def open(self) -> Accounts:
        return Accounts.open(self.address, clock=self.time.clock())

    @property
    def delay(self) -> float:
        """After how many seconds at most another process has noticed a change."""
        return 1.0 if isinstance(self.address, str) else 0.0


def database_place(_: Path) -> Place:
    """Return a schema of its own in the tests' PostgreSQL server."""
    name = f"accounts_{next(_NUMBERS)}"
    with psycopg.connect(shared_server().address, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return Place(f"{shared_server().address}?options=-csearch_path%3D{name}")


PLACES: dict[str, Callable[[Path], Place]] = {
    "sqlite": lambda folder: Place(folder / "accounts.db"),
    "postgres": database_place,
}
