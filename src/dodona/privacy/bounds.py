"""Validated privacy parameters, and arithmetic and searches that err only to the safe side.

Floats are rounded up, costs are integers in units of 2^-64 (costs rounded up, limits down), and Rényi and zCDP curves
are computed in decimals. A sum of costs is therefore exact and never too low.
"""

import math
from collections.abc import Callable, Iterable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, to_fraction

# --- Safe numbers: validated arguments, and floats that are never below the number they represent. ---


def validate_noise_delta(value: Exact) -> Fraction:
    """Return δ, the failure probability of privacy, strictly between 0 and 1."""
    delta = to_fraction(value, argument="delta", lower=Fraction(0), upper=Fraction(1))
    if delta in (0, 1):
        raise InvalidArgument("delta", value, "write a number between 0 and 1, such as '1e-6'")
    return delta


def float_above(number: Fraction) -> float:
    """Return the nearest float that is not below the fraction."""
    near = float(number)
    return near if Fraction(near) >= number else math.nextafter(near, math.inf)


# --- Costs as integers: a unit is 2^-64, costs are rounded up and limits down, so sums are exact and never too low. ---


_WIDE = Context(prec=120, Emin=MIN_EMIN, Emax=MAX_EMAX)
ONE_IN_UNITS = 1 << 64
"""A price of 1, in units."""
_UNITS = Decimal(ONE_IN_UNITS)


def cost_in_units(price: Decimal) -> int:
    """Return a price in units, rounded up.

    >>> cost_in_units(Decimal("0.5")) == 1 << 63
    True

    Theorem: rounding
    """
    return int(_WIDE.multiply(price, _UNITS).to_integral_value(ROUND_CEILING, _WIDE))


def limit_in_units(price: Decimal) -> int:
    """Return a limit in units, rounded down.

    Theorem: rounding
    """
    return int(_WIDE.multiply(price, _UNITS).to_integral_value(ROUND_FLOOR, _WIDE))


# --- Privacy curves in decimal arithmetic, each value rounded up: the price of a mechanism in each currency.


