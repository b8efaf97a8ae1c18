"""Recent results: a price or a digest is asked for several times on the way of one query, and found once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from dodona.query.query import Query

Found = TypeVar("Found")
_KEPT = 8


class Recent(Generic[Found]):
    """The last few results of a pure function of a query.

    A query is known by its identity: it cannot change, and as it is kept here no other can come to its place in memory.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        """Begin with nothing."""
        self._kept: tuple[tuple[Query, Hashable, Found], ...] = ()

    def of(self, query: Query, how: Hashable, work: Callable[[], Found]) -> Found:
        """Return the result for a query and further arguments, worked out only if it is not among the last few."""
        for known, other, result in self._kept:
            if known is query and other == how:
                return result
        found = work()
        self._kept = ((query, how, found), *self._kept[: _KEPT - 1])  # one assignment: threads may come together
        return found
