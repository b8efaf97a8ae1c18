"""Lookup: free answers, which were released before or follow from releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeVar

from dodona.answer.derived import DerivedValues, make_derived_values
from dodona.answer.estimate import AnswerSource
from dodona.answer.laws import ErrorLaw, half_width
from dodona.answer.measured import MeasuredValues
from dodona.curator.planner import predict_error
from dodona.curator.rent_or_buy import CountDemand
from dodona.curator.request import ColumnTolerances, Request, resolve_tolerance
from dodona.errors import InvalidRequest, InvariantBroken
from dodona.knowledge.knowledge import may_be_exact
from dodona.knowledge.measurements import KnownValues, noise_variance
from dodona.knowledge.patterns import CountPattern, find_pattern
from dodona.knowledge.releases import ReleasedBlock, ReleasedBlocks
from dodona.ledger.entries import Receipt, Release
from dodona.privacy.budget import FREE, Price
from dodona.privacy.measurement import Noise, noises_from_text
from dodona.query.canonical import query_digest
from dodona.query.predicate import Among, And
from dodona.query.query import Block, ConstantWeight, Query
from dodona.query.question import AnswerColumn, Question, Total
from dodona.schema.schema import Schema
from dodona.sql.statement import read_questions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# --- Equivalent questions of one call are answered together. ---


def distinct_questions(asked: Sequence[Question], request: Request) -> tuple[tuple[Question, ...], list[int]]:
    """Return the questions without repetitions of equivalent ones, and the index of each question among them.

    With fresh noise every repetition is measured separately.
    """
    if request.fresh or len(asked) == 1:
        return tuple(asked), [*range(len(asked))]
    known: dict[Hashable, int] = {}
    once: list[Question] = []
    places = []
    blocks = None if isinstance(request.within, ColumnTolerances) else _conjunctions(asked)
    for number, question in enumerate(asked):
        meaning = _meaning(question, request) if blocks is None else blocks[number]
        place = known.setdefault(meaning, len(once))
        if place == len(once):
            once.append(question)
        places.append(place)
    return tuple(once), places


def _conjunctions(asked: Sequence[Question]) -> list[Block] | None:
    """Return the block of each question if all are counts of plain conjunctions: those are equivalent only if equal."""
    blocks = [question.single_total for question in asked]
    plain = [
        block
        for block in blocks
        if block is not None
        and type(block.where) is And
        and type(block.weight) is ConstantWeight
        and {*map(type, block.where.parts)} <= {Among}
    ]
    return plain if len(plain) == len(blocks) else None


def _meaning(question: Question, request: Request) -> Hashable:
    """Return everything that determines what is measured for a question, and how accurately."""
    block = question.single_total
    if block is not None and not isinstance(request.within, ColumnTolerances):  # nearly all questions of a batch
        return query_digest(question.query), block.unit
    units = tuple([block.unit for block in question.query.blocks])
    shown = tuple([(column.name, column.expression, *shape.items()) for column, shape in question.noisy_columns])
    if not isinstance(request.within, ColumnTolerances):
        shown = tuple([("", *own) for _, *own in shown])
    return query_digest(question.query), units, shown, question.derivable


# --- A question is resolved once: its blocks, their required accuracy, and the pattern of each count. ---


@dataclass(frozen=True, slots=True)
class Demand:
    """A block and the tolerance of its values, in steps, each with the given failure probability."""

    block: Block
    tolerance: float
    failing: float

    def met(self, found: KnownValues) -> bool:
        """Return whether the known values are accurate enough."""
        return found.within(self.failing) <= self.tolerance


class Aim:
    """The accuracy required of all questions of a call. What they share is computed once."""

    __slots__ = ("_request", "_tolerances", "failing", "size", "within")

    def __init__(self, request: Request, *, size: int) -> None:
        """Take the request of the call and the declared number of rows."""
        self._request, self.within, self.size = request, request.within, size
        self.failing = 1 - float(request.confidence)  # validated with the request
        self._tolerances: dict[tuple[int, int], float] = {}

    def relaxed(self) -> Aim:
        """Return an aim with some tolerance, whatever was requested."""
        return Aim(replace(self._request, within="100%", epsilon=None), size=self.size)

    def demand(self, question: Question, column: AnswerColumn, block: Block) -> Demand:
        """Return the demand of a column that shows a block unchanged."""
        if self.within is None:
            raise InvariantBroken("A price demands no accuracy.")
        tolerance = resolve_tolerance(question, column, self.within, size=self.size) / float(block.unit)
        return Demand(block, tolerance, self.failing)

    def demand_of_total(self, question: Question, block: Block) -> Demand:
        """Return the demand of a question with a single total: only weight and unit matter, and perhaps its name."""
        if isinstance(self.within, ColumnTolerances):
            return self.demand(question, question.columns[0], block)
        same = (id(block.weight), id(block.unit))  # both live as long as the questions of the call
        tolerance = self._tolerances.get(same)
        if tolerance is not None:
            return Demand(block, tolerance, self.failing)
        found = self.demand(question, question.columns[0], block)
        self._tolerances[same] = found.tolerance
        return found


class Resolved:
    """A question of a call with its demands, computed on first use and cached."""

    __slots__ = ("_aim", "_demands", "_known", "_patterns", "question")

    def __init__(self, question: Question, aim: Aim) -> None:
        """Take a question and its required accuracy."""
        self.question, self._aim = question, aim
        self._known = False
        self._demands: tuple[Demand, ...] | None = None
        self._patterns: tuple[CountPattern | None, ...] | None = None

    @property
    def demands(self) -> tuple[Demand, ...] | None:
        """One demand per block; None if the question has none, as `find_demands` explains."""
        if not self._known:
            self._demands = find_demands(self.question, self._aim)
            self._known = True
        return self._demands

    @property
    def count_demand(self) -> CountDemand | None:
        """The demand of a question that is a single count over classes."""
        demands = self.demands
        if demands is None or len(demands) != 1:
            return None
        (own,), (pattern,) = demands, self.patterns
        return None if pattern is None else CountDemand(own.block, pattern, own.tolerance, own.failing)

    def relaxed(self) -> Resolved:
        """Return the same question with demands that any values meet, whatever accuracy or price was requested."""
        relaxed = Resolved(self.question, self._aim)
        demands = find_demands(self.question, self._aim.relaxed()) if self.demands is None else self.demands
        relaxed._demands = demands and tuple(replace(demand, tolerance=math.inf) for demand in demands)
        relaxed._known, relaxed._patterns = True, self._patterns
        return relaxed

    @property
    def patterns(self) -> tuple[CountPattern | None, ...]:
        """The count pattern of each demand's block."""
        if self._patterns is None:
            domain = self.question.query.domain
            self._patterns = tuple([find_pattern(demand.block, domain) for demand in self.demands or ()])
        return self._patterns


