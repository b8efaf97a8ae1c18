"""Movements: how far the answers of some blocks go when one row is added, removed or replaced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dodona.domain.domain import Domain
from dodona.query.atoms import Representatives, atoms, corners, size, spread, traits
from dodona.query.boxes import boxes_of
from dodona.query.query import Block, block_weights, group_of
from dodona.query.weight import Weight, extremes

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_CELLS = 1 << 16
"""Products of up to so many cells are walked through; larger ones are bounded."""
_MOST_SIGNATURES = 1 << 10
_FEW_SIGNATURES = 1 << 7
_MOST_ENTRIES = 1 << 22
_MOST_WORK = 1 << 25
_EXACT_FLOAT = 1 << 53
_EXACT_INTEGER = 1 << 62


@dataclass(frozen=True, slots=True)
class Movement:
    """The largest l1, squared l2 and linf norm of a change, each by itself."""

    l1: int
    squares: int
    linf: int

    @classmethod
    def of(cls, l1: object, squares: object, linf: object) -> Self:
        """Return a movement of whatever numbers numpy found."""
        return cls(int(l1), int(squares), int(linf))  # type: ignore[call-overload]

    def within(self, other: Movement) -> Movement:
        """Return the smaller norms of two that both are bounds."""
        return Movement(min(self.l1, other.l1), min(self.squares, other.squares), min(self.linf, other.linf))


def side_by_side(movements: Iterable[Movement]) -> Movement:
    """Return a bound for blocks that are asked together, of which each part moves at most so far."""
    l1 = squares = linf = 0
    for one in movements:
        l1, squares, linf = l1 + one.l1, squares + one.squares, max(linf, one.linf)
    return Movement(l1, squares, linf)


def added(domain: Domain, blocks: Sequence[Block], *, limit: int) -> Movement:
    """Return how far one more row moves the answers: exact where the product of atoms is within the limit."""
    plain = [block if not block.keys else replace(block, keys=()) for block in blocks]  # it comes into one group
    codes = corners(domain, traits(plain))
    if size(codes) <= limit:
        return _summed(plain, codes)
    parts = _parts(plain)
    if len(parts) > 1:
        return side_by_side(added(domain, part, limit=limit) for part in parts)
    largest = _largest(plain[0].weight)
    return Movement(largest, largest**2, largest)


def replaced(domain: Domain, blocks: Sequence[Block], *, limit: int) -> Movement:
    """Return how far a row that becomes another one moves the answers: exact within the limits, else a bound."""
    seen = traits(blocks)
    if len(blocks) == 1:
        codes = corners(domain, seen)
        return _alone(blocks[0], codes) if size(codes) <= limit else _loosely(blocks[0])
    straight = all(value.power == 1 for trait in seen.values() for value in trait.values)
    codes = corners(domain, seen) if straight else atoms(domain, seen)
    exact = _compared(blocks, codes) if size(codes) <= limit and size(codes) * len(blocks) <= _MOST_ENTRIES else None
    if exact is not None:
        return exact
    return side_by_side(replaced(domain, part, limit=limit) for part in _parts(blocks))


def _parts(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return the blocks by the attributes that they use; where these are the same for all, each block alone."""
    found: dict[frozenset[str], list[Block]] = {}
    for block in blocks:
        found.setdefault(block.attributes, []).append(block)
    if len(found) > 1:
        return list(found.values())
    return [[block] for block in blocks]


def _loosely(block: Block) -> Movement:
    """Return a bound from the weight alone."""
    low, high = extremes(block.weight)
    low, high = min(low, 0), max(high, 0)
    largest = max(-low, high)
    if not block.keys:
        return Movement(high - low, (high - low) ** 2, high - low)
    both = max(high - low, 2 * largest)
    return Movement(both, max((high - low) ** 2, 2 * largest**2), high - low)


def _summed(blocks: Sequence[Block], codes: Representatives) -> Movement:
    """Return the largest norms over all cells of a product."""
    boxes, others = boxes_of(blocks)
    rest = [blocks[place] for place in others]
    axes = spread(codes)
    largest = sum(_largest(block.weight) ** 2 for block in blocks)
    kind = np.int64 if largest < _EXACT_INTEGER else np.object_
    l1: NDArray[Any] = np.zeros([len(own) for own in codes.values()], dtype=kind)
    squares, linf = l1.copy(), 0
    for found in boxes:
        sizes = list(map(abs, found.numbers))
        once = found.total(codes, sizes)
        l1 += once
        squares += once if max(sizes) <= 1 else found.total(codes, [one * one for one in sizes])
        linf = max(linf, *(one for one, masks in zip(sizes, found.masks, strict=True) if 0 not in masks), 0)
    for block in rest:
        weights: NDArray[Any] = np.abs(block_weights(block, axes)).astype(kind)
        l1 += weights
        squares += weights * weights
        linf = max(linf, int(weights.max()))
    return Movement.of(l1.max(), squares.max(), linf)


