"""What was asked about and bought so far, as the rent-or-buy rule sees it.

Single answers are rent. What they cover decides for which sets of classes a bundle is designed, and in which base each
column is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from dodona.knowledge.patterns import MOST_PATTERN_CELLS, CountPattern
from dodona.privacy.additive_noise import Noise, NormalNoise, RoundedGaussian
from dodona.privacy.events import Event, RoundedGaussianEvent, UnevenGaussianEvent
from dodona.query.bases import Base, base_rows, base_squares, farthest_step, largest_weight
from dodona.query.predicate import unpack_bits
from dodona.query.residual import Classes
from dodona.schema.attributes import Boolean, Category
from dodona.schema.schema import Domain, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.knowledge.residuals import ResidualStore

ClassSet = tuple[Classes, int]
"""The classes of an attribute, and which of them a product counts."""


class BundleLevel(Enum):
    """The kind of a bundle: residuals or a table of counts, for one set of attributes or for all asked about so far."""

    SCOPE_LATTICE = "the residuals of its columns"
    LATTICE = "the residuals of all columns that were asked about"
    SCOPE_TABLE = "all counts of its columns"
    TABLE = "all counts of all columns that were asked about"


def is_bundle(purpose: str) -> bool:
    """Return whether a charge was for a bundle, by its purpose: others may ask for what follows from it."""
    return purpose.rpartition(" ")[2] in BundleLevel.__members__


_NARROW = {BundleLevel.LATTICE: BundleLevel.SCOPE_LATTICE, BundleLevel.TABLE: BundleLevel.SCOPE_TABLE}


@dataclass(slots=True)
class Rent:
    """Rent: single answers bought one by one, over the same classes and with the same noise."""

    pattern: CountPattern
    """Of the first of them."""
    noise: Noise | None
    """None for a bundle of one set of columns, which is rent beside a bundle of all of them."""
    event: Event
    blocks: int
    """How many blocks the event was shared by."""
    size: float = 1.0
    """Of sums, how many times the tolerance of a count they may be off."""
    times: int = 1
    used: set[BundleLevel] = field(default_factory=set)
    """The levels at which it has helped to buy a bundle."""


@dataclass(slots=True)
class SingleAnswers:
    """What single answers have covered so far: the facts from which bundles are designed."""

    rents: list[Rent] = field(default_factory=list)
    finest: dict[str, Classes] = field(default_factory=dict)
    """The finest way in which each column was asked about."""
    worst: dict[str, dict[tuple[Base, SetShape], int]] = field(default_factory=dict)
    """Of products, the set of its classes that has the most variance, in each base that the column may have."""
    sizes: set[int] = field(default_factory=set)
    """Of products, the numbers of columns."""
    scopes: set[tuple[str, ...]] = field(default_factory=set)
    """Of products, the columns."""
    ordered: frozenset[str] = frozenset()
    """The columns whose values have an order: ranges may be asked of them."""
    summed: dict[str, ClassSet] = field(default_factory=dict)
    """The columns whose numbers were added up, and the largest weight of the number of rows in that."""
    sum_sizes: set[int] = field(default_factory=set)
    """Of sums, the numbers of other columns."""
    sum_scopes: set[tuple[str, ...]] = field(default_factory=set)
    """Of sums, the other columns."""
    changes: int = 0
    """How often any of this changed, apart from how often a rent was paid."""
    _open: dict[tuple[object, ...], Rent] = field(default_factory=dict)
    _compared: dict[str, set[int]] = field(default_factory=dict)
    """The sets of each column's finest classes that were compared with the worst: the same few recur."""

    def pay(self, pattern: CountPattern, noise: Noise, event: Event, blocks: int, size: float = 1.0) -> None:
        """Record a single answer, with the size of a sum."""
        key = (pattern.classes, pattern.sets is None, noise, event, blocks, size)
        known = self._open.get(key)
        if known is not None:
            known.times += 1
        else:
            self._open[key] = Rent(pattern, noise, event, blocks, size)
            self.rents.append(self._open[key])
            self.changes += 1
        self.see(pattern)

    def see(self, pattern: CountPattern) -> None:
        """Record the columns and classes that were asked about."""
        sides, value = class_sets(pattern), pattern.summed
        known = self._extent
        if value is not None and sides is not None:
            before = self.summed.get(value.attribute, (value, SUM - 1))[1]
            members = next(own for side, own in sides if side is value)
            if members > before:
                self.summed[value.attribute] = value, members
                self.changes += 1
            sides = tuple([side for side in sides if side[0] is not value])
            self.sum_sizes.add(len(sides))
            self.sum_scopes.add(tuple([own.attribute for own, _ in sides]))
        for own in pattern.classes:
            if own is value:
                continue
            finest = self.finest.get(own.attribute)
            if finest is None or own.number > finest.number:
                self.finest[own.attribute] = own
                self.worst.pop(own.attribute, None)
                self._compared.pop(own.attribute, None)
                self.changes += 1
        if sides:
            if value is None:
                self.sizes.add(len(sides))
                self.scopes.add(pattern.names)
            for own, members in sides:
                if own == self.finest[own.attribute]:
                    self._see_set(own, members)
        self.changes += self._extent - known

    @property
    def _extent(self) -> int:
        """How many sizes and scopes were seen."""
        return len(self.sizes) + len(self.scopes) + len(self.sum_sizes) + len(self.sum_scopes)

    def _see_set(self, classes: Classes, members: int) -> None:
        compared = self._compared.setdefault(classes.attribute, set())
        if members in compared:
            return
        compared.add(members)
        worst = self.worst.setdefault(classes.attribute, {})
        for based in self.in_bases(classes):
            for shape, own in target_sets(based, members):
                before = worst.get((based.base, shape))
                if before is None or hardness(based, own) > hardness(based, before):
                    worst[based.base, shape] = own
                    self.changes += 1

    def in_bases(self, classes: Classes) -> tuple[Classes, ...]:
        """Return classes in each base they may have: ranges pay off from a few on, and their tables are dense."""
        several = classes.attribute in self.ordered and _SEVERAL <= classes.number <= _MOST_WAVES
        return _with_ranges(classes) if several else (classes,)

    def based(self, name: str) -> tuple[Classes, tuple[int, ...]]:
        """Return a column's finest classes, in the base in which its worst sets cost least, and these sets."""
        finest, worst = self.finest[name], self.worst[name]
        cost: dict[Base, float] = {}
        for (base, _), members in worst.items():
            cost[base] = max(cost.get(base, 0.0), _set_cost(finest.based(base), members))
        best = min(cost, key=lambda base: cost[base])
        return finest.based(best), tuple([members for (base, _), members in worst.items() if base is best])

    def based_product(self, sides: tuple[ClassSet, ...]) -> tuple[ClassSet, ...]:
        """Return a product with a base for each column, and sets that stand for all with the same variance."""
        found = []
        for own, members in sides:
            if own.base.sums:
                found.append((own, members))
                continue
            if own == self.finest.get(own.attribute):
                based = self.based(own.attribute)[0]
            else:
                based = min(self.in_bases(own), key=lambda one: _set_cost(one, members))
            found.append((based, representative_set(based, members)))
        return tuple(found)

    def least_cost(self, sides: tuple[ClassSet, ...], *, fixed: bool) -> float:
        """Return the least price times variance of a product by residuals, whatever bases its columns get.

        With shares v of the variance and prices p it is (Σ √(p·v))², and the sum is a product over the columns.

        Theorem: rent-or-buy
        """
        whole = rows = 1.0
        for own, members in sides:
            mean = set_mean(own, members)
            whole *= mean + math.sqrt(_EVEN * min([_set_cost(one, members) for one in self.in_bases(own)]))
            rows *= mean
        root = min(whole - rows if fixed else whole, _LARGEST_ROOT)
        return root * root

    def seen(self, pattern: CountPattern) -> SingleAnswers:
        """Return the record after one more question, without the rents."""
        worst = {name: dict(own) for name, own in self.worst.items()}
        found = SingleAnswers([], dict(self.finest), worst, set(self.sizes), set(self.scopes), self.ordered)
        found.summed, found.sum_sizes, found.sum_scopes = dict(self.summed), {*self.sum_sizes}, {*self.sum_scopes}
        found.see(pattern)
        return found

    def bought(
        self,
        level: BundleLevel,
        names: frozenset[str],
        pattern: CountPattern,
        event: Event,
        summed: frozenset[str] = frozenset(),
    ) -> None:
        """Mark the rent for what now follows as used; a narrow bundle itself counts as rent for a wide one."""
        self.changes += 1
        for rent in self.rents:
            if _follows(rent, level, names, summed):
                rent.used |= {level, _NARROW.get(level, level)}  # a wide bundle also answers what a narrow one would
        self._open = {key: rent for key, rent in self._open.items() if level not in rent.used}
        if level not in _NARROW:
            self.rents.append(Rent(pattern, None, event, 1, used={level}))
            self.see(pattern)


