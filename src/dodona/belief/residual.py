"""What residuals tell: marginals and product queries, put together again from measured Helmert rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dodona.errors import InvalidArgument
from dodona.mechanisms.residual import Residuals
from dodona.query.predicate import both, box
from dodona.query.query import Block, block_weights
from dodona.query.residual import Classes, Residual, helmert
from dodona.query.weight import Constant, looked_at, weigh

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Factor:
    """What a row counts for by the class of one attribute."""

    classes: Classes
    weights: tuple[int, ...]

    @property
    def mean(self) -> Fraction:
        """The mean of the weights over the classes."""
        return Fraction(sum(self.weights), self.classes.number)

    @property
    def spread(self) -> Fraction:
        """The squared length of the weights less their mean."""
        return sum(weight * weight for weight in self.weights) - self.classes.number * self.mean**2

    def coefficients(self) -> NDArray[Any]:
        """Return h_j·weights/(j(j+1)) for each Helmert row, as fractions."""
        inner = helmert(self.classes.number).astype(object) @ np.array(self.weights, dtype=object)
        found = np.empty(len(inner), dtype=object)
        found[:] = [Fraction(int(number), j * (j + 1)) for j, number in enumerate(inner.tolist(), 1)]
        return found


Product = tuple[Factor, ...]
"""A query that counts each row for the product of the factors of its attributes."""


@dataclass(frozen=True, slots=True)
class Estimated:
    """An unbiased estimate, exact as a combination of what was released, and the variance of its law."""

    value: Fraction
    variance: Fraction


@dataclass(frozen=True, slots=True)
class Known:
    """Residuals that were measured, each with its variance σ²: a row of squared length N has variance σ²·N.

    Theorem: residual-reconstruction
    """

    rows: Mapping[Residual, NDArray[Any]] = field(default_factory=dict)
    """For each residual an array with an axis an attribute: the measured numbers."""
    variances: Mapping[Residual, Fraction] = field(default_factory=dict)

    @classmethod
    def counting(cls, rows: int) -> Self:
        """Return what is known where the number of rows is public."""
        empty = Residual()
        return cls({empty: np.array(Fraction(rows), dtype=object)}, {empty: Fraction(0)})

    def learned(self, measured: Residuals, values: Sequence[int]) -> Self:
        """Return what is known after a release; a residual that was known before is topped up, never begun anew.

        Two measurements are weighed by the inverses of their variances.

        Theorem: residual-reconstruction
        """
        if len(values) != len(measured.noises):
            raise InvalidArgument("values", len(values), f"the residuals have {len(measured.noises)} rows")
        known, start = self, 0
        for residual, variance in measured.parts:
            known = known.topped(residual, values[start : start + residual.number], variance)
            start += residual.number
        return known

    def topped(self, residual: Residual, values: Sequence[int], variance: Fraction) -> Self:
        """Return what is known after one residual was measured with a variance; values are in the order of its rows."""
        rows, variances = dict(self.rows), dict(self.variances)
        new = np.empty(residual.shape, dtype=object)
        for row, value in zip(residual.rows(), values, strict=True):
            new[tuple(j - 1 for j in row.steps)] = Fraction(int(value))
        before = variances.get(residual)
        if before is None:
            rows[residual], variances[residual] = new, variance
        else:
            share = before / (before + variance)
            rows[residual] = np.asarray((1 - share) * rows[residual] + share * new, dtype=object)
            variances[residual] = before * (1 - share)
        return type(self)(rows, variances)

    def estimate(self, product: Product) -> Estimated | None:
        """Return the answer to a product query; None where a residual that it needs was not measured.

        Theorem: residual-reconstruction
        """
        value = variance = Fraction(0)
        for residual, share, parts in _below(product):
            if share == 0:
                continue
            if residual not in self.rows:
                return None
            own = self.rows[residual]
            for part in parts:  # the first axis goes, one attribute after the other
                own = np.tensordot(part.coefficients(), own, axes=(0, 0))
            value += _outer(product, parts) * Fraction(np.asarray(own, dtype=object).item())
            variance += share * self.variances[residual]
        return Estimated(value, variance)

    def marginal(self, classes: Sequence[Classes]) -> tuple[NDArray[np.float64], Fraction] | None:
        """Return all cells of a marginal, an axis for each attribute in the order of the names, and their variance.

        All cells have the same one. None where a residual was not measured.

        Theorem: residual-reconstruction
        """
        ordered = Residual(tuple(classes)).classes
        total: NDArray[np.float64] = np.zeros([own.number for own in ordered])
        ones = tuple(Factor(own, (1, *[0] * (own.number - 1))) for own in ordered)
        variance = Fraction(0)
        for residual, share, parts in _below(ones):
            if residual not in self.rows:
                return None
            variance += share * self.variances[residual]
            own = np.asarray(self.rows[residual], dtype=np.float64)
            for axis, part in enumerate(parts):
                steps = np.arange(1, part.classes.number)
                lifted = helmert(part.classes.number) / (steps * (steps + 1))[:, None]
                own = np.moveaxis(np.tensordot(lifted, own, axes=(0, axis)), 0, axis)
            kept = {part.classes for part in parts}
            shape = [one.number if one in kept else 1 for one in ordered]
            total += own.reshape(shape) * float(_outer(ones, parts))
        return total, variance


def variance_shares(product: Product) -> dict[Residual, Fraction]:
    """Return how much of each residual's σ² the variance of a product query has.

    Theorem: residual-reconstruction
    """
    return {residual: share for residual, share, _ in _below(product) if share != 0}


def product_of(block: Block, ways: Mapping[str, Classes]) -> Product | None:
    """Return a block as a product over the classes of its attributes; None where it is none.

    It must be a sum over a conjunction of conditions on single columns, without keys. It must tell no two cells of a
    class apart, and weigh rows by one column at most.
    """
    sets, weighed, names = box(block.where), looked_at(block.weight), sorted(block.attributes)
    if sets is None or block.keys or len(weighed) > 1 or not ways.keys() >= set(names):
        return None
    number = 1 if weighed else int(weigh(block.weight, {}))
    found = []
    for name in names:
        where = both(*(own for own in sets if own.attribute == name))
        own = Block(where, (), block.weight) if name in weighed else Block(where, (), Constant(number))
        number = number if name in weighed else 1  # a number is counted once, with the first column
        axis = {name: np.arange(ways[name].cells, dtype=np.int64)}
        factor = _classed(ways[name], np.broadcast_to(block_weights(own, axis), (ways[name].cells,)))
        if factor is None:
            return None
        found.append(factor)
    return tuple(found) if number == 1 else None


def _classed(classes: Classes, weights: NDArray[np.int64]) -> Factor | None:
    labels = classes.labels()
    found = np.zeros(classes.number, dtype=np.int64)
    found[labels] = weights
    return Factor(classes, tuple(found.tolist())) if (found[labels] == weights).all() else None


def _below(product: Product) -> Iterator[tuple[Residual, Fraction, tuple[Factor, ...]]]:
    """Yield each residual below a product: its share of the variance, and the factors that it has."""
    ordered = sorted(product, key=lambda factor: factor.classes.attribute)
    for size in range(len(ordered) + 1):
        for parts in combinations(ordered, size):
            share = _outer(product, parts) ** 2 * math.prod((part.spread for part in parts), start=Fraction(1))
            yield Residual(tuple(part.classes for part in parts)), share, parts


def _outer(product: Product, parts: tuple[Factor, ...]) -> Fraction:
    """Return the product of the means of all factors that are not among the parts."""
    kept = {part.classes for part in parts}
    return math.prod((factor.mean for factor in product if factor.classes not in kept), start=Fraction(1))
