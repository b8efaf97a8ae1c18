"""Demands: how accurately each block of a question must be known, where blocks are shown as they are."""

from __future__ import annotations

from dataclasses import dataclass

from dodona.accuracy import failure
from dodona.answer.derived import derivable
from dodona.answer.tolerance import PerColumn, tolerance
from dodona.belief.facet import Facet, facet_of
from dodona.errors import InvariantBroken
from dodona.online.knowledge import Found
from dodona.online.planning import shaped_columns, single_total
from dodona.online.request import Request
from dodona.query.expression import Total
from dodona.query.query import Block
from dodona.query.question import Column, Question


@dataclass(frozen=True, slots=True)
class Demand:
    """A block, and how far off its values may be, in steps, each with the probability of failing."""

    block: Block
    room: float
    failing: float

    def met(self, found: Found) -> bool:
        """Return whether what is known is accurate enough."""
        return found.within(self.failing) <= self.room


class Aim:
    """How accurate all questions of a call are to be. What they have in common is read once."""

    __slots__ = ("_rooms", "failing", "size", "within")

    def __init__(self, request: Request, *, size: int) -> None:
        """Take what the call says, and the declared number of rows."""
        self.within, self.size = request.within, size
        self.failing = failure(request.confidence)
        self._rooms: dict[tuple[int, int], float] = {}

    def demand(self, question: Question, column: Column, block: Block) -> Demand:
        """Return what a column demands that shows a block as it is."""
        if self.within is None:
            raise InvariantBroken("A price demands no accuracy.")
        room = tolerance(question, column, self.within, size=self.size) / float(block.unit)
        return Demand(block, room, self.failing)

    def demand_of_total(self, question: Question, block: Block) -> Demand:
        """Return the same of a question with a single total: only its weight and its unit decide, and its name may."""
        if isinstance(self.within, PerColumn):
            return self.demand(question, question.columns[0], block)
        same = (id(block.weight), id(block.unit))  # both live as long as the questions of the call do
        room = self._rooms.get(same)
        if room is not None:
            return Demand(block, room, self.failing)
        found = self.demand(question, question.columns[0], block)
        self._rooms[same] = found.room
        return found


class Resolved:
    """A question of a call, with what it demands: computed when it is first needed, and once for all that need it."""

    __slots__ = ("_aim", "_demands", "_facets", "_known", "question")

    def __init__(self, question: Question, aim: Aim) -> None:
        """Take a question, and how accurate it is to be."""
        self.question, self._aim = question, aim
        self._known = False
        self._demands: tuple[Demand, ...] | None = None
        self._facets: tuple[Facet | None, ...] | None = None

    @property
    def demands(self) -> tuple[Demand, ...] | None:
        """One demand a block; None where a question has none, as `demands` says."""
        if not self._known:
            self._demands = demands(self.question, self._aim)
            self._known = True
        return self._demands

    @property
    def facets(self) -> tuple[Facet | None, ...]:
        """For each demand the classes that its block is a count over."""
        if self._facets is None:
            domain = self.question.query.domain
            self._facets = tuple([facet_of(demand.block, domain) for demand in self.demands or ()])
        return self._facets


def demands(question: Question, aim: Aim) -> tuple[Demand, ...] | None:
    """Return one demand a block; None where a column is more than a count or a sum, or where a price is asked for.

    Intervals of averages, quantiles and the like take noises that know nothing of each other, which what follows from
    one table has not.
    """
    if aim.within is None or not derivable(question):
        return None
    block = single_total(question)
    if block is not None:
        return (aim.demand_of_total(question, block),)
    found: dict[int, Demand] = {}
    for column, _ in shaped_columns(question):
        if not isinstance(column.expression, Total) or column.expression.block in found:
            return None
        block = question.query.blocks[column.expression.block]
        found[column.expression.block] = aim.demand(question, column, block)
    return tuple(found[number] for number in sorted(found)) if len(found) == len(question.query.blocks) else None
