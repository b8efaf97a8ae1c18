"""Filters: whether one more event fits a budget, decided from public facts alone.

Each is sound for parameters chosen from earlier answers and for interactive mechanisms that interleave, each of which
is charged once, in full, when it is opened. A decision costs the same however many events came before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

from dodona.accounting import units
from dodona.accounting.event import Event
from dodona.accounting.order import best_order, renyi_limit, zcdp_limit
from dodona.domain.neighbours import Neighbours
from dodona.errors import InvalidArgument


class Accountant(Enum):
    """The currency that a budget is counted in."""

    PURE = "pure"
    """Pure losses add up to ε; δ is not used."""
    ZCDP = "zcdp"
    """zCDP prices add up to the ρ that implies (ε, δ)."""
    RENYI = "renyi"
    """Rényi divergences at the budget's own order add up to what implies (ε, δ)."""
    EITHER = "either"
    """Admits what the pure or the Rényi account admits, both being charged with everything."""


@dataclass(frozen=True, slots=True)
class Spent:
    """A running total: the sum of pure losses, None once an event without one came, and of costs in units of 2^-64."""

    pure: Fraction | None = Fraction(0)
    units: int = 0
    events: int = 0
    neighbours: Neighbours | None = None
    """The relation of the events so far; another cannot be added to it."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Which part of the budget an event takes, by each account; None where that account cannot admit it any more."""

    pure: Fraction | None
    units: Fraction | None


@dataclass(frozen=True, slots=True)
class Filter:
    """A budget (ε, δ) in one currency, fixed before the first answer.

    Theorem: filters, disjunction
    """

    accountant: Accountant
    epsilon: Fraction
    delta: Fraction
    order: Fraction | None
    limit: int
    """What the costs may add up to, in units; 0 for the pure accountant."""

    def after(self, spent: Spent, event: Event, *, times: int = 1) -> Spent | None:
        """Return the total after the event, or None where it does not fit."""
        total = self.charged(spent, event, times=times)
        return total if self.admits(total) else None

    def charged(self, spent: Spent, event: Event, *, times: int = 1) -> Spent:
        """Return the total after the event, whether or not it fits."""
        if spent.neighbours is not None and spent.neighbours is not event.neighbours:
            accepted = (
                f"everything so far was priced under {spent.neighbours.value}, and prices of two relations do not add"
            )
            raise InvalidArgument("neighbours", event.neighbours.value, accepted)
        loss = event.epsilon
        pure = None if spent.pure is None or loss is None else spent.pure + times * loss
        return Spent(pure, spent.units + times * self.cost(event), spent.events + times, event.neighbours)

    def admits(self, spent: Spent) -> bool:
        """Return whether a total is within the budget."""
        within_pure = spent.pure is not None and spent.pure <= self.epsilon
        within_units = spent.units <= self.limit
        match self.accountant:
            case Accountant.PURE:
                return within_pure
            case Accountant.ZCDP | Accountant.RENYI:
                return within_units
            case Accountant.EITHER:
                return within_pure or within_units
            case _:
                assert_never(self.accountant)

    def cost(self, event: Event) -> int:
        """Return an event's cost in units, rounded up; 0 for the pure accountant, which counts fractions."""
        match self.accountant:
            case Accountant.PURE:
                return 0
            case Accountant.ZCDP:
                return _rho_cost(event)
            case Accountant.RENYI | Accountant.EITHER:
                return _renyi_cost(event, self.order or Fraction(0))
            case _:
                assert_never(self.accountant)

    def share(self, spent: Spent) -> Fraction:
        """Return which part of the budget a total takes; above 1 where it does not fit."""
        pure = Fraction(2) if spent.pure is None else spent.pure / self.epsilon
        match self.accountant:
            case Accountant.PURE:
                return pure
            case Accountant.ZCDP | Accountant.RENYI:
                return Fraction(spent.units, self.limit)
            case Accountant.EITHER:
                return min(pure, Fraction(spent.units, self.limit))
            case _:
                assert_never(self.accountant)

    def shares(self, spent: Spent, event: Event) -> Shares:
        """Return which part of each account an event takes: of two, the one that admits the whole decides."""
        pure = units = None
        counts_pure = self.accountant in {Accountant.PURE, Accountant.EITHER}
        if counts_pure and spent.pure is not None and spent.pure <= self.epsilon and event.epsilon is not None:
            pure = event.epsilon / self.epsilon
        if self.accountant is not Accountant.PURE and self.limit > 0 and spent.units <= self.limit:
            units = Fraction(self.cost(event), self.limit)
        return Shares(pure, units)

    def scaled(self, share: Fraction) -> Filter:
        """Return the filter of a part of this budget in the same currency: an analyst's share of it."""
        if not 0 < share <= 1:
            raise InvalidArgument("share", share, "write a part of the budget, above 0 and up to 1")
        return replace(self, epsilon=self.epsilon * share, limit=int(self.limit * share))


def budget_filter(accountant: Accountant, epsilon: Fraction, delta: Fraction) -> Filter:
    """Return the filter of a budget; its order and limit follow from (ε, δ) alone.

    >>> budget_filter(Accountant.RENYI, Fraction(1), Fraction(1, 10**6)).order
    Fraction(22, 1)

    Theorem: filters
    """
    if epsilon <= 0:
        raise InvalidArgument("epsilon", epsilon, "write a budget above 0")
    if accountant is Accountant.PURE:
        if delta != 0:
            raise InvalidArgument("delta", delta, "a pure budget has no delta: write 0, or choose another accountant")
        return Filter(accountant, epsilon, delta, None, 0)
    if not 0 < delta < 1:
        raise InvalidArgument("delta", delta, "write a number between 0 and 1, such as '1e-6', or count pure losses")
    if accountant is Accountant.ZCDP:
        return Filter(accountant, epsilon, delta, None, units.limit(zcdp_limit(epsilon, delta)))
    order = best_order(epsilon, delta)
    return Filter(accountant, epsilon, delta, order, units.limit(renyi_limit(epsilon, delta, order)))


@lru_cache(maxsize=1 << 16)
def _rho_cost(event: Event) -> int:
    return units.cost(event.rho())


@lru_cache(maxsize=1 << 16)
def _renyi_cost(event: Event, order: Fraction) -> int:
    return units.cost(event.renyi(order))
