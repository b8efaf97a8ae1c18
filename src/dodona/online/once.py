"""Once: questions of one call that mean the same, however they were put, are answered together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dodona.answer.derived import derivable
from dodona.answer.tolerance import PerColumn
from dodona.online.planning import shaped_columns, single_total
from dodona.online.request import Request
from dodona.query.canonical import digest
from dodona.query.question import Question


def each_once(asked: Sequence[Question], request: Request) -> tuple[tuple[Question, ...], list[int]]:
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
    if block is not None and not isinstance(request.within, PerColumn):  # of a batch nearly all
        return digest(question.query), block.unit
    units = tuple([block.unit for block in question.query.blocks])
    shown = tuple([(column.name, column.expression, *shape.items()) for column, shape in shaped_columns(question)])
    if not isinstance(request.within, PerColumn):
        shown = tuple([("", *own) for _, *own in shown])
    return digest(question.query), units, shown, derivable(question)
