"""Sides: what one column contributes to a product query, in each base it may have, and which sets are hard to estimate.

A side counts a set of classes, or gives each class a weight; or it adds up the column's own numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dodona.query.bases import Base, base_rows, base_squares, row_reach
from dodona.query.predicate import unpack_bits
from dodona.query.residual import Classes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ClassWeight:
    """What a row counts for, by its class: whole numbers, over the largest that any class may have."""

    numbers: tuple[int, ...]
    """Not all of those that are not 0 are the same."""
    reach: int
    """The largest number of the column, its sign aside, whether its class is selected or not; without a divisor that it
    has in common with all numbers. So sums under different conditions on the column compare by their weights."""

    @property
    def parts(self) -> tuple[Fraction, ...]:
        """The weights: from -1 to 1."""
        reach = self.reach
        return tuple([Fraction(number, reach) for number in self.numbers])


Members = int | ClassWeight
"""The classes that a product counts, as bits; or what it weighs each of them with."""
ClassSet = tuple[Classes, Members]
"""The classes of an attribute, and which of them a product counts."""


def members_of(numbers: Sequence[int], reach: int) -> tuple[Members, int]:
    """Return the members that whole numbers by class stand for, and what they are to be multiplied with.

    None is larger than the reach, its sign aside.

    >>> members_of([0, 3, 3], 5), members_of([0, -2, 4], 6)
    ((6, 3), (ClassWeight(numbers=(0, -1, 2), reach=3), 6))
    """
    given = [int(number) for number in numbers]
    different = {number for number in given if number}
    if len(different) <= 1:
        return sum(1 << place for place, number in enumerate(given) if number), different.pop() if different else 0
    divisor = math.gcd(*given, reach)
    return ClassWeight(tuple([number // divisor for number in given]), reach // divisor), reach


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
def set_side(number: int, base: Base, members: Members) -> SetSide:
    """Return the contribution of a set of classes, or of their weights, to a product query."""
    if isinstance(members, ClassWeight):
        lifted, squares = lifted_rows(base, number)
        weighed = lifted @ np.array(members.numbers, dtype=np.float64) / members.reach
        return SetSide(weighed, float(squares @ weighed**2), float(np.abs(weighed).max()))
    if base.sums:
        squares = np.array(base_squares(base, number), dtype=np.float64)
        steps, present = summed_weights(members)
        rows = np.array([steps / row_reach(base, number), -float(present)])[: len(squares)]
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


@lru_cache(maxsize=1 << 14)
def _weight_mean(members: ClassWeight) -> Fraction:
    return Fraction(sum(members.numbers), members.reach * len(members.numbers))


def set_mean(classes: Classes, members: Members) -> float:
    """Return which part of a set of classes does not depend on the column."""
    if isinstance(members, ClassWeight):
        return float(_weight_mean(members))
    return float(summed_weights(members)[1]) if classes.base.sums else members.bit_count() / classes.number


def set_spread(classes: Classes, members: Members) -> float:
    """Return the variance of a set of classes in a residual of them alone with σ² = 1."""
    if isinstance(members, ClassWeight):
        return set_side(classes.number, classes.base, members).spread
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
    sums = np.zeros((number, number))
    sums[1:, 1:] = ((lifted.T * squares) @ lifted).cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
    return sums


def at_least_as_hard(classes: Classes, members: Members, other: Members) -> bool:
    """Return whether a set of classes is at least as hard to estimate as another: as near to half, and as large.

    Both increase the variance of a product, for any noise.
    """
    mine, theirs = hardness(classes, members), hardness(classes, other)
    return mine[0] >= theirs[0] and mine[1] >= theirs[1]


def hardness(classes: Classes, members: Members) -> tuple[float, float]:
    """Return the variance of a set of classes in a residual of them alone, and how large the set is."""
    return set_spread(classes, representative_set(classes, members)), abs(set_mean(classes, members))


class SetShape(Enum):
    """What a set of classes is like, as far as its variance depends on that."""

    SHORT = "any set in points; in ranges, at most half of the circle of classes"
    LONG = "a range of more than half"
    OTHER = "several ranges"
    WEIGHED = "a weight for each class"


def representative_set(classes: Classes, members: Members) -> Members:
    """Return a set of classes that stands for all that have its variance, or a little less.

    In points it is any set of the same size, in ranges any range of the same length; other sets stand for themselves.

    >>> bin(representative_set(Classes("sex", 4, (1, 2, 4, 8)), 0b1010))
    '0b11'
    """
    if classes.base.sums or isinstance(members, ClassWeight):
        return members
    size = members.bit_count()
    if classes.base is Base.POINTS:
        return (1 << size) - 1
    return worst_range(classes.number, size) if _is_range(classes.number, members) else members


def target_sets(classes: Classes, members: Members) -> Iterator[tuple[SetShape, Members]]:
    """Yield the sets that a lattice is designed for when a set was asked for, each with its shape.

    Ranges have nearly the variance of ranges up to twice as long, so these are included, or they would be asked for
    next. Long ranges have more to gain from the number of rows; three quarters of the circle stand for all of them.
    """
    if isinstance(members, ClassWeight):
        yield SetShape.WEIGHED, members
        return
    number, size = classes.number, members.bit_count()
    if classes.base is Base.POINTS:
        yield SetShape.SHORT, (1 << size) - 1
    elif not _is_range(number, members):
        yield SetShape.OTHER, members
    else:
        yield SetShape.SHORT, worst_range(number, min(1 << (size - 1).bit_length(), number // 2))
        if size > number // 2:
            yield SetShape.LONG, worst_range(number, 3 * number // 4)


def refine_set(classes: Classes, members: Members, finer: Classes) -> Members:
    """Return the members that are meant in a finer classing of the same attribute."""
    if classes == finer:
        return members
    if isinstance(members, ClassWeight):
        labels = classes.labels()
        firsts = [(mask & -mask).bit_length() - 1 for mask in finer.masks]
        return ClassWeight(tuple([members.numbers[labels[code]] for code in firsts]), members.reach)
    codes = sum(mask for place, mask in enumerate(classes.masks) if members >> place & 1)
    return sum(1 << place for place, mask in enumerate(finer.masks) if mask & codes)


def _is_range(number: int, members: int) -> bool:
    """Return whether a set is a range on the circle of classes: it has one end at most."""
    turned = (members >> 1) | ((members & 1) << (number - 1))
    return (members ^ turned).bit_count() <= _ENDS


_ENDS = 2  # changes from one class to the next, around the circle
