"""What to measure for several questions that do not follow from earlier releases: their answers, or a bundle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.curator.demands import CountDemand
from dodona.curator.planner import Planner, PurchaseOrder
from dodona.curator.rent_or_buy import Bundle, RentOrBuyRule
from dodona.curator.request import Request
from dodona.privacy.accountants import PriceFunction, Shares, price_functions
from dodona.privacy.events import Event
from dodona.query.predicate import And, Predicate, evaluate_predicate
from dodona.query.query import Block
from dodona.query.question import Question
from dodona.schema.schema import Domain, Neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LOOKED_AT = 256  # rows
_FIRST, _FURTHER = 512, 4  # questions in the first round, and growth factor
_EXACT = 1 << 24


@dataclass(frozen=True, slots=True)
class Buyer:
    """Chooses what to measure for one dataset."""

    planner: Planner
    rule: RentOrBuyRule
    shares: Callable[[], Callable[[Event], Shares]]
    """What events take of each account, all as of the moment of the call."""
    share: Callable[[Event], Fraction]

    def together(
        self, questions: Sequence[Question], request: Request, wanted: Iterable[CountDemand | None]
    ) -> PurchaseOrder:
        """Return the cheapest way to answer several questions: one by one, or all from one bundle.

        `wanted` has the demand of each, of which one of each kind is kept; None for what is no count over classes.
        """
        best, kinds = None, self.rule.distinct(wanted)
        if kinds:
            best = self._cheapest([*self.rule.whole(kinds, self._accounts())])
            best = best if best is not None and self.rule.answers(best, kinds) else None
        if best is not None and self._is_cheaper(self.share(best.event), questions, request, kinds):
            return self.order_bundle(best)
        alone = self.planner.plan(questions, request)
        return alone if best is None or self.share(best.event) > alone.share else self.order_bundle(best)

    def _is_cheaper(
        self, share: Fraction, questions: Sequence[Question], request: Request, kinds: Sequence[CountDemand]
    ) -> bool:
        """Return whether single answers would cost at least as much, judging by the first of them.

        Pricing very many of them exactly is slow, and unnecessary if a bundle costs less than this bound. Of sums there
        is none: a row counts for less than the largest.
        """
        if any(demand.sums for demand in kinds):
            return False
        loosest = max(kinds, key=lambda demand: demand.tolerance).block
        question = next(candidate for candidate in questions if candidate.query.blocks[0] is loosest)
        alone = self.planner.plan((question,), request).share
        looked_at = _FIRST
        while looked_at < len(questions):
            if share <= self._at_least(questions[:looked_at], alone):
                return True
            looked_at *= _FURTHER
        return share <= self._at_least(questions, alone)

    def _at_least(self, questions: Sequence[Question], alone: Fraction) -> Fraction:
        """Return a lower bound on the joint price of single answers, as some rows are counted in several of them.

        Each of them costs at least as much as the cheapest.
        """
        members = _membership(self.rule.domain, [question.query.blocks[0] for question in questions])
        counted = members.sum(axis=0)
        if self.rule.unit.neighbours is Neighbours.ADD_REMOVE:
            return alone * int(counted.max())
        numbers = members.astype(np.float32)  # whole numbers up to this size are exact
        both = numbers.T @ numbers if len(members) < _EXACT else members.T.astype(np.float64) @ members
        return alone * int((counted[:, None] + counted[None, :] - 2 * both).max())

    def _cheapest(self, bundles: Sequence[Bundle]) -> Bundle | None:
        payable = [bundle for bundle in bundles if math.isfinite(bundle.price)]
        return min(payable, key=lambda bundle: self.share(bundle.event), default=None)

    def order_bundle(self, bundle: Bundle) -> PurchaseOrder:
        """Return the order of a bundle."""
        measurement = bundle.measurement(self.rule.domain, self.rule.normal)
        return PurchaseOrder(measurement, bundle.event, self.share(bundle.event), bundle.level)

    def _accounts(self) -> tuple[PriceFunction, PriceFunction]:
        """Return price functions in pure loss and in units, which cache each event."""
        return price_functions(self.shares())


def _membership(domain: Domain, blocks: Sequence[Block]) -> NDArray[np.bool_]:
    """Return which of a few sample rows of the domain each block counts."""
    rows = np.arange(_LOOKED_AT, dtype=np.int64)
    codes = {
        attribute.name: (rows * (2 * place + 3) + rows // (place + 2)) % attribute.cells
        for place, attribute in enumerate(domain.attributes)
    }
    known: dict[Predicate, int] = {}  # conjunctions often share parts
    held: list[NDArray[np.bool_]] = []

    def place(part: Predicate) -> int:
        index = known.get(part)
        if index is None:
            index = known[part] = len(held)
            held.append(np.broadcast_to(evaluate_predicate(part, codes), rows.shape))
        return index

    membership = np.ones((len(blocks), _LOOKED_AT), dtype=np.bool_)
    wheres = [block.where for block in blocks]
    parts = [[place(part) for part in (where.parts if isinstance(where, And) else (where,))] for where in wheres]
    table = np.array(held)
    for number in {len(conjuncts) for conjuncts in parts}:
        alike = [block for block, conjuncts in enumerate(parts) if len(conjuncts) == number]
        for indices in np.array([parts[block] for block in alike]).T:
            membership[alike] &= table[indices]
    return membership
