"""Lookup: answers that are free, because they were released before or follow from releases."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from typing import TYPE_CHECKING

from dodona.answer.answer import AnswerSource
from dodona.answer.derived import DerivedValues, is_derivable, make_derived_values
from dodona.answer.laws import ErrorLaw, half_width
from dodona.answer.measured import MeasuredValues
from dodona.answer.tolerance import ColumnTolerances, resolve_tolerance
from dodona.curator.planner import noisy_columns, predict_error, single_column_question, single_total
from dodona.curator.request import Request
from dodona.errors import InvariantBroken
from dodona.knowledge.knowledge import may_be_exact
from dodona.knowledge.measurements import KnownValues
from dodona.knowledge.patterns import CountPattern, find_pattern
from dodona.knowledge.releases import ReleasedBlock, ReleasedBlocks
from dodona.ledger.entries import Release
from dodona.privacy.accuracy import to_failure_probability
from dodona.privacy.budget import FREE, Price
from dodona.privacy.measurement import Noise, noises_from_text
from dodona.query.canonical import query_digest
from dodona.query.query import Block
from dodona.query.question import AnswerColumn, Question, Total

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# --- Once: questions of one call that mean the same, however they were put, are answered together. ---


def distinct_questions(asked: Sequence[Question], request: Request) -> tuple[tuple[Question, ...], list[int]]:
    """Return questions without those that mean the same as an earlier one, and for each question its place in them.

    With fresh noise each of them is measured, as it was asked for.
    """
    if request.fresh or len(asked) == 1:
        return tuple(asked), [*range(len(asked))]
    known: dict[Hashable, int] = {}
    once: list[Question] = []
    places = []
    for question in asked:
        place = known.setdefault(_meaning(question, request), len(once))
        if place == len(once):
            once.append(question)
        places.append(place)
    return tuple(once), places


def _meaning(question: Question, request: Request) -> Hashable:
    """Return all that decides what is measured for a question, and how accurately."""
    block = single_total(question)
    if block is not None and not isinstance(request.within, ColumnTolerances):  # of a batch nearly all
        return query_digest(question.query), block.unit
    units = tuple([block.unit for block in question.query.blocks])
    shown = tuple([(column.name, column.expression, *shape.items()) for column, shape in noisy_columns(question)])
    if not isinstance(request.within, ColumnTolerances):
        shown = tuple([("", *own) for _, *own in shown])
    return query_digest(question.query), units, shown, is_derivable(question)


# --- Demands: how accurately each block of a question must be known, where blocks are shown as they are. ---


@dataclass(frozen=True, slots=True)
class Demand:
    """A block, and how far off its values may be, in steps, each with the probability of failing."""

    block: Block
    room: float
    failing: float

    def met(self, found: KnownValues) -> bool:
        """Return whether what is known is accurate enough."""
        return found.within(self.failing) <= self.room


class Aim:
    """How accurate all questions of a call are to be. What they have in common is read once."""

    __slots__ = ("_rooms", "failing", "size", "within")

    def __init__(self, request: Request, *, size: int) -> None:
        """Take what the call says, and the declared number of rows."""
        self.within, self.size = request.within, size
        self.failing = to_failure_probability(request.confidence)
        self._rooms: dict[tuple[int, int], float] = {}

    def demand(self, question: Question, column: AnswerColumn, block: Block) -> Demand:
        """Return what a column demands that shows a block as it is."""
        if self.within is None:
            raise InvariantBroken("A price demands no accuracy.")
        room = resolve_tolerance(question, column, self.within, size=self.size) / float(block.unit)
        return Demand(block, room, self.failing)

    def demand_of_total(self, question: Question, block: Block) -> Demand:
        """Return the same of a question with a single total: only its weight and its unit decide, and its name may."""
        if isinstance(self.within, ColumnTolerances):
            return self.demand(question, question.columns[0], block)
        same = (id(block.weight), id(block.unit))  # both live as long as the questions of the call do
        room = self._rooms.get(same)
        if room is not None:
            return Demand(block, room, self.failing)
        found = self.demand(question, question.columns[0], block)
        self._rooms[same] = found.room
        return found


class PendingQuestion:
    """A question of a call, with what it demands: computed when it is first needed, and once for all that need it."""

    __slots__ = ("_aim", "_demands", "_facets", "_known", "question")

    def __init__(self, question: Question, aim: Aim) -> None:
        """Take a question, and how accurate it is to be."""
        self.question, self._aim = question, aim
        self._known = False
        self._demands: tuple[Demand, ...] | None = None
        self._facets: tuple[CountPattern | None, ...] | None = None

    @property
    def demands(self) -> tuple[Demand, ...] | None:
        """One demand a block; None where a question has none, as `demands` says."""
        if not self._known:
            self._demands = find_demands(self.question, self._aim)
            self._known = True
        return self._demands

    @property
    def facets(self) -> tuple[CountPattern | None, ...]:
        """For each demand the classes that its block is a count over."""
        if self._facets is None:
            domain = self.question.query.domain
            self._facets = tuple([find_pattern(demand.block, domain) for demand in self.demands or ()])
        return self._facets


def find_demands(question: Question, aim: Aim) -> tuple[Demand, ...] | None:
    """Return one demand a block; None where a column is more than a count or a sum, or where a price is asked for.

    Intervals of averages, quantiles and the like take noises that know nothing of each other, which what follows from
    one table has not.
    """
    if aim.within is None or not is_derivable(question):
        return None
    block = single_total(question)
    if block is not None:
        return (aim.demand_of_total(question, block),)
    found: dict[int, Demand] = {}
    for column, _ in noisy_columns(question):
        if not isinstance(column.expression, Total) or column.expression.block in found:
            return None
        block = question.query.blocks[column.expression.block]
        found[column.expression.block] = aim.demand(question, column, block)
    return tuple(found[number] for number in sorted(found)) if len(found) == len(question.query.blocks) else None


# --- Finding: the free rungs. What was told before is told again, and what follows from it is derived. ---


@dataclass(frozen=True, slots=True)
class ResolvedAnswer:
    """The values of a question, and where they came from."""

    measured: MeasuredValues | DerivedValues
    source: AnswerSource
    receipt: str | None
    price: Price = FREE
    reused: bool = False
    """Whether numbers that were told before are in it."""

    def bought(self, receipt: str, price: Price, *, reused: bool) -> ResolvedAnswer:
        """Return the same, paid for just now; numbers that were told before may be in it too."""
        return ResolvedAnswer(self.measured, "measured", receipt, price, reused)


@dataclass(frozen=True, slots=True)
class Finder:
    """Replay and derivation for one dataset."""

    memory: ReleasedBlocks
    rungs: frozenset[str]
    size: int
    """The declared number of rows."""

    def find(self, asked: Sequence[PendingQuestion]) -> list[ResolvedAnswer | None]:
        """Return for each question its values, if all its blocks are known accurately enough."""
        demanded = [one.demands or () for one in asked]
        with self.memory.lock:
            known = self._known(asked, demanded)
            if not self.memory.knowledge.combines and not any(known):
                return [None] * len(asked)
        blocks = iter(known)
        return [
            self._held(one.question, own, [*islice(blocks, len(own))]) for one, own in zip(asked, demanded, strict=True)
        ]

    def find_anyhow(self, asked: PendingQuestion) -> ResolvedAnswer | None:
        """Return a question's values if they are known at all, however accurately."""
        demanded = tuple(replace(demand, room=math.inf) for demand in asked.demands or ())
        with self.memory.lock:
            known = self._known([asked], [demanded])
        return self._held(asked.question, demanded, known)

    def _held(
        self, question: Question, demanded: Sequence[Demand], known: Sequence[ReleasedBlock | KnownValues | None]
    ) -> ResolvedAnswer | None:
        """Return the values of a question, of which the blocks that are not known yet may be combined."""
        if len(known) == 1 and isinstance(known[0], KnownValues):  # of a batch nearly all
            return ResolvedAnswer(
                DerivedValues(question, (known[0].values,), (known[0].laws,)), "derived", None, reused=True
            )
        knowledge = self.memory.knowledge
        values: list[Sequence[float] | NDArray[np.float64]] = []
        laws: list[tuple[ErrorLaw, ...]] = []
        for demand, own in zip(demanded, known, strict=True):
            if isinstance(own, ReleasedBlock):
                values.append(own.values)
                laws.append((own.noise,))
                continue
            # Single answers are combined without the lock, so that what others are told again need not wait for it.
            follows = knowledge.combine(demand.block, demand.met) if own is None and self._derives else own
            if follows is None:
                return None
            values.append(follows.values)
            laws.append(follows.laws)
        again = [one for one in known if isinstance(one, ReleasedBlock)]
        if again and len(again) == len(demanded) == len({id(one) for one in again}):
            noises = tuple(one.noise for one in again)
            flat = [value for one in again for value in one.values]
            return ResolvedAnswer(MeasuredValues(question, flat, noises), "replayed", again[0].receipt, reused=True)
        return ResolvedAnswer(DerivedValues(question, tuple(values), tuple(laws)), "derived", None, reused=True)

    def exact(self, question: Question) -> ResolvedAnswer | None:
        """Return a question's values, if no row can change any of them: asked by accuracy or by price, it is free.

        Theorem: public-rows
        """
        blocks = question.query.blocks
        if not self._derives or not all(map(may_be_exact, blocks)) or not is_derivable(question):
            return None
        with self.memory.lock:
            self.memory.begin()
            found = [known for known in map(self.memory.follow().exact, blocks) if known is not None]
        if len(found) < len(blocks):
            return None
        return ResolvedAnswer(
            make_derived_values(question, [one.values for one in found], [one.laws for one in found]), "derived", None
        )

    def _known(
        self, asked: Sequence[PendingQuestion], demanded: Sequence[Sequence[Demand]]
    ) -> list[ReleasedBlock | KnownValues | None]:
        """Return for each block what was told of it, else what follows from what is known by classes.

        Blocks stand one question after the other. What was released meanwhile is read once for all of them.
        """
        blocks = [demand for own in demanded for demand in own]
        if not self.memory.begun and any(may_be_exact(demand.block) for demand in blocks):
            self.memory.begin()
        knowledge = self.memory.follow()
        found: list[ReleasedBlock | KnownValues | None] = [None] * len(blocks)
        if "replay" in self.rungs and self.memory.tells:
            told = [known for one in asked for known in self.memory.recall(one.question.query)]
            for place, (demand, known) in enumerate(zip(blocks, told, strict=True)):
                found[place] = None if known is None else _first_accurate(known, demand)
        left = [place for place, known in enumerate(found) if known is None]
        if left and self._derives:
            facets = [facet for one in asked for facet in one.facets]
            follows = knowledge.lookup_all([blocks[place] for place in left], [facets[place] for place in left])
            for place, own in zip(left, follows, strict=True):
                found[place] = own
        return found

    @property
    def _derives(self) -> bool:
        return "derive" in self.rungs

    def replay(self, question: Question, planned: tuple[Noise, ...], request: Request) -> ResolvedAnswer | None:
        """Return what was told of a question of any kind, if it is as accurate as what would be measured."""
        if "replay" not in self.rungs:
            return None
        self.memory.follow()
        told = self.memory.recall(question.query)
        best = _best_per_block(told, planned)
        if best is None:
            return None
        old = tuple(one.noise for one in best)
        if old != planned and not self._as_good(question, old, planned, request):
            return None
        values = [value for one in best for value in one.values]
        return ResolvedAnswer(MeasuredValues(question, values, old), "replayed", best[0].receipt, reused=True)

    def _as_good(self, question: Question, old: tuple[Noise, ...], new: tuple[Noise, ...], request: Request) -> bool:
        def error(column: AnswerColumn, blocks: tuple[int, ...], noises: tuple[Noise, ...]) -> float:
            used = tuple(noises[block] for block in blocks)
            own = single_column_question(question, column, blocks)
            return predict_error(own, used, confidence=request.confidence, rows=self.size)

        shaped = [(column, tuple(shape)) for column, shape in noisy_columns(question)]
        return all(error(*one, old) <= error(*one, new) for one in shaped)


