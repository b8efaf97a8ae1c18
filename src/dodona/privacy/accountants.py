"""Privacy filters and the odometer: whether one more event fits a budget, and what was spent so far.

A filter is sound for adaptively chosen events and interleaved mechanisms, and decides from public facts alone. The
odometer gives an ε that is valid whenever it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, lru_cache
from typing import assert_never

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.privacy.conversion import best_order, order_epsilon, renyi_epsilon, renyi_limit, zcdp_limit
from dodona.privacy.events import Event
from dodona.privacy.gaussian_privacy import gaussian_limit
from dodona.schema.schema import Neighbours

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


# --- Filters: whether one more event fits a budget, decided from public facts alone. ---


class Accountant(Enum):
    """The currency that a budget is counted in."""

    PURE = "pure"
    """Pure losses add up to ε; δ is not used."""
    ZCDP = "zcdp"
    """zCDP prices add up to the ρ that implies (ε, δ)."""
    RENYI = "renyi"
    """Rényi divergences at the budget's order add up to a limit that implies (ε, δ)."""
    GAUSSIAN = "gaussian"
    """Squared Gaussian prices add up to the μ² that implies (ε, δ). Discrete Gaussian noise has no such price."""
    EITHER = "either"
    """Admits what either the pure or the Rényi account admits; both are charged for everything."""


class NoGaussianPrice(InvalidRequest):
    """An event cannot be counted in a budget under the accountant "gaussian"."""

    code = "no-gaussian-price"

    def __init__(self) -> None:
        """Say which noise has a price."""
        super().__init__(
            'Discrete Gaussian noise has no Gaussian price, so accountant "gaussian" cannot count it. Use rounded '
            "normal noise (RoundedGaussian). Nothing was charged."
        )


@dataclass(frozen=True, slots=True)
class Spending:
    """A running total: the sum of pure losses (None once an event has none) and the sum of costs in units of 2^-64."""

    pure: Fraction | None = Fraction(0)
    units: int = 0
    events: int = 0
    neighbours: Neighbours | None = None
    """The neighbour relation of the events so far; events under another relation cannot be added."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of the budget that an event takes in each account; None if that account can no longer admit it."""

    pure: Fraction | None
    units: Fraction | None


PriceFunction = Callable[[Event], float]
"""What an event takes of one account of a budget; infinite where it cannot be paid there."""


def price_functions(shares: Callable[[Event], Shares], *events: Event) -> tuple[PriceFunction, PriceFunction]:
    """Return the prices in pure loss and in units, which remember each event; those given are priced at once."""
    known = cache(shares)

    @cache
    def pure(event: Event) -> float:
        return math.inf if (share := known(event).pure) is None else float(share)

    @cache
    def units(event: Event) -> float:
        return math.inf if (share := known(event).units) is None else float(share)

    for event in events:
        pure(event), units(event)
    return pure, units


@dataclass(frozen=True, slots=True)
class PrivacyFilter:
    """A budget (ε, δ) in one currency, fixed before the first answer.

    Theorem: filters, disjunction
    """

    accountant: Accountant
    epsilon: Fraction
    delta: Fraction
    order: Fraction | None
    limit: int
    """The limit on the sum of costs, in units; 0 for the pure accountant."""

    def after(self, spent: Spending, event: Event, *, times: int = 1) -> Spending | None:
        """Return the total after the event, or None if it does not fit."""
        total = self.charged(spent, event, times=times)
        return total if self.admits(total) else None

    def charged(self, spent: Spending, event: Event, *, times: int = 1) -> Spending:
        """Return the total after the event, whether or not it fits."""
        if spent.neighbours is not None and spent.neighbours is not event.neighbours:
            before = f"everything so far was priced under {spent.neighbours.value}"
            accepted = f"{before}, and prices of two relations do not add"
            raise InvalidArgument("neighbours", event.neighbours.value, accepted)
        loss = event.epsilon
        pure = None if spent.pure is None or loss is None else spent.pure + times * loss
        return Spending(pure, spent.units + times * self.cost(event), spent.events + times, event.neighbours)

    def admits(self, spent: Spending) -> bool:
        """Return whether a total is within the budget."""
        within_pure = spent.pure is not None and spent.pure <= self.epsilon
        within_units = spent.units <= self.limit
        match self.accountant:
            case Accountant.PURE:
                return within_pure
            case Accountant.ZCDP | Accountant.RENYI | Accountant.GAUSSIAN:
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
            case Accountant.GAUSSIAN:
                return _mu_cost(event)
            case Accountant.RENYI | Accountant.EITHER:
                return _renyi_cost(event, self.order or Fraction(0))
            case _:
                assert_never(self.accountant)

    def share(self, spent: Spending) -> Fraction:
        """Return the share of the budget that a total takes; above 1 if it does not fit."""
        pure = Fraction(2) if spent.pure is None else spent.pure / self.epsilon
        match self.accountant:
            case Accountant.PURE:
                return pure
            case Accountant.ZCDP | Accountant.RENYI | Accountant.GAUSSIAN:
                return Fraction(spent.units, self.limit)
            case Accountant.EITHER:
                return min(pure, Fraction(spent.units, self.limit))
            case _:
                assert_never(self.accountant)

    def shares(self, spent: Spending, event: Event) -> Shares:
        """Return the share of each account that an event takes; with two, the one that admits the whole decides."""
        pure = units = None
        counts_pure = self.accountant in {Accountant.PURE, Accountant.EITHER}
        if counts_pure and spent.pure is not None and spent.pure <= self.epsilon and event.epsilon is not None:
            pure = event.epsilon / self.epsilon
        if self.accountant is not Accountant.PURE and self.limit > 0 and spent.units <= self.limit:
            units = Fraction(self.cost(event), self.limit)
        return Shares(pure, units)

    def least_share(self, spent: Spending, event: Event) -> Fraction:
        """Return the smaller of the two shares; if no account counts any more, the share of an untouched budget."""
        shares = self.shares(spent, event)
        counted = [share for share in (shares.pure, shares.units) if share is not None]
        return min(counted) if counted else self.share(self.charged(Spending(), event))

    def scaled(self, share: Fraction) -> PrivacyFilter:
        """Return the filter for a share of this budget in the same currency, such as an analyst's share."""
        if not 0 < share <= 1:
            raise InvalidArgument("share", share, "write a part of the budget, above 0 and up to 1")
        return replace(self, epsilon=self.epsilon * share, limit=int(self.limit * share))