def find_demands(question: Question, aim: Aim) -> tuple[Demand, ...] | None:
    """Return one demand per block; None if a column is more than a count or a sum, or if a price is given.

    Intervals of averages, quantiles and the like need independent noises, which values that follow from one table do
    not have.
    """
    if aim.within is None or not question.derivable:
        return None
    block = question.single_total
    if block is not None:
        return (aim.demand_of_total(question, block),)
    found: dict[int, Demand] = {}
    for column, _ in question.noisy_columns:
        if not isinstance(column.expression, Total) or column.expression.block in found:
            return None
        block = question.query.blocks[column.expression.block]
        found[column.expression.block] = aim.demand(question, column, block)
    return tuple(found[number] for number in sorted(found)) if len(found) == len(question.query.blocks) else None


# --- The free rungs: replay and derivation. ---


_Each = TypeVar("_Each")


@dataclass(frozen=True, slots=True)
class Found:
    """The values of a question and their source."""

    measured: MeasuredValues | DerivedValues
    source: AnswerSource
    receipt: str | None
    price: Price = FREE
    reused: bool = False
    """Whether numbers that were released before are in it."""

    @classmethod
    def derived(cls, values: DerivedValues | None) -> Found | None:
        """Return values that follow from earlier releases, if there are any: they cost nothing."""
        return None if values is None else cls(values, "derived", None, reused=True)


@dataclass(frozen=True, slots=True)
class Replay:
    """A question, and for each of its blocks a release that is accurate enough, or None."""

    question: Resolved
    released: tuple[ReleasedBlock | None, ...]

    @classmethod
    def nothing(cls, question: Resolved) -> Replay:
        """Return a question without any released block."""
        return cls(question, (None,) * len(question.demands or ()))

    def unreleased(self, each: Sequence[_Each]) -> list[_Each]:
        """Return those of something that is given for each block whose block has no such release."""
        return [own for own, released in zip(each, self.released, strict=True) if released is None]

    def found(self) -> Found | None:
        """Return the question's values, if each block was released with independent noise."""
        released = [block for block in self.released if block is not None]
        if not released or len(self.released) != len({id(block) for block in released}):
            return None
        noises = tuple(block.noise for block in released)
        values = [value for block in released for value in block.values]
        return Found(
            MeasuredValues(self.question.question, values, noises), "replayed", released[0].receipt, reused=True
        )


