"""A movement: how far the answers of a stack go when one row is added, removed or replaced."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dodona.domain.domain import Domain
from dodona.query.atoms import atoms, corners, size, spread, traits
from dodona.query.query import Block, block_weights, group_of
from dodona.query.stack import Codes, Stack

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

    def within(self, other: Movement) -> Movement:
        """Return the smaller norms of two that both are bounds."""
        return Movement(min(self.l1, other.l1), min(self.squares, other.squares), min(self.linf, other.linf))


def side_by_side(movements: Iterable[Movement]) -> Movement:
    """Return a bound for blocks that are asked together, of which each part moves at most so far."""
    l1 = squares = linf = 0
    for one in movements:
        l1, squares, linf = l1 + one.l1, squares + one.squares, max(linf, one.linf)
    return Movement(l1, squares, linf)


def added(domain: Domain, stack: Stack, *, limit: int) -> Movement:
    """Return how far one more row moves the answers: exact where the product of corners is within the limit."""
    codes = corners(domain, traits(stack))
    if size(codes) <= limit:
        return _summed(stack, codes)
    if len(stack) > 1:
        return side_by_side(added(domain, part, limit=limit) for part in stack.parts())
    largest = max(max(-low, high) for low, high in stack.spans())
    return Movement(largest, largest**2, largest)


def replaced(domain: Domain, stack: Stack, *, limit: int) -> Movement:
    """Return how far a row that becomes another one moves the answers: exact within the limits, else a bound."""
    seen = traits(stack)
    alone = len(stack) == 1 and len(stack.rest) == 1
    straight = all(value.power == 1 for trait in seen.values() for value in trait.values)
    most = limit if alone else min(limit, _MOST_ENTRIES // len(stack))
    codes = corners(domain, seen) if alone or straight else atoms(domain, seen, limit=most)
    if codes is not None and size(codes) <= most:
        exact = _alone(stack.rest[0], codes) if alone else _together(stack, codes)
        if exact is not None:
            return exact
    if len(stack) > 1:
        return side_by_side(replaced(domain, part, limit=limit) for part in stack.parts())
    return _loosely(stack)


def _together(stack: Stack, codes: Codes) -> Movement | None:
    """Return the exact movement of several blocks, or None where too many cells differ."""
    return _compared(stack, codes) if stack.rest else _crossed(stack, codes)


def _loosely(stack: Stack) -> Movement:
    """Return a bound for one block from its weight alone."""
    ((low, high),) = stack.spans()
    low, high = min(low, 0), max(high, 0)
    largest, width = max(-low, high), high - low
    if not any(block.keys for block in stack.rest):
        return Movement(width, width**2, width)
    return Movement(2 * largest, max(width**2, 2 * largest**2), width)


def _summed(stack: Stack, codes: Codes) -> Movement:
    """Return the largest norms over all cells of a product."""
    largest = sum(max(-low, high) ** 2 for low, high in stack.spans())
    kind = np.int64 if largest < _EXACT_INTEGER else np.object_
    l1: NDArray[Any] = np.zeros([len(own) for own in codes.values()], dtype=kind)
    squares, linf = l1.copy(), 0
    for boxes in stack.boxes:
        sizes = [0 if 0 in masks else abs(number) for masks, number in zip(boxes.masks, boxes.numbers, strict=True)]
        once = boxes.total(codes, sizes)
        l1 += once
        squares += once if max(sizes) <= 1 else boxes.total(codes, [one * one for one in sizes])
        linf = max(linf, *sizes)
    axes = spread(codes)
    for block in stack.rest:
        weights: NDArray[Any] = np.abs(block_weights(block, axes)).astype(kind)
        l1 += weights
        squares += weights * weights
        linf = max(linf, int(weights.max()))
    return Movement(int(l1.max()), int(squares.max()), linf)


def _alone(block: Block, codes: Codes) -> Movement:
    """Return the exact movement of one block: within a group from one end to the other, or from group to group."""
    axes, shape = spread(codes), [len(own) for own in codes.values()]
    weights = np.broadcast_to(block_weights(block, axes), shape).reshape(-1)
    groups = np.broadcast_to(group_of(block.keys, axes), shape).reshape(-1)
    present, groups = np.unique(groups, return_inverse=True)
    low = np.full(len(present), np.iinfo(np.int64).max)
    high = np.full(len(present), np.iinfo(np.int64).min)
    np.minimum.at(low, groups, weights)
    np.maximum.at(high, groups, weights)
    inside = int((high - low).max())
    first, second = (*sorted(map(int, np.maximum(-low, high)), reverse=True), 0)[:2]
    if len(present) == 1:
        return Movement(inside, inside**2, inside)
    return Movement(max(inside, first + second), max(inside**2, first**2 + second**2), max(inside, first))


def _crossed(stack: Stack, codes: Codes) -> Movement | None:
    """Return the exact movement of boxes: the norms of all differences at once, by one product of matrices."""
    numbers = [abs(number) for boxes in stack.boxes for number in boxes.numbers]
    held = np.concatenate([boxes.members(codes) for boxes in stack.boxes])
    if held.shape[1] > _FEW_SIGNATURES:
        held = np.unique(held, axis=1)
    if held.shape[1] > _MOST_SIGNATURES or 4 * sum(number**2 for number in numbers) >= _EXACT_FLOAT:
        return None
    sizes = np.array(numbers, dtype=np.float64)
    found = []
    for worth in (sizes, sizes * sizes)[: 1 + (max(numbers) > 1)]:
        shared = (held * worth[:, None]).T @ held
        own = shared.diagonal()
        found.append(int((own[:, None] + own[None, :] - 2 * shared).max()))
    shares = held.mean(axis=1)
    moved = sizes[(shares > 0) & (shares < 1)]
    return Movement(found[0], found[-1], int(moved.max(initial=0)))


def _compared(stack: Stack, codes: Codes) -> Movement | None:
    """Return the exact movement over all pairs of cells, or None where these are too many."""
    weights, groups = _signatures(stack, codes)
    if weights.shape[1] > _FEW_SIGNATURES:
        _, firsts = np.unique(np.concatenate([weights, groups]), axis=1, return_index=True)
        weights, groups = weights[:, firsts], groups[:, firsts]
    number = weights.shape[1]
    if number > _MOST_SIGNATURES or number**2 * len(stack) > _MOST_WORK:
        return None
    if 4 * sum(max(-low, high) ** 2 for low, high in stack.spans()) >= _EXACT_INTEGER:
        return _walked(weights.astype(np.object_), groups)
    return _walked(weights, groups)


def _signatures(stack: Stack, codes: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the weight and the group of each cell, one row a block; a weight of 0 is in no group."""
    axes, shape = spread(codes), [len(own) for own in codes.values()]
    weights = [
        boxes.members(codes).astype(np.int64) * np.array(boxes.numbers, dtype=np.int64)[:, None]
        for boxes in stack.boxes
    ]
    groups = [np.zeros_like(one) for one in weights]
    for block in stack.rest:
        weights.append(np.broadcast_to(block_weights(block, axes), shape).reshape(1, -1))
        groups.append(np.broadcast_to(group_of(block.keys, axes), shape).reshape(1, -1))
    all_weights = np.concatenate(weights)
    return all_weights, np.where(all_weights == 0, np.int64(-1), np.concatenate(groups))


def _walked(weights: NDArray[Any], groups: NDArray[np.int64]) -> Movement:
    """Return the movement by walking through all pairs of signatures."""
    l1 = squares = linf = 0
    for place in range(weights.shape[1]):
        here, there = weights[:, place, None], weights[:, place:]
        same = groups[:, place, None] == groups[:, place:]
        first, second, step = np.abs(here), np.abs(there), np.abs(here - there)
        l1 = max(l1, int(np.where(same, step, first + second).sum(axis=0).max()))
        squares = max(squares, int(np.where(same, step * step, first * first + second * second).sum(axis=0).max()))
        linf = max(linf, int(np.where(same, step, np.maximum(first, second)).max()))
    return Movement(l1, squares, linf)
