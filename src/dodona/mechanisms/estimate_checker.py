"""The estimate checker: whether an estimate is far from the truth, and a fresh answer where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, final

from dodona.accounting.event import Event, Together
from dodona.domain.unit import Unit
from dodona.errors import Halted, InvalidArgument
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.sparse_vector import SparseVector
from dodona.query.people import count_effect, score_effect


class Verdict(Protocol):
    """What a threshold tells."""

    @property
    def above(self) -> bool:
        """Whether the noisy value is at or above the noisy threshold."""


class Threshold(Protocol):
    """An open sparse vector."""

    @property
    def positives_left(self) -> int:
        """How many positives it may still tell before it halts."""

    def ask(self, value: int, threshold: int) -> Verdict:
        """Return whether the value, with noise, is at or above the threshold, with noise."""


@final
@dataclass(frozen=True, slots=True)
class EstimateChecker:
    """AboveThreshold on |count - estimate|, begun anew after each positive; all positives but the last are answered.

    The answer has noise of its own: to tell the value that was compared is a broken variant (Lyu, Su and Li 2017,
    algorithm 3). After the last positive it halts, which is part of the proof: nothing bounds it otherwise.

    Theorem: private-multiplicative-weights
    """

    theorem: ClassVar[str] = "private-multiplicative-weights"
    test: SparseVector
    answer: Laplace | Gaussian
    threshold: int
    """In rows: estimates that seem to be this far off are answered anew."""

    def __post_init__(self) -> None:
        """Refuse a test that is not begun anew, or tells more than whether it is above."""
        if not self.test.restarts or self.test.answer_scale is not None:
            raise InvalidArgument("test", self.test, "write a sparse vector that restarts and tells no answers")
        if type(self.threshold) is not int or self.threshold < 1:
            raise InvalidArgument("threshold", self.threshold, "write a whole number of rows from 1 up")

    @property
    def updates(self) -> int:
        """How many fresh answers it tells before it halts."""
        return self.test.positives - 1

    def event(self, unit: Unit) -> Event:
        """Return the price of the whole run, charged when it is opened, however many estimates are checked.

        A distance moves both ways with a count, so the test has no discount for monotone answers.
        """
        tests = self.test.event(score_effect(unit))
        parts = tests.parts if isinstance(tests, Together) else ((tests, 1),)
        if self.updates:
            parts = (*parts, (self.answer.event(count_effect(unit)), self.updates))
        return Together(parts)

    def fresh(
        self, count: int, estimate: int, *, watch: Threshold, draw: Callable[[Laplace | Gaussian], int]
    ) -> int | None:
        """Return the count with fresh noise where the estimate seems far off, else None; Halted at the last positive.

        The watch is an open one of `test`, and `draw` draws one value of a noise.
        """
        far = watch.ask(abs(count - estimate), self.threshold).above
        if far and watch.positives_left == 0:
            raise Halted(self.test.positives)
        return count + draw(self.answer) if far else None
