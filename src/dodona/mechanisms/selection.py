"""A selection: which of several answers of a query are largest, without their values. It says itself what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dodona.accounting.event import Event, Together
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.exact import whole
from dodona.mechanisms.exponential import Exponential
from dodona.mechanisms.permute_and_flip import PermuteAndFlip
from dodona.query.canonical import digest
from dodona.query.people import effect_of
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

    Whole = NDArray[np.int64] | Sequence[int]

Choice = Exponential | PermuteAndFlip


class Scored(Protocol):
    """Candidates that are public, and how answers of a query score them. It says itself what a choice costs."""

    @property
    def query(self) -> Query:
        """What is asked of the table."""

    @property
    def choice(self) -> Choice:
        """The law that chooses."""

    @property
    def count(self) -> int:
        """How many candidates are chosen, one after the other."""

    @property
    def rarities(self) -> Sequence[Fraction]:
        """How many times as many equal candidates the commonest stands for; nothing where all stand for themselves.

        Only for one choice by the exponential mechanism.
        """

    @property
    def purpose(self) -> str:
        """The digest of what is asked."""

    @property
    def spelled(self) -> str:
        """The mechanism as a text."""

    def event(self, unit: Unit) -> Event:
        """Return what it costs."""

    def scores(self, values: Whole) -> Whole:
        """Return the score of each candidate, given the exact answers; only `trusted` has these."""


@dataclass(frozen=True, slots=True)
class Selection:
    """`count` answers of a query, each chosen among those that are left."""

    query: Query
    choice: Choice
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse answers in different units, and more choices than candidates."""
        if len({block.unit for block in self.query.blocks}) > 1:
            raise InvalidArgument("candidates", "several units", "compare counts with counts and sums of one column")
        whole(self.count, argument="count", lower=1, upper=self.query.values)

    def event(self, unit: Unit) -> Event:
        """Return what it costs: each choice once.

        Theorem: choice-privacy
        """
        one = self.choice.event(scores_of(self.query, unit))
        return one if self.count == 1 else Together(((one, self.count),))

    @property
    def rarities(self) -> tuple[()]:
        """Nothing: each candidate stands for itself."""
        return ()

    def scores(self, values: Whole) -> Whole:
        """Return the answers themselves."""
        return values

    @property
    def purpose(self) -> str:
        """The digest of what is asked."""
        return f"choose {self.count} {digest(self.query)}"

    @property
    def spelled(self) -> str:
        """The mechanism as a text."""
        name = "exponential" if isinstance(self.choice, Exponential) else "permute-and-flip"
        return f"{name} {self.choice.scale} x {self.count}"


def scores_of(query: Query, unit: Unit) -> Sensitivity:
    """Return the sensitivity of the answers as scores: only the largest change of one matters."""
    found = effect_of(query, unit)
    return Sensitivity.scores(found.linf, unit.neighbours, monotone=found.monotone)


def stacked(queries: Iterable[Query]) -> Query:
    """Return candidates as one query, which must each have one answer."""
    first, *rest = queries
    for query in (first, *rest):
        if query.values != 1:
            raise InvalidArgument("candidates", f"{query.values} answers", "write queries with one answer each")
    return first.stacked(*rest)
