"""A stack: blocks that are asked together, sorted so that the many simple ones are looked at together too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dodona.query.bits import bits
from dodona.query.predicate import Among, And
from dodona.query.query import Block
from dodona.query.weight import Constant, extremes

if TYPE_CHECKING:
    from numpy.typing import NDArray

Codes = Mapping[str, "NDArray[np.int64]"]
"""Codes by attribute, in the order of the names."""
_EXACT_FLOAT = 1 << 53
_WORD = 62
_LARGEST_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Boxes:
    """Blocks of one number each over a conjunction of sets, of the same attributes, without keys."""

    names: tuple[str, ...]
    """Rising."""
    cells: tuple[int, ...]
    masks: list[tuple[int, ...]] = field(default_factory=list)
    """One set an attribute, for each box."""
    numbers: list[int] = field(default_factory=list)

    def factors(self, codes: Codes) -> list[NDArray[np.float64]]:
        """Return for each attribute which box has which of the codes, as 0 and 1."""
        if max(self.cells, default=0) <= _WORD:
            table = np.array(self.masks, dtype=np.int64).reshape(len(self.masks), len(self.names))
            columns = (table[:, place, None] >> codes[name] & 1 for place, name in enumerate(self.names))
            return [column.astype(np.float64) for column in columns]
        found = []
        for name, cells, masks in zip(self.names, self.cells, zip(*self.masks, strict=True), strict=True):
            rows: dict[int, int] = {}
            places = [rows.setdefault(mask, len(rows)) for mask in masks]
            found.append(np.array([bits(mask, cells)[codes[name]] for mask in rows], dtype=np.float64)[places])
        return found

    def members(self, codes: Codes) -> NDArray[np.float64]:
        """Return which box has which cell of the product of all codes, as 0 and 1, one row a box."""
        found = np.ones((len(self.masks), *[1] * len(codes)))
        for name, factor in zip(self.names, self.factors(codes), strict=True):
            found = found * factor.reshape([len(self.masks), *(-1 if other == name else 1 for other in codes)])
        shape = (len(self.masks), *(len(own) for own in codes.values()))
        return np.broadcast_to(found, shape).reshape(len(self.masks), -1)

    def total(self, codes: Codes, worth: Sequence[int]) -> NDArray[Any]:
        """Return for each cell what its boxes are worth together, in a shape that broadcasts to the product."""
        shape = [len(own) if name in self.names else 1 for name, own in codes.items()]
        if sum(worth) >= _EXACT_FLOAT:  # floats are exact up to here, and their matrices much faster
            exact = self.members({name: codes[name] for name in self.names}).astype(np.int64).astype(np.object_)
            found: NDArray[Any] = np.array(worth, dtype=np.object_) @ exact
            return found.reshape(shape)
        *outer, last = self.factors(codes) or [np.ones((len(self.masks), 1))]
        sizes = np.array(worth, dtype=np.float64)
        width = int(np.prod([factor.shape[1] for factor in outer]))
        step = max(1, _LARGEST_CHUNK // width)
        summed = np.zeros((width, last.shape[1]))
        for start in range(0, len(sizes), step):
            part = slice(start, start + step)
            product = sizes[part, None]
            for factor in outer:
                product = (product[:, :, None] * factor[part, None, :]).reshape(len(product), -1)
            summed += product.T @ last[part]
        return summed.astype(np.int64).reshape(shape)


@dataclass(frozen=True, slots=True)
class Stack:
    """Boxes by their attributes, and all other blocks. The order of the blocks is lost: no norm depends on it."""

    boxes: tuple[Boxes, ...]
    rest: tuple[Block, ...]

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> Self:
        """Return the stack of blocks."""
        found: dict[tuple[str, ...], Boxes] = {}
        rest = []
        for block in blocks:
            where, weight = block.where, block.weight
            parts = where.parts if type(where) is And else (where,)
            sets = [part for part in parts if type(part) is Among]
            if len(sets) == len(parts) and type(weight) is Constant and not block.keys:
                names = tuple([part.attribute for part in sets])
                boxes = found.get(names)
                if boxes is None and all(before < after for before, after in pairwise(names)):
                    boxes = found[names] = Boxes(names, tuple([part.cells for part in sets]))
                if boxes is not None:
                    boxes.masks.append(tuple([part.codes for part in sets]))
                    boxes.numbers.append(weight.number)
                    continue
            rest.append(block)
        return cls(tuple(found.values()), tuple(rest))

    def __len__(self) -> int:
        return len(self.rest) + sum(len(boxes.masks) for boxes in self.boxes)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield for each block numbers that no row's weight is below or above."""
        for boxes in self.boxes:
            for number in boxes.numbers:
                yield number, number
        for block in self.rest:
            yield extremes(block.weight)

    def parts(self) -> list[Stack]:
        """Return a stack for each set of attributes that blocks use; where there is one set only, for each block."""
        found: dict[frozenset[str], tuple[list[Boxes], list[Block]]] = {}
        for boxes in self.boxes:
            found.setdefault(frozenset(boxes.names), ([], []))[0].append(boxes)
        for block in self.rest:
            found.setdefault(block.attributes, ([], []))[1].append(block)
        if len(found) > 1:
            return [Stack(tuple(boxes), tuple(rest)) for boxes, rest in found.values()]
        alone = [
            Stack((Boxes(boxes.names, boxes.cells, [masks], [number]),), ())
            for boxes in self.boxes
            for masks, number in zip(boxes.masks, boxes.numbers, strict=True)
        ]
        return alone + [Stack((), (block,)) for block in self.rest]
