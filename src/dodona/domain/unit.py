"""The privacy unit: who is protected, in the owner's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from dodona.domain.neighbours import Neighbours
from dodona.errors import InvalidArgument
from dodona.exact import whole

MOST_ROWS = 10**6
LARGEST_SIZE = 10**15
_LONGEST_ID = 200


@dataclass(frozen=True, slots=True, init=False)
class Unit:
    """A row, or a person with at most `rows` rows, under one neighbour relation.

    >>> Unit(neighbours="add-remove", size=200_000, id="patient_id", rows=4).neighbours
    <Neighbours.ADD_REMOVE: 'add-remove'>
    """

    neighbours: Neighbours
    size: int
    """How many rows there are about, declared and public: the 100% of a tolerance in percent."""
    id: str | None
    """The column that tells people apart; None where each row is protected by itself."""
    rows: int
    """How many rows of a person count."""

    def __init__(self, *, neighbours: Neighbours | str, size: int, id: str | None = None, rows: int = 1) -> None:  # noqa: A002
        """Take a cap on rows only with the column of people."""
        object.__setattr__(self, "neighbours", _relation(neighbours))
        object.__setattr__(self, "size", whole(size, argument="size", lower=1, upper=LARGEST_SIZE))
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "rows", whole(rows, argument="rows", lower=1, upper=MOST_ROWS))
        if id is None and self.rows != 1:
            raise InvalidArgument("rows", rows, "leave it out, or name the column of people as id")
        if id is not None and (type(id) is not str or not id.isprintable() or not 0 < len(id) <= _LONGEST_ID):
            raise InvalidArgument("id", id, "write the name of the column that tells people apart")

    @classmethod
    def each_row(cls, neighbours: Neighbours | str, *, size: int = 1) -> Self:
        """Return the unit that protects each row by itself; prices do not depend on the size."""
        return cls(neighbours=neighbours, size=size)

    @property
    def about(self) -> str:
        """What answers are about, in words, where not all rows may count; else nothing.

        >>> Unit(neighbours="add-remove", size=200_000, id="patient_id", rows=4).about
        'Of each person at most 4 rows count.'
        """
        if self.id is None:
            return ""
        return (
            f"Of each person at most {self.rows:,} rows count." if self.rows > 1 else "Of each person one row counts."
        )

    @property
    def fixed(self) -> bool:
        """Whether all neighbours have as many rows, so that their number is public.

        A person who is replaced may have had more rows, or fewer, than the one who comes.
        """
        return self.neighbours is Neighbours.REPLACE and self.id is None


def _relation(value: Neighbours | str) -> Neighbours:
    try:
        return Neighbours(value)
    except ValueError as fault:
        names = " or ".join(f'"{relation.value}"' for relation in Neighbours)
        raise InvalidArgument("neighbours", value, f"write {names}") from fault
