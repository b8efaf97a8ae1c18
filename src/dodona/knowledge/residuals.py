"""Measured residuals: the estimates they give, and how much noise each should get.

Marginals and product queries are reconstructed from Helmert rows, in doubles; `lab.residuals` does so in exact
fractions. The variances that meet given targets at the least price are computed here too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dodona.answer.laws import ErrorLaw, GaussianSumBound, NoiseSum
from dodona.errors import InvalidArgument
from dodona.knowledge.measurements import KnownValues
from dodona.knowledge.patterns import CountPattern, class_mask
from dodona.privacy import measurement
from dodona.query.residual import Classes, Residual, helmert_matrix
from dodona.schema.schema import Neighbours, Unit

# --- Product queries, and the share of each residual in their variance. ---


@dataclass(frozen=True, slots=True)
class Factor:
    """The weight of a row by the class of one attribute."""

    classes: Classes
    weights: tuple[int, ...]

    @property
    def mean(self) -> Fraction:
        """The mean of the weights over the classes."""
        return Fraction(sum(self.weights), self.classes.number)

    @property
    def spread(self) -> Fraction:
        """The squared norm of the weights after subtracting their mean."""
        return sum(weight * weight for weight in self.weights) - self.classes.number * self.mean**2

    def coefficients(self) -> NDArray[Any]:
        """Return h_j·weights/(j(j+1)) for each Helmert row, as fractions."""
        inner = helmert_matrix(self.classes.number).astype(object) @ np.array(self.weights, dtype=object)
        found = np.empty(len(inner), dtype=object)
        found[:] = [Fraction(int(number), j * (j + 1)) for j, number in enumerate(inner.tolist(), 1)]
        return found


Product = tuple[Factor, ...]
"""A query that counts each row for the product of the factors of its attributes."""


def variance_shares(product: Product) -> dict[Residual, Fraction]:
    """Return the coefficient of each residual's σ² in the variance of a product query.

    Theorem: residual-reconstruction
    """
    return {residual: share for residual, share, _ in residuals_below(product) if share != 0}


def residuals_below(product: Product) -> Iterator[tuple[Residual, Fraction, tuple[Factor, ...]]]:
    """Yield each residual below a product: its share of the variance, and its factors."""
    ordered = sorted(product, key=lambda factor: factor.classes.attribute)
    for size in range(len(ordered) + 1):
        for parts in combinations(ordered, size):
            share = mean_of_others(product, parts) ** 2 * math.prod((part.spread for part in parts), start=Fraction(1))
            yield Residual(tuple(part.classes for part in parts)), share, parts


def mean_of_others(product: Product, parts: tuple[Factor, ...]) -> Fraction:
    """Return the product of the means of all factors that are not among the parts."""
    kept = {part.classes for part in parts}
    return math.prod((factor.mean for factor in product if factor.classes not in kept), start=Fraction(1))


# --- Allotment: the noise of each residual that meets the targets at the least price. ---


MOST_ENTRIES = 1 << 19
"""Patterns times residuals. Beyond, residuals that look alike share a variance."""
MOST_KINDS = 1 << 23
"""Patterns times kinds of residuals. Beyond, each residual is allotted by its own farthest move."""
_BITS = 24  # of a variance: rounded down, so that targets are met
_TURNS = 2000
_GAP = 1e-3


@dataclass(frozen=True, slots=True)
class VarianceTarget:
    """A product query and the largest variance its estimate may have."""

    product: Product
    variance: Fraction

    def __post_init__(self) -> None:
        """Raise if the variance is not positive."""
        value: object = self.variance
        if not isinstance(value, Fraction | int) or isinstance(value, bool) or value <= 0:
            raise InvalidArgument("variance", value, "write a fraction above 0")


def allot_variances(targets: Sequence[VarianceTarget], unit: Unit) -> tuple[measurement.ResidualVariance, ...]:
    """Return the residuals that meet all targets, with the variances that minimise their total price.

    For one target, if rows are added or removed, it is the closed form σ_A² = T·√(p_A/v_A)/Σ_B √(p_B·v_B), where p_A is
    the price of a residual of variance 1 and v_A its share. Otherwise it is within a thousandth of the least price, if
    patterns times residuals are at most 2^19. A public number of rows is not measured.

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
    spread = _balance_variances(_prices(residuals, kinds, unit), errors[(errors > 0).any(axis=1)])
    rounded = {own: _down(Fraction(float(spread[kind]))) for own, kind in zip(residuals, kinds, strict=True)}
    largest = max(_variance(own, rounded) / target.variance for own, target in zip(shares, targets, strict=True))
    return tuple((residual, _down(own / largest)) for residual, own in rounded.items())


