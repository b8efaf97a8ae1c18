"""What is left, as of one line of the ledger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dodona.accounting.bounds import Pair
from dodona.accounting.odometer import odometer
from dodona.exact import percent
from dodona.ledger.account import Account, share_left
from dodona.ledger.pot import NOTHING, OpenedPlan
from dodona.policy import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalystState:
    """What one analyst has spent, as a share of what they may."""

    name: str
    share: Fraction
    spent: Fraction
    left: Fraction
    plans: Pair
    """What their plans took off the pot."""
    stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PotState:
    """What was set aside for plans, what was taken off it, and the plans of which something is left."""

    total: Pair
    taken: Pair
    left: Pair
    plans: tuple[OpenedPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """The whole, what was spent of it and what is left, as shares of what questions may spend."""

    total: Budget
    spent: Fraction
    left: Fraction
    epsilon_spent: float
    """Holds for all answers so far, at the budget's δ: the odometer, or the budget itself where that says less.

    These are two statements, each at δ; page odometer says what may be said of both together. The part that is kept
    for plans is not in it.
    """
    charges: int
    """All receipts, those that were served from plans among them."""
    releases: int
    pot: PotState
    analysts: tuple[AnalystState, ...]
    closed: bool
    recovered: bool
    head: str
    """The hash of the last line: two who see the same head see the same ledger."""

    def __str__(self) -> str:
        total = self.total
        ended = "".join(
            f" It is {word}." for word, so in (("closed", self.closed), ("recovered", self.recovered)) if so
        )
        return (
            f"Budget: epsilon {total.epsilon}, delta {float(total.delta):g}, {total.accountant.value}. "
            f"Spent: {percent(self.spent)} (epsilon so far, whenever you stop: {self.epsilon_spent:.3g}). "
            f"Left: {percent(self.left)}.{ended}"
        )


def state_of(account: Account, *, charges: int, releases: int, closed: bool, head: str) -> BudgetState:
    """Return the state of an account at a head."""
    pot = account.pot
    return BudgetState(
        total=account.budget,
        spent=1 - share_left(account.filter, account.spent),
        left=share_left(account.filter, account.spent),
        epsilon_spent=_epsilon_spent(account),
        charges=charges,
        releases=releases,
        pot=PotState(total=pot.total, taken=pot.taken, left=pot.left, plans=pot.open_plans()),
        analysts=tuple(
            AnalystState(
                name=name,
                share=purse.analyst.share,
                spent=1 - share_left(purse.filter, purse.spent),
                left=share_left(purse.filter, purse.spent),
                plans=pot.by_analyst.get(name, NOTHING),
                stopped=purse.stopped,
            )
            for name, purse in sorted(account.purses.items())
        ),
        closed=closed,
        recovered=account.recovered,
        head=head,
    )


def _epsilon_spent(account: Account) -> float:
    whole = account.filter
    if account.recovered:
        return _rounded_up(whole.epsilon)
    reading = odometer(account.events, delta=whole.delta)
    return _rounded_up(whole.epsilon if reading is None else min(whole.epsilon, reading))


def _rounded_up(number: Fraction) -> float:
    near = float(number)
    return near if near >= number else math.nextafter(near, math.inf)
