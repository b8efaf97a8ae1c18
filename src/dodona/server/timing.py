"""The time grid: when answers that were measured leave the core.

How long a measurement takes may depend on the rows. So whatever comes from a pool that reads data leaves at a point of
a grid that is counted from the arrival of the request: a quantum, and its doubles. Which grid that is depends on the
dataset and the pool alone, which are public before anything is read.

Free answers need no grid: they are replayed or derived from what was released, in processes that read no data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dodona.errors import InvalidArgument

QUANTUM = 0.025
"""Seconds: the first point of the grid where the operator sets no other."""
_MOST_DOUBLINGS = 40


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """Points in time, in seconds after the arrival: the quantum, twice, four times as much, and so on.

    >>> [TimeGrid(0.025).leave(arrived=10.0, ready=10.0 + took) for took in (0.001, 0.025, 0.026, 0.3)]
    [10.025, 10.025, 10.05, 10.4]

    Theorem: timing-grid
    """

    quantum: float

    def __post_init__(self) -> None:
        """Refuse a quantum that is no duration."""
        if not 0 < self.quantum < 60:  # noqa: PLR2004  a minute for each answer
            raise InvalidArgument("quantum", self.quantum, "write seconds, above 0 and below 60")

    def leave(self, *, arrived: float, ready: float) -> float:
        """Return the first point of the grid at which an answer is ready."""
        point = self.quantum
        for _ in range(_MOST_DOUBLINGS):
            if arrived + point >= ready:
                break
            point *= 2
        return max(arrived + point, ready)


@dataclass(frozen=True, slots=True)
class TimeGrids:
    """The grid of each dataset, chosen by the operator or by default."""

    quantum: float = QUANTUM
    quanta: Mapping[str, float] = field(default_factory=dict)
    """By dataset, where answers take longer."""

    def grid(self, dataset: str | None) -> TimeGrid:
        """Return the grid of a dataset, from its name alone."""
        return TimeGrid(self.quanta.get(dataset or "", self.quantum))
