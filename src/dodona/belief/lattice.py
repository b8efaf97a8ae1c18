"""A lattice: residuals that were measured, ready to tell every product query of their attributes at once.

It computes in doubles what `Known` computes in fractions: what is told is post-processing, and a double is enough.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dodona.belief.facet import Facet, chosen
from dodona.query.residual import Classes, Residual, helmert

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SEVERAL = 4  # products over the same classes: fewer are quicker one by one
_MOST_AT_ONCE = 1 << 20  # numbers


@dataclass(frozen=True, slots=True)
class Told:
    """An unbiased estimate in steps, its variance, and the largest multiple of one released number in it."""

    value: float
    variance: float
    reach: float


@dataclass(frozen=True, slots=True)
class _Side:
    """What one attribute adds to a product query."""

    coefficients: NDArray[np.float64]
    """Of each Helmert row."""
    first: float
    """The first of these, and the only one where there are two classes."""
    mean: float
    spread: float
    largest: float


class Lattice:
    """Residuals with their variances. It grows, and what is measured again is weighed with what was known."""

    def __init__(self, *, total: int | None) -> None:
        """Take the number of rows where it is exact and public."""
        self._rows: dict[tuple[Classes, ...], tuple[NDArray[np.float64], float]] = {}
        self.version = 0
        """Grows with each measurement."""
        if total is not None:
            self._rows[()] = (np.array(float(total)), 0.0)

    def __len__(self) -> int:
        return len(self._rows)

    def variance(self, residual: Residual) -> float:
        """Return how well a residual is known; infinite where it was never measured."""
        found = self._rows.get(residual.classes)
        return math.inf if found is None else found[1]

    def add(self, residual: Residual, values: Sequence[int] | NDArray[np.int64], variance: float) -> None:
        """Take the Helmert rows of a residual, in the order of its rows; a second measurement is weighed in.

        Theorem: residual-reconstruction
        """
        new = np.empty(residual.number)
        new[residual.order()] = np.asarray(values, dtype=np.float64)
        new = new.reshape(residual.shape)
        before = self._rows.get(residual.classes)
        if before is not None:
            share = before[1] / (before[1] + variance)
            new, variance = before[0] + share * (new - before[0]), share * variance
        self._rows[residual.classes] = (new, variance)
        self.version += 1

    def expecting(self, parts: Iterable[tuple[Residual, Fraction]], *, fixed: bool) -> Lattice:
        """Return the lattice after more residuals, whose numbers are not known yet: variances need none of them.

        Where the number of rows is public (`fixed`), it counts as known before it was read.
        """
        found = Lattice(total=0 if fixed else None)
        found._rows |= self._rows
        for residual, variance in parts:
            found.add(residual, np.zeros(residual.number, dtype=np.int64), float(variance))
        return found

    def tell(self, facet: Facet) -> Told | None:
        """Return the answer to a product query; None where a residual that it needs was not measured.

        Theorem: residual-reconstruction
        """
        if facet.sets is None:
            return None
        sides = [_side(own, members) for own, members in zip(facet.classes, facet.sets, strict=True)]
        value = variance = reach = 0.0
        for inner in _subsets(len(sides)):
            found = self._rows.get(tuple([facet.classes[place] for place in inner]))
            if found is None:
                return None
            rows, spread = found
            factor = own = largest = 1.0
            for place, side in enumerate(sides):
                if place not in inner:
                    factor *= side.mean
                    continue
                own *= side.spread
                largest *= side.largest
                if rows.size > 1:  # the first axis goes, one attribute after the other
                    rows = side.coefficients @ rows.reshape(len(side.coefficients), -1)
                else:
                    factor *= side.first
            value += factor * float(rows.item() if rows.ndim else rows)
            if spread:
                mean = math.prod([side.mean for place, side in enumerate(sides) if place not in inner])
                variance += mean * mean * own * spread
                reach = max(reach, mean * largest)
        return Told(value, variance, reach)

    def tell_all(self, facets: Sequence[Facet]) -> list[Told | None]:
        """Return the answers to many product queries, those over the same classes in one pass."""
        found: list[Told | None] = [None] * len(facets)
        alike: defaultdict[tuple[Classes, ...], list[int]] = defaultdict(list)
        for place, facet in enumerate(facets):
            if facet.sets is not None:
                alike[facet.classes].append(place)
        for classes, places in alike.items():
            if len(places) < _SEVERAL or not classes:
                for place in places:
                    found[place] = self.tell(facets[place])
                continue
            lines = max(1, _MOST_AT_ONCE // math.prod(own.number for own in classes[1:]))
            for start in range(0, len(places), lines):
                own = places[start : start + lines]
                told = self._tell_alike(classes, [facets[place].sets or () for place in own])
                for place, one in zip(own, told, strict=False):
                    found[place] = one
        return found

    def _tell_alike(self, classes: tuple[Classes, ...], sets: Sequence[tuple[int, ...]]) -> Iterator[Told]:
        """Yield what `tell` returns of each product, up to the rounding of its value; nothing where that is None.

        Theorem: residual-reconstruction
        """
        coefficients, means, spreads, largest = [], [], [], []
        for own, members in zip(classes, zip(*sets, strict=True), strict=True):
            places = {one: place for place, one in enumerate(dict.fromkeys(members))}
            sides, lines = [_side(own, one) for one in places], [places[one] for one in members]
            coefficients.append(np.array([side.coefficients for side in sides])[lines])
            means.append(np.array([side.mean for side in sides])[lines])
            spreads.append(np.array([side.spread for side in sides])[lines])
            largest.append(np.array([side.largest for side in sides])[lines])
        ones = np.ones(len(sets))
        value, variance, reach = np.zeros(len(sets)), np.zeros(len(sets)), np.zeros(len(sets))
        for inner in _subsets(len(classes)):
            found = self._rows.get(tuple([classes[place] for place in inner]))
            if found is None:
                return
            rows, noise = found
            mean = math.prod([own for place, own in enumerate(means) if place not in inner], start=ones)
            value += mean * _contracted(rows, [coefficients[place] for place in inner])
            if noise:
                variance += mean * mean * math.prod([spreads[place] for place in inner], start=ones) * noise
                reach = np.maximum(reach, mean * math.prod([largest[place] for place in inner], start=ones))
        yield from map(Told, value.tolist(), variance.tolist(), reach.tolist())

    def cells(self, facet: Facet) -> tuple[NDArray[np.float64], float, float] | None:
        """Return all cells of a marginal in row-major order, their variance, which is one for all, and their reach."""
        total: NDArray[np.float64] = np.zeros([own.number for own in facet.classes])
        variance = reach = 0.0
        for inner in _subsets(len(facet.classes)):
            found = self._rows.get(tuple([facet.classes[place] for place in inner]))
            if found is None:
                return None
            rows, spread = found
            factor = largest = share = 1.0
            for axis, place in enumerate(inner):
                own = facet.classes[place]
                rows = np.moveaxis(np.tensordot(_lifted(own.number), rows, (0, axis)), 0, axis)
                share *= 1 - 1 / own.number
                largest *= float(np.abs(_lifted(own.number)).max())
            for place, own in enumerate(facet.classes):
                factor /= 1 if place in inner else own.number
            total += factor * rows.reshape([own.number if n in inner else 1 for n, own in enumerate(facet.classes)])
            if spread:
                variance += factor * factor * share * spread
                reach = max(reach, factor * largest)
        return total.reshape(-1), variance, reach


def _contracted(rows: NDArray[np.float64], coefficients: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return for each line of coefficients, an attribute after the other, the rows summed with their products."""
    found = rows.reshape(1, -1)
    for own in coefficients:
        number = own.shape[1]
        found = (own[:, None, :] @ found.reshape(len(found), number, -1))[:, 0, :]
    return found[:, 0]


@lru_cache(maxsize=64)
def _subsets(number: int) -> tuple[tuple[int, ...], ...]:
    return tuple(_chosen(number))


def _chosen(number: int) -> Iterator[tuple[int, ...]]:
    for size in range(number + 1):
        yield from combinations(range(number), size)


@lru_cache(maxsize=256)
def _lifted(number: int) -> NDArray[np.float64]:
    """Return the Helmert rows over their squared lengths."""
    steps = np.arange(1, number)
    return helmert(number) / (steps * (steps + 1))[:, None]


@lru_cache(maxsize=1 << 14)
def _side(classes: Classes, members: int) -> _Side:
    counted = chosen(classes, members).astype(np.float64)
    coefficients = _lifted(classes.number) @ counted
    mean = float(counted.mean())
    spread, largest = float(((counted - mean) ** 2).sum()), float(np.abs(coefficients).max())
    return _Side(coefficients, float(coefficients[0]), mean, spread, largest)
