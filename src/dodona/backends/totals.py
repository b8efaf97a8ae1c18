"""Totals: sums of whole numbers that are exact whatever their size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dodona.query.predicate import Axes
from dodona.query.query import Block, block_weights, group_of

Whole = NDArray[np.int64] | list[int]
"""Exact answers: an array, or Python's own whole numbers where one of them needs more than 64 bits."""
_DOUBLE = 2**53  # whole numbers up to here are doubles
_WORD = 2**63


def answer(block: Block, axes: Axes, *, counts: NDArray[np.int64] | None, rows: int) -> Whole:
    """Return the sums of a block over rows, or over cells that each stand for `counts` rows; `rows` is their number."""
    weights = block_weights(block, axes)
    groups = group_of(block.keys, axes)
    shape = np.broadcast_shapes(weights.shape, groups.shape, (rows,) if counts is None else counts.shape)
    flat = np.broadcast_to(groups, shape).reshape(-1)
    times = None if counts is None else np.broadcast_to(counts, shape).reshape(-1)
    return sums(flat, np.broadcast_to(weights, shape).reshape(-1), number=block.values, counts=times, rows=rows)


def sums(
    groups: NDArray[np.int64], weights: NDArray[np.int64], *, number: int, counts: NDArray[np.int64] | None, rows: int
) -> Whole:
    """Return the sum of counts·weights of each group, exactly.

    `bincount` adds doubles. Weights are cut into limbs so small that no sum of rows can pass 2^53: then every number
    that is added or comes out is a whole number that a double holds, and nothing is ever rounded.
    """
    if rows >= _DOUBLE // 2:
        raise OverflowError("a table has fewer than 2^52 rows")
    width = 53 - max(rows, 1).bit_length()
    low, high = (int(weights.min()), int(weights.max())) if len(weights) else (0, 0)
    if low >= -(1 << width) and high <= 1 << width:
        return _bincount(groups, weights, number=number, counts=counts)
    total: list[int] = [0] * number
    scale = 1
    while low < -1 or high > 0:
        part = _bincount(groups, weights & ((1 << width) - 1), number=number, counts=counts)
        total = [before + scale * int(own) for before, own in zip(total, part.tolist(), strict=True)]
        weights, low, high, scale = weights >> width, low >> width, high >> width, scale << width
    part = _bincount(groups, weights, number=number, counts=counts)  # the signs: 0 or -1
    return fitted([before + scale * own for before, own in zip(total, part.tolist(), strict=True)])


def fitted(total: Sequence[int]) -> Whole:
    """Return whole numbers as an array where all of them fit into 64 bits."""
    if all(-_WORD <= value < _WORD for value in total):
        return np.array(total, dtype=np.int64)
    return list(total)


def joined(parts: Sequence[Whole]) -> Whole:
    """Return the answers of blocks one after the other."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts):
        return np.concatenate(arrays)
    return [int(value) for part in parts for value in part]


def _bincount(
    groups: NDArray[np.int64], weights: NDArray[np.int64], *, number: int, counts: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Return sums of counts·weights that are known to stay below 2^53."""
    if counts is None and len(weights) and weights.strides[0] == 0 and weights[0] == 1:
        return np.bincount(groups, minlength=number)
    doubles = weights.astype(np.float64)
    times = doubles if counts is None else doubles * counts
    return np.bincount(groups, weights=times, minlength=number).astype(np.int64)
