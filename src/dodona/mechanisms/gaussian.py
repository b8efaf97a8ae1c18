"""The discrete Gaussian mechanism: integer noise with P(x) ∝ exp(-x²/(2·scale²))."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar, Self

import numpy as np

from dodona.accounting.event import GaussianEvent
from dodona.accuracy import Accuracy, Against, against_table, failure, number_of, sampling_error
from dodona.exact import Exact
from dodona.mechanisms import gaussian_delta
from dodona.mechanisms.gaussian_delta import Calibration
from dodona.mechanisms.scale import BEYOND, delta_of, epsilon_of, rounded_scale_down, rounded_scale_up, scale_of
from dodona.query.sensitivity import Sensitivity

_SUMMED = 1000.0  # up to this scale tails are sums; beyond, a bound that is off by less than a step


@dataclass(frozen=True, slots=True, init=False)
class Gaussian:
    """Independent discrete Gaussian noise of an exact scale σ on each answer, in units of the answer.

    Theorem: gaussian-rho
    """

    theorem: ClassVar[str] = "gaussian-rho"
    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Take any exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", scale_of(scale))

    @classmethod
    def for_privacy(
        cls,
        epsilon: Exact,
        delta: Exact,
        sensitivity: Sensitivity,
        *,
        calibration: Calibration = Calibration.ANALYTIC,
    ) -> Self:
        """Return the mechanism for (ε, δ): the calibration's σ, raised until the discrete law itself has δ(ε) ≤ δ.

        Theorem: gaussian-delta
        """
        loss, failing = float(epsilon_of(epsilon)), float(delta_of(delta))
        scale = gaussian_delta.calibrated(loss, failing, sensitivity, calibration)
        mechanism = cls(scale=rounded_scale_up(scale))
        while mechanism.delta(epsilon, sensitivity) > failing:
            scale *= 1 + 1e-4
            mechanism = cls(scale=rounded_scale_up(scale))
        return mechanism

    @classmethod
    def for_accuracy(cls, target: Accuracy, *, answers: int = 1) -> Self:
        """Return the mechanism with most noise (to about five digits) that meets the target for all answers at once."""
        failing, room = failure(target.confidence), against_table(target).within
        number = number_of(answers, argument="answers")

        def met(scale: float) -> bool:
            return _quantile(scale, failing, number) <= room

        low, high = _near(room, failing, number)
        if not met(low) or met(high):  # the normal law is no guide at a few steps
            low, high = 1e-4, 1e13
        while high / low > 1 + 1e-5:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if met(middle) else (low, middle)
        return cls(scale=rounded_scale_down(low))

    def event(self, sensitivity: Sensitivity) -> GaussianEvent:
        """Return what one release costs."""
        return GaussianEvent(sensitivity.l2_squared, self.scale**2, sensitivity.neighbours)

    def delta(self, epsilon: Exact, sensitivity: Sensitivity) -> float:
        """Return δ(ε) of the discrete law: exact for one answer or a histogram, through zCDP for other vectors."""
        return gaussian_delta.discrete(float(epsilon_of(epsilon)), float(self.scale), sensitivity)

    def accuracy(self, confidence: float = 0.95, *, answers: int = 1, sample: int | None = None) -> Accuracy:
        """Return a quantile of the largest error of all answers, from the discrete tail, and the expected error of one.

        With `sample`, the answers are counts over so many independent rows and the comparison is with the population.

        Theorem: gaussian-accuracy
        """
        failing = failure(confidence) / (1 if sample is None else 2)
        scale = float(self.scale)
        within = _quantile(scale, failing, number_of(answers, argument="answers"))
        expected = _expected(scale)
        if sample is None:
            return Accuracy(within=within, confidence=confidence, expected=expected)
        return Accuracy(
            within=within + sampling_error(failing, answers=answers, sample=sample),
            confidence=confidence,
            expected=expected + math.sqrt(sample) / 2,
            against=Against.POPULATION,
        )

    def probability(self, noise: int) -> float:
        """Return the probability of this noise.

        >>> round(Gaussian(scale=1).probability(0), 7)
        0.3989423
        """
        scale = float(self.scale)
        return math.exp(-((min(abs(noise), BEYOND) / scale) ** 2) / 2) / gaussian_delta.total(scale)


def _near(room: float, failing: float, answers: int) -> tuple[float, float]:
    """Return scales just below and above the one whose error is the room, by the normal law."""
    guess = (math.floor(room) + 0.5) / -NormalDist().inv_cdf(_share(failing, answers) / 2)
    return guess * 0.99, guess * 1.01


def _share(failing: float, answers: int) -> float:
    """Return how often one of independent answers may fail, so that all hold but with probability `failing`."""
    return -math.expm1(math.log1p(-failing) / answers)


@lru_cache(maxsize=1 << 12)
def _quantile(scale: float, failing: float, answers: int) -> float:
    """Return the least m with P(|x| > m) ≤ the share of one of independent answers, or a bound that is a step off."""
    share = _share(failing, answers)
    if scale > _SUMMED:
        # Σ_{x>m} e^{-x²/2σ²} ≤ ∫_m^∞ and the total is at least σ√(2π), so P(|x| > m) ≤ P(|N| > m/σ).
        return math.ceil(-NormalDist().inv_cdf(share / 2) * scale)
    steps = np.arange(math.ceil(40 * scale) + 1, 0, -1)
    beyond = np.cumsum(2 * np.exp(-((steps / scale) ** 2) / 2) / gaussian_delta.total(scale))  # P(|x| ≥ step)
    return float(steps.size - np.searchsorted(beyond, share, side="right"))


def _expected(scale: float) -> float:
    """Return E|x|, at most σ√(2/π) plus what the grid adds."""
    if scale > _SUMMED:
        return scale * math.sqrt(2 / math.pi)
    steps = np.arange(1, math.ceil(40 * scale) + 2)
    return float(2 * (steps * np.exp(-((steps / scale) ** 2) / 2)).sum() / gaussian_delta.total(scale))
