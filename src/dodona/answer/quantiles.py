"""Quantiles of a column from a tree of noisy histograms.

The interval contains every code that two one-sided tests on the noisy counts below it do not reject. The expected width
can be computed before anything is measured.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dodona.answer.bands import Band
from dodona.answer.laws import NoiseTerm, chernoff_bound, upper_quantile
from dodona.errors import InvariantBroken
from dodona.numbers import Doubles, Integers
from dodona.privacy.additive_noise import Laplace, Noise
from dodona.privacy.measurement import MeasuredValues
from dodona.query.question import Quantile
from dodona.schema.partition import Partition

# --- A tree of histograms of one column, and the number of rows below each boundary. ---


@dataclass(frozen=True, slots=True, eq=False)
class BoundaryPaths:
    """The path to each boundary of the finest level: from the nearest boundary of the level above."""

    cuts: Integers
    """The boundaries, in codes, from 0 to the number of values."""
    stops: tuple[Integers, ...]
    """For each level, the number of the group of that level that the walk has come to."""
    starts: tuple[Integers, ...]
    """For each level, where the walk began on it."""

    @property
    def lengths(self) -> Integers:
        """The number of groups of each level on the path: one row per boundary."""
        return np.stack([np.abs(stop - start) for stop, start in zip(self.stops, self.starts, strict=True)], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class HistogramTree:
    """Measured histograms of one column, in levels that refine each other, from coarse to fine."""

    walk: BoundaryPaths
    counts: tuple[Doubles, ...]
    """For each level, the noisy counts: a row for each group of the question."""
    noises: tuple[Noise, ...]

    @property
    def below(self) -> Doubles:
        """The noisy number of rows below each boundary: one row per group of the question."""
        below = np.zeros((len(self.counts[0]), len(self.walk.cuts)))
        for counts, stop, start in zip(self.counts, self.walk.stops, self.walk.starts, strict=True):
            sums = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts, axis=1)], axis=1)
            below += sums[:, stop] - sums[:, start]
        return below

    @property
    def rows(self) -> Doubles:
        """The noisy number of rows with a value, from the coarsest level."""
        total: Doubles = self.counts[0].sum(axis=1)
        return total

    def terms(self, lengths: tuple[int, ...], level: float) -> tuple[NoiseTerm, ...]:
        """Return the noises in (rows below a boundary) - level · rows.

        The coarsest groups below the boundary are in both, so their factor is 1 - level; that of those above is level.
        """
        inside, outside = lengths[0], self.counts[0].shape[1] - lengths[0]
        draws: dict[tuple[float, Noise], int] = {}
        parts = [(1 - level, self.noises[0], inside), (level, self.noises[0], outside)]
        parts += [(1.0, noise, times) for noise, times in zip(self.noises[1:], lengths[1:], strict=True)]
        for factor, noise, times in parts:
            draws[factor, noise] = draws.get((factor, noise), 0) + times
        return tuple(NoiseTerm.of(factor, noise, times) for (factor, noise), times in draws.items())


def histogram_tree(quantile: Quantile, measured: MeasuredValues) -> HistogramTree:
    """Return the levels that refine each other; others are dropped."""
    blocks = measured.question.query.blocks
    levels: list[tuple[int, Partition]] = []
    for number in reversed(quantile.levels):
        partition = blocks[number].keys[-1]
        if not isinstance(partition, Partition) or partition.attribute != quantile.attribute:
            raise InvariantBroken("A level of a quantile is not grouped by the quantile's own column.")
        if not levels or set(partition.cuts) < set(levels[-1][1].cuts):
            levels.append((number, partition))
    levels.reverse()
    return HistogramTree(
        walk=_boundary_paths(tuple(partition for _, partition in levels)),
        counts=tuple(measured.numbers(number)[:, : len(partition.cuts)] for number, partition in levels),
        noises=tuple(measured.noises[number] for number, _ in levels),
    )


@lru_cache(maxsize=64)
def _boundary_paths(levels: tuple[Partition, ...]) -> BoundaryPaths:
    """Return the path to every boundary of the finest level, through the nearest boundary of each level."""
    size = levels[0].size
    cuts = np.asarray((*levels[-1].cuts, size), dtype=np.int64)
    came, stops, starts = np.zeros_like(cuts), [], []
    for level in levels:
        boundaries = np.asarray((*level.cuts, size), dtype=np.int64)
        after = np.searchsorted(boundaries, cuts)  # the first boundary of this level that is not below
        before = np.where(boundaries[after] == cuts, after, after - 1)
        nearest = np.where(cuts - boundaries[before] <= boundaries[after] - cuts, before, after)
        starts.append(np.searchsorted(boundaries, came))
        stops.append(nearest)
        came = boundaries[nearest]
    return BoundaryPaths(cuts, tuple(stops), tuple(starts))


# --- Quantiles: the values of a column that a test on the noisy counts below them does not reject. ---


def quantile_band(quantile: Quantile, measured: MeasuredValues, failing: float) -> Band:
    """Return quantiles as codes of the column, with the hull of all codes that two one-sided tests do not reject.

    The quantile itself does not depend on the confidence; the interval is extended to it.

    Theorem: quantile-interval
    """
    tree = histogram_tree(quantile, measured)
    level = float(quantile.level)
    first, last = quantile_code_range(tree, low=level, high=level, failing=failing)
    return Band(_crossing(tree, level), first, last)


def quantile_code_range(tree: HistogramTree, *, low: float, high: float, failing: float) -> tuple[Doubles, Doubles]:
    """Return the first possible code of the quantile of level `low` and the last one of the quantile of level `high`.

    Theorem: quantile-interval
    """
    cuts, bins = tree.walk.cuts, len(tree.walk.cuts) - 1
    below = tree.below
    # Level `high` may be in a bin if not too many rows are below the bin. Nothing is below the first boundary.
    over = below - high * tree.rows[:, None]
    may_begin = over <= boundary_noise_quantiles(tree, over, level=high, failing=failing / 2)
    may_begin[:, 0] = True
    # Level `low` may be in a bin if enough rows are below the bin's end. All rows are below the last boundary.
    under = below - low * tree.rows[:, None]
    may_end = under >= -boundary_noise_quantiles(tree, under, level=low, failing=failing / 2)
    may_end[:, bins] = True
    begin, end = may_begin[:, :-1], may_end[:, 1:]
    possible = begin & end if low == high else np.ones_like(begin)
    least = np.argmax(possible & end, axis=1)
    most = bins - 1 - np.argmax((possible & begin)[:, ::-1], axis=1)
    # If every value is rejected, the noise exceeded its bound: then nothing is claimed.
    nothing = ~np.any(possible, axis=1) | (least > most)
    first = np.where(nothing, cuts[0], cuts[least])
    last = np.where(nothing, cuts[-1] - 1, cuts[most + 1] - 1)
    return first.astype(np.float64), last.astype(np.float64)


def boundary_noise_quantiles(tree: HistogramTree, distance: Doubles, *, level: float, failing: float) -> Doubles:
    """Return, for each boundary, a value that its noise exceeds with probability at most `failing`.

    Boundaries where a rough bound already decides for all groups are left at 0.
    """
    lengths = tree.walk.lengths
    longest = (0, *lengths.max(axis=0).tolist()[1:])  # all coarsest groups then get the larger of both factors
    rough = chernoff_bound(tree.terms(longest, max(level, 1 - level)), failing)
    near = np.flatnonzero(np.any(np.abs(distance) <= rough, axis=0))
    quantiles = np.zeros(len(lengths))
    kinds, places = np.unique(lengths[near], axis=0, return_inverse=True)
    laws = [upper_quantile(tree.terms(tuple(kind), level), failing) for kind in kinds.tolist()]
    quantiles[near] = np.asarray(laws)[places.reshape(-1)] if laws else 0.0
    return quantiles


def _crossing(tree: HistogramTree, level: float) -> Doubles:
    """Return the code at which the monotone noisy counts reach the level, interpolated within a bin."""
    cuts = tree.walk.cuts
    over = tree.below - level * tree.rows[:, None]
    rising = np.maximum.accumulate(over, axis=1)
    falling = np.minimum.accumulate(over[:, ::-1], axis=1)[:, ::-1]
    smooth = (rising + falling) / 2
    smooth[:, -1] = np.maximum(smooth[:, -1], 0.0)
    place = np.argmax(smooth[:, 1:] >= 0, axis=1)
    group = np.arange(len(smooth))
    before, after = smooth[group, place], smooth[group, place + 1]
    with np.errstate(all="ignore"):
        share = np.where(after > before, np.clip(-before / (after - before), 0.0, 1.0), 0.5)
    width = cuts[place + 1] - cuts[place]
    codes: Doubles = cuts[place] + np.minimum(np.floor(share * width), width - 1)
    return codes


# --- Forecast: the distance of a quantile from the ends of its interval, before anything is measured. ---


WORST_CASE_FACTOR = 2.0
"""Times the reach of the noise: the ends of an interval are seldom farther away."""
TYPICAL_FACTOR = 1.2
"""Times the reach of the noise: about where the farther end of an interval is."""


def expected_quantile_width(
    quantile: Quantile, measured: MeasuredValues, failing: float, *, times: float = WORST_CASE_FACTOR
) -> float:
    """Return the number of codes to the ends of an interval, rarely exceeded; the counts are still noiseless.

    The number of rows below a boundary is off by more than its reach with probability at most `failing`/2. So a value
    farther away than twice the reach is not rejected with at most that probability.
    """
    tree, level = histogram_tree(quantile, measured), float(quantile.level)
    cuts, away = tree.walk.cuts, tree.below[0] - level * tree.rows[0]
    middle = np.interp(0.0, away, cuts)
    edge = int(np.clip(np.searchsorted(cuts, middle, side="right") - 1, 0, len(cuts) - 2))
    value = min(math.floor(middle), int(cuts[edge + 1]) - 1)
    above, below = np.arange(edge + 1, len(cuts) - 1), np.arange(edge, 0, -1)  # boundaries on either side, outward
    rows, spread = np.abs(away), np.sqrt(_rank_variance(tree, level))

    def distance(boundaries: Integers, codes: Integers) -> float:
        """Return how far an end is from the value in codes, interpolated between two boundaries.

        `codes` says where the end is if none of the boundaries is passed, the first one, and so on. The exact law is
        used near the end only; other reaches are scaled by their standard deviations. This is a forecast: no interval
        depends on it.
        """
        reach, passed = math.sqrt(-2 * math.log(failing / 2)), 0  # a rough initial value
        left: Doubles = np.zeros(0)
        for _ in range(min(2, len(boundaries))):
            place = boundaries[max(passed - 1, 0)]
            if spread[place] > 0:
                law = tree.terms(tuple(tree.walk.lengths[place].tolist()), level)
                reach = upper_quantile(law, failing / 2) / float(spread[place])
            left = times * reach * spread[boundaries] - rows[boundaries]
            passed = int(np.flatnonzero(np.append(True, left >= 0))[-1])  # 0: not even the first
        gap = float(abs(codes[passed] - value))
        if passed in {0, len(boundaries)}:
            return gap
        here, there = left[passed - 1], left[passed]
        share = here / (here - there) if here > there else 0.0
        return gap + float(share * abs(codes[passed + 1] - codes[passed]))

    high = distance(above, np.append(cuts[edge + 1], cuts[above + 1]) - 1)
    return max(high, distance(below, np.append(cuts[edge], cuts[below - 1])))


def _rank_variance(tree: HistogramTree, level: float) -> Doubles:
    """Return the variance of (rows below a boundary) - level · rows, for each boundary."""
    lengths = tree.walk.lengths.astype(np.float64)
    first, *others = map(_noise_variance, tree.noises)
    inside, groups = lengths[:, 0], tree.counts[0].shape[1]
    variances: Doubles = first * ((1 - level) ** 2 * inside + level**2 * (groups - inside))
    for place, variance in enumerate(others, start=1):
        variances = variances + variance * lengths[:, place]
    return variances


def _noise_variance(noise: Noise) -> float:
    """Return the approximate variance of a noise."""
    return (2.0 if isinstance(noise, Laplace) else 1.0) * float(noise.scale) ** 2
