"""Buying: what to measure for questions that do not follow from what is known, chosen from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.accounting.event import Event
from dodona.accounting.filter import Shares
from dodona.domain.attribute import cells
from dodona.domain.domain import Domain
from dodona.domain.neighbours import Neighbours
from dodona.mechanisms.measurement import Measurement
from dodona.mechanisms.residual import Residuals
from dodona.online.planning import Planned, Planner
from dodona.online.request import Request
from dodona.online.rule import Bundle, Price, Rule, Wanted, distinct
from dodona.query.predicate import And, Predicate, holds
from dodona.query.query import Block
from dodona.query.question import Question

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LOOKED_AT = 256  # rows
_FIRST, _FURTHER = 512, 4  # questions, and times as many
_EXACT = 1 << 24


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be measured, and what it takes of the budget."""

    measurement: Measurement | Residuals
    event: Event
    share: Fraction
    bundle: Bundle | None = None
    """Where it is more than the answer itself."""

    @property
    def alone(self) -> Measurement | None:
        """The measurement of the answers themselves, where nothing else is bought."""
        return self.measurement if self.bundle is None and isinstance(self.measurement, Measurement) else None

    @property
    def described(self) -> str:
        """What is bought, in words."""
        if self.bundle is None:
            return self.measurement.mechanism
        told = isinstance(self.measurement, Measurement)
        noise = self.measurement.mechanism if told else "with Gaussian noise on their Helmert rows"
        return f"{self.bundle.level.value}, {noise}"


@dataclass(frozen=True, slots=True)
class Buyer:
    """Chooses what to measure, for one dataset."""

    planner: Planner
    rule: Rule
    shares: Callable[[Event], Shares]
    share: Callable[[Event], Fraction]
    rungs: frozenset[str]

    def single(self, question: Question, request: Request, wanted: Wanted | None, left: Fraction) -> Order:
        """Return what is bought for one question: its answer, or a bundle that has paid for itself and still fits.

        Of two accounts that still count, the one is followed in which the widest bundle takes less.
        """
        if wanted is None or "bundle" not in self.rungs:
            return self.alone((question,), request)
        options = self.planner.options((question,), request)
        live: list[tuple[Price, Planned, float]] = []
        for price in self._accounts():
            alone, place = min((price(planned.event), place) for place, planned in enumerate(options))
            if math.isfinite(alone):
                live.append((price, options[place], alone))
        if not live:
            return self.alone((question,), request)
        if len(live) > 1:
            live.sort(key=lambda own: self.rule.reference(wanted, own[2], own[0]))
        price, cheapest, alone = live[0]
        bundle = self.rule.choose(wanted, alone, price, float(left))
        if bundle is not None:
            return self._bundled(bundle)
        return _ordered(cheapest) if cheapest.share <= left else self.alone((question,), request)

    def alone(self, questions: Sequence[Question], request: Request) -> Order:
        """Return the measurement of the answers themselves."""
        return _ordered(self.planner.plan(questions, request))

    def together(self, questions: Sequence[Question], request: Request, wanted: Sequence[Wanted]) -> Order:
        """Return the cheapest way to answer several questions: each by itself, or all from one bundle.

        `wanted` is empty where some of them are no counts over classes.
        """
        best = None
        if wanted and "bundle" in self.rungs:
            kinds = distinct(wanted)
            best = self._cheapest([*self.rule.whole(kinds, self._accounts())])
            best = best if best is not None and self.rule.answers(best, kinds) else None
        if best is not None and self._is_cheaper(self.share(best.event), questions, request, wanted):
            return self._bundled(best)
        alone = self.alone(questions, request)
        return alone if best is None or self.share(best.event) > alone.share else self._bundled(best)

    def _is_cheaper(
        self, share: Fraction, questions: Sequence[Question], request: Request, wanted: Sequence[Wanted]
    ) -> bool:
        """Return whether single answers are seen to cost as much: the first of them do, or all that are looked at.

        To price very many of them exactly takes long, and where a bundle costs less than this it need not be done.
        """
        loosest = max(range(len(questions)), key=lambda place: wanted[place].room)
        alone = self.planner.plan((questions[loosest],), request).share
        looked_at = _FIRST
        while looked_at < len(questions):
            if share <= self._at_least(questions[:looked_at], alone):
                return True
            looked_at *= _FURTHER
        return share <= self._at_least(questions, alone)

    def _at_least(self, questions: Sequence[Question], alone: Fraction) -> Fraction:
        """Return what single answers cost at least together: one row is in some of them, as a look at a few rows shows.

        Each of them costs at least what the cheapest does.
        """
        members = _membership(self.rule.domain, [question.query.blocks[0] for question in questions])
        counted = members.sum(axis=0)
        if self.rule.unit.neighbours is Neighbours.ADD_REMOVE:
            return alone * int(counted.max())
        numbers = members.astype(np.float32)  # in which so many whole numbers are exact
        both = numbers.T @ numbers if len(members) < _EXACT else members.T.astype(np.float64) @ members
        return alone * int((counted[:, None] + counted[None, :] - 2 * both).max())

    def widest(self, wanted: Wanted) -> Bundle | None:
        """Return the cheapest bundle for all that was asked about so far: what `prepare` would buy."""
        return self._cheapest([own for price in self._accounts() for own in self.rule.bundles(wanted, price)])

    def _cheapest(self, bundles: Sequence[Bundle]) -> Bundle | None:
        payable = [own for own in bundles if math.isfinite(own.price)]
        return min(payable, key=lambda own: self.share(own.event), default=None)

    def _bundled(self, bundle: Bundle) -> Order:
        return Order(bundle.measurement(self.rule.domain), bundle.event, self.share(bundle.event), bundle)

    def _accounts(self) -> tuple[Price, Price]:
        """Return prices in pure losses and in Rényi costs, each event being looked up once."""
        known: dict[Event, Shares] = {}

        def looked_up(event: Event) -> Shares:
            found = known.get(event)
            if found is None:
                found = known[event] = self.shares(event)
            return found

        def pure(event: Event) -> float:
            found = looked_up(event).pure
            return math.inf if found is None else float(found)

        def units(event: Event) -> float:
            found = looked_up(event).units
            return math.inf if found is None else float(found)

        return pure, units


def _membership(domain: Domain, blocks: Sequence[Block]) -> NDArray[np.bool_]:
    """Return which of a few rows, spread over the domain, each block counts."""
    rows = np.arange(_LOOKED_AT, dtype=np.int64)
    codes = {
        own.name: (rows * (2 * place + 3) + rows // (place + 2)) % cells(own)
        for place, own in enumerate(domain.attributes)
    }
    known: dict[Predicate, int] = {}  # of conjunctions, many have their parts in common
    held: list[NDArray[np.bool_]] = []

    def place(part: Predicate) -> int:
        found = known.get(part)
        if found is None:
            found = known[part] = len(held)
            held.append(np.broadcast_to(holds(part, codes), rows.shape))
        return found

    found = np.ones((len(blocks), _LOOKED_AT), dtype=np.bool_)
    parts = [[place(part) for part in _parts(block.where)] for block in blocks]
    table = np.array(held)
    for number in {len(own) for own in parts}:
        alike = [block for block, own in enumerate(parts) if len(own) == number]
        for own in np.array([parts[block] for block in alike]).T:
            found[alike] &= table[own]
    return found


def _parts(where: Predicate) -> tuple[Predicate, ...]:
    return where.parts if isinstance(where, And) else (where,)


def _ordered(planned: Planned) -> Order:
    return Order(planned.measurement, planned.event, planned.share)
