"""The curator: the single path from questions to answers.

Every call validates, charges, makes the charge durable, and only then touches the data.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Self
from weakref import WeakValueDictionary

from dodona.answer.answer import Answer
from dodona.answer.offer import Offer
from dodona.curator.desk import WHOLE_BUDGET, Desk, mark_errors_charged
from dodona.curator.ladder import OPTIONAL_RUNGS, Ladder
from dodona.curator.lookup import answer_as_of
from dodona.curator.offers import make_offer
from dodona.curator.request import Dataset, Request, Tolerances, effective_max_price, make_request
from dodona.curator.shared import SharedKnowledge
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.ledger.errors import KeyReused
from dodona.ledger.limits import ApprovalRequest
from dodona.numbers import Exact, format_percent
from dodona.privacy.budget import BudgetState
from dodona.query.canonical import joint_digest
from dodona.query.query import Query
from dodona.query.question import Question, question_from_query
from dodona.query.statement import Statement
from dodona.schema.schema import Schema
from dodona.sql.compile import read_statement
from dodona.sql.statement import check_statement

if TYPE_CHECKING:  # imported lazily by the calls that need it
    from dodona.answer.computed import ComputedAnswer
    from dodona.answer.description import Description, History
    from dodona.answer.recorded import RecordedAnswer
    from dodona.answer.results import Choice, PreparedWorkload, WeightsAnswers
    from dodona.curator.watch import Watch
    from dodona.curator.weights import Weights

    AnyAnswer = Answer | ComputedAnswer | RecordedAnswer
    """An answer to a question, what a statement computed from several, or what EXPLAIN says."""

Progress = Callable[[int, int], None]
"""Is called with how many are done, and of how many."""


class Curator:
    """Answers questions about one dataset for one analyst. It is a context manager."""

    def __init__(
        self,
        dataset: Dataset,
        *,
        analyst: str | None = None,
        rungs: frozenset[str] = OPTIONAL_RUNGS,
        shared: SharedKnowledge | None = None,
    ) -> None:
        """Take an open dataset; nothing is charged. Rungs can be left out to measure what they save.

        Curators of one open dataset may share what was learned: see `for_analyst`.
        """
        self._dataset = dataset
        if not rungs <= OPTIONAL_RUNGS or ("bundle" in rungs and "derive" not in rungs):
            accepted = f"write some of {', '.join(sorted(OPTIONAL_RUNGS))}; what a bundle answers is derived from it"
            raise InvalidArgument("rungs", sorted(rungs), accepted)
        dataset.ledger.permit(analyst)
        self.desk = Desk(dataset, analyst)
        """Where whatever spends is charged."""
        self._ladder = Ladder(self.desk, rungs, shared=shared)
        self._closed = False
        self._keys: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._mutex = threading.Lock()

    @property
    def schema(self) -> Schema:
        """The schema of the dataset; all of it is public."""
        return self._dataset.schema

    @property
    def budget(self) -> BudgetState:
        """The spent and the remaining budget."""
        return self._dataset.ledger.state()

    @property
    def history(self) -> History:
        """All charges so far, oldest first."""
        from dodona.curator.description import read_history

        self._permit()
        return read_history(self._dataset.ledger, dataset=self._dataset.name)

    def for_analyst(self, analyst: str | None, *, max_day: Exact | None = None) -> Curator:
        """Return a curator of the same open dataset for another analyst; what was learned is shared, not read again.

        With `max_day` it refuses what would leave more than this share of the budget spent by the analyst on a day
        (UTC), through whatever door.
        Both are closed by closing one of them.
        """
        return Curator(self._dataset.within_day(max_day), analyst=analyst, shared=self._ladder.shared)

    def describe(self) -> Description:
        """Return the columns, the protected unit, the remaining budget and the defaults; all of it is public."""
        from dodona.curator.description import describe

        return describe(self._dataset, self.desk.analyst)

    def __repr__(self) -> str:
        if self._closed:
            return f"<Curator of {self._dataset.name}, closed>"
        schema, left = self.schema, self._dataset.ledger.left(analyst=self.desk.analyst)
        name = "" if self.desk.analyst is None else f" for {self.desk.analyst}"
        return (
            f"<Curator of {self._dataset.name}{name}: table {schema.table}, {len(schema.domain.attributes)} columns, "
            f"about {schema.unit.size:,} rows, {format_percent(left)} of the budget left; describe() tells more>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>" if self._closed else self.describe()._repr_html_()

    def ask(  # noqa: PLR0913  the surface of a question
        self,
        question: str | Query,
        *,
        within: Tolerances | None = None,
        confidence: float | None = None,
        epsilon: Exact | None = None,
        max_price: Exact | None = None,
        fresh: bool = False,
        key: str | None = None,
        as_of: str | None = None,
    ) -> AnyAnswer:
        """Return the answer to a question: replayed or derived if possible, otherwise measured and charged.

        With `as_of`, an older version of the data, it is an estimate from what was released about that version: free,
        marked as stale, and without `within` of any accuracy.

        A price above `max_price`, a share of the budget such as "2%", is refused; the default is set by the dataset.
        With `fresh` it is measured with new noise alone, so that the interval is valid for a question that was
        chosen because of earlier answers. With a key the same question is charged once, even if it is repeated
        after an interruption.
        """
        asked = self.read(question)
        request = self._request(within, confidence, epsilon, max_price, fresh=fresh)
        if isinstance(asked, Statement) and asked.explain:
            return self._explain_offer(asked, request)
        if as_of is not None:
            anyhow = within is None and epsilon is None
            answers = answer_as_of(self._ladder, _questions((asked,)), request, as_of, anyhow=anyhow)
            return _assemble((asked,), answers)[0]
        return self._answers((asked,), request, key, max_price)[0]

    def ask_if_free(  # noqa: PLR0913  the surface of a question
        self,
        question: str | Query,
        *,
        within: Tolerances | None = None,
        confidence: float | None = None,
        epsilon: Exact | None = None,
        max_price: Exact | None = None,
        fresh: bool = False,
        key: str | None = None,
    ) -> AnyAnswer | None:
        """Return the answer that `ask` would give for nothing, without reading any data; None if it is not free."""
        asked = self.read(question)
        request = self._request(within, confidence, epsilon, max_price, fresh=fresh)
        if isinstance(asked, Statement) and asked.explain:
            return self._explain_offer(asked, request)
        answers = self._ladder.free_answers(_questions((asked,)), request, key)
        return None if answers is None else _assemble((asked,), answers)[0]

    def recall(self, key: str, *, confidence: float | None = None) -> tuple[AnyAnswer, ...] | None:
        """Return again what was bought under a key, one answer for each of its questions; None if nothing was.

        It costs nothing. What was derived for nothing was not bought: ask it again.
        """
        request = self._request(None, confidence, None, None)
        answers = self._ladder.recalled(key, request, lambda text: _questions((self.read(text),)))
        return None if answers is None else self._reassemble(answers)

    def ask_many(  # noqa: PLR0913  the surface of a question
        self,
        questions: Iterable[str | Query],
        *,
        within: Tolerances | None = None,
        confidence: float | None = None,
        epsilon: Exact | None = None,
        max_price: Exact | None = None,
        fresh: bool = False,
        key: str | None = None,
        progress: Progress | None = None,
    ) -> tuple[AnyAnswer, ...]:
        """Return the answers to questions that are planned together and charged once: all or none.

        `max_price` applies to all of them together.
        """
        listed, request = _question_list(questions), self._request(within, confidence, epsilon, max_price, fresh=fresh)
        once, places = (listed, range(len(listed))) if fresh else _deduplicate(listed)
        asked: list[Question | Statement] = []
        for number, question in enumerate(once):
            asked.append(self.read(question))
            if progress is not None:
                progress(number + 1, len(once))
        if not asked:
            return ()
        answers = self._answers(tuple(asked), request, key, max_price)
        return answers if len(once) == len(listed) else tuple([answers[place] for place in places])

    def prepare(
        self,
        workload: Iterable[str | Query],
        *,
        within: Tolerances | None = None,
        confidence: float | None = None,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> PreparedWorkload:
        """Declare a workload and buy the cheapest measurement that answers all of it; its questions are then free.

        `quote` of the same list returns its price in advance.
        """
        listed = _question_list(workload)
        if not listed:
            raise InvalidRequest("There is nothing to prepare. Write a list of the questions that are coming.")
        asked = _questions(tuple(map(self.read, _deduplicate(listed)[0])))
        request = self._with_approval(self._request(within, confidence, None, max_price), asked, key, max_price)
        with self._key_lock(key):
            return self._ladder.prepare(asked, request, key)

    def quote(  # noqa: PLR0913  the surface of a question
        self,
        question: str | Query | Iterable[str | Query],
        *,
        within: Tolerances | None = None,
        confidence: float | None = None,
        epsilon: Exact | None = None,
        max_price: Exact | None = None,
        fresh: bool = False,
    ) -> Offer:
        """Return the price of a question, or of several together, and the expected accuracy; nothing is spent.

        It takes the same arguments as the call that spends, so that it describes exactly that call.
        """
        several = (question,) if isinstance(question, str | Query) else _question_list(question)
        if not several:
            raise InvalidRequest("There is no question to quote. Write one, or a list of them.")
        request = self._request(within, confidence, epsilon, max_price, fresh=fresh)
        asked = tuple(map(self.read, several if fresh else _deduplicate(several)[0]))
        offer = make_offer(self._ladder, _questions(asked), request)
        return offer.explaining() if all(isinstance(each, Statement) and each.explain for each in asked) else offer

    def request_approval(
        self,
        question: str | Query | Iterable[str | Query],
        *,
        key: str,
        within: Tolerances | None = None,
        confidence: float | None = None,
        epsilon: Exact | None = None,
    ) -> ApprovalRequest:
        """Ask the owner to approve a question, or several together, above the owner's limits; nothing is charged.

        Once it is granted, asking under the same key may take the price stated here, and no more. A decision is final.
        """
        if self.desk.analyst is None:
            raise InvalidRequest("A request for approval names its analyst. Open the dataset with analyst=.")
        several = (question,) if isinstance(question, str | Query) else _question_list(question)
        asked, ledger = _questions(tuple(map(self.read, _deduplicate(several)[0]))), self._dataset.ledger
        offer = make_offer(self._ladder, asked, self._request(within, confidence, epsilon, WHOLE_BUDGET))
        known, limit = ledger.approval(key, analyst=self.desk.analyst), ledger.allowance(analyst=self.desk.analyst)
        if known is None and (limit is None or offer.price.share <= limit.share):
            raise InvalidRequest("No limit forbids this question, so it needs no approval. Ask it.")
        return ledger.request_approval(
            analyst=self.desk.analyst,
            key=key,
            question=joint_digest(question.query for question in asked),
            share=offer.price.share,
            text="; ".join(dict.fromkeys(parsed.text for parsed in asked if parsed.text)) or "a query",
        )

    def choose(
        self,
        candidates: Mapping[str, Query] | str,
        *,
        epsilon: Exact,
        count: int = 1,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> Choice:
        """Return the names of the candidates with the largest answers, without the answers.

        Candidates are queries with one answer each, or the groups of a SQL question with one aggregate.
        """
        from dodona.curator.choose import choose_candidates

        self._permit()
        with self._key_lock(key):
            return choose_candidates(
                self.desk,
                self._read_question,
                candidates,
                epsilon=epsilon,
                count=count,
                most=self._most(max_price),
                key=key,
            )

    def above(  # noqa: PLR0913  a watch has this many sides
        self,
        threshold: int,
        *,
        epsilon: Exact,
        alerts: int = 1,
        questions: int = 1000,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> Watch:
        """Return a watch that reports which counts exceed a threshold, up to a number of alerts; charged in full here.

        With a key it survives its process: `above` with the same key and numbers resumes with the remaining alerts,
        free of charge. Reopening draws new noise for the threshold, which is paid for with a few of the alerts.
        """
        from dodona.curator.watch import open_watch

        self._permit()
        return open_watch(
            self.desk,
            self._read_question,
            threshold,
            epsilon=epsilon,
            alerts=alerts,
            questions=questions,
            most=self._most(max_price),
            key=key,
        )

    def weights(
        self,
        *,
        questions: int,
        epsilon: Exact,
        columns: Iterable[str] | None = None,
        confidence: float = 0.95,
        max_price: Exact | None = None,
    ) -> Weights:
        """Return multiplicative weights over some columns, for very many counts; charged in full here.

        All of `questions` counts are simultaneously within the design's error, at the confidence.
        """
        from dodona.curator.weights import open_weights

        self._permit()
        return open_weights(
            self.desk,
            self._read_question,
            questions=questions,
            epsilon=epsilon,
            columns=columns,
            confidence=confidence,
            most=self._most(max_price),
        )

    def ask_by_weights(  # noqa: PLR0913  weights have this many sides
        self,
        questions: Iterable[str | Query],
        *,
        epsilon: Exact,
        columns: Iterable[str] | None = None,
        confidence: float = 0.95,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> WeightsAnswers:
        """Return the answers to counts by multiplicative weights, charged once and recorded.

        With a key the same counts are charged once, and a repetition returns the recorded answers.
        """
        from dodona.curator.weights import answer_by_weights

        self._permit()
        with self._key_lock(key):
            return answer_by_weights(
                self.desk,
                self._read_question,
                _question_list(questions),
                epsilon=epsilon,
                columns=columns,
                confidence=confidence,
                most=self._most(max_price),
                key=key,
            )

    def read(self, question: object) -> Question | Statement:
        """Return a question, or a statement of several, as it was parsed; nothing is charged."""
        self._hold_open()
        match question:
            case str():
                asked = read_statement(question, self.schema)
                if isinstance(asked, Statement) and asked.sql:
                    check_statement(asked)
                return asked
            case Query() | Question():
                meant = question_from_query(question) if isinstance(question, Query) else question
                if meant.query.domain is not self.schema.domain and meant.query.domain != self.schema.domain:
                    raise InvalidRequest("This query is over another domain. Build it from this dataset's schema.")
                return meant
            case _:
                raise InvalidRequest("A question is SQL text or a Query.")

    def _read_question(self, question: object) -> Question:
        """Return one question; a statement that computes on answers is refused."""
        asked = self.read(question)
        if isinstance(asked, Statement):
            raise InvalidRequest("This takes one plain SELECT, and nothing that computes on its answer.")
        return asked

    def _answers(
        self, asked: tuple[Question | Statement, ...], request: Request, key: str | None, max_price: Exact | None
    ) -> tuple[AnyAnswer, ...]:
        """Return the answers to questions and statements, all of whose questions are charged together, once."""
        questions = _questions(asked)
        request = self._with_approval(request, questions, key, max_price)
        with self._key_lock(key):
            answers = self._ladder.answers(questions, request, key)
        return _assemble(asked, answers)

    def _reassemble(self, answers: tuple[Answer, ...]) -> tuple[AnyAnswer, ...]:
        """Return recalled answers, those of a statement's questions as one."""
        asked: list[Question | Statement] = []
        place = 0
        while place < len(answers):
            question = answers[place].question
            asked.append(self.read(question.text) if question.text else question)
            place += len(_questions((asked[-1],)))
        return _assemble(tuple(asked), answers)

    def _explain_offer(self, asked: Statement, request: Request) -> RecordedAnswer:
        """Return the offer for a statement as an answer of text; nothing is charged."""
        from dodona.answer.recorded import explain_offer

        offer = make_offer(self._ladder, asked.parts, request)
        return explain_offer(offer, asked.text, head=self._dataset.ledger.head, version=self._dataset.source.version)

    def close(self) -> None:
        """Release the table and the ledger."""
        self._closed = True
        self._dataset.source.close()
        self._dataset.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _permit(self) -> None:
        """Refuse undeclared analysts; checked on each call, as declarations may change while the dataset is open."""
        self._hold_open()
        self._dataset.ledger.permit(self.desk.analyst)

    def _hold_open(self) -> None:
        if self._closed:
            raise InvalidRequest("This dataset was closed. Open it again.")

    def _key_lock(self, key: str | None) -> AbstractContextManager[object]:
        """Return a lock for the key: of two threads that share a key, the second finds the first one's answer."""
        if key is None:
            return nullcontext()
        with self._mutex:  # a lock that is neither held nor awaited is dropped
            return self._keys.setdefault(key, threading.Lock())

    def _request(
        self,
        within: Tolerances | None,
        confidence: float | None,
        epsilon: Exact | None,
        max_price: Exact | None,
        *,
        fresh: bool = False,
    ) -> Request:
        self._hold_open()
        return make_request(within, epsilon, confidence, max_price, fresh=fresh, default=self._dataset.default)

    def _with_approval(
        self, request: Request, asked: tuple[Question, ...], key: str | None, max_price: Exact | None
    ) -> Request:
        """Return the request with the price that the owner approved for these questions under this key, if any.

        A maximum that the caller states holds all the same.
        """
        if key is None:
            return request
        self._permit()
        approval = self._dataset.ledger.approval(key, analyst=self.desk.analyst)
        if approval is None:
            return request
        if approval.question != joint_digest(question.query for question in asked):
            raise KeyReused(key)
        return replace(request, max_price=approval.share) if approval.granted and max_price is None else request

    def _most(self, max_price: Exact | None) -> Fraction:
        return effective_max_price(max_price, self._dataset.default)


