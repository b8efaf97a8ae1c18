"""Residuals: the part of a marginal that its smaller marginals do not determine.

The residual of some attributes is measured with products of integer Helmert rows over classes of cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import combinations, product
from operator import or_
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dodona.errors import InvalidArgument
from dodona.numbers import Integers
from dodona.query.predicate import Among, Predicate, conjunction, unpack_bits
from dodona.query.query import MOST_VALUES, ONE, Block, CaseWeight, ConstantWeight, Key, Query
from dodona.query.query import CaseKey as Labelled
from dodona.schema.attributes import Attribute
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEW = 1 << 12  # rows: longer lists of residual rows are not cached


@dataclass(frozen=True, slots=True)
class Classes:
    """A partition of the cells of one attribute into two or more classes."""

    attribute: str
    cells: int
    masks: tuple[int, ...]
    """For each class, bit i says whether code i is in it."""

    def __post_init__(self) -> None:
        """Refuse classes that miss a cell, overlap, or are empty."""
        seen = 0
        for mask in self.masks:
            if mask <= 0 or mask & seen:
                raise InvalidArgument("masks", self.attribute, "write each cell in one class, and none empty")
            seen |= mask
        if seen != (1 << self.cells) - 1 or len(self.masks) == 1:
            raise InvalidArgument("masks", self.attribute, f"write two classes or more, of all {self.cells} cells")

    def __hash__(self) -> int:
        """Hash the name only: masks are long, lookups are frequent, and a column has few partitions."""
        return hash(self.attribute)

    @classmethod
    def of(cls, attribute: Attribute) -> Self:
        """Return one class per cell, including `<missing>` and `<outside>` if present."""
        return cls(attribute.name, attribute.cells, tuple(1 << code for code in range(attribute.cells)))

    @classmethod
    def split(cls, attribute: Attribute, codes: int) -> Self:
        """Return two classes: the codes whose bits are set, and all others.

        >>> from dodona.schema.attributes import Boolean
        >>> Classes.split(Boolean("emergency"), 0b10).masks
        (2, 13)
        """
        number = attribute.cells
        return cls(attribute.name, number, (codes, ~codes & ((1 << number) - 1)))

    @classmethod
    def grouped(cls, partition: Partition) -> Self:
        """Return the groups of a partition as classes."""
        groups, table = [0] * partition.groups, partition.table().tolist()
        for code, group in enumerate(table):
            groups[group] |= 1 << code
        return cls(partition.attribute, len(table), tuple(groups))

    @property
    def number(self) -> int:
        """The number of classes."""
        return len(self.masks)

    def labels(self) -> Integers:
        """Return the class of each code."""
        found = np.zeros(self.cells, dtype=np.int64)
        for place, mask in enumerate(self.masks):
            found[unpack_bits(mask, self.cells)] = place
        return found


@dataclass(frozen=True, slots=True)
class HelmertRow:
    """A product of Helmert rows."""

    steps: tuple[int, ...]
    """For each attribute its j, the number of ones."""
    square: int
    """The squared length on the product of classes, ∏ j(j+1)."""


@dataclass(frozen=True, slots=True)
class Residual:
    """The residual of some attributes, each by its classes; without attributes, the number of rows.

    Theorem: residual-measurement
    """

    classes: tuple[Classes, ...] = ()
    """Ordered by name."""

    def __post_init__(self) -> None:
        """Refuse duplicate attributes and too many rows."""
        ordered = tuple(sorted(self.classes, key=lambda one: one.attribute))
        object.__setattr__(self, "classes", ordered)
        if len({one.attribute for one in ordered}) != len(ordered):
            raise InvalidArgument("classes", self.attributes, "write each attribute once")
        if self.number > MOST_VALUES:
            raise InvalidArgument("classes", f"{self.number} rows", f"write classes with at most {MOST_VALUES} rows")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attribute names, in order."""
        return tuple(one.attribute for one in self.classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows per attribute: one less than the number of classes."""
        return tuple(one.number - 1 for one in self.classes)

    @property
    def number(self) -> int:
        """The number of rows."""
        return math.prod(self.shape)

    def rows(self) -> tuple[HelmertRow, ...]:
        """Return all rows, shortest first, so that rows of equal length, which get the same noise, are adjacent."""
        return _helmert_rows(self.shape) if self.number <= _FEW else _helmert_rows.__wrapped__(self.shape)

    def block(self, row: HelmertRow) -> Block:
        """Return the block that sums one row of the residual: each table row has weight ∏ h_j(class).

        h_j is 1 before class j, -j in it and 0 beyond. The first case that holds has all attributes that are in theirs.
        """
        if not self.classes:
            return Block()
        reached, last = [], []
        for own, step in zip(self.classes, row.steps, strict=True):
            reached.append(_class_predicate(own, sum(own.masks[: step + 1])))
            last.append((_class_predicate(own, own.masks[step]), -step))
        branches = []
        for size in range(len(last), 0, -1):
            for chosen in combinations(last, size):
                number = math.prod(step for _, step in chosen)
                branches.append((conjunction(*(where for where, _ in chosen)), ConstantWeight(number)))
        return Block(conjunction(*reached), (), CaseWeight(tuple(branches), ONE))

    def query(self, domain: Domain) -> Query:
        """Return the query for all rows, one block each, in the order of `rows`."""
        return Query(domain, tuple(self.block(row) for row in self.rows()))

    def turned(self, counts: Integers | Sequence[int]) -> NDArray[Any]:
        """Apply all rows to the counts of the classes, exactly and in the order of `rows`.

        >>> Residual((Classes("sex", 3, (1, 2, 4)),)).turned([5, 7, 1]).tolist()
        [-2, 10]
        """
        sizes = [own.number for own in self.classes]
        largest = max((abs(int(count)) for count in counts), default=0) * math.prod(own * own for own in sizes)
        kind = np.int64 if largest < 1 << 62 else object
        table = np.asarray(counts, dtype=kind).reshape(sizes)
        for size in sizes:  # moves the first axis to the end, one attribute at a time
            table = np.moveaxis(np.tensordot(helmert_matrix(size).astype(kind), table, axes=(1, 0)), 0, -1)
        flat: NDArray[Any] = table.reshape(-1)[self.order()]
        return flat

    def order(self) -> Integers:
        """Return for each of `rows` its position in row-major order of the steps."""
        return _row_order(self.shape) if self.number <= _FEW else _row_order.__wrapped__(self.shape)


@lru_cache(maxsize=256)
def _helmert_rows(shape: tuple[int, ...]) -> tuple[HelmertRow, ...]:
    steps = product(*(range(1, number + 1) for number in shape))
    found = (HelmertRow(own, math.prod([j * (j + 1) for j in own])) for own in steps)
    return tuple(sorted(found, key=lambda row: (row.square, row.steps)))


@lru_cache(maxsize=256)
def _row_order(shape: tuple[int, ...]) -> Integers:
    found = np.zeros(1, dtype=np.int64)
    if shape:
        steps = np.array([row.steps for row in _helmert_rows.__wrapped__(shape)]).T - 1
        found = np.ravel_multi_index(tuple(steps), shape).astype(np.int64)
    found.flags.writeable = False
    return found


def block_of_residual(residual: Residual, domain: Domain) -> Block:
    """Return the block that counts all combinations of a residual's classes."""
    return Block(keys=tuple(_key_of_classes(own, domain) for own in residual.classes))


def residual_of_block(block: Block, domain: Domain) -> Residual:
    """Return the residual whose classes a block counts."""
    return Residual(tuple(_classes_of_key(key, domain) for key in block.keys))


def _key_of_classes(classes: Classes, domain: Domain) -> Key:
    attribute = domain[classes.attribute]
    if classes == Classes.of(attribute):
        return Partition.every(attribute, 1)
    named = classes.masks[:-1]
    branches = tuple((str(place), _class_predicate(classes, mask)) for place, mask in enumerate(named))
    return Labelled(branches, str(len(named)))


def _classes_of_key(key: Key, domain: Domain) -> Classes:
    if isinstance(key, Partition):
        return Classes.grouped(key)
    masks = [predicate.codes for _, predicate in key.branches if isinstance(predicate, Among)]
    names = {predicate.attribute for _, predicate in key.branches if isinstance(predicate, Among)}
    if len(masks) != len(key.branches) or len(names) != 1:
        raise InvalidArgument("block", key, "write keys that class one column each")
    name = names.pop()
    number = domain[name].cells
    return Classes(name, number, (*masks, ((1 << number) - 1) & ~reduce(or_, masks)))


def helmert_matrix(number: int) -> Integers:
    """Return the Helmert rows for `number` classes.

    >>> helmert_matrix(3).tolist()
    [[1, -1, 0], [1, 1, -2]]
    """
    place, step = np.arange(number), np.arange(1, number)[:, None]
    return np.where(place < step, 1, np.where(place == step, -step, 0)).astype(np.int64)


def _class_predicate(classes: Classes, codes: int) -> Predicate:
    everything = (1 << classes.cells) - 1
    return conjunction() if codes == everything else Among(classes.attribute, classes.cells, codes)
