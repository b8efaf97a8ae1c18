"""The two currencies that a design is paid in: zCDP with Gaussian answers, or pure losses with Laplace answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dodona.accounting.event import Event
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.scale import LARGEST, SMALLEST, rounded_scale_down

_NEAR = 1e-8


@dataclass(frozen=True, slots=True)
class Concentrated:
    """So much zCDP in all."""

    limit: Decimal

    def parted(self, rows: int) -> Concentrated:
        """Return what is left of it for one row, where so many move together."""
        return Concentrated(self.limit / rows**2)

    def answer(self, gap: float, *, answers: int, failing: float) -> Gaussian:
        """Return noise that stays below the gap in all answers: P(|x| ≥ m) ≤ e^{-(m-1)²/2σ²}."""
        return Gaussian(scale=_scale(max(gap - 2, 0.5) / math.sqrt(2 * math.log(answers / failing))))

    def left(self, answer: Gaussian | Laplace, answers: int) -> float:
        """Return what is left for tests after the answers."""
        return float(self.limit) - answers / (2 * float(answer.scale) ** 2)

    def loss(self, price: float) -> float:
        """Return about the ε with ε·tanh(ε/2) equal to a price."""
        low, high = math.sqrt(2 * price), math.sqrt(2 * price) + 2 * price
        while high - low > _NEAR * low:
            middle = (low + high) / 2
            low, high = (middle, high) if middle * math.tanh(middle / 2) < price else (low, middle)
        return low

    def admits(self, event: Event) -> bool:
        """Return whether the event costs no more."""
        return event.rho() <= self.limit


@dataclass(frozen=True, slots=True)
class Pure:
    """So much pure loss in all."""

    limit: Fraction

    def parted(self, rows: int) -> Pure:
        """Return what is left of it for one row, where so many move together."""
        return Pure(self.limit / rows)

    def answer(self, gap: float, *, answers: int, failing: float) -> Laplace:
        """Return noise that stays below the gap in all answers: P(|x| ≥ m) ≤ e^{-(m-1)/b}."""
        return Laplace(scale=_scale(max(gap - 2, 0.5) / math.log(answers / failing)))

    def left(self, answer: Gaussian | Laplace, answers: int) -> float:
        """Return what is left for tests after the answers."""
        return float(self.limit) - answers / float(answer.scale)

    def loss(self, price: float) -> float:
        """Return the price, which is a loss."""
        return price

    def admits(self, event: Event) -> bool:
        """Return whether the event costs no more."""
        return event.epsilon is not None and event.epsilon <= self.limit


Currency = Concentrated | Pure


def _scale(value: float) -> Fraction:
    return rounded_scale_down(min(max(value, float(SMALLEST)), float(LARGEST)))
