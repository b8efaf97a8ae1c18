"""A tree of histograms of one column, and how many rows lie below each of its boundaries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.law import Term
from dodona.answer.measured import Measured, Noise
from dodona.domain.partition import Partition
from dodona.errors import InvariantBroken
from dodona.query.expression import Quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """How each boundary of the finest level is reached: from the nearest boundary of the level above it."""

    cuts: NDArray[np.int64]
    """The boundaries, in codes, from 0 to the number of values."""
    stops: tuple[NDArray[np.int64], ...]
    """For each level, the number of the group of that level that the walk has come to."""
    starts: tuple[NDArray[np.int64], ...]
    """For each level, where the walk began on it."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many groups of each level a boundary needs: a row for each boundary."""
        return np.stack([np.abs(stop - start) for stop, start in zip(self.stops, self.starts, strict=True)], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """What was measured of one column, in levels that refine each other, from coarse to fine."""

    walk: Walk
    counts: tuple[NDArray[np.float64], ...]
    """For each level, the noisy counts: a row for each group of the question."""
    noises: tuple[Noise, ...]

    @property
    def below(self) -> NDArray[np.float64]:
        """The noisy number of rows below each boundary: a row for each group of the question."""
        found = np.zeros((len(self.counts[0]), len(self.walk.cuts)))
        for counts, stop, start in zip(self.counts, self.walk.stops, self.walk.starts, strict=True):
            sums = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts, axis=1)], axis=1)
            found += sums[:, stop] - sums[:, start]
        return found

    @property
    def rows(self) -> NDArray[np.float64]:
        """The noisy number of rows with a value, from the coarsest level."""
        total: NDArray[np.float64] = self.counts[0].sum(axis=1)
        return total

    def terms(self, lengths: tuple[int, ...], level: float) -> tuple[Term, ...]:
        """Return the noises in (rows below a boundary) - level · rows.

        The coarsest groups below the boundary are in both, so they count 1 - level; those above it count level.
        """
        inside, outside = lengths[0], self.counts[0].shape[1] - lengths[0]
        found: dict[tuple[float, Noise], int] = {}
        parts = [(1 - level, self.noises[0], inside), (level, self.noises[0], outside)]
        parts += [(1.0, noise, times) for noise, times in zip(self.noises[1:], lengths[1:], strict=True)]
        for factor, noise, times in parts:
            found[factor, noise] = found.get((factor, noise), 0) + times
        return tuple(Term.of(factor, noise, times) for (factor, noise), times in found.items())


def tree_of(quantile: Quantile, measured: Measured) -> Tree:
    """Return the levels that refine each other; others are left out."""
    blocks = measured.question.query.blocks
    levels: list[tuple[int, Partition]] = []
    for number in reversed(quantile.levels):
        partition = blocks[number].keys[-1]
        if not isinstance(partition, Partition) or partition.attribute != quantile.attribute:
            raise InvariantBroken("A level of a quantile is not grouped by the quantile's own column.")
        if not levels or set(partition.cuts) < set(levels[-1][1].cuts):
            levels.append((number, partition))
    levels.reverse()
    return Tree(
        walk=_walk(tuple(partition for _, partition in levels)),
        counts=tuple(measured.numbers(number)[:, : len(partition.cuts)] for number, partition in levels),
        noises=tuple(measured.noises[number] for number, _ in levels),
    )


@lru_cache(maxsize=64)
def _walk(levels: tuple[Partition, ...]) -> Walk:
    """Return the walk to every boundary of the finest level, going to the nearest boundary of each level on the way."""
    size = levels[0].size
    cuts = np.asarray((*levels[-1].cuts, size), dtype=np.int64)
    came, stops, starts = np.zeros_like(cuts), [], []
    for level in levels:
        own = np.asarray((*level.cuts, size), dtype=np.int64)
        after = np.searchsorted(own, cuts)  # the first boundary of this level that is not below
        before = np.where(own[after] == cuts, after, after - 1)
        nearest = np.where(cuts - own[before] <= own[after] - cuts, before, after)
        starts.append(np.searchsorted(own, came))
        stops.append(nearest)
        came = own[nearest]
    return Walk(cuts, tuple(stops), tuple(starts))
