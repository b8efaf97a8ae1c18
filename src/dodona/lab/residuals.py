"""Reconstruction from residuals in exact fractions: the reference for what `knowledge.residuals` does in doubles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dodona.errors import InvalidArgument
from dodona.knowledge.residuals import Factor, Product, mean_of_others, residuals_below
from dodona.privacy.measurement import ResidualMeasurement
from dodona.query.bases import Base, base_rows
from dodona.query.predicate import as_box, conjunction
from dodona.query.query import Block, ConstantWeight, block_weights, evaluate_weight, weight_attributes
from dodona.query.residual import Classes, Residual

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ExactEstimate:
    """An unbiased estimate, exact as a combination of releases, and its variance."""

    value: Fraction
    variance: Fraction


@dataclass(frozen=True, slots=True)
class ExactResiduals:
    """Measured residuals, each with its variance σ²: a row of squared length N has variance σ²·N.

    Theorem: residual-reconstruction
    """

    rows: Mapping[Residual, NDArray[Any]] = field(default_factory=dict)
    """The measured numbers of each residual, as an array with an axis for each attribute."""
    variances: Mapping[Residual, Fraction] = field(default_factory=dict)

    @classmethod
    def counting(cls, rows: int) -> Self:
        """Return the knowledge of a public number of rows."""
        empty = Residual()
        return cls({empty: np.array(Fraction(rows), dtype=object)}, {empty: Fraction(0)})

    def learn(self, measured: ResidualMeasurement, values: Sequence[int]) -> Self:
        """Return the knowledge after a release; a residual that was known before is combined with the new one.

        Two measurements are weighted by their inverse variances.

        Theorem: residual-reconstruction
        """
        if len(values) != len(measured.noises):
            raise InvalidArgument("values", len(values), f"the residuals have {len(measured.noises)} rows")
        known, start = self, 0
        for residual, variance in measured.parts:
            known = known.add_residual(residual, values[start : start + residual.number], variance)
            start += residual.number
        return known

    def add_residual(self, residual: Residual, values: Sequence[int], variance: Fraction) -> Self:
        """Return the knowledge after one residual was measured with a variance; values are in the order of its rows."""
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

    def estimate(self, product: Product) -> ExactEstimate | None:
        """Return the answer to a product query; None if a residual that it needs was not measured.

        Theorem: residual-reconstruction
        """
        value = variance = Fraction(0)
        for residual, share, parts in residuals_below(product):
            if share == 0:
                continue
            if residual not in self.rows:
                return None
            rows = self.rows[residual]
            for part in parts:  # the first axis goes, one attribute after the other
                rows = np.tensordot(_helmert_coefficients(part), rows, axes=(0, 0))
            value += mean_of_others(product, parts) * Fraction(np.asarray(rows, dtype=object).item())
            variance += share * self.variances[residual]
        return ExactEstimate(value, variance)

    def marginal(self, classes: Sequence[Classes]) -> tuple[NDArray[np.float64], Fraction] | None:
        """Return all cells of a marginal, with an axis for each attribute in the order of names, and their variance.

        None if a residual was not measured.

        Theorem: residual-reconstruction
        """
        ordered = Residual(tuple(classes)).classes
        total: NDArray[np.float64] = np.zeros([classing.number for classing in ordered])
        ones = tuple(Factor(classing, (1, *[0] * (classing.number - 1))) for classing in ordered)
        variance = Fraction(0)
        for residual, share, parts in residuals_below(ones):
            if residual not in self.rows:
                return None
            variance += share * self.variances[residual]
            rows = np.asarray(self.rows[residual], dtype=np.float64)
            for axis, part in enumerate(parts):
                steps = np.arange(1, part.classes.number)
                lifted = base_rows(Base.POINTS, part.classes.number) / (steps * (steps + 1))[:, None]
                rows = np.moveaxis(np.tensordot(lifted, rows, axes=(0, axis)), 0, axis)
            kept = {part.classes for part in parts}
            shape = [classing.number if classing in kept else 1 for classing in ordered]
            total += rows.reshape(shape) * float(mean_of_others(ones, parts))
        return total, variance


def _helmert_coefficients(factor: Factor) -> NDArray[Any]:
    """Return h_j·weights/(j(j+1)) for each Helmert row, as fractions."""
    inner = base_rows(Base.POINTS, factor.classes.number).astype(object) @ np.array(factor.weights, dtype=object)
    coefficients = np.empty(len(inner), dtype=object)
    coefficients[:] = [Fraction(int(number), j * (j + 1)) for j, number in enumerate(inner.tolist(), 1)]
    return coefficients


def block_product(block: Block, ways: Mapping[str, Classes]) -> Product | None:
    """Return a block as a product over the classes of its attributes; None if it is not one.

    It must be a sum over a conjunction of conditions on single columns, without keys. It must not distinguish two cells
    of a class, and may weight rows by at most one column.
    """
    sets, weighed, names = as_box(block.where), weight_attributes(block.weight), sorted(block.attributes)
    if sets is None or block.keys or len(weighed) > 1 or not ways.keys() >= set(names):
        return None
    number = 1 if weighed else int(evaluate_weight(block.weight, {}))
    factors = []
    for name in names:
        where = conjunction(*(condition for condition in sets if condition.attribute == name))
        column_block = Block(where, (), block.weight) if name in weighed else Block(where, (), ConstantWeight(number))
        number = number if name in weighed else 1  # a number is counted once, with the first column
        axis = {name: np.arange(ways[name].cells, dtype=np.int64)}
        factor = _class_factor(ways[name], np.broadcast_to(block_weights(column_block, axis), (ways[name].cells,)))
        if factor is None:
            return None
        factors.append(factor)
    return tuple(factors) if number == 1 else None


def _class_factor(classes: Classes, weights: NDArray[np.int64]) -> Factor | None:
    labels = classes.labels()
    class_weights = np.zeros(classes.number, dtype=np.int64)
    class_weights[labels] = weights
    return Factor(classes, tuple(class_weights.tolist())) if (class_weights[labels] == weights).all() else None