def _alone(block: Block, codes: Representatives) -> Movement:
    """Return the exact movement of one block: within a group from one end to the other, or from group to group."""
    axes = spread(codes)
    shape = [len(own) for own in codes.values()]
    weights = np.broadcast_to(block_weights(block, axes), shape).reshape(-1)
    groups = np.broadcast_to(group_of(block.keys, axes), shape).reshape(-1)
    present, groups = np.unique(groups, return_inverse=True)
    low, high = np.zeros((2, len(present)), dtype=np.int64)
    low[:], high[:] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    np.minimum.at(low, groups, weights)
    np.maximum.at(high, groups, weights)
    inside = int((high - low).max())
    first, second = (*sorted(map(int, np.maximum(np.abs(low), np.abs(high))), reverse=True), 0)[:2]
    if len(present) == 1:
        return Movement(inside, inside**2, inside)
    return Movement(max(inside, first + second), max(inside**2, first**2 + second**2), max(inside, first))


def _compared(blocks: Sequence[Block], codes: Representatives) -> Movement | None:
    """Return the exact movement over all pairs of cells, or None where these are too many."""
    weights, groups = _signatures(blocks, codes)
    alike = bool((groups <= 0).all())
    if weights.shape[1] > _FEW_SIGNATURES:
        both = weights if alike else np.concatenate([weights, groups])
        _, firsts = np.unique(both, axis=1, return_index=True)
        weights, groups = weights[:, firsts], groups[:, firsts]
    number = weights.shape[1]
    if number > _MOST_SIGNATURES:
        return None
    ends = np.array([weights.min(axis=1), weights.max(axis=1)])
    sizes = np.abs(ends).max(axis=0)
    worth = [int(size) for size in sizes]
    if (
        alike
        and sum(one * one for one in worth) < _EXACT_FLOAT
        and bool(((weights == 0) | (np.abs(weights) == sizes[:, None])).all())
        and bool((ends == 0).any(axis=0).all())
    ):
        return _crossed(weights != 0, sizes.astype(np.float64))
    if number**2 * len(blocks) > _MOST_WORK:
        return None
    if 4 * sum(one * one for one in worth) >= _EXACT_INTEGER:
        weights = weights.astype(np.object_)
    return _walked(weights, groups)


def _signatures(blocks: Sequence[Block], codes: Representatives) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the weight and the group of each cell, one row a block; a weight of 0 is in no group."""
    boxes, others = boxes_of(blocks)
    axes, shape = spread(codes), [len(own) for own in codes.values()]
    weights = np.zeros((len(blocks), size(codes)), dtype=np.int64)
    groups = np.zeros_like(weights)
    for found in boxes:
        numbers = np.array(found.numbers, dtype=np.int64)
        weights[found.places] = found.members(codes).astype(np.int64) * numbers[:, None]
    for place in others:
        weights[place] = np.broadcast_to(block_weights(blocks[place], axes), shape).reshape(-1)
        groups[place] = np.broadcast_to(group_of(blocks[place].keys, axes), shape).reshape(-1)
    groups[weights == 0] = -1
    return weights, groups


def _crossed(members: NDArray[np.bool_], sizes: NDArray[np.float64]) -> Movement:
    """Return the movement of blocks of one number each: the norms of all differences at once, by one product."""
    held = members.astype(np.float64)
    found = []
    for worth in (sizes, sizes * sizes):
        shared = (held * worth[:, None]).T @ held
        own = shared.diagonal()
        found.append((own[:, None] + own[None, :] - 2 * shared).max())
    moved = sizes[members.any(axis=1) & ~members.all(axis=1)]
    return Movement.of(found[0], found[1], moved.max(initial=0))


def _walked(weights: NDArray[np.int64], groups: NDArray[np.int64]) -> Movement:
    """Return the movement by walking through all pairs of signatures."""
    l1 = squares = linf = 0
    for place in range(weights.shape[1]):
        here, there = weights[:, place, None], weights[:, place:]
        same = groups[:, place, None] == groups[:, place:]
        first, second = np.abs(here), np.abs(there)
        step = np.abs(here - there)
        l1 = max(l1, int(np.where(same, step, first + second).sum(axis=0).max()))
        squares = max(squares, int(np.where(same, step * step, first * first + second * second).sum(axis=0).max()))
        linf = max(linf, int(np.where(same, step, np.maximum(first, second)).max()))
    return Movement(l1, squares, linf)


def _largest(weight: Weight) -> int:
    low, high = extremes(weight)
    return max(abs(low), abs(high))
