"""What the questions of a call demand: which of them are equivalent, and how accurate each block has to be."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dodona.answer.laws import half_width
from dodona.curator.planner import Planner, predict_error
from dodona.curator.request import ColumnTolerances, DefaultTolerance, Request, resolve_tolerance
from dodona.errors import InvariantBroken
from dodona.knowledge.asked import SingleAnswers, representative_set
from dodona.knowledge.patterns import CountPattern, KnownValues, find_pattern
from dodona.knowledge.summed import SumPattern, find_sum_pattern
from dodona.query.canonical import query_digest
from dodona.query.predicate import Among, And
from dodona.query.query import ONE, Block, ConstantWeight
from dodona.query.question import AnswerColumn, Question, Total
from dodona.schema.schema import Domain

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
    plain = None if isinstance(request.within, ColumnTolerances) else _conjunctions(asked)
    for number, question in enumerate(asked):
        meaning = _meaning(question, request) if plain is None else plain[number]
        place = known.setdefault(meaning, len(once))
        if place == len(once):
            once.append(question)
        places.append(place)
    return tuple(once), places


def _conjunctions(asked: Sequence[Question]) -> list[Hashable] | None:
    """Return what tells apart the questions if all count plain conjunctions: those are equivalent only if equal.

    Its parts are texts and whole numbers, which are hashed faster than blocks.
    """
    found: list[Hashable] = []
    for question in asked:
        block = question.single_total
        if block is None or type(block.where) is not And or type(block.weight) is not ConstantWeight or block.keys:
            return None
        if block.table is not None or not {*map(type, block.where.parts)} <= {Among}:
            return None
        told: list[Hashable] = [block.weight.number, 1 if block.unit == 1 else block.unit]
        for part in block.where.parts:
            told += (part.attribute, part.codes) if type(part) is Among else ()
        found.append(tuple(told))
    return found


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


@dataclass(frozen=True, slots=True)
class CountDemand:
    """A count that does not follow from what is known, and its required accuracy; or a sum, or an average.

    Numbers that are added up are divided by the largest step from their middle: they then cost what a count does. An
    average needs the sum of its steps and its rows together.
    """

    block: Block
    pattern: CountPattern
    tolerance: float
    """In steps; of sums, over the largest one."""
    failing: float
    sums: tuple[tuple[Demand, SumPattern | CountPattern], ...] = ()
    """What is to follow, where it is more than the count of the pattern."""
    left: float = 1.0
    """The part of the tolerance that is left for the steps of a sum, where its rows are known."""

    @property
    def room(self) -> float:
        """How far off what a lattice measures for it may be, in steps."""
        return self.tolerance * self.left

    @property
    def products(self) -> tuple[tuple[CountPattern, float], ...]:
        """All products that it is made of, each with its tolerance."""
        return tuple([_as_product(*own) for own in self.sums]) or ((self.pattern, self.tolerance),)

    def kind(self, asked: SingleAnswers, known: dict[tuple[int, int], Hashable]) -> Hashable:
        """Return what its accuracy depends on, in every base: how many classes are counted, and of ranges how many.

        Classes are told apart by their identity, which is faster than comparing them; sides are known from others.
        """
        if self.sums:
            return self.sums
        pattern = self.pattern
        if pattern.sets is None:
            return pattern.classes, self.block, self.tolerance, self.failing
        counted: list[Hashable] = []
        for own, members in zip(pattern.classes, pattern.sets, strict=True):
            side = id(own), members
            if side not in known:
                known[side] = id(own), *[representative_set(based, members) for based in asked.in_bases(own)]
            counted.append(known[side])
        return tuple(counted), self.tolerance, self.failing

    def met(self, found: KnownValues) -> bool:
        """Return whether the known values are accurate enough."""
        return found.within(self.failing) <= self.tolerance


class Aim:
    """The accuracy required of all questions of a call. What they share is computed once."""

    __slots__ = ("_planner", "_request", "_tolerances", "failing", "size", "within")

    def __init__(self, request: Request, *, size: int, planner: Planner) -> None:
        """Take the request of the call, the declared number of rows, and who plans what averages need."""
        self._request, self.within, self.size, self._planner = request, request.within, size, planner
        self.failing = 1 - float(request.confidence)  # validated with the request
        self._tolerances: dict[tuple[int, int, int | None, bool], float] = {}

    def relaxed(self) -> Aim:
        """Return an aim with some tolerance, whatever was requested."""
        return Aim(replace(self._request, within="100%", epsilon=None), size=self.size, planner=self._planner)

    def tolerance(self, question: Question, column: AnswerColumn) -> float:
        """Return the tolerance of a column in its own unit."""
        if self.within is None:
            raise InvariantBroken("A price demands no accuracy.")
        return resolve_tolerance(question, column, self.within, size=self.size)

    def planned(self, question: Question) -> tuple[Demand, ...]:
        """Return for each block how accurate it would be if the question were measured by itself."""
        noises = self._planner.plan((question,), self._request).measurement.noises
        paired = zip(question.query.blocks, noises, strict=True)
        return tuple([Demand(block, half_width(noise, self.failing), self.failing) for block, noise in paired])

    def expected(self, question: Question, column: AnswerColumn, shape: Mapping[int, float]) -> float:
        """Return how far off a column may be: its tolerance, or what the default price buys."""
        if question.total_columns is not None or not isinstance(self.within, DefaultTolerance):
            return self.tolerance(question, column)
        planned = self._planner.plan((question,), self._request).measurement.noises
        own, noises = question.column_alone(column, tuple(shape)), tuple(planned[block] for block in shape)
        return predict_error(own, noises, confidence=self._request.confidence, rows=own.size or self.size)

    def demand(self, question: Question, column: AnswerColumn, block: Block) -> Demand:
        """Return the demand of a column that shows a block unchanged."""
        return Demand(block, self.tolerance(question, column) / float(block.unit), self.failing)

    def tolerance_of_total(self, question: Question, block: Block) -> float:
        """Return the tolerance of a single total, in steps: only weight and unit matter, and perhaps its name."""
        if isinstance(self.within, ColumnTolerances):
            return self.demand(question, question.columns[0], block).tolerance
        # All of them live as long as the questions of the call.
        same = (id(block.weight), id(block.unit), question.size, block.about_people)
        tolerance = self._tolerances.get(same)
        if tolerance is None:
            tolerance = self._tolerances[same] = self.demand(question, question.columns[0], block).tolerance
        return tolerance


class Resolved:
    """A question of a call with its demands, computed on first use and cached.

    Of a single total only the pattern is cached: a batch has very many of them, and every object that lives as long as
    the call is work for the garbage collector.
    """

    __slots__ = ("_aim", "_average", "_averages", "_demands", "_derivable", "_known", "_patterns", "_total", "question")

    def __init__(self, question: Question, aim: Aim) -> None:
        """Take a question and its required accuracy."""
        self.question, self._aim, self._total = question, aim, question.single_total
        self._derivable = self._total is not None and question.derivable
        self._known = False
        self._demands: tuple[Demand, ...] | None = None
        self._patterns: tuple[_Pattern | None, ...] | _Pattern | None = None
        self._averages: tuple[SumPattern | CountPattern, ...] | None = None
        self._average: CountDemand | None = None

    @property
    def demands(self) -> tuple[Demand, ...] | None:
        """One demand per block; None if the question has none, as `find_demands` explains."""
        if self._known:
            return self._demands
        if self._total is not None and self.demanding:
            tolerance = self._aim.tolerance_of_total(self.question, self._total)
            return (Demand(self._total, tolerance, self._aim.failing),)
        self._demands, self._known = find_demands(self.question, self._aim), True
        return self._demands

    @property
    def demanding(self) -> bool:
        """Whether it has demands."""
        if self._known or self._total is None:
            return self.demands is not None
        return self._aim.within is not None and self._derivable

    @property
    def count_demand(self) -> CountDemand | None:
        """The demand of a question that is a single count or sum over classes, or an average."""
        demands = self.demands
        if demands is None:
            self._average = self._average or self._average_demand()
            return self._average
        if len(demands) != 1:
            return None
        (own,), (pattern,) = demands, self.patterns
        if isinstance(pattern, SumPattern):
            return _sum_demand(((own, pattern),))
        return None if pattern is None else CountDemand(own.block, pattern, own.tolerance, own.failing)

    def _average_demand(self) -> CountDemand | None:
        if self._aim.within is None or not self.averages:
            return None
        planned, patterns = self._aim.planned(self.question), self.averages
        joint = [mean.demand(planned, patterns) for mean in self._means()]
        others = [*zip(planned, patterns, strict=True)]
        alone = [others[number] for number in self._others()]
        return _sum_demand((*joint, *alone))

    def _means(self) -> Iterator[_JointMean]:
        """Yield the averages of the question, each with the accuracy that it is to have."""
        widths = {
            column.expression: self._aim.expected(self.question, column, shape)
            for column, shape in self.question.noisy_columns
        }
        for mean in self.question.means:
            total = self.averages[mean.total]
            if isinstance(total, SumPattern):
                width = widths[mean] / float(self.question.query.blocks[mean.total].unit)
                yield _JointMean(mean.total, mean.rows, total.size, width)

    def _others(self) -> list[int]:
        """Return the blocks that are shown themselves, or belong to no average."""
        used = {block for mean in self.question.means for block in (mean.total, mean.rows)}
        read = [own.expression for own in self.question.columns] + [own.expression for own in self.question.order]
        used -= {own.block for own in read if isinstance(own, Total)}
        return [number for number in range(len(self.question.query.blocks)) if number not in used]

    @property
    def averages(self) -> tuple[SumPattern | CountPattern, ...]:
        """The patterns of all blocks of a question with averages that may follow from residuals; none for others."""
        if self._averages is None:
            self._averages = find_averages(self.question) if self._total is None else ()
        return self._averages

    def averages_met(self, found: Sequence[KnownValues]) -> bool:
        """Return whether averages are as accurate as if they were measured for this question, and all else is."""
        if self._aim.within is None:
            return False
        planned = self._aim.planned(self.question)
        alone = all(planned[number].met(found[number]) for number in self._others())
        return alone and all(mean.met(planned, found) for mean in self._means())

    def tolerances(self) -> list[tuple[str, float]]:
        """Return the requested accuracy of each column with an error, by name, in its unit."""
        question = self.question
        return [(column.name, self._aim.expected(question, column, shape)) for column, shape in question.noisy_columns]

    def relaxed(self) -> Resolved:
        """Return the same question with demands that any values meet, whatever accuracy or price was requested."""
        relaxed = Resolved(self.question, self._aim)
        demands = find_demands(self.question, self._aim.relaxed()) if self.demands is None else self.demands
        relaxed._demands = demands and tuple(replace(demand, tolerance=math.inf) for demand in demands)
        relaxed._known, relaxed._patterns = True, self._patterns
        return relaxed

    @property
    def patterns(self) -> tuple[CountPattern | SumPattern | None, ...]:
        """The pattern of each demand's block, of a count or a sum."""
        found = self._patterns
        if found is None:
            blocks, domain = self.question.query.blocks if self.demanding else (), self.question.query.domain
            several = tuple([_pattern(block, domain) for block in blocks])
            alone = several[0] if len(several) == 1 else None
            found = self._patterns = several if alone is None else alone
        return found if isinstance(found, tuple) else (found,)


