"""A price: what an answer takes of the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dodona.exact import percent


@dataclass(frozen=True, slots=True)
class Price:
    """The share of the budget, which adds up; and the ε of the same question asked alone, which is only a label.

    >>> print(Price(Fraction(1, 80), 0.25))
    1.25% of the budget (asked alone: epsilon 0.25; add shares, not epsilons)
    >>> print(FREE)
    free
    """

    share: Fraction
    epsilon: float
    """Rounded up."""

    def plus(self, other: Price) -> Price:
        """Return both together.

        >>> print(Price(Fraction(1, 80), 0.25).plus(FREE))
        1.25% of the budget (asked alone: epsilon 0.25; add shares, not epsilons)
        """
        return Price(self.share + other.share, math.nextafter(self.epsilon + other.epsilon, math.inf))

    def __str__(self) -> str:
        if self.share == 0:
            return "free"
        return (
            f"{percent(self.share)} of the budget (asked alone: epsilon {self.epsilon:.3g}; add shares, not epsilons)"
        )


FREE = Price(Fraction(0), 0.0)
"""The price of an answer that was paid for before."""
