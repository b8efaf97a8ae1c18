"""Purchases: what was bought so far, as the rule of renting or buying sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Self, assert_never

from dodona.accounting.event import Event
from dodona.belief.facet import Facet
from dodona.mechanisms.measurement import Noise
from dodona.mechanisms.residual import Residuals
from dodona.query.residual import Classes

Side = tuple[Classes, int]
"""The classes of an attribute, and which of them a product counts."""


class Level(Enum):
    """What a bundle is: residuals or a table of counts, for one set of attributes or for all that were asked about."""

    SCOPE_LATTICE = "the residuals of its columns"
    LATTICE = "the residuals of all columns that were asked about"
    SCOPE_TABLE = "all counts of its columns"
    TABLE = "all counts of all columns that were asked about"


@dataclass(slots=True)
class Rent:
    """Answers that were bought by themselves, over the same classes and with the same noise: rent, paid by question."""

    facet: Facet
    """Of the first of them."""
    noise: Noise | None
    """None for a bundle of one set of columns, which is rent beside a bundle of all of them."""
    event: Event
    blocks: int
    """How many blocks the event was shared by."""
    times: int = 1
    used: set[Level] = field(default_factory=set)
    """The levels at which it has helped to buy a bundle."""


@dataclass(slots=True)
class Asked:
    """What single answers were about so far: the facts that bundles are made from."""

    rents: list[Rent] = field(default_factory=list)
    finest: dict[str, Classes] = field(default_factory=dict)
    """The finest way in which each column was asked about."""
    worst: dict[str, int] = field(default_factory=dict)
    """Of products, the set of its classes that is nearest to half of them."""
    sizes: set[int] = field(default_factory=set)
    """Of products, the numbers of columns."""
    _open: dict[tuple[object, ...], Rent] = field(default_factory=dict)

    def pay(self, facet: Facet, noise: Noise, event: Event, blocks: int) -> None:
        """Take a single answer."""
        key = (facet.classes, facet.sets is None, noise, event, blocks)
        known = self._open.get(key)
        if known is not None:
            known.times += 1
        else:
            self._open[key] = Rent(facet, noise, event, blocks)
            self.rents.append(self._open[key])
        self.see(facet)

    def see(self, facet: Facet) -> None:
        """Take note of what was asked about."""
        sides = sides_of(facet)
        for own in facet.classes:
            before = self.finest.get(own.attribute)
            if before is None or own.number > before.number:
                self.finest[own.attribute] = own
                self.worst.pop(own.attribute, None)
        if sides:
            self.sizes.add(len(sides))
            for own, members in sides:
                before_members = self.worst.get(own.attribute)
                finest = own == self.finest[own.attribute]
                if finest and (before_members is None or _hardness(own, members) > _hardness(own, before_members)):
                    self.worst[own.attribute] = members

    def seen(self, facet: Facet) -> Asked:
        """Return what would be known after one more question, without the rents."""
        found = Asked(finest=dict(self.finest), worst=dict(self.worst), sizes=set(self.sizes))
        found.see(facet)
        return found

    def bought(self, purchase: Purchase, facet: Facet | None, event: Event) -> None:
        """Count the rent that was paid for what now follows as used; what is narrow is rent itself for what is wide."""
        for rent in self.rents:
            if purchase.helped(rent):
                rent.used |= purchase.levels
        self._open = {key: rent for key, rent in self._open.items() if purchase.level not in rent.used}
        if facet is not None and purchase.level in {Level.SCOPE_LATTICE, Level.SCOPE_TABLE}:
            self.rents.append(Rent(facet, None, event, 1, used={purchase.level}))
            self.see(facet)


@dataclass(frozen=True, slots=True)
class Purchase:
    """A bundle that was bought, with the columns that it is about."""

    level: Level
    names: frozenset[str]
    sets: frozenset[frozenset[str]]
    """Of residuals, the sets of columns that were measured; of a table, the one set."""

    @classmethod
    def of_residuals(cls, measured: Residuals, purpose: str) -> Self:
        """Return the purchase of some residuals; what their receipt is for says at which level."""
        sets = frozenset(frozenset(residual.attributes) for residual, _ in measured.parts)
        wide = purpose.endswith(f" {Level.LATTICE.name}")
        return cls(Level.LATTICE if wide else Level.SCOPE_LATTICE, frozenset().union(*sets), sets)

    @classmethod
    def of_table(cls, facet: Facet, asked: frozenset[str]) -> Self:
        """Return the purchase of a table, given all columns that were asked about before."""
        names = frozenset(facet.names)
        return cls(Level.TABLE if asked <= names else Level.SCOPE_TABLE, names, frozenset((names,)))

    @property
    def levels(self) -> frozenset[Level]:
        """The levels at which it uses rent: what is wide answers what a narrow bundle would have, too."""
        match self.level:
            case Level.LATTICE:
                return frozenset((Level.LATTICE, Level.SCOPE_LATTICE))
            case Level.TABLE:
                return frozenset((Level.TABLE, Level.SCOPE_TABLE))
            case Level.SCOPE_LATTICE | Level.SCOPE_TABLE:
                return frozenset((self.level,))
            case _:
                assert_never(self.level)

    def helped(self, rent: Rent) -> bool:
        """Return whether what was rented would have followed from it; of a wide lattice, with what was known before."""
        product = sides_of(rent.facet) is not None or self.level in {Level.SCOPE_TABLE, Level.TABLE}
        return product and (self.level is Level.LATTICE or set(rent.facet.names) <= self.names)


def sides_of(facet: Facet) -> tuple[Side, ...] | None:
    """Return a product, or one cell of a marginal, by attribute; None for what is neither."""
    if facet.grouped:
        return tuple((own, 1) for own in facet.classes)
    return None if facet.sets is None else tuple(zip(facet.classes, facet.sets, strict=True))


def as_hard(classes: Classes, members: int, other: int) -> bool:
    """Return whether a set of classes is at least as hard to tell as another: as near to half of them, and as large.

    Both add to the variance of a product, for any noise.
    """
    mine, theirs = _hardness(classes, members), _hardness(classes, other)
    return mine[0] >= theirs[0] and mine[1] >= theirs[1]


def _hardness(classes: Classes, members: int) -> tuple[int, int]:
    """Return how near a set is to half of the classes, and how large it is."""
    number = members.bit_count()
    return number * (classes.number - number), number
