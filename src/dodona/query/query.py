"""Queries: linear questions over a public domain. An answer is a sum over rows of a weight that the cell decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Self

import numpy as np

from dodona.domain.attribute import MISSING, OUTSIDE, Attribute, cells, grid
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition
from dodona.errors import InvalidArgument
from dodona.exact import whole
from dodona.query import weight as weights
from dodona.query.fitness import Fitness
from dodona.query.literal import EQUAL, Literal, compare, further_cell
from dodona.query.predicate import EVERYTHING, Axes, Predicate, holds, masked, used
from dodona.query.weight import ONE, Constant, People, Value, Weight, extremes, looked_at, weigh

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_VALUES = 1 << 22
LARGEST_WEIGHT = 1 << 61
"""What one row may count for in all blocks together: a row that is replaced moves twice as much, and 2^62 is priced."""


@dataclass(frozen=True, slots=True)
class Cases:
    """A key that is none of the columns: the label of the first predicate that holds, else the last one."""

    branches: tuple[tuple[str, Predicate], ...]
    otherwise: str

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self.branches) + 1


Key = Partition | Cases


@dataclass(frozen=True, slots=True)
class Block:
    """For each group, the sum of the weights of the rows that are meant. A row is in one group at most."""

    where: Predicate = EVERYTHING
    keys: tuple[Key, ...] = ()
    weight: Weight = ONE
    unit: Fraction = Fraction(1)
    """What one step is worth in the answer's own unit."""

    def __hash__(self) -> int:
        """Return one without the unit, which the weight nearly always decides: fractions are slow to hash."""
        return hash((self.where, self.keys, self.weight))

    @property
    def values(self) -> int:
        """How many answers it has: one for each group, in row-major order of the keys."""
        return math.prod([key.groups for key in self.keys])

    @property
    def attributes(self) -> frozenset[str]:
        """The names of all attributes that it looks at."""
        seen = used(self.where)
        if not self.keys and type(self.weight) is Constant:
            return seen
        return (seen | looked_at(self.weight)).union(*map(_named, self.keys))


@dataclass(frozen=True, slots=True)
class Query:
    """Blocks that are asked together, over one domain; the answers stand one block after the other."""

    domain: Domain
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        """Refuse what is not over this domain, more answers than anybody reads, and weights that leave the integers."""
        object.__setattr__(self, "blocks", tuple(self.blocks))
        fitness = Fitness(self.domain)
        for fitness.place, block in enumerate(self.blocks):
            fitness.predicate(block.where)
            for key in block.keys:
                if isinstance(key, Partition):
                    fitness.partition(key)
                else:
                    for _, predicate in key.branches:
                        fitness.predicate(predicate)
            fitness.weight(block.weight)
            if block.unit.numerator < 1:
                raise InvalidArgument(f"blocks[{fitness.place}].unit", block.unit, "write a fraction above 0")
        self._hold_together()

    def _hold_together(self) -> None:
        values = largest = 0
        for block in self.blocks:
            values += block.values if block.keys else 1
            weight = block.weight
            largest += abs(weight.number) if type(weight) is Constant else max(map(abs, extremes(weight)))
        if not 0 < values <= MOST_VALUES:
            raise InvalidArgument("query", f"{values} answers", f"ask for 1 to {MOST_VALUES} answers at once")
        if largest > LARGEST_WEIGHT:
            accepted = "one row may count for 2^61 steps in all: choose a larger step, or a centre near the values"
            raise InvalidArgument("weights", largest, accepted)

    @property
    def values(self) -> int:
        """How many answers there are in all."""
        return sum([block.values if block.keys else 1 for block in self.blocks])

    @classmethod
    def count(cls, domain: Domain, where: Predicate = EVERYTHING) -> Self:
        """Return the question how many rows are meant."""
        return cls(domain, (Block(where),))

    @classmethod
    def histogram(cls, domain: Domain, by: str | Iterable[str], where: Predicate = EVERYTHING) -> Self:
        """Return the question how many rows each group has; declared bins are the groups of a column that has them."""
        names = (by,) if isinstance(by, str) else tuple(by)
        return cls(domain, (Block(where, tuple(Partition.of(domain[name]) for name in names)),))

    @classmethod
    def marginal(cls, domain: Domain, by: str | Iterable[str], where: Predicate = EVERYTHING) -> Self:
        """Return the question how many rows each combination of values has, whatever bins are declared."""
        names = (by,) if isinstance(by, str) else tuple(by)
        return cls(domain, (Block(where, tuple(Partition.every(domain[name], 1) for name in names)),))

    @classmethod
    def sum(cls, domain: Domain, of: str, where: Predicate = EVERYTHING) -> Self:
        """Return the question what a column adds up to, on its grid; rows without a value add nothing."""
        weight, unit = value_of(domain[of])
        return cls(domain, (Block(where, (), weight, unit),))

    @classmethod
    def weighted(
        cls, domain: Domain, weight: Weight | Mapping[str, Mapping[Literal, int]], where: Predicate = EVERYTHING
    ) -> Self:
        """Return the question what rows add up to: a weight, or a whole number for labels of one column.

        Labels that are left out count for nothing.

        >>> from dodona.domain.attribute import Category
        >>> severity = Domain((Category("severity", ["mild", "severe"]),))
        >>> Query.weighted(severity, {"severity": {"mild": 1, "severe": 5}}).values
        1
        """
        found = weight if isinstance(weight, Weight) else _labelled(domain, weight)
        return cls(domain, (Block(where, (), found),))

    @classmethod
    def people(cls, domain: Domain, by: str | Iterable[str] = (), where: Predicate = EVERYTHING) -> Self:
        """Return the question how many people have a row that is meant: in all, or in each group."""
        names = (by,) if isinstance(by, str) else tuple(by)
        return cls(domain, (Block(where, tuple(Partition.of(domain[name]) for name in names), People()),))

    def stacked(self, *others: Self) -> Self:
        """Return the question that asks all of them together; they must be over one domain."""
        for query in others:
            if query.domain is not self.domain and query.domain != self.domain:
                raise InvalidArgument("others", query.domain.names, "ask queries over the same domain together")
        found = object.__new__(type(self))  # each block was held to the domain before: what is left is all together
        object.__setattr__(found, "domain", self.domain)
        object.__setattr__(found, "blocks", tuple([block for query in (self, *others) for block in query.blocks]))
        found._hold_together()
        return found


