"""The law of the privacy loss of one mechanism, on a lattice: what a plan is composed of.

A law says how the loss ln P/Q is distributed under P for a pair that no neighbours exceed. Losses are top, top - step,
top - 2·step, …; `lost` is the probability of an infinite loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_LEAST = 1e-300  # in place of a probability that is no float; more at a loss that is there never makes δ smaller
_WIDEST = 20  # standard deviations of a discrete Gaussian that are kept; what is left has probability below e^-200
LONGEST = 2**20
"""The most losses that a law is written out with."""


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """P(loss = top - j·step) = weights[j], and infinity with probability `lost`."""

    top: Fraction
    step: Fraction
    weights: Array
    lost: float = 0.0

    @property
    def width(self) -> Fraction:
        """The distance from the largest to the smallest loss."""
        return self.step * (len(self.weights) - 1)


def pure(epsilon: Fraction) -> Law:
    """Return the loss of randomized response, which no ε-differentially private mechanism exceeds.

    Theorem: dominating-losses
    """
    loss = float(epsilon)
    kept = 1 / (1 + math.exp(-loss))
    return Law(epsilon, 2 * epsilon, np.array([kept, max(math.exp(-loss) * kept, _LEAST)]))


def laplace(distance: int, scale: Fraction) -> Law:
    """Return the loss of discrete Laplace noise on integers whose changes sum to at most `distance`.

    One integer that moves by the whole distance is the worst case.

    Theorem: dominating-losses
    """
    if distance > LONGEST:
        return pure(distance / scale)
    ratio = math.exp(-1 / scale)
    weights = np.exp(-np.arange(distance + 1) / float(scale)) / (1 + ratio)
    weights[1:-1] *= -math.expm1(-1 / scale)
    return Law(distance / scale, 2 / scale, np.maximum(weights, _LEAST))


def gaussian(variance: Fraction) -> Law:
    """Return the loss of discrete Gaussian noise on an integer that moves by one.

    Theorem: dominating-losses
    """
    scale = math.sqrt(variance)
    edge = math.ceil(_WIDEST * scale) + 1
    if 2 * edge >= LONGEST:
        raise InvalidArgument("variance", variance, "the loss is written out only up to a scale of 26,000")
    noise = np.arange(-edge, edge + 1, dtype=np.float64)
    weights = np.exp(-(noise**2) / (2 * float(variance)))
    beyond = math.exp(-(edge**2) / (2 * float(variance)) * (1 - 1e-12))
    weights /= weights.sum()
    weights[-1] += beyond  # what is below the smallest loss is raised to it
    return Law((1 + 2 * edge) / (2 * variance), 1 / variance, np.maximum(weights, _LEAST), beyond)


def log_moment(law: Law, tilt: float) -> float:
    """Return ln E[e^{tilt·loss}] of the finite losses."""
    fall = np.log(law.weights) - tilt * float(law.step) * np.arange(len(law.weights))
    largest = float(fall.max())
    return tilt * float(law.top) + largest + math.log(float(np.exp(fall - largest).sum()))


def tilted(law: Law, tilt: float) -> Array:
    """Return the weights multiplied by e^{tilt·loss} and made to sum to one."""
    fall = np.log(law.weights) - tilt * float(law.step) * np.arange(len(law.weights))
    weights: Array = np.exp(fall - fall.max())
    return weights / float(weights.sum())


def binomial(log_odds: float, times: int) -> Array:
    """Return P(j failures in `times` trials) for j = 0…times, where success has these log odds (Loader 2000).

    The relative error is below 10^-8 up to a million trials, wherever a value is a normal float.
    """
    log_good, log_bad = -_softplus(-log_odds), -_softplus(log_odds)
    good, bad = math.exp(log_good), max(math.exp(log_bad), _LEAST)
    failures = np.arange(1, times, dtype=np.float64)
    successes = times - failures
    exponent = (
        _stirling(np.array([float(times)]))[0]
        - _stirling(failures)
        - _stirling(successes)
        - _deviance(failures, times * bad)
        - _deviance(successes, times * good)
    )
    inside = np.exp(exponent) * np.sqrt(times / (2 * math.pi * failures * successes))
    law: Array = np.concatenate([[math.exp(times * log_good)], inside, [math.exp(times * log_bad)]])
    return law


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


def _stirling(number: Array) -> Array:
    """Return ln n! - [(n + 1/2) ln n - n + ln(2π)/2]."""
    exact: Array = np.array([0.0, *(_remainder(n) for n in range(1, 16))])
    square = np.maximum(number, 1.0) ** 2
    series: Array = (
        1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square) / square
    ) / number
    small = number < len(exact)
    series[small] = exact[number[small].astype(np.int64)]
    return series


def _remainder(number: int) -> float:
    return math.log(math.factorial(number)) - (number + 0.5) * math.log(number) + number - math.log(2 * math.pi) / 2


def _deviance(count: Array, mean: float) -> Array:
    """Return count·ln(count/mean) + mean - count, with an error of the order of |count - mean|·2^-53."""
    excess = (count - mean) / mean
    deviance: Array = mean * ((1 + excess) * np.log1p(excess) - excess)
    return deviance