_Pattern = CountPattern | SumPattern


@dataclass(frozen=True, slots=True)
class _JointMean:
    """An average: its blocks, how far a number is from the middle at most, and its half-width, both in steps.

    Its half-width is predicted for numbers at the bound. A mean that is less by the half-width is then rejected where
    the variance of the sum and that of the rows, times the square of this mean, are together as large as planned
    (page honest-ratio). So less noise in the one makes room for more in the other.
    """

    total: int
    rows: int
    reach: float
    width: float

    @property
    def away(self) -> float:
        """How many steps from the middle a row counts for: half of the largest at least, for means in the middle."""
        return max(abs(self.reach - self.width), self.reach / 2)

    def limit(self, planned: Sequence[Demand]) -> float:
        """Return how far off the sum and so many times the rows may be together."""
        return math.hypot(planned[self.total].tolerance, (self.reach - self.width) * planned[self.rows].tolerance)

    def met(self, planned: Sequence[Demand], found: Sequence[KnownValues]) -> bool:
        """Return whether both are known well enough together."""
        failing = planned[self.total].failing
        reached = math.hypot(found[self.total].within(failing), self.away * found[self.rows].within(failing))
        return reached <= self.limit(planned)

    def demand(self, planned: Sequence[Demand], patterns: Sequence[_Pattern]) -> tuple[Demand, _Pattern]:
        """Return the demand of both together, as if it were one sum."""
        total = patterns[self.total]
        if not isinstance(total, SumPattern):
            raise InvariantBroken("An average has a sum.")
        own = replace(planned[self.total], tolerance=self.limit(planned))
        return own, replace(total, constant=math.ceil(self.away))


