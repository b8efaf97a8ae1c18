"""The odometer: an ε that holds for what has been spent so far, whenever one looks.

A filter speaks of its own budget only. The odometer runs a ladder of budgets, from 2ε down, beside each other, each
with its share of δ, and shows the smallest that nothing has passed yet; pure losses, whose sum always holds, may show
less.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from dodona.accounting.event import Event
from dodona.accounting.filter import Accountant, Filter, Spent, budget_filter
from dodona.errors import InvalidArgument

_FINE = tuple(Fraction(part, 16) for part in (32, 24, 16, 14, 12, 10, 8, 6, 4, 3, 2))
_PARTS = (*_FINE, *(Fraction(1, 2**power) for power in range(4, 9)))  # few, as each takes its share of δ
_RUNGS = len(_PARTS)


def odometer(events: Mapping[Event, int], *, epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """Return an ε such that everything so far is (ε, δ)-differentially private, at any time one cares to look.

    The largest rung is twice the budget's ε; beyond it only the sum of pure losses is known, or None: each rung has a
    part of δ, so where δ is near ε the whole budget may pass all of them.

    Theorem: odometer
    """
    pure = Spent()
    passing: Fraction | None = None
    counted = Filter(Accountant.PURE, epsilon, Fraction(0), None, 0)
    for event, times in events.items():
        pure = counted.charged(pure, event, times=times)
    if pure.events == 0:
        return Fraction(0)
    first, after = 0, _RUNGS if delta > 0 else 0
    while first < after:  # any rung that admits the total is true; the smallest is found by halving
        middle = (first + after) // 2
        rung = _rung(epsilon * _PARTS[middle], delta / _RUNGS)
        if rung is not None and rung.admits(_total(rung, events)):
            passing, first = rung.epsilon, middle + 1
        else:
            after = middle
    found = [value for value in (passing, pure.pure) if value is not None]
    return min(found, default=None)


def _total(rung: Filter, events: Mapping[Event, int]) -> Spent:
    total = Spent()
    for event, times in events.items():
        total = rung.charged(total, event, times=times)
    return total


@lru_cache(maxsize=1 << 10)
def _rung(epsilon: Fraction, delta: Fraction) -> Filter | None:
    """Return a filter of the ladder; None where the ε is too small for its δ."""
    try:
        return budget_filter(Accountant.RENYI, epsilon, delta)
    except InvalidArgument:
        return None
