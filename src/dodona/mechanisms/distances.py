"""Distances: which part of a query is farthest from what is believed, without telling how far."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dodona.accounting.event import Event
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.exact import whole
from dodona.mechanisms.exponential import Exponential
from dodona.mechanisms.selection import Choice
from dodona.query.canonical import digest
from dodona.query.people import effect_of
from dodona.query.query import Query
from dodona.query.sensitivity import Sensitivity

if TYPE_CHECKING:
    from dodona.mechanisms.selection import Whole

MOST_FACTOR = 1 << 20
_FARTHEST = 1 << 38  # with 2^22 answers, sums of distances stay below 2^62


@dataclass(frozen=True)
class Distances:
    """One block of a query, chosen by factor·Σ|answer - believed| - handicap: all whole numbers, and all public.

    Theorem: distance-choice
    """

    theorem: ClassVar[str] = "distance-choice"
    query: Query
    believed: tuple[int, ...]
    """For each answer what is expected of it, rounded."""
    factors: tuple[int, ...]
    """For each block how much its distance counts."""
    handicaps: tuple[int, ...]
    """For each block what is taken off its score: the distance that noise would leave."""
    choice: Choice
    count: ClassVar[int] = 1
    rarities: ClassVar[tuple[()]] = ()

    def __post_init__(self) -> None:
        """Refuse numbers that are not there, or not whole."""
        blocks = len(self.query.blocks)
        sizes = (("believed", self.query.values), ("factors", blocks), ("handicaps", blocks))
        limits = {"believed": (-_FARTHEST, _FARTHEST), "factors": (1, MOST_FACTOR), "handicaps": (-1 << 61, 1 << 61)}
        for name, wanted in sizes:
            found: Sequence[int] = getattr(self, name)
            if len(found) != wanted:
                raise InvalidArgument(name, f"{len(found)} numbers", f"write {wanted}")
            for value in found:
                if type(value) is not int:
                    raise InvalidArgument(name, value, "write whole numbers")
            whole(min(found), argument=name, lower=limits[name][0], upper=limits[name][1])
            whole(max(found), argument=name, lower=limits[name][0], upper=limits[name][1])

    def event(self, unit: Unit) -> Event:
        """Return what it costs: a unit moves a distance by the block's l1 sensitivity at most.

        Theorem: distance-choice
        """
        return self.choice.event(distance_scores(self.query, self.factors, unit))

    def scores(self, values: Whole) -> Whole:
        """Return the score of each block."""
        small = isinstance(values, np.ndarray) and int(abs(values // 2).max()) < _FARTHEST
        kind = np.int64 if small else np.object_
        away = np.abs(np.asarray(values, dtype=kind) - np.array(self.believed, dtype=kind))
        spans = pairwise(accumulate((block.values for block in self.query.blocks), initial=0))
        sums = [int(away[first:last].sum()) for first, last in spans]
        paired = zip(sums, self.factors, self.handicaps, strict=True)
        return [factor * total - handicap for total, factor, handicap in paired]

    @cached_property
    def purpose(self) -> str:
        """The digest of what is asked, of what is believed among it."""
        public = repr((self.believed, self.factors, self.handicaps)).encode("ascii")
        return f"distance {hashlib.sha256(public).hexdigest()} {digest(self.query)}"

    @property
    def spelled(self) -> str:
        """The mechanism as a text."""
        name = "exponential" if isinstance(self.choice, Exponential) else "permute-and-flip"
        return f"{name} {self.choice.scale} x 1 by distance"


def distance_scores(query: Query, factors: Sequence[int], unit: Unit) -> Sensitivity:
    """Return how far a unit moves the scores at most: factor times l1 sensitivity, in the worst block.

    Theorem: distance-choice
    """
    moved = (
        factor * effect_of(Query(query.domain, (block,)), unit).l1
        for factor, block in zip(factors, query.blocks, strict=True)
    )
    return Sensitivity.scores(max(moved), unit.neighbours)
