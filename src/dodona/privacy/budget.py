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
    """A total privacy loss (ε, δ), and the accountant that counts it.

    >>> Budget(0.1, "1e-6").epsilon, Budget(0.1, "1e-6").accountant.value, Budget(1).accountant.value
    (Fraction(1, 10), 'renyi', 'pure')
    """

    epsilon: Fraction
    delta: Fraction
    accountant: Accountant

    def __init__(self, epsilon: Exact, delta: Exact = 0, accountant: Accountant | str | None = None) -> None:
        """Take exact numbers; refuse a budget that leaves its accountant nothing to count.

        Without an accountant it is pure where delta is 0, and renyi otherwise.
        """
        object.__setattr__(self, "epsilon", to_fraction(epsilon, argument="epsilon", lower=_SMALLEST, upper=_LARGEST))
        object.__setattr__(self, "delta", _delta(delta))
        chosen = default_accountant(self.delta) if accountant is None else _accountant(accountant)
        object.__setattr__(self, "accountant", chosen)
        self.filter()

    def filter(self) -> PrivacyFilter:
        """Return the filter that lets events pass within this budget."""
        return budget_filter(self.accountant, self.epsilon, self.delta)


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


def _delta(value: Exact) -> Fraction:
    delta = to_fraction(value, argument="delta", lower=Fraction(0), upper=Fraction(1))
    if delta == 1:
        raise InvalidArgument("delta", value, "write a number below 1, such as '1e-6': at 1 nothing is promised")
    return delta


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
        alone = f"asked alone: epsilon {self.epsilon:.3g}; add shares, not epsilons"
        return f"{format_percent(self.share)} of the budget ({alone})"


FREE = Price(Fraction(0), 0.0)
"""The price of an answer that was paid for before."""