@dataclass(frozen=True, slots=True)
class Lookup:
    """Finds free answers of one dataset: earlier releases, and what follows from them.

    The caller reads the ledger first, once for all questions of a call.
    """

    releases: ReleasedBlocks
    size: int
    """The declared number of rows."""

    def replay(self, asked: Sequence[Resolved]) -> list[Replay | None]:
        """Return, for each question of counts and sums, the releases of its blocks that are accurate enough, if any."""
        with self.releases.lock:
            if len(asked) > 1 and not self.releases.tells:
                return [None] * len(asked)
            found = [self._recall(one) for one in asked]
        return [Replay(one, own) if any(own) else None for one, own in zip(asked, found, strict=True)]

    def _recall(self, one: Resolved) -> tuple[ReleasedBlock | None, ...]:
        recalled = zip(one.demands or (), self.releases.recall(one.question.query), strict=True)
        return tuple([None if known is None else _first_accurate(known, demand) for demand, known in recalled])

    def replay_planned(self, question: Question, planned: tuple[Noise, ...], request: Request) -> Found | None:
        """Return the release of any question, if it is as accurate as the planned measurement."""
        released = self.releases.recall(question.query)
        for best in (*_whole_releases(released), _best_per_block(released, planned)):
            old = None if best is None else tuple([one.noise for one in best])
            if best is None or old is None or (old != planned and not self._as_good(question, old, planned, request)):
                continue
            values = [value for one in best for value in one.values]
            return Found(MeasuredValues(question, values, old), "replayed", best[0].receipt, reused=True)
        return None

    def derive(self, replays: Sequence[Replay]) -> list[DerivedValues | None]:
        """Return the values of each question whose unreleased blocks follow accurately enough; else None."""
        demands = [own for one in replays for own in one.unreleased(one.question.demands or ())]
        with self.releases.lock:
            if not self.releases.begun and any(may_be_exact(demand.block) for demand in demands):
                self.releases.begin()
            knowledge = self.releases.knowledge
            if knowledge.counts_classes:
                patterns = [own for one in replays for own in one.unreleased(one.question.patterns)]
                follows = knowledge.lookup_all(demands, patterns)
            else:
                follows = [knowledge.exact(one.block) if may_be_exact(one.block) else None for one in demands]
            if (
                not knowledge.combines
                and not any(follows)
                and len(demands) == sum(len(one.released) for one in replays)
            ):
                return [None] * len(replays)
        following = iter(follows)
        return [self._derived(one, following) for one in replays]

    def derive_anyhow(self, asked: Sequence[Resolved]) -> list[DerivedValues | None]:
        """Return the values of each question if they follow at all: where they can, as accurately as is requested."""
        found: list[DerivedValues | None] = [None] * len(asked)
        if all(one.demands is not None for one in asked):
            found = self.derive([Replay.nothing(one) for one in asked])
        if None not in found:
            return found
        relaxed = [one.relaxed() for one in asked]
        if any(one.demands is None for one in relaxed):
            return found
        anyhow = self.derive([Replay.nothing(one) for one in relaxed])
        return [other if one is None else one for one, other in zip(found, anyhow, strict=True)]

    def _derived(self, one: Replay, following: Iterator[KnownValues | None]) -> DerivedValues | None:
        """Return the values of a question; blocks that are still unknown may be combined from single answers."""
        question, demands = one.question.question, one.question.demands or ()
        known = [next(following) if released is None else released for released in one.released]
        if len(known) == 1 and isinstance(known[0], KnownValues):  # nearly all questions of a batch
            return DerivedValues(question, (known[0].values,), (known[0].laws,))
        values: list[Sequence[float] | NDArray[np.float64]] = []
        laws: list[tuple[ErrorLaw, ...]] = []
        for demand, block in zip(demands, known, strict=True):
            if isinstance(block, ReleasedBlock):
                values.append(block.values)
                laws.append((block.noise,))
                continue
            # Single answers are combined without the lock, so that other replays need not wait.
            follows = self.releases.knowledge.combine(demand.block, demand.met) if block is None else block
            if follows is None:
                return None
            values.append(follows.values)
            laws.append(follows.laws)
        return DerivedValues(question, tuple(values), tuple(laws))

    def public(self, question: Question) -> Found | None:
        """Return a question's values if no row can change any of them: then it is free, however it is asked.

        Theorem: public-rows
        """
        blocks = question.query.blocks
        if not all(map(may_be_exact, blocks)) or not question.derivable:
            return None
        with self.releases.lock:
            self.releases.begin()
            known = [values for values in map(self.releases.knowledge.exact, blocks) if values is not None]
        if len(known) < len(blocks):
            return None
        return Found(
            make_derived_values(question, [one.values for one in known], [one.laws for one in known]), "derived", None
        )

    def _as_good(self, question: Question, old: tuple[Noise, ...], new: tuple[Noise, ...], request: Request) -> bool:
        def error(column: AnswerColumn, blocks: tuple[int, ...], noises: tuple[Noise, ...]) -> float:
            used = tuple(noises[block] for block in blocks)
            alone = question.column_alone(column, blocks)
            return predict_error(alone, used, confidence=request.confidence, rows=self.size)

        shaped = [(column, tuple(shape)) for column, shape in question.noisy_columns]
        return all(error(*one, old) <= error(*one, new) for one in shaped)


