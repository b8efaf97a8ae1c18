"""The scene that the ledger's tests play in: an event, terms, a question, and places to keep a ledger."""

import atexit
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from itertools import count
from pathlib import Path
from typing import Protocol

from dodona.ledger import memory, opening
from dodona.ledger.checkpoint import EVERY
from dodona.ledger.entries import Receipt, Release
from dodona.ledger.head import Mark
from dodona.ledger.keeper import Clock, utc_now
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms, append_recovery, first_line, open_existing
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.events import Event, LaplaceEvent
from dodona.schema.schema import Neighbours
from tests.ledger.server import Server

TENTH = LaplaceEvent(1, Fraction(10), Neighbours.ADD_REMOVE)
"""Costs a pure ε of 1/10."""
PURE_ONE = Budget(1, 0, "pure")
"""Room for exactly ten of them."""
HALF = LaplaceEvent(1, Fraction(2), Neighbours.ADD_REMOVE)
"""Costs a pure ε of 1/2."""


def terms_of(budget: Budget = PURE_ONE, *analysts: Analyst, datasets: tuple[str, ...] = ("stays",)) -> LedgerTerms:
    return LedgerTerms(
        datasets={name: f"schema of {name}" for name in datasets},
        neighbours=Neighbours.ADD_REMOVE,
        budget=budget,
        analysts=analysts,
    )


def ask(
    ledger: Ledger,
    key: str | None = None,
    *,
    event: Event = TENTH,
    analyst: str | None = None,
    purpose: str = "question",
) -> Receipt:
    """Reserve with what matters to the test alone."""
    return ledger.reserve(event, analyst=analyst, key=key, purpose=purpose, version="1")


def answer(ledger: Ledger, receipt: Receipt, *values: int | Fraction) -> Release:
    """Redeem and record."""
    ledger.redeem(receipt)
    release = Release(receipt=receipt.id, values=values or (42,), mechanism="laplace, scale 10")
    ledger.record(release)
    return release


class Place(Protocol):
    """Somewhere to keep one ledger."""

    def create(self, terms: LedgerTerms, *, clock: Clock = utc_now) -> None: ...

    def open(self, *, dataset: str | None = None, schema: str | None = None, clock: Clock = utc_now) -> Ledger: ...

    def recover(self, *, epsilon: Fraction | None = None, delta: Fraction | None = None) -> None: ...


@dataclass
class MemoryPlace:
    checkpoint_every: int = EVERY
    store: memory.MemoryStore | None = None
    head: memory.MemoryHead | None = None

    def create(self, terms: LedgerTerms, *, clock: Clock = utc_now) -> None:
        first = first_line(terms, clock=clock)
        self.store = memory.MemoryStore(first)
        self.head = memory.MemoryHead(Mark(first.number, first.hash))

    def open(self, *, dataset: str | None = None, schema: str | None = None, clock: Clock = utc_now) -> Ledger:
        assert self.store is not None
        assert self.head is not None
        every = self.checkpoint_every
        return open_existing(self.store, self.head, dataset=dataset, schema=schema, clock=clock, checkpoint_every=every)

    def recover(self, *, epsilon: Fraction | None = None, delta: Fraction | None = None) -> None:
        assert self.store is not None
        self.head = memory.MemoryHead(append_recovery(self.store, epsilon=epsilon, delta=delta))


@dataclass
class FilePlace:
    folder: Path
    checkpoint_every: int = EVERY
    path: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.path = self.folder / "stays.ledger"

    def create(self, terms: LedgerTerms, *, clock: Clock = utc_now) -> None:
        opening.create_file_ledger(self.path, terms, clock=clock)

    def open(self, *, dataset: str | None = None, schema: str | None = None, clock: Clock = utc_now) -> Ledger:
        every = self.checkpoint_every
        return opening.open_ledger(self.path, dataset=dataset, schema=schema, clock=clock, checkpoint_every=every)

    def recover(self, *, epsilon: Fraction | None = None, delta: Fraction | None = None) -> None:
        opening.recover_ledger(self.path, epsilon=epsilon, delta=delta)


_NUMBERS = count()


@dataclass
class ServerPlace:
    """A ledger in a database: the address of the server, a name that no other test has, and a head file."""

    folder: Path
    checkpoint_every: int = EVERY
    name: str = field(default_factory=lambda: f"stays-{next(_NUMBERS)}")

    @property
    def place(self) -> str:
        return f"{shared_server().address}#{self.name}"

    @property
    def head(self) -> Path:
        return self.folder / f"{self.name}.head"

    def create(self, terms: LedgerTerms, *, clock: Clock = utc_now) -> None:
        opening.create_ledger_at(self.place, terms, head=self.head, clock=clock)

    def open(self, *, dataset: str | None = None, schema: str | None = None, clock: Clock = utc_now) -> Ledger:
        return opening.open_ledger(
            self.place,
            head=self.head,
            dataset=dataset,
            schema=schema,
            clock=clock,
            checkpoint_every=self.checkpoint_every,
        )

    def recover(self, *, epsilon: Fraction | None = None, delta: Fraction | None = None) -> None:
        opening.recover_ledger(self.place, head=self.head, epsilon=epsilon, delta=delta)


@cache
def shared_server() -> Server:
    """Return the one server of this process, which ends with it."""
    server = Server()
    atexit.register(server.stop)
    return server


PLACES: dict[str, Callable[[Path], Place]] = {
    "memory": lambda _: MemoryPlace(),
    "sqlite": lambda folder: FilePlace(folder / "sqlite"),
    "postgres": ServerPlace,
    "checkpoints": lambda _: MemoryPlace(checkpoint_every=1),  # after every commit
}


def long_ago() -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC)


def begun(place: Place, terms: LedgerTerms | None = None, *, dataset: str | None = None) -> Ledger:
    """A ledger that was just created and opened."""
    place.create(terms_of() if terms is None else terms)
    return place.open(dataset=dataset)
