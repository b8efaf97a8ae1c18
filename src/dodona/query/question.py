"""A question: what is measured, and what is then shown of it. It comes from SQL or from a Query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dodona.errors import InvalidArgument
from dodona.query.expression import Expression, Total
from dodona.query.predicate import EVERYTHING, Predicate
from dodona.query.query import Key, Query

ReadAs = Literal["value", "number", "boolean", "date", "year", "quarter", "month", "week", "day"]
"""The first value of a group in its column's own type, or the text of a CASE; a number, truth or date that was
extracted or written in a CASE; or the first day of the year, quarter, month or week that a date was cut to."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the answer."""

    name: str
    expression: Expression
    read_as: ReadAs = "value"
    """What a program is told for the groups of a key."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the rows of the answer are ordered by."""

    expression: Expression
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One linear query, and the columns that are computed from it for each group."""

    text: str
    """As it was asked, or a description of it."""
    query: Query
    keys: tuple[Key, ...] = ()
    """What all blocks are grouped by; a block of a quantile has one key more, the last."""
    columns: tuple[Column, ...]
    having: Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    warnings: tuple[str, ...] = ()
    where: Predicate = EVERYTHING
    """The rows that are meant in all columns: groups that have none of them, whatever the table is, are not shown."""


_ONE_VALUE = (Column("value", Total(0)),)


def of_query(query: Query) -> Question:
    """Return the question that asks for all values of a query: one column for each block."""
    keys = query.blocks[0].keys
    if len(query.blocks) == 1:
        return Question(text="", query=query, keys=keys, columns=_ONE_VALUE)
    for number, block in enumerate(query.blocks):
        if block.keys != keys:
            accepted = "group all blocks of a query in the same way, or ask them as questions of their own"
            raise InvalidArgument(f"blocks[{number}].keys", block.keys, accepted)
    columns = tuple(Column(f"value_{number + 1}", Total(number)) for number in range(len(query.blocks)))
    return Question(text="", query=query, keys=keys, columns=columns)