def _pattern(block: Block, domain: Domain) -> CountPattern | SumPattern | None:
    counts = block.weight is ONE or block.weight == ONE  # the same object in nearly all questions of a batch
    return find_pattern(block, domain) if counts else find_sum_pattern(block, domain)


def find_averages(question: Question) -> tuple[SumPattern | CountPattern, ...]:
    """Return the pattern of each block of a question with averages; none if one of them follows from no residuals.

    An average is a sum of steps from the middle over the rows that have a number. The noise of the two is then
    independent, as their rows are different ones.
    """
    blocks, domain = question.query.blocks, question.query.domain
    found: dict[int, SumPattern | CountPattern] = {}
    for mean in question.means:
        total = find_sum_pattern(blocks[mean.total], domain)
        of = None if total is None or not total.centred else total.value.attribute
        rows = None if of is None else find_sum_pattern(blocks[mean.rows], domain, of)
        if total is None or rows is None or blocks[mean.total].keys != question.keys:
            return ()
        found |= {mean.total: total, mean.rows: rows}
    for number in range(len(blocks)) if found else ():
        own = found.get(number) or _pattern(blocks[number], domain)
        if own is None:
            return ()
        found[number] = own
    return tuple([found[number] for number in sorted(found)])


def _sum_demand(parts: tuple[tuple[Demand, SumPattern | CountPattern], ...]) -> CountDemand:
    """Return the demand of sums and counts together: all as accurate as the tightest of them needs."""
    products = [_as_product(*own) for own in parts]
    tolerance = min(room for _, room in products)
    first = next(own for own, _ in products if own.summed is not None)
    return CountDemand(parts[0][0].block, first, tolerance, parts[0][0].failing, parts)


def _as_product(demand: Demand, pattern: _Pattern) -> tuple[CountPattern, float]:
    """Return a count or a sum as one product, and how far off that may be."""
    if isinstance(pattern, SumPattern):
        return pattern.pattern(pattern.members), demand.tolerance / pattern.size
    return pattern, demand.tolerance


def find_demands(question: Question, aim: Aim) -> tuple[Demand, ...] | None:
    """Return one demand per block; None if a column is more than a count or a sum, or if a price is given.

    Intervals of spreads, quantiles and the like need independent noises, which values that follow from one table do
    not have; averages are found by `find_averages`.
    """
    if aim.within is None or not question.derivable:
        return None
    block = question.single_total
    if block is not None:
        return (Demand(block, aim.tolerance_of_total(question, block), aim.failing),)
    found: dict[int, Demand] = {}
    for column, _ in question.noisy_columns:
        if not isinstance(column.expression, Total) or column.expression.block in found:
            return None
        block = question.query.blocks[column.expression.block]
        found[column.expression.block] = aim.demand(question, column, block)
    return tuple(found[number] for number in sorted(found)) if len(found) == len(question.query.blocks) else None
