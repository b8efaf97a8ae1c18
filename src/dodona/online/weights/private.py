"""Private multiplicative weights: questions are answered from a hypothesis, which is mended where it is far off."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from dodona.errors import Halted
from dodona.online.weights.design import Design
from dodona.online.weights.distribution import Distribution
from dodona.online.weights.faults import UpdatesUsed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Asked = TypeVar("Asked")
Check = Callable[[Asked, int], int | None]
"""Returns None where the estimate, in rows, stands, and else a fresh noisy count. It raises Halted at the end."""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer, as a share of all rows."""

    value: float
    source: Literal["confirmed", "measured"]
    """Whether the hypothesis knew it, or it was answered anew."""
    within: float
    confidence: float
    """Of all answers together, for as many questions as the design is for."""
    rows: int

    @property
    def count(self) -> float:
        """The answer in rows."""
        return self.value * self.rows

    def __str__(self) -> str:
        return f"{self.count:.0f} ± {math.ceil(self.within * self.rows)}"


class PrivateMultiplicativeWeights(Generic[Asked]):
    """Answers as many questions as are asked, and looks at the data through a checker of estimates alone.

    The hypothesis is a function of what was told, so it may be looked at and sampled from. An update goes towards the
    fresh answer that was told: no other direction is known.

    Theorem: private-multiplicative-weights
    """

    def __init__(
        self,
        design: Design,
        check: Check[Asked],
        *,
        weigh: Callable[[Asked], NDArray[np.float64]],
        hypothesis: Distribution,
    ) -> None:
        """Take a checker that was paid for, and what the cells count for in a question."""
        self.design = design
        self.hypothesis = hypothesis
        self.updates = 0
        self._check, self._weigh = check, weigh
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """How many updates it may still make."""
        return self.design.updates - self.updates

    def ask(self, query: Asked) -> Told:
        """Return an answer within the design's error; UpdatesUsed where one update more would be needed."""
        weights = self._weigh(query)
        design = self.design
        with self._lock:
            estimate = self.hypothesis.expect(weights)
            try:
                fresh = self._check(query, round(design.rows * estimate))
            except Halted:
                raise UpdatesUsed(design.updates) from None
            if fresh is None:
                return Told(estimate, "confirmed", design.within, design.confidence, design.rows)
            share = fresh / design.rows
            self.hypothesis = self.hypothesis.tilted(weights, design.step if share > estimate else -design.step)
            self.updates += 1
        return Told(share, "measured", design.within, design.confidence, design.rows)
