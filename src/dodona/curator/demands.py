"""What the questions of a call demand: which of them are equivalent, and how accurate each block has to be."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from dodona.answer.laws import half_width
from dodona.curator.combined import BlockAims, CombinedDemand, demand_of_blocks, find_block_patterns
from dodona.curator.planner import Planner, predict_error
from dodona.curator.request import ColumnTolerances, DefaultTolerance, Request, resolve_tolerance
from dodona.errors import InvariantBroken
from dodona.knowledge.asked import SingleAnswers
from dodona.knowledge.patterns import CountPattern, KnownValues, find_pattern
from dodona.knowledge.sides import Members, representative_set
from dodona.knowledge.summed import Pattern, SumPattern, find_sum_pattern
from dodona.privacy.additive_noise import Noise
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
    keys: list[Hashable] = []
    for question in asked:
        block = question.single_total
        if block is None or type(block.where) is not And or type(block.weight) is not ConstantWeight or block.keys:
            return None
        if block.table is not None or not {*map(type, block.where.parts)} <= {Among}:
            return None
        key: list[Hashable] = [block.weight.number, 1 if block.unit == 1 else block.unit]
        for part in block.where.parts:
            key += (part.attribute, part.codes) if type(part) is Among else ()
        keys.append(tuple(key))
    return keys


def _meaning(question: Question, request: Request) -> Hashable:
    """Return everything that determines what is measured for a question, and how accurately."""
    block = question.single_total
    if block is not None and not isinstance(request.within, ColumnTolerances):  # nearly all questions of a batch
        return query_digest(question.query), block.unit
    units = tuple([block.unit for block in question.query.blocks])
    shown = tuple([(column.name, column.expression, *shape.items()) for column, shape in question.noisy_columns])
    if not isinstance(request.within, ColumnTolerances):
        shown = tuple([("", *rest) for _, *rest in shown])
    return query_digest(question.query), units, shown, question.derivable


# --- A question is resolved once: its blocks, their required accuracy, and the pattern of each count. ---


@dataclass(frozen=True, slots=True)
class Demand:
    """A block and the tolerance of its values, in steps, each with the given failure probability."""

    block: Block
    tolerance: float
    failing: float

    def met(self, known: KnownValues) -> bool:
        """Return whether the known values are accurate enough."""
        return known.within(self.failing) <= self.tolerance


@dataclass(frozen=True, slots=True)
class CountDemand:
    """A count that does not follow from what is known, and its required accuracy; or whatever else needs products.

    Numbers that are added up are divided by the largest step from their middle: they then cost what a count does. An
    average needs the sum of its steps and its rows together.
    """

    block: Block
    pattern: CountPattern
    tolerance: float
    """In steps; of sums, over the largest one."""
    failing: float
    sums: tuple[tuple[Demand, Pattern], ...] = ()
    """What is to be designed for, where it is more than the count of the pattern."""
    combined: CombinedDemand | None = None
    """What is to follow, where it is computed from several blocks."""
    alone: float = math.inf
    """How far off its blocks would be if they were measured by themselves, where that is less than the tolerance."""
    left: float = 1.0
    """The part of the tolerance that is left for the steps of a sum, where its rows are known."""

    @property
    def rent(self) -> float:
        """How far off single answers may be that were asked for no more accurately."""
        return min(self.tolerance, self.alone)

    @property
    def room(self) -> float:
        """How far off what a lattice measures for it may be, in steps."""
        return self.tolerance * self.left

    @property
    def products(self) -> tuple[tuple[CountPattern, float], ...]:
        """All products that it is made of, each with its tolerance."""
        return tuple([_as_product(*pair) for pair in self.sums]) or ((self.pattern, self.tolerance),)

    @property
    def designed(self) -> tuple[tuple[CountPattern, float], ...]:
        """The products that a lattice is designed for: all, or the steps of a sum whose rows are known."""
        return self.products if self.left == 1 else ((self.pattern, self.tolerance),)

    def kind(self, asked: SingleAnswers, known: dict[tuple[int, Members], Hashable]) -> Hashable:
        """Return what its accuracy depends on, in every base: how many classes are counted, and of ranges how many.

        Classes are told apart by their identity, which is faster than comparing them; sides are known from others.
        """
        if self.sums or self.combined is not None:
            return self.sums, self.combined and self.combined.combinations
        pattern = self.pattern
        if pattern.sets is None:
            return pattern.classes, self.block, self.tolerance, self.failing
        counted: list[Hashable] = []
        for classes, members in zip(pattern.classes, pattern.sets, strict=True):
            side = id(classes), members
            if side not in known:
                known[side] = id(classes), *[representative_set(based, members) for based in asked.in_bases(classes)]
            counted.append(known[side])
        return tuple(counted), self.tolerance, self.failing

    def met(self, known: KnownValues) -> bool:
        """Return whether the known values are accurate enough."""
        return known.within(self.failing) <= self.tolerance


class Aim:
    """The accuracy required of all questions of a call. What they share is computed once."""

    __slots__ = ("_noises", "_planner", "_request", "_tolerances", "failing", "size", "within")

    def __init__(self, request: Request, *, size: int, planner: Planner) -> None:
        """Take the request of the call, the declared number of rows, and who plans what averages need."""
        self._request, self.within, self.size, self._planner = request, request.within, size, planner
        self.failing = 1 - float(request.confidence)  # validated with the request
        self._tolerances: dict[tuple[int, int, int | None, bool], float] = {}
        self._noises: dict[int, tuple[Question, tuple[Noise, ...]]] = {}

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
        paired = zip(question.query.blocks, self._planned_noises(question), strict=True)
        return tuple([Demand(block, half_width(noise, self.failing), self.failing) for block, noise in paired])

    def _planned_noises(self, question: Question) -> tuple[Noise, ...]:
        """Return the noise of each block if the question were measured by itself, planned once for all its columns."""
        known = self._noises.get(id(question))  # to find a question of many columns by its value takes long
        if known is None:
            noises = self._planner.plan((question,), self._request).measurement.noises
            known = self._noises[id(question)] = question, noises
        return known[1]

    def expected(self, question: Question, column: AnswerColumn, shape: Mapping[int, float]) -> float:
        """Return how far off a column may be: its tolerance, or what the default price buys."""
        if question.total_columns is not None or not isinstance(self.within, DefaultTolerance):
            return self.tolerance(question, column)
        planned = self._planned_noises(question)
        subquestion, noises = question.column_alone(column, tuple(shape)), tuple(planned[block] for block in shape)
        return predict_error(
            subquestion, noises, confidence=self._request.confidence, rows=subquestion.size or self.size
        )

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

    __slots__ = (
        "_aim",
        "_block_patterns",
        "_combined",
        "_demands",
        "_derivable",
        "_known",
        "_patterns",
        "_total",
        "_widths",
        "question",
    )

    def __init__(self, question: Question, aim: Aim) -> None:
        """Take a question and its required accuracy."""
        self.question, self._aim, self._total = question, aim, question.single_total
        self._derivable = self._total is not None and question.derivable
        self._known = False
        self._demands: tuple[Demand, ...] | None = None
        self._patterns: tuple[Pattern | None, ...] | Pattern | None = None
        self._block_patterns: tuple[Pattern, ...] | None = None
        self._combined: CombinedDemand | None = None
        self._widths: dict[int, float] | None = None

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
        """The demand of a question whose blocks are products: counts, sums, or what is computed from them."""
        demands = self.demands
        if demands is None:
            combined = self.combined
            if combined is None:
                return None
            failing = combined.failing
            parts = [(Demand(block, room, failing), pattern) for pattern, room, block in combined.products()]
            return replace(_demand_together(parts, combined), alone=combined.alone)
        paired = [
            (demand, pattern) for demand, pattern in zip(demands, self.patterns, strict=True) if pattern is not None
        ]
        if not demands or len(paired) < len(demands):
            return None
        demand, pattern = paired[0]
        if len(paired) > 1 or isinstance(pattern, SumPattern):
            return _demand_together(paired)
        return CountDemand(demand.block, pattern, demand.tolerance, demand.failing)

    @property
    def combined(self) -> CombinedDemand | None:
        """What a question demands that is computed from several blocks; None for others, or without an accuracy."""
        if self._aim.within is None or not self.block_patterns:
            return None
        if self._combined is None:
            question, aim = self.question, self._aim

            def planned() -> list[float]:
                return [demand.tolerance for demand in aim.planned(question)]

            rows = max((question.size or aim.size) / question.groups, 1.0)
            aims = BlockAims(question, rows, self._width, planned)
            self._combined = demand_of_blocks(self.block_patterns, aims, aim.failing)
        return self._combined

    @property
    def block_patterns(self) -> tuple[Pattern, ...]:
        """The patterns of the blocks of a question that is computed from several; none for others."""
        if self._block_patterns is None:
            self._block_patterns = find_block_patterns(self.question) if self._total is None else ()
        return self._block_patterns

    def tolerances(self) -> list[tuple[str, float]]:
        """Return the requested accuracy of each column with an error, by name, in its unit."""
        return [(column.name, self._width(column, shape)) for column, shape in self.question.noisy_columns]

    def _width(self, column: AnswerColumn, shape: Mapping[int, float]) -> float:
        """Return how far off a column of the question may be."""
        if self._widths is None:
            self._widths = {}
        width = self._widths.get(id(column))
        if width is None:
            width = self._widths[id(column)] = self._aim.expected(self.question, column, shape)
        return width

    def relaxed(self) -> Resolved:
        """Return the same question with demands that any values meet, whatever accuracy or price was requested."""
        relaxed = Resolved(self.question, self._aim)
        demands = find_demands(self.question, self._aim.relaxed()) if self.demands is None else self.demands
        relaxed._demands = demands and tuple(replace(demand, tolerance=math.inf) for demand in demands)
        relaxed._known, relaxed._patterns = True, self._patterns
        return relaxed

    @property
    def patterns(self) -> tuple[Pattern | None, ...]:
        """The pattern of each demand's block, of a count or a sum."""
        patterns = self._patterns
        if patterns is None:
            blocks, domain = self.question.query.blocks if self.demanding else (), self.question.query.domain
            several = tuple([find_block_pattern(block, domain) for block in blocks])
            alone = several[0] if len(several) == 1 else None
            patterns = self._patterns = several if alone is None else alone
        return patterns if isinstance(patterns, tuple) else (patterns,)


