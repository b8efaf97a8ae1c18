"""Offers: the price of questions, the expected accuracy, the reason for the price, and other ways."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from statistics import median_low
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.evaluation import evaluate
from dodona.answer.laws import Evidence
from dodona.answer.offer import ExpectedAccuracy, Offer
from dodona.curator.beyond_budget import explain_options
from dodona.curator.demands import Resolved, distinct_questions
from dodona.curator.desk import alternatives, explain_price_above_epsilon, explain_price_refusal
from dodona.curator.planner import PurchaseOrder
from dodona.curator.request import Request
from dodona.ledger.errors import Alternative
from dodona.numbers import format_percent
from dodona.privacy.accuracy import to_failure_probability
from dodona.privacy.budget import FREE, Price
from dodona.query.question import KeyLabel, Question, Total

if TYPE_CHECKING:
    from dodona.curator.ladder import Call, Ladder

_SHOWN, _NAMED = 10, 6


def make_offer(ladder: Ladder, asked: tuple[Question, ...], request: Request) -> Offer:
    """Return the price of questions and the expected accuracy; nothing is spent."""
    call = ladder.resolve(distinct_questions(asked, request)[0], request, None)
    ladder.climb_free(call)
    dataset = ladder.desk.dataset
    left = dataset.ledger.left(analyst=ladder.desk.analyst)
    order = ladder.plan_order(call) if call.missing else None
    price = FREE if order is None else Price(order.share, (order.event,), ladder.budget.delta)
    known = next((origin for origin in call.origins if origin is not None), None)
    words, instead = _explain_price(ladder, call, price, left)
    words += _explain_bundle(ladder, call, order)
    return Offer(
        question=asked[0],
        foreseen=not all(isinstance(column.expression, Total | KeyLabel) for column in asked[0].columns),
        price=price,
        source="measured" if order is not None or known is None else known.source,
        mechanism=order.described if order is not None else "earlier releases",
        accuracy=tuple(_expect_accuracy(ladder, call, order)),
        confidence=request.confidence,
        allowed=ladder.desk.allowed(request.max_price),
        explanation=" ".join(words),
        about=dataset.about,
        alternatives=instead,
    )


def _expect_accuracy(ladder: Ladder, call: Call, order: PurchaseOrder | None) -> Iterator[ExpectedAccuracy]:
    """Yield the expected accuracy of each column, the first ten as ranges; of several questions, the first ten."""
    from dodona.curator.forecast import Forecaster

    start = 0
    for resolved, measured in islice(zip(call.asked, call.measured, strict=True), _SHOWN):
        question = resolved.question
        if measured is not None:
            yield from _known_accuracy(measured, call.request)
            continue
        bundled = order is None or order.bundle is not None
        if bundled and question.total_columns is not None:
            yield from _requested_accuracy(resolved)
            continue
        if order is None or order.bundle is not None:  # as accurate as if it were measured by itself, about
            noises = ladder.planner.plan((question,), call.request).measurement.noises
        else:
            noises = order.measurement.noises[start : start + len(question.query.blocks)]
            start += len(noises)
        with ladder.releases.lock:
            forecaster = Forecaster(ladder.releases.follow(), ladder.desk.dataset.schema.unit)
            yield from [
                forecaster.expected(question, *column, noises, call.request, ranges=place < _SHOWN)
                for place, column in enumerate(question.noisy_columns)
            ]


def _explain_price(
    ladder: Ladder, call: Call, price: Price, left: Fraction
) -> tuple[list[str], tuple[Alternative, ...]]:
    """Return in words whether the price fits the remaining budget and how it is handled if not, and what would fit."""
    most = call.request.max_price
    exhausted = price.share > left
    limit = ladder.desk.dataset.ledger.allowance(analyst=ladder.desk.analyst)
    limited = limit is not None and price.share > limit.share
    allowed = ladder.desk.allowed(most)
    best = ladder.affordable(call, allowed) if price.share > allowed else None
    words, allow = None if best is None else best.words, None
    after = ladder.desk.dataset.after
    explained = [explain_options(left, len(call.asked), dear=exhausted, best=words, after=after)]
    if limit is not None and limited and not exhausted:
        explained.append(f"The owner allows {format_percent(limit.share)} ({limit.reason}), so it would be refused.")
        explained += [] if best is None else [f"{best}."]
    elif not exhausted and price.share > most:
        explained.append(explain_price_refusal(price.share, most, best))
        allow = price.share
    why = explain_price_above_epsilon(price, ladder.budget)
    return [*explained, why] if why else explained, alternatives(best, allow=allow)


def _explain_bundle(ladder: Ladder, call: Call, order: PurchaseOrder | None) -> list[str]:
    """Return what a bundle is good for, and what a single question would cost alone; of many that is slow to say."""
    if order is None or order.bundle is None:
        return []
    names = sorted(frozenset[str]().union(*(block.attributes for block in order.measurement.query.blocks)))
    about = ", ".join(names) if len(names) <= _NAMED else f"these {len(names)} columns"
    explained = [f"This buys more than the answer: most later questions about {about} at this accuracy are free."]
    if len(call.missing) == 1:
        alone = ladder.planner.plan((call.missing[0].question,), call.request).share
        explained.append(f"Measured alone, with fresh=True, it would take {format_percent(alone)}.")
    return explained if names else explained[1:]


def _requested_accuracy(asked: Resolved) -> Iterator[ExpectedAccuracy]:
    """Yield the requested accuracy: answers from a bundle are at least that accurate."""
    for name, tolerance in asked.tolerances():
        yield ExpectedAccuracy(name, tolerance)


def _known_accuracy(evidence: Evidence, request: Request) -> Iterator[ExpectedAccuracy]:
    """Yield the accuracy of the columns whose values are already known."""
    for column, _ in evidence.question.noisy_columns:
        if column in evidence.question.columns:
            band = evaluate(column.expression, evidence, to_failure_probability(request.confidence))
            away = np.where(np.isnan(band.value), np.inf, np.maximum(band.high - band.value, band.value - band.low))
            finite = away[np.isfinite(away)]
            worst = float(away.max())
            if isinstance(column.expression, Total) or not finite.size or worst <= 2 * finite.min():
                yield ExpectedAccuracy(column.name, worst)
            else:  # a group that hardly anyone is in says nothing about the others
                yield ExpectedAccuracy(column.name, median_low(finite.tolist()), float(finite.min()), worst)
