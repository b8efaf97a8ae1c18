"""The currency of a release: how a part of the budget buys noise and choices, in ρ or in pure ε."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

from dodona.accounting.event import Event
from dodona.mechanisms.exponential import Exponential
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.measurement import Noise
from dodona.mechanisms.permute_and_flip import PermuteAndFlip
from dodona.mechanisms.scale import SMALLEST, rounded_scale_up
from dodona.mechanisms.selection import Choice
from dodona.query.sensitivity import Sensitivity


class Currency(Protocol):
    """What a part of the whole buys."""

    unit: str
    """The letter that prices are told in."""

    def noise(self, part: float, sensitivity: Sensitivity) -> Noise:
        """Return the least noise that costs at most so much."""

    def choice(self, part: float, sensitivity: Sensitivity) -> Choice:
        """Return the sharpest choice that costs at most so much."""

    def cost(self, event: Event) -> float:
        """Return what an event costs, rounded up."""


@dataclass(frozen=True, slots=True)
class Rho:
    """zCDP: Gaussian noise, and the exponential mechanism at its price of bounded range, at most ε²/8."""

    unit = "ρ"

    def noise(self, part: float, sensitivity: Sensitivity) -> Noise:
        """Return σ = Δ₂/√(2ρ), rounded up."""
        return Gaussian(scale=_scale(math.sqrt(sensitivity.l2_squared / (2 * part))))

    def choice(self, part: float, sensitivity: Sensitivity) -> Choice:
        """Return the exponential mechanism with ε = √(8ρ)."""
        return _exponential(math.sqrt(8 * part), sensitivity)

    def cost(self, event: Event) -> float:
        """Return the zCDP price."""
        return _above(event.rho())


@dataclass(frozen=True, slots=True)
class RhoByLaplace:
    """zCDP, with Laplace noise: for those who want its tails, or the sources' own mechanism."""

    unit = "ρ"

    def noise(self, part: float, sensitivity: Sensitivity) -> Noise:
        """Return the Laplace noise whose zCDP price is the part: the price falls as the scale grows."""
        low, high = 1e-3, 1e12
        while high / low > 1 + 1e-7:
            middle = math.sqrt(low * high)
            found = Laplace(scale=rounded_scale_up(middle)).event(sensitivity)
            low, high = (middle, high) if self.cost(found) > part else (low, middle)
        return Laplace(scale=rounded_scale_up(high))

    def choice(self, part: float, sensitivity: Sensitivity) -> Choice:
        """Return the exponential mechanism with ε = √(8ρ)."""
        return _exponential(math.sqrt(8 * part), sensitivity)

    def cost(self, event: Event) -> float:
        """Return the zCDP price."""
        return _above(event.rho())


@dataclass(frozen=True, slots=True)
class Pure:
    """Pure ε: Laplace noise, and permute-and-flip, which is never worse than the exponential mechanism there."""

    unit = "ε"

    def noise(self, part: float, sensitivity: Sensitivity) -> Noise:
        """Return Lap(Δ₁/ε), rounded up."""
        return Laplace(scale=_scale(sensitivity.l1 / part))

    def choice(self, part: float, sensitivity: Sensitivity) -> Choice:
        """Return permute-and-flip at ε."""
        return PermuteAndFlip(scale=_choice_scale(part, sensitivity))

    def cost(self, event: Event) -> float:
        """Return the pure price."""
        return _above(event.epsilon if event.epsilon is not None else Fraction(10**9))


def _exponential(epsilon: float, sensitivity: Sensitivity) -> Exponential:
    return Exponential(scale=_choice_scale(epsilon, sensitivity))


def _choice_scale(epsilon: float, sensitivity: Sensitivity) -> Fraction:
    return _scale((1 if sensitivity.monotone else 2) * sensitivity.linf / epsilon)


def _scale(wanted: float) -> Fraction:
    """Return a scale, rounded up; with more budget than noise can be small, the smallest."""
    return rounded_scale_up(max(wanted, float(SMALLEST)))


def _above(price: Fraction | Decimal) -> float:
    return math.nextafter(float(price), math.inf)
