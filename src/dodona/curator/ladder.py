"""The ladder that every question climbs: `RUNGS = (replay, derive, bundle, measure)`.

A rung answers those questions of a call that it can, and leaves the others to the next one. The first two are free; the
last two buy through the desk: the charge is made durable before the data are touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import islice

from dodona.answer.answer import Answer, table_view
from dodona.answer.laws import DerivedValues, Evidence, Recalled
from dodona.answer.results import PreparedWorkload
from dodona.curator.beyond_budget import BeyondBudget, best_affordable
from dodona.curator.demands import Aim, CountDemand, Resolved, distinct_questions
from dodona.curator.desk import (
    AffordableRequest,
    Bought,
    Desk,
    Purchase,
    mark_errors_charged,
    propose,
)
from dodona.curator.lookup import (
    Found,
    Lookup,
    Origin,
    Replay,
    is_written_as,
    joined_text,
    read_again,
    read_release,
    spread_answers,
    stack_queries,
    text_readings,
    written_questions,
)
from dodona.curator.planner import PurchaseOrder
from dodona.curator.request import Request, validate_tolerances
from dodona.curator.shared import SharedKnowledge
from dodona.errors import InvalidRequest, InvariantBroken
from dodona.knowledge.asked import is_bundle
from dodona.knowledge.releases import ReleasedBlock, ReleasedBlocks
from dodona.ledger.entries import Receipt, Release
from dodona.ledger.errors import AnswerInterrupted, BudgetExhausted, KeyReused
from dodona.ledger.ledger import LedgerView
from dodona.privacy.accuracy import to_failure_probability
from dodona.privacy.budget import FREE
from dodona.query.canonical import query_digest
from dodona.query.query import Query
from dodona.query.question import Question
from dodona.trusted.gate import release_measurement

_MOST_LOOKS = 8  # after this many looks a call proceeds, whatever others release meanwhile


@dataclass(slots=True)
class Call:
    """One call on its way up the ladder: its questions, each resolved once, and the answers so far."""

    asked: list[Resolved]
    request: Request
    key: str | None
    view: LedgerView
    """The ledger when the call looked for its answer."""
    seen: int | None
    """How many releases were read by then; None where new noise is wanted anyway."""
    measured: list[Evidence | None] = field(default_factory=list)
    """The values of each question, as far as they are found."""
    origins: list[Origin | None] = field(default_factory=list)
    """Where they come from: in lists, as an object for each question would be work for the garbage collector."""
    replays: dict[int, Replay] = field(default_factory=dict)
    """By place: the releases of some of a question's blocks."""
    order: PurchaseOrder | None = None
    """What is to be bought, once it was planned."""
    looks: int = 0
    """How often it looked at the releases before."""

    @property
    def places(self) -> list[int]:
        """The indices of the unanswered questions."""
        return [place for place, origin in enumerate(self.origins) if origin is None]

    @property
    def missing(self) -> list[Resolved]:
        """The unanswered questions."""
        return [resolved for resolved, origin in zip(self.asked, self.origins, strict=True) if origin is None]

    @property
    def found(self) -> Iterator[Found]:
        """The answers so far."""
        for measured, origin in zip(self.measured, self.origins, strict=True):
            if measured is not None and origin is not None:
                yield Found(measured, origin)

    def fill(self, results: Iterable[Found | None], places: Sequence[int] | None = None) -> None:
        """Store answers of the unanswered questions, or of those at the given indices."""
        for place, hit in zip(self.places if places is None else places, results, strict=True):
            self.measured[place], self.origins[place] = (None, None) if hit is None else (hit.measured, hit.origin)

    def clear(self) -> None:
        """Forget all answers."""
        self.measured, self.origins = [None] * len(self.asked), [None] * len(self.asked)


Rung = Callable[["Ladder", Call], None]


def replay(ladder: Ladder, call: Call) -> None:
    """Answer from earlier releases that are accurate enough."""
    if call.request.fresh:
        return
    places = call.places
    counts = [place for place in places if call.asked[place].demanding]
    if len(counts) < len(places):  # not only counts and sums: a replay must be as accurate as a new measurement
        others = [place for place in places if not call.asked[place].demanding]
        released = {place: ladder.lookup.recall(call.asked[place].question) for place in others}
        # All are planned together, known or not: whoever asks them again finds what this call finds. Some of them may
        # follow from something else, and those that were measured were planned without them.
        known = [place for place in others if released[place]]
        for planned in dict.fromkeys((tuple(others), tuple(known))):
            if any(call.origins[place] is None for place in known):
                _replay_planned(ladder, call, released, planned)
    replays = ladder.lookup.replay([call.asked[place] for place in counts])
    call.replays = {place: replayed for place, replayed in zip(counts, replays, strict=True) if replayed is not None}
    call.fill([replayed.found() for replayed in call.replays.values()], [*call.replays])


