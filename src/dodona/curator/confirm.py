"""Confirmed answers: a model's prediction that an open check confirms at no further cost.

An epoch of checks is charged in full when it is opened and ends with the first prediction that fails. It is used if
the probability of losing it, times its price, is below the price of a single answer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

from dodona.answer.derived import make_derived_values
from dodona.answer.laws import ConfirmedLaw, half_width
from dodona.curator.desk import Desk, Purchase, mark_errors_charged
from dodona.curator.lookup import Found
from dodona.curator.predictions import Epoch, ModelTracker, design_epoch, draft_epoch
from dodona.curator.request import Dataset
from dodona.knowledge.knowledge import LearnedBlock
from dodona.ledger.entries import Charged, entry_from_json
from dodona.ledger.errors import BudgetExhausted
from dodona.ledger.ledger import Ledger
from dodona.privacy.budget import FREE, Price
from dodona.privacy.events import Event
from dodona.query.canonical import query_digest
from dodona.query.query import Query
from dodona.query.question import Question
from dodona.trusted.gate import CONFIRMING, PredictionCheck

AccountPrices = tuple[float, float]
"""Of an event, in each account of the budget; infinite where it cannot be paid there."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The outcome for a question: an answer or None, and the charge for opening an epoch."""

    held: Found | None
    price: Price = FREE
    opened: Event | None = None


_NOT_CONFIRMED = Confirmation(None)


@dataclass(slots=True)
class _OpenEpoch:
    epoch: Epoch
    check: PredictionCheck
    receipt: str


