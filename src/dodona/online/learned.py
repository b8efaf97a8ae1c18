"""What was learned from releases, in their order: what a model is fitted to."""

from __future__ import annotations

from dataclasses import dataclass

from dodona.accounting.event import Event
from dodona.mechanisms.measurement import Noise
from dodona.query.query import Block
from dodona.query.residual import Classes


@dataclass(frozen=True, slots=True)
class Learned:
    """The noisy counts of one block of a release."""

    receipt: str
    event: Event
    """What was charged for all blocks of the release."""
    blocks: int
    """How many these are."""
    block: Block
    values: tuple[int, ...]
    noise: Noise
    classes: tuple[Classes, ...] | None
    """Of a whole table of counts, in the order of its keys."""

    @property
    def single(self) -> bool:
        """Whether it is one count."""
        return not self.block.keys


@dataclass(frozen=True, slots=True)
class Marginal:
    """Classes whose counts follow from residuals."""

    classes: tuple[Classes, ...]