def value_of(attribute: Attribute, *, centre: Fraction = Fraction(0), power: int = 1) -> tuple[Weight, Fraction]:
    """Return the weight (value - centre)^power of a column in whole steps, and what a step is worth.

    >>> from dodona.domain.attribute import Number
    >>> value_of(Number("stay", Fraction(0), Fraction(365), Fraction(1, 4)))
    (Value(attribute='stay', size=1461, offset=0, factor=1, power=1), Fraction(1, 4))
    """
    found = grid(attribute)
    if found is None:
        raise InvalidArgument("column", attribute.name, f"a {attribute.kind} has no sum; name a column of numbers")
    lower, step = found[0] - centre, found[1]
    unit = Fraction(
        math.gcd(lower.numerator * step.denominator, step.numerator * lower.denominator),
        lower.denominator * step.denominator,
    )
    weight = Value(attribute.name, attribute.size, int(lower / unit), int(step / unit), power)
    return weight, unit**power


def group_of(keys: Iterable[Key], axes: Axes) -> NDArray[np.int64]:
    """Return the number of the group that rows, or cells of a product, belong to."""
    found: NDArray[np.int64] = np.asarray(0, dtype=np.int64)
    for key in keys:
        if isinstance(key, Partition):
            own = key.table()[axes[key.attribute]]
        else:
            own = np.asarray(len(key.branches), dtype=np.int64)
            for number, (_, predicate) in reversed(tuple(enumerate(key.branches))):
                own = np.where(holds(predicate, axes), np.int64(number), own)
        found = found * key.groups + own
    return found


def product_axes(domain: Domain, names: Iterable[str]) -> dict[str, NDArray[np.int64]]:
    """Return the codes of all cells of a product of attributes, in shapes that broadcast to it."""
    ordered = sorted(names)
    return {
        name: np.arange(cells(domain[name]), dtype=np.int64).reshape([-1 if other == name else 1 for other in ordered])
        for name in ordered
    }


def product_shape(domain: Domain, names: Iterable[str]) -> tuple[int, ...]:
    """Return the shape of a product of attributes in the order of their names."""
    return tuple(cells(domain[name]) for name in sorted(names))


def block_weights(block: Block, axes: Axes) -> NDArray[np.int64]:
    """Return what each row, or cell, counts for: 0 where it is not meant."""
    if block.where == EVERYTHING and isinstance(block.weight, Constant):
        return weigh(block.weight, axes)
    return np.where(holds(block.where, axes), weigh(block.weight, axes), np.int64(0))


def _labelled(domain: Domain, weight: Mapping[str, Mapping[Literal, int]]) -> Weight:
    """Return the weight that labels of one column have."""
    if len(weight) != 1:
        raise InvalidArgument("weight", list(weight), "name one column, such as {'severity': {'mild': 1, 'severe': 5}}")
    ((name, numbers),) = weight.items()
    attribute = domain[name]
    codes: dict[int, int] = {}
    for label, number in numbers.items():
        named = isinstance(label, str) and label in {MISSING, OUTSIDE}
        bit = further_cell(attribute, str(label)) if named else compare(attribute, EQUAL, label)
        counted = whole(number, argument=f"weight of {label}", lower=-LARGEST_WEIGHT, upper=LARGEST_WEIGHT)
        codes[counted] = codes.get(counted, 0) | bit
    branches = tuple((masked(attribute, bits), Constant(counted)) for counted, bits in sorted(codes.items()) if counted)
    return weights.Cases(branches, Constant(0))


def _named(key: Key) -> frozenset[str]:
    if isinstance(key, Partition):
        return frozenset((key.attribute,))
    return frozenset().union(*(used(predicate) for _, predicate in key.branches))
