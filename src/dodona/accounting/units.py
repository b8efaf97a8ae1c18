"""Costs as integers: a unit is 2^-64, costs are rounded up and limits down, so sums are exact and never too low."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_WIDE = Context(prec=120, Emin=MIN_EMIN, Emax=MAX_EMAX)
ONE = 1 << 64
"""A price of 1, in units."""
_UNITS = Decimal(ONE)


def cost(price: Decimal) -> int:
    """Return a price in units, rounded up.

    >>> cost(Decimal("0.5")) == 1 << 63
    True

    Theorem: rounding
    """
    return int(_WIDE.multiply(price, _UNITS).to_integral_value(ROUND_CEILING, _WIDE))


def limit(price: Decimal) -> int:
    """Return a limit in units, rounded down.

    Theorem: rounding
    """
    return int(_WIDE.multiply(price, _UNITS).to_integral_value(ROUND_FLOOR, _WIDE))
