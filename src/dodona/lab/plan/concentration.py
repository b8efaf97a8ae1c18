"""The concentration bounds of the texts: how often a sum of independent variables is far from its expectation.

Every function returns a bound on a probability, at most 1, and refuses arguments for which the bound is false.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from dodona.errors import InvalidArgument
from dodona.privacy.accuracy import validate_count

WIDEST = 1.8169
"""Up to this factor (1 + x)·ln(1 + x) - x ≥ x²/3, which the bound on the upper tail needs."""


def hoeffding(samples: int, deviation: float) -> float:
    """Return e^{-2mλ²}: P(mean of m independent variables in [0, 1] > μ + λ), and the same below (theorem 3.1).

    >>> round(2 * hoeffding(1000, 0.05), 6)
    0.013476

    Theorem: concentration
    """
    return _exp_capped(-2 * validate_count(samples, argument="samples") * _size(deviation, "deviation") ** 2)


def hoeffding_two_sided(samples: int, deviation: float) -> float:
    """Return 2e^{-2mλ²}, at most 1: P(|mean of m independent variables in [0, 1] - μ| > λ).

    >>> round(hoeffding_two_sided(1000, 0.05), 6)
    0.013476

    Theorem: concentration
    """
    return min(1.0, 2 * hoeffding(samples, deviation))


def hoeffding_deviation(samples: int, failing: float) -> float:
    """Return the λ at which the bound equals the failure probability: √(ln(1/β)/(2m)).

    Theorem: concentration
    """
    return math.sqrt(-math.log(_between(failing, "failing")) / (2 * validate_count(samples, argument="samples")))


def chernoff_above(samples: int, mean: float, factor: float) -> float:
    """Return e^{-mμλ²/3}: P(mean of m independent variables in [0, 1] > (1 + λ)μ), for λ ≤ 1.8169 (theorem 3.2).

    The text states no range. Beyond it the bound is false: 1,000 draws of mean .001 are above 8 with probability
    1.1·10^-6, and it says 8.1·10^-8.

    Theorem: concentration
    """
    size = _size(factor, "factor")
    if size > WIDEST:
        accepted = f"this bound holds up to {WIDEST}; write less, or take `chernoff`, which holds for all"
        raise InvalidArgument("factor", factor, accepted)
    return _exp_capped(-validate_count(samples, argument="samples") * _between(mean, "mean") * size**2 / 3)


def chernoff_below(samples: int, mean: float, factor: float) -> float:
    """Return e^{-mμλ²/2}: P(mean of m independent variables in [0, 1] < (1 - λ)μ), for λ ≤ 1 (theorem 3.2).

    Theorem: concentration
    """
    size = _size(factor, "factor")
    if size > 1:
        raise InvalidArgument("factor", factor, "write from 0 to 1: no mean is below 0")
    return _exp_capped(-validate_count(samples, argument="samples") * _between(mean, "mean") * size**2 / 2)


def chernoff(samples: int, mean: float, share: float) -> float:
    """Return e^{-m·kl(s‖μ)}: P(mean of m independent variables in [0, 1] ≥ s) for s above μ, ≤ s below it.

    kl(s‖μ) = s·ln(s/μ) + (1 - s)·ln((1 - s)/(1 - μ)). It implies the other bounds here, and holds for all arguments.

    Theorem: concentration
    """
    expected, reached = _between(mean, "mean"), _size(share, "share")
    if reached > 1:
        raise InvalidArgument("share", share, "write from 0 to 1: no mean is above 1")
    exponent = 0.0
    for observed, other in ((reached, expected), (1 - reached, 1 - expected)):
        if observed > 0:
            exponent += observed * math.log(observed / other)
    return _exp_capped(-validate_count(samples, argument="samples") * max(exponent, 0.0))


def azuma(effects: Iterable[float], deviation: float) -> float:
    """Return e^{-2t²/Σc²}: P(f ≥ E f + t), where the i-th variable moves the expected f by at most c_i (theorem 3.3).

    Theorem: concentration
    """
    squares = math.fsum(_size(effect, "effects") ** 2 for effect in effects)
    if squares == 0:
        raise InvalidArgument("effects", squares, "write how far each variable moves the function, one of them above 0")
    return _exp_capped(-2 * _size(deviation, "deviation") ** 2 / squares)


def azuma_sum(terms: int, size: float, drift: float, deviations: float) -> tuple[float, float]:
    """Return kμ + z√k·a and e^{-z²/2}: P(sum of k terms > the first) is at most the second (lemma 3.19).

    Each term is within a of 0 and, given the earlier ones, at most μ on average.

    Theorem: concentration
    """
    count, most = validate_count(terms, argument="terms"), _size(size, "size")
    if not abs(drift) <= most:
        raise InvalidArgument("drift", drift, "write a mean that is no larger than the terms")
    level = count * drift + _size(deviations, "deviations") * math.sqrt(count) * most
    return level, _exp_capped(-(deviations**2) / 2)


def stirling(number: int) -> tuple[float, float]:
    """Return bounds on ln n!: (n + 1/2)·ln n - n + ln √(2π), plus 1/(12n + 1) and plus 1/(12n) (theorem 3.4).

    Theorem: concentration
    """
    count = validate_count(number, argument="number")
    middle = (count + 0.5) * math.log(count) - count + math.log(2 * math.pi) / 2
    return middle + 1 / (12 * count + 1), middle + 1 / (12 * count)


def laplace_tail(scales: float) -> float:
    """Return e^{-t}: P(|x| ≥ t·b) for Laplace noise of scale b, exactly (fact 3.7).

    Theorem: concentration
    """
    return _exp_capped(-_size(scales, "scales"))


def laplace_sum(draws: int, scales: float) -> float:
    """Return a bound on P(sum of k Laplace draws ≥ t·b): e^{-θt}/(1 - θ²)^k at the best θ = (√(k² + t²) - k)/t.

    >>> round(laplace_sum(100, 40), 5)
    0.01976

    Theorem: concentration
    """
    count, reached = validate_count(draws, argument="draws"), _size(scales, "scales")
    rate = reached / (math.hypot(count, reached) + count)
    return _exp_capped(-rate * reached - count * math.log1p(-(rate**2)))


def normal_tail(deviations: float) -> float:
    """Return e^{-z²/2}: a bound on P(x ≥ zσ) for normal and for discrete Gaussian noise.

    Theorem: concentration
    """
    return _exp_capped(-(_size(deviations, "deviations") ** 2) / 2)


def _exp_capped(exponent: float) -> float:
    return math.exp(min(exponent, 0.0))


def _size(value: float, argument: str) -> float:
    if isinstance(value, bool) or not 0 <= value < math.inf:
        raise InvalidArgument(argument, value, "write a number from 0 up")
    return float(value)


def _between(value: float, argument: str) -> float:
    if isinstance(value, bool) or not 0 < value < 1:
        raise InvalidArgument(argument, value, "write a number between 0 and 1")
    return float(value)
