"""A term of a sum of noises, and the simplest bound of such sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.measured import Noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDE = 4.0
"""From this scale on a discrete Gaussian has the variance and the transform of a normal law in every digit."""
_PARTS: NDArray[np.float64] = np.concatenate([np.geomspace(1e-4, 0.5, 120), 1 - np.geomspace(0.5, 1e-6, 60)])


@dataclass(frozen=True, slots=True, order=True)
class Term:
    """So many independent draws of a noise, each times a number above 0. Noise is symmetric, so no sign is kept."""

    factor: float
    law: str
    scale: float
    times: int = 1

    @classmethod
    def of(cls, factor: float, noise: Noise, times: int = 1) -> Term:
        """Return the term of some draws of a noise."""
        return cls(abs(float(factor)), type(noise).__name__, float(noise.scale), times)

    @property
    def variance(self) -> float:
        """The variance of all its draws together, each times the factor.

        >>> Term(2.0, "Gaussian", 10.0, 3).variance, round(Term(1.0, "Laplace", 10.0).variance, 3)
        (1200.0, 199.833)
        """
        if self.law == "Laplace":
            one = 0.5 * (1 / math.sinh(0.5 / self.scale)) ** 2
        elif self.scale >= WIDE:
            one = self.scale**2
        else:
            steps = np.arange(1, math.ceil(40 * self.scale) + 2, dtype=np.float64)
            weights = np.exp(-((steps / self.scale) ** 2) / 2)
            one = float(2 * np.sum(steps**2 * weights) / (1 + 2 * np.sum(weights)))
        return self.times * self.factor**2 * one


def chernoff(terms: tuple[Term, ...], failing: float) -> float:
    """Return min (ln M(t) + ln 1/failing)/t over a grid of t: Chernoff's bound, M being the moment generating function.

    Theorem: sum-of-noises
    """
    laplace = [term for term in terms if term.law == "Laplace"]
    normal = sum(term.times * (term.factor * term.scale) ** 2 for term in terms if term.law != "Laplace")
    most = 1 / max(term.factor * term.scale for term in laplace) if laplace else 100 / math.sqrt(normal)
    grid = most * _PARTS
    log = normal * grid**2 / 2
    if laplace:
        # E e^{sX} = (1-q)²/((1-q·e^s)(1-q·e^{-s})), here as ratios that keep their digits for large scales.
        rate, times = np.array([[1 / term.scale, term.times] for term in laplace]).T
        power, one = np.outer([term.factor for term in laplace], grid), -np.expm1(-rate)[:, None]
        up, down = (-np.expm1(sign * power - rate[:, None]) / one for sign in (1, -1))
        log -= times @ np.log(up * down)
    return float(np.min((log - math.log(failing)) / grid))
