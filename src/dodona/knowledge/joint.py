"""Joint laws: the covariances of numbers that follow from the same residuals.

Each is a sum of released rows, so every combination of them is one too, and its variance follows from these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.laws import JointLaw
from dodona.knowledge.residuals import MeasuredRows, ResidualStore, SideTable, subsets
from dodona.knowledge.sides import PRESENT, SUM
from dodona.query.bases import base_squares

if TYPE_CHECKING:
    from dodona.knowledge.patterns import CountPattern
    from dodona.knowledge.summed import FollowedValues
    from dodona.numbers import Doubles
    from dodona.query.residual import Classes


def joint_law(
    residuals: ResidualStore, followed: Sequence[FollowedValues | None], pairs: Iterable[tuple[int, int]]
) -> JointLaw:
    """Return the law of all combinations of blocks of which each pair is given, the smaller one first.

    Theorem: joint-law
    """
    covariances: dict[tuple[int, int], Doubles] = {}
    least = math.inf
    for first, second in pairs:
        values, other = followed[first], followed[second]
        if values is None or other is None:
            continue
        covariances[first, second] = _covariance(residuals, values, other)
        for followed_values in (values, other):
            least = min(
                [least, *(_least_scale(residuals, products[0].classes) for _, products in followed_values.terms)]
            )
    return JointLaw(covariances, 1 / least)


def _covariance(residuals: ResidualStore, first: FollowedValues, second: FollowedValues) -> Doubles:
    """Return the covariance of the values of two blocks, by group."""
    covariance: Doubles = np.zeros(len(first.terms[0][1]))
    for factor, products in first.terms:
        for other, theirs in second.terms:
            if not (_varies_alone(products[0], theirs[0]) or _varies_alone(theirs[0], products[0])):
                covariance += factor * other * _of_products(residuals, products, theirs)
    return covariance


def _varies_alone(steps: CountPattern, other: CountPattern) -> bool:
    """Return whether a product with the steps of a column has no row in common with one that counts its rows.

    Theorem: column-base
    """
    sides = zip(steps.classes, steps.sets or (), strict=True)
    summed = next((classing for classing, members in sides if classing.base.sums and members == SUM), None)
    if summed is None:
        return False
    others = dict(zip(other.classes, other.sets or (), strict=True))
    return summed not in others or others[summed] == PRESENT


def _of_products(residuals: ResidualStore, first: Sequence[CountPattern], second: Sequence[CountPattern]) -> Doubles:
    """Return the covariances of products over the same classes with others over the same classes, one by one."""
    pair = _ProductSides.of(first), _ProductSides.of(second)
    common = [classing for classing in first[0].classes if classing in pair[1].places]
    covariances: Doubles = np.zeros(len(first))
    for inner in subsets(len(common)):
        kept = tuple([common[place] for place in inner])
        factor = pair[0].mean_of_others(kept) * pair[1].mean_of_others(kept)
        known = residuals.known(kept) if factor.any() else ()
        if any(measured.variance for measured in known):
            covariances += factor * _of_rows(kept, known, pair)
    return covariances


@dataclass(frozen=True, slots=True)
class _ProductSides:
    """The columns of products over the same classes, and what each contributes to every product."""

    places: dict[Classes, int]
    table: SideTable
    number: int

    @classmethod
    def of(cls, products: Sequence[CountPattern]) -> _ProductSides:
        classes = products[0].classes
        places = {classing: place for place, classing in enumerate(classes)}
        return cls(places, SideTable(classes, [product.sets or () for product in products]), len(products))

    def mean_of_others(self, kept: Sequence[Classes]) -> Doubles:
        """Return what the columns that are not kept contribute: their means."""
        mean: Doubles = np.ones(self.number)
        for classing, place in self.places.items():
            if classing not in kept:
                mean = mean * self.table.means(place)
        return mean


def _of_rows(
    kept: Sequence[Classes], known: Sequence[MeasuredRows], pair: tuple[_ProductSides, _ProductSides]
) -> Doubles:
    """Return the covariances of what one residual contributes to products.

    If it is known in several bases, each product has its own average of them, by precision, as it was looked up.
    """
    shared: list[Doubles] = []
    weights: tuple[list[Doubles], list[Doubles]] = [], []
    for measured in known:
        dot: Doubles = np.full(pair[0].number, measured.variance)
        spreads = [dot, dot]
        for classing, base in zip(kept, measured.bases, strict=True):
            parts = [sides.table.of(sides.places[classing], base) for sides in pair]
            squares = np.array(base_squares(base, classing.side[1]), dtype=np.float64)
            dot = dot * ((parts[0].coefficients * parts[1].coefficients) @ squares)
            spreads = [spread * part.spreads for spread, part in zip(spreads, parts, strict=True)]
        shared.append(dot)
        for precisions, spread in zip(weights, spreads, strict=True):
            precisions.append(1 / np.maximum(spread, _LEAST))
    totals = [np.sum(precisions, axis=0) for precisions in weights]
    paired = zip(shared, *weights, strict=True)
    covariances: Doubles = np.sum(
        [dot * (weight / totals[0]) * (other / totals[1]) for dot, weight, other in paired], axis=0
    )
    return covariances


_LEAST = 1e-300


def _least_scale(residuals: ResidualStore, classes: Sequence[Classes]) -> float:
    """Return a bound from below for the scales of all draws in products over these classes."""
    squares = [min(base_squares(*classing.side)) for classing in classes]
    least = math.inf
    for inner in subsets(len(classes)):
        for measured in residuals.known([classes[place] for place in inner]):
            if measured.variance:
                kept = zip(inner, measured.bases, strict=True)
                rows = [
                    squares[place] if base is classes[place].base else min(base_squares(base, classes[place].side[1]))
                    for place, base in kept
                ]
                least = min(least, measured.variance * math.prod(rows))
    return math.sqrt(least)
