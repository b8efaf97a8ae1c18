"""Demands: how accurately each block of a question must be known, where blocks are shown as they are."""

from __future__ import annotations

from dataclasses import dataclass

from dodona.accuracy import failure
from dodona.answer.derived import derivable
from dodona.answer.tolerance import tolerance
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
