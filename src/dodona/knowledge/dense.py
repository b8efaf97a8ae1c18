"""A dense belief: one weight per cell; an update touches only the cells it concerns.

Updates are projections in relative entropy or exponential tilts. Passes over the weights go through a kernel: NumPy
by default, numba for large vectors if it is installed.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, cast

import numpy as np

from dodona.errors import InvalidArgument
from dodona.knowledge import vector
from dodona.knowledge.cells import (
    BlockOnSupport,
    Contradiction,
    Numbers,
    Places,
    RandomSource,
    SpentBelief,
    Support,
    TooManyCells,
    blocks_on_support,
    compute_marginals,
    single_block,
    validate_numbers,
)
from dodona.knowledge.region import Region, RegionCache
from dodona.query.predicate import Predicate, complement
from dodona.query.query import ConstantWeight, Query
from dodona.schema.schema import Domain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


# --- The kernel that passes over the weights: NumPy is always available; numba is faster on large vectors. ---


_WORTH_COMPILING = 1 << 18  # cells: below this, NumPy takes microseconds, while compiling takes seconds


class WeightKernel(Protocol):
    """Passes over the cells of a region of a contiguous vector of weights."""

    def inside(self, weights: NDArray[np.float64], region: Region) -> float:
        """Return the total weight of a region."""

    def scale(self, weights: NDArray[np.float64], region: Region, factor: float) -> None:
        """Multiply the weights of a region by a factor."""


def fastest_weight_kernel(cells: int) -> WeightKernel:
    """Return the fastest kernel for this many cells: numba's if it is installed and worth compiling, else NumPy's."""
    if cells >= _WORTH_COMPILING:
        try:
            from dodona.knowledge import compiled
        except ImportError:  # the `fast` extra is not installed; the NumPy kernel gives the same weights
            return cast("WeightKernel", vector)
        return cast("WeightKernel", compiled)
    return cast("WeightKernel", vector)


# --- Targets of updates: the nearest distribution with a given value, and targets that are safe under noise. ---


LEAST_SHARE = 2.0**-50
"""The least share that a target leaves on either side: a share of 0 would exclude cells for ever."""
MOST_SPREAD = 300.0
"""The largest difference of exponents in one step: e^300 leaves doubles room on both sides."""
_ROUNDS = 200
_CLOSE = 1e-14


def guarded_target(believed: float, *, told: float, margin: float, doubt: float) -> float:
    """Return the target for a share that preserves the guaranteed drop of relative entropy although `told` is noisy.

    `margin` is the least distance between truth and belief, `doubt` the largest error of `told`. If `told` is above
    `believed`, the target is max(believed + margin, told - doubt); if below, the mirror image. If `doubt` exceeds the
    gap, the belief moves by the margin alone.

    >>> guarded_target(0.3, told=0.5, margin=0.05, doubt=0.02), guarded_target(0.3, told=0.31, margin=0.05, doubt=0.02)
    (0.48, 0.35)

    Theorem: kl-projection
    """
    if not 0 <= believed <= 1:
        raise InvalidArgument("believed", believed, "write a share from 0 to 1")
    if not math.isfinite(told):
        raise InvalidArgument("told", told, "write a number")
    for name, value in (("margin", margin), ("doubt", doubt)):
        if not 0 <= value < math.inf:
            raise InvalidArgument(name, value, "write a number from 0")
    given, below = believed, told < believed
    if below:
        believed, told = 1 - believed, 1 - told
    target = max(believed + margin, min(told - doubt, 1 - LEAST_SHARE))
    if target >= 1:
        side = "below" if below else "above"
        raise InvalidArgument("margin", margin, f"no share is {margin:g} {side} {given:g}; write a smaller margin")
    return 1 - target if below else target


def bernoulli_divergence(first: float, second: float) -> float:
    """Return kl(first‖second), the relative entropy of two Bernoulli distributions, in nats.

    >>> round(bernoulli_divergence(0.5, 0.25), 6), bernoulli_divergence(0.0, 0.0)
    (0.143841, 0.0)
    """
    total = 0.0
    for own, other in ((first, second), (1 - first, 1 - second)):
        if own > 0:
            total += own * math.log(own / other) if other > 0 else math.inf
    return total


def odds_factor(inside: float, outside: float, target: float) -> float:
    """Return the factor for the weights inside that makes `target` their share while those outside stay unchanged.

    Theorem: kl-projection
    """
    validate_share(target)
    if not (inside > 0 and outside > 0):
        raise Contradiction(
            f"target = {target:g} cannot be reached: the belief puts {'all' if inside > 0 else 'no'} weight on the "
            f"cells that are asked about. Start from a belief whose support has cells on both sides."
        )
    return (target / (1 - target)) * (outside / inside)


def validate_share(target: float, *, place: str = "target") -> float:
    """Return a target that is a share strictly between none and all of the rows."""
    if not LEAST_SHARE <= target <= 1 - LEAST_SHARE:
        accepted = "write a share between 0 and 1, both excluded: cells without weight never come back"
        raise InvalidArgument(place, target, accepted)
    return target


def solve_exponent(values: NDArray[np.float64], law: NDArray[np.float64], target: float) -> float:
    """Return t such that the mean of `values` under law·e^(t·values) is the target, by bracketed Newton steps.

    Theorem: kl-projection
    """
    seen = law > 0
    values, law = values[seen], law[seen]
    low, high = float(values.min()), float(values.max())
    if not low < target < high:
        raise Contradiction(
            f"target = {target:g} cannot be reached: where the belief has weight, a row counts for {low:g} to "
            f"{high:g}. Write a mean between them."
        )
    scaled = (values - low) / (high - low)  # scaled to [0, 1], so that the spread of the exponents is the exponent
    wanted = (target - low) / (high - low)
    found, least, most = 0.0, -MOST_SPREAD, MOST_SPREAD
    for _ in range(_ROUNDS):
        weights = law * np.exp(found * scaled - max(found, 0.0))
        weights /= weights.sum()
        mean = float((weights * scaled).sum())
        if abs(mean - wanted) <= _CLOSE * max(wanted, _CLOSE):
            break
        least, most = (found, most) if mean < wanted else (least, found)
        spread = float((weights * (scaled - mean) ** 2).sum())
        newton = found + (wanted - mean) / spread if spread > 0 else math.inf
        ahead = newton if least < newton < most else (least + most) / 2
        if ahead == found:
            break
        found = ahead
    if abs(found) > MOST_SPREAD - 1:
        raise Contradiction(
            f"target = {target:g} is so near an end of what a row counts for, {low:g} to {high:g}, that weights would "
            f"vanish. Write a mean further inside."
        )
    return found / (high - low)


# --- Tables of factors: what an update multiplies each cell of a few attributes by. ---


_WHOLE = 1e-9


def projection_factors(
    one: BlockOnSupport, law: NDArray[np.float64], targets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the factors that lead to the nearest distribution with these answers.

    Theorem: kl-projection
    """
    weight = one.block.weight
    if isinstance(weight, ConstantWeight) and weight.number != 0:
        return _group_factors(one, law, targets / weight.number)
    if one.block.keys:
        accepted = "a belief is moved to counts in groups, or to one sum; move it by one group at a time"
        raise InvalidArgument("query", "sums in groups", accepted)
    values = one.weights()
    found = solve_exponent(values.reshape(-1), law.reshape(-1), float(targets[0]))
    return tilt_factors(one, np.array([found]))


