"""Residuals: the part of a marginal that its smaller marginals do not determine.

The residual of some attributes is measured with products of integer rows over classes of cells, those of the base of
each attribute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from itertools import combinations, product
from operator import or_
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dodona.errors import InvalidArgument
from dodona.numbers import Integers
from dodona.query.bases import Base, base_length, base_reach, base_rows, base_squares, middle_code, row_reach
from dodona.query.polynomial import Polynomial
from dodona.query.predicate import Among, Predicate, conjunction, unpack_bits
from dodona.query.query import (
    MOST_VALUES,
    ONE,
    Block,
    CaseWeight,
    ConstantWeight,
    Key,
    PolynomialWeight,
    Query,
    ValueWeight,
    weight_attributes,
)
from dodona.query.query import CaseKey as Labelled
from dodona.schema.attributes import Attribute, numeric_grid
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEW = 1 << 12  # rows: longer lists of residual rows are not cached
MOST_SQUARED = 1 << 20
"""Numbers of a column: the squares of more steps are too large for sums of 64 bits and for noise."""
_SUMS = {
    (1, False): Base.VALUES,
    (1, True): Base.NUMBERS,
    (2, False): Base.SQUARES,
    (2, True): Base.NUMBER_SQUARES,
}
"""By the power of what is added up, and whether all cells have a number."""


@dataclass(frozen=True, slots=True)
class Classes:
    """A partition of the cells of one attribute into two or more classes, and the base of its residuals."""

    attribute: str
    """Hashed alone: masks are long, lookups are frequent, and a column has few partitions."""
    cells: int = field(hash=False)
    masks: tuple[int, ...] = field(hash=False)
    """For each class, bit i says whether code i is in it."""
    base: Base = field(default=Base.POINTS, hash=False)
    number: int = field(init=False, repr=False, compare=False)
    """The number of classes."""
    side: BasedNumber = field(init=False, repr=False, compare=False)
    """The base, and what its rows depend on: the number of classes, or of numbers where they are added up."""

    def __post_init__(self) -> None:
        """Refuse classes that miss a cell, overlap, or are empty."""
        seen = 0
        for mask in self.masks:
            if mask <= 0 or mask & seen:
                raise InvalidArgument("masks", self.attribute, "write each cell in one class, and none empty")
            seen |= mask
        if seen != (1 << self.cells) - 1 or len(self.masks) == 1:
            raise InvalidArgument("masks", self.attribute, f"write two classes or more, of all {self.cells} cells")
        object.__setattr__(self, "number", len(self.masks))
        object.__setattr__(self, "side", (self.base, self._row_number()))

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

    @classmethod
    def summed(cls, attribute: Attribute, power: int = 1) -> Self | None:
        """Return what sums of a column's own numbers, or of their squares, are measured with; None if there are none.

        Squares may be too large to be added up.

        Two classes stand for it: the cells with a number, and those without; if all have one, the lower ones and the
        others. Its rows do not depend on them, but on the code.

        >>> from dodona.schema.attributes import Integer
        >>> Classes.summed(Integer("age", 0, 3)).masks
        (15, 48)
        """
        if numeric_grid(attribute) is None or (power > 1 and attribute.size > MOST_SQUARED):
            return None
        whole = attribute.cells == attribute.size
        first = cls.split(attribute, (1 << (1 if whole else attribute.size)) - 1)
        return replace(first, base=_SUMS[power, whole])

    def _row_number(self) -> int:
        if not self.base.sums:
            return len(self.masks)
        return self.masks[0].bit_count() if self.base.gaps else self.cells

    @property
    def rows(self) -> int:
        """The number of rows of its base."""
        return base_length(*self.side)

    @property
    def plain(self) -> Classes:
        """The same classes, whatever the base; what sums are measured with stands for itself."""
        return self if self.base is Base.POINTS or self.base.sums else self.based(Base.POINTS)

    def based(self, base: Base) -> Classes:
        """Return the same classes with a base of counts."""
        if base.sums or self.base.sums:
            raise InvalidArgument("base", base.value, "write points or ranges; sums are measured with Classes.summed")
        return self if self.base is base else _based(self, base)

    def labels(self) -> Integers:
        """Return the class of each code."""
        labels = np.zeros(self.cells, dtype=np.int64)
        for place, mask in enumerate(self.masks):
            labels[unpack_bits(mask, self.cells)] = place
        return labels


@lru_cache(maxsize=1 << 10)
def _based(classes: Classes, base: Base) -> Classes:
    return replace(classes, base=base)


@dataclass(frozen=True, slots=True)
class ResidualRow:
    """A product of rows of the bases."""

    steps: tuple[int, ...]
    """For each attribute the number j of its row, from 1; of a Helmert row it is the number of ones."""
    square: int
    """By what its noise has more variance than σ²; of Helmert rows the squared length, ∏ j(j+1)."""


@dataclass(frozen=True, slots=True)
class Residual:
    """The residual of some attributes, each by its classes; without attributes, the number of rows.

    Theorem: residual-measurement, column-base
    """

    classes: tuple[Classes, ...] = ()
    """Ordered by name."""

    def __post_init__(self) -> None:
        """Refuse duplicate attributes and too many rows."""
        ordered = tuple(sorted(self.classes, key=lambda classing: classing.attribute))
        object.__setattr__(self, "classes", ordered)
        if len({classing.attribute for classing in ordered}) != len(ordered):
            raise InvalidArgument("classes", self.attributes, "write each attribute once")
        if sum(classing.base.sums for classing in ordered) > 1:
            raise InvalidArgument("classes", self.attributes, "write one column whose numbers are added up, at most")
        if self.number > MOST_VALUES:
            raise InvalidArgument("classes", f"{self.number} rows", f"write classes with at most {MOST_VALUES} rows")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attribute names, in order."""
        return tuple(classing.attribute for classing in self.classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows per attribute: for counts one less than the number of classes."""
        return tuple([classing.rows for classing in self.classes])

    @property
    def number(self) -> int:
        """The number of rows."""
        return math.prod(self.shape)

    @property
    def sides(self) -> tuple[BasedNumber, ...]:
        """The base and the number of classes of each attribute: all that its rows depend on."""
        return tuple([classing.side for classing in self.classes])

    @property
    def summed(self) -> Classes | None:
        """The column whose numbers are added up, if there is one."""
        return next((classing for classing in self.classes if classing.base.sums), None)

    @property
    def values(self) -> int:
        """How many numbers its rows are computed from: those of `blocks_of_residual`."""
        return math.prod([classing.rows if classing.base.sums else classing.number for classing in self.classes])

    def rows(self) -> tuple[ResidualRow, ...]:
        """Return all rows, those with least noise first, so that rows with the same noise are adjacent."""
        steps = [*product(*(range(1, classing.rows + 1) for classing in self.classes))]
        paired = zip(self.order().tolist(), self.squares(), strict=True)
        return tuple([ResidualRow(steps[place], square) for place, square in paired])

    def squares(self) -> list[int]:
        """Return the squares of `rows`: by what the variance of each is multiplied."""
        squares: list[int] = _row_squares(self.sides)[self.order()].tolist()
        return squares

    def block(self, row: ResidualRow) -> Block:
        """Return the block that sums one row of a residual of points: each table row has weight ∏ h_j(class).

        h_j is 1 before class j, -j in it and 0 beyond. The first case that holds has all attributes that are in theirs.
        """
        if any(classing.base is not Base.POINTS for classing in self.classes):
            raise InvalidArgument("classes", self.attributes, "write classes whose base is points")
        if not self.classes:
            return Block()
        reached, last = [], []
        for classing, step in zip(self.classes, row.steps, strict=True):
            reached.append(_class_predicate(classing, sum(classing.masks[: step + 1])))
            last.append((_class_predicate(classing, classing.masks[step]), -step))
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
        """Apply all rows to the counts of the classes, or to sums by classes, exactly and in the order of `rows`.

        >>> Residual((Classes("sex", 3, (1, 2, 4)),)).turned([5, 7, 1]).tolist()
        [-2, 10]
        """
        sizes = [classing.number for classing in self.classes if not classing.base.sums]
        most = math.prod([base_reach(*side) for side in self.sides])
        largest = max((abs(int(count)) for count in counts), default=0) * most
        kind = np.int64 if largest < 1 << 62 else object
        table = np.asarray(counts, dtype=kind)
        for place, classing in enumerate(self.classes):
            if classing.base.sums:  # its rows come one after the other
                table = np.moveaxis(table.reshape([classing.rows, *sizes]), 0, place)
        table = table.reshape([classing.rows if classing.base.sums else classing.number for classing in self.classes])
        for classing in self.classes:  # moves the first axis to the end, one attribute at a time
            rows = np.eye(classing.rows, dtype=np.int64) if classing.base.sums else base_rows(*classing.side)
            table = np.moveaxis(np.tensordot(rows.astype(kind), table, axes=(1, 0)), 0, -1)
        flat: NDArray[Any] = table.reshape(-1)[self.order()]
        return flat

    def order(self) -> Integers:
        """Return for each of `rows` its position in row-major order of the steps."""
        return _row_order(self.sides) if self.number <= _FEW else _row_order.__wrapped__(self.sides)


BasedNumber = tuple[Base, int]
"""The base of a column, and the number of its classes; of sums, the number of its numbers."""


def _row_squares(sides: Sequence[BasedNumber]) -> NDArray[Any]:
    """Return the square of each row, in row-major order of the steps; as objects where 64 bits are too few."""
    squares = [base_squares(*side) for side in sides]
    kind = np.int64 if math.prod([max(factor) for factor in squares]) < 1 << 62 else object
    products = np.ones(1, dtype=kind)
    for factor in squares:
        products = np.multiply.outer(products, np.array(factor, dtype=kind)).reshape(-1)
    return products


@lru_cache(maxsize=256)
def _row_order(sides: tuple[BasedNumber, ...]) -> Integers:
    """Return positions in row-major order of the steps, those with least noise first; of equal ones the first first."""
    order = np.argsort(_row_squares(sides), kind="stable").astype(np.int64)
    order.flags.writeable = False
    return order


def blocks_of_residual(residual: Residual, domain: Domain) -> tuple[Block, ...]:
    """Return the blocks that a residual's rows are computed from: the counts of all combinations of its classes.

    Where numbers are added up, the steps of the number from its middle by the other classes, or what squares have in
    their place; then, if some cells have no number, the counts of those.
    """
    keys = tuple(_key_of_classes(classing, domain) for classing in residual.classes if not classing.base.sums)
    summed = residual.summed
    if summed is None:
        return (Block(keys=keys),)
    if summed != Classes.summed(domain[summed.attribute], summed.base.power):
        raise InvalidArgument("classes", summed.attribute, "write Classes.summed of a column of numbers")
    sums = Block(keys=keys, weight=_row_weight(summed))
    if not summed.base.gaps:
        return (sums,)
    return sums, Block(_class_predicate(summed, summed.masks[1]), keys)


def _row_weight(summed: Classes) -> ValueWeight | PolynomialWeight:
    """Return the row of numbers as a weight: the steps from the middle, or twice their square less the largest."""
    name, size = summed.attribute, summed.side[1]
    middle = middle_code(size)
    if summed.base.power == 1:
        return ValueWeight(name, size, -middle, 1)
    terms = {((name, 2),): 2, ((name, 1),): -4 * middle, (): 2 * middle**2 - row_reach(*summed.side)}
    return PolynomialWeight(Polynomial.of({name: (size, summed.cells)}, terms))


def residual_of_blocks(blocks: Sequence[Block], domain: Domain, bases: Sequence[Base] | None = None) -> Residual:
    """Return the residual that blocks are for, given its bases by the names of its columns; without any, of points."""
    first = blocks[0]
    counted = [_classes_of_key(key, domain) for key in first.keys]
    if isinstance(first.weight, ValueWeight | PolynomialWeight):
        name = min(weight_attributes(first.weight))
        summed = Classes.summed(domain[name], 2 if isinstance(first.weight, PolynomialWeight) else 1)
        counted += [] if summed is None else [summed]
    counted.sort(key=lambda classing: classing.attribute)
    given = [Base.POINTS] * len(counted) if bases is None else bases
    paired = zip(counted, given, strict=True)
    residual = Residual(tuple(classing if classing.base.sums else classing.based(base) for classing, base in paired))
    named = tuple(classing.base for classing in residual.classes) == tuple(given)
    if not named or (residual.summed is not None and blocks_of_residual(residual, domain)[0].weight != first.weight):
        raise InvalidArgument("blocks", len(blocks), "write those that the rows of a residual are computed from")
    return residual


def _key_of_classes(classes: Classes, domain: Domain) -> Key:
    attribute = domain[classes.attribute]
    if classes.plain == Classes.of(attribute):
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


def _class_predicate(classes: Classes, codes: int) -> Predicate:
    everything = (1 << classes.cells) - 1
    return conjunction() if codes == everything else Among(classes.attribute, classes.cells, codes)