def _replay_planned(
    ladder: Ladder, call: Call, released: Mapping[int, list[Sequence[ReleasedBlock]] | None], places: Sequence[int]
) -> None:
    """Replay those questions whose releases are as accurate as if these questions were measured now, together."""
    questions = tuple([call.asked[place].question for place in places])
    for order in ladder.planner.accepted(questions, call.request):
        noises = iter(order.measurement.noises)
        for place, question in zip(places, questions, strict=True):
            known, planned = released[place], tuple(islice(noises, len(question.query.blocks)))
            if known and call.origins[place] is None:
                call.fill([ladder.lookup.replay_planned(question, known, planned, call.request)], [place])


def derive(ladder: Ladder, call: Call) -> None:
    """Answer what follows from releases; what no row can change is free even if new noise is asked for."""
    if any(public := [ladder.lookup.public(resolved.question) for resolved in call.missing]):
        call.fill(public)
    if call.request.fresh or (not call.replays and not ladder.releases.knows):
        return
    counts = [place for place in call.places if call.asked[place].demanding]
    asked = [call.asked[place] for place in counts]
    derived = ladder.lookup.derive(
        asked, {number: call.replays[place] for number, place in enumerate(counts) if place in call.replays}
    )
    call.fill(map(Found.derived, derived), counts)
    if call.seen not in {None, ladder.releases.seen} and any(derived):
        # Others released something since the replay: what they asked is replayed to everybody, not derived for some.
        again = [None if now is None else now.found() for now in ladder.lookup.replay(asked)]
        call.fill(filter(None, again), [place for place, now in zip(counts, again, strict=True) if now is not None])
    combined = [place for place in call.places if not call.asked[place].demanding and call.asked[place].block_patterns]
    call.fill([Found.derived(ladder.lookup.derive_combined(call.asked[place])) for place in combined], combined)


def bundle(ladder: Ladder, call: Call) -> None:
    """Buy a bundle that answers more than the current questions, if it has paid for itself."""
    order = call.order = ladder.plan_order(call)
    if order.bundle is None:
        return
    reused = bool(ladder.releases.draws)
    try:
        bought = ladder.buy(order, call)
    except BudgetExhausted:  # of two accounts, the one with more left refused it
        call.order = ladder.planner.plan(_questions(call.missing), call.request)
        return
    if bought is None:
        return
    with mark_errors_charged():
        answers = ladder.answers_of_bundle(call.missing, bought.receipt)
        if answers is None:
            raise InvariantBroken("What was bought does not answer the question.", charged=True)
    origin = Origin("measured", bought.receipt.id, bought.price, reused)
    call.fill(Found(answer, origin) for answer in answers)


def measure(ladder: Ladder, call: Call) -> None:
    """Buy the remaining answers, all at once."""
    if call.order is not None and call.order.bundle is not None:
        return  # others were answered meanwhile: look again
    order = call.order or ladder.planner.plan(_questions(call.missing), call.request)
    bought = ladder.buy(order, call)
    if bought is not None:
        noises = order.measurement.noises
        call.fill(read_release(bought.item, _questions(call.missing), bought.price, noises))


RUNGS: tuple[Rung, ...] = (replay, derive, bundle, measure)
OPTIONAL_RUNGS = frozenset(rung.__name__ for rung in RUNGS[:-1])
"""The rungs that can be left out; the last one is always there."""
_FREE_RUNGS = (replay, derive)
_FREE_SOURCES = frozenset(("replayed", "derived"))


