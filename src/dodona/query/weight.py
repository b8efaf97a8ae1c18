"""Weights: what a row counts for, as a whole number of steps that its cell alone decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import numpy as np

from dodona.errors import InvalidArgument
from dodona.query.predicate import Axes, Predicate, holds, used

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_POWER = 8
"""Of a value: more is asked for by nobody, and leaves the integers."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every row: 1 makes a count."""

    number: int


@dataclass(frozen=True, slots=True)
class Value:
    """(offset + factor·code)^power of an attribute; 0 in `<missing>` and `<outside>`, where there are such cells."""

    attribute: str
    size: int
    """How many values the attribute has."""
    offset: int
    factor: int
    power: int = 1

    def __post_init__(self) -> None:
        """Refuse powers that are no sums of whole numbers."""
        if not 1 <= self.power <= MOST_POWER:
            raise InvalidArgument("power", self.power, f"write a whole number from 1 to {MOST_POWER}")


@dataclass(frozen=True, slots=True)
class Cases:
    """The weight of the first branch that holds, else the last one."""

    branches: tuple[tuple[Predicate, Weight], ...]
    otherwise: Weight


@dataclass(frozen=True, slots=True)
class People:
    """A person counts once in each group that a row of theirs is in, however many rows there are.

    It is no sum over rows, so no cell decides it. Only sources that know who a row is of can answer it.
    """


Weight = Constant | Value | Cases | People
ONE = Constant(1)


def weigh(weight: Weight, axes: Axes) -> NDArray[np.int64]:
    """Return the weight of rows, or of the cells of a product, in a shape that broadcasts with them."""
    match weight:
        case Constant(number):
            return np.asarray(number, dtype=np.int64)
        case Value(name, size, offset, factor, power):
            codes = axes[name]
            if codes.size < size:  # a few cells of a large attribute
                present = (offset + factor * np.minimum(codes, size - 1)) ** power
                return np.where(codes < size, present, np.int64(0))
            table = np.zeros(size + 2, dtype=np.int64)
            table[:size] = (offset + factor * np.arange(size, dtype=np.int64)) ** power
            found: NDArray[np.int64] = table[codes]
            return found
        case Cases(branches, otherwise):
            result = weigh(otherwise, axes)
            for predicate, branch in reversed(branches):
                result = np.where(holds(predicate, axes), weigh(branch, axes), result)
            return result
        case People():
            raise InvalidArgument("weight", "count(DISTINCT ...)", "ask it by itself: cells do not tell people apart")
        case _:
            assert_never(weight)


def looked_at(weight: Weight) -> frozenset[str]:
    """Return the names of the attributes that a weight depends on."""
    match weight:
        case Constant() | People():
            return frozenset()
        case Value(name):
            return frozenset((name,))
        case Cases(branches, otherwise):
            names = (used(predicate) | looked_at(branch) for predicate, branch in branches)
            return looked_at(otherwise).union(*names)
        case _:
            assert_never(weight)


def extremes(weight: Weight) -> tuple[int, int]:
    """Return numbers that no row's weight is below or above, without looking at which rows are meant."""
    match weight:
        case Constant(number):
            return number, number
        case People():
            return 0, 1
        case Value(_, size, offset, factor, power):
            ends = [(offset + factor * code) ** power for code in (0, size - 1)]
            return min(0, *ends), max(0, *ends)
        case Cases(branches, otherwise):
            spans = [extremes(branch) for _, branch in branches] + [extremes(otherwise)]
            return min(low for low, _ in spans), max(high for _, high in spans)
        case _:
            assert_never(weight)
