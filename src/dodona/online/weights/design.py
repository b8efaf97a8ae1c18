"""A design: all numbers of private multiplicative weights, fixed before the data are looked at."""

from __future__ import annotations

from dataclasses import dataclass

from dodona.accounting.event import Event
from dodona.domain.unit import Unit
from dodona.mechanisms.estimate_checker import EstimateChecker


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A checker and a step, and what is promised of them: all answers are within α, with the confidence.

    Theorem: weights-accuracy
    """

    rows: int
    universe: int
    """How many cells there are."""
    questions: int
    """For how many questions the promise holds; they may depend on earlier answers."""
    step: float
    """η: by e^{±η} the weights of a question's cells change in an update."""
    checker: EstimateChecker
    within: float
    """α: how far an answer may be off, as a share of all rows."""
    confidence: float

    @property
    def empty(self) -> bool:
        """Whether nothing is promised: every answer is between no rows and all of them anyway."""
        return self.within >= 1

    def __str__(self) -> str:
        said = (
            f"All of {self.questions:,} answers within {self.within:.3g} of {self.rows:,} rows, at {self.confidence:g}"
        )
        if not self.empty:
            return f"{said}."
        return f"{said}: that promises nothing. Take more rows, a larger epsilon, or noise on each question by itself."

    @property
    def updates(self) -> int:
        """The most updates that there are: a further one is refused."""
        return self.checker.updates

    def event(self, unit: Unit) -> Event:
        """Return what it costs, in full, when it is opened."""
        return self.checker.event(unit)
