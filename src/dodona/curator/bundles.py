"""Bundles: measurements that answer more than the question at hand, and when to buy one.

Single answers are bought until they have cost as much as a bundle that would have answered them all; then the bundle is
bought. Every decision depends on public facts alone: the questions, their tolerances and earlier purchases.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, islice, product
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.laws import GaussianSumBound
from dodona.curator.planner import largest_factor
from dodona.knowledge.asked import SingleAnswers
from dodona.knowledge.patterns import MOST_PATTERN_CELLS, class_mask, noise_variance
from dodona.knowledge.residuals import Factor, ResidualStore, VarianceTarget, allot_variances, variance_shares
from dodona.knowledge.sides import (
    PRESENT,
    SUM,
    ClassSet,
    ClassWeight,
    Members,
    at_least_as_hard,
    set_mean,
    set_spread,
    summed_weights,
)
from dodona.knowledge.tables import RowCount, count_law
from dodona.privacy.additive_noise import (
    LARGEST_SCALE,
    NOISE_TYPES,
    SMALLEST_SCALE,
    Laplace,
    Noise,
    NoiseType,
    round_scale_down,
)
from dodona.privacy.measurement import Measurement, ResidualVariance
from dodona.query.bases import Base, base_squares
from dodona.query.query import Block, Query
from dodona.query.residual import BasedNumber, Classes, Residual, blocks_of_residual
from dodona.schema.schema import Domain, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray


Targets = frozenset[tuple[ClassSet, ...]]
"""Products that a lattice is to tell."""
Looser = frozenset[tuple[tuple[ClassSet, ...], Fraction]]
"""How many times the variance of the others some targets may have."""
MOST_TARGETS = 1 << 12
MOST_CASES, MOST_CASES_TOGETHER = 1 << 15, 1 << 17
"""Of residuals of all targets, of a question and of a workload: to price more takes longer than anybody waits."""
MOST_ROWS = 1 << 16
"""Of residuals that are bought for one question: to measure more of them takes longer than a second."""
MOST_ROWS_TOGETHER = 1 << 20
"""Of residuals that are bought for a whole workload, which may take some seconds."""
_SPARE = 1.0005  # more than the step size of quantile bounds
_SELDOM, _CLOSER = 1e-4, 0.88  # below this probability sums of fewer counts may be noisiest; numbers fall by this ratio
_RARE, _LARGE = 2e-9, 512
_FEW = 64  # in tables of at most this many cells the law of a sum still resembles that of one count
_TURNS = 8
_STEP = 1e-6
_LEAST_VARIANCE = 16.0  # draws of scale 4 and up, as `GaussianSumBound` requires
_MOST_VARIANCE = 10**13  # less costs more, but nothing to speak of; prices of more are too small to be counted
_LEAST_SQUARE = 17  # of the scale of the row with least noise
_SHARES = (0.01, 0.03, 0.1, 0.3)  # of the variance, that may be assigned to the number of rows


def design_residuals(  # noqa: PLR0913  what is wanted, what is known, and how much may be bought
    unit: Unit,
    targets: Targets,
    variance: float,
    known: ResidualStore,
    *,
    within: Targets = frozenset(),
    most: int = MOST_ROWS,
    looser: Looser = frozenset(),
) -> tuple[ResidualVariance, ...] | None:
    """Return the residuals that meet targets at this variance for the least price, minus what is already known.

    If a wider lattice contains them and meets the targets too, they get their variances from it, so that they need not
    be bought again with it. None if there are too many, or if nothing is left to buy.

    Theorem: residual-allotment
    """
    if not any(targets) or not fits(targets, most) or variance < _LEAST_VARIANCE:
        return None
    plan = _residuals_within(targets, within, unit, looser) or plan_unit_variance(targets, unit, looser)
    total, kept = Fraction(variance), list[ResidualVariance]()
    alike = dict[Hashable, Fraction | None]()  # few kinds among many residuals, and fractions are slow
    for residual, share in plan:
        before = known.variance(residual)
        key = (share.numerator, share.denominator, residual.sides, before)
        if key not in alike:
            wanted, (least, widest) = share * total, _drawable_variances(residual.sides)
            if not least <= wanted < widest:
                return None
            alike[key] = _top_up(wanted, before, known.rounding(residual), min(widest, Fraction(_MOST_VARIANCE)))
        needed = alike[key]
        if needed is not None:
            kept.append((residual, needed))
    return tuple(kept) or None


@lru_cache(maxsize=1 << 10)
def _drawable_variances(sides: tuple[BasedNumber, ...]) -> tuple[Fraction, Fraction]:
    """Return the variances of a residual between which the noise of all rows can be drawn and sums are bounded."""
    least = math.prod([min(base_squares(*side)) for side in sides])
    most = math.prod([max(base_squares(*side)) for side in sides])
    return Fraction(_LEAST_SQUARE, least), LARGEST_SCALE**2 / Fraction(most)


@lru_cache(maxsize=64)
def fits(targets: Targets, most: int = MOST_ROWS) -> bool:
    """Return whether targets are few enough to be designed for, and their residuals have at most so many rows."""
    cases = MOST_CASES if most == MOST_ROWS else MOST_CASES_TOGETHER
    few = len(targets) <= MOST_TARGETS and count_cases(targets) <= cases
    return few and is_small_enough({tuple(side for side, _ in target) for target in targets}, most)


def count_cases(targets: Iterable[tuple[object, ...]]) -> int:
    """Return the number of residual cases of targets: two to the number of columns of each."""
    return sum(3 ** len(target) for target in targets)


@lru_cache(maxsize=1 << 10)
def _residuals_within(
    targets: Targets, within: Targets, unit: Unit, looser: Looser
) -> tuple[ResidualVariance, ...] | None:
    """Return the residuals of some targets at the variances of a wider lattice; None if it misses the targets."""
    plan = dict(plan_unit_variance(within, unit, looser)) if within and fits(within) else {}
    allowed = dict(looser)
    variances: dict[Residual, Fraction] = {}
    for sides in targets:
        shares = variance_shares(_product(sides))
        needed = [residual for residual in shares if residual.classes or not unit.fixed]
        if any(residual not in plan for residual in needed) or sum(
            shares[residual] * plan[residual] for residual in needed
        ) > allowed.get(sides, 1):
            return None
        variances |= {residual: plan[residual] for residual in needed}
    return tuple(variances.items())


@lru_cache(maxsize=256)
def plan_unit_variance(targets: Targets, unit: Unit, looser: Looser = frozenset()) -> tuple[ResidualVariance, ...]:
    """Return the residuals that meet the targets with variance 1, or as much more as is said."""
    listed = sorted(
        targets,
        key=lambda target: (
            [(side.attribute, side.base.value) for side, _ in target],
            _members_order(dict(target).values()),
        ),
    )
    allowed = dict(looser)
    return allot_variances(
        [VarianceTarget(_product(target), allowed.get(target, Fraction(1))) for target in listed], unit
    )


def is_small_enough(scopes: Iterable[tuple[Classes, ...]], most: int = MOST_ROWS) -> bool:
    """Return whether the residuals of all sets of columns have at most so many rows, without building them."""
    rows: int = 0
    seen: set[tuple[tuple[str, int], ...]] = set()
    for scope in scopes:
        numbers = [(classes.attribute, classes.rows + 1) for classes in scope]
        if math.prod(number for _, number in numbers) > most:  # the number of rows of all residuals of one set
            return False
        for size in range(len(scope) + 1):
            for inner in combinations(numbers, size):
                if inner not in seen:
                    seen.add(inner)
                    rows += math.prod(number - 1 for _, number in inner)
        if rows > most:
            return False
    return True


def _product(sides: tuple[ClassSet, ...]) -> tuple[Factor, ...]:
    return tuple(_factor(classing, members) for classing, members in sides)


@lru_cache(maxsize=1 << 10)
def _factor(classes: Classes, members: Members) -> Factor:
    if isinstance(members, ClassWeight):
        return Factor(classes, members.numbers, members.reach)
    return Factor(classes, _weights(classes, members))


def _weights(classes: Classes, members: int) -> tuple[int | Fraction, ...]:
    return summed_weights(members) if classes.base.sums else tuple(class_mask(classes, members).astype(int).tolist())


def _top_up(variance: Fraction, before: float, rounding: Fraction, most: Fraction) -> Fraction | None:
    """Return the variance that, pooled with the one before, reaches the wanted one; None if it is already reached."""
    if before <= float(variance) * (1 + 1e-8):  # well below the slack of `gaussian_variance_within`
        return None
    needed = 1 / (1 / variance - (0 if math.isinf(before) else 1 / Fraction(before)))
    needed = min(needed - rounding, most)
    unit = Fraction(2) ** (needed.numerator.bit_length() - needed.denominator.bit_length() - 24)
    return (needed // unit) * unit


@lru_cache(maxsize=1 << 10)
def gaussian_variance_within(tolerance: float, failing: float) -> float:
    """Return the largest variance at which a combination of Gaussians is within the tolerance."""
    variance = _LEAST_VARIANCE
    if GaussianSumBound(variance, 1.0).accuracy(1 - failing).within > tolerance:
        return 0.0
    for _ in range(40):
        within = GaussianSumBound(variance, 1.0).accuracy(1 - failing).within
        grown = max(variance * (tolerance / within) ** 2 * (1 - 1e-7), _LEAST_VARIANCE)
        if grown <= variance * (1 + 1e-6):
            break
        variance = grown
    return variance


def design_count_table(  # noqa: PLR0913  the law, and what it must meet
    domain: Domain, unit: Unit, classes: Iterable[Classes], law: NoiseType, *, tolerance: float, failing: float
) -> Measurement | None:
    """Return a table of counts such that every subset sum is within the tolerance; None if there are too many counts.

    If the number of rows is not public, it is measured too, as it makes all sums more accurate.

    Theorem: table-of-counts
    """
    ordered = tuple(sorted(classes, key=lambda column: column.attribute))
    size = math.prod(column.number for column in ordered)
    if not 1 < size <= MOST_PATTERN_CELLS:
        return None
    (block,) = blocks_of_residual(Residual(ordered), domain)
    if unit.fixed:
        noise = _widest_count_noise(law.__name__, size, tolerance, failing, None)
        return None if noise is None else Measurement(Query(domain, (block,)), (noise,))
    best: Measurement | None = None
    for share in _promising(law.__name__, size, tolerance, failing):
        noises = _noise_pair(law.__name__, size, tolerance, failing, share)
        if noises is None:
            continue
        measurement = Measurement(Query(domain, (block, Block())), noises)
        if best is None or _measurement_cost(measurement, unit) < _measurement_cost(best, unit):
            best = measurement
    return best


def _promising(law: str, size: int, tolerance: float, failing: float) -> list[float]:
    """Return the two shares of the variance at which approximate noises cost least."""
    power = 1 if law == Laplace.__name__ else 2

    def guessed(share: float) -> float:
        rows = _rough(law, tolerance**2 * share, failing)
        counts = _rough(law, tolerance**2 * (1 - share / 4) * 4 / size, failing)
        return rows**-power + counts**-power

    return sorted(_SHARES, key=guessed)[:2]


def _rough(law: str, square: float, failing: float) -> float:
    """Return the approximate scale of noise within the root of a square, as if it were normal."""
    quantile = NormalDist().inv_cdf(1 - max(failing, _STEP) / 2)
    return max(math.sqrt(square / (2 if law == Laplace.__name__ else 1)) / quantile, 1e-9)


@lru_cache(maxsize=1 << 10)
def _noise_pair(law: str, size: int, tolerance: float, failing: float, share: float) -> tuple[Noise, Noise] | None:
    """Return the noise of the counts and of the number of rows, which takes this share of the variance."""
    alone = largest_factor(
        lambda scale: NOISE_TYPES[law](scale=_clamped_scale(scale)).accuracy(1 - failing).within,
        tolerance * math.sqrt(share),
        lower=1.0,
    )
    if alone is None:
        return None
    rows = NOISE_TYPES[law](scale=_clamped_scale(alone))
    counts = _widest_count_noise(law, size, tolerance, failing, rows)
    return None if counts is None else (counts, rows)


@lru_cache(maxsize=1 << 10)
def _widest_count_noise(law: str, size: int, tolerance: float, failing: float, rows: Noise | None) -> Noise | None:
    """Return the widest noise with which all sums of counts are within the tolerance.

    Quantile bounds have small steps, for which some tolerance is reserved. At first only the sum with the most variance
    is checked, as usually none is worse. Very rare quantiles favour sums of fewer counts, so there every number of
    counts is checked in the end, unless the table is large.
    """
    known = RowCount(0.0, rows)

    def noise_of(scale: float) -> Noise:
        return NOISE_TYPES[law](scale=_clamped_scale(scale))

    def error(scale: float, numbers: Iterable[int]) -> float:
        noise = noise_of(scale)
        return max(count_law(size, number, noise, known).accuracy(1 - failing).within for number in numbers)

    def spared(scale: float) -> float:
        return _SPARE * error(scale, _noisiest_sums(size, noise_of(scale), known, failing))

    def foremost(scale: float) -> float:
        middle = _middle(size, noise_of(scale), known)
        near = min(_noisiest_sums(size, noise_of(scale), known, failing), key=lambda number: abs(number - middle))
        return _SPARE * error(scale, (near,))

    lower = float(SMALLEST_SCALE)
    widest_scale = largest_factor(foremost, tolerance, lower=lower, first=_rough(law, 4 / size * tolerance**2, failing))
    if widest_scale is not None and (worst := spared(widest_scale)) > tolerance:
        widest_scale = largest_factor(spared, tolerance, lower=lower, first=widest_scale * tolerance / worst)
    if widest_scale is None or failing > _RARE or size > _LARGE:
        return None if widest_scale is None else noise_of(widest_scale)
    for _ in range(_TURNS):
        worst = error(widest_scale, range(1, size + 1))
        if worst <= tolerance:
            return noise_of(widest_scale)
        widest_scale *= tolerance / worst * (1 - _STEP)
    return None


def _middle(size: int, noise: Noise, rows: RowCount) -> float:
    """Return the number of counts whose sum has the most variance: N/2 + v₀/2v."""
    return min(size / 2 + rows.variance / (2 * noise_variance(noise)), float(size))


def _noisiest_sums(size: int, noise: Noise, rows: RowCount, failing: float) -> set[int]:
    """Return the number of counts whose sum has the most variance, and some numbers around and below it."""
    middle = _middle(size, noise, rows)
    near = [math.floor(middle), math.ceil(middle), math.floor(middle * 7 / 8)]
    if size <= _FEW:
        near += [1, 2, 3, math.floor(middle * 31 / 32), math.floor(middle * 3 / 4)]
    if failing < _SELDOM:
        near += [math.floor(middle * _CLOSER**step) for step in range(int(math.log(size, 1 / _CLOSER)) + 1)]
    return {min(max(number, 1), size) for number in near}


def _clamped_scale(scale: float) -> Fraction:
    return round_scale_down(max(scale, float(SMALLEST_SCALE)))


def _measurement_cost(measurement: Measurement, unit: Unit) -> float:
    event = measurement.event(unit)
    return float(event.epsilon) if event.epsilon is not None else float(event.rho())


# --- Targets: what a lattice is designed for. ---


def lattice_targets(asked: SingleAnswers, several: Sequence[tuple[ClassSet, ...]]) -> Targets:
    """Return products of all columns asked about, in the sizes asked for, each with the worst set.

    The current ones are among them, unless another is as hard in every column. If these are too many, they are those of
    the sets of columns asked about; if these are too many as well, the current ones alone.
    """
    targets: Targets = frozenset().union(*[_targets_of_all(asked, sides) for sides in several])
    return targets if fits(targets) else _current_targets(asked, several)


def _current_targets(asked: SingleAnswers, several: Sequence[tuple[ClassSet, ...]]) -> Targets:
    targets: Targets = frozenset()
    for counted, value in map(_split_sum, several):
        targets |= _with_sums((asked.based_product(counted),), value)
    return targets


def _targets_of_all(asked: SingleAnswers, sides: tuple[ClassSet, ...]) -> Targets:
    counted, value = _split_sum(sides)
    current = asked.based_product(counted)
    worst = {name: _alike(asked.based(name), sides) for name in sorted(asked.worst)}
    sets = {
        name: [(classes, selection) for selection in members] for name, (classes, members) in worst.items() if members
    }
    harder = bool(current) and all(_is_harder(worst, side, members) for side, members in current)
    further = frozenset() if harder else frozenset((current,))  # no product is as hard as the number of rows
    others = asked.added.values() if value else ()
    for wide in (True, False):
        targets = _with_sums(further, value)
        for summed, known in asked.alike(value):
            kept = (scope for scope in (known.closure(others) if wide else known.scopes) if sets.keys() >= {*scope})
            products = (chosen for scope in kept for chosen in product(*[sets[name] for name in scope]))
            targets |= _with_sums(islice(filter(_weighs_once, products), MOST_TARGETS + 1), summed)
        if fits(targets):
            return targets
    return _with_sums((current,), value)


def _alike(
    based: tuple[Classes, tuple[Members, ...]], sides: tuple[ClassSet, ...]
) -> tuple[Classes, tuple[Members, ...]]:
    """Return the worst sets of a column; weights of its classes only where the current product has weights too."""
    classes, members = based
    if any(isinstance(selection, ClassWeight) for _, selection in sides):
        return based
    return classes, tuple([selection for selection in members if not isinstance(selection, ClassWeight)])


def _weighs_once(sides: tuple[ClassSet, ...]) -> bool:
    return sum(isinstance(members, ClassWeight) for _, members in sides) <= 1


def _split_sum(sides: tuple[ClassSet, ...]) -> tuple[tuple[ClassSet, ...], tuple[ClassSet, ...]]:
    """Return the sides of a product that are counted, and the column whose numbers are added up, if there is one."""
    counted = tuple([side for side in sides if not side[0].base.sums])
    return counted, tuple([side for side in sides if side[0].base.sums])


def _with_sums(products: Iterable[tuple[ClassSet, ...]], summed: Iterable[ClassSet]) -> Targets:
    """Return products with each column that is added up; without any, as they are.

    If they are for the steps alone, the rows that have a number are wanted as well, as they are known for the sum that
    is asked for, but perhaps not for others.
    """
    values, targets = tuple(summed), set()
    for counted in products:
        names = {side.attribute for side, _ in counted}
        for value, members in values:
            if value.attribute in names:
                continue
            rows: list[ClassSet] = [(value, PRESENT)] if value.base.gaps else []
            several = [[(value, members)], *([rows] if members == SUM else [])]
            targets |= {tuple(sorted((*counted, *sides), key=_by_name)) for sides in several}
        if not values:
            targets.add(counted)
    return frozenset(targets)


def _by_name(side: ClassSet) -> str:
    return side[0].attribute


def scope_targets(asked: SingleAnswers, several: Sequence[tuple[ClassSet, ...]]) -> Targets:
    """Return the current products; and of columns with ranges, with their other target sets as well."""
    targets: Targets = frozenset()
    for sides in several:
        counted, value = _split_sum(sides)
        columns = []
        for (plain, _), (based, members) in zip(counted, asked.based_product(counted), strict=True):
            further = based.base is not Base.POINTS and plain == asked.finest.get(plain.attribute)
            others = _alike(asked.based(plain.attribute), sides)[1] if further else ()
            columns.append((based, (members, *others)))
        targets |= _with_sums(filter(_weighs_once, _products(columns)), value)
    return targets if fits(targets) else _current_targets(asked, several)


def _products(columns: Iterable[tuple[Classes, tuple[Members, ...]]]) -> Iterator[tuple[ClassSet, ...]]:
    return product(*([(classes, members) for members in sets] for classes, sets in columns))


def _is_harder(worst: Mapping[str, tuple[Classes, tuple[Members, ...]]], classes: Classes, members: Members) -> bool:
    """Return whether a column was asked for a set that is at least as hard."""
    known = worst.get(classes.attribute)
    if known is None or known[0] != classes:
        return False
    return any(at_least_as_hard(classes, other, members) for other in known[1])


# --- Covers: a few products such that residuals that answer them answer the whole workload. ---


Lines = Mapping[tuple[Classes, ...], Sequence[tuple[Members, ...]]]
"""For each set of columns, which classes are counted of each: a line for each kind of product."""
_ROUNDS = 6
_COVER_SLACK = 1e-3


def find_cover(
    products: Iterable[tuple[ClassSet, ...]], unit: Unit, looser: Looser = frozenset()
) -> tuple[Targets, float]:
    """Return products that represent all, and the largest factor by which another product's variance exceeds theirs.

    Theorem: residual-allotment
    """
    lines = _lines(products)
    allowed = dict(looser)
    tables = {scope: _LineTable.of(scope, scope_lines, allowed) for scope, scope_lines in lines.items()}
    targets = frozenset(_sides(scope, scope_lines[tables[scope].hardest()]) for scope, scope_lines in lines.items())
    missed = 1.0
    for _ in range(_ROUNDS):
        variances = {residual: float(variance) for residual, variance in plan_unit_variance(targets, unit, looser)}
        worst = {scope: table.variances(variances, fixed=unit.fixed) for scope, table in tables.items()}
        missed = max(float(ratios.max()) for ratios in worst.values())
        if missed <= 1 + _COVER_SLACK:
            break
        targets |= {
            _sides(scope, lines[scope][int(ratios.argmax())])
            for scope, ratios in worst.items()
            if ratios.max() > 1 + _COVER_SLACK
        }
    return targets, max(missed, 1.0)


def _lines(products: Iterable[tuple[ClassSet, ...]]) -> Lines:
    lines: defaultdict[tuple[Classes, ...], set[tuple[Members, ...]]] = defaultdict(set)
    for sides in products:
        lines[tuple(classes for classes, _ in sides)].add(tuple(members for _, members in sides))
    return {scope: sorted(scope_lines, key=_members_order) for scope, scope_lines in lines.items()}


def _members_order(line: Iterable[Members]) -> list[tuple[int, ...]]:
    """Return a key by which products are listed: so that a design is the same in every process."""
    return [members.numbers if isinstance(members, ClassWeight) else (members,) for members in line]


def _sides(scope: tuple[Classes, ...], line: Sequence[Members]) -> tuple[ClassSet, ...]:
    return tuple(zip(scope, line, strict=True))


@dataclass(frozen=True, slots=True)
class _LineTable:
    """What the variances of products over the same columns depend on, a line for each product."""

    scope: tuple[Classes, ...]
    spread: NDArray[np.float64]
    mean: NDArray[np.float64]
    allowed: NDArray[np.float64]
    """The variance that each may have, in units of the smallest."""

    @classmethod
    def of(
        cls,
        scope: tuple[Classes, ...],
        lines: Sequence[tuple[Members, ...]],
        allowed: Mapping[tuple[ClassSet, ...], Fraction],
    ) -> _LineTable:
        spread = [
            [set_spread(classes, members) for classes, members in zip(scope, line, strict=True)] for line in lines
        ]
        mean = [[set_mean(classes, members) for classes, members in zip(scope, line, strict=True)] for line in lines]
        shape = (len(lines), len(scope))
        looser = np.array([float(allowed.get(_sides(scope, line), 1)) for line in lines])
        return cls(scope, np.array(spread).reshape(shape), np.array(mean).reshape(shape), looser)

    def hardest(self) -> int:
        """Return the product that is hardest if all columns have equal weight."""
        return int(np.lexsort((self.mean.sum(axis=1), self.spread.prod(axis=1) / self.allowed))[-1])

    def variances(self, variances: Mapping[Residual, float], *, fixed: bool) -> NDArray[np.float64]:
        """Return the variance of each product, Σ_A σ_A²·∏ spread·∏ mean², over the one that it may have.

        It is infinite where a residual that it needs is not among them; a number of rows that is public (`fixed`) is.

        See page residual-reconstruction.
        """
        total = np.zeros(len(self.spread))
        for size in range(len(self.scope) + 1):
            for inner in combinations(range(len(self.scope)), size):
                missing = math.inf if inner or not fixed else 0.0
                variance = variances.get(Residual(tuple(self.scope[place] for place in inner)), missing)
                factors = [
                    self.spread[:, place] if place in inner else self.mean[:, place] ** 2
                    for place in range(len(self.scope))
                ]
                share = math.prod(factors, start=np.ones(len(total)))
                total += np.multiply(variance, share, out=np.zeros(len(total)), where=share > 0)
        return total / self.allowed
