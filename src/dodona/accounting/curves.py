"""Privacy curves in decimal arithmetic, each value rounded up: what a mechanism of a kind costs in each currency.

`rho` is the zCDP price, the supremum of D_order/order over all orders > 1; `renyi` is the Rényi divergence
D_order. Both are of the worst pair of neighbours, in the worse direction. Nothing depends on the
caller's decimal context.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction

# Eighty digits: cancellation takes at most fifty-one of them in the ranges that events accept (page rounding).
_EIGHTY = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SHOWN = Context(prec=34, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MARGIN = 1 + Decimal(1).scaleb(-25)


def rounded_up(value: Decimal) -> Decimal:
    """Return a number that is not below the one that `value` stands for after up to a hundred steps with eighty digits.

    Theorem: rounding
    """
    return _SHOWN.multiply(value, _MARGIN)


def share(price: Fraction) -> Decimal:
    """Return an exact price as a decimal, rounded up.

    Theorem: rounding
    """
    with localcontext(_EIGHTY):
        return rounded_up(_decimal(price))


def total(prices: Iterable[tuple[Decimal, int]]) -> Decimal:
    """Return the sum of prices, each so many times, rounded up.

    Theorem: rounding
    """
    with localcontext(_EIGHTY):
        return rounded_up(sum((price * times for price, times in prices), Decimal(0)))


def pure_rho(epsilon: Fraction) -> Decimal:
    """Return ε·tanh(ε/2), which no ε-differentially private mechanism exceeds and randomized response attains.

    Theorem: pure-rho
    """
    with localcontext(_EIGHTY):
        loss = _decimal(epsilon)
        power = (-loss).exp()
        return rounded_up(loss * (1 - power) / (1 + power))


def pure_renyi(epsilon: Fraction, order: Fraction) -> Decimal:
    """Return the Rényi divergence of randomized response: ln[(e^{αε} + e^{(1-α)ε})/(1 + e^ε)]/(α - 1).

    Theorem: pure-rho
    """
    with localcontext(_EIGHTY):
        loss, alpha = _decimal(epsilon), _decimal(order)
        # Divided through by e^{αε}, so that nothing grows.
        inside = (1 + ((1 - 2 * alpha) * loss).exp()) / (1 + (-loss).exp())
        return rounded_up(loss + inside.ln() / (alpha - 1))


def laplace_rho(distance: int, scale: Fraction) -> Decimal:
    """Return [d - 2q(1 - q^d)/(1 - q²)]/t for discrete Laplace noise of scale t, q = e^(-1/t).

    Theorem: laplace-rho
    """
    with localcontext(_EIGHTY):
        width = _decimal(scale)
        ratio, power = (-1 / width).exp(), (-distance / width).exp()
        return rounded_up((distance - 2 * ratio * (1 - power) / (1 - ratio * ratio)) / width)


def laplace_renyi(distance: int, scale: Fraction, order: Fraction) -> Decimal:
    """Return the Rényi divergence between discrete Laplace laws a distance d apart.

    Theorem: laplace-rho
    """
    with localcontext(_EIGHTY):
        width, alpha = _decimal(scale), _decimal(order)
        ratio = (-1 / width).exp()
        fall = ((1 - 2 * alpha) / width).exp()
        # E_Q[(P/Q)^α] = high·q^{-(α-1)d} + low·q^{αd}; the first power is taken out of the logarithm.
        high = (1 - fall + (1 - ratio) * fall) / ((1 + ratio) * (1 - fall))
        low = (ratio - fall) / ((1 + ratio) * (1 - fall))
        inside = high + low * ((1 - 2 * alpha) * distance / width).exp()
        return rounded_up(distance / width + inside.ln() / (alpha - 1))


def range_rho(epsilon: Fraction) -> Decimal:
    """Return x - 1 - ln x, x = ε/(1 - e^-ε): the price of a mechanism whose losses span at most ε (≤ ε²/8).

    Theorem: range-rho
    """
    with localcontext(_EIGHTY):
        loss = _decimal(epsilon)
        ratio = loss / (1 - (-loss).exp())
        return rounded_up(ratio - 1 - ratio.ln())


def range_renyi(epsilon: Fraction, order: Fraction) -> Decimal:
    """Return the largest Rényi divergence of a pair whose losses span at most ε.

    Theorem: range-rho
    """
    with localcontext(_EIGHTY):
        loss, alpha = _decimal(epsilon), _decimal(order)
        low, lowest = (-loss).exp(), (-alpha * loss).exp()
        if low == 0:  # below the smallest decimal: losses span so much that the pure price is as good
            return rounded_up(loss)
        # The worst pair has losses t and t - ε; y = e^t is where the derivative vanishes, from 1 to e^ε.
        worst = (alpha - 1) * (1 - lowest) / (alpha * (low - lowest))
        worst = min(max(worst, Decimal(1)), 1 / low)
        inside = (1 - lowest - worst * (low - lowest)) / (1 - low)
        return rounded_up(worst.ln() + inside.ln() / (alpha - 1))


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
