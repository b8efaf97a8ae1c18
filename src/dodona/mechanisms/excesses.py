"""Excesses: which answer is farthest above or below what is believed, and on which side, without telling how far."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from dodona.accounting.event import Event
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.mechanisms.exponential import Exponential
from dodona.mechanisms.selection import Choice
from dodona.query.canonical import digest
from dodona.query.people import effect_of
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity

if TYPE_CHECKING:
    from dodona.mechanisms.selection import Whole


@dataclass(frozen=True)
class Excesses:
    """One of 2k candidates: for each of k answers that it is above what is believed, then for each that it is below.

    Theorem: distance-choice
    """

    theorem: ClassVar[str] = "distance-choice"
    query: Query
    believed: tuple[int, ...]
    choice: Choice
    count: ClassVar[int] = 1
    rarities: ClassVar[tuple[()]] = ()

    def __post_init__(self) -> None:
        """Refuse numbers that are not there, or not whole."""
        if len(self.believed) != self.query.values or any(type(one) is not int for one in self.believed):
            raise InvalidArgument("believed", len(self.believed), f"write {self.query.values} whole numbers")

    def event(self, unit: Unit) -> Event:
        """Return what it costs: scores go both ways.

        Theorem: distance-choice
        """
        return self.choice.event(excess_scores(self.query, unit))

    def scores(self, values: Whole) -> Whole:
        """Return by how much each answer is above, then by how much each is below."""
        above = [int(value) - believed for value, believed in zip(values, self.believed, strict=True)]
        return [*above, *(-one for one in above)]

    @cached_property
    def purpose(self) -> str:
        """The digest of what is asked, of what is believed among it."""
        public = hashlib.sha256(repr(self.believed).encode("ascii")).hexdigest()
        return f"excess {public} {digest(self.query)}"

    @property
    def spelled(self) -> str:
        """The mechanism as a text."""
        name = "exponential" if isinstance(self.choice, Exponential) else "permute-and-flip"
        return f"{name} {self.choice.scale} x 1 by excess"


def excess_scores(query: Query, unit: Unit) -> Sensitivity:
    """Return how far a unit moves the scores at most.

    Theorem: distance-choice
    """
    return Sensitivity.scores(effect_of(query, unit).linf, unit.neighbours)
