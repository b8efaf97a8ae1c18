"""Report noisy max: add Laplace noise to every score and tell which is largest, and by how much if wanted."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dodona.accounting.event import Kind, PureEvent
from dodona.accuracy import Accuracy, against_table
from dodona.exact import Exact
from dodona.mechanisms.exponential import choice_epsilon, choice_scale
from dodona.mechanisms.scale import rounded_scale_down, scale_of
from dodona.mechanisms.theorems import noisy_max_error
from dodona.query.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True, init=False)
class NoisyMax:
    """The candidate whose score with discrete Laplace noise is largest, and the gap to the runner-up, for one price.

    The winning score itself is not part of it: that needs a charge of its own.

    Theorem: choice-privacy
    """

    theorem: ClassVar[str] = "choice-privacy"
    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Take any exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", scale_of(scale))

    @classmethod
    def for_privacy(cls, epsilon: Exact, sensitivity: Sensitivity) -> Self:
        """Return the mechanism that costs exactly ε for scores of this sensitivity."""
        return cls(scale=choice_scale(epsilon, sensitivity))

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, candidates: int) -> Self:
        """Return the mechanism whose winner's score is within the target of the best one."""
        # Two draws on the grid may each be one step beyond their real-valued bound.
        room = max(against_table(target).within - 2, 0.0)
        per_scale = noisy_max_error(1.0, confidence=target.confidence, candidates=candidates)
        return cls(scale=rounded_scale_down(room / per_scale))

    def event(self, sensitivity: Sensitivity) -> PureEvent:
        """Return what one report costs, with or without the gap."""
        return PureEvent(Kind.NOISY_MAX, choice_epsilon(self.scale, sensitivity), sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, candidates: int) -> Accuracy:
        """Return how far the winner's score may be below the best one."""
        within = noisy_max_error(float(self.scale), confidence=confidence, candidates=candidates)
        return Accuracy(within=within + 2, confidence=confidence)