def tilt_factors(one: BlockOnSupport, exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors e^(exponent·weight), scaled so that the largest is 1."""
    powers = one.weights() * (exponents[one.groups()] if one.block.keys else exponents[0])
    if powers.size == 0:
        return np.ones(powers.shape)
    powers -= powers.max()
    spread = -float(powers.min())
    if not spread <= MOST_SPREAD:
        accepted = (
            f"exponent times weight may differ by {MOST_SPREAD:g} between cells, and differs by {spread:.3g} here"
        )
        raise InvalidArgument("exponents", exponents, f"{accepted}; take smaller steps")
    found: NDArray[np.float64] = np.exp(powers)
    return found


def step_too_large(spread: float) -> InvalidArgument:
    """Return the error for a step that would make weights vanish."""
    accepted = f"exponent times weight may differ by {MOST_SPREAD:g} between cells; take smaller steps"
    return InvalidArgument("exponents", f"a spread of {spread:.3g}", accepted)


def _group_factors(one: BlockOnSupport, law: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors for shares of groups: target/believed in each, and one common factor for the rest."""
    meant, groups = one.weights() != 0, one.groups()
    believed = np.bincount(groups.reshape(-1), weights=(law * meant).reshape(-1), minlength=targets.size)
    outside = float(law[~meant].sum())
    left = 1.0 - float(targets.sum())
    for group in np.flatnonzero(believed > 0).tolist():
        validate_share(float(targets[group]), place=f"target[{group}]")
    empty = np.flatnonzero((believed == 0) & (targets != 0)).tolist()
    if empty:
        raise Contradiction(
            f"target[{empty[0]}] = {targets[empty[0]]:g} cannot be reached: the belief has no weight in that group. "
            f"Write 0 there, or start from a belief that has."
        )
    if outside > 0:
        validate_share(left, place="1 - sum of the targets")
        factor = left / outside
    elif abs(left) > _WHOLE:
        raise Contradiction(
            f"The targets add up to {1 - left:g}, and the groups together have all rows. Divide them by their sum."
        )
    else:
        factor = 1.0
    ratios = np.divide(targets, believed, out=np.ones_like(targets), where=believed > 0) / factor
    found: NDArray[np.float64] = np.where(meant, ratios[groups], 1.0)
    return found


# --- Dense weights: a belief with one number per cell, where an update touches only the cells it concerns. ---


MOST_DENSE_CELLS = 1 << 27
LEAST_PROBABILITY = 1e-100
"""Of a cell that has weight: less is raised to it, so that no cell is lost to rounding. A cell of weight 0 stays so."""
_STEPS_BETWEEN_SUMS = 64  # the total is recomputed after this many steps, so that rounding errors cannot accumulate
_RANGE = 2.0**60  # of the total; beyond it, all weights are rescaled
_DEEPEST = 50.0  # nats that weights may sink between two sums; one more step then stays well within double range
_NEARLY_ALL = 0.999  # above this share the outside weight is summed, as a difference would lose precision
_LANE = 64
_SAMPLE_CHUNK = 1 << 16


class _LastRead(NamedTuple):
    """The weights last read: inside a predicate's region, and outside."""

    where: Predicate
    region: Region | None
    inside: float
    outside: float


class DenseBelief:
    """Weights over a product of up to 2^27 cells. The probability of a cell is its weight divided by the total.

    The total is stored next to the weights and is the only normalisation; an update of some cells leaves all others
    untouched. `updated` and `tilted` work in place: they pass the vector on to the belief that they return, and the
    old one is spent (`SpentBelief`). A vector of 2^27 weights is a gigabyte; copying it at each step would be slower
    than the step; `copied` returns a belief with its own weights.
    """

    __slots__ = ("_depth", "_kernel", "_known", "_regions", "_steps", "_support", "_total", "_weights")

    def __init__(self, support: Support, weights: NDArray[np.float64], *, kernel: WeightKernel | None = None) -> None:
        """Take over, without a copy, nonnegative weights for the cells of the support, not all 0."""
        validate_cell_count(support.size)
        taken = np.ascontiguousarray(weights, dtype=np.float64).reshape(-1)
        if taken.size != support.size:
            raise InvalidArgument("weights", f"{taken.size} numbers", f"write one for each of {support.size} cells")
        total = float(taken.sum())
        if not (float(taken.min()) >= 0 and 0 < total < math.inf):
            raise InvalidArgument("weights", f"sum {total}", "write numbers from 0, not all 0, with a finite sum")
        self._support = support
        self._weights: NDArray[np.float64] | None = taken
        self._kernel = fastest_weight_kernel(support.size) if kernel is None else kernel
        self._regions = RegionCache(support)
        self._total = total
        self._steps = 0
        self._depth = 0.0
        self._known: _LastRead | None = None
        self._settle()

    @classmethod
    def uniform(cls, over: Domain | Support, *, kernel: WeightKernel | None = None) -> Self:
        """Return the uninformed belief: the same weight on every cell."""
        support = Support.of(over) if isinstance(over, Domain) else over
        validate_cell_count(support.size)
        return cls(support, np.ones(support.size), kernel=kernel)

    @property
    def support(self) -> Support:
        """The cells that may have weight."""
        return self._support

    def probabilities(self) -> NDArray[np.float64]:
        """Return a copy of the distribution, in the shape of the support."""
        found: NDArray[np.float64] = (self._own() / self._total).reshape(self._support.shape)
        return found

    def expect(self, query: Query) -> NDArray[np.float64]:
        """Return the expected weight of a row for every answer of a query."""
        questions = blocks_on_support(query, self._support)
        wanted = {one.places for one in questions if one.count is None}
        tables = self.laws(wanted) if wanted else {}
        found = []
        for one in questions:
            count = one.count
            found.append(one.values(tables[one.places]) if count is None else [count * self.share(one.block.where)])
        return np.concatenate(found)

    def marginals(self, ways: int) -> dict[tuple[str, ...], NDArray[np.float64]]:
        """Return the marginals of all sets of this many attributes, by their names."""
        names = self._support.domain.names
        if not 0 <= ways <= len(names):
            raise InvalidArgument("ways", ways, f"write a number from 0 to {len(names)}")
        found = self.laws(combinations(range(len(names)), ways))
        return {tuple(names[place] for place in places): table for places, table in found.items()}

    def share(self, where: Predicate) -> float:
        """Return the probability that a row is selected."""
        inside, outside = self._parts(where)
        return inside / (inside + outside)

    def laws(self, wanted: Iterable[Places]) -> dict[Places, NDArray[np.float64]]:
        """Return the marginals of sets of attributes, by their positions in the support's order."""
        found = compute_marginals(self._own(), self._support.shape, list(wanted))
        return {places: table / self._total for places, table in found.items()}

    def marginal(self, names: Iterable[str]) -> NDArray[np.float64]:
        """Return the marginal of some attributes, in the support's order."""
        places = self._support.places(names)
        return self.laws([places])[places]

    def updated(self, query: Query, *, target: Numbers) -> Self:
        """Return the nearest distribution whose answers are the targets; this belief is spent.

        Theorem: kl-projection
        """
        one = single_block(query, self._support)
        wanted = validate_numbers(target, one.block.values, argument="target")
        count = one.count
        if count is None:
            law = self.laws([one.places])[one.places]
            return self._multiplied(one, law, projection_factors(one, law, wanted))
        return self._scaled(one.block.where, odds_factor(*self._parts(one.block.where), float(wanted[0]) / count))

    def tilted(self, query: Query, *, exponents: Numbers) -> Self:
        """Return the distribution with each cell multiplied by e^(exponent·weight); this belief is spent."""
        one = single_block(query, self._support)
        given = validate_numbers(exponents, one.block.values, argument="exponents")
        count = one.count
        if count is None:
            law = self.laws([one.places])[one.places]
            return self._multiplied(one, law, tilt_factors(one, given))
        if abs(power := float(given[0]) * count) > MOST_SPREAD:
            raise step_too_large(abs(power))
        return self._scaled(one.block.where, math.exp(power))

    def sample(self, rows: int, rng: RandomSource) -> dict[str, NDArray[np.int64]]:
        """Return synthetic rows: the codes of each attribute, drawn independently from the distribution."""
        if rows < 0:
            raise InvalidArgument("rows", rows, "write a whole number from 0")
        edges = np.cumsum(self._own())
        last = int(np.searchsorted(edges, edges[-1]))  # cells after it have no weight
        cells = np.minimum(np.searchsorted(edges, rng.random(rows) * edges[-1], side="right"), last)
        places = np.unravel_index(cells, self._support.shape)
        codes = self._support.codes
        return {name: codes[name][own] for name, own in zip(codes, places, strict=True)}

    def copied(self) -> Self:
        """Return a belief with its own copy of the weights."""
        return type(self)(self._support, self._own().copy(), kernel=self._kernel)

    def _own(self) -> NDArray[np.float64]:
        if self._weights is None:
            raise SpentBelief
        return self._weights

    def _parts(self, where: Predicate) -> tuple[float, float]:
        """Return the weights inside and outside."""
        known = self._look(where)
        return known.inside, known.outside

    def _look(self, where: Predicate) -> _LastRead:
        """Return the weights of a predicate; the last result is cached, as an update usually follows a read."""
        weights = self._own()
        if self._known is not None and (self._known.where is where or self._known.where == where):
            return self._known
        region = self._regions.of(where)
        inside = 0.0 if region is None else self._kernel.inside(weights, region)
        outside = self._total - inside
        if outside < (1 - _NEARLY_ALL) * self._total:
            others = self._regions.of(complement(where))
            outside = 0.0 if others is None else self._kernel.inside(weights, others)
        self._known = _LastRead(where, region, inside, outside)
        return self._known

    def _scaled(self, where: Predicate, factor: float) -> Self:
        """Multiply the cells inside and adjust the total; cells outside are unchanged."""
        known = self._look(where)
        if known.region is not None:
            self._kernel.scale(self._own(), known.region, factor)
        inside = known.inside * factor
        self._total = inside + known.outside
        return self._stepped(math.log(factor), known=known._replace(inside=inside))

    def _multiplied(self, one: BlockOnSupport, law: NDArray[np.float64], table: NDArray[np.float64]) -> Self:
        """Multiply every cell by the table entry for its codes of some attributes."""
        shape, places = self._support.shape, one.places
        cut = len(shape)
        while cut > 0 and math.prod(shape[cut:]) < _LANE:  # short rows would cost more than their cells
            cut -= 1
        thin = table.reshape([length if place in places else 1 for place, length in enumerate(shape)])
        lanes = np.broadcast_to(thin, (*thin.shape[:cut], *shape[cut:])).reshape(*thin.shape[:cut], -1)
        cells = self._own().reshape(*shape[:cut], -1)
        cells *= lanes
        self._total *= float((law * table).sum())
        return self._stepped(float(np.abs(np.log(table)).max()), known=None)

    def _stepped(self, depth: float, *, known: _LastRead | None) -> Self:
        """Return the belief after a step of `depth` nats; recompute the total regularly and before weights vanish."""
        self._steps += 1
        self._depth += abs(depth)
        self._known = known
        safe = self._depth <= _DEEPEST and 1 / _RANGE < self._total < _RANGE
        if self._steps >= _STEPS_BETWEEN_SUMS or not safe:
            self._settle()
        return self._moved()

    def _moved(self) -> Self:
        """Return a belief that takes over these weights; this one is spent."""
        self._own()
        moved = object.__new__(type(self))
        for name in self.__slots__:
            setattr(moved, name, getattr(self, name))
        self._weights = None
        return moved

    def _settle(self) -> None:
        """Recompute the total, rescale it to about 1, and raise weights that have nearly vanished."""
        weights = self._own()
        factor = 1.0 if 1 / _RANGE < self._total < _RANGE else 1 / self._total
        least = LEAST_PROBABILITY * self._total * factor
        total = 0.0
        for start in range(0, weights.size, _SAMPLE_CHUNK):
            part = weights[start : start + _SAMPLE_CHUNK]
            if factor != 1.0:
                part *= factor
            if float(part.min()) < least:
                part[(part > 0) & (part < least)] = least
            total += float(part.sum())
        self._total, self._steps, self._depth, self._known = total, 0, 0.0, None


def validate_cell_count(cells: int) -> None:
    """Raise if a vector of weights would have too many cells."""
    if cells > MOST_DENSE_CELLS:
        instead = (
            "Use `Components`, which keeps attributes apart until a question ties them, or fewer or coarser columns."
        )
        raise TooManyCells("A dense belief over this domain", cells=cells, limit=MOST_DENSE_CELLS, instead=instead)
