"""The account: what may be spent and what was, in all and by each analyst, who together never pass the whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dodona.accounting.event import Event
from dodona.accounting.filter import Accountant, Filter, Spent
from dodona.errors import InvalidArgument
from dodona.ledger.entry import Opened
from dodona.ledger.faults import BudgetExhausted, NotPermitted
from dodona.ledger.limits import everything, kept_filter, raised_budget
from dodona.ledger.pot import Pot
from dodona.policy import Analyst, Budget


@dataclass(frozen=True, slots=True)
class Purse:
    """What one analyst may spend at most, and has spent."""

    analyst: Analyst
    filter: Filter
    spent: Spent
    stopped: bool = False


@dataclass(slots=True)
class Account:
    """One budget, its pot and its purses. It changes by whole entries only: a method refuses before it changes."""

    budget: Budget
    filter: Filter
    pot: Pot
    spent: Spent = field(default_factory=Spent)
    events: Counter[Event] = field(default_factory=Counter)
    purses: dict[str, Purse] = field(default_factory=dict)
    recovered: bool = False

    def charge(self, event: Event, analyst: str | None) -> None:
        """Count an event, or refuse it.

        The whole is asked first, then the analyst's share of it.
        """
        purse = self._purse(analyst)
        if purse is None:
            self.count(event)
            return
        if self.filter.after(self.spent, event) is None:
            raise exhausted(self.filter, self.spent, event, of="the dataset")
        own = purse.filter.after(purse.spent, event)
        if own is None:
            raise exhausted(purse.filter, purse.spent, event, of=f"{purse.analyst.name}")
        self.count(event)
        self.purses[purse.analyst.name] = replace(purse, spent=own)

    def count(self, event: Event) -> None:
        """Count an event that is nobody's own, or refuse it."""
        total = self.filter.after(self.spent, event)
        if total is None:
            raise exhausted(self.filter, self.spent, event, of="the dataset")
        self.spent = total
        self.events[event] += 1

    def open(self, entry: Opened, own_hash: str) -> None:
        """Pay for a plan out of the pot, or refuse it; an analyst has the same share of the pot as of the rest."""
        purse = self._purse(entry.analyst)
        self.pot.open(entry, own_hash, share=Fraction(1) if purse is None else purse.analyst.share)

    def take(self, plan: str, event: Event, analyst: str | None) -> None:
        """Take an event out of a plan, or refuse it; filter and purse are left as they are."""
        self._purse(analyst)
        self.pot.take(plan, event, analyst)

    def left(self, analyst: str | None) -> Fraction:
        """Return which part of the whole budget an analyst may still spend."""
        whole = share_left(self.filter, self.spent)
        purse = None if analyst is None else self.purses.get(analyst)
        if purse is None:
            return whole if analyst is None and not self.purses else Fraction(0)
        own = Fraction(0) if purse.stopped else purse.analyst.share * share_left(purse.filter, purse.spent)
        return min(whole, own)

    def permit(self, analyst: str | None) -> None:
        """Refuse whoever is not declared, where analysts are."""
        if self.purses and analyst not in self.purses:
            raise NotPermitted(
                "Only analysts whom the owner let in may ask here. Give your name: analyst= where the dataset is "
                "opened, --analyst on the command line."
            )

    def hold_spending(self, analyst: str | None) -> None:
        """Refuse whoever may not spend."""
        self._purse(analyst)

    def admit(self, analyst: Analyst) -> None:
        """Let an analyst in with a share; one who was there keeps what they spent."""
        before = self.purses.get(analyst.name)
        spent = Spent() if before is None else before.spent
        self.purses[analyst.name] = Purse(analyst, self.filter.scaled(analyst.share), spent)

    def stop(self, name: str) -> None:
        """Let an analyst spend no more."""
        if name not in self.purses:
            raise InvalidArgument("analyst", name, "write the name of an analyst of this ledger")
        self.purses[name] = replace(self.purses[name], stopped=True)

    def extend(self, epsilon: Fraction, delta: Fraction, limit: int) -> None:
        """Raise the budget, and every share with it."""
        budget = raised_budget(self.budget, epsilon, delta)
        if budget == self.budget:
            raise InvalidArgument("epsilon, delta", f"({epsilon}, {delta})", "write more than there is")
        if self.recovered and self.filter.accountant is Accountant.EITHER:
            accepted = "after a recovery nobody knows which of the two sums was within its limit; create a new ledger"
            raise InvalidArgument("accountant", Accountant.EITHER.value, accepted)
        self._become(budget, limit)

    def exhaust(self, epsilon: Fraction, delta: Fraction, limit: int) -> None:
        """Count everything as spent, of the largest budget that was ever granted."""
        self._become(raised_budget(self.budget, epsilon, delta), limit)
        self.spent = everything(self.filter, self.spent)
        for name, purse in self.purses.items():
            self.purses[name] = replace(purse, spent=everything(purse.filter, purse.spent))
        self.pot.exhaust()
        self.recovered = True

    def _become(self, budget: Budget, limit: int) -> None:
        self.filter = kept_filter(budget, self.filter.order, limit)
        self.budget = budget
        for name, purse in self.purses.items():
            self.purses[name] = replace(purse, filter=self.filter.scaled(purse.analyst.share))

    def _purse(self, analyst: str | None) -> Purse | None:
        if analyst is None and not self.purses:
            return None
        purse = None if analyst is None else self.purses.get(analyst)
        if purse is None:
            raise NotPermitted("Only analysts whom the owner let in may spend from this ledger.")
        if purse.stopped:
            raise NotPermitted("The owner stopped this analyst. Earlier answers can still be fetched.")
        return purse


def share_left(of: Filter, spent: Spent) -> Fraction:
    """Return which part of a budget is left, never below 0."""
    return max(Fraction(0), 1 - of.share(spent))


def exhausted(of_filter: Filter, spent: Spent, event: Event, *, of: str) -> BudgetExhausted:
    """Return the refusal of an event that does not fit."""
    asked = of_filter.share(of_filter.charged(Spent(), event))
    return BudgetExhausted(asked=asked, left=share_left(of_filter, spent), of=of)
