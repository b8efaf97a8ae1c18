"""A request: how accurate an answer is to be, or what it may cost; and what holds where a call does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dodona.accounting.filter import Spent
from dodona.accuracy import failure
from dodona.answer.tolerance import PerColumn, Tolerance, Tolerances
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument, InvalidRequest, Refused
from dodona.exact import Exact, python_number, share_of
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.scale import epsilon_of
from dodona.online.scales import widest
from dodona.policy import Budget
from dodona.query.people import count_effect

_ACCEPTED = "write a tolerance such as 50 or '1%', or one for each column, such as {'n': 50, 'average': 2}"


USUAL_MAX_PRICE = Fraction(1, 50)
"""What one call may take of the budget where neither the call nor the dataset says."""

_ORDINARY = Fraction(1, 500)  # of the budget: what a count takes at the usual tolerance
_ROUND = tuple(Fraction(digit) * Fraction(10) ** power for power in range(-4, 2) for digit in (1, 2, 3, 5))
"""Tolerances in percent, the most accurate first; wider than half of all rows says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One of a tolerance and a price, how sure an interval is to be, and what the call may take of the budget."""

    within: Tolerance | PerColumn | None
    epsilon: Fraction | None
    confidence: float
    max_price: Fraction = Fraction(1)
    """A share of the whole budget."""
    fresh: bool = False
    """Whether nothing that was told before may be used: neither told again nor combined with new noise."""


def requested(  # noqa: PLR0913  all that a call may say
    within: Tolerances | None,
    epsilon: Exact | None,
    confidence: float | None,
    max_price: Exact | None,
    *,
    fresh: bool = False,
    default: Request,
) -> Request:
    """Return what is asked for; the dataset's default where nothing is said."""
    if within is not None and epsilon is not None:
        raise InvalidRequest(
            "Both within and epsilon were given. Write within= for an accuracy, or epsilon= for a price, and not both."
        )
    wanted = None if within is None else _tolerances(within)
    sure = default.confidence if confidence is None else confidence
    failure(sure)
    most = agreed(max_price, default)
    if epsilon is not None:
        return Request(within=None, epsilon=epsilon_of(epsilon), confidence=sure, max_price=most, fresh=fresh)
    return Request(
        within=default.within if wanted is None else wanted, epsilon=None, confidence=sure, max_price=most, fresh=fresh
    )


def _tolerances(within: Tolerances) -> Tolerance | PerColumn:
    """Return a tolerance, or one for each column."""
    if isinstance(within, Mapping):
        found = PerColumn(tuple((str(name), _tolerance(own)) for name, own in within.items()))
    elif isinstance(within, list | tuple):
        found = PerColumn(tuple((place, _tolerance(own)) for place, own in enumerate(within)))
    else:
        return _tolerance(within)
    if not found.parts:
        raise InvalidArgument("within", within, _ACCEPTED)
    return found


def _tolerance(within: object) -> Tolerance:
    found = within if isinstance(within, str) else python_number(within)
    if found is None:
        raise InvalidArgument("within", within, _ACCEPTED)
    return found


@lru_cache(maxsize=64)
def usual_tolerance(unit: Unit, budget: Budget, confidence: float = 0.95) -> str:
    """Return the tolerance of questions that do not say one, from public facts alone.

    It is the smallest round percentage at which one count takes at most a five-hundredth of the budget; for small
    tables 50%, which may take more.
    """
    first, after = 0, len(_ROUND) - 1
    while first < after:
        middle = (first + after) // 2
        ordinary = count_share(unit, budget, float(_ROUND[middle] / 100 * unit.size), confidence) <= _ORDINARY
        first, after = (first, middle) if ordinary else (middle + 1, after)
    return f"{float(_ROUND[first]):g}%"


def count_share(unit: Unit, budget: Budget, room: float, confidence: float) -> Fraction:
    """Return which part of a budget one count takes that may be off by some rows; above 1 where it cannot be told."""
    moved, whole = count_effect(unit), budget.filter()
    found = [Fraction(2)]
    for law in (Gaussian, Laplace) if budget.delta > 0 else (Laplace,):
        try:
            event = widest(law, room, confidence).event(moved)
        except Refused:  # no noise is that small
            continue
        found.append(whole.share(whole.charged(Spent(), event)))
    return min(found)


def agreed(max_price: Exact | None, default: Request) -> Fraction:
    """Return the most that a call may take of the budget: what it says, else what the dataset says."""
    return default.max_price if max_price is None else share_of(max_price, argument="max_price")
