"""The account: what may be spent and what was, in total, by each analyst and for declared plans.

A method either refuses or applies a whole entry. Analysts together never exceed the budget.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import assert_never

from dodona.errors import InvalidArgument
from dodona.ledger.entries import PlanOpened, PlanParts
from dodona.ledger.errors import BudgetExhausted, NotInPlan, NotPermitted, PlanReserveExhausted, PlanVoid
from dodona.numbers import Exact
from dodona.privacy import bounds
from dodona.privacy import events as record
from dodona.privacy.accountants import Accountant, PrivacyFilter, Spending
from dodona.privacy.bounds import EpsilonDelta
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.conversion import renyi_limit, zcdp_limit
from dodona.privacy.events import Event

# --- The filter of a ledger: chosen once at creation, written down, and raised at the same order. ---


_CLOSE = Fraction(1, 10**6)


def restore_filter(budget: Budget, order: Fraction | None, limit: int) -> PrivacyFilter:
    """Return the filter that a ledger wrote down, having seen that it belongs to the budget.

    The zCDP limit was searched for in floating point, so another machine may find one that differs in the last digits;
    the one that was written down stands. At a given Rényi order there is nothing to search.
    """
    epsilon, delta = budget.epsilon - budget.plans[0], budget.delta - budget.plans[1]
    found = PrivacyFilter(budget.accountant, epsilon, delta, order, limit)
    expected = _limit(found)
    slack = int(expected * _CLOSE) if budget.accountant is Accountant.ZCDP else 0
    if abs(limit - expected) > slack:
        raise InvalidArgument("limit", limit, f"the budget gives {expected}")
    return found


def enlarge_budget(budget: Budget, epsilon: Exact, delta: Exact) -> Budget:
    """Return the budget with a larger pair: neither number may fall."""
    raised = Budget(epsilon, delta, budget.accountant, budget.plans)
    if raised.epsilon < budget.epsilon or raised.delta < budget.delta:
        accepted = f"a budget is only ever raised; write at least ({budget.epsilon}, {budget.delta})"
        raise InvalidArgument("epsilon, delta", f"({epsilon}, {delta})", accepted)
    return raised


def enlarge_limit(before: PrivacyFilter, budget: Budget) -> int:
    """Return the limit of a raised budget at the order of the first one.

    What was spent was counted at that order, so another would need every event counted anew under a choice that came
    after the answers.
    """
    epsilon, delta = budget.epsilon - budget.plans[0], budget.delta - budget.plans[1]
    return max(before.limit, _limit(replace(before, epsilon=epsilon, delta=delta)))


def spend_everything(whole: PrivacyFilter, spent: Spending) -> Spending:
    """Return the total that counts all of a budget as spent, and no less than was."""
    pure = None if spent.pure is None else max(spent.pure, whole.epsilon)
    return Spending(pure, max(spent.units, whole.limit), spent.events)


def _limit(of: PrivacyFilter) -> int:
    match of.accountant:
        case Accountant.PURE:
            return 0
        case Accountant.ZCDP:
            return bounds.limit_in_units(zcdp_limit(of.epsilon, of.delta))
        case Accountant.RENYI | Accountant.EITHER:
            if of.order is None:
                raise InvalidArgument("order", of.order, "this accountant counts at an order")
            return bounds.limit_in_units(renyi_limit(of.epsilon, of.delta, of.order))
        case _:
            assert_never(of.accountant)


# --- The pot: what was set aside for declared plans, the plans that were opened from it, and what is left of each. ---


ZERO_COST = EpsilonDelta(Fraction(0), Fraction(0))
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanState:
    """A plan that was paid for, as of one line of the ledger."""

    id: str
    """The hash of the line that opened it."""
    analyst: str | None
    key: str | None
    parts: PlanParts
    cost: EpsilonDelta
    """What it took off the pot."""
    left: PlanParts
    """The events that can still be asked for."""
    void: bool
    """Whether a recovery came after it, so that nobody knows what is left."""


@dataclass(slots=True)
class _OpenPlan:
    entry: PlanOpened
    left: Counter[Event]
    void: bool = False


@dataclass(slots=True)
class PlanReserve:
    """An (ε, δ) that was fixed at creation. It changes by whole entries only: a method refuses before it changes."""

    total: EpsilonDelta
    taken: EpsilonDelta = ZERO_COST
    by_analyst: dict[str | None, EpsilonDelta] = field(default_factory=dict)
    _plans: dict[str, _OpenPlan] = field(default_factory=dict)

    def open(self, entry: PlanOpened, own_hash: str, *, share: Fraction) -> None:
        """Take a plan's whole price off the pot, or refuse it: both sums stay within the pot and the analyst's share.

        Theorem: plans-beside-a-filter
        """
        cost = EpsilonDelta(entry.epsilon, entry.delta)
        if min(cost.epsilon, cost.delta) < 0 or cost == ZERO_COST:
            raise InvalidArgument("cost", f"({cost.epsilon}, {cost.delta})", "a plan costs something")
        taken = add_costs(self.taken, cost)
        if not costs_within(taken, self.total):
            raise PlanReserveExhausted(asked=cost, left=self.left, of="the dataset")
        before, own = self.by_analyst.get(entry.analyst, ZERO_COST), share_of_cost(self.total, share)
        if not costs_within(add_costs(before, cost), own):
            raise PlanReserveExhausted(asked=cost, left=subtract_costs(own, before), of=f"{entry.analyst}")
        self.taken = taken
        self.by_analyst[entry.analyst] = add_costs(before, cost)
        self._plans[own_hash] = _OpenPlan(entry, count_events(entry.parts))

    def take(self, plan: str, event: Event, analyst: str | None) -> None:
        """Take an event out of a plan, for the one who opened it; it was paid for when the plan was opened.

        Theorem: plans-beside-a-filter
        """
        found = self._plans.get(plan)
        if found is None or found.entry.analyst != analyst:
            raise NotPermitted("This analyst has no such plan. Write the id of a plan that this analyst opened.")
        if found.void:
            raise PlanVoid
        times = found.left[event]
        if times == 0:
            raise NotInPlan(describe_parts(tuple(found.left.items())))
        found.left[event] = times - 1
        if times == 1:
            del found.left[event]

    def exhaust(self) -> None:
        """Count all of it as taken, and let no plan be used any more."""
        self.taken = self.total
        for opened in self._plans.values():
            opened.void = True

    def plan(self, own_hash: str) -> PlanState | None:
        """Return a plan as it stands."""
        found = self._plans.get(own_hash)
        return None if found is None else _plan_state(own_hash, found)

    def open_plans(self) -> tuple[PlanState, ...]:
        """Return the plans of which something is left, oldest first."""
        return tuple(
            _plan_state(own_hash, found) for own_hash, found in self._plans.items() if found.left and not found.void
        )

    @property
    def left(self) -> EpsilonDelta:
        """What plans can still take."""
        return subtract_costs(self.total, self.taken)

    def share_left(self) -> Fraction:
        """Return which part is left, by the number of the two of which less is left; 0 where nothing was set aside."""
        parts = [
            1 - taken / total
            for taken, total in (
                (self.taken.epsilon, self.total.epsilon),
                (self.taken.delta, self.total.delta),
            )
            if total > 0
        ]
        return min(parts, default=Fraction(0))


def add_costs(one: EpsilonDelta, other: EpsilonDelta) -> EpsilonDelta:
    """Return what both take together, by basic composition."""
    return EpsilonDelta(one.epsilon + other.epsilon, one.delta + other.delta)


def subtract_costs(whole: EpsilonDelta, taken: EpsilonDelta) -> EpsilonDelta:
    """Return what is left, never below 0: a share may have been made smaller than what was taken."""
    return EpsilonDelta(max(Fraction(0), whole.epsilon - taken.epsilon), max(Fraction(0), whole.delta - taken.delta))


def share_of_cost(whole: EpsilonDelta, share: Fraction) -> EpsilonDelta:
    """Return a share of both numbers."""
    return EpsilonDelta(whole.epsilon * share, whole.delta * share)


def costs_within(taken: EpsilonDelta, whole: EpsilonDelta) -> bool:
    """Return whether neither number is passed."""
    return taken.epsilon <= whole.epsilon and taken.delta <= whole.delta


def count_events(parts: PlanParts) -> Counter[Event]:
    """Return how often each event stands in a plan, however its parts are listed."""
    found: Counter[Event] = Counter()
    for event, times in parts:
        found[event] += times
    return found


def describe_parts(parts: PlanParts) -> str:
    """Return a few words for the events of a plan.

    >>> from dodona.privacy.events import LaplaceEvent
    >>> from dodona.schema.schema import Neighbours
    >>> describe_parts(((LaplaceEvent(1, Fraction(10), Neighbours.REPLACE), 3),))
    '3 × laplace distance 1 scale 10'
    """
    words = [f"{times} × {_describe_event(event)}" for event, times in parts[:_NAMED]]
    if len(parts) > _NAMED:
        words.append(f"and {len(parts) - _NAMED} more kinds")
    return ", ".join(words) or "nothing"


def _describe_event(event: Event) -> str:
    fields = json.loads(record.event_to_json(event))
    numbers = [f"{name} {value}" for name, value in fields.items() if name not in {"event", "neighbours", "parts"}]
    return " ".join([fields["event"], *numbers])


def _plan_state(own_hash: str, found: _OpenPlan) -> PlanState:
    entry = found.entry
    return PlanState(
        id=own_hash,
        analyst=entry.analyst,
        key=entry.key,
        parts=entry.parts,
        cost=EpsilonDelta(entry.epsilon, entry.delta),
        left=() if found.void else tuple(found.left.items()),
        void=found.void,
    )


# --- The account: what may be spent and what was, in all and by each analyst, who together never pass the whole. ---


@dataclass(frozen=True, slots=True)
class AnalystAccount:
    """What one analyst may spend at most, and has spent."""

    analyst: Analyst
    filter: PrivacyFilter
    spent: Spending
    stopped: bool = False


@dataclass(slots=True)
class Account:
    """One budget, its pot and its purses. It changes by whole entries only: a method refuses before it changes."""

    budget: Budget
    filter: PrivacyFilter
    pot: PlanReserve
    spent: Spending = field(default_factory=Spending)
    events: Counter[Event] = field(default_factory=Counter)
    purses: dict[str, AnalystAccount] = field(default_factory=dict)
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
            raise budget_exhausted(self.filter, self.spent, event, of="the dataset")
        own = purse.filter.after(purse.spent, event)
        if own is None:
            raise budget_exhausted(purse.filter, purse.spent, event, of=f"{purse.analyst.name}")
        self.count(event)
        self.purses[purse.analyst.name] = replace(purse, spent=own)

    def count(self, event: Event) -> None:
        """Count an event that is nobody's own, or refuse it."""
        total = self.filter.after(self.spent, event)
        if total is None:
            raise budget_exhausted(self.filter, self.spent, event, of="the dataset")
        self.spent = total
        self.events[event] += 1

    def open(self, entry: PlanOpened, own_hash: str) -> None:
        """Pay for a plan out of the pot, or refuse it; an analyst has the same share of the pot as of the rest."""
        purse = self._purse(entry.analyst)
        self.pot.open(entry, own_hash, share=Fraction(1) if purse is None else purse.analyst.share)

    def take(self, plan: str, event: Event, analyst: str | None) -> None:
        """Take an event out of a plan, or refuse it; filter and purse are left as they are."""
        self._purse(analyst)
        self.pot.take(plan, event, analyst)

    def left(self, analyst: str | None) -> Fraction:
        """Return which part of the whole budget an analyst may still spend."""
        whole = remaining_share(self.filter, self.spent)
        purse = None if analyst is None else self.purses.get(analyst)
        if purse is None:
            return whole if analyst is None and not self.purses else Fraction(0)
        own = Fraction(0) if purse.stopped else purse.analyst.share * remaining_share(purse.filter, purse.spent)
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
        spent = Spending() if before is None else before.spent
        self.purses[analyst.name] = AnalystAccount(analyst, self.filter.scaled(analyst.share), spent)

    def stop(self, name: str) -> None:
        """Let an analyst spend no more."""
        if name not in self.purses:
            raise InvalidArgument("analyst", name, "write the name of an analyst of this ledger")
        self.purses[name] = replace(self.purses[name], stopped=True)

    def extend(self, epsilon: Fraction, delta: Fraction, limit: int) -> None:
        """Raise the budget, and every share with it."""
        budget = enlarge_budget(self.budget, epsilon, delta)
        if budget == self.budget:
            raise InvalidArgument("epsilon, delta", f"({epsilon}, {delta})", "write more than there is")
        if self.recovered and self.filter.accountant is Accountant.EITHER:
            accepted = "after a recovery nobody knows which of the two sums was within its limit; create a new ledger"
            raise InvalidArgument("accountant", Accountant.EITHER.value, accepted)
        self._become(budget, limit)

    def exhaust(self, epsilon: Fraction, delta: Fraction, limit: int) -> None:
        """Count everything as spent, of the largest budget that was ever granted."""
        self._become(enlarge_budget(self.budget, epsilon, delta), limit)
        self.spent = spend_everything(self.filter, self.spent)
        for name, purse in self.purses.items():
            self.purses[name] = replace(purse, spent=spend_everything(purse.filter, purse.spent))
        self.pot.exhaust()
        self.recovered = True

    def _become(self, budget: Budget, limit: int) -> None:
        self.filter = restore_filter(budget, self.filter.order, limit)
        self.budget = budget
        for name, purse in self.purses.items():
            self.purses[name] = replace(purse, filter=self.filter.scaled(purse.analyst.share))

    def _purse(self, analyst: str | None) -> AnalystAccount | None:
        if analyst is None and not self.purses:
            return None
        purse = None if analyst is None else self.purses.get(analyst)
        if purse is None:
            raise NotPermitted("Only analysts whom the owner let in may spend from this ledger.")
        if purse.stopped:
            raise NotPermitted("The owner stopped this analyst. Earlier answers can still be fetched.")
        return purse


def remaining_share(of: PrivacyFilter, spent: Spending) -> Fraction:
    """Return which part of a budget is left, never below 0."""
    return max(Fraction(0), 1 - of.share(spent))


def budget_exhausted(of_filter: PrivacyFilter, spent: Spending, event: Event, *, of: str) -> BudgetExhausted:
    """Return the refusal of an event that does not fit."""
    asked = of_filter.share(of_filter.charged(Spending(), event))
    return BudgetExhausted(asked=asked, left=remaining_share(of_filter, spent), of=of)