def _kinds(residuals: Sequence[Residual], table: NDArray[np.float64], unit: Unit) -> list[int]:
    """Return an index for each residual: among many, similar ones share an index and so a variance."""
    if (
        unit.neighbours is Neighbours.ADD_REMOVE
        or measurement.DifferencePatterns.of(residuals).size * len(residuals) <= MOST_ENTRIES
    ):
        return list(range(len(residuals)))
    seen: dict[tuple[tuple[int, ...], str], int] = {}
    alike = (
        (tuple(sorted(own.number for own in residual.classes)), f"{used:.6e}")
        for residual, used in zip(residuals, table.sum(axis=0).tolist(), strict=True)
    )
    return [seen.setdefault(kind, len(seen)) for kind in alike]


def _prices(residuals: Sequence[Residual], kinds: Sequence[int], unit: Unit) -> NDArray[np.float64]:
    """Return the price of each kind of residuals at variance 1, one row per pattern."""
    alone = np.zeros((1, max(kinds) + 1))
    np.add.at(alone[0], list(kinds), [float(measurement.squared_move_added(residual)) for residual in residuals])
    if unit.neighbours is Neighbours.ADD_REMOVE:
        return alone
    differences = measurement.DifferencePatterns.of(residuals)
    number = max(kinds) + 1
    if differences.size * number > MOST_KINDS:
        every = np.zeros((1, number))
        added = [Fraction(0) if unit.fixed else measurement.squared_move_added(own) for own in residuals]
        moved = (max(measurement.largest_squared_move(own), other) for own, other in zip(residuals, added, strict=True))
        np.add.at(every[0], list(kinds), [float(own) for own in moved])
        return every
    table = np.zeros((*differences.shape, number))
    for residual, kind in zip(residuals, kinds, strict=True):
        table[..., kind] += np.array([float(case) for case in measurement.squared_moves(residual)])[
            differences.places(residual)
        ]
    flat = table.reshape(-1, number)
    if not unit.fixed:  # a row may also be added or removed when people are replaced
        flat = np.concatenate([flat, alone])
    return np.unique(flat[flat.any(axis=1)].round(12), axis=0)


