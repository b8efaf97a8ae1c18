"""The pot: what was set aside for declared plans, the plans that were opened from it, and what is left of each."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from dodona.accounting import record
from dodona.accounting.bounds import Pair
from dodona.accounting.event import Event
from dodona.errors import InvalidArgument
from dodona.ledger.entry import Opened, Parts
from dodona.ledger.faults import NotInPlan, NotPermitted, PlanVoid, PotExhausted

NOTHING = Pair(Fraction(0), Fraction(0))
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedPlan:
    """A plan that was paid for, as of one line of the ledger."""

    id: str
    """The hash of the line that opened it."""
    analyst: str | None
    key: str | None
    parts: Parts
    cost: Pair
    """What it took off the pot."""
    left: Parts
    """The events that can still be asked for."""
    void: bool
    """Whether a recovery came after it, so that nobody knows what is left."""


@dataclass(slots=True)
class _Open:
    entry: Opened
    left: Counter[Event]
    void: bool = False


@dataclass(slots=True)
class Pot:
    """An (ε, δ) that was fixed at creation. It changes by whole entries only: a method refuses before it changes."""

    total: Pair
    taken: Pair = NOTHING
    by_analyst: dict[str | None, Pair] = field(default_factory=dict)
    _plans: dict[str, _Open] = field(default_factory=dict)

    def open(self, entry: Opened, own_hash: str, *, share: Fraction) -> None:
        """Take a plan's whole price off the pot, or refuse it: both sums stay within the pot and the analyst's share.

        Theorem: plans-beside-a-filter
        """
        cost = Pair(entry.epsilon, entry.delta)
        if min(cost.epsilon, cost.delta) < 0 or cost == NOTHING:
            raise InvalidArgument("cost", f"({cost.epsilon}, {cost.delta})", "a plan costs something")
        taken = plus(self.taken, cost)
        if not within(taken, self.total):
            raise PotExhausted(asked=cost, left=self.left, of="the dataset")
        before, own = self.by_analyst.get(entry.analyst, NOTHING), part(self.total, share)
        if not within(plus(before, cost), own):
            raise PotExhausted(asked=cost, left=minus(own, before), of=f"{entry.analyst}")
        self.taken = taken
        self.by_analyst[entry.analyst] = plus(before, cost)
        self._plans[own_hash] = _Open(entry, multiset(entry.parts))

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
            raise NotInPlan(in_words(tuple(found.left.items())))
        found.left[event] = times - 1
        if times == 1:
            del found.left[event]

    def exhaust(self) -> None:
        """Count all of it as taken, and let no plan be used any more."""
        self.taken = self.total
        for opened in self._plans.values():
            opened.void = True

    def plan(self, own_hash: str) -> OpenedPlan | None:
        """Return a plan as it stands."""
        found = self._plans.get(own_hash)
        return None if found is None else _shown(own_hash, found)

    def open_plans(self) -> tuple[OpenedPlan, ...]:
        """Return the plans of which something is left, oldest first."""
        return tuple(
            _shown(own_hash, found) for own_hash, found in self._plans.items() if found.left and not found.void
        )

    @property
    def left(self) -> Pair:
        """What plans can still take."""
        return minus(self.total, self.taken)

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


def plus(one: Pair, other: Pair) -> Pair:
    """Return what both take together, by basic composition."""
    return Pair(one.epsilon + other.epsilon, one.delta + other.delta)


def minus(whole: Pair, taken: Pair) -> Pair:
    """Return what is left, never below 0: a share may have been made smaller than what was taken."""
    return Pair(max(Fraction(0), whole.epsilon - taken.epsilon), max(Fraction(0), whole.delta - taken.delta))


def part(whole: Pair, share: Fraction) -> Pair:
    """Return a share of both numbers."""
    return Pair(whole.epsilon * share, whole.delta * share)


def within(taken: Pair, whole: Pair) -> bool:
    """Return whether neither number is passed."""
    return taken.epsilon <= whole.epsilon and taken.delta <= whole.delta


def multiset(parts: Parts) -> Counter[Event]:
    """Return how often each event stands in a plan, however its parts are listed."""
    found: Counter[Event] = Counter()
    for event, times in parts:
        found[event] += times
    return found


def in_words(parts: Parts) -> str:
    """Return a few words for the events of a plan.

    >>> from dodona.accounting.event import LaplaceEvent
    >>> from dodona.domain.neighbours import Neighbours
    >>> in_words(((LaplaceEvent(1, Fraction(10), Neighbours.REPLACE), 3),))
    '3 × laplace distance 1 scale 10'
    """
    words = [f"{times} × {_event_in_words(event)}" for event, times in parts[:_NAMED]]
    if len(parts) > _NAMED:
        words.append(f"and {len(parts) - _NAMED} more kinds")
    return ", ".join(words) or "nothing"


def _event_in_words(event: Event) -> str:
    fields = json.loads(record.to_json(event))
    numbers = [f"{name} {value}" for name, value in fields.items() if name not in {"event", "neighbours", "parts"}]
    return " ".join([fields["event"], *numbers])


def _shown(own_hash: str, found: _Open) -> OpenedPlan:
    entry = found.entry
    return OpenedPlan(
        id=own_hash,
        analyst=entry.analyst,
        key=entry.key,
        parts=entry.parts,
        cost=Pair(entry.epsilon, entry.delta),
        left=() if found.void else tuple(found.left.items()),
        void=found.void,
    )
