"""Facets: a block, as the combinations of classes that it adds up. What was measured by classes can answer it.

An attribute is classed in one of its ways: by its declared bins, or cell by cell. The coarsest way that a block does
not tell apart is the one it is seen in, so all who ask alike meet in the same classes. It hangs on the schema alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dodona.domain.attribute import Attribute, cells
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition
from dodona.query.atoms import labels, traits
from dodona.query.bits import bits, told_apart
from dodona.query.predicate import Among, And, Jointly
from dodona.query.query import Block, Key, block_weights, group_of
from dodona.query.residual import Classes
from dodona.query.stack import Stack
from dodona.query.weight import ONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_CELLS = 1 << 20
"""A block that looks at more combinations of classes is not written out."""
MOST_CLASSES = 1 << 10
"""An attribute with more cells is classed by its bins alone."""
MOST_BITS = 1 << 27
"""Of all classes of an attribute together: bins that have more of them make no classes."""


@dataclass(frozen=True, slots=True)
class Facet:
    """A count over classes: a product of sets of classes, or any other choice of their combinations."""

    classes: tuple[Classes, ...]
    """Of each attribute that is looked at, in the order of the names."""
    sets: tuple[int, ...] | None
    """For each attribute the classes that are counted, as bits; None where it is no product, or grouped."""
    grouped: bool = False
    """Whether it counts every combination of its classes by itself."""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes."""
        return tuple(own.attribute for own in self.classes)

    @property
    def size(self) -> int:
        """How many combinations of classes there are."""
        return math.prod(own.number for own in self.classes)


@lru_cache(maxsize=1 << 12)
def ways(attribute: Attribute) -> tuple[Classes, ...]:
    """Return how an attribute may be classed, the coarsest way first."""
    found = []
    declared = Partition.of(attribute)
    if not declared.single and declared.groups > 1 and declared.groups * declared.cells <= MOST_BITS:
        found.append(Classes.grouped(declared))
    if 1 < cells(attribute) <= MOST_CLASSES:
        found.append(Classes.of(attribute))
    return tuple(found)


def facet_of(block: Block, domain: Domain) -> Facet | None:
    """Return the classes that a count is over; None for what is no count, and where a class is told apart.

    >>> from dodona.domain.attribute import Boolean
    >>> from dodona.query.predicate import among
    >>> domain = Domain((Boolean("urgent"), Boolean("planned")))
    >>> facet_of(Block(among(domain["urgent"], [1])), domain).names
    ('urgent',)
    """
    if block.weight is not ONE and block.weight != ONE:
        return None
    if block.keys:
        return _marginal(block, domain)
    where = block.where
    parts = where.parts if type(where) is And else (where,)
    sets = [part for part in parts if type(part) is Among]
    # `both` names each attribute once and in order; who writes And by hand may not.
    if len(sets) == len(parts) and all(before.attribute < after.attribute for before, after in pairwise(sets)):
        return _boxed(sets, domain)
    if type(where) is Jointly:
        told = zip(where.names, told_apart(where.shape, where.codes), strict=True)
        found = [_coarsest(domain[name], own) for name, own in told]
    else:
        seen = traits(Stack((), (block,))).items()
        found = [_coarsest(domain[name], labels(cells(domain[name]), own)) for name, own in seen]
    known = tuple(own for own in found if own is not None)
    facet = Facet(known, None)
    return facet if known and len(known) == len(found) and facet.size <= MOST_CELLS else None


def _boxed(parts: Sequence[Among], domain: Domain) -> Facet | None:
    """Return a conjunction of sets, one an attribute; None where one of them tells a class apart."""
    classes, sets = [], []
    for part in parts:
        seen = _seen(domain[part.attribute], part.codes)
        if seen is None:
            return None
        classes.append(seen[0])
        sets.append(seen[1])
    return Facet(tuple(classes), tuple(sets))


@lru_cache(maxsize=1 << 14)
def _seen(attribute: Attribute, codes: int) -> tuple[Classes, int] | None:
    """Return the way that tells no cells of a set apart, and the set in its classes."""
    for way in ways(attribute):
        chosen = [place for place, mask in enumerate(way.masks) if mask & codes]
        if sum(way.masks[place] for place in chosen) == codes:
            return way, sum(1 << place for place in chosen)
    return None


def _coarsest(attribute: Attribute, labelled: NDArray[np.int64] | tuple[int, ...]) -> Classes | None:
    """Return the coarsest way in which every class has one label."""
    for way in ways(attribute):
        if way.number == way.cells:
            return way
        own, told = way.labels(), np.asarray(labelled)
        firsts = np.unique(own, return_index=True)[1]
        if (told == told[firsts][own]).all():
            return way
    return None


