"""Measured residuals: the estimates they give, and how much noise each should get.

Marginals and product queries are reconstructed from the rows, in doubles; `lab.residuals` does so for points in exact
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
from dodona.knowledge.patterns import CountPattern, KnownValues
from dodona.knowledge.sides import Members, lifted_rows, set_mean, set_side
from dodona.privacy import measurement
from dodona.privacy.additive_noise import Gaussian, NormalNoise
from dodona.query.bases import Base, largest_weight
from dodona.query.residual import Classes, Residual
from dodona.schema.schema import Neighbours, Unit

# --- Product queries, and the share of each residual in their variance. ---


@dataclass(frozen=True, slots=True)
class Factor:
    """The weight of a row by the class of one attribute."""

    classes: Classes
    weights: tuple[int | Fraction, ...]
    """Where numbers are added up: of their sum, over the largest step, and of the number of rows that have one."""
    over: int = 1
    """What the weights of classes are divided by: whole numbers are added up faster than fractions."""

    @property
    def mean(self) -> Fraction:
        """The mean of the weights over the classes; for sums, what does not depend on the column."""
        return Fraction(
            self.weights[1] if self.classes.base.sums else Fraction(sum(self.weights), self.classes.number * self.over)
        )

    @property
    def spread(self) -> Fraction:
        """Its variance in a residual of this column alone with σ² = 1; for points the squared norm without the mean."""
        if self.classes.base.sums:  # without rows that have no number, the number of rows is that of all
            present = self.weights[1] if self.classes.base.gaps else 0
            return Fraction(self.weights[0] ** 2 + present**2)
        if self.classes.base is Base.POINTS:
            whole = Fraction(sum([weight**2 for weight in self.weights])) / self.over**2
            return whole - self.classes.number * self.mean**2
        lifted, squares = lifted_rows(self.classes.base, self.classes.number)
        weights = np.array([*map(float, self.weights)]) / self.over
        return Fraction(float(squares @ (lifted @ weights) ** 2) * _SLACK)


Product = tuple[Factor, ...]
"""A query that counts each row for the product of the factors of its attributes."""


@lru_cache(maxsize=1 << 13)
def variance_shares(product: Product) -> Mapping[Residual, Fraction]:
    """Return the coefficient of each residual's σ² in the variance of a product query.

    Theorem: residual-reconstruction
    """
    return {residual: share for residual, share, _ in residuals_below(product) if share != 0}


def residuals_below(product: Product) -> Iterator[tuple[Residual, Fraction, tuple[Factor, ...]]]:
    """Yield each residual below a product: its share of the variance, and its factors."""
    ordered = sorted(product, key=lambda factor: factor.classes.attribute)
    squares, spreads = [factor.mean**2 for factor in ordered], [factor.spread for factor in ordered]
    for inner in subsets(len(ordered)):
        shares = [spreads[place] if place in inner else squares[place] for place in range(len(ordered))]
        parts = tuple([ordered[place] for place in inner])
        yield Residual(tuple([part.classes for part in parts])), math.prod(shares, start=Fraction(1)), parts


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
    residuals = tuple(dict.fromkeys(residual for target_shares in shares for residual in target_shares))
    if unit.fixed:
        residuals = tuple(residual for residual in residuals if residual.classes)
    if not residuals:
        raise InvalidArgument("targets", len(targets), "write a target that is not known already")
    places = {residual: place for place, residual in enumerate(residuals)}
    entries = [
        (line, places[residual], float(share) / float(target.variance))
        for line, (target_shares, target) in enumerate(zip(shares, targets, strict=True))
        for residual, share in target_shares.items()
        if residual in places
    ]
    lines, columns, numbers = (np.array(column) for column in zip(*entries, strict=True))
    kinds = np.array(_kinds(residuals, np.bincount(columns, numbers).tolist(), unit))
    errors = _Errors(np.unique(lines, return_inverse=True)[1], kinds[columns], numbers)
    spread = _balance_variances(_prices(residuals, kinds.tolist(), unit), errors)
    rounded = {
        residual: _down(Fraction(float(spread[kind]))) for residual, kind in zip(residuals, kinds.tolist(), strict=True)
    }
    largest = max(
        _variance(target_shares, rounded) / target.variance
        for target_shares, target in zip(shares, targets, strict=True)
    )
    return tuple((residual, _down(variance / largest)) for residual, variance in rounded.items())


def _kinds(residuals: Sequence[Residual], shares: Sequence[float], unit: Unit) -> list[int]:
    """Return an index for each residual: among many, similar ones, by all their shares, have one, and one variance."""
    if (
        unit.neighbours is Neighbours.ADD_REMOVE
        or measurement.DifferencePatterns.of(residuals).size * len(residuals) <= MOST_ENTRIES
    ):
        return list(range(len(residuals)))
    seen: dict[tuple[tuple[int, ...], str], int] = {}
    alike = (
        (tuple(sorted(classing.number for classing in residual.classes)), f"{used:.6e}")
        for residual, used in zip(residuals, shares, strict=True)
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
        added = [Fraction(0) if unit.fixed else measurement.squared_move_added(residual) for residual in residuals]
        moved = (
            max(measurement.largest_squared_move(residual), other)
            for residual, other in zip(residuals, added, strict=True)
        )
        np.add.at(every[0], list(kinds), [float(move) for move in moved])
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


@dataclass(frozen=True, slots=True)
class _Errors:
    """The share of each kind's variance in each target's, without the many that are 0."""

    lines: NDArray[np.int64]
    """Of each share, its target; all of them have one."""
    kinds: NDArray[np.int64]
    numbers: NDArray[np.float64]

    def of_targets(self, spread: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the variance of each target, given those of the kinds."""
        return np.bincount(self.lines, self.numbers * spread[self.kinds]).astype(np.float64)

    def of_kinds(self, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of each kind in all targets, given their weights."""
        return np.bincount(self.kinds, self.numbers * weight[self.lines]).astype(np.float64)


def _balance_variances(prices: NDArray[np.float64], targets: _Errors) -> NDArray[np.float64]:
    """Return variances s with max(prices/s)·max(targets·s) within a thousandth of the least.

    The minimum is max (Σ_A √((u·prices)_A·(w·targets)_A))² over weights u of patterns and w of targets that sum to 1: a
    concave function, which grows when each weight is multiplied by its derivative. At weights u, w the variances
    √(u·prices/w·targets) have the largest price and the largest error of that weight, or more.
    """
    share = np.full(len(prices), 1 / len(prices))
    number = int(targets.lines.max()) + 1
    weight = np.full(number, 1 / number)
    best, variances = math.inf, np.ones(prices.shape[1])
    for _ in range(_TURNS):
        cost, error = share @ prices, targets.of_kinds(weight)
        spread = np.sqrt(cost / error)
        costs, errors = prices @ (1 / spread), targets.of_targets(spread)
        reached = float(costs.max() * errors.max())
        if reached < best:
            best, variances = reached, spread
        if best <= (1 + _GAP) * float(np.sqrt(cost * error).sum()) ** 2:
            break
        share = share * costs / (share @ costs)
        weight = weight * errors / (weight @ errors)
    return variances


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
class MeasuredRows:
    """One residual, measured in one choice of bases."""

    bases: tuple[Base, ...]
    rows: NDArray[np.float64]
    """An axis an attribute."""
    variance: float
    most: float = 1.0
    """The largest factor of a draw in the rows: below 1 once several measurements were averaged."""


class ResidualStore:
    """Residuals and their variances. It grows; repeated measurements are averaged by precision."""

    def __init__(self, *, total: int | None, law: type[NormalNoise] = Gaussian) -> None:
        """Take the number of rows if it is exact and public, and the noise of what will be measured."""
        self._law = law
        self._rows: dict[tuple[Classes, ...], tuple[MeasuredRows, ...]] = {}
        """By the classes, whatever their base: a residual may be known in several bases."""
        self.version = 0
        """Grows with each measurement."""
        if total is not None:
            self._rows[()] = (MeasuredRows((), np.array(float(total)), 0.0),)

    def __len__(self) -> int:
        return len(self._rows)

    def known(self, classes: Sequence[Classes]) -> tuple[MeasuredRows, ...]:
        """Return the rows of the residual of these classes, in each of the bases in which it was measured."""
        return self._rows.get(tuple(classes), ())

    def variance(self, residual: Residual) -> float:
        """Return the variance of a residual in its bases; infinite if it was never measured in them."""
        classes, bases = _plain(residual.classes)
        return next(
            (measured.variance for measured in self._rows.get(classes, ()) if measured.bases == bases), math.inf
        )

    def information(self, classes: Sequence[Classes], *, fixed: bool) -> float:
        """Return Σ price/variance over the known residuals of some columns: what they would cost now."""
        known: Iterable[tuple[Classes, ...]] = self._rows
        if 1 << len(classes) < len(self._rows):
            known = (tuple([classes[place] for place in inner]) for inner in subsets(len(classes)))
        total, columns = 0.0, {*classes}
        for kept in known:
            for measured in self._rows.get(kept, ()) if columns.issuperset(kept) and (kept or not fixed) else ():
                sides = zip(measured.bases, kept, strict=True)
                price = math.prod([float(largest_weight(base, classing.side[1])) for base, classing in sides])
                total += price / measured.variance
        return total

    def rounding(self, residual: Residual) -> Fraction:
        """Return what rounding adds to the variance of a residual that will be measured."""
        return measurement.rounding_variance(residual, self._law)

    def add(
        self,
        residual: Residual,
        values: Sequence[int] | NDArray[np.int64],
        drawn: Fraction | float,
        law: type[NormalNoise] = Gaussian,
    ) -> None:
        """Add the rows of a residual, in order; a repeated measurement in the same bases is averaged by precision.

        Theorem: residual-reconstruction
        """
        variance = float(drawn) + float(measurement.rounding_variance(residual, law))
        new = np.empty(residual.number)
        new[residual.order()] = np.asarray(values, dtype=np.float64)
        new = new.reshape(residual.shape)
        classes, bases = _plain(residual.classes)
        kept, most = [], 1.0
        for before in self._rows.get(classes, ()):
            if before.bases == bases:
                share = before.variance / (before.variance + variance)
                new, variance = before.rows + share * (new - before.rows), share * variance
                most = max((1 - share) * before.most, share)
            else:
                kept.append(before)
        self._rows[classes] = (*kept, MeasuredRows(bases, new, variance, most))
        self.version += 1

    def expecting(self, parts: Iterable[tuple[Residual, Fraction]], *, fixed: bool) -> ResidualStore:
        """Return the store after residuals whose values are unknown: variances do not depend on them.

        If the number of rows is public (`fixed`), it counts as known even before it is read.
        """
        store = ResidualStore(total=0 if fixed else None, law=self._law)
        store._rows |= self._rows
        store.version = self.version
        for residual, variance in parts:
            store.add(residual, np.zeros(residual.number, dtype=np.int64), variance, self._law)
        return store

    def lookup(self, pattern: CountPattern) -> KnownValues | None:
        """Return the answer to a product query; None if a residual it needs was not measured.

        Theorem: residual-reconstruction
        """
        if pattern.sets is None or pattern.classes not in self._rows:  # of many columns, not all sets are looked at
            return None
        value = variance = reach = 0.0
        means = [set_mean(classing, members) for classing, members in zip(pattern.classes, pattern.sets, strict=True)]
        for inner in subsets(len(means)):
            factor = math.prod([mean for place, mean in enumerate(means) if place not in inner])
            if factor == 0:
                continue
            measurements = self._rows.get(tuple([pattern.classes[place] for place in inner]))
            if measurements is None:
                return None
            estimates = []
            for measured in measurements:
                sides = [
                    set_side(pattern.classes[place].side[1], base, pattern.sets[place])
                    for place, base in zip(inner, measured.bases, strict=True)
                ]
                rows = measured.rows
                for side in sides:  # contract the first axis, one attribute at a time
                    rows = side.coefficients @ rows.reshape(len(side.coefficients), -1)
                spread = math.prod([side.spread for side in sides]) * measured.variance
                largest = measured.most * math.prod([side.largest for side in sides])
                estimates.append((factor * float(rows.item()), factor**2 * spread, factor * largest))
            estimate, spread, farthest = estimates[0] if len(estimates) == 1 else _pool(estimates)
            value += estimate
            variance += spread
            reach = max(reach, farthest) if spread else reach
        return KnownValues((value,), _residual_laws(variance, reach))

    def lookup_all(self, patterns: Sequence[CountPattern]) -> Iterator[KnownValues | None]:
        """Return the answers to many product queries, with one pass for those over the same classes.

        Until they are read they are kept in two lists, which is less work for the garbage collector.
        """
        values, laws = [0.0] * len(patterns), list[tuple[ErrorLaw, ...] | None]([None]) * len(patterns)
        alike: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for place, pattern in enumerate(patterns):
            if pattern.sets is not None:
                alike[tuple(map(id, pattern.classes))].append(place)  # faster than hashing classes; they live as long
        for places in alike.values():
            classes = patterns[places[0]].classes
            if len(places) < _SEVERAL or not classes or classes not in self._rows:
                for place in places:
                    estimate = self.lookup(patterns[place])
                    if estimate is not None:
                        values[place], laws[place] = estimate.values[0], estimate.laws
                continue
            lines = max(1, _MOST_AT_ONCE // math.prod(classing.number for classing in classes[1:]))
            for start in range(0, len(places), lines):
                batch = places[start : start + lines]
                answers = self._lookup_alike(classes, [patterns[place].sets or () for place in batch])
                for place, (value, law) in zip(batch, answers, strict=False):
                    values[place], laws[place] = value, law
        return (None if law is None else KnownValues((value,), law) for value, law in zip(values, laws, strict=True))

    def _lookup_alike(
        self, classes: tuple[Classes, ...], sets: Sequence[tuple[Members, ...]]
    ) -> Iterable[tuple[float, tuple[ErrorLaw]]]:
        """Return the result of `lookup` for each product, up to rounding; nothing where it is None.

        Theorem: residual-reconstruction
        """
        means = [
            np.array([set_mean(classing, subset) for subset in members])
            for classing, members in _columns(classes, sets)
        ]
        ones, sides = np.ones(len(sets)), SideTable(classes, sets)
        value, variance, reach = np.zeros(len(sets)), np.zeros(len(sets)), np.zeros(len(sets))
        for inner in subsets(len(classes)):
            mean = math.prod([column_mean for place, column_mean in enumerate(means) if place not in inner], start=ones)
            if not mean.any():
                continue
            measurements = self._rows.get(tuple([classes[place] for place in inner]))
            if measurements is None:
                return ()
            estimates = []
            for measured in measurements:
                parts = [sides.of(place, base) for place, base in zip(inner, measured.bases, strict=True)]
                spread = math.prod([part.spreads for part in parts], start=ones) * measured.variance
                largest = math.prod([part.largest for part in parts], start=ones)
                estimate = _contract(measured.rows, [part.coefficients for part in parts])
                estimates.append((mean * estimate, mean**2 * spread, mean * largest * measured.most))
            estimate, spread, farthest = estimates[0] if len(estimates) == 1 else _pool(estimates)
            value += estimate
            variance += spread
            reach = np.where(spread > 0, np.maximum(reach, farthest), reach)
        return zip(value.tolist(), map(_residual_laws, variance.tolist(), reach.tolist()), strict=True)

    def cells(self, pattern: CountPattern) -> KnownValues | None:
        """Return all cells of a marginal in row-major order, and their common error law: that of the least precise."""
        if pattern.classes not in self._rows:
            return None
        total: NDArray[np.float64] = np.zeros([classing.number for classing in pattern.classes])
        variance = reach = 0.0
        for inner in subsets(len(pattern.classes)):
            measurements = self._rows.get(tuple([pattern.classes[place] for place in inner]))
            if measurements is None:
                return None
            factor = math.prod(
                [1 / classing.number for place, classing in enumerate(pattern.classes) if place not in inner]
            )
            estimates = []
            for measured in measurements:
                rows, share, largest = measured.rows, 1.0, measured.most
                for axis, (place, base) in enumerate(zip(inner, measured.bases, strict=True)):
                    lifted, squares = lifted_rows(base, pattern.classes[place].number)
                    rows = np.moveaxis(np.tensordot(lifted, rows, (0, axis)), 0, axis)
                    share *= float((squares @ lifted**2).max())
                    largest *= float(np.abs(lifted).max())
                estimates.append((factor * rows, factor**2 * share * measured.variance, factor * largest))
            estimate, spread, farthest = estimates[0] if len(estimates) == 1 else _pool(estimates)
            total += estimate.reshape([side.number if n in inner else 1 for n, side in enumerate(pattern.classes)])
            variance += spread
            reach = max(reach, farthest) if spread else reach
        return KnownValues(total.reshape(-1), _residual_laws(variance, reach))


def _pool(estimates: Sequence[tuple[Any, Any, Any]]) -> tuple[Any, Any, Any]:
    """Return independent estimates of numbers averaged by precision: value, variance and reach, as numbers or arrays.

    Theorem: residual-reconstruction
    """
    value, variance, reach = estimates[0]
    for other, spread, farthest in estimates[1:]:
        share = variance / (variance + spread)
        value = value + share * (other - value)
        reach = np.maximum((1 - share) * reach, share * farthest)
        variance = share * spread
    return value, variance, reach


def _plain(classes: tuple[Classes, ...]) -> tuple[tuple[Classes, ...], tuple[Base, ...]]:
    return tuple([classing.plain for classing in classes]), tuple([classing.base for classing in classes])


def _columns(
    classes: tuple[Classes, ...], sets: Sequence[tuple[Members, ...]]
) -> Iterator[tuple[Classes, tuple[Members, ...]]]:
    """Yield for each attribute its classes and the set of each product."""
    return zip(classes, zip(*sets, strict=True), strict=True)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The contributions of one attribute to several products, in one base."""

    coefficients: NDArray[np.float64]
    spreads: NDArray[np.float64]
    largest: NDArray[np.float64]


class SideTable:
    """The sides of several products over the same classes, computed when they are looked at."""

    def __init__(self, classes: tuple[Classes, ...], sets: Sequence[tuple[Members, ...]]) -> None:
        self._columns = [*_columns(classes, sets)]
        self._found: dict[tuple[int, Base], _Sides] = {}

    def means(self, place: int) -> NDArray[np.float64]:
        """Return which part of one attribute's sides does not depend on it."""
        classing, members = self._columns[place]
        return np.array([set_mean(classing, selection) for selection in members])

    def of(self, place: int, base: Base) -> _Sides:
        """Return the sides of one attribute in one base."""
        cached = self._found.get((place, base))
        if cached is None:
            classing, members = self._columns[place]
            places = {selection: number for number, selection in enumerate(dict.fromkeys(members))}
            sides, lines = (
                [set_side(classing.side[1], base, selection) for selection in places],
                [places[selection] for selection in members],
            )
            cached = self._found[place, base] = _Sides(
                np.array([side.coefficients for side in sides])[lines],
                np.array([side.spread for side in sides])[lines],
                np.array([side.largest for side in sides])[lines],
            )
        return cached


@lru_cache(maxsize=1 << 12)
def _residual_laws(variance: float, reach: float) -> tuple[ErrorLaw]:
    """Return the law of an estimate with this variance, where no released value has a coefficient above `reach`.

    Cached, as many products share few laws.
    """
    return (NoiseSum(()) if variance == 0 else GaussianSumBound(variance * _SLACK, reach),)


def _contract(rows: NDArray[np.float64], coefficients: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return, for each line of coefficients, the rows contracted with their products, one attribute at a time."""
    contracted = rows.reshape(1, -1)
    for matrix in coefficients:
        number = matrix.shape[1]
        contracted = (matrix[:, None, :] @ contracted.reshape(len(contracted), number, -1))[:, 0, :]
    return contracted[:, 0]


@lru_cache(maxsize=64)
def subsets(number: int) -> tuple[tuple[int, ...], ...]:
    """Return all sets of so many places, the smaller ones first."""
    return tuple(_index_subsets(number))


def _index_subsets(number: int) -> Iterator[tuple[int, ...]]:
    for size in range(number + 1):
        yield from combinations(range(number), size)
