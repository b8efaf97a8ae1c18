"""How far one row can move an integer answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from dodona.domain.neighbours import Neighbours
from dodona.errors import InvalidArgument
from dodona.exact import whole

_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Exact distances between the answers on neighbouring tables, in grid steps, and the relation they hold under.

    Theorem: sensitivity
    """

    l1: int
    """Largest sum of absolute changes."""
    l2_squared: int
    """Largest sum of squared changes."""
    linf: int
    """Largest change of a single coordinate."""
    neighbours: Neighbours
    monotone: bool = False
    """Whether no row can raise one coordinate and lower another: true of counts, under add/remove only."""

    def __post_init__(self) -> None:
        """Refuse what no answer can have."""
        for name, largest in (("l1", _LARGEST), ("l2_squared", _LARGEST**2), ("linf", _LARGEST)):
            object.__setattr__(self, name, whole(getattr(self, name), argument=name, lower=1, upper=largest))
        relation: object = self.neighbours  # anything may come
        if not isinstance(relation, Neighbours):
            accepted = "write Neighbours.ADD_REMOVE or Neighbours.REPLACE"
            raise InvalidArgument("neighbours", self.neighbours, accepted)
        if not self.linf <= self.l1 <= self.l2_squared <= self.l1**2 or self.linf**2 > self.l2_squared:
            accepted = "no whole changes have these norms: linf ≤ l1 ≤ l2² ≤ l1² and linf² ≤ l2² must hold"
            raise InvalidArgument("l2_squared", self.l2_squared, accepted)
        if self.monotone not in (False, True):
            raise InvalidArgument("monotone", self.monotone, "write True or False")
        if self.monotone and self.neighbours is Neighbours.REPLACE:
            accepted = "under replace-one a row leaves and another comes, so even counts move both ways; write False"
            raise InvalidArgument("monotone", self.monotone, accepted)

    @classmethod
    def count(cls, neighbours: Neighbours) -> Self:
        """Return the sensitivity of one count.

        >>> Sensitivity.count(Neighbours.ADD_REMOVE).l1
        1
        """
        return cls.counts(1, neighbours)

    @classmethod
    def counts(cls, answers: int, neighbours: Neighbours) -> Self:
        """Return the sensitivity of several counts, each of which any row may move."""
        monotone = neighbours is Neighbours.ADD_REMOVE
        moved = whole(answers, argument="answers", lower=1, upper=_LARGEST)
        return cls(l1=moved, l2_squared=moved, linf=1, neighbours=neighbours, monotone=monotone)

    @classmethod
    def histogram(cls, neighbours: Neighbours) -> Self:
        """Return the sensitivity of counts of which a row is in exactly one.

        >>> Sensitivity.histogram(Neighbours.REPLACE).l1
        2
        """
        moved = 1 if neighbours is Neighbours.ADD_REMOVE else 2
        return cls(l1=moved, l2_squared=moved, linf=1, neighbours=neighbours, monotone=moved == 1)

    @classmethod
    def scores(cls, largest_change: int, neighbours: Neighbours, *, monotone: bool = False) -> Self:
        """Return the sensitivity of scores of candidates, however many: only the largest change matters.

        The sum over all candidates is not used by a choice, and is set to the largest that is allowed.
        """
        moved = whole(largest_change, argument="largest_change", lower=1, upper=_LARGEST)
        return cls(l1=_LARGEST, l2_squared=_LARGEST**2, linf=moved, neighbours=neighbours, monotone=monotone)
