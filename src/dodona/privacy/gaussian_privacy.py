"""Gaussian differential privacy in decimals: the squared ratio μ² as a price, and its conversion to (ε, δ).

Normal tails are computed with eighty digits, so that a price is surely rounded up and a limit surely down.
"""

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dodona.errors import InvalidArgument
from dodona.numbers import float_above

# --- The normal law. ---


_EIGHTY = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SHOWN = Context(prec=40, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_PI = Decimal("3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679")
_EXACT = Decimal(1).scaleb(-70)
_CLOSE = Decimal(1).scaleb(-40)
_CENTRE = 6  # below this many deviations a power series is used, and beyond it a continued fraction
_HALF = Decimal("0.5")


def _density(x: Decimal) -> Decimal:
    return (-x * x / 2).exp() / (2 * _PI).sqrt()


def _centre(x: Decimal) -> Decimal:
    """Return Φ(x) - 1/2 = φ(x)·Σ x^(2n+1)/(2n+1)!! for x ≥ 0; all terms are positive."""
    term = total = x
    odd = 1
    while term > total * _EXACT:
        odd += 2
        term *= x * x / odd
        total += term
    return _density(x) * total


def _mills(x: Decimal) -> Decimal:
    """Return Φ(-x)/φ(x) for x ≥ 6: the continued fraction 1/(x + 1/(x + 2/(x + …))), whose ends enclose it."""
    terms = 32
    while True:
        ends = []
        for last in (terms, terms + 1):
            denominator = x
            for number in range(last, 0, -1):
                denominator = x + number / denominator
            ends.append(1 / denominator)
        if abs(ends[0] - ends[1]) <= ends[0] * _EXACT:
            return ends[0]
        terms *= 2


def _tail(x: Decimal) -> Decimal:
    """Return Φ(-x)."""
    if x >= _CENTRE:
        return _density(x) * _mills(x)
    return _HALF - _centre(x) if x >= 0 else 1 - _tail(-x)


def _root(function: Callable[[Decimal], Decimal], low: Decimal, high: Decimal) -> Decimal:
    """Return the zero of a monotone function between two ends of different sign, to forty digits.

    By the method of false position; where an end stays, its value is halved (Illinois).
    """
    at_low, at_high = function(low), function(high)
    while at_low and at_high and abs(high - low) > abs(high) * _CLOSE:
        middle = high - at_high * (high - low) / (at_high - at_low)
        at_middle = function(middle)
        if at_middle.is_signed() == at_high.is_signed():
            at_low /= 2
        else:
            low, at_low = high, at_high
        high, at_high = middle, at_middle
    return high if at_low else low


# --- Prices: μ² of mechanisms whose losses are bounded. ---


_LARGEST_RANGE = 200  # beyond, a bound that is a few percent larger


def bounded_range_ratio(width: Fraction) -> Decimal:
    """Return (2Φ⁻¹(e^h/(1 + e^h)))², h = width/2, to forty digits: for losses in an interval of this width.

    Theorem: gaussian-filter
    """
    with localcontext(_EIGHTY):
        half = Decimal(width.numerator) / Decimal(2 * width.denominator)
        if half * 2 > _LARGEST_RANGE:
            return 8 * half  # as Φ(-z) ≤ e^(-z²/2)/2
        power = (-half).exp()
        if half < 1:
            wanted = (1 - power) / (1 + power) / 2
            level = wanted.ln()
            ends = wanted * (2 * _PI).sqrt(), wanted / _density(Decimal(1))
            root = _root(lambda z: _centre(z).ln() - level, ends[0] * (1 - _CLOSE), ends[1])
        else:
            level = power.ln() - (1 + power).ln()
            enough = (-2 * (level + Decimal(2).ln())).sqrt() * (1 + _CLOSE)
            root = _root(lambda z: _tail(z).ln() - level, Decimal("0.1"), enough)
        return 4 * root * root


# --- Conversion to (ε, δ). ---


def _delta(mu: Decimal, epsilon: Decimal) -> Decimal:
    """Return δ(ε) = Φ(-a) - e^ε·Φ(-b) with a = ε/μ - μ/2, b = ε/μ + μ/2, where e^ε·φ(b) = φ(a)."""
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    mills = _mills(far) if far >= _CENTRE else (_HALF - _centre(far)) / _density(far)
    if near >= _CENTRE:
        return _density(near) * (_mills(near) - mills)
    return _tail(near) - _density(near) * mills


@lru_cache(maxsize=256)
def gaussian_limit(epsilon: Fraction, delta: Fraction) -> Decimal:
    """Return the largest μ² with δ(ε) ≤ delta, rounded down.

    >>> round(gaussian_limit(Fraction(1), Fraction(1, 10**6)).sqrt(), 8)
    Decimal('0.23670438')

    Theorem: gaussian-filter
    """
    with localcontext(_EIGHTY):
        loss = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        level = (Decimal(delta.numerator) / Decimal(delta.denominator)).ln()

        def above(mu: Decimal) -> Decimal:
            return _delta(mu, loss).ln() - level

        high = Decimal(1)
        while above(high) <= 0:
            high *= 2
        while above(high / 2) > 0:
            high /= 2
        root = _root(above, high / 2, high)
        return _SHOWN.multiply(root * root, 1 - Decimal(1).scaleb(-30))


@lru_cache(maxsize=1 << 12)
def gaussian_epsilon(mu_squared: Decimal, delta: Fraction) -> float:
    """Return the least ε at which μ-Gaussian differential privacy implies (ε, delta), rounded up.

    Theorem: gaussian-filter
    """
    if not 0 < delta < 1:
        raise InvalidArgument("delta", delta, "write a number between 0 and 1, such as '1e-6'")
    with localcontext(_EIGHTY):
        mu = mu_squared.sqrt() * (1 + _CLOSE)
        wanted = Decimal(delta.numerator) / Decimal(delta.denominator)
        if mu < 2 * _CENTRE and 2 * _centre(mu / 2) <= wanted:  # δ(0)
            return 0.0
        level = wanted.ln()
        enough = mu * mu / 2 + mu * (-2 * level).sqrt()  # as δ ≤ Φ(-a) ≤ e^(-a²/2)
        root = _root(lambda epsilon: _delta(mu, epsilon).ln() - level, Decimal(0), enough)
        return math.nextafter(float_above(Fraction(root) * (1 + Fraction(1, 10**30))), math.inf)
