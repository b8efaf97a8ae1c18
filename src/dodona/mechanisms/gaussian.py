"""The discrete Gaussian mechanism: integer noise with P(x) ∝ exp(-x²/(2·scale²))."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dodona.mechanisms.scale import scale_of

if TYPE_CHECKING:
    from fractions import Fraction

    from dodona.exact import Exact


@dataclass(frozen=True, slots=True, init=False)
class Gaussian:
    """Discrete Gaussian noise of an exact scale σ, in units of the answer.

    >>> round(Gaussian(scale=1).probability(0), 7)
    0.3989423
    """

    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Take any exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", scale_of(scale))

    def probability(self, noise: int) -> float:
        """Return the probability of this noise."""
        scale = float(self.scale)
        return math.exp(-((noise / scale) ** 2) / 2) / _total(scale)


def _total(scale: float) -> float:
    """Return Σ exp(-x²/(2·scale²)) over the integers: directly, or by Poisson's summation where that is shorter."""
    if scale < 1:
        return 1 + 2 * math.fsum(math.exp(-((x / scale) ** 2) / 2) for x in range(1, 40))
    dual = 2 * math.fsum(math.exp(-2 * (math.pi * scale * x) ** 2) for x in range(1, 4))
    return scale * math.sqrt(2 * math.pi) * (1 + dual)
