"""The integer samplers of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020).

Written from the paper's algorithms 1 to 3, with integers and `randbelow(n)`, uniform on 0 … n - 1, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

Below = Callable[[int], int]


def bernoulli(chance: Fraction, randbelow: Below) -> bool:
    return randbelow(chance.denominator) < chance.numerator


def bernoulli_exp(gamma: Fraction, randbelow: Below) -> bool:
    """Algorithm 1: true with probability e^-gamma."""
    while gamma > 1:
        if not bernoulli_exp(Fraction(1), randbelow):
            return False
        gamma -= 1
    k = 1
    while bernoulli(gamma / k, randbelow):
        k += 1
    return k % 2 == 1


def geometric(scale: Fraction, randbelow: Below) -> int:
    """Lines 3 to 12 of algorithm 2: P(x) ∝ e^(-x/scale) for x ≥ 0."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = randbelow(t)
        if bernoulli_exp(Fraction(u, t), randbelow):
            break
    v = 0
    while bernoulli_exp(Fraction(1), randbelow):
        v += 1
    return (u + t * v) // s


def laplace(scale: Fraction, randbelow: Below) -> int:
    """Algorithm 2: P(x) ∝ e^(-|x|/scale)."""
    while True:
        negative, magnitude = randbelow(2), geometric(scale, randbelow)
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def gaussian(scale: Fraction, randbelow: Below) -> int:
    """Algorithm 3: P(x) ∝ e^(-x²/(2·scale²))."""
    variance = scale * scale
    t = isqrt(variance.numerator // variance.denominator) + 1
    while True:
        y = laplace(Fraction(t), randbelow)
        if bernoulli_exp((abs(y) - variance / t) ** 2 / (2 * variance), randbelow):
            return y
