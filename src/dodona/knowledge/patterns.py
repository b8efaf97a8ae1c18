"""Count patterns: a block as the combinations of classes it counts.

Each attribute is divided into the coarsest classes that the block does not split. Patterns depend on the schema alone,
so equivalent questions get the same pattern.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dodona.query.movement import Stack, atom_labels, attribute_uses
from dodona.query.predicate import Among, And, Jointly, axis_classes, unpack_bits
from dodona.query.query import ONE, Block, Key, block_weights, group_numbers
from dodona.query.residual import Classes
from dodona.schema.attributes import Attribute
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

MOST_PATTERN_CELLS = 1 << 20
"""A block that looks at more combinations of classes is not written out."""
MOST_CLASSES = 1 << 10
"""An attribute with more cells is classed by its bins alone."""
MOST_BITS = 1 << 27
"""Of all classes of an attribute together: bins that have more of them make no classes."""


@dataclass(frozen=True, slots=True)
class CountPattern:
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
        """The number of combinations of classes."""
        return math.prod(own.number for own in self.classes)


@lru_cache(maxsize=1 << 12)
def list_classings(attribute: Attribute) -> tuple[Classes, ...]:
    """Return the possible classings of an attribute, the coarsest first."""
    found = []
    declared = Partition.of(attribute)
    if not declared.single and declared.groups > 1 and declared.groups * declared.cells <= MOST_BITS:
        found.append(Classes.grouped(declared))
    if 1 < attribute.cells <= MOST_CLASSES:
        found.append(Classes.of(attribute))
    return tuple(found)


def find_pattern(block: Block, domain: Domain) -> CountPattern | None:
    """Return the count pattern of a block; None if it is not a count, or if it splits a class.

    >>> from dodona.schema.attributes import Boolean
    >>> from dodona.query.predicate import among
    >>> domain = Domain((Boolean("urgent"), Boolean("planned")))
    >>> find_pattern(Block(among(domain["urgent"], [1])), domain).names
    ('urgent',)
    """
    if block.table is not None or (block.weight is not ONE and block.weight != ONE):
        return None
    if block.keys:
        return _marginal_pattern(block, domain)
    where = block.where
    parts = where.parts if type(where) is And else (where,)
    sets = [part for part in parts if type(part) is Among]
    names = [part.attribute for part in sets]
    # `conjunction` names each attribute once and in order; an And written by hand may not.
    if len(sets) == len(parts) and names == sorted({*names}):
        return _product_pattern(sets, domain)
    if type(where) is Jointly:
        told = zip(where.names, axis_classes(where.shape, where.codes), strict=True)
        found = [_coarsest(domain[name], own) for name, own in told]
    else:
        seen = attribute_uses(Stack((), (block,))).items()
        found = [_coarsest(domain[name], atom_labels(domain[name].cells, own)) for name, own in seen]
    known = tuple(own for own in found if own is not None)
    pattern = CountPattern(known, None)
    return pattern if known and len(known) == len(found) and pattern.size <= MOST_PATTERN_CELLS else None


def _product_pattern(parts: Sequence[Among], domain: Domain) -> CountPattern | None:
    """Return the pattern of a conjunction of sets, one per attribute; None if a set splits a class."""
    classes, sets = [], []
    for part in parts:
        seen = _coarsest_set(domain[part.attribute], part.codes)
        if seen is None:
            return None
        classes.append(seen[0])
        sets.append(seen[1])
    return CountPattern(tuple(classes), tuple(sets))


@lru_cache(maxsize=1 << 14)
def _coarsest_set(attribute: Attribute, codes: int) -> tuple[Classes, int] | None:
    """Return the coarsest classing that a set does not split, and the set in its classes."""
    for way in list_classings(attribute):
        chosen = [place for place, mask in enumerate(way.masks) if mask & codes]
        if sum(way.masks[place] for place in chosen) == codes:
            return way, sum(1 << place for place in chosen)
    return None


def _coarsest(attribute: Attribute, labelled: NDArray[np.int64] | tuple[int, ...]) -> Classes | None:
    """Return the coarsest classing in which every class has a single label."""
    for way in list_classings(attribute):
        if way.number == way.cells:
            return way
        own, told = way.labels(), np.asarray(labelled)
        firsts = np.unique(own, return_index=True)[1]
        if (told == told[firsts][own]).all():
            return way
    return None


def _marginal_pattern(block: Block, domain: Domain) -> CountPattern | None:
    """Return the pattern of a marginal: all rows, grouped by the classes of some attributes."""
    if block.where != And(()):
        return None
    found = [_key_classes(key, domain) for key in block.keys]
    known = sorted((own for own in found if own is not None), key=lambda own: own.attribute)
    if len(known) < len(found) or len({own.attribute for own in known}) < len(known):
        return None
    pattern = CountPattern(tuple(known), None, grouped=True)
    return pattern if pattern.size <= MOST_PATTERN_CELLS else None


def _key_classes(key: Key, domain: Domain) -> Classes | None:
    """Return the classing whose classes are the groups of a key; no classing is built just to rule it out."""
    if not isinstance(key, Partition):
        return None
    ways = list_classings(domain[key.attribute])
    return next((own for own in ways if own.number == key.groups and _same(own, key)), None)


@lru_cache(maxsize=1 << 10)
def _same(classes: Classes, key: Partition) -> bool:
    return classes == Classes.grouped(key)


def refine_pattern(pattern: CountPattern, domain: Domain) -> CountPattern | None:
    """Return a product in the finest classings of its attributes; None if it already is."""
    if pattern.sets is None:
        return None
    finest = tuple(list_classings(domain[own.attribute])[-1] for own in pattern.classes)
    if finest == pattern.classes:
        return None
    sets = []
    for own, other, members in zip(pattern.classes, finest, pattern.sets, strict=True):
        codes = sum(mask for place, mask in enumerate(own.masks) if members >> place & 1)
        sets.append(sum(1 << place for place, mask in enumerate(other.masks) if mask & codes))
    return CountPattern(finest, tuple(sets))


def member_classes(block: Block, classes: tuple[Classes, ...]) -> NDArray[np.bool_] | None:
    """Return which combinations of classes a set of cells counts; None for other counts.

    If every attribute is classed cell by cell, these are the bits of the set.
    """
    where = block.where
    if type(where) is not Jointly or block.weight != ONE or block.keys or block.table is not None:
        return None
    shape = tuple(own.number for own in classes)
    axes = [place for place, own in enumerate(classes) if own.attribute in where.names]
    if len(axes) < len(where.names) or not all(_single(classes[place]) for place in axes):
        return None
    order = [where.names.index(classes[place].attribute) for place in axes]
    table = unpack_bits(where.codes, math.prod(where.shape)).reshape(where.shape).transpose(order)
    spread = table.reshape([number if place in axes else 1 for place, number in enumerate(shape)])
    return np.broadcast_to(spread, shape).reshape(-1)


@dataclass(frozen=True, slots=True)
class ClassWeights:
    """The weight and the group of each combination of classes."""

    weights: NDArray[np.int64]
    groups: NDArray[np.int64]
    number: int
    """Of groups."""


def weigh_classes(block: Block, classes: tuple[Classes, ...]) -> ClassWeights | None:
    """Return how a block counts combinations of classes; None if it splits a class.

    Attributes that the block does not depend on are allowed and make no difference.
    """
    if not block.attributes <= {own.attribute for own in classes}:
        return None
    shape = tuple(own.number for own in classes)
    firsts, whole = {}, True
    for place, own in enumerate(classes):
        codes = _first_codes(own)
        whole = whole and len(codes) == own.cells
        firsts[own.attribute] = codes.reshape([-1 if other == place else 1 for other in range(len(classes))])
    if not whole and not _respects(block, classes):
        return None
    weights = np.broadcast_to(block_weights(block, firsts), shape).reshape(-1)
    groups = np.broadcast_to(group_numbers(block.keys, firsts) if block.keys else np.int64(0), shape).reshape(-1)
    return ClassWeights(weights, groups, block.values)


@lru_cache(maxsize=1 << 10)
def _single(classes: Classes) -> bool:
    """Return whether each cell is its own class, in the order of the codes."""
    return all(mask == 1 << code for code, mask in enumerate(classes.masks))


@lru_cache(maxsize=1 << 10)
def _first_codes(classes: Classes) -> NDArray[np.int64]:
    """Return the first code of each class."""
    return np.array([(mask & -mask).bit_length() - 1 for mask in classes.masks], dtype=np.int64)


def _respects(block: Block, classes: tuple[Classes, ...]) -> bool:
    """Return whether a block splits no class."""
    seen = attribute_uses(Stack((), (block,)))
    for own in classes:
        trait = seen.get(own.attribute)
        if trait is not None:
            told, places = atom_labels(own.cells, trait), own.labels()
            if (told != told[_first_codes(own)][places]).any():
                return False
    return True


def class_mask(classes: Classes, members: int) -> NDArray[np.bool_]:
    """Return the mask of the classes in a bit set."""
    return unpack_bits(members, classes.number)
