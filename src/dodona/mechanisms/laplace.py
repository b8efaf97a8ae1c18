"""The discrete Laplace mechanism: integer noise with P(x) ∝ exp(-|x|/scale)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dodona.mechanisms.scale import scale_of

if TYPE_CHECKING:
    from fractions import Fraction

    from dodona.exact import Exact


@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """Discrete Laplace noise of an exact scale, in units of the answer.

    >>> Laplace(scale="1/2").probability(0)
    0.7615941559557649
    """

    scale: Fraction

    def __init__(self, *, scale: Exact) -> None:
        """Take any exact number from 1/1000 to 10^12."""
        object.__setattr__(self, "scale", scale_of(scale))

    def probability(self, noise: int) -> float:
        """Return the probability of this noise: tanh(1/(2·scale))·exp(-|noise|/scale)."""
        scale = float(self.scale)
        return math.tanh(0.5 / scale) * math.exp(-abs(noise) / scale)