def _whole_releases(released: Sequence[Sequence[ReleasedBlock] | None]) -> list[list[ReleasedBlock]]:
    """Return the blocks of each release that has all of them, the most accurate release first.

    Another release may have one block more accurately; mixing them would change an answer without a reason. All are
    tried, as of two noise laws each may be the better one at some confidence.
    """
    found: list[list[ReleasedBlock]] = []
    for receipt in dict.fromkeys([one.receipt for one in released[0] or ()]):
        blocks: list[ReleasedBlock] = []
        for known in released:
            same = [one for one in known or () if one.receipt == receipt]
            blocks += [one for one in same if not any(one is other for other in blocks)][:1]
        if len(blocks) == len(released):
            found.append(blocks)
    return sorted(found, key=lambda blocks: sum(noise_variance(one.noise) for one in blocks))


def _best_per_block(
    released: Sequence[Sequence[ReleasedBlock] | None], planned: Sequence[Noise]
) -> list[ReleasedBlock] | None:
    """Return the best release of each block, using each release once; None if there are not enough.

    A question may contain a block several times, each measured with independent noise. Intervals rely on that, so a
    release is never used twice.
    """
    found: list[ReleasedBlock] = []
    for known, noise in zip(released, planned, strict=True):
        left = [one for one in known or () if not any(one is other for other in found)]
        if not left:
            return None
        several = sum(one is known for one in released) > 1
        found.append(min(left, key=lambda one: (several and one.noise != noise, one.noise.scale)))
    return found


def _first_accurate(known: Sequence[ReleasedBlock], demand: Demand) -> ReleasedBlock | None:
    """Return the first release that is accurate enough, so that a repeated question gets the same answer."""
    return next((one for one in known if half_width(one.noise, demand.failing) <= demand.tolerance), None)


def read_release(
    released: Release, asked: Sequence[Question], price: Price, noises: Sequence[Noise] | None = None
) -> Iterator[Found]:
    """Yield a release's integers by question; noisy answers are never fractions. Parses the noises if not given."""
    values = tuple([int(value) for value in released.values])
    noises = noises_from_text(released.mechanism) if noises is None else tuple(noises)
    blocks = _spans(len(question.query.blocks) for question in asked)
    numbers = _spans(question.query.values for question in asked)
    for question, (start, after), (first, last) in zip(asked, blocks, numbers, strict=True):
        measured = MeasuredValues(question, values[first:last], noises[start:after])
        yield Found(measured, "measured", released.receipt, price)


def _spans(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Return the start and end of consecutive parts.

    >>> list(_spans([2, 3]))
    [(0, 2), (2, 5)]
    """
    return pairwise(accumulate(sizes, initial=0))


# --- What was bought is recorded with the text of its questions. ---


_LONGEST_TEXT = 10_000


def stack_queries(asked: Sequence[Question]) -> Query:
    """Return all that questions measure as one query."""
    return asked[0].query.stacked(*(question.query for question in asked[1:])) if len(asked) > 1 else asked[0].query


def written_questions(
    release: Release, receipt: Receipt, read: Callable[[str], tuple[Question, ...]]
) -> tuple[Question, ...] | None:
    """Return the questions of a release from their text, if they are exactly what was measured; else None."""
    text = release.text or ""
    for texts in ((text,), text.split("; ")):
        with suppress(InvalidRequest):
            asked = tuple([question for one in texts for question in read(one)])
            if query_digest(stack_queries(asked)) == receipt.purpose:
                return asked
    return None


def joined_text(asked: Sequence[Question]) -> str | None:
    """Return the text of questions as a release records it; None if none of them was written as text.

    The questions of one statement share its text.
    """
    return "; ".join(dict.fromkeys([one.text for one in asked if one.text]))[:_LONGEST_TEXT] or None


def is_written_as(release: Release, asked: Sequence[Question], missing: Sequence[Question], schema: Schema) -> bool:
    """Return whether a bundle was bought for those questions that are missing, as far as its text says so."""
    if release.text is None or release.text == joined_text(missing):
        return True
    for texts in ((release.text,), release.text.split("; ")):
        with suppress(InvalidRequest):
            written = {query_digest(part.query) for one in texts for part in read_questions(one, schema)}
            meant, given = ({query_digest(one.query) for one in own} for own in (missing, asked))
            return meant <= written <= given
    return False