def _marginal(block: Block, domain: Domain) -> Facet | None:
    """Return a marginal: all rows, grouped by the classes of some attributes."""
    if block.where != And(()):
        return None
    found = [_keyed(key, domain) for key in block.keys]
    known = sorted((own for own in found if own is not None), key=lambda own: own.attribute)
    if len(known) < len(found) or len({own.attribute for own in known}) < len(known):
        return None
    facet = Facet(tuple(known), None, grouped=True)
    return facet if facet.size <= MOST_CELLS else None


def _keyed(key: Key, domain: Domain) -> Classes | None:
    """Return the way whose classes are the groups of a key; none is built to see that there is none."""
    if not isinstance(key, Partition):
        return None
    return next((own for own in ways(domain[key.attribute]) if own.number == key.groups and _same(own, key)), None)


@lru_cache(maxsize=1 << 10)
def _same(classes: Classes, key: Partition) -> bool:
    return classes == Classes.grouped(key)


def refined(facet: Facet, domain: Domain) -> Facet | None:
    """Return a product in the finest ways of its attributes; None where it is in these already."""
    if facet.sets is None:
        return None
    finest = tuple(ways(domain[own.attribute])[-1] for own in facet.classes)
    if finest == facet.classes:
        return None
    sets = []
    for own, other, members in zip(facet.classes, finest, facet.sets, strict=True):
        codes = sum(mask for place, mask in enumerate(own.masks) if members >> place & 1)
        sets.append(sum(1 << place for place, mask in enumerate(other.masks) if mask & codes))
    return Facet(finest, tuple(sets))


def members_over(block: Block, classes: tuple[Classes, ...]) -> NDArray[np.bool_] | None:
    """Return which combinations of classes a set of combinations of cells counts; None for what is no such count.

    These are its bits, where all of its attributes are classed cell by cell.
    """
    where = block.where
    if type(where) is not Jointly or block.weight != ONE or block.keys:
        return None
    shape = tuple(own.number for own in classes)
    axes = [place for place, own in enumerate(classes) if own.attribute in where.names]
    if len(axes) < len(where.names) or not all(_single(classes[place]) for place in axes):
        return None
    order = [where.names.index(classes[place].attribute) for place in axes]
    table = bits(where.codes, math.prod(where.shape)).reshape(where.shape).transpose(order)
    spread = table.reshape([number if place in axes else 1 for place, number in enumerate(shape)])
    return np.broadcast_to(spread, shape).reshape(-1)


@dataclass(frozen=True, slots=True)
class Weighed:
    """What each combination of classes counts for, and the group that it counts in."""

    weights: NDArray[np.int64]
    groups: NDArray[np.int64]
    number: int
    """Of groups."""


def weighed(block: Block, classes: tuple[Classes, ...]) -> Weighed | None:
    """Return how a block counts combinations of classes; None where a class is told apart.

    Attributes that the block does not look at are there, and make no difference.
    """
    if not block.attributes <= {own.attribute for own in classes}:
        return None
    shape = tuple(own.number for own in classes)
    firsts, whole = {}, True
    for place, own in enumerate(classes):
        codes = _firsts(own)
        whole = whole and len(codes) == own.cells
        firsts[own.attribute] = codes.reshape([-1 if other == place else 1 for other in range(len(classes))])
    if not whole and not _respects(block, classes):
        return None
    weights = np.broadcast_to(block_weights(block, firsts), shape).reshape(-1)
    groups = np.broadcast_to(group_of(block.keys, firsts) if block.keys else np.int64(0), shape).reshape(-1)
    return Weighed(weights, groups, block.values)


@lru_cache(maxsize=1 << 10)
def _single(classes: Classes) -> bool:
    """Return whether each cell is a class of its own, in the order of the codes."""
    return all(mask == 1 << code for code, mask in enumerate(classes.masks))


@lru_cache(maxsize=1 << 10)
def _firsts(classes: Classes) -> NDArray[np.int64]:
    """Return the first code of each class."""
    return np.array([(mask & -mask).bit_length() - 1 for mask in classes.masks], dtype=np.int64)


def _respects(block: Block, classes: tuple[Classes, ...]) -> bool:
    """Return whether a block tells no class apart."""
    seen = traits(Stack((), (block,)))
    for own in classes:
        trait = seen.get(own.attribute)
        if trait is not None:
            told, places = labels(own.cells, trait), own.labels()
            if (told != told[_firsts(own)][places]).any():
                return False
    return True


def chosen(classes: Classes, members: int) -> NDArray[np.bool_]:
    """Return which classes are in a set of bits."""
    return bits(members, classes.number)
