"""Questions that are one count of rows: all that watches and weights take."""

from __future__ import annotations

from dodona.errors import InvalidRequest
from dodona.online.planning import single_total
from dodona.query.query import Query
from dodona.query.question import Question


def counted(question: Question) -> Query:
    """Return the query of a question that shows one count and nothing computed from it."""
    block = single_total(question)
    if block is None or block.values != 1 or block.unit != 1 or question.having is not None:
        raise InvalidRequest("Here a question is one count of rows, such as SELECT count(*) FROM … WHERE …")
    return question.query
