"""Quantiles: the values of a column that a test on the noisy counts below them leaves possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.band import Band
from dodona.answer.law import chernoff, upper_quantile
from dodona.answer.measured import Measured
from dodona.answer.tree import Tree, tree_of
from dodona.query.expression import Quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray


def quantile_band(quantile: Quantile, measured: Measured, failing: float) -> Band:
    """Return quantiles, as codes of the column, with the hull of all codes that two one-sided tests leave possible.

    Theorem: quantile-interval
    """
    tree = tree_of(quantile, measured)
    level = float(quantile.level)
    first, last = ends(tree, low=level, high=level, failing=failing)
    return Band(np.clip(_crossing(tree, level), first, last), first, last)


def ends(tree: Tree, *, low: float, high: float, failing: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first code that the quantile of level `low` may have and the last one of the quantile of level `high`.

    Theorem: quantile-interval
    """
    cuts, bins = tree.walk.cuts, len(tree.walk.cuts) - 1
    below = tree.below
    # Level `high` at its bin: not too many rows are below the bin. At its first boundary nothing is below.
    over = below - high * tree.rows[:, None]
    may_begin = over <= reach(tree, over, level=high, failing=failing / 2)
    may_begin[:, 0] = True
    # Level `low` at its bin: enough rows are below the bin's end. At the last boundary all rows are.
    under = below - low * tree.rows[:, None]
    may_end = under >= -reach(tree, under, level=low, failing=failing / 2)
    may_end[:, bins] = True
    begin, end = may_begin[:, :-1], may_end[:, 1:]
    possible = begin & end if low == high else np.ones_like(begin)
    least = np.argmax(possible & end, axis=1)
    most = bins - 1 - np.argmax((possible & begin)[:, ::-1], axis=1)
    # Where no value is left the noise was beyond its bound: then nothing is claimed.
    nothing = ~np.any(possible, axis=1) | (least > most)
    first = np.where(nothing, cuts[0], cuts[least])
    last = np.where(nothing, cuts[-1] - 1, cuts[most + 1] - 1)
    return first.astype(np.float64), last.astype(np.float64)


def reach(tree: Tree, distance: NDArray[np.float64], *, level: float, failing: float) -> NDArray[np.float64]:
    """Return, for each boundary, what its noise is above with probability at most `failing`.

    Boundaries at which even a rough bound decides for all groups are left at 0.
    """
    lengths = tree.walk.lengths
    longest = (0, *lengths.max(axis=0).tolist()[1:])  # so all of the coarsest groups count the larger of the two parts
    rough = chernoff(tree.terms(longest, max(level, 1 - level)), failing)
    near = np.flatnonzero(np.any(np.abs(distance) <= rough, axis=0))
    found = np.zeros(len(lengths))
    kinds, places = np.unique(lengths[near], axis=0, return_inverse=True)
    laws = [upper_quantile(tree.terms(tuple(kind), level), failing) for kind in kinds.tolist()]
    found[near] = np.asarray(laws)[places.reshape(-1)] if laws else 0.0
    return found


def _crossing(tree: Tree, level: float) -> NDArray[np.float64]:
    """Return the code at which the noisy counts, made monotone, reach the level; within a bin, by its share."""
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
    found: NDArray[np.float64] = cuts[place] + np.minimum(np.floor(share * width), width - 1)
    return found
