"""Bundles: measurements that answer more than the question at hand, and when to buy one.

Single answers are bought until they have cost as much as a bundle that would have answered them all; then the bundle is
bought. Every decision depends on public facts alone: the questions, their tolerances and earlier purchases.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.laws import GaussianSumBound
from dodona.curator.planner import NoiseType, largest_factor
from dodona.knowledge.knowledge import ClassSet
from dodona.knowledge.measurements import noise_variance
from dodona.knowledge.patterns import MOST_PATTERN_CELLS, class_mask
from dodona.knowledge.residuals import Factor, ResidualStore, VarianceTarget, allot_variances, variance_shares
from dodona.knowledge.tables import RowCount, count_law
from dodona.privacy.additive_noise import SMALLEST_SCALE, Gaussian, Laplace, round_scale_down
from dodona.privacy.measurement import Measurement, Noise, ResidualVariance
from dodona.query.query import Block, Query
from dodona.query.residual import Classes, Residual, block_of_residual
from dodona.schema.schema import Domain, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray


Targets = frozenset[tuple[ClassSet, ...]]
"""Products that a lattice is to tell."""
MOST_TARGETS = 1 << 12
MOST_CASES = 1 << 15
"""Of residuals of all targets: to price more of them takes longer than anybody waits."""
MOST_ROWS = 1 << 18
"""Of residuals that are bought together."""
MOST_SCALES = 1 << 12
"""Of the noise of residuals that are bought together: for each a table of its law is built before it is drawn."""
_SPARE = 1.0005  # more than the step size of quantile bounds
_SELDOM, _CLOSER = 1e-4, 0.88  # below this probability sums of fewer counts may be noisiest; numbers fall by this ratio
_RARE, _LARGE = 2e-9, 512
_FEW = 64  # in tables of at most this many cells the law of a sum still resembles that of one count
_TURNS = 8
_STEP = 1e-6
_LEAST_VARIANCE = 16.0  # draws of scale 4 and up, as `GaussianSumBound` requires
_LEAST_SQUARE = 17  # of the scale of the shortest Helmert rows, which have squared norm 2^|A|
_SHARES = (0.01, 0.03, 0.1, 0.3)  # of the variance, that may be assigned to the number of rows


def design_residuals(
    unit: Unit, targets: Targets, variance: float, known: ResidualStore, *, within: Targets = frozenset()
) -> tuple[ResidualVariance, ...] | None:
    """Return the residuals that meet targets at this variance for the least price, minus what is already known.

    If a wider lattice contains them and meets the targets too, they get their variances from it, so that they need not
    be bought again with it. None if there are too many, or if nothing is left to buy but the number of rows.

    Theorem: residual-allotment
    """
    if not 0 < len(targets) <= MOST_TARGETS or count_cases(targets) > MOST_CASES or variance < _LEAST_VARIANCE:
        return None
    scopes = {tuple(side for side, _ in own) for own in targets}
    if not any(scopes) or not is_small_enough(scopes):
        return None
    plan = _residuals_within(targets, within, unit) or plan_unit_variance(targets, unit)
    if any(own * Fraction(variance) * 2 ** len(residual.classes) < _LEAST_SQUARE for residual, own in plan):
        return None
    parts = [_top_up_residual(residual, own * Fraction(variance), known) for residual, own in plan]
    kept = tuple(part for part in parts if part is not None)
    return kept if any(residual.classes for residual, _ in kept) else None


def count_cases(targets: Iterable[tuple[object, ...]]) -> int:
    """Return the number of residual cases of targets: two to the number of columns of each."""
    return sum(3 ** len(own) for own in targets)


@lru_cache(maxsize=1 << 10)
def _residuals_within(targets: Targets, within: Targets, unit: Unit) -> tuple[ResidualVariance, ...] | None:
    """Return the residuals of some targets at the variances of a wider lattice; None if it misses the targets."""
    wide = bool(within) and is_small_enough({tuple(side for side, _ in own) for own in within})
    plan = dict(plan_unit_variance(within, unit)) if wide else {}
    found: dict[Residual, Fraction] = {}
    for sides in targets:
        shares = variance_shares(_product(sides))
        needed = [own for own in shares if own.classes or not unit.fixed]
        if any(own not in plan for own in needed) or sum(shares[own] * plan[own] for own in needed) > 1:
            return None
        found |= {own: plan[own] for own in needed}
    return tuple(found.items())


@lru_cache(maxsize=256)
def plan_unit_variance(targets: Targets, unit: Unit) -> tuple[ResidualVariance, ...]:
    """Return the residuals that meet the targets with variance 1."""
    listed = sorted(targets, key=lambda own: [(side.attribute, members) for side, members in own])
    return allot_variances([VarianceTarget(_product(own), Fraction(1)) for own in listed], unit)


def is_small_enough(scopes: Iterable[tuple[Classes, ...]]) -> bool:
    """Return whether the residuals of all sets of columns have few enough rows and scales, without building them."""
    rows: int = 0
    seen: set[tuple[tuple[str, int], ...]] = set()
    for scope in scopes:
        numbers = [(own.attribute, own.number) for own in scope]
        if math.prod(number for _, number in numbers) > MOST_ROWS:  # the number of rows of all residuals of one set
            return False
        for size in range(len(scope) + 1):
            for inner in combinations(numbers, size):
                if inner not in seen:
                    seen.add(inner)
                    rows += math.prod(number - 1 for _, number in inner)
        if rows > MOST_ROWS:
            return False
    return _count_scales(seen) <= MOST_SCALES


def _count_scales(sets: Iterable[tuple[tuple[str, int], ...]]) -> int:
    """Return the number of distinct row norms of residuals, counted up to one more than the maximum allowed."""
    found: int = 0
    for inner in sets:
        found += _count_row_norms(tuple(sorted([number for _, number in inner])))
        if found > MOST_SCALES:
            return MOST_SCALES + 1
    return found


@lru_cache(maxsize=1 << 12)
def _count_row_norms(numbers: tuple[int, ...]) -> int:
    """Return the same for one residual, of so many classes in each column; questions ask for few of these."""
    lengths = {1}
    for number in numbers:
        lengths = {own * j * (j + 1) for own in lengths for j in range(1, number)}
        if len(lengths) > MOST_SCALES:
            return MOST_SCALES + 1
    return len(lengths)


def _product(sides: tuple[ClassSet, ...]) -> tuple[Factor, ...]:
    return tuple(Factor(own, tuple(class_mask(own, members).astype(int).tolist())) for own, members in sides)


def _top_up_residual(residual: Residual, variance: Fraction, known: ResidualStore) -> ResidualVariance | None:
    """Return the measurement that, pooled with what is known, reaches the variance; None if it is already reached."""
    before = known.variance(residual)
    if before <= float(variance) * (1 + 1e-8):  # well below the slack of `gaussian_variance_within`
        return None
    needed = 1 / (1 / variance - (0 if math.isinf(before) else 1 / Fraction(before)))
    unit = Fraction(2) ** (needed.numerator.bit_length() - needed.denominator.bit_length() - 24)
    return residual, (needed // unit) * unit


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
    ordered = tuple(sorted(classes, key=lambda own: own.attribute))
    size = math.prod(own.number for own in ordered)
    if not 1 < size <= MOST_PATTERN_CELLS:
        return None
    block = block_of_residual(Residual(ordered), domain)
    if unit.fixed:
        noise = _widest_count_noise(law.__name__, size, tolerance, failing, None)
        return None if noise is None else Measurement(Query(domain, (block,)), (noise,))
    best: Measurement | None = None
    for share in _promising(law.__name__, size, tolerance, failing):
        noises = _noise_pair(law.__name__, size, tolerance, failing, share)
        if noises is None:
            continue
        found = Measurement(Query(domain, (block, Block())), noises)
        if best is None or _measurement_cost(found, unit) < _measurement_cost(best, unit):
            best = found
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


_NOISE_TYPES: dict[str, NoiseType] = {own.__name__: own for own in (Laplace, Gaussian)}


@lru_cache(maxsize=1 << 10)
def _noise_pair(law: str, size: int, tolerance: float, failing: float, share: float) -> tuple[Noise, Noise] | None:
    """Return the noise of the counts and of the number of rows, which takes this share of the variance."""
    alone = largest_factor(
        lambda scale: _NOISE_TYPES[law](scale=_clamped_scale(scale)).accuracy(1 - failing).within,
        tolerance * math.sqrt(share),
        lower=1.0,
    )
    if alone is None:
        return None
    rows = _NOISE_TYPES[law](scale=_clamped_scale(alone))
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
        return _NOISE_TYPES[law](scale=_clamped_scale(scale))

    def error(scale: float, numbers: Iterable[int]) -> float:
        noise = noise_of(scale)
        return max(count_law(size, own, noise, known).accuracy(1 - failing).within for own in numbers)

    def spared(scale: float) -> float:
        return _SPARE * error(scale, _noisiest_sums(size, noise_of(scale), known, failing))

    def foremost(scale: float) -> float:
        middle = _middle(size, noise_of(scale), known)
        near = min(_noisiest_sums(size, noise_of(scale), known, failing), key=lambda number: abs(number - middle))
        return _SPARE * error(scale, (near,))

    lower = float(SMALLEST_SCALE)
    found = largest_factor(foremost, tolerance, lower=lower, first=_rough(law, 4 / size * tolerance**2, failing))
    if found is not None and (worst := spared(found)) > tolerance:
        found = largest_factor(spared, tolerance, lower=lower, first=found * tolerance / worst)
    if found is None or failing > _RARE or size > _LARGE:
        return None if found is None else noise_of(found)
    for _ in range(_TURNS):
        worst = error(found, range(1, size + 1))
        if worst <= tolerance:
            return noise_of(found)
        found *= tolerance / worst * (1 - _STEP)
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


# --- Covers: a few products such that residuals that answer them answer the whole workload. ---


ClassSizes = Mapping[tuple[Classes, ...], "NDArray[np.int64]"]
"""For each set of columns, how many classes are counted of each: a line for each kind of product."""
_ROUNDS = 6
_COVER_SLACK = 1e-3


def find_cover(products: Iterable[tuple[ClassSet, ...]], unit: Unit) -> tuple[Targets, float]:
    """Return products that represent all, and the largest factor by which another product's variance exceeds theirs.

    Theorem: residual-allotment
    """
    sizes = _sizes(products)
    targets = frozenset(_sides(scope, _hardest_line(scope, lines)) for scope, lines in sizes.items())
    missed = 1.0
    for _ in range(_ROUNDS):
        variances = {residual: float(own) for residual, own in plan_unit_variance(targets, unit)}
        worst = {scope: _variances(scope, lines, variances) for scope, lines in sizes.items()}
        missed = max(float(own.max()) for own in worst.values())
        if missed <= 1 + _COVER_SLACK:
            break
        targets |= {
            _sides(scope, sizes[scope][int(own.argmax())].tolist())
            for scope, own in worst.items()
            if own.max() > 1 + _COVER_SLACK
        }
    return targets, max(missed, 1.0)


def _sizes(products: Iterable[tuple[ClassSet, ...]]) -> ClassSizes:
    found: defaultdict[tuple[Classes, ...], set[tuple[int, ...]]] = defaultdict(set)
    for sides in products:
        found[tuple(own for own, _ in sides)].add(tuple(members.bit_count() for _, members in sides))
    return {scope: np.array(sorted(lines), dtype=np.int64) for scope, lines in found.items()}


def _hardest_line(scope: tuple[Classes, ...], lines: NDArray[np.int64]) -> Sequence[int]:
    """Return the line that is hardest if all columns have equal weight."""
    numbers = np.array([own.number for own in scope])
    spread = (lines * (numbers - lines)).prod(axis=1, dtype=np.float64)
    found: list[int] = lines[int(np.lexsort((lines.sum(axis=1), spread))[-1])].tolist()
    return found


def _sides(scope: tuple[Classes, ...], sizes: Sequence[int]) -> tuple[ClassSet, ...]:
    return tuple((own, (1 << number) - 1) for own, number in zip(scope, sizes, strict=True))


def _variances(
    scope: tuple[Classes, ...], lines: NDArray[np.int64], variances: Mapping[Residual, float]
) -> NDArray[np.float64]:
    """Return the variance of each product, by Σ_A σ_A²·∏ spread·∏ mean² (page residual-reconstruction)."""
    numbers = np.array([own.number for own in scope])
    spread, mean = lines * (numbers - lines) / numbers, (lines / numbers) ** 2
    total = np.zeros(len(lines))
    for size in range(len(scope) + 1):
        for inner in combinations(range(len(scope)), size):
            own = variances.get(Residual(tuple(scope[place] for place in inner)), 0.0)
            factors = [spread[:, place] if place in inner else mean[:, place] for place in range(len(scope))]
            total += own * math.prod(factors, start=np.ones(len(lines)))
    return total