def _balance_variances(prices: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return variances s with max(prices/s)·max(targets·s) within a thousandth of the least.

    The minimum is max (Σ_A √((u·prices)_A·(w·targets)_A))² over weights u of patterns and w of targets that sum to 1: a
    concave function, which grows when each weight is multiplied by its derivative. At weights u, w the variances
    √(u·prices/w·targets) have the largest price and the largest error of that weight, or more.
    """
    share = np.full(len(prices), 1 / len(prices))
    weight = np.full(len(targets), 1 / len(targets))
    best, found = math.inf, np.ones(prices.shape[1])
    for _ in range(_TURNS):
        cost, error = share @ prices, weight @ targets
        spread = np.sqrt(cost / error)
        costs, errors = prices @ (1 / spread), targets @ spread
        reached = float(costs.max() * errors.max())
        if reached < best:
            best, found = reached, spread
        if best <= (1 + _GAP) * float(np.sqrt(cost * error).sum()) ** 2:
            break
        share = share * costs / (share @ costs)
        weight = weight * errors / (weight @ errors)
    return found


def _variance(shares: Mapping[Residual, Fraction], spread: Mapping[Residual, Fraction]) -> Fraction:
    return sum((share * spread[residual] for residual, share in shares.items() if residual in spread), Fraction(0))


def _down(value: Fraction) -> Fraction:
    """Return a fraction with few bits that is at most this one, and nearly equal."""
    unit = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - _BITS)
    return (value // unit) * unit


# --- The store of measured residuals: every product query over their attributes follows from them. ---


_SEVERAL = 4  # products over the same classes: fewer are faster one by one
_MOST_AT_ONCE = 1 << 20  # numbers
_SLACK = 1 + 1e-9  # scales were rounded up by less than this


@dataclass(frozen=True, slots=True)
class _Side:
    """The contribution of one attribute to a product query."""

    coefficients: NDArray[np.float64]
    """Of each Helmert row."""
    first: float
    """The first of these, and the only one where there are two classes."""
    mean: float
    spread: float
    largest: float


class ResidualStore:
    """Residuals and their variances. It grows; repeated measurements are averaged by precision."""

    def __init__(self, *, total: int | None) -> None:
        """Take the number of rows if it is exact and public."""
        self._rows: dict[tuple[Classes, ...], tuple[NDArray[np.float64], float]] = {}
        self.version = 0
        """Grows with each measurement."""
        if total is not None:
            self._rows[()] = (np.array(float(total)), 0.0)

    def __len__(self) -> int:
        return len(self._rows)

    def variance(self, residual: Residual) -> float:
        """Return the variance of a residual; infinite if it was never measured."""
        found = self._rows.get(residual.classes)
        return math.inf if found is None else found[1]

    def add(self, residual: Residual, values: Sequence[int] | NDArray[np.int64], variance: float) -> None:
        """Add the Helmert rows of a residual, in order; a repeated measurement is averaged by precision.

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

    def expecting(self, parts: Iterable[tuple[Residual, Fraction]], *, fixed: bool) -> ResidualStore:
        """Return the store after residuals whose values are unknown: variances do not depend on them.

        If the number of rows is public (`fixed`), it counts as known even before it is read.
        """
        found = ResidualStore(total=0 if fixed else None)
        found._rows |= self._rows
        found.version = self.version
        for residual, variance in parts:
            found.add(residual, np.zeros(residual.number, dtype=np.int64), float(variance))
        return found

    def lookup(self, pattern: CountPattern) -> KnownValues | None:
        """Return the answer to a product query; None if a residual it needs was not measured.

        Theorem: residual-reconstruction
        """
        if pattern.sets is None:
            return None
        sides = [_side(own, members) for own, members in zip(pattern.classes, pattern.sets, strict=True)]
        value = variance = reach = 0.0
        for inner in _subsets(len(sides)):
            found = self._rows.get(tuple([pattern.classes[place] for place in inner]))
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
                if rows.size > 1:  # contract the first axis, one attribute at a time
                    rows = side.coefficients @ rows.reshape(len(side.coefficients), -1)
                else:
                    factor *= side.first
            value += factor * float(rows.item() if rows.ndim else rows)
            if spread:
                mean = math.prod([side.mean for place, side in enumerate(sides) if place not in inner])
                variance += mean * mean * own * spread
                reach = max(reach, mean * largest)
        return KnownValues((value,), _residual_laws(variance, reach))

    def lookup_all(self, patterns: Sequence[CountPattern]) -> list[KnownValues | None]:
        """Return the answers to many product queries, with one pass for those over the same classes."""
        found: list[KnownValues | None] = [None] * len(patterns)
        alike: defaultdict[tuple[Classes, ...], list[int]] = defaultdict(list)
        for place, pattern in enumerate(patterns):
            if pattern.sets is not None:
                alike[pattern.classes].append(place)
        for classes, places in alike.items():
            if len(places) < _SEVERAL or not classes:
                for place in places:
                    found[place] = self.lookup(patterns[place])
                continue
            lines = max(1, _MOST_AT_ONCE // math.prod(own.number for own in classes[1:]))
            for start in range(0, len(places), lines):
                own = places[start : start + lines]
                told = self._lookup_alike(classes, [patterns[place].sets or () for place in own])
                for place, one in zip(own, told, strict=False):
                    found[place] = one
        return found

    def _lookup_alike(self, classes: tuple[Classes, ...], sets: Sequence[tuple[int, ...]]) -> Iterator[KnownValues]:
        """Yield the result of `lookup` for each product, up to rounding; yield nothing where it is None.

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
            value += mean * _contract(rows, [coefficients[place] for place in inner])
            if noise:
                variance += mean * mean * math.prod([spreads[place] for place in inner], start=ones) * noise
                reach = np.maximum(reach, mean * math.prod([largest[place] for place in inner], start=ones))
        for one, spread, farthest in zip(value.tolist(), variance.tolist(), reach.tolist(), strict=True):
            yield KnownValues((one,), _residual_laws(spread, farthest))

    def cells(self, pattern: CountPattern) -> KnownValues | None:
        """Return all cells of a marginal in row-major order, and their common error law."""
        total: NDArray[np.float64] = np.zeros([own.number for own in pattern.classes])
        variance = reach = 0.0
        for inner in _subsets(len(pattern.classes)):
            found = self._rows.get(tuple([pattern.classes[place] for place in inner]))
            if found is None:
                return None
            rows, spread = found
            factor = largest = share = 1.0
            for axis, place in enumerate(inner):
                own = pattern.classes[place]
                rows = np.moveaxis(np.tensordot(_lifted(own.number), rows, (0, axis)), 0, axis)
                share *= 1 - 1 / own.number
                largest *= float(np.abs(_lifted(own.number)).max())
            for place, own in enumerate(pattern.classes):
                factor /= 1 if place in inner else own.number
            total += factor * rows.reshape([own.number if n in inner else 1 for n, own in enumerate(pattern.classes)])
            if spread:
                variance += factor * factor * share * spread
                reach = max(reach, factor * largest)
        return KnownValues(total.reshape(-1), _residual_laws(variance, reach))


@lru_cache(maxsize=1 << 12)
def _residual_laws(variance: float, reach: float) -> tuple[ErrorLaw]:
    """Return the law of an estimate with this variance, where no released value has a coefficient above `reach`.

    Cached, as many products share few laws.
    """
    return (NoiseSum(()) if variance == 0 else GaussianSumBound(variance * _SLACK, reach),)


def _contract(rows: NDArray[np.float64], coefficients: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return, for each line of coefficients, the rows contracted with their products, one attribute at a time."""
    found = rows.reshape(1, -1)
    for own in coefficients:
        number = own.shape[1]
        found = (own[:, None, :] @ found.reshape(len(found), number, -1))[:, 0, :]
    return found[:, 0]


@lru_cache(maxsize=64)
def _subsets(number: int) -> tuple[tuple[int, ...], ...]:
    return tuple(_index_subsets(number))


def _index_subsets(number: int) -> Iterator[tuple[int, ...]]:
    for size in range(number + 1):
        yield from combinations(range(number), size)


@lru_cache(maxsize=256)
def _lifted(number: int) -> NDArray[np.float64]:
    """Return the Helmert rows divided by their squared norms."""
    steps = np.arange(1, number)
    return helmert_matrix(number) / (steps * (steps + 1))[:, None]


@lru_cache(maxsize=1 << 14)
def _side(classes: Classes, members: int) -> _Side:
    counted = class_mask(classes, members).astype(np.float64)
    coefficients = _lifted(classes.number) @ counted
    mean = float(counted.mean())
    spread, largest = float(((counted - mean) ** 2).sum()), float(np.abs(coefficients).max())
    return _Side(coefficients, float(coefficients[0]), mean, spread, largest)