@dataclass(slots=True)
class Confirmer:
    """Confirmed predictions for one dataset and analyst.

    Theorem: confirmed-answer
    """

    desk: Desk
    tracker: ModelTracker
    _open: _OpenEpoch | None = None
    _confirmed: dict[str, tuple[int, ConfirmedLaw]] = field(default_factory=dict)
    """Confirmed answers by the digest of their question: asked again, they are earlier again."""
    _spent: set[str] | None = None
    """The receipts that an epoch was opened for before; None until they were looked up."""
    _counted: int = 0
    _paid: list[float] = field(default_factory=lambda: [0.0, 0.0])
    _earned: dict[float, tuple[int, AccountPrices]] = field(default_factory=dict)
    """By failure probability: how many predictions were counted, and what those that were right have cost."""
    _prices: dict[Event, AccountPrices] = field(default_factory=dict)

    @property
    def dataset(self) -> Dataset:
        """The dataset that is queried."""
        return self.desk.dataset

    def answer(
        self, question: Question, tolerance: float, failing: float, single: Callable[[], Event], most: Fraction
    ) -> Confirmation:
        """Return the confirmed prediction of one count, if that is the cheaper way.

        `single` returns the event of measuring it; `most` is the largest share of the budget the call may take.
        """
        query = question.query
        with self.tracker.lock:
            earlier = self._confirmed.get(query_digest(query))
            if earlier is not None and half_width(earlier[1], failing) <= tolerance:
                return Confirmation(
                    Found(make_derived_values(question, [(earlier[0],)], [earlier[1]]), "replayed", None, reused=True)
                )
            epoch = self._usable(tolerance, failing)
            if epoch is None:
                return _NOT_CONFIRMED
            law, prediction, chance = self._judged(epoch, query, tolerance, failing)
            if law is None or not _is_cheaper(chance, self._priced(epoch.event), self._priced(single())):
                return _NOT_CONFIRMED
            price = FREE
            if self._open is None:
                opened = self._opened(epoch, single(), most)
                if opened is None:
                    return _NOT_CONFIRMED
                price = opened
            return Confirmation(self._checked(question, law, prediction), price, None if price is FREE else epoch.event)

    def chance(self, question: Question, tolerance: float, failing: float, single: Callable[[], Event]) -> float | None:
        """Return the probability that an open check confirms a prediction; None if no check is open or worth using."""
        with self.tracker.lock:
            if self._open is None:
                return None
            law, _, failed = self._judged(self._open.epoch, question.query, tolerance, failing)
            cheaper = law is not None and _is_cheaper(
                failed, self._priced(self._open.epoch.event), self._priced(single())
            )
            return 1 - failed if cheaper else None

    def _usable(self, tolerance: float, failing: float) -> Epoch | None:
        """Return the open epoch, or a new one that has paid for itself."""
        if self._open is not None and self._open.check.open:
            return self._open.epoch
        self._open = None
        unit = self.dataset.schema.unit
        draft = draft_epoch(tolerance, failing, unit)
        if draft is None or not self._could_pay(self._priced(draft.event)):
            return None
        epoch = design_epoch(tolerance, failing, unit)
        return epoch if epoch is not None and self._has_paid(epoch, failing) else None

    def _judged(
        self, epoch: Epoch, query: Query, tolerance: float, failing: float
    ) -> tuple[ConfirmedLaw | None, int, float]:
        """Return the comparison law of a prediction, the prediction, and its failure probability."""
        model = self.tracker.follow()
        law, predicted = epoch.law(tolerance, failing), model.predict(query, self.tracker.rows)
        if law is None or predicted is None:
            return None, 0, 1.0
        kind = self.tracker.kind(query)
        return law, round(float(predicted[0])), self.tracker.hindsight.failing(kind, epoch, law)

    def _opened(self, epoch: Epoch, single: Event, most: Fraction) -> Price | None:
        """Charge an epoch in full and open it; None if it does not fit together with the answer it may fail to save."""
        ledger = self.dataset.ledger
        if ledger.share(epoch.event) + ledger.share(single) > self.desk.allowed(most):
            return None
        checks = partial(PredictionCheck, epoch.mechanism)
        try:
            bought = self.desk.buy(Purchase(event=epoch.event, purpose=CONFIRMING, deliver=checks, max_price=most))
        except BudgetExhausted:
            return None
        self._open = _OpenEpoch(epoch, bought.item, bought.receipt.id)
        self._spend()
        return bought.price

    def _checked(self, question: Question, law: ConfirmedLaw, prediction: int) -> Found | None:
        opened, kind = self._open, self.tracker.kind(question.query)
        if opened is None:
            return None
        try:
            with mark_errors_charged():
                near = opened.check.near(question.query, prediction, law.threshold)
        except BaseException:
            self._open = None
            raise
        self.tracker.hindsight.checked(kind, near)
        if not near:
            self._open = None
            return None
        self._confirmed[query_digest(question.query)] = (prediction, law)
        return Found(make_derived_values(question, [(prediction,)], [law]), "confirmed", opened.receipt)

    def _could_pay(self, price: AccountPrices) -> bool:
        """Return whether all single answers since the last epoch cost at least as much, without fitting the model."""
        with self.tracker.memory.lock:
            learned = self.tracker.memory.follow().learned
            for one in learned[self._counted :]:
                self._counted += 1
                if isinstance(one, LearnedBlock) and one.single:
                    for place, own in enumerate(self._priced(one.event)):
                        self._paid[place] += own / one.blocks
        return all(own <= paid_for for own, paid_for in zip(price, self._paid, strict=True) if math.isfinite(own))

    def _has_paid(self, epoch: Epoch, failing: float) -> bool:
        """Return whether the answers since the last epoch that the model predicted well cost at least as much."""
        self.tracker.follow()
        spent = self._spent_before()
        first, sums = self._earned.get(failing, (0, (0.0, 0.0)))
        for one in self.tracker.predictions[first:]:  # each is counted once
            if one.learned.receipt not in spent and abs(one.distance) <= half_width(one.learned.noise, failing):
                pure, units = self._priced(one.learned.event)
                sums = sums[0] + pure / one.learned.blocks, sums[1] + units / one.learned.blocks
        self._earned[failing] = (len(self.tracker.predictions), sums)
        price = self._priced(epoch.event)
        return all(own <= total for own, total in zip(price, sums, strict=True) if math.isfinite(own))

    def _spend(self) -> None:
        """Mark past purchases as used: the next epoch has to be earned anew."""
        self._spent = self._spent_before() | {one.learned.receipt for one in self.tracker.predictions}
        self._paid = [0.0, 0.0]
        self._earned.clear()

    def _spent_before(self) -> set[str]:
        """Return the receipts of all charges before the last epoch, from the ledger."""
        if self._spent is None:
            self._spent = _before_last_epoch(self.dataset.ledger, self.dataset.name)
        return self._spent

    def _priced(self, event: Event) -> AccountPrices:
        found = self._prices.get(event)
        if found is None:
            shares = self.dataset.ledger.shares(event)
            known = (math.inf if own is None else float(own) for own in (shares.pure, shares.units))
            found = self._prices[event] = (next(known), next(known))
        return found


def _is_cheaper(chance: float, epoch: AccountPrices, single: AccountPrices) -> bool:
    """Return whether the expected loss of an epoch is less than a single answer, in every active account."""
    live = [(own, other) for own, other in zip(epoch, single, strict=True) if math.isfinite(own)]
    return bool(live) and all(chance * own < other for own, other in live)


def _before_last_epoch(ledger: Ledger, dataset: str) -> set[str]:
    found: set[str] = set()
    waiting: set[str] = set()
    for line in ledger.lines():
        match entry_from_json(line.text, number=line.number):
            case Charged() as charged if charged.dataset == dataset:
                waiting.add(line.hash)
                if charged.purpose == CONFIRMING:
                    found |= waiting
                    waiting.clear()
            case _:
                pass
    return found
