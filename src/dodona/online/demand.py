"""Demands: how accurately each block of a question must be known, where blocks are shown as they are."""

from __future__ import annotations

from dataclasses import dataclass

from dodona.accuracy import failure
from dodona.answer.derived import derivable
from dodona.answer.tolerance import tolerance
from dodona.belief.facet import Facet, facet_of
from dodona.online.knowledge import Found
from dodona.online.planning import shaped_columns, single_total
from dodona.online.request import Request
from dodona.query.expression import Total
from dodona.query.query import Block
from dodona.query.question import Question


@dataclass(frozen=True, slots=True)
class Demand:
    """A block, and how far off its values may be, in steps, each with the probability of failing."""

    block: Block
    room: float
    failing: float

    def met(self, found: Found) -> bool:
        """Return whether what is known is accurate enough."""
        return found.within(self.failing) <= self.room


class Resolved:
    """A question of a call, with what it demands: computed when it is first needed, and once for all that need it."""

    __slots__ = ("_demands", "_facets", "_known", "_request", "_size", "question")

    def __init__(self, question: Question, request: Request, *, size: int) -> None:
        """Take a question, how accurate it is to be, and the declared number of rows."""
        self.question, self._request, self._size = question, request, size
        self._known = False
        self._demands: tuple[Demand, ...] | None = None
        self._facets: tuple[Facet | None, ...] | None = None

    @property
    def demands(self) -> tuple[Demand, ...] | None:
        """One demand a block; None where a question has none, as `demands` says."""
        if not self._known:
            self._demands = demands(self.question, self._request, size=self._size)
            self._known = True
        return self._demands

    @property
    def facets(self) -> tuple[Facet | None, ...]:
        """For each demand the classes that its block is a count over."""
        if self._facets is None:
            domain = self.question.query.domain
            self._facets = tuple([facet_of(demand.block, domain) for demand in self.demands or ()])
        return self._facets


def demands(question: Question, request: Request, *, size: int) -> tuple[Demand, ...] | None:
    """Return one demand a block; None where a column is more than a count or a sum, or where a price is asked for.

    Intervals of averages, quantiles and the like take noises that know nothing of each other, which what follows from
    one table has not.
    """
    if request.within is None or not derivable(question):
        return None
    failing = failure(request.confidence)
    block = single_total(question)
    if block is not None:
        room = tolerance(question, question.columns[0], request.within, size=size) / float(block.unit)
        return (Demand(block, room, failing),)
    found: dict[int, Demand] = {}
    for column, _ in shaped_columns(question):
        if not isinstance(column.expression, Total) or column.expression.block in found:
            return None
        block = question.query.blocks[column.expression.block]
        room = tolerance(question, column, request.within, size=size) / float(block.unit)
        found[column.expression.block] = Demand(block, room, failing)
    return tuple(found[number] for number in sorted(found)) if len(found) == len(question.query.blocks) else None