def find_block_pattern(block: Block, domain: Domain) -> Pattern | None:
    """Return the pattern of a count or of a sum."""
    counts = block.weight is ONE or block.weight == ONE  # the same object in nearly all questions of a batch
    return find_pattern(block, domain) if counts else find_sum_pattern(block, domain)


def _demand_together(parts: Sequence[tuple[Demand, Pattern]], combined: CombinedDemand | None = None) -> CountDemand:
    """Return the demand of several counts and sums: all as accurate as the tightest of them needs."""
    several = tuple(dict.fromkeys(parts))
    products = [_as_product(*part) for part in several]
    tolerance = min(room for _, room in products)
    first = next((pattern for pattern, _ in products if pattern.summed is not None), products[0][0])
    return CountDemand(several[0][0].block, first, tolerance, several[0][0].failing, several, combined)


def _as_product(demand: Demand, pattern: Pattern) -> tuple[CountPattern, float]:
    """Return a count or a sum as one product, and how far off that may be."""
    if isinstance(pattern, SumPattern):
        return pattern.pattern(pattern.members), demand.tolerance / pattern.size
    return pattern, demand.tolerance


def find_demands(question: Question, aim: Aim) -> tuple[Demand, ...] | None:
    """Return one demand per block; None if a column is more than a count or a sum, or if a price is given.

    Intervals of spreads, quantiles and the like need independent noises, which values that follow from one table do
    not have; what is computed from several blocks has a demand of its own (`combined`).
    """
    if aim.within is None or not question.derivable:
        return None
    block = question.single_total
    if block is not None:
        return (Demand(block, aim.tolerance_of_total(question, block), aim.failing),)
    demands: dict[int, Demand] = {}
    for column, _ in question.noisy_columns:
        if not isinstance(column.expression, Total) or column.expression.block in demands:
            return None
        block = question.query.blocks[column.expression.block]
        demands[column.expression.block] = aim.demand(question, column, block)
    return tuple(demands[number] for number in sorted(demands)) if len(demands) == len(question.query.blocks) else None
