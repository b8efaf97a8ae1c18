"""Bundles: measurements that answer more than the question at hand. What they cost is public before they are bought."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist

from dodona.answer.blend import Bell
from dodona.belief.allotment import Target, allotted
from dodona.belief.counts import Rows, law_of_count
from dodona.belief.facet import MOST_CELLS, chosen
from dodona.belief.lattice import Lattice
from dodona.belief.measurements import variance_of
from dodona.belief.residual import Factor, variance_shares
from dodona.domain.domain import Domain
from dodona.domain.unit import Unit
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.measurement import Measurement, Noise
from dodona.mechanisms.pattern import Part
from dodona.mechanisms.scale import SMALLEST, rounded_scale_down
from dodona.online.purchase import Side
from dodona.online.scales import Law, largest
from dodona.query.query import Block, Query
from dodona.query.residual import Classes, Residual, block_of

Targets = frozenset[tuple[Side, ...]]
"""Products that a lattice is to tell."""
MOST_TARGETS = 1 << 12
MOST_CASES = 1 << 15
"""Of residuals of all targets: to price more of them takes longer than anybody waits."""
MOST_ROWS = 1 << 18
"""Of residuals that are bought together."""
MOST_SCALES = 1 << 12
"""Of the noise of residuals that are bought together: for each a table of its law is built before it is drawn."""
_SPARE = 1.0005  # more than the steps of bounds of quantiles
_SELDOM, _CLOSER = 1e-4, 0.88  # from here on fewer counts may be the noisiest: numbers in steps of this ratio
_RARE, _LARGE = 2e-9, 512
_FEW = 64  # in tables of so many cells the law of a sum still looks like that of one count
_TURNS = 8
_STEP = 1e-6
_LEAST_VARIANCE = 16.0  # draws of scale 4 and up: what `Bell` takes
_LEAST_SQUARE = 17  # of the scale of the shortest Helmert rows, of squared length 2^|A|
_SHARES = (0.01, 0.03, 0.1, 0.3)  # of the variance, that may be left to the number of rows


def lattice(
    unit: Unit, targets: Targets, variance: float, known: Lattice, *, within: Targets = frozenset()
) -> tuple[Part, ...] | None:
    """Return the residuals that meet targets with this variance at the least price, less what is known already.

    Where they are a part of a wider lattice that meets them too, they get the variances that they have there: so what
    is bought now is not bought again with it. None where they are too many, or where nothing is left to be bought.

    Theorem: residual-allotment
    """
    if not 0 < len(targets) <= MOST_TARGETS or cases(targets) > MOST_CASES or variance < _LEAST_VARIANCE:
        return None
    scopes = {tuple(side for side, _ in own) for own in targets}
    if not any(scopes) or not small(scopes):
        return None
    plan = _shared(targets, within, unit) or planned(targets, unit)
    if any(own * Fraction(variance) * 2 ** len(residual.classes) < _LEAST_SQUARE for residual, own in plan):
        return None
    parts = [_topped(residual, own * Fraction(variance), known) for residual, own in plan]
    kept = tuple(part for part in parts if part is not None)
    return kept if any(residual.classes for residual, _ in kept) else None


def cases(targets: Iterable[tuple[object, ...]]) -> int:
    """Return how many cases the residuals of targets have, two to the number of their columns each."""
    return sum(3 ** len(own) for own in targets)


@lru_cache(maxsize=1 << 10)
def _shared(targets: Targets, within: Targets, unit: Unit) -> tuple[Part, ...] | None:
    """Return what a wider lattice has of the residuals of some targets; None where it does not meet them."""
    wide = bool(within) and small({tuple(side for side, _ in own) for own in within})
    plan = dict(planned(within, unit)) if wide else {}
    found: dict[Residual, Fraction] = {}
    for sides in targets:
        shares = variance_shares(_product(sides))
        needed = [own for own in shares if own.classes or not unit.fixed]
        if any(own not in plan for own in needed) or sum(shares[own] * plan[own] for own in needed) > 1:
            return None
        found |= {own: plan[own] for own in needed}
    return tuple(found.items())


@lru_cache(maxsize=256)
def planned(targets: Targets, unit: Unit) -> tuple[Part, ...]:
    """Return what meets the targets with variance 1."""
    listed = sorted(targets, key=lambda own: [(side.attribute, members) for side, members in own])
    return allotted([Target(_product(own), Fraction(1)) for own in listed], unit)


def small(scopes: Iterable[tuple[Classes, ...]]) -> bool:
    """Return whether the residuals of all sets of columns have few enough rows and scales; none of them is built."""
    rows: int = 0
    seen: set[tuple[tuple[str, int], ...]] = set()
    for scope in scopes:
        numbers = [(own.attribute, own.number) for own in scope]
        if math.prod(number for _, number in numbers) > MOST_ROWS:  # as many as all residuals of one set have together
            return False
        for size in range(len(scope) + 1):
            for inner in combinations(numbers, size):
                if inner not in seen:
                    seen.add(inner)
                    rows += math.prod(number - 1 for _, number in inner)
        if rows > MOST_ROWS:
            return False
    return _scales(seen) <= MOST_SCALES


def _scales(sets: Iterable[tuple[tuple[str, int], ...]]) -> int:
    """Return how many lengths the rows of residuals have, counted up to the most that are allowed, and one more."""
    found: int = 0
    for inner in sets:
        lengths = {1}
        for number in sorted(number for _, number in inner):
            lengths = {own * j * (j + 1) for own in lengths for j in range(1, number)}
            if len(lengths) > MOST_SCALES:
                return MOST_SCALES + 1
        found += len(lengths)
        if found > MOST_SCALES:
            return MOST_SCALES + 1
    return found


def _product(sides: tuple[Side, ...]) -> tuple[Factor, ...]:
    return tuple(Factor(own, tuple(chosen(own, members).astype(int).tolist())) for own, members in sides)


def _topped(residual: Residual, variance: Fraction, known: Lattice) -> Part | None:
    """Return the measurement that, weighed with what is known, has the variance; None where that has it already."""
    before = known.variance(residual)
    if before <= float(variance) * (1 + 1e-8):  # well below what `bell_variance` leaves
        return None
    needed = 1 / (1 / variance - (0 if math.isinf(before) else 1 / Fraction(before)))
    unit = Fraction(2) ** (needed.numerator.bit_length() - needed.denominator.bit_length() - 24)
    return residual, (needed // unit) * unit


@lru_cache(maxsize=1 << 10)
def bell_variance(room: float, failing: float) -> float:
    """Return the variance with which a combination of Gaussians is within the room."""
    variance = _LEAST_VARIANCE
    if Bell(variance, 1.0).accuracy(1 - failing).within > room:
        return 0.0
    for _ in range(40):
        within = Bell(variance, 1.0).accuracy(1 - failing).within
        grown = max(variance * (room / within) ** 2 * (1 - 1e-7), _LEAST_VARIANCE)
        if grown <= variance * (1 + 1e-6):
            break
        variance = grown
    return variance


def table(  # noqa: PLR0913  the law, and what it must meet
    domain: Domain, unit: Unit, classes: Iterable[Classes], law: Law, *, room: float, failing: float
) -> Measurement | None:
    """Return a table of counts of which every sum of some is within the room; None where there are too many.

    Where the number of rows is not public, it is measured too, as all sums are sharper with it.

    Theorem: table-of-counts
    """
    ordered = tuple(sorted(classes, key=lambda own: own.attribute))
    size = math.prod(own.number for own in ordered)
    if not 1 < size <= MOST_CELLS:
        return None
    block = block_of(Residual(ordered), domain)
    if unit.fixed:
        noise = _widest(law.__name__, size, room, failing, None)
        return None if noise is None else Measurement(Query(domain, (block,)), (noise,))
    best: Measurement | None = None
    for share in _promising(law.__name__, size, room, failing):
        noises = _pair(law.__name__, size, room, failing, share)
        if noises is None:
            continue
        found = Measurement(Query(domain, (block, Block())), noises)
        if best is None or _cost(found, unit) < _cost(best, unit):
            best = found
    return best


def _promising(law: str, size: int, room: float, failing: float) -> list[float]:
    """Return the two shares of the variance at which noises that are guessed cost least."""
    power = 1 if law == Laplace.__name__ else 2

    def guessed(share: float) -> float:
        rows = _rough(law, room**2 * share, failing)
        counts = _rough(law, room**2 * (1 - share / 4) * 4 / size, failing)
        return rows**-power + counts**-power

    return sorted(_SHARES, key=guessed)[:2]


def _rough(law: str, square: float, failing: float) -> float:
    """Return about the scale of noise that is within the root of a square, as if it were normal."""
    quantile = NormalDist().inv_cdf(1 - max(failing, _STEP) / 2)
    return max(math.sqrt(square / (2 if law == Laplace.__name__ else 1)) / quantile, 1e-9)


_LAWS: dict[str, Law] = {own.__name__: own for own in (Laplace, Gaussian)}


@lru_cache(maxsize=1 << 10)
def _pair(law: str, size: int, room: float, failing: float, share: float) -> tuple[Noise, Noise] | None:
    """Return the noise of the counts and that of their number, which takes this share of the variance."""
    alone = largest(
        lambda scale: _LAWS[law](scale=_scale(scale)).accuracy(1 - failing).within, room * math.sqrt(share), lower=1.0
    )
    if alone is None:
        return None
    rows = _LAWS[law](scale=_scale(alone))
    counts = _widest(law, size, room, failing, rows)
    return None if counts is None else (counts, rows)


@lru_cache(maxsize=1 << 10)
def _widest(law: str, size: int, room: float, failing: float, rows: Noise | None) -> Noise | None:
    """Return the most noise with which all sums of counts are within the room.

    Bounds of quantiles have small steps, for which some room is spared. The sum of most variance is looked at alone at
    first: mostly no other is farther off. Very rare quantiles lean to sums of fewer counts, so there every number of
    counts is looked at in the end, as long as the table is not large.
    """
    known = Rows(0.0, rows)

    def noise_of(scale: float) -> Noise:
        return _LAWS[law](scale=_scale(scale))

    def error(scale: float, numbers: Iterable[int]) -> float:
        noise = noise_of(scale)
        return max(law_of_count(size, own, noise, known).accuracy(1 - failing).within for own in numbers)

    def spared(scale: float) -> float:
        return _SPARE * error(scale, _noisiest(size, noise_of(scale), known, failing))

    def foremost(scale: float) -> float:
        middle = _middle(size, noise_of(scale), known)
        near = min(_noisiest(size, noise_of(scale), known, failing), key=lambda number: abs(number - middle))
        return _SPARE * error(scale, (near,))

    lower = float(SMALLEST)
    found = largest(foremost, room, lower=lower, first=_rough(law, 4 / size * room**2, failing))
    if found is not None and (worst := spared(found)) > room:
        found = largest(spared, room, lower=lower, first=found * room / worst)
    if found is None or failing > _RARE or size > _LARGE:
        return None if found is None else noise_of(found)
    for _ in range(_TURNS):
        worst = error(found, range(1, size + 1))
        if worst <= room:
            return noise_of(found)
        found *= room / worst * (1 - _STEP)
    return None


def _middle(size: int, noise: Noise, rows: Rows) -> float:
    """Return of how many counts the sum has most variance: N/2 + v₀/2v."""
    return min(size / 2 + rows.variance / (2 * variance_of(noise)), float(size))


def _noisiest(size: int, noise: Noise, rows: Rows, failing: float) -> set[int]:
    """Return of how many counts the sum has most variance, and some numbers around it and below."""
    middle = _middle(size, noise, rows)
    near = [math.floor(middle), math.ceil(middle), math.floor(middle * 7 / 8)]
    if size <= _FEW:
        near += [1, 2, 3, math.floor(middle * 31 / 32), math.floor(middle * 3 / 4)]
    if failing < _SELDOM:
        near += [math.floor(middle * _CLOSER**step) for step in range(int(math.log(size, 1 / _CLOSER)) + 1)]
    return {min(max(number, 1), size) for number in near}


def _scale(scale: float) -> Fraction:
    return rounded_scale_down(max(scale, float(SMALLEST)))


def _cost(measurement: Measurement, unit: Unit) -> float:
    event = measurement.event(unit)
    return float(event.epsilon) if event.epsilon is not None else float(event.rho())
