"""The ladder that every question climbs: replay, derive, confirm, and only then measure.

What is measured is charged first and made durable before the data are touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import islice

import numpy as np

from dodona.answer.answer import Answer, make_answer
from dodona.answer.derived import Evidence
from dodona.answer.evaluation import evaluate
from dodona.answer.offer import ExpectedAccuracy, Offer
from dodona.answer.tolerance import validate_tolerances
from dodona.curator.beyond_budget import BeyondBudget, best_affordable, explain_options
from dodona.curator.confirm import Confirmer
from dodona.curator.desk import (
    AffordableRequest,
    Desk,
    explain_price_above_epsilon,
    explain_price_refusal,
    mark_errors_charged,
)
from dodona.curator.lookup import Aim, Finder, PendingQuestion, ResolvedAnswer, distinct_questions, read_release
from dodona.curator.planner import Planner, standalone_epsilon
from dodona.curator.predictions import ModelTracker
from dodona.curator.rent_or_buy import Buyer, CountDemand, PurchaseOrder, RentOrBuyRule
from dodona.curator.request import Request
from dodona.errors import InvariantBroken
from dodona.knowledge.releases import ReleasedBlocks
from dodona.ledger.entries import Release
from dodona.ledger.errors import BudgetExhausted, KeyReused, ReceiptReused
from dodona.numbers import format_percent
from dodona.privacy.accuracy import to_failure_probability
from dodona.privacy.budget import FREE, Price
from dodona.query.canonical import query_digest
from dodona.query.query import Query
from dodona.query.question import Question
from dodona.trusted.gate import read_public_rows, release_measurement

# --- What was prepared: a workload that was declared, and what was bought so that all of it follows. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedWorkload:
    """How many questions are now free, and what that cost."""

    questions: int
    price: Price
    bought: str

    def __str__(self) -> str:
        return f"Prepared {self.questions} questions. Price: {self.price}. Bought: {self.bought}."

    __repr__ = __str__


# --- Answering: the ladder. Told again, else derived, else confirmed, else bought. The path of every question. ---


RUNGS = frozenset(("replay", "derive", "confirm", "bundle"))
"""The rungs that can be left out; the last one, to measure, is always there."""
_LONGEST_TEXT = 10_000
_SHOWN = 10
_MOST_LOOKS = 8  # after which a call goes on, however much others release meanwhile


@dataclass(frozen=True, slots=True)
class AnalystCall:
    """One call of an analyst."""

    key: str | None
    seen: int | None
    """How many releases were read before the call looked for its answer; None where new noise is wanted anyway."""
    looks: int = 0
    """How often it looked before."""


@dataclass(frozen=True, slots=True)
class ChargedRelease:
    """What a charge bought."""

    released: Release
    price: Price


class AnswerLadder:
    """The rungs of one dataset for one analyst."""

    def __init__(self, desk: Desk, rungs: frozenset[str] = RUNGS) -> None:
        """Take the desk of an open dataset."""
        self._desk, self._rungs = desk, rungs
        dataset = self._dataset = desk.dataset
        self._analyst = desk.analyst
        ledger, schema = dataset.ledger, dataset.schema
        self._budget = ledger.state().total
        self._delta = self._budget.delta
        self._planner = Planner(schema.unit, self._delta, ledger.share)
        version, rows = dataset.source.version, partial(read_public_rows, dataset.source, schema.domain, schema.unit)
        self._memory = ReleasedBlocks(ledger, schema.domain, dataset=dataset.name, version=version, rows=rows)
        self._finder = Finder(self._memory, rungs, schema.unit.size)
        rule = RentOrBuyRule(schema.domain, schema.unit, self._memory.knowledge)
        self._buyer = Buyer(self._planner, rule, ledger.shares, ledger.share, rungs)
        follower = ModelTracker(self._memory, schema.unit.size)
        self._confirmer, self._beyond = Confirmer(desk, follower), BeyondBudget(follower)

    def answers(self, asked: tuple[Question, ...], request: Request, key: str | None) -> tuple[Answer, ...]:
        """Return the answers to questions by the cheapest way that is accurate enough; one charge, or none."""
        once, places = distinct_questions(asked, request)
        if key is not None:
            fetched = self._fetched(once, request, key)
            if fetched is not None:
                return self._answered(_spread(fetched, asked, places), request)
        call = self._call(key, request)
        resolved = self._resolved(once, request)
        found = self._all_found(resolved, request)
        missing = _missing(resolved, found)
        if missing:
            bought = iter(self._or_beyond(missing, request, call))
            found = [next(bought) if held is None else held for held in found]
        known = [held for held in found if held is not None]
        charged = any(held.price.share > 0 for held in known)
        with mark_errors_charged() if charged else nullcontext():
            return self._answered(_spread(known, asked, places), request)

    def prepare(self, asked: tuple[Question, ...], request: Request, key: str | None) -> PreparedWorkload:
        """Buy the cheapest measurement that all questions follow from; those that do already cost nothing."""
        looks, resolved = 0, self._resolved(distinct_questions(asked, request)[0], request)
        while True:
            call = self._call(key, request, looks)
            looks += 1
            missing = _missing(resolved, self._all_found(resolved, request))
            if not missing:
                return PreparedWorkload(
                    questions=len(asked), price=FREE, bought="nothing: all of it follows from what was told"
                )
            order = self._together(missing, request)
            bought = self._release(order, missing, request, call)
            if bought is not None:
                return PreparedWorkload(questions=len(asked), price=bought.price, bought=order.described)

    def offer(self, asked: tuple[Question, ...], request: Request) -> Offer:
        """Return what questions would cost; nothing is spent."""
        resolved = self._resolved(distinct_questions(asked, request)[0], request)
        found = self._all_found(resolved, request)
        missing = _missing(resolved, found)
        left = self._dataset.ledger.left(analyst=self._analyst)
        order = self._order(missing, request) if missing else None
        price = FREE if order is None else self._price(order)
        held = next((one for one in found if one is not None), None)
        return Offer(
            question=asked[0],
            price=price,
            source="measured" if order is not None or held is None else held.source,
            mechanism=order.described if order is not None else "what was told before",
            accuracy=tuple(self._expected(resolved, found, order, request)),
            confidence=request.confidence,
            allowed=min(left, request.max_price),
            explanation=" ".join(
                self._explained(price, left, resolved, request) + self._hinted(missing, order, request)
            ),
            about=self._dataset.about,
        )

    def _resolved(self, asked: Sequence[Question], request: Request) -> list[PendingQuestion]:
        aim = Aim(request, size=self._dataset.schema.unit.size)
        return [PendingQuestion(question, aim) for question in asked]

    def _all_found(self, asked: Sequence[PendingQuestion], request: Request) -> list[ResolvedAnswer | None]:
        """Return for each question what its answer is, where it is free."""
        if request.within is not None:
            validate_tolerances(request.within, _questions(asked))
        found = [self._finder.exact(one.question) for one in asked]
        if request.fresh:
            return found
        left = [place for place, held in enumerate(found) if held is None]
        counts = [place for place in left if asked[place].demands is not None]
        if len(counts) < len(
            left
        ):  # more than counts and sums: what is told again is as good as what would be measured
            noises = self._planner.plan([asked[place].question for place in left], request).measurement.noises
            start = 0
            for place in left:
                question = asked[place].question
                planned = noises[start : start + len(question.query.blocks)]
                start += len(planned)
                if asked[place].demands is None:
                    found[place] = self._finder.replay(question, planned, request)
        for place, held in zip(counts, self._finder.find([asked[place] for place in counts]), strict=True):
            found[place] = held
        return found

    def _call(self, key: str | None, request: Request, looks: int = 0) -> AnalystCall:
        """Return what a call knows before it looks at what was released."""
        if "replay" not in self._rungs or request.fresh:
            return AnalystCall(key, None)
        self._memory.follow()
        return AnalystCall(key, self._memory.seen, looks)

    def _or_beyond(
        self, missing: Sequence[PendingQuestion], request: Request, call: AnalystCall
    ) -> list[ResolvedAnswer]:
        """Return what is confirmed or bought; where the budget cannot buy it, what the owner chose."""
        try:
            return [*self._confirmed(missing, request, call)]
        except BudgetExhausted as refused:
            guessing = self._dataset.after == "model" and not request.fresh
            guesses = (
                self._beyond.guesses(_questions(missing), to_failure_probability(request.confidence))
                if guessing
                else None
            )
            if guesses is not None:
                return guesses
            if refused.best is not None:
                raise
            best = self._best(missing, request, self._allowed(request))
            raise BudgetExhausted(
                asked=refused.asked,
                left=refused.left,
                of=refused.of,
                best=None if best is None else best.words,
                why=refused.why,
            ) from None

    def _confirmed(
        self, missing: Sequence[PendingQuestion], request: Request, call: AnalystCall
    ) -> Iterator[ResolvedAnswer]:
        """Yield the confirmed prediction of one count, where that is cheaper; else buy what is missing."""
        checking = len(missing) == 1 and "confirm" in self._rungs and not request.fresh
        wanted = _count_demand(missing[0]) if checking else None
        if wanted is None or wanted.facet.grouped:
            yield from self._bought(missing, request, call)
            return
        found = self._confirmer.answer(
            missing[0].question,
            wanted.room,
            wanted.failing,
            lambda: self._planner.plan(_questions(missing), request).event,
            request.max_price,
        )
        if found.opened is not None:  # what an epoch costs is rent too, which a bundle would have saved
            request = replace(request, max_price=request.max_price - found.price.share)
            noise = self._planner.plan(_questions(missing), request).measurement.noises[0]
            with self._memory.lock:
                self._memory.knowledge.asked.pay(wanted.facet, noise, found.opened, 1)
        held = next(self._bought(missing, request, call)) if found.held is None else found.held
        yield held if found.opened is None else replace(held, price=held.price.plus(found.price))

    def _bought(
        self, missing: Sequence[PendingQuestion], request: Request, call: AnalystCall
    ) -> Iterator[ResolvedAnswer]:
        """Buy what is missing, all at once, and yield what is then known of each question.

        Where another caller was asking the same, what they were told is told here too, for nothing.
        """
        before = bool(self._memory.draws)
        while True:
            order = self._order(missing, request, call.key)
            try:
                bought = self._release(order, missing, request, call)
            except BudgetExhausted:
                if order.bundle is None:
                    raise
                order = self._buyer.alone(
                    _questions(missing), request
                )  # of two accounts, the one with more left refused it
                bought = self._release(order, missing, request, call)
            if bought is not None:
                break
            call = self._call(call.key, request, call.looks + 1)
            shared = self._shared(missing, request, call)
            if shared is not None:
                yield from shared
                return
        if order.bundle is None:
            yield from read_release(bought.released, _questions(missing), bought.price)
            return
        with mark_errors_charged():
            learned = self._finder.find(missing)  # a bundle is bought for counts alone
        for one, known in zip(missing, learned, strict=True):
            held = self._paid_for(one) if known is None else known
            yield held.bought(bought.released.receipt, bought.price, reused=before)

    def _shared(
        self, missing: Sequence[PendingQuestion], request: Request, call: AnalystCall
    ) -> list[ResolvedAnswer] | None:
        """Return what is known once another caller was answered; None where that is not all of it."""
        if call.key is not None:
            fetched = self._fetched(_questions(missing), request, call.key)
            if fetched is not None:
                return fetched
        known = [held for held in self._all_found(missing, request) if held is not None]
        return known if len(known) == len(missing) else None

    def _paid_for(self, asked: PendingQuestion) -> ResolvedAnswer:
        """Return what a bundle says of a question that it was bought for, however accurate that is.

        It was seen to be accurate enough before it was charged. Only what others released meanwhile can change that, by
        a rounding: then the answer has the interval that it has.
        """
        held = self._finder.find_anyhow(asked)
        if held is None:
            raise InvariantBroken("What was bought does not answer the question.", charged=True)
        return held

    def _order(self, missing: Sequence[PendingQuestion], request: Request, key: str | None = None) -> PurchaseOrder:
        if request.fresh:
            return self._buyer.alone(_questions(missing), request)
        if len(missing) > 1:
            return self._together(missing, request)
        wanted, ledger = _count_demand(missing[0]), self._dataset.ledger
        left = self._allowed(request)
        paid_for = None if key is None else ledger.receipt(key, analyst=self._analyst)
        if paid_for is not None:  # charged and not measured: it fits, as it did then
            left += ledger.share(paid_for.event)
        with self._memory.lock:
            return self._buyer.single(missing[0].question, request, wanted, left)

    def _together(self, missing: Sequence[PendingQuestion], request: Request) -> PurchaseOrder:
        wanted = [_count_demand(one) for one in missing]
        known = [own for own in wanted if own is not None]
        with self._memory.lock:
            return self._buyer.together(_questions(missing), request, known if len(known) == len(wanted) else [])

    def _release(
        self, order: PurchaseOrder, missing: Sequence[PendingQuestion], request: Request, call: AnalystCall
    ) -> ChargedRelease | None:
        """Charge, make it durable, then touch data; None where another caller did just that, so that one looks again.

        What was taken over from a caller who died was charged to them.
        """
        if call.seen not in {None, self._memory.seen} and call.looks < _MOST_LOOKS:
            return None  # the look and the plan are of different moments: others who ask the same may plan another way
        ledger, source = self._dataset.ledger, self._dataset.source
        reserved = self._desk.charge_once(
            order.event,
            key=call.key,
            purpose=order.measurement.purpose,
            seen=call.seen,
            most=request.max_price,
            best=lambda most: self._best(missing, request, most),
        )
        if reserved is None:
            return None
        receipt = reserved.receipt
        text = "; ".join(one.question.text for one in missing if one.question.text)[:_LONGEST_TEXT] or None
        unit = self._dataset.schema.unit
        try:
            with mark_errors_charged():
                released = release_measurement(
                    order.measurement, receipt, ledger=ledger, source=source, unit=unit, text=text
                )
        except ReceiptReused:
            return None  # the hold was lost, with a connection, and another caller has taken the receipt over
        finally:
            ledger.let_go(receipt)
        self._memory.expect(receipt.id, order.measurement)
        return ChargedRelease(released, FREE if reserved.taken_over else self._price(order))

    def _fetched(self, asked: tuple[Question, ...], request: Request, key: str) -> list[ResolvedAnswer] | None:
        """Return what was paid for under a key; None where nothing was, or where it was not yet measured."""
        ledger, source = self._dataset.ledger, self._dataset.source
        receipt = ledger.receipt(key, analyst=self._analyst)
        if receipt is not None:
            ledger.wait_for(receipt)  # another process may be asking under the same key right now
        released = None if receipt is None else ledger.fetch(key, analyst=self._analyst)
        if released is None or receipt is None:
            return None
        if (receipt.version, receipt.dataset) != (source.version, self._dataset.name):
            raise KeyReused(key)
        if receipt.purpose == query_digest(_stack_queries(asked)):
            return [
                replace(held, source="replayed", price=FREE, reused=True)
                for held in read_release(released, asked, FREE)
            ]
        found = self._all_found(self._resolved(asked, request), request)
        known = [held for held in found if held is not None]
        if len(known) < len(found):
            raise KeyReused(key)
        return known

    def _answered(self, found: Sequence[ResolvedAnswer], request: Request) -> tuple[Answer, ...]:
        dataset, draws, head = self._dataset, self._memory.draws, self._dataset.ledger.head
        version, unit, about = dataset.source.version, dataset.schema.unit, dataset.about
        return tuple(
            [
                make_answer(
                    held.measured,
                    confidence=request.confidence,
                    source=held.source,
                    price=held.price,
                    receipt=held.receipt,
                    head=head,
                    version=version,
                    size=unit.size,
                    rows=unit.rows,
                    about=about,
                    reused=held.reused,
                    draws=draws,
                )
                for held in found
            ]
        )

    def _price(self, order: PurchaseOrder) -> Price:
        return Price(order.share, standalone_epsilon(order.event, self._delta))

    def _expected(
        self,
        asked: Sequence[PendingQuestion],
        found: Sequence[ResolvedAnswer | None],
        order: PurchaseOrder | None,
        request: Request,
    ) -> Iterator[ExpectedAccuracy]:
        """Yield what to expect of each column, of the first ten as a range; of several questions, the first ten."""
        from dodona.curator.forecast import Forecaster

        start = 0
        for one, held in islice(zip(asked, found, strict=True), _SHOWN):
            question = one.question
            blocks, known = len(question.query.blocks), None if held is None else held.measured
            if known is not None:
                yield from _known_accuracy(known, request)
                continue
            if order is not None and order.alone is not None:
                noises = order.alone.noises[start : start + blocks]
                start += blocks
            else:
                yield from _requested_accuracy(one)
                continue
            with self._memory.lock:
                forecaster = Forecaster(self._memory.follow(), self._dataset.schema.unit.size)
                shaped = question.noisy_columns
                yield from [
                    forecaster.expected(question, *column, noises, request, ranges=place < _SHOWN)
                    for place, column in enumerate(shaped)
                ]

    def _explained(self, price: Price, left: Fraction, asked: Sequence[PendingQuestion], request: Request) -> list[str]:
        """Return whether the price fits what is left, in words; where it does not, what becomes of the question."""
        dear = price.share > left
        best = (
            self._best(asked, request, min(left, request.max_price))
            if price.share > request.max_price or dear
            else None
        )
        tolerance = None if best is None else best.words
        found = [explain_options(left, len(asked), dear=dear, best=tolerance, after=self._dataset.after)]
        if not dear and price.share > request.max_price:
            found.append(explain_price_refusal(price.share, request.max_price, best))
        why = explain_price_above_epsilon(price, self._budget)
        return [*found, why] if why else found

    def _allowed(self, request: Request) -> Fraction:
        """Return what this call may take of the budget."""
        return min(request.max_price, self._dataset.ledger.left(analyst=self._analyst))

    def _best(self, asked: Sequence[PendingQuestion], request: Request, most: Fraction) -> AffordableRequest | None:
        """Return nearly the best accuracy that a part of the budget buys; several questions may be bought together."""

        def share(wish: Request) -> Fraction:
            return self._order(self._resolved(_questions(asked), wish), wish).share

        return best_affordable(share, request, most, pure=self._delta == 0)

    def _hinted(self, missing: Sequence[PendingQuestion], order: PurchaseOrder | None, request: Request) -> list[str]:
        """Return how likely it is free after all, and what `prepare` would cost."""
        hints = [*self._prepared(missing, order)]
        wanted = _count_demand(missing[0]) if len(missing) == 1 and "confirm" in self._rungs else None
        if wanted is not None and not wanted.facet.grouped:
            single = self._planner.plan(_questions(missing), request).event
            chance = self._confirmer.chance(missing[0].question, wanted.room, wanted.failing, lambda: single)
            if chance is not None:
                hints.append(
                    f"An open check makes it free, if it holds what the model says: {100 * chance:.0f}% likely."
                )
        return hints

    def _prepared(self, missing: Sequence[PendingQuestion], order: PurchaseOrder | None) -> Iterator[str]:
        """Yield what `prepare` would cost, where it would buy more than is bought now."""
        wanted = _count_demand(missing[0]) if len(missing) == 1 and order is not None else None
        widest = None if wanted is None or "bundle" not in self._rungs else self._buyer.widest(wanted)
        if widest is not None and order is not None and order.bundle is None:
            share = self._dataset.ledger.share(widest.event)
            yield f"To prepare {widest.level.value} would cost {format_percent(share)}."


def _questions(asked: Sequence[PendingQuestion]) -> tuple[Question, ...]:
    return tuple([one.question for one in asked])


def _spread(found: Sequence[ResolvedAnswer], asked: Sequence[Question], places: Sequence[int]) -> list[ResolvedAnswer]:
    """Return what is known of each question, from what is known of those that differ in meaning."""
    if len(found) == len(asked):
        return list(found)
    spread = [(found[place], question) for place, question in zip(places, asked, strict=True)]
    return [replace(held, measured=replace(held.measured, question=question)) for held, question in spread]


def _missing(asked: Sequence[PendingQuestion], found: Sequence[ResolvedAnswer | None]) -> list[PendingQuestion]:
    """Return the questions whose answer is not free."""
    return [one for one, held in zip(asked, found, strict=True) if held is None]


def _count_demand(asked: PendingQuestion) -> CountDemand | None:
    """Return the demand of a question that is one count over classes."""
    demanded = asked.demands
    if demanded is None or len(demanded) != 1 or asked.facets[0] is None:
        return None
    return CountDemand(demanded[0].block, asked.facets[0], demanded[0].room, demanded[0].failing)


def _requested_accuracy(asked: PendingQuestion) -> Iterator[ExpectedAccuracy]:
    """Yield what was asked for: what follows from a bundle is at least that accurate."""
    for demand, (column, _) in zip(asked.demands or (), asked.question.noisy_columns, strict=True):
        yield ExpectedAccuracy(column.name, demand.room * float(demand.block.unit))


def _known_accuracy(told: Evidence, request: Request) -> Iterator[ExpectedAccuracy]:
    """Yield how far off the values of each column are that were told before, or follow from that."""
    for column, _ in told.question.noisy_columns:
        if column in told.question.columns:
            band = evaluate(column.expression, told, to_failure_probability(request.confidence))
            away = np.maximum(band.high - band.value, band.value - band.low)
            yield ExpectedAccuracy(column.name, float(np.where(np.isnan(band.value), np.inf, away).max()))


def _stack_queries(asked: Sequence[Question]) -> Query:
    return asked[0].query.stacked(*(question.query for question in asked[1:])) if len(asked) > 1 else asked[0].query
