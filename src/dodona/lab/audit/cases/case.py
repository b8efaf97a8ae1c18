"""One thing to audit: a mechanism on a pair of neighbours, with the price that the product states for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from dodona.errors import InvariantBroken
from dodona.lab.audit.features import Feature, Outputs
from dodona.privacy.events import Event
from dodona.schema.schema import Neighbours

Draw = Callable[[int], tuple[Outputs, Outputs]]
"""Returns so many outputs on the one table, and so many on its neighbour."""


class Currency(Enum):
    """What a claim is stated in."""

    EPSILON = "epsilon"
    MU = "mu"
    RHO = "rho"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A claim, and the samples that could refute it."""

    name: str
    mechanism: str
    neighbours: Neighbours
    claim: float | Callable[[], float]
    """What is lost at most; where it takes a question to learn the price, how to learn it."""
    draw: Draw
    features: tuple[Feature, ...]
    currency: Currency = Currency.EPSILON
    delta: float = 0.0
    """Where the claim is about ε at some δ."""
    share: int = 1
    """Slow ways of drawing take one out of so many samples."""

    def claimed(self) -> float:
        """Return what is claimed to be lost at most."""
        return self.claim() if callable(self.claim) else self.claim


def pure(event: Event) -> float:
    """Return the pure ε that the product states."""
    if event.epsilon is None:
        raise InvariantBroken("This event has no pure price.")
    return float(event.epsilon)


def on_both(sample: Callable[[tuple[int, ...], int], Outputs], first: tuple[int, ...], second: tuple[int, ...]) -> Draw:
    """Return the drawing of one way of sampling on two tables."""
    return lambda count: (sample(first, count), sample(second, count))