# Eighty digits: in the ranges that events accept, cancellation loses at most fifty-one of them (page rounding).
_EIGHTY = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SHOWN = Context(prec=34, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MARGIN = 1 + Decimal(1).scaleb(-25)


def round_up(value: Decimal) -> Decimal:
    """Return an upper bound on the true value that `value` approximates after up to a hundred steps with eighty digits.

    Theorem: rounding
    """
    return _SHOWN.multiply(value, _MARGIN)


def price_as_decimal(price: Fraction) -> Decimal:
    """Return an exact price as a decimal, rounded up.

    Theorem: rounding
    """
    with localcontext(_EIGHTY):
        return round_up(_decimal(price))


def sum_of_prices(prices: Iterable[tuple[Decimal, int]]) -> Decimal:
    """Return the sum of prices with their multiplicities, rounded up.

    Theorem: rounding
    """
    with localcontext(_EIGHTY):
        return round_up(sum((price * times for price, times in prices), Decimal(0)))


def pure_rho(epsilon: Fraction) -> Decimal:
    """Return ε·tanh(ε/2): an upper bound for every ε-differentially private mechanism, attained by randomized response.

    Theorem: pure-rho
    """
    with localcontext(_EIGHTY):
        loss = _decimal(epsilon)
        power = (-loss).exp()
        return round_up(loss * (1 - power) / (1 + power))


def pure_renyi(epsilon: Fraction, order: Fraction) -> Decimal:
    """Return the Rényi divergence of randomized response: ln[(e^{αε} + e^{(1-α)ε})/(1 + e^ε)]/(α - 1).

    Theorem: pure-rho
    """
    with localcontext(_EIGHTY):
        loss, alpha = _decimal(epsilon), _decimal(order)
        # Divided by e^{αε}, so that nothing overflows.
        inside = (1 + ((1 - 2 * alpha) * loss).exp()) / (1 + (-loss).exp())
        return round_up(loss + inside.ln() / (alpha - 1))


def laplace_rho(distance: int, scale: Fraction) -> Decimal:
    """Return [d - 2q(1 - q^d)/(1 - q²)]/t for discrete Laplace noise of scale t, q = e^(-1/t).

    Theorem: laplace-rho
    """
    with localcontext(_EIGHTY):
        width = _decimal(scale)
        ratio, power = (-1 / width).exp(), (-distance / width).exp()
        return round_up((distance - 2 * ratio * (1 - power) / (1 - ratio * ratio)) / width)


def laplace_renyi(distance: int, scale: Fraction, order: Fraction) -> Decimal:
    """Return the Rényi divergence between two discrete Laplace laws shifted by d.

    Theorem: laplace-rho
    """
    with localcontext(_EIGHTY):
        width, alpha = _decimal(scale), _decimal(order)
        ratio = (-1 / width).exp()
        fall = ((1 - 2 * alpha) / width).exp()
        # E_Q[(P/Q)^α] = high·q^{-(α-1)d} + low·q^{αd}; the first power is factored out of the logarithm.
        high = (1 - fall + (1 - ratio) * fall) / ((1 + ratio) * (1 - fall))
        low = (ratio - fall) / ((1 + ratio) * (1 - fall))
        inside = high + low * ((1 - 2 * alpha) * distance / width).exp()
        return round_up(distance / width + inside.ln() / (alpha - 1))


def range_rho(epsilon: Fraction) -> Decimal:
    """Return x - 1 - ln x, x = ε/(1 - e^-ε): the price of a mechanism whose losses have range at most ε (≤ ε²/8).

    Theorem: range-rho
    """
    with localcontext(_EIGHTY):
        loss = _decimal(epsilon)
        ratio = loss / (1 - (-loss).exp())
        return round_up(ratio - 1 - ratio.ln())


def range_renyi(epsilon: Fraction, order: Fraction) -> Decimal:
    """Return the largest Rényi divergence of a pair whose losses have range at most ε.

    Theorem: range-rho
    """
    with localcontext(_EIGHTY):
        loss, alpha = _decimal(epsilon), _decimal(order)
        low, lowest = (-loss).exp(), (-alpha * loss).exp()
        if low == 0:  # underflow: the range is so large that the pure price is as good
            return round_up(loss)
        # The worst pair has losses t and t - ε; y = e^t is the zero of the derivative, clamped to [1, e^ε].
        worst = (alpha - 1) * (1 - lowest) / (alpha * (low - lowest))
        worst = min(max(worst, Decimal(1)), 1 / low)
        inside = (1 - lowest - worst * (low - lowest)) / (1 - low)
        return round_up(worst.ln() + inside.ln() / (alpha - 1))


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


# --- Searches: each returns an end where the condition holds, so that the result is on the safe side. ---


_GOLDEN = (math.sqrt(5) - 1) / 2


def smallest_number(
    holds: Callable[[float], bool], low: float, high: float, *, near: float, geometric: bool = False
) -> float:
    """Return approximately the smallest number at which a monotone condition (false, then true) holds.

    The condition holds at the result, which was tested or is `high`, where it is assumed true. It fails just below,
    within a relative distance of `near` or its square. With positive ends of different orders of magnitude, set
    `geometric` to bisect their ratio.

    >>> root = smallest_number(lambda number: number**2 >= 2, 0, 2, near=1e-12)
    >>> root**2 >= 2, round(root, 9)
    (True, 1.414213562)
    """
    return _bisect(holds, low, high, near, geometric=geometric)[1]


def largest_number(
    holds: Callable[[float], bool], low: float, high: float, *, near: float, geometric: bool = False
) -> float:
    """Return approximately the largest number at which a monotone condition (true, then false) holds.

    The condition holds at the result, which was tested or is `low`, where it is assumed true. Otherwise as
    `smallest_number`.

    >>> root = largest_number(lambda number: number**2 <= 2, 0, 2, near=1e-12)
    >>> root**2 <= 2, round(root, 9)
    (True, 1.414213562)
    """
    return _bisect(lambda number: not holds(number), low, high, near, geometric=geometric)[0]


def minimize_unimodal(function: Callable[[float], float], low: float, high: float, *, near: float) -> float:
    """Return approximately the minimizer of a unimodal function, by golden section to an absolute distance `near`.

    The function was evaluated at the result, and was no larger there than at the last other points evaluated.

    >>> round(minimize_unimodal(lambda number: (number - 1) ** 2, 0, 3, near=1e-6), 5)
    1.0
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > near:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return left if at_left <= at_right else right


def _bisect(
    holds: Callable[[float], bool], low: float, high: float, near: float, *, geometric: bool
) -> tuple[float, float]:
    """Bisect to two nearby numbers: the last where the condition failed and the last where it held."""
    while high - low > near * (low if geometric else max(high, near)):
        middle = math.sqrt(low * high) if geometric else (low + high) / 2
        if not low < middle < high:  # no float is left between them
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
