"""The pattern price: what residuals cost together, when a row is added or removed, or becomes another one.

A row that becomes another one differs from it in some attributes and not in others. That pattern, and nothing else,
decides how far each residual moves, and no pattern is the worst for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dodona.domain.neighbours import Neighbours
from dodona.domain.unit import Unit
from dodona.query.residual import Classes, Residual

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_PATTERNS = 1 << 20
"""Up to so many patterns are walked through; of more, each residual is priced by its own worst one."""
_AT_ONCE = 1 << 22
_NEAR = 1e-9  # doubles choose the patterns whose sums are then taken exactly; they are off by far less

Part = tuple[Residual, Fraction]
"""A residual, and its variance σ²: a row of squared length N gets noise of variance σ²·N."""


def ratio_of(parts: Sequence[Part], unit: Unit, *, limit: int = MOST_PATTERNS) -> Fraction:
    """Return the largest Σ change²/variance over all neighbours: twice the zCDP price. Exact within the limit.

    Of a person all rows may move it the same way; one who is replaced may have had none in the place of some.

    Theorem: residual-measurement, pattern-price, people
    """
    found = Fraction(0)
    if not unit.fixed:
        found = sum((added(residual) / variance for residual, variance in parts), Fraction(0))
    if unit.neighbours is Neighbours.REPLACE:
        found = max(found, _worst(parts, limit))
    return unit.rows**2 * found


def added(residual: Residual) -> Fraction:
    """Return ∏(1 - 1/m): the squared length that a row has in a residual, whichever row it is.

    Theorem: residual-measurement
    """
    return math.prod((Fraction(own.number - 1, own.number) for own in residual.classes), start=Fraction(1))


def replaced(residual: Residual, differs: Sequence[bool]) -> Fraction:
    """Return how far, squared, a row moves a residual that comes to differ in the classes of these attributes.

    Theorem: pattern-price
    """
    shared = Fraction(1)
    for own, other in zip(residual.classes, differs, strict=True):
        shared *= Fraction(-1 if other else own.number - 1, own.number)
    return 2 * (added(residual) - shared)


def farthest(residual: Residual) -> Fraction:
    """Return the largest of these: where the row differs in the attribute of fewest classes alone.

    Theorem: pattern-price
    """
    if not residual.classes:
        return Fraction(0)
    least = min(own.number for own in residual.classes)
    return 2 * added(residual) * Fraction(least, least - 1)


@dataclass(frozen=True, slots=True)
class Patterns:
    """All ways in which two rows can differ in the classes of some attributes."""

    axes: dict[Classes, int]
    """For each way to class an attribute, the place of the attribute."""
    differs: dict[Classes, NDArray[np.bool_]]
    """For each way to class an attribute, whether two rows differ, in each case of the attribute."""
    shape: tuple[int, ...]
    """How many cases each attribute has: two, where it is classed in one way."""

    @classmethod
    def of(cls, residuals: Iterable[Residual]) -> Patterns:
        """Return the patterns that some residuals can see."""
        by_name: dict[str, dict[Classes, None]] = {}
        for residual in residuals:
            for own in residual.classes:
                by_name.setdefault(own.attribute, {})[own] = None
        axes, differs, shape = {}, {}, []
        for place, name in enumerate(sorted(by_name)):
            ways = tuple(by_name[name])
            cases = _cases(ways)
            shape.append(len(cases))
            for number, own in enumerate(ways):
                axes[own] = place
                differs[own] = cases[:, number]
        return cls(axes, differs, tuple(shape))

    @property
    def size(self) -> int:
        """How many patterns there are."""
        return math.prod(self.shape)

    def places(self, residual: Residual) -> NDArray[np.int64]:
        """Return for each pattern which of the 2^|A| cases of a residual it is, in a shape that broadcasts to all."""
        found = np.zeros([1] * len(self.shape), dtype=np.int64)
        for own in residual.classes:
            shape = [-1 if place == self.axes[own] else 1 for place in range(len(self.shape))]
            found = 2 * found + self.differs[own].reshape(shape)
        return found


def cases_of(residual: Residual) -> list[Fraction]:
    """Return how far, squared, a residual moves in each case, in the order of `Patterns.places`."""
    return [replaced(residual, differs) for differs in product((False, True), repeat=len(residual.classes))]


def _cases(ways: tuple[Classes, ...]) -> NDArray[np.bool_]:
    """Return which combinations of ways to class one attribute two cells can differ in."""
    if len(ways) == 1:
        return np.array([[False], [True]])
    labels = np.unique(np.stack([own.labels() for own in ways]), axis=1)
    first, second = np.triu_indices(labels.shape[1])
    pairs: NDArray[np.bool_] = np.unique((labels[:, first] != labels[:, second]).T, axis=0)
    return pairs


def _worst(parts: Sequence[Part], limit: int) -> Fraction:
    patterns = Patterns.of(residual for residual, _ in parts)
    if patterns.size > limit:
        return sum((farthest(residual) / variance for residual, variance in parts), Fraction(0))
    if not patterns.shape:
        return Fraction(0)  # the number of rows is the same
    values: dict[Fraction, int] = {}
    numbered, about = [], np.zeros(patterns.shape)
    for residual, variance in parts:
        cases = [case / variance for case in cases_of(residual)]
        numbers = np.array([values.setdefault(case, len(values)) for case in cases], dtype=np.int64)
        places = patterns.places(residual)
        numbered.append((numbers, places))
        about += np.array([float(case) for case in cases])[places]
    near = np.nonzero(about >= about.max() * (1 - _NEAR))
    exact, step = tuple(values), max(1, _AT_ONCE // len(values))
    seen: set[tuple[int, ...]] = set()  # how often each value is in the sum: few patterns differ in that
    for start in range(0, len(near[0]), step):
        chosen = tuple(axis[start : start + step] for axis in near)
        times = np.zeros((len(chosen[0]), len(exact)), dtype=np.int64)
        for numbers, places in numbered:
            own = np.broadcast_to(places, patterns.shape)[chosen]
            np.add.at(times, (np.arange(len(own)), numbers[own]), 1)
        seen.update(map(tuple, np.unique(times, axis=0).tolist()))
    return max(
        sum((count * value for value, count in zip(exact, row, strict=True) if count), Fraction(0)) for row in seen
    )
