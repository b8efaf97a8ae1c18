"""Answering: told again where it was told before, else measured. The path from a question to an answer, one way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, islice, pairwise

from dodona.answer.answer import Answer, Rung, answer_of
from dodona.answer.measured import Measured
from dodona.answer.offer import Expected, Offer
from dodona.answer.prediction import predicted
from dodona.answer.price import FREE, Price
from dodona.ledger.faults import KeyReused
from dodona.ledger.release import Release
from dodona.mechanisms.measurement import Noise, noises_from, spelled
from dodona.online.chance import paid
from dodona.online.dataset import Dataset
from dodona.online.memory import Memory
from dodona.online.planning import Planned, Planner, epsilon_alone, shaped_columns
from dodona.online.request import Request
from dodona.query.canonical import digest
from dodona.query.question import Column, Question
from dodona.trusted.release import release

_LONGEST_TEXT = 10_000
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class _Values:
    """Noisy integers of all blocks of some questions, their noise, and where they came from."""

    values: Sequence[int]
    noises: tuple[Noise, ...]
    receipt: str
    source: Rung
    price: Price = FREE


class Answering:
    """The rungs of one dataset for one analyst: replay, then measure."""

    def __init__(self, dataset: Dataset, analyst: str | None) -> None:
        """Take an open dataset."""
        self._dataset, self._analyst = dataset, analyst
        ledger, schema = dataset.ledger, dataset.schema
        self._delta = ledger.state().total.delta
        self._planner = Planner(schema.unit, self._delta, ledger.share)
        self._memory = Memory(ledger, schema.domain, dataset=dataset.name, version=dataset.source.version)

    def answers(self, asked: tuple[Question, ...], request: Request, key: str | None) -> tuple[Answer, ...]:
        """Return the answers to questions by the cheapest way that is accurate enough; one charge, or none."""
        planned = self._planner.plan(asked, request)
        found = self._recalled(asked, request, planned) if key is None else self._fetched(key, planned)
        if found is None:
            found = self._measured(asked, planned, key)
        return self._cut(asked, request, found)

    def offer(self, asked: tuple[Question, ...], request: Request) -> Offer:
        """Return what questions would cost; nothing is spent."""
        planned = self._planner.plan(asked, request)
        found = self._recalled(asked, request, planned)
        noises = planned.measurement.noises if found is None else found.noises
        left = self._dataset.ledger.left(analyst=self._analyst)
        price = self._price(planned) if found is None else FREE
        return Offer(
            question=asked[0],
            price=price,
            source="measured" if found is None else "replayed",
            mechanism=spelled(noises),
            accuracy=tuple(self._expected(asked, noises, request)),
            confidence=request.confidence,
            explanation=_explained(price, left, len(asked)),
        )

    def _expected(self, asked: tuple[Question, ...], noises: tuple[Noise, ...], request: Request) -> Iterator[Expected]:
        """Return what to expect of each column; of several questions, the first ten."""
        blocks = _spans(len(question.query.blocks) for question in asked)
        for question, (start, after) in islice(zip(asked, blocks, strict=True), _SHOWN):
            for column, _ in shaped_columns(question):
                yield Expected(column.name, self._error(question, column, noises[start:after], request))

    def _measured(self, asked: tuple[Question, ...], planned: Planned, key: str | None) -> _Values:
        """Charge, make it durable, then touch data."""
        ledger, source = self._dataset.ledger, self._dataset.source
        receipt = ledger.reserve(
            planned.event,
            analyst=self._analyst,
            key=key,
            purpose=digest(planned.measurement.query),
            version=source.version,
        )
        text = "; ".join(question.text for question in asked if question.text)[:_LONGEST_TEXT] or None
        unit = self._dataset.schema.unit
        with paid():
            released = release(planned.measurement, receipt, ledger=ledger, source=source, unit=unit, text=text)
        self._memory.expect(receipt.id, planned.measurement.query)
        return _read(released, "measured", self._price(planned))

    def _fetched(self, key: str, planned: Planned) -> _Values | None:
        """Return the answer that was paid for under a key."""
        released = self._dataset.ledger.fetch(key, analyst=self._analyst)
        if released is None:
            return None
        receipt = self._dataset.ledger.receipt(key, analyst=self._analyst)
        asked = (digest(planned.measurement.query), self._dataset.source.version, self._dataset.name)
        if receipt is None or (receipt.purpose, receipt.version, receipt.dataset) != asked:
            raise KeyReused(key)
        return _read(released, "replayed", FREE)

    def _recalled(self, asked: tuple[Question, ...], request: Request, planned: Planned) -> _Values | None:
        """Return what was told before of all blocks, if it is as accurate as what would be measured."""
        told = self._memory.recall(planned.measurement.query)
        if told is None:
            return None
        best = [one[0] for one in told]
        noises = tuple(one.noise for one in best)
        for question, (start, after) in zip(asked, _spans(len(q.query.blocks) for q in asked), strict=True):
            if after - start > 1 and len({id(one) for one in best[start:after]}) < after - start:
                return None  # one noise in two places: intervals count on noises that know nothing of each other
            new, old = planned.measurement.noises[start:after], noises[start:after]
            if old != new and any(
                self._error(question, column, old, request) > self._error(question, column, new, request)
                for column, _ in shaped_columns(question)
            ):
                return None
        return _Values([value for one in best for value in one.values], noises, best[0].receipt, "replayed")

    def _error(self, question: Question, column: Column, noises: tuple[Noise, ...], request: Request) -> float:
        rows = self._dataset.schema.unit.size
        return predicted(question, column, noises, confidence=request.confidence, rows=rows)

    def _cut(self, asked: tuple[Question, ...], request: Request, found: _Values) -> tuple[Answer, ...]:
        """Return one answer for each question; each tells the price of the whole batch."""
        head, version = self._dataset.ledger.head, self._dataset.source.version
        blocks = _spans(len(question.query.blocks) for question in asked)
        values = _spans(question.query.values for question in asked)
        return tuple(
            answer_of(
                Measured(question, found.values[first:last], found.noises[start:after]),
                confidence=request.confidence,
                source=found.source,
                price=found.price,
                receipt=found.receipt,
                head=head,
                version=version,
                size=self._dataset.schema.unit.size,
            )
            for question, (start, after), (first, last) in zip(asked, blocks, values, strict=True)
        )

    def _price(self, planned: Planned) -> Price:
        return Price(planned.share, epsilon_alone(planned.event, self._delta))


def _explained(price: Price, left: Fraction, questions: int) -> str:
    """Return whether the price fits what is left, in words."""
    several = "" if questions == 1 else f" for {questions} questions together"
    if price.share <= left:
        return f"You have {100 * float(left):.4g}% of the budget left{several}."
    return f"You have {100 * float(left):.4g}% of the budget left{several}: it would be refused. Ask for less accuracy."


def _read(released: Release, source: Rung, price: Price) -> _Values:
    """Return a release's integers; noisy answers are never fractions."""
    values = tuple(int(value) for value in released.values)
    return _Values(values, noises_from(released.mechanism), released.receipt, source, price)


def _spans(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Return begin and end of parts that stand one after the other.

    >>> list(_spans([2, 3]))
    [(0, 2), (2, 5)]
    """
    return pairwise(accumulate(sizes, initial=0))