def _questions(asked: tuple[Question | Statement, ...]) -> tuple[Question, ...]:
    """Return all questions that are asked, those of statements among them."""
    return tuple([question for each in asked for question in (each.parts if isinstance(each, Statement) else (each,))])


def _assemble(asked: tuple[Question | Statement, ...], answers: tuple[Answer, ...]) -> tuple[AnyAnswer, ...]:
    """Return one answer for each question or statement; computing on answers needs no data and costs nothing."""
    if not any(isinstance(question, Statement) for question in asked):
        return answers
    from dodona.answer.computed import assemble_answers

    with mark_errors_charged() if any(answer.price.share > 0 for answer in answers) else nullcontext():
        return assemble_answers(asked, answers)


def _question_list(questions: object) -> tuple[object, ...]:
    """Return a list of questions; a single text is not treated as a list of characters."""
    if isinstance(questions, str | Query) or not isinstance(questions, Iterable):
        raise InvalidRequest("Several questions are a list: write [question], or use `ask` for one.")
    return tuple(questions)


def _deduplicate(questions: tuple[object, ...]) -> tuple[tuple[object, ...], Sequence[int]]:
    """Return distinct questions, in order, and the index of each question: asked twice, it is measured once.

    With fresh noise every repetition is measured separately.
    """
    try:
        known: dict[object, int] = {}
        places = [known.setdefault(question, len(known)) for question in questions]
        return tuple(known), places
    except TypeError:  # not a question: parsing it raises the error
        return questions, range(len(questions))
