"""What is left, as of one line of the ledger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dodona.accounting.odometer import odometer
from dodona.ledger.account import Account, share_left
from dodona.policy import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalystState:
    """What one analyst has spent, as a share of what they may."""

    name: str
    share: Fraction
    spent: Fraction
    left: Fraction
    stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """The whole, what was spent of it and what is left, as shares of what questions may spend."""

    total: Budget
    spent: Fraction
    left: Fraction
    epsilon_spent: float
    """Holds for all answers so far, at the budget's δ: the odometer, or the budget itself where that says less.

    The part that is kept for plans is not in it.
    """
    charges: int
    releases: int
    analysts: tuple[AnalystState, ...]
    closed: bool
    recovered: bool
    head: str
    """The hash of the last line: two who see the same head see the same ledger."""


def state_of(account: Account, *, releases: int, closed: bool, head: str) -> BudgetState:
    """Return the state of an account at a head."""
    return BudgetState(
        total=account.budget,
        spent=1 - share_left(account.filter, account.spent),
        left=share_left(account.filter, account.spent),
        epsilon_spent=_epsilon_spent(account),
        charges=account.events.total(),
        releases=releases,
        analysts=tuple(
            AnalystState(
                name=name,
                share=purse.analyst.share,
                spent=1 - share_left(purse.filter, purse.spent),
                left=share_left(purse.filter, purse.spent),
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
    return _rounded_up(min(whole.epsilon, odometer(account.events, epsilon=whole.epsilon, delta=whole.delta)))


def _rounded_up(number: Fraction) -> float:
    near = float(number)
    return near if near >= number else math.nextafter(near, math.inf)
