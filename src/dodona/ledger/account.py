"""The account: the budget and what has been spent, in total and by each analyst.

A method either refuses an entry or applies all of it. Analysts together never exceed the budget.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dodona.errors import InvalidArgument
from dodona.ledger.errors import BudgetExhausted, NotPermitted
from dodona.numbers import Exact, float_above
from dodona.privacy.accountants import Accountant, PrivacyFilter, Spending, budget_limit, odometer
from dodona.privacy.budget import Analyst, AnalystState, Budget
from dodona.privacy.events import Event, event_from_json

# --- The filter of a ledger: chosen once at creation, recorded, and raised only at the same order. ---


_CLOSE = Fraction(1, 10**6)
_HOW_TO_LET_IN = "The owner lets one in with a share: `dodona ledger admit`, or Admit on the owners' page."


def restore_filter(budget: Budget, order: Fraction | None, limit: int) -> PrivacyFilter:
    """Return the filter that a ledger recorded, after checking that it belongs to the budget.

    The zCDP limit was found by a floating-point search, so another machine may get different last digits; the recorded
    limit is authoritative. At a given Rényi order there is no search.
    """
    privacy_filter = PrivacyFilter(budget.accountant, budget.epsilon, budget.delta, order, limit)
    expected = budget_limit(budget.accountant, budget.epsilon, budget.delta, order)
    slack = int(expected * _CLOSE) if budget.accountant is Accountant.ZCDP else 0
    if abs(limit - expected) > slack:
        raise InvalidArgument("limit", limit, f"the budget gives {expected}")
    return privacy_filter


def enlarge_budget(budget: Budget, epsilon: Exact, delta: Exact) -> Budget:
    """Return the budget with a larger (ε, δ); neither number may decrease."""
    raised = Budget(epsilon, delta, budget.accountant)
    if raised.epsilon < budget.epsilon or raised.delta < budget.delta:
        accepted = f"a budget is only ever raised; write at least ({budget.epsilon}, {budget.delta})"
        raise InvalidArgument("epsilon, delta", f"({epsilon}, {delta})", accepted)
    return raised


def enlarge_limit(before: PrivacyFilter, budget: Budget) -> int:
    """Return the limit of a raised budget at the original order.

    Past spending was counted at that order; another order would require recounting every event under a choice made
    after the answers.
    """
    return max(before.limit, budget_limit(budget.accountant, budget.epsilon, budget.delta, before.order))


def spend_everything(whole: PrivacyFilter, spent: Spending) -> Spending:
    """Return a total that counts the whole budget as spent, and at least what was spent."""
    pure = None if spent.pure is None else max(spent.pure, whole.epsilon)
    return Spending(pure, max(spent.units, whole.limit), spent.events)


# --- The account, in total and by analyst. ---


@dataclass(frozen=True, slots=True)
class AnalystAccount:
    """The largest amount that one analyst may spend, and what they have spent."""

    analyst: Analyst
    filter: PrivacyFilter
    spent: Spending
    stopped: bool = False

    @property
    def state(self) -> AnalystState:
        """What is left of it."""
        analyst, left = self.analyst, remaining_share(self.filter, self.spent)
        return AnalystState(name=analyst.name, share=analyst.share, spent=1 - left, left=left, stopped=self.stopped)


@dataclass(slots=True)
class EventTally:
    """How often each event was charged. What a checkpoint says is parsed when it is asked for."""

    fresh: Counter[Event] = field(default_factory=Counter)
    """Since the last checkpoint."""
    _earlier: Counter[Event] = field(default_factory=Counter)
    _texts: Counter[str] = field(default_factory=Counter)

    def add(self, event: Event) -> None:
        """Count an event."""
        self.fresh[event] += 1

    def counts(self) -> Counter[Event]:
        """Return how often each event was charged in all."""
        for text, times in self._texts.items():
            self._earlier[event_from_json(text)] += times
        self._texts.clear()
        return self._earlier + self.fresh

    def settle(self, counted: Iterable[tuple[str, int]]) -> None:
        """Take what a checkpoint counted, as JSON, in place of what was counted since the one before."""
        self.fresh.clear()
        for text, times in counted:
            self._texts[text] += times


@dataclass(slots=True)
class BudgetAccount:
    """One budget and the accounts of its analysts. A method either refuses an entry or applies all of it."""

    budget: Budget
    filter: PrivacyFilter
    spent: Spending = field(default_factory=Spending)
    events: EventTally = field(default_factory=EventTally)
    purses: dict[str, AnalystAccount] = field(default_factory=dict)
    recovered: bool = False

    @property
    def epsilon_spent(self) -> float:
        """What was spent, as the least epsilon that is proved of all events together."""
        whole = self.filter
        if self.recovered:
            return float_above(whole.epsilon)
        reading = odometer(self.events.counts(), delta=whole.delta)
        return float_above(whole.epsilon if reading is None else min(whole.epsilon, reading))

    def charge(self, event: Event, analyst: str | None) -> None:
        """Count an event, or refuse it.

        The whole budget is checked first, then the analyst's share.
        """
        purse = self.spender(analyst)
        total = _after(self.filter, self.spent, event, of="the dataset")
        if purse is not None:
            spent = _after(purse.filter, purse.spent, event, of=purse.analyst.name)
            self.purses[purse.analyst.name] = replace(purse, spent=spent)
        self.spent = total
        self.events.add(event)

    def count(self, event: Event) -> None:
        """Count an event that belongs to no analyst, or refuse it."""
        self.spent = _after(self.filter, self.spent, event, of="the dataset")
        self.events.add(event)

    def left(self, analyst: str | None) -> Fraction:
        """Return the share of the whole budget that an analyst may still spend."""
        whole = remaining_share(self.filter, self.spent)
        purse = None if analyst is None else self.purses.get(analyst)
        if purse is None:
            return whole if analyst is None and not self.purses else Fraction(0)
        share_left = Fraction(0) if purse.stopped else purse.analyst.share * remaining_share(purse.filter, purse.spent)
        return min(whole, share_left)

    def permit(self, analyst: str | None) -> None:
        """If analysts are declared, refuse anyone else."""
        if self.purses and analyst not in self.purses:
            name = "Give your name: analyst= where the dataset is opened, --analyst on the command line."
            instead = name if analyst is None else _HOW_TO_LET_IN
            raise NotPermitted(f"Only analysts whom the owner let in may ask here. {instead}")

    def admit(self, analyst: Analyst) -> None:
        """Admit an analyst with a share; a returning analyst keeps what they have spent."""
        before = self.purses.get(analyst.name)
        spent = Spending() if before is None else before.spent
        self.purses[analyst.name] = AnalystAccount(analyst, self.filter.scaled(analyst.share), spent)

    def stop(self, name: str) -> None:
        """Stop an analyst from spending."""
        if name not in self.purses:
            raise InvalidArgument("analyst", name, "write the name of an analyst of this ledger")
        self.purses[name] = replace(self.purses[name], stopped=True)

    def extend(self, epsilon: Fraction, delta: Fraction, limit: int) -> None:
        """Raise the budget, and with it every analyst's share."""
        budget = enlarge_budget(self.budget, epsilon, delta)
        if budget == self.budget:
            raise InvalidArgument("epsilon, delta", f"({epsilon}, {delta})", "write more than there is")
        if self.recovered and self.filter.accountant is Accountant.EITHER:
            accepted = "after a recovery nobody knows which of the two sums was within its limit; create a new ledger"
            raise InvalidArgument("accountant", Accountant.EITHER.value, accepted)
        self._become(budget, limit)

    def exhaust(self, epsilon: Fraction, delta: Fraction, limit: int) -> None:
        """Count everything as spent, out of the largest budget that was ever granted."""
        self._become(enlarge_budget(self.budget, epsilon, delta), limit)
        self.spent = spend_everything(self.filter, self.spent)
        for name, purse in self.purses.items():
            self.purses[name] = replace(purse, spent=spend_everything(purse.filter, purse.spent))
        self.recovered = True

    def _become(self, budget: Budget, limit: int) -> None:
        self.filter = restore_filter(budget, self.filter.order, limit)
        self.budget = budget
        for name, purse in self.purses.items():
            self.purses[name] = replace(purse, filter=self.filter.scaled(purse.analyst.share))

    def spender(self, analyst: str | None) -> AnalystAccount | None:
        """Return the account of an analyst, None if there are none; refuse an analyst who may not spend."""
        if analyst is None and not self.purses:
            return None
        purse = None if analyst is None else self.purses.get(analyst)
        if purse is None:
            raise NotPermitted(f"Only analysts whom the owner let in may spend from this ledger. {_HOW_TO_LET_IN}")
        if purse.stopped:
            raise NotPermitted("The owner stopped this analyst. Earlier answers can still be fetched.")
        return purse


def remaining_share(of: PrivacyFilter, spent: Spending) -> Fraction:
    """Return the share of a budget that is left, at least 0."""
    return max(Fraction(0), 1 - of.share(spent))


def _after(of_filter: PrivacyFilter, spent: Spending, event: Event, *, of: str) -> Spending:
    """Return the total after an event, or refuse it if it does not fit."""
    total = of_filter.after(spent, event)
    if total is None:
        asked = of_filter.share(of_filter.charged(Spending(), event))
        raise BudgetExhausted(asked=asked, left=remaining_share(of_filter, spent), of=of)
    return total
