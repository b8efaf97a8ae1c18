"""The tail of a composed privacy loss, and the two questions that are asked of it: δ(ε) and ε(δ)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dodona.accounting.losses import Array

MARGIN = 1e-8
"""Relative rounding error of a probability that is covered: a few parts in 10^9 for a million mechanisms."""
_LEAST = 1e-290  # no δ below it is promised
_NUDGE = 2.0**-48  # relative rounding error of a loss that is covered


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tail:
    """P(loss = losses[i]) = weights[i]·e^{scale - tilt·losses[i]}, up to an error that is counted; losses fall.

    `spread` bounds the Euclidean length of the error of the weights; `beyond` is probability that counts as δ whole.
    """

    losses: Array
    weights: Array
    tilt: float = 0.0
    scale: float = 0.0
    spread: float = 0.0
    beyond: float = 0.0

    def delta(self, epsilon: float) -> float:
        """Return a number that is not below E[(1 - e^{ε - loss})₊].

        Theorem: loss-convolution
        """
        level = epsilon - _NUDGE * (abs(epsilon) + float(np.abs(self.losses).max()))
        above = self.losses > level
        losses, weights = self.losses[above], self.weights[above]
        inside = float((weights * np.exp(-self.tilt * (losses - level)) * -np.expm1(level - losses)).sum())
        inside += self.spread * math.sqrt(self._geometric())
        total = math.exp(min(0.0, math.log(inside) + self.scale - self.tilt * level)) if inside > 0 else 0.0
        return min(1.0, max(total * (1 + MARGIN) + self.beyond, _LEAST))

    def epsilon(self, delta: float) -> float:
        """Return a number ≥ 0 that is not below the least ε with δ(ε) ≤ delta; infinity where there is none.

        Theorem: loss-convolution
        """
        if self.delta(0.0) <= delta:
            return 0.0
        wanted = delta - self.beyond
        if wanted <= _LEAST:
            return math.inf
        # The set {loss ≥ l} that needs the largest ε is the answer: ε = ln((P(S) - δ)/Q(S)).
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            masses = np.log(self.weights) + self.scale - self.tilt * self.losses
            first = np.logaddexp.accumulate(masses)
            second = np.logaddexp.accumulate(masses - self.losses)
            needed = first + np.log1p(-wanted * np.exp(-first)) - second
        needed = needed[np.isfinite(needed)]
        guess = max(float(needed.max()), 0.0) if len(needed) else 0.0
        step = 1e-10 * (1 + guess)
        while self.delta(guess) > delta:  # the margin moves the answer by about margin/slope
            guess, step = guess + step, 2 * step
        return guess

    def _geometric(self) -> float:
        """Return Σ e^{-2·tilt·(loss - ε)} over the losses above any ε, at most."""
        if len(self.losses) == 1:
            return 1.0
        gap = float(self.losses[0] - self.losses[-1]) / (len(self.losses) - 1)
        every = float(len(self.losses))
        return min(every, -1 / math.expm1(-2 * self.tilt * gap)) if self.tilt > 0 else every
