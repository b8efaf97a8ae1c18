"""Allotment: how much noise each residual gets, so that targets are met at the least price."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.belief.residual import Product, variance_shares
from dodona.domain.neighbours import Neighbours
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.mechanisms.pattern import Part, Patterns, added, cases_of, farthest
from dodona.query.residual import Residual

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_ENTRIES = 1 << 19
"""Patterns times residuals. Beyond, residuals that look alike share a variance."""
MOST_KINDS = 1 << 23
"""Patterns times kinds of residuals. Beyond, each residual is allotted by its own farthest move."""
_BITS = 24  # of a variance: rounded down, so that targets are kept
_TURNS = 2000
_GAP = 1e-3


@dataclass(frozen=True, slots=True)
class Target:
    """A product query, and the variance that its estimate may have."""

    product: Product
    variance: Fraction

    def __post_init__(self) -> None:
        """Refuse variances that are none."""
        value: object = self.variance
        if not isinstance(value, Fraction | int) or isinstance(value, bool) or value <= 0:
            raise InvalidArgument("variance", value, "write a fraction above 0")


def allotted(targets: Sequence[Target], unit: Unit) -> tuple[Part, ...]:
    """Return the residuals that meet all targets, each with the variance that makes them together cost least.

    For one target, where rows are added or removed, it is the closed form σ_A² = T·√(p_A/v_A)/Σ_B √(p_B·v_B), p_A being
    the price of a residual of variance 1 and v_A its share. Else it is within a thousandth of the least price, as long
    as patterns times residuals are at most 2^19. Where the number of rows is public, it is no part of it.

    Theorem: residual-allotment
    """
    shares = [variance_shares(target.product) for target in targets]
    residuals = tuple(dict.fromkeys(residual for own in shares for residual in own))
    if unit.fixed:
        residuals = tuple(residual for residual in residuals if residual.classes)
    if not residuals:
        raise InvalidArgument("targets", len(targets), "write a target that is not known already")
    places = {residual: place for place, residual in enumerate(residuals)}
    table = np.zeros((len(targets), len(residuals)))
    for line, own, target in zip(table, shares, targets, strict=True):
        for residual, share in own.items():
            if residual in places:
                line[places[residual]] = float(share / target.variance)
    kinds = _kinds(residuals, table, unit)
    errors = table @ np.eye(max(kinds) + 1)[kinds]
    spread = _balanced(_prices(residuals, kinds, unit), errors[(errors > 0).any(axis=1)])
    rounded = {own: _down(Fraction(float(spread[kind]))) for own, kind in zip(residuals, kinds, strict=True)}
    largest = max(_variance(own, rounded) / target.variance for own, target in zip(shares, targets, strict=True))
    return tuple((residual, _down(own / largest)) for residual, own in rounded.items())


def _kinds(residuals: Sequence[Residual], table: NDArray[np.float64], unit: Unit) -> list[int]:
    """Return a number for each residual: of many, those that look alike share one, and so a variance."""
    if unit.neighbours is Neighbours.ADD_REMOVE or Patterns.of(residuals).size * len(residuals) <= MOST_ENTRIES:
        return list(range(len(residuals)))
    seen: dict[tuple[tuple[int, ...], str], int] = {}
    alike = (
        (tuple(sorted(own.number for own in residual.classes)), f"{used:.6e}")
        for residual, used in zip(residuals, table.sum(axis=0).tolist(), strict=True)
    )
    return [seen.setdefault(kind, len(seen)) for kind in alike]


def _prices(residuals: Sequence[Residual], kinds: Sequence[int], unit: Unit) -> NDArray[np.float64]:
    """Return what the residuals of each kind cost at variance 1, one row a pattern."""
    alone = np.zeros((1, max(kinds) + 1))
    np.add.at(alone[0], list(kinds), [float(added(residual)) for residual in residuals])
    if unit.neighbours is Neighbours.ADD_REMOVE:
        return alone
    patterns = Patterns.of(residuals)
    number = max(kinds) + 1
    if patterns.size * number > MOST_KINDS:
        every = np.zeros((1, number))
        moved = [max(farthest(own), Fraction(0) if unit.fixed else added(own)) for own in residuals]
        np.add.at(every[0], list(kinds), [float(own) for own in moved])
        return every
    table = np.zeros((*patterns.shape, number))
    for residual, kind in zip(residuals, kinds, strict=True):
        table[..., kind] += np.array([float(case) for case in cases_of(residual)])[patterns.places(residual)]
    flat = table.reshape(-1, number)
    if not unit.fixed:  # a row may also come, or go, where people are replaced
        flat = np.concatenate([flat, alone])
    return np.unique(flat[flat.any(axis=1)].round(12), axis=0)


def _balanced(prices: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return variances s with max(prices/s)·max(targets·s) within a thousandth of the least.

    The least is max (Σ_A √((u·prices)_A·(w·targets)_A))² over weights u of patterns and w of targets that sum to 1: a
    concave function, which grows when each weight is multiplied by its own derivative. At weights u, w the variances
    √(u·prices/w·targets) have the largest price and the largest error of that weight, or more.
    """
    pattern = np.full(len(prices), 1 / len(prices))
    weight = np.full(len(targets), 1 / len(targets))
    best, found = math.inf, np.ones(prices.shape[1])
    for _ in range(_TURNS):
        cost, error = pattern @ prices, weight @ targets
        spread = np.sqrt(cost / error)
        costs, errors = prices @ (1 / spread), targets @ spread
        reached = float(costs.max() * errors.max())
        if reached < best:
            best, found = reached, spread
        if best <= (1 + _GAP) * float(np.sqrt(cost * error).sum()) ** 2:
            break
        pattern = pattern * costs / (pattern @ costs)
        weight = weight * errors / (weight @ errors)
    return found


def _variance(shares: Mapping[Residual, Fraction], spread: Mapping[Residual, Fraction]) -> Fraction:
    return sum((share * spread[residual] for residual, share in shares.items() if residual in spread), Fraction(0))


def _down(value: Fraction) -> Fraction:
    """Return a fraction of few bits that is at most this one, and hardly less."""
    unit = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - _BITS)
    return (value // unit) * unit