def _follows(rent: Rent, level: BundleLevel, names: frozenset[str], summed: frozenset[str]) -> bool:
    """Return whether rented answers would have followed from a bundle; for a wide lattice, with prior knowledge."""
    value, wide = rent.pattern.summed, level is BundleLevel.LATTICE
    if value is not None and not (summed if wide else value.attribute in summed):
        return False
    product = class_sets(rent.pattern) is not None or level in {BundleLevel.SCOPE_TABLE, BundleLevel.TABLE}
    counted = {own.attribute for own in rent.pattern.classes if not own.base.sums}
    return product and (wide or counted <= names)


# --- Sets of classes: what they contribute to a product query, and which are hard to estimate. ---


@lru_cache(maxsize=256)
def lifted_rows(base: Base, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the coefficient of each row in each class, without the mean; and what each row's variance is times σ².

    With rows B the coefficients are (B·Bᵀ)⁻¹·B, as Bᵀ·c is a query without its mean. Helmert rows are orthogonal.
    """
    rows, squares = base_rows(base, number), np.array(base_squares(base, number), dtype=np.float64)
    table = rows.astype(np.float64)
    if base is Base.POINTS:
        return table / squares[:, None], squares
    return np.asarray(np.linalg.solve(table @ table.T, table), dtype=np.float64), squares


PARTS = 64
SUM, PRESENT = 1, 2 * PARTS
"""What stands in place of a set where numbers are added up: the sum of their steps from the middle, over the largest;
the number of rows that have a number; or the sum and so many 64ths of that number together."""


def summed_weights(members: int) -> tuple[int, Fraction]:
    """Return how often a sum has the steps from the middle, over the largest, and the rows that have a number.

    >>> summed_weights(SUM | PRESENT // 2)
    (1, Fraction(1, 2))
    """
    return members & SUM, Fraction(members >> 1, PARTS)


@dataclass(frozen=True, slots=True)
class SetSide:
    """The contribution of one attribute to a product query, in one base."""

    coefficients: NDArray[np.float64]
    """Of each row."""
    spread: float
    largest: float


@lru_cache(maxsize=1 << 14)
def set_side(number: int, base: Base, members: int) -> SetSide:
    """Return the contribution of a set of classes to a product query."""
    if base.sums:
        squares = np.array(base_squares(base, number), dtype=np.float64)
        steps, present = summed_weights(members)
        rows = np.array([steps / farthest_step(number), -float(present)])[: len(squares)]
        return SetSide(rows, float(squares @ rows**2), float(np.abs(rows).max()))
    sums, squares = _summed_rows(base, number)
    edges = np.flatnonzero(np.diff(unpack_bits(members, number), prepend=False, append=False))
    coefficients = (sums[edges[1::2]] - sums[edges[::2]]).sum(axis=0)
    return SetSide(coefficients, float(squares @ coefficients**2), float(np.abs(coefficients).max()))


@lru_cache(maxsize=64)
def _summed_rows(base: Base, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the coefficients of all rows, added up over the classes before each: a run of classes is one difference.

    A product with a set of classes would read the whole table, for each of the many groups of a wide column.
    """
    lifted, squares = lifted_rows(base, number)
    sums = np.zeros((number + 1, len(lifted)))
    np.cumsum(lifted.T, axis=0, out=sums[1:])
    return sums, squares


def set_mean(classes: Classes, members: int) -> float:
    """Return which part of a set of classes does not depend on the column."""
    return float(summed_weights(members)[1]) if classes.base.sums else members.bit_count() / classes.number


def set_spread(classes: Classes, members: int) -> float:
    """Return the variance of a set of classes in a residual of them alone with σ² = 1."""
    if classes.base.sums:
        return set_side(classes.side[1], classes.base, members).spread
    if classes.base is Base.POINTS:
        size = members.bit_count()
        return size * (classes.number - size) / classes.number
    return set_side(classes.number, classes.base, members).spread


@lru_cache(maxsize=1 << 12)
def worst_range(number: int, size: int) -> int:
    """Return, among all ranges of this size on the circle of so many classes, the one with the most variance in waves.

    They differ a little, as waves are rounded.
    """
    sums, starts = _range_sums(number), np.arange(number)
    ends = (starts + size) % number  # a range around the end has the variance of its complement
    start = int((sums[ends, ends] + sums[starts, starts] - 2 * sums[starts, ends]).argmax())
    twice = ((1 << size) - 1) << start
    return (twice | twice >> number) & ((1 << number) - 1)


@lru_cache(maxsize=32)
def _range_sums(number: int) -> NDArray[np.float64]:
    """Return the covariances of waves, added up over the classes before any two."""
    lifted, squares = lifted_rows(Base.RANGES, number)
    found = np.zeros((number, number))
    found[1:, 1:] = ((lifted.T * squares) @ lifted).cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
    return found


def class_sets(pattern: CountPattern) -> tuple[ClassSet, ...] | None:
    """Return a product, or one cell of a marginal, by attribute; None for any other pattern."""
    if pattern.grouped:
        return tuple((own, 1) for own in pattern.classes)
    if pattern.filters is not None:
        return tuple((own, members or 1) for own, members in zip(pattern.classes, pattern.filters, strict=True))
    return None if pattern.sets is None else tuple(zip(pattern.classes, pattern.sets, strict=True))


def at_least_as_hard(classes: Classes, members: int, other: int) -> bool:
    """Return whether a set of classes is at least as hard to estimate as another: as near to half, and as large.

    Both increase the variance of a product, for any noise.
    """
    mine, theirs = hardness(classes, members), hardness(classes, other)
    return mine[0] >= theirs[0] and mine[1] >= theirs[1]


def hardness(classes: Classes, members: int) -> tuple[float, int]:
    """Return the variance of a set of classes in a residual of them alone, and the size of the set."""
    return set_spread(classes, representative_set(classes, members)), members.bit_count()


class SetShape(Enum):
    """What a set of classes is like, as far as its variance depends on that."""

    SHORT = "any set in points; in ranges, at most half of the circle of classes"
    LONG = "a range of more than half"
    OTHER = "several ranges"


def representative_set(classes: Classes, members: int) -> int:
    """Return a set of classes that stands for all that have its variance, or a little less.

    In points it is any set of the same size, in ranges any range of the same length; other sets stand for themselves.

    >>> bin(representative_set(Classes("sex", 4, (1, 2, 4, 8)), 0b1010))
    '0b11'
    """
    if classes.base.sums:
        return members
    size = members.bit_count()
    if classes.base is Base.POINTS:
        return (1 << size) - 1
    return worst_range(classes.number, size) if _is_range(classes.number, members) else members


def target_sets(classes: Classes, members: int) -> Iterator[tuple[SetShape, int]]:
    """Yield the sets that a lattice is designed for when a set was asked for, each with its shape.

    Ranges have nearly the variance of ranges up to twice as long, so these are included, or they would be asked for
    next. Long ranges have more to gain from the number of rows; three quarters of the circle stand for all of them.
    """
    number, size = classes.number, members.bit_count()
    if classes.base is Base.POINTS:
        yield SetShape.SHORT, (1 << size) - 1
    elif not _is_range(number, members):
        yield SetShape.OTHER, members
    else:
        yield SetShape.SHORT, worst_range(number, min(1 << (size - 1).bit_length(), number // 2))
        if size > number // 2:
            yield SetShape.LONG, worst_range(number, 3 * number // 4)


def _is_range(number: int, members: int) -> bool:
    """Return whether a set is a range on the circle of classes: it has one end at most."""
    turned = (members >> 1) | ((members & 1) << (number - 1))
    return (members ^ turned).bit_count() <= _ENDS


@lru_cache(maxsize=1 << 10)
def _with_ranges(classes: Classes) -> tuple[Classes, ...]:
    return classes, classes.based(Base.RANGES)


def _set_cost(classes: Classes, members: int) -> float:
    return float(largest_weight(*classes.side)) * hardness(classes, members)[0]


_SEVERAL = 8  # classes: fewer are asked about one by one as often as in ranges, and gain little
_MOST_WAVES = 640  # a dense table of as many rows and columns: with 1,000 a plain count would hold 60 MB more
_EVEN = 0.98  # of the largest weight of a class: the mean weight of the classes is above it, in every base
_LARGEST_ROOT = 1e100  # of price times variance: a bound from below, which is never reached
_ENDS = 2  # changes from one class to the next, around the circle


def ordered_columns(domain: Domain) -> frozenset[str]:
    """Return the columns whose values have an order."""
    return frozenset(own.name for own in domain.attributes if not isinstance(own, Category | Boolean))


# --- What a bundle costs at least, before it is designed. ---


_LIGHT = 0.08  # up to this failure probability a sum of Laplace noises is not within less than a normal one


@dataclass(frozen=True, slots=True)
class LeastPrices:
    """The least that bundles cost that answer a count as accurately as it is asked, by public facts alone.

    Theorem: rent-or-buy
    """

    unit: Unit
    law: type[NormalNoise]
    tolerance: float
    failing: float

    def by_level(
        self,
        pattern: CountPattern,
        asked: SingleAnswers,
        residuals: ResidualStore,
        price: Callable[[Event], float],
        single: float,
    ) -> dict[BundleLevel, float]:
        """Return the least price of a bundle of each level; Laplace noise on the count itself costs `single` at least.

        Normal noise is priced in proportion to 1/variance, so that one price tells all.
        """
        variance = ((self.tolerance + 1) / self._quantile) ** 2  # a step more, as sums are whole numbers
        fixed = self.unit.fixed
        event = normal_event(self.unit.rows**2 * (2 if fixed else 1) / variance, self.unit, self.law)
        rate, lattice = price(event), math.inf
        sides = class_sets(pattern)
        if sides is not None and math.isfinite(rate):
            bought = residuals.information(pattern.classes, fixed=fixed) if residuals.version else 0.0
            lattice = rate * (asked.least_cost(sides, fixed=fixed) - variance * bought)
        narrow = {own.attribute: own.number for own in pattern.classes}
        wide = narrow | {name: max(own.number, narrow.get(name, 0)) for name, own in asked.finest.items()}
        return {
            BundleLevel.LATTICE: lattice,
            BundleLevel.TABLE: self._table(math.prod(wide.values()), rate, single),
            BundleLevel.SCOPE_LATTICE: lattice,
            BundleLevel.SCOPE_TABLE: self._table(math.prod(narrow.values()), rate, single),
        }

    @property
    def _quantile(self) -> float:
        return NormalDist().inv_cdf(1 - self.failing / 2)

    def _table(self, size: int, rate: float, single: float) -> float:
        """Return the least price of a table: half of its N counts have a sum of variance N·v/4, if each has v."""
        if size > MOST_PATTERN_CELLS:
            return math.inf  # there is none
        if self.failing > _LIGHT or size < 2:  # noqa: PLR2004  a table has two counts or more
            return 0.0
        half = (size // 2) * (size - size // 2) / size
        laplace = math.sqrt(2 * half) * self._quantile / -math.log(self.failing)
        return min(rate * half, single * laplace * self.tolerance / (self.tolerance + 1))


def normal_event(ratio: float, unit: Unit, law: type[NormalNoise]) -> Event:
    """Return the event of normal noise whose squared changes over variances sum to a ratio."""
    event = RoundedGaussianEvent if law is RoundedGaussian else UnevenGaussianEvent
    return event(Fraction(min(max(ratio, _LEAST_RATIO), _MOST_RATIO)), unit.neighbours)


_LEAST_RATIO, _MOST_RATIO = 1e-14, 1e30  # as events are priced