def _best_per_block(
    told: Sequence[Sequence[ReleasedBlock] | None], planned: Sequence[Noise]
) -> list[ReleasedBlock] | None:
    """Return the best that was told of each block, each of it once; None where there is not enough.

    A question may have one block in several places, each measured with noise of its own. Intervals count on noises that
    know nothing of each other, so what was told in one place does not serve in two.
    """
    found: list[ReleasedBlock] = []
    for known, noise in zip(told, planned, strict=True):
        left = [one for one in known or () if not any(one is other for other in found)]
        if not left:
            return None
        several = sum(own is known for own in told) > 1
        found.append(min(left, key=lambda one: (several and one.noise != noise, one.noise.scale)))
    return found


def _first_accurate(known: Sequence[ReleasedBlock], demand: Demand) -> ReleasedBlock | None:
    """Return the first release that is accurate enough: asked again, it is told again."""
    return next((one for one in known if half_width(one.noise, demand.failing) <= demand.room), None)


# --- Reading releases: the integers that were recorded, as the values of the questions that they answer. ---


def read_release(released: Release, asked: Sequence[Question], price: Price) -> Iterator[ResolvedAnswer]:
    """Yield a release's integers by question; noisy answers are never fractions."""
    values, noises = tuple(int(value) for value in released.values), noises_from_text(released.mechanism)
    blocks = _spans(len(question.query.blocks) for question in asked)
    numbers = _spans(question.query.values for question in asked)
    for question, (start, after), (first, last) in zip(asked, blocks, numbers, strict=True):
        measured = MeasuredValues(question, values[first:last], noises[start:after])
        yield ResolvedAnswer(measured, "measured", released.receipt, price)


def _spans(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Return begin and end of parts that stand one after the other.

    >>> list(_spans([2, 3]))
    [(0, 2), (2, 5)]
    """
    return pairwise(accumulate(sizes, initial=0))
