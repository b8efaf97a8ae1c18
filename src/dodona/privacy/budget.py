"""Budgets, analysts and prices: what the owner allows, what is left of it, and what an answer costs. Data only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from dodona.errors import InvalidArgument
from dodona.numbers import Exact, format_percent, to_fraction, to_share
from dodona.privacy.accountants import Accountant, PrivacyFilter, budget_filter
from dodona.privacy.conversion import standalone_epsilon
from dodona.privacy.events import Event

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
        """Validate the numbers; refuse a budget that leaves its accountant nothing to count.

        The default accountant is pure if delta is 0, and renyi otherwise.
        """
        object.__setattr__(self, "epsilon", to_fraction(epsilon, argument="epsilon", lower=_SMALLEST, upper=_LARGEST))
        object.__setattr__(self, "delta", _delta(delta))
        chosen = default_accountant(self.delta) if accountant is None else _accountant(accountant)
        object.__setattr__(self, "accountant", chosen)
        self.filter()

    def filter(self) -> PrivacyFilter:
        """Return the filter that admits events within this budget."""
        return budget_filter(self.accountant, self.epsilon, self.delta)


@dataclass(frozen=True, slots=True, init=False)
class Analyst:
    """A person who may ask questions, and the largest share of the budget that they may spend.

    >>> Analyst("ada", "1/2").share, Analyst("grace", "50%").share
    (Fraction(1, 2), Fraction(1, 2))
    """

    name: str
    share: Fraction

    def __init__(self, name: str, share: Exact = 1) -> None:
        """Validate a printable name and a share in (0, 1]; the shares of all analysts may add up to more than 1."""
        object.__setattr__(self, "name", _name(name))
        object.__setattr__(self, "share", _share(share))


def _share(value: Exact) -> Fraction:
    """Return the share given as a percentage or a number."""
    share = to_share(value, argument="share")
    return to_fraction(share, argument="share", lower=_SMALLEST, upper=Fraction(1))


def default_accountant(delta: Fraction) -> Accountant:
    """Return the default accountant: the one that counts ordinary questions most tightly."""
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


# --- What is left of a budget. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalystState:
    """What one analyst has spent, as a share of what they may spend."""

    name: str
    share: Fraction
    spent: Fraction
    left: Fraction
    stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """The budget, what has been spent and what is left, as shares of the budget."""

    total: Budget
    spent: Fraction
    left: Fraction
    epsilon_spent: float
    """Holds for all answers so far, at the budget's δ: the odometer, or the budget itself if that is smaller.

    These are two separate statements, each at δ; page odometer explains what holds for both together.
    """
    charges: int
    releases: int
    analysts: tuple[AnalystState, ...]
    closed: bool
    recovered: bool
    head: str
    """The hash of the last line: two readers with the same head see the same ledger."""

    def __str__(self) -> str:
        total = self.total
        ended = "".join(
            f" It is {word}." for word, so in (("closed", self.closed), ("recovered", self.recovered)) if so
        )
        return (
            f"Budget: epsilon {total.epsilon}, delta {float(total.delta):g}, {total.accountant.value}. "
            f"Spent: {format_percent(self.spent)} (epsilon so far, whenever you stop: {self.epsilon_spent:.3g}). "
            f"Left: {format_percent(self.left)}.{ended}"
        )

    def to_json(self) -> dict[str, object]:
        """Return the state as a JSON object: shares are exact fractions, written as texts."""
        return {
            "epsilon": str(self.total.epsilon),
            "delta": str(self.total.delta),
            "accountant": self.total.accountant.value,
            "spent": str(self.spent),
            "left": str(self.left),
            "epsilon_spent": self.epsilon_spent,
            "charges": self.charges,
            "releases": self.releases,
            "analysts": [
                {
                    "name": analyst.name,
                    "share": str(analyst.share),
                    "spent": str(analyst.spent),
                    "left": str(analyst.left),
                }
                | {"stopped": analyst.stopped}
                for analyst in self.analysts
            ],
            "closed": self.closed,
            "recovered": self.recovered,
            "head": self.head,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the state that `to_json` described."""
        return cls(
            total=Budget(document["epsilon"], document["delta"], document["accountant"]),
            spent=Fraction(document["spent"]),
            left=Fraction(document["left"]),
            epsilon_spent=float(document["epsilon_spent"]),
            charges=int(document["charges"]),
            releases=int(document["releases"]),
            analysts=tuple(
                AnalystState(
                    name=analyst["name"],
                    share=Fraction(analyst["share"]),
                    spent=Fraction(analyst["spent"]),
                    left=Fraction(analyst["left"]),
                    stopped=analyst["stopped"],
                )
                for analyst in document.get("analysts", ())
            ),
            closed=document["closed"],
            recovered=document["recovered"],
            head=document["head"],
        )


# --- A price: the share of the budget that an answer takes. ---


@dataclass(frozen=True, slots=True)
class Price:
    """A share of the budget, which is additive, and what it buys.

    >>> from dodona.privacy.events import LaplaceEvent
    >>> from dodona.schema.schema import Neighbours
    >>> print(Price(Fraction(1, 80), (LaplaceEvent(1, Fraction(4), Neighbours.REPLACE),)))
    1.25% of the budget (asked alone: epsilon 0.25; add shares, not epsilons)
    >>> print(FREE)
    free
    """

    share: Fraction
    events: tuple[Event, ...] = ()
    delta: Fraction = Fraction(0)
    """That of the budget."""
    stated: float = 0.0
    """The ε of what has no events here, as a price that was read from JSON."""

    @property
    def epsilon(self) -> float:
        """The ε of the question asked alone, rounded up: a label, which is computed when it is read."""
        alone = [standalone_epsilon(event, self.delta) for event in self.events]
        alone += [self.stated] if self.stated else []
        total = math.fsum(alone)
        return total if len(alone) < 2 else math.nextafter(total, math.inf)  # noqa: PLR2004  nothing was rounded

    def plus(self, other: Price) -> Price:
        """Return the price of both together, out of one budget."""
        stated = self.stated + other.stated
        return Price(self.share + other.share, self.events + other.events, max(self.delta, other.delta), stated)

    def to_document(self) -> dict[str, object]:
        """Return the price as JSON represents it: the share is an exact fraction, written as a text."""
        return {"share": str(self.share), "epsilon": self.epsilon}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the price that `to_document` described."""
        return cls(Fraction(document["share"]), stated=float(document["epsilon"]))

    def __str__(self) -> str:
        if self.share == 0:
            return "free"
        alone = f"asked alone: epsilon {self.epsilon:.3g}; add shares, not epsilons"
        return f"{format_percent(self.share)} of the budget ({alone})"


FREE = Price(Fraction(0))
"""The price of an answer that has already been paid for."""
