"""The odometer: an ε that holds for what has been spent so far, whenever one looks.

A filter speaks of its own budget only. The odometer runs a ladder of budgets ε·2^(-i/2) beside each other, each with
its share of δ, and shows the smallest that nothing has passed yet; pure losses, whose sum always holds, may show less.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dodona.accounting.event import Event
from dodona.accounting.filter import Accountant, Filter, Spent, budget_filter
from dodona.errors import InvalidArgument

_RUNGS = 24


def odometer(events: Mapping[Event, int], *, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return an ε such that everything so far is (ε, δ)-differentially private, at any time one cares to look.

    The largest rung is twice the budget's ε; beyond it only the sum of pure losses is known, or nothing.

    Theorem: odometer
    """
    pure = Spent()
    passing: Fraction | None = None
    counted = Filter(Accountant.PURE, epsilon, Fraction(0), None, 0)
    for event, times in events.items():
        pure = counted.charged(pure, event, times=times)
    if pure.events == 0:
        return Fraction(0)
    for rung in _ladder(epsilon, delta):
        total = Spent()
        for event, times in events.items():
            total = rung.charged(total, event, times=times)
        if rung.admits(total):
            passing = rung.epsilon
        else:
            break
    found = [value for value in (passing, pure.pure) if value is not None]
    if not found:
        raise InvalidArgument("events", pure.events, "more was spent than twice the budget, so no ε is known")
    return min(found)


def _ladder(epsilon: Fraction, delta: Fraction) -> list[Filter]:
    """Return the rungs from the largest ε down; those too small for their δ are left out."""
    if delta == 0:
        return []
    rungs = []
    root = Fraction(14142, 10000)
    for index in range(_RUNGS):
        part = 2 * epsilon / (2 ** (index // 2)) / (root if index % 2 else 1)
        try:
            rungs.append(budget_filter(Accountant.RENYI, part, delta / _RUNGS))
        except InvalidArgument:
            break
    return rungs
