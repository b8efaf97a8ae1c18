"""An audit case: a mechanism on a pair of neighbours, with the price that Dodona states for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from dodona.errors import InvariantBroken
from dodona.lab.audit.features import Feature, Outputs
from dodona.privacy.events import Event
from dodona.schema.schema import Neighbours

Draw = Callable[[int], tuple[Outputs, Outputs]]
"""Returns `count` outputs on each of two neighbouring tables."""


class LossMeasure(Enum):
    """The measure of privacy loss that a claim uses."""

    EPSILON = "epsilon"
    MU = "mu"
    RHO = "rho"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCase:
    """A claim, and the samples that could refute it."""

    name: str
    mechanism: str
    neighbours: Neighbours
    claim: float | Callable[[], float]
    """The largest privacy loss; a function if the price is known only after a query."""
    draw: Draw
    features: tuple[Feature, ...]
    measure: LossMeasure = LossMeasure.EPSILON
    delta: float = 0.0
    """For claims about ε at some δ."""
    share: int = 1
    """Slow cases take one out of `share` samples."""

    def claim_value(self) -> float:
        """Return the claimed bound on the privacy loss."""
        return self.claim() if callable(self.claim) else self.claim


def pure_epsilon(event: Event) -> float:
    """Return the event's pure ε."""
    if event.epsilon is None:
        raise InvariantBroken("This event has no pure price.")
    return float(event.epsilon)


def sample_both(
    sample: Callable[[tuple[int, ...], int], Outputs], first: tuple[int, ...], second: tuple[int, ...]
) -> Draw:
    """Return a function that samples both tables in the same way."""
    return lambda count: (sample(first, count), sample(second, count))
