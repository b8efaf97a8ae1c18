"""What the owner allows and what an answer costs: budgets, analysts and prices. Data only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, format_percent, to_fraction, to_share
from dodona.privacy.accountants import Accountant, PrivacyFilter, budget_filter

# --- What the owner allows: a budget, and the analysts who share it. Data only. ---


_SMALLEST = Fraction(1, 10**12)
_LARGEST = Fraction(10**4)
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """A total privacy loss (ε, δ), the currency it is counted in, and the part of it that is kept for declared plans.

    >>> Budget(0.1, "1e-6").epsilon, Budget(0.1, "1e-6").accountant.value, Budget(1).accountant.value
    (Fraction(1, 10), 'renyi', 'pure')
    """

    epsilon: Fraction
    delta: Fraction
    accountant: Accountant
    plans: tuple[Fraction, Fraction]
    """(ε, δ) set aside at creation; by basic composition the filter gets the rest."""

    def __init__(
        self,
        epsilon: Exact,
        delta: Exact = 0,
        accountant: Accountant | str | None = None,
        plans: tuple[Exact, Exact] = (0, 0),
    ) -> None:
        """Take exact numbers; refuse a budget that leaves its accountant nothing to count.

        Without an accountant it is pure where delta is 0, and renyi otherwise.
        """
        object.__setattr__(self, "epsilon", to_fraction(epsilon, argument="epsilon", lower=_SMALLEST, upper=_LARGEST))
        object.__setattr__(self, "delta", _delta(delta, argument="delta"))
        chosen = default_accountant(self.delta) if accountant is None else _accountant(accountant)
        object.__setattr__(self, "accountant", chosen)
        kept = _plans(plans)
        object.__setattr__(self, "plans", kept)
        if kept[0] >= self.epsilon or kept[1] > self.delta:
            raise InvalidArgument("plans", plans, "write a part of the budget, and leave some of it for questions")
        self.filter()

    def filter(self) -> PrivacyFilter:
        """Return the filter of what is left beside the plans.

        >>> Budget(1, 0, "pure", plans=("1/4", 0)).filter().epsilon
        Fraction(3, 4)
        """
        return budget_filter(self.accountant, self.epsilon - self.plans[0], self.delta - self.plans[1])


@dataclass(frozen=True, slots=True, init=False)
class Analyst:
    """Someone who may ask, and the part of the budget that they may spend at most.

    >>> Analyst("ada", "1/2").share, Analyst("grace", "50%").share
    (Fraction(1, 2), Fraction(1, 2))
    """

    name: str
    share: Fraction

    def __init__(self, name: str, share: Exact = 1) -> None:
        """Take a printable name and a share above 0, up to 1; the shares of all analysts may add up to more."""
        object.__setattr__(self, "name", _name(name))
        object.__setattr__(self, "share", _share(share))


def _share(value: Exact) -> Fraction:
    """Return the part that a percentage or a number means."""
    found = to_share(value, argument="share")
    return to_fraction(found, argument="share", lower=_SMALLEST, upper=Fraction(1))


def default_accountant(delta: Fraction) -> Accountant:
    """Return the accountant of a budget that names none: the one that counts ordinary questions most tightly."""
    return Accountant.PURE if delta == 0 else Accountant.RENYI


def _delta(value: Exact, *, argument: str) -> Fraction:
    delta = to_fraction(value, argument=argument, lower=Fraction(0), upper=Fraction(1))
    if delta == 1:
        raise InvalidArgument(argument, value, "write a number below 1, such as '1e-6': at 1 nothing is promised")
    return delta


def _plans(value: tuple[Exact, Exact]) -> tuple[Fraction, Fraction]:
    match value:
        case tuple((epsilon, delta)):
            kept = to_fraction(epsilon, argument="plans", lower=Fraction(0), upper=_LARGEST)
            return kept, _delta(delta, argument="plans")
        case _:
            raise InvalidArgument("plans", value, "write a pair (epsilon, delta)")


def _accountant(value: Accountant | str) -> Accountant:
    try:
        return Accountant(value)
    except ValueError as fault:
        names = ", ".join(accountant.value for accountant in Accountant)
        raise InvalidArgument("accountant", value, f"write one of {names}") from fault


def _name(value: str) -> str:
    if type(value) is not str or not value.isprintable() or not 0 < len(value.strip()) <= len(value) <= _LONGEST_NAME:
        raise InvalidArgument("name", value, f"write a printable name of 1 to {_LONGEST_NAME} characters")
    return value


# --- A price: what an answer takes of the budget. ---


@dataclass(frozen=True, slots=True)
class Price:
    """The share of the budget, which adds up; and the ε of the same question asked alone, which is only a label.

    >>> print(Price(Fraction(1, 80), 0.25))
    1.25% of the budget (asked alone: epsilon 0.25; add shares, not epsilons)
    >>> print(FREE)
    free
    """

    share: Fraction
    epsilon: float
    """Rounded up."""

    def plus(self, other: Price) -> Price:
        """Return both together.

        >>> print(Price(Fraction(1, 80), 0.25).plus(FREE))
        1.25% of the budget (asked alone: epsilon 0.25; add shares, not epsilons)
        """
        return Price(self.share + other.share, math.nextafter(self.epsilon + other.epsilon, math.inf))

    def __str__(self) -> str:
        if self.share == 0:
            return "free"
        return f"{format_percent(self.share)} of the budget (asked alone: epsilon {self.epsilon:.3g}; add shares, not epsilons)"


FREE = Price(Fraction(0), 0.0)
"""The price of an answer that was paid for before."""
