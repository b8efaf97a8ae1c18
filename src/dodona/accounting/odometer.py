"""The odometer: an ε that holds for what has been spent so far, whenever one looks.

A filter speaks of its own budget only. The odometer adds up Rényi prices at a few orders that are fixed for ever, each
with its part of δ, and shows the smallest ε that one of them proves. What is asked first is chosen before anything was
seen, so as long as nothing follows it is converted at its best order. The sum of pure losses always holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from dodona.accounting import units
from dodona.accounting.conversion import order_epsilon, renyi_epsilon
from dodona.accounting.event import Event
from dodona.accounting.filter import Accountant, Filter, Spent

# A factor of two between orders costs a few percent of the reading; the highest serves readings down to a thousandth.
_ORDERS = tuple(1 + 2**power for power in range(16))
_FIRST = Fraction(3, 4)  # of δ, for a reading after one event; the orders share the rest
_EACH = (1 - _FIRST) / len(_ORDERS)
_PURE = Filter(Accountant.PURE, Fraction(1), Fraction(0), None, 0)


def odometer(events: Mapping[Event, int], *, delta: Fraction) -> Fraction | None:
    """Return an ε such that everything so far is (ε, δ)-differentially private, at any time one cares to look.

    None where nothing is known: at δ = 0 with an event that has no pure loss.

    Theorem: odometer
    """
    spent = Spent()
    for event, times in events.items():
        spent = _PURE.charged(spent, event, times=times)
    if spent.events == 0:
        return Fraction(0)
    readings = [] if spent.pure is None else [spent.pure]
    if delta > 0:
        if spent.events == 1:
            readings += [_first(event, delta * _FIRST) for event, times in events.items() if times]
        totals = zip(_ORDERS, _totals(events), strict=True)
        readings += [_reading(order, total, delta) for order, total in totals]
    return min(readings, default=None)


def _totals(events: Mapping[Event, int]) -> list[Fraction]:
    """Return the sum of Rényi prices at each order; of an event, at most order·ρ and at most its pure loss."""
    slope, sums = 0, [0] * len(_ORDERS)
    for event, times in events.items():
        rho, pure = _prices(event)
        if pure is None:
            slope += times * rho
        else:
            sums = [total + times * min(order * rho, pure) for order, total in zip(_ORDERS, sums, strict=True)]
    return [Fraction(order * slope + total, units.ONE) for order, total in zip(_ORDERS, sums, strict=True)]


@lru_cache(maxsize=1 << 16)
def _prices(event: Event) -> tuple[int, int | None]:
    """Return ρ and the pure loss in units, rounded up."""
    pure = event.epsilon
    return units.cost(event.rho()), None if pure is None else -(-pure.numerator * units.ONE // pure.denominator)


@lru_cache(maxsize=1 << 10)
def _reading(order: int, total: Fraction, delta: Fraction) -> Fraction:
    """Return the ε that one order proves; a budget is looked at more often than it is charged."""
    return Fraction(order_epsilon(total, order=Fraction(order), delta=delta * _EACH))


@lru_cache(maxsize=1 << 10)
def _first(event: Event, delta: Fraction) -> Fraction:
    """Return the ε of a single event at its best order."""
    return Fraction(renyi_epsilon(event.renyi, delta=delta))
