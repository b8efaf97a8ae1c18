"""Foresight: how far from a quantile the ends of its interval will be, before anything is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.law import upper_quantile
from dodona.answer.measured import Measured, Noise
from dodona.answer.tree import Tree, tree_of
from dodona.mechanisms.laplace import Laplace
from dodona.query.expression import Quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

SELDOM = 2.0
"""Times the reach of the noise: the ends of an interval are seldom farther away."""
MOSTLY = 1.2
"""Times the reach of the noise: about where the farther end of an interval is."""


def foreseen(quantile: Quantile, measured: Measured, failing: float, *, times: float = SELDOM) -> float:
    """Return how many codes the ends of an interval are away, but seldom more; the counts are without noise yet.

    The number of rows below a boundary is off by more than its reach with probability `failing`/2 at most. So a value
    that is away by more than twice the reach is left possible no more often than that.
    """
    tree, level = tree_of(quantile, measured), float(quantile.level)
    cuts, away = tree.walk.cuts, tree.below[0] - level * tree.rows[0]
    middle = np.interp(0.0, away, cuts)
    own = int(np.clip(np.searchsorted(cuts, middle, side="right") - 1, 0, len(cuts) - 2))
    value = min(math.floor(middle), int(cuts[own + 1]) - 1)
    above, below = np.arange(own + 1, len(cuts) - 1), np.arange(own, 0, -1)  # the boundaries on either side, outward
    high = _End(above, np.append(cuts[own + 1], cuts[above + 1]) - 1)
    low = _End(below, np.append(cuts[own], cuts[below - 1]))
    spread = np.sqrt(_variance(tree, level))
    ends = (high, low)
    return max(
        end.away(tree, level=level, rows=np.abs(away), spread=spread, value=value, failing=failing / 2, reaches=times)
        for end in ends
    )


@dataclass(frozen=True, slots=True)
class _End:
    """One end of an interval, and where it may be."""

    boundaries: NDArray[np.int64]
    """From the value outward."""
    codes: NDArray[np.int64]
    """Where the end is if none of the boundaries is passed, the first one, and so on."""

    def away(  # noqa: PLR0913  what a boundary is judged by
        self,
        tree: Tree,
        *,
        level: float,
        rows: NDArray[np.float64],
        spread: NDArray[np.float64],
        value: int,
        failing: float,
        reaches: float,
    ) -> float:
        """Return how many codes it is away from the value; between two boundaries by its share.

        The exact law is looked at near the end alone; other reaches are as much wider or narrower as their variances
        say. It is a forecast: no interval depends on it.
        """
        times, passed = math.sqrt(-2 * math.log(failing)), 0  # about right, to begin with
        left: NDArray[np.float64] = np.zeros(0)
        for _ in range(min(2, len(self.boundaries))):
            place = self.boundaries[max(passed - 1, 0)]
            if spread[place] > 0:
                law = tree.terms(tuple(tree.walk.lengths[place].tolist()), level)
                times = upper_quantile(law, failing) / float(spread[place])
            left = reaches * times * spread[self.boundaries] - rows[self.boundaries]
            passed = int(np.flatnonzero(np.append(True, left >= 0))[-1])  # 0: not even the first
        found = float(abs(self.codes[passed] - value))
        if passed in {0, len(self.boundaries)}:
            return found
        here, there = left[passed - 1], left[passed]
        share = here / (here - there) if here > there else 0.0
        return found + float(share * abs(self.codes[passed + 1] - self.codes[passed]))


def _variance(tree: Tree, level: float) -> NDArray[np.float64]:
    """Return the variance of (rows below a boundary) - level · rows, for each boundary."""
    lengths = tree.walk.lengths.astype(np.float64)
    first, *others = map(_of_noise, tree.noises)
    inside, groups = lengths[:, 0], tree.counts[0].shape[1]
    found: NDArray[np.float64] = first * ((1 - level) ** 2 * inside + level**2 * (groups - inside))
    for place, variance in enumerate(others, start=1):
        found = found + variance * lengths[:, place]
    return found


def _of_noise(noise: Noise) -> float:
    """Return the variance of a noise, about."""
    return (2.0 if isinstance(noise, Laplace) else 1.0) * float(noise.scale) ** 2
