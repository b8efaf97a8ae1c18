"""The exponential mechanism: choose a candidate with probability ∝ exp(score/scale)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dodona.accounting.event import ExponentialEvent
from dodona.accuracy import Accuracy, against_table
from dodona.exact import Exact
from dodona.mechanisms.scale import epsilon_of, rounded_scale_down, scale_of
from dodona.mechanisms.theorems import exponential_error
from dodona.query.sensitivity import Sensitivity


def choice_epsilon(scale: Fraction, sensitivity: Sensitivity) -> Fraction:
    """Return what a choice by noise of this scale costs: 2Δ/scale, or Δ/scale where scores are monotone.

    Theorem: choice-privacy
    """
    return (1 if sensitivity.monotone else 2) * sensitivity.linf / scale


def choice_scale(epsilon: Exact, sensitivity: Sensitivity) -> Fraction:
    """Return the scale at which a choice costs exactly ε."""
    return scale_of((1 if sensitivity.monotone else 2) * sensitivity.linf / epsilon_of(epsilon))


@dataclass(frozen=True, slots=True, init=False)
class Exponential:
    """One of several candidates, with probability ∝ exp(score/scale); noisy max with Gumbel noise is the same law.

    The candidates are public: they must not depend on the data.

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
        per_scale = exponential_error(1.0, confidence=target.confidence, candidates=candidates)
        return cls(scale=rounded_scale_down(against_table(target).within / per_scale))

    def event(self, sensitivity: Sensitivity) -> ExponentialEvent:
        """Return what one choice costs."""
        return ExponentialEvent(choice_epsilon(self.scale, sensitivity), sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, candidates: int, best: int = 1) -> Accuracy:
        """Return how far the chosen score may be below the best one, if `best` candidates share that."""
        scale = float(self.scale)
        within = exponential_error(scale, confidence=confidence, candidates=candidates, best=best)
        # The gap's tail is at most min(1, (R/R_best)·e^(-g/scale)), whose integral is this.
        expected = scale * (math.log(candidates / best) + 1)
        return Accuracy(within=within, confidence=confidence, expected=expected)
