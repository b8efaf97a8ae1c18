"""The streams by name, with the budget that each is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.streams import adult, binary, covid
from benchmarks.streams.stream import Stream
from dodona.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Listed:
    """A stream that can be made, what it is about, and the ε that is to be enough for it."""

    about: str
    make: Callable[[dict[str, str], Path | None], Stream]
    epsilon: dict[str, str]

    def stream(self, data: Path | None) -> Stream:
        """Return the stream."""
        return self.make(self.epsilon, data)


def _adult(epsilon: dict[str, str], data: Path | None) -> Stream:
    if data is None:
        raise InvalidRequest("The stream adult-3 needs its table: give the Adult file with --data FILE.")
    return adult.products(data, epsilon=epsilon)


STREAMS = {
    "conj-10": Listed(
        "5,000 conjunctions of 1 to 3 of 10 attributes",
        lambda epsilon, _: binary.conjunctions(10, epsilon=epsilon),
        {"approximate": "0.034", "pure": "0.065"},
    ),
    "conj-16": Listed(
        "5,000 conjunctions of 1 to 3 of 16 attributes",
        lambda epsilon, _: binary.conjunctions(16, epsilon=epsilon),
        {"approximate": "0.060", "pure": "0.50"},
    ),
    "half-10": Listed(
        "5,000 random halves of 1,024 cells",
        lambda epsilon, _: binary.halves(10, epsilon=epsilon),
        {"approximate": "0.065", "pure": "0.065"},
    ),
    "covid-1": Listed(
        "20,000 products on 128 cells, by Zipf's law",
        lambda epsilon, _: covid.products(1, epsilon=epsilon),
        {"approximate": "0.025", "pure": "0.025"},
    ),
    "covid-0": Listed(
        "20,000 products on 128 cells, drawn evenly",
        lambda epsilon, _: covid.products(0, epsilon=epsilon),
        {"approximate": "0.025", "pure": "0.025"},
    ),
    "adult-3": Listed(
        "50,000 products of halves of 1 to 3 of 8 columns (drawn with seed 3)",
        _adult,
        {"approximate": "0.6", "pure": "7"},
    ),
}
GENERATED = tuple(name for name in STREAMS if name != "adult-3")
"""The streams that need no file."""
