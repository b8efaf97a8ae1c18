"""δ(ε) of Gaussian noise: the textbook calibrations, and the exact sum for the discrete law that is drawn."""

from __future__ import annotations

import math
from enum import Enum

import numpy as np

from dodona.errors import InvalidArgument
from dodona.query.sensitivity import Sensitivity

_SUMMED = 10.0**5  # largest scale at which δ is summed term by term
_UP = 1 + 1e-9  # covers the rounding of sums of doubles


class Calibration(Enum):
    """A formula for σ of continuous Gaussian noise; it only gives the place where the discrete search starts."""

    CLASSICAL = "classical"
    """σ = Δ₂√(2 ln(1.25/δ))/ε, for ε < 1 (theorem 3.22)."""
    ANALYTIC = "analytic"
    """The least σ for continuous noise (Balle and Wang 2018), for every ε."""


def calibrated(epsilon: float, delta: float, sensitivity: Sensitivity, calibration: Calibration) -> float:
    """Return σ by the calibration.

    Theorem: gaussian-delta
    """
    distance = math.sqrt(sensitivity.l2_squared)
    if calibration is Calibration.CLASSICAL:
        if epsilon >= 1:
            raise InvalidArgument(
                "epsilon", epsilon, "the classical formula is proved below 1; use Calibration.ANALYTIC"
            )
        return distance * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    low, high = 1e-9, 1e13
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if continuous(epsilon, 1 / middle) <= delta else (middle, high)
    return distance * high


def continuous(epsilon: float, mu: float) -> float:
    """Return δ(ε) = Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ) of continuous Gaussian noise, μ = Δ₂/σ."""
    below = _normal(-mu / 2 - epsilon / mu)
    # Where the second term underflows it is at most the first, times less than one.
    return _normal(mu / 2 - epsilon / mu) - (math.exp(epsilon + math.log(below)) if below > 0 else 0.0)


def _normal(quantile: float) -> float:
    """Return Φ; through erfc, which keeps its digits in the lower tail."""
    return math.erfc(-quantile / math.sqrt(2)) / 2


def discrete(epsilon: float, scale: float, sensitivity: Sensitivity) -> float:
    """Return δ(ε) of discrete Gaussian noise for the worst neighbours of this sensitivity, rounded up.

    Theorem: gaussian-delta
    """
    bound = through_rho(epsilon, sensitivity.l2_squared / (2 * scale**2))
    if sensitivity.l1 == sensitivity.linf:  # the worst is that one answer moves by linf
        return min(bound, _one_answer(epsilon, scale, sensitivity.linf))
    two = sensitivity.linf == 1 and sensitivity.l2_squared == 2  # noqa: PLR2004  a histogram: two cells move by one
    if two and scale <= _SUMMED:
        return min(bound, max(_one_answer(epsilon, scale, 1), _two_cells(epsilon, scale)))
    return bound


def _one_answer(epsilon: float, scale: float, distance: int) -> float:
    """Return Σ max(0, P(x) - e^ε·P(x + d)); a longer shift is never less telling, as the law is log-concave."""
    if scale > _SUMMED:
        # A midpoint sum of the density is off by at most ∫|f''|/24 < 0.0404/σ² on each side.
        return continuous(epsilon, distance / scale) * _UP + (1 + math.exp(epsilon)) * 0.0404 / scale**2
    edge = math.ceil(40 * scale) + 1
    noise = np.arange(-edge, edge + 1, dtype=np.float64)
    loss = distance * (distance + 2 * noise) / (2 * scale**2)
    return _hockey_stick(epsilon, np.exp(-((noise / scale) ** 2) / 2) / total(scale), loss)


def _two_cells(epsilon: float, scale: float) -> float:
    """Return δ(ε) for two cells that move by one: the loss depends on the sum of two draws, whose law is closed.

    P(s) = e^{-s²/4σ²}·Σ_x e^{-(x - s/2)²/σ²} / total², where the sum depends on the parity of s alone.
    """
    edge = math.ceil(60 * scale) + 2
    sums = np.arange(-edge, edge + 1, dtype=np.float64)
    grid = np.arange(-edge, edge + 1, dtype=np.float64)
    even, odd = (math.fsum(np.exp(-(((grid + half) / scale) ** 2)).tolist()) for half in (0.0, 0.5))
    weight = np.exp(-((sums / (2 * scale)) ** 2)) * np.where(sums % 2 == 0, even, odd) / total(scale) ** 2
    return _hockey_stick(epsilon, weight, (2 + 2 * sums) / (2 * scale**2))


def _hockey_stick(epsilon: float, weight: np.ndarray, loss: np.ndarray) -> float:
    """Return E[(1 - e^{ε - loss})₊], rounded up."""
    telling = loss > epsilon
    return float(np.sum(weight[telling] * -np.expm1(epsilon - loss[telling]))) * _UP


def through_rho(epsilon: float, rho: float) -> float:
    """Return δ(ε) of any ρ-zCDP mechanism: the least over orders of e^{(α-1)(αρ-ε)}·(1 - 1/α)^α/(α - 1).

    Theorem: gaussian-delta
    """
    low, high = 0.0, 60.0  # ln(α - 1), of which the exponent is convex; golden section

    def logarithm(position: float) -> float:
        order = 1 + math.exp(position - 20)
        return (order - 1) * (order * rho - epsilon) + order * math.log1p(-1 / order) - math.log(order - 1)

    while high - low > 1e-9:  # noqa: PLR2004  far finer than the optimum is sharp
        third = (high - low) / 3
        low, high = (low, high - third) if logarithm(low + third) < logarithm(high - third) else (low + third, high)
    return min(1.0, math.exp(logarithm((low + high) / 2)) * _UP)


def total(scale: float) -> float:
    """Return Σ exp(-x²/(2·scale²)) over the integers: directly, or by Poisson's summation where that is shorter."""
    if scale < 1:
        return 1 + 2 * math.fsum(math.exp(-((x / scale) ** 2) / 2) for x in range(1, 40))
    dual = 2 * math.fsum(math.exp(-2 * (math.pi * scale * x) ** 2) for x in range(1, 4))
    return scale * math.sqrt(2 * math.pi) * (1 + dual)
