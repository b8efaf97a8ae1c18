"""The discrete Laplace mechanism: integer noise with P(x) ∝ exp(-|x|/scale)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dodona.accounting.event import LaplaceEvent
from dodona.accuracy import Accuracy, Against, against_table, failure, number_of, sampling_error
from dodona.exact import Exact
from dodona.mechanisms.scale import BEYOND, epsilon_of, rounded_scale_down, scale_of
from dodona.query.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """Independent discrete Laplace noise of an exact scale on each answer, in units of the answer.

    It is ε-differentially private with ε = l1 sensitivity / scale.

    Theorem: laplace-privacy
    """

    theorem: ClassVar[str] = "laplace-privacy"
    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Take any exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", scale_of(scale))

    @classmethod
    def for_privacy(cls, epsilon: Exact, sensitivity: Sensitivity) -> Self:
        """Return the mechanism that costs exactly ε.

        >>> from dodona.domain.neighbours import Neighbours
        >>> Laplace.for_privacy("1/2", Sensitivity.histogram(Neighbours.REPLACE)).scale
        Fraction(4, 1)
        """
        return cls(scale=sensitivity.l1 / epsilon_of(epsilon))

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, answers: int = 1) -> Self:
        """Return the mechanism with most noise (to seven digits) that meets the target for all answers at once.

        >>> mechanism = Laplace.for_accuracy(Accuracy(within=100, confidence=0.95))
        >>> mechanism.accuracy(0.95).within
        100.0
        """
        steps = math.floor(against_table(target).within) + 1
        tail = _per_answer(failure(target.confidence), number_of(answers, argument="answers"))
        low, high = 1e-4, 1e13
        while high / low > 1 + 1e-9:  # the tail beyond a fixed distance grows with the scale
            middle = math.sqrt(low * high)
            low, high = (middle, high) if _log_tail(steps, middle) <= math.log(tail) else (low, middle)
        return cls(scale=rounded_scale_down(low))

    def event(self, sensitivity: Sensitivity) -> LaplaceEvent:
        """Return what one release costs."""
        return LaplaceEvent(sensitivity.l1, self.scale, sensitivity.neighbours)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1, sample: int | None = None) -> Accuracy:
        """Return the exact quantile of the largest error of all answers, and the expected error of one.

        With `sample`, the answers are counts over so many independent rows and the comparison is with the population.

        Theorem: laplace-accuracy
        """
        failing = failure(confidence)
        sampled = 0.0
        if sample is not None:
            failing /= 2
            sampled = sampling_error(failing, answers=answers, sample=sample)
        tail = math.log(_per_answer(failing, number_of(answers, argument="answers")))
        scale = float(self.scale)
        steps = max(1, math.ceil(scale * (math.log(2 / (1 + math.exp(-1 / scale))) - tail)))
        while _log_tail(steps, scale) > tail:
            steps += 1
        while steps > 1 and _log_tail(steps - 1, scale) <= tail:
            steps -= 1
        expected = 1 / math.sinh(1 / scale) if scale > 1 / 700 else 0.0
        if sample is None:
            return Accuracy(within=float(steps - 1), confidence=confidence, expected=expected)
        return Accuracy(
            within=steps - 1 + sampled,
            confidence=confidence,
            expected=expected + math.sqrt(sample) / 2,
            against=Against.POPULATION,
        )

    def probability(self, noise: int) -> float:
        """Return the probability of this noise: tanh(1/(2·scale))·exp(-|noise|/scale).

        >>> Laplace(scale="1/2").probability(0)
        0.7615941559557649
        """
        scale = float(self.scale)
        return math.tanh(0.5 / scale) * math.exp(-min(abs(noise), BEYOND) / scale)


def _log_tail(steps: int, scale: float) -> float:
    """Return ln P(|noise| ≥ steps) = ln 2 - steps/scale - ln(1 + e^(-1/scale)), for steps ≥ 1."""
    return math.log(2) - steps / scale - math.log1p(math.exp(-1 / scale))


def _per_answer(failing: float, answers: int) -> float:
    """Return how often one of independent answers may fail, so that all hold but with probability `failing`."""
    return -math.expm1(math.log1p(-failing) / answers)