def budget_filter(accountant: Accountant, epsilon: Fraction, delta: Fraction) -> PrivacyFilter:
    """Return the filter of a budget; its order and limit depend only on (ε, δ).

    >>> budget_filter(Accountant.RENYI, Fraction(1), Fraction(1, 10**6)).order
    Fraction(22, 1)

    Theorem: filters
    """
    if epsilon <= 0:
        raise InvalidArgument("epsilon", epsilon, "write a budget above 0")
    pure = accountant is Accountant.PURE
    if pure and delta != 0:
        raise InvalidArgument("delta", delta, "a pure budget has no delta: write 0, or choose another accountant")
    if not pure and not 0 < delta < 1:
        raise InvalidArgument("delta", delta, "write a number between 0 and 1, such as '1e-6', or count pure losses")
    order = best_order(epsilon, delta) if accountant in {Accountant.RENYI, Accountant.EITHER} else None
    return PrivacyFilter(accountant, epsilon, delta, order, budget_limit(accountant, epsilon, delta, order))


def budget_limit(accountant: Accountant, epsilon: Fraction, delta: Fraction, order: Fraction | None) -> int:
    """Return the limit on the sum of costs, in units, that implies (ε, δ); 0 for the pure accountant."""
    match accountant:
        case Accountant.PURE:
            return 0
        case Accountant.ZCDP:
            return limit_in_units(zcdp_limit(epsilon, delta))
        case Accountant.GAUSSIAN:
            return limit_in_units(gaussian_limit(epsilon, delta))
        case Accountant.RENYI | Accountant.EITHER:
            if order is None:
                raise InvalidArgument("order", order, "this accountant counts at an order")
            return limit_in_units(renyi_limit(epsilon, delta, order))
        case _:
            assert_never(accountant)


@lru_cache(maxsize=1 << 16)
def _rho_cost(event: Event) -> int:
    return cost_in_units(event.rho())


@lru_cache(maxsize=1 << 16)
def _mu_cost(event: Event) -> int:
    price = event.mu_squared()
    if price is None:
        raise NoGaussianPrice
    return cost_in_units(price)


@lru_cache(maxsize=1 << 16)
def _renyi_cost(event: Event, order: Fraction) -> int:
    return cost_in_units(event.renyi(order))


# --- The odometer: an ε that is valid for everything spent so far, whenever it is read. ---


# A factor of two between orders costs a few percent of the reading; the highest suits readings down to a thousandth.
_ORDERS = tuple(1 + 2**power for power in range(16))
_FIRST = Fraction(3, 4)  # share of δ for the reading of a single event; the orders share the rest
_EACH = (1 - _FIRST) / len(_ORDERS)
_PURE = PrivacyFilter(Accountant.PURE, Fraction(1), Fraction(0), None, 0)


def odometer(events: Mapping[Event, int], *, delta: Fraction) -> Fraction | None:
    """Return an ε such that all events so far are (ε, δ)-differentially private, whenever it is read.

    Returns None if nothing can be said: at δ = 0 with an event that has no pure loss.

    Theorem: odometer
    """
    spent = Spending()
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
    """Return the sum of Rényi prices at each order; an event costs at most order·ρ and at most its pure loss."""
    slope, sums = 0, [0] * len(_ORDERS)
    for event, times in events.items():
        rho, pure = _prices(event)
        if pure is None:
            slope += times * rho
        else:
            sums = [total + times * min(order * rho, pure) for order, total in zip(_ORDERS, sums, strict=True)]
    return [Fraction(order * slope + total, ONE_IN_UNITS) for order, total in zip(_ORDERS, sums, strict=True)]


@lru_cache(maxsize=1 << 16)
def _prices(event: Event) -> tuple[int, int | None]:
    """Return ρ and the pure loss in units, rounded up."""
    pure = event.epsilon
    return cost_in_units(event.rho()), None if pure is None else math.ceil(pure * ONE_IN_UNITS)


@lru_cache(maxsize=1 << 10)
def _reading(order: int, total: Fraction, delta: Fraction) -> Fraction:
    """Return the ε that one order proves; cached, as a budget is read more often than it is charged."""
    return Fraction(order_epsilon(total, order=Fraction(order), delta=delta * _EACH))


@lru_cache(maxsize=1 << 10)
def _first(event: Event, delta: Fraction) -> Fraction:
    """Return the ε of a single event at its best order."""
    return Fraction(renyi_epsilon(event.renyi, delta=delta))
