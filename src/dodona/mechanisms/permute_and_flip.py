"""Permute-and-flip: go through the candidates in random order and take one with probability exp(-gap/scale)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dodona.accounting.event import Kind, PureEvent
from dodona.accuracy import Accuracy
from dodona.exact import Exact
from dodona.mechanisms.exponential import Exponential, choice_epsilon, choice_scale
from dodona.mechanisms.scale import scale_of
from dodona.query.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True, init=False)
class PermuteAndFlip:
    """One of several candidates; never a worse expected score than the exponential mechanism at the same pure price.

    Noisy max with one-sided exponential noise is the same law. Its zCDP price is that of any pure mechanism, not ε²/8.

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
        """Return the mechanism whose chosen score is within the target of the best one."""
        return cls(scale=Exponential.for_accuracy(target, candidates=candidates).scale)

    def event(self, sensitivity: Sensitivity) -> PureEvent:
        """Return what one choice costs."""
        epsilon = choice_epsilon(self.scale, sensitivity)
        return PureEvent(Kind.PERMUTE_AND_FLIP, epsilon, sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, candidates: int) -> Accuracy:
        """Return how far the chosen score may be below the best one: the exponential mechanism's bound holds too."""
        return Exponential(scale=self.scale).accuracy(confidence, candidates=candidates)