class Ladder:
    """The rungs of one dataset for one analyst."""

    def __init__(
        self, desk: Desk, rungs: frozenset[str] = OPTIONAL_RUNGS, *, shared: SharedKnowledge | None = None
    ) -> None:
        """Take the desk of an open dataset, and what was learned about it where other analysts ask it too."""
        self.desk = desk
        self.rungs = tuple(rung for rung in RUNGS if rung is measure or rung.__name__ in rungs)
        self._dataset = desk.dataset
        self.budget = desk.dataset.ledger.budget
        self.shared = SharedKnowledge(desk.dataset) if shared is None else shared
        self.planner, self.releases = self.shared.planner, self.shared.releases
        self.lookup, self.buyer = self.shared.lookup, self.shared.buyer
        self._beyond = BeyondBudget(self.shared.tracker)

    def answers(self, asked: tuple[Question, ...], request: Request, key: str | None) -> tuple[Answer, ...]:
        """Return the answers to questions by the cheapest way that is accurate enough; one charge, or none."""
        distinct, places = distinct_questions(asked, request)
        if key is not None:
            recalled = self._recall(distinct, request, key)
            if recalled is not None:
                return self._make_answers(spread_answers(recalled, asked, places), request)
        call = self.resolve(distinct, request, key)
        self._climb(call)
        origins = {id(origin): origin for origin in call.origins if origin is not None}.values()
        if all(origin.source in _FREE_SOURCES for origin in origins):
            return self._make_answers(spread_answers(call.found, asked, places), request, call.view.head)
        with mark_errors_charged() if any(origin.price.share > 0 for origin in origins) else nullcontext():
            return self._make_answers(spread_answers(call.found, asked, places), request)

    def reading(self, released: ReleasedBlocks) -> Ladder:
        """Return a ladder that answers from other releases: those before a purchase, or of an older version."""
        other = copy(self)
        other.releases, other.lookup = released, Lookup(released, self.lookup.size)
        return other

    def free_answers(
        self, asked: tuple[Question, ...], request: Request, key: str | None, *, anyhow: bool = False
    ) -> tuple[Answer, ...] | None:
        """Return the answers to questions if all of them are free; otherwise None. No data are read.

        What is being measured under the key right now is not waited for. With `anyhow` any accuracy will do.
        """
        distinct, places = distinct_questions(asked, request)
        results: list[Found] | None = None
        if key is not None and self._dataset.ledger.receipt(key, analyst=self.desk.analyst) is not None:
            with suppress(AnswerInterrupted):
                results = self._recall(distinct, request, key, wait=False)
        else:
            call = self.resolve(distinct, request, None)
            self.climb_free(call)
            if anyhow:
                call.fill(map(Found.derived, self.lookup.derive_anyhow(call.missing)))
            results = None if call.missing else [*call.found]
        return None if results is None else self._make_answers(spread_answers(results, asked, places), request)

    def prepare(self, asked: tuple[Question, ...], request: Request, key: str | None) -> PreparedWorkload:
        """Buy the cheapest measurement that answers all questions; those that already follow cost nothing."""
        call = self.resolve(distinct_questions(asked, request)[0], request, key)
        while True:
            self.climb_free(call)
            if not call.missing:
                nothing = "nothing: all of it follows from earlier releases"
                return PreparedWorkload(questions=len(asked), price=FREE, bought=nothing)
            order = self._plan_together(call)
            bought = self.buy(order, call)
            if bought is not None:
                return PreparedWorkload(questions=len(asked), price=bought.price, bought=order.described)
            self._look_again(call)

    def resolve(self, asked: Sequence[Question], request: Request, key: str | None) -> Call:
        """Return a call placed before the first rung."""
        if request.within is not None:
            validate_tolerances(request.within, asked)
        aim = Aim(request, size=self._dataset.schema.unit.size, planner=self.planner)
        resolved = [Resolved(question, aim) for question in asked]
        call = Call(resolved, request, key, *self._look(request))
        call.clear()
        return call

    def _look(self, request: Request) -> tuple[LedgerView, int | None]:
        """Read all releases so far; their number is None if other callers' questions make no difference."""
        view = self.releases.look(self.desk.analyst)
        return view, self.releases.seen if replay in self.rungs and not request.fresh else None

    def _look_again(self, call: Call) -> None:
        """Put a call back before the first rung, as others were answered meanwhile."""
        call.clear()
        call.replays, call.order = {}, None
        (call.view, call.seen), call.looks = self._look(call.request), call.looks + 1
        if call.key is not None:
            recalled = self._recall(_questions(call.asked), call.request, call.key)
            if recalled is not None:
                call.fill(recalled)

    def _climb(self, call: Call) -> None:
        """Answer all questions of a call, rung by rung; if the budget is exhausted, follow the owner's choice."""
        try:
            while True:
                for rung in self.rungs:
                    rung(self, call)
                    if not call.missing:
                        break
                if not call.missing:
                    break
                self._look_again(call)
        except BudgetExhausted as refused:
            self._answer_beyond(call, refused)

    def climb_free(self, call: Call) -> None:
        """Answer those questions of a call that are free."""
        for rung in _FREE_RUNGS:
            if rung in self.rungs and call.missing:
                rung(self, call)

    def _answer_beyond(self, call: Call, refused: BudgetExhausted) -> None:
        """Return the model's guesses if the owner allows them; otherwise say what could still be bought."""
        failure = to_failure_probability(call.request.confidence)
        guessing = self._dataset.after == "model" and not call.request.fresh
        guesses = self._beyond.guesses(_questions(call.missing), failure) if guessing else None
        if guesses is not None:
            call.fill(guesses)
            return
        if refused.best is not None:
            raise refused
        best = self.affordable(call, self.desk.allowed(call.request.max_price, call.key))
        raise propose(refused, best) from None

    def answers_of_bundle(self, asked: Sequence[Resolved], receipt: Receipt) -> list[DerivedValues] | None:
        """Return the values that a bundle gives, whatever accuracy is requested; None if they do not follow from it.

        Their accuracy was verified before the charge. They depend on the bundle and on what was released before it, so
        they are the same whenever they are fetched.
        """
        with self.releases.lock:  # nothing is added to the knowledge meanwhile
            self.releases.follow()
            released = self.releases.of_bundle(receipt.id)
            derived = [] if released is None else Lookup(released, self.lookup.size).derive_anyhow(asked)
        values = [answer for answer in derived if answer is not None]
        return values if len(values) == len(asked) else None

    def plan_order(self, call: Call) -> PurchaseOrder:
        """Return what to measure for the unanswered questions: a bundle, or the answers themselves."""
        missing, request = call.missing, call.request
        if request.fresh or bundle not in self.rungs:
            return self.planner.plan(_questions(missing), request)
        if len(missing) > 1:
            return self._plan_together(call)
        if missing[0].count_demand is None:
            return self.planner.plan((missing[0].question,), request)
        with self.releases.lock:
            return self._plan_single(missing[0], missing[0].count_demand, call)

    def _plan_single(self, resolved: Resolved, wanted: CountDemand, call: Call) -> PurchaseOrder:
        """Return what to measure for one question: its answer, or a bundle that has paid for itself and still fits.

        Of two active accounts, the one in which the widest bundle takes less decides.
        """
        ledger, prices, rule = self._dataset.ledger, self.desk.prices(call.key), self.buyer.rule
        left = prices.allowed(call.request.max_price)
        receipt = None if call.key is None else ledger.receipt(call.key, analyst=self.desk.analyst)
        if receipt is not None:  # charged but not measured: it fits, as it did then
            left += ledger.share(receipt.event)
        tolerances = None if resolved.demands is None else tuple([demand.tolerance for demand in resolved.demands])
        options = self.planner.by_account(resolved.question, call.request, tolerances, prices)
        if len(options) > 1:
            options.sort(key=lambda option: rule.reference(wanted, option.cost, option.price))
        if options:
            option = options[0]
            best = rule.choose(rule.eased(wanted), option.cost, option.price, float(left))
            if best is not None:
                return self.buyer.order_bundle(best)
            if option.order.share <= left:
                return option.order
        return self.planner.plan((resolved.question,), call.request)

    def _plan_together(self, call: Call) -> PurchaseOrder:
        demands = (resolved.count_demand for resolved in call.missing) if bundle in self.rungs else (None,)
        with self.releases.lock:
            return self.buyer.together(_questions(call.missing), call.request, demands)

    def buy(self, order: PurchaseOrder, call: Call) -> Bought[Release] | None:
        """Buy what was ordered for a call; None if others were answered meanwhile, so that the caller looks again."""
        if call.seen not in {None, self.releases.seen} and call.looks < _MOST_LOOKS:
            return None  # look and plan are from different moments: others who ask the same may plan differently
        text = joined_text(_questions(call.missing))
        purchase = Purchase(
            event=order.event,
            purpose=order.measurement.purpose,
            deliver=partial(release_measurement, order.measurement, text=text),
            max_price=call.request.max_price,
            affordable=partial(self.affordable, call),
            overlaps=is_bundle,
        )
        bought = self.desk.buy_once(purchase, key=call.key, seen=call.seen)
        if bought is not None:
            self.releases.expect(bought.receipt.id, order.measurement)
        return bought

    def _recall(
        self, asked: tuple[Question, ...], request: Request, key: str, *, wait: bool = True
    ) -> list[Found] | None:
        """Return what was bought under a key; None if there is nothing, or it is not yet measured."""
        recalled = self.desk.recall(key, wait=wait)
        if recalled is None:
            return None
        receipt, release = recalled
        if receipt.purpose == query_digest(stack_queries(asked)):
            return read_again(release, asked)
        call = self._answer_as_before(asked, request, receipt)
        missing = _questions(call.missing)
        if missing and receipt.purpose == query_digest(stack_queries(missing)):
            call.fill(read_again(release, missing))
        elif missing and " " in receipt.purpose and is_written_as(release, asked, missing, self._dataset.schema):
            # Only a bundle has a label: it answers more than the questions that it was bought for.
            follow = self.answers_of_bundle(call.missing, receipt)
            call.fill(map(Found.derived, [None] * len(missing) if follow is None else follow))
        if call.missing:
            raise KeyReused(key)
        return [*call.found]

    def _answer_as_before(self, asked: tuple[Question, ...], request: Request, receipt: Receipt) -> Call:
        """Return a call with those of several questions answered that were free before a purchase.

        Of a single question nothing was free, or nothing would have been bought.
        """
        call = self.resolve(asked, request, None)
        released = self.releases.before(receipt.id) if len(asked) > 1 else None
        if released is not None:
            self.reading(released).climb_free(call)
        return call

    def recalled(
        self, key: str, request: Request, read: Callable[[str], tuple[Question, ...]]
    ) -> tuple[Answer, ...] | None:
        """Return what was bought under a key, for the questions as they were written; None if nothing was."""
        recalled = self.desk.recall(key, wait=False)
        if recalled is None:
            return None
        receipt, release = recalled
        asked = written_questions(release, receipt, read)
        if asked is None:  # a bundle: what it was bought for follows from it
            for reading in text_readings(release.text or "", read):
                with suppress(InvalidRequest):
                    values = self.answers_of_bundle(self.resolve(reading, request, None).asked, receipt)
                    if values is not None:
                        origin = Origin("replayed", receipt.id, reused=True)
                        return self._make_answers([Found(answer, origin) for answer in values], request)
            raise InvalidRequest(
                "What was bought under this key is not an answer to questions that can be shown again."
            )
        return self._make_answers(read_again(release, asked), request)

    def _make_answers(self, results: Iterable[Found], request: Request, head: str | None = None) -> tuple[Answer, ...]:
        """Return the answers, as of a head of the ledger; without one, as of now."""
        dataset, draws, recall = self._dataset, self.releases.draws, self._recall_direct
        head = dataset.ledger.head if head is None else head
        version, about, unit = dataset.source.version, dataset.about, dataset.schema.unit
        return tuple(
            [
                Answer(
                    measured=result.measured,
                    price=result.origin.price,
                    view=table_view(request.confidence, result.measured.question.size or unit.size, unit.rows),
                    source=result.origin.source,
                    receipt=result.origin.receipt,
                    head=head,
                    version=version,
                    about=about,
                    reused=result.origin.reused,
                    draws=draws,
                    recall=recall,
                )
                for result in results
            ]
        )

    def _recall_direct(self, query: Query) -> Recalled:
        """Return how many draws were released, and each block as it was itself released or follows from one release."""
        released = self.releases.recall(query)
        direct = tuple(tuple((each.values, each.noise) for each in block or ()) for block in released)
        return Recalled(self.releases.draws, direct, self.releases.follow_alone(query.blocks))

    def affordable(self, call: Call, most: Fraction) -> AffordableRequest | None:
        """Return nearly the best accuracy that a share of the budget buys; several questions may be bought together."""
        missing = _questions(call.missing or call.asked)

        def share(wish: Request) -> Fraction:
            return self.plan_order(self.resolve(missing, wish, None)).share

        return best_affordable(share, call.request, most, pure=self.budget.delta == 0)


def _questions(asked: Sequence[Resolved]) -> tuple[Question, ...]:
    return tuple([resolved.question for resolved in asked])
